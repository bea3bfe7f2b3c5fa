"""The names of `trainkit.tf.io`, which Python gives in place of this file."""

from trainkit.tf.io import *
