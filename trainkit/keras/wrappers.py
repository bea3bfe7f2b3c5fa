"""The names of `trainkit.wrappers`, which Python gives in place of this file."""

from trainkit.wrappers import *
