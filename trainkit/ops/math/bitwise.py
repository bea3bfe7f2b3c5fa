"""Operations on the bits of integers, element by element; on bools they are the logical ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import shapes
from trainkit.core.dispatch.facets import INTEGERS
from trainkit.core.dispatch.primitive import ufunc
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor
from trainkit.core.values.docstrings import describe_arguments
from trainkit.core.values.type_aliases import TensorLike

_and = ufunc(
    np.bitwise_and,
    shapes.broadcast,
    "Bits that are set in both.",
    ("tk.ops.bitwise_and([6], [3]).numpy()", "array([2], dtype=int32)"),
    no_gradient=INTEGERS,
)
_or = ufunc(
    np.bitwise_or,
    shapes.broadcast,
    "Bits that are set in one.",
    ("tk.ops.bitwise_or([6], [3]).numpy()", "array([7], dtype=int32)"),
    no_gradient=INTEGERS,
)
_xor = ufunc(
    np.bitwise_xor,
    shapes.broadcast,
    "Bits that are set in only one.",
    ("tk.ops.bitwise_xor([6], [3]).numpy()", "array([5], dtype=int32)"),
    no_gradient=INTEGERS,
)
_not = ufunc(
    np.invert,
    shapes.unchanged,
    "All bits turned over.",
    ("tk.ops.bitwise_not([0]).numpy()", "array([-1], dtype=int32)"),
    name="bitwise_not",
    no_gradient=INTEGERS,
)
_left = ufunc(
    np.left_shift,
    shapes.broadcast,
    "Bits moved up.",
    ("tk.ops.left_shift([3], [2]).numpy()", "array([12], dtype=int32)"),
    no_gradient=INTEGERS,
)
_right = ufunc(
    np.right_shift,
    shapes.broadcast,
    "Bits moved down.",
    ("tk.ops.right_shift([12], [2]).numpy()", "array([3], dtype=int32)"),
    no_gradient=INTEGERS,
)


def bitwise_and(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Bits that are set in both of `x` and `y`.

    Returns:
        A tensor of the promoted dtype.

    Raises:
        InvalidArgumentError: an input has floats.

    Example:
        >>> tk.bitwise.bitwise_and([6], [3]).numpy()
        array([2], dtype=int32)
    """
    return _and(x, y)


def bitwise_or(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Bits that are set in at least one of `x` and `y`.

    Returns:
        A tensor of the promoted dtype.

    Raises:
        InvalidArgumentError: an input has floats.

    Example:
        >>> tk.bitwise.bitwise_or([6], [3]).numpy()
        array([7], dtype=int32)
    """
    return _or(x, y)


def bitwise_xor(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Bits that are set in exactly one of `x` and `y`.

    Returns:
        A tensor of the promoted dtype.

    Raises:
        InvalidArgumentError: an input has floats.

    Example:
        >>> tk.bitwise.bitwise_xor([6], [3]).numpy()
        array([5], dtype=int32)
    """
    return _xor(x, y)


def bitwise_not(x: TensorLike, name: str | None = None) -> Tensor:
    """All bits of `x` turned over: -x - 1 for signed integers.

    Returns:
        A tensor like `x`.

    Raises:
        InvalidArgumentError: `x` has floats.

    Example:
        >>> tk.bitwise.invert([0]).numpy()
        array([-1], dtype=int32)
    """
    return _not(x)


def left_shift(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """The bits of `x` moved `y` places up: x * 2**y.

    Args:
        x: tensor of integers.

    Returns:
        A tensor of the promoted dtype.

    Raises:
        InvalidArgumentError: an input has floats, or both have bools.

    Example:
        >>> tk.bitwise.left_shift([3], [2]).numpy()
        array([12], dtype=int32)
    """
    _require_integer("left_shift", x, y)
    return _left(x, y)


def right_shift(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """The bits of `x` moved `y` places down: x // 2**y.

    Args:
        x: tensor of integers.

    Returns:
        A tensor of the promoted dtype.

    Raises:
        InvalidArgumentError: an input has floats, or both have bools.

    Example:
        >>> tk.bitwise.right_shift([12], [2]).numpy()
        array([3], dtype=int32)
    """
    _require_integer("right_shift", x, y)
    return _right(x, y)


def _require_integer(op: str, *operands: Any) -> None:
    """Refuse bools alone, whose bits NumPy would shift as those of an int8."""
    if all(type(v) is bool or getattr(v, "dtype", None) == "bool" for v in operands):
        raise InvalidArgumentError(f"{op}: bools have no bits to move; cast one to an integer")


describe_arguments(
    globals(),
    """
    x: tensor of integers or bools.
    y: another, whose shape broadcasts with that of `x`.
    """,
)
