"""The names of `trainkit.tf.dtypes`, which Python gives in place of this file."""

from trainkit.tf.dtypes import *
