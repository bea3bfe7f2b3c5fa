"""The names of `trainkit.regularizers`, which Python gives in place of this file."""

from trainkit.regularizers import *
