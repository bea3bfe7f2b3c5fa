"""Looking up images between their pixels: `AffineGrid`, `GridSample`, and windows of signals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.errors import UnimplementedError
from trainkit.core.tensor import Tensor
from trainkit.onnx.imported_values import ChannelsLast, channels_last, numbers, rank, tensor
from trainkit.onnx.operator_rules import NodeCall, check_count, onnx_rule
from trainkit.onnx.tensor_reading import dtype_name

_PADDING = ("zeros", "border", "reflection")
_MODES = {"bilinear": "linear", "linear": "linear", "nearest": "nearest"}


@onnx_rule("AffineGrid")
def _affine_grid(call: NodeCall, theta: Any, size: Any) -> Tensor:
    shape = numbers(size, "the size of the grid")
    spatial = shape[2:]
    check_count(spatial)
    corners = call.flag("align_corners")
    lines = []
    for n in spatial:
        steps = np.arange(n, dtype=np.float32)
        if corners:
            lines.append(-1 + 2 * steps / max(n - 1, 1))
        else:
            lines.append((2 * steps + 1) / n - 1)
    grids = np.meshgrid(*lines, indexing="ij")[::-1]  # x comes first
    points = np.stack([*grids, np.ones(spatial, np.float32)], axis=-1)
    flat = ops.cast(points.reshape(-1, len(spatial) + 1), tensor(theta).dtype)
    y = ops.matmul(flat, ops.transpose(tensor(theta), (0, 2, 1)))
    return ops.reshape(y, (-1, *spatial, len(spatial)))


@onnx_rule("GridSample")
def _grid_sample(call: NodeCall, x: Any, grid: Any) -> Any:
    mode = call.text("mode", "linear")
    if mode not in _MODES:
        raise UnimplementedError(f"the mode {mode!r} is not supported; linear and nearest are")
    padding = call.one_of("padding_mode", "zeros", _PADDING)
    corners = call.flag("align_corners")
    y, coordinates = channels_last(x), tensor(grid)
    sizes = [ops.cast(n, coordinates.dtype) for n in ops.shape(y)[1:-1]]
    points = []
    for axis, size in enumerate(sizes):
        at = coordinates[..., len(sizes) - 1 - axis]
        at = (at + 1) / 2 * (size - 1) if corners else ((at + 1) * size - 1) / 2
        if padding == "border":
            at = ops.minimum(ops.maximum(at, 0.0), size - 1)
        elif padding == "reflection":
            at = _reflect(at, size, corners)
        points.append(at)
    if _MODES[mode] == "nearest":
        return ChannelsLast(_pick(y, [ops.round(at) for at in points], sizes))
    total: Any = 0.0
    bases = [ops.floor(at) for at in points]
    for corner in np.ndindex(*[2] * len(points)):
        pixel = [base + float(c) for base, c in zip(bases, corner, strict=True)]
        weight: Any = 1.0
        for coordinate, point in zip(pixel, points, strict=True):
            weight = weight * (1.0 - ops.abs(point - coordinate))
        total = total + _pick(y, pixel, sizes) * ops.cast(weight, y.dtype)[..., None]
    return ChannelsLast(total)


def _reflect(at: Tensor, size: Tensor, corners: bool) -> Tensor:
    """Positions mirrored at the borders until they lie inside."""
    low, span = (0.0, size - 1) if corners else (-0.5, size)
    span = ops.maximum(span, 1e-6)
    away = ops.abs(at - low)
    turns, remainder = ops.floor(away / span), ops.mod(away, span)
    inside = ops.where(ops.equal(ops.mod(turns, 2.0), 0.0), remainder + low, span - remainder + low)
    return ops.minimum(ops.maximum(inside, 0.0), size - 1)


def _pick(y: Tensor, at: list[Tensor], sizes: list[Tensor]) -> Tensor:
    """Rows (batch, ..., channels) at whole positions, zeros outside."""
    outside: Any = None
    index = []
    for coordinate, size in zip(at, sizes, strict=True):
        off = ops.logical_or(ops.less(coordinate, 0.0), ops.greater(coordinate, size - 1))
        outside = off if outside is None else ops.logical_or(outside, off)
        index.append(ops.cast(ops.minimum(ops.maximum(coordinate, 0.0), size - 1), "int32"))
    batch = ops.reshape(ops.arange(ops.shape(y)[0]), (-1, *[1] * (rank(at[0]) - 1)))
    rows = ops.broadcast_to(ops.cast(batch, "int32"), ops.shape(index[0]))
    picked = ops.gather_nd(y, ops.stack([rows, *index], axis=-1))
    return ops.where(outside[..., None], ops.zeros_like(picked), picked)


_WINDOWS = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25 / 46, 21 / 46, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


@onnx_rule(*_WINDOWS)
def _window(call: NodeCall, size: Any) -> Tensor:
    (count,) = numbers(size, "the size of the window")
    check_count([count])
    periods = count if call.flag("periodic", True) else max(count - 1, 1)
    angle = 2 * math.pi * np.arange(count) / periods
    a, b, c = _WINDOWS[call.op_type]
    values = a - b * np.cos(angle) + c * np.cos(2 * angle)
    return ops.cast(values, dtype_name(call.int("output_datatype", 1), "the result"))


@onnx_rule("TensorScatter")
def _tensor_scatter(call: NodeCall, past: Any, update: Any, starts: Any = None) -> Tensor:
    """Steps written into a cache (batch, ..., steps, ...), from a start of each sequence."""
    cache, steps = tensor(past), tensor(update)
    axis = call.int("axis", -2) % rank(cache)
    is_circular = call.one_of("mode", "linear", ("linear", "circular")) == "circular"
    moved, new = ops.moveaxis(cache, axis, 1), ops.moveaxis(steps, axis, 1)
    size, count = ops.shape(moved)[1], ops.shape(new)[1]
    first = ops.zeros((ops.shape(cache)[0],), "int32") if starts is None else ops.cast(
        tensor(starts), "int32"
    )  # fmt: skip
    positions = first[:, None] + ops.cast(ops.arange(count), "int32")[None]
    positions = ops.mod(positions, ops.cast(size, "int32")) if is_circular else positions
    rows = ops.broadcast_to(
        ops.cast(ops.arange(ops.shape(cache)[0]), "int32")[:, None], ops.shape(positions)
    )
    return ops.moveaxis(ops.scatter_update(moved, ops.stack([rows, positions], -1), new), 1, axis)
