"""Kernels as functions that compiled loops of graphs call: without Python, in the caller's thread.

A kernel of `by_parts` hands a function to the thread pool, which takes the address of the kernel's
arguments, the number of a part and how many there are. With a pool of our own we see that function.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

from trainkit.core.process import forks
from trainkit.kernels.jit.numpy_inner_loops import forever


class PartFunction(NamedTuple):
    """What a kernel does, as a function in C: (arguments, part, parts).

    The arguments are words of 8 bytes, see `array_words`, those of a number one.

    Attributes:
        name: of the kernel, by which code that is kept on disk refers to it.
        address: where it is in this process.
    """

    name: str
    address: int


_KIND = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
_SEEN: list[int | None] = []
_SEEING = forks.make_lock()


@_KIND
def _see(function: Any, arguments: Any, parts: Any) -> None:
    """A pool that does nothing with a function but to note where it is."""
    _SEEN.append(function)


def part_function(name: str, run: Callable[..., Any], *operands: Any) -> PartFunction:
    """The function that `run(pool, parts, *operands)` hands to the pool.

    Args:
        name: the same for one text of a kernel.
        run: a kernel of `by_parts`, whose arguments are arrays and whole numbers.
        operands: such arguments; nothing is computed of them.
    """
    with _SEEING:
        run(ctypes.cast(_see, ctypes.c_void_p).value, 1, *operands)
        address = _SEEN.pop()
    assert address is not None
    forever(run)
    return PartFunction(name, address)


def array_words(
    address: Any, shape: tuple[Any, ...], strides: tuple[Any, ...], itemsize: int, size: Any
) -> tuple[Any, ...]:
    """The words of an array among the arguments: Numba's structure, whose owner is nobody."""
    return 0, 0, size, itemsize, address, *shape, *strides
