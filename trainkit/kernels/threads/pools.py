"""One size for all pools of threads, and threads that wait without burning their core.

BLAS and the compiled kernels each have threads of their own. By default both wait for more work in
a busy loop, for up to 25 ms after each call, and on a machine with few cores the waiting pool
takes the core that the working one needs. Here both are set to go to sleep almost at once.

An operation uses one pool at a time, so both have the same size: that of BLAS, which its
environment variables and `tk.config.threading` set. Input pipelines have a size of their own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from trainkit.core.cpu.cost_model import SPINS
from trainkit.core.cpu.cpu_count import usable_cores
from trainkit.core.cpu.openblas import blas_library as blas_library
from trainkit.core.cpu.openblas import blas_text as blas_text
from trainkit.core.cpu.openblas import blas_threads as blas_threads
from trainkit.core.cpu.openblas import most_blas_threads as most_blas_threads
from trainkit.core.cpu.openblas import set_blas_threads as set_blas_threads
from trainkit.core.errors import FailedPreconditionError, InvalidArgumentError, UnimplementedError


class _Chosen:
    """What the user has set, 0 for nothing.

    Attributes:
        compute: threads of one operation.
        pipeline: calls of a pipeline's function at a time.
        determined: whether results must not depend on the number of threads.
        pool: how many BLAS had before that was asked for; since then it has one.
        observers: called after each change of what operations may use.
    """

    compute = 0
    pipeline = 0
    pool = 0
    determined = False
    observers: tuple[Callable[[], None], ...] = ()


def core_count() -> int:
    """How many cores this process may use."""
    return usable_cores()


# ------------------------------------------------------------------ the compiled kernels


@lru_cache(maxsize=1)
def configure_threads() -> None:
    """Size the kernels' pool and let its waiting threads sleep: once, before Numba is imported.

    The user's own settings of `OMP_WAIT_POLICY` and `NUMBA_NUM_THREADS` stay. BLAS is set in
    `core.cpu.blas_config` when trainkit is imported: once it is at work its threads can't be
    stopped and started again safely.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))
    os.environ.setdefault("NUMBA_NUM_THREADS", str(compute_threads()))


def _loaded_kernel_threads() -> int:
    """How many threads Numba was loaded with; 0 before it is."""
    numba: Any = sys.modules.get("numba")
    return 0 if numba is None else int(numba.config.NUMBA_NUM_THREADS)


def _size_kernels(count: int) -> None:
    """Let compiled kernels use `count` threads, or say why that can't be.

    Raises:
        FailedPreconditionError: Numba has been imported, and made for fewer.
    """
    limit = _loaded_kernel_threads()
    if not limit:
        os.environ["NUMBA_NUM_THREADS"] = str(count)  # read once, when Numba is imported
        return
    if count > limit:
        raise FailedPreconditionError(
            f"set_intra_op_parallelism_threads: Numba is loaded with {limit} threads for compiled "
            f"kernels and can't have {count} any more; call this before the first kernel is "
            f"compiled, or set NUMBA_NUM_THREADS={count} before Python starts"
        )
    sys.modules["numba"].set_num_threads(count)


def follow() -> None:
    """Let kernels called by this new thread use as many threads as was set; Numba's own is all."""
    limit = _loaded_kernel_threads()
    if _Chosen.compute and limit:
        sys.modules["numba"].set_num_threads(min(_Chosen.compute, limit))


# ------------------------------------------------------------------ the sizes


def compute_threads() -> int:
    """How many threads one operation may use; BLAS may be set to use fewer."""
    return (
        _Chosen.compute or (_Chosen.pool if _Chosen.determined else blas_threads()) or core_count()
    )


MATRIX_SHARES = 8
"""In how many shares sums are made that are weights, or of halves, at most, and those that threads
share where no result may depend on these. They round by it, so it is no machine's."""


def planned_threads() -> int:
    """For how many threads sums are to be split, which decides on the last bits of a result."""
    return MATRIX_SHARES if _Chosen.determined else compute_threads()


def determine(determined: bool = True) -> None:
    """Let results depend on the number of threads no more, or again.

    The compiled kernels then split their work for a fixed number of threads. BLAS, which splits it
    as it likes, gets a single one.

    Raises:
        UnimplementedError: NumPy's BLAS has no such setting.
    """
    if determined == _Chosen.determined:
        return
    if not blas_threads():
        raise UnimplementedError(
            "enable_op_determinism: NumPy's BLAS is not OpenBLAS; give it one thread by its "
            "own environment variable (MKL_NUM_THREADS, OMP_NUM_THREADS) before Python starts"
        )
    if determined:
        _Chosen.pool = blas_threads()
    _Chosen.determined = determined
    set_blas_threads(1 if determined else _Chosen.compute or _Chosen.pool)


def determined() -> bool:
    """Whether results don't depend on the number of threads."""
    return _Chosen.determined


def chosen_compute_threads() -> int:
    """What `set_compute_threads` was given last; 0 if nothing."""
    return _Chosen.compute


def set_compute_threads(count: int) -> None:
    """Let BLAS and the compiled kernels use `count` threads; 0 for one per usable core.

    Raises:
        InvalidArgumentError: OpenBLAS was built for fewer.
        UnimplementedError: NumPy's BLAS is another.
        FailedPreconditionError: the kernels' threads are fewer, and there to stay.
    """
    limit = most_blas_threads()
    if limit and count > limit:
        raise InvalidArgumentError(
            f"set_intra_op_parallelism_threads: NumPy's OpenBLAS was built for at most {limit} "
            f"threads, got {count}"
        )
    threads = count or min(filter(None, (core_count(), limit, _loaded_kernel_threads())))
    if not blas_threads():
        raise UnimplementedError(
            "set_intra_op_parallelism_threads: NumPy's BLAS library is not OpenBLAS; set its own "
            "environment variable (MKL_NUM_THREADS, OMP_NUM_THREADS) before Python starts"
        )
    _size_kernels(threads)
    if _Chosen.determined:
        _Chosen.pool = threads
    else:
        set_blas_threads(threads)
    _Chosen.compute = count
    for tell in _Chosen.observers:
        tell()


def when_resized(tell: Callable[[], None]) -> None:
    """Call `tell` after each change of what `compute_threads` gives."""
    _Chosen.observers += (tell,)


def pipeline_threads() -> int:
    """How many calls of a pipeline's function run at a time where it is given `AUTOTUNE`."""
    return _Chosen.pipeline or min(MATRIX_SHARES, core_count())


def chosen_pipeline_threads() -> int:
    """What `set_pipeline_threads` was given last; 0 if nothing."""
    return _Chosen.pipeline


def set_pipeline_threads(count: int) -> None:
    """Let input pipelines run `count` calls at a time where they are given `AUTOTUNE`.

    0 stands for one per core, and 8 at most.
    """
    _Chosen.pipeline = count
