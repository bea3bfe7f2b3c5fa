"""What calls of single operations are made of: a row of their table, and the operands by letters.

The operands of size n, square matrices where nothing else is said:

    x, y, z  floats in [0, 1)         n  floats around 0         p  symmetric, positive definite
    v, w     a row of such            i, j  integers from 1 to 9   k  row numbers
    m        truth values             d  x in float64             o  row numbers that rise
    a, b     n matrices of 8 x 8      q  n positive definite ones  e  32 points of 8 numbers each
    s        n / 8 series of 8 x 64   f  images of up to 64 x 64   c  volumes of up to 16 x 16 x 16

A capital letter is the matrix of its small letter transposed, so its rows lie scattered in memory.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Call(NamedTuple):
    """One operation.

    Attributes:
        name: what is called.
        operands: a letter for each, see above.
        ours: the call, given trainkit and the operands, or TensorFlow, whose names are the same.
        theirs: the same, given PyTorch.
        largest: the largest matrices that it is measured on.
    """

    name: str
    operands: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    largest: int = 2048


def same(name: str, operands: str, call: Callable[..., Any], *largest: int) -> Call:
    """A row whose call reads alike in both: a function of the module, or operators."""
    return Call(name, operands, call, call, *largest)


def up_to_512(*calls: Call) -> list[Call]:
    """The same on matrices of at most 512 rows."""
    return [call._replace(largest=min(call.largest, 512)) for call in calls]


def operand(letter: str, size: int) -> Any:
    """The array that a letter stands for; that of a capital one is a transposed view."""
    if letter.isupper():
        return operand(letter.lower(), size).T
    rng = np.random.default_rng(ord(letter))
    match letter:
        case "x" | "y" | "z":
            return rng.random((size, size), dtype="float32")
        case "d":
            return rng.random((size, size))
        case "n":
            return rng.standard_normal((size, size), dtype="float32")
        case "v" | "w":
            return rng.random(size, dtype="float32")
        case "p":
            return _positive_definite(rng.random((size, size), dtype="float32"))
        case "i" | "j":
            return rng.integers(1, 10, (size, size), dtype="int32")
        case "k" | "o":
            rows = rng.integers(0, size, size, dtype="int32")
            return rows if letter == "k" else np.sort(rows)
        case "a" | "b":
            return rng.random((size, 8, 8), dtype="float32")
        case "q":
            return _positive_definite(rng.random((size, 8, 8), dtype="float32"))
        case "e":
            return rng.random((32, 8), dtype="float32")
        case "s":
            return rng.random((max(1, size // 8), 64, 8), dtype="float32")
        case "f":
            return rng.random((2, min(size, 64), min(size, 64), 4), dtype="float32")
        case "c":
            return rng.random((2, *[min(size, 16)] * 3, 4), dtype="float32")
    return rng.random((size, size)) < 0.5


def _positive_definite(a: Any) -> Any:
    size = a.shape[-1]
    return a @ a.swapaxes(-1, -2) / size + np.eye(size, dtype="float32")
