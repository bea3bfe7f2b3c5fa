"""The names of `trainkit.distribution`, which Python gives in place of this file."""

from trainkit.distribution import *
