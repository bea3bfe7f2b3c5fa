"""Where pixels and taps of a convolution lie in memory: tables for the compiled kernels.

A plan depends on shapes alone, so it is made once and kept. Everything here has two spatial axes;
distances in tables are in bytes of float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

Array = Any
Pair = tuple[int, int]

CHUNK = 1024
"""Numbers of a window that are summed at a time: their weights for 64 filters take 256 KiB."""
SHORT_RUN = 32
"""With fewer channels, taps that lie side by side are read as one run."""
PIXELS_NEAR, PIXELS_FAR = 64, 320
"""Pixels that make up for reading all weights: from the cache of a core, and from farther away."""
CACHE_BYTES = 1 << 19
"""Weights up to this size stay in the cache of a core."""
STEP_NUMBERS = 96 * 64
"""Gradients of so many pixels times filters of a tile stay in the first-level cache."""
MOST_SUMS = 1024
"""Sums of so many weights and 64 filters stay in the cache of a core."""
FEWEST_TILES = 16
"""With fewer tiles of weights, images are summed in parts."""
PARTS = 8
MOST_WORKERS = 32


class Geometry(NamedTuple):
    """A convolution: the shapes of its input and windows, and the tile that works on it.

    Attributes:
        batch: images.
        sizes: of an image of the input.
        channels: of the input.
        out: sizes of an image of the result.
        filters: of the result.
        window: taps.
        strides: positions between windows.
        dilation: positions between taps.
        before: positions of padding before each axis.
        tile: (rows, numbers of a row).
        cores: threads.
    """

    batch: int
    sizes: Pair
    channels: int
    out: Pair
    filters: int
    window: Pair
    strides: Pair
    dilation: Pair
    before: Pair
    tile: Pair
    cores: int


class Axis(NamedTuple):
    """How results along one axis see a source.

    Attributes:
        size: results.
        step: positions of the source from one result to the next.
        taps: (tap, position that it has for result 0), by position.
        start: place of result 0.
        stride: places from one result to the next.
    """

    size: int
    step: int
    taps: tuple[Pair, ...]
    start: int = 0
    stride: int = 1

    @property
    def low(self) -> int:
        """The first position that is seen."""
        return self.taps[0][1]

    @property
    def high(self) -> int:
        """The last position that is seen."""
        return self.taps[-1][1] + (self.size - 1) * self.step


@dataclass(frozen=True)
class PixelPlan:
    """Tables for `compiled.conv.pixels`, where they are explained.

    Attributes:
        at: where pixels start in the source; row 1 for the last group of images.
        to: where they start in the result.
        counts: tiles in both rows.
        runs: where runs start from a pixel.
        chunks: rows of (first run, runs, first number, numbers).
        taps: the taps that runs consist of.
        numbers: whole numbers for the kernel, less how to pack.
        source: shape of the room for padded images.
        depth: numbers of a window.
    """

    at: Array
    to: Array
    counts: Array
    runs: Array
    chunks: Array
    taps: Array
    numbers: tuple[int, ...]
    source: tuple[int, int, int]
    depth: int


@dataclass(frozen=True)
class WeightPlan:
    """Tables for `compiled.conv.weights`, where they are explained.

    Attributes:
        at: where weights start from a pixel of the input.
        to: where their rows start in the result.
        pieces: which pixels tiles of weights see.
        groups: which pieces a task takes.
        numbers: whole numbers for the kernel.
        source: shape of the room for padded images.
        parts: of the images, that are summed apart.
        complete: every weight sees some pixel.
    """

    at: Array
    to: Array
    pieces: Array
    groups: Array
    numbers: tuple[int, ...]
    source: tuple[int, int, int]
    parts: int
    complete: bool


# ------------------------------------------------------------------ pixels


@lru_cache(maxsize=256)
def forward(g: Geometry) -> PixelPlan:
    """Results are windows, which see the input."""
    facts = zip(g.out, g.strides, g.window, g.dilation, g.before, strict=True)
    down, along = (
        Axis(out, stride, tuple((a, a * dilation - before) for a in range(window)))
        for out, stride, window, dilation, before in facts
    )
    return _pixel_plan(g, (down, along), g.sizes, g.channels, g.out, g.filters)


@lru_cache(maxsize=256)
def backward(g: Geometry) -> tuple[tuple[PixelPlan, ...], bool]:
    """Results are positions of the input, which see the gradients of windows that cover them.

    With strides not all positions lie under the same taps: there is a plan for each kind that lies
    under any. The second result says whether every kind does.
    """
    facts = zip(g.sizes, g.strides, g.window, g.dilation, g.before, strict=True)
    kinds = [
        [_backward_axis(start, fact) for start in range(min(fact[:2]))]  # sizes, strides
        for fact in facts
    ]
    pairs = [(down, along) for down in kinds[0] for along in kinds[1]]
    used = [pair for pair in pairs if pair[0].taps and pair[1].taps]
    plans = [_pixel_plan(g, pair, g.out, g.filters, g.sizes, g.channels) for pair in used]
    return tuple(plans), len(used) == len(pairs)


def _backward_axis(start: int, facts: tuple[int, ...]) -> Axis:
    size, stride, window, dilation, before = facts
    at = [(a, start + before - a * dilation) for a in reversed(range(window))]
    taps = tuple((a, position // stride) for a, position in at if position % stride == 0)
    return Axis(-(-(size - start) // stride), 1, taps, start, stride)


def _pixel_plan(
    g: Geometry, axes: tuple[Axis, Axis], sizes: Pair, channels: int, places: Pair, filters: int
) -> PixelPlan:
    down, along = axes
    padded = any(axis.low < 0 or axis.high >= n for axis, n in zip(axes, sizes, strict=True))
    top, left = (-down.low, -along.low) if padded else (0, 0)
    height, width = [axis.high - axis.low + 1 for axis in axes] if padded else sizes
    line = width * channels
    runs, length = _runs(axes, (top, left), line, channels)
    taps = np.array([a * g.window[1] + b for a, _ in down.taps for b, _ in along.taps])
    depth = len(taps) * channels
    pixels = down.size * along.size
    blocks = -(-filters // g.tile[1])
    group, splits, apart = _shares(g, pixels, blocks, depth * filters * 4)
    groups = -(-g.batch // group)
    at = _positions(axes, (down.step * line, along.step * channels), (0, 0))
    row = places[1] * filters
    to = _positions(
        axes,
        (down.stride * row, along.stride * filters),
        (down.start * row, along.start * filters),
    )
    last = g.batch - (groups - 1) * group
    fill = (2 if apart else 1) if padded else 0
    slots = min(groups, MOST_WORKERS) if fill == 1 else groups
    return PixelPlan(
        _tables(at, height * line, (group, last), g.tile[0]),
        _tables(to, places[0] * row, (group, last), g.tile[0]),
        np.array([-(-n * pixels // g.tile[0]) for n in (group, last)]),
        runs,
        _chunks(len(runs), length),
        taps,
        (length, group, splits, 1 if apart else blocks, height, top, left * channels, fill),
        (slots, group * height, line) if fill else (0, 0, 0),
        depth,
    )


def _runs(axes: tuple[Axis, Axis], shift: Pair, line: int, channels: int) -> tuple[Array, int]:
    """Where stretches of the source that a pixel sees start, in bytes, and their length."""
    down, along = (
        [position + s for _, position in axis.taps] for axis, s in zip(axes, shift, strict=True)
    )
    side_by_side = along == list(range(along[0], along[0] + len(along)))
    length = channels
    if side_by_side and channels < SHORT_RUN:
        length, along = channels * len(along), along[:1]
    return np.array([4 * (i * line + j * channels) for i in down for j in along]), length


def _shares(g: Geometry, pixels: int, blocks: int, weight_bytes: int) -> tuple[int, int, bool]:
    """Images of a group, parts of a group's tiles, and whether each block of filters is a task."""
    far = weight_bytes > CACHE_BYTES
    groups = -(-g.batch // min(g.batch, -(-(PIXELS_FAR if far else PIXELS_NEAR) // pixels)))
    group = -(-g.batch // groups)
    groups = -(-g.batch // group)
    if groups < 2 * g.cores:
        return group, -(-2 * g.cores // (groups * blocks)), True
    return group, 1, far and blocks > 1


def _positions(axes: tuple[Axis, Axis], steps: Pair, starts: Pair) -> Array:
    """Places of the results of an image, in numbers."""
    down, along = (
        np.arange(axis.size) * step + start
        for axis, step, start in zip(axes, steps, starts, strict=True)
    )
    return (down[:, None] + along).reshape(-1)


def _tables(positions: Array, image: int, groups: Pair, rows: int) -> Array:
    """Two rows of positions, in bytes, for as many images as `groups` says, in whole tiles."""
    found = []
    for images in groups:
        table = (np.arange(images)[:, None] * image + positions).reshape(-1)
        found.append(_whole_tiles(table, rows))
    width = len(found[0])
    return 4 * np.stack([np.pad(table, (0, width - len(table)), mode="edge") for table in found])


def _whole_tiles(table: Array, rows: int) -> Array:
    """`table` with its last entry repeated, up to a multiple of `rows`."""
    return np.pad(table, (0, -len(table) % rows), mode="edge")


def _chunks(runs: int, length: int) -> Array:
    if length > CHUNK:
        size = -(-length // -(-length // CHUNK))
        return np.array(
            [
                (run, 1, first, min(size, length - first))
                for run in range(runs)
                for first in range(0, length, size)
            ]
        )
    some = CHUNK // length
    return np.array([(run, min(some, runs - run), 0, length) for run in range(0, runs, some)])


# ------------------------------------------------------------------ weights


@lru_cache(maxsize=256)
def weights(g: Geometry) -> WeightPlan:
    """Results are the weights of a kernel, which see the input and the gradients of windows."""
    bounds = _bounds(g)
    whole = (0, g.out[0], 0, g.out[1])
    full = all(bound == whole for bound in bounds)
    copied = not full and g.channels < SHORT_RUN
    sizes, before = (_padded_sizes(g), (0, 0)) if copied else (g.sizes, g.before)
    line = sizes[1] * g.channels
    starts = _tap_starts(g, line, before)
    if full or copied:  # all weights see all windows
        bounds, starts = [whole], starts.reshape(1, -1)
    tiles = -(-starts.shape[1] // g.tile[0])
    parts, count = _weight_shares(g, tiles * len(bounds))
    pieces, groups = _pieces(bounds, tiles, count)
    to = g.filters * np.arange(starts.size).reshape(starts.shape)
    steps = 4 * g.strides[0] * line, 4 * g.strides[1] * g.channels
    shift = (g.before[0], g.before[1] * g.channels) if copied else (0, 0)
    return WeightPlan(
        _by_piece(starts, g.tile[0]),
        _by_piece(to, g.tile[0]),
        pieces,
        groups,
        (*g.out, *steps, *_step(g), *shift),
        (g.batch, sizes[0], line) if copied else (0, 0, 0),
        parts,
        all(low_h < high_h and low_w < high_w for low_h, high_h, low_w, high_w in bounds),
    )


def _bounds(g: Geometry) -> list[tuple[int, int, int, int]]:
    """For each tap, the windows in which it lies inside the image."""
    facts = zip(g.window, g.sizes, g.out, g.strides, g.dilation, g.before, strict=True)
    down, along = ([_seen(tap, *fact) for tap in range(fact[0])] for fact in facts)
    return [(*i, *j) for i in down for j in along]


def _padded_sizes(g: Geometry) -> tuple[int, int]:
    """Sizes of an image with all padding that windows reach."""
    facts = zip(g.sizes, g.out, g.strides, g.window, g.dilation, g.before, strict=True)
    high, wide = (
        max(n + before, (out - 1) * stride + (window - 1) * dilation + 1)
        for n, out, stride, window, dilation, before in facts
    )
    return high, wide


def _tap_starts(g: Geometry, line: int, before: Pair) -> Array:
    """(taps, channels): where weights start from a pixel, in numbers."""
    down = (np.arange(g.window[0]) * g.dilation[0] - before[0]) * line
    along = (np.arange(g.window[1]) * g.dilation[1] - before[1]) * g.channels
    return (down[:, None] + along).reshape(-1, 1) + np.arange(g.channels)


def _weight_shares(g: Geometry, tiles: int) -> Pair:
    """Parts of the images, which depend on shapes alone, and groups of tiles."""
    blocks = -(-g.filters // g.tile[1])
    parts = 1 if tiles * blocks >= FEWEST_TILES else min(g.batch, PARTS)
    groups = max(-(-tiles * g.tile[0] // MOST_SUMS), -(-g.cores // (parts * blocks)))
    return parts, min(groups, tiles)


def _step(g: Geometry) -> Pair:
    """Images and lines whose gradients are used by all tiles of a group in turn."""
    pixels = STEP_NUMBERS // g.tile[1]
    images = max(1, pixels // (g.out[0] * g.out[1]))
    return images, g.out[0] if images > 1 else max(1, pixels // g.out[1])


def _seen(
    tap: int, window: int, size: int, out: int, stride: int, dilation: int, before: int
) -> Pair:
    """First window whose tap lies inside the image, and the one after the last."""
    shift = before - tap * dilation  # window i sees position i * stride - shift
    low = max(0, -(-shift // stride))
    return low, max(low, min(out, (size - 1 + shift) // stride + 1))


def _by_piece(table: Array, rows: int) -> Array:
    """Rows of a table in whole tiles, one after the other, in bytes."""
    return 4 * np.concatenate([_whole_tiles(part, rows) for part in table])


def _pieces(bounds: list[tuple[int, int, int, int]], tiles: int, count: int) -> tuple[Array, Array]:
    """Rows (first tile, after the last, bounds) and, for `count` groups of tiles, their rows."""
    total = tiles * len(bounds)
    pieces: list[tuple[int, ...]] = []
    groups = []
    for number in range(count):
        first, last = number * total // count, (number + 1) * total // count
        start = len(pieces)
        for i, bound in enumerate(bounds):
            low, high = max(first, i * tiles), min(last, (i + 1) * tiles)
            if low < high and bound[0] < bound[1] and bound[2] < bound[3]:
                pieces.append((low, high, *bound))
        groups.append((start, len(pieces)))
    return np.array(pieces).reshape(-1, 6), np.array(groups)
