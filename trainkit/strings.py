"""The names of `trainkit.tf.strings`, which Python gives in place of this file."""

from trainkit.tf.strings import *
