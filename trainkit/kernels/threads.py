"""One size for all pools of threads, and threads that wait without burning their core.

BLAS and the compiled kernels each have threads of their own. By default both wait for more work in
a busy loop, for up to 25 ms after each call, and on a machine with few cores the waiting pool
takes the core that the working one needs. Here both are told to go to sleep almost at once.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

_SPINS = "2000"
"""How often a thread of the kernels looks for work before it sleeps: some tens of microseconds."""


def core_count() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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


@lru_cache(maxsize=1)
def calm() -> None:
    """Let the kernels' waiting threads sleep: once, before the first kernel is compiled.

    The user's own setting of `OMP_WAIT_POLICY` stays. BLAS is told in `core.blas`, before NumPy
    loads it: while it runs its threads can't be stopped and started again safely.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)


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
