"""Windows of signal processing, and grids of numbers: logspace, geomspace, meshgrid, vander."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule, current
from trainkit.core.dispatch.facets import LAST_AXES
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor, wrap
from trainkit.core.values.type_aliases import DTypeLike, TensorLike
from trainkit.kernels.cuda.constants import on_device
from trainkit.ops.arrays.axes import expand_dims
from trainkit.ops.arrays.broadcasting import broadcast_to
from trainkit.ops.arrays.ranges import arange, linspace
from trainkit.ops.arrays.shaping import reshape
from trainkit.ops.core.axis_numbers import whole_number
from trainkit.ops.core.dynamic_shapes import Bound, needs_values
from trainkit.ops.core.one_node import sizes_later
from trainkit.ops.math.elementwise import (
    absolute,
    cast,
    divide,
    exp,
    log,
    multiply,
    power,
    promoted,
    sign,
    sqrt,
    square,
    subtract,
    tensor_of,
)
from trainkit.ops.math.reductions import sum as total
from trainkit.ops.neural.activations import relu
from trainkit.ops.special.modified_bessel import i0

# ------------------------------------------------------------------ windows


def _length(x: Any, op: str) -> int:
    """The length `x` of a window, an int or an integer scalar tensor."""
    value = x.numpy() if is_tensor(x) else x
    try:
        length = int(value)
    except (TypeError, ValueError, OverflowError):
        length = -1
    if isinstance(value, str) or (length != value and length < 0):
        raise InvalidArgumentError(f"{op}: the length must be a whole number, got {value!r}")
    shapes.bounded(op, max(length, 0))
    return length


def _window(x: Any, op: str) -> Tensor:
    n = _length(x, op)
    values = getattr(np, op)(n) if n > 0 else np.zeros(0)
    return wrap(current().xp.asarray(values, dtype=as_dtype(dtypes.floatx()).dtype))


def _window_spec(a: Bound) -> Spec:
    """The spec of a window whose length is known only when the graph runs."""
    return Spec((None,), as_dtype(dtypes.floatx()))


@needs_values("x", gives=_window_spec)
def bartlett(x: TensorLike) -> Tensor:
    """Triangular window 1 - |2 n / (x - 1) - 1| for n = 0, ..., x - 1.

    Args:
        x: number of points.

    Returns:
        A tensor (x,) of the default float.

    Example:
        >>> tk.ops.bartlett(5).numpy()
        array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    return _window(x, "bartlett")


@needs_values("x", gives=_window_spec)
def blackman(x: TensorLike) -> Tensor:
    """Blackman's window 0.42 - 0.5 cos(t) + 0.08 cos(2 t) with t = 2 pi n / (x - 1).

    Args:
        x: number of points.

    Returns:
        A tensor (x,) of the default float.

    Example:
        >>> tk.ops.blackman(3).numpy().round(4) + 0.0
        array([0., 1., 0.], dtype=float32)
    """
    return _window(x, "blackman")


@needs_values("x", gives=_window_spec)
def hamming(x: TensorLike) -> Tensor:
    """Hamming's window 0.54 - 0.46 cos(2 pi n / (x - 1)).

    Args:
        x: number of points.

    Returns:
        A tensor (x,) of the default float.

    Example:
        >>> tk.ops.hamming(3).numpy().round(4)
        array([0.08, 1.  , 0.08], dtype=float32)
    """
    return _window(x, "hamming")


@needs_values("x", gives=_window_spec)
def hanning(x: TensorLike) -> Tensor:
    """Hann's window 0.5 - 0.5 cos(2 pi n / (x - 1)).

    Args:
        x: number of points.

    Returns:
        A tensor (x,) of the default float.

    Example:
        >>> tk.ops.hanning(3).numpy().round(4)
        array([0., 1., 0.], dtype=float32)
    """
    return _window(x, "hanning")


@needs_values("x", gives=_window_spec)
def kaiser(x: TensorLike, beta: TensorLike) -> Tensor:
    """Kaiser's window I0(beta sqrt(1 - (2 n / (x - 1) - 1)**2)) / I0(beta).

    Args:
        x: number of points.
        beta: how steep it is, a number or a scalar tensor, to which gradients flow.

    Returns:
        A tensor (x,) of the default float.

    Example:
        >>> tk.ops.kaiser(3, 0.0).numpy()
        array([1., 1., 1.], dtype=float32)
    """
    n = _length(x, "kaiser")
    window_dtype = as_dtype(dtypes.floatx())
    steepness = cast(beta, window_dtype)
    if n <= 1:
        return convert_to_tensor(np.ones(max(n, 0)), dtype=window_dtype)
    position = subtract(multiply(cast(arange(n), window_dtype), 2 / (n - 1)), 1)
    # Rounding must not make 1 - position**2 negative at the ends.
    inside = sqrt(relu(subtract(1, square(position))))
    return divide(i0(multiply(steepness, inside)), i0(steepness))


# ------------------------------------------------------------------ spaces


def logspace(
    start: TensorLike,
    stop: TensorLike,
    num: int = 50,
    endpoint: bool = True,
    base: TensorLike = 10,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Tensor:
    """Numbers from base**start to base**stop whose logarithms are evenly spaced.

    Args:
        start: first exponent, a number or a tensor.
        stop: last exponent, whose shape broadcasts with that of `start`.
        num: how many numbers.
        endpoint: whether base**stop is the last of them.
        base: what is raised to these powers.
        dtype: element type; by default the float to which the ends promote.
        axis: where the new axis stands, for ends that are no scalars.

    Returns:
        A tensor with an axis of size `num`.

    Raises:
        InvalidArgumentError: `num` is negative.

    Example:
        >>> tk.ops.logspace(0.0, 2.0, 3).numpy().round(3)
        array([  1.,  10., 100.], dtype=float32)
    """
    exponents = linspace(start, stop, num, endpoint, dtype=_double_or_none(dtype), axis=axis)
    values = power(cast(base, exponents.dtype), exponents)
    return values if dtype is None else cast(values, dtype)


def _double_or_none(dtype: DTypeLike | None) -> DTypeLike | None:
    """float64 where it is asked for, and numbers must not be rounded to float32 on the way."""
    return dtype if dtype is not None and as_dtype(dtype) == "float64" else None


def geomspace(
    start: TensorLike,
    stop: TensorLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Tensor:
    """Numbers from `start` to `stop`, each the same multiple of the one before.

    Args:
        start: one end, a number or a tensor.
        stop: the other end, of the same sign; its shape broadcasts with that of `start`.
        num: how many numbers.
        endpoint: whether `stop` is the last of them.
        dtype: element type; by default the float to which the ends promote.
        axis: where the new axis stands, for ends that are no scalars.

    Returns:
        A tensor with an axis of size `num`.

    Raises:
        InvalidArgumentError: `num` is negative.

    Example:
        >>> tk.ops.geomspace(1.0, 100.0, 3).numpy().round(3)
        array([  1.,  10., 100.], dtype=float32)
    """
    if _double_or_none(dtype) is None:
        ends = promoted(start, stop)
        low, high = (cast(x, shapes.float_dtype(x.dtype)) for x in ends)
    else:
        low, high = tensor_of(start, "float64"), tensor_of(stop, "float64")
    logs = linspace(log(absolute(low)), log(absolute(high)), num, endpoint, axis=axis)
    signs = linspace(sign(low), sign(low), num, endpoint, axis=axis)
    values = multiply(signs, exp(logs))
    return values if dtype is None else cast(values, dtype)


# ------------------------------------------------------------------ grids


def _flat_size(x: Any) -> int | None:
    """The number of elements, `None` if it is not known yet."""
    dims = tuple(convert_to_tensor(x).shape)
    return None if None in dims else math.prod(dims)


def _grid_specs(a: Bound) -> Any:
    sizes = [_flat_size(t) for t in a["x"]]
    if None not in sizes:
        return None
    if a["indexing"] == "xy":
        sizes[:2] = sizes[1::-1]
    return [Spec(sizes, convert_to_tensor(t).dtype) for t in a["x"]]


def meshgrid(*x: Any, indexing: str = "xy") -> list[Tensor]:
    """Coordinates of all points of a grid, one tensor per axis.

    Args:
        *x: the coordinates along each axis, 1-d tensors; others are flattened.
        indexing: `"ij"` for results of shape (len(x[0]), len(x[1]), ...), `"xy"` with the first two
            axes exchanged.

    Returns:
        As many tensors as there are axes, all of the shape of the grid.

    Raises:
        InvalidArgumentError: `indexing` is neither of the two.

    Example:
        >>> x, y = tk.ops.meshgrid([1, 2], [3, 4])
        >>> x.numpy(), y.numpy()
        (array([[1, 2],
               [1, 2]], dtype=int32), array([[3, 3],
               [4, 4]], dtype=int32))
    """
    if indexing not in ("xy", "ij"):
        raise InvalidArgumentError(f"meshgrid: indexing={indexing!r}; use 'xy' or 'ij'")
    return _grids(x, indexing)


@sizes_later("numpy.meshgrid", _grid_specs)
def _grids(x: tuple[Any, ...], indexing: str) -> list[Tensor]:

    tensors = [t if isinstance(t, Tensor) else convert_to_tensor(t) for t in x]
    tensors = [reshape(t, (-1,)) if len(t.shape) > 1 else t for t in tensors]
    sizes = [t.shape[0] if len(t.shape) else 1 for t in tensors]
    axes = list(range(len(tensors)))
    if indexing == "xy" and len(tensors) > 1:
        axes[:2] = [1, 0]
    dims = [sizes[axes.index(i)] for i in range(len(tensors))]
    grids = []
    for t, axis in zip(tensors, axes, strict=True):
        column = reshape(t, tuple(-1 if i == axis else 1 for i in range(len(tensors))))
        grids.append(broadcast_to(column, tuple(dims)))
    return grids


def _powers_spec(a: Bound) -> Any:
    x = convert_to_tensor(a["x"])
    if isinstance(a["N"], SymbolicTensor):
        return Spec((x.shape[0], None), x.dtype)
    size_known = a["N"] is not None or x.shape != (None,)
    return None if size_known else Spec((None, None), x.dtype)


@sizes_later("numpy.vander", _powers_spec)
def vander(x: TensorLike, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of the elements of `x`, a row per element.

    Args:
        x: tensor (n,).
        N: number of powers; by default n.
        increasing: whether the powers grow from left to right.

    Returns:
        A tensor (n, N).

    Raises:
        ShapeError: `x` has another number of axes than one.
        InvalidArgumentError: `N` is negative.

    Example:
        >>> tk.ops.vander([1, 2, 3], 2).numpy()
        array([[1, 1],
               [2, 1],
               [3, 1]], dtype=int32)
    """
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    if len(x.shape) != 1:
        raise ShapeError(f"vander: x must have one axis, its shape is {x.shape}")
    columns = x.shape[0] if N is None else whole_number(N, "vander", "N")
    if columns is None or columns < 0:
        raise InvalidArgumentError(f"vander: N={N!r}; the number of powers must be 0 or more")
    shapes.bounded("vander", x.shape[0] or 0, columns)
    exponents = range(columns) if increasing else range(columns - 1, -1, -1)
    return _vander(expand_dims(x, -1), exponents=tuple(exponents))


@primitive(
    lambda x, *, exponents: shapes.Spec((*x.shape[:-1], len(exponents)), x.dtype),
    name="vander",
    semantics=LAST_AXES,
)
def _vander(xp: ArrayModule, x: Array, *, exponents: tuple[int, ...]) -> Array:
    """Each element on the last axis, of size 1, raised to each of the exponents."""
    promised = x.dtype
    if x.dtype.kind == "b":
        x = x.astype(np.int32)
    kind = x.dtype if x.dtype.kind in "iu" else np.dtype(np.int32)
    powers = on_device(xp, ("vander", exponents, kind), lambda: np.asarray(exponents, kind))
    return xp.power(x, powers).astype(promised)


def _vander_gradient(g: Tensor, y: Tensor, x: Tensor, *, exponents: tuple[int, ...]) -> Tensor:
    factors = convert_to_tensor(np.asarray(exponents), dtype=g.dtype)
    lower = _vander(x, exponents=tuple(max(n - 1, 0) for n in exponents))
    return total(multiply(g, multiply(lower, factors)), axis=-1, keepdims=True)


_vander.gradients(_vander_gradient)
