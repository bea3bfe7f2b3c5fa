"""Keeping gradients in bounds: by value, by the length of each, or by the length of all together.

The first three functions work on tensors; optimizers use the factors below on arrays and tensors
alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from trainkit import ops
from trainkit.core.tensor import Tensor, convert_to_tensor

Gradients = list[Tensor | None]


def _check_bound(name: str, value: Any) -> None:
    if isinstance(value, int | float) and not value > 0:
        raise ValueError(f"{name} must be above 0, got {value}")


def clip_factor(xp: Any, norm: Any, bound: float) -> Any:
    """What shrinks something of length `norm` to `bound`: 1 where it is short enough."""
    return bound / xp.maximum(norm, bound)


def square_sum(xp: Any, x: Any) -> Any:
    """Sum of the squared elements, a scalar."""
    return xp.sum(xp.square(x))


def joint_norm(xp: Any, values: Sequence[Any]) -> Any:
    """Euclidean length of all elements of all values together."""
    total = square_sum(xp, values[0])
    for x in values[1:]:
        total = total + square_sum(xp, x)
    return xp.sqrt(total)


def global_norm(t_list: Iterable[Any]) -> Tensor:
    """Euclidean length of all tensors together, sqrt(sum of x**2).

    Args:
        t_list: tensors of any shapes; `None` counts as zeros.

    Returns:
        A scalar; 0 when there is no tensor.
    """
    present = [convert_to_tensor(x) for x in t_list if x is not None]
    return joint_norm(ops, present) if present else convert_to_tensor(0.0)


def clip_by_global_norm(
    t_list: Iterable[Any], clip_norm: Any, use_norm: Any = None
) -> tuple[Gradients, Tensor]:
    """Shrink gradients together so that their joint length is at most `clip_norm`.

    n = sqrt(sum of g**2 over all gradients and elements), result = g * clip_norm / max(n,
    clip_norm)
    Source: Pascanu, Mikolov and Bengio 2013, arXiv:1211.5063, algorithm 1.

    Args:
        t_list: tensors of any shapes; `None`, for a weight the loss does not reach, passes through.
        clip_norm: largest length allowed, above 0, in the unit of the gradients.
        use_norm: the joint length, when it is known already.

    Returns:
        The gradients, shapes and dtypes unchanged, and n before clipping, a scalar.

    Raises:
        ValueError: `clip_norm` is 0 or less.
    """
    _check_bound("clip_by_global_norm: clip_norm", clip_norm)
    grads = [None if g is None else convert_to_tensor(g) for g in t_list]
    norm = global_norm(grads) if use_norm is None else convert_to_tensor(use_norm)
    factor = clip_factor(ops, norm, clip_norm)
    return [None if g is None else g * ops.cast(factor, g.dtype) for g in grads], norm


def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None) -> Tensor:
    """Shrink a tensor so that its length is at most `clip_norm`.

    Args:
        t: tensor of any shape.
        clip_norm: largest length allowed, above 0.
        axes: int or ints along which lengths are taken; all elements together by default.

    Returns:
        A tensor like `t`.

    Raises:
        ValueError: `clip_norm` is 0 or less.
    """
    _check_bound("clip_by_norm: clip_norm", clip_norm)
    x = convert_to_tensor(t)
    norm = ops.sqrt(ops.sum(ops.square(x), axis=axes, keepdims=axes is not None))
    return x * clip_factor(ops, norm, clip_norm)


def clip_gradients(xp: Any, grads: list[Any], limits: ClipLimits) -> list[Any]:
    """Gradients within `limits`, as arrays of `xp`, or as tensors when `xp` is the operations."""
    if limits.value is not None:
        return [xp.clip(g, -limits.value, limits.value) for g in grads]
    if limits.norm is not None:
        norms = [xp.sqrt(square_sum(xp, g)) for g in grads]
        return [g * clip_factor(xp, n, limits.norm) for g, n in zip(grads, norms, strict=True)]
    if limits.global_norm is not None:
        factor = clip_factor(xp, joint_norm(xp, grads), limits.global_norm)
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
            if not isinstance(bound, int | float):
                raise TypeError(f"{name} must be a number, got {bound!r}")
            _check_bound(name, bound)
        self.norm = norm
        self.value = value
        self.global_norm = global_norm

    def __bool__(self) -> bool:
        return not (self.norm is None and self.value is None and self.global_norm is None)
