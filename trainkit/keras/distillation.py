"""The names of `trainkit.distillation`, which Python gives in place of this file."""

from trainkit.distillation import *
