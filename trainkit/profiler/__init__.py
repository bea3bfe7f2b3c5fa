"""Where the time of a step goes: operations, tape, kernels, optimizer, data and callbacks."""

from trainkit.profiler import experimental as experimental
from trainkit.profiler.profiling import profile as profile
from trainkit.profiler.rows import Row as Row
