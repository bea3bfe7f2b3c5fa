"""The names of `trainkit.core.errors`, which Python gives in place of this file."""

from trainkit.core.errors import *
