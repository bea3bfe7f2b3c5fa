"""The names of `trainkit.tf.debugging`, which Python gives in place of this file."""

from trainkit.tf.debugging import *
