"""Tensors of given values and shapes, whose sizes may be known only when a graph runs.

The arguments are TensorFlow's; `name` is not kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import dtypes
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.values.type_aliases import DTypeLike, Shape, TensorLike
from trainkit.ops.arrays.axes import expand_dims
from trainkit.ops.arrays.broadcasting import broadcast_to
from trainkit.ops.arrays.creation import eye as eye_
from trainkit.ops.arrays.creation import full, full_of_ints
from trainkit.ops.arrays.creation import one_hot as one_hot_
from trainkit.ops.arrays.creation import zeros_like as zeros_like_
from trainkit.ops.arrays.ranges import arange
from trainkit.ops.arrays.shaping import known_number, reshape
from trainkit.ops.arrays.shaping import shape as shape_
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.core.dynamic_shapes import Bound, needs_values
from trainkit.ops.math.elementwise import cast, tensor_of, where
from trainkit.ops.math.max_and_argmax import max as max_


def _spec(dims: Any, dtype: Any) -> Spec:
    return Spec(tuple(dims), dtypes.as_dtype(dtype))


def _eye_spec(a: Bound) -> Spec:
    batch = plain(a["batch_shape"])
    if isinstance(batch, SymbolicTensor):
        raise InvalidArgumentError(
            "eye: batch_shape must be known while a graph is traced; give Python ints"
        )
    return _spec((None,) * (len(batch or ()) + 2), a["dtype"])


def _one_hot_spec(a: Bound) -> Spec:
    values = [convert_to_tensor(v) for v in (a["on_value"], a["off_value"]) if v is not None]
    dims: list[Any] = list(convert_to_tensor(a["indices"]).shape)
    axis = len(dims) if a["axis"] in (None, -1) else a["axis"]
    dims.insert(axis, None)
    return _spec(dims, a["dtype"] or (values[0].dtype if values else "float32"))


def constant(
    value: TensorLike,
    dtype: DTypeLike | None = None,
    shape: Shape | None = None,
    name: str | None = None,
) -> Tensor:
    """A tensor of the values given.

    Args:
        value: number, nested list, or array.
        dtype: element type; by default float32 for Python floats, int32 for ints, that of an array.
        shape: shape of the result; a single value is repeated.

    Raises:
        InvalidArgumentError: the list is ragged, or the values don't fill `shape`.
        TypeError: the values can't be had in `dtype` without rounding.

    Example:
        >>> tk.constant([[1, 2], [3, 4]], dtype=tk.float32).numpy()
        array([[1., 2.],
               [3., 4.]], dtype=float32)
        >>> tk.constant(0, shape=(2, 2)).numpy()
        array([[0, 0],
               [0, 0]], dtype=int32)
    """
    target_dtype = None if dtype is None else dtypes.as_dtype(dtype)
    if target_dtype is not None and hasattr(value, "dtype") and target_dtype is not dtypes.string:
        tensor = cast(value, target_dtype)
    else:
        tensor = convert_to_tensor(value, dtype=target_dtype)
    if shape is None:
        return tensor
    dims = tuple(plain(shape)) if not isinstance(shape, int) else (shape,)
    if tensor.size == 1:
        return broadcast_to(reshape(tensor, ()), dims)
    if tensor.size != int(np.prod(dims)):
        raise InvalidArgumentError(f"constant: {tensor.size} values don't fill the shape {dims}")
    return reshape(tensor, dims)


def zeros(shape: Shape, dtype: DTypeLike = "float32", name: str | None = None) -> Tensor:
    """Zeros of the shape and dtype given.

    Args:
        shape: sizes: ints, or tensors in a graph.
        dtype: of the result.

    Example:
        >>> tk.zeros((2, 2)).numpy()
        array([[0., 0.],
               [0., 0.]], dtype=float32)
    """
    return _fill(shape, 0, dtypes.as_dtype(dtype))


def ones(shape: Shape, dtype: DTypeLike = "float32", name: str | None = None) -> Tensor:
    """Ones of the shape and dtype given.

    Args:
        shape: sizes: ints, or tensors in a graph.
        dtype: of the result.

    Example:
        >>> tk.ones((2, 2)).numpy()
        array([[1., 1.],
               [1., 1.]], dtype=float32)
    """
    return _fill(shape, 1, dtypes.as_dtype(dtype))


def fill(dims: Any, value: TensorLike, name: str | None = None) -> Tensor:
    """`value` repeated to the shape `dims`.

    Args:
        dims: sizes: ints, or tensors in a graph.
        value: number, or scalar tensor.

    Example:
        >>> tk.fill((2, 2), 9).numpy()
        array([[9, 9],
               [9, 9]], dtype=int32)
    """
    sizes = plain(dims)
    if type(value) is float and type(sizes) is tuple:
        filled_now = full_of_ints(sizes, value, dtypes.as_dtype(dtypes.floatx()))
        if filled_now is not None:
            return filled_now
    value = convert_to_tensor(value)
    return _fill(sizes, value, value.dtype)


def _fill(shape: Any, value: Any, dtype: Any) -> Tensor:
    """A tensor full of `value`; sizes may be known only when the graph runs."""
    shape = plain(shape)
    if type(shape) is tuple and dtype is not dtypes.string and not is_tensor(value):
        filled_now = full_of_ints(shape, value, dtype)
        if filled_now is not None:
            return filled_now
    if dtype is dtypes.string:
        return broadcast_to(convert_to_tensor(value if is_tensor(value) else "", dtype), shape)
    parts = (shape,) if isinstance(shape, int | float) else shape
    live = isinstance(parts, SymbolicTensor) or any(isinstance(n, SymbolicTensor) for n in parts)
    if live:
        return broadcast_to(tensor_of(value, dtype), parts)
    sizes = tuple(known_number(n, "fill") for n in parts)
    filled: Tensor = broadcast_to(value, sizes) if is_tensor(value) else full(sizes, value, dtype)
    return filled


def zeros_like(
    input: TensorLike, dtype: DTypeLike | None = None, name: str | None = None
) -> Tensor:
    """Zeros in the shape of `input`, and in its dtype unless another is given.

    Args:
        input: tensor of any shape.
        dtype: of the result; by default that of `input`.

    Example:
        >>> tk.zeros_like([1, 2]).numpy()
        array([0, 0], dtype=int32)
    """
    x = convert_to_tensor(input)
    if (x.dtype if dtype is None else dtypes.as_dtype(dtype)) is dtypes.string:
        return broadcast_to(convert_to_tensor(""), shape_(x))
    return zeros_like_(x, dtype)


@needs_values("num_rows", "num_columns", "batch_shape", gives=_eye_spec)
def eye(
    num_rows: int,
    num_columns: int | None = None,
    batch_shape: Any = None,
    dtype: DTypeLike = "float32",
    name: str | None = None,
) -> Tensor:
    """Identity matrices (batch_shape..., num_rows, num_columns).

    Args:
        num_rows: of each matrix.
        num_columns: of each matrix; by default as many as rows.
        batch_shape: sizes of the axes in front; none by default.
        dtype: of the result.

    Example:
        >>> tk.linalg.eye(2).numpy()
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    matrix = eye_(plain(num_rows), plain(num_columns), dtype=dtype)
    if batch_shape is None:
        return matrix
    return broadcast_to(matrix, tuple(plain(batch_shape)) + tuple(matrix.shape))


@needs_values("depth", gives=_one_hot_spec)
def one_hot(
    indices: TensorLike,
    depth: int,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """`on_value` (1) where the place on the new axis is the index, `off_value` (0) elsewhere.

    Args:
        indices: ints of any shape; outside of [0, depth) there is no `on_value`.
        depth: size of the new axis.
        on_value: number, 1 by default.
        off_value: number, 0 by default.
        axis: place of the new axis, the last by default.
        dtype: of the result; by default that of the values, else float32.

    Raises:
        TypeError: a value is not of the dtype asked for, or the two have different ones.
        InvalidArgumentError: the indices are no integers.

    Example:
        >>> tk.one_hot([0, 2], depth=3).numpy()
        array([[1., 0., 0.],
               [0., 0., 1.]], dtype=float32)
    """
    indices = convert_to_tensor(indices)
    if not (indices.dtype.is_integer or indices.dtype.is_bool or indices.size == 0):
        raise InvalidArgumentError(
            f"one_hot: indices are integers, got {indices.dtype.name}; cast them to int32 or int64"
        )
    class_axis = -1 if axis is None else axis
    if on_value is None and off_value is None:
        ones_dtype = dtypes.float32 if dtype is None else dtype
        if dtypes.as_dtype(ones_dtype) is not dtypes.string:
            return one_hot_(indices, plain(depth), axis=class_axis, dtype=ones_dtype)
    values = {"on_value": on_value, "off_value": off_value}
    value_dtype = _one_hot_dtype({name: v for name, v in values.items() if v is not None}, dtype)
    hot = one_hot_(indices, plain(depth), axis=class_axis, dtype="bool")
    on = 1 if on_value is None else on_value
    off = 0 if off_value is None else off_value
    return where(hot, tensor_of(on, value_dtype), tensor_of(off, value_dtype))


def _one_hot_dtype(values: dict[str, Any], dtype: Any) -> dtypes.DType:
    """The dtype of `one_hot` with these values, all of which must be of it."""
    value_dtype = None if dtype is None else dtypes.as_dtype(dtype)
    source = "dtype is"
    for name, value in values.items():
        if value_dtype is not None and value_dtype.is_integer and type(value) is int:
            continue  # of any size, wrapped as TensorFlow does
        actual = convert_to_tensor(value, dtype_hint=dtype).dtype
        if value_dtype is not None and actual != value_dtype:
            raise TypeError(f"one_hot: {name} is {actual.name}, {source} {value_dtype.name}")
        value_dtype, source = (
            (actual, f"{name} is") if value_dtype is None else (value_dtype, source)
        )
    return value_dtype or dtypes.float32


def sequence_mask(
    lengths: TensorLike, maxlen: Any = None, dtype: DTypeLike = "bool", name: str | None = None
) -> Tensor:
    """True at the first `lengths[...]` of `maxlen` places of a new last axis.

    Args:
        lengths: ints of any shape; floats are rounded to zero.
        maxlen: size of the new axis; by default the greatest length.
        dtype: of the result.

    Example:
        >>> tk.sequence_mask([1, 3], 3).numpy()
        array([[ True, False, False],
               [ True,  True,  True]])
    """
    lengths = convert_to_tensor(lengths)
    if not lengths.dtype.is_integer:
        lengths = cast(lengths, "int32")
    limit = max_(lengths, initial=0) if maxlen is None else plain(maxlen)
    positions = arange(limit, dtype=lengths.dtype)
    return cast(positions < expand_dims(lengths, -1), dtype)
