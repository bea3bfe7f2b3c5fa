"""Colors of images: brightness, contrast, gamma, hue, saturation, and the spaces YIQ and YUV.

Integers stand for [0, 1] over the whole range of their dtype; results are cut to that range. The
channels are the last axis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import dtypes
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import DTypeLike, TensorLike
from trainkit.ops.arrays.concat_and_split import concatenate
from trainkit.ops.images import color_spaces
from trainkit.ops.images.color_spaces import hsv_to_rgb, rgb_to_hsv, turn_hue
from trainkit.ops.linear_algebra.matmul import matmul
from trainkit.ops.math.elementwise import add, cast, divide, multiply, power, subtract
from trainkit.ops.math.reductions import mean as mean_
from trainkit.ops.math.rounding import floor_divide, saturate_cast
from trainkit.ops.math.value_limits import clip


def convert_image_dtype(
    image: TensorLike, dtype: DTypeLike, saturate: bool = False, name: str | None = None
) -> Tensor:
    """Floats in [0, 1] to the whole range of integers, and back.

    Args:
        image: tensor.
        dtype: of the result.
        saturate: clip values that would overflow.

    Example:
        >>> tk.image.convert_image_dtype(tk.constant([[[0, 255]]], tk.uint8), tk.float32).numpy()
        array([[[0., 1.]]], dtype=float32)
    """
    x, target = convert_to_tensor(image), dtypes.as_dtype(dtype)
    if x.dtype == target:
        return x
    if x.dtype.is_integer and target.is_floating:
        # float16 does not hold 65535, by which a uint16 is divided.
        compute_dtype = dtypes.float32 if target.size < 4 else target
        return cast(divide(cast(x, compute_dtype), x.dtype.max), target)
    if x.dtype.is_floating and target.is_integer:
        scaled = multiply(x, target.max + 0.5)
        return saturate_cast(scaled, target) if saturate else cast(scaled, target)
    if x.dtype.is_integer and target.is_integer:
        return _rescale(x, target, saturate)
    return cast(x, target)


def _rescale(x: Tensor, target: dtypes.DType, saturate: bool) -> Tensor:
    """Integers of one range in another one, by a power of 2."""
    integers, old, new = cast(x, "int64"), x.dtype.max + 1, target.max + 1
    moved = floor_divide(integers, old // new) if old > new else multiply(integers, new // old)
    return cast(clip(moved, target.min, target.max) if saturate else moved, target)


def _on_floats(image: Any, change: Callable[[Tensor], Tensor]) -> Tensor:
    """`change` applied to floats of 32 bits or more; the result is in the dtype of `image`."""
    x = convert_to_tensor(image)
    is_single_or_double = x.dtype.name in ("float32", "float64")
    y = change(x if is_single_or_double else convert_image_dtype(x, dtypes.float32))
    return y if is_single_or_double else convert_image_dtype(y, x.dtype, saturate=True)


def rgb_to_grayscale(images: TensorLike, name: str | None = None) -> Tensor:
    """0.2989 red + 0.587 green + 0.114 blue, with one channel.

    Args:
        images: (..., 3).

    Example:
        >>> tk.image.rgb_to_grayscale(tk.ones((4, 4, 3))).shape
        TensorShape([4, 4, 1])
    """
    return _on_floats(
        images, lambda x: color_spaces.rgb_to_grayscale(x, data_format="channels_last")
    )


def adjust_brightness(image: TensorLike, delta: TensorLike) -> Tensor:
    """`delta` added; 1 is the whole range from black to white.

    Args:
        image: (..., height, width, channels).
        delta: number, or scalar tensor.

    Example:
        >>> tk.image.adjust_brightness([[[0.25, 0.5, 0.75]]], 0.25).numpy()
        array([[[0.5 , 0.75, 1.  ]]], dtype=float32)
    """
    return _on_floats(image, lambda x: add(x, delta))


def adjust_contrast(images: TensorLike, contrast_factor: TensorLike) -> Tensor:
    """(x - mean of the channel) * contrast_factor + mean of the channel, for each image.

    Args:
        images: (..., height, width, channels).
        contrast_factor: number, or scalar tensor.

    Example:
        >>> tk.image.adjust_contrast([[[0.0], [1.0]]], 0.5).numpy().ravel()
        array([0.25, 0.75], dtype=float32)
    """

    def change(x: Tensor) -> Tensor:
        mean = mean_(x, axis=(-3, -2), keepdims=True)
        return add(multiply(subtract(x, mean), contrast_factor), mean)

    return _on_floats(images, change)


def adjust_gamma(image: TensorLike, gamma: TensorLike = 1, gain: Any = 1) -> Tensor:
    """Gain * x**gamma: a gamma above 1 darkens, one below 1 brightens.

    Args:
        image: (..., height, width, channels).
        gamma: exponent, 0 or above.
        gain: factor.

    Raises:
        InvalidArgumentError: `gamma` is negative.

    Example:
        >>> tk.image.adjust_gamma([[[0.25, 0.5, 1.0]]], gamma=2.0).numpy()
        array([[[0.0625, 0.25  , 1.    ]]], dtype=float32)
    """
    if isinstance(gamma, int | float) and gamma < 0:
        raise InvalidArgumentError(f"adjust_gamma: gamma must be 0 or above, got {gamma}")
    return _on_floats(image, lambda x: multiply(gain, power(x, cast(gamma, x.dtype))))


def _color_tensor(image: Any, op: str) -> Tensor:
    x = convert_to_tensor(image)
    if len(x.shape) == 0 or x.shape[-1] != 3:
        raise ShapeError(f"{op}: images need 3 channels, got shape {tuple(x.shape)}")
    return x


def adjust_hue(image: TensorLike, delta: TensorLike, name: str | None = None) -> Tensor:
    """The hue turned by `delta`, in [-1, 1]; 1 is the whole circle.

    Args:
        image: (..., 3).
        delta: number, or scalar tensor.

    Raises:
        InvalidArgumentError: `delta` is outside of [-1, 1].
        ShapeError: there are not 3 channels.

    Example:
        >>> tk.image.adjust_hue([[[1.0, 0.0, 0.0]]], 1 / 3).numpy().round(2)
        array([[[0., 1., 0.]]], dtype=float32)
    """
    if isinstance(delta, int | float) and not -1 <= delta <= 1:
        raise InvalidArgumentError(f"adjust_hue: delta {delta} is not in [-1, 1]")
    x = _color_tensor(image, "adjust_hue")
    return _on_floats(x, lambda rgb: turn_hue(rgb, delta))


def adjust_saturation(image: TensorLike, saturation_factor: Any, name: str | None = None) -> Tensor:
    """The saturation multiplied by a factor, and cut to [0, 1].

    Args:
        image: (..., 3).
        saturation_factor: number, or scalar tensor.

    Raises:
        ShapeError: there are not 3 channels.

    Example:
        >>> tk.image.adjust_saturation([[[1.0, 0.5, 0.5]]], 2.0).numpy().round(2)
        array([[[1., 0., 0.]]], dtype=float32)
    """

    def change(rgb: Tensor) -> Tensor:
        hsv = rgb_to_hsv(rgb, data_format="channels_last")
        saturation = clip(multiply(hsv[..., 1:2], saturation_factor), 0.0, 1.0)
        return hsv_to_rgb(
            concatenate([hsv[..., 0:1], saturation, hsv[..., 2:3]], axis=-1),
            data_format="channels_last",
        )

    return _on_floats(_color_tensor(image, "adjust_saturation"), change)


# ---------------------------------------------------------------------- linear color spaces

# Rows: what red, green and blue (or the three others) add to each channel.
_YIQ = np.array(
    [
        [0.299, 0.59590059, 0.2115],
        [0.587, -0.27455667, -0.52273617],
        [0.114, -0.32134392, 0.31119955],
    ]
)


_YUV = np.array(
    [
        [0.299, -0.14714119, 0.61497538],
        [0.587, -0.28886916, -0.51496512],
        [0.114, 0.43601035, -0.10001026],
    ]
)


_YIQ_BACK = np.array(
    [[1.0, 1.0, 1.0], [0.95598634, -0.27201283, -1.10674021], [0.6208248, -0.64720424, 1.70423049]]
)


_YUV_BACK = np.array(
    [[1.0, 1.0, 1.0], [0.0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0.0]]
)


def _mix(images: Any, matrix: Any, op: str) -> Tensor:
    x = convert_to_tensor(images)
    if len(x.shape) == 0 or x.shape[-1] != 3 or not x.dtype.is_floating:
        raise ShapeError(
            f"{op}: needs floating images with 3 channels, got {tuple(x.shape)} {x.dtype.name}"
        )
    return matmul(x, convert_to_tensor(matrix.astype(x.dtype.as_numpy_dtype)))


def rgb_to_yiq(images: TensorLike) -> Tensor:
    """Brightness Y and the two color differences of NTSC, I and Q; floats in [0, 1].

    Args:
        images: floats (..., 3).

    Example:
        >>> tk.image.rgb_to_yiq([[[1.0, 1.0, 1.0]]]).numpy().round(2)[..., 0]
        array([[1.]], dtype=float32)
    """
    return _mix(images, _YIQ, "rgb_to_yiq")


def yiq_to_rgb(images: TensorLike) -> Tensor:
    """Red, green and blue; the inverse of `rgb_to_yiq`.

    Args:
        images: floats (..., 3).

    Example:
        >>> tk.image.yiq_to_rgb([[[1.0, 0.0, 0.0]]]).numpy().round(2)
        array([[[1., 1., 1.]]], dtype=float32)
    """
    return _mix(images, _YIQ_BACK, "yiq_to_rgb")


def rgb_to_yuv(images: TensorLike) -> Tensor:
    """Brightness Y and the two color differences of PAL, U and V; floats in [0, 1].

    Args:
        images: floats (..., 3).

    Example:
        >>> tk.image.rgb_to_yuv([[[1.0, 1.0, 1.0]]]).numpy().round(2)[..., 0]
        array([[1.]], dtype=float32)
    """
    return _mix(images, _YUV, "rgb_to_yuv")


def yuv_to_rgb(images: TensorLike) -> Tensor:
    """Red, green and blue; the inverse of `rgb_to_yuv`.

    Args:
        images: floats (..., 3).

    Example:
        >>> tk.image.yuv_to_rgb([[[1.0, 0.0, 0.0]]]).numpy().round(2)
        array([[[1., 1., 1.]]], dtype=float32)
    """
    return _mix(images, _YUV_BACK, "yuv_to_rgb")


def grayscale_to_rgb(images: TensorLike, name: str | None = None) -> Tensor:
    """The one channel three times.

    Args:
        images: (..., 1).

    Raises:
        InvalidArgumentError: the last axis has another size than 1.

    Example:
        >>> tk.image.grayscale_to_rgb(tk.ones((4, 4, 1))).shape
        TensorShape([4, 4, 3])
    """
    x = convert_to_tensor(images)
    if x.shape[-1] != 1:
        raise InvalidArgumentError(
            f"grayscale_to_rgb: one channel is needed, the shape is {x.shape}"
        )
    return concatenate([x, x, x], axis=-1)
