"""Images read at places between their pixels: map_coordinates, affine and perspective transforms.

Each place is a weighted sum of the pixels around it. Gradients reach the images and the places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit.core import dtypes
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.ops.arrays.axes import expand_dims
from trainkit.ops.arrays.concat_and_split import concatenate, stack, unstack
from trainkit.ops.arrays.ranges import arange
from trainkit.ops.arrays.shaping import as_tensor, reshape, shape
from trainkit.ops.core.one_node import sizes_later
from trainkit.ops.images.image_layout import batched, choice, computed, later_like, spatial
from trainkit.ops.indexing.gathering import take
from trainkit.ops.indexing.get_item import get_item
from trainkit.ops.linear_algebra.linear_solve import solve
from trainkit.ops.math.comparisons import greater_equal, less, logical_and
from trainkit.ops.math.elementwise import (
    absolute,
    add,
    cast,
    divide,
    multiply,
    sign,
    subtract,
    where,
)
from trainkit.ops.math.rounding import floor, mod, saturate_cast
from trainkit.ops.math.rounding import round as round_
from trainkit.ops.math.value_limits import clip

_MODES = ("constant", "nearest", "wrap", "mirror", "reflect")

# ------------------------------------------------------------------ places outside


def _fold(position: Tensor, size: int, mode: str) -> Tensor:
    """Whole positions brought into [0, size)."""
    if mode == "wrap":
        return mod(position, size)
    if mode == "reflect":  # d c b a | a b c d | d c b a
        turn = mod(position, 2 * size)
        return where(less(turn, size), turn, subtract(2 * size - 1, turn))
    if mode == "mirror" and size > 1:  # d c b | a b c d | c b a
        turn = mod(position, 2 * size - 2)
        return where(less(turn, size), turn, subtract(2 * size - 2, turn))
    return clip(position, 0, size - 1)


def interpolated(
    rows: Tensor,
    sizes: Sequence[int],
    places: Sequence[Tensor],
    order: int,
    mode: str,
    fill_value: Any,
    base: Tensor | None = None,
    *,
    halves_to_even: bool = False,
) -> Tensor:
    """Values of a grid at any places.

    Args:
        rows: values (product of `sizes`, channels), for several grids one after the other.
        sizes: of the grid.
        places: coordinates along each axis, tensors whose shapes broadcast.
        order: 0 for the nearest value, 1 for linear interpolation.
        mode: what is outside of the grid.
        fill_value: the value outside, in mode `"constant"`.
        base: number of the first row of the grid, for each place.
        halves_to_even: whether a place in the middle of two has the even one as its nearest, or
            the one farther from 0, as in C.

    Returns:
        A tensor (*places, channels).
    """
    # Each corner so far: the number of its row, whether it is inside, and its shares.
    corners: list[tuple[Any, Any, list[Tensor]]] = [(base, None, [])]
    for coordinate, size in zip(places, sizes, strict=True):
        if order == 0:
            if halves_to_even:
                coordinate = round_(coordinate)
            elif mode == "reflect":
                # TensorFlow's kernel reflects the place and rounds then: 4.5 of 4 pixels is 2.5,
                # and its nearest pixel is 3, where 5 would be reflected to 2.
                coordinate = _nearest(clip(_fold(coordinate, size, mode), 0, size - 1))
            else:
                coordinate = _nearest(coordinate)
        ends = _ends(coordinate, size, order, mode)
        corners = [
            (
                step if number is None else add(multiply(number, size), step),
                end_inside if inside is None else logical_and(inside, end_inside),
                shares if share is None else [*shares, share],
            )
            for number, inside, shares in corners
            for step, end_inside, share in ends
        ]
    total: Tensor | None = None
    for number, inside, shares in corners:
        value = take(rows, number, axis=0)
        if inside is not None:
            fill = cast(as_tensor(fill_value), value.dtype)
            value = where(expand_dims(inside, -1), value, fill)
        for share in shares:
            value = multiply(value, expand_dims(cast(share, value.dtype), -1))
        total = value if total is None else add(total, value)
    assert total is not None  # there is a corner in each case
    return total


def _ends(coordinate: Tensor, size: int, order: int, mode: str) -> list[tuple[Tensor, Any, Any]]:
    """The whole positions on both sides of a place; of order 0 it is whole itself.

    Returns:
        For each the position in [0, size), whether it is inside (`None` in modes without an
        outside), and its share (`None` for all).
    """
    if order == 0:
        positions: list[tuple[Tensor, Any]] = [(coordinate, None)]
    else:
        low = floor(coordinate)
        part = subtract(coordinate, low)
        positions = [(low, subtract(1.0, part)), (add(low, 1.0), part)]
    ends = []
    for position, share in positions:
        inside = None
        if mode == "constant":
            inside = logical_and(greater_equal(position, 0), less(position, size))
        ends.append((cast(_fold(position, size, mode), dtypes.int32), inside, share))
    return ends


def _nearest(coordinate: Tensor) -> Tensor:
    """The nearest whole position; halves go away from 0, as in C."""
    return multiply(sign(coordinate), floor(add(absolute(coordinate), 0.5)))


def _finish(y: Tensor, dtype: Any) -> Tensor:
    return saturate_cast(round_(y), dtype) if dtype.is_integer else cast(y, dtype)


def _map_later(arguments: dict[str, Any]) -> Any:
    x, coordinates = as_tensor(arguments["inputs"]), arguments["coordinates"]
    one = as_tensor(coordinates[0] if isinstance(coordinates, list | tuple) else coordinates)
    dims = tuple(one.shape) if isinstance(coordinates, list | tuple) else tuple(one.shape[1:])
    return Spec(dims, x.dtype) if None in (*x.shape, *dims) else None


@sizes_later("image.map_coordinates", _map_later)
def map_coordinates(
    inputs: Any, coordinates: Any, order: int, fill_mode: str = "constant", fill_value: Any = 0
) -> Tensor:
    """The values of `inputs` at any places, whole or between.

    Args:
        inputs: tensor of any rank k.
        coordinates: places (k, ...) along each axis, in pixels, or a sequence of k tensors.
        order: 0 for the nearest value, 1 for linear interpolation.
        fill_mode: what is outside: `"constant"` (k k | a b c | k k), `"nearest"` (a a | a b c | c
            c), `"wrap"` (b c | a b c | a b), `"mirror"` (c b | a b c | b a) or `"reflect"` (b a |
            a b c | c b).
        fill_value: the value k outside, in mode `"constant"`.

    Returns:
        A tensor (...) of the dtype of `inputs`; integers are rounded.

    Raises:
        ValueError: `fill_mode` or `order` is another one.
        ShapeError: there is not one coordinate for each axis.
    """
    choice("map_coordinates", "fill_mode", fill_mode, _MODES)
    if order not in (0, 1):
        raise ValueError(f"map_coordinates: order must be 0 or 1, got {order!r}")
    x = as_tensor(inputs)
    if not isinstance(coordinates, list | tuple) and len(as_tensor(coordinates).shape) < 2:
        raise ShapeError(
            "map_coordinates: coordinates need two axes at least, the coordinates and the places; "
            f"got shape {tuple(as_tensor(coordinates).shape)}"
        )
    axis_coordinates = [computed(as_tensor(c)) for c in _each(coordinates)]
    if len(axis_coordinates) != len(x.shape) or None in x.shape:
        raise ShapeError(
            f"map_coordinates: a tensor of shape {tuple(x.shape)} needs {len(x.shape)} "
            "coordinates, got "
            f"{len(axis_coordinates)}"
        )
    rows = reshape(computed(x), (-1, 1))
    values = interpolated(
        rows,
        tuple(x.shape),
        axis_coordinates,
        order,
        fill_mode,
        fill_value,
        halves_to_even=True,  # as in Keras, which leaves the other ways to TensorFlow's kernel
    )
    return _finish(get_item(values, (..., 0)), x.dtype)


def _each(coordinates: Any) -> Any:
    return coordinates if isinstance(coordinates, list | tuple) else unstack(coordinates)


# ------------------------------------------------------------------ images


def _grid(height: int, width: int, dtype: Any) -> tuple[Tensor, Tensor]:
    """Rows and columns of the pixels, tensors (1, height, 1) and (1, 1, width)."""
    rows = reshape(arange(height, dtype=dtype), (1, height, 1))
    return rows, reshape(arange(width, dtype=dtype), (1, 1, width))


def sampled(
    x: Tensor, rows: Tensor, columns: Tensor, interpolation: str, mode: str, fill_value: Any
) -> Tensor:
    """A batch of images at places that broadcast to (batch, height, width), in their dtype."""
    height, width = spatial(x, "affine_transform")
    channels = x.shape[-1]
    flat = reshape(computed(x), (-1, channels))
    count = shape(x)[0]
    base = reshape(arange(count, dtype="int32"), (-1, 1, 1))
    order = 0 if interpolation == "nearest" else 1
    pixels = interpolated(flat, (height, width), (rows, columns), order, mode, fill_value, base)
    return cast(pixels, x.dtype)


def _project(transform: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Where each new pixel is read from; `transform` is (batch, 8)."""
    rows, columns = _grid(height, width, transform.dtype)
    a = [reshape(t, (-1, 1, 1)) for t in unstack(transform, axis=1)]

    def line(i: int, offset: Any) -> Tensor:
        moved = add(multiply(a[i], columns), multiply(a[i + 1], rows))
        return add(moved, offset)

    scale = line(6, 1.0)
    return divide(line(3, a[5]), scale), divide(line(0, a[2]), scale)


def _transforms(transform: Any, x: Tensor, op: str) -> Tensor:
    """The transforms as a float tensor (batch, 8) or (1, 8)."""
    t = computed(as_tensor(transform))
    if len(t.shape) == 1:
        t = expand_dims(t, 0)
    sizes = (1, None) if x.shape[0] is None else (1, x.shape[0], None)
    if len(t.shape) != 2 or t.shape[1] != 8 or t.shape[0] not in sizes:
        raise ShapeError(
            f"{op}: transform must be (8,) or ({x.shape[0]}, 8), got "
            f"{tuple(as_tensor(transform).shape)}"
        )
    return t


@sizes_later("image.affine_transform", later_like)
def affine_transform(
    images: Any,
    transform: Any,
    interpolation: str = "bilinear",
    fill_mode: str = "constant",
    fill_value: Any = 0,
    data_format: str | None = None,
) -> Tensor:
    """Images turned, sheared, scaled and moved.

    The new pixel (x, y) is read at ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k), where
    k = c0 x + c1 y + 1.

    Args:
        images: one image (height, width, channels) or a batch (batch, height, width, channels).
        transform: the numbers [a0, a1, a2, b0, b1, b2, c0, c1], one set (8,) or one for each image.
        interpolation: `"nearest"` or `"bilinear"`.
        fill_mode: what is outside: `"constant"` (k k | a b c | k k), `"nearest"` (a a | a b c | c
            c), `"wrap"` (b c | a b c | a b), `"mirror"` (c b | a b c | b a) or `"reflect"` (b a |
            a b c | c b).
        fill_value: the value k outside, in mode `"constant"`.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Returns:
        A tensor of the shape and dtype of `images`; integers are cut off.

    Raises:
        ValueError: a setting is unknown.
        ShapeError: shapes don't fit, or height or width are not known.
    """
    choice("affine_transform", "interpolation", interpolation, ("nearest", "bilinear"))
    choice("affine_transform", "fill_mode", fill_mode, _MODES)
    x, restore = batched(images, data_format, "affine_transform")
    height, width = spatial(x, "affine_transform")
    rows, columns = _project(_transforms(transform, x, "affine_transform"), height, width)
    return restore(sampled(x, rows, columns, interpolation, fill_mode, fill_value))


@sizes_later("image.axis_transform", later_like)
def axis_transform(
    images: Any,
    scale_x: Any,
    shift_x: Any,
    scale_y: Any,
    shift_y: Any,
    interpolation: str = "bilinear",
    fill_mode: str = "constant",
    fill_value: Any = 0,
    data_format: str | None = None,
) -> Tensor:
    """Images scaled and moved along their axes; `affine_transform` without turns, in less time.

    The new pixel (x, y) is read at (scale_x x + shift_x, scale_y y + shift_y), with numbers or
    tensors (batch,). All else is as in `affine_transform`.
    """
    x, restore = batched(images, data_format, "axis_transform")
    height, width = spatial(x, "axis_transform")
    rows, columns = _grid(height, width, "float32")

    def line(coordinates: Tensor, scale: Any, shift: Any) -> Tensor:
        scale, shift = (reshape(cast(n, coordinates.dtype), (-1, 1, 1)) for n in (scale, shift))
        return add(multiply(scale, coordinates), shift)

    return restore(
        sampled(
            x,
            line(rows, scale_y, shift_y),
            line(columns, scale_x, shift_x),
            interpolation,
            fill_mode,
            fill_value,
        )
    )


def _points(points: Any, name: str) -> Tensor:
    p = computed(as_tensor(points))
    if len(p.shape) == 2:
        p = expand_dims(p, 0)
    if len(p.shape) != 3 or tuple(p.shape[1:]) != (4, 2):
        raise ShapeError(
            f"perspective_transform: {name} must be (4, 2) or (batch, 4, 2), got "
            f"{tuple(as_tensor(points).shape)}"
        )
    return p


def homography(start: Tensor, end: Tensor) -> Tensor:
    """The transforms (batch, 8) that read the new points `end` at `start`."""
    x, y = get_item(end, (..., 0)), get_item(end, (..., 1))
    u, v = get_item(start, (..., 0)), get_item(start, (..., 1))
    zero = multiply(x, 0.0)
    one = add(zero, 1.0)

    def equations(first: list[Tensor], target: Tensor) -> Tensor:
        bent = [multiply(multiply(target, x), -1.0), multiply(multiply(target, y), -1.0)]
        return stack([*first, *bent], axis=-1)

    upper = equations([x, y, one, zero, zero, zero], u)
    lower = equations([zero, zero, zero, x, y, one], v)
    return solve(concatenate([upper, lower], axis=-2), concatenate([u, v], axis=-1))


@sizes_later("image.perspective_transform", later_like)
def perspective_transform(
    images: Any,
    start_points: Any,
    end_points: Any,
    interpolation: str = "bilinear",
    fill_value: Any = 0,
    data_format: str | None = None,
) -> Tensor:
    """Images seen in another perspective: four points of the old image come to four new places.

    Args:
        images: one image (height, width, channels) or a batch (batch, height, width, channels).
        start_points: four points (x, y) of the old images, (4, 2) or (batch, 4, 2).
        end_points: where they come to in the new ones, of the same shape.
        interpolation: `"nearest"` or `"bilinear"`.
        fill_value: the value of what comes from outside.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Returns:
        A tensor of the shape and dtype of `images`; integers are cut off.

    Raises:
        ValueError: a setting is unknown.
        InvalidArgumentError: three of the points are on one line.
        ShapeError: shapes don't fit, or height or width are not known.
    """
    op = "perspective_transform"
    choice(op, "interpolation", interpolation, ("nearest", "bilinear"))
    x, restore = batched(images, data_format, op)
    height, width = spatial(x, op)
    start, end = _points(start_points, "start_points"), _points(end_points, "end_points")
    if tuple(start.shape) != tuple(end.shape):
        raise ShapeError(
            f"{op}: as many start as end points are needed, got {tuple(start.shape)} and "
            f"{tuple(end.shape)}"
        )
    transform = _transforms(homography(start, end), x, op)
    rows, columns = _project(transform, height, width)
    return restore(sampled(x, rows, columns, interpolation, "constant", fill_value))
