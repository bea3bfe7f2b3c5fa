"""Changes by chance of one image. Chance comes from `numpy.random`."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.image_generators.affine_arrays import apply_affine_transform


def _pair(name: str, argument: str, value: Any) -> tuple[float, float]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"{name}: {argument} must be two numbers, got {value!r}")
    return float(value[0]), float(value[1])


def random_rotation(
    x: Any,
    rg: float,
    row_axis: int = 1,
    col_axis: int = 2,
    channel_axis: int = 0,
    fill_mode: str = "nearest",
    cval: float = 0.0,
    interpolation_order: int = 1,
) -> Any:
    """One image turned by an angle of at most `rg` degrees to either side.

    The other arguments, the result and the errors are those of `apply_affine_transform`.
    """
    theta = np.random.uniform(-rg, rg)
    axes = (row_axis, col_axis, channel_axis, fill_mode, cval, interpolation_order)
    return apply_affine_transform(x, theta, 0, 0, 0, 1, 1, *axes)


def random_shift(
    x: Any,
    wrg: float,
    hrg: float,
    row_axis: int = 1,
    col_axis: int = 2,
    channel_axis: int = 0,
    fill_mode: str = "nearest",
    cval: float = 0.0,
    interpolation_order: int = 1,
) -> Any:
    """One image moved by at most the share `wrg` of its width and `hrg` of its height.

    The other arguments, the result and the errors are those of `apply_affine_transform`.
    """
    tx = np.random.uniform(-hrg, hrg) * np.shape(x)[row_axis]
    ty = np.random.uniform(-wrg, wrg) * np.shape(x)[col_axis]
    axes = (row_axis, col_axis, channel_axis, fill_mode, cval, interpolation_order)
    return apply_affine_transform(x, 0, tx, ty, 0, 1, 1, *axes)


def random_shear(
    x: Any,
    intensity: float,
    row_axis: int = 1,
    col_axis: int = 2,
    channel_axis: int = 0,
    fill_mode: str = "nearest",
    cval: float = 0.0,
    interpolation_order: int = 1,
) -> Any:
    """One image sheared by an angle of at most `intensity` degrees to either side.

    The other arguments, the result and the errors are those of `apply_affine_transform`.
    """
    shear = np.random.uniform(-intensity, intensity)
    axes = (row_axis, col_axis, channel_axis, fill_mode, cval, interpolation_order)
    return apply_affine_transform(x, 0, 0, 0, shear, 1, 1, *axes)


def random_zoom(
    x: Any,
    zoom_range: Any,
    row_axis: int = 1,
    col_axis: int = 2,
    channel_axis: int = 0,
    fill_mode: str = "nearest",
    cval: float = 0.0,
    interpolation_order: int = 1,
) -> Any:
    """One image zoomed, height and width each by a factor between the two of `zoom_range`.

    The other arguments, the result and the errors are those of `apply_affine_transform`.
    """
    low, high = _pair("random_zoom", "zoom_range", zoom_range)
    zx, zy = (1.0, 1.0) if low == high == 1 else np.random.uniform(low, high, 2)
    axes = (row_axis, col_axis, channel_axis, fill_mode, cval, interpolation_order)
    return apply_affine_transform(x, 0, 0, 0, 0, zx, zy, *axes)


def apply_channel_shift(x: Any, intensity: float, channel_axis: int = 0) -> Any:
    """One image with `intensity` added, cut off at its least and its greatest value.

    Args:
        x: array of three axes.
        intensity: what is added.
        channel_axis: for the sake of Keras; all channels change alike.

    Returns:
        An array of the shape of `x`.
    """
    del channel_axis
    x = np.asarray(x)
    return np.clip(x + intensity, x.min(), x.max())


def random_channel_shift(x: Any, intensity_range: float, channel_axis: int = 0) -> Any:
    """One image with a number of at most `intensity_range`, or its negative, added.

    The other arguments and the result are those of `apply_channel_shift`.
    """
    intensity = np.random.uniform(-intensity_range, intensity_range)
    return apply_channel_shift(x, intensity, channel_axis)


def apply_brightness_shift(x: Any, brightness: float, scale: bool = True) -> Any:
    """One image of 256 levels made darker or brighter.

    Args:
        x: array (height, width, channels).
        brightness: the factor; 0 gives black, 1 the image itself.
        scale: whether the values are spread to 0 to 255 first. Values outside 0 to 255 always are,
            and without `scale` they come back to where they were.

    Returns:
        An array of the shape of `x`, float32, of whole numbers before they come back.
    """
    x = np.asarray(x, dtype="float32")
    low, high = x.min(), x.max()
    outside = bool(low < 0 or high > 255)
    levels = x
    if outside or scale:
        levels = (x - low) / ((high - low) or 1.0) * 255
    levels = np.trunc(np.clip(np.trunc(levels) * np.float32(brightness), 0, 255))
    if outside and not scale:
        levels = levels / 255 * (high - low) + low
    return levels


def random_brightness(x: Any, brightness_range: Any, scale: bool = True) -> Any:
    """One image made darker or brighter by a factor between the two of `brightness_range`.

    The other arguments and the result are those of `apply_brightness_shift`.

    Raises:
        ValueError: `brightness_range` is not two numbers.
    """
    low, high = _pair("random_brightness", "brightness_range", brightness_range)
    return apply_brightness_shift(x, np.random.uniform(low, high), scale)
