"""Convolutions of 3 x 3 windows by Winograd's minimal filtering, and their gradients.

Each number of a transformed tile belongs to one of 36 products of matrices, tiles by channels times
channels by filters. Tiles are taken a strip at a time, so that what is transformed is still in the
second cache when it is multiplied, and products when they are turned into results. Every sum is
added up in the order of its terms, whatever the strips, so their size changes no bits. All is
compiled as it is written: the same transform stands in several functions, which have to agree.
Images are float32 or the bits of bfloat16, which transforms read and write; weights and all that
lies between are float32. In three dimensions a window of (depth, 3, 3) is one of 3 x 3 over `depth`
planes side by side, which count as channels; planes are read where they lie, and those of the
padding are zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, int64, prange, uint16, void
from numba.core.types import UniTuple

from trainkit.core.cpu.cost_model import FIRST_FLOATS
from trainkit.kernels.convolution import winograd_sizes
from trainkit.kernels.convolution.conv_microkernels import turn_square
from trainkit.kernels.convolution.winograd_sizes import LINE, PRODUCTS, SPAN, STEP
from trainkit.kernels.convolution.winograd_transforms import (
    GRADIENTS,
    INPUTS,
    RESULTS,
    SUMS,
    WEIGHTS,
    transform_from_points,
    transform_to_points,
)
from trainkit.kernels.jit.emitters import fetch_line
from trainkit.kernels.jit.local_arrays import keep_alive
from trainkit.kernels.jit.options import compiled
from trainkit.kernels.jit.register_tiles import tiling
from trainkit.kernels.matmul.matmul_compiled import whole_product_tile
from trainkit.kernels.threads.parallel_for import POOL, WITHOUT_POOL, chunk_range, spread

_IMAGES = {4: float32[:, :, :, ::1], 2: uint16[:, :, :, ::1]}
"""By the bytes of a number."""
_WEIGHTS = float32[:, :, ::1]
_FLAT, _TABLE = float32[::1], float32[:, ::1]
_OFFSETS = 9
_PIECE = 4 * LINE
"""Channels whose weights are transformed at a time."""
_JOINED = FIRST_FLOATS // 2
"""Sums that stay in the first cache while those of all shares are added to them."""


row_size = compiled(parallel=False, exact=True)(winograd_sizes.row_size)
planes_size = compiled(parallel=False, exact=True)(winograd_sizes.planes_size)


@compiled(parallel=False, exact=True)
def _first_line(room):
    """The first address in an array at which a line of the cache begins."""
    size = 4 * LINE
    return (room.ctypes.data + size - 1) // size * size


@compiled(parallel=False, exact=True)
def _transform_tile(kind, span, lanes, size, images, plane, tile, across, before, target, step):
    """All numbers of a tile of a plane at all points; outside of the plane they are zeros.

    `span` is how many lines and points the tile has, `across` how many tiles lie side by side, and
    `before` how far the first one begins outside. A plane below 0 is zeros.
    """
    height, width, channels = images.shape[1], images.shape[2], images.shape[3]
    top, left = STEP * (tile // across) - before[0], STEP * (tile % across) - before[1]
    line, point = size * width * channels, size * channels
    at = images.ctypes.data + (plane * height + top) * line + left * point
    if plane < 0:
        height = 0
    inside = top >= 0 and left >= 0 and top + span <= height and left + span <= width
    for c in range(0, channels, lanes):
        if inside and c + lanes <= channels:
            transform_to_points(
                kind, lanes, size, 1, at + size * c, line, point, 0, span, 0, span, lanes,
                target + 4 * c, step,
            )  # fmt: skip
        else:
            transform_to_points(
                kind, lanes, size, 0, at + size * c, line, point,
                -top, height - top, -left, width - left, channels - c, target + 4 * c, step,
            )  # fmt: skip


@compiled(parallel=False, exact=True)
def _transform_planes(lanes, size, images, tile, tiles, before, planes, target, step):
    """Inputs of a tile of results: the tiles that it sees of all planes of its window in a row.

    The last vector of a plane reaches into the next one, which is written after it.
    """
    depth, results, inputs, first = planes
    down, across = tiles
    n, inside = tile // (down * across), tile % (down * across)
    for a in range(depth):
        z = n % results + a - first
        plane = n // results * inputs + z if 0 <= z < inputs else -1
        _transform_tile(
            INPUTS, SPAN, lanes, size, images, plane, inside, across, before,
            target + 4 * a * images.shape[3], step,
        )  # fmt: skip


# ------------------------------------------------------------------ results


@compiled(parallel=False, exact=True)
def _transform_weights(kernel, first, count, f, target, step, vectors, lanes):
    """Weights of `count` channels from `first` on, and of filters from `f` on, at all points.

    A row of `vectors * lanes` filters for each channel, zeros beyond the last filter. Channels are
    those of all planes.
    """
    channels, filters = kernel.shape[1], kernel.shape[2]
    apart = 4 * channels * filters
    for number in range(first, first + count):
        # (plane, offset, channel) as a row of the kernel's matrix
        c = number // channels * _OFFSETS * channels + number % channels
        for v in range(vectors):
            filter_0 = f + v * lanes
            transform_to_points(
                WEIGHTS, lanes, 4, 0,
                kernel.ctypes.data + 4 * (c * filters + filter_0), 3 * apart, apart, 0, 3, 0, 3,
                filters - filter_0, target + 4 * lanes * v, step,
            )  # fmt: skip
        target += 4 * vectors * lanes


@compiled(parallel=False, exact=True)
def _transform_turned_weights(kernel, first, count, f, target, step, vectors, lanes):
    """The same of a kernel (9 * depth, filters, channels), its windows turned by half a turn."""
    filters, channels = kernel.shape[1], kernel.shape[2]
    depth = kernel.shape[0] // _OFFSETS
    square = np.empty(_OFFSETS * lanes * lanes, np.float32)
    apart = 4 * lanes * lanes
    number = first
    while number < first + count:
        c = number % channels
        some = min(lanes, first + count - number, channels - c)
        offset = (depth - 1 - number // channels) * _OFFSETS
        for v in range(vectors):
            filter_0 = f + v * lanes
            columns = min(lanes, filters - filter_0)
            for k in range(_OFFSETS):
                row = (offset + k) * filters + filter_0
                source = kernel.ctypes.data + 4 * (row * channels + c)
                if some == lanes and columns == lanes:
                    turn_square(
                        lanes, source, 4 * channels, square.ctypes.data + k * apart, 4 * lanes
                    )
                else:
                    for i in range(some):
                        for j in range(columns):
                            weight = kernel[offset + k, filter_0 + j, c + i]
                            square[(k * lanes + i) * lanes + j] = weight
            for i in range(some):
                # The last offset is the first one.
                transform_to_points(
                    WEIGHTS, lanes, 4, 0,
                    square.ctypes.data + 8 * apart + 4 * lanes * i, -3 * apart, -apart, 0, 3, 0, 3,
                    columns, target + 4 * lanes * (vectors * i + v), step,
                )  # fmt: skip
        target += 4 * vectors * lanes * some
        number += some
    keep_alive(square)


@compiled(parallel=False, exact=True)
def _weights_part(part, parts, kernel, packed, channels, filters, turn, vectors, lanes):
    """Pieces of channels of blocks of filters at all points.

    packed[b, p, c] = the weights of channel c and the filters of block b at point p
    """
    width = vectors * lanes
    blocks, pieces = (filters + width - 1) // width, (channels + _PIECE - 1) // _PIECE
    step = 4 * row_size(channels * width)
    first, last = chunk_range(part, parts, blocks * pieces, 1)
    for number in range(first, last):
        b, c = np.int64(number) // pieces, np.int64(number) % pieces * _PIECE
        target = _first_line(packed) + b * PRODUCTS * step + 4 * width * c
        count = min(_PIECE, channels - c)
        if turn:
            _transform_turned_weights(kernel, c, count, b * width, target, step, vectors, lanes)
        else:
            _transform_weights(kernel, c, count, b * width, target, step, vectors, lanes)


@compiled(parallel=False, exact=True)
def _write_results(
    products, step, y, start, count, tiles, f, bias, low, noted, vectors, lanes, size
):  # fmt: skip
    """Results of `count` tiles from `start` on, for a block of filters from `f` on."""
    out_h, out_w, filters = y.shape[1], y.shape[2], y.shape[3]
    line, point = size * out_w * filters, size * filters
    down, across = tiles
    for t in range(count):
        tile = start + t
        n, i, j = tile // (down * across), tile // across % down, tile % across
        bottom, right = min(STEP, out_h - STEP * i), min(STEP, out_w - STEP * j)
        to = y.ctypes.data + (n * out_h + STEP * i) * line + STEP * j * point
        for v in range(vectors):
            filter_0 = f + v * lanes
            source = products + 4 * lanes * (t * vectors + v)
            if bottom == STEP and right == STEP and filter_0 + lanes <= filters:
                transform_from_points(
                    RESULTS, lanes, size, 1, source, step, bias.ctypes.data + 4 * filter_0, low,
                    to + size * filter_0, line, point, STEP, STEP, lanes, noted,
                )  # fmt: skip
            elif filter_0 < filters:
                transform_from_points(
                    RESULTS, lanes, size, 0, source, step, bias.ctypes.data + 4 * filter_0, low,
                    to + size * filter_0, line, point, bottom, right, filters - filter_0, noted,
                )  # fmt: skip


@compiled(parallel=False, exact=True)
def _locate_tiles(y, size, start, count, tiles, at):
    """Where results of tiles begin, as addresses."""
    down, across = tiles
    for t in range(count):
        tile = start + t
        line = tile // (down * across) * y.shape[1] + STEP * (tile // across % down)
        at[t] = y.ctypes.data + size * (line * y.shape[2] + STEP * (tile % across)) * y.shape[3]


@compiled(parallel=False, exact=True)
def _fetch_results(at, first, last, y, size, f, width):
    """Ask for the lines of `width` filters of points `first` to `last` of tiles, 16 points each.

    Memory is slower than products, and comes while these are made. Beyond an edge it is in vain.
    """
    line, point = size * y.shape[2] * y.shape[3], size * y.shape[3]
    for number in range(first, last):
        t, i, j = number // (STEP * STEP), number // STEP % STEP, number % STEP
        address = at[t] + i * line + j * point + size * f
        for offset in range(0, size * width, 4 * LINE):
            fetch_line(1, address + offset)


@compiled(parallel=False, exact=True)
def _results_part(
    part, parts, x, kernel, packed, bias, y, noted, numbers, low, rows, vectors, lanes, size
):  # fmt: skip
    """Results of some strips of tiles, or of some blocks of filters of these."""
    before, (strip, shares, turn, alone), planes = numbers[:2], numbers[2:6], numbers[6:]
    channels, filters, width = planes[0] * x.shape[3], y.shape[3], vectors * lanes
    tiles = (y.shape[1] + STEP - 1) // STEP, (y.shape[2] + STEP - 1) // STEP
    total, blocks = y.shape[0] * tiles[0] * tiles[1], (filters + width - 1) // width
    row = row_size(planes_size(x.shape[3], planes[0]))
    piece = _PIECE if alone else channels
    input_step, product_step = row_size(strip * row), row_size(strip * width)
    inputs = np.empty(PRODUCTS * input_step + LINE, np.float32)
    products = np.empty(PRODUCTS * product_step + LINE, np.float32)
    weight_step = row_size(piece * width)
    room = np.empty(PRODUCTS * weight_step + LINE if alone else 1, np.float32)
    zeros = np.zeros(width, np.float32)
    inputs_at, products_at = _first_line(inputs), _first_line(products)
    noted_at = noted.ctypes.data + 4 * lanes * np.int64(part)
    first, last = chunk_range(part, parts, (total + strip - 1) // strip * shares, 1)
    transformed = -1
    y_at = np.empty(strip, np.int64)
    for task in range(first, last):
        number, share = np.int64(task) // shares, np.int64(task) % shares
        start = number * strip
        count = min(strip, total - start)
        if number != transformed:
            for t in range(count):
                _transform_planes(
                    lanes, size, x, start + t, tiles, before, planes,
                    inputs_at + 4 * row * t, 4 * input_step,
                )  # fmt: skip
            transformed = number
        _locate_tiles(y, size, start, count, tiles, y_at)
        points, calls = STEP * STEP * count, PRODUCTS * ((count + rows - 1) // rows)
        for b in range(share * blocks // shares, (share + 1) * blocks // shares):
            for c in range(0, channels, piece):
                deep = min(piece, channels - c)
                weights = _first_line(packed) + 4 * PRODUCTS * weight_step * b
                if alone:
                    # Nobody else takes these weights, so they need not leave the cache.
                    weights = _first_line(room)
                    step = 4 * weight_step
                    if turn:
                        _transform_turned_weights(
                            kernel, c, deep, b * width, weights, step, vectors, lanes
                        )
                    else:
                        _transform_weights(
                            kernel, c, deep, b * width, weights, step, vectors, lanes
                        )
                call = 0
                for p in range(PRODUCTS):
                    for q in range(0, count, rows):
                        if c == 0:
                            first_point = points * call // calls
                            call += 1
                            end_point = points * call // calls
                            _fetch_results(y_at, first_point, end_point, y, size, b * width, width)
                        to = products_at + 4 * (p * product_step + q * width)
                        sums, sums_step = zeros.ctypes.data, 0
                        if c > 0:
                            sums, sums_step = to, 4 * width
                        whole_product_tile(
                            4, rows, vectors, lanes,
                            inputs_at + 4 * (p * input_step + q * row + c), 4 * row, 4,
                            weights + 4 * p * weight_step, 4 * width, deep,
                            sums, sums_step, count - 1 - q, to, 4 * width,
                        )  # fmt: skip
            _write_results(
                products_at, 4 * product_step, y, start, count, tiles, b * width, bias, low,
                noted_at, vectors, lanes, size,
            )  # fmt: skip
    keep_alive(y_at)
    keep_alive(inputs)
    keep_alive(products)
    keep_alive(room)
    keep_alive(zeros)


def _results_kernel(sixteens: int, size: int) -> Any:
    """`run(pool, parts, ...)`: a convolution of 3 x 3 windows, 16 * sixteens filters at a time.

    Its arguments:
        x: (planes of all images, lines, points, channels).
        kernel: (9 * depth, channels, filters), or (9 * depth, filters, channels) to be turned.
        packed: room for all weights at all points, where not each task transforms its own.
        bias: (filters,).
        y: (planes of all images, lines, points, filters).
        noted: (parts, lanes) of zeros; some are NaN afterwards if not all results are finite.
        numbers: (lines of padding above, points of padding to the left, tiles of a strip, tasks
            that share a strip, 1 to turn the kernel, 1 if each task transforms its weights,
            planes of a window, of an image of results and of one of inputs, planes of padding
            before the first).
        low: the smallest result.

    Numbers of x and y have `size` bytes: 4, or 2 of bfloat16.
    """
    rows, vectors, lanes = tiling(sixteens)

    @compiled(parallel=WITHOUT_POOL)
    def run(pool, parts, x, kernel, packed, bias, y, noted, numbers, low):
        if not numbers[5]:
            channels, filters = numbers[6] * x.shape[3], y.shape[3]
            blocks = (filters + vectors * lanes - 1) // (vectors * lanes)
            weights = (kernel, packed, channels, filters, numbers[4], vectors, lanes)
            pieces = blocks * ((channels + _PIECE - 1) // _PIECE)
            spread(pool, pieces, _weights_part, weights)
        if WITHOUT_POOL:
            for part in prange(parts):
                _results_part(
                    part, parts, x, kernel, packed, bias, y, noted, numbers, low,
                    rows, vectors, lanes, size,
                )  # fmt: skip
        else:
            operands = (x, kernel, packed, bias, y, noted, numbers, low, rows, vectors, lanes, size)
            spread(pool, parts, _results_part, operands)

    images = _IMAGES[size]
    kinds = images, _WEIGHTS, _FLAT, _FLAT, images, _TABLE, UniTuple(int64, 10), float32
    run.compile(void(*POOL, *kinds))
    return run


def results(sixteens: int) -> Any:
    """The kernel for results of float32."""
    return _results_kernel(sixteens, 4)


def half_results(sixteens: int) -> Any:
    """The kernel for results of bfloat16."""
    return _results_kernel(sixteens, 2)


# ------------------------------------------------------------------ sums for weights


@compiled(parallel=False, exact=True)
def _points_part(part, parts, x, g, inputs, grads, start, count, numbers, lanes, size):
    """Inputs and gradients of some tiles of a strip, from tile `start` on, at all points."""
    before, strip, planes = numbers[:2], numbers[2], numbers[4:]
    tiles = (g.shape[1] + STEP - 1) // STEP, (g.shape[2] + STEP - 1) // STEP
    each = tiles[0] * tiles[1]
    row, grads_row = row_size(planes_size(x.shape[3], planes[0])), row_size(g.shape[3])
    first, last = chunk_range(part, parts, count, 1)
    for number in range(first, last):
        t = np.int64(number)
        _transform_planes(
            lanes, size, x, start + t, tiles, before, planes,
            _first_line(inputs) + 4 * row * t, 4 * row_size(strip * row),
        )  # fmt: skip
        _transform_tile(
            GRADIENTS, STEP, lanes, size, g, (start + t) // each, (start + t) % each, tiles[1],
            (0, 0), _first_line(grads) + 4 * grads_row * t, 4 * row_size(strip * grads_row),
        )  # fmt: skip


@compiled(parallel=False, exact=True)
def _sums_part(
    part, parts, inputs, grads, products, start, count, channels, row, filters, strip,
    rows, vectors, lanes,
):  # fmt: skip
    """Products of some points and blocks of filters, summed over the tiles of a strip."""
    width = vectors * lanes
    blocks = (filters + width - 1) // width
    grads_row, sums_row = row_size(filters), row_size(blocks * width)
    zeros = np.zeros(width, np.float32)
    first, last = chunk_range(part, parts, PRODUCTS * blocks, 1)
    for number in range(first, last):
        p, b = np.int64(number) // blocks, np.int64(number) % blocks
        inputs_at = _first_line(inputs) + 4 * p * row_size(strip * row)
        grads_at = _first_line(grads) + 4 * (p * row_size(strip * grads_row) + b * width)
        to = _first_line(products) + 4 * (p * row_size(channels * sums_row) + b * width)
        for c in range(0, channels, rows):
            sums, sums_step = zeros.ctypes.data, 0
            if start > 0:
                sums, sums_step = to, 4 * sums_row
            whole_product_tile(
                4, rows, vectors, lanes, inputs_at + 4 * c, 4, 4 * row, grads_at, 4 * grads_row,
                count, sums, sums_step, channels - 1 - c, to, 4 * sums_row,
            )  # fmt: skip
            to += 4 * rows * sums_row
    keep_alive(zeros)


@compiled(parallel=False, exact=True)
def _share_part(part, parts, x, g, products, total, numbers, rows, vectors, lanes, size):
    """Sums of products over a share of all tiles, in memory of its own: nobody is waited for."""
    channels, filters, strip = numbers[4] * x.shape[3], g.shape[3], numbers[2]
    row = row_size(planes_size(x.shape[3], numbers[4]))
    inputs = np.empty(PRODUCTS * row_size(strip * row) + LINE, np.float32)
    # The last block of filters is read to its end.
    grads_size = PRODUCTS * row_size(strip * row_size(filters)) + LINE + vectors * lanes
    grads = np.empty(grads_size, np.float32)
    share = np.int64(part)
    own_sums = products[share * (products.size // parts) :]
    first, last = share * total // parts, (share + 1) * total // parts
    for start in range(first, last, strip):
        count = min(strip, last - start)
        _points_part(0, 1, x, g, inputs, grads, start, count, numbers, lanes, size)
        _sums_part(
            0, 1, inputs, grads, own_sums, start - first, count, channels, row, filters, strip,
            rows, vectors, lanes,
        )  # fmt: skip
    keep_alive(inputs)
    keep_alive(grads)


@compiled(parallel=False, exact=True)
def _join_part(part, parts, products, shares):
    """Sums of all shares, added to those of the first one, in their order."""
    size = products.size // shares
    first, last = chunk_range(part, parts, size, LINE)
    for start in range(first, last, _JOINED):
        stop = min(start + _JOINED, last)
        for share in range(1, shares):
            offset = np.uintp(share * size)
            for i in range(start, stop):
                products[i] += products[offset + i]


@compiled(parallel=False, exact=True)
def _kernel_part(part, parts, products, y, vectors, lanes):
    """Some rows of gradients of weights from sums of products."""
    inside, filters, width = y.shape[1], y.shape[2], vectors * lanes
    channels = y.shape[0] // _OFFSETS * inside
    sums_row = row_size((filters + width - 1) // width * width)
    apart, step = 4 * inside * filters, 4 * row_size(channels * sums_row)
    room = np.zeros(2 * lanes, np.float32)
    bias, noted = room.ctypes.data, room.ctypes.data + 4 * lanes
    first, last = chunk_range(part, parts, channels, 1)
    for number in range(first, last):
        c = np.int64(number)
        to = y.ctypes.data + 4 * filters * (c // inside * _OFFSETS * inside + c % inside)
        for f in range(0, filters, lanes):
            transform_from_points(
                SUMS, lanes, 4, 0, _first_line(products) + 4 * (c * sums_row + f), step,
                bias, np.float32(-np.inf), to + 4 * f,
                3 * apart, apart, 3, 3, filters - f, noted,
            )  # fmt: skip
    keep_alive(room)


def _sums_kernel(sixteens: int, size: int) -> Any:
    """`run(pool, parts, ...)`: gradients of 3 x 3 weights, 16 * sixteens filters at a time.

    Its arguments:
        x: (planes of all images, lines, points, channels).
        g: (planes of all images, lines, points, filters).
        inputs: room for inputs of a strip at all points, where there is one share.
        grads: room for gradients of a strip at all points, where there is one share.
        products: room for the sums of products of each share.
        y: (9 * depth, channels, filters).
        numbers: (lines of padding above, points of padding to the left, tiles of a strip, shares,
            planes of a window, of an image of gradients and of one of inputs, planes of padding
            before the first). All threads work on one strip at a time, or where there are several
            shares of the tiles each on its own.

    Numbers of x and g have `size` bytes: 4, or 2 of bfloat16.
    """
    rows, vectors, lanes = tiling(sixteens)

    @compiled(parallel=WITHOUT_POOL)
    def run(pool, parts, x, g, inputs, grads, products, y, numbers):
        channels, filters, strip, shares = x.shape[3], g.shape[3], numbers[2], numbers[3]
        row = row_size(planes_size(channels, numbers[4]))
        channels *= numbers[4]
        total = g.shape[0] * ((g.shape[1] + STEP - 1) // STEP) * ((g.shape[2] + STEP - 1) // STEP)
        if shares > 1:
            if WITHOUT_POOL:
                for part in prange(shares):
                    _share_part(
                        part, shares, x, g, products, total, numbers, rows, vectors, lanes, size
                    )  # fmt: skip
            else:
                mine = (x, g, products, total, numbers, rows, vectors, lanes, size)
                spread(pool, shares, _share_part, mine)
            spread(pool, parts, _join_part, (products, shares))
        for start in range(0, total if shares == 1 else 0, strip):
            count = min(strip, total - start)
            if WITHOUT_POOL:
                for part in prange(parts):
                    _points_part(
                        part, parts, x, g, inputs, grads, start, count, numbers, lanes, size
                    )  # fmt: skip
                for part in prange(parts):
                    _sums_part(
                        part, parts, inputs, grads, products, start, count, channels, row,
                        filters, strip, rows, vectors, lanes,
                    )  # fmt: skip
            else:
                operands = (x, g, inputs, grads, start, count, numbers, lanes, size)
                spread(pool, parts, _points_part, operands)
                factors = (
                    inputs, grads, products, start, count, channels, row, filters, strip,
                    rows, vectors, lanes,
                )  # fmt: skip
                spread(pool, parts, _sums_part, factors)
        spread(pool, parts, _kernel_part, (products, y, vectors, lanes))

    images = _IMAGES[size]
    kinds = images, images, _FLAT, _FLAT, _FLAT, _WEIGHTS, UniTuple(int64, 8)
    run.compile(void(*POOL, *kinds))
    return run


def sums(sixteens: int) -> Any:
    """The kernel for images and gradients of float32."""
    return _sums_kernel(sixteens, 4)


def half_sums(sixteens: int) -> Any:
    """The kernel for images and gradients of bfloat16."""
    return _sums_kernel(sixteens, 2)
