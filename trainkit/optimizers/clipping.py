"""Keeping gradients in bounds: by value, by the length of each, or by the length of all together.

Optimizers use these functions on arrays and on tensors alike; TensorFlow's own are `tf.clipping`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def check_bound(name: str, value: Any) -> None:
    """Raise ValueError for a number that is 0 or less; what a tensor holds is not looked at."""
    if isinstance(value, int | float | np.number) and not value > 0:
        raise ValueError(f"{name} must be above 0, got {value}")


def clip_factor(xp: Any, norm: Any, bound: float) -> Any:
    """What shrinks something of length `norm` to `bound`: 1 where it is short enough."""
    return bound / xp.maximum(norm, bound)


def joint_clip_factor(xp: Any, norm: Any, bound: float) -> Any:
    """`clip_factor` for all gradients together; NaN where the joint length is not finite.

    Otherwise one infinite gradient would turn all others into zeros, unseen.
    """
    factor = clip_factor(xp, norm, bound)
    return xp.where(xp.isfinite(norm), factor, xp.full_like(factor, float("nan")))


def square_sum(xp: Any, x: Any) -> Any:
    """Sum of the squared elements, a scalar."""
    return xp.sum(xp.square(x))


def joint_norm(xp: Any, values: Sequence[Any]) -> Any:
    """Euclidean length of all elements of all values together."""
    total = square_sum(xp, values[0])
    for x in values[1:]:
        total = total + square_sum(xp, x)
    return xp.sqrt(total)


def clip_gradients(xp: Any, grads: list[Any], limits: ClipLimits) -> list[Any]:
    """Gradients within `limits`, as arrays of `xp`, or as tensors when `xp` is the operations."""
    if limits.value is not None:
        return [xp.clip(g, -limits.value, limits.value) for g in grads]
    if limits.norm is not None:
        norms = [xp.sqrt(square_sum(xp, g)) for g in grads]
        return [g * clip_factor(xp, n, limits.norm) for g, n in zip(grads, norms, strict=True)]
    if limits.global_norm is not None:
        factor = joint_clip_factor(xp, joint_norm(xp, grads), limits.global_norm)
        return [g * factor for g in grads]
    return grads


class ClipLimits:
    """At most one way to clip, with its bound.

    Args:
        norm: largest length of each gradient.
        value: largest absolute value of an element.
        global_norm: largest length of all gradients together.

    Raises:
        ValueError: more than one is given, or a bound is 0 or less.
    """

    def __init__(self, norm: Any, value: Any, global_norm: Any) -> None:
        given = {"clipnorm": norm, "clipvalue": value, "global_clipnorm": global_norm}
        given = {name: bound for name, bound in given.items() if bound is not None}
        if len(given) > 1:
            shown = ", ".join(f"{name}={bound}" for name, bound in given.items())
            raise ValueError(
                f"only one of clipnorm, clipvalue and global_clipnorm can be set, got {shown}"
            )
        for name, bound in given.items():
            if isinstance(bound, bool) or not isinstance(bound, int | float | np.number):
                raise TypeError(f"{name} must be a number, got {bound!r}")
            check_bound(name, bound)
        self.norm = norm
        self.value = value
        self.global_norm = global_norm

    def __bool__(self) -> bool:
        return not (self.norm is None and self.value is None and self.global_norm is None)
