"""When windows of 3 to 6 lines and points with stride 2 are made by transforms of phases.

The four phases of an image, its lines 0, 2, 4, ... and 1, 3, 5, ... and such points of each, count
as channels. Windows of up to 6 x 6 that go on by 2 are windows of 3 x 3 over them that go on by 1,
which Winograd's minimal filtering makes: of each 3 x 3 x 4 weights those are zeros that the window
does not have.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from trainkit.kernels.convolution import winograd_tuned
from trainkit.kernels.convolution.phase_copies_tuned import image_to_phases, phases_to_image
from trainkit.kernels.convolution.pixels_tuned import LANES, sixteens
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.convolution.transform_costs import PHASE_GRADIENTS, PHASES, PHASES_BACK, Costs
from trainkit.kernels.convolution.winograd_sizes import PRODUCTS, STEP
from trainkit.kernels.matmul.prepared_weights import PreparedWeights, prepare_weights

Array = Any
Sizes = tuple[int, ...]

_NARROW = 1.5
"""What a multiplication of direct sums takes where their tiles are a single vector wide."""


class Phases(NamedTuple):
    """How windows over an image are windows over its phases.

    Attributes:
        start: lines and points of zeros before the image that its phases begin with, 0 or 1.
        shift: where the kernel begins among 6 x 6 weights, 0 or 1.
        windows: of 3 x 3 over the phases.
    """

    start: Sizes
    shift: Sizes
    windows: Windows


@lru_cache(maxsize=1024)
def phases_of(w: Windows) -> Phases:
    """The phases, and the windows over them, for windows of up to 6 x 6 that go on by 2."""
    axes = [_axis(k, before) for k, (before, _) in zip(w.window, w.pads, strict=True)]
    start = tuple(axis[0] for axis in axes)
    sizes = tuple(-(-(n + s) // 2) for n, s in zip(w.sizes, start, strict=True))
    # Behind the last window phases may go on, which are padding less than nothing.
    pads = [
        (axis[2], out + 2 - n - axis[2]) for axis, out, n in zip(axes, w.out, sizes, strict=True)
    ]
    windows = Windows(sizes, (3, 3), (1, 1), pads, (1, 1))
    return Phases(start, tuple(axis[1] for axis in axes), windows)


def _axis(window: int, before: int) -> tuple[int, int, int]:
    """Where phases start, where the kernel does among 6, and padding before the phases.

    A padding that is not even is a kernel that begins one later, or, where it then had more than 6
    weights, an image that does. The first is better: as many tiles as the image has are
    transformed.
    """
    start = int(before % 2 == 1 and window == 6)
    shift = (before - start) % 2
    return start, shift, (before - start + shift) // 2


# ------------------------------------------------------------------ when it pays


def serves_forward(w: Windows, batch: int, channels: int, filters: int, groups: int) -> bool:
    """Whether a convolution is made in this way; shapes alone decide."""
    return _can_serve(w, groups) and _pays(PHASES, w, batch, channels, filters, _narrow(filters))


def serves_input_gradient(w: Windows, batch: int, channels: int, filters: int, groups: int) -> bool:
    """Whether a gradient by the input is made in this way."""
    if not _can_serve(w, groups):
        return False
    tiles = batch * _tiles(phases_of(w).windows.sizes)
    products = PRODUCTS * tiles * filters * _in_tiles(4 * channels)
    direct = _direct(w, batch, filters, channels) * _narrow(channels)
    numbers = batch * math.prod(w.sizes) * channels
    return PHASES_BACK.pay(direct, products, 4 * channels * filters, tiles * filters, numbers)


def serves_kernel_gradient(
    w: Windows, batch: int, channels: int, filters: int, groups: int
) -> bool:
    """Whether a gradient by the kernel is made in this way."""
    return _can_serve(w, groups) and _pays(PHASE_GRADIENTS, w, batch, channels, filters)


def _pays(
    costs: Costs, w: Windows, batch: int, channels: int, filters: int, narrow: float = 1.0
) -> bool:
    tiles = batch * _tiles(w.out)
    products = PRODUCTS * tiles * 4 * channels * _in_tiles(filters)
    numbers = batch * math.prod(w.sizes) * channels
    direct = _direct(w, batch, channels, filters) * narrow
    return costs.pay(direct, products, 4 * channels * filters, tiles * filters, numbers)


def _can_serve(w: Windows, groups: int) -> bool:
    """Whether windows over phases have 3 x 3 weights; with those of 2 x 2 nothing is to gain."""
    if groups != 1 or w.strides != (2, 2) or w.dilation != (1, 1):
        return False
    return winograd_tuned.ENABLED and all(3 <= k <= 6 for k in w.window)


def _direct(w: Windows, batch: int, channels: int, filters: int) -> int:
    """Multiplications of direct sums, in whole vectors of filters."""
    return batch * math.prod(w.out) * math.prod(w.window) * channels * LANES * -(-filters // LANES)


def _narrow(filters: int) -> float:
    return _NARROW if sixteens(filters) == 1 else 1.0


def _tiles(sizes: Sizes) -> int:
    """Tiles of an image of results."""
    return math.prod(-(-n // STEP) for n in sizes)


def _in_tiles(filters: int) -> int:
    """Filters with those that are empty in tiles of transformed ones."""
    width = LANES * winograd_tuned.sixteens(filters)
    return -(-filters // width) * width


# ------------------------------------------------------------------ weights


def regroup_kernel(kernel: Array, shift: Sizes) -> Array:
    """The kernel (3, 3, 4 * channels, filters) over phases, zeros where the window has none."""
    height, width, channels, filters = kernel.shape
    grouped = np.zeros((3, 3, 2, 2, channels, filters), np.float32)
    by_place = grouped.transpose(0, 2, 1, 3, 4, 5)
    for a in range(height):
        for b in range(width):
            by_place[(*divmod(a + shift[0], 2), *divmod(b + shift[1], 2))] = kernel[a, b]
    return grouped.reshape(3, 3, 4 * channels, filters)


def separate_gradient(grouped: Array, window: Sizes, shift: Sizes) -> Array:
    """The gradient of a kernel of that window, from that of the kernel over phases."""
    channels, filters = grouped.shape[2] // 4, grouped.shape[3]
    by_place = grouped.reshape(3, 3, 2, 2, channels, filters).transpose(0, 2, 1, 3, 4, 5)
    gradient = np.empty((*window, channels, filters), np.float32)
    for a in range(window[0]):
        for b in range(window[1]):
            gradient[a, b] = by_place[(*divmod(a + shift[0], 2), *divmod(b + shift[1], 2))]
    return gradient


# ------------------------------------------------------------------ convolutions


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

    `weights` keeps the kernel over phases for further calls.
    """
    start, shift, windows = phases_of(w)
    phases = image_to_phases(x, start, windows.sizes)
    grouped = prepare_weights(weights, kernel, regroup_kernel, shift)
    return winograd_tuned.forward(windows, phases, grouped, bias, low, seconds)


def input_gradient(w: Windows, g: Array, kernel: Array, seconds: float) -> Array | None:
    """The gradient by the input, or `None` as `forward`."""
    start, shift, windows = phases_of(w)
    grouped = regroup_kernel(kernel, shift)
    phases = winograd_tuned.input_gradient(windows, g, grouped, seconds)
    return None if phases is None else phases_to_image(phases, start, w.sizes)


def kernel_gradient(w: Windows, x: Array, g: Array, seconds: float) -> Array | None:
    """The gradient by the kernel, float32, or `None` where the compiled kernel is not there yet."""
    start, shift, windows = phases_of(w)
    phases = image_to_phases(x, start, windows.sizes)
    grouped = winograd_tuned.kernel_gradient(windows, phases, g, seconds)
    return None if grouped is None else separate_gradient(grouped, w.window, shift)
