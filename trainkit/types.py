"""The names of `trainkit.tf.types`, which Python gives in place of this file."""

from trainkit.tf.types import *
