"""`tk.image`: TensorFlow's names for working on images (batch, height, width, channels)."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core import dtypes
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.ops.later import needs_values
from trainkit.ops.resizing import resized_by
from trainkit.tf.arrays import plain
from trainkit.tf.image_boxes import draw_bounding_boxes as draw_bounding_boxes
from trainkit.tf.image_boxes import non_max_suppression as non_max_suppression
from trainkit.tf.image_boxes import non_max_suppression_overlaps as non_max_suppression_overlaps
from trainkit.tf.image_boxes import non_max_suppression_padded as non_max_suppression_padded
from trainkit.tf.image_boxes import (
    non_max_suppression_with_scores as non_max_suppression_with_scores,
)
from trainkit.tf.image_color import adjust_brightness as adjust_brightness
from trainkit.tf.image_color import adjust_contrast as adjust_contrast
from trainkit.tf.image_color import adjust_gamma as adjust_gamma
from trainkit.tf.image_color import adjust_hue as adjust_hue
from trainkit.tf.image_color import adjust_saturation as adjust_saturation
from trainkit.tf.image_color import convert_image_dtype as convert_image_dtype
from trainkit.tf.image_color import rgb_to_yiq as rgb_to_yiq
from trainkit.tf.image_color import rgb_to_yuv as rgb_to_yuv
from trainkit.tf.image_color import yiq_to_rgb as yiq_to_rgb
from trainkit.tf.image_color import yuv_to_rgb as yuv_to_rgb
from trainkit.tf.image_files import adjust_jpeg_quality as adjust_jpeg_quality
from trainkit.tf.image_files import decode_and_crop_jpeg as decode_and_crop_jpeg
from trainkit.tf.image_files import decode_bmp as decode_bmp
from trainkit.tf.image_files import decode_gif as decode_gif
from trainkit.tf.image_files import decode_image as decode_image
from trainkit.tf.image_files import decode_jpeg as decode_jpeg
from trainkit.tf.image_files import decode_webp as decode_webp
from trainkit.tf.image_files import encode_jpeg as encode_jpeg
from trainkit.tf.image_files import extract_jpeg_shape as extract_jpeg_shape
from trainkit.tf.image_files import is_jpeg as is_jpeg
from trainkit.tf.image_parts import crop_and_resize as crop_and_resize
from trainkit.tf.image_parts import resize_with_crop_or_pad as resize_with_crop_or_pad
from trainkit.tf.image_parts import resize_with_pad as resize_with_pad
from trainkit.tf.image_quality import image_gradients as image_gradients
from trainkit.tf.image_quality import sobel_edges as sobel_edges
from trainkit.tf.image_quality import ssim as ssim
from trainkit.tf.image_quality import ssim_multiscale as ssim_multiscale
from trainkit.tf.image_quality import total_variation as total_variation
from trainkit.tf.image_random import random_brightness as random_brightness
from trainkit.tf.image_random import random_contrast as random_contrast
from trainkit.tf.image_random import random_crop as random_crop
from trainkit.tf.image_random import random_flip_left_right as random_flip_left_right
from trainkit.tf.image_random import random_flip_up_down as random_flip_up_down
from trainkit.tf.image_random import random_hue as random_hue
from trainkit.tf.image_random import random_saturation as random_saturation
from trainkit.tf.image_random import stateless_random_brightness as stateless_random_brightness
from trainkit.tf.image_random import stateless_random_contrast as stateless_random_contrast
from trainkit.tf.image_random import stateless_random_crop as stateless_random_crop
from trainkit.tf.image_random import (
    stateless_random_flip_left_right as stateless_random_flip_left_right,
)
from trainkit.tf.image_random import stateless_random_flip_up_down as stateless_random_flip_up_down
from trainkit.tf.image_random import stateless_random_hue as stateless_random_hue
from trainkit.tf.image_random import stateless_random_saturation as stateless_random_saturation
from trainkit.tf.left_out import not_here as _not_here
from trainkit.tf.png import decode_png as decode_png
from trainkit.tf.png import encode_png as encode_png


class ResizeMethod:
    """The ways to resize."""

    BILINEAR = "bilinear"
    NEAREST_NEIGHBOR = "nearest"
    BICUBIC = "bicubic"
    LANCZOS3 = "lanczos3"
    LANCZOS5 = "lanczos5"
    GAUSSIAN = "gaussian"
    MITCHELLCUBIC = "mitchellcubic"
    AREA = "area"


# TensorFlow's images have their channels last, whatever Keras's `image_data_format` says.
_LAST: dict[str, Any] = {"data_format": "channels_last"}


def _resized_spec(given: dict[str, Any]) -> Spec:
    x = convert_to_tensor(given["images"])
    dtype = x.dtype if x.dtype.is_floating or given["method"] == "nearest" else dtypes.float32
    return Spec((*x.shape[:-3], None, None, x.shape[-1]), dtype)


def _part_spec(given: dict[str, Any]) -> Spec:
    """An image of unknown height and width."""
    x = convert_to_tensor(given["image"])
    return Spec((*x.shape[:-3], None, None, x.shape[-1]), x.dtype)


_BOX = ("offset_height", "offset_width", "target_height", "target_width")


@needs_values("size", gives=_resized_spec)
def resize(
    images: Any,
    size: Any,
    method: str = ResizeMethod.BILINEAR,
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
    name: Any = None,
) -> Tensor:
    """Images in another size; floats, except for `"nearest"`, which keeps the dtype.

    Args:
        images: (batch, height, width, channels) or (height, width, channels).
        size: new height and width.
        method: one of `ResizeMethod`.
        preserve_aspect_ratio: the greatest size within `size` that keeps the ratio.
        antialias: filter when an image gets smaller.
        name: not kept.
    """
    x = convert_to_tensor(images)
    height, width = plain(size)
    if preserve_aspect_ratio:
        h, w = x.shape[-3], x.shape[-2]
        scale = min(height / h, width / w)
        height, width = max(1, round(h * scale)), max(1, round(w * scale))
    kind = method.lower()
    if kind != "nearest":
        x = ops.cast(x, dtypes.float32) if not x.dtype.is_floating else x
    if kind in ("area", "gaussian", "mitchellcubic"):
        return resized_by(x, (int(height), int(width)), kind, antialias, "channels_last")
    return ops.image.resize(x, (height, width), interpolation=kind, antialias=antialias, **_LAST)


def rgb_to_grayscale(images: Any, name: Any = None) -> Tensor:
    """0.2989 red + 0.587 green + 0.114 blue, with one channel."""
    return ops.image.rgb_to_grayscale(images, **_LAST)


def grayscale_to_rgb(images: Any, name: Any = None) -> Tensor:
    """The one channel three times."""
    x = convert_to_tensor(images)
    if x.shape[-1] != 1:
        raise InvalidArgumentError(
            f"grayscale_to_rgb: one channel is needed, the shape is {x.shape}"
        )
    return ops.concatenate([x, x, x], axis=-1)


def rgb_to_hsv(images: Any, name: Any = None) -> Tensor:
    """Hue, saturation and value in [0, 1]."""
    return ops.image.rgb_to_hsv(images, **_LAST)


def hsv_to_rgb(images: Any, name: Any = None) -> Tensor:
    """Red, green and blue in [0, 1]."""
    return ops.image.hsv_to_rgb(images, **_LAST)


def flip_left_right(image: Any) -> Tensor:
    """Mirrored along the width."""
    return ops.flip(image, -2)


def flip_up_down(image: Any) -> Tensor:
    """Mirrored along the height."""
    return ops.flip(image, -3)


def transpose(image: Any, name: Any = None) -> Tensor:
    """Height and width exchanged."""
    return ops.swapaxes(image, -3, -2)


@needs_values("k", gives=_part_spec)
def rot90(image: Any, k: int = 1, name: Any = None) -> Tensor:
    """Turned by `k` quarters, counterclockwise."""
    return ops.rot90(image, k=int(k), axes=(-3, -2))


@needs_values(*_BOX, gives=_part_spec)
def crop_to_bounding_box(
    image: Any, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> Tensor:
    """The part that starts at the offsets and has the target size.

    Raises:
        InvalidArgumentError: it reaches beyond the image.
    """
    x = convert_to_tensor(image)
    h, w = x.shape[-3], x.shape[-2]
    offset_height, offset_width = int(offset_height), int(offset_width)
    bottom, right = offset_height + int(target_height), offset_width + int(target_width)
    beyond = (h is not None and bottom > h) or (w is not None and right > w)
    if offset_height < 0 or offset_width < 0 or beyond:
        raise InvalidArgumentError(
            f"crop_to_bounding_box: rows {offset_height} to {bottom} and columns {offset_width} to "
            f"{right} of an image of {h} by {w}"
        )
    part: Tensor = x[..., offset_height:bottom, offset_width:right, :]
    return part


@needs_values("central_fraction", gives=_part_spec)
def central_crop(image: Any, central_fraction: float) -> Tensor:
    """The middle `central_fraction`, in (0, 1], of height and width."""
    central_fraction = float(central_fraction)
    if not 0 < central_fraction <= 1:
        raise ValueError(f"central_crop: central_fraction {central_fraction} is not in (0, 1]")
    x = convert_to_tensor(image)
    h, w = x.shape[-3], x.shape[-2]
    top, left = int((h - h * central_fraction) / 2), int((w - w * central_fraction) / 2)
    return crop_to_bounding_box(x, top, left, h - 2 * top, w - 2 * left)


@needs_values(*_BOX, gives=_part_spec)
def pad_to_bounding_box(
    image: Any, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> Tensor:
    """The image in a black one of the target size, at the offsets."""
    x = convert_to_tensor(image)
    offset_height, offset_width = int(offset_height), int(offset_width)
    target_height, target_width = int(target_height), int(target_width)
    below = target_height - offset_height - x.shape[-3]
    right = target_width - offset_width - x.shape[-2]
    if min(offset_height, offset_width, below, right) < 0:
        raise InvalidArgumentError(
            f"pad_to_bounding_box: an image of {x.shape[-3]} by {x.shape[-2]} does not fit "
            f"{target_height} by {target_width} at ({offset_height}, {offset_width})"
        )
    lead = [(0, 0)] * (len(x.shape) - 3)
    return ops.pad(x, (*lead, (offset_height, below), (offset_width, right), (0, 0)))


def per_image_standardization(image: Any) -> Tensor:
    """(x - mean) / max(standard deviation, 1 / sqrt(elements)), for each image."""
    x = ops.cast(image, dtypes.float32)
    axes = (-3, -2, -1)
    mean = ops.mean(x, axis=axes, keepdims=True)
    size = x.shape[-3] * x.shape[-2] * x.shape[-1]
    deviation = ops.maximum(ops.std(x, axis=axes, keepdims=True), size**-0.5)
    return ops.divide(ops.subtract(x, mean), deviation)


def psnr(a: Any, b: Any, max_val: float, name: Any = None) -> Tensor:
    """Peak signal-to-noise ratio of each image, in decibels."""
    a, b = ops.cast(a, dtypes.float32), ops.cast(b, dtypes.float32)
    error = ops.mean(ops.square(ops.subtract(a, b)), axis=(-3, -2, -1))
    return ops.multiply(10.0, ops.log10(ops.divide(float(max_val) ** 2, error)))


def extract_patches(
    images: Any, sizes: Any, strides: Any, rates: Any, padding: str, name: Any = None
) -> Tensor:
    """Windows of the images, flattened into the last axis; lists are (1, height, width, 1)."""
    size, stride, rate = (tuple(plain(v))[1:3] for v in (sizes, strides, rates))
    return ops.image.extract_patches(
        images, size, strides=stride, dilation_rate=rate[0], padding=padding.lower(), **_LAST
    )


def __getattr__(name: str) -> Any:
    raise _not_here("image", name, globals())
