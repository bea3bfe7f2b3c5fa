"""Parts of images: cropped, padded and resized to a size that is asked for.

The channels are the last axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import dtypes
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.docstrings import describe_arguments
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.axes import expand_dims
from trainkit.ops.arrays.pad_and_roll import pad
from trainkit.ops.arrays.pad_and_roll import rot90 as rot90_
from trainkit.ops.arrays.ranges import arange
from trainkit.ops.arrays.shaping import as_tensor, reshape
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.core.dynamic_shapes import Bound, needs_values
from trainkit.ops.core.one_node import sizes_later
from trainkit.ops.images.resizing import resize as resize_
from trainkit.ops.images.resizing import resized_by
from trainkit.ops.indexing.gathering import take
from trainkit.ops.math.comparisons import greater_equal, less_equal, logical_and
from trainkit.ops.math.elementwise import add, cast, divide, multiply, subtract, where
from trainkit.ops.math.rounding import ceil, floor
from trainkit.ops.math.value_limits import clip


class ResizeMethod:
    """The ways to resize.

    Example:
        >>> x = tk.ones((1, 4, 4, 3))
        >>> tk.image.resize(x, (2, 2), method=tk.image.ResizeMethod.NEAREST_NEIGHBOR).shape
        TensorShape([1, 2, 2, 3])
    """

    BILINEAR = "bilinear"
    NEAREST_NEIGHBOR = "nearest"
    BICUBIC = "bicubic"
    LANCZOS3 = "lanczos3"
    LANCZOS5 = "lanczos5"
    GAUSSIAN = "gaussian"
    MITCHELLCUBIC = "mitchellcubic"
    AREA = "area"


def _resized_spec(arguments: dict[str, Any]) -> Spec:
    x = convert_to_tensor(arguments["images"])
    dtype = x.dtype if arguments["method"].lower() == "nearest" else dtypes.float32
    return Spec((*x.shape[:-3], None, None, x.shape[-1]), dtype)


def _part_spec(arguments: dict[str, Any]) -> Spec:
    """An image of unknown height and width."""
    x = convert_to_tensor(arguments["image"])
    return Spec((*x.shape[:-3], None, None, x.shape[-1]), x.dtype)


_BOX = ("offset_height", "offset_width", "target_height", "target_width")
_TARGET = ("target_height", "target_width")


def _open_size(arguments: Bound, image: str = "image") -> bool:
    """Whether height or width of the images are not known yet."""
    return None in tuple(as_tensor(arguments[image]).shape)[-3:-1]


def _plain_sizes(*sizes: Any) -> list[int | None]:
    """Sizes as ints, `None` for those that are known only when the graph runs."""
    return [None if isinstance(n, SymbolicTensor) else int(plain(n)) for n in sizes]


def _target_later(arguments: Bound) -> Spec | None:
    """An image of the target size, where its own is not known yet."""
    if not _open_size(arguments):
        return None
    x = as_tensor(arguments["image"])
    dtype = x.dtype if arguments.get("method", "nearest") == "nearest" else dtypes.float32
    size = _plain_sizes(*(arguments[name] for name in _TARGET))
    return Spec((*x.shape[:-3], *size, x.shape[-1]), dtype)


def _part_later(arguments: Bound) -> Spec | None:
    """A part of an image whose size is not known yet."""
    return _part_spec(arguments) if _open_size(arguments) else None


def _same_ratio_later(arguments: Bound) -> Spec | None:
    """An image that keeps a shape which is not known yet."""
    keeps = arguments["preserve_aspect_ratio"] and _open_size(arguments, "images")
    return _resized_spec(arguments) if keeps else None


def _boxes_later(arguments: Bound) -> Spec | None:
    """Boxes out of images whose size is not known yet."""
    if not _open_size(arguments):
        return None
    boxes, _, _, channels = _box_spec(arguments).shape
    crop_size = arguments["crop_size"]
    sizes = (
        [None, None] if isinstance(crop_size, SymbolicTensor) else _plain_sizes(*plain(crop_size))
    )
    return Spec((boxes, *sizes, channels), _box_spec(arguments).dtype)


@sizes_later("tf.image.resize", _same_ratio_later, constants=("size",))
@needs_values("size", gives=_resized_spec)
def resize(
    images: TensorLike,
    size: Any,
    method: str = ResizeMethod.BILINEAR,
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
    name: str | None = None,
) -> Tensor:
    """Images in another size, in float32, except for `"nearest"`, which keeps the dtype.

    Args:
        images: (batch, height, width, channels) or (height, width, channels).
        size: new height and width.
        method: one of `ResizeMethod`.
        preserve_aspect_ratio: the greatest size within `size` that keeps the ratio.
        antialias: filter when an image gets smaller.

    Example:
        >>> tk.image.resize(tk.ones((1, 4, 4, 3)), (8, 6)).shape
        TensorShape([1, 8, 6, 3])
    """
    x = convert_to_tensor(images)
    height, width = plain(size)
    if preserve_aspect_ratio:
        h, w = x.shape[-3], x.shape[-2]
        scale = min(height / h, width / w)
        height, width = max(1, round(h * scale)), max(1, round(w * scale))
    kind = method.lower()
    if kind != "nearest":
        x = cast(x, dtypes.float32)
    if kind in ("area", "gaussian", "mitchellcubic"):
        return resized_by(x, (int(height), int(width)), kind, antialias, "channels_last")
    return resize_(
        x, (height, width), interpolation=kind, antialias=antialias, data_format="channels_last"
    )


@needs_values("k", gives=_part_spec)
def rot90(image: TensorLike, k: int = 1, name: str | None = None) -> Tensor:
    """Turned by `k` quarters, counterclockwise.

    Args:
        k: how many quarters.

    Example:
        >>> tk.image.rot90([[[1.0], [2.0]], [[3.0], [4.0]]]).numpy()[..., 0]
        array([[2., 4.],
               [1., 3.]], dtype=float32)
    """
    return rot90_(image, k=int(k), axes=(-3, -2))


@sizes_later("tf.image.crop_to_bounding_box", _target_later, constants=_BOX)
@needs_values(*_BOX, gives=_part_spec)
def crop_to_bounding_box(
    image: TensorLike, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> Tensor:
    """The part that starts at the offsets and has the target size.

    Raises:
        InvalidArgumentError: it reaches beyond the image.

    Example:
        >>> tk.image.crop_to_bounding_box(tk.ones((8, 8, 3)), 1, 2, 4, 5).shape
        TensorShape([4, 5, 3])
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


@sizes_later("tf.image.central_crop", _part_later, constants=("central_fraction",))
@needs_values("central_fraction", gives=_part_spec)
def central_crop(image: TensorLike, central_fraction: float) -> Tensor:
    """The middle `central_fraction`, in (0, 1], of height and width.

    Args:
        central_fraction: in (0, 1].

    Raises:
        ValueError: the fraction is 0 or less, or above 1.

    Example:
        >>> tk.image.central_crop(tk.ones((4, 8, 3)), 0.5).shape
        TensorShape([2, 4, 3])
    """
    central_fraction = float(central_fraction)
    if not 0 < central_fraction <= 1:
        raise ValueError(f"central_crop: central_fraction {central_fraction} is not in (0, 1]")
    x = convert_to_tensor(image)
    h, w = x.shape[-3], x.shape[-2]
    top, left = int((h - h * central_fraction) / 2), int((w - w * central_fraction) / 2)
    return crop_to_bounding_box(x, top, left, h - 2 * top, w - 2 * left)


@sizes_later("tf.image.pad_to_bounding_box", _target_later, constants=_BOX)
@needs_values(*_BOX, gives=_part_spec)
def pad_to_bounding_box(
    image: TensorLike, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> Tensor:
    """The image in a black one of the target size, at the offsets.

    Raises:
        InvalidArgumentError: the image does not fit into the target at these offsets.

    Example:
        >>> tk.image.pad_to_bounding_box(tk.ones((2, 2, 1)), 1, 1, 4, 4).shape
        TensorShape([4, 4, 1])
    """
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
    return pad(x, (*lead, (offset_height, below), (offset_width, right), (0, 0)))


def _size_spec(arguments: Bound) -> Spec:
    """An image of a height and width that are known only when the graph runs."""
    x = convert_to_tensor(arguments["image"])
    dtype = x.dtype if arguments.get("method", "nearest") == "nearest" else dtypes.float32
    return Spec((*x.shape[:-3], None, None, x.shape[-1]), dtype)


def _box_spec(arguments: Bound) -> Spec:
    x, boxes = convert_to_tensor(arguments["image"]), convert_to_tensor(arguments["boxes"])
    keeps = x.dtype.is_floating and x.dtype.size >= 4
    return Spec((boxes.shape[0], None, None, x.shape[-1]), x.dtype if keeps else "float32")


@sizes_later("tf.image.resize_with_crop_or_pad", _target_later, constants=_TARGET)
@needs_values(*_TARGET, gives=_size_spec)
def resize_with_crop_or_pad(image: TensorLike, target_height: int, target_width: int) -> Tensor:
    """The middle of what is too large; zeros around what is too small.

    Raises:
        InvalidArgumentError: a size is not above 0.

    Example:
        >>> tk.image.resize_with_crop_or_pad(tk.ones((4, 8, 3)), 6, 6).shape
        TensorShape([6, 6, 3])
    """
    x, target = convert_to_tensor(image), (int(plain(target_height)), int(plain(target_width)))
    if min(target) < 1:
        raise InvalidArgumentError(f"resize_with_crop_or_pad: the size {target} is not above 0")
    have = (x.shape[-3], x.shape[-2])
    cut = [max((n - t) // 2, 0) for n, t in zip(have, target, strict=True)]
    sizes = [min(n, t) for n, t in zip(have, target, strict=True)]
    put = [max((t - n) // 2, 0) for n, t in zip(have, target, strict=True)]
    part = crop_to_bounding_box(x, cut[0], cut[1], sizes[0], sizes[1])
    return pad_to_bounding_box(part, put[0], put[1], target[0], target[1])


@sizes_later("tf.image.resize_with_pad", _target_later, constants=_TARGET)
@needs_values(*_TARGET, gives=_size_spec)
def resize_with_pad(
    image: TensorLike,
    target_height: int,
    target_width: int,
    method: str = "bilinear",
    antialias: bool = False,
) -> Tensor:
    """Resized as far as it fits without distortion, with zeros around it.

    Args:
        method: see `tk.image.resize`.
        antialias: filter when the image gets smaller.

    Raises:
        InvalidArgumentError: a size is not above 0.

    Example:
        >>> tk.image.resize_with_pad(tk.ones((4, 8, 3)), 6, 6).shape
        TensorShape([6, 6, 3])
    """
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


@sizes_later("tf.image.crop_and_resize", _boxes_later, constants=("box_indices", "crop_size"))
@needs_values("crop_size", gives=_box_spec)
def crop_and_resize(
    image: TensorLike,
    boxes: TensorLike,
    box_indices: Any,
    crop_size: Any,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
    name: str | None = None,
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

    Returns:
        A float32 tensor (n, height, width, channels).

    Raises:
        ValueError: the method is another one.
        ShapeError: the shapes do not fit.
        InvalidArgumentError: a box index is no image, or a corner of a box is no finite number.

    Example:
        >>> boxes = [[0.0, 0.0, 0.5, 1.0]]
        >>> tk.image.crop_and_resize(tk.ones((1, 8, 8, 3)), boxes, [0], (4, 4)).shape
        TensorShape([1, 4, 4, 3])
    """
    if method not in ("bilinear", "nearest"):
        raise ValueError(f"crop_and_resize: method {method!r}; use 'bilinear' or 'nearest'")
    x, box = convert_to_tensor(image), convert_to_tensor(boxes)
    if len(x.shape) != 4 or len(box.shape) != 2 or box.shape[-1] != 4:
        raise ShapeError(
            f"crop_and_resize: needs images (batch, height, width, channels), got "
            f"{tuple(x.shape)}, and boxes (n, 4), got {tuple(box.shape)}"
        )
    x = cast(x, "float32")
    image_indices = convert_to_tensor(box_indices)
    _check_images(image_indices, x.shape[0])
    if hasattr(box, "_array") and not np.isfinite(box.numpy()).all():
        raise InvalidArgumentError(
            f"crop_and_resize: the corners of boxes must be finite, got {box.numpy().tolist()}"
        )
    rows, columns = plain(crop_size)
    y = _places(box[:, 0], box[:, 2], x.shape[1], rows)  # (n, rows)
    z = _places(box[:, 1], box[:, 3], x.shape[2], columns)
    return _sample(x, image_indices, y, z, method, extrapolation_value)


def _check_images(image_indices: Tensor, count: int | None) -> None:
    if count is None or not hasattr(image_indices, "_array"):
        return
    numbers = image_indices.numpy()
    wrong = numbers[(numbers < 0) | (numbers >= count)]
    if wrong.size:
        raise InvalidArgumentError(
            f"crop_and_resize: box_indices hold {wrong[0]}, which is not in [0, {count})"
        )


def _places(start: Tensor, end: Tensor, size: int, count: int) -> Tensor:
    """`count` positions from `start` to `end`, as row or column numbers of the image."""
    last = float(size - 1)
    if count == 1:
        return expand_dims(multiply(add(start, end), 0.5 * last), 1)
    step = divide(multiply(subtract(end, start), last), float(count - 1))
    first = expand_dims(multiply(start, last), 1)
    numbers = arange(count, dtype=start.dtype)
    return add(first, multiply(expand_dims(step, 1), numbers))


def _sample(
    x: Tensor, image_indices: Tensor, y: Tensor, z: Tensor, method: str, outside: float
) -> Tensor:
    _, height, width, channels = x.shape
    flat = reshape(x, (-1, channels))
    image = reshape(cast(image_indices, "int64") * (height * width), (-1, 1, 1))

    def pixels(row: Tensor, column: Tensor) -> Tensor:
        row = clip(cast(row, "int64"), 0, height - 1)
        column = clip(cast(column, "int64"), 0, width - 1)
        indices = image + expand_dims(row, 2) * width + expand_dims(column, 1)
        return take(flat, indices, axis=0)

    if method == "nearest":
        half = [floor(add(p, 0.5)) for p in (y, z)]
        value = pixels(half[0], half[1])
    else:
        top, left = floor(y), floor(z)
        down = cast(expand_dims(expand_dims(subtract(y, top), -1), -1), x.dtype)
        right = cast(expand_dims(expand_dims(subtract(z, left), 1), -1), x.dtype)
        above = _between(pixels(top, left), pixels(top, ceil(z)), right)
        below = _between(pixels(ceil(y), left), pixels(ceil(y), ceil(z)), right)
        value = _between(above, below, down)
    inside = logical_and(expand_dims(_within(y, height), 2), expand_dims(_within(z, width), 1))
    return where(expand_dims(inside, -1), value, outside)


def _between(a: Tensor, b: Tensor, share: Tensor) -> Tensor:
    return add(a, multiply(subtract(b, a), share))


def _within(position: Tensor, size: int) -> Tensor:
    return logical_and(greater_equal(position, 0), less_equal(position, size - 1))


describe_arguments(
    globals(),
    """
    image: (height, width, channels) or a batch of them.
    target_height: rows of the result.
    target_width: columns of the result.
    offset_height: rows above.
    offset_width: columns to the left.
    """,
)
