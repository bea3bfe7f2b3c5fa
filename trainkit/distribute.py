"""The names of `trainkit.distribution.distribute`, which Python gives in place of this file."""

from trainkit.distribution.distribute import *
