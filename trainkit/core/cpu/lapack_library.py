"""Where the LAPACK lies that NumPy's own linear algebra calls."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

FUNCTIONS = ("getrf", "getri", "potrf", "geqrf", "orgqr", "trsm", "trsv")
"""What is looked for, behind an `s` or a `d` for the type of floats."""

_LONG, _SHORT = ("scipy_{}_64_", "{}_64_"), ("scipy_{}_", "{}_")
"""What libraries with integers of 64 bits, and with those of 32, call their functions."""


def lapack_addresses() -> tuple[dict[str, int], int] | None:
    """Addresses of `FUNCTIONS` for both types of floats, and the bytes of an integer there.

    NumPy's module is asked, which finds what the libraries have that were loaded with it. `None`
    where one is missing, and on processors on which a longer integer can't be read as a shorter.
    """
    if sys.byteorder != "little":
        return None
    try:
        import ctypes

        umath: Any = np.linalg._umath_linalg
        library = ctypes.PyDLL(umath.__file__)
        is_long = bool(getattr(umath, "_ilp64", False))
    except (AttributeError, ImportError, OSError):
        return None
    for pattern in _LONG if is_long else _SHORT:
        addresses = {}
        for name in (letter + function for letter in "sd" for function in FUNCTIONS):
            function: Any = getattr(library, pattern.format(name), None)
            if function is None:
                break
            addresses[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
        else:
            return addresses, 8 if is_long else 4
    return None
