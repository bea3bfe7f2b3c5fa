"""The names of `trainkit.ops`, which Python gives in place of this file."""

from trainkit.ops import *
