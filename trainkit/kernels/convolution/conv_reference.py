"""Convolution and its two gradients over `xp`: columns of windows, then one matrix product.

The reference that tuned kernels are compared with, and what runs when there is none. Arrays are
`(batch, spatial..., channels)`, kernels `(window..., channels // groups, filters)`; float16 and
bfloat16 are summed in float32.
Source: Chellapilla, Puri and Simard 2006, "High performance convolutional neural networks for
document processing" (columns of windows).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import CACHED_BYTES, LINE_FLOATS
from trainkit.core.process.later_imports import DeferredModule
from trainkit.kernels.convolution.sliding_windows import Windows, placed, reach
from trainkit.kernels.matmul.matmul_gpu import matmul

windows_cuda = DeferredModule("trainkit.kernels.convolution.windows_cuda")

Array = Any

COLUMN_BYTES = CACHED_BYTES
"""Columns are made for so many images at a time that they take about this much memory.

That is in the second cache of every processor; where it is not, convolutions take up to 1.5 times
as long. It decides on roundings, so it is the same everywhere.
"""


def _sum_dtype(xp: Any, dtype: Any) -> Any:
    """The dtype to sum in."""
    return np.dtype(np.float32) if dtype.itemsize < 4 and dtype.kind in "fV" else dtype


def _factor(xp: Any, dtype: Any) -> Any:
    """The dtype to multiply matrices in: cuBLAS sums short floats as float32 by itself."""
    return _sum_dtype(xp, dtype) if xp is np else dtype


def _chunks(xp: Any, batch: int, bytes_each: int) -> Iterator[slice]:
    # On a GPU each part would be several launches, so all images are one part.
    step = batch if xp is not np else max(1, COLUMN_BYTES // max(bytes_each, 1))
    for start in range(0, batch, max(step, 1)):
        yield slice(start, min(start + step, batch))


def _windows_of(xp: Any, w: Windows, x: Array) -> Callable[[slice], Array]:
    """What gives the windows of a part of the images, as a view that holds until the next part."""
    room: list[Array] = []  # the first part with padding, which is the largest, and its windows
    has_padding, interior = w.has_padding, w.interior

    def windows(part: slice) -> Array:
        # Padding stays zero from one part to the next, so only the inside is copied again.
        if not room:
            room.append(w.pad(xp, x[part]) if has_padding else x)
            room.append(w.view(xp, room[0]))
        elif has_padding:
            room[0][: part.stop - part.start][interior] = x[part]
        return room[1][: part.stop - part.start] if has_padding else room[1][part]

    return windows


def _columns(xp: Any, w: Windows, windows: Array, group: slice) -> Array:
    """Windows of some images as a matrix (images * out, window * channels of the group)."""
    view = windows[..., group]
    rows = view.shape[0] * math.prod(w.out)
    inside = view.shape[-1]
    is_short = _run(w, inside, windows.shape[-1]) < LINE_FLOATS
    if xp is np and not _is_pointwise(w) and is_short:
        # Copied by columns, each copy runs along the image, which is long where windows are narrow.
        # The transpose is a view, and BLAS takes either order.
        axes = range(view.ndim)
        outer = 1 + len(w.window)
        column_by_column = view.transpose(*axes[outer:], *axes[:outer])
        return column_by_column.reshape(math.prod(w.window) * inside, rows).T
    return view.reshape(rows, math.prod(w.window) * inside)


def _run(w: Windows, inside: int, channels: int) -> int:
    """How many numbers of a window lie side by side, of `inside` of all `channels`."""
    together = inside == channels and w.dilation[-1] == 1
    return inside * w.window[-1] if together else inside


def _all_columns(
    xp: Any,
    w: Windows,
    x: Array,
    part: slice,
    groups: list[slice],
    windows_of: Callable[[slice], Array],
) -> Iterator[Array]:
    """The columns of each group of channels, of a part of the images."""
    windows = None
    for group in groups:
        columns = None
        if xp is not np and not _is_pointwise(w):
            columns = windows_cuda.columns(xp, w, x[part], group)
        if columns is None:
            # The view serves all groups of channels, but not beyond this part.
            windows = windows_of(part) if windows is None else windows
            columns = _columns(xp, w, windows, group)
        yield columns


def _is_pointwise(w: Windows) -> bool:
    return math.prod(w.window) == 1 and math.prod(w.strides) == 1 and not w.has_padding


def _groups(kernel: Array, groups: int) -> Iterator[tuple[slice, slice]]:
    """(input channels, filters) of each group."""
    inside, filters = kernel.shape[-2], kernel.shape[-1] // groups
    for i in range(groups):
        yield slice(i * inside, (i + 1) * inside), slice(i * filters, (i + 1) * filters)


def conv(
    xp: Any,
    w: Windows,
    x: Array,
    kernel: Array,
    groups: int,
    finish: Callable[[Array], Array] = lambda y: y,
) -> Array:
    """Cross-correlation of `x` with `kernel`, (batch, out..., filters).

    Each element of the result goes through `finish`, which works in place and on some images at a
    time, as long as they are in a cache; short floats when they are rounded.
    """
    dtype = x.dtype
    by_channel = groups > 1 and kernel.shape[-2] == 1
    worked = _sum_dtype(xp, dtype) if by_channel else _factor(xp, dtype)
    x, kernel = x.astype(worked, copy=False), kernel.astype(worked, copy=False)
    y = xp.empty((x.shape[0], *w.out, kernel.shape[-1]), worked)
    if by_channel:
        _depthwise(xp, w, x, kernel, y)
        return finish(y.astype(dtype, copy=False))
    elements = math.prod(w.window)
    each = math.prod(w.out) * elements * kernel.shape[-2] * x.itemsize
    at_once = worked != dtype
    parts = list(_groups(kernel, groups))
    inputs, windows_of = [inside for inside, _ in parts], _windows_of(xp, w, x)
    for part in _chunks(xp, x.shape[0], each):
        made_columns = _all_columns(xp, w, x, part, inputs, windows_of)
        for (_, filters), columns in zip(parts, made_columns, strict=True):
            matrix = kernel[..., filters].reshape(columns.shape[1], -1)
            if groups == 1:
                # Without groups a part of the result is contiguous, and the product goes straight
                # there.
                matmul(xp, columns, matrix, out=y[part].reshape(-1, kernel.shape[-1]))
            else:
                sums = matmul(xp, columns, matrix)
                y[part][..., filters] = sums.reshape(*y[part].shape[:-1], -1)
        # While it is in the cache. Short floats are rounded first, so they wait for the end.
        if not at_once:
            finish(y[part])
    return finish(y.astype(dtype, copy=False)) if at_once else y


def conv_input_gradient(xp: Any, w: Windows, g: Array, kernel: Array, groups: int) -> Array:
    """What `conv` sends back to its input: each output spread over its window."""
    dtype = g.dtype
    by_channel = groups > 1 and kernel.shape[-2] == 1
    sum_dtype = _sum_dtype(xp, dtype)
    worked = sum_dtype if by_channel else _factor(xp, dtype)
    g, kernel = g.astype(worked, copy=False), kernel.astype(worked, copy=False)
    channels = kernel.shape[-2] * groups
    if xp is np and not by_channel:
        # The gradient is a convolution with the turned kernel. It copies windows of the outputs, so
        # it is for kernels that do not have far more filters than channels.
        around = _windows_back(w)
        if around is not None and kernel.shape[-1] <= 2 * channels:
            return conv(xp, around, g, _turn(kernel, groups), groups).astype(dtype, copy=False)
    at_once = xp is not np and not by_channel and _is_summed_at_once(xp, w, dtype)
    result = xp.empty((g.shape[0], *w.sizes, channels), dtype if at_once else sum_dtype)
    if by_channel:
        _depthwise_back(xp, w, g, kernel, result)
        return result.astype(dtype, copy=False)
    elements = math.prod(w.window)
    each = math.prod(w.out) * elements * kernel.shape[-2] * g.itemsize
    for part in _chunks(xp, g.shape[0], each):
        for inputs, filters in _groups(kernel, groups):
            matrix = kernel[..., filters].reshape(elements * kernel.shape[-2], -1)
            rows = g[part][..., filters].reshape(-1, matrix.shape[1])
            columns = matmul(xp, rows, matrix.T)
            if at_once:
                windows_cuda.sum_windows(w, columns, result, inputs)
                continue
            # Overlapping windows are summed in float32, and the sum is rounded once, as one product
            # would.
            columns = columns.astype(sum_dtype, copy=False)
            if _is_pointwise(w):
                result[part][..., inputs] = columns.reshape(*g[part].shape[:-1], -1)
                continue
            columns = columns.reshape(-1, *w.out, *w.window, kernel.shape[-2])
            result[part][..., inputs] = _summed_windows(xp, w, columns)
    return result.astype(dtype, copy=False)


def _windows_back(w: Windows) -> Windows | None:
    """Where the gradient of an element gathers from: windows over the padded outputs.

    `None` where windows are not beside each other, or padding is wider than they reach.
    """
    reaches = [reach(k, d) - 1 for k, d in zip(w.window, w.dilation, strict=True)]
    around = [(r - a, r - b) for r, (a, b) in zip(reaches, w.pads, strict=True)]
    if max(w.strides) > 1 or min(map(min, around)) < 0:
        return None
    return placed(w.out, w.window, w.strides, tuple(around), w.dilation)


def _turn(kernel: Array, groups: int) -> Array:
    """The kernel from its outputs to its inputs: (window..., filters // groups, channels)."""
    rank = kernel.ndim - 2
    # The first window that covers an input sees it under its last offset, the last one under its
    # first, so offsets come in falling order.
    turned = kernel[(slice(None, None, -1),) * rank]
    parted = turned.reshape(*kernel.shape[:-1], groups, -1)
    back = parted.transpose(*range(rank), rank + 2, rank + 1, rank)
    return back.reshape(*kernel.shape[:rank], kernel.shape[-1] // groups, -1)


def _is_summed_at_once(xp: Any, w: Windows, dtype: Any) -> bool:
    """Whether a kernel of a GPU adds up windows, in float32 at least, and rounds once."""
    return not _is_pointwise(w) and windows_cuda.sums_windows(xp, w, dtype)


def _summed_windows(xp: Any, w: Windows, columns: Array) -> Array:
    """Add up windows (batch, out..., window..., channels) where they overlap, less padding."""
    rank = len(w.window)
    padded = xp.zeros((columns.shape[0], *w.padded, columns.shape[-1]), columns.dtype)
    outs = (slice(None),) * (rank + 1)
    for position in product(*map(range, w.window)):
        padded[w.offset(position)] += columns[(*outs, *position)]
    return padded[w.interior]


def conv_kernel_gradient(xp: Any, w: Windows, x: Array, g: Array, groups: int) -> Array:
    """What `conv` sends back to its kernel: (window..., channels // groups, filters)."""
    dtype = x.dtype
    inside = x.shape[-1] // groups
    by_channel = groups > 1 and inside == 1
    worked = _sum_dtype(xp, dtype) if by_channel else _factor(xp, dtype)
    x, g = x.astype(worked, copy=False), g.astype(worked, copy=False)
    result = xp.zeros((*w.window, inside, g.shape[-1]), worked)
    if by_channel:
        _depthwise_kernel(xp, w, x, g, result)
        return result.astype(dtype, copy=False)
    elements = math.prod(w.window)
    parts = list(_groups(result, groups))
    inputs, windows_of = [channels for channels, _ in parts], _windows_of(xp, w, x)
    for part in _chunks(xp, x.shape[0], math.prod(w.out) * elements * inside * x.itemsize):
        made_columns = _all_columns(xp, w, x, part, inputs, windows_of)
        for (_, filters), columns in zip(parts, made_columns, strict=True):
            matrix = g[part][..., filters].reshape(columns.shape[0], -1)
            partial_gradient = matmul(xp, columns.T, matrix).reshape(*w.window, inside, -1)
            if xp is not np and groups == 1:  # all images are one part there
                return partial_gradient.astype(dtype, copy=False)
            result[..., filters] += partial_gradient
    return result.astype(dtype, copy=False)


# ------------------------------------------------------------------ one channel for each group


def _multiply(kernel: Array, channels: int) -> Array:
    """A kernel (window..., 1, channels * multiplier) as (window..., channels, multiplier)."""
    return kernel.reshape(*kernel.shape[:-2], channels, -1)


def _depthwise(xp: Any, w: Windows, x: Array, kernel: Array, y: Array) -> None:
    padded = w.pad(xp, x)
    weights = _multiply(kernel, x.shape[-1])
    # Offset by offset for all channels at once: a matrix product for each would be a tiny one.
    total = y.reshape(*y.shape[:-1], *weights.shape[-2:])
    total[...] = 0
    for position in product(*map(range, w.window)):
        total += padded[w.offset(position)][..., None] * weights[position]


def _add_up(xp: Any, x: Array, axis: Any) -> Array:
    """`x.sum(axis)`, of which NumPy's warnings are silenced as others that name this package."""
    return np.add.reduce(x, axis) if xp is np else x.sum(axis)


def _depthwise_back(xp: Any, w: Windows, g: Array, kernel: Array, result: Array) -> None:
    weights = _multiply(kernel, result.shape[-1])
    by_multiplier = g.reshape(*g.shape[:-1], *weights.shape[-2:])
    padded = xp.zeros((g.shape[0], *w.padded, result.shape[-1]), g.dtype)
    for position in product(*map(range, w.window)):
        padded[w.offset(position)] += _add_up(xp, by_multiplier * weights[position], -1)
    result[...] = padded[w.interior]


def _depthwise_kernel(xp: Any, w: Windows, x: Array, g: Array, result: Array) -> None:
    padded = w.pad(xp, x)
    channels = x.shape[-1]
    by_multiplier = g.reshape(*g.shape[:-1], channels, -1)
    outer = tuple(range(by_multiplier.ndim - 2))
    for position in product(*map(range, w.window)):
        inputs = padded[w.offset(position)][..., None]
        result[(*position, 0)] = _add_up(xp, inputs * by_multiplier, outer).reshape(-1)
