"""The names of `trainkit.tf.math`, which Python gives in place of this file."""

from trainkit.tf.math import *
