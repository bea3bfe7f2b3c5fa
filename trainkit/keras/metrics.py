"""The names of `trainkit.metrics`, which Python gives in place of this file."""

from trainkit.metrics import *
