"""The names of `trainkit.layers`, which Python gives in place of this file."""

from trainkit.layers import *
