"""The names of `trainkit.losses`, which Python gives in place of this file."""

from trainkit.losses import *
