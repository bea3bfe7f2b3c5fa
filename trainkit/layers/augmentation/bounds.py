"""Arguments of these layers: ranges to draw from, ranges of values, shares."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError


def limits(
    layer: Any,
    name: str,
    value: Any,
    minimum: float = -1.0,
    maximum: float = 1.0,
    single_from: float | None = None,
) -> tuple[float, float]:
    """The range (low, high) that a setting of a layer stands for.

    Args:
        layer: the layer, for errors.
        name: of the setting.
        value: a number f, which stands for (-|f|, |f|) cut off at `minimum`; or two numbers in any
            order.
        minimum: the smallest number allowed.
        maximum: the greatest number allowed.
        single_from: where the range of a single number begins, in place of -|f|.

    Raises:
        InvalidArgumentError: it is neither, or outside of [minimum, maximum].
    """
    pair = _pair(value)
    if pair is None or not all(minimum <= f <= maximum for f in pair):
        raise InvalidArgumentError(
            f"{type(layer).__name__}: {name} must be a number or a pair of numbers within "
            f"[{minimum}, {maximum}], got {value!r}"
        )
    if len(pair) == 2:
        return min(pair), max(pair)
    high = abs(pair[0])
    return (max(-high, minimum) if single_from is None else single_from), high


def _pair(value: Any) -> tuple[Any, ...] | None:
    """The one or two numbers of a setting, `None` if it is something else."""
    numbers = tuple(value) if isinstance(value, list | tuple) and len(value) == 2 else (value,)
    fits = all(isinstance(f, int | float) and not isinstance(f, bool) for f in numbers)
    return numbers if fits else None


def value_range_of(layer: Any, value_range: Any) -> tuple[float, float]:
    """The least and the greatest value of a pixel.

    Raises:
        InvalidArgumentError: it is no list of two numbers, or both are equal.
    """
    pair = _pair(value_range)
    if pair is None or len(pair) != 2 or pair[0] == pair[1]:
        raise InvalidArgumentError(
            f"{type(layer).__name__}: value_range must be two numbers, the least and the greatest "
            f"value of a pixel, got {value_range!r}"
        )
    return min(pair), max(pair)


def rescaled(images: Any, source: tuple[float, float], target: tuple[float, float]) -> Any:
    """Images in one range of values brought into another; floats."""
    if tuple(source) == tuple(target):
        return images
    shares = (images - source[0]) / (source[1] - source[0])
    return shares * (target[1] - target[0]) + target[0]


def clipped(images: Any, value_range: tuple[float, float]) -> Any:
    """Images cut off at the least and the greatest value."""
    return ops.clip(images, *value_range)
