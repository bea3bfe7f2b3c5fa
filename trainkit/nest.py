"""The names of `trainkit.tf.nest`, which Python gives in place of this file."""

from trainkit.tf.nest import *
