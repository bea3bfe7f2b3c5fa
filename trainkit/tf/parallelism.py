"""`tk.config.threading`: how many threads one operation uses, and how many run beside it.

BLAS and the compiled kernels have a pool of threads each. An operation works in one of them at a
time, so both always have the same size. What control groups and the binding to cores allow counts,
not the cores that the machine has.
"""

from __future__ import annotations

import operator
from typing import Any

from trainkit.core.errors import InvalidArgumentError
from trainkit.kernels.threads import pools


def get_intra_op_parallelism_threads() -> int:
    """How many threads one operation may use; 0, the default, stands for one per usable core."""
    return pools.chosen_compute_threads()


def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """Set how many threads one operation may use: those of BLAS and of the compiled kernels.

    It may be called at any time, and counts from the next operation on. The threads of compiled
    kernels can become fewer at any time, but more only until the first kernel is compiled or
    loaded. A thread of Python that exists already, other than the one that calls this, keeps the
    number it had for compiled kernels.

    Args:
        num_threads: 1 or more; 0 for one per usable core.

    Raises:
        TypeError: it is not a whole number.
        InvalidArgumentError: it is negative, or more than OpenBLAS was built for.
        FailedPreconditionError: compiled kernels are there with fewer threads; nothing is changed.
        UnimplementedError: this NumPy brings a BLAS whose threads can't be set.
    """
    pools.set_compute_threads(_whole("set_intra_op_parallelism_threads", num_threads))


def get_inter_op_parallelism_threads() -> int:
    """How many operations may run at a time in input pipelines; 0, the default, for one per core.

    Where it is 0 there are at most 8.
    """
    return pools.chosen_pipeline_threads()


def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """Set how many operations may run at a time.

    A program's own operations run one after the other. Those of input pipelines run beside them:
    this is the number of calls that `Dataset.map(num_parallel_calls=tk.data.AUTOTUNE)` keeps under
    way, for data sets made from now on. `prefetch` has one thread, whatever is set here.

    Args:
        num_threads: 1 or more; 0 for one per usable core, at most 8.

    Raises:
        TypeError: it is not a whole number.
        InvalidArgumentError: it is negative.
    """
    pools.set_pipeline_threads(_whole("set_inter_op_parallelism_threads", num_threads))


def _whole(function: str, num_threads: Any) -> int:
    if isinstance(num_threads, bool) or not hasattr(num_threads, "__index__"):
        raise TypeError(f"{function}: the number must be an int, got {num_threads!r}")
    count = operator.index(num_threads)
    if count < 0:
        raise InvalidArgumentError(f"{function}: the number must be 0 or more, got {count}")
    return count
