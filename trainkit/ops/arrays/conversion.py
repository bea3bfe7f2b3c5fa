"""From values to tensors and back, and other views of the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import nest, shapes
from trainkit.core.devices import Array, ArrayModule, to_numpy
from trainkit.core.dispatch.facets import (
    BY_ELEMENT,
    ELEMENTWISE,
    SIZE_AT_RUN,
    UNCHANGED,
    VIEW,
    Absent,
)
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Dims, Spec, TensorShape
from trainkit.core.tensor import Tensor, is_tensor
from trainkit.core.tensor import convert_to_tensor as core_convert
from trainkit.core.values.type_aliases import DTypeLike, TensorLike
from trainkit.ops.math.elementwise import promoted, tensor_of, where
from trainkit.ops.vmap_rules.shared_rules import with_settings

# ------------------------------------------------------------------ tensors and arrays


def convert_to_tensor(
    x: TensorLike, dtype: DTypeLike | None = None, sparse: Any = None, ragged: Any = None
) -> Tensor:
    """Turn a number, nested list, array, variable or tensor into a tensor.

    Args:
        x: what to convert. Arrays are copied, tensors are not.
        dtype: element type, to which values are cast; by default float32 for Python floats, int32
            for ints, that of an array.
        sparse: only `None` or `False`; there are dense tensors only.
        ragged: only `None` or `False`.

    Returns:
        A tensor; `x` itself if it is one of this dtype.

    Raises:
        InvalidArgumentError: a nested list is ragged, or `sparse` or `ragged` is true.

    Example:
        >>> tk.ops.convert_to_tensor([1.0, 2.0]).shape
        TensorShape([2])
    """
    if sparse or ragged:
        raise InvalidArgumentError(
            "convert_to_tensor: sparse and ragged tensors are not supported, only dense ones"
        )
    if dtype is not None:
        return tensor_of(x, dtype)
    return x if isinstance(x, Tensor) else core_convert(x)


def array(x: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    """Turn a number, nested list, array, variable or tensor into a tensor.

    Args:
        x: what to convert.
        dtype: element type, to which values are cast; by default that of `x`.

    Returns:
        A tensor.

    Raises:
        InvalidArgumentError: a nested list is ragged.

    Example:
        >>> tk.ops.array([1, 2], dtype="float32").numpy()
        array([1., 2.], dtype=float32)
    """
    return convert_to_tensor(x, dtype)


@primitive(
    shapes.unchanged,
    semantics=VIEW,
    simplify=UNCHANGED,
    text="beside numbers",
    no_gradient=Absent("it stops gradients"),
)
def stop_gradient(xp: ArrayModule, x: Array) -> Array:
    """The same values, through which no gradient goes back.

    Args:
        x: tensor of any shape.

    Returns:
        A tensor of the same values; for every tape it is a constant.
    """
    return x


stop_gradient.declare(batch=BY_ELEMENT)


def convert_to_numpy(x: TensorLike) -> Any:
    """The values of `x` as a NumPy array of their own.

    Args:
        x: tensor, variable, or anything that converts to a tensor.

    Returns:
        A NumPy array; Python numbers without a tensor among them have NumPy's dtypes, as in Keras.

    Raises:
        TypeError: `x` is symbolic and has no values.

    Example:
        >>> tk.ops.convert_to_numpy(tk.ones((2,)))
        array([1., 1.], dtype=float32)
    """
    if is_tensor(x):
        return np.array(x)
    values = to_numpy(core_convert(x)._array)
    if not isinstance(x, int | float | complex | list | tuple) or any(
        map(is_tensor, nest.flatten(x))
    ):
        return np.array(values)
    return np.array(x)


@primitive(
    shapes.unchanged,
    name="copy",
    semantics=ELEMENTWISE,
    lowering=Absent("what is asked for is memory of its own"),
    text="beside numbers",
)
def _copy(xp: ArrayModule, x: Array) -> Array:
    """The same values in memory of their own."""
    return xp.array(x)


_copy.gradients(lambda g, y, x: g)


def copy(x: TensorLike) -> Tensor:
    """The same values in memory of their own.

    Args:
        x: tensor of any shape.

    Returns:
        A tensor like `x`.

    Example:
        >>> tk.ops.copy([1, 2]).numpy()
        array([1, 2], dtype=int32)
    """
    return _copy(x)


def dtype(x: Any) -> str:
    """The name of the element type of `x`, such as `"float32"`.

    Args:
        x: tensor, variable, array or number.

    Example:
        >>> tk.ops.dtype(tk.ones((2,)))
        'float32'
    """
    return (x if is_tensor(x) else core_convert(x)).dtype.name


# ------------------------------------------------------------------ bits


def _viewed_dims(dims: Dims, old: int, new: int) -> Dims:
    """The shape when elements of `old` bytes are read as ones of `new` bytes."""
    if old == new:
        return dims
    if not dims:
        raise ShapeError("view: a scalar can only be viewed in a dtype of the same size")
    last = dims[-1]
    if last is None:
        return dims
    if last * old % new:
        raise ShapeError(
            f"view: the last axis has {last} elements of {old} bytes, no multiple of {new} bytes"
        )
    return (*dims[:-1], last * old // new)


def _view_rule(x: Spec, *, dtype: str) -> Spec:
    view_dtype = as_dtype(dtype)
    return Spec(_viewed_dims(x.shape, x.dtype.size, view_dtype.size), view_dtype)


@primitive(
    _view_rule,
    name="view",
    semantics=VIEW,
    lowering=Absent("kernels read no bits of one type as another"),
    no_gradient=Absent("bits of another type have no derivative"),
)
def _view(xp: ArrayModule, x: Array, *, dtype: str) -> Array:
    """The bits of x read as another element type."""
    view_dtype = as_dtype(dtype)
    _viewed_dims(x.shape, x.dtype.itemsize, view_dtype.size)
    return xp.ascontiguousarray(x).reshape(x.shape).view(view_dtype.dtype)


@_view.batch_by
def _view_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    # a value without axes keeps the size of its elements, and so does the stack of them
    return primitive.op(inputs[0].stacked, **settings)


def view(x: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    """The bits of `x` read as another element type.

    Args:
        x: tensor of any shape.
        dtype: element type; if its size is another, the last axis grows or shrinks.

    Returns:
        A tensor. It has no gradient.

    Raises:
        ShapeError: the bytes of the last axis are no multiple of the new size, or `x` is a scalar.

    Example:
        >>> tk.ops.view([1.0], "int32").numpy()
        array([1065353216], dtype=int32)
    """
    tensor = x if isinstance(x, Tensor) else core_convert(x)
    if dtype is None or as_dtype(dtype) == tensor.dtype:
        return tensor
    return _view(tensor, dtype=as_dtype(dtype).name)


# ------------------------------------------------------------------ choice among many


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Tensor:
    """Each element from the first of `choicelist` whose condition is true there, else `default`.

    Args:
        condlist: conditions, a sequence of bool tensors.
        choicelist: as many tensors of numbers; all shapes broadcast.
        default: number or tensor for where no condition is true.

    Returns:
        A tensor of the dtype to which the choices and the default promote.

    Raises:
        InvalidArgumentError: the two lists differ in length or are empty.

    Example:
        >>> x = tk.constant([1, 2, 3])
        >>> tk.ops.select([x < 2, x > 2], [x, x * 10]).numpy()
        array([ 1,  0, 30], dtype=int32)
    """
    if len(condlist) != len(choicelist) or not len(condlist):
        raise InvalidArgumentError(
            f"select: {len(condlist)} conditions and {len(choicelist)} choices; there must be as "
            "many of each, and at least one"
        )
    *choices, result = promoted(*choicelist, default)
    for condition, choice in zip(reversed(list(condlist)), reversed(choices), strict=True):
        result = where(condition, choice, result)
    return result


# ------------------------------------------------------------------ shapes that are known better


@primitive(
    lambda x, shape, variable="": Spec(TensorShape(x.shape).merge_with(shape), x.dtype),
    name="ensure_shape",
    semantics=VIEW,
    lowering=SIZE_AT_RUN,
)
def _ensure_shape(xp: ArrayModule, x: Array, *, shape: Dims, variable: str = "") -> Array:
    """`x` itself, if its shape is what was said, or that of the variable that it is assigned to."""
    if not TensorShape(shape).is_compatible_with(x.shape):
        if variable:
            raise InvalidArgumentError(
                f"variable {variable!r} has shape {tuple(shape)}, the value to assign has shape "
                f"{tuple(x.shape)}"
            )
        raise InvalidArgumentError(
            f"ensure_shape: shape {tuple(shape)} is needed, it is {tuple(x.shape)}"
        )
    return x


_ensure_shape.gradients(lambda g, y, x, *, shape, variable="": g)
_ensure_shape.batch_by(with_settings(lambda s, rank, count: {"shape": _with_items(s, count)}))


def _with_items(settings: dict[str, Any], count: int) -> Any:
    shape = TensorShape(settings["shape"])
    return None if shape.rank is None else (count, *shape)


def ensure_shape(x: Any, shape: Any) -> Tensor:
    """`x`, known to have a shape: compared now, and inside of a function when it runs.

    Args:
        x: tensor.
        shape: sizes, `None` where any will do; or a `TensorShape` of unknown rank.

    Raises:
        InvalidArgumentError: the shape is another.
    """
    narrowed: Tensor = core_convert(x)
    x, expected = narrowed, TensorShape(shape)
    if narrowed.settle(expected):
        return narrowed
    if not expected.is_compatible_with(x.shape):
        raise InvalidArgumentError(f"ensure_shape: shape {expected} is needed, it is {x.shape}")
    if not x.shape.is_subtype_of(expected):
        narrowed = _ensure_shape(x, shape=tuple(expected))
    return narrowed
