"""The names of `trainkit.tf.autograph`, which Python gives in place of this file."""

from trainkit.tf.autograph import *
