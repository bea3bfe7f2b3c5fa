"""When Winograd's minimal filtering makes convolutions of 3 x 3 windows, and the room for it.

In volumes these are windows of (depth, 3, 3). Which convolutions are made so depends on shapes
alone. How tiles are divided also depends on caches and threads, which changes no bits.
"""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple

import numpy as np

from trainkit.core.cpu.cost_model import PRODUCT_NANOSECONDS, UNCACHED_FLOATS
from trainkit.core.cpu.processor import cache_bytes
from trainkit.core.dtypes import bfloat16
from trainkit.kernels.convolution.conv_layout import PIXELS
from trainkit.kernels.convolution.pixels_tuned import LANES
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.convolution.transform_costs import TILE_GRADIENTS, TILES, Costs
from trainkit.kernels.convolution.winograd_sizes import LINE, PRODUCTS, STEP, planes_size, row_size
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.register_tiles import tiling
from trainkit.kernels.matmul.prepared_weights import PreparedWeights
from trainkit.kernels.threads import pools
from trainkit.kernels.threads.thread_pool import PARTS_EACH, shared

Array = Any
Sizes = tuple[int, ...]

RESULTS = kernel_family.Family("winograd_results", "convolution.winograd_compiled", "results")
SUMS = kernel_family.Family("winograd_sums", "convolution.winograd_compiled", "sums")
HALF_RESULTS = kernel_family.Family(
    "winograd_half_results", "convolution.winograd_compiled", "half_results"
)
HALF_SUMS = kernel_family.Family("winograd_half_sums", "convolution.winograd_compiled", "half_sums")
"""For images of bfloat16, which transforms read and write; weights are float32 there, too."""

ENABLED = os.environ.get("TRAINKIT_WINOGRAD", "").strip() != "0"
"""Whether any convolution is made in this way."""

LEAST_WORK = 1 << 22
"""Multiplications of direct sums below which these are made."""
_FEWEST_TILES, _MOST_TILES = 24, 96
"""Of a strip: fewer read all weights too often, and more leave the cache."""
_SHARE_TILES = 4 * _MOST_TILES
"""Tiles of a share, at least: adding up its sums takes a thirtieth then."""


def serves_forward(w: Windows, batch: int, channels: int, filters: int, groups: int) -> bool:
    """Whether a convolution is made in this way; shapes alone decide."""
    return _serves(w, batch, channels, filters, groups, TILES)


serves_input_gradient = serves_forward
"""A gradient by the input is a convolution of as many products."""


def serves_kernel_gradient(
    w: Windows, batch: int, channels: int, filters: int, groups: int
) -> bool:
    """Whether a gradient by the kernel is made in this way."""
    return _serves(w, batch, channels, filters, groups, TILE_GRADIENTS)


def _serves(w: Windows, batch: int, channels: int, filters: int, groups: int, costs: Costs) -> bool:
    if len(w.window) not in (2, 3) or w.window[-2:] != (3, 3) or groups != 1:
        return False
    if not all(n == 1 for n in w.strides + w.dilation):
        return False
    if not ENABLED or min(channels, filters) < LANES:
        return False
    stacked = math.prod(w.window[:-2]) * channels
    pairs = stacked * filters
    direct = 9 * pairs * batch * math.prod(w.out)
    tiles = batch * _tiles(w.out)
    is_little = costs.pay(direct, PRODUCTS * tiles * pairs, pairs, tiles * filters, tiles * stacked)
    return direct >= LEAST_WORK and is_little


def forward(
    w: Windows,
    x: Array,
    kernel: Array,
    bias: Array | None,
    low: float,
    seconds: float,
    weights: PreparedWeights | None = None,
) -> Array | None:
    """Convolution, bias and rectifier, or `None` if direct sums are to make it.

    That is where the kernel is not there yet, and where a result is not finite: a number that is
    not would spread over its whole tile. Nothing is kept in `weights`.
    """
    filters = kernel.shape[-1]
    shift = np.zeros(filters, np.float32)
    if bias is not None:
        shift = kernel_family.owned(bias.astype(np.float32, copy=False))
    return _results((x, kernel, shift), before_of(w), w.out, low, seconds, turn=False)


def input_gradient(w: Windows, g: Array, kernel: Array, seconds: float) -> Array | None:
    """The gradient by the input, or `None` as `forward`.

    It is a convolution of the gradients, by the kernel whose windows are turned by half a turn.
    """
    before = tuple(n - 1 - pair[0] for n, pair in zip(w.window, w.pads, strict=True))
    none = np.zeros(kernel.shape[-2], np.float32)
    return _results((g, kernel, none), before, w.sizes, -math.inf, seconds, turn=True)


def kernel_gradient(w: Windows, x: Array, g: Array, seconds: float) -> Array | None:
    """The gradient by the kernel, float32, or `None` where the compiled kernel is not there yet."""
    channels, filters = x.shape[-1], g.shape[-1]
    times = sixteens(filters)
    is_half = x.dtype == bfloat16.dtype
    run = (HALF_SUMS if is_half else SUMS).find((times,), seconds)
    if run is None:
        return None
    depth = math.prod(w.window[:-2])
    y = np.empty((depth, 9, channels, filters), np.float32)
    images = _planes_of(x), _planes_of(g)
    rows, vectors, lanes = tiling(times)
    # Sums of all planes of a window that leave the cache are made one plane after the other.
    fits = _sums_size(depth * channels, filters, vectors * lanes) <= UNCACHED_FLOATS
    planes_each = depth if fits else 1
    for first in range(0, depth, planes_each):
        before = tuple(pair[0] for pair in w.pads)
        if len(before) == 3:
            before = before[0] - first, *before[1:]
        planes = planes_each, *_planes(w.out, w.sizes, before)
        gradients = y[first : first + planes_each].reshape(-1, channels, filters)
        _sum_products(run, images, gradients, before[-2:], planes, (rows, vectors, lanes))
    return y.reshape(*w.window, channels, filters)


def _sums_size(channels: int, filters: int, width: int) -> int:
    """Room for sums of products at all points."""
    return PRODUCTS * row_size(channels * row_size(-(-filters // width) * width)) + LINE


def _sum_products(
    run: Any,
    images: tuple[Array, Array],
    y: Array,
    before: Sizes,
    planes: Sizes,
    tile: tuple[int, int, int],
) -> None:
    """Fill `y` (9 * depth, channels, filters) with gradients of weights."""
    x, g = images
    inside, filters = x.shape[-1], g.shape[-1]
    rows, vectors, lanes = tile
    width, channels = vectors * lanes, planes[0] * inside
    tiles = len(g) * _tiles(g.shape[1:3])
    row, grads_row = row_size(planes_size(inside, planes[0])), row_size(filters)
    pool, parts = shared(PRODUCT_NANOSECONDS * PRODUCTS * tiles * channels * filters)
    sums = _sums_size(channels, filters, width)
    shares = _shares(tiles, sums)
    strip = 2 * _strip(4 * PRODUCTS * (row + grads_row), rows)
    # Sums that leave the cache are read and written again for each strip.
    strip = min(tiles, strip if 4 * sums < 2 * cache_bytes(2) else 2 * _MOST_TILES)
    together = strip if shares == 1 else 0
    inputs = np.empty(PRODUCTS * row_size(together * row) + LINE, np.float32)
    # The last block of filters is read to its end.
    grads = np.empty(PRODUCTS * row_size(together * grads_row) + LINE + width, np.float32)
    products = np.empty(shares * sums, np.float32)
    run(pool, parts, x, g, inputs, grads, products, y, (*before, strip, shares, *planes))


def _shares(tiles: int, sums: int) -> int:
    """In how many shares tiles are summed, by shapes alone, as that decides on roundings.

    Threads that share a strip wait for one another twice for each, and read what the others have
    transformed; so few weights as have their sums in the cache are summed apart, and added up once.
    """
    if sums > UNCACHED_FLOATS or tiles < 2 * _SHARE_TILES:
        return 1
    # a power of two, so that two threads have as many of them as four
    return min(pools.MATRIX_SHARES, 1 << (tiles // _SHARE_TILES).bit_length() - 1)


class _Division(NamedTuple):
    """How a convolution is divided: `strip` tiles at a time, by `shares` tasks for each strip.

    Attributes:
        strip: tiles.
        shares: tasks.
        tasks: of all strips.
        alone: each task transforms the weights that it takes.
    """

    strip: int
    shares: int
    tasks: int
    alone: bool


def _division(tiles: int, channels: int, width: int, blocks: int, rows: int) -> _Division:
    """So that a strip stays in the cache, and every thread has two tasks where it can."""
    threads = pools.compute_threads()
    # One strip where many weights would have to be read again for each.
    if tiles <= PIXELS and (tiles <= _FEWEST_TILES or blocks >= min(threads, 4)):
        return _Division(tiles, blocks, blocks, alone=True)
    strip = min(tiles, _strip(4 * PRODUCTS * (row_size(channels) + width), rows))
    if threads > 1:
        each = -(-tiles // (2 * threads * rows)) * rows
        strip = max(min(strip, each), min(tiles, _FEWEST_TILES))
    strips = -(-tiles // strip)
    shares = min(blocks, -(-2 * threads // strips)) if threads > 1 else 1
    return _Division(strip, shares, strips * shares, alone=False)


class ResultsCall(NamedTuple):
    """What sizes, and how many threads there are, decide.

    Attributes:
        key: of the kernel.
        shape: of the result.
        numbers: the argument of the kernel that has this name.
        tasks: of all strips.
        room: numbers of transformed weights that all tasks read.
        lanes: numbers of a vector.
        nanoseconds: what one core takes.
        threads: how many there are.
    """

    key: tuple[int]
    shape: Sizes
    numbers: Sizes
    tasks: int
    room: int
    lanes: int
    nanoseconds: float
    threads: int

    def run(self, run: Any, x: Array, kernel: Array, shift: Array, low: Any) -> Array | None:
        """The result, `None` where it is not finite.

        Args:
            run: the kernel.
            x: input.
            kernel: weights, in row-major order.
            shift: (filters,), where sums start.
            low: the smallest result, as float32.
        """
        pool, _ = shared(self.nanoseconds)
        parts = min(self.tasks, PARTS_EACH * self.threads) if pool else 1
        y = np.empty(self.shape, x.dtype)
        packed = np.empty(self.room, np.float32)
        noted = np.zeros((parts, self.lanes), np.float32)
        images = _planes_of(x), kernel.reshape(-1, *kernel.shape[-2:])
        run(pool, parts, *images, packed, shift, _planes_of(y), noted, self.numbers, low)
        return y if np.isfinite(noted).all() else None


def results_call(
    x_shape: Sizes, kernel_shape: Sizes, before: Sizes, out: Sizes, turn: bool = False
) -> ResultsCall:
    """What is known of a convolution before it begins.

    Args:
        x_shape: of the input.
        kernel_shape: of the weights.
        before: positions of padding before each axis.
        out: sizes of an image of the result.
        turn: whether the kernel is turned by half a turn, and its channels are filters.
    """
    depth = math.prod(kernel_shape[:-4])
    batch, channels = x_shape[0], depth * x_shape[-1]
    filters = kernel_shape[-2 if turn else -1]
    times = sixteens(filters)
    rows, vectors, lanes = tiling(times)
    width, tiles = vectors * lanes, batch * _tiles(out)
    blocks = -(-filters // width)
    division = _division(tiles, channels, width, blocks, rows)
    size = 0 if division.alone else blocks * PRODUCTS * row_size(channels * width)
    planes = depth, *_planes(out, x_shape[1:-1], before)
    tasks = division.strip, division.shares, int(turn), int(division.alone)
    return ResultsCall(
        (times,),
        (batch, *out, filters),
        (*before[-2:], *tasks, *planes),
        division.tasks,
        size + LINE,
        lanes,
        PRODUCT_NANOSECONDS * PRODUCTS * tiles * channels * filters,
        pools.compute_threads(),
    )


def before_of(w: Windows) -> Sizes:
    """Positions of padding before each axis."""
    return tuple(pair[0] for pair in w.pads)


def _results(
    operands: tuple[Array, Array, Array],
    before: Sizes,
    out: Sizes,
    low: float,
    seconds: float,
    turn: bool,
) -> Array | None:
    """A convolution and its bias, at least `low`, or `None` where it is left to direct sums.

    Transforms add numbers up before they are multiplied, so that one that is infinite would leave
    NaN around it: the kernel notes whether that came about, and nothing is given then.

    Args:
        operands: images, kernel and bias.
        before: lines and points of zeros that stand before an image.
        out: sizes of the result's images.
        low: the smallest result.
        seconds: what direct sums take.
        turn: the kernel is turned around, as in the gradient by the images.
    """
    x, kernel, shift = operands
    family = HALF_RESULTS if x.dtype == bfloat16.dtype else RESULTS
    run = family.find((sixteens(len(shift)),), seconds)
    if run is None:
        return None
    call = results_call(x.shape, kernel.shape, before, out, turn)
    return call.run(run, x, kernel_family.owned(kernel), shift, np.float32(low))


def _planes_of(x: Array) -> Array:
    """The planes of all images as kernels take them: float32 as it is, bfloat16 as its bits."""
    x = kernel_family.owned(x)
    x = x.reshape(-1, *x.shape[-3:])
    return x.view(np.uint16) if x.dtype == bfloat16.dtype else x


def _planes(out: Sizes, sizes: Sizes, before: Sizes) -> Sizes:
    """Planes of an image of results, of one of inputs, and of padding before the first of these."""
    return (out[0], sizes[0], before[0]) if len(out) == 3 else (1, 1, 0)


def _tiles(out: Sizes) -> int:
    """Tiles of an image, of all of its planes."""
    return math.prod(out[:-2]) * math.prod(-(-n // STEP) for n in out[-2:])


def _strip(tile_bytes: int, rows: int) -> int:
    """Tiles that take a quarter of the second cache, in whole tiles of `rows` sums."""
    tiles = cache_bytes(2) // 4 // tile_bytes // rows * rows
    return max(_FEWEST_TILES, min(_MOST_TILES, tiles))


def sixteens(filters: int) -> int:
    """How many times `LANES` filters are summed at a time: 4, or 2 where that wastes fewer."""
    return 4 if -(-filters // LANES) % 4 == 0 else 2
