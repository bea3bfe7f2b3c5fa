"""Filters over images: gaussian_blur, sobel_edges, ssim, elastic_transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import nest, shapes
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor
from trainkit.ops.arrays.axes import moveaxis
from trainkit.ops.arrays.concat_and_split import stack
from trainkit.ops.arrays.pad_and_roll import pad
from trainkit.ops.arrays.shaping import as_tensor, shape
from trainkit.ops.convolutional.convolution import is_channels_first
from trainkit.ops.core.dynamic_shapes import like
from trainkit.ops.core.one_node import sizes_later
from trainkit.ops.images.image_layout import (
    batched,
    choice,
    computed,
    computed_dtype,
    later_like,
    spatial,
)
from trainkit.ops.images.resampling import _MODES, _finish, _grid, sampled
from trainkit.ops.indexing.get_item import get_item
from trainkit.ops.math.elementwise import add, cast, divide, multiply, square, subtract
from trainkit.ops.math.reductions import mean
from trainkit.ops.sampling.batch_rows import along_batch
from trainkit.ops.sampling.random import normal

# ------------------------------------------------------------------ sliding sums


def _slid(x: Tensor, weights: Any, axis: int) -> Tensor:
    """Weighted sums of neighbours along an axis, where the window is wholly inside."""
    n = x.shape[axis] - len(weights) + 1
    total: Tensor | None = None
    for k, weight in enumerate(weights):
        if weight == 0:
            continue
        part = multiply(get_item(x, (slice(None),) * axis + (slice(k, k + n),)), float(weight))
        total = part if total is None else add(total, part)
    assert total is not None  # the weights sum up to 1
    return total


def gauss(size: int, sigma: float) -> Any:
    """Weights of a bell curve, which add up to 1."""
    shapes.bounded("gaussian_blur", size)
    offsets = np.arange(size) - (size - 1) / 2
    bell = np.exp(-0.5 * (offsets / sigma) ** 2)
    return bell / bell.sum()


def _blur(x: Tensor, sizes: tuple[int, int], sigmas: tuple[float, float]) -> Tensor:
    """A batch of images blurred along both axes, with zeros around them."""
    ends = [((n - 1) // 2, n - 1 - (n - 1) // 2) for n in sizes]
    x = pad(x, ((0, 0), *ends, (0, 0)))
    for axis, size, sigma in zip((1, 2), sizes, sigmas, strict=True):
        x = _slid(x, gauss(size, sigma), axis)
    return x


def _pair(value: Any, name: str, kind: Any, op: str = "gaussian_blur") -> Any:
    array = np.asarray(value)
    numbers = (array.item(),) * 2 if array.ndim == 0 else tuple(array.tolist())
    if len(numbers) != 2 or any(kind(n) != n or n <= 0 for n in numbers):
        raise InvalidArgumentError(f"{op}: {name} must be two numbers above 0, got {value!r}")
    return kind(numbers[0]), kind(numbers[1])


def _filter_later(arguments: dict[str, Any]) -> Spec | None:
    """The spec of filtered images where a size, or what says how to filter, is known only later."""
    settings = nest.flatten([arguments.get(name) for name in ("kernel_size", "sigma", "alpha")])
    if any(isinstance(x, SymbolicTensor) for x in settings):
        return like(arguments["images"])
    return later_like(arguments)


@sizes_later("image.gaussian_blur", _filter_later)
def gaussian_blur(
    images: Any, kernel_size: Any = (3, 3), sigma: Any = (1.0, 1.0), data_format: str | None = None
) -> Tensor:
    """Images blurred by a bell curve, with zeros around them.

    Args:
        images: one image (height, width, channels) or a batch (batch, height, width, channels).
        kernel_size: height and width of the window, in pixels.
        sigma: standard deviation along width and height, in pixels, in this order, as in Keras.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Returns:
        A tensor of the shape and dtype of `images`; integers are rounded.

    Raises:
        InvalidArgumentError: a size or deviation is not above 0.
        ShapeError: the rank is another one, or height or width are not known.
    """
    sizes, sigmas = _pair(kernel_size, "kernel_size", int), _pair(sigma, "sigma", float)
    x, restore = batched(images, data_format, "gaussian_blur")
    spatial(x, "gaussian_blur")
    return restore(_finish(_blur(computed(x), sizes, sigmas[::-1]), x.dtype))


def _edges_later(arguments: dict[str, Any]) -> Spec | None:
    """The spec of the edges in images of a size that is not known yet."""
    x = as_tensor(arguments["images"])
    if None not in tuple(x.shape)[1:] or len(x.shape) != 4:
        return None
    return Spec((*x.shape, 2), shapes.float_dtype(x.dtype))


@sizes_later("image.sobel_edges", _edges_later)
def sobel_edges(images: Any, data_format: str | None = None) -> Tensor:
    """The gradients of the brightness along height and width, by Sobel's 3 x 3 weights.

    At the edges the images are mirrored without the outermost pixels.

    Args:
        images: a batch (batch, height, width, channels); at least 2 pixels high and wide.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Returns:
        A tensor with the shape of `images` and an axis [dy, dx] behind it; floats stay of their
        dtype.

    Raises:
        ShapeError: the rank is another one, or the images are too small.
    """
    x = as_tensor(images)
    if len(x.shape) != 4:
        raise ShapeError(
            f"sobel_edges: needs a batch of images, of rank 4; got shape {tuple(x.shape)}"
        )
    first = is_channels_first(data_format, "sobel_edges")
    dtype = shapes.float_dtype(x.dtype)
    x = computed(x)
    if first:
        x = moveaxis(x, 1, -1)
    spatial(x, "sobel_edges")
    x = pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="reflect")
    smooth, slope = (1.0, 2.0, 1.0), (-1.0, 0.0, 1.0)
    edges = stack([_slid(_slid(x, slope, 1), smooth, 2), _slid(_slid(x, smooth, 1), slope, 2)], -1)
    edges = cast(edges, dtype)
    return moveaxis(edges, 3, 1) if first else edges


# ------------------------------------------------------------------ similarity


def _scores_later(arguments: dict[str, Any]) -> Spec | None:
    """The spec of the similarity of images of a size that is not known yet."""
    one, two = (as_tensor(arguments[name]) for name in ("image1", "image2"))
    if None not in (*tuple(one.shape)[-3:], *tuple(two.shape)[-3:]):
        return None
    return Spec(tuple(one.shape)[:-3], computed_dtype(one.dtype))


@sizes_later("image.ssim", _scores_later)
def ssim(
    image1: Any,
    image2: Any,
    max_val: float = 1.0,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    data_format: str | None = None,
) -> Tensor:
    """Structural similarity of images: 1 for equal ones.

    Source: Wang, Bovik, Sheikh and Simoncelli 2004, IEEE Trans. Image Processing 13(4).

    Args:
        image1: one image (height, width, channels) or a batch (batch, height, width, channels).
        image2: of the same shape.
        max_val: the greatest value that a pixel can have.
        filter_size: of the window of the bell curve, an odd number of pixels.
        filter_sigma: its standard deviation in pixels.
        k1: share of `max_val` that steadies the comparison of brightness.
        k2: share of `max_val` that steadies that of contrast.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Returns:
        A float tensor (batch,), or a scalar for one image.

    Raises:
        InvalidArgumentError: `filter_size` is not odd.
        ShapeError: shapes differ, or images are smaller than the window.
    """
    if filter_size < 1 or filter_size % 2 == 0:
        raise InvalidArgumentError(
            f"ssim: filter_size must be an odd number above 0, got {filter_size}"
        )
    one, _ = batched(image1, data_format, "ssim")
    two, _ = batched(image2, data_format, "ssim")
    if tuple(one.shape) != tuple(two.shape) or min(spatial(one, "ssim")) < filter_size:
        raise ShapeError(
            f"ssim: two images of one shape, at least {filter_size} pixels high and wide, are "
            "needed; got "
            f"{tuple(as_tensor(image1).shape)} and {tuple(as_tensor(image2).shape)}"
        )
    weights = gauss(filter_size, filter_sigma)

    def local(x: Tensor) -> Tensor:
        return _slid(_slid(x, weights, 1), weights, 2)

    index, _ = similarity(computed(one), computed(two), local, max_val, k1, k2)
    scores = mean(index, axis=(1, 2, 3))
    return scores if len(as_tensor(image1).shape) == 4 else get_item(scores, 0)


def similarity(
    a: Tensor, b: Tensor, local: Callable[[Tensor], Tensor], max_val: float, k1: float, k2: float
) -> tuple[Tensor, Tensor]:
    """At each pixel the index of structural similarity, and its part for contrast and structure.

    Args:
        a: images.
        b: images of the same shape.
        local: gives the mean of an image around each pixel.
        max_val: the greatest value that a pixel can have.
        k1: share of `max_val` that steadies the comparison of brightness.
        k2: share of `max_val` that steadies that of contrast.
    """
    c1, c2 = (k1 * max_val) ** 2, (k2 * max_val) ** 2
    mean_a, mean_b = local(a), local(b)
    product, squares = multiply(mean_a, mean_b), add(square(mean_a), square(mean_b))
    covariance = subtract(local(multiply(a, b)), product)
    variances = subtract(local(add(square(a), square(b))), squares)
    brightness = divide(add(multiply(product, 2.0), c1), add(squares, c1))
    structure = divide(add(multiply(covariance, 2.0), c2), add(variances, c2))
    return multiply(brightness, structure), structure


# ------------------------------------------------------------------ elastic


@sizes_later("image.elastic_transform", _filter_later)
def elastic_transform(
    images: Any,
    alpha: Any = 20.0,
    sigma: Any = 5.0,
    interpolation: str = "bilinear",
    fill_mode: str = "reflect",
    fill_value: Any = 0.0,
    seed: Any = None,
    data_format: str | None = None,
) -> Tensor:
    """Images bent like rubber: each pixel is read at a place moved by smooth random distances.

    Source: Simard, Steinkraus and Platt 2003, ICDAR.

    Args:
        images: one image (height, width, channels) or a batch (batch, height, width, channels).
        alpha: how far pixels move.
        sigma: standard deviation in pixels of the bell curve that smooths the distances.
        interpolation: `"nearest"` or `"bilinear"`.
        fill_mode: what is outside, as in `affine_transform`.
        fill_value: the value outside, in mode `"constant"`.
        seed: an int, a generator, or `None` for the global generator.
        data_format: `"channels_last"` (the default) or `"channels_first"`.

    Returns:
        A tensor of the shape and dtype of `images`; integers are cut off.

    Raises:
        ValueError: a setting is unknown.
        InvalidArgumentError: `sigma` is not above 0.
        ShapeError: the rank is another one, or height or width are not known.
    """
    op = "elastic_transform"
    choice(op, "interpolation", interpolation, ("nearest", "bilinear"))
    choice(op, "fill_mode", fill_mode, _MODES)
    spread = _pair(sigma, "sigma", float, op)
    x, restore = batched(images, data_format, op)
    height, width = spatial(x, op)
    seed = along_batch(seed) if len(as_tensor(images).shape) == 4 else seed
    noise = normal((shape(x)[0], height, width, 2), seed=seed, dtype="float32")
    size = 2 * int(3 * spread[0]) + 1
    moves = multiply(_blur(multiply(noise, spread[0]), (size, size), spread), float(alpha))
    rows, columns = _grid(height, width, "float32")
    rows, columns = add(rows, get_item(moves, (..., 0))), add(columns, get_item(moves, (..., 1)))
    return restore(sampled(x, rows, columns, interpolation, fill_mode, fill_value))
