"""Parts of images: cropped, padded and resized to a size that is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.ops.later import Bound, needs_values
from trainkit.tf.arrays import plain


def _sized(given: Bound) -> Spec:
    """An image of a height and width that are known only when the graph runs."""
    x = convert_to_tensor(given["image"])
    whole = "method" in given and given["method"] != "nearest" and not x.dtype.is_floating
    return Spec((*x.shape[:-3], None, None, x.shape[-1]), "float32" if whole else x.dtype)


def _boxed(given: Bound) -> Spec:
    x, boxes = convert_to_tensor(given["image"]), convert_to_tensor(given["boxes"])
    wide = x.dtype.is_floating and x.dtype.size >= 4
    return Spec((boxes.shape[0], None, None, x.shape[-1]), x.dtype if wide else "float32")


@needs_values("target_height", "target_width", gives=_sized)
def resize_with_crop_or_pad(image: Any, target_height: int, target_width: int) -> Tensor:
    """The middle of what is too large; zeros around what is too small.

    Args:
        image: (height, width, channels) or a batch of them.
        target_height: rows of the result.
        target_width: columns of the result.

    Raises:
        InvalidArgumentError: a size is not above 0.
    """
    from trainkit.tf.image import crop_to_bounding_box, pad_to_bounding_box

    x, target = convert_to_tensor(image), (int(plain(target_height)), int(plain(target_width)))
    if min(target) < 1:
        raise InvalidArgumentError(f"resize_with_crop_or_pad: the size {target} is not above 0")
    have = (x.shape[-3], x.shape[-2])
    cut = [max((n - t) // 2, 0) for n, t in zip(have, target, strict=True)]
    kept = [min(n, t) for n, t in zip(have, target, strict=True)]
    put = [max((t - n) // 2, 0) for n, t in zip(have, target, strict=True)]
    part = crop_to_bounding_box(x, cut[0], cut[1], kept[0], kept[1])
    return pad_to_bounding_box(part, put[0], put[1], target[0], target[1])


@needs_values("target_height", "target_width", gives=_sized)
def resize_with_pad(
    image: Any,
    target_height: int,
    target_width: int,
    method: str = "bilinear",
    antialias: bool = False,
) -> Tensor:
    """Resized as far as it fits without distortion, with zeros around it.

    Args:
        image: (height, width, channels) or a batch of them.
        target_height: rows of the result.
        target_width: columns of the result.
        method: see `tk.image.resize`.
        antialias: filter when the image gets smaller.

    Raises:
        InvalidArgumentError: a size is not above 0.
    """
    from trainkit.tf.image import pad_to_bounding_box, resize

    x, target = convert_to_tensor(image), (int(plain(target_height)), int(plain(target_width)))
    if min(target) < 1:
        raise InvalidArgumentError(f"resize_with_pad: the size {target} is not above 0")
    have = np.array([x.shape[-3], x.shape[-2]], np.float32)
    fitting = have / np.max(have / np.array(target, np.float32))
    height, width = (max(int(n), 1) for n in np.floor(fitting))
    top, left = (max(int(n), 0) for n in np.floor((np.array(target) - fitting) / 2))
    small = resize(x, (height, width), method, antialias=antialias)
    return pad_to_bounding_box(small, top, left, target[0], target[1])


# ---------------------------------------------------------------------- boxes of any size


@needs_values("crop_size", gives=_boxed)
def crop_and_resize(
    image: Any,
    boxes: Any,
    box_indices: Any,
    crop_size: Any,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
    name: Any = None,
) -> Tensor:
    """Boxes cut out of images, each resized to one size; with gradients by image and boxes.

    Args:
        image: (batch, height, width, channels).
        boxes: (n, 4): top, left, bottom and right, where 0 is the first row or column and 1 the
            last; a box with its ends exchanged is mirrored.
        box_indices: (n,), the image of each box.
        crop_size: height and width of the results.
        method: `"bilinear"` or `"nearest"`.
        extrapolation_value: for what lies outside of the image.
        name: not kept.

    Returns:
        A floating tensor (n, height, width, channels).

    Raises:
        ValueError: the method is another one.
        ShapeError: the shapes do not fit.
        InvalidArgumentError: a box index is no image, or a corner of a box is no finite number.
    """
    if method not in ("bilinear", "nearest"):
        raise ValueError(f"crop_and_resize: method {method!r}; use 'bilinear' or 'nearest'")
    x, box = convert_to_tensor(image), convert_to_tensor(boxes)
    if len(x.shape) != 4 or len(box.shape) != 2 or box.shape[-1] != 4:
        raise ShapeError(
            f"crop_and_resize: needs images (batch, height, width, channels), got "
            f"{tuple(x.shape)}, and boxes (n, 4), got {tuple(box.shape)}"
        )
    x = ops.cast(x, "float32") if not x.dtype.is_floating or x.dtype.size < 4 else x
    which = convert_to_tensor(box_indices)
    _check_images(which, x.shape[0])
    if hasattr(box, "_array") and not np.isfinite(box.numpy()).all():
        raise InvalidArgumentError(
            f"crop_and_resize: the corners of boxes must be finite, got {box.numpy().tolist()}"
        )
    rows, columns = plain(crop_size)
    y = _places(box[:, 0], box[:, 2], x.shape[1], rows)  # (n, rows)
    z = _places(box[:, 1], box[:, 3], x.shape[2], columns)
    return _sampled(x, which, y, z, method, extrapolation_value)


def _check_images(which: Tensor, count: int | None) -> None:
    if count is None or not hasattr(which, "_array"):
        return
    numbers = which.numpy()
    wrong = numbers[(numbers < 0) | (numbers >= count)]
    if wrong.size:
        raise InvalidArgumentError(
            f"crop_and_resize: box_indices hold {wrong[0]}, which is not in [0, {count})"
        )


def _places(start: Tensor, end: Tensor, size: int, count: int) -> Tensor:
    """`count` positions from `start` to `end`, as row or column numbers of the image."""
    last = float(size - 1)
    if count == 1:
        return ops.expand_dims(ops.multiply(ops.add(start, end), 0.5 * last), 1)
    step = ops.divide(ops.multiply(ops.subtract(end, start), last), float(count - 1))
    first = ops.expand_dims(ops.multiply(start, last), 1)
    numbers = ops.arange(count, dtype=start.dtype)
    return ops.add(first, ops.multiply(ops.expand_dims(step, 1), numbers))


def _sampled(x: Tensor, which: Tensor, y: Tensor, z: Tensor, method: str, outside: float) -> Tensor:
    _, height, width, channels = x.shape
    flat = ops.reshape(x, (-1, channels))
    image = ops.reshape(ops.cast(which, "int64") * (height * width), (-1, 1, 1))

    def pixels(row: Tensor, column: Tensor) -> Tensor:
        row = ops.clip(ops.cast(row, "int64"), 0, height - 1)
        column = ops.clip(ops.cast(column, "int64"), 0, width - 1)
        place = image + ops.expand_dims(row, 2) * width + ops.expand_dims(column, 1)
        return ops.take(flat, place, axis=0)

    if method == "nearest":
        half = [ops.floor(ops.add(p, 0.5)) for p in (y, z)]
        value = pixels(half[0], half[1])
    else:
        top, left = ops.floor(y), ops.floor(z)
        down = ops.cast(ops.expand_dims(ops.expand_dims(ops.subtract(y, top), -1), -1), x.dtype)
        right = ops.cast(ops.expand_dims(ops.expand_dims(ops.subtract(z, left), 1), -1), x.dtype)
        above = _between(pixels(top, left), pixels(top, ops.ceil(z)), right)
        below = _between(pixels(ops.ceil(y), left), pixels(ops.ceil(y), ops.ceil(z)), right)
        value = _between(above, below, down)
    inside = ops.logical_and(
        ops.expand_dims(_within(y, height), 2), ops.expand_dims(_within(z, width), 1)
    )
    return ops.where(ops.expand_dims(inside, -1), value, outside)


def _between(a: Tensor, b: Tensor, share: Tensor) -> Tensor:
    return ops.add(a, ops.multiply(ops.subtract(b, a), share))


def _within(place: Tensor, size: int) -> Tensor:
    return ops.logical_and(ops.greater_equal(place, 0), ops.less_equal(place, size - 1))
