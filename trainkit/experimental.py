"""The names of `trainkit.compat.experimental`, which Python gives in place of this file."""

from trainkit.compat.experimental import *
