"""Images copied to their phases and back, by compiled kernels where they are at hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS
from trainkit.core.dtypes import bfloat16
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.kernel_family import owned
from trainkit.kernels.threads.thread_pool import shared

Array = Any
Sizes = tuple[int, ...]

_F32, _BF16 = np.dtype(np.float32), bfloat16.dtype
_FILE = "convolution.phase_copies_compiled"
TO_PHASES = kernel_family.Family("image_to_phases", _FILE, "image_to_phases", exact=True)
TO_IMAGE = kernel_family.Family("phases_to_image", _FILE, "phases_to_image", exact=True)


def image_to_phases(x: Array, start: Sizes, sizes: Sizes) -> Array:
    """(images, *sizes, 4 * channels) of images (images, lines, points, channels).

    Args:
        x: images.
        start: lines and points of zeros that stand before an image, 0 or 1.
        sizes: lines and points of the phases, which cover the image.
    """
    x = owned(x)
    images, _, _, channels = x.shape
    y = np.empty((images, *sizes, 4 * channels), x.dtype)
    run = TO_PHASES.find((), _seconds(y)) if _is_whole(x.dtype, channels) else None
    if run is not None:
        run(*shared(2 * BYTE_NANOSECONDS * y.nbytes), _floats(x), _floats(y), *start)
        return y
    padded = np.zeros((images, 2 * sizes[0], 2 * sizes[1], channels), _bits(x).dtype)
    padded[:, start[0] : start[0] + x.shape[1], start[1] : start[1] + x.shape[2]] = _bits(x)
    pairs = padded.reshape(images, sizes[0], 2, sizes[1], 2 * channels)
    _bits(y).reshape(images, *sizes, 2, 2 * channels)[...] = pairs.swapaxes(2, 3)
    return y


def phases_to_image(phases: Array, start: Sizes, sizes: Sizes) -> Array:
    """(images, *sizes, channels) of the phases of images.

    Args:
        phases: (images, lines, points, 4 * channels).
        start: lines and points of these that stand before an image, 0 or 1.
        sizes: lines and points of an image.
    """
    images, lines, points, width = phases.shape
    channels = width // 4
    y = np.empty((images, *sizes, channels), phases.dtype)
    run = TO_IMAGE.find((), _seconds(y)) if _is_whole(y.dtype, channels) else None
    if run is not None:
        run(*shared(2 * BYTE_NANOSECONDS * y.nbytes), _floats(phases), _floats(y), *start)
        return y
    pairs = _bits(phases).reshape(images, lines, points, 2, 2 * channels).swapaxes(2, 3)
    image = pairs.reshape(images, 2 * lines, 2 * points, channels)
    _bits(y)[...] = image[:, start[0] :, start[1] :][:, : sizes[0], : sizes[1]]
    return y


def _is_whole(dtype: Any, channels: int) -> bool:
    """Whether the channels of a pixel are whole numbers of 4 bytes, which kernels copy."""
    return bool(dtype.itemsize * channels % 4 == 0)


def _floats(x: Array) -> Array:
    """`x` as numbers of 4 bytes, which are two of bfloat16."""
    return x if x.dtype == _F32 else x.view(_F32)


def _bits(x: Array) -> Array:
    """`x` as NumPy copies it fast: what it does not know goes number by number."""
    return x.view(np.uint16) if x.dtype == _BF16 else x


def _seconds(y: Array) -> float:
    """Estimate of what NumPy takes for a copy by way of a padded one."""
    return 4 * float(y.nbytes) * kernel_family.BYTE_SECONDS
