"""Which depthwise convolutions have compiled kernels of their own, and tables for them.

Arrays are `(batch, spatial..., channels)`, kernels `(window..., 1, channels * multiplier)`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS, PRODUCT_NANOSECONDS
from trainkit.core.cpu.processor import cache_bytes
from trainkit.core.dtypes import bfloat16
from trainkit.core.shapes import CALLS
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.register_tiles import tiling
from trainkit.kernels.matmul.epilogue_tuned import EMPTY_VECTOR, Epilogue
from trainkit.kernels.threads import pools
from trainkit.kernels.threads.thread_pool import shared

Array = Any

LINES = kernel_family.Family("depthwise_lines", "convolution.depthwise_compiled", "lines")
BY_KERNEL = kernel_family.Family(
    "depthwise_taps", "convolution.depthwise_compiled", "kernel_gradient"
)
HALF_LINES = kernel_family.Family(
    "depthwise_half_lines", "convolution.depthwise_compiled", "half_lines"
)
BY_HALF_KERNEL = kernel_family.Family(
    "depthwise_half_offsets", "convolution.depthwise_compiled", "half_kernel_gradient"
)
"""For images of bfloat16; weights are float32 there, too."""

MULTIPLIERS = (1, 2, 4)
"""Filters of a channel that divide the lanes of each processor's registers."""
WIDEST, LONGEST_STRIDE = 9, 4
"""With wider windows a row of weights and the sums of a tile need more registers than there are."""
_LEAST_BYTES = 512
"""Bytes of a pixel that a task reads side by side, or more: by fewer it takes up to 1.6 times as
long, whatever the caches are."""
_NEAR = 0.75
"""Of the first cache, what tiles below one another share."""
_FEWEST_VECTORS = 4
"""Vectors of a pixel that are read side by side, or more, as lines of memory come in pairs."""
EMPTY_LINES = np.empty((0, 0, 0), np.float32)
_NOTHING_BEHIND = EMPTY_VECTOR, EMPTY_VECTOR, EMPTY_LINES, (np.float32(0), np.float32(0))


def serves(w: Windows, channels: int, filters: int, groups: int) -> bool:
    """Whether there are kernels for such windows."""
    return (
        1 < groups == channels
        and filters in [channels * each for each in MULTIPLIERS]
        and len(w.window) < 3
        and w.window[-1] <= WIDEST
        and w.strides[-1] <= LONGEST_STRIDE
        and all(s == 1 or d == 1 for s, d in zip(w.strides, w.dilation, strict=True))
    )


def _pixels(width: int, stride: int = 1) -> int:
    """Results of a tile: multiples of `stride`, enough for sums that need not wait for another."""
    # Sevens fit widths such as 7, 14 and 28 without a remainder, which eights do not.
    if width % (7 * stride) == 0 and width % 8 and stride < 3:
        return 7 * stride
    return stride * -(-8 // stride)


def _two(values: tuple[Any, ...], first: Any = 1) -> tuple[Any, ...]:
    """Facts along two axes: `first` for the one that is missing."""
    return (first,) * (2 - len(values)) + values


def _vertical(w: Windows) -> tuple[int, int, int, int, int, int]:
    """(lines, lines of windows, rows of the kernel, stride, dilation, padding before)."""
    facts = w.sizes, w.out, w.window, w.strides, w.dilation
    size, out, window, stride, dilation = (_two(fact)[0] for fact in facts)
    return size, out, window, stride, dilation, _two(w.pads, (0, 0))[0][0]


@lru_cache(maxsize=CALLS)
def forward_table(w: Windows) -> Array:
    """For each line of windows the first line that it sees, how many, and the first's offset."""
    size, out, window, stride, dilation, before = _vertical(w)
    lines = [[(o * stride + a * dilation - before, a) for a in range(window)] for o in range(out)]
    return _table(lines, size)


@lru_cache(maxsize=CALLS)
def backward_table(w: Windows) -> Array:
    """For each line the first line of windows that sees it, how many do, and the first's offset.

    They are ordered by offsets, so those of windows come from below.
    """
    size, out, window, stride, dilation, before = _vertical(w)
    # Windows begin a stride apart, so an offset is under one only where the stride divides.
    shifts = [[(i + before - a * dilation, a) for a in range(window)] for i in range(size)]
    lines = [[(s // stride, a) for s, a in line if s % stride == 0] for line in shifts]
    return _table(lines, out)


def _table(lines: list[list[tuple[int, int]]], size: int) -> Array:
    # Offsets outside are left out, so what remains is one range: its start and length say all.
    inside = [[pair for pair in line if 0 <= pair[0] < size] for line in lines]
    firsts = [line[0] if line else (0, 0) for line in inside]
    rows = zip(firsts, inside, strict=True)
    return np.array([(first, len(line), offset) for (first, offset), line in rows], np.int64)


def _near_vectors(w: Windows, pixels: int) -> int:
    """Vectors of filters of which the first cache has what a tile and the one below it read."""
    span = pixels * w.strides[-1] + (w.window[-1] - 1) * w.dilation[-1]
    numbers = (_two(w.window)[0] * span + pixels) * tiling(1)[2]
    vectors: int = int(_NEAR * cache_bytes(1)) // (4 * numbers)
    return max(_FEWEST_VECTORS, vectors)


def _bands(batch: int, lines: int) -> int:
    """Parts of an image, so that there is work for all threads."""
    return min(lines, -(-4 * pools.planned_threads() // batch))


def _nanoseconds(w: Windows, x: int, y: int) -> float:
    """What one core takes for a convolution between arrays of so many numbers."""
    steps = min(x, y) * math.prod(w.window)
    return PRODUCT_NANOSECONDS * steps + 4 * BYTE_NANOSECONDS * (x + y)


def _work(w: Windows, x: Array, y: Array) -> tuple[int, int]:
    """The pool for a convolution between two arrays, and parts, from what one core takes."""
    return shared(_nanoseconds(w, x.size, y.size))


def _lines(images: Array, shape: tuple[int, int, int]) -> Array:
    """(batch, lines, numbers of a line), in row-major order; of bfloat16 its bits."""
    lines = kernel_family.owned(images).reshape(shape)
    return lines.view(np.uint16) if _is_half(images) else lines


def _is_half(images: Array) -> bool:
    return bool(images.dtype == bfloat16.dtype)


def _epilogue_operands(epilogue: Epilogue | None, shape: tuple[int, int, int]) -> tuple[Any, ...]:
    """The arguments that say what follows the sums of lines of such a shape."""
    if epilogue is None:
        return _NOTHING_BEHIND
    residual = epilogue.residual_of(shape, EMPTY_LINES)
    return epilogue.factor, epilogue.shift, residual, epilogue.limits


class LinesCall(NamedTuple):
    """What the sizes of a convolution decide.

    Attributes:
        key: of the kernel.
        x_shape: (batch, lines, numbers of a line) of the input.
        y_shape: the same of the result.
        weights_shape: (rows of the kernel, numbers of a row).
        shape: of the result.
        table: which lines are seen.
        numbers: the argument of the kernel that has this name, without its last number.
        nanoseconds: what one core takes.
    """

    key: tuple[int, ...]
    x_shape: tuple[int, int, int]
    y_shape: tuple[int, int, int]
    weights_shape: tuple[int, int]
    shape: tuple[int, ...]
    table: Array
    numbers: tuple[int, ...]
    nanoseconds: float

    def run(
        self, run: Any, x: Array, kernel: Array, bias: Array | None, low: Any, behind: Any
    ) -> Array:
        """The result.

        Args:
            run: the kernel.
            x: input.
            kernel: weights, in row-major order.
            bias: (filters,), or `None`.
            low: the smallest sum, as float32.
            behind: factor, shift, residual and limits of what follows.
        """
        y = np.empty(self.shape, x.dtype)
        start = np.zeros(self.numbers[1], np.float32) if bias is None else bias
        lines, weights = _lines(x, self.x_shape), kernel.reshape(self.weights_shape)
        results, numbers = _lines(y, self.y_shape), self.numbers_now()
        run(*self.shares(), lines, weights, start, results, self.table, numbers, low, *behind)
        return y

    def shares(self) -> tuple[int, int]:
        """The pool, and parts."""
        return shared(self.nanoseconds)

    def numbers_now(self) -> tuple[int, ...]:
        """`numbers` with the last one, which depends on how many threads there are."""
        return *self.numbers, _bands(*self.y_shape[:2])


@lru_cache(maxsize=CALLS)
def lines_call(w: Windows, batch: int, channels: int, filters: int) -> LinesCall:
    """What is known of a convolution of so many images before it begins."""
    size, out, window, _, x_lines, _ = _vertical(w)
    width = w.out[-1]
    shape = batch, *w.out, filters
    line_geometry = w.sizes[-1], width, -w.pads[-1][0], 0
    numbers = math.prod((batch, *w.sizes, channels)), math.prod(shape)
    return LinesCall(
        (_pixels(width), w.window[-1], w.strides[-1], w.dilation[-1], 0, filters // channels),
        (batch, size, numbers[0] // (batch * size)),
        (batch, out, numbers[1] // (batch * out)),
        (window, w.window[-1] * filters),
        shape,
        forward_table(w),
        (channels, filters, filters, *line_geometry, x_lines, 1, _near_vectors(w, _pixels(width))),
        _nanoseconds(w, *numbers),
    )


def forward(
    w: Windows,
    x: Array,
    kernel: Array,
    bias: Array | None,
    rectify: bool,
    seconds: float,
    epilogue: Epilogue | None = None,
) -> Array | None:
    """Convolution, bias and rectifier compiled, or `None` where that does not pay.

    Args:
        w: the windows.
        x: input.
        kernel: weights.
        bias: (filters,), or `None`.
        rectify: whether what is less than 0 becomes 0.
        seconds: estimate of what the plain version takes.
        epilogue: what follows.
    """
    call = lines_call(w, len(x), x.shape[-1], kernel.shape[-1])
    run = (HALF_LINES if _is_half(x) else LINES).find(call.key, seconds)
    if run is None:
        return None
    behind = _epilogue_operands(epilogue, call.y_shape)
    start = None if bias is None else kernel_family.owned(bias)
    low = np.float32(0 if rectify else -np.inf)
    return call.run(run, x, kernel_family.owned(kernel), start, low, behind)


def input_gradient(
    w: Windows, g: Array, kernel: Array, channels: int, seconds: float
) -> Array | None:
    """The gradient by the input, or `None` where the compiled kernel does not pay."""
    filters, width, stride = kernel.shape[-1], w.sizes[-1], w.strides[-1]
    each = filters // channels
    key = (_pixels(width, stride), w.window[-1], stride, w.dilation[-1], 1, each)
    run = (HALF_LINES if _is_half(g) else LINES).find(key, seconds)
    if run is None:
        return None
    size, out, window, down, apart, _ = _vertical(w)
    y = np.empty((len(g), *w.sizes, channels), g.dtype)
    start = w.pads[-1][0]
    # The first tile starts at or before the line, where a window begins, so one pattern of
    # offsets holds for all tiles.
    line_geometry = w.out[-1], width, start // stride, -(start % stride)
    # Rows of the kernel rise while windows come from below, hence the minus.
    near = _near_vectors(w, _pixels(width, stride))
    numbers = filters, channels, filters, *line_geometry, -apart, down, near, _bands(len(g), size)
    none, low = np.zeros(0, np.float32), np.float32(-np.inf)
    weights = kernel_family.owned(kernel).reshape(window, -1)
    lines, results = _lines(g, (len(g), out, -1)), _lines(y, (len(y), size, -1))
    operands = lines, weights, none, results, backward_table(w), numbers, low
    run(*_work(w, g, y), *operands, *_NOTHING_BEHIND)
    return y


def _chunk(elements: int, filters: int, parts: int, threads: int) -> int:
    """Vectors of filters that a task of the gradient by the kernel takes; no bit depends on it.

    Their sums fit into half of the second cache, and there is work for all threads.
    """
    vector = 4 * tiling(1)[2]
    fitting = cache_bytes(2) // 2 // (vector * elements)
    tasks = math.ceil(threads / parts)
    each = math.ceil(4 * filters / (vector * tasks))
    return max(_LEAST_BYTES // vector, min(fitting, each))


def kernel_gradient(w: Windows, x: Array, g: Array, seconds: float) -> Array | None:
    """The gradient by the kernel, float32, or `None` where the compiled kernel does not pay."""
    channels, filters, dilation = x.shape[-1], g.shape[-1], w.dilation[-1]
    width, stride = w.out[-1], w.strides[-1]
    key = (_pixels(width), w.window[-1], stride, dilation, filters // channels)
    run = (BY_HALF_KERNEL if _is_half(x) else BY_KERNEL).find(key, seconds)
    if run is None:
        return None
    size, out, window, _, x_lines, _ = _vertical(w)
    # As many sums apart, so that threads need not wait for one another; shapes alone decide.
    parts = min(pools.MATRIX_SHARES, len(x) * out)
    y = np.zeros((parts, window * w.window[-1], filters), np.float32)
    start = w.pads[-1][0]
    # Pixels behind the last window would be read for nothing, and count as outside.
    end = (width - 1) * stride + (w.window[-1] - 1) * dilation + 1 - start
    chunk = _chunk(window * w.window[-1], filters, parts, pools.planned_threads())
    numbers = channels, filters, min(w.sizes[-1], end), width, -start, x_lines, chunk
    pool, shares = _work(w, x, g)
    shares = min(
        shares, max(pools.MATRIX_SHARES, pools.planned_threads())
    )  # few, so each reads whole lines
    lines, grads = _lines(x, (len(x), size, -1)), _lines(g, (len(g), out, -1))
    run(pool, shares, lines, grads, y, forward_table(w), numbers)
    return np.add.reduce(y, 0).reshape(*w.window, 1, filters)
