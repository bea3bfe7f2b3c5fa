"""Random changes of images, from the process's generator or from a seed of two numbers.

A `random_` function draws anew at each call; its `stateless_random_` twin gives the same result for
the same seed (2,).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.docstrings import describe_arguments
from trainkit.core.values.type_aliases import Seed, TensorLike
from trainkit.ops.arrays.conversion import convert_to_tensor as convert_to_tensor_
from trainkit.ops.arrays.pad_and_roll import flip
from trainkit.ops.arrays.shaping import shape as shape_
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.core.dynamic_shapes import is_later
from trainkit.ops.core.run_time_checks import assert_true
from trainkit.ops.core.slices import slice as slice_
from trainkit.ops.images.color_adjustments import (
    adjust_brightness,
    adjust_contrast,
    adjust_hue,
    adjust_saturation,
)
from trainkit.ops.indexing.dynamic_slice import slice as block
from trainkit.ops.math.comparisons import greater, less
from trainkit.ops.math.elementwise import add, cast, minimum, multiply, subtract, where
from trainkit.ops.math.predicates import all as all_
from trainkit.ops.math.rounding import floor
from trainkit.ops.sampling.seeded_random import stateless_uniform, uniform

Draw = Callable[[Any, Any, Any], Tensor]


def _stateful(seed: Any) -> Draw:
    return lambda shape, low, high: uniform(shape, low, high, seed=seed)


def _stateless(seed: Any) -> Draw:
    return lambda shape, low, high: stateless_uniform(shape, seed, low, high)


def _brightness(image: Any, max_delta: float, draw: Draw) -> Tensor:
    if max_delta < 0:
        raise ValueError(f"random_brightness: max_delta must be 0 or above, got {max_delta}")
    return adjust_brightness(image, draw((), -max_delta, max_delta))


def random_brightness(image: TensorLike, max_delta: float, seed: Seed | None = None) -> Tensor:
    """A number of [-max_delta, max_delta) added, the same to all pixels.

    Raises:
        ValueError: `max_delta` is negative.

    Example:
        >>> tk.image.random_brightness(tk.ones((4, 4, 3)), 0.2, seed=1).shape
        TensorShape([4, 4, 3])
    """
    return _brightness(image, max_delta, _stateful(seed))


def stateless_random_brightness(image: TensorLike, max_delta: float, seed: TensorLike) -> Tensor:
    """As `random_brightness`, from a seed (2,).

    Args:
        seed: two ints, or a tensor (2,).

    Example:
        >>> tk.image.stateless_random_brightness(tk.ones((4, 4, 3)), 0.2, seed=(1, 2)).shape
        TensorShape([4, 4, 3])
    """
    return _brightness(image, max_delta, _stateless(seed))


def _factor(op: str, lower: float, upper: float, draw: Draw) -> Tensor:
    if lower < 0 or upper <= lower:
        raise ValueError(f"{op}: needs 0 <= lower < upper, got lower {lower} and upper {upper}")
    return draw((), lower, upper)


def random_contrast(
    image: TensorLike, lower: float, upper: float, seed: Seed | None = None
) -> Tensor:
    """`adjust_contrast` by a factor of [lower, upper).

    Raises:
        ValueError: not 0 <= lower < upper.

    Example:
        >>> tk.image.random_contrast(tk.ones((4, 4, 3)), 0.5, 1.5, seed=1).shape
        TensorShape([4, 4, 3])
    """
    return adjust_contrast(image, _factor("random_contrast", lower, upper, _stateful(seed)))


def stateless_random_contrast(
    image: TensorLike, lower: float, upper: float, seed: TensorLike
) -> Tensor:
    """As `random_contrast`, from a seed (2,).

    Args:
        seed: two ints, or a tensor (2,).

    Example:
        >>> tk.image.stateless_random_contrast(tk.ones((4, 4, 3)), 0.5, 1.5, seed=(1, 2)).shape
        TensorShape([4, 4, 3])
    """
    factor = _factor("stateless_random_contrast", lower, upper, _stateless(seed))
    return adjust_contrast(image, factor)


def random_saturation(
    image: TensorLike, lower: float, upper: float, seed: Seed | None = None
) -> Tensor:
    """`adjust_saturation` by a factor of [lower, upper).

    Raises:
        ValueError: not 0 <= lower < upper.

    Example:
        >>> tk.image.random_saturation(tk.ones((4, 4, 3)), 0.5, 1.5, seed=1).shape
        TensorShape([4, 4, 3])
    """
    return adjust_saturation(image, _factor("random_saturation", lower, upper, _stateful(seed)))


def stateless_random_saturation(
    image: TensorLike, lower: float, upper: float, seed: TensorLike
) -> Tensor:
    """As `random_saturation`, from a seed (2,).

    Args:
        seed: two ints, or a tensor (2,).

    Example:
        >>> tk.image.stateless_random_saturation(tk.ones((4, 4, 3)), 0.5, 1.5, seed=(1, 2)).shape
        TensorShape([4, 4, 3])
    """
    factor = _factor("stateless_random_saturation", lower, upper, _stateless(seed))
    return adjust_saturation(image, factor)


def _hue(image: Any, max_delta: float, draw: Draw) -> Tensor:
    if not 0 <= max_delta <= 0.5:
        raise ValueError(f"random_hue: max_delta {max_delta} is not in [0, 0.5]")
    return adjust_hue(image, draw((), -max_delta, max_delta))


def random_hue(image: TensorLike, max_delta: float, seed: Seed | None = None) -> Tensor:
    """`adjust_hue` by a number of [-max_delta, max_delta).

    Raises:
        ValueError: `max_delta` is outside of [0, 0.5].

    Example:
        >>> tk.image.random_hue(tk.ones((4, 4, 3)), 0.1, seed=1).shape
        TensorShape([4, 4, 3])
    """
    return _hue(image, max_delta, _stateful(seed))


def stateless_random_hue(image: TensorLike, max_delta: float, seed: TensorLike) -> Tensor:
    """As `random_hue`, from a seed (2,).

    Args:
        seed: two ints, or a tensor (2,).

    Example:
        >>> tk.image.stateless_random_hue(tk.ones((4, 4, 3)), 0.1, seed=(1, 2)).shape
        TensorShape([4, 4, 3])
    """
    return _hue(image, max_delta, _stateless(seed))


def _flip(image: Any, axis: int, draw: Draw) -> Tensor:
    """Each image of a batch mirrored with probability 1/2."""
    x = convert_to_tensor(image)
    rank = len(x.shape)
    if rank not in (3, 4):
        raise InvalidArgumentError(
            "random_flip: needs (height, width, channels) or a batch of them, got shape "
            f"{tuple(x.shape)}"
        )
    chance = draw((), 0.0, 1.0) if rank == 3 else draw((shape_(x)[0], 1, 1, 1), 0.0, 1.0)
    return where(less(chance, 0.5), flip(x, axis), x)


def random_flip_left_right(image: TensorLike, seed: Seed | None = None) -> Tensor:
    """Mirrored along the width with probability 1/2, each image of a batch by itself.

    Example:
        >>> tk.image.random_flip_left_right(tk.ones((4, 4, 3)), seed=1).shape
        TensorShape([4, 4, 3])
    """
    return _flip(image, -2, _stateful(seed))


def stateless_random_flip_left_right(image: TensorLike, seed: TensorLike) -> Tensor:
    """As `random_flip_left_right`, from a seed (2,).

    Args:
        seed: two ints, or a tensor (2,).

    Example:
        >>> tk.image.stateless_random_flip_left_right(tk.ones((4, 4, 3)), seed=(1, 2)).shape
        TensorShape([4, 4, 3])
    """
    return _flip(image, -2, _stateless(seed))


def random_flip_up_down(image: TensorLike, seed: Seed | None = None) -> Tensor:
    """Mirrored along the height with probability 1/2, each image of a batch by itself.

    Example:
        >>> tk.image.random_flip_up_down(tk.ones((4, 4, 3)), seed=1).shape
        TensorShape([4, 4, 3])
    """
    return _flip(image, -3, _stateful(seed))


def stateless_random_flip_up_down(image: TensorLike, seed: TensorLike) -> Tensor:
    """As `random_flip_up_down`, from a seed (2,).

    Args:
        seed: two ints, or a tensor (2,).

    Example:
        >>> tk.image.stateless_random_flip_up_down(tk.ones((4, 4, 3)), seed=(1, 2)).shape
        TensorShape([4, 4, 3])
    """
    return _flip(image, -3, _stateless(seed))


def _crop(value: Any, size: Any, draw: Draw) -> Tensor:
    x = convert_to_tensor(value)
    if is_later(size) or None in tuple(x.shape):
        part = _crop_later(x, convert_to_tensor(size), draw)
        if isinstance(size, list | tuple):
            part.set_shape([None if is_later(n) else int(plain(n)) for n in size])
        return part
    sizes = tuple(plain(size))
    if len(sizes) != len(x.shape) or any(n > have for n, have in zip(sizes, x.shape, strict=True)):
        raise InvalidArgumentError(
            f"random_crop: size {sizes} must have a number for each axis of shape "
            f"{tuple(x.shape)}, none of them larger"
        )
    room = [have - n + 1 for n, have in zip(sizes, x.shape, strict=True)]
    chances = multiply(draw((len(sizes),), 0.0, 1.0), cast(room, "float32"))
    start = minimum(cast(floor(chances), "int32"), subtract(room, 1))
    return block(x, start, sizes)


def _crop_later(x: Tensor, size: Tensor, draw: Draw) -> Tensor:
    """The part where `size` is known only when the graph runs."""
    have = convert_to_tensor_(shape_(x), "int32")
    room = add(subtract(have, size), 1)
    assert_true(all_(greater(room, 0)), have, size, message="random_crop: the size does not fit")
    chances = multiply(draw((len(x.shape),), 0.0, 1.0), cast(room, "float32"))
    start = minimum(cast(floor(chances), "int32"), subtract(room, 1))
    return slice_(x, start, size)


def random_crop(
    value: TensorLike, size: Any, seed: Seed | None = None, name: str | None = None
) -> Tensor:
    """A part of the shape `size`, all places equally likely.

    Args:
        value: tensor.
        size: a number for each axis.

    Raises:
        InvalidArgumentError: `size` does not fit.

    Example:
        >>> tk.image.random_crop(tk.ones((8, 8, 3)), (4, 4, 3), seed=1).shape
        TensorShape([4, 4, 3])
    """
    return _crop(value, size, _stateful(seed))


def stateless_random_crop(
    value: TensorLike, size: Any, seed: TensorLike, name: str | None = None
) -> Tensor:
    """As `random_crop`, from a seed (2,).

    Args:
        value: tensor.
        size: a number for each axis.
        seed: two ints, or a tensor (2,).

    Example:
        >>> tk.image.stateless_random_crop(tk.ones((8, 8, 3)), (4, 4, 3), seed=(1, 2)).shape
        TensorShape([4, 4, 3])
    """
    return _crop(value, size, _stateless(seed))


describe_arguments(
    globals(),
    """
    image: (height, width, channels) or a batch of them.
    max_delta: the greatest change.
    seed: int, or `None` for the process's generator.
    lower: least factor, 0 or above.
    upper: factor that is not reached.
    """,
)
