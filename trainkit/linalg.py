"""The names of `trainkit.tf.linalg`, which Python gives in place of this file."""

from trainkit.tf.linalg import *
