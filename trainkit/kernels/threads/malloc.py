"""Freed memory is kept for the next array.

The C library gives the pages of a large array back to the system as soon as it is freed, and gets
new ones, which have to be cleared, for the next array. A training step frees and makes the same
arrays over and over: the gradient of a kernel of 784 x 128 took 160 microseconds with fresh pages,
30 with kept ones.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache

from trainkit.core.cpu.cost_model import KEPT_BYTES, UNCACHED_BYTES

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # their numbers in malloc.h
LASTING_BYTES = UNCACHED_BYTES
"""Arrays from this size on lie apart from the kept memory where `lasting_memory` makes them."""


@lru_cache(maxsize=1)
def _mallopt() -> Callable[[int, int], int] | None:
    """The C library's function for its settings; `None` where memory is not to be kept."""
    own = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
    if not sys.platform.startswith("linux") or any(name in os.environ for name in own):
        return None
    if os.environ.get("TRAINKIT_KEEP_MEMORY") == "0":
        return None
    try:
        mallopt: Callable[[int, int], int] = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return None
    return mallopt


@lru_cache(maxsize=1)
def keep_freed_memory() -> bool:
    """Ask the C library to keep freed memory; True where it does (glibc on Linux).

    Environment variables by which the user tunes it himself (`MALLOC_TRIM_THRESHOLD_`,
    `MALLOC_MMAP_THRESHOLD_`) stay in force, and `TRAINKIT_KEEP_MEMORY=0` leaves everything alone.
    """
    mallopt = _mallopt()
    return mallopt is not None and bool(
        mallopt(_MMAP_THRESHOLD, KEPT_BYTES) and mallopt(_TRIM_THRESHOLD, 2 * KEPT_BYTES)
    )


def release_freed_memory() -> None:
    """Give the system all memory that is kept free, as after the last use of a large model."""
    if _mallopt() is not None:
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
        if trim is not None:
            trim(0)


@contextlib.contextmanager
def lasting_memory() -> Iterator[None]:
    """Large arrays that are made inside, and outlive the step, get pages of their own.

    An optimizer makes its slots between the gradients of the first step and those of the second.
    At the end of the kept memory they would lie behind the first gradients, so that what these
    leave is a gap. The first small object that is put there makes it too small for the same
    gradient once more: the second step gets new pages, and the gap is lost.
    """
    mallopt = _mallopt() if keep_freed_memory() else None
    if mallopt is None:
        yield
        return
    mallopt(_MMAP_THRESHOLD, LASTING_BYTES)
    try:
        yield
    finally:
        mallopt(_MMAP_THRESHOLD, KEPT_BYTES)
