"""Boxes that are left out as a better one overlaps them."""

from __future__ import annotations

from numba import float64, types

from trainkit.core.cpu.cost_model import LINE_FLOATS
from trainkit.kernels.jit.builders import by_parts

_RUN = 2 * LINE_FLOATS
"""Boxes that are compared in vectors, before it is asked whether one was enough."""


@by_parts(float64[:, ::1], types.int64[::1], types.intp, types.float64, exact=True)
def select_boxes(part, parts, corners, selected, size, limit):
    """The numbers of the boxes that stay, behind their count.

    Args:
        part: there is one alone: each box waits for those before it.
        parts: 1.
        corners: low and high ends, then areas, (5, boxes), the best box first. The boxes that stay
            move to the front.
        selected: (1 + boxes).
        size: boxes to be selected at most.
        limit: of the intersection over union of a box with one that stays.
    """
    low0, low1, high0, high1, area = corners[0], corners[1], corners[2], corners[3], corners[4]
    count = 0
    for box in range(corners.shape[1]):
        if count == size:
            break
        top, left, bottom, right = low0[box], low1[box], high0[box], high1[box]
        surface, hits = area[box], 0
        for first in range(0, count, _RUN):
            for i in range(first, min(first + _RUN, count)):
                down = min(high0[i], bottom) - max(low0[i], top)
                across = min(high1[i], right) - max(low1[i], left)
                shared = (down if down > 0.0 else 0.0) * (across if across > 0.0 else 0.0)
                hits += shared / (surface + area[i] - shared) > limit
            if hits:
                break
        if hits == 0:
            low0[count], low1[count], high0[count], high1[count] = top, left, bottom, right
            area[count] = surface
            count += 1
            selected[count] = box
    selected[0] = count
