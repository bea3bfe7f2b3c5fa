"""Bounding boxes: which of them to keep, and drawing them.

Boxes are (n, 4): top, left, bottom, right. Choosing is work for the CPU, one box after the other.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core.dtypes import int32
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.kernels.suppression.suppression_tuned import overlap_of, select_boxes, select_by
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.core.dynamic_shapes import Bound, concrete, needs_values, unknown

Overlap = Callable[[Any, int], Any]
"""How much of some boxes, by their numbers, lies on one."""


_SOURCES = ("boxes", "scores", "max_output_size")


def _pad(a: Bound) -> tuple[Spec, Spec]:
    lead = convert_to_tensor(a["scores"]).shape[:-1]
    return Spec((*lead, None), int32), Spec(lead, int32)


def _values(x: Any, name: str, op: str, shape: tuple[int | None, ...]) -> Any:
    array = concrete(x, op)
    fits = len(array.shape) == len(shape) and all(
        b in (None, a) for a, b in zip(array.shape, shape, strict=True)
    )
    if not fits:
        raise ShapeError(f"{op}: {name} must have shape {shape}, got {array.shape}")
    return array


def _ends_of(boxes: Any) -> tuple[Any, Any]:
    """The lower and the higher ends of boxes, (2, n) each; corners may come in either order."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    return low.T.astype(np.float64, order="C"), high.T.astype(np.float64, order="C")


def _order_by_score(scores: Any, lowest_score: float) -> Any:
    """Numbers of the boxes with a higher score; of equal ones the first before others."""
    numbers = np.flatnonzero(scores > lowest_score)
    return numbers[np.argsort(-scores[numbers].astype(np.float64), kind="stable")]


def _lower_scores(
    overlap: Overlap, scores: Any, count: int, lowest_score: float, sigma: float
) -> tuple[list[int], list[float]]:
    """Boxes by falling score, which those that are kept lower by what they overlap.

    Source: Bodla, Singh, Chellappa and Davis 2017, arXiv:1704.04503.
    """
    queue = [(-float(s), i, 0) for i, s in enumerate(scores) if s > lowest_score]
    heapq.heapify(queue)
    selected: list[int] = []
    lowered_scores: list[float] = []
    while queue and len(selected) < count:
        negative, box, begin = heapq.heappop(queue)
        score = -negative
        # Only those that were kept since the box was last looked at lower it any more.
        for share in overlap(np.array(selected[begin:][::-1], np.intp), box).tolist():
            score *= float(np.exp(-0.5 / sigma * share * share))
            if score <= lowest_score:
                break
        if score <= lowest_score:
            continue
        if score == -negative:
            selected.append(box)
            lowered_scores.append(score)
        else:
            heapq.heappush(queue, (-score, box, len(selected)))
    return selected, lowered_scores


def _check_limits(op: str, count: int, limit: float) -> None:
    if count < 0 or not 0 <= limit <= 1:
        raise InvalidArgumentError(
            f"{op}: max_output_size {count} must be 0 or above, the threshold {limit} in [0, 1]"
        )


@needs_values(*_SOURCES, gives=lambda a: (Spec((None,), int32), unknown(a["scores"])))
def non_max_suppression_with_scores(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: int,
    iou_threshold: float = 0.5,
    score_threshold: float = float("-inf"),
    soft_nms_sigma: float = 0.0,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The best boxes that do not overlap much, and their scores.

    Args:
        boxes: (n, 4).
        scores: (n,).
        max_output_size: the most boxes to give.
        iou_threshold: a box whose intersection over union with a better one is above is dropped,
            unless scores are lowered instead.
        score_threshold: boxes with this score or less are dropped.
        soft_nms_sigma: above 0, overlaps lower scores by exp(-iou**2 / (2 sigma)) instead.

    Returns:
        Numbers of the boxes, int32, the best first, and their (lowered) scores.

    Raises:
        InvalidArgumentError: a threshold or size is out of range.
        ShapeError: the shapes do not fit.

    Example:
        >>> boxes = [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.9], [2.0, 2.0, 3.0, 3.0]]
        >>> kept, scores = tk.image.non_max_suppression_with_scores(boxes, [0.75, 0.5, 0.25], 3)
        >>> kept.numpy(), scores.numpy()
        (array([0, 2], dtype=int32), array([0.75, 0.25], dtype=float32))
    """
    op = "non_max_suppression"
    corners = _values(boxes, "boxes", op, (None, 4))
    values = _values(scores, "scores", op, (len(corners),))
    count = int(plain(max_output_size))
    _check_limits(op, count, float(plain(iou_threshold)))
    lowest_score = float(plain(score_threshold))
    if soft_nms_sigma > 0:
        overlap, sigma = overlap_of(*_ends_of(corners)), float(soft_nms_sigma)
        selected, lowered_scores = _lower_scores(overlap, values, count, lowest_score, sigma)
        return (
            convert_to_tensor(np.array(selected, np.int32)),
            convert_to_tensor(np.array(lowered_scores, values.dtype)),
        )
    order = _order_by_score(values, lowest_score)
    low, high = _ends_of(corners[order])
    numbers = order[select_boxes(low, high, count, float(plain(iou_threshold)))]
    return convert_to_tensor(numbers.astype(np.int32)), convert_to_tensor(values[numbers])


@needs_values(*_SOURCES, gives=lambda a: Spec((None,), int32))
def non_max_suppression(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: int,
    iou_threshold: float = 0.5,
    score_threshold: float = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """Numbers of the best boxes that do not overlap much; see `non_max_suppression_with_scores`.

    Args:
        boxes: (n, 4).
        scores: (n,).
        max_output_size: the most boxes to give.
        iou_threshold: a box whose intersection over union with a better one is above is dropped.
        score_threshold: boxes with this score or less are dropped.

    Example:
        >>> boxes = [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.9], [2.0, 2.0, 3.0, 3.0]]
        >>> tk.image.non_max_suppression(boxes, [0.9, 0.8, 0.7], 3).numpy()
        array([0, 2], dtype=int32)
    """
    return non_max_suppression_with_scores(
        boxes, scores, max_output_size, iou_threshold, score_threshold
    )[0]


@needs_values("overlaps", "scores", "max_output_size", gives=lambda a: Spec((None,), int32))
def non_max_suppression_overlaps(
    overlaps: Any,
    scores: TensorLike,
    max_output_size: int,
    overlap_threshold: float = 0.5,
    score_threshold: float = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """As `non_max_suppression`, with overlaps (n, n) that are given.

    Args:
        overlaps: (n, n).
        scores: (n,).
        max_output_size: the most boxes to give.
        overlap_threshold: a box whose overlap with a better one is above is dropped.
        score_threshold: boxes with this score or less are dropped.

    Raises:
        InvalidArgumentError: `max_output_size` is negative.
        ShapeError: the shapes do not fit.

    Example:
        >>> overlaps = [[1.0, 0.9], [0.9, 1.0]]
        >>> tk.image.non_max_suppression_overlaps(overlaps, [0.9, 0.8], 2).numpy()
        array([0], dtype=int32)
    """
    op = "non_max_suppression_overlaps"
    values = _values(scores, "scores", op, (None,))
    table = _values(overlaps, "overlaps", op, (len(values), len(values)))
    count = int(plain(max_output_size))
    if count < 0:
        raise InvalidArgumentError(f"{op}: max_output_size {count} must be 0 or above")
    order = _order_by_score(values, float(plain(score_threshold)))
    ordered = table[np.ix_(order, order)]
    positions = select_by(
        lambda some, box: ordered[some, box], len(order), count, float(plain(overlap_threshold))
    )
    return convert_to_tensor(order[positions].astype(np.int32))


@needs_values(*_SOURCES, gives=_pad)
def non_max_suppression_padded(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: int,
    iou_threshold: float = 0.5,
    score_threshold: float = float("-inf"),
    pad_to_max_output_size: bool = False,
    name: str | None = None,
    sorted_input: bool = False,
    canonicalized_coordinates: bool = False,
    tile_size: int = 512,
) -> tuple[Tensor, Tensor]:
    """As `non_max_suppression`, for batches too, filled up with 0, and how many there are.

    Args:
        boxes: (..., n, 4).
        scores: (..., n).
        max_output_size: the most boxes to give, and the length of a row of a batch.
        iou_threshold: see `non_max_suppression_with_scores`.
        score_threshold: see `non_max_suppression_with_scores`.
        pad_to_max_output_size: fill up a single row too.
        sorted_input: a hint that changes no result.
        canonicalized_coordinates: a hint that changes no result.
        tile_size: a hint that changes no result.

    Returns:
        Numbers of boxes, int32, and their count.

    Example:
        >>> boxes = [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.9], [2.0, 2.0, 3.0, 3.0]]
        >>> scores = [0.9, 0.8, 0.7]
        >>> kept, count = tk.image.non_max_suppression_padded(boxes, scores, 3, 0.5)
        >>> kept.numpy(), int(count)
        (array([0, 2], dtype=int32), 2)
    """
    all_boxes = concrete(boxes, "non_max_suppression_padded")
    all_scores = concrete(scores, "non_max_suppression_padded")
    lead, count = all_scores.shape[:-1], int(plain(max_output_size))
    rows = np.zeros((*lead, count), np.int32)
    counts = np.zeros(lead, np.int32)
    for index in np.ndindex(lead):
        selected = non_max_suppression(
            all_boxes[index], all_scores[index], count, iou_threshold, score_threshold
        ).numpy()
        rows[(*index, slice(len(selected)))] = selected
        counts[index] = len(selected)
    if not lead and not pad_to_max_output_size:
        rows = rows[: int(counts)]
    return convert_to_tensor(rows), convert_to_tensor(counts)


# ---------------------------------------------------------------------- drawing

# Yellow, blue, red, lime, purple, olive, maroon, navy, aqua and fuchsia.
_COLORS = np.array(
    [
        [1, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0.5, 0, 0.5, 1],
        [0.5, 0.5, 0, 1], [0.5, 0, 0, 1], [0, 0, 0.5, 1], [0, 1, 1, 1], [1, 0, 1, 1],
    ],
    np.float32,
)  # fmt: skip


@needs_values("images", "boxes", "colors", gives=lambda a: unknown(a["images"]))
def draw_bounding_boxes(
    images: TensorLike, boxes: TensorLike, colors: Any, name: str | None = None
) -> Tensor:
    """Images with the outlines of boxes, one pixel wide.

    Args:
        images: (batch, height, width, channels), floats; 1, 3 or 4 channels.
        boxes: (batch, n, 4), where 0 is the first row or column and 1 the last.
        colors: (k, channels), taken in turns; by default ten of them.

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> boxes = [[[0.0, 0.0, 1.0, 1.0]]]
        >>> tk.image.draw_bounding_boxes(tk.zeros((1, 4, 4, 3)), boxes, [[1.0, 0.0, 0.0]]).shape
        TensorShape([1, 4, 4, 3])
    """
    op = "draw_bounding_boxes"
    drawn = np.array(concrete(images, op))
    if drawn.ndim != 4 or drawn.shape[-1] not in (1, 3, 4) or drawn.dtype.kind != "f":
        raise ShapeError(
            f"{op}: images must be floats (batch, height, width, 1, 3 or 4), got {drawn.shape} "
            f"{drawn.dtype}"
        )
    corners = _values(boxes, "boxes", op, (drawn.shape[0], None, 4))
    table = _COLORS if colors is None else concrete(colors, op)
    if table.ndim != 2 or not len(table) or table.shape[-1] < drawn.shape[-1]:
        raise ShapeError(f"{op}: colors must be (k, {drawn.shape[-1]}), got {table.shape}")
    if drawn.shape[-1] == 1 and colors is None:
        table = np.ones_like(table)
    for image, own in zip(drawn, corners, strict=True):
        for number, box in enumerate(own):
            _outline(image, box, table[number % len(table), : drawn.shape[-1]])
    return convert_to_tensor(drawn)


def _outline(image: Any, box: Any, color: Any) -> None:
    if not np.isfinite(box).all():
        return  # such a box has no outline
    height, width = image.shape[:2]
    top, left, bottom, right = (
        int(v * (n - 1)) for v, n in zip(box, (height, width) * 2, strict=True)
    )
    outside = top >= height or bottom < 0 or left >= width or right < 0
    if top > bottom or left > right or outside:
        return
    rows = slice(max(top, 0), min(bottom, height - 1) + 1)
    columns = slice(max(left, 0), min(right, width - 1) + 1)
    for row in (top, bottom):
        if 0 <= row < height:
            image[row, columns] = color
    for column in (left, right):
        if 0 <= column < width:
            image[rows, column] = color
