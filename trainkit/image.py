"""The names of `trainkit.tf.image`, which Python gives in place of this file."""

from trainkit.tf.image import *
