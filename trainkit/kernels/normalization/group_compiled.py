"""Normalization of each sample within groups of its features, forward and backward.

A block of groups of one sample is all one worker's: it sums, and then reads again what its cache
holds. How samples are cut into blocks depends on the sizes alone, and no sum on who makes it.
"""

from __future__ import annotations

import numpy as np
from numba import float32, int64

from trainkit.kernels.jit.builders import CUBE, MATRIX, VECTOR, by_parts
from trainkit.kernels.jit.options import inlined
from trainkit.kernels.threads.parallel_for import chunk_range


@inlined
def _set_centre(x, sample, group, width, centre):
    """Set the mean of a group in eight rows, about which it is summed.

    The nearer to the mean of all rows it is, the less cancels in the variance.
    """
    rows = x.shape[1]
    step = np.uintp(max(rows // 8, 1))
    level, count = np.float32(0), np.float32(0)
    for row in range(np.uintp(0), np.uintp(rows), step):
        for f in range(group, group + width):
            level += x[sample, row, f]
            count += np.float32(1)
    level /= count
    for f in range(group, group + width):
        centre[sample, f] = level


@inlined
def _sum_rows(is_gradient, g, x, sample, begin, end, centre, one, two):
    """Sums of a block's features over the rows: of g, and of g * (x - centre).

    Without a gradient, x - centre stands for g.
    """
    rows, step = np.uintp(x.shape[1]), np.uintp(4)
    for f in range(begin, end):
        one[sample, f] = 0
        two[sample, f] = 0
    unrolled_end = rows // step * step
    for row in range(np.uintp(0), unrolled_end, step):
        second, third, fourth = row + np.uintp(1), row + np.uintp(2), row + np.uintp(3)
        for f in range(begin, end):
            c = centre[sample, f]
            level_0, level_1 = x[sample, row, f] - c, x[sample, second, f] - c
            level_2, level_3 = x[sample, third, f] - c, x[sample, fourth, f] - c
            p = g[sample, row, f] if is_gradient else level_0
            q = g[sample, second, f] if is_gradient else level_1
            r = g[sample, third, f] if is_gradient else level_2
            s = g[sample, fourth, f] if is_gradient else level_3
            one[sample, f] += (p + q) + (r + s)
            two[sample, f] += (p * level_0 + q * level_1) + (r * level_2 + s * level_3)
    for row in range(unrolled_end, rows):
        for f in range(begin, end):
            level = x[sample, row, f] - centre[sample, f]
            p = g[sample, row, f] if is_gradient else level
            one[sample, f] += p
            two[sample, f] += p * level


@inlined
def _set_moments(x, sample, begin, end, width, epsilon, mean, root, scratch):
    """Set mean and 1 / sqrt(variance + epsilon) of a block's groups, for each of their features."""
    for group in range(begin, end, width):
        _set_centre(x, sample, group, width, mean)
    _sum_rows(False, x, x, sample, begin, end, mean, scratch, root)
    count = np.float32(x.shape[1]) * np.float32(width)
    for group in range(begin, end, width):
        one, two = np.float32(0), np.float32(0)
        for f in range(group, group + width):
            one += scratch[sample, f]
            two += root[sample, f]
        shift = one / count
        difference = two / count - shift * shift
        variance = np.float32(0) if difference <= np.float32(0) else difference
        factor = np.float32(1) / np.sqrt(variance + epsilon)
        for f in range(group, group + width):
            mean[sample, f] += shift
            root[sample, f] = factor


@inlined
def _block_of(unit, blocks, block, features):
    """The sample of a unit of work, and from which feature to which it goes."""
    begin = unit % blocks * block
    return unit // blocks, begin, min(begin + block, features)


@by_parts(
    CUBE, VECTOR, VECTOR, float32, int64, int64, CUBE, MATRIX, MATRIX, MATRIX,
    exact=True, apart=True,
)  # fmt: skip
def groups(part, parts, x, scale, offset, epsilon, width, block, y, mean, root, scratch):
    """Samples (rows, features), each group of `width` features by its own mean and variance.

    `block` is a multiple of `width`: features that one worker has. Scratch has the samples' rows.
    """
    features, size = np.uintp(x.shape[2]), np.uintp(block)
    blocks = (features + size - np.uintp(1)) // size
    first, last = chunk_range(part, parts, len(x) * np.int64(blocks), 1)
    for unit in range(first, last):
        sample, begin, end = _block_of(unit, blocks, size, features)
        _set_moments(x, sample, begin, end, np.uintp(width), epsilon, mean, root, scratch)
        for f in range(begin, end):
            root[sample, f] *= scale[f]
        for row in range(np.uintp(0), np.uintp(x.shape[1])):
            for f in range(begin, end):
                level = x[sample, row, f] - mean[sample, f]
                y[sample, row, f] = level * root[sample, f] + offset[f]


@by_parts(
    CUBE, CUBE, VECTOR, float32, int64, int64, CUBE, *[MATRIX] * 6, exact=True, apart=True
)  # fmt: skip
def groups_gradient(
    part, parts, g, x, scale, epsilon, width, block, result, by_scale, by_offset, mean, root, slope,
    level,
):  # fmt: skip
    """Gradients by x, and by scale and offset for each sample. See `norm_reference`.

    result = scale * root * g + slope * (x - mean) + level, with slope and level of a group.
    """
    features, size, step = np.uintp(x.shape[2]), np.uintp(block), np.uintp(width)
    blocks = (features + size - np.uintp(1)) // size
    count = np.float32(x.shape[1]) * np.float32(width)
    first, last = chunk_range(part, parts, len(x) * np.int64(blocks), 1)
    for unit in range(first, last):
        sample, begin, end = _block_of(unit, blocks, size, features)
        _set_moments(x, sample, begin, end, step, epsilon, mean, root, by_scale)
        _sum_rows(True, g, x, sample, begin, end, mean, by_offset, by_scale)
        for group in range(begin, end, step):
            along, total, factor = np.float32(0), np.float32(0), root[sample, group]
            for f in range(group, group + step):
                by_scale[sample, f] *= factor
                along += scale[f] * by_scale[sample, f]
                total += scale[f] * by_offset[sample, f]
            for f in range(group, group + step):
                slope[sample, f] = -factor * factor * (along / count)
                level[sample, f] = -factor * (total / count)
                root[sample, f] = factor * scale[f]
        for row in range(np.uintp(0), np.uintp(x.shape[1])):
            for f in range(begin, end):
                value = root[sample, f] * g[sample, row, f] + level[sample, f]
                deviation = x[sample, row, f] - mean[sample, f]
                result[sample, row, f] = value + slope[sample, f] * deviation
