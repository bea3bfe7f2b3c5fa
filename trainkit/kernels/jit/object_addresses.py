"""Arrays found by the addresses of their Python objects, so that a kernel takes any number of them.

Only functions compiled by Numba call what is here.
"""

from __future__ import annotations

from typing import Any

import numba
from numba.core import types
from numba.extending import intrinsic


@intrinsic
def _pointer(typingctx: Any, address: Any, like: Any) -> Any:
    """`address` as a pointer to numbers of the type of `like`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(like)(address, like), generate


@numba.njit(inline="always")
def numbers_at(item, offset, skipped, count, like):
    """Numbers of an array that lie side by side.

    Args:
        item: address of the object of a flat NumPy array.
        offset: where in such an object the address of its numbers stands.
        skipped: bytes before the first.
        count: how many.
        like: a number of their type.
    """
    data = numba.carray(_pointer(item + offset, numba.int64(0)), 1)[0]
    return numba.carray(_pointer(data + skipped, like), count)
