"""Looking up images between their pixels: `AffineGrid`, `GridSample`, and windows of signals."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.dtypes import as_dtype
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.onnx.imported_values import ChannelsLast, channels_last, numbers, rank, tensor
from trainkit.onnx.operator_rules import NodeCall, check_count, onnx_rule
from trainkit.onnx.tensor_reading import dtype_name
from trainkit.ops.core.dynamic_shapes import needs_values

_PADDING = ("zeros", "border", "reflection")
_MODES = {
    "bilinear": "linear", "linear": "linear", "nearest": "nearest", "bicubic": "cubic",
    "cubic": "cubic",
}  # fmt: skip
_CUBIC = -0.75  # the slope of the kernel one pixel away, which ONNX fixes


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
    mode = _MODES[call.one_of("mode", "linear", tuple(_MODES))]
    padding = call.one_of("padding_mode", "zeros", _PADDING)
    corners = call.flag("align_corners")
    y, coordinates = channels_last(x), tensor(grid)
    sizes = [ops.cast(n, coordinates.dtype) for n in ops.shape(y)[1:-1]]

    def inside(at: Tensor, size: Tensor) -> Tensor:
        if padding == "border":
            return ops.minimum(ops.maximum(at, 0.0), size - 1)
        return _reflect(at, size, corners) if padding == "reflection" else at

    points = []
    for axis, size in enumerate(sizes):
        at = coordinates[..., len(sizes) - 1 - axis]
        points.append((at + 1) / 2 * (size - 1) if corners else ((at + 1) * size - 1) / 2)
    if mode == "cubic":
        return ChannelsLast(_cubic(y, points, sizes, inside))
    points = [inside(at, size) for at, size in zip(points, sizes, strict=True)]
    if mode == "nearest":
        return ChannelsLast(_pick(y, [ops.round(at) for at in points], sizes))
    return ChannelsLast(interpolate(y, points, sizes))


def interpolate(y: Tensor, points: list[Tensor], sizes: list[Tensor]) -> Tensor:
    """Values between pixels, linear along each axis.

    Args:
        y: images (batch, spatial..., channels).
        points: for each spatial axis, positions (batch, ...) in pixels; zeros lie outside.
        sizes: of the spatial axes, in the dtype of the points.
    """
    total: Any = 0.0
    bases = [ops.floor(at) for at in points]
    for corner in np.ndindex(*[2] * len(points)):
        pixel = [base + float(c) for base, c in zip(bases, corner, strict=True)]
        weight: Any = 1.0
        for coordinate, point in zip(pixel, points, strict=True):
            weight = weight * (1.0 - ops.abs(point - coordinate))
        total = total + _pick(y, pixel, sizes) * ops.cast(weight, y.dtype)[..., None]
    return total


def _cubic(y: Tensor, points: list[Tensor], sizes: list[Tensor], inside: Any) -> Tensor:
    """Values between pixels by the four next to them along each axis.

    Source: Keys 1981, "Cubic convolution interpolation for digital image processing".
    """
    total: Any = 0.0
    bases = [ops.floor(at) for at in points]
    weights = [_cubic_weights(at - base) for at, base in zip(points, bases, strict=True)]
    for shifts in np.ndindex(*[4] * len(points)):
        pixel = [
            inside(base + float(shift - 1), size)
            for base, shift, size in zip(bases, shifts, sizes, strict=True)
        ]
        weight = reduce(ops.multiply, [w[shift] for w, shift in zip(weights, shifts, strict=True)])
        total = total + _pick(y, pixel, sizes) * ops.cast(weight, y.dtype)[..., None]
    return total


def _cubic_weights(t: Tensor) -> list[Tensor]:
    """The weights of the pixels at -1, 0, 1 and 2 for a point at `t` in [0, 1)."""

    def near(d: Tensor) -> Tensor:
        return ((_CUBIC + 2) * d - (_CUBIC + 3)) * d * d + 1

    def outer(d: Tensor) -> Tensor:
        return ((_CUBIC * d - 5 * _CUBIC) * d + 8 * _CUBIC) * d - 4 * _CUBIC

    return [outer(t + 1), near(t), near(1 - t), outer(2 - t)]


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
        index.append(ops.minimum(ops.maximum(coordinate, 0.0), size - 1))
    batch = ops.reshape(ops.arange(ops.shape(y)[0]), (-1, *[1] * (rank(at[0]) - 1)))
    picked = pixels_at(y, ops.cast(batch, "int32"), index)
    return ops.where(outside[..., None], ops.zeros_like(picked), picked)


def pixels_at(y: Tensor, images: Tensor, at: list[Tensor]) -> Tensor:
    """Pixels (..., channels) at whole positions inside the images.

    Args:
        y: images (batch, spatial..., channels).
        images: of which image each is, of int32; broadcast with the positions.
        at: for each spatial axis, positions as floats, which broadcast as well.
    """
    index = [images, *(ops.cast(coordinate, "int32") for coordinate in at)]
    total = reduce(ops.add, index)
    shape = ops.shape(total)
    return ops.gather_nd(y, ops.stack([ops.broadcast_to(i, shape) for i in index], axis=-1))


_WINDOWS = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25 / 46, 21 / 46, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


@onnx_rule(*_WINDOWS)
def _window(call: NodeCall, size: Any) -> Tensor:
    dtype = dtype_name(call.int("output_datatype", 1), "the result")
    return _make_window(tensor(size), _WINDOWS[call.op_type], call.flag("periodic", True), dtype)


@needs_values("size", gives=lambda a: Spec((None,), as_dtype(a["dtype"])))
def _make_window(
    size: Any, factors: tuple[float, float, float], periodic: bool, dtype: str
) -> Tensor:
    (count,) = numbers(size, "the size of the window")
    check_count([count])
    periods = count if periodic else max(count - 1, 1)
    angle = 2 * math.pi * np.arange(count) / periods
    a, b, c = factors
    return ops.cast(a - b * np.cos(angle) + c * np.cos(2 * angle), dtype)


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
