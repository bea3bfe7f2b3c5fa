"""The default step of summaries, under the names that TensorFlow gives it."""

from trainkit.summary.writer import get_step as get_step
from trainkit.summary.writer import set_step as set_step
