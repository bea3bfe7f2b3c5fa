"""New tensors: filled, like another, identity matrices, one hot.

Without a `dtype`, floats get the default float (`floatx()`, float32 unless changed) and ranges of
ints int32. New tensors are made on the current device; those like another are made where that one
is.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import CPU, Array, ArrayModule, current, filled_on
from trainkit.core.dispatch.facets import (
    ALONG_AXIS,
    BY_ELEMENT,
    CREATION,
    FLAT,
    INTEGERS,
    SHAPE,
    SIZE_AT_RUN,
    Absent,
)
from trainkit.core.dispatch.native import are_sizes
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import DType, as_dtype
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor, wrap
from trainkit.core.values.docstrings import describe_arguments
from trainkit.core.values.type_aliases import DTypeLike, Shape, TensorLike
from trainkit.ops.arrays.broadcasting import broadcast_to
from trainkit.ops.arrays.shaping import known_number, refuse_negative, unknown_number
from trainkit.ops.core.axis_numbers import whole_number
from trainkit.ops.core.dynamic_shapes import Bound, is_later, needs_values
from trainkit.ops.math.elementwise import cast, tensor_of
from trainkit.ops.math.reductions import sum_to_like

# ------------------------------------------------------------------ arguments


def dims_of(shape: Any, op: str) -> tuple[int, ...]:
    """`shape` (an int, a sequence of ints or integer tensors, or a 1-d tensor) as a tuple of ints.

    Raises:
        InvalidArgumentError: a size is negative, no whole number, or not known.
    """
    if are_sizes(shape):
        plain_sizes: tuple[int, ...] = shape
        shapes.bounded(op, *plain_sizes)
        return plain_sizes
    if shape is None:
        raise InvalidArgumentError(f"{op}: a shape is an int or a sequence of ints, got None")
    if hasattr(shape, "__index__") and not getattr(shape, "ndim", 0):
        shape = (shape,)
    dims = shape.numpy().tolist() if is_tensor(shape) else list(shape)
    if None in [d for d in dims if d is None]:
        has_twin = op in ("ones", "zeros", "full", "empty")
        hint = f"; or make it with {op}_like from one that has this shape" if has_twin else ""
        raise InvalidArgumentError(f"{unknown_number(op)}{hint}: {tuple(dims)}")
    sizes = tuple(known_number(d, op) for d in dims)
    refuse_negative(sizes, op)
    shapes.bounded(op, *sizes)
    return sizes


def dtype_or_float(dtype: Any) -> DType:
    """`dtype`, or the default float for `None`."""
    return as_dtype(dtypes.floatx() if dtype is None else dtype)


# ------------------------------------------------------------------ filled

_MOST_AT_ONCE = 1 << 24
"""Elements of larger tensors are counted by `shapes.bounded` first, which has the words."""


def _fill_with(op: str, shape: Any, dtype: Any) -> Tensor:
    make, numpy_dtype = getattr(current().xp, op), dtype_or_float(dtype).dtype
    try:
        return wrap(make(shape, numpy_dtype))
    except (TypeError, ValueError):  # a shape that NumPy does not know, or a wrong one
        if is_later(shape):
            return broadcast_to(wrap(current().xp.asarray(op == "ones", numpy_dtype)), shape)
        return wrap(make(dims_of(shape, op), numpy_dtype))


def zeros(shape: Shape, dtype: DTypeLike | None = None) -> Tensor:
    """Zeros.

    Returns:
        A tensor of that shape.

    Raises:
        InvalidArgumentError: a size is negative or not known.

    Example:
        >>> tk.ops.zeros((2,)).numpy()
        array([0., 0.], dtype=float32)
    """
    return _fill_with("zeros", shape, dtype)


def ones(shape: Shape, dtype: DTypeLike | None = None) -> Tensor:
    """Ones.

    Returns:
        A tensor of that shape.

    Raises:
        InvalidArgumentError: a size is negative or not known.

    Example:
        >>> tk.ops.ones((2,)).numpy()
        array([1., 1.], dtype=float32)
    """
    return _fill_with("ones", shape, dtype)


def empty(shape: Shape, dtype: DTypeLike | None = None) -> Tensor:
    """A tensor whose values are left as they were in memory.

    Returns:
        A tensor of that shape.

    Raises:
        InvalidArgumentError: a size is negative or not known.

    Example:
        >>> tk.ops.empty((2, 3)).shape
        TensorShape([2, 3])
    """
    return _fill_with("empty", shape, dtype)


@primitive(
    lambda value, *, shape: Spec(shape, value.dtype),
    name="fill",
    semantics=CREATION,
    lowering=SIZE_AT_RUN,
)
def _fill(xp: ArrayModule, value: Array, *, shape: tuple[int, ...]) -> Array:
    """A value repeated to a shape, to which it must broadcast."""
    return xp.broadcast_to(value, shape)


_fill.gradients(lambda g, y, value, *, shape: sum_to_like(g, value))


def full_of_ints(shape: tuple[int, ...], value: Any, dtype: DType) -> Tensor | None:
    """`full` of a shape that is known to be of Python ints, on the CPU: 0, 1, or a float of floats.

    The usual calls come here, before what sizes and values there may be is looked at; for others it
    is `None`.
    """
    is_float = type(value) is float and dtype.dtype.kind == "f"
    if not (is_float or value == 0 or value == 1) or not all(
        map(shapes.ONLY_INTS.__contains__, map(type, shape))
    ):
        return None
    if min(shape, default=0) < 0 or math.prod(shape) > _MOST_AT_ONCE or current() is not CPU:
        return None
    if value == 0 and not (is_float and math.copysign(1, value) < 0):
        return wrap(np.zeros(shape, dtype.dtype))
    full_array = np.empty(shape, dtype.dtype)
    full_array.fill(value)
    return wrap(full_array)


def full(shape: Shape, fill_value: Any, dtype: DTypeLike | None = None) -> Tensor:
    """One value everywhere.

    Args:
        fill_value: a number or a tensor that broadcasts to `shape`; gradients flow to a tensor.

    Returns:
        A tensor of that shape.

    Raises:
        InvalidArgumentError: a size is negative or not known, or the value does not broadcast.

    Example:
        >>> tk.ops.full((2,), 7.0).numpy()
        array([7., 7.], dtype=float32)
    """
    fill_dtype = dtype_or_float(dtype)
    if is_later(shape):
        return broadcast_to(tensor_of(fill_value, fill_dtype), shape)
    dims = dims_of(shape, "full")
    if isinstance(fill_value, bool | int | float | complex | np.generic):
        return wrap(filled_on(current().xp, dims, fill_value, fill_dtype.dtype))
    return _fill(tensor_of(fill_value, fill_dtype), shape=dims)


def _like_rule(x: Spec, *, dtype: str | None, **settings: Any) -> Spec:
    return Spec(x.shape, x.dtype if dtype is None else dtype)


@primitive(_like_rule, name="zeros_like", semantics=CREATION, reads={0: SHAPE}, no_gradient=FLAT)
def _zeros_like(xp: ArrayModule, x: Array, *, dtype: str | None) -> Array:
    """Zeros in the shape of x."""
    return xp.zeros(x.shape, x.dtype if dtype is None else as_dtype(dtype).dtype)


@primitive(_like_rule, name="ones_like", semantics=CREATION, reads={0: SHAPE}, no_gradient=FLAT)
def _ones_like(xp: ArrayModule, x: Array, *, dtype: str | None) -> Array:
    """Ones in the shape of x."""
    return xp.ones(x.shape, x.dtype if dtype is None else as_dtype(dtype).dtype)


for _constant in (_zeros_like, _ones_like):
    _constant.declare(batch=BY_ELEMENT)


@primitive(
    lambda x, value: Spec(x.shape, value.dtype),
    name="full_like",
    semantics=CREATION,
    reads={0: SHAPE},
)
def _full_like(xp: ArrayModule, x: Array, value: Array) -> Array:
    """One value in the shape of x."""
    if xp is np and value.ndim == 0 and x.size:  # what `broadcast_to` gives, in a fifth of its time
        repeated = np.ndarray(x.shape, value.dtype, np.asarray(value), 0, (0,) * x.ndim)
        repeated.flags.writeable = False
        return repeated
    return xp.broadcast_to(value, x.shape)


_full_like.gradients(None, lambda g, y, x, value: sum_to_like(g, value))


def zeros_like(x: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    """Zeros in the shape of `x`, which may be known only later.

    Args:
        dtype: element type; by default that of `x`.

    Returns:
        A tensor of the shape of `x`, where `x` is.

    Example:
        >>> tk.ops.zeros_like([1, 2]).numpy()
        array([0, 0], dtype=int32)
    """
    return _zeros_like(x, dtype=None if dtype is None else as_dtype(dtype).name)


def ones_like(x: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    """Ones in the shape of `x`, which may be known only later.

    Args:
        dtype: element type; by default that of `x`.

    Returns:
        A tensor of the shape of `x`, where `x` is.

    Example:
        >>> tk.ops.ones_like([1, 2]).numpy()
        array([1, 1], dtype=int32)
    """
    return _ones_like(x, dtype=None if dtype is None else as_dtype(dtype).name)


def empty_like(x: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    """A tensor in the shape of `x` whose values mean nothing: zeros.

    Args:
        dtype: element type; by default that of `x`.

    Returns:
        A tensor of the shape of `x`, where `x` is.

    Example:
        >>> tk.ops.empty_like([1.0, 2.0]).shape
        TensorShape([2])
    """
    return zeros_like(x, dtype)


def full_like(x: TensorLike, fill_value: Any, dtype: DTypeLike | None = None) -> Tensor:
    """One value in the shape of `x`, which may be known only later.

    Args:
        fill_value: a number or a tensor that broadcasts to the shape of `x`.
        dtype: element type; by default that of `x`.

    Returns:
        A tensor of the shape of `x`.

    Example:
        >>> tk.ops.full_like([1, 2], 7).numpy()
        array([7, 7], dtype=int32)
    """
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    if dtype is None and type(x) is Tensor and type(fill_value) is float:
        if x._array.dtype.char in "fd":
            return _full_like(x, wrap(np.array(fill_value, x._array.dtype)))
    fill_dtype = x.dtype if dtype is None else as_dtype(dtype)
    return _full_like(x, tensor_of(fill_value, fill_dtype))


# ------------------------------------------------------------------ matrices


def _count(n: Any, name: str) -> Any:
    """A number of rows or columns; floats are refused, as those of Keras are."""
    if type(n) is int:
        return n
    if n is None:
        raise unknown_number("eye")
    kind = getattr(n, "dtype", type(n))
    is_int = isinstance(n, int) and kind is not bool
    if kind is float or not (is_int or dtypes.as_dtype(kind).is_integer):
        raise TypeError(f"eye: {name} must be an integer, got {n!r}")
    return n


def _matrix_spec(a: Bound) -> Spec:
    """The spec of a matrix of which a size is known only when the graph runs."""
    sizes = (a["N"], a["N"] if a["M"] is None else a["M"])
    return Spec(
        tuple(int(n) if isinstance(n, int) else None for n in sizes), dtype_or_float(a["dtype"])
    )


@needs_values("N", "M", "k", gives=_matrix_spec)
def eye(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    """Ones on a diagonal, zeros elsewhere.

    Returns:
        A tensor (N, M).

    Raises:
        InvalidArgumentError: a size is negative.

    Example:
        >>> tk.ops.eye(2).numpy()
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    rows, columns = dims_of((_count(N, "N"), N if M is None else _count(M, "M")), "eye")
    return wrap(
        current().xp.eye(rows, columns, whole_number(k, "eye", "k"), dtype_or_float(dtype).dtype)
    )


def identity(n: int, dtype: DTypeLike | None = None) -> Tensor:
    """The identity matrix (n, n).

    Args:
        n: number of rows, and of columns.

    Example:
        >>> tk.ops.identity(2).numpy()
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    return eye(n, dtype=dtype)


@needs_values("N", "M", "k", gives=_matrix_spec)
def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    """Ones at and below a diagonal, zeros above it.

    Returns:
        A tensor (N, M).

    Raises:
        InvalidArgumentError: a size is negative.

    Example:
        >>> tk.ops.tri(2).numpy()
        array([[1., 0.],
               [1., 1.]], dtype=float32)
    """
    rows, columns = dims_of((N, N if M is None else M), "tri")
    return wrap(
        current().xp.tri(rows, columns, whole_number(k, "tri", "k"), dtype_or_float(dtype).dtype)
    )


# ------------------------------------------------------------------ one hot


def _one_hot_rule(x: Spec, *, num_classes: int, axis: int, dtype: str) -> Spec:
    dims = list(x.shape)
    dims.insert(shapes.canonical_axis(axis, len(dims) + 1, "one_hot"), num_classes)
    return Spec(dims, dtype)


@primitive(
    _one_hot_rule,
    name="one_hot",
    semantics=CREATION,
    lowering=Absent("it counts up from number to number"),
    no_gradient=INTEGERS,
)
def _one_hot(xp: ArrayModule, x: Array, *, num_classes: int, axis: int, dtype: str) -> Array:
    """One where the class index equals the position on the new axis."""
    shapes.bounded("one_hot", *x.shape, num_classes)
    if xp is np and x.dtype.kind in "iu" and x.size * num_classes >= _FEWEST_WRITTEN:
        return _ones_written(x, num_classes, axis, as_dtype(dtype).dtype)
    classes = xp.arange(num_classes, dtype=np.int64)
    hot = xp.asarray(x)[..., None] == classes
    if axis != -1:
        hot = xp.moveaxis(hot, -1, shapes.canonical_axis(axis, hot.ndim, "one_hot"))
    return hot.astype(as_dtype(dtype).dtype)


_FEWEST_WRITTEN = 1 << 12
"""Elements from which on zeros with a few ones take less time than as many comparisons."""


def _ones_written(x: Any, num_classes: int, axis: int, dtype: Any) -> Any:
    """`_one_hot`, by zeros in which the ones are written."""
    hot = np.zeros((x.size, num_classes), dtype)
    classes = x.reshape(-1)
    rows = np.nonzero((classes >= 0) & (classes < num_classes))[0]
    hot[rows, classes[rows].astype(np.int64, copy=False)] = 1
    hot = hot.reshape(*x.shape, num_classes)
    return np.moveaxis(hot, -1, shapes.canonical_axis(axis, hot.ndim, "one_hot"))


_one_hot.declare(batch=ALONG_AXIS)


def _hot_spec(a: Bound) -> Spec:
    dims: list[int | None] = list(convert_to_tensor(a["x"]).shape)
    dims.insert(shapes.canonical_axis(a["axis"], len(dims) + 1, "one_hot"), None)
    return Spec(dims, dtype_or_float(a["dtype"]))


@needs_values("num_classes", gives=_hot_spec)
def one_hot(
    x: TensorLike,
    num_classes: int,
    axis: int = -1,
    dtype: DTypeLike | None = None,
    sparse: bool = False,
) -> Tensor:
    """Vectors with a one at the class index and zeros elsewhere; only zeros if it is out of range.

    Args:
        x: tensor of class indices; of floats the whole part counts.
        num_classes: size of the new axis.
        axis: where the new axis stands, the last place by default.
        sparse: only `False`; there are no sparse tensors.

    Returns:
        A tensor with one more axis than `x`.

    Raises:
        InvalidArgumentError: `x` has no numbers, or `sparse` is true.
        ShapeError: `axis` is out of range.

    Example:
        >>> tk.ops.one_hot([0, 2], 3).numpy()
        array([[1., 0., 0.],
               [0., 0., 1.]], dtype=float32)
    """
    if sparse:
        raise InvalidArgumentError(
            "one_hot: sparse=True is not supported; there are dense tensors only"
        )
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    if x.dtype.is_floating:  # as labels read from files are
        x = cast(x, "int32")
    elif not (x.dtype.is_integer or x.dtype.is_bool):
        raise InvalidArgumentError(
            f"one_hot: class indices must be integers, x has dtype {x.dtype.name}; use ops.cast"
        )
    if type(num_classes) is not int or num_classes < 0:
        (num_classes,) = dims_of(num_classes, "one_hot")
    return _one_hot(
        x,
        num_classes=num_classes,
        axis=whole_number(axis, "one_hot", "axis"),
        dtype=dtype_or_float(dtype).name,
    )


describe_arguments(
    globals(),
    """
    shape: an int or a sequence of ints.
    dtype: element type; by default the default float.
    x: tensor of any shape.
    N: number of rows.
    M: number of columns; by default `N`.
    k: which diagonal; 0 the main one, positive ones above it.
    """,
)
