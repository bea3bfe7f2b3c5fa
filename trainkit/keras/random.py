"""The names of `trainkit.ops.sampling.keras_random`, which Python gives in place of this file."""

from trainkit.ops.sampling.keras_random import *
