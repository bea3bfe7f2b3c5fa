"""`tk.image`: TensorFlow's names for working on images (batch, height, width, channels)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainkit import ops
from trainkit.core.tensor import Tensor
from trainkit.core.values.docstrings import describe_arguments as _describe_arguments
from trainkit.ops.core.axis_numbers import plain as _plain
from trainkit.ops.images.bounding_boxes import draw_bounding_boxes as draw_bounding_boxes
from trainkit.ops.images.bounding_boxes import non_max_suppression as non_max_suppression
from trainkit.ops.images.bounding_boxes import (
    non_max_suppression_overlaps as non_max_suppression_overlaps,
)
from trainkit.ops.images.bounding_boxes import (
    non_max_suppression_padded as non_max_suppression_padded,
)
from trainkit.ops.images.bounding_boxes import (
    non_max_suppression_with_scores as non_max_suppression_with_scores,
)
from trainkit.ops.images.color_adjustments import adjust_brightness as adjust_brightness
from trainkit.ops.images.color_adjustments import adjust_contrast as adjust_contrast
from trainkit.ops.images.color_adjustments import adjust_gamma as adjust_gamma
from trainkit.ops.images.color_adjustments import adjust_hue as adjust_hue
from trainkit.ops.images.color_adjustments import adjust_saturation as adjust_saturation
from trainkit.ops.images.color_adjustments import convert_image_dtype as convert_image_dtype
from trainkit.ops.images.color_adjustments import grayscale_to_rgb as grayscale_to_rgb
from trainkit.ops.images.color_adjustments import rgb_to_grayscale as rgb_to_grayscale
from trainkit.ops.images.color_adjustments import rgb_to_yiq as rgb_to_yiq
from trainkit.ops.images.color_adjustments import rgb_to_yuv as rgb_to_yuv
from trainkit.ops.images.color_adjustments import yiq_to_rgb as yiq_to_rgb
from trainkit.ops.images.color_adjustments import yuv_to_rgb as yuv_to_rgb
from trainkit.ops.images.distorted_boxes import (
    sample_distorted_bounding_box as sample_distorted_bounding_box,
)
from trainkit.ops.images.distorted_boxes import (
    stateless_sample_distorted_bounding_box as stateless_sample_distorted_bounding_box,
)
from trainkit.ops.images.image_codecs import adjust_jpeg_quality as adjust_jpeg_quality
from trainkit.ops.images.image_codecs import decode_and_crop_jpeg as decode_and_crop_jpeg
from trainkit.ops.images.image_codecs import decode_bmp as decode_bmp
from trainkit.ops.images.image_codecs import decode_gif as decode_gif
from trainkit.ops.images.image_codecs import decode_image as decode_image
from trainkit.ops.images.image_codecs import decode_jpeg as decode_jpeg
from trainkit.ops.images.image_codecs import decode_png as decode_png
from trainkit.ops.images.image_codecs import decode_webp as decode_webp
from trainkit.ops.images.image_codecs import encode_jpeg as encode_jpeg
from trainkit.ops.images.image_codecs import extract_jpeg_shape as extract_jpeg_shape
from trainkit.ops.images.image_codecs import is_jpeg as is_jpeg
from trainkit.ops.images.image_crops import ResizeMethod as ResizeMethod
from trainkit.ops.images.image_crops import central_crop as central_crop
from trainkit.ops.images.image_crops import crop_and_resize as crop_and_resize
from trainkit.ops.images.image_crops import crop_to_bounding_box as crop_to_bounding_box
from trainkit.ops.images.image_crops import pad_to_bounding_box as pad_to_bounding_box
from trainkit.ops.images.image_crops import resize as resize
from trainkit.ops.images.image_crops import resize_with_crop_or_pad as resize_with_crop_or_pad
from trainkit.ops.images.image_crops import resize_with_pad as resize_with_pad
from trainkit.ops.images.image_crops import rot90 as rot90
from trainkit.ops.images.image_quality import image_gradients as image_gradients
from trainkit.ops.images.image_quality import per_image_standardization as per_image_standardization
from trainkit.ops.images.image_quality import psnr as psnr
from trainkit.ops.images.image_quality import ssim as ssim
from trainkit.ops.images.image_quality import ssim_multiscale as ssim_multiscale
from trainkit.ops.images.image_quality import total_variation as total_variation
from trainkit.ops.images.png import encode_png as encode_png
from trainkit.ops.images.random_images import random_brightness as random_brightness
from trainkit.ops.images.random_images import random_contrast as random_contrast
from trainkit.ops.images.random_images import random_crop as random_crop
from trainkit.ops.images.random_images import random_flip_left_right as random_flip_left_right
from trainkit.ops.images.random_images import random_flip_up_down as random_flip_up_down
from trainkit.ops.images.random_images import random_hue as random_hue
from trainkit.ops.images.random_images import random_saturation as random_saturation
from trainkit.ops.images.random_images import (
    stateless_random_brightness as stateless_random_brightness,
)
from trainkit.ops.images.random_images import stateless_random_contrast as stateless_random_contrast
from trainkit.ops.images.random_images import stateless_random_crop as stateless_random_crop
from trainkit.ops.images.random_images import (
    stateless_random_flip_left_right as stateless_random_flip_left_right,
)
from trainkit.ops.images.random_images import (
    stateless_random_flip_up_down as stateless_random_flip_up_down,
)
from trainkit.ops.images.random_images import stateless_random_hue as stateless_random_hue
from trainkit.ops.images.random_images import (
    stateless_random_saturation as stateless_random_saturation,
)
from trainkit.tf.left_out import explain_unknown_names as _explain_unknown_names

if TYPE_CHECKING:
    from trainkit.core.values.type_aliases import TensorLike


def rgb_to_hsv(images: TensorLike, name: str | None = None) -> Tensor:
    """Hue, saturation and value in [0, 1].

    Args:
        images: floats (..., 3) in [0, 1].

    Example:
        >>> tk.image.rgb_to_hsv([[[1.0, 0.0, 0.0]]]).numpy()
        array([[[0., 1., 1.]]], dtype=float32)
    """
    return ops.image.rgb_to_hsv(images, data_format="channels_last")


def hsv_to_rgb(images: TensorLike, name: str | None = None) -> Tensor:
    """Red, green and blue in [0, 1].

    Args:
        images: floats (..., 3) in [0, 1].

    Example:
        >>> tk.image.hsv_to_rgb([[[0.0, 1.0, 1.0]]]).numpy()
        array([[[1., 0., 0.]]], dtype=float32)
    """
    return ops.image.hsv_to_rgb(images, data_format="channels_last")


def flip_left_right(image: TensorLike) -> Tensor:
    """Mirrored along the width.

    Args:
        image: (height, width, channels) or a batch of them.

    Example:
        >>> tk.image.flip_left_right([[[1.0], [2.0]]]).numpy().ravel()
        array([2., 1.], dtype=float32)
    """
    return ops.flip(image, -2)


def flip_up_down(image: TensorLike) -> Tensor:
    """Mirrored along the height.

    Args:
        image: (height, width, channels) or a batch of them.

    Example:
        >>> tk.image.flip_up_down([[[1.0]], [[2.0]]]).numpy().ravel()
        array([2., 1.], dtype=float32)
    """
    return ops.flip(image, -3)


def transpose(image: TensorLike, name: str | None = None) -> Tensor:
    """Height and width exchanged.

    Args:
        image: (height, width, channels) or a batch of them.

    Example:
        >>> tk.image.transpose(tk.ones((4, 8, 3))).shape
        TensorShape([8, 4, 3])
    """
    return ops.swapaxes(image, -3, -2)


def extract_patches(
    images: TensorLike, sizes: Any, strides: Any, rates: Any, padding: str, name: str | None = None
) -> Tensor:
    """Windows of the images, flattened into the last axis; lists are (1, height, width, 1).

    Args:
        images: (batch, height, width, channels).
        sizes: of a window.
        strides: from one window to the next.
        rates: distances between the pixels of a window; one number for both axes.
        padding: `"SAME"` or `"VALID"`.

    Example:
        >>> x = tk.ones((1, 4, 4, 1))
        >>> tk.image.extract_patches(x, (1, 2, 2, 1), (1, 2, 2, 1), (1, 1, 1, 1), "VALID").shape
        TensorShape([1, 2, 2, 4])
    """
    size, stride, rate = (tuple(_plain(v))[1:3] for v in (sizes, strides, rates))
    return ops.image.extract_patches(
        images,
        size,
        strides=stride,
        dilation_rate=rate[0],
        padding=padding,
        data_format="channels_last",
    )


def sobel_edges(image: TensorLike) -> Tensor:
    """Gradients along height and width by Sobel's weights: (batch, h, w, c) to (..., c, 2).

    Args:
        image: (batch, height, width, channels).

    Raises:
        ShapeError: the rank is not 4.

    Example:
        >>> tk.image.sobel_edges(tk.ones((1, 4, 4, 3))).shape
        TensorShape([1, 4, 4, 3, 2])
    """
    return ops.image.sobel_edges(image, data_format="channels_last")


_describe_arguments(globals(), "name: not kept.", package="trainkit")

_explain_unknown_names("image", globals())
