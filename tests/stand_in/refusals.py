"""Calls that CuPy refuses, or that copy or wait; run on the stand-in and on CuPy itself."""

import ml_dtypes
import numpy as np

BFLOAT16 = ml_dtypes.bfloat16


def short(cupy, *shape):
    return cupy.zeros(shape, BFLOAT16)


def structured(cupy):
    return np.zeros((), [("a", np.int32), ("b", np.int32)])


# name: the call, the error and a part of its text
REFUSED = {
    "a product of bfloat16 with three axes": (
        lambda cupy: cupy.matmul(short(cupy, 2, 3, 4), short(cupy, 2, 4, 5)),
        (TypeError, "data type 'E' not understood"),
    ),
    "a product of bfloat16 with two and three axes": (
        lambda cupy: short(cupy, 3, 4) @ short(cupy, 2, 4, 5),
        (TypeError, "data type 'E' not understood"),
    ),
    "einsum of bfloat16": (
        lambda cupy: cupy.einsum("ij,jk->ik", short(cupy, 3, 4), short(cupy, 4, 5)),
        (TypeError, "data type 'E' not understood"),
    ),
    "a sum over the elements before, of bfloat16": (
        lambda cupy: cupy.cumsum(short(cupy, 3, 4), 0),
        (Exception, r'no operator "[+*]='),
    ),
    "a product over the elements before, of bfloat16": (
        lambda cupy: cupy.cumprod(short(cupy, 12)),
        (Exception, r'no operator .*"[+*]='),
    ),
    "sort of bfloat16": (
        lambda cupy: cupy.sort(short(cupy, 3, 4)),
        (NotImplementedError, "dtype 'bfloat16' is not supported"),
    ),
    "argsort of bfloat16": (
        lambda cupy: cupy.argsort(short(cupy, 3, 4)),
        (NotImplementedError, "dtype 'bfloat16' is not supported"),
    ),
    "sort of bfloat16 in place": (
        lambda cupy: short(cupy, 3, 4).sort(),
        (NotImplementedError, "dtype 'bfloat16' is not supported"),
    ),
    "median of bfloat16": (
        lambda cupy: cupy.median(short(cupy, 3, 4)),
        (NotImplementedError, "dtype 'bfloat16' is not supported"),
    ),
    "a structured number beside an array": (
        lambda cupy: cupy.add(cupy.zeros(3), structured(cupy)),
        (TypeError, "Unsupported type"),
    ),
    "an array of the host beside one of the device": (
        lambda cupy: cupy.add(cupy.zeros(3), np.zeros(3)),
        (TypeError, "Unsupported type"),
    ),
}

# name: what is made first, the call on it, copies to the device, and whether the host waits
COUNTED = {
    "eight arrays joined": (lambda cupy: [cupy.zeros(4)] * 8, "concatenate", 0, False),
    "nine arrays joined": (lambda cupy: [cupy.zeros(4)] * 9, "concatenate", 1, False),
    "nine arrays stacked": (lambda cupy: [cupy.zeros(4)] * 9, "stack", 1, False),
    "nine arrays in a list": (lambda cupy: [cupy.zeros(4)] * 9, "array", 1, False),
    "nine large arrays": (lambda cupy: [cupy.zeros(1 << 18)] * 9, "concatenate", 0, False),
    "nine arrays of two dtypes": (
        lambda cupy: [cupy.zeros(4)] * 8 + [cupy.zeros(3, "float32")],
        "concatenate",
        0,
        False,
    ),
    "nine arrays of other strides": (
        lambda cupy: [cupy.zeros((3, 8))[:, ::2]] * 9,
        "concatenate",
        3,
        False,
    ),
    "sort": (lambda cupy: cupy.zeros((3, 4)), "sort", 0, True),
    "argsort": (lambda cupy: cupy.zeros((3, 4)), "argsort", 0, True),
    "partition": (lambda cupy: cupy.zeros(4), lambda cupy, x: cupy.partition(x, 2), 0, True),
    "median": (lambda cupy: cupy.zeros(4), "median", 0, True),
    "nonzero": (lambda cupy: cupy.zeros(4), "nonzero", 0, True),
    "a mask": (lambda cupy: cupy.zeros(4), lambda cupy, x: x[x > 0], 0, True),
    "positions in a list": (lambda cupy: cupy.zeros(4), lambda cupy, x: x[[1, 2]], 1, False),
    "take of a list": (lambda cupy: cupy.zeros(4), lambda cupy, x: cupy.take(x, [1, 2]), 1, False),
    "counts of copies in a list": (
        lambda cupy: cupy.zeros(4),
        lambda cupy, x: cupy.repeat(x, [1, 2, 0, 1]),
        1,
        True,
    ),
    "one count of copies": (
        lambda cupy: cupy.zeros(4),
        lambda cupy, x: cupy.repeat(x, 2),
        0,
        False,
    ),
    "a list of numbers": (lambda cupy: [1, 2, 3], "asarray", 1, False),
    "a number": (lambda cupy: 3.0, "asarray", 0, False),
    "where": (lambda cupy: cupy.zeros(4), lambda cupy, x: cupy.where(x > 0, x, 1.0), 0, False),
    "clip": (lambda cupy: cupy.zeros(4), lambda cupy, x: cupy.clip(x, 0, 1), 0, False),
    "pad": (lambda cupy: cupy.zeros(4), lambda cupy, x: cupy.pad(x, 2), 0, False),
    "roll": (lambda cupy: cupy.zeros(4), lambda cupy, x: cupy.roll(x, 1), 0, False),
    "interp": (lambda cupy: cupy.zeros(4), lambda cupy, x: cupy.interp(x, x, x), 0, False),
}


def call(cupy, name):
    """What a row of `COUNTED` does, as a function without arguments; its input is made here."""
    made, used, *_ = COUNTED[name]
    x = made(cupy)
    return lambda: getattr(cupy, used)(x) if isinstance(used, str) else used(cupy, x)


def is_captured(name):
    """Whether a capture takes the call."""
    return COUNTED[name][2:] == (0, False)
