"""Tensors kept within a length: each by itself, its rows, or all of them together.

What takes `xp` works on arrays and on tensors alike: `xp` is NumPy, CuPy or the operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import Axis, TensorLike
from trainkit.ops.arrays.concat_and_split import concatenate as _concat
from trainkit.ops.arrays.creation import ones_like
from trainkit.ops.arrays.shaping import size as size_
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.core.batch_gathering import gather as _gather
from trainkit.ops.math.comparisons import greater
from trainkit.ops.math.elementwise import (
    cast,
    divide,
    maximum,
    minimum,
    multiply,
    sqrt,
    square,
    where,
)
from trainkit.ops.math.reductions import sum as sum_


def check_bound(name: str, value: Any) -> None:
    """Raise ValueError for a number that is 0 or less; what a tensor holds is not looked at.

    Args:
        name: what the error calls it.
        value: a number; anything else passes.
    """
    if isinstance(value, int | float | np.number) and not value > 0:
        raise ValueError(f"{name} must be above 0, got {value}")


def clip_factor(xp: Any, norm: Any, bound: float) -> Any:
    """What shrinks something of length `norm` to `bound`: 1 where it is short enough.

    Args:
        xp: NumPy, CuPy or the operations.
        norm: length, a scalar.
        bound: largest length allowed, above 0.
    """
    return bound / xp.maximum(norm, bound)


def joint_clip_factor(xp: Any, norm: Any, bound: float) -> Any:
    """`clip_factor` for all gradients together; NaN where the joint length is not finite.

    Otherwise one infinite gradient would turn all others into zeros, unseen.

    Args:
        xp: NumPy, CuPy or the operations.
        norm: length, a scalar.
        bound: largest length allowed, above 0.
    """
    factor = clip_factor(xp, norm, bound)
    return xp.where(xp.isfinite(norm), factor, xp.full_like(factor, float("nan")))


_PIECE = 1 << 14
"""Elements that are squared at a time: their squares stay in a cache until they are added up."""


def square_sum(xp: Any, x: Any) -> Any:
    """Sum of the squared elements, a scalar.

    Args:
        xp: NumPy, CuPy or the operations.
        x: array or tensor.
    """
    if xp is np and x.size > _PIECE and x.dtype.char in "fd" and x.flags.c_contiguous:
        return _square_sum_of_pieces(x.reshape(-1), np.empty(_PIECE, x.dtype))
    return xp.sum(xp.square(x))


def _square_sum_of_pieces(x: Any, squares: Any) -> Any:
    """The bits of `np.sum(np.square(x))`, which has the squares of all elements in memory.

    NumPy adds up the sums of two halves, and so on down to some dozen elements; the first half
    ends at a multiple of 8. So the sum of each piece is one that NumPy has on its way.
    """
    n = x.size
    if n <= _PIECE:
        return np.add.reduce(np.square(x, out=squares[:n]))
    half = n // 2 - n // 2 % 8
    left = _square_sum_of_pieces(x[:half], squares)
    return left + _square_sum_of_pieces(x[half:], squares)


def joint_norm(xp: Any, values: Sequence[Any]) -> Any:
    """Euclidean length of all elements of all values together.

    Args:
        xp: NumPy, CuPy or the operations.
        values: arrays or tensors of any shapes.
    """
    total = square_sum(xp, values[0])
    for x in values[1:]:
        total = total + square_sum(xp, x)
    return xp.sqrt(total)


def global_norm(t_list: Any, name: str | None = None) -> Tensor:
    """Root of the sum of squares of all elements of all tensors; `None` counts as zeros.

    Args:
        t_list: tensors of any shapes.

    Returns:
        A scalar; 0 when there is no tensor.

    Example:
        >>> float(tk.linalg.global_norm([[3.0], [4.0]]))
        5.0
    """
    present = [convert_to_tensor(t) for t in t_list if t is not None]
    return joint_norm(ops, present) if present else convert_to_tensor(0.0)


def clip_by_norm(
    t: TensorLike, clip_norm: Any, axes: Axis | None = None, name: str | None = None
) -> Tensor:
    """`t * clip_norm / max(|t|, clip_norm)`, the length |t| taken over `axes` (all by default).

    Args:
        t: tensor of any shape.
        clip_norm: largest length allowed, above 0.
        axes: int or ints along which lengths are taken.

    Returns:
        A tensor like `t`. Its gradient is that of `t` where `t` is 0.

    Raises:
        ValueError: `clip_norm` is a number that is 0 or less.

    Example:
        >>> tk.clip_by_norm([3.0, 4.0], 1.0).numpy().round(4)
        array([0.6, 0.8], dtype=float32)
    """
    check_bound("clip_by_norm: clip_norm", clip_norm)
    t = convert_to_tensor(t)
    squares = sum_(square(t), axis=plain(axes), keepdims=True)
    some = greater(squares, 0)
    length = where(some, sqrt(where(some, squares, ones_like(squares))), squares)
    clip_norm = cast(clip_norm, t.dtype)
    return divide(multiply(t, clip_norm), maximum(length, clip_norm))


def clip_by_average_norm(t: TensorLike, clip_norm: Any, name: str | None = None) -> Tensor:
    """`t` shrunk so that |t| / elements is at most `clip_norm`, which is above 0.

    Args:
        t: tensor of any shape.
        clip_norm: largest length for each element, above 0.

    Example:
        >>> tk.clip_by_average_norm([3.0, 4.0], 1.0).numpy().round(4)
        array([1.2, 1.6], dtype=float32)
    """
    check_bound("clip_by_average_norm: clip_norm", clip_norm)
    t = convert_to_tensor(t)
    size = cast(size_(t), t.dtype)
    return clip_by_norm(t, multiply(clip_norm, size))


def clip_by_global_norm(
    t_list: Sequence[Any], clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Tensor]:
    """Shrink tensors together so that their joint length is at most `clip_norm`.

    n = sqrt(sum of t**2 over all tensors and elements), result = t * clip_norm / max(n, clip_norm)
    Source: Pascanu, Mikolov and Bengio 2013, arXiv:1211.5063, algorithm 1.

    Args:
        t_list: tensors of any shapes; `None`, for a weight without a gradient, passes through.
        clip_norm: largest length allowed, above 0.
        use_norm: n, if it is known.

    Returns:
        The tensors, shapes and dtypes unchanged, and n before clipping, a scalar. All are NaN
        where n is not finite.

    Raises:
        ValueError: `clip_norm` is a number that is 0 or less.

    Example:
        >>> (clipped,), norm = tk.clip_by_global_norm([tk.constant([3.0, 4.0])], 1.0)
        >>> clipped.numpy().round(4), float(norm)
        (array([0.6, 0.8], dtype=float32), 5.0)
    """
    check_bound("clip_by_global_norm: clip_norm", clip_norm)
    tensors = [None if t is None else convert_to_tensor(t) for t in t_list]
    length = global_norm(tensors) if use_norm is None else convert_to_tensor(use_norm)
    factor = joint_clip_factor(ops, length, clip_norm)
    clipped = [None if t is None else multiply(t, cast(factor, t.dtype)) for t in tensors]
    return clipped, length


def embedding_lookup(
    params: TensorLike | Sequence[TensorLike],
    ids: Any,
    max_norm: float | None = None,
    name: str | None = None,
) -> Tensor:
    """Rows of `params` at `ids`, each shortened to the length `max_norm` if one is given.

    Args:
        params: (n, ...); or a list of such tables, whose rows are numbered one table after the
            other.
        ids: ints of any shape in [0, n).
        max_norm: largest length of a row; not limited by default.

    Raises:
        ValueError: `params` is an empty list.

    Example:
        >>> table = tk.constant([[1.0, 1.0], [2.0, 2.0]])
        >>> tk.nn.embedding_lookup(table, [1, 0, 1]).numpy()
        array([[2., 2.],
               [1., 1.],
               [2., 2.]], dtype=float32)
    """
    if isinstance(params, list | tuple):
        if not params:
            raise ValueError("embedding_lookup: params is an empty list; give a table or more")
        params = params[0] if len(params) == 1 else _concat(list(params), axis=0)
    rows = _gather(params, ids)
    if max_norm is None:
        return rows
    length = sqrt(sum_(square(rows), axis=-1, keepdims=True))
    return multiply(rows, minimum(1.0, divide(max_norm, maximum(length, 1e-30))))
