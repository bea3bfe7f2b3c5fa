"""When convolutions of few filters are made so that these fill vectors, as a generator's last one.

Direct sums have filters side by side in vectors, of which 1 to 3 fill a few lanes of 16. Results of
a block of windows are as many filters of one larger window, with zeros where a window of the block
does not reach: 4 x 4 windows of 3 x 3 are 16 filters of a window of 6 x 6 with stride 4, which
takes 36 rows of weights for 16 results and not 144. For the gradient by the kernel image and
gradients change places, so that the channels are side by side.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from trainkit.kernels.convolution.gathered_tuned import transpose_windows
from trainkit.kernels.convolution.pixels_tuned import LANES, NOTHING_BEHIND, PIXELS, pixels_call
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.convolution.transform_costs import BLOCKS
from trainkit.kernels.convolution.winograd_tuned import LEAST_WORK
from trainkit.kernels.elementwise.half_casts_tuned import cast_array
from trainkit.kernels.matmul.prepared_weights import PreparedWeights, prepare_weights
from trainkit.kernels.threads import pools

Array = Any
Sizes = tuple[int, ...]

_F32 = np.dtype(np.float32)


@lru_cache(maxsize=1024)
def block_of(window: Sizes, filters: int) -> Sizes:
    """Lines and points of the windows that are made at once: such that take the fewest products."""
    sizes = range(1, math.isqrt(LANES) + 1)  # a block of one filter is a square at most
    blocks = [(r, s) for r in sizes for s in sizes if r * s * filters <= LANES]
    return min(blocks, key=lambda block: (_rows_each(window, block), block), default=(1, 1))


def _rows_each(window: Sizes, block: Sizes) -> float:
    """Rows of weights that a result takes."""
    facts = zip(window, block, strict=True)
    return math.prod((k + n - 1) / n for k, n in facts)


@lru_cache(maxsize=1024)
def blocks_of(w: Windows, block: Sizes) -> Windows:
    """Windows that each see what a block of windows sees."""
    facts = list(zip(w.sizes, w.out, w.window, w.pads, block, strict=True))
    pads = [
        # The last block may reach beyond the last window; what it makes there is left out.
        (before, -(-out // n) * n + k - 1 - size - before)
        for size, out, k, (before, _), n in facts
    ]
    window = [k + n - 1 for *_, k, _, n in facts]
    return Windows(w.sizes, window, block, pads, w.dilation)


def serves_forward(w: Windows, batch: int, channels: int, filters: int, groups: int) -> bool:
    """Whether a convolution is made in this way; shapes alone decide."""
    if groups != 1 or len(w.window) != 2 or filters > LANES // 2:
        return False
    if w.strides != (1, 1) or w.dilation != (1, 1):
        return False
    elements = math.prod(w.window)
    if batch * math.prod(w.out) * elements * channels * LANES < LEAST_WORK:
        return False
    return BLOCKS.pay(elements, _rows_each(w.window, block_of(w.window, filters)))


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

    That is where the compiled kernel is not there yet, and where a result is not finite: a number
    that is not meets the zeros of other windows of its block.
    """
    filters = kernel.shape[-1]
    block = block_of(w.window, filters)
    blocks, results = blocks_of(w, block), math.prod(block) * filters
    call = pixels_call(blocks, len(x), x.shape[-1], results, 1, pools.planned_threads())
    run = PIXELS.find(call.key, seconds)
    if run is None:
        return None
    grouped = prepare_weights(weights, kernel, kernel_of_blocks, block)
    shift = np.zeros(results, _F32)
    if bias is not None:
        shift = np.tile(cast_array(bias, _F32), math.prod(block))
    matrix = call.rows_of(grouped)
    images = cast_array(x, _F32)
    y = call.run(run, images, matrix, call.pack, shift, np.float32(low), NOTHING_BEHIND)
    if not np.isfinite(y).all():
        return None
    return cast_array(_in_order(y, w.out, block, filters), x.dtype)


def kernel_of_blocks(kernel: Array, block: Sizes) -> Array:
    """(window..., channels, block..., filters): the kernel once for each window of a block."""
    height, width, channels, filters = kernel.shape
    window = [k + n - 1 for k, n in zip(kernel.shape[:2], block, strict=True)]
    grouped = np.zeros((*window, channels, *block, filters), np.float32)
    for i in range(block[0]):
        for j in range(block[1]):
            grouped[i : i + height, j : j + width, :, i, j] = kernel
    return grouped.reshape(*window, channels, math.prod(block) * filters)


def _in_order(y: Array, out: Sizes, block: Sizes, filters: int) -> Array:
    """Results of blocks as lines of points."""
    batch, lines, points, _ = y.shape
    blocks = y.reshape(batch, lines, points, *block, filters).swapaxes(2, 3)
    image = blocks.reshape(batch, lines * block[0], points * block[1], filters)
    return np.ascontiguousarray(image[:, : out[0], : out[1]])


def serves_input_gradient(w: Windows, batch: int, channels: int, filters: int, groups: int) -> bool:
    """Whether a gradient by an image of few channels is such a convolution.

    That of a single channel is a product of matrices, which takes less.
    """
    if groups != 1 or not 1 < channels <= LANES // 2 or len(w.window) != 2:
        return False
    windows = transpose_windows(w)
    return windows is not None and serves_forward(windows, batch, filters, channels, groups)


def input_gradient(w: Windows, g: Array, kernel: Array, seconds: float) -> Array | None:
    """The gradient by the input, or `None` as `forward`: by the kernel turned by half a turn."""
    windows = transpose_windows(w)
    if windows is None:
        return None
    turned = np.ascontiguousarray(kernel[::-1, ::-1].swapaxes(-1, -2))
    return forward(windows, g, turned, None, -math.inf, seconds)


def swapped_windows(
    w: Windows, batch: int, channels: int, filters: int, groups: int
) -> Windows | None:
    """Windows over gradients by which an image sums those of the kernel; `None` where it does not.

    The gradient of weight (a, b) between a channel and a filter is a sum over pixels of the image
    as well as over those of the gradients: they are (k - 1 - a, l - 1 - b) apart.
    """
    if groups != 1 or filters > LANES // 2 or channels < LANES:
        return None
    # half of the least work elsewhere, as direct sums would leave most of each vector empty
    if 2 * batch * math.prod(w.out) * math.prod(w.window) * channels * LANES < LEAST_WORK:
        return None
    return transpose_windows(w)


def swapped_gradient(gradient: Array) -> Array:
    """The gradient by a kernel from one with channels and filters swapped."""
    axes = tuple(range(gradient.ndim - 2))
    return np.ascontiguousarray(np.flip(gradient, axes).swapaxes(-1, -2))
