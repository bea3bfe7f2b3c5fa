"""Clipping of values and gradients, under TensorFlow's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit import ops
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.optimizers.clipping import check_bound, joint_clip_factor
from trainkit.tf.arrays import plain
from trainkit.tf.linalg import global_norm


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: Any = None) -> Tensor:
    """`t` with values outside of the bounds replaced by the nearer one; gradient 0 there."""
    return ops.clip(t, clip_value_min, clip_value_max)


def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: Any = None) -> Tensor:
    """`t * clip_norm / max(|t|, clip_norm)`, the length |t| taken over `axes` (all by default).

    Args:
        t: tensor of any shape.
        clip_norm: largest length allowed, above 0.
        axes: int or ints along which lengths are taken.
        name: not kept.

    Returns:
        A tensor like `t`. Its gradient is that of `t` where `t` is 0.

    Raises:
        ValueError: `clip_norm` is a number that is 0 or less.
    """
    check_bound("clip_by_norm: clip_norm", clip_norm)
    t = convert_to_tensor(t)
    squares = ops.sum(ops.square(t), axis=plain(axes), keepdims=True)
    some = ops.greater(squares, 0)
    length = ops.where(some, ops.sqrt(ops.where(some, squares, ops.ones_like(squares))), squares)
    clip_norm = ops.cast(clip_norm, t.dtype)
    return ops.divide(ops.multiply(t, clip_norm), ops.maximum(length, clip_norm))


def clip_by_average_norm(t: Any, clip_norm: Any, name: Any = None) -> Tensor:
    """`t` shrunk so that |t| / elements is at most `clip_norm`, which is above 0."""
    check_bound("clip_by_average_norm: clip_norm", clip_norm)
    t = convert_to_tensor(t)
    size = ops.cast(ops.size(t), t.dtype)
    return clip_by_norm(t, ops.multiply(clip_norm, size))


def clip_by_global_norm(
    t_list: Sequence[Any], clip_norm: Any, use_norm: Any = None, name: Any = None
) -> tuple[list[Any], Tensor]:
    """Shrink tensors together so that their joint length is at most `clip_norm`.

    n = sqrt(sum of t**2 over all tensors and elements), result = t * clip_norm / max(n, clip_norm)
    Source: Pascanu, Mikolov and Bengio 2013, arXiv:1211.5063, algorithm 1.

    Args:
        t_list: tensors of any shapes; `None`, for a weight without a gradient, passes through.
        clip_norm: largest length allowed, above 0.
        use_norm: n, if it is known.
        name: not kept.

    Returns:
        The tensors, shapes and dtypes unchanged, and n before clipping, a scalar. All are NaN
        where n is not finite.

    Raises:
        ValueError: `clip_norm` is a number that is 0 or less.
    """
    check_bound("clip_by_global_norm: clip_norm", clip_norm)
    tensors = [None if t is None else convert_to_tensor(t) for t in t_list]
    length = global_norm(tensors) if use_norm is None else convert_to_tensor(use_norm)
    factor = joint_clip_factor(ops, length, clip_norm)
    clipped = [None if t is None else ops.multiply(t, ops.cast(factor, t.dtype)) for t in tensors]
    return clipped, length
