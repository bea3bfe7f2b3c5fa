"""Batching rules of fused normalizations, and of LSTM and GRU.

To a normalization of a batch, items are one more axis of features; to one of layers, and to a
recurrence, they are further samples. Sums over the samples of each item are then made apart.
"""

from __future__ import annotations

from typing import Any

from trainkit.core.dispatch import late_ops
from trainkit.ops.arrays.axes import expand_dims, swap_last_axes
from trainkit.ops.arrays.shaping import reshape
from trainkit.ops.core.vmap import ItemStack, any_stacks, reshaped, stack_like, stacked
from trainkit.ops.linear_algebra.matmul import matmul
from trainkit.ops.math.elementwise import add, multiply
from trainkit.ops.math.reductions import sum as total
from trainkit.ops.neural.fused_normalization import (
    fused_normalization,
    fused_normalization_gradient,
    parameter_shape,
)
from trainkit.ops.neural.group_normalization import (
    grouped_normalization,
    grouped_normalization_gradient,
)
from trainkit.ops.neural.recurrence import _gru, _lstm, gru_gradient, lstm_gradient
from trainkit.ops.vmap_rules.shared_rules import (
    by_formula,
    folded,
    with_one_batch,
    with_two_batches,
)

# ------------------------------------------------------------------ normalization


@fused_normalization.batch_by
def _normalized_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """For a batch the item is one more axis of features; for layers one more axis of samples."""
    x, scale, offset = inputs
    if settings["over_batch"]:
        return primitive.op(*[stacked(v, count) for v in inputs], **_with_items_axis(settings))
    if isinstance(scale, ItemStack) or isinstance(offset, ItemStack):
        return _scaled_apart(primitive, inputs, settings, count)
    return primitive.op(x.stacked, scale, offset, **_move_up(settings))


def _move_up(settings: dict[str, Any]) -> dict[str, Any]:
    return {**settings, "axis": tuple(a + 1 for a in settings["axis"])}


def _with_items_axis(settings: dict[str, Any]) -> dict[str, Any]:
    return {**settings, "axis": (0, *_move_up(settings)["axis"])}


def _for_features(parameter: Any, x: Any, axis: Any) -> Any:
    """A parameter with axes of size 1 where `x` has others than its features."""
    return reshape(parameter, parameter_shape(x, _axes(axis)))


def _axes(axis: int | tuple[int, ...]) -> tuple[int, ...]:
    return axis if isinstance(axis, tuple) else (axis,)


def _scaling_rule(normalization: Any) -> Any:
    """The rule of a normalization whose items differ in how they are scaled."""

    @by_formula
    def rule(x: Any, scale: Any, offset: Any, **settings: Any) -> Any:
        y = normalization(x, None, None, **settings)
        if scale is not None:
            y = multiply(y, _for_features(scale, x, settings["axis"]))
        return y if offset is None else add(y, _for_features(offset, x, settings["axis"]))

    return rule


def _vector_sums(normalization: Any) -> Any:
    """The gradients by scale and offset of a normalization of each sample, for one item."""

    def sums(g: Any, x: Any, **settings: Any) -> Any:
        axes = _axes(settings["axis"])
        outer = tuple(i for i in range(len(x.shape)) if i not in axes)
        normal = normalization(x, None, None, **settings)
        return total(multiply(g, normal), outer), total(g, outer)

    return sums


_scaled_apart, _scale_groups = map(_scaling_rule, (fused_normalization, grouped_normalization))
_sums_of_one, _sums_of_groups_of_one = map(
    _vector_sums, (fused_normalization, grouped_normalization)
)
_sums, _sums_of_groups = map(by_formula, (_sums_of_one, _sums_of_groups_of_one))


@fused_normalization_gradient.batch_by
def _gradient_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """For layers the sums over samples are made apart, as the operation would sum over items."""
    if settings["over_batch"]:
        return primitive.op(*[stacked(v, count) for v in inputs], **_with_items_axis(settings))
    g, x, scale = inputs[:3]
    axis = settings["axis"]
    if isinstance(g, ItemStack) or isinstance(x, ItemStack):
        by_scale, by_offset = _sums(primitive, (g, x), settings, count)
    else:  # the items differ in the scale alone
        by_scale, by_offset = (stacked(part, count) for part in _sums_of_one(g, x, **settings))
    upstream = stacked(g, count)
    if isinstance(scale, ItemStack):
        dims = tuple(n if i in axis else 1 for i, n in enumerate(x.shape))
        upstream, scale = multiply(upstream, reshaped(scale.stacked, (count, *dims))), None
    operands = upstream, stacked(x, count), scale, None, None
    return primitive.op(*operands, **_move_up(settings))[0], by_scale, by_offset


@grouped_normalization.batch_by
def _stack_in_groups(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """Items are further samples, which are scaled apart where the items differ in that."""
    differs = any(isinstance(v, ItemStack) for v in inputs[1:])
    return (_scale_groups if differs else folded(0))(primitive, inputs, settings, count)


@grouped_normalization_gradient.batch_by
def _gradient_stack_in_groups(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """Items are further samples, whose sums are made apart."""
    g, x, scale = inputs
    if isinstance(scale, ItemStack):
        return _gradient_of_scales(primitive, inputs, settings, count)
    samples = with_one_batch(g, count), with_one_batch(x, count)
    by_x = with_two_batches(primitive.op(*samples, scale, **settings)[0], count)
    return by_x, *_sums_of_groups(primitive, (g, x), settings, count)


@by_formula
def _gradient_of_scales(g: Any, x: Any, scale: Any, **settings: Any) -> Any:
    weighted = multiply(g, _for_features(scale, x, settings["axis"]))
    by_x = grouped_normalization_gradient(weighted, x, None, **settings)[0]
    return by_x, *_sums_of_groups_of_one(g, x, **settings)


# ------------------------------------------------------------------ recurrence

_lstm.batch_by(folded(0, 1, 2))
_gru.batch_by(folded(0, 1))


def _earlier(first: Any, states: Any) -> Any:
    """The state before each step, (batch, steps, units)."""
    return _side_by_side(expand_dims(first, 1), states[:, :-1], axis=1)


def _side_by_side(*parts: Any, axis: int) -> Any:
    return late_ops.concatenate(*parts, axis=axis)


def _product(states: Any, gradients: Any) -> Any:
    """The gradient by a kernel that multiplied `states` at each step."""
    return matmul(swap_last_axes(_rows(states)), _rows(gradients))


def _rows(x: Any) -> Any:
    return reshape(x, (-1, x.shape[-1]))


@lstm_gradient.batch_by
def _lstm_gradient_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """The gradient by the kernel, a sum over the sequences of an item, is made apart."""
    by_hidden, by_memory, projected, h, c, kernel, hidden, memory, gates = inputs
    if any_stacks([kernel]):
        return NotImplemented
    flat = [with_one_batch(x, count) for x in (by_hidden, by_memory, projected, h, c)]
    saved = [with_one_batch(x, count) for x in (hidden, memory, gates)]
    parts = primitive.op(*flat, kernel, *saved, **settings)[:3]
    by_projected, by_h, by_c = with_two_batches(parts, count)
    by_kernel = _by_kernel(primitive, (h, hidden, stack_like(by_projected, inputs)), {}, count)
    return by_projected, by_h, by_c, by_kernel


_by_kernel = by_formula(lambda h, hidden, gradients: _product(_earlier(h, hidden), gradients))


@gru_gradient.batch_by
def _gru_gradient_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """The gradients by kernel and bias, sums over the sequences of an item, are made apart."""
    by_hidden, projected, h, kernel, bias, hidden, gates = inputs
    if any_stacks([kernel]):
        return NotImplemented
    if any_stacks([bias]):
        bias = None  # the gates hold what it did
    flat = [with_one_batch(x, count) for x in (by_hidden, projected, h)]
    saved = [with_one_batch(x, count) for x in (hidden, gates)]
    by_projected, by_h = with_two_batches(
        primitive.op(*flat, kernel, bias, *saved, **settings)[:2], count
    )
    operands = h, hidden, gates, stack_like(by_projected, inputs)
    by_kernel, by_bias = _by_gru_kernel(primitive, operands, settings, count)
    return by_projected, by_h, by_kernel, by_bias


@by_formula
def _by_gru_kernel(
    h: Any, hidden: Any, gates: Any, gradients: Any, *, reset_after: bool = True
) -> Any:
    earlier = _earlier(h, hidden)
    units = hidden.shape[-1]
    by_gates, by_new = gradients[..., : 2 * units], gradients[..., 2 * units :]
    reset, share = gates[..., units : 2 * units], gates[..., 3 * units :]
    if reset_after:
        inner = _side_by_side(by_gates, multiply(by_new, reset), axis=-1)
        return _product(earlier, inner), total(_rows(inner), 0)
    by_kernel = _side_by_side(_product(earlier, by_gates), _product(share, by_new), axis=1)
    return by_kernel, multiply(total(_rows(gradients), 0), 0.0)
