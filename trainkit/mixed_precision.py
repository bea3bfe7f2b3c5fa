"""The names of `trainkit.keras.mixed_precision`, which Python gives in place of this file."""

from trainkit.keras.mixed_precision import *
