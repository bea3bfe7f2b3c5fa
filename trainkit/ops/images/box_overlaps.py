"""Bounding boxes compared: how much two overlap, and what leads from one to another."""

from __future__ import annotations

import math
from typing import Any

from trainkit.core import dtypes
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import Tensor
from trainkit.ops.arrays.axes import expand_dims
from trainkit.ops.arrays.concat_and_split import concatenate, unstack
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.images.box_formats import convert_format
from trainkit.ops.indexing.get_item import get_item
from trainkit.ops.math.comparisons import less, logical_or
from trainkit.ops.math.elementwise import (
    add,
    cast,
    divide,
    exp,
    log,
    maximum,
    minimum,
    multiply,
    square,
    subtract,
    where,
)
from trainkit.ops.math.max_and_argmax import max as max_
from trainkit.ops.math.trigonometry import arctan
from trainkit.ops.neural.normalization import EPSILON

_ENCODINGS = ("center_xywh", "center_yxhw")


def _image_size(op: str, image_shape: Any, formats: tuple[str, ...]) -> tuple[Any, Any]:
    """Height and width of an image, `None` where its shape is not given."""
    if image_shape is not None:
        return image_shape[0], image_shape[1]
    if any(str(name).lower().startswith("rel_") for name in formats):
        raise InvalidArgumentError(
            f"{op}: boxes in shares ({', '.join(formats)}) need image_shape=(height, width, "
            "channels)"
        )
    return None, None


def _overlap(first: list[Tensor], second: list[Tensor]) -> Tensor:
    """The area that boxes share; each is given by left, top, right and bottom."""
    across = subtract(minimum(first[2], second[2]), maximum(first[0], second[0]))
    down = subtract(minimum(first[3], second[3]), maximum(first[1], second[1]))
    return multiply(maximum(across, 0.0), maximum(down, 0.0))


def _area(box: list[Tensor]) -> Tensor:
    return multiply(subtract(box[2], box[0]), subtract(box[3], box[1]))


def compute_iou(
    boxes1: Any,
    boxes2: Any,
    bounding_box_format: str,
    use_masking: bool = False,
    mask_val: Any = -1,
    image_shape: Any = None,
) -> Tensor:
    """Intersection over union of each box with each other: shared area / covered area.

    Args:
        boxes1: tensor (n, 4) or (batch, n, 4).
        boxes2: tensor (m, 4) or (batch, m, 4).
        bounding_box_format: of both, see `convert_format`.
        use_masking: whether a box whose numbers are all below 0 counts for no box.
        mask_val: the result for such ones.
        image_shape: (height, width, channels), needed for shares.

    Returns:
        A tensor (n, m) or (batch, n, m) in [0, 1].

    Raises:
        ShapeError: boxes have another rank.
        InvalidArgumentError: shares are given and no `image_shape`.

    >>> compute_iou([[0.0, 0.0, 2.0, 2.0]], [[1.0, 0.0, 3.0, 2.0]], "xyxy").numpy().round(4)
    array([[0.3333]], dtype=float32)
    """
    size = _image_size("compute_iou", image_shape, (bounding_box_format,))
    pair = []
    for name, boxes in (("boxes1", boxes1), ("boxes2", boxes2)):
        tensor = as_tensor(boxes)
        if len(tensor.shape) not in (2, 3):
            raise ShapeError(
                f"compute_iou: {name} must be (boxes, 4) or (batch, boxes, 4), got shape "
                f"{tuple(tensor.shape)}"
            )
        pair.append(convert_format(tensor, bounding_box_format, "xyxy", *size))
    first, second = expand_dims(pair[0], -2), expand_dims(pair[1], -3)
    one, two = unstack(first, axis=-1), unstack(second, axis=-1)
    shared = _overlap(one, two)
    covered = subtract(add(_area(one), _area(two)), shared)
    result = divide(shared, add(covered, EPSILON))
    if not use_masking:
        return result
    absent = logical_or(less(max_(first, axis=-1), 0.0), less(max_(second, axis=-1), 0.0))
    return where(absent, cast(mask_val, result.dtype), result)


def compute_ciou(
    boxes1: Any, boxes2: Any, bounding_box_format: str, image_shape: Any = None
) -> Tensor:
    """Complete intersection over union of boxes, one by one.

    CIoU = IoU - d^2 / c^2 - v^2 / (1 - IoU + v), with d between the centres, c the diagonal of the
    box around both, and v = 4 / pi^2 (arctan(w2 / h2) - arctan(w1 / h1))^2.
    Source: Zheng et al. 2020, arXiv:1911.08287.

    Args:
        boxes1: tensor (..., 4).
        boxes2: tensor (..., 4) that broadcasts with it.
        bounding_box_format: of both, see `convert_format`.
        image_shape: (height, width, channels), needed for shares.

    Returns:
        A tensor (...), 1 for equal boxes.

    Raises:
        InvalidArgumentError: shares are given and no `image_shape`.
    """
    size = _image_size("compute_ciou", image_shape, (bounding_box_format,))
    small = EPSILON
    one, two = (
        unstack(convert_format(b, bounding_box_format, "xyxy", *size), axis=-1)
        for b in (boxes1, boxes2)
    )

    def sides(box: list[Tensor]) -> tuple[Tensor, Tensor]:
        return subtract(box[2], box[0]), add(subtract(box[3], box[1]), small)

    (width1, height1), (width2, height2) = sides(one), sides(two)
    shared = _overlap(one, two)
    covered = subtract(add(multiply(width1, height1), multiply(width2, height2)), shared)
    iou = divide(shared, add(covered, 2 * small))
    around_x = subtract(maximum(one[2], two[2]), minimum(one[0], two[0]))
    around_y = subtract(maximum(one[3], two[3]), minimum(one[1], two[1]))
    diagonal = add(add(square(around_x), square(around_y)), small)

    def lie_apart(low: int, high: int) -> Tensor:
        middles = [divide(add(box[low], box[high]), 2.0) for box in (one, two)]
        return square(subtract(*middles))

    distance = divide(add(lie_apart(0, 2), lie_apart(1, 3)), diagonal)
    turned = subtract(arctan(divide(width2, height2)), arctan(divide(width1, height1)))
    v = multiply(square(turned), 4 / math.pi**2)
    alpha = divide(v, add(subtract(v, iou), 1 + small))
    return subtract(iou, add(distance, multiply(v, alpha)))


def _variance(op: str, variance: Any) -> Any:
    if variance is None:
        return None
    tensor = as_tensor(variance)
    if not tensor.shape or tensor.shape[-1] != 4:
        raise ShapeError(f"{op}: variance must have length 4, got {variance!r}")
    return cast(tensor, dtypes.float32)


def _encoding(op: str, name: str, value: str) -> None:
    if value not in _ENCODINGS:
        raise InvalidArgumentError(f"{op}: {name} must be one of {_ENCODINGS}, got {value!r}")


def encode_box_to_deltas(
    anchors: Any,
    boxes: Any,
    anchor_format: str,
    box_format: str,
    encoding_format: str = "center_yxhw",
    variance: Any = None,
    image_shape: Any = None,
) -> Tensor:
    """What leads from anchors to boxes: offsets of the centres and logarithms of size ratios.

    Source: Ren et al. 2015, arXiv:1506.01497, equation 2.

    Args:
        anchors: tensor (..., 4).
        boxes: tensor (..., 4).
        anchor_format: of the anchors, see `convert_format`.
        box_format: of the boxes.
        encoding_format: `"center_yxhw"` or `"center_xywh"`, the order of the result.
        variance: four numbers by which to divide the result.
        image_shape: (height, width, channels), needed for shares.

    Returns:
        A tensor (..., 4).

    Raises:
        InvalidArgumentError: `encoding_format` is another one, or `image_shape` is missing.
        ShapeError: `variance` has not four numbers.
    """
    op = "encode_box_to_deltas"
    divisor = _variance(op, variance)
    _encoding(op, "encoding_format", encoding_format)
    size = _image_size(op, image_shape, (anchor_format, box_format))
    anchor = convert_format(anchors, anchor_format, encoding_format, *size)
    box = convert_format(boxes, box_format, encoding_format, *size)
    first, last = (..., slice(None, 2)), (..., slice(2, None))
    extent = maximum(get_item(anchor, last), EPSILON)
    ratio = divide(maximum(get_item(box, last), EPSILON), extent)
    offset = divide(subtract(get_item(box, first), get_item(anchor, first)), extent)
    deltas = concatenate([offset, log(ratio)], axis=-1)
    return deltas if divisor is None else divide(deltas, divisor)


def decode_deltas_to_boxes(
    anchors: Any,
    boxes_delta: Any,
    anchor_format: str,
    box_format: str,
    encoded_format: str = "center_yxhw",
    variance: Any = None,
    image_shape: Any = None,
) -> Any:
    """The boxes to which deltas lead from anchors; the inverse of `encode_box_to_deltas`.

    Args:
        anchors: tensor (..., 4), or a dict of them.
        boxes_delta: tensor (..., 4), or a dict with the same keys.
        anchor_format: of the anchors, see `convert_format`.
        box_format: of the result.
        encoded_format: `"center_yxhw"` or `"center_xywh"`, the order of the deltas.
        variance: four numbers by which to multiply the deltas.
        image_shape: (height, width, channels), needed for shares.

    Returns:
        A tensor (..., 4), or a dict of them.

    Raises:
        InvalidArgumentError: `encoded_format` is another one, or `image_shape` is missing.
        ShapeError: `variance` has not four numbers.
    """
    op = "decode_deltas_to_boxes"
    factor = _variance(op, variance)
    _encoding(op, "encoded_format", encoded_format)
    size = _image_size(op, image_shape, (anchor_format, box_format))

    def decode(anchors: Any, deltas: Any) -> Any:
        anchor = convert_format(anchors, anchor_format, encoded_format, *size)
        deltas = as_tensor(deltas) if factor is None else multiply(deltas, factor)
        first, last = (..., slice(None, 2)), (..., slice(2, None))
        extent = get_item(anchor, last)
        middle = add(multiply(get_item(deltas, first), extent), get_item(anchor, first))
        box = concatenate([middle, multiply(exp(get_item(deltas, last)), extent)], axis=-1)
        return convert_format(box, encoded_format, box_format, *size)

    if isinstance(anchors, dict) and isinstance(boxes_delta, dict):
        return {level: decode(anchor, boxes_delta[level]) for level, anchor in anchors.items()}
    return decode(anchors, boxes_delta)
