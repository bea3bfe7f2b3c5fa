"""The names of `trainkit.optimizers`, which Python gives in place of this file."""

from trainkit.optimizers import *
