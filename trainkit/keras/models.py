"""The names of `trainkit.models`, which Python gives in place of this file."""

from trainkit.models import *
