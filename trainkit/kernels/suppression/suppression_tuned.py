"""Which boxes stay, over NumPy and by a compiled kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.kernels.jit.kernel_family import BYTE_SECONDS, Family, owned

Array = Any

SELECTED_BOXES = Family(
    "select_boxes", "suppression.suppression_compiled", "select_boxes", exact=True, alone=True
)


def select_boxes(low: Array, high: Array, size: int, limit: float) -> Array:
    """The numbers of the boxes that no better one that stays overlaps by more than `limit`.

    Args:
        low: float64 (2, boxes), top and left, the best box first.
        high: the same of bottom and right.
        size: boxes to be selected at most.
        limit: of the intersection over union.

    Returns:
        int64, rising.
    """
    area = areas(low, high)
    moved = 6 * area.nbytes * min(size, area.size)
    run = SELECTED_BOXES.find((), BYTE_SECONDS * moved)
    # Comparisons of the kernel take a NaN for another number than NumPy's functions do.
    if run is None or np.isnan(area).any() or not area.size:
        return np.array(select_by(_overlap(low, high, area), area.size, size, limit), np.int64)
    selected = np.empty(1 + area.size, np.int64)
    run(0, 1, owned(np.concatenate([low, high, area[None]])), selected, size, limit)
    return selected[1 : 1 + selected[0]]


def areas(low: Array, high: Array) -> Array:
    """Those of boxes; infinite for none, so that whatever lies there is no part of both."""
    down, across = high - low
    area = down * across
    area[area <= 0] = np.inf
    return area


def _overlap(low: Array, high: Array, area: Array) -> Any:
    def overlap(some: Any, box: int) -> Array:
        first, last = low[:, box, None], high[:, box, None]
        sides = np.minimum(high[:, some], last) - np.maximum(low[:, some], first)
        shared = np.multiply(*np.maximum(sides, 0, out=sides))
        return shared / (area[some] + area[box] - shared)

    return overlap


def select_by(overlap: Any, count: int, size: int, limit: float) -> list[int]:
    """Of boxes in order, those that no selected one before overlaps by more than `limit`.

    Args:
        overlap: function of the numbers of some boxes, and that of one.
        count: how many boxes there are.
        size: boxes to be selected at most.
        limit: of what `overlap` gives.
    """
    is_dropped = np.zeros(count, np.bool_)
    selected: list[int] = []
    for box in range(count):
        if is_dropped[box]:
            continue
        if len(selected) == size:
            break
        selected.append(box)
        following = slice(box + 1, None)
        is_dropped[following] |= overlap(following, box) > limit
    return selected


def overlap_of(low: Array, high: Array) -> Any:
    """The intersection over union of some boxes with one, by their numbers."""
    return _overlap(low, high, areas(low, high))
