"""Random windows of images that show enough of an object, as ImageNet is trained with."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trainkit.core.dtypes import float32, int32
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import Seed, TensorLike
from trainkit.ops.core.dynamic_shapes import Bound, concrete, needs_values
from trainkit.ops.sampling.seeded_random import stateless_uniform, uniform

_DRAWS = 4
"""Numbers of [0, 1) that an attempt takes: for the aspect ratio, the height, top and left."""


class DistortedBox(NamedTuple):
    """A window of an image, by `sample_distorted_bounding_box`.

    Attributes:
        begin: (3,), top, left and 0: where `tk.slice` begins.
        size: (3,), height, width and -1: what `tk.slice` takes.
        bboxes: (1, 1, 4) float32, top, left, bottom and right as shares of the image, as
            `tk.image.draw_bounding_boxes` takes them.
    """

    begin: Tensor
    size: Tensor
    bboxes: Tensor


class _Limits(NamedTuple):
    """What a window has to meet."""

    covered: float
    aspect_ratios: tuple[float, float]
    areas: tuple[float, float]
    attempts: int
    image_for_no_boxes: bool


def _order(op: str, name: str, bounds: Any, default: tuple[float, float]) -> tuple[float, float]:
    low, high = default if bounds is None else (float(b) for b in bounds)
    if not 0 < low <= high:
        raise InvalidArgumentError(
            f"{op}: {name} ({low}, {high}) must be two numbers above 0, the smaller one first"
        )
    return low, high


def _limits(
    op: str, covered: Any, aspect_ratios: Any, areas: Any, attempts: Any, image_for_no_boxes: Any
) -> _Limits:
    share = float(covered)
    if not 0 <= share <= 1:
        raise InvalidArgumentError(f"{op}: min_object_covered {share} is not in [0, 1]")
    ratios = _order(op, "aspect_ratio_range", aspect_ratios, (0.75, 1.33))
    shares = _order(op, "area_range", areas, (0.05, 1.0))
    if shares[1] > 1:
        raise InvalidArgumentError(f"{op}: area_range {shares} ends above 1, the whole image")
    count = 100 if attempts is None else int(attempts)
    if count < 1:
        raise InvalidArgumentError(f"{op}: max_attempts must be 1 or more, got {count}")
    return _Limits(share, ratios, shares, count, bool(image_for_no_boxes))


def _attempt(height: int, width: int, limits: _Limits, chances: Any) -> tuple[int, ...] | None:
    """Top, left, bottom and right of one window, `None` where it cannot meet the ranges."""

    def choose(count: int, chance: float) -> int:
        return min(int(chance * count), count - 1)

    low, high = limits.aspect_ratios
    ratio = low + (high - low) * float(chances[0])
    smallest_area, largest_area = (share * height * width for share in limits.areas)
    tallest = round(math.sqrt(largest_area / ratio))
    if round(tallest * ratio) > width:
        tallest = int((width + 0.5) / ratio)
        tallest -= round(tallest * ratio) > width
    tallest = min(tallest, height)
    lowest = min(round(math.sqrt(smallest_area / ratio)), tallest)
    h = lowest + choose(tallest - lowest + 1, chances[1])
    # Whole pixels may leave the range of areas where the numbers before rounding did not.
    h += h * round(h * ratio) < smallest_area
    h -= h * round(h * ratio) > largest_area
    w = round(h * ratio)
    if not (0 < h <= height and 0 < w <= width and smallest_area <= h * w <= largest_area):
        return None
    top = choose(height - h + 1, chances[2])
    left = choose(width - w + 1, chances[3])
    return top, left, top + h, left + w


def _shows_an_object(window: tuple[int, ...], boxes: Any, covered: float) -> bool:
    """Whether `window` shows the share `covered` of one of `boxes` (n, 4), all in pixels."""
    low = np.maximum(boxes[:, :2], window[:2])
    high = np.minimum(boxes[:, 2:], window[2:])
    overlaps = np.maximum(high - low, 0).prod(axis=1)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    # A box of less than one pixel is no object.
    return bool(((area >= 1) & (overlaps >= covered * area)).any())


def _results(bound: Bound) -> tuple[Spec, ...]:
    dtype = getattr(bound["image_size"], "dtype", int32)
    return Spec((3,), dtype), Spec((3,), dtype), Spec((1, 1, 4), float32)


@needs_values("image_size", "bounding_boxes", "chances", gives=_results)
def _choose_window(
    op: str, image_size: Any, bounding_boxes: Any, chances: Any, limits: _Limits
) -> tuple[Tensor, Tensor, Tensor]:
    """The first window that `chances` (attempts, 4) lead to and that meets `limits`."""
    dims, boxes = concrete(image_size, op), concrete(bounding_boxes, op)
    if dims.shape != (3,) or dims.dtype.kind not in "iu":
        raise ShapeError(
            f"{op}: image_size must be three ints, height, width and channels, got "
            f"{dims.dtype.name} of shape {dims.shape}"
        )
    height, width = int(dims[0]), int(dims[1])
    if height < 1 or width < 1:
        raise InvalidArgumentError(f"{op}: an image of height {height} and width {width} is empty")
    if boxes.ndim != 3 or boxes.shape[2] != 4:
        raise ShapeError(
            f"{op}: bounding_boxes must have the shape (batch, boxes, 4), got {boxes.shape}; for "
            "none, use zeros of shape (1, 0, 4)"
        )
    boxes = boxes.reshape(-1, 4)
    if not ((boxes >= 0) & (boxes <= 1)).all():
        raise InvalidArgumentError(
            f"{op}: bounding_boxes must be shares of the image, in [0, 1]; got "
            f"{float(boxes.min()):g} to {float(boxes.max()):g}. Divide pixels by height and width"
        )
    if not len(boxes):
        if not limits.image_for_no_boxes:
            raise InvalidArgumentError(
                f"{op}: there are no bounding_boxes; use_image_if_no_bounding_boxes=True takes the "
                "whole image for one"
            )
        boxes = np.array([[0.0, 0.0, 1.0, 1.0]])
    scale = np.array([height, width, height, width])
    pixels = (boxes.astype(np.float64) * scale).astype(np.int64)
    window: tuple[int, ...] = (0, 0, height, width)
    for chance in concrete(chances, op):
        attempt = _attempt(height, width, limits, chance)
        if attempt is not None and _shows_an_object(attempt, pixels, limits.covered):
            window = attempt
            break
    top, left, bottom, right = window
    return (
        convert_to_tensor(np.array([top, left, 0], dims.dtype)),
        convert_to_tensor(np.array([bottom - top, right - left, -1], dims.dtype)),
        convert_to_tensor((np.array(window) / scale).astype(np.float32).reshape(1, 1, 4)),
    )


def _draw_window(
    op: str,
    image_size: Any,
    bounding_boxes: Any,
    draw: Callable[[tuple[int, int]], Tensor],
    *bounds: Any,
) -> DistortedBox:
    """A window from what `draw` gives for a shape; `bounds` are the arguments of `_limits`."""
    limits = _limits(op, *bounds)
    chances = draw((limits.attempts, _DRAWS))
    return DistortedBox(*_choose_window(op, image_size, bounding_boxes, chances, limits))


def sample_distorted_bounding_box(
    image_size: Any,
    bounding_boxes: Any,
    seed: Seed = 0,
    min_object_covered: float = 0.1,
    aspect_ratio_range: Any = None,
    area_range: Any = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> DistortedBox:
    """A random window of an image that shows enough of one of its objects.

    Windows are drawn until one meets all limits; where none of `max_attempts` does, the window is
    the whole image. Source: Szegedy et al. 2014, arXiv:1409.4842, section 6.

    Args:
        image_size: (3,) ints: height, width and channels.
        bounding_boxes: (batch, boxes, 4): top, left, bottom and right as shares of the image.
        seed: int; 0 draws from the process's generator.
        min_object_covered: the least share of one of the boxes that the window has to show; 0
            takes any window.
        aspect_ratio_range: least and largest width / height, (0.75, 1.33) by default.
        area_range: least and largest share of the image, (0.05, 1.0) by default.
        max_attempts: windows that are tried, 100 by default.
        use_image_if_no_bounding_boxes: whether the whole image is the box where there is none.

    Returns:
        `begin` and `size` for `tk.slice`, of the type of `image_size`, and `bboxes` (1, 1, 4) for
        `tk.image.draw_bounding_boxes`.

    Raises:
        InvalidArgumentError: a limit is out of range, boxes are outside of [0, 1], or there are
            none.
        ShapeError: the shapes do not fit.

    Example:
        >>> image = tk.ones((8, 8, 3))
        >>> box = tk.constant([[[0.0, 0.0, 1.0, 1.0]]])
        >>> begin, size, _ = tk.image.sample_distorted_bounding_box(tk.shape(image), box, seed=1)
        >>> tk.slice(image, begin, size).shape[-1]
        3
    """
    return _draw_window(
        "sample_distorted_bounding_box",
        image_size,
        bounding_boxes,
        lambda shape: uniform(shape, 0.0, 1.0, seed=seed or None),
        min_object_covered,
        aspect_ratio_range,
        area_range,
        max_attempts,
        use_image_if_no_bounding_boxes,
    )


def stateless_sample_distorted_bounding_box(
    image_size: Any,
    bounding_boxes: Any,
    seed: TensorLike,
    min_object_covered: float = 0.1,
    aspect_ratio_range: Any = None,
    area_range: Any = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> DistortedBox:
    """As `sample_distorted_bounding_box`, from a seed (2,): the same seed gives the same window.

    Args:
        image_size: (3,) ints: height, width and channels.
        bounding_boxes: (batch, boxes, 4): top, left, bottom and right as shares of the image.
        seed: two ints, or a tensor (2,).
        min_object_covered: the least share of one of the boxes that the window has to show.
        aspect_ratio_range: least and largest width / height, (0.75, 1.33) by default.
        area_range: least and largest share of the image, (0.05, 1.0) by default.
        max_attempts: windows that are tried, 100 by default.
        use_image_if_no_bounding_boxes: whether the whole image is the box where there is none.

    Raises:
        InvalidArgumentError: a limit is out of range, boxes are outside of [0, 1], or there are
            none.
        ShapeError: the shapes do not fit.

    Example:
        >>> box = tk.constant([[[0.2, 0.2, 0.8, 0.8]]])
        >>> tk.image.stateless_sample_distorted_bounding_box((40, 60, 3), box, (1, 2)).size.shape
        TensorShape([3])
    """
    return _draw_window(
        "stateless_sample_distorted_bounding_box",
        image_size,
        bounding_boxes,
        lambda shape: stateless_uniform(shape, seed, 0.0, 1.0),
        min_object_covered,
        aspect_ratio_range,
        area_range,
        max_attempts,
        use_image_if_no_bounding_boxes,
    )
