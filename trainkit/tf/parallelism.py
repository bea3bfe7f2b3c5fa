"""`tk.config.threading`: how many threads one operation uses."""

from __future__ import annotations

import os
import sys
from typing import Any

from trainkit.core.errors import UnimplementedError
from trainkit.kernels import threads

_chosen = 0


def get_intra_op_parallelism_threads() -> int:
    """How many threads one operation may use; 0, the default, stands for one per core."""
    return _chosen


def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """Set how many threads one operation may use: those of BLAS and of the compiled kernels.

    Args:
        num_threads: 1 or more; 0 for one per core.

    Raises:
        ValueError: it is negative.
        UnimplementedError: this NumPy brings a BLAS whose threads can't be set.
    """
    global _chosen
    if num_threads < 0:
        raise ValueError(
            f"set_intra_op_parallelism_threads: the number must be 0 or more, got {num_threads}"
        )
    count = int(num_threads) or threads.core_count()
    if not threads.set_blas_threads(count):
        raise UnimplementedError(
            "set_intra_op_parallelism_threads: NumPy's BLAS library is not OpenBLAS; set its own "
            "environment variable (MKL_NUM_THREADS, OMP_NUM_THREADS) before Python starts"
        )
    if "numba" in sys.modules:
        import numba

        settings: Any = numba.config
        numba.set_num_threads(min(count, settings.NUMBA_NUM_THREADS))
    else:  # read when Numba is imported
        os.environ["NUMBA_NUM_THREADS"] = str(count)
    _chosen = int(num_threads)


def get_inter_op_parallelism_threads() -> int:
    """How many operations run at a time: always 1."""
    return 1


def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """Set how many operations run at a time.

    Args:
        num_threads: 0 or 1: operations run one after the other.

    Raises:
        ValueError: another number.
    """
    if num_threads not in (0, 1):
        raise ValueError(
            "set_inter_op_parallelism_threads: operations run one after the other, only 0 and 1 "
            f"are supported, got {num_threads}; one operation uses many threads by itself"
        )
