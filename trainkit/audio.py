"""The names of `trainkit.tf.audio`, which Python gives in place of this file."""

from trainkit.tf.audio import *
