"""The names of `trainkit.tf.config`, which Python gives in place of this file."""

from trainkit.tf.config import *
