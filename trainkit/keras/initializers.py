"""The names of `trainkit.initializers`, which Python gives in place of this file."""

from trainkit.initializers import *
