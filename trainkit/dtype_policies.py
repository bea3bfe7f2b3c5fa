"""The names of `trainkit.keras.dtype_policies`, which Python gives in place of this file."""

from trainkit.keras.dtype_policies import *
