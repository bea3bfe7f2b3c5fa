"""The names of `trainkit.tf.nn`, which Python gives in place of this file."""

from trainkit.tf.nn import *
