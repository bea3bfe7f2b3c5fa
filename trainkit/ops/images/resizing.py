"""Images of other sizes: resize, scale_and_translate.

Along each axis a new pixel is a weighted sum of old ones, so each axis is one product with a
matrix of weights, and gradients of any order follow. Pixel i lies at i + 1/2. Sources: Keys 1981,
IEEE Trans. ASSP 29(6) (cubic, a = -1/2); Duchon 1979, J. Appl. Meteorology 18 (Lanczos).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from trainkit.core import devices, nest, shapes
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.eval_shape import eagerly
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.ops.arrays.axes import expand_dims
from trainkit.ops.arrays.pad_and_roll import pad
from trainkit.ops.arrays.ranges import arange
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.core.one_node import sizes_later
from trainkit.ops.images.image_layout import batched, choice, computed, later_images, spatial
from trainkit.ops.indexing.gathering import take
from trainkit.ops.indexing.get_item import get_item
from trainkit.ops.linear_algebra.einsum import einsum
from trainkit.ops.math.comparisons import greater, less, less_equal, logical_and
from trainkit.ops.math.elementwise import (
    absolute,
    add,
    cast,
    divide,
    exp,
    maximum,
    multiply,
    subtract,
    where,
)
from trainkit.ops.math.reductions import sum as sum_
from trainkit.ops.math.rounding import round as round_
from trainkit.ops.math.rounding import saturate_cast
from trainkit.ops.math.trigonometry import sin

# ------------------------------------------------------------------ kernels


def _triangle(x: Tensor) -> Tensor:
    return maximum(subtract(1.0, x), 0.0)


def _cubic(x: Tensor) -> Tensor:
    near = add(multiply(multiply(subtract(multiply(x, 1.5), 2.5), x), x), 1.0)
    inner = add(multiply(subtract(multiply(x, -0.5), -2.5), x), -4.0)
    far = add(multiply(inner, x), 2.0)
    return where(less(x, 1.0), near, where(less(x, 2.0), far, 0.0))


def _lanczos(radius: float) -> Callable[[Tensor], Tensor]:
    def kernel(x: Tensor) -> Tensor:
        apart = greater(x, 1e-3)
        safe = where(apart, x, 1.0)
        waves = multiply(sin(multiply(safe, math.pi)), sin(multiply(safe, math.pi / radius)))
        value = divide(multiply(waves, radius), multiply(multiply(safe, safe), math.pi**2))
        value = where(greater(x, radius), 0.0, value)
        return where(apart, value, 1.0)

    return kernel


def _gaussian(x: Tensor) -> Tensor:
    """A bell of standard deviation 0.5, cut off at 1.5."""
    return where(greater(x, 1.5), 0.0, exp(multiply(multiply(x, x), -2.0)))


def _mitchell(x: Tensor) -> Tensor:
    """Source: Mitchell and Netravali 1988, "Reconstruction filters in computer graphics"."""
    near = add(multiply(multiply(x, x), subtract(multiply(x, 7 / 6), 2.0)), 8 / 9)
    far = add(multiply(x, subtract(multiply(x, add(multiply(x, -7 / 18), 2.0)), 10 / 3)), 16 / 9)
    return where(greater(x, 2.0), 0.0, where(greater(x, 1.0), far, near))


_KERNELS: dict[str, Callable[[Tensor], Tensor]] = {
    "bilinear": _triangle,
    "bicubic": _cubic,
    "lanczos3": _lanczos(3.0),
    "lanczos5": _lanczos(5.0),
}
_IN_KERAS = tuple(_KERNELS)
_KERNELS |= {"gaussian": _gaussian, "mitchellcubic": _mitchell}
_SAME = {"linear": "bilinear", "trilinear": "bilinear", "triangle": "bilinear"}
_SAME |= {"cubic": "bicubic", "tricubic": "bicubic"}


def _weights(
    old: int, new: int, scale: Any, translation: Any, method: str, antialias: bool, dtype: Any
) -> Tensor:
    """The shares (new, old) of old pixels in new ones; rows of pixels from outside are zero."""
    step = divide(1.0, cast(as_tensor(scale), dtype))
    widening = maximum(step, 1.0) if antialias else 1.0
    centers = multiply(add(arange(new, dtype=dtype), 0.5), step)
    centers = subtract(subtract(centers, multiply(translation, step)), 0.5)
    apart = absolute(subtract(expand_dims(centers, -1), arange(old, dtype=dtype)))
    raw = _KERNELS[method](divide(apart, widening))
    total = sum_(raw, axis=-1, keepdims=True)
    some = greater(absolute(total), 1000 * float(np.finfo(np.float32).eps))
    share = where(some, divide(raw, where(some, total, 1.0)), 0.0)
    inside = logical_and(less_equal(-0.5, centers), less_equal(centers, old - 0.5))
    return where(expand_dims(inside, -1), share, 0.0)


def _areas(old: int, new: int) -> Any:
    """The shares (new, old) of old pixels in the areas of new ones."""
    edges = np.arange(new + 1, dtype=np.float64) * (old / new)
    first, last = edges[:-1, None], edges[1:, None]
    pixels = np.arange(old, dtype=np.float64)
    overlaps = np.minimum(last, pixels + 1) - np.maximum(first, pixels)
    return np.maximum(overlaps, 0) / (old / new)


@lru_cache(maxsize=256)
def _fixed_weights(old: int, new: int, method: str, antialias: bool, dtype: str) -> Any:
    """The weights that fill `new` pixels from `old` ones, as a NumPy array."""
    if method == "area":
        return _areas(old, new).astype(dtype)
    with eagerly(), trace_state.silence(), devices.device("/cpu:0"):
        exact = _weights(old, new, np.float64(new / old), 0.0, method, antialias, "float64")
    return exact.numpy().astype(dtype)


# ------------------------------------------------------------------ resize


def _resize(x: Tensor, size: tuple[int, int], method: str, antialias: bool) -> Tensor:
    height, width = spatial(x, "resize")
    shapes.bounded("resize", x.shape[0] or 1, *size, x.shape[3] or 1)
    if method == "nearest":
        for axis, old, new in ((1, height, size[0]), (2, width, size[1])):
            nearest = np.minimum(np.floor((np.arange(new) + 0.5) * np.float32(old / new)), old - 1)
            x = take(x, nearest.astype(np.int32), axis=axis)
        return x
    y = computed(x)
    name = y.dtype.name
    rows = convert_to_tensor(_fixed_weights(height, size[0], method, antialias, name))
    columns = convert_to_tensor(_fixed_weights(width, size[1], method, antialias, name))
    y = einsum("Hh,bhwc->bHwc", rows, y)
    return _as_before(einsum("Ww,bhwc->bhWc", columns, y), x)


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
        interpolation: `"nearest"`, `"bilinear"`, `"bicubic"`, `"lanczos3"` or `"lanczos5"`.
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
    allowed = ("nearest", *_IN_KERAS)
    method = choice("resize", "interpolation", interpolation, allowed)
    choice("resize", "fill_mode", fill_mode, ("constant",))
    if crop_to_aspect_ratio and pad_to_aspect_ratio:
        raise ValueError(
            "resize: only one of crop_to_aspect_ratio and pad_to_aspect_ratio can be True"
        )
    sizes = tuple(int(n) for n in size)
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
    methods = ("nearest", *_KERNELS, "area")
    method = choice("resize", "method", method, methods)
    if min(size) < 1:
        raise ValueError(f"resize: size is (height, width), both above 0; got {size}")
    x, restore = batched(images, data_format, "resize")
    return restore(_resize(x, size, method, antialias))


# ------------------------------------------------------------------ scale and translate


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
    method = choice("scale_and_translate", "method", method, (*_IN_KERAS, *_SAME))
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
        weights = _weights(
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
