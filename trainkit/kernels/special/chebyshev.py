"""Chebyshev series at the elements of an array, and the parts of functions made of several."""

from __future__ import annotations

from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch import native
from trainkit.core.dispatch.eager import with_tuned
from trainkit.core.dispatch.facets import Tuned


def _series_at(xp: ArrayModule, coefficients: tuple[float, ...], t: Array) -> Array:
    """The Chebyshev series at `t` in [-1, 1] by Clenshaw's recurrence."""
    twice = 2 * t
    one = two = 0 * t
    for c in reversed(coefficients[1:]):
        one, two = twice * one - two + c, one
    return t * one - two + coefficients[0]


series_at = with_tuned(_series_at, Tuned(native.series, exact=True, of=1))


def series_between(
    xp: ArrayModule, coefficients: tuple[float, ...], low: float, high: float, x: Array
) -> Array:
    """The series of a function on [low, high] at `x`, which is in there."""
    return series_at(xp, coefficients, (2 * x - (low + high)) / (high - low))


def log_above_zero(xp: ArrayModule, x: Array) -> Array:
    """log(x), that of the least number for 0, so that a product with 0 is 0."""
    return xp.log(xp.maximum(x, xp.finfo(x.dtype).tiny))
