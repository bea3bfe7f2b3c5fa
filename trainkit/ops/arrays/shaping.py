"""Operations that change a tensor's shape and keep its elements: reshape, ravel, shape, size.

The gradient of each is the operation that undoes it. Where a size is not known while a graph is
traced, the undoing operation reads the sizes from the arrays when it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core import dtypes, shapes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch import late_ops
from trainkit.core.dispatch.facets import (
    IF_ALIKE,
    LEADING_AXES,
    MOVED,
    QUERY,
    SHAPE,
    SIZE_AT_RUN,
    VIEW,
    Direct,
)
from trainkit.core.dispatch.native import are_sizes
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import ONLY_INTS, Dims, Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.tensor_shape import ROW_TYPES
from trainkit.core.values.batch_size import COUNTED, marked
from trainkit.core.values.type_aliases import TensorLike


def as_tensor(x: Any) -> Tensor:
    """`x` itself if it is a tensor, else what it converts to."""
    return x if isinstance(x, Tensor) else convert_to_tensor(x)


def rank_of(x: Tensor) -> int:
    """How many axes a tensor has."""
    return x._array.ndim if type(x) is Tensor else len(x.shape)


def refuse_bools(x: Tensor, op: str) -> Tensor:
    """`x`, unless it holds bools, whose sums in their own dtype would be no counts.

    Raises:
        InvalidArgumentError: it does.
    """
    if x.dtype.is_bool:
        raise InvalidArgumentError(
            f"{op}: the dtype stays, and bools are not added up or multiplied; tk.cast(x, "
            "tk.int32) makes numbers of them, tk.math.count_nonzero counts, tk.reduce_any and "
            "tk.reduce_all say whether one or all hold"
        )
    return x


def sizes_of(shape: Any, op: str, free: bool = False) -> tuple[tuple[Any, ...], tuple[Tensor, ...]]:
    """The sizes in `shape`, and tensors for those that are known only when a graph runs.

    Args:
        shape: an int, a tensor of ints, or a sequence of ints and scalar tensors.
        op: name of the operation, for errors.
        free: whether `None` stands for -1, a size that follows from others.

    Returns:
        The sizes, `None` where a tensor stands, and these tensors in order.

    Raises:
        InvalidArgumentError: an entry is no whole number, or not known.
    """
    if type(shape) in ROW_TYPES and ONLY_INTS.issuperset(map(type, shape)):
        return tuple(shape), ()
    entries = _entries(shape, op)
    sizes: list[int | None] = []
    tensors: list[Tensor] = []
    for n in entries:
        if hasattr(type(n), "_is_variable"):
            n = n.value()
        if isinstance(n, SymbolicTensor):
            sizes.append(None)
            tensors.append(n)
        else:
            sizes.append(-1 if free and n is None else known_number(n, op))
    return tuple(sizes), tuple(tensors)


def sizes_to_fill(shape: Any, op: str) -> tuple[tuple[Any, ...], tuple[Tensor, ...]]:
    """The same of a tensor that is made: none of the sizes may be negative.

    Raises:
        InvalidArgumentError: one is, or is no whole number, or not known.
    """
    if are_sizes(shape):
        return shape, ()
    sizes, tensors = sizes_of(shape, op)
    refuse_negative(sizes, op)
    return sizes, tensors


def refuse_negative(sizes: tuple[Any, ...], op: str) -> None:
    """Raise for a size below 0; `None` is none."""
    for n in sizes:
        if n is not None and n < 0:
            raise InvalidArgumentError(f"{op}: the shape {sizes} has a negative size")


def known_sizes(numbers: Any, op: str, what: str) -> tuple[int, ...]:
    """The numbers in `numbers`, see `sizes_of`, all of which must be known.

    Raises:
        InvalidArgumentError: one is known only when a graph runs, or is no whole number.
    """
    sizes, unknown = sizes_of(numbers, op)
    if unknown:
        raise InvalidArgumentError(
            f"{op}: {what} must be known while a graph is traced; give Python ints"
        )
    return sizes


def _entries(shape: Any, op: str) -> Any:
    if not is_tensor(shape):
        return shape if hasattr(shape, "__iter__") else (shape,)
    tensor = as_tensor(shape)
    if not isinstance(tensor, SymbolicTensor):
        return np.ravel(tensor.numpy()).tolist()
    if len(tensor.shape) == 0:
        return [tensor]
    if len(tensor.shape) != 1 or tensor.shape[0] is None:
        raise ShapeError(
            f"{op}: the tensor of sizes must have one axis of known length, got {tensor.shape}"
        )
    return list(late_ops.unstack(tensor, axis=0, num=tensor.shape[0]))


def known_number(n: Any, op: str) -> int:
    """A size as an int.

    Raises:
        InvalidArgumentError: it is no whole number, or `None`, as shapes have it for a size that is
            not known yet.
    """
    if n is None:
        raise unknown_number(op)
    if isinstance(n, float) and n.is_integer():
        return int(n)
    try:
        return int(n.__index__())
    except (AttributeError, TypeError):
        raise InvalidArgumentError(f"{op}: sizes are whole numbers, got {n!r}") from None


def unknown_number(op: str) -> InvalidArgumentError:
    """The error about a size that is `None`."""
    return InvalidArgumentError(
        f"{op}: a size is None, so it is not known yet; in a tk.function, or in the call of a "
        "layer, tk.shape(x)[axis] gives that of a tensor x as a number"
    )


# ------------------------------------------------------------------ sizes as tensors


@primitive(
    lambda x: Spec((len(x.shape),), dtypes.int32),
    name="shape",
    semantics=QUERY,
    text="beside numbers",
)
def shape_tensor(xp: ArrayModule, x: Array) -> Array:
    """The sizes of the axes as an int32 tensor, also those that are known only at run time."""
    return np.array(x.shape, np.int32)


@primitive(lambda x: Spec((), dtypes.int32), name="size", semantics=QUERY, text="beside numbers")
def _size(xp: ArrayModule, x: Array) -> Array:
    """The number of elements as an int32 scalar."""
    return np.int32(x.size)


def shape(x: TensorLike) -> tuple[Any, ...]:
    """The sizes of the axes of `x`.

    Args:
        x: tensor of any shape.

    Returns:
        A tuple of ints. While a graph is traced, a size that is not known yet is a scalar int32
        tensor; in the symbolic tensors of a functional model it is `None`.

    Example:
        >>> tk.ops.shape(tk.ones((2, 3)))
        (2, 3)
    """
    tensor = as_tensor(x)
    sizes = tuple(tensor.shape)
    if COUNTED and not hasattr(type(x), "_is_variable"):
        sizes = tuple(marked(tensor.shape, sys._getframe(1)))
    if None not in sizes or hasattr(tensor, "apply_primitive"):
        return sizes
    live = late_ops.unstack(shape_tensor(tensor), axis=0, num=len(sizes))
    return tuple(live[i] if n is None else n for i, n in enumerate(sizes))


def size(x: TensorLike) -> Tensor:
    """The number of elements of `x`, an int32 scalar tensor.

    Example:
        >>> int(tk.ops.size(tk.ones((2, 3))))
        6
    """
    result: Tensor = _size(x)
    return result


def ndim(x: TensorLike) -> int:
    """The number of axes of `x`, an int.

    Example:
        >>> int(tk.ops.ndim(tk.ones((2, 3))))
        2
    """
    return len(as_tensor(x).shape)


# ------------------------------------------------------------------ reshape


def _reshape_dims(dims: Dims, target: Sequence[int | None]) -> Dims:
    """`target` with -1 filled in where that is possible.

    Raises:
        ShapeError: the number of elements differs, or -1 stands more than once.
    """
    if any(n is not None and n < -1 for n in target) or list(target).count(-1) > 1:
        raise ShapeError(
            f"reshape: {tuple(target)} is no shape; one size may be -1, the others are >= 0"
        )
    total = shapes.size(dims)
    product = shapes.size([n for n in target if n != -1])
    if -1 not in target:
        if total is not None and product is not None and total != product:
            raise ShapeError(
                f"reshape: a tensor of shape {dims} has {total} elements, {tuple(target)} needs "
                f"{product}"
            )
        return tuple(target)
    if total is None or product is None:
        inferred = None
    elif product == 0 or total % product:
        raise ShapeError(
            f"reshape: {total} elements of shape {dims} do not divide into {tuple(target)}"
        )
    else:
        inferred = total // product
    return tuple(inferred if n == -1 else n for n in target)


@primitive(
    lambda x, *, shape: Spec(_reshape_dims(x.shape, shape), x.dtype),
    name="reshape",
    sizes=MOVED,
    semantics=VIEW,
    simplify=IF_ALIKE,
    text="beside numbers",
    direct=Direct("reshape"),
)
def _reshape(xp: ArrayModule, x: Array, *, shape: tuple[int, ...]) -> Array:
    """The same elements, in row-major order, in another shape."""
    if -1 in shape and x.size == 0:
        shape = _reshape_dims(x.shape, shape)  # type: ignore[assignment]
    return x.reshape(shape)


_reshape.gradients(lambda g, y, x, *, shape: reshape_like(g, x))


def _sized_rule(x: Spec, *sizes: Spec, shape: tuple[int | None, ...]) -> Spec:
    return Spec(tuple(None if n == -1 else n for n in shape), x.dtype)


def filled(shape: Sequence[int | None], sizes: Sequence[Any]) -> tuple[int, ...]:
    """`shape` with each `None` replaced by the next of `sizes`."""
    if not sizes and type(shape) is tuple and None not in shape:
        return shape
    if len(sizes) != sum(n is None for n in shape):
        raise ShapeError(f"{len(sizes)} sizes are given for those missing in {tuple(shape)}")
    live = iter(sizes)
    return tuple(int(next(live)) if n is None else n for n in shape)


@primitive(_sized_rule, semantics=VIEW, lowering=SIZE_AT_RUN, text="beside numbers")
def reshape_sized(xp: ArrayModule, x: Array, *sizes: Array, shape: tuple[int | None, ...]) -> Array:
    """`reshape` where some sizes are scalar tensors; they stand for the `None`s of `shape`."""
    return x.reshape(filled(shape, sizes))


reshape_sized.joint_gradient(
    lambda g, y, x, *sizes, shape: (reshape_like(g, x), *[None] * len(sizes))
)


def _like_rule(x: Spec, like: Spec) -> Spec:
    return Spec(like.shape, x.dtype)


@primitive(_like_rule, name="reshape_like", semantics=VIEW, reads={1: SHAPE}, text="beside numbers")
def _reshape_like(xp: ArrayModule, x: Array, like: Array) -> Array:
    """The elements of `x` in the shape of `like`."""
    return x.reshape(like.shape)


_reshape_like.gradients(lambda g, y, x, like: reshape_like(g, x), None)
_reshape_like.declare(batch=LEADING_AXES)


def reshape_like(x: Tensor, like: Tensor) -> Tensor:
    """The elements of `x` in the shape of `like`, whose values are not looked at."""
    if type(like) is Tensor:
        same_shaped: Tensor = _reshape(x, shape=like._array.shape)
        return same_shaped
    dims = tuple(like.shape)
    if dims.count(None) > 1:
        result: Tensor = _reshape_like(x, like)
        return result
    reshaped: Tensor = _reshape(x, shape=tuple(-1 if n is None else n for n in dims))
    return reshaped


def reshape(x: TensorLike, newshape: Any) -> Tensor:
    """The elements of `x`, in row-major order, in the shape `newshape`.

    Args:
        x: tensor of any shape.
        newshape: sizes with the same product; one may be -1, which stands for what is left.

    Returns:
        A tensor of shape `newshape`.

    Raises:
        ShapeError: the number of elements differs.

    >>> reshape([1, 2, 3, 4], (2, -1)).shape.as_list()
    [2, 2]
    """
    sizes = newshape
    if type(newshape) is not tuple or not ONLY_INTS.issuperset(map(type, newshape)):
        sizes, tensors = sizes_of(newshape, "reshape", free=True)
        if tensors:
            dynamic: Tensor = reshape_sized(x, *tensors, shape=sizes)
            return dynamic
    if sizes and min(sizes) < -1:  # which NumPy would take for -1
        raise ShapeError(
            f"reshape: newshape={sizes}: sizes are 0 or more, and at most one is -1, for what is "
            "left"
        )
    result: Tensor = _reshape(x, shape=sizes)
    return result


def ravel(x: TensorLike) -> Tensor:
    """The elements of `x`, in row-major order, in one axis.

    Example:
        >>> tk.ops.ravel([[1, 2], [3, 4]]).numpy()
        array([1, 2, 3, 4], dtype=int32)
    """
    result: Tensor = _reshape(x, shape=(-1,))
    return result
