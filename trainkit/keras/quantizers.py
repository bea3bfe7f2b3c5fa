"""The names of `trainkit.quantizers`, which Python gives in place of this file."""

from trainkit.quantizers import *
