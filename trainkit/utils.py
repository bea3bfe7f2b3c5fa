"""The names of `trainkit.keras.utils`, which Python gives in place of this file."""

from trainkit.keras.utils import *
