"""The names of `trainkit.tf.version`, which Python gives in place of this file."""

from trainkit.tf.version import *
