"""The names of `trainkit.visualization`, which Python gives in place of this file."""

from trainkit.visualization import *
