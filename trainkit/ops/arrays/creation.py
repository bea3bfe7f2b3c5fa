"""New tensors: filled, like another, ranges and identity matrices.

Without a `dtype`, floats get the default float (`floatx()`, float32 unless changed) and ranges of
ints int32. New tensors are made on the current device; those like another are made where that one
is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule, current
from trainkit.core.dispatch.facets import (
    ALONG_AXIS,
    BY_ELEMENT,
    CREATION,
    FLAT,
    INTEGERS,
    NOT_YET,
    SHAPE,
    Absent,
    one_by_one,
)
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import DType, as_dtype
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor, wrap
from trainkit.core.values.python_values import short_text
from trainkit.ops.arrays.broadcasting import broadcast_to
from trainkit.ops.core.dynamic_shapes import Bound, is_later, needs_values
from trainkit.ops.math.elementwise import (
    add,
    cast,
    divide,
    multiply,
    subtract,
)
from trainkit.ops.math.reductions import sum as total
from trainkit.ops.math.reductions import sum_to_like

# ------------------------------------------------------------------ arguments


def dims_of(shape: Any, op: str) -> tuple[int, ...]:
    """`shape` (an int, a sequence of ints or integer tensors, or a 1-d tensor) as a tuple of ints.

    Raises:
        InvalidArgumentError: a size is negative or not known.
    """
    if hasattr(shape, "__index__") and not getattr(shape, "ndim", 0):
        shape = (shape,)
    dims = shape.numpy().tolist() if is_tensor(shape) else list(shape)
    if None in [d for d in dims if d is None]:
        raise InvalidArgumentError(
            f"{op}: the shape {tuple(dims)} has sizes that are not known yet; make the tensor with "
            f"{op}_like from one that has this shape"
        )
    sizes = tuple(int(d.__index__() if hasattr(d, "__index__") else d) for d in dims)
    if [n for n in sizes if n < 0]:
        raise InvalidArgumentError(f"{op}: the shape {sizes} has a negative size")
    shapes.bounded(op, *sizes)
    return sizes


def dtype_or_float(dtype: Any) -> DType:
    """`dtype`, or the default float for `None`."""
    return as_dtype(dtypes.floatx() if dtype is None else dtype)


# ------------------------------------------------------------------ filled


def _filled(op: str, shape: Any, dtype: Any) -> Tensor:
    make, wanted = getattr(current().xp, op), dtype_or_float(dtype).dtype
    try:
        return wrap(make(shape, wanted))
    except (TypeError, ValueError):  # a shape that NumPy does not know, or a wrong one
        if is_later(shape):
            return broadcast_to(wrap(current().xp.asarray(op == "ones", wanted)), shape)
        return wrap(make(dims_of(shape, op), wanted))


def zeros(shape: Any, dtype: Any = None) -> Tensor:
    """Zeros.

    Args:
        shape: an int or a sequence of ints.
        dtype: element type; by default the default float.

    Returns:
        A tensor of that shape.

    Raises:
        InvalidArgumentError: a size is negative or not known.
    """
    return _filled("zeros", shape, dtype)


def ones(shape: Any, dtype: Any = None) -> Tensor:
    """Ones.

    Args:
        shape: an int or a sequence of ints.
        dtype: element type; by default the default float.

    Returns:
        A tensor of that shape.

    Raises:
        InvalidArgumentError: a size is negative or not known.
    """
    return _filled("ones", shape, dtype)


def empty(shape: Any, dtype: Any = None) -> Tensor:
    """A tensor whose values are left as they were in memory.

    Args:
        shape: an int or a sequence of ints.
        dtype: element type; by default the default float.

    Returns:
        A tensor of that shape.

    Raises:
        InvalidArgumentError: a size is negative or not known.
    """
    return _filled("empty", shape, dtype)


@primitive(
    lambda value, *, shape: Spec(shape, value.dtype),
    name="fill",
    semantics=CREATION,
    lowering=Absent("its shape is known when it runs"),
)
def _fill(xp: ArrayModule, value: Array, *, shape: tuple[int, ...]) -> Array:
    """A value repeated to a shape, to which it must broadcast."""
    return xp.broadcast_to(value, shape)


def _fill_gradient(g: Tensor, y: Tensor, value: Tensor, *, shape: tuple[int, ...]) -> Tensor:
    return sum_to_like(g, value)  # type: ignore[no-any-return]


_fill.gradients(_fill_gradient)


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """One value everywhere.

    Args:
        shape: an int or a sequence of ints.
        fill_value: a number or a tensor that broadcasts to `shape`; gradients flow to a tensor.
        dtype: element type; by default the default float.

    Returns:
        A tensor of that shape.

    Raises:
        InvalidArgumentError: a size is negative or not known, or the value does not broadcast.
    """
    wanted = dtype_or_float(dtype)
    if is_later(shape):
        return broadcast_to(cast(fill_value, wanted), shape)
    dims = dims_of(shape, "full")
    if isinstance(fill_value, bool | int | float | complex | np.generic):
        return wrap(current().xp.full(dims, fill_value, wanted.dtype))
    return _fill(cast(fill_value, wanted), shape=dims)  # type: ignore[no-any-return]


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
    return xp.broadcast_to(value, x.shape)


def _full_like_gradient(g: Tensor, y: Tensor, x: Tensor, value: Tensor) -> Tensor:
    return sum_to_like(g, value)  # type: ignore[no-any-return]


_full_like.gradients(None, _full_like_gradient)


def zeros_like(x: Any, dtype: Any = None) -> Tensor:
    """Zeros in the shape of `x`, which may be known only later.

    Args:
        x: tensor of any shape.
        dtype: element type; by default that of `x`.

    Returns:
        A tensor of the shape of `x`, where `x` is.
    """
    return _zeros_like(x, dtype=None if dtype is None else as_dtype(dtype).name)  # type: ignore[no-any-return]


def ones_like(x: Any, dtype: Any = None) -> Tensor:
    """Ones in the shape of `x`, which may be known only later.

    Args:
        x: tensor of any shape.
        dtype: element type; by default that of `x`.

    Returns:
        A tensor of the shape of `x`, where `x` is.
    """
    return _ones_like(x, dtype=None if dtype is None else as_dtype(dtype).name)  # type: ignore[no-any-return]


def empty_like(x: Any, dtype: Any = None) -> Tensor:
    """A tensor in the shape of `x` whose values mean nothing: zeros.

    Args:
        x: tensor of any shape.
        dtype: element type; by default that of `x`.

    Returns:
        A tensor of the shape of `x`, where `x` is.
    """
    return zeros_like(x, dtype)


def full_like(x: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """One value in the shape of `x`, which may be known only later.

    Args:
        x: tensor of any shape.
        fill_value: a number or a tensor that broadcasts to the shape of `x`.
        dtype: element type; by default that of `x`.

    Returns:
        A tensor of the shape of `x`.
    """
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    wanted = x.dtype if dtype is None else as_dtype(dtype)
    return _full_like(x, cast(fill_value, wanted))  # type: ignore[no-any-return]


# ------------------------------------------------------------------ matrices


def _count(n: Any, name: str) -> Any:
    """A number of rows or columns; floats are refused, as those of Keras are."""
    kind = getattr(n, "dtype", type(n))
    if kind is float or not (kind is int or dtypes.as_dtype(kind).is_integer):
        raise TypeError(f"eye: {name} must be an integer, got {n!r}")
    return n


def _matrix_spec(a: Bound) -> Spec:
    """The spec of a matrix of which a size is known only when the graph runs."""
    sizes = (a["N"], a["N"] if a["M"] is None else a["M"])
    return Spec(
        tuple(int(n) if isinstance(n, int) else None for n in sizes), dtype_or_float(a["dtype"])
    )


@needs_values("N", "M", "k", gives=_matrix_spec)
def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Tensor:
    """Ones on a diagonal, zeros elsewhere.

    Args:
        N: number of rows.
        M: number of columns; by default `N`.
        k: which diagonal; 0 the main one, positive ones above it.
        dtype: element type; by default the default float.

    Returns:
        A tensor (N, M).

    Raises:
        InvalidArgumentError: a size is negative.
    """
    rows, columns = dims_of((_count(N, "N"), N if M is None else _count(M, "M")), "eye")
    return wrap(current().xp.eye(rows, columns, int(k), dtype_or_float(dtype).dtype))


def identity(n: int, dtype: Any = None) -> Tensor:
    """The identity matrix (n, n)."""
    return eye(n, dtype=dtype)


@needs_values("N", "M", "k", gives=_matrix_spec)
def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Tensor:
    """Ones at and below a diagonal, zeros above it.

    Args:
        N: number of rows.
        M: number of columns; by default `N`.
        k: which diagonal; 0 the main one, positive ones above it.
        dtype: element type; by default the default float.

    Returns:
        A tensor (N, M).

    Raises:
        InvalidArgumentError: a size is negative.
    """
    rows, columns = dims_of((N, N if M is None else M), "tri")
    return wrap(current().xp.tri(rows, columns, int(k), dtype_or_float(dtype).dtype))


# ------------------------------------------------------------------ ranges


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Tensor:
    """Numbers from `start` up to, not including, `stop`.

    Args:
        start: the first number; the end, with 0 as the first, when `stop` is left out.
        stop: the end.
        step: the distance between two numbers, 1 by default; negative to count down.
        dtype: element type; by default that to which the arguments promote, int32 for ints and the
            default float for floats.

    Returns:
        A 1-d tensor.

    Raises:
        InvalidArgumentError: `step` is 0.
    """
    if type(start) is int and stop is None and step is None and dtype is None and start < 2**31:
        return wrap(current().xp.arange(start, dtype=np.int32))
    given = [x for x in (start, stop, step) if x is not None]
    wanted = dtypes.result_type(*given) if dtype is None else as_dtype(dtype)
    if stop is None:
        start, stop = 0, start
    if any(isinstance(x, SymbolicTensor) for x in given):
        live: Tensor = _live_range(start, stop, 1 if step is None else step, dtype=wanted.name)
        return live
    bounds = [_number(x) for x in (start, stop, 1 if step is None else step)]
    if bounds[2] == 0:
        raise InvalidArgumentError("arange: step is 0, so the end is never reached")
    check_count(*bounds)
    if wanted.is_integer:
        return wrap(current().xp.arange(*bounds).astype(wanted.dtype))
    # Steps are counted in float64, so that no rounding adds an element.
    return wrap(current().xp.arange(*bounds, dtype=np.float64).astype(wanted.dtype))


def check_count(start: Any, stop: Any, step: Any) -> None:
    """Refuse bounds between which there are more numbers than a tensor holds."""
    span = abs(stop - start) // abs(step) if step else 0
    if span > 2**31 and span == span:  # not NaN, of which NumPy says what it is
        shapes.bounded("arange", int(span) if span < 2**63 else 2**63)


@primitive(
    lambda start, stop, step, dtype: Spec((None,), dtype),
    name="arange",
    semantics=CREATION,
    lowering=Absent("its shape is known when it runs"),
    graph_name="Range",
    no_gradient=INTEGERS,
)
def _live_range(xp: ArrayModule, start: Array, stop: Array, step: Array, *, dtype: str) -> Array:
    """Numbers between ends that are known only when a graph runs."""
    if not step:
        raise InvalidArgumentError("arange: step is 0, so the end is never reached")
    check_count(start.item(), stop.item(), step.item())
    return xp.arange(start.item(), stop.item(), step.item()).astype(as_dtype(dtype).dtype)


_live_range.declare(batch=one_by_one("items have different numbers of elements"))


def _number(x: Any) -> Any:
    if isinstance(x, int | float):
        return x
    array = x.numpy() if is_tensor(x) else np.asarray(x)
    if array.size != 1:
        raise InvalidArgumentError(f"arange: {short_text(x)} is not one number")
    return array.item()


def _linspace_spec(a: Bound) -> Any:
    ends = [convert_to_tensor(a[name]) for name in ("start", "stop")]
    wanted = dtypes.result_type(*ends, float) if a["dtype"] is None else as_dtype(a["dtype"])
    dims: list[int | None] = list(shapes.broadcast_dims(*(x.shape for x in ends), op="linspace"))
    step = Spec(dims, shapes.float_dtype(wanted))
    dims.insert(shapes.canonical_axis(a["axis"], len(dims) + 1, "linspace"), None)
    return (Spec(dims, wanted), step) if a["retstep"] else Spec(dims, wanted)


@needs_values("num", gives=_linspace_spec)
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Evenly spaced numbers from `start` to `stop`.

    Args:
        start: one end, a number or a tensor.
        stop: the other end, whose shape broadcasts with that of `start`.
        num: how many numbers, at least 0.
        endpoint: whether `stop` is the last of them.
        retstep: give the distance between two of them as well.
        dtype: element type; by default the float to which the ends promote.
        axis: where the new axis stands, for ends that are no scalars.

    Returns:
        A tensor with an axis of size `num`; with `retstep` a pair of it and the step.

    Raises:
        InvalidArgumentError: `num` is negative.
    """
    if num < 0:
        raise InvalidArgumentError(f"linspace: num={num} is negative")
    ends = [x if isinstance(x, int | float) else convert_to_tensor(x) for x in (start, stop)]
    wanted = dtypes.result_type(*ends, float) if dtype is None else as_dtype(dtype)
    low, high = (cast(x, shapes.float_dtype(wanted)) for x in ends)
    values, step = _linspace(
        low, high, num=int(num), endpoint=bool(endpoint), axis=int(axis), dtype=wanted.name
    )
    return (values, step) if retstep else values


def _linspace_rule(
    start: Spec, stop: Spec, *, num: int, endpoint: bool, axis: int, dtype: str
) -> tuple[Spec, Spec]:
    dims = list(shapes.broadcast_dims(start.shape, stop.shape, op="linspace"))
    place = shapes.canonical_axis(axis, len(dims) + 1, "linspace")
    step = Spec(dims, start.dtype)
    dims.insert(place, num)
    return Spec(dims, dtype), step


@primitive(
    _linspace_rule,
    name="linspace",
    semantics=CREATION,
    lowering=Absent("it counts up from number to number"),
    export=NOT_YET,
)
def _linspace(
    xp: ArrayModule, start: Array, stop: Array, *, num: int, endpoint: bool, axis: int, dtype: str
) -> tuple[Array, Array]:
    """Evenly spaced numbers and their distance."""
    shapes.bounded("linspace", num, *start.shape, *stop.shape)
    parts = num - 1 if endpoint else num
    step = (stop - start) / parts if parts else (stop - start) * xp.nan
    rank = len(step.shape)
    position = xp.arange(num, dtype=start.dtype).reshape((num,) + (1,) * rank)
    values = start + position * (step if parts else 0)
    if endpoint and num > 1:
        values[-1] = stop  # the last one exactly
    values = xp.moveaxis(values, 0, shapes.canonical_axis(axis, rank + 1, "linspace"))
    return values.astype(as_dtype(dtype).dtype, copy=False), xp.asarray(step)


def _linspace_gradient(
    g: tuple[Tensor, Tensor],
    y: Any,
    start: Tensor,
    stop: Tensor,
    *,
    num: int,
    endpoint: bool,
    axis: int,
    dtype: str,
) -> tuple[Tensor, Tensor]:
    values, step = g
    parts = (num - 1 if endpoint else num) or 1
    rank = len(y[0].shape)
    place = shapes.canonical_axis(axis, rank, "linspace")
    dims = tuple(num if i == place else 1 for i in range(rank))
    share = np.reshape(np.arange(num) / parts, dims)
    by_stop = cast(share, values.dtype)
    upper = add(total(multiply(values, by_stop), axis=place), divide(step, parts))
    lower = subtract(total(multiply(values, subtract(1, by_stop)), axis=place), divide(step, parts))
    return sum_to_like(lower, start), sum_to_like(upper, stop)


_linspace.joint_gradient(_linspace_gradient)


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
    classes = xp.arange(num_classes, dtype=np.int64)
    hot = xp.asarray(x)[..., None] == classes
    if axis != -1:
        hot = xp.moveaxis(hot, -1, shapes.canonical_axis(axis, hot.ndim, "one_hot"))
    return hot.astype(as_dtype(dtype).dtype)


_one_hot.declare(batch=ALONG_AXIS)


def _hot_spec(a: Bound) -> Spec:
    dims: list[int | None] = list(convert_to_tensor(a["x"]).shape)
    dims.insert(shapes.canonical_axis(a["axis"], len(dims) + 1, "one_hot"), None)
    return Spec(dims, dtype_or_float(a["dtype"]))


@needs_values("num_classes", gives=_hot_spec)
def one_hot(
    x: Any, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False
) -> Tensor:
    """Vectors with a one at the class index and zeros elsewhere; only zeros if it is out of range.

    Args:
        x: tensor of class indices; of floats the whole part counts.
        num_classes: size of the new axis.
        axis: where the new axis stands, the last place by default.
        dtype: element type; by default the default float.
        sparse: only `False`; there are no sparse tensors.

    Returns:
        A tensor with one more axis than `x`.

    Raises:
        InvalidArgumentError: `x` has no numbers, or `sparse` is true.
        ShapeError: `axis` is out of range.
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
    return _one_hot(  # type: ignore[no-any-return]
        x, num_classes=num_classes, axis=int(axis), dtype=dtype_or_float(dtype).name
    )
