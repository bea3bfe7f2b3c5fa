"""A thread pool for machine code: whoever is free helps, and nobody is waited for to begin.

The threads of BLAS and of compiled kernels keep a core for a while after each call. A pool that
waits until all of its members are there, as OpenMP's do, then waits for the busy core too: 0.1 ms
and more. Here the caller begins at once, parts of the work are taken one by one by whoever comes,
and the caller only waits for parts that others have begun. A call that nobody comes to help costs
a few microseconds more than doing the work alone; so does one in a process that was forked off,
where the helpers are missing.

Helpers are threads of Python that never come back from machine code and don't hold its lock.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from trainkit.core.cpu.cost_model import PART_NANOSECONDS, UNCACHED_FLOATS
from trainkit.kernels.jit.kernel_library import address_of
from trainkit.kernels.jit.object_loader import linker
from trainkit.kernels.threads import pools
from trainkit.kernels.threads.pool_code import FIELDS, PAUSES, SEMAPHORES, library_prefix, pool_text


class ThreadPool:
    """The threads, and the machine code by which they work together."""

    def __init__(self) -> None:
        symbol_address = _shipped_pool() or _compiled_pool()
        self._places = {name: symbol_address(name) for name in FIELDS}
        self._semaphores = [symbol_address(name) for name in SEMAPHORES]
        self._reset()
        self.run_address: int = symbol_address("run")
        serve = ctypes.CFUNCTYPE(None)(symbol_address("serve"))
        for _ in range(pools.compute_threads() - 1):
            threading.Thread(target=serve, daemon=True, name="trainkit-pool").start()
        self.most = pools.compute_threads()
        self.resize()

    def _reset(self) -> None:
        for name in FIELDS:
            self._field(name).value = 0
        for semaphore in self._semaphores:
            if ctypes.CDLL(None).sem_init(ctypes.c_void_p(semaphore), 0, 0) != 0:
                raise OSError("no semaphores")

    def _field(self, name: str) -> Any:
        return ctypes.c_int64.from_address(self._places[name])

    @property
    def size(self) -> int:
        """How many threads may work at a time, that of the caller included."""
        return int(self._field("size").value)

    def resize(self) -> None:
        """Use as many threads as `tk.config.threading` says, of those that were made."""
        self._field("size").value = min(self.most, pools.compute_threads())

    def be_alone(self) -> None:
        """Do without helpers from now on, as in a process that was forked off."""
        self.most = 1
        self._reset()
        self.resize()


def _shipped_pool() -> Callable[[str], int] | None:
    """Addresses in the library that came with the package, by name without what it begins with."""
    prefix = library_prefix(pool_text())
    if address_of(f"{prefix}run") is None:
        return None
    return lambda name: address_of(prefix + name) or 0


def _compiled_pool() -> Callable[[str], int]:
    """The same of code that is compiled now."""
    loaded = linker().module(pool_text())
    return lambda name: loaded(f"pool_{name}")


@lru_cache(maxsize=1)
def thread_pool() -> ThreadPool | None:
    """The one of this process, made when it is first asked for; `None` where there can be none."""
    if not sys.platform.startswith("linux") or platform.machine() not in PAUSES:
        return None
    if pools.compute_threads() < 2:
        return None
    try:
        pool = ThreadPool()
    except (ImportError, OSError, AttributeError):
        return None
    pools.when_resized(pool.resize)
    os.register_at_fork(after_in_child=pool.be_alone)
    return pool


PARTS_EACH = 4
"""Parts for each thread where the threads are counted: who is held up leaves the rest to others."""
FEWEST_COPIED = UNCACHED_FLOATS
"""Numbers from which on a pass over arrays is shared out whose results must not depend on it:
fewer lie in the cache of one core."""
VECTOR_SHARES = 2 * pools.MATRIX_SHARES
"""In how many shares sums of vectors over rows, lines or images are made, at most, and added up at
the end. They round by it, so it is no machine's."""
MOST_PARTS = PARTS_EACH * VECTOR_SHARES


def shared(nanoseconds: float) -> tuple[int, int]:
    """What a kernel that takes so long on one core is to be called with first: `pool`, `parts`.

    The number of parts depends on the work alone, so that any machine divides it in the same way.
    """
    parts = int(nanoseconds / PART_NANOSECONDS)
    if parts < 2:
        return 0, 1
    pool = thread_pool()
    return (pool.run_address if pool else 0), min(parts, MOST_PARTS)
