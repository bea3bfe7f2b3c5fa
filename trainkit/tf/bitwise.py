"""`tk.bitwise`: operations on the bits of integers."""

from trainkit.core.values.docstrings import describe_arguments as _describe_arguments
from trainkit.ops import bitwise_and as bitwise_and
from trainkit.ops import bitwise_left_shift as left_shift
from trainkit.ops import bitwise_not as invert
from trainkit.ops import bitwise_or as bitwise_or
from trainkit.ops import bitwise_right_shift as right_shift
from trainkit.ops import bitwise_xor as bitwise_xor

_describe_arguments(globals(), "name: not kept.", package="trainkit")
