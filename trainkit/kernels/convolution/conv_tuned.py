"""When compiled convolutions pay, and how arrays are laid out for them.

Arrays are float32, or bfloat16, which is summed in float32 and rounded once. Transforms of tiles
and depthwise kernels read and write bfloat16 themselves, products have kernels of their own for it,
of windows too where copying these pays; for direct sums arrays become float32 and results bfloat16.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import UNCACHED_FLOATS
from trainkit.core.dtypes import bfloat16
from trainkit.kernels.convolution import (
    conv_layout,
    depthwise_tuned,
    few_filters_tuned,
    gathered_tuned,
    phases_tuned,
    pixel_copies_tuned,
    winograd_tuned,
)
from trainkit.kernels.convolution.pixels_tuned import (
    AS_IT_IS,
    PACKED,
    PIXELS,
    TURNED,
    behind_of,
    by_channel,
    geometry,
    lines,
    nanoseconds,
    pixels_call,
    run_pixels,
    sixteens,
)
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.elementwise.half_casts_tuned import cast_array
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.matmul import half_product_tuned
from trainkit.kernels.matmul.epilogue_tuned import Epilogue, finish
from trainkit.kernels.matmul.prepared_weights import PreparedWeights
from trainkit.kernels.matmul.product_tuned import product
from trainkit.kernels.threads import pools
from trainkit.kernels.threads.thread_pool import shared

Array = Any

_F32, _BF16 = np.dtype(np.float32), bfloat16.dtype
WEIGHTS = kernel_family.Family("conv_weights", "convolution.conv_compiled", "weights")


_EXPONENT = np.uint16(0x7F80)

_RESULT_WAYS = winograd_tuned, phases_tuned, few_filters_tuned
"""What takes less than direct sums for some shapes: each says whether it serves, and has `None` for
a result that direct sums are to make after all. Functions of the same names take the same."""
_KERNEL_WAYS = winograd_tuned, phases_tuned
"""Those that also make the gradient by the kernel."""

# Compiled kernels take zeros for what is outside of an array, or leave its offsets out; the plain
# ones take zeros in the padding alone. For finite numbers that is the same, for 0 * NaN it is not.


def _finite(*arrays: Array) -> bool:
    return all(map(_is_finite, arrays))


def _is_finite(array: Array) -> bool:
    if array.dtype is _F32:
        return bool(np.isfinite(array).all())
    # By the exponents, as the loops of bfloat16 go number by number.
    return bool(((array.view(np.uint16) & _EXPONENT) != _EXPONENT).all())


def _finite_cheaply(result: Array, *inputs: Array) -> bool:
    """Whether zeros met finite numbers only, from what is smaller.

    What is not finite stays so in any sum, so finite results come of finite numbers.
    """
    small = sum(array.size for array in inputs) < result.size
    return _finite(*inputs) if small else _finite(result)


@lru_cache(maxsize=1024)
def _has_blind_windows(w: Windows) -> bool:
    """Whether some windows lie wholly in the padding, so that results say nothing of them."""
    facts = zip(w.sizes, w.out, w.window, w.strides, w.dilation, w.pads, strict=True)
    return any(
        not any(0 <= at * s + offset * d - before < size for offset in range(k))
        for size, out, k, s, d, (before, _) in facts
        for at in range(out)
    )


def _fits(w: Windows, *arrays: Array) -> bool:
    return (
        len(w.window) < 4
        and arrays[0].dtype in (_F32, _BF16)
        and all(type(a) is np.ndarray and a.dtype == arrays[0].dtype and a.size for a in arrays)
        and all(n > 0 for n in w.out)
    )


def _shift_of(bias: Array | None, filters: int) -> Array:
    return (
        np.zeros(filters, np.float32)
        if bias is None
        else kernel_family.owned(cast_array(bias, _F32))
    )


def _multiply(
    rows: Array,
    columns: Array,
    bias: Array | None = None,
    rectify: bool = False,
    weights: PreparedWeights | None = None,
    epilogue: Epilogue | None = None,
    dtype: Any = None,
) -> Array | None:
    """The tuned product of two matrices, in the dtype of the rows or as `dtype` says."""
    if rows.dtype is _F32:
        return product(rows, columns, bias, rectify, weights, epilogue)
    if epilogue is not None:
        return None
    dtype = dtype or rows.dtype
    y = half_product_tuned.product(rows, columns, bias, rectify, dtype)
    if y is not None:
        return y
    y = product(cast_array(rows, _F32), cast_array(columns, _F32), bias, rectify)
    return None if y is None else cast_array(y, dtype)


def _gathers(w: Windows, x: Array, channels: int, filters: int, groups: int) -> bool:
    """Whether a convolution of bfloat16 is a product of windows that are copied."""
    is_short = groups == 1 and x.dtype is _BF16
    return is_short and gathered_tuned.serves(w, len(x), channels, filters)


def _plain_seconds(w: Windows, batch: int, channels: int, filters: int, groups: int) -> float:
    """Estimate for the plain version: its steps, its products and the windows that it copies."""
    outputs, columns = batch * math.prod(w.out), math.prod(w.window) * channels
    each = kernel_family.PRODUCT_SECONDS * filters / groups + 8 * kernel_family.BYTE_SECONDS
    return groups * kernel_family.STEP_SECONDS + outputs * columns * each


def _pool(w: Windows, batch: int, channels: int, filters: int, groups: int) -> int:
    """The pool for a gradient, 0 for one that is short."""
    return shared(nanoseconds(w, batch, channels, filters, groups))[0]


def forward(
    w: Windows,
    x: Array,
    kernel: Array,
    bias: Array | None,
    rectify: bool,
    groups: int,
    weights: PreparedWeights | None = None,
    epilogue: Epilogue | None = None,
) -> Array | None:
    """Convolution, bias and rectifier compiled, or `None` where that does not pay.

    `weights` keeps what is made of the kernel for further calls; `epilogue` is done to the result.

    Weights that are infinite or NaN are left to the plain version where compiled kernels leave out
    offsets, those in the padding of depthwise convolutions.
    """
    if not _fits(w, x, kernel) or (epilogue is not None and x.dtype is not _F32):
        return None
    batch, channels, filters = x.shape[0], x.shape[-1], kernel.shape[-1]
    seconds = _plain_seconds(w, batch, channels, filters, groups)
    dtype = x.dtype
    # One product of two matrices, for which there are better kernels.
    if groups == 1 and w.pointwise:
        columns = kernel_family.owned(kernel).reshape(channels, filters)
        shift = None if bias is None else _shift_of(bias, filters)
        # a product has one pair of limits, which are the rectifier's where there is one before
        behind = None if rectify else epilogue
        y = _multiply(_pixels_seen(w, x), columns, shift, rectify, weights, behind)
        if y is not None:
            y = y.reshape(batch, *w.out, filters)
            return y if behind is epilogue else _with_epilogue(y, epilogue)
    short_kernel, kernel = kernel, cast_array(kernel, _F32)
    if depthwise_tuned.serves(w, channels, filters, groups):
        # Outside of the image 0 times infinity is NaN by the formula; left out it would be nothing.
        if w.has_padding and not _finite(kernel):
            return None
        shift = None if bias is None else _shift_of(bias, filters)
        return depthwise_tuned.forward(w, x, kernel, shift, rectify, seconds, epilogue)
    low = 0.0 if rectify else -math.inf
    for way in _RESULT_WAYS:
        if way.serves_forward(w, batch, channels, filters, groups):
            y = way.forward(w, x, kernel, bias, low, seconds, weights)
            if y is not None:
                return _with_epilogue(y, epilogue)
    if _gathers(w, x, channels, filters, groups):
        shift = None if bias is None else _shift_of(bias, filters)
        y = gathered_tuned.forward(w, x, short_kernel, shift, rectify)
        if y is not None:
            return y
    call = pixels_call(w, batch, channels, filters, groups, pools.planned_threads())
    run = PIXELS.find(call.key, seconds)
    if run is None:
        return None
    matrix, pack = call.rows_of(kernel), call.pack
    if weights is not None and pack == PACKED:
        blocks = call.packed_kernel(kernel, weights)
        matrix, pack = (matrix, pack) if blocks is None else (blocks, AS_IT_IS)
    shift = None if bias is None else _shift_of(bias, filters)
    behind = behind_of(epilogue, batch)
    y = call.run(run, cast_array(x, _F32), matrix, pack, shift, np.float32(low), behind)
    return cast_array(y, dtype)


def _with_epilogue(y: Array, epilogue: Epilogue | None) -> Array | None:
    return y if epilogue is None or finish(y, epilogue) else None


def input_gradient(w: Windows, g: Array, kernel: Array, groups: int) -> Array | None:
    """The gradient by the input, or `None` where the plain version is to make it.

    That is where compiling does not pay, and where infinite weights may have met zeros.
    """
    if not _fits(w, g, kernel):
        return None
    gradient = _input_gradient(w, g, kernel, groups)
    # A window of one element has nothing outside that zeros could stand for.
    if gradient is None or w.pointwise or _finite_cheaply(gradient, kernel):
        return gradient
    return None


def _input_gradient(w: Windows, g: Array, kernel: Array, groups: int) -> Array | None:
    """Sums for the pixels of the input, over offsets that cover them."""
    inside, filters = kernel.shape[-2:]
    batch, channels = g.shape[0], inside * groups
    if channels == 1:  # sums are of 16 channels at a time, which is in vain for one
        return None
    seconds = _plain_seconds(w, batch, channels, filters, groups)
    dtype = g.dtype
    if groups == 1 and w.pointwise:
        rows = kernel_family.owned(kernel).reshape(channels, filters)
        pixels = _multiply(kernel_family.owned(g).reshape(-1, filters), rows.T)
        if pixels is not None:
            return _spread_pixels(w, pixels.reshape(batch, *w.out, channels))
    short_kernel, kernel = kernel, cast_array(kernel, _F32)
    if depthwise_tuned.serves(w, channels, filters, groups):
        return depthwise_tuned.input_gradient(w, g, kernel, channels, seconds)
    for way in _RESULT_WAYS:
        if way.serves_input_gradient(w, batch, channels, filters, groups):
            y = way.input_gradient(w, g, kernel, seconds)
            if y is not None:
                return y
    if groups == 1 and dtype is _BF16:
        y = gathered_tuned.input_gradient(w, g, short_kernel)
        if y is not None:
            return y
    each = by_channel(channels, filters, groups)
    times = sixteens(channels if each else inside)
    run = PIXELS.find((times, int(each)), seconds)
    if run is None:
        return None
    facts = geometry(w, batch, channels, filters, groups, times, pools.planned_threads())
    plans, complete = conv_layout.backward(facts)
    shape = (batch, *w.sizes, channels)
    # With strides wider than the kernel, some positions are seen by no window.
    y = np.empty(shape, np.float32) if complete else np.zeros(shape, np.float32)
    turned = kernel_family.owned(kernel).reshape(
        (1, -1, filters) if each else (-1, inside, filters)
    )
    none, low = np.zeros(channels, np.float32), np.float32(-np.inf)
    grads, pack = lines(cast_array(g, _F32), facts.out), PACKED if each else TURNED
    work = run, _pool(w, batch, channels, filters, groups)
    for plan in plans:
        run_pixels(work, plan, grads, turned, pack, none, y, facts.tile[1], low)
    return cast_array(y, dtype)


def _pixels_seen(w: Windows, x: Array) -> Array:
    """(pixels, channels) that windows of one element see."""
    if any(n != 1 for n in w.strides):
        copied = pixel_copies_tuned.strided_pixels(x, w.strides)
        if copied is None:
            copied = x[(slice(None), *(slice(None, None, n) for n in w.strides))]
        x = copied
    return kernel_family.owned(x).reshape(-1, x.shape[-1])


def _spread_pixels(w: Windows, pixels: Array) -> Array:
    """An array with what `_pixels_seen` takes out of it, and zeros elsewhere."""
    if all(n == 1 for n in w.strides):
        return pixels
    y = pixel_copies_tuned.spread_pixels(pixels, w.sizes, (0,) * len(w.sizes), w.strides)
    if y is not None:
        return y
    y = np.zeros((pixels.shape[0], *w.sizes, pixels.shape[-1]), pixels.dtype)
    y[(slice(None), *(slice(None, None, n) for n in w.strides))] = pixels
    return y


def kernel_gradient(w: Windows, x: Array, g: Array, groups: int) -> Array | None:
    """The gradient by the kernel, or `None` where the plain version is to make it.

    That is where compiling does not pay, and where infinite numbers may have met zeros.
    """
    if not _fits(w, x, g):
        return None
    gradient = _kernel_gradient(w, x, g, groups)
    if gradient is None or not (w.pointwise or _finite_cheaply(gradient, x, g)):
        return None
    if w.has_padding and _has_blind_windows(w) and not _finite(g):
        return None
    return cast_array(gradient, x.dtype)


def _kernel_gradient(w: Windows, x: Array, g: Array, groups: int) -> Array | None:
    """Sums for the weights, over what each of them saw; of float32, whatever the inputs are."""
    batch, channels, filters = x.shape[0], x.shape[-1], g.shape[-1]
    seconds = _plain_seconds(w, batch, channels, filters, groups)
    if depthwise_tuned.serves(w, channels, filters, groups):
        return depthwise_tuned.kernel_gradient(w, x, g, seconds)
    # Products lay the input side by side for each block of filters, which few weights do not make
    # up for. Of bfloat16 they take half of the time whatever their size.
    is_product = x.dtype is not _F32 or channels * filters >= UNCACHED_FLOATS
    if groups == 1 and w.pointwise and is_product:
        grads = kernel_family.owned(g).reshape(-1, filters)
        gradient = _multiply(_pixels_seen(w, x).T, grads, dtype=_F32)
        if gradient is not None:
            return gradient.reshape(*w.window, channels, filters)
    for way in _KERNEL_WAYS:
        if way.serves_kernel_gradient(w, batch, channels, filters, groups):
            gradient = way.kernel_gradient(w, x, g, seconds)
            # Transforms of large numbers may be infinite where direct sums are not.
            if gradient is not None and _is_finite(gradient):
                return gradient
    windows = few_filters_tuned.swapped_windows(w, batch, channels, filters, groups)
    if windows is not None:
        swapped = _kernel_gradient(windows, g, x, groups)
        return None if swapped is None else few_filters_tuned.swapped_gradient(swapped)
    if _gathers(w, x, channels, filters, groups):
        gradient = gathered_tuned.kernel_gradient(w, x, g)
        if gradient is not None:
            return gradient
    each = by_channel(channels, filters, groups)
    # by channel a tile has a row for each offset, of which there are seldom more than 9
    times = sixteens(filters, 2) if each else sixteens(filters // groups)
    facts = geometry(w, batch, channels, filters, groups, times, pools.planned_threads())
    plan = conv_layout.weights(facts)
    run = WEIGHTS.find((times, int(each), plan.rows), seconds)
    if run is None:
        return None
    inside = channels // groups
    shape = (plan.parts, math.prod(w.window) * inside, filters)
    y = np.empty(shape, np.float32) if plan.complete else np.zeros(shape, np.float32)
    x, g = cast_array(x, _F32), cast_array(g, _F32)
    grads = kernel_family.owned(g).reshape(batch, -1, filters)
    source = np.empty(plan.source, np.float32)
    tables = plan.blocks, plan.at, plan.to, plan.pieces, plan.groups
    images = lines(x, facts.sizes)
    pool = _pool(w, batch, channels, filters, groups)
    run(pool, images, source, plan.lines, grads, y, *tables, plan.numbers)
    result = np.add.reduce(y, 0) if plan.parts > 1 else y[0]
    return result.reshape(*w.window, inside, filters)
