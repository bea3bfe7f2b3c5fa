"""The names of `trainkit.tf.train`, which Python gives in place of this file."""

from trainkit.tf.train import *
