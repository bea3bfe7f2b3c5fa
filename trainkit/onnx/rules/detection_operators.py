"""Boxes: which of them stay (`NonMaxSuppression`), and what an image has in them (`RoiAlign`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.dtypes import int64
from trainkit.core.errors import InvalidArgumentError, ResourceExhaustedError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.onnx.imported_values import ChannelsLast, channels_last, dims, rank, tensor
from trainkit.onnx.operator_rules import NodeCall, check_count, onnx_rule
from trainkit.onnx.rules.grid_operators import pixels_at
from trainkit.ops.core.dynamic_shapes import needs_values
from trainkit.saved_graph.onnx.rules.detection_forms import write_suppression
from trainkit.saved_graph.onnx.rules.onnx_form import call_form

MOST_SAMPLES = 4096  # of an element of `RoiAlign`, each of which looks up four pixels


@onnx_rule("NonMaxSuppression")
def _non_max_suppression(
    call: NodeCall, boxes: Any, scores: Any, box_limit: Any = None, overlap: Any = None,
    threshold: Any = None,
) -> Any:  # fmt: skip
    if rank(boxes) != 3 or rank(scores) != 3:
        raise InvalidArgumentError(_misfit(dims(boxes), dims(scores)))
    return _suppress(
        tensor(boxes),
        tensor(scores),
        0 if box_limit is None else tensor(box_limit),
        0.0 if overlap is None else tensor(overlap),
        -np.inf if threshold is None else tensor(threshold),
        call.flag("center_point_box"),
    )


def _misfit(boxes: Any, scores: Any) -> str:
    return (
        f"boxes of shape {tuple(boxes)} and scores of shape {tuple(scores)} do not fit; they have "
        "to be (batches, boxes, 4) and (batches, classes, boxes)"
    )


@needs_values(
    "boxes", "scores", "box_limit", "overlap", "threshold", gives=lambda a: Spec((None, 3), int64)
)
def _suppress(
    boxes: Any, scores: Any, box_limit: Any, overlap: Any, threshold: Any, centered: bool
) -> Tensor:
    """Rows (batch, class, box) of the boxes of each class that no better one covers."""
    box_array, score_array = np.asarray(boxes), np.asarray(scores)
    batch, count, width = box_array.shape
    if width != 4 or (score_array.shape[0], score_array.shape[2]) != (batch, count):
        raise InvalidArgumentError(_misfit(box_array.shape, score_array.shape))
    limit, share, floor = (np.ravel(np.asarray(x))[0] for x in (box_limit, overlap, threshold))
    if not 0 <= share <= 1:
        raise InvalidArgumentError(f"the overlap {share} lies outside of 0 to 1")
    corners = _corners(box_array, centered)
    rows = [
        (batch, number, box)
        for batch, classes in enumerate(score_array)
        for number, row in enumerate(classes)
        for box in _choose_boxes(corners[batch], row, int(limit), share, floor)
    ]
    return convert_to_tensor(np.array(rows, np.int64).reshape(-1, 3))


call_form(_suppress)(write_suppression)


def _corners(boxes: Any, centered: bool) -> Any:
    """Boxes (batches, boxes, 4) as their two corners, (y1, x1) the smaller one."""
    if centered:
        middle, half = boxes[..., [1, 0]], boxes[..., [3, 2]] / 2
        return np.concatenate([middle - half, middle + half], axis=-1)
    first, second = boxes[..., :2], boxes[..., 2:]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=-1)


def _choose_boxes(corners: Any, scores: Any, limit: int, share: float, floor: float) -> list[int]:
    """Positions of boxes from the best score down, the first of equal ones before the others."""
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > floor] if floor > -np.inf else order
    areas = np.prod(corners[:, 2:] - corners[:, :2], axis=-1)
    selected: list[int] = []
    while order.size and len(selected) < limit:
        best, order = int(order[0]), order[1:]
        selected.append(best)
        low = np.maximum(corners[order, :2], corners[best, :2])
        high = np.minimum(corners[order, 2:], corners[best, 2:])
        common = np.prod(np.maximum(high - low, 0), axis=-1)
        union = areas[order] + areas[best] - common
        is_covered = (common > 0) & (common > share * union)
        order = order[~is_covered]
    return selected


@onnx_rule("RoiAlign")
def _roi_align(call: NodeCall, x: Any, regions: Any, images: Any) -> Any:
    """Means, or maxima, of points in a grid of each region, looked up between the pixels.

    Source: He, Gkioxari, Dollar and Girshick 2017, arXiv:1703.06870.
    """
    if rank(x) != 4 or rank(regions) != 2 or dims(regions)[1] not in (None, 4):
        raise InvalidArgumentError(
            f"x {dims(x)} and regions {dims(regions)} have to be (batch, channels, height, width) "
            "and (regions, 4)"
        )
    y = channels_last(x)
    outs = call.int("output_height", 1), call.int("output_width", 1)
    if min(outs) < 1:
        raise InvalidArgumentError(f"an output of {outs[0]} x {outs[1]} has no elements")
    check_count([n for n in (dims(regions)[0], *outs, y.shape[-1]) if n is not None])
    is_max = call.one_of("mode", "avg", ("avg", "max")) == "max"
    modes = ("half_pixel", "output_half_pixel")
    mode = call.one_of("coordinate_transformation_mode", modes[call.version < 16], modes)
    boxes = ops.cast(tensor(regions), "float32") * call.float("spatial_scale", 1.0)
    boxes = boxes - 0.5 if mode == "half_pixel" else boxes
    grid = _Grid(outs, call.int("sampling_ratio", 0), is_max, mode != "half_pixel")
    align = _align if grid.ratio > 0 else _align_by_size
    return ChannelsLast(align(y, boxes, ops.cast(tensor(images), "int32"), grid))


@dataclass(frozen=True)
class _Grid:
    """What is looked up in each region.

    Attributes:
        outs: elements along its height and width.
        ratio: points along each axis of an element, 0 for as many as it has pixels.
        is_max: whether an element is the largest of its points, or their mean.
        is_filled: whether regions have a height and width of at least 1.
    """

    outs: tuple[int, int]
    ratio: int
    is_max: bool
    is_filled: bool


def _align(y: Tensor, boxes: Tensor, images: Tensor, grid: _Grid) -> Tensor:
    """Elements (regions, out_height, out_width, channels) of images with their channels last."""
    starts = boxes[:, 1], boxes[:, 0]
    spans = boxes[:, 3] - starts[0], boxes[:, 2] - starts[1]
    if grid.is_filled:
        spans = ops.maximum(spans[0], 1.0), ops.maximum(spans[1], 1.0)
    bins = [span / float(n) for span, n in zip(spans, grid.outs, strict=True)]
    counts, steps = _sample_counts(grid.ratio, bins)
    total: Any = None
    for step in np.ndindex(*steps):
        points = [
            _sample_points(start, size, out, count, i)
            for start, size, out, count, i in zip(
                starts, bins, grid.outs, counts, step, strict=True
            )
        ]
        sample = _sample(y, images, points, grid.is_max)
        if grid.ratio <= 0:  # regions with fewer points than others
            is_point = ops.logical_and(counts[0] > float(step[0]), counts[1] > float(step[1]))
            other = ops.full_like(sample, -np.inf if grid.is_max else 0.0)
            sample = ops.where(is_point[:, None, None, None], sample, other)
        if total is None:
            total = sample
        else:
            total = ops.maximum(total, sample) if grid.is_max else total + sample
    if total is None:  # no region has a point
        return ops.zeros((ops.shape(boxes)[0], *grid.outs, ops.shape(y)[-1]), y.dtype)
    if grid.is_max:
        return ops.where(ops.isneginf(total), ops.zeros_like(total), total)
    if grid.ratio > 0:
        return total / grid.ratio**2
    number = ops.maximum(counts[0] * counts[1], 1.0)
    return total / ops.cast(number, y.dtype)[:, None, None, None]


_align_by_size = needs_values(
    "boxes", gives=lambda a: Spec((a["boxes"].shape[0], *a["grid"].outs, a["y"].shape[-1]),
                                  a["y"].dtype),
)(_align)  # fmt: skip


def _sample_counts(ratio: int, bins: list[Tensor]) -> tuple[list[Any], list[int]]:
    """The points along each axis of an element: of each region, and at most.

    Raises:
        InvalidArgumentError: the size of a region is no finite number.
        ResourceExhaustedError: there are too many.
    """
    if ratio > 0:
        counts: list[Any] = [ratio, ratio]
        limits = [ratio, ratio]
    else:
        arrays = [np.ceil(np.asarray(size)) for size in bins]
        if not all(np.isfinite(array).all() for array in arrays):
            raise InvalidArgumentError("a region has a corner that is no finite number")
        counts = [ops.maximum(ops.ceil(size), 0.0) for size in bins]
        limits = [int(np.max(array, initial=0)) for array in arrays]
    if max(limits) > MOST_SAMPLES or limits[0] * limits[1] > MOST_SAMPLES:
        raise ResourceExhaustedError(
            f"{limits[0]} x {limits[1]} points are asked for in each element of a region; at most "
            f"{MOST_SAMPLES:,} are looked up"
        )
    return counts, limits


def _sample_points(start: Tensor, size: Tensor, out: int, count: Any, i: int) -> Tensor:
    """Where the points with number `i` of all elements lie along an axis: (regions, out)."""
    steps = ops.cast(np.arange(out), "float32")[None]
    share = (i + 0.5) / (float(count) if isinstance(count, int) else ops.maximum(count, 1.0))
    return start[:, None] + steps * size[:, None] + ops.reshape(share * size, (-1, 1))


def _sample(y: Tensor, images: Tensor, points: list[Tensor], is_max: bool) -> Tensor:
    """Pixels (regions, out_height, out_width, channels) at points, 0 beyond one pixel outside."""
    lows, highs, shares, outside = [], [], [], []
    for at, size in zip(points, ops.shape(y)[1:3], strict=True):
        last = ops.cast(size, at.dtype) - 1.0
        outside.append(ops.logical_or(at < -1.0, at > last + 1.0))
        inside = ops.minimum(ops.maximum(at, 0.0), last)
        low = ops.floor(inside)
        lows.append(low)
        highs.append(ops.minimum(low + 1.0, last))
        shares.append(inside - low)
    rows = images[:, None, None]
    off = ops.logical_or(outside[0][:, :, None], outside[1][:, None, :])[..., None]
    total: Any = None
    for corner in np.ndindex(2, 2):
        ends = [(lows, highs)[c][axis] for axis, c in enumerate(corner)]
        parts = [shares[axis] if c else 1.0 - shares[axis] for axis, c in enumerate(corner)]
        weight = ops.cast(parts[0][:, :, None] * parts[1][:, None, :], y.dtype)[..., None]
        pixel = pixels_at(y, rows, [ends[0][:, :, None], ends[1][:, None, :]]) * weight
        if total is None:
            total = pixel
        else:  # ONNX's largest value is that of the four weighted pixels
            total = ops.maximum(total, pixel) if is_max else total + pixel
    return ops.where(off, ops.zeros_like(total), total)
