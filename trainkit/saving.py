"""The names of `trainkit.keras.saving`, which Python gives in place of this file."""

from trainkit.keras.saving import *
