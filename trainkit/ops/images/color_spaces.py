"""Color spaces of images: grayscale, hue-saturation-value.

Source of the formulas: Smith 1978, "Color gamut transform pairs", SIGGRAPH; the weights of the
grayscale are those of ITU-R BT.601.
"""

from __future__ import annotations

from typing import Any

from trainkit.core.errors import ShapeError
from trainkit.core.tensor import Tensor
from trainkit.ops.arrays.concat_and_split import concatenate, split
from trainkit.ops.images.image_layout import batched, computed, floats_only
from trainkit.ops.math.comparisons import equal, greater
from trainkit.ops.math.elementwise import (
    absolute,
    add,
    cast,
    divide,
    maximum,
    minimum,
    multiply,
    subtract,
    where,
)
from trainkit.ops.math.rounding import mod
from trainkit.ops.math.value_limits import clip


def _channels(x: Tensor, op: str) -> list[Tensor]:
    """The three channels, each with an axis of size 1."""
    if x.shape[-1] not in (3, None):
        raise ShapeError(
            f"{op}: images need 3 channels, got {x.shape[-1]} in shape {tuple(x.shape)}"
        )
    return split(x, 3, axis=-1)


def rgb_to_grayscale(images: Any, data_format: str | None = None) -> Tensor:
    """The brightness 0.2989 red + 0.587 green + 0.114 blue.

    Args:
        images: one image (height, width, 3) or a batch (batch, height, width, 3).
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Returns:
        A tensor of the dtype of `images` with one channel; integers are cut off.

    Raises:
        ShapeError: there are not three channels, or the rank is another one.
    """
    x, restore = batched(images, data_format, "rgb_to_grayscale")
    red, green, blue = _channels(computed(x), "rgb_to_grayscale")
    gray = add(add(multiply(red, 0.2989), multiply(green, 0.587)), multiply(blue, 0.114))
    return restore(cast(gray, x.dtype))


def rgb_to_hsv(images: Any, data_format: str | None = None) -> Tensor:
    """Hue, saturation and value; all three in [0, 1] for images in [0, 1].

    Args:
        images: one image (height, width, 3) of floats or a batch (batch, height, width, 3).
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Returns:
        A tensor of the same shape and dtype. A hue of 0 is red, 1/3 green, 2/3 blue.

    Raises:
        InvalidArgumentError: the images are no floats.
        ShapeError: there are not three channels, or the rank is another one.
    """
    x, restore = batched(images, data_format, "rgb_to_hsv")
    red, green, blue = _channels(floats_only(x, "rgb_to_hsv"), "rgb_to_hsv")
    value = maximum(maximum(red, green), blue)
    spread = subtract(value, minimum(minimum(red, green), blue))
    bright, gray = greater(value, 0), equal(spread, 0)
    saturation = where(bright, divide(spread, where(bright, value, 1.0)), 0.0)
    unit = divide(1.0, multiply(where(gray, 1.0, spread), 6.0))
    if_red = multiply(unit, subtract(green, blue))
    if_green = add(multiply(unit, subtract(blue, red)), 2.0 / 6.0)
    if_blue = add(multiply(unit, subtract(red, green)), 4.0 / 6.0)
    hue = where(equal(red, value), if_red, where(equal(green, value), if_green, if_blue))
    hue = where(gray, 0.0, hue)
    hue = where(greater(0.0, hue), add(hue, 1.0), hue)
    return restore(concatenate([hue, saturation, value], axis=-1))


def turn_hue(x: Tensor, delta: Any) -> Tensor:
    """Images (..., 3) with their hue turned by `delta` of the whole circle.

    Darkest and brightest channel stay what they are to the last bit, also where they are below 0;
    by way of saturation, which divides by the brightest, they would not.
    """
    red, green, blue = _channels(x, "adjust_hue")
    high, low = maximum(maximum(red, green), blue), minimum(minimum(red, green), blue)
    spread = subtract(high, low)
    safe = where(equal(spread, 0), 1.0, spread)
    if_red = divide(subtract(green, blue), safe)
    if_green = add(divide(subtract(blue, red), safe), 2.0)
    if_blue = add(divide(subtract(red, green), safe), 4.0)
    sixths = where(equal(red, high), if_red, where(equal(green, high), if_green, if_blue))
    shares = _channel_shares(mod(add(sixths, multiply(6.0, delta)), 6.0))
    return concatenate(
        [where(equal(c, 1.0), high, add(low, multiply(c, spread))) for c in shares], axis=-1
    )


def _channel_shares(sixths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """How bright red, green and blue are at a hue, which is in sixths of the circle."""
    red = clip(subtract(absolute(subtract(sixths, 3.0)), 1.0), 0.0, 1.0)
    green = clip(subtract(2.0, absolute(subtract(sixths, 2.0))), 0.0, 1.0)
    blue = clip(subtract(2.0, absolute(subtract(sixths, 4.0))), 0.0, 1.0)
    return red, green, blue


def hsv_to_rgb(images: Any, data_format: str | None = None) -> Tensor:
    """Red, green and blue of hue, saturation and value.

    Args:
        images: one image (height, width, 3) of floats in [0, 1] or a batch.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        InvalidArgumentError: the images are no floats.
        ShapeError: there are not three channels, or the rank is another one.
    """
    x, restore = batched(images, data_format, "hsv_to_rgb")
    hue, saturation, value = _channels(floats_only(x, "hsv_to_rgb"), "hsv_to_rgb")
    shares = _channel_shares(multiply(mod(hue, 1.0), 6.0))
    pale = subtract(1.0, saturation)
    parts = [multiply(value, add(pale, multiply(saturation, c))) for c in shares]
    return restore(concatenate(parts, axis=-1))
