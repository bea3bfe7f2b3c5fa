"""The names of `trainkit.constraints`, which Python gives in place of this file."""

from trainkit.constraints import *
