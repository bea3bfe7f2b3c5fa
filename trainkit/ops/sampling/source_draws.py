"""Distributions drawn from a source: a generator, or a state that stays where it is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import dtypes
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.values.type_aliases import DTypeLike, Shape
from trainkit.ops.core.dynamic_shapes import is_later
from trainkit.ops.math.comparisons import greater_equal, less, logical_or
from trainkit.ops.math.elementwise import add, cast, minimum, multiply, where
from trainkit.ops.math.rounding import nextafter
from trainkit.ops.sampling import philox
from trainkit.ops.sampling.batch_rows import rows_for

_NUMBER = int | float  # made once: each call would make it anew
_FLOATS = frozenset(d.name for d in dtypes.ALL if d.is_floating)


class DrawSource:
    """What draws numbers: a generator, or a state that stays where it is."""

    def draw(self, primitive: Callable[..., Any], shape: Shape, **settings: Any) -> Tensor:
        """What a primitive of `ops.sampling.philox` gives."""
        raise NotImplementedError


def integer_type(dtype: Any) -> dtypes.DType:
    """The integer type `dtype`.

    Raises:
        InvalidArgumentError: it is no integer type.
    """
    integer_dtype = dtypes.as_dtype(dtype)
    if not integer_dtype.is_integer:
        raise InvalidArgumentError(
            f"random integers need an integer dtype, got {integer_dtype.name}"
        )
    return integer_dtype


def float_type(dtype: Any, name: str) -> str:
    """The name of the floating type `dtype`; the default float for `None`.

    Raises:
        InvalidArgumentError: it is no floating type.
    """
    if dtype is None:
        return dtypes.floatx()
    if type(dtype) is str and dtype in _FLOATS:
        return dtype
    float_dtype = dtypes.as_dtype(dtype or dtypes.floatx())
    if not float_dtype.is_floating:
        raise InvalidArgumentError(
            f"random.{name} gives floats; dtype {float_dtype.name} is not supported"
        )
    return float_dtype.name


def normal(
    source: DrawSource, shape: Shape, mean: Any, stddev: Any, dtype: DTypeLike | None
) -> Tensor:
    """Draws of the normal distribution; see `random.normal`."""
    unit = source.draw(philox.philox_normal, shape, dtype=float_type(dtype, "normal"))
    return _scale(unit, mean, stddev)


def truncated_normal(
    source: DrawSource, shape: Shape, mean: Any, stddev: Any, dtype: DTypeLike | None
) -> Tensor:
    """Draws within two standard deviations of the mean; see `random.truncated_normal`."""
    name = float_type(dtype, "truncated_normal")
    return _scale(source.draw(philox.philox_truncated_normal, shape, dtype=name), mean, stddev)


def _scale(unit: Tensor, offset: Any, scale: Any) -> Tensor:
    """`unit * scale + offset`, leaving out what changes nothing."""
    if not (isinstance(scale, _NUMBER) and scale == 1):
        unit = multiply(unit, _like(scale, unit))
    if not (isinstance(offset, _NUMBER) and offset == 0):
        unit = add(unit, _like(offset, unit))
    return unit


def _like(value: Any, tensor: Tensor) -> Any:
    if isinstance(value, _NUMBER):
        return value
    return cast(convert_to_tensor(value), tensor.dtype)


def uniform(
    source: DrawSource, shape: Shape, minval: Any, maxval: Any, dtype: DTypeLike | None
) -> Tensor:
    """Numbers in [minval, maxval); see `random.uniform`."""
    dtype_name = float_type(dtype, "uniform")
    if isinstance(minval, _NUMBER) and isinstance(maxval, _NUMBER):
        if dtype_name in ("float32", "float64"):
            # With the draw: a pass over a large weight takes as long as that, new memory longer.
            scale, offset, last = _bounds(minval, maxval, dtype_name)
            scaled = source.draw(
                philox.philox_uniform, shape, dtype=dtype_name, scale=scale, offset=offset
            )
        else:
            unit = source.draw(philox.philox_uniform, shape, dtype=dtype_name)
            scaled = _scale(unit, minval, maxval - minval)
            last = _last_below(minval, maxval, dtype_name)
        return scaled if last is None else minimum(scaled, last)
    unit = source.draw(philox.philox_uniform, shape, dtype=dtype_name)
    low, high = _like(minval, unit), _like(maxval, unit)
    scaled = add(multiply(unit, high - low), low)
    is_inside = logical_or(less(scaled, high), greater_equal(low, high))
    inside: Tensor = where(is_inside, scaled, nextafter(high, low))
    return inside


@functools.lru_cache(256)
def _bounds(minval: float, maxval: float, dtype_name: str) -> tuple[float, float, float | None]:
    """What draws are multiplied by, what is added to them, and what `_last_below` gives."""
    return float(maxval - minval), float(minval), _last_below(minval, maxval, dtype_name)


@functools.lru_cache(256)
def _last_below(minval: float, maxval: float, dtype_name: str) -> float | None:
    """The number before `maxval`, where rounding lifts draws to that one; `None` elsewhere."""
    kind = dtypes.as_dtype(dtype_name).dtype.type
    low, bound, largest = kind(minval), kind(maxval), np.nextafter(kind(1), kind(0))
    width = kind(maxval - minval)
    # A graph rounds short floats once, at the end, and single operations after each step.
    ends = largest * width + low, kind(float(largest) * float(width) + float(low))
    return float(np.nextafter(bound, low)) if low < bound <= max(ends) else None


def integers(
    source: DrawSource, shape: Shape, minval: Any, maxval: Any, dtype: DTypeLike
) -> Tensor:
    """Integers in [minval, maxval); see `random.randint`."""
    integer_dtype = integer_type(dtype)
    if maxval is None:
        raise InvalidArgumentError(
            f"random integers ({integer_dtype.name}) need maxval, which they stay below"
        )
    if type(minval) is int and type(maxval) is int:
        low, high = minval, maxval
    elif is_later((minval, maxval)) or any(map(_is_on_gpu, (minval, maxval))):
        return _integers_between(source, shape, minval, maxval, integer_dtype)
    else:
        low, high = int(minval), int(maxval)
    philox.check_range(low, high, integer_dtype)
    return source.draw(philox.philox_integers, shape, dtype=integer_dtype.name, low=low, high=high)


def _is_on_gpu(bound: Any) -> bool:
    if not is_tensor(bound):
        return False
    array = convert_to_tensor(bound)._array
    return not isinstance(array, np.ndarray | np.generic)


def _integers_between(
    source: DrawSource, shape: Any, minval: Any, maxval: Any, dtype: dtypes.DType
) -> Tensor:
    """Whole numbers between bounds that the host does not know."""
    low, high = (convert_to_tensor(bound) for bound in (minval, maxval))
    further: dict[str, Any] = {"rows": rows} if (rows := rows_for(shape)) is not None else {}

    def between(state: Any, *sizes: Any, **settings: Any) -> Any:
        return philox.philox_integers_between(state, low, high, *sizes, **settings, **further)

    return source.draw(between, shape, dtype=dtype.name)


def mask(source: DrawSource, shape: Shape, rate: float, scale: float, dtype: Any) -> Tensor:
    """0 with probability `rate`, else `scale`; see `random.bernoulli_mask`."""
    name = float_type(dtype, "bernoulli_mask")
    return source.draw(philox.philox_mask, shape, dtype=name, rate=float(rate), scale=float(scale))
