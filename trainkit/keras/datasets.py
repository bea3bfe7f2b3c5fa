"""The names of `trainkit.datasets`, which Python gives in place of this file."""

from trainkit.datasets import *
