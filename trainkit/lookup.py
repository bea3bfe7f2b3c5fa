"""The names of `trainkit.data.lookup`, which Python gives in place of this file."""

from trainkit.data.lookup import *
