"""Where NumPy keeps the address of an array's numbers."""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache
from typing import Any

import numpy as np

_FIRST_BYTES = 64
"""The address stands right behind the head that all objects have, of 16 bytes in usual builds."""


@lru_cache(maxsize=1)
def data_offset() -> int | None:
    """The place of the address of its numbers in an array's object, `None` where it isn't found.

    It is looked for, which also shows an interpreter whose objects are laid out otherwise.
    """
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    # Another field may hold the same number by chance in one array, but not in three.
    offsets = [_places(np.empty(n)) for n in (3, 5, 7)]
    return offsets[0][0] if offsets[0] and offsets[0] == offsets[1] == offsets[2] else None


def _places(array: Any) -> list[int]:
    """Offsets in the object of `array` at which the address of its numbers stands."""
    size = min(sys.getsizeof(array) - array.nbytes, _FIRST_BYTES)
    words = ctypes.string_at(id(array), size)
    address = array.ctypes.data.to_bytes(8, sys.byteorder)
    return [i for i in range(0, size - 7, 8) if words[i : i + 8] == address]
