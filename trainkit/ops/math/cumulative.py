"""Running sums and products along an axis, products along axes, and linear recurrences.

The gradient of a product is made of running products and of a recurrence, without a division, so it
is right where elements are 0, to any order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS, CALL_FLOATS, FUNCTION_NANOSECONDS
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import AXIS, NO_REDUCTION, REDUCTION, Direct, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import Axis, DTypeLike, TensorLike
from trainkit.kernels.elementwise.half_casts_tuned import cast_array
from trainkit.kernels.reductions.reductions_tuned import FEWEST_RUNNING, axis_product, is_turned
from trainkit.kernels.reductions.reductions_tuned import running_sum as compiled_sum
from trainkit.kernels.reductions.scans_tuned import recurrence, scan
from trainkit.ops.arrays.creation import ones_like
from trainkit.ops.arrays.shaping import ravel
from trainkit.ops.core.axis_numbers import whole_number
from trainkit.ops.math.elementwise import along, cast, conjugated, exp, multiply, subtract
from trainkit.ops.math.reductions import (
    axis_setting,
    check_axes,
    spread,
    summed_dtype,
    wide_sum_dtype,
)

# An exponential and a logarithm, waited for, against a call of NumPy.
_BROAD = round(CALL_FLOATS * 8 * BYTE_NANOSECONDS / (2 * FUNCTION_NANOSECONDS))

# ------------------------------------------------------------------ running sums


def _along_axis(n: int, cut: slice, axis: int) -> tuple[slice, ...]:
    """An index that is `cut` along `axis` of `n` and everything along the others."""
    return tuple(cut if i == axis else slice(None) for i in range(n))


def _accumulate(
    xp: ArrayModule, step: Any, x: Array, start: Any, axis: int, exclusive: bool, reverse: bool
) -> Array:
    """Results of `step` over all elements up to each, or before each when `exclusive`."""
    flipped = xp.flip(x, axis) if reverse else x
    result = step(flipped, axis=axis)
    if exclusive:
        shifted = xp.full_like(result, start)
        rank, axis_index = result.ndim, axis % result.ndim
        shifted[_along_axis(rank, slice(1, None), axis_index)] = result[
            _along_axis(rank, slice(None, -1), axis_index)
        ]
        result = shifted
    return xp.flip(result, axis) if reverse else result


def _accumulate_once_rounded(
    xp: ArrayModule, function: Any, x: Array, start: Any, axis: int, exclusive: bool, reverse: bool
) -> Array:
    """`_accumulate` by `cumsum` or `cumprod`, of halves in float32."""
    wide_dtype = wide_sum_dtype(x.dtype) or x.dtype

    def step(values: Array, axis: int) -> Array:
        # CuPy's take no bfloat16
        return function(values.astype(wide_dtype, copy=False), axis=axis, dtype=wide_dtype)

    return _accumulate(xp, step, x, start, axis, exclusive, reverse).astype(x.dtype, copy=False)


def _cumulative_rule(x: Spec, *, axis: int, exclusive: bool, reverse: bool) -> Spec:
    shapes.canonical_axis(axis, len(x.shape), "cumulative sum")
    return Spec(x.shape, x.dtype)


def _compiled_sum(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array | None:
    if is_turned(x):
        y = _compiled_sum(x.T, axis=-1 - axis, exclusive=exclusive, reverse=reverse)
        return None if y is None else y.T
    if wide_sum_dtype(x.dtype) is not None:  # as the body does
        floats = cast_array(x, wide_sum_dtype(x.dtype))
        y = _compiled_sum(floats, axis=axis, exclusive=exclusive, reverse=reverse)
        return None if y is None else cast_array(y, x.dtype)
    if exclusive or reverse:
        return scan(x, axis, False, reverse, exclusive)
    return compiled_sum(x, axis) if -x.ndim <= axis < x.ndim else None


@primitive(
    _cumulative_rule,
    name="cumsum",
    semantics=AXIS,
    tuned=Tuned(_compiled_sum, exact=True, fewest=FEWEST_RUNNING),
    direct=Direct("running", (False,)),
)
def running_sum(xp: ArrayModule, x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Sum of all elements up to each, or before each when exclusive; in reverse from the end."""
    check_axes(x, axis, "cumsum")
    return _accumulate_once_rounded(xp, xp.cumsum, x, 0, axis, exclusive, reverse)


running_sum.gradients(
    lambda g, y, x, *, axis, exclusive, reverse: running_sum(
        g, axis=axis, exclusive=exclusive, reverse=not reverse
    )
)


def _compiled_product(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array | None:
    return scan(x, axis, True, reverse, exclusive)


@primitive(
    _cumulative_rule,
    name="cumprod",
    semantics=AXIS,
    tuned=Tuned(_compiled_product, exact=True, fewest=FEWEST_RUNNING),
    direct=Direct("running", (True,)),
)
def running_product(
    xp: ArrayModule, x: Array, *, axis: int, exclusive: bool, reverse: bool
) -> Array:
    """Product of all elements along an axis up to each; before each when exclusive."""
    check_axes(x, axis, "cumprod")
    return _accumulate_once_rounded(xp, xp.cumprod, x, 1, axis, exclusive, reverse)


def _recurrence_rule(a: Spec, b: Spec, *, axis: int, reverse: bool) -> Spec:
    return Spec(b.shape, b.dtype)


def _compiled_recurrence(a: Array, b: Array, *, axis: int, reverse: bool) -> Array | None:
    return recurrence(a, b, axis, reverse)


@primitive(_recurrence_rule, semantics=AXIS, tuned=Tuned(_compiled_recurrence, exact=True))
def linear_recurrence(xp: ArrayModule, a: Array, b: Array, *, axis: int, reverse: bool) -> Array:
    """Solution of r[i] = b[i] + a[i] r[i - 1] along an axis, r[-1] = 0; in reverse from the end."""
    result = xp.empty_like(b)
    out, factors, terms = (xp.moveaxis(v, axis, 0) for v in (result, a, b))
    order = range(len(terms))
    previous = xp.zeros(terms.shape[1:], b.dtype)
    for i in reversed(order) if reverse else order:
        previous = terms[i] + factors[i] * previous
        out[i] = previous
    return result


@primitive(lambda x, *, axis, reverse: Spec(x.shape, x.dtype), semantics=AXIS)
def shift_along(xp: ArrayModule, x: Array, *, axis: int, reverse: bool) -> Array:
    """Each element one place later, with 0 in the first place; one place earlier in reverse."""
    result = xp.zeros_like(x)
    rank, axis_index = x.ndim, axis % x.ndim
    early = _along_axis(rank, slice(None, -1), axis_index)
    late = _along_axis(rank, slice(1, None), axis_index)
    if reverse:
        result[early] = x[late]
    else:
        result[late] = x[early]
    return result


shift_along.gradients(
    lambda g, y, x, *, axis, reverse: shift_along(g, axis=axis, reverse=not reverse)
)
shift_along.declare(stackable=True)


def _recurrence_gradient(
    g: Tensor, y: Tensor, a: Tensor, b: Tensor, *, axis: int, reverse: bool
) -> tuple[Tensor, Tensor]:
    # What reaches r[i] goes on to r[i + 1] by a[i + 1]: the same recurrence, run the other way.
    onwards = shift_along(conjugated(a), axis=axis, reverse=not reverse)
    by_b = linear_recurrence(onwards, g, axis=axis, reverse=not reverse)
    before = shift_along(y, axis=axis, reverse=reverse)
    return along(by_b, before), by_b


linear_recurrence.joint_gradient(_recurrence_gradient)


def _product_gradient(
    g: Tensor, y: Tensor, x: Tensor, *, axis: int, exclusive: bool, reverse: bool
) -> Tensor:
    # y[i] for i >= j is x[j] times what came before j times what came between j and i.
    before = running_product(x, axis=axis, exclusive=True, reverse=reverse)
    if exclusive:
        g = shift_along(g, axis=axis, reverse=not reverse)
    onwards = shift_along(conjugated(x), axis=axis, reverse=not reverse)
    after = linear_recurrence(onwards, g, axis=axis, reverse=not reverse)
    return along(after, before)


running_product.gradients(_product_gradient)


def _prepare(x: Any, axis: int | None, dtype: Any, op: str) -> tuple[Tensor, int]:
    """`x` in the dtype of the result, flattened for `axis=None`, and the axis."""
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    if dtype is not None:
        x = cast(x, dtype)
    elif x.dtype.is_bool:
        x = cast(x, "int32")
    if axis is None:
        return ravel(x), 0
    return x, whole_number(axis, op, "axis")


def cumsum(x: TensorLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Sum of all elements along `axis` up to and including each.

    Args:
        x: tensor of any shape.
        axis: an int, or `None` to flatten `x` first.
        dtype: element type of the result; by default that of `x`, int32 for bools.

    Returns:
        A tensor of the shape of `x`, or 1-d.

    Raises:
        ShapeError: the axis is out of range.

    Example:
        >>> tk.ops.cumsum([1.0, 2.0, 3.0]).numpy()
        array([1., 3., 6.], dtype=float32)
    """
    x, axis_index = _prepare(x, axis, dtype, "cumsum")
    return running_sum(x, axis=axis_index, exclusive=False, reverse=False)


def cumprod(x: TensorLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Product of all elements along `axis` up to and including each.

    Args:
        x: tensor of any shape.
        axis: an int, or `None` to flatten `x` first.
        dtype: element type of the result; by default that of `x`, int32 for bools.

    Returns:
        A tensor of the shape of `x`, or 1-d.

    Raises:
        ShapeError: the axis is out of range.

    Example:
        >>> tk.ops.cumprod([1.0, 2.0, 3.0]).numpy()
        array([1., 2., 6.], dtype=float32)
    """
    x, axis_index = _prepare(x, axis, dtype, "cumprod")
    return running_product(x, axis=axis_index, exclusive=False, reverse=False)


@primitive(_cumulative_rule, name="cumulative_logsumexp", semantics=AXIS)
def running_logsumexp(
    xp: ArrayModule, x: Array, *, axis: int, exclusive: bool, reverse: bool
) -> Array:
    """Logarithm of the running sum of exponentials, without overflow."""
    check_axes(x, axis, "cumulative_logsumexp")

    def step(values: Array, axis: int) -> Array:
        # a call for each row, or number by number, where each waits for the one before it
        if xp is np and values.size < _BROAD * values.shape[axis]:
            return np.logaddexp.accumulate(values, axis=axis)
        rows = xp.moveaxis(values, axis, 0)
        out = xp.empty_like(rows)
        running = xp.full(rows.shape[1:], -np.inf, rows.dtype)
        for i, row in enumerate(rows):
            running = out[i] = xp.logaddexp(running, row)
        return xp.moveaxis(out, 0, axis)

    return _accumulate(xp, step, x, -np.inf, axis, exclusive, reverse)


def _logsumexp_gradient(
    g: Tensor, y: Tensor, x: Tensor, *, axis: int, exclusive: bool, reverse: bool
) -> Tensor:
    # y[i] = log(exp(y[i - 1]) + exp(x[i])), so x[i] has the share exp(x[i] - y[i]) in y[i] and what
    # came before has the `earlier_share`, 1 less it; the share of x[j] in a later y[i] is a product
    # of these, which a recurrence sums up.
    if exclusive:
        g = shift_along(g, axis=axis, reverse=not reverse)
        y = running_logsumexp(x, axis=axis, exclusive=False, reverse=reverse)
    own = exp(subtract(x, y))
    earlier_share = shift_along(subtract(1, own), axis=axis, reverse=not reverse)
    return multiply(own, linear_recurrence(earlier_share, g, axis=axis, reverse=not reverse))


running_logsumexp.gradients(_logsumexp_gradient)


def cumulative_logsumexp(
    x: TensorLike, axis: int = 0, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    """log(cumsum(exp(x))) along `axis`, without overflow.

    Args:
        x: tensor of any shape.
        axis: an int.
        exclusive: leave the element itself out; the first result is minus infinity.
        reverse: sum from the end.

    Returns:
        A float tensor of the shape of `x`.

    Raises:
        ShapeError: the axis is out of range.

    Example:
        >>> tk.ops.cumulative_logsumexp([0.0, 0.0]).numpy().round(4)
        array([0.    , 0.6931], dtype=float32)
    """
    x = x if isinstance(x, Tensor) else convert_to_tensor(x)
    return running_logsumexp(
        cast(x, shapes.float_dtype(x.dtype)),
        axis=whole_number(axis, "cumulative_logsumexp", "axis"),
        exclusive=bool(exclusive),
        reverse=bool(reverse),
    )


# ------------------------------------------------------------------ products along axes


@primitive(
    lambda x, *, axis, keepdims: Spec(
        shapes.reduced_dims(x.shape, axis, keepdims), summed_dtype(x.dtype)
    ),
    name="prod",
    semantics=REDUCTION,
    lowering=NO_REDUCTION,
    tuned=Tuned(axis_product, fewest=CALL_FLOATS),
    direct=Direct("reduction", (np.multiply,)),
)
def _prod(xp: ArrayModule, x: Array, *, axis: Any, keepdims: bool) -> Array:
    """Product along axes."""
    check_axes(x, axis, "prod")
    dtype = summed_dtype(dtypes.as_dtype(x.dtype)).dtype
    wide_dtype = wide_sum_dtype(dtype) or dtype
    return xp.prod(x, axis=axis, dtype=wide_dtype, keepdims=keepdims).astype(dtype, copy=False)


def _prod_gradient(g: Tensor, y: Tensor, x: Tensor, *, axis: Any, keepdims: bool) -> Tensor:
    axes = shapes.canonical_axes(axis, len(x.shape), "prod")
    spread_out = spread(g, x, axis=axes, keepdims=keepdims, mean=False)
    return along(spread_out, _product_of_others(x, axes))


def _product_of_others(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """For each element the product of all others along `axes`."""
    result: Any = None
    inner = x
    for axis in axes:
        before = running_product(inner, axis=axis, exclusive=True, reverse=False)
        after = running_product(inner, axis=axis, exclusive=True, reverse=True)
        others = multiply(before, after)
        result = others if result is None else multiply(result, others)
        inner = _prod(inner, axis=axis, keepdims=True)
    return ones_like(x) if result is None else result


_prod.gradients(_prod_gradient)


def prod(
    x: TensorLike, axis: Axis | None = None, keepdims: bool = False, dtype: DTypeLike | None = None
) -> Tensor:
    """Product of elements along `axis`.

    Args:
        x: tensor of any shape.
        axis: int, sequence of ints, or `None` for all axes.
        keepdims: keep the reduced axes with size 1.
        dtype: element type of the result; by default that of `x`, with integers under 32 bits grown
            to 32.

    Returns:
        A tensor; the product of nothing is 1.

    Raises:
        ShapeError: an axis is out of range or named twice.

    Example:
        >>> float(tk.ops.prod([2.0, 3.0, 4.0]))
        24.0
    """
    if dtype is not None:
        x = cast(x, dtype)
    result = _prod(x, axis=axis_setting(axis), keepdims=keepdims)
    return result if dtype is None else cast(result, dtype)
