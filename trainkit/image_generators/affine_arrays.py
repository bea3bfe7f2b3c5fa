"""One image turned, moved, sheared and zoomed, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

FILL_MODES = ("nearest", "constant", "reflect", "mirror", "wrap")


def require_axes(name: str, x: Any, row_axis: int, col_axis: int, channel_axis: int) -> None:
    """Raise `ValueError` unless `x` is one image with these axes."""
    if sorted((row_axis, col_axis, channel_axis)) != [0, 1, 2] or channel_axis == 1:
        raise ValueError(
            f"{name}: the axes must be 0, 1 and 2, channels first or last; they are row_axis="
            f"{row_axis}, col_axis={col_axis}, channel_axis={channel_axis}"
        )
    if x.ndim != 3:
        raise ValueError(f"{name}: one image has three axes, the array has shape {x.shape}")


def apply_affine_transform(
    x: Any,
    theta: float = 0,
    tx: float = 0,
    ty: float = 0,
    shear: float = 0,
    zx: float = 1,
    zy: float = 1,
    row_axis: int = 1,
    col_axis: int = 2,
    channel_axis: int = 0,
    fill_mode: str = "nearest",
    cval: float = 0.0,
    order: int = 1,
) -> Any:
    """One image turned, moved, sheared and zoomed about its middle.

    As in Keras, the middle of an image that is not square is that of the image turned on its side.

    Args:
        x: array of three axes, by default (channels, height, width).
        theta: angle in degrees by which to turn.
        tx: pixels by which to move along the width.
        ty: pixels by which to move along the height.
        shear: angle in degrees.
        zx: zoom of the width; what is greater than 1 shows more of the image, smaller.
        zy: zoom of the height.
        row_axis: axis of the height.
        col_axis: axis of the width.
        channel_axis: the first or the last axis.
        fill_mode: what is outside: `"nearest"` (a a | a b c | c c), `"constant"` (k k | a b c | k
            k), `"reflect"` (b a | a b c | c b), `"mirror"` (c b | a b c | b a) or `"wrap"`.
        cval: the value k outside, in mode `"constant"`.
        order: 1 for linear interpolation, 0 for the nearest pixel.

    Returns:
        An array of the shape and dtype of `x`.

    Raises:
        ValueError: `x` is not one image, or axes, `fill_mode` or `order` are other ones.

    Example:
        >>> image = np.array([[[1.0, 2.0, 3.0]]])
        >>> tk.keras.preprocessing.image.apply_affine_transform(image, tx=1)
        array([[[2., 3., 3.]]])
    """
    x = np.asarray(x)
    require_axes("apply_affine_transform", x, row_axis, col_axis, channel_axis)
    if fill_mode not in FILL_MODES:
        raise ValueError(
            f"apply_affine_transform: fill_mode={fill_mode!r}; use one of {', '.join(FILL_MODES)}"
        )
    if order not in (0, 1):
        raise ValueError(
            f"apply_affine_transform: order={order!r}; use 0 (nearest pixel) or 1 (linear)"
        )
    matrix = _matrix(theta, tx, ty, shear, zx, zy)
    if matrix is None:
        return x
    matrix = _with_origin_in_middle(matrix, x.shape[row_axis], x.shape[col_axis])
    if col_axis > row_axis:  # the matrix counts (x, y), arrays (row, column)
        matrix = matrix[[1, 0, 2]][:, [1, 0, 2]]
    moved = _sample(np.moveaxis(x, channel_axis, -1), matrix, fill_mode, cval, order)
    return np.moveaxis(moved, -1, channel_axis)


def _matrix(theta: float, tx: float, ty: float, shear: float, zx: float, zy: float) -> Any:
    """The product of all changes, `None` if there is none."""
    steps = []
    if theta != 0:
        sine, cosine = np.sin(np.deg2rad(theta)), np.cos(np.deg2rad(theta))
        steps.append([[cosine, -sine, 0], [sine, cosine, 0], [0, 0, 1]])
    if tx != 0 or ty != 0:
        steps.append([[1, 0, tx], [0, 1, ty], [0, 0, 1]])
    if shear != 0:
        sine, cosine = np.sin(np.deg2rad(shear)), np.cos(np.deg2rad(shear))
        steps.append([[1, -sine, 0], [0, cosine, 0], [0, 0, 1]])
    if zx != 1 or zy != 1:
        steps.append([[zx, 0, 0], [0, zy, 0], [0, 0, 1]])
    if not steps:
        return None
    product = np.array(steps[0], float)
    for step in steps[1:]:
        product = product @ np.array(step, float)
    return product


def _with_origin_in_middle(matrix: Any, height: int, width: int) -> Any:
    """What `matrix` does about the corner of an image, done about its middle."""
    y, x = height / 2 - 0.5, width / 2 - 0.5
    from_center = np.array([[1, 0, y], [0, 1, x], [0, 0, 1.0]])
    back = np.array([[1, 0, -y], [0, 1, -x], [0, 0, 1.0]])
    return from_center @ matrix @ back


def _sample(image: Any, matrix: Any, fill_mode: str, cval: float, order: int) -> Any:
    """Pixel (i, j) of the result is `image`, (height, width, channels), at `matrix` (i, j, 1)."""
    height, width = image.shape[:2]
    i, j = np.arange(height)[:, None], np.arange(width)[None, :]
    rows, columns = (matrix[k, 2] + matrix[k, 0] * i + matrix[k, 1] * j for k in (0, 1))
    outside = None
    if fill_mode == "constant":
        outside = (rows < 0) | (rows > height - 1) | (columns < 0) | (columns > width - 1)
    if fill_mode == "wrap":
        rows, columns = _wrap(rows, height), _wrap(columns, width)
    if order == 0:
        pixels = image[
            _indices(np.floor(rows + 0.5), height, fill_mode),
            _indices(np.floor(columns + 0.5), width, fill_mode),
        ].copy()
    else:
        pixels = _interpolate(image, rows, columns, fill_mode)
        if image.dtype.kind in "iu":
            pixels = np.rint(pixels)
        pixels = pixels.astype(image.dtype)
    if outside is not None:
        pixels[outside] = cval
    return pixels


def _interpolate(image: Any, rows: Any, columns: Any, fill_mode: str) -> Any:
    """The values at fractional `rows` and `columns`: of each, the four pixels around it blended.

    Floats keep their type; integers and float16 are blended in float64, which the caller rounds.
    """
    height, width = image.shape[:2]
    top, left = np.floor(rows), np.floor(columns)
    kind = image.dtype if image.dtype.kind == "f" and image.dtype.itemsize >= 4 else np.float64
    down, right = (rows - top).astype(kind)[..., None], (columns - left).astype(kind)[..., None]
    above, below = (_indices(top, height, fill_mode), _indices(top + 1, height, fill_mode))
    before, behind = (_indices(left, width, fill_mode), _indices(left + 1, width, fill_mode))
    upper = image[above, before] * (1 - right) + image[above, behind] * right
    lower = image[below, before] * (1 - right) + image[below, behind] * right
    return upper * (1 - down) + lower * down


def _wrap(coordinates: Any, size: int) -> Any:
    """Coordinates in [0, size - 1]; the first and the last pixel are at one, as in SciPy."""
    return (
        coordinates
        if size == 1
        else np.where(
            (coordinates < 0) | (coordinates > size - 1), coordinates % (size - 1), coordinates
        )
    )


def _indices(coordinates: Any, size: int, fill_mode: str) -> Any:
    """Whole coordinates as indices into an axis; those outside of it as `fill_mode` says."""
    index = coordinates.astype(np.intp)
    if fill_mode == "reflect":
        index = index % (2 * size)
        return np.minimum(index, 2 * size - 1 - index)
    if fill_mode == "mirror" and size > 1:
        index = index % (2 * size - 2)
        return np.minimum(index, 2 * size - 2 - index)
    return index.clip(0, size - 1)
