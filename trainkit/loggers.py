"""The names of `trainkit.callbacks.loggers`, which Python gives in place of this file."""

from trainkit.callbacks.loggers import *
