"""Pooling over windows in one to three dimensions, and adaptive pooling to a given size.

Inside, arrays are `(batch, spatial..., channels)`. The gradient of a maximum goes to the first of
equal elements of its window, that of an average to all elements alike; padding never counts.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from trainkit.core import shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch import late_ops
from trainkit.core.dispatch.facets import SHAPE, WINDOW, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, wrap
from trainkit.core.values.type_aliases import TensorLike, WindowPadding
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.elementwise.half_casts_tuned import with_float16
from trainkit.kernels.pooling import pool_reference, pool_tuned
from trainkit.kernels.pooling.pool_tuned import AVERAGE_POOL, MAX_POOL
from trainkit.kernels.repeated.repeated_pool import RepeatedPool
from trainkit.ops.arrays.axes import moveaxis
from trainkit.ops.arrays.pad_and_roll import pad
from trainkit.ops.arrays.shaping import as_tensor, reshape
from trainkit.ops.convolutional.window_arguments import (
    Sizes,
    channels_last,
    channels_second,
    checked_padding,
    checked_windows,
    is_channels_first,
    spatial_tuple,
    windowed_dims,
)
from trainkit.ops.indexing.gathering import take
from trainkit.ops.linear_algebra.axis_products import tensordot
from trainkit.ops.linear_algebra.matmul import matmul
from trainkit.ops.math.elementwise import cast
from trainkit.ops.math.max_and_argmax import max as greatest
from trainkit.ops.math.reductions import mean
from trainkit.ops.vmap_rules.shared_rules import folded

pool_cuda = DeferredModule("trainkit.kernels.pooling.pool_cuda")
_F32 = np.dtype(np.float32)


def _pool_rule(op: str) -> Any:
    def rule(x: Spec, *, pool_size: Sizes, strides: Sizes, padding: Any) -> Spec:
        ones = (1,) * len(pool_size)
        space = windowed_dims(op, x.shape[1:-1], pool_size, strides, padding, ones)
        dtype = x.dtype if op == "max_pool" else shapes.float_dtype(x.dtype)
        return Spec((x.shape[0], *space, x.shape[-1]), dtype)

    return rule


def _like_second(g: Spec, x: Spec, *others: Spec, **settings: Any) -> Spec:
    return Spec(x.shape, g.dtype)


def _like_third(values: Spec, x: Spec, y: Spec, **settings: Any) -> Spec:
    return Spec(y.shape, values.dtype)


def _windows_of(op: str, x: Array, pool_size: Sizes, strides: Sizes, padding: Any) -> Windows:
    return checked_windows(op, x.shape[1:-1], pool_size, strides, padding, (1,) * len(pool_size))


def _list_tuned(op: str, run: Any, gpu: Any, of: int = 0, family: Any = None) -> Tuned:
    """Kernels that are given where windows lie on the input `of`, then their arrays.

    With a family, that of images of float32, a program remembers what their sizes decide.
    """

    @with_float16
    def with_windows(*arrays: Array, **settings: Any) -> Array | None:
        output: Array | None = run(_windows_of(op, arrays[of], **settings), *arrays)
        return output

    def on_gpu(xp: ArrayModule, *arrays: Array, **settings: Any) -> Array | None:
        output: Array | None = gpu(xp, _windows_of(op, arrays[of], **settings), *arrays)
        return output

    def bind(settings: dict[str, Any]) -> Any:
        return RepeatedPool(run, family, partial(_windows_of, op, **settings)).calls

    return Tuned(with_windows, on_gpu=(on_gpu,), of=of, bind=bind if family else None)


@primitive(
    _pool_rule("max_pool"),
    name="max_pool",
    semantics=WINDOW,
    tuned=_list_tuned("max_pool", pool_tuned.max_pool, pool_cuda.max_pool, family=MAX_POOL[_F32]),
)
def _max_pool(
    xp: ArrayModule, x: Array, *, pool_size: Sizes, strides: Sizes, padding: Any
) -> Array:
    """The largest value of each window of (batch, spatial..., channels)."""
    return pool_reference.max_pool(xp, _windows_of("max_pool", x, pool_size, strides, padding), x)


@primitive(
    _like_second,
    name="max_pool_gradient",
    semantics=WINDOW,
    tuned=_list_tuned("max_pool", pool_tuned.max_pool_gradient, pool_cuda.max_pool_gradient, of=1),
)
def max_pool_gradient(
    xp: ArrayModule, g: Array, x: Array, y: Array, *, pool_size: Sizes, strides: Sizes, padding: Any
) -> Array:
    """Each `g` at the first place of its window of `x` that equals the maximum `y`."""
    w = _windows_of("max_pool", x, pool_size, strides, padding)
    return pool_reference.max_pool_gradient(xp, w, g, x, y)


@primitive(_like_third, name="max_pool_pick", semantics=WINDOW)
def max_pool_pick(
    xp: ArrayModule,
    values: Array,
    x: Array,
    y: Array,
    *,
    pool_size: Sizes,
    strides: Sizes,
    padding: Any,
) -> Array:
    """`values` at the first place of each window of `x` that equals the maximum `y`."""
    return pool_reference.max_pool_pick(
        xp, _windows_of("max_pool", x, pool_size, strides, padding), values, x, y
    )


_max_pool.gradients(lambda g, y, x, **s: max_pool_gradient(g, x, y, **s))
# Moving `x` a little moves no maximum to another place: zeros by `x`, not the lack of a gradient.
max_pool_gradient.gradients(
    lambda gg, _, g, x, y, **s: max_pool_pick(gg, x, y, **s),
    lambda gg, _, g, x, y, **s: late_ops.zeros_like(x, dtype=None),
    None,
)
max_pool_pick.gradients(lambda gg, _, v, x, y, **s: max_pool_gradient(gg, x, y, **s), None, None)


@primitive(
    _pool_rule("average_pool"),
    name="average_pool",
    semantics=WINDOW,
    tuned=_list_tuned(
        "average_pool", pool_tuned.average_pool, pool_cuda.average_pool, family=AVERAGE_POOL[_F32]
    ),
)
def _average_pool(
    xp: ArrayModule, x: Array, *, pool_size: Sizes, strides: Sizes, padding: Any
) -> Array:
    """The mean of each window of (batch, spatial..., channels)."""
    w = _windows_of("average_pool", x, pool_size, strides, padding)
    return pool_reference.average_pool(xp, w, x)


@primitive(
    _like_second,
    name="average_pool_gradient",
    semantics=WINDOW,
    reads={1: SHAPE},
    tuned=_list_tuned(
        "average_pool",
        lambda w, g, x: pool_tuned.average_pool_gradient(w, g),
        pool_cuda.average_pool_gradient,
        of=1,
    ),
)
def average_pool_gradient(
    xp: ArrayModule, g: Array, x: Array, *, pool_size: Sizes, strides: Sizes, padding: Any
) -> Array:
    """Each `g` shared by the elements of its window, in the shape of `x`."""
    w = _windows_of("average_pool", x, pool_size, strides, padding)
    return pool_reference.average_pool_gradient(xp, w, g)


_average_pool.gradients(lambda g, y, x, **s: average_pool_gradient(g, x, **s))
_average_pool.declare(residuals=frozenset())
average_pool_gradient.gradients(lambda gg, y, g, x, **s: _average_pool(gg, **s), None)

_max_pool.batch_by(folded(0))
max_pool_gradient.batch_by(folded(0, 1, 2))
max_pool_pick.batch_by(folded(0, 1, 2))
_average_pool.batch_by(folded(0))
average_pool_gradient.batch_by(folded(0, likes=(1,)))

# ------------------------------------------------------------------ public functions


def _check(op: str, inputs: Any, data_format: str | None) -> tuple[Tensor, int, bool]:
    """The input with its channels last, its spatial rank, and whether they were axis 1."""
    x = as_tensor(inputs)
    rank = len(x.shape) - 2
    if rank not in (1, 2, 3):
        raise ShapeError(
            f"{op}: the input must have 1, 2 or 3 spatial axes between batch and channels, it has "
            "shape "
            f"{tuple(x.shape)}"
        )
    first = is_channels_first(data_format, op)
    return (channels_last(x) if first else x), rank, first


def _pool(
    primitive_op: Any,
    op: str,
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: Any,
    data_format: Any,
) -> Tensor:
    x, rank, first = _check(op, inputs, data_format)
    window = spatial_tuple(pool_size, rank, op, "pool_size")
    y: Tensor = primitive_op(
        x,
        pool_size=window,
        strides=window if strides is None else spatial_tuple(strides, rank, op, "strides"),
        padding=checked_padding(padding, rank, op),
    )
    return channels_second(y) if first else y


def max_pool(
    inputs: TensorLike,
    pool_size: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    padding: WindowPadding = "valid",
    data_format: str | None = None,
) -> Tensor:
    """The largest value of each window; its gradient goes to the first of equal ones.

    Args:
        inputs: (batch, spatial..., channels), or (batch, channels, spatial...), with 1 to 3
            spatial axes.
        pool_size: size of a window, one int or one for each spatial axis.
        strides: distance between windows; `pool_size` by default.
        padding: "valid" for windows inside the input only; "same" for one window at each stride,
            where what lies outside never counts; or a pair (before, after) for each spatial axis.
        data_format: "channels_last" (the default) or "channels_first".

    Returns:
        (batch, out..., channels), or (batch, channels, out...), in the dtype of `inputs`.

    Raises:
        ShapeError: the rank does not fit, or a window is larger than the input.
        InvalidArgumentError: a setting is none of those above.

    >>> max_pool(tk.reshape(tk.range(4.0), (1, 2, 2, 1)), 2).numpy().ravel()
    array([3.], dtype=float32)
    """
    return _pool(_max_pool, "max_pool", inputs, pool_size, strides, padding, data_format)


def average_pool(
    inputs: TensorLike,
    pool_size: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    padding: WindowPadding = "valid",
    data_format: str | None = None,
) -> Tensor:
    """The mean of each window over the part of it that lies inside the input.

    Args:
        inputs: (batch, spatial..., channels), or (batch, channels, spatial...), with 1 to 3
            spatial axes.
        pool_size: as for `max_pool`.
        strides: as for `max_pool`.
        padding: as for `max_pool`.
        data_format: as for `max_pool`.

    Returns:
        (batch, out..., channels), or (batch, channels, out...); integers give the default float.

    Raises:
        ShapeError: the rank does not fit, or a window is larger than the input.
        InvalidArgumentError: a setting is none of those above.

    Example:
        >>> tk.ops.average_pool(tk.ones((1, 4, 6, 3)), 2).shape
        TensorShape([1, 2, 3, 3])
    """
    x = as_floats(as_tensor(inputs))
    return _pool(_average_pool, "average_pool", x, pool_size, strides, padding, data_format)


# ------------------------------------------------------------------ adaptive pooling


def _bounds(op: str, size: int | None, out: int) -> tuple[Any, Any]:
    """First and one past the last position of each of `out` windows that cover `size` positions."""
    if size is None or size < 1:
        raise ShapeError(
            f"{op}: the spatial sizes of the input must be known and above 0, got {size}"
        )
    shapes.bounded(op, size, out)
    i = np.arange(out)
    return i * size // out, -(-(i + 1) * size // out)


@functools.lru_cache(maxsize=64)
def _shares(op: str, size: int | None, out: int, dtype: Any) -> Any:
    """What each position counts in each mean, (size, out)."""
    starts, stops = _bounds(op, size, out)
    at = np.arange(size or 0)[:, None]
    shares = (((at >= starts) & (at < stops)) / (stops - starts)).astype(dtype)
    shares.flags.writeable = False
    return shares


@functools.lru_cache(maxsize=64)
def _repeated_positions(op: str, size: int | None, out: int) -> Any:
    """Those of all windows, one behind the other, as many in each as in the widest one."""
    starts, stops = _bounds(op, size, out)
    # A shorter window repeats its last position, which changes no maximum.
    at = np.minimum(starts[:, None] + np.arange((stops - starts).max()), stops[:, None] - 1)
    at = at.reshape(-1).astype(np.int32)
    at.flags.writeable = False
    return at


def _beside(x: Tensor, constant: Any) -> Any:
    """A constant as an operand beside `x`: a tensor at once where that is one of NumPy's arrays."""
    return wrap(constant) if type(x) is Tensor and type(x._array) is np.ndarray else constant


def _even_windows(sizes: Sequence[int | None], out: Sequence[int]) -> Sizes | None:
    """The size of all windows along each axis, `None` where they are not of one size."""
    window: Sizes = ()
    for n, k in zip(sizes, out, strict=True):
        if not n or n % k:
            return None
        window += (n // k,)
    return window


def _means_along(op: str, x: Tensor, axis: int, n: int) -> Tensor:
    """Means over `n` windows along an axis."""
    size = x.shape[axis]
    if size == n:
        return x
    dims = [-1 if k is None else k for k in x.shape]
    if dims.count(-1) > 1 or not size:
        weights = _shares(op, size, n, x.dtype.dtype)
        return moveaxis(tensordot(x, weights, axes=((axis,), (0,))), -1, axis)
    if size % n == 0:
        return mean(reshape(x, [*dims[:axis], n, size // n, *dims[axis + 1 :]]), axis + 1)
    before, after = math.prod(dims[:axis]), math.prod(dims[axis + 1 :])
    rows = reshape(x, (max(before, -1), size, max(after, -1)))
    means = matmul(_beside(x, _shares(op, size, n, x.dtype.dtype).T), rows)
    return reshape(means, [*dims[:axis], n, *dims[axis + 1 :]])


def adaptive_average_pool(
    inputs: Any, output_size: int | Sequence[int], data_format: str | None = None
) -> Tensor:
    """Means over windows of nearly equal size, as many as `output_size` says.

    Window i of n along an axis of m positions goes from floor(i * m / n) to ceil((i + 1) * m / n).

    Args:
        inputs: (batch, spatial..., channels), or (batch, channels, spatial...), with 1 to 3
            spatial axes.
        output_size: how many windows, one int or one for each spatial axis.
        data_format: "channels_last" (the default) or "channels_first".

    Returns:
        (batch, output_size..., channels), or (batch, channels, output_size...).

    Raises:
        ShapeError: the rank does not fit, or a spatial size is not known.
        InvalidArgumentError: a setting is none of those above.

    Example:
        >>> tk.ops.adaptive_average_pool(tk.ones((1, 5, 7, 3)), 2).shape
        TensorShape([1, 2, 2, 3])
    """
    op = "adaptive_average_pool"
    x, rank, first = _check(op, as_floats(as_tensor(inputs)), data_format)
    for axis, n in enumerate(spatial_tuple(output_size, rank, op, "output_size"), 1):
        x = _means_along(op, x, axis, n)
    return channels_second(x) if first else x


def adaptive_max_pool(
    inputs: TensorLike, output_size: int | Sequence[int], data_format: str | None = None
) -> Tensor:
    """Maxima over windows of nearly equal size, as many as `output_size` says.

    The windows are those of `adaptive_average_pool`.

    Args:
        inputs: (batch, spatial..., channels), or (batch, channels, spatial...), with 1 to 3
            spatial axes.
        output_size: how many windows, one int or one for each spatial axis.
        data_format: "channels_last" (the default) or "channels_first".

    Returns:
        (batch, output_size..., channels), or (batch, channels, output_size...).

    Raises:
        ShapeError: the rank does not fit, or a spatial size is not known.
        InvalidArgumentError: a setting is none of those above.

    Example:
        >>> tk.ops.adaptive_max_pool(tk.ones((1, 5, 7, 3)), 2).shape
        TensorShape([1, 2, 2, 3])
    """
    op = "adaptive_max_pool"
    x, rank, first = _check(op, inputs, data_format)
    counts = spatial_tuple(output_size, rank, op, "output_size")
    window = _even_windows(x.shape[1:-1], counts)
    if window is None:
        window = ()
        for axis, n in enumerate(counts, 1):
            at = _repeated_positions(op, x.shape[axis], n)
            x = take(x, _beside(x, at), axis=axis)
            window += (len(at) // n,)
    y: Tensor = _max_pool(x, pool_size=window, strides=window, padding="valid")
    return channels_second(y) if first else y


def as_floats(x: Tensor) -> Tensor:
    """`x` itself, or integers and bools as the default float."""
    dtype = shapes.float_dtype(x.dtype)
    if dtype == x.dtype:
        return x
    return cast(x, dtype.name)


def bordered_max_pool(
    inputs: TensorLike,
    pool_size: int | Sequence[int],
    strides: int | Sequence[int] | None,
    padding: WindowPadding,
    data_format: str | None,
) -> Tensor:
    """`max_pool`, of borders too that `padding` lists; they win in no window.

    Args:
        inputs: as of `max_pool`.
        pool_size: the same.
        strides: the same.
        padding: that of `max_pool`, or a pair (before, after) for each axis.
        data_format: as of `max_pool`.
    """
    if isinstance(padding, str):
        return max_pool(inputs, pool_size, strides, padding, data_format)
    x = as_tensor(inputs)
    lowest = -math.inf if x.dtype.is_floating else x.dtype.min
    bordered = pad(x, padding, constant_values=lowest)
    return max_pool(bordered, pool_size, strides, "valid", data_format)


def max_pool_channels(x: Any, window: tuple[int, ...], strides: Any) -> Tensor:
    """The greatest of each few channels that lie side by side.

    Args:
        x: (batch, spatial..., channels).
        window: (1, ..., 1, k), where k divides the channels.
        strides: the same.

    Raises:
        InvalidArgumentError: window or strides are others.
    """
    x = as_tensor(x)
    channels, size = x.shape[-1], window[-1]
    if set(window[:-1]) != {1} or tuple(strides) != window or not channels or channels % size:
        raise InvalidArgumentError(
            "max_pool: a window over channels is (1, ..., 1, k) with the same strides, and k "
            f"divides the channels\n  ksize    {window}\n  strides  {strides}\n"
            f"  input    {tuple(x.shape)}"
        )
    sizes = [-1 if n is None else n for n in x.shape[:-1]]
    return greatest(reshape(x, (*sizes, channels // size, size)), -1)
