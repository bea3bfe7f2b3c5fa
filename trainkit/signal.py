"""The names of `trainkit.tf.signal`, which Python gives in place of this file."""

from trainkit.tf.signal import *
