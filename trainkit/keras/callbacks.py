"""The names of `trainkit.callbacks`, which Python gives in place of this file."""

from trainkit.callbacks import *
