"""The names of `trainkit.weights.hub`, which Python gives in place of this file."""

from trainkit.weights.hub import *
