"""Freed memory is kept for the next array.

The C library gives the pages of a large array back to the system as soon as it is freed, and gets
new ones, which have to be cleared, for the next array. A training step frees and makes the same
arrays over and over: the gradient of a kernel of 784 x 128 took 160 microseconds with fresh pages,
30 with kept ones.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import lru_cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # their numbers in malloc.h
LARGEST_BYTES = 1 << 28
"""Arrays up to this size are made in kept memory."""
KEPT_BYTES = 1 << 29
"""As much free memory is kept at the end of the heap."""


@lru_cache(maxsize=1)
def keep_freed_memory() -> bool:
    """Ask the C library to keep freed memory; True where it does (glibc on Linux).

    Environment variables by which the user tunes it himself (`MALLOC_TRIM_THRESHOLD_`,
    `MALLOC_MMAP_THRESHOLD_`) stay in force, and `TRAINKIT_KEEP_MEMORY=0` leaves everything alone.
    """
    own = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
    if not sys.platform.startswith("linux") or any(name in os.environ for name in own):
        return False
    if os.environ.get("TRAINKIT_KEEP_MEMORY") == "0":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return False
    return bool(mallopt(_MMAP_THRESHOLD, LARGEST_BYTES) and mallopt(_TRIM_THRESHOLD, KEPT_BYTES))
