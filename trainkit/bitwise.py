"""The names of `trainkit.tf.bitwise`, which Python gives in place of this file."""

from trainkit.tf.bitwise import *
