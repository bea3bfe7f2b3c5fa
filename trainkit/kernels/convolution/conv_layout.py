"""Where pixels and kernel offsets of a convolution lie in memory: tables for the compiled kernels.

A plan depends on shapes alone, so it is made once and kept. Everything here has three spatial axes,
planes, lines and points, of which those that are missing have size 1. Distances in tables are in
bytes of float32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from trainkit.core.cpu.cost_model import CACHED_FLOATS, KEPT_BYTES, LINE_FLOATS
from trainkit.core.cpu.processor import cache_bytes
from trainkit.core.shapes import CALLS
from trainkit.kernels.jit.register_tiles import weight_rows
from trainkit.kernels.threads import pools
from trainkit.kernels.threads.thread_pool import PARTS_EACH

Array = Any
T = TypeVar("T")
Pair = tuple[int, int]
Sizes = tuple[int, ...]

CHUNK = CACHED_FLOATS // 64
"""Numbers of a window that are summed at a time: their weights for 64 filters stay in the cache."""
SHORT_RUN = 2 * LINE_FLOATS
"""With fewer channels, offsets that lie side by side are one run, however long, and for gradients
by the kernel images are copied with their padding."""
PIXELS = 128
"""Pixels that make up for reading all weights, from wherever."""


class Geometry(NamedTuple):
    """A convolution: the shapes of its input and windows, and the tile that works on it.

    Attributes:
        batch: images.
        sizes: of an image of the input.
        channels: of the input.
        out: sizes of an image of the result.
        filters: of the result.
        window: elements of the kernel.
        strides: positions between windows.
        dilation: positions between elements.
        before: positions of padding before each axis.
        groups: that channels and filters fall into.
        tile: (rows, numbers of a row).
        cores: threads.
    """

    batch: int
    sizes: Sizes
    channels: int
    out: Sizes
    filters: int
    window: Sizes
    strides: Sizes
    dilation: Sizes
    before: Sizes
    groups: int
    tile: Pair
    cores: int

    @property
    def by_channel(self) -> bool:
        """Each filter has a channel of its own."""
        return 1 < self.groups == self.channels == self.filters


class Side(NamedTuple):
    """What is read, or what is written: sizes of an image, and channels of which groups have some.

    Attributes:
        sizes: of an image.
        channels: all there are.
        inside: channels of a group.
    """

    sizes: Sizes
    channels: int
    inside: int


class Axis(NamedTuple):
    """How results along one axis see a source.

    Attributes:
        size: results.
        step: positions of the source from one result to the next.
        offsets: (offset, position that it has for result 0), by position.
        start: place of result 0.
        stride: places from one result to the next.
    """

    size: int
    step: int
    offsets: tuple[Pair, ...]
    start: int = 0
    stride: int = 1

    @property
    def low(self) -> int:
        """The first position that is seen."""
        return self.offsets[0][1]

    @property
    def high(self) -> int:
        """The last position that is seen."""
        return self.offsets[-1][1] + (self.size - 1) * self.step


class PixelPlan(NamedTuple):
    """Tables for `compiled.conv.pixels`, where they are explained.

    Attributes:
        lines: where lines of a padded image are in the image.
        offsets: the offsets that runs consist of.
        blocks: channels and filters that are summed at a time.
        at: where pixels start in the source; the last row for the last group of images.
        to: where they start in the result.
        runs: where runs start from a pixel.
        chunks: rows of (first run, runs, first number, numbers).
        counts: tiles of each row.
        numbers: whole numbers for the kernel, less how to pack.
        source: shape of the room for padded images.
        depth: numbers of a window.
    """

    lines: Array
    offsets: Array
    blocks: Array
    at: Array
    to: Array
    runs: Array
    chunks: Array
    counts: Array
    numbers: tuple[int, ...]
    source: tuple[int, int, int]
    depth: int


class WeightPlan(NamedTuple):
    """Tables for `compiled.conv.weights`, where they are explained.

    Attributes:
        lines: where lines of a padded image are in the image.
        blocks: channels and filters that are summed at a time.
        at: where weights start from a pixel of the input.
        to: where their rows start in the result.
        pieces: which pixels tiles of weights see.
        groups: which pieces a task takes.
        numbers: whole numbers for the kernel.
        source: shape of the room for padded images.
        parts: of the images, that are summed apart.
        complete: every weight sees some pixel.
        rows: weights of a tile.
    """

    lines: Array
    blocks: Array
    at: Array
    to: Array
    pieces: Array
    groups: Array
    numbers: tuple[int, ...]
    source: tuple[int, int, int]
    parts: int
    complete: bool
    rows: int


def _input(g: Geometry) -> Side:
    return Side(g.sizes, g.channels, g.channels // g.groups)


def _output(g: Geometry) -> Side:
    return Side(g.out, g.filters, g.filters // g.groups)


def _blocks(g: Geometry, source: Side, result: Side) -> Array:
    """Rows of (channel of the source, channel of the result, how many), the first two in bytes."""
    width = g.tile[1]
    if g.by_channel:
        starts = range(0, g.channels, width)
        return np.array([(4 * c, 4 * c, min(width, g.channels - c)) for c in starts])
    return np.array(
        [
            (4 * i * source.inside, 4 * (i * result.inside + c), min(width, result.inside - c))
            for i in range(g.groups)
            for c in range(0, result.inside, width)
        ]
    )


def _along_axes(parts: Sequence[Array]) -> Array:
    """Sums of one number for each axis, for all places, the last axis fastest."""
    # Axes are independent: a place is the sum of what each axis adds, so three short lists say
    # all.
    planes, lines, points = (np.asarray(part) for part in parts)
    return (planes[:, None, None] + lines[:, None] + points).reshape(-1)


def _distances(sizes: Sizes, channels: int) -> Sizes:
    """Numbers from one place to the next along each axis."""
    return sizes[1] * sizes[2] * channels, sizes[2] * channels, channels


def _line_map(sizes: Sizes, padded: Sizes, before: Sizes) -> Array:
    """For each line of a padded image, the line of the image, or -1."""
    plane = np.arange(padded[0])[:, None] - before[0]
    line = np.arange(padded[1]) - before[1]
    inside = (plane >= 0) & (plane < sizes[0]) & (line >= 0) & (line < sizes[1])
    return np.where(inside, plane * sizes[1] + line, -1).reshape(-1)


class PlanCache(Generic[T]):
    """A function that makes plans, of which many of small images are kept and few of large ones.

    Texts and series have a plan for each length and layer, and tables of large images would take
    gigabytes; so images up to each power of two of pixels have a cache of their own.
    """

    def __init__(self, plan: Callable[[Geometry], T]) -> None:
        self._plan = plan
        self._caches: dict[int, Any] = {}
        functools.update_wrapper(self, plan)

    def __call__(self, g: Geometry) -> T:
        octave = max(math.prod(g.sizes), math.prod(g.out)).bit_length()
        cache = self._caches.get(octave)
        if cache is None:
            count = KEPT_BYTES // 4 // (16 << octave)  # a plan takes 16 bytes for each pixel
            cache = lru_cache(max(1, min(count, CALLS)))(self._plan)
            self._caches[octave] = cache
        plan: T = cache(g)
        return plan

    def cache_clear(self) -> None:
        """Forget all plans."""
        self._caches.clear()


# ------------------------------------------------------------------ pixels


@PlanCache
def forward(g: Geometry) -> PixelPlan:
    """Results are windows, which see the input."""
    facts = zip(g.out, g.strides, g.window, g.dilation, g.before, strict=True)
    # Window 0 sees offset a at `a * dilation - before`, negative ones being in the padding.
    axes = [
        Axis(out, stride, tuple((a, a * dilation - before) for a in range(window)))
        for out, stride, window, dilation, before in facts
    ]
    return _pixel_plan(g, axes, _input(g), _output(g))


@PlanCache
def backward(g: Geometry) -> tuple[tuple[PixelPlan, ...], bool]:
    """Results are positions of the input, which see the gradients of windows that cover them.

    With strides not all positions lie under the same offsets: there is a plan for each kind that
    lies under any. The second result says whether every kind does.
    """
    facts = zip(g.sizes, g.strides, g.window, g.dilation, g.before, strict=True)
    kinds = [
        # Positions that are a stride apart lie under the same offsets, so as many kinds as the
        # stride, and no more than there are positions.
        [_backward_axis(start, fact) for start in range(min(fact[:2]))]  # size, stride
        for fact in facts
    ]
    combinations = list(product(*kinds))
    used = [axes for axes in combinations if all(axis.offsets for axis in axes)]
    plans = [_pixel_plan(g, axes, _output(g), _input(g)) for axes in used]
    return tuple(plans), len(used) == len(combinations)


def _backward_axis(start: int, facts: tuple[int, ...]) -> Axis:
    size, stride, window, dilation, before = facts
    # Backwards, so that windows rise: runs of them are read from low addresses to high ones.
    at = [(a, start + before - a * dilation) for a in reversed(range(window))]
    offsets = tuple((a, position // stride) for a, position in at if position % stride == 0)
    return Axis(-(-(size - start) // stride), 1, offsets, start, stride)


def _pixel_plan(g: Geometry, axes: Sequence[Axis], source: Side, result: Side) -> PixelPlan:
    # Only offsets that results really see count: padding that no window reaches is not copied.
    padded = any(axis.low < 0 or axis.high >= n for axis, n in zip(axes, source.sizes, strict=True))
    before: Sizes = (0, 0, 0)
    sizes = source.sizes
    if padded:
        # The copy holds just what is seen, so it may also be smaller than the image.
        before = tuple(-axis.low for axis in axes)
        sizes = tuple(axis.high - axis.low + 1 for axis in axes)
    steps = _distances(sizes, source.channels)
    blocks = _blocks(g, source, result)
    offsets = _along_axes(
        [
            np.array([offset for offset, _ in axis.offsets]) * math.prod(g.window[i + 1 :])
            for i, axis in enumerate(axes)
        ]
    )
    # By channel a number of the window goes to its own filter and is no term of another's sum.
    inside = 1 if g.by_channel else source.inside
    runs, length = _runs(axes, before, steps, inside, g.groups)
    depth, pixels = len(offsets) * inside, math.prod(axis.size for axis in axes)
    group, splits, apart = _shares(g, pixels, len(blocks), depth * result.channels * 4)
    groups = -(-g.batch // group)
    # The last group may have fewer images, so it needs a table of its own.
    members = group, g.batch - (groups - 1) * group
    at = _along_axes([np.arange(a.size) * a.step * n for a, n in zip(axes, steps, strict=True)])
    result_steps = _distances(result.sizes, result.channels)
    to = _along_axes(
        [
            (np.arange(a.size) * a.stride + a.start) * n
            for a, n in zip(axes, result_steps, strict=True)
        ]
    )
    # Where several tasks read a group, its padded copy is made beforehand for all of them; else
    # by the task itself, into room of its worker's, which is still in the cache when it is read.
    fill = (2 if apart else 1) if padded else 0
    slots = min(groups, PARTS_EACH * pools.compute_threads()) if fill == 1 else groups
    lines = _line_map(source.sizes, sizes, before)
    return PixelPlan(
        lines,
        offsets,
        blocks,
        _tables(at, sizes[0] * steps[0], members, g.tile[0]),
        _tables(to, result.sizes[0] * result_steps[0], members, g.tile[0]),
        runs,
        _chunks(len(runs), length),
        np.array([-(-n * pixels // g.tile[0]) for n in dict.fromkeys(members)]),
        (length, group, splits, 1 if apart else len(blocks), before[2] * source.channels, fill),
        (slots, group * len(lines), steps[1]) if fill else (0, 0, 0),
        depth,
    )


def _runs(
    axes: Sequence[Axis], before: Sizes, steps: Sizes, inside: int, groups: int
) -> tuple[Array, int]:
    """Where runs of the source that a pixel sees start, in bytes, and their length."""
    at = [
        [position + shift for _, position in axis.offsets]
        for axis, shift in zip(axes, before, strict=True)
    ]
    points, length = at[2], inside
    # With little dilation a line of the window and its channels are one run of memory. Each run
    # costs a look into the table and a loop's start and end, and longer ones are cut into chunks.
    side_by_side = points == list(range(points[0], points[0] + len(points)))
    is_joined = inside < SHORT_RUN or inside * len(points) <= CHUNK
    if side_by_side and is_joined and groups == 1:
        at[2], length = points[:1], inside * len(points)
    starts = _along_axes([np.array(a) * step for a, step in zip(at, steps, strict=True)])
    return 4 * starts, length


def _shares(g: Geometry, pixels: int, blocks: int, weight_bytes: int) -> tuple[int, int, bool]:
    """Images of a group, parts of a group's tiles, and whether each block of filters is a task."""
    spills = weight_bytes > cache_bytes(2) // 2  # else they stay in the cache of a core
    # Twice rounded, so that groups are of nearly one size and none is a small remainder.
    groups = -(-g.batch // min(g.batch, -(-PIXELS // pixels)))
    group = -(-g.batch // groups)
    groups = -(-g.batch // group)
    # Too few groups for all threads: tiles of a group, and blocks of filters, become tasks.
    if groups < 2 * g.cores:
        return group, -(-2 * g.cores // (groups * blocks)), True
    return group, 1, spills and blocks > 1


def _tables(positions: Array, image: int, members: Pair, rows: int) -> Array:
    """Rows of positions, in bytes, for as many images as `members` says, in whole tiles.

    One row where both are the same.
    """
    tables = []
    for images in dict.fromkeys(members):
        table = (np.arange(images)[:, None] * image + positions).reshape(-1)
        # A tile has no loop with a remainder: its last rows do the last pixel over again, which
        # writes the same numbers to the same place.
        tables.append(_whole_tiles(table, rows))
    # The first is the longer one. Padding only makes a rectangle; `counts` ends before it.
    width = len(tables[0])
    return 4 * np.stack([np.pad(table, (0, width - len(table)), mode="edge") for table in tables])


def _whole_tiles(table: Array, rows: int) -> Array:
    """`table` with its last entry repeated, up to a multiple of `rows`."""
    return np.pad(table, (0, -len(table) % rows), mode="edge")


def _chunks(runs: int, length: int) -> Array:
    if length > CHUNK:
        # Even pieces: one of CHUNK and a short rest would read all of y again for little.
        size = -(-length // -(-length // CHUNK))
        firsts = range(0, length, size)
        return np.array([(r, 1, n, min(size, length - n)) for r in range(runs) for n in firsts])
    some = CHUNK // length
    return np.array([(run, min(some, runs - run), 0, length) for run in range(0, runs, some)])


# ------------------------------------------------------------------ weights


@PlanCache
def weights(g: Geometry) -> WeightPlan:
    """Results are the weights of a kernel, which see the input and the gradients of windows."""
    bounds = _bounds(g)
    full_bound = tuple(n for out in g.out for n in (0, out))
    full = all(bound == full_bound for bound in bounds)
    inside = g.channels // g.groups
    # At edges, offsets see different windows, each set with tiles of its own, and with few
    # channels a tile would be mostly empty. A padded copy has all offsets see all windows.
    copied = not full and inside < SHORT_RUN
    sizes, before = (_padded_sizes(g), (0, 0, 0)) if copied else (g.sizes, g.before)
    steps = _distances(sizes, g.channels)
    starts = _offset_starts(g, steps, before)[:, None] + np.arange(inside)
    to = g.filters * np.arange(starts.size).reshape(starts.shape)
    # All weights are one list, cut into tiles without regard to offsets.
    if full or copied:  # all weights see all windows
        bounds, starts, to = [full_bound], starts.reshape(1, -1), to.reshape(1, -1)
    blocks = _blocks(g, _input(g), _output(g))
    rows = _weight_rows(g, starts.shape[1])
    parts = _weight_parts(g, -(-starts.shape[1] // g.tile[0]) * len(bounds) * len(blocks))
    tiles = -(-starts.shape[1] // rows)
    count, each = _weight_tasks(g, rows, parts, tiles * len(bounds), len(blocks))
    pieces, groups = _pieces(bounds, tiles, count)
    strides = (4 * stride * step for stride, step in zip(g.strides, steps, strict=True))
    lines = _line_map(g.sizes, sizes, g.before if copied else (0, 0, 0))
    return WeightPlan(
        lines,
        blocks,
        _by_piece(starts, rows),
        _by_piece(to, rows),
        pieces,
        groups,
        (*g.out, *strides, *_step(g), g.before[2] * g.channels if copied else 0, each),
        (g.batch, len(lines), steps[1]) if copied else (0, 0, 0),
        parts,
        all(_is_seen(bound) for bound in bounds),
        rows,
    )


def _bounds(g: Geometry) -> list[tuple[int, ...]]:
    """For each offset, the first window of each axis in which it is inside, and after the last."""
    facts = zip(g.window, g.sizes, g.out, g.strides, g.dilation, g.before, strict=True)
    axes = [[_seen(offset, *fact[1:]) for offset in range(fact[0])] for fact in facts]
    return [(*plane, *line, *point) for plane, line, point in product(*axes)]


def _seen(offset: int, size: int, out: int, stride: int, dilation: int, before: int) -> Pair:
    # What `position >= 0` and `position < size` say of i, each rounded inwards.
    shift = before - offset * dilation  # window i sees position i * stride - shift
    low = max(0, -(-shift // stride))
    return low, max(low, min(out, (size - 1 + shift) // stride + 1))


def _is_seen(bound: tuple[int, ...]) -> bool:
    return all(low < high for low, high in zip(bound[::2], bound[1::2], strict=True))


def _padded_sizes(g: Geometry) -> Sizes:
    """Sizes of an image with all padding that windows reach."""
    facts = zip(g.sizes, g.out, g.strides, g.window, g.dilation, g.before, strict=True)
    return tuple(
        max(n + before, (out - 1) * stride + (window - 1) * dilation + 1)
        for n, out, stride, window, dilation, before in facts
    )


def _offset_starts(g: Geometry, steps: Sizes, before: Sizes) -> Array:
    """Where offsets lie from a pixel, in numbers."""
    facts = zip(g.window, g.dilation, before, steps, strict=True)
    return _along_axes([(np.arange(n) * dilation - b) * step for n, dilation, b, step in facts])


def _weight_rows(g: Geometry, weights: int) -> int:
    """Weights of a tile, of which the last one of so many wastes little."""
    limit = g.tile[0]
    if g.by_channel:
        return limit

    def cost(rows: int) -> Pair:
        # Each tile takes what one more row of weights would, to count and to read gradients.
        tiles = -(-weights // rows)
        return tiles * (rows + 1), tiles * rows

    return min(weight_rows(limit), key=cost)


def _weight_parts(g: Geometry, tiles: int) -> int:
    """Parts of the images, each with sums of its own that are added up at the end.

    That order is part of the result, so neither threads nor caches nor how full tiles are decide.
    """
    return 1 if tiles >= 2 * pools.MATRIX_SHARES else min(g.batch, pools.MATRIX_SHARES)


def _weight_tasks(g: Geometry, rows: int, parts: int, tiles: int, blocks: int) -> Pair:
    """Groups of tiles, and blocks of a task.

    What a task packs of the gradients takes a quarter of the second cache, and so do the sums of a
    group.
    """
    each = 1
    if not g.by_channel:
        images, lines = _step(g)
        packed = 4 * g.tile[1] * images * min(lines, g.out[1]) * g.out[2]
        each = max(1, min(blocks, cache_bytes(2) // 4 // packed))
    most_sums = cache_bytes(2) // 4 // (4 * max(64, each * g.tile[1]))
    tasks = parts * -(-blocks // each)
    groups = max(-(-tiles * rows // most_sums), -(-g.cores // tasks))
    # Few tasks are as many for each core: three for two of them would take as long as four.
    while tasks * groups < 4 * g.cores and tasks * groups % g.cores:
        groups += 1
    return min(groups, tiles), each


def _step(g: Geometry) -> Pair:
    """Images and lines whose gradients are used by all tiles of a group in turn.

    They take half of the first cache.
    """
    pixels = max(1, cache_bytes(1) // 2 // 4 // g.tile[1])
    images = max(1, pixels // (g.out[1] * g.out[2])) if g.out[0] == 1 else 1
    return images, g.out[1] if images > 1 else max(1, pixels // g.out[2])


def _by_piece(table: Array, rows: int) -> Array:
    """Rows of a table in whole tiles, one after the other, in bytes."""
    return 4 * np.concatenate([_whole_tiles(part, rows) for part in table])


def _pieces(bounds: list[tuple[int, ...]], tiles: int, count: int) -> tuple[Array, Array]:
    """Rows (first tile, after the last, bounds) and, for `count` groups of tiles, their rows."""
    total = tiles * len(bounds)
    pieces: list[tuple[int, ...]] = []
    groups = []
    for number in range(count):
        first, last = number * total // count, (number + 1) * total // count
        start = len(pieces)
        for i, bound in enumerate(bounds):
            # A group is a range of all tiles, which may begin and end in the middle of a piece.
            low, high = max(first, i * tiles), min(last, (i + 1) * tiles)
            # Offsets that lie in the padding for all windows have no piece; `complete` then is
            # False, and their sums are zeros from the start.
            if low < high and _is_seen(bound):
                pieces.append((low, high, *bound))
        groups.append((start, len(pieces)))
    return np.array(pieces).reshape(-1, 8), np.array(groups)
