"""`Resize` and `Upsample`: along each axis a matrix of weights, or positions that are looked up."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.tensor import Tensor
from trainkit.onnx.imported_values import (
    ChannelsLast,
    axes_of,
    dims,
    first_order,
    known_array,
    live_sizes,
    rank,
    sizes,
    tensor,
)
from trainkit.onnx.operator_rules import NodeCall, check_count, onnx_rule

_MODES = ("nearest", "linear", "cubic")
_COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_half_pixel_for_nn", "tf_crop_and_resize",
)  # fmt: skip
_NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_POLICIES = ("stretch", "not_larger", "not_smaller")


class _AxisResizing:
    """How one axis is resized.

    Attributes:
        size: before, an int or a tensor.
        out: after.
        scale: out over size, as the node says it.
        span: start and end of the part that is taken, in [0, 1].
    """

    def __init__(self, size: Any, out: Any, scale: Any, span: tuple[float, float]) -> None:
        self.size, self.out, self.scale, self.span = size, out, scale, span

    @property
    def is_known(self) -> bool:
        """Whether both sizes are known."""
        return isinstance(self.size, int) and isinstance(self.out, int)


class _ResizeSettings:
    """What the attributes of a node say."""

    def __init__(self, call: NodeCall) -> None:
        is_old = call.version < 11
        self.mode = call.text("mode", "nearest")
        if self.mode not in _MODES:
            raise InvalidArgumentError(f"the mode {self.mode!r} is not one of {_MODES}")
        at = "asymmetric" if is_old else "half_pixel"
        self.at = call.one_of("coordinate_transformation_mode", at, _COORDINATES)
        near = "floor" if is_old else "round_prefer_floor"
        self.nearest = call.one_of("nearest_mode", near, _NEAREST)
        self.a = call.float("cubic_coeff_a", -0.75)
        self.excludes = call.flag("exclude_outside")
        self.fill = call.float("extrapolation_value", 0.0)
        self.antialias = call.flag("antialias")

    def positions(self, axis: _AxisResizing, x: Any) -> Any:
        """Where new places lie among the old ones; of arrays or tensors."""
        size, out, scale = axis.size, axis.out, axis.scale
        if self.at == "asymmetric":
            return x / scale
        if self.at == "align_corners":
            if axis.is_known:  # the new length as it is before it is rounded down
                return x * (size - 1) / (scale * size - 1) if out > 1 else 0 * x
            return x * (_float(size) - 1) / (_float(out) - 1)
        if self.at == "tf_crop_and_resize":
            start, end = axis.span
            if out == 1:
                return 0 * x + 0.5 * (start + end) * (size - 1)
            return start * (size - 1) + x * (end - start) * (size - 1) / (out - 1)
        if self.at == "pytorch_half_pixel" and isinstance(out, int) and out == 1:
            return 0.0 * x
        if self.at == "tf_half_pixel_for_nn":
            return (x + 0.5) / scale
        moved = (x + 0.5) / scale - 0.5
        if self.at == "half_pixel_symmetric":
            adjustment = out / (scale * size)
            return size / 2 * (1 - adjustment) + moved
        return moved

    def rounded(self, xp: Any, x: Any) -> Any:
        """The nearest old places."""
        if self.nearest == "floor":
            return xp.floor(x)
        if self.nearest == "ceil":
            return xp.ceil(x)
        return xp.ceil(x - 0.5) if self.nearest == "round_prefer_floor" else xp.floor(x + 0.5)

    def neighbours(self, ratio: Any, scale: float) -> tuple[Any, Any]:
        """For each new place the distances of old ones that count, and their weights."""
        low = min(scale, 1.0) if self.antialias else 1.0
        reach = 1 if self.mode == "linear" else 2
        first = int(np.floor(-reach / low)) + 1
        offsets = np.arange(first, 1 - first + 1)
        distance = np.abs((offsets[None] - ratio[:, None]) * low)
        if self.mode == "linear":
            weights = np.clip(1 - distance, 0, 1)
        else:
            a, d = self.a, distance
            inner = ((a + 2) * d - (a + 3)) * d * d + 1
            outer = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
            weights = np.where(d <= 1, inner, np.where(d < 2, outer, 0.0))
        if low < 1:
            weights = weights / weights.sum(-1, keepdims=True)
        return offsets, weights


def _float(x: Any) -> Any:
    return float(x) if isinstance(x, int) else ops.cast(x, "float32")


@onnx_rule("Resize")
def _resize(
    call: NodeCall, x: Any, roi: Any = None, scales: Any = None, new_sizes: Any = None
) -> Any:
    if call.version < 11:
        roi, scales = None, roi
    return _resized(call, x, roi, scales, new_sizes)


@onnx_rule("Upsample")
def _upsample(call: NodeCall, x: Any, scales: Any = None) -> Any:
    factors = np.array(call.list("scales"), np.float32) if scales is None else scales
    return _resized(call, x, None, factors, None)


def _resized(call: NodeCall, x: Any, roi: Any, scales: Any, new_sizes: Any) -> Any:
    """`x` resized along one axis after the other, with channels last where that is faster."""
    settings, count = _ResizeSettings(call), rank(x)
    axes = axes_of(call.list("axes", None) or range(count), count)
    plans = _plans(call, x, axes, roi, scales, new_sizes)
    check_count([p.out for p in plans.values() if isinstance(p.out, int)])
    is_last = isinstance(x, ChannelsLast) or (count > 2 and min(plans, default=0) > 1)
    if is_last:
        y = x.tensor if isinstance(x, ChannelsLast) else ops.moveaxis(tensor(x), 1, -1)
    else:
        y = tensor(x)
    for axis, plan in plans.items():
        where = first_order(count)[axis] if is_last else axis
        y = _along(settings, y, where, plan)
    return ChannelsLast(y) if is_last else y


def _plans(
    call: NodeCall, x: Any, axes: tuple[int, ...], roi: Any, scales: Any, new_sizes: Any
) -> dict[int, _AxisResizing]:
    """The axes that change."""
    live, fixed = live_sizes(x), dims(x)
    spans = np.array([0.0] * len(axes) + [1.0] * len(axes))
    if call.text("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        array = known_array(roi)
        if array is None or array.size != 2 * len(axes):
            raise UnimplementedError("the region has to be known before the graph runs")
        spans = array.ravel()
    factors = None if scales is None or 0 in dims(scales) else known_array(scales)
    if factors is None and new_sizes is None:
        raise UnimplementedError("the scales have to be known before the graph runs")
    outs = None if new_sizes is None else sizes(new_sizes)
    policy = call.one_of("keep_aspect_ratio_policy", "stretch", _POLICIES)
    plans: dict[int, _AxisResizing] = {}
    shared = None
    if outs is not None and policy != "stretch":
        choose = min if policy == "not_larger" else max
        if any(fixed[axis] is None for axis in axes):
            raise UnimplementedError(f"keep_aspect_ratio_policy {policy!r} needs known sizes")
        ratios = [out / fixed[axis] for out, axis in zip(outs, axes, strict=True)]
        shared = float(choose(ratios))
    for i, axis in enumerate(axes):
        size: Any = fixed[axis] if fixed[axis] is not None else live[axis]
        span = float(spans[i]), float(spans[i + len(axes)])
        if shared is not None:
            scale: Any = shared
            out: Any = int(np.floor(shared * size + 0.5))
        elif outs is not None:
            out = outs[i]
            both = isinstance(out, int) and isinstance(size, int)
            scale = out / size if both else _float(out) / _float(size)
        else:
            assert factors is not None
            scale = float(factors[i])
            if scale <= 0:
                raise InvalidArgumentError(f"the scale {scale} is not positive")
            out = _scale(size, scale, span, call)
        if not (isinstance(scale, float) and scale == 1 and span == (0.0, 1.0)):
            plans[axis] = _AxisResizing(size, out, scale, span)
    return plans


def _scale(size: Any, scale: float, span: tuple[float, float], call: NodeCall) -> Any:
    if isinstance(size, int):
        return int(np.floor(size * (span[1] - span[0]) * scale))
    if scale == int(scale):
        return size * int(scale)
    return ops.cast(ops.floor(_float(size) * scale), "int32")


def _along(settings: _ResizeSettings, y: Tensor, axis: int, plan: _AxisResizing) -> Tensor:
    if not plan.is_known:
        return _along_later(settings, y, axis, plan)
    x = settings.positions(plan, np.arange(plan.out, dtype=np.float64))
    outside = (x < 0) | (x > plan.size - 1)
    if settings.mode == "nearest":
        indices = settings.rounded(np, x).clip(0, plan.size - 1).astype(np.int64)
        y = ops.take(y, indices, axis=axis)
    else:
        matrix = _matrix(settings, plan, x).astype(np.float32)
        moved = ops.moveaxis(y, axis, -1)
        kind = moved.dtype if moved.dtype.is_floating else "float32"
        product = ops.matmul(ops.cast(moved, kind), ops.cast(matrix.T, kind))
        y = ops.moveaxis(ops.cast(product, y.dtype), -1, axis)
    if settings.at == "tf_crop_and_resize" and outside.any():
        shape = [1] * rank(y)
        shape[axis] = -1
        y = ops.where(outside.reshape(shape), ops.cast(settings.fill, y.dtype), y)
    return y


def _matrix(settings: _ResizeSettings, plan: _AxisResizing, x: Any) -> Any:
    """The weights (out, size) of old elements in new ones."""
    base = np.floor(x).astype(np.int64)
    offsets, weights = settings.neighbours(x - base, plan.scale)
    columns = base[:, None] + offsets[None]
    if settings.excludes:
        weights = np.where((columns < 0) | (columns >= plan.size), 0.0, weights)
        weights = weights / weights.sum(-1, keepdims=True)
    matrix = np.zeros((plan.out, plan.size))
    rows = np.broadcast_to(np.arange(plan.out)[:, None], columns.shape)
    np.add.at(matrix, (rows, columns.clip(0, plan.size - 1)), weights)
    return matrix


def _along_later(settings: _ResizeSettings, y: Tensor, axis: int, plan: _AxisResizing) -> Tensor:
    """The same where a size is not known yet."""
    if settings.mode == "cubic" or settings.antialias or settings.at.startswith("tf_crop"):
        raise UnimplementedError(
            f"{settings.mode} resizing with {settings.at!r} needs known sizes; give input_shapes="
        )
    steps = ops.cast(ops.arange(plan.out), "float32")
    x = settings.positions(plan, steps)
    last = ops.cast(plan.size, "int32") - 1
    if settings.mode == "nearest":
        return ops.take(y, _inside(settings.rounded(ops, x), last), axis=axis)
    base = ops.floor(x)
    shape = [1] * rank(y)
    shape[axis] = -1
    ratio = ops.reshape(ops.cast(x - base, y.dtype), shape)
    low = ops.take(y, _inside(base, last), axis=axis)
    high = ops.take(y, _inside(base + 1, last), axis=axis)
    return low * (1 - ratio) + high * ratio


def _inside(positions: Tensor, last: Tensor) -> Tensor:
    return ops.minimum(ops.maximum(ops.cast(positions, "int32"), 0), last)
