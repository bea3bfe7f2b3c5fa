"""Bounding boxes, their names, and segmentation masks, painted into arrays of images."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.ops.convolutional.window_arguments import image_data_format
from trainkit.ops.images.box_formats import convert_format
from trainkit.ops.images.image_bounds import pillow

_FONT_HEIGHT = 12  # pixels, at a scale of 1
_GAP = 8  # pixels between a box and its name


def batch_of(images: Any, data_format: str | None, op: str) -> tuple[Any, bool]:
    """A batch of images as an array with channels last, and whether they stood first.

    Raises:
        ShapeError: it is no batch.
        InvalidArgumentError: `data_format` is unknown.
    """
    data_format = data_format or image_data_format()
    if data_format not in ("channels_last", "channels_first"):
        raise InvalidArgumentError(
            f"{op}: data_format must be 'channels_last' or 'channels_first', got {data_format!r}"
        )
    array = np.asarray(ops.convert_to_numpy(images))
    if array.ndim != 4:
        raise ShapeError(f"{op}: images must be a batch, of rank 4; got shape {array.shape}")
    first = data_format == "channels_first"
    return (np.moveaxis(array, 1, -1) if first else array), first


def _bytes_of(images: Any) -> Any:
    """A new array of values in [0, 255]; floats up to 1 count as shares of 255."""
    if images.dtype.kind == "f" and images.size:
        scale = 255 if images.max() <= 1.0 else 1
        images = np.clip(images * scale, 0, 255)
    return np.ascontiguousarray(images.astype("uint8", copy=True))


def draw_bounding_boxes(
    images: Any,
    bounding_boxes: Any,
    bounding_box_format: str,
    class_mapping: Any = None,
    color: Any = (128, 128, 128),
    line_thickness: int = 2,
    text_thickness: int | None = 1,
    font_scale: float = 1.0,
    data_format: str | None = None,
) -> Any:
    """Images with boxes around what is in them, and names.

    Args:
        images: a batch (batch, height, width, 3); floats up to 1 count as shares of 255.
        bounding_boxes: dict with `"boxes"` (batch, boxes, 4), `"labels"` (batch, boxes) of ints, -1
            for none, and perhaps `"confidences"` (batch, boxes).
        bounding_box_format: of the boxes, see `keras.utils.bounding_boxes.convert_format`.
        class_mapping: dict of names by label; a label without one gets no name. Names are drawn
            with Pillow.
        color: red, green and blue of lines and names.
        line_thickness: in pixels.
        text_thickness: of the strokes of names, in pixels; that of the lines if `None`.
        font_scale: size of names, 12 pixels at 1.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Returns:
        A NumPy array of uint8 in the shape of `images`.

    Raises:
        ShapeError: the images are no batch.
        TypeError: `bounding_boxes` is no dict.
        ValueError: boxes or labels are missing, or `line_thickness` is below 1.
        ImportError: a name is to be drawn and Pillow is not installed.

    Example:
        >>> boxes = {"boxes": np.array([[[1, 1, 3, 3]]]), "labels": np.array([[0]])}
        >>> drawn = tk.visualization.draw_bounding_boxes(
        ...     np.zeros((1, 5, 5, 3), "uint8"), boxes, "xyxy", color=(9, 9, 9), line_thickness=1
        ... )
        >>> drawn[0, :, :, 0]
        array([[0, 0, 0, 0, 0],
               [0, 9, 9, 9, 0],
               [0, 9, 0, 9, 0],
               [0, 9, 9, 9, 0],
               [0, 0, 0, 0, 0]], dtype=uint8)
    """
    op = "draw_bounding_boxes"
    array, first = batch_of(images, data_format, op)
    if not isinstance(bounding_boxes, dict):
        raise TypeError(f"{op}: bounding_boxes must be a dict, got {bounding_boxes!r}")
    if not {"boxes", "labels"} <= bounding_boxes.keys():
        raise InvalidArgumentError(
            f"{op}: bounding_boxes needs 'boxes' and 'labels', got {sorted(bounding_boxes)}"
        )
    if line_thickness < 1:
        raise InvalidArgumentError(f"{op}: line_thickness must be 1 or more, got {line_thickness}")
    size = array.shape[1:3]
    boxes = convert_format(bounding_boxes["boxes"], bounding_box_format, "xyxy", *size)
    corners = ops.convert_to_numpy(boxes).astype("int32")
    labels = np.asarray(ops.convert_to_numpy(bounding_boxes["labels"])).astype("int32")
    sure = bounding_boxes.get("confidences")
    names = class_mapping or {}
    drawn = _bytes_of(array)
    for i, j in np.argwhere(labels != -1).tolist():
        _draw_frame(drawn[i], corners[i, j].tolist(), color, line_thickness)
        if int(labels[i, j]) in names:
            text = str(names[int(labels[i, j])])
            if sure is not None:
                text = f"{text} | {float(ops.convert_to_numpy(sure)[i, j]):.2f}"
            thickness = text_thickness or line_thickness
            _draw_name(drawn[i], text, corners[i, j].tolist(), color, thickness, font_scale)
    return np.moveaxis(drawn, -1, 1) if first else drawn


def _draw_frame(image: Any, corners: list[int], color: Any, thickness: int) -> None:
    """Four lines about the edges of a box, cut off at the image."""
    before = thickness // 2
    left, top, right, bottom = (c - before for c in corners)
    rows = slice(max(top, 0), max(bottom + thickness, 0))
    columns = slice(max(left, 0), max(right + thickness, 0))
    for start in (top, bottom):
        image[max(start, 0) : max(start + thickness, 0), columns] = color
    for start in (left, right):
        image[rows, max(start, 0) : max(start + thickness, 0)] = color


def _draw_name(
    image: Any, text: str, corners: list[int], color: Any, thickness: int, scale: float
) -> None:
    """A name above a box, or inside where there is no room."""
    size = int(_FONT_HEIGHT * scale)
    x, y = corners[0], corners[1] - _GAP
    if y - 2 * size <= 0:
        x, y = corners[0] + 3, corners[1] + 2 * size + thickness + 3
    picture = pillow().fromarray(image)
    fonts = importlib.import_module("PIL.ImageFont")
    importlib.import_module("PIL.ImageDraw").Draw(picture).text(
        (x, y),
        text,
        fill=tuple(int(c) for c in color),
        font=fonts.load_default(size=max(size, 1)),
        anchor="ls",
        stroke_width=max(thickness - 1, 0),
    )
    image[...] = np.asarray(picture)


def draw_segmentation_masks(
    images: Any,
    segmentation_masks: Any,
    num_classes: int | None = None,
    color_mapping: Any = None,
    alpha: float = 0.8,
    blend: bool = True,
    ignore_index: int = -1,
    data_format: str | None = None,
) -> Any:
    """Images with the pixels of each class in its color.

    Args:
        images: a batch (batch, height, width, 3).
        segmentation_masks: classes (batch, height, width, 1) of ints.
        num_classes: how many there are; by default the greatest class and one.
        color_mapping: red, green and blue by class, a dict or a list; by default colors that
            differ.
        alpha: share of the color where it is blended with the image, in [0, 1].
        blend: whether it is.
        ignore_index: the class of pixels that stay.
        data_format: `"channels_last"` (the default) or `"channels_first"`, of images and masks;
            the result has channels last.

    Returns:
        A NumPy array (batch, height, width, 3) of uint8; of float32 without blending.

    Raises:
        ShapeError: the images are no batch, or the masks don't fit them.
        TypeError: the masks are no ints.

    Example:
        >>> gray, masks = np.full((1, 1, 3, 3), 100), np.array([[[[0], [1], [-1]]]])
        >>> drawn = tk.visualization.draw_segmentation_masks(
        ...     gray, masks, color_mapping=[(200, 0, 0), (0, 200, 0)], alpha=0.5
        ... )
        >>> drawn[0, 0].tolist()
        [[150, 50, 50], [50, 150, 50], [100, 100, 100]]
    """
    op = "draw_segmentation_masks"
    array, first = batch_of(images, data_format, op)
    masks = np.asarray(ops.convert_to_numpy(segmentation_masks))
    masks = np.moveaxis(masks, 1, -1) if first else masks
    if masks.dtype.kind not in "iu":
        raise TypeError(f"{op}: segmentation_masks must be ints, got {masks.dtype}")
    if masks.shape != (*array.shape[:3], 1):
        raise ShapeError(
            f"{op}: masks of shape {masks.shape} don't fit images of shape {array.shape}; they "
            f"must be {(*array.shape[:3], 1)}"
        )
    classes, array = masks[..., 0].astype("int64"), array.astype("float32")
    is_drawn = classes != ignore_index
    if num_classes is None:
        num_classes = max(1, int(np.max(classes, initial=-1, where=is_drawn)) + 1)
    colors = _palette(num_classes) if color_mapping is None else color_mapping
    table = np.array([colors[i] for i in range(num_classes)], "float32")
    inside = (classes >= 0) & (classes < num_classes)
    painted = np.where(inside[..., None], table[np.where(inside, classes, 0)], array)
    if not blend:
        return painted
    mixed = np.where(is_drawn[..., None], array * (1 - alpha) + painted * alpha, array)
    return np.clip(mixed, 0, 255).astype("uint8")


def _palette(count: int) -> Any:
    """Colors that differ, the first one black."""
    steps = np.array([2**25 - 1, 2**15 - 1, 2**21 - 1])
    return np.arange(count)[:, None] * steps % 255
