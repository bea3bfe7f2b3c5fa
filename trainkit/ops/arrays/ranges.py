"""Evenly spaced numbers: arange and linspace."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import CPU, Array, ArrayModule, current
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.facets import CREATION, INTEGERS, SIZE_AT_RUN, Absent, one_by_one
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor, wrap
from trainkit.core.values.python_values import short_text
from trainkit.core.values.type_aliases import DTypeLike, TensorLike
from trainkit.ops.arrays.shaping import known_number, unknown_number
from trainkit.ops.core.axis_numbers import whole_number
from trainkit.ops.core.dynamic_shapes import Bound, needs_values
from trainkit.ops.math.elementwise import add, cast, divide, multiply, subtract, tensor_of
from trainkit.ops.math.reductions import sum as total
from trainkit.ops.math.reductions import sum_to_like


def arange(
    start: TensorLike,
    stop: TensorLike | None = None,
    step: Any = None,
    dtype: DTypeLike | None = None,
) -> Tensor:
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
        InvalidArgumentError: `step` is 0, or `start` is `None`.

    Example:
        >>> tk.ops.arange(0, 6, 2).numpy()
        array([0, 2, 4], dtype=int32)
    """
    if type(start) is int and stop is None and step is None and dtype is None and start < 2**31:
        return wrap(current().xp.arange(start, dtype=np.int32))
    if start is None:
        raise unknown_number("arange")
    start, stop, step = (_now(x) for x in (start, stop, step))
    numbers = [x for x in (start, stop, step) if x is not None]
    result_dtype = dtypes.result_type(*numbers) if dtype is None else as_dtype(dtype)
    if stop is None:
        start, stop = 0, start
    if any(isinstance(x, SymbolicTensor) for x in numbers):
        live: Tensor = _live_range(
            start, stop, 1 if step is None else step, dtype=result_dtype.name
        )
        return live
    bounds = [_number(x) for x in (start, stop, 1 if step is None else step)]
    if bounds[2] == 0:
        raise InvalidArgumentError("arange: step is 0, so the end is never reached")
    check_count(*bounds)
    if result_dtype.is_integer:
        return wrap(current().xp.arange(*bounds).astype(result_dtype.dtype))
    # Steps are counted in float64, so that no rounding adds an element.
    return wrap(current().xp.arange(*bounds, dtype=np.float64).astype(result_dtype.dtype))


def _now(x: Any) -> Any:
    """`x`, or the value that a variable has at this place of a graph."""
    return x.value() if hasattr(type(x), "_is_variable") else x


def check_count(start: Any, stop: Any, step: Any) -> None:
    """Refuse bounds between which there are more numbers than a tensor holds."""
    span = abs(stop - start) // abs(step) if step else 0
    if span > 2**31 and span == span:  # not NaN, of which NumPy says what it is
        shapes.bounded("arange", int(span) if span < 2**63 else 2**63)


@primitive(
    lambda start, stop, step, dtype: Spec((None,), dtype),
    name="arange",
    semantics=CREATION,
    lowering=SIZE_AT_RUN,
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
    result_dtype = dtypes.result_type(*ends, float) if a["dtype"] is None else as_dtype(a["dtype"])
    dims: list[int | None] = list(shapes.broadcast_dims(*(x.shape for x in ends), op="linspace"))
    step = Spec(dims, shapes.float_dtype(result_dtype))
    dims.insert(shapes.canonical_axis(a["axis"], len(dims) + 1, "linspace"), None)
    return (Spec(dims, result_dtype), step) if a["retstep"] else Spec(dims, result_dtype)


@overload
def linspace(
    start: TensorLike,
    stop: TensorLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: Literal[False] = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Tensor: ...
@overload
def linspace(
    start: TensorLike,
    stop: TensorLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Any: ...
@needs_values("num", gives=_linspace_spec)
def linspace(
    start: TensorLike,
    stop: TensorLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
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

    Example:
        >>> tk.ops.linspace(0.0, 1.0, 5).numpy()
        array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    if dtype is None and endpoint is True and retstep is False and axis == 0:
        line = _line_between(start, stop, num)
        if line is not None:
            return line
    num = known_number(num, "linspace")
    if num < 0:
        raise InvalidArgumentError(f"linspace: num={num} is negative")
    ends = [x if isinstance(x, int | float) else convert_to_tensor(x) for x in (start, stop)]
    result_dtype = dtypes.result_type(*ends, float) if dtype is None else as_dtype(dtype)
    low, high = (tensor_of(x, shapes.float_dtype(result_dtype)) for x in ends)
    values, step = _linspace(
        low,
        high,
        size=num,
        endpoint=bool(endpoint),
        axis=whole_number(axis, "linspace", "axis"),
        dtype=result_dtype.name,
    )
    return (values, step) if retstep else values


_LARGEST = 1e30
"""Ends beyond are left to the operation, which deals with what overflows."""


def _line_between(start: Any, stop: Any, count: Any) -> Tensor | None:
    """`linspace` of Python floats on the CPU, or `None`: with the bits of the operation."""
    if not (type(start) is type(stop) is float and type(count) is int and count > 1):
        return None
    if not (-_LARGEST < start < _LARGEST and -_LARGEST < stop < _LARGEST and count < 2**31):
        return None
    if trace_state.THREAD.traces or current() is not CPU:
        return None
    low, high = np.float32(start), np.float32(stop)
    values = np.arange(count, dtype=np.float32)
    values *= (high - low) / (count - 1)
    values += low
    values[-1] = high  # exactly
    return wrap(values)


def _linspace_rule(
    start: Spec, stop: Spec, *, size: int, endpoint: bool, axis: int, dtype: str
) -> tuple[Spec, Spec]:
    dims = list(shapes.broadcast_dims(start.shape, stop.shape, op="linspace"))
    axis_index = shapes.canonical_axis(axis, len(dims) + 1, "linspace")
    step = Spec(dims, start.dtype)
    dims.insert(axis_index, size)
    return Spec(dims, dtype), step


@primitive(
    _linspace_rule,
    name="linspace",
    semantics=CREATION,
    lowering=Absent("it counts up from number to number"),
)
def _linspace(
    xp: ArrayModule, start: Array, stop: Array, *, size: int, endpoint: bool, axis: int, dtype: str
) -> tuple[Array, Array]:
    """Evenly spaced numbers and their distance."""
    shapes.bounded("linspace", size, *start.shape, *stop.shape)
    parts = size - 1 if endpoint else size
    step = (stop - start) / parts if parts else (stop - start) * xp.nan
    rank = len(step.shape)
    position = xp.arange(size, dtype=start.dtype).reshape((size,) + (1,) * rank)
    values = start + position * (step if parts else 0)
    if endpoint and size > 1:
        values[-1] = stop  # the last one exactly
    axis_index = shapes.canonical_axis(axis, rank + 1, "linspace")
    if axis_index:
        values = xp.moveaxis(values, 0, axis_index)
    return values.astype(as_dtype(dtype).dtype, copy=False), xp.asarray(step)


def _linspace_gradient(
    g: tuple[Tensor, Tensor],
    y: Any,
    start: Tensor,
    stop: Tensor,
    *,
    size: int,
    endpoint: bool,
    axis: int,
    dtype: str,
) -> tuple[Tensor, Tensor]:
    values, step = g
    parts = (size - 1 if endpoint else size) or 1
    rank = len(y[0].shape)
    axis_index = shapes.canonical_axis(axis, rank, "linspace")
    dims = tuple(size if i == axis_index else 1 for i in range(rank))
    share = np.reshape(np.arange(size) / parts, dims)
    by_stop = cast(share, values.dtype)
    upper = add(total(multiply(values, by_stop), axis=axis_index), divide(step, parts))
    lower = subtract(
        total(multiply(values, subtract(1, by_stop)), axis=axis_index), divide(step, parts)
    )
    return sum_to_like(lower, start), sum_to_like(upper, stop)


_linspace.joint_gradient(_linspace_gradient)
