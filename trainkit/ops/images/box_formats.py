"""Bounding boxes: from one way to write them into another, cut off, moved.

Four numbers say where a box is. Formats are named by what they are: `x` grows to the right and `y`
down, in pixels; `rel_` stands before shares of the width and the height of the image.
"""

from __future__ import annotations

import math
from typing import Any

from trainkit.core.errors import InvalidArgumentError, ShapeError, UnimplementedError
from trainkit.core.tensor import Tensor
from trainkit.ops.arrays.axes import squeeze
from trainkit.ops.arrays.concat_and_split import concatenate, split, stack
from trainkit.ops.arrays.shaping import as_tensor, reshape
from trainkit.ops.math.comparisons import greater
from trainkit.ops.math.elementwise import add, cast, divide, multiply, subtract, where
from trainkit.ops.math.max_and_argmax import max as max_
from trainkit.ops.math.max_and_argmax import min as min_
from trainkit.ops.math.trigonometry import cos, sin, tan
from trainkit.ops.math.value_limits import clip

# What the numbers of a format are: two corners, a corner and a size, a centre and a size.
_KINDS = {
    "xyxy": ("corners", False),
    "yxyx": ("corners", True),
    "xywh": ("size", False),
    "center_xywh": ("center", False),
    "center_yxhw": ("center", True),
}
FORMATS = (
    "xyxy",
    "yxyx",
    "xywh",
    "center_xywh",
    "center_yxhw",
    "rel_xyxy",
    "rel_yxyx",
    "rel_xywh",
    "rel_center_xywh",
)


def _parts(boxes: Any) -> list[Tensor]:
    return split(boxes, 4, axis=-1)


def _join(*parts: Any) -> Tensor:
    return concatenate(list(parts), axis=-1)


def _to_corners(boxes: Tensor, name: str) -> Tensor:
    """Boxes in any format as left, top, right and bottom, shares as shares."""
    kind, vertical_first = _KINDS[name.removeprefix("rel_")]
    a, b, c, d = _parts(boxes)
    if vertical_first:
        a, b, c, d = b, a, d, c
    if kind == "size":
        c, d = add(a, c), add(b, d)
    elif kind == "center":
        half_width, half_height = divide(c, 2.0), divide(d, 2.0)
        a, b, c, d = (
            subtract(a, half_width),
            subtract(b, half_height),
            add(a, half_width),
            add(b, half_height),
        )
    return _join(a, b, c, d)


def _from_corners(boxes: Tensor, name: str) -> Tensor:
    """Left, top, right and bottom in another format, shares as shares."""
    kind, vertical_first = _KINDS[name.removeprefix("rel_")]
    a, b, c, d = _parts(boxes)
    if kind != "corners":
        width, height = subtract(c, a), subtract(d, b)
        if kind == "center":
            a, b = add(a, divide(width, 2.0)), add(b, divide(height, 2.0))
        c, d = width, height
    return _join(b, a, d, c) if vertical_first else _join(a, b, c, d)


def _scale(boxes: Tensor, source: str, target: str, height: Any, width: Any) -> Tensor:
    """Corners in pixels as shares, or the other way round."""
    source_is_relative, target_is_relative = source.startswith("rel_"), target.startswith("rel_")
    if source_is_relative == target_is_relative:
        return boxes
    change = multiply if source_is_relative else divide
    width, height = cast(width, boxes.dtype), cast(height, boxes.dtype)
    a, b, c, d = _parts(boxes)
    return _join(change(a, width), change(b, height), change(c, width), change(d, height))


def _known(op: str, name: Any) -> str:
    lower = str(name).lower()
    if lower not in FORMATS:
        raise InvalidArgumentError(f"{op}: no format {name!r}; supported are {', '.join(FORMATS)}")
    return lower


def _only_xyxy(op: str, bounding_box_format: str) -> None:
    if bounding_box_format != "xyxy":
        raise UnimplementedError(
            f"{op}: boxes must be in format 'xyxy', got {bounding_box_format!r}; convert_format "
            "brings them there"
        )


def convert_format(
    boxes: Any,
    source: str,
    target: str,
    height: Any = None,
    width: Any = None,
    dtype: Any = "float32",
) -> Any:
    """Boxes in another format.

    Args:
        boxes: tensor (..., 4), or a dict whose `"boxes"` is one.
        source: the format that they are in, of `"xyxy"` (left, top, right, bottom), `"yxyx"`,
            `"xywh"` (left, top, width, height), `"center_xywh"`, `"center_yxhw"`, `"rel_xyxy"`,
            `"rel_yxyx"`, `"rel_xywh"` and `"rel_center_xywh"`, in small or capital letters.
        target: the format that is wanted.
        height: of the image in pixels, needed between shares and pixels.
        width: of the image in pixels, likewise.
        dtype: of the result.

    Returns:
        A tensor (..., 4), or a new dict with it.

    Raises:
        InvalidArgumentError: a format is unknown, or a needed size is missing.
        ShapeError: the boxes have not four numbers each.

    >>> convert_format([[10.0, 20.0, 30.0, 60.0]], "xyxy", "center_xywh").numpy()
    array([[20., 40., 20., 40.]], dtype=float32)
    """
    if isinstance(boxes, dict):
        converted = convert_format(boxes["boxes"], source, target, height, width, dtype)
        return {**boxes, "boxes": converted}
    tensor = as_tensor(boxes)
    if not tensor.shape or tensor.shape[-1] != 4:
        raise ShapeError(
            f"convert_format: boxes must have 4 numbers each, got shape {tuple(tensor.shape)}"
        )
    source, target = _known("convert_format", source), _known("convert_format", target)
    differ = source.startswith("rel_") != target.startswith("rel_")
    if differ and (width is None or height is None):
        raise InvalidArgumentError(
            f"convert_format: between {source!r} and {target!r} the size of the image must be "
            f"given, got height {height} and width {width}"
        )
    tensor = cast(tensor, dtype)
    if source == target:
        return tensor
    corners = _scale(_to_corners(tensor, source), source, target, height, width)
    return _from_corners(corners, target)


def clip_to_image_size(
    bounding_boxes: Any, height: Any = None, width: Any = None, bounding_box_format: str = "xyxy"
) -> dict[str, Any]:
    """Boxes cut off at the edges of the image; the label of one that is wholly outside becomes -1.

    Args:
        bounding_boxes: dict with `"boxes"` (..., 4) and perhaps `"labels"` (...).
        height: of the image in pixels; shares need none.
        width: of the image in pixels, likewise.
        bounding_box_format: `"xyxy"` or `"rel_xyxy"`.

    Returns:
        A new dict.

    Raises:
        UnimplementedError: another format.
        InvalidArgumentError: a needed size is missing.
    """
    op = "clip_to_image_size"
    if bounding_box_format not in ("xyxy", "rel_xyxy"):
        raise UnimplementedError(
            f"{op}: boxes must be in format 'xyxy' or 'rel_xyxy', got {bounding_box_format!r}; "
            "convert_format brings them there"
        )
    boxes = as_tensor(bounding_boxes["boxes"])
    if bounding_box_format == "rel_xyxy":
        height = width = 1.0
    elif height is None or width is None:
        raise InvalidArgumentError(
            f"{op}: boxes in pixels need the size of the image, got height {height} and width "
            f"{width}"
        )
    width, height = cast(width, boxes.dtype), cast(height, boxes.dtype)
    a, b, c, d = _parts(boxes)
    a, b, c, d = clip(a, 0, width), clip(b, 0, height), clip(c, 0, width), clip(d, 0, height)
    result = {**bounding_boxes, "boxes": _join(a, b, c, d)}
    if bounding_boxes.get("labels") is not None:
        areas = squeeze(multiply(subtract(c, a), subtract(d, b)), axis=-1)
        result["labels"] = where(greater(areas, 0), bounding_boxes["labels"], -1)
    return result


def _inverse_affine(
    angle: Tensor,
    translate: tuple[Any, Any],
    scale: Any,
    shear: tuple[Any, Any],
    size: tuple[Any, Any],
    center: tuple[float, float],
) -> list[Tensor]:
    """The numbers [a0, a1, a2, b0, b1, b2] of x' = a0 x + a1 y + a2, y' = b0 x + b1 y + b2.

    Rotation after shear, undone; pairs are (x, y), angles in degrees.
    """
    degree = math.pi / 180.0
    across, down = (subtract(cast(n, angle.dtype), 1.0) for n in size)
    cx, cy = multiply(across, center[0]), multiply(down, center[1])
    turn = multiply(angle, -degree)
    shear_x, shear_y = multiply(shear[0], -degree), multiply(shear[1], -degree)
    from_x = subtract(cx, multiply(translate[0], across))
    from_y = subtract(cy, multiply(translate[1], down))
    leaning, upright, slant = subtract(turn, shear_y), cos(shear_y), tan(shear_x)
    a = divide(cos(leaning), upright)
    b = add(multiply(a, slant), sin(turn))
    c = multiply(divide(sin(leaning), upright), -1.0)
    d = subtract(cos(turn), multiply(c, slant))
    a0, a1 = multiply(d, scale), multiply(multiply(b, -1.0), scale)
    b0, b1 = multiply(multiply(c, -1.0), scale), multiply(a, scale)
    a2 = subtract(subtract(cx, multiply(a0, from_x)), multiply(a1, from_y))
    b2 = subtract(subtract(cy, multiply(b0, from_x)), multiply(b1, from_y))
    return [a0, a1, a2, b0, b1, b2]


def corner_points(boxes: Tensor) -> tuple[Tensor, Tensor]:
    """The x and the y of the four corners of boxes in `"xyxy"`, both (..., 4)."""
    left, top, right, bottom = _parts(boxes)
    return _join(left, right, right, left), _join(top, top, bottom, bottom)


def around(x: Tensor, y: Tensor) -> Tensor:
    """The boxes in `"xyxy"` around points whose x and y are (..., points)."""
    low = [min_(p, axis=-1, keepdims=True) for p in (x, y)]
    return _join(*low, *(max_(p, axis=-1, keepdims=True) for p in (x, y)))


def affine_transform(
    boxes: Any,
    angle: Any,
    translate_x: Any,
    translate_y: Any,
    scale: Any,
    shear_x: Any,
    shear_y: Any,
    height: Any,
    width: Any,
    center_x: float | None = None,
    center_y: float | None = None,
    bounding_box_format: str = "xyxy",
) -> Tensor:
    """The boxes around boxes that were turned, moved, scaled and sheared with their image.

    Args:
        boxes: tensor (batch, boxes, 4) in pixels.
        angle: in degrees, clockwise, (batch,).
        translate_x: shares of the width by which to move, (batch,).
        translate_y: shares of the height by which to move, (batch,).
        scale: factors, (batch,).
        shear_x: angles in degrees, (batch,).
        shear_y: angles in degrees, (batch,).
        height: of the images in pixels.
        width: of the images in pixels.
        center_x: share of the width about which to turn, the middle by default.
        center_y: share of the height about which to turn, the middle by default.
        bounding_box_format: `"xyxy"`.

    Returns:
        A tensor (batch, boxes, 4) of the dtype of `angle`.

    Raises:
        UnimplementedError: another format.
    """
    _only_xyxy("affine_transform", bounding_box_format)
    angle = as_tensor(angle)
    center = (0.5 if center_x is None else center_x, 0.5 if center_y is None else center_y)
    numbers = _inverse_affine(
        angle, (translate_x, translate_y), scale, (shear_x, shear_y), (width, height), center
    )
    x, y = corner_points(cast(as_tensor(boxes), angle.dtype))
    a0, a1, a2, b0, b1, b2 = (reshape(n, (-1, 1, 1)) for n in numbers)
    return around(
        add(add(multiply(a0, x), multiply(a1, y)), a2),
        add(add(multiply(b0, x), multiply(b1, y)), b2),
    )


def crop(
    boxes: Any, top: Any, left: Any, height: Any, width: Any, bounding_box_format: str = "xyxy"
) -> Tensor:
    """Boxes as they lie in a window of their image, cut off at its edges.

    Args:
        boxes: tensor (..., 4) in pixels.
        top: row at which the window begins.
        left: column at which the window begins.
        height: of the window.
        width: of the window.
        bounding_box_format: `"xyxy"`.

    Raises:
        UnimplementedError: another format.
    """
    _only_xyxy("crop", bounding_box_format)
    a, b, c, d = _parts(as_tensor(boxes))
    across = [clip(subtract(x, left), 0, width) for x in (a, c)]
    down = [clip(subtract(y, top), 0, height) for y in (b, d)]
    return _join(across[0], down[0], across[1], down[1])


def pad(
    boxes: Any,
    top: Any,
    left: Any,
    height: Any = None,
    width: Any = None,
    bounding_box_format: str = "xyxy",
) -> Tensor:
    """Boxes as they lie in an image with more rows above and columns to the left.

    Args:
        boxes: tensor (..., 4) in pixels.
        top: count of new rows above.
        left: count of new columns to the left.
        height: of the new image; no box depends on it.
        width: of the new image; no box depends on it.
        bounding_box_format: `"xyxy"`.

    Raises:
        UnimplementedError: another format.
    """
    _only_xyxy("pad", bounding_box_format)
    moved = as_tensor(boxes)
    offset = stack([cast(n, moved.dtype) for n in (left, top, left, top)], axis=-1)
    return add(moved, offset)
