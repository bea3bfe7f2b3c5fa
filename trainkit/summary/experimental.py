"""The default step of summaries, under the names that TensorFlow gives it."""

from trainkit.summary.defaults import get_step as get_step
from trainkit.summary.defaults import set_step as set_step
