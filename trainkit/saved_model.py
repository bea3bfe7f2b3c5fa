"""The names of `trainkit.saved_graph.saved_model`, which Python gives in place of this file."""

from trainkit.saved_graph.saved_model import *
