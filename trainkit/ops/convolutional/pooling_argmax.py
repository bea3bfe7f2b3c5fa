"""Largest values of windows over images, and where they stand.

Arrays are `(batch, height, width, channels)`; an index is that in its image. The gradient of a
largest value goes to its index.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from trainkit.core import dtypes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import SHAPE, WINDOW, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import ShapeError
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.shapes import CALLS, Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.elementwise.half_casts_tuned import cast_array
from trainkit.kernels.pooling import argmax_tuned, pool_reference
from trainkit.ops.arrays.ranges import arange
from trainkit.ops.arrays.shaping import reshape
from trainkit.ops.arrays.shaping import shape as live_shape
from trainkit.ops.convolutional.window_arguments import (
    Sizes,
    checked_windows,
    image_pair,
    windowed_dims,
)
from trainkit.ops.math.elementwise import add, cast, multiply
from trainkit.ops.vmap_rules.shared_rules import folded

pool_cuda = DeferredModule("trainkit.kernels.pooling.pool_cuda")
_OP = "max_pool_with_argmax"


def _rule(x: Spec, *, pool_size: Sizes, strides: Sizes, padding: str) -> tuple[Spec, Spec]:
    space = windowed_dims(_OP, x.shape[1:-1], pool_size, strides, padding, (1, 1))
    dims = (x.shape[0], *space, x.shape[-1])
    return Spec(dims, x.dtype), Spec(dims, dtypes.int64)


def _windows_of(x: Array, pool_size: Sizes, strides: Sizes, padding: str) -> Windows:
    return checked_windows(_OP, x.shape[1:-1], pool_size, strides, padding, (1, 1))


@lru_cache(maxsize=CALLS)
def _plan(shape: Sizes, size: int, pool_size: Sizes, strides: Sizes, padding: str) -> Any:
    w = checked_windows(_OP, shape[1:-1], pool_size, strides, padding, (1, 1))
    return argmax_tuned.plan_call(w, shape[0], shape[-1], size)


def _by_kernel(x: Array, *, pool_size: Sizes, strides: Sizes, padding: str) -> Any:
    dtype = x.dtype
    if dtype not in argmax_tuned.MAX_POOL_WITH_ARGMAX:
        return None
    call = _plan(x.shape, dtype.itemsize, pool_size, strides, padding)
    return None if call is None else argmax_tuned.max_pool_with_argmax(call, x)


def _by_kernel_in_float32(x: Array, **settings: Any) -> Any:
    results = _by_kernel(cast_array(x, np.float32), **settings)
    return results and (cast_array(results[0], x.dtype), results[1])


def _on_gpu(xp: ArrayModule, x: Array, **settings: Any) -> Any:
    return pool_cuda.max_pool_with_argmax(xp, _windows_of(x, **settings), x)


@primitive(
    _rule,
    name=_OP,
    semantics=WINDOW,
    tuned=Tuned(_by_kernel, on_gpu=(_on_gpu,), on_float16=_by_kernel_in_float32),
)
def _max_pool_with_argmax(
    xp: ArrayModule, x: Array, *, pool_size: Sizes, strides: Sizes, padding: str
) -> Any:
    """The largest value of each window, and its index in its image, int64."""
    w = _windows_of(x, pool_size, strides, padding)
    return pool_reference.max_pool_with_argmax(xp, w, x)


@primitive(
    lambda g, argmax, x: Spec(x.shape, g.dtype),
    semantics=WINDOW,
    reads={2: SHAPE},
    tuned=Tuned(argmax_tuned.add_at_argmax),
)
def add_at_argmax(xp: ArrayModule, g: Array, argmax: Array, x: Array) -> Array:
    """Zeros in the shape of `x`, to which each `g` is added at its index in its image."""
    return pool_reference.add_at_argmax(xp, g, argmax, x)


@primitive(lambda values, argmax: Spec(argmax.shape, values.dtype), semantics=WINDOW)
def take_at_argmax(xp: ArrayModule, values: Array, argmax: Array) -> Array:
    """Of each image of `values` the elements at indices in it."""
    return pool_reference.take_at_argmax(xp, values, argmax)


_max_pool_with_argmax.gradients(lambda g, y, x, **s: add_at_argmax(g[0], y[1], x))
add_at_argmax.gradients(lambda gg, y, g, argmax, x: take_at_argmax(gg, argmax), None, None)
take_at_argmax.gradients(lambda g, y, values, argmax: add_at_argmax(g, argmax, values), None)

_max_pool_with_argmax.batch_by(folded(0))
add_at_argmax.batch_by(folded(0, 1, likes=(2,)))
take_at_argmax.batch_by(folded(0, 1))


def max_pool_with_argmax(
    input: TensorLike,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NHWC",
    output_dtype: Any = "int64",
    include_batch_in_index: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Greatest values of windows, and where they come from.

    NaN is greater than all numbers, as in `max_pool`; TensorFlow ignores it behind a number.

    Args:
        input: (batch, height, width, channels).
        ksize: height and width of a window.
        strides: like `ksize`.
        padding: `"SAME"` or `"VALID"`.
        data_format: only `"NHWC"`.
        output_dtype: of the places, int32 or int64.
        include_batch_in_index: count places over the whole batch, not within an image.

    Returns:
        Values, and places (row * width + column) * channels + channel; of equal ones the first,
        which lies inside of the image even where all of a window is -inf.

    Raises:
        ValueError: a setting is none of those above.
        ShapeError: the rank is not 4, or a window is larger than the image.

    Example:
        >>> y, positions = tk.nn.max_pool_with_argmax([[[[1.0], [3.0]]]], (1, 2), (1, 2), "VALID")
        >>> y.numpy().ravel(), positions.numpy().ravel()
        (array([3.], dtype=float32), array([1]))
    """
    if data_format.upper() != "NHWC":
        raise ValueError(f"{_OP}: data_format {data_format!r} is not supported; use NHWC")
    dtype = dtypes.as_dtype(output_dtype)
    if dtype.name not in ("int32", "int64"):
        raise ValueError(f"{_OP}: output_dtype {output_dtype!r}; use int32 or int64")
    x = convert_to_tensor(input)
    if len(x.shape) != 4:
        raise ShapeError(f"{_OP}: needs (batch, height, width, channels), got {tuple(x.shape)}")
    if padding.upper() not in ("SAME", "VALID"):
        raise ValueError(f"{_OP}: padding {padding!r}; use 'SAME' or 'VALID'")
    y, argmax = _max_pool_with_argmax(
        x,
        pool_size=image_pair(ksize, "ksize", _OP),
        strides=image_pair(strides, "strides", _OP),
        padding=padding.lower(),
    )
    if include_batch_in_index:
        argmax = add(argmax, _first_indices(x))
    return y, (argmax if dtype is argmax.dtype else cast(argmax, dtype))


def _first_indices(x: Tensor) -> Tensor:
    """For each image the index of its first number in the batch, (batch, 1, 1, 1)."""
    batch, *sizes = live_shape(x)
    count: Any = 1
    for n in sizes:  # int32 where it is unknown: products of those may be too large
        count = count * (n if isinstance(n, int) else cast(n, "int64"))
    images = cast(arange(batch), "int64")
    return multiply(reshape(images, (-1, 1, 1, 1)), count)
