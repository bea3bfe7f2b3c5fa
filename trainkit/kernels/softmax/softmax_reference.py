"""Softmax and its logarithm over `xp`: what operations and losses run, and graphs trace."""

from __future__ import annotations

from typing import Any

Array = Any


def shifted_powers(xp: Any, x: Array, axis: Any = -1) -> tuple[Array, Array]:
    """(x less its maximum, exp of that), along axes."""
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted, xp.exp(shifted)


def softmax(xp: Any, x: Array, axis: Any = -1) -> Array:
    """exp(x) over its sum along axes."""
    powers = xp.exp(x - x.max(axis=axis, keepdims=True))
    powers /= powers.sum(axis=axis, keepdims=True)
    return powers


def log_softmax(xp: Any, x: Array, axis: Any = -1) -> Array:
    """`x` less the logarithm of the sum of exponentials along axes."""
    shifted, powers = shifted_powers(xp, x, axis)
    shifted -= xp.log(powers.sum(axis=axis, keepdims=True))
    return shifted
