"""The names of `trainkit.activations`, which Python gives in place of this file."""

from trainkit.activations import *
