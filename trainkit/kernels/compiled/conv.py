"""Convolution in two dimensions, by tiles of sums that stay in registers.

The kernels take tables that say where pixels and taps lie, in bytes, so that each of them serves
all windows, strides, dilations and numbers of channels; `conv_plans` makes the tables.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, int64, prange, void
from numba.core.types import UniTuple

from trainkit.kernels.compiled.options import compiled
from trainkit.kernels.compiled.tiles import (
    clear_floats,
    copy_floats,
    pixel_tile,
    tiling,
    turn_square,
    weight_tile,
)

_LINES = float32[:, :, ::1]
_TABLE = int64[:, ::1]
_LANES = tiling(1)[2]


@compiled(parallel=False)
def _fill(source, slot, first, lines, x, n, top, left):
    """Image `n` of `x` into `lines` lines of `source[slot]` from `first` on, with zeros around.

    Line 0 of the image is line `top` of these, its number 0 the number `left` of a line.
    """
    height, width, numbers = x.shape[1], x.shape[2], source.shape[2]
    start = min(max(left, 0), numbers)
    stop = max(min(width + left, numbers), start)
    target = source.ctypes.data + 4 * numbers * (slot * source.shape[1] + first)
    image = x.ctypes.data + 4 * width * n * height
    for i in range(lines):
        row = i - top
        if row < 0 or row >= height or start == stop:
            clear_floats(target, numbers)
        else:
            clear_floats(target, start)
            at = image + 4 * (row * width + start - left)
            copy_floats(target + 4 * start, at, stop - start)
            clear_floats(target + 4 * stop, numbers - stop)
        target += 4 * numbers


@compiled()
def _fill_all(source, lines, x, top, left):
    """All images, `source.shape[1] // lines` of them in each slot."""
    group = source.shape[1] // lines
    for number in prange(x.shape[0]):
        n = np.int64(number)  # prange counts in uint64, which with int64 would make floats
        _fill(source, n // group, n % group * lines, lines, x, n, top, left)


@compiled()
def _pack(kernel, packed):
    """Blocks of filters side by side: packed[b, k, f] = kernel[k, b * width + f]; zeros beyond."""
    blocks, count, width = packed.shape
    filters = kernel.shape[1]
    source, target = kernel.ctypes.data, packed.ctypes.data
    for number in prange(count):
        k = np.int64(number)
        for b in range(blocks):
            inside = min(width, filters - b * width)
            to = target + 4 * width * (b * count + k)
            copy_floats(to, source + 4 * (k * filters + b * width), inside)
            clear_floats(to + 4 * inside, width - inside)


@compiled(parallel=False)
def _turn(kernel, tap, packed, b, first, f0, some, lanes):
    """`some` filters of a block of channels of one tap, from filter `f0` on."""
    channels, filters = kernel.shape[1], kernel.shape[2]
    width = packed.shape[2]
    inside = min(width, channels - b * width)
    whole = inside // lanes * lanes if some == lanes else 0
    source = kernel.ctypes.data + 4 * (filters * (tap * channels + b * width) + f0)
    target = packed.ctypes.data + 4 * width * (b * packed.shape[1] + first + f0)
    for c in range(0, whole, lanes):
        turn_square(_LANES, source + 4 * c * filters, 4 * filters, target + 4 * c, 4 * width)
    for f in range(f0, f0 + some):
        for c in range(whole, inside):
            packed[b, first + f, c] = kernel[tap, b * width + c, f]
        for c in range(inside, width):
            packed[b, first + f, c] = 0


@compiled()
def _pack_turned(kernel, taps, packed):
    """As `_pack`, of kernel (taps, channels, filters), channels for filters and some of the taps.

    packed[b, t * filters + f, c] = kernel[taps[t], b * width + c, f]
    """
    filters = kernel.shape[2]
    pieces = (filters + _LANES - 1) // _LANES
    for number in prange(len(taps) * pieces):
        t, f0 = np.int64(number) // pieces, np.int64(number) % pieces * _LANES
        some = min(_LANES, filters - f0)
        for b in range(packed.shape[0]):
            _turn(kernel, taps[t], packed, b, t * filters, f0, some, _LANES)


def pixels(sixteens: int) -> Any:
    """Sums for tiles of pixels, `16 * sixteens` filters at a time.

    Its arguments:
        x: (images, lines, numbers of a line).
        source: (slots, lines, numbers of a line), where images are padded.
        kernel: (1, numbers of a window, filters), or (taps, channels, filters) to be turned.
        taps: which taps of the latter are seen.
        packed: (blocks, numbers of a window, width), or the kernel itself.
        bias: (filters,).
        y: (images, numbers of an image).
        at: where pixels of a group of images start in the source; row 1 for the last group.
        to: where they start in y, as at.
        runs: where runs of the source start from a pixel.
        chunks: rows of (first run, runs, first number, numbers), added up one after the other.
        counts: of tiles, for both rows of at.
        numbers: (numbers of a run, images of a group, parts that a group's tiles are split in,
            blocks of a task, lines of a padded image, top, left, how to fill, how to pack). To
            fill: 0 not, 1 by the task that needs it, 2 before. To pack: 0 not, 1 as it is, 2
            turned.
        low: the smallest result.
    """
    tile_rows, vectors, lanes = tiling(sixteens)
    width = vectors * lanes

    @compiled()
    def run(x, source, kernel, taps, packed, bias, y, at, to, runs, chunks, counts, numbers, low):
        length, group, splits, each, lines, top, left, fill, pack = numbers
        if pack == 1:
            _pack(kernel[0], packed)
        elif pack == 2:
            _pack_turned(kernel, taps, packed)
        if fill == 2:
            _fill_all(source, lines, x, top, left)
        images, filters = x.shape[0], bias.shape[0]
        groups = (images + group - 1) // group
        blocks, depth = packed.shape[0], packed.shape[1]
        tasks = (blocks // each) * groups * splits
        workers = source.shape[0] if fill == 1 else tasks
        x_at, y_at, at_at, to_at = x.ctypes.data, y.ctypes.data, at.ctypes.data, to.ctypes.data
        runs_at, packed_at, bias_at = runs.ctypes.data, packed.ctypes.data, bias.ctypes.data
        source_at = source.ctypes.data
        x_image, y_image = 4 * x.shape[1] * x.shape[2], 4 * y.shape[1]
        slot_bytes, table_bytes = 4 * source.shape[1] * source.shape[2], 8 * at.shape[1]
        lowest = np.float32(-np.inf)
        for number in prange(workers):
            worker = np.int64(number)
            for task in range(worker, tasks, workers):
                part, place = task % splits, task // splits % groups
                block = task // splits // groups * each
                base = x_at + place * group * x_image
                if fill == 1:
                    base = source_at + worker * slot_bytes
                    for i in range(min(group, images - place * group)):
                        _fill(source, worker, i * lines, lines, x, place * group + i, top, left)
                elif fill == 2:
                    base = source_at + place * slot_bytes
                row = 1 if place == groups - 1 else 0
                count = counts[row]
                for b in range(block, block + each):
                    result = y_at + place * group * y_image + 4 * b * width
                    inside = min(width, filters - b * width)
                    for c in range(chunks.shape[0]):
                        first_run, some, first, some_numbers = chunks[c]
                        done = c == chunks.shape[0] - 1
                        for tile in range(part * count // splits, (part + 1) * count // splits):
                            where = row * table_bytes + 8 * tile_rows * tile
                            pixel_tile(
                                tile_rows,
                                vectors,
                                lanes,
                                base + 4 * first,
                                at_at + where,
                                runs_at + 8 * first_run,
                                some,
                                some_numbers,
                                packed_at + 4 * width * (b * depth + first_run * length + first),
                                bias_at + 4 * b * width,
                                result,
                                to_at + where,
                                c == 0,
                                inside,
                                low if done else lowest,
                            )

    run.compile(
        void(
            _LINES,
            _LINES,
            _LINES,
            int64[::1],
            _LINES,
            float32[::1],
            float32[:, ::1],
            _TABLE,
            _TABLE,
            int64[::1],
            _TABLE,
            int64[::1],
            UniTuple(int64, 9),
            float32,
        )
    )
    return run


def weights(sixteens: int) -> Any:
    """Sums for tiles of a kernel's weights, `16 * sixteens` filters at a time.

    Its arguments:
        x: (images, lines, numbers of a line).
        source: the same, with room for padding, or empty.
        g: (images, pixels, filters).
        y: (parts, weights, filters), of one part of the images each.
        at: where weights start from a pixel in x.
        to: where their rows start in y.
        pieces: rows of (first tile, after the last, first line, after the last, first point, after
            the last): the windows that these tiles see.
        groups: rows of (first piece, after the last) of a task.
        numbers: (lines of windows, points of a line, bytes in x from line to line, from point to
            point, images of a step, lines of a step, top, left).
    """
    tile_rows, vectors, lanes = tiling(sixteens)
    width = vectors * lanes

    @compiled()
    def run(x, source, g, y, at, to, pieces, groups, numbers):
        out_h, out_w, by_line, by_point, deep, lines, top, left = numbers
        images, filters, parts = x.shape[0], g.shape[2], y.shape[0]
        x_at, x_image = x.ctypes.data, 4 * x.shape[1] * x.shape[2]
        if source.shape[0] > 0:
            _fill_all(source, source.shape[1], x, top, left)
            x_at, x_image = source.ctypes.data, 4 * source.shape[1] * source.shape[2]
        g_at, y_at, at_at, to_at = g.ctypes.data, y.ctypes.data, at.ctypes.data, to.ctypes.data
        g_image, part_bytes = 4 * g.shape[1] * filters, 4 * y.shape[1] * filters
        blocks = (filters + width - 1) // width
        tasks = blocks * len(groups) * parts
        for number in prange(tasks):
            task = np.int64(number)
            part, block = task % parts, task // parts // len(groups)
            group = task // parts % len(groups)
            start, stop = part * images // parts, (part + 1) * images // parts
            inside = min(width, filters - block * width)
            steps = np.array(
                [x_image, by_line, by_point, g_image, 4 * out_w * filters, 4 * filters]
            )
            steps_at = steps.ctypes.data
            for n in range(start, stop, deep):
                some = min(deep, stop - n)
                for line in range(0, out_h, lines):
                    for p in range(groups[group, 0], groups[group, 1]):
                        first_tile, last_tile, line_0, line_1, point_0, point_1 = pieces[p]
                        i0, i1 = max(line, line_0), min(line + lines, line_1)
                        if i0 >= i1:
                            continue
                        begun = n > start or i0 > line_0
                        slopes = 4 * filters * (i0 * out_w + point_0) + 4 * block * width
                        for tile in range(first_tile, last_tile):
                            where = 8 * tile_rows * tile
                            weight_tile(
                                tile_rows,
                                vectors,
                                lanes,
                                x_at + n * x_image + i0 * by_line + point_0 * by_point,
                                at_at + where,
                                g_at + n * g_image + slopes,
                                some,
                                i1 - i0,
                                point_1 - point_0,
                                steps_at,
                                y_at + part * part_bytes + 4 * block * width,
                                to_at + where,
                                not begun,
                                inside,
                            )

    run.compile(
        void(
            _LINES,
            _LINES,
            _LINES,
            _LINES,
            int64[::1],
            int64[::1],
            _TABLE,
            _TABLE,
            UniTuple(int64, 8),
        )
    )
    return run
