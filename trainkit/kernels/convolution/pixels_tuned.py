"""How direct sums of convolutions are called: their tables, the room they need, what follows them.

Arrays are `(batch, spatial..., channels)` of float32, kernels `(window..., channels, filters)`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from trainkit.core.cpu.cost_model import PRODUCT_NANOSECONDS
from trainkit.core.shapes import CALLS
from trainkit.kernels.convolution import conv_layout
from trainkit.kernels.convolution.conv_layout import Geometry, PixelPlan
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.kernel_family import owned
from trainkit.kernels.jit.register_tiles import tiling
from trainkit.kernels.matmul.epilogue_tuned import EMPTY_MATRIX, EMPTY_VECTOR, Epilogue
from trainkit.kernels.matmul.prepared_weights import PreparedWeights
from trainkit.kernels.threads.thread_pool import shared

Array = Any

PIXELS = kernel_family.Family("conv_pixels", "convolution.conv_compiled", "pixels")

AS_IT_IS, PACKED, TURNED = range(3)
"""How the kernel lies in memory for the sums."""
NOTHING_BEHIND = EMPTY_VECTOR, EMPTY_VECTOR, EMPTY_MATRIX, (np.float32(0), np.float32(0))
LANES = 16
"""Filters that are side by side in the vectors of sums, on any processor."""
_F32 = np.dtype(np.float32)
_NO_ROOM = np.empty((0, 0, 0), _F32)


def sixteens(filters: int, limit: int = 4) -> int:
    """How many times `LANES` filters are summed at a time: a number that wastes few of them."""
    total = -(-filters // LANES)
    return next(n for n in (4, 3, 2, 1) if n <= limit and total % n == 0)


def by_channel(channels: int, filters: int, groups: int) -> bool:
    """Whether each filter has a channel of its own."""
    return 1 < groups == channels == filters


def _three(values: tuple[int, ...], first: int = 1) -> tuple[int, ...]:
    """Facts along three axes: `first` for those more than there are."""
    return (first,) * (3 - len(values)) + values


@lru_cache(maxsize=CALLS)
def geometry(
    w: Windows, batch: int, channels: int, filters: int, groups: int, times: int, cores: int
) -> Geometry:
    """The convolution with three spatial axes, `times` times `LANES` filters at a time."""
    rows, vectors, lanes = tiling(times)
    return Geometry(
        batch,
        _three(w.sizes),
        channels,
        _three(w.out),
        filters,
        _three(w.window),
        _three(w.strides),
        _three(w.dilation),
        _three(tuple(pair[0] for pair in w.pads), 0),
        groups,
        (rows, vectors * lanes),
        cores,
    )


def nanoseconds(w: Windows, batch: int, channels: int, filters: int, groups: int) -> float:
    """What one core takes for a convolution, or for a gradient of it."""
    products = batch * math.prod(w.out) * math.prod(w.window) * channels * filters / groups
    return PRODUCT_NANOSECONDS * products


def lines(images: Array, sizes: tuple[int, ...]) -> Array:
    """(batch, lines, numbers of a line), in row-major order."""
    return owned(images).reshape(images.shape[0], sizes[0] * sizes[1], -1)


def run_pixels(
    work: tuple[Any, int],
    plan: PixelPlan,
    x: Array,
    kernel: Array,
    pack: int,
    bias: Array,
    y: Array,
    width: int,
    low: Any,
    behind: Any = NOTHING_BEHIND,
) -> None:
    """Write the sums of a plan, and what follows them, to `y`.

    Args:
        work: the kernel and the pool.
        plan: its tables.
        x: what `lines` makes of images.
        kernel: weights as `pack` says.
        pack: `AS_IT_IS`, `PACKED` or `TURNED`; the last two take room and time at each call.
        bias: where sums start.
        y: images of results.
        width: filters that are summed at a time.
        low: the smallest sum.
        behind: factor, shift, residual and limits of what follows.
    """
    packed = kernel
    if pack != AS_IT_IS:
        packed = np.empty((len(plan.blocks), plan.depth, width), np.float32)
    source = np.empty(plan.source, np.float32) if plan.source[0] else _NO_ROOM
    tables = plan.at, plan.to, plan.runs, plan.chunks, plan.counts
    flat = y.reshape(y.shape[0], -1)
    operands = kernel, plan.offsets, packed, plan.blocks, bias, flat
    run, pool = work
    run(pool, x, source, plan.lines, *operands, *tables, (*plan.numbers, pack), low, *behind)


class PixelsCall(NamedTuple):
    """What the sizes of a convolution decide.

    Attributes:
        key: of the kernel.
        plan: tables.
        geometry: what they are made of.
        shape: of the result.
        pack: how weights have to lie.
        layout: of packed weights that are kept.
        nanoseconds: what one core takes.
    """

    key: tuple[int, int]
    plan: PixelPlan
    geometry: Geometry
    shape: tuple[int, ...]
    pack: int
    layout: Any
    nanoseconds: float

    def rows_of(self, kernel: Array) -> Array:
        """(1, numbers of a window, filters)."""
        return owned(kernel).reshape(1, self.plan.depth, self.shape[-1])

    def packed_kernel(self, kernel: Array, weights: PreparedWeights) -> Array | None:
        """The kernel in blocks of filters, if they are kept already or are to be kept."""
        rows = self.rows_of(kernel)[0]
        return weights.strips(kernel, lambda _: self._blocks_of(rows), self.layout)

    def _blocks_of(self, rows: Array) -> Array:
        """(blocks, numbers of a window, width), as `conv_compiled` packs rows at each call."""
        plan, width = self.plan, self.geometry.tile[1]
        inside = plan.depth // len(plan.offsets)
        order = (plan.offsets[:, None] * inside + np.arange(inside)).reshape(-1)
        blocks = np.zeros((len(plan.blocks), plan.depth, width), np.float32)
        for block, (_, first, count) in zip(blocks, plan.blocks, strict=True):
            block[:, :count] = rows[order, first // 4 : first // 4 + count]
        return blocks

    def run(
        self,
        run: Any,
        x: Array,
        matrix: Array,
        pack: int,
        bias: Array | None,
        low: Any,
        behind: Any,
    ) -> Array:
        """The result.

        Args:
            run: the kernel.
            x: input.
            matrix: weights, as `pack` says.
            pack: `AS_IT_IS` or `PACKED`.
            bias: (filters,), or `None`.
            low: the smallest sum, as float32.
            behind: factor, shift, residual and limits of what follows.
        """
        y = np.empty(self.shape, np.float32)
        start = np.zeros(self.shape[-1], np.float32) if bias is None else bias
        g = self.geometry
        work = run, shared(self.nanoseconds)[0]
        images = lines(x, g.sizes)
        run_pixels(work, self.plan, images, matrix, pack, start, y, g.tile[1], low, behind)
        return y


@lru_cache(maxsize=CALLS)
def pixels_call(
    w: Windows, batch: int, channels: int, filters: int, groups: int, threads: int
) -> PixelsCall:
    """What is known of a convolution of so many images before it begins."""
    each = by_channel(channels, filters, groups)
    # Blocks of filters don't reach from one group into the next, which has other channels.
    times = sixteens(filters if each else filters // groups)
    g = geometry(w, batch, channels, filters, groups, times, threads)
    # Then the kernel's rows are the rows of a tile already.
    is_whole = filters == g.tile[1] and groups == 1
    return PixelsCall(
        (times, int(each)),
        conv_layout.forward(g),
        g,
        (batch, *w.out, filters),
        AS_IT_IS if is_whole else PACKED,
        ("blocks", groups, g.tile),
        nanoseconds(w, batch, channels, filters, groups),
    )


def behind_of(epilogue: Epilogue | None, batch: int) -> Any:
    """The arguments that say what follows the sums of so many images."""
    if epilogue is None:
        return NOTHING_BEHIND
    residual = EMPTY_MATRIX
    if epilogue.residual is not None:
        residual = epilogue.residual.reshape(batch, -1)
    return epilogue.factor, epilogue.shift, residual, epilogue.limits
