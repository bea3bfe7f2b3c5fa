"""Convolution in two dimensions, by tiles of sums that stay in registers.

The kernels take tables that say where pixels and kernel offsets lie, in bytes, so that each of them
serves all windows, strides, dilations and numbers of channels; `conv_layout` makes the tables.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, int64, prange, void
from numba.core.types import UniTuple

from trainkit.core.cpu.cost_model import CACHE_LINE, CACHED_FLOATS, COPIED_COLUMN
from trainkit.kernels.convolution.conv_microkernels import (
    clear_floats,
    copy_floats,
    pack_gradients,
    pack_inputs,
    pixel_tile,
    turn_square,
    weight_tile,
)
from trainkit.kernels.jit.emitters import fetch_bytes
from trainkit.kernels.jit.local_arrays import keep_alive
from trainkit.kernels.jit.options import compiled
from trainkit.kernels.jit.register_tiles import FAR_BYTES, tiling
from trainkit.kernels.threads.parallel_for import POOL, WITHOUT_POOL, chunk_range, spread

_LINES = float32[:, :, ::1]
_TABLE = int64[:, ::1]
_LANES = tiling(1)[2]
_F32 = np.float32


@compiled(parallel=False)
def _fill(source, slot, first, lines, x, n, left):
    """Lines of image `n` of `x` into `source[slot]` from line `first` on, with zeros around.

    `lines` says for each line of the padded image which one of the image it is, or -1; number 0 of
    these goes to number `left`.
    """
    height, width, numbers = x.shape[1], x.shape[2], source.shape[2]
    # Padding may be negative, where only a part of a line is seen, or wider than the line; within
    # these bounds the three lengths below add up to the line's.
    start = min(max(left, 0), numbers)
    stop = max(min(width + left, numbers), start)
    target = source.ctypes.data + 4 * numbers * (slot * source.shape[1] + first)
    image = x.ctypes.data + 4 * width * n * height
    for i in range(len(lines)):
        if lines[i] < 0 or start == stop:
            clear_floats(target, numbers)
        else:
            clear_floats(target, start)
            at = image + 4 * (lines[i] * width + start - left)
            copy_floats(target + 4 * start, at, stop - start)
            clear_floats(target + 4 * stop, numbers - stop)
        target += 4 * numbers


@compiled(parallel=False)
def _fill_part(part, parts, source, lines, x, left):
    """Some of all images, `source.shape[1] // len(lines)` of which go into each slot."""
    group = source.shape[1] // len(lines)
    start, stop = chunk_range(part, parts, x.shape[0], 1)
    for number in range(start, stop):
        n = np.int64(number)
        _fill(source, n // group, n % group * len(lines), lines, x, n, left)


@compiled(parallel=False)
def _pack_part(part, parts, kernel, offsets, blocks, packed):
    """Blocks of filters side by side, zeros beyond their ends; some rows of some offsets.

    packed[b, k, f] = kernel[offsets[k // inside] * inside + k % inside, blocks[b, 1] // 4 + f]
    """
    count, width, filters = packed.shape[1], packed.shape[2], kernel.shape[1]
    inside = count // len(offsets)
    source, target = kernel.ctypes.data, packed.ctypes.data
    start, stop = chunk_range(part, parts, count, 1)
    for number in range(start, stop):
        k = np.int64(number)
        row = offsets[k // inside] * inside + k % inside
        for b in range(len(blocks)):
            to = target + 4 * width * (b * count + k)
            copy_floats(to, source + 4 * row * filters + blocks[b, 1], blocks[b, 2])
            clear_floats(to + 4 * blocks[b, 2], width - blocks[b, 2])


@compiled(parallel=False)
def _turn(kernel, offset, packed, block, b, first, some):
    """`some` filters of a block of channels of one offset, from the filter of row `first` on."""
    channels, filters, width = kernel.shape[1], kernel.shape[2], packed.shape[2]
    own = packed.shape[1]
    c0, f0 = block[1] // 4 % channels, block[0] // 4 + first[1]
    row, inside = first[0] + first[1], block[2]
    vector_end = inside // _LANES * _LANES if some == _LANES else 0
    # The kernel lies by filters, and here filters are what is summed over: its squares are
    # transposed in registers, and what makes no whole square is copied number by number.
    source = kernel.ctypes.data + 4 * (filters * (offset * channels + c0) + f0)
    target = packed.ctypes.data + 4 * width * (b * own + row)
    for c in range(0, vector_end, _LANES):
        turn_square(_LANES, source + 4 * c * filters, 4 * filters, target + 4 * c, 4 * width)
    for f in range(some):
        for c in range(vector_end, inside):
            packed[b, row + f, c] = kernel[offset, c0 + c, f0 + f]
        for c in range(inside, width):
            packed[b, row + f, c] = 0


@compiled(parallel=False)
def _pack_turned_part(part, parts, kernel, offsets, blocks, packed):
    """As `_pack_part`, of kernel (offsets, channels, filters), channels for filters.

    packed[b, t * filters + f, c] = kernel[offsets[t], blocks[b, 1] // 4 % channels + c,
    blocks[b, 0] // 4 + f], with as many filters as a group has
    """
    filters = packed.shape[1] // len(offsets)
    pieces = (filters + _LANES - 1) // _LANES
    start, stop = chunk_range(part, parts, len(offsets) * pieces, 1)
    for number in range(start, stop):
        # Numba counts in unsigned numbers here, whose differences below would wrap around.
        t, f0 = np.int64(number) // pieces, np.int64(number) % pieces * _LANES
        some = min(_LANES, filters - f0)
        for b in range(len(blocks)):
            _turn(kernel, offsets[t], packed, blocks[b], b, (t * filters, f0), some)


# The arithmetic of what follows stays as it is written.
@compiled(parallel=False, exact=True)
def _pixels_part(
    part, parts, x, source, lines, packed, blocks, bias, y, at, to, runs, chunks, counts,
    numbers, low, factor, shift, residual, limits, tile_rows, vectors, lanes, by_channel,
):  # fmt: skip
    length, group, splits, each, left, fill = numbers[:6]
    width = vectors * lanes
    images, depth = x.shape[0], packed.shape[1]
    groups = (images + group - 1) // group
    tasks = (len(blocks) // each) * groups * splits
    x_at, y_at, at_at, to_at = x.ctypes.data, y.ctypes.data, at.ctypes.data, to.ctypes.data
    runs_at, packed_at, bias_at = runs.ctypes.data, packed.ctypes.data, bias.ctypes.data
    source_at = source.ctypes.data
    x_image, y_image = 4 * x.shape[1] * x.shape[2], 4 * y.shape[1]
    slot_bytes, table_bytes = 4 * source.shape[1] * source.shape[2], 8 * at.shape[1]
    factor_at, shift_at, residual_at = factor.ctypes.data, shift.ctypes.data, residual.ctypes.data
    # The rectifier is for complete sums; between chunks nothing is cut off.
    lowest = np.float32(-np.inf)
    # Results that no cache has are asked for a tile before they are written.
    is_far = 4 * y.size >= FAR_BYTES
    worker = np.int64(part)
    for task in range(worker, tasks, parts):
        # Neighbouring tasks are shares of one group, so threads that run at a time read the same
        # images and the same weights.
        share, image_group = task % splits, task // splits % groups
        block = task // splits // groups * each
        base = x_at + image_group * group * x_image
        if fill == 1:
            # A slot for each worker, not for each group: it is overwritten while it is still in the
            # cache.
            base = source_at + worker * slot_bytes
            for i in range(min(group, images - image_group * group)):
                first_line = i * len(lines)
                _fill(source, worker, first_line, lines, x, image_group * group + i, left)
        elif fill == 2:
            base = source_at + image_group * slot_bytes
        # The last group may be smaller; where it is not, there is one row and this is it.
        row = at.shape[0] - 1 if image_group == groups - 1 else 0
        count = counts[row]
        for b in range(block, block + each):
            # Chunks outside, tiles inside: the weights of a chunk stay in the cache for all tiles.
            for c in range(chunks.shape[0]):
                first_run, some, first, some_numbers = chunks[c]
                is_last_chunk = c == chunks.shape[0] - 1
                in_image = image_group * group * y_image + blocks[b, 1]
                follows = factor_at + blocks[b, 1] if is_last_chunk and len(factor) else 0
                beside = residual_at + in_image if residual.shape[0] else 0
                stop = (share + 1) * count // splits
                weights_at = packed_at + 4 * width * (b * depth + first_run * length + first)
                # Those of the next chunk lie behind them: they come from far, and are asked for
                # while these are multiplied.
                ahead = weights_at + 4 * width * some * some_numbers
                ahead_end = min(2 * ahead - weights_at, packed_at + 4 * packed.size)
                for tile in range(share * count // splits, stop):
                    where = row * table_bytes + 8 * tile_rows * tile
                    asked_at = ahead if ahead < ahead_end else weights_at
                    ahead += CACHE_LINE * some * some_numbers
                    if is_far and c == 0 and tile + 1 < stop:
                        for p in range(tile_rows * (tile + 1), tile_rows * (tile + 2)):
                            # the last number of each line, which may begin anywhere
                            far_end = y_at + in_image + to[row, p] + CACHE_LINE - 4
                            fetch_bytes(far_end, 4 * width - CACHE_LINE + 4)
                    pixel_tile(
                        tile_rows, vectors, lanes, by_channel,
                        base + blocks[b, 0] + 4 * first, at_at + where, runs_at + 8 * first_run,
                        some, some_numbers,
                        weights_at, asked_at, bias_at + blocks[b, 1],
                        y_at + in_image, to_at + where,
                        c == 0, blocks[b, 2], low if is_last_chunk else lowest,
                        follows, shift_at + blocks[b, 1], beside, limits[0], limits[1],
                    )  # fmt: skip


def pixels(sixteens: int, by_channel: int) -> Any:
    """`run(pool, ...)`: sums for tiles of pixels, 16 * sixteens filters at a time.

    `by_channel` is 1 where each filter has its channel.

    Its arguments:
        x: (images, lines, numbers of a line).
        source: (slots, lines, numbers of a line), where images are padded.
        lines: which line of an image is at each line of a padded one, or -1.
        kernel: (1, numbers of a window, filters), or (offsets, channels, filters) to be turned.
        offsets: which offsets of it are seen.
        packed: (blocks, numbers of a window, width), or the kernel itself.
        blocks: rows of (where the channels of a block start from a pixel of the source, where its
            filters start from a pixel of the result, how many there are).
        bias: (filters,).
        y: (images, numbers of an image).
        at: where pixels of a group of images start in the source; the last row for the
            last group.
        to: where they start in y, as at.
        runs: where runs of the source start from a pixel.
        chunks: rows of (first run, runs, first number, numbers), added up one after the other.
        counts: of tiles, for each row of at.
        numbers: (numbers of a run, images of a group, parts that a group's tiles are split in,
            blocks of a task, left, how to fill, how to pack). To fill: 0 not, 1 by the task that
            needs it, 2 before. To pack: 0 not, 1 as it is, 2 turned.
        low: the smallest sum.
        factor, shift: (filters,), for what follows sums, or empty.
        residual: what is added then, of the shape of y, or empty.
        limits: the smallest result then, and the largest.
    """
    tile_rows, vectors, lanes = tiling(sixteens)

    @compiled(parallel=WITHOUT_POOL)
    def run(
        pool, x, source, lines, kernel, offsets, packed, blocks, bias, y,
        at, to, runs, chunks, counts, numbers, low, factor, shift, residual, limits,
    ):  # fmt: skip
        group, splits, each, left, fill, pack = numbers[1:]
        # Weights that are cached are packed before a helper has come.
        pieces = 1 + packed.size // CACHED_FLOATS
        together = pool if pieces > 1 else 0
        if pack == 1:
            spread(together, pieces, _pack_part, (kernel[0], offsets, blocks, packed))
        elif pack == 2:
            spread(together, pieces, _pack_turned_part, (kernel, offsets, blocks, packed))
        if fill == 2:
            spread(pool, x.shape[0], _fill_part, (source, lines, x, left))
        tasks = (len(blocks) // each) * ((x.shape[0] + group - 1) // group) * splits
        # Where tasks fill slots, there are as many parts as slots, and each part keeps to its own.
        workers = source.shape[0] if fill == 1 else tasks
        if WITHOUT_POOL:
            for part in prange(workers):
                _pixels_part(
                    part, workers, x, source, lines, packed, blocks, bias, y, at, to, runs, chunks,
                    counts, numbers, low, factor, shift, residual, limits,
                    tile_rows, vectors, lanes, by_channel,
                )  # fmt: skip
        else:
            operands = (
                x, source, lines, packed, blocks, bias, y, at, to, runs, chunks,
                counts, numbers, low, factor, shift, residual, limits,
                tile_rows, vectors, lanes, by_channel,
            )  # fmt: skip
            spread(pool, workers, _pixels_part, operands)

    lists, vector, images = int64[::1], float32[::1], float32[:, ::1]
    kinds = (
        _LINES, _LINES, lists, _LINES, lists, _LINES, _TABLE, vector, images,
        _TABLE, _TABLE, lists, _TABLE, lists, UniTuple(int64, 7), float32,
        vector, vector, images, UniTuple(float32, 2),
    )  # fmt: skip
    run.compile(void(POOL[0], *kinds))
    return run


@compiled(parallel=False)
def _lie_side_by_side(at):
    """Whether numbers follow one another; the ends alone may be as far apart by chance."""
    for i in range(1, len(at)):
        if at[i] - at[i - 1] != 4:
            return False
    return True


@compiled(parallel=False)
def _pack_gradient_lines(
    source, by_image, by_line, by_point, count, images, lines, points, target, vectors, lanes
):
    """Rows of `count` numbers at so many points of lines of images, side by side."""
    for n in range(images):
        for i in range(lines):
            at = source + n * by_image + i * by_line
            pack_gradients(vectors, lanes, at, by_point, count, points, target)
            target += 4 * vectors * lanes * points


@compiled(parallel=False)
def _pack_input_lines(
    source, by_image, by_line, by_point, images, lines, points, target, rows, lanes
):
    """The same of `rows` numbers each."""
    for n in range(images):
        for i in range(lines):
            at = source + n * by_image + i * by_line
            pack_inputs(rows, lanes, at, by_point, points, target)
            target += 4 * rows * points


@compiled(parallel=False)
def _weights_part(
    part, parts, x, source, g, y, blocks, at, to, pieces, groups, numbers,
    tile_rows, vectors, lanes, by_channel,
):  # fmt: skip
    planes, out_h, out_w, by_plane, by_line, by_point, deep, high, _, each = numbers
    width = vectors * lanes
    images, filters, shares = x.shape[0], g.shape[2], y.shape[0]
    x_at, x_image = x.ctypes.data, 4 * x.shape[1] * x.shape[2]
    # The copy has the padding in it, so offsets need no bounds.
    if source.shape[0] > 0:
        x_at, x_image = source.ctypes.data, 4 * source.shape[1] * source.shape[2]
    g_at, y_at, at_at, to_at = g.ctypes.data, y.ctypes.data, at.ctypes.data, to.ctypes.data
    g_point, g_image, share_bytes = 4 * filters, 4 * g.shape[1] * filters, 4 * y[0].size
    longest = 0 if by_channel else deep * min(high, out_h) * out_w
    grads = np.empty(each * longest * width, _F32)
    # `pack_inputs` writes whole vectors, the last of them beyond its row.
    panel = np.empty(longest * tile_rows + tile_rows + lanes, _F32)
    grads_at, panel_at = grads.ctypes.data, panel.ctypes.data
    steps, panel_steps = np.array([x_image, by_line, by_point, 0, 0, 0]), np.empty(6, np.int64)
    # Only their addresses are used below.
    steps_at, panel_steps_at = steps.ctypes.data, panel_steps.ctypes.data
    ranges = (len(blocks) + each - 1) // each
    first, last = chunk_range(part, parts, ranges * len(groups) * shares, 1)
    for number in range(first, last):
        task = np.int64(number)
        share, group = task % shares, task // shares % len(groups)
        block_0 = task // shares // len(groups) * each
        block_1 = min(block_0 + each, len(blocks))
        start, stop = share * images // shares, (share + 1) * images // shares
        # Some images and lines at a time, so that their gradients stay in the first cache while all
        # tiles of the group use them.
        for n in range(start, stop, deep):
            some = min(deep, stop - n)
            for plane in range(planes):
                for line in range(0, out_h, high):
                    for p in range(groups[group, 0], groups[group, 1]):
                        tile_0, tile_1, plane_0, plane_1 = pieces[p, :4]
                        line_0, line_1, point_0, point_1 = pieces[p, 4:]
                        i0, i1 = max(line, line_0), min(line + high, line_1)
                        if i0 >= i1 or plane < plane_0 or plane >= plane_1:
                            continue
                        # The first visit starts from zeros, so the result need not be cleared
                        # before.
                        begun = n > start or plane > plane_0 or i0 > line_0
                        points = point_1 - point_0
                        point = (plane * out_h + i0) * out_w + point_0
                        x_offset = n * x_image + plane * by_plane + i0 * by_line
                        x_offset += point_0 * by_point
                        g_0 = g_at + n * g_image + point * g_point
                        # Rows of whole vectors are read where they lie, unless enough tiles read
                        # them to make up for a copy. What a shorter block in between has beyond its
                        # end is the next one's, and not stored.
                        is_packed = by_channel == 0 and (
                            blocks[block_1 - 1, 2] < width or tile_1 - tile_0 >= COPIED_COLUMN
                        )
                        by_block = 4 * width * some * (i1 - i0) * points
                        if is_packed:
                            steps[3], steps[4] = 4 * width * (i1 - i0) * points, 4 * width * points
                            steps[5] = 4 * width
                            for b in range(block_0, block_1):
                                _pack_gradient_lines(
                                    g_0 + blocks[b, 1], g_image, out_w * g_point, g_point,
                                    blocks[b, 2], some, i1 - i0, points,
                                    grads_at + (b - block_0) * by_block, vectors, lanes,
                                )  # fmt: skip
                        else:
                            steps[3], steps[4], steps[5] = g_image, out_w * g_point, g_point
                        panel_steps[0] = 4 * tile_rows * (i1 - i0) * points
                        panel_steps[1], panel_steps[2] = 4 * tile_rows * points, 4 * tile_rows
                        for i in range(3, 6):
                            panel_steps[i] = steps[i]
                        for tile in range(tile_0, tile_1):
                            where = 8 * tile_rows * tile
                            rows_at = at[tile_rows * tile : tile_rows * (tile + 1)]
                            # In a copy no two lines of inputs take each other's place in the first
                            # cache. Its rows are copied by vectors, in half of the time.
                            side_by_side = by_channel == 0 and _lie_side_by_side(rows_at)
                            is_copied = side_by_side and block_1 - block_0 > COPIED_COLUMN // 2
                            for b in range(block_0, block_1):
                                block_grads = g_0 + blocks[b, 1]
                                if is_packed:
                                    block_grads = grads_at + (b - block_0) * by_block
                                x_0 = x_at + x_offset + blocks[b, 0]
                                # Blocks of one group of channels read the same inputs, and lie side
                                # by side.
                                is_next = b == block_0 or blocks[b, 0] != blocks[b - 1, 0]
                                if is_copied and is_next:
                                    _pack_input_lines(
                                        x_0 + rows_at[0], x_image, by_line, by_point,
                                        some, i1 - i0, points, panel_at, tile_rows, lanes,
                                    )  # fmt: skip
                                y_0 = y_at + share * share_bytes + blocks[b, 1]
                                if side_by_side:
                                    weight_tile(
                                        tile_rows, vectors, lanes, by_channel, 1,
                                        panel_at if is_copied else x_0 + rows_at[0], 0, block_grads,
                                        some, i1 - i0, points,
                                        panel_steps_at if is_copied else steps_at,
                                        y_0, to_at + where, not begun, blocks[b, 2],
                                    )  # fmt: skip
                                else:
                                    weight_tile(
                                        tile_rows, vectors, lanes, by_channel, 0, x_0,
                                        at_at + where, block_grads, some, i1 - i0, points, steps_at,
                                        y_0, to_at + where, not begun, blocks[b, 2],
                                    )  # fmt: skip
    # Only their addresses are used above, so Numba would free the arrays before the loops.
    keep_alive(grads)
    keep_alive(panel)
    keep_alive(steps)
    keep_alive(panel_steps)


def weights(sixteens: int, by_channel: int, tile_rows: int) -> Any:
    """`run(pool, ...)`: sums for tiles of `tile_rows` weights, 16 * sixteens filters at a time.

    `by_channel` is 1 where each filter has its channel.

    Its arguments:
        x: (images, lines, numbers of a line).
        source: the same, with room for padding, or empty.
        lines: as for `pixels`.
        g: (images, pixels, filters).
        y: (shares, weights, filters), of one share of the images each.
        blocks: as for `pixels`.
        at: where weights start from a pixel in x.
        to: where their rows start in y.
        pieces: rows of (first tile, after the last, first plane, after the last, first line, after
            the last, first point, after the last): the windows that these tiles see.
        groups: rows of (first piece, after the last) of a task.
        numbers: (planes of windows, lines of a plane, points of a line, bytes in x from plane to
            plane, from line to line, from point to point, images of a step, lines of a step, left,
            blocks of a task).
    """
    _, vectors, lanes = tiling(sixteens)

    @compiled(parallel=WITHOUT_POOL)
    def run(pool, x, source, lines, g, y, blocks, at, to, pieces, groups, numbers):
        if source.shape[0] > 0:
            spread(pool, x.shape[0], _fill_part, (source, lines, x, numbers[8]))
        tasks = (len(blocks) + numbers[9] - 1) // numbers[9] * len(groups) * y.shape[0]
        if WITHOUT_POOL:
            for part in prange(tasks):
                _weights_part(
                    part, tasks, x, source, g, y, blocks, at, to, pieces, groups, numbers,
                    tile_rows, vectors, lanes, by_channel,
                )  # fmt: skip
        else:
            operands = (
                x, source, g, y, blocks, at, to, pieces, groups, numbers,
                tile_rows, vectors, lanes, by_channel,
            )  # fmt: skip
            spread(pool, tasks, _weights_part, operands)

    lists = int64[::1]
    kinds = (
        _LINES, _LINES, lists, _LINES, _LINES, _TABLE, lists, lists, _TABLE, _TABLE,
        UniTuple(int64, 10),
    )  # fmt: skip
    run.compile(void(POOL[0], *kinds))
    return run
