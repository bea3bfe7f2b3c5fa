"""Measures on images: gradients, total variation, signal-to-noise ratio, structural similarity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core import dtypes
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.pad_and_roll import pad
from trainkit.ops.arrays.shaping import as_tensor, reshape
from trainkit.ops.convolutional.convolution import depthwise_conv
from trainkit.ops.convolutional.pooling import average_pool
from trainkit.ops.core.dynamic_shapes import Bound
from trainkit.ops.core.one_node import sizes_later
from trainkit.ops.images.color_adjustments import convert_image_dtype
from trainkit.ops.images.image_filters import gauss, similarity
from trainkit.ops.math.elementwise import (
    absolute,
    add,
    cast,
    divide,
    maximum,
    multiply,
    square,
    subtract,
)
from trainkit.ops.math.elementwise import power as power_
from trainkit.ops.math.exponentials import log10
from trainkit.ops.math.reductions import mean as mean_
from trainkit.ops.math.reductions import std
from trainkit.ops.math.reductions import sum as sum_
from trainkit.ops.neural.activations import relu


def _standard_later(arguments: Bound) -> Spec | None:
    """Standardized images of a size that is not known yet."""
    x = as_tensor(arguments["image"])
    return Spec(x.shape, "float32") if None in tuple(x.shape)[-3:] else None


@sizes_later("tf.image.per_image_standardization", _standard_later)
def per_image_standardization(image: TensorLike) -> Tensor:
    """(x - mean) / max(standard deviation, 1 / sqrt(elements)), for each image.

    Args:
        image: (height, width, channels) or a batch of them.

    Example:
        >>> tk.image.per_image_standardization([[[1.0], [3.0]]]).numpy().ravel()
        array([-1.,  1.], dtype=float32)
    """
    x = cast(image, dtypes.float32)
    axes = (-3, -2, -1)
    mean = mean_(x, axis=axes, keepdims=True)
    size = x.shape[-3] * x.shape[-2] * x.shape[-1]
    deviation = maximum(std(x, axis=axes, keepdims=True), size**-0.5)
    return divide(subtract(x, mean), deviation)


def psnr(a: TensorLike, b: TensorLike, max_val: float, name: str | None = None) -> Tensor:
    """Peak signal-to-noise ratio of each image, in decibels.

    Args:
        a: (..., height, width, channels).
        b: of the same shape.
        max_val: the greatest value that a pixel can have.

    Example:
        >>> round(float(tk.image.psnr(tk.ones((4, 4, 1)), tk.zeros((4, 4, 1)), max_val=10.0)), 3)
        20.0
    """
    a, b = cast(a, dtypes.float32), cast(b, dtypes.float32)
    error = mean_(square(subtract(a, b)), axis=(-3, -2, -1))
    return multiply(10.0, log10(divide(float(max_val) ** 2, error)))


_SCALES = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)


def image_gradients(image: TensorLike) -> tuple[Tensor, Tensor]:
    """Differences to the next row and to the next column, 0 in the last one.

    Args:
        image: (batch, height, width, channels).

    Returns:
        dy and dx, of the shape of `image`.

    Raises:
        ShapeError: the rank is not 4.

    Example:
        >>> dy, dx = tk.image.image_gradients([[[[1.0], [3.0]], [[2.0], [4.0]]]])
        >>> dx.numpy().ravel()
        array([2., 0., 2., 0.], dtype=float32)
    """
    x = convert_to_tensor(image)
    if len(x.shape) != 4:
        raise ShapeError(
            f"image_gradients: needs (batch, height, width, channels), got {tuple(x.shape)}"
        )
    down = subtract(x[:, 1:], x[:, :-1])
    across = subtract(x[:, :, 1:], x[:, :, :-1])
    dy = pad(down, ((0, 0), (0, 1), (0, 0), (0, 0)))
    return dy, pad(across, ((0, 0), (0, 0), (0, 1), (0, 0)))


def total_variation(images: TensorLike, name: str | None = None) -> Tensor:
    """The sum of absolute differences between neighbouring pixels, for each image.

    Args:
        images: (height, width, channels), which gives a scalar, or a batch, which gives (batch,).

    Raises:
        ShapeError: the rank is another one.

    Example:
        >>> float(tk.image.total_variation([[[1.0], [3.0]], [[2.0], [4.0]]]))
        6.0
    """
    x = convert_to_tensor(images)
    if len(x.shape) not in (3, 4):
        raise ShapeError(
            "total_variation: needs (height, width, channels) or a batch of them, got shape "
            f"{tuple(x.shape)}"
        )
    down = absolute(subtract(x[..., 1:, :, :], x[..., :-1, :, :]))
    across = absolute(subtract(x[..., :, 1:, :], x[..., :, :-1, :]))
    axes = (-3, -2, -1)
    return cast(add(sum_(down, axis=axes), sum_(across, axis=axes)), x.dtype)


# ---------------------------------------------------------------------- structural similarity


def _pair(img1: Any, img2: Any, max_val: Any, op: str) -> tuple[Tensor, Tensor, float]:
    one, two = convert_to_tensor(img1), convert_to_tensor(img2)
    if len(one.shape) < 3 or len(two.shape) < 3 or tuple(one.shape[-3:]) != tuple(two.shape[-3:]):
        raise ShapeError(
            f"{op}: needs two images (..., height, width, channels) of one size, got "
            f"{tuple(one.shape)} and {tuple(two.shape)}"
        )
    peak = one.dtype.max if one.dtype.is_integer else 1
    floats = [convert_image_dtype(x, dtypes.float32) for x in (one, two)]
    return floats[0], floats[1], float(max_val) / peak


def _blur(x: Tensor, size: int, sigma: float, op: str) -> Tensor:
    """Means under a bell curve, where the window is wholly inside."""
    height, width, channels = x.shape[-3:]
    if min(height, width) < size:
        raise InvalidArgumentError(
            f"{op}: images of {height} by {width} are smaller than the window, {size}"
        )
    bell = gauss(size, sigma)
    window = np.tile(np.outer(bell, bell)[:, :, None, None], (1, 1, channels, 1))
    kernel = convert_to_tensor(window.astype("float32"))
    flat = reshape(x, (-1, height, width, channels))
    y = depthwise_conv(flat, kernel)
    return reshape(y, (*x.shape[:-3], *y.shape[1:]))


def _likeness(
    a: Tensor, b: Tensor, max_val: float, size: int, sigma: float, k1: float, k2: float, op: str
) -> tuple[Tensor, Tensor]:
    """At each pixel and channel the whole index, and that of contrast and structure alone."""
    return similarity(a, b, lambda x: _blur(x, size, sigma, op), max_val, k1, k2)


def _scores_later(arguments: Bound) -> Spec | None:
    """The similarity of images of a size that is not known yet."""
    a, b = (as_tensor(arguments[name]) for name in ("img1", "img2"))
    if None not in (*tuple(a.shape)[-3:], *tuple(b.shape)[-3:]):
        return None
    lead = tuple(a.shape)[:-3]
    return Spec((*lead, None, None) if arguments.get("return_index_map") else lead, "float32")


@sizes_later("tf.image.ssim", _scores_later, constants=("max_val",))
def ssim(
    img1: Any,
    img2: Any,
    max_val: float,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    return_index_map: bool = False,
) -> Tensor:
    """Structural similarity of images, at most 1.

    Source: Wang, Bovik, Sheikh and Simoncelli 2004, IEEE Trans. Image Processing 13(4).

    Args:
        img1: (..., height, width, channels).
        img2: of the same size.
        max_val: the greatest value that a pixel can have: 255 for uint8, 1 for floats in [0, 1].
        filter_size: of the window of the bell curve.
        filter_sigma: its standard deviation in pixels.
        k1: share of `max_val` that steadies the comparison of brightness.
        k2: share of `max_val` that steadies that of contrast.
        return_index_map: give the index of each pixel rather than the mean of an image.

    Returns:
        A float32 tensor (...), or (..., rows, columns) with `return_index_map`.

    Raises:
        ShapeError: the sizes differ.
        InvalidArgumentError: the images are smaller than the window.

    Example:
        >>> x = tk.ones((1, 16, 16, 1))
        >>> tk.image.ssim(x, x, max_val=1.0).numpy()
        array([1.], dtype=float32)
    """
    a, b, top = _pair(img1, img2, max_val, "ssim")
    index, _ = _likeness(a, b, top, filter_size, filter_sigma, k1, k2, "ssim")
    return mean_(index, axis=-1 if return_index_map else (-3, -2, -1))


@sizes_later("tf.image.ssim_multiscale", _scores_later, constants=("max_val",))
def ssim_multiscale(
    img1: Any,
    img2: Any,
    max_val: float,
    power_factors: Sequence[float] = _SCALES,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Tensor:
    """Structural similarity over several scales, each half as large as the one before.

    Source: Wang, Simoncelli and Bovik 2003, "Multiscale structural similarity for image quality
    assessment".

    Args:
        img1: (..., height, width, channels).
        img2: of the same size.
        max_val: the greatest value that a pixel can have.
        power_factors: exponents of the scales, the largest first.
        filter_size: as for `ssim`.
        filter_sigma: as for `ssim`.
        k1: as for `ssim`.
        k2: as for `ssim`.

    Returns:
        A float32 tensor (...).

    Raises:
        ShapeError: the sizes differ.
        InvalidArgumentError: the smallest images are smaller than the window.

    Example:
        >>> x = tk.ones((1, 176, 176, 1))
        >>> tk.image.ssim_multiscale(x, x, max_val=1.0).numpy()
        array([1.], dtype=float32)
    """
    op = "ssim_multiscale"
    a, b, top = _pair(img1, img2, max_val, op)
    total: Any = None
    for scale, power in enumerate(power_factors):
        if scale:
            a, b = _halve(a), _halve(b)
        index, structure = _likeness(a, b, top, filter_size, filter_sigma, k1, k2, op)
        last = scale == len(power_factors) - 1
        score = relu(mean_(index if last else structure, axis=(-3, -2)))
        part = power_(score, float(power))
        total = part if total is None else multiply(total, part)
    return mean_(total, axis=-1)


def _halve(x: Tensor) -> Tensor:
    """Means of 2 by 2 pixels; an odd last row or column is repeated."""
    height, width, channels = x.shape[-3:]
    flat = reshape(x, (-1, height, width, channels))
    if height % 2 or width % 2:
        flat = pad(flat, ((0, 0), (0, height % 2), (0, width % 2), (0, 0)), mode="symmetric")
    y = average_pool(flat, 2, strides=2, padding="valid")
    return reshape(y, (*x.shape[:-3], *y.shape[1:]))
