"""One size for all pools of threads, and threads that wait without burning their core.

BLAS and the compiled kernels each have threads of their own. By default both wait for more work in
a busy loop, for up to 25 ms after each call, and on a machine with few cores the waiting pool
takes the core that the working one needs. Here both are told to go to sleep almost at once.

An operation uses one pool at a time, so both have the same size: that of BLAS, which its
environment variables and `tk.config.threading` set. Input pipelines have a size of their own.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import Any

from trainkit.core.cores import usable_cores
from trainkit.core.errors import FailedPreconditionError, InvalidArgumentError, UnimplementedError

_SPINS = "2000"
"""How often a thread of the kernels looks for work before it sleeps: some tens of microseconds."""

_MOST_CALLS = 8
"""Calls of a pipeline's function that run at a time where the user leaves it open."""


class _Chosen:
    """What the user has set, 0 for nothing."""

    compute = 0
    pipeline = 0


def core_count() -> int:
    """How many cores this process may use."""
    return usable_cores()


# ------------------------------------------------------------------ BLAS


@lru_cache(maxsize=1)
def blas_library() -> Any:
    """The OpenBLAS that NumPy has loaded, or `None` where there is another BLAS."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split()[-1] for line in maps if "openblas" in line and "numpy" in line}
        import ctypes

        return ctypes.CDLL(paths.pop()) if paths else None
    except OSError:
        return None


def _function(*names: str) -> Any:
    library = blas_library()
    return next((getattr(library, name) for name in names if hasattr(library, name)), None)


def set_blas_threads(count: int) -> bool:
    """Let BLAS use `count` threads; False where its library is not known."""
    setter = _function("scipy_openblas_set_num_threads64_", "openblas_set_num_threads")
    if setter is None:
        return False
    import ctypes

    setter(ctypes.c_int(count))
    return True


def blas_threads() -> int:
    """How many threads BLAS uses; 0 where its library is not known."""
    getter = _function("scipy_openblas_get_num_threads64_", "openblas_get_num_threads")
    return int(getter()) if getter is not None else 0


def blas_text(what: str) -> str:
    """What OpenBLAS says of itself: `"config"` or `"corename"`; empty where it is not known."""
    import ctypes

    getter = _function(f"scipy_openblas_get_{what}64_", f"openblas_get_{what}")
    if getter is None:
        return ""
    getter.restype = ctypes.c_char_p
    return (getter() or b"").decode()


def most_blas_threads() -> int:
    """How many threads OpenBLAS was built for; 0 where it does not say."""
    words = blas_text("config").split("MAX_THREADS=")
    digits = words[1].split()[0] if len(words) == 2 else ""
    return int(digits) if digits.isdecimal() else 0


# ------------------------------------------------------------------ the compiled kernels


@lru_cache(maxsize=1)
def calm() -> None:
    """Size the kernels' pool and let its waiting threads sleep: once, before Numba is imported.

    The user's own settings of `OMP_WAIT_POLICY` and `NUMBA_NUM_THREADS` stay. BLAS is told in
    `core.blas`, before NumPy loads it: while it runs its threads can't be stopped and started
    again safely.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)
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
    most = _loaded_kernel_threads()
    if not most:
        os.environ["NUMBA_NUM_THREADS"] = str(count)  # read once, when Numba is imported
        return
    if count > most:
        raise FailedPreconditionError(
            f"set_intra_op_parallelism_threads: Numba is loaded with {most} threads for compiled "
            f"kernels and can't have {count} any more; call this before the first kernel is "
            f"compiled, or set NUMBA_NUM_THREADS={count} before Python starts"
        )
    sys.modules["numba"].set_num_threads(count)


def follow() -> None:
    """Let kernels called by this new thread use as many threads as was set; Numba's own is all."""
    most = _loaded_kernel_threads()
    if _Chosen.compute and most:
        sys.modules["numba"].set_num_threads(min(_Chosen.compute, most))


# ------------------------------------------------------------------ the sizes


def compute_threads() -> int:
    """How many threads one operation may use."""
    return _Chosen.compute or blas_threads() or core_count()


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
    most = most_blas_threads()
    if most and count > most:
        raise InvalidArgumentError(
            f"set_intra_op_parallelism_threads: NumPy's OpenBLAS was built for at most {most} "
            f"threads, got {count}"
        )
    threads = count or min(filter(None, (core_count(), most, _loaded_kernel_threads())))
    if not blas_threads():
        raise UnimplementedError(
            "set_intra_op_parallelism_threads: NumPy's BLAS library is not OpenBLAS; set its own "
            "environment variable (MKL_NUM_THREADS, OMP_NUM_THREADS) before Python starts"
        )
    _size_kernels(threads)
    set_blas_threads(threads)
    _Chosen.compute = count


def pipeline_threads() -> int:
    """How many calls of a pipeline's function run at a time where it is told `AUTOTUNE`."""
    return _Chosen.pipeline or min(_MOST_CALLS, core_count())


def chosen_pipeline_threads() -> int:
    """What `set_pipeline_threads` was given last; 0 if nothing."""
    return _Chosen.pipeline


def set_pipeline_threads(count: int) -> None:
    """Let input pipelines run `count` calls at a time where they are told `AUTOTUNE`.

    0 stands for one per core, and 8 at most.
    """
    _Chosen.pipeline = count
