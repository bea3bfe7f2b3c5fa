"""Images of other sizes: resize, scale_and_translate.

Along each axis a new pixel is a weighted sum of old ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from trainkit.core import nest, shapes
from trainkit.core.devices import CPU, current
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, wrap
from trainkit.ops.arrays.pad_and_roll import pad
from trainkit.ops.arrays.shaping import as_tensor, known_number
from trainkit.ops.core.one_node import sizes_later
from trainkit.ops.images.image_layout import batched, choice, computed, later_images, spatial
from trainkit.ops.images.pixel_weights import IN_KERAS, METHODS, pixel_weights
from trainkit.ops.images.weighted_images import resized_images
from trainkit.ops.indexing.gathering import take
from trainkit.ops.indexing.get_item import get_item
from trainkit.ops.linear_algebra.einsum import einsum
from trainkit.ops.math.elementwise import cast
from trainkit.ops.math.rounding import round as round_
from trainkit.ops.math.rounding import saturate_cast

# ------------------------------------------------------------------ resize


def _resize(x: Tensor, size: tuple[int, int], method: str, antialias: bool) -> Tensor:
    height, width = spatial(x, "resize")
    shapes.bounded("resize", x.shape[0] or 1, *size, x.shape[3] or 1)
    if method == "nearest":
        for axis, old, new in ((1, height, size[0]), (2, width, size[1])):
            nearest = _nearest_on_cpu(old, new)
            x = take(x, nearest if current() is CPU else nearest.numpy(), axis=axis)
        return x
    return _as_before(resized_images(computed(x), size, method, antialias), x)


@lru_cache(maxsize=256)
def _nearest_on_cpu(old: int, new: int) -> Tensor:
    """For each new pixel of an axis the old one that it is."""
    nearest = np.minimum(np.floor((np.arange(new) + 0.5) * np.float32(old / new)), old - 1)
    return wrap(nearest.astype(np.int32))


def _as_before(y: Tensor, x: Tensor) -> Tensor:
    """`y` in the dtype of `x`: integers are rounded and kept in their range."""
    if not x.dtype.is_integer:
        return cast(y, x.dtype)
    return saturate_cast(round_(y), x.dtype)


def _crop(x: Tensor, size: tuple[int, int]) -> Tensor:
    """The largest middle part with the aspect ratio of `size`."""
    height, width = spatial(x, "resize")
    rows = max(min(height, int(width * size[0] / size[1])), 1)
    columns = max(min(width, int(height * size[1] / size[0])), 1)
    top, left = (height - rows) // 2, (width - columns) // 2
    return get_item(x, (slice(None), slice(top, top + rows), slice(left, left + columns)))


def _pad(x: Tensor, size: tuple[int, int], value: float) -> Tensor:
    """The image in a frame of the aspect ratio of `size`, as wide at both ends as Keras makes it.

    Where an odd number of pixels is missing, the frame is one pixel smaller than the exact ratio.
    """
    height, width = spatial(x, "resize")
    rows = max(height, int(width * size[0] / size[1]))
    columns = max(width, int(height * size[1] / size[0]))
    top, left = (rows - height) // 2, (columns - width) // 2
    return pad(x, ((0, 0), (top, top), (left, left), (0, 0)), constant_values=value)


def _resize_later(arguments: dict[str, Any]) -> Any:
    live = any(isinstance(n, SymbolicTensor) for n in nest.flatten(arguments["size"]))
    size = (None, None) if isinstance(arguments["size"], Tensor) else tuple(arguments["size"])
    ends = (size[0], size[-1])
    return later_images(arguments["images"], ends, arguments["data_format"], "resize", live=live)


@sizes_later("image.resize", _resize_later)
def resize(
    images: Any,
    size: Any,
    interpolation: str = "bilinear",
    antialias: bool = False,
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    fill_mode: str = "constant",
    fill_value: float = 0.0,
    data_format: str | None = None,
) -> Tensor:
    """Images in another size.

    Args:
        images: one image (height, width, channels) or a batch (batch, height, width, channels).
        size: the new height and width.
        interpolation: `"nearest"`, `"bilinear"`, `"bicubic"`, `"lanczos3"`, `"lanczos5"`, or
            `"area"`, the mean of what a new pixel covers, which Keras has with TensorFlow alone.
        antialias: when images shrink, weigh all old pixels under a new one.
        crop_to_aspect_ratio: cut the images to the new aspect ratio first.
        pad_to_aspect_ratio: frame the images to the new aspect ratio first.
        fill_mode: of the frame; `"constant"` only.
        fill_value: the value of the frame.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Returns:
        A tensor of the dtype of `images`; integers are rounded and kept in their range.

    Raises:
        ValueError: a setting is unknown, both aspect ratio options are on, or `size` is no pair of
            numbers above 0.
        ShapeError: the rank is another one, or height or width are not known.
    """
    allowed = ("nearest", *IN_KERAS, "area")
    method = choice("resize", "interpolation", interpolation, allowed)
    choice("resize", "fill_mode", fill_mode, ("constant",))
    if crop_to_aspect_ratio and pad_to_aspect_ratio:
        raise ValueError(
            "resize: only one of crop_to_aspect_ratio and pad_to_aspect_ratio can be True"
        )
    sizes = tuple(known_number(n, "resize") for n in size)
    if len(sizes) != 2 or min(sizes) < 1:
        raise ValueError(f"resize: size is (height, width), both above 0; got {size!r}")
    pair = (sizes[0], sizes[1])
    x, restore = batched(images, data_format, "resize")
    if crop_to_aspect_ratio:
        x = _crop(x, pair)
    elif pad_to_aspect_ratio:
        x = _pad(x, pair, fill_value)
    return restore(_resize(x, pair, method, bool(antialias)))


def resized_by(
    images: Any, size: tuple[int, int], method: str, antialias: bool, data_format: str
) -> Tensor:
    """`resize` by TensorFlow's further methods: `"area"`, `"gaussian"` and `"mitchellcubic"`.

    Raises:
        ValueError: the method is unknown, or a size is not above 0.
    """
    methods = ("nearest", *METHODS, "area")
    method = choice("resize", "method", method, methods)
    if min(size) < 1:
        raise ValueError(f"resize: size is (height, width), both above 0; got {size}")
    x, restore = batched(images, data_format, "resize")
    return restore(_resize(x, size, method, antialias))


# ------------------------------------------------------------------ scale and translate


_SAME = {"linear": "bilinear", "trilinear": "bilinear", "triangle": "bilinear"}
_SAME |= {"cubic": "bicubic", "tricubic": "bicubic"}


def scale_and_translate(
    images: Any,
    output_shape: Sequence[int],
    scale: Any,
    translation: Any,
    spatial_dims: Sequence[int],
    method: str,
    antialias: bool = True,
) -> Tensor:
    """Images stretched and moved: what was at x comes to x * scale + translation.

    Pixels that come from outside of the image are zero. Gradients reach `scale` and `translation`,
    too.

    Args:
        images: tensor of any rank.
        output_shape: sizes of the result, one for each axis.
        scale: factors (k,), one for each of `spatial_dims`.
        translation: distances in new pixels (k,).
        spatial_dims: the k axes that change.
        method: `"linear"`, `"bilinear"`, `"trilinear"` or `"triangle"`; `"cubic"`, `"bicubic"` or
            `"tricubic"`; `"lanczos3"` or `"lanczos5"`.
        antialias: where images shrink, weigh all old pixels under a new one.

    Returns:
        A tensor of shape `output_shape`; integers become the default float.

    Raises:
        ValueError: the method is unknown.
        InvalidArgumentError: the numbers of factors, distances and axes differ.
        ShapeError: `output_shape` does not fit.
    """
    method = choice("scale_and_translate", "method", method, (*IN_KERAS, *_SAME))
    tensor = as_tensor(images)
    x = computed(tensor)
    factors, moves = cast(as_tensor(scale), x.dtype), cast(as_tensor(translation), x.dtype)
    axes = [int(d) % len(x.shape) for d in spatial_dims]
    if tuple(factors.shape) != (len(axes),) or tuple(moves.shape) != (len(axes),):
        raise InvalidArgumentError(
            f"scale_and_translate: {len(axes)} axes need as many scales and translations, got "
            "shapes "
            f"{tuple(factors.shape)} and {tuple(moves.shape)}"
        )
    same = [i for i in range(len(x.shape)) if i not in axes]
    if len(output_shape) != len(x.shape) or any(output_shape[i] != x.shape[i] for i in same):
        raise ShapeError(
            f"scale_and_translate: output_shape {tuple(output_shape)} must equal "
            f"{tuple(x.shape)} but "
            f"for the axes {axes}"
        )
    letters = "abcdefghijklmnopqrstuvwxy"[: len(x.shape)]
    for k, axis in enumerate(axes):
        weights = pixel_weights(
            x.shape[axis],
            int(output_shape[axis]),
            get_item(factors, k),
            get_item(moves, k),
            _SAME.get(method, method),
            antialias,
            x.dtype,
        )
        out = letters.replace(letters[axis], "z")
        x = einsum(f"z{letters[axis]},{letters}->{out}", weights, x)
    return cast(x, tensor.dtype) if tensor.dtype.is_floating else x
