"""Weights of old pixels in new ones.

Pixel i lies at i + 1/2. Sources: Keys 1981, IEEE Trans. ASSP 29(6) (cubic, a = -1/2); Duchon 1979,
J. Appl. Meteorology 18 (Lanczos).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from trainkit.core import devices
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.eval_shape import eagerly
from trainkit.core.tensor import Tensor
from trainkit.ops.arrays.axes import expand_dims
from trainkit.ops.arrays.ranges import arange
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.math.comparisons import greater, less, less_equal, logical_and
from trainkit.ops.math.elementwise import (
    absolute,
    add,
    cast,
    divide,
    exp,
    maximum,
    multiply,
    subtract,
    where,
)
from trainkit.ops.math.reductions import sum as sum_
from trainkit.ops.math.rounding import round as round_
from trainkit.ops.math.trigonometry import sin

# ------------------------------------------------------------------ kernels


def _triangle(x: Tensor) -> Tensor:
    return maximum(subtract(1.0, x), 0.0)


def _cubic(x: Tensor) -> Tensor:
    near = add(multiply(multiply(subtract(multiply(x, 1.5), 2.5), x), x), 1.0)
    inner = add(multiply(subtract(multiply(x, -0.5), -2.5), x), -4.0)
    outer = add(multiply(inner, x), 2.0)
    return where(less(x, 1.0), near, where(less(x, 2.0), outer, 0.0))


def _lanczos(radius: float) -> Callable[[Tensor], Tensor]:
    def kernel(x: Tensor) -> Tensor:
        apart = greater(x, 1e-3)
        safe = where(apart, x, 1.0)
        waves = multiply(sin(multiply(safe, math.pi)), sin(multiply(safe, math.pi / radius)))
        value = divide(multiply(waves, radius), multiply(multiply(safe, safe), math.pi**2))
        value = where(greater(x, radius), 0.0, value)
        return where(apart, value, 1.0)

    return kernel


def _gaussian(x: Tensor) -> Tensor:
    """A bell of standard deviation 0.5, which ends before 1.5."""
    # The bell is 0.011 there, no 0: a pixel at that very distance is out whichever way its
    # distance was rounded, or one of two at the same distance would weigh and the other not.
    return where(less(x, 1.5 - 1e-6), exp(multiply(multiply(x, x), -2.0)), 0.0)


def _mitchell(x: Tensor) -> Tensor:
    """Source: Mitchell and Netravali 1988, "Reconstruction filters in computer graphics"."""
    near = add(multiply(multiply(x, x), subtract(multiply(x, 7 / 6), 2.0)), 8 / 9)
    outer = add(multiply(x, subtract(multiply(x, add(multiply(x, -7 / 18), 2.0)), 10 / 3)), 16 / 9)
    return where(greater(x, 2.0), 0.0, where(greater(x, 1.0), outer, near))


_KERNELS: dict[str, Callable[[Tensor], Tensor]] = {
    "bilinear": _triangle,
    "bicubic": _cubic,
    "lanczos3": _lanczos(3.0),
    "lanczos5": _lanczos(5.0),
}
IN_KERAS = tuple(_KERNELS)
"""The methods that Keras has, besides "nearest"."""
_KERNELS |= {"gaussian": _gaussian, "mitchellcubic": _mitchell}
METHODS = tuple(_KERNELS)
"""Those of a formula that `pixel_weights` has."""
# TensorFlow, and Keras on it, read the cubic kernel from a table with this many entries for a
# pixel, unless they antialias. Exact positions are up to 1e-3 of the pixels' range away from that.
BICUBIC_FRACTIONS = 1024


def pixel_weights(
    old: int,
    new: int,
    scale: Any,
    translation: Any,
    method: str,
    antialias: bool,
    dtype: Any,
    fractions: int = 0,
) -> Tensor:
    """The shares (new, old) of old pixels in new ones; rows of pixels from outside are zero.

    With `fractions` new pixels lie at whole multiples of one such fraction of an old one.
    """
    step = divide(1.0, cast(as_tensor(scale), dtype))
    widening = maximum(step, 1.0) if antialias else 1.0
    centers = multiply(add(arange(new, dtype=dtype), 0.5), step)
    centers = subtract(subtract(centers, multiply(translation, step)), 0.5)
    if fractions:
        centers = divide(round_(multiply(centers, fractions)), fractions)
    apart = absolute(subtract(expand_dims(centers, -1), arange(old, dtype=dtype)))
    raw = _KERNELS[method](divide(apart, widening))
    total = sum_(raw, axis=-1, keepdims=True)
    some = greater(absolute(total), 1000 * float(np.finfo(np.float32).eps))
    share = where(some, divide(raw, where(some, total, 1.0)), 0.0)
    inside = logical_and(less_equal(-0.5, centers), less_equal(centers, old - 0.5))
    return where(expand_dims(inside, -1), share, 0.0)


def _areas(old: int, new: int) -> Any:
    """The shares (new, old) of old pixels in the areas of new ones."""
    edges = np.arange(new + 1, dtype=np.float64) * (old / new)
    first, last = edges[:-1, None], edges[1:, None]
    pixels = np.arange(old, dtype=np.float64)
    overlaps = np.minimum(last, pixels + 1) - np.maximum(first, pixels)
    return np.maximum(overlaps, 0) / (old / new)


@lru_cache(maxsize=256)
def fixed_weights(old: int, new: int, method: str, antialias: bool, dtype: str) -> Any:
    """The weights that fill `new` pixels from `old` ones, as a NumPy array."""
    if method == "area":
        weights = _areas(old, new).astype(dtype)
    else:
        with eagerly(), trace_state.silence(), devices.device("/cpu:0"):
            scale = np.float64(new / old)
            fractions = BICUBIC_FRACTIONS if method == "bicubic" and not antialias else 0
            shares = pixel_weights(old, new, scale, 0.0, method, antialias, "float64", fractions)
        weights = shares.numpy().astype(dtype)
    weights.setflags(write=False)
    return weights
