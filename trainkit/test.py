"""The names of `trainkit.tf.test`, which Python gives in place of this file."""

from trainkit.tf.test import *
