"""TensorFlow's top-level functions on arrays: making, shaping, joining.

Each takes TensorFlow's argument names, and `name`, which is not kept: tensors have no
names outside graphs.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core import dtypes, nest
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec, TensorShape, broadcast_dims
from trainkit.core.tensor import PRIMITIVES, SymbolicTensor, Tensor, convert_to_tensor, is_tensor
from trainkit.ops.conversion import ensure_shape as _ensure_shape
from trainkit.ops.later import Bound, is_later, later, like, needs_values, unknown

newaxis = None


def plain(x: Any) -> Any:
    """An axis, size or list of them as Python ints; a symbolic tensor stays."""
    if x is None or type(x) is int or isinstance(x, int | SymbolicTensor):
        return x
    if is_tensor(x) or isinstance(x, np.ndarray | np.generic):
        return np.asarray(x).tolist()
    if isinstance(x, list | tuple):
        return tuple(plain(item) for item in x)
    return x


def _spec(dims: Any, dtype: Any) -> Spec:
    return Spec(tuple(dims), dtypes.as_dtype(dtype))


def _eye_spec(a: Bound) -> Spec:
    batch = plain(a["batch_shape"])
    if isinstance(batch, SymbolicTensor):
        raise InvalidArgumentError(
            "eye: batch_shape must be known while a graph is traced; give Python ints"
        )
    return _spec((None,) * (len(batch or ()) + 2), a["dtype"])


def _linspace_spec(a: Bound) -> Spec:
    start = convert_to_tensor(a["start"])
    return unknown(start, 1, start.dtype if start.dtype.is_floating else "float32")


def _one_hot_spec(a: Bound) -> Spec:
    values = [convert_to_tensor(v) for v in (a["on_value"], a["off_value"]) if v is not None]
    dims: list[Any] = list(convert_to_tensor(a["indices"]).shape)
    axis = len(dims) if a["axis"] in (None, -1) else a["axis"]
    dims.insert(axis, None)
    return _spec(dims, a["dtype"] or (values[0].dtype if values else "float32"))


def _split_specs(a: Bound) -> list[Spec]:
    number = a["num_or_size_splits"]
    if isinstance(number, int):
        return [unknown(a["value"])] * number
    counts = convert_to_tensor(a["num_or_size_splits"]).shape
    if len(counts) != 1 or counts[0] is None:
        raise InvalidArgumentError(
            "split: the number of pieces must be known while a graph is traced; give a Python int, "
            "or a tensor of sizes of known length"
        )
    return [unknown(a["value"])] * counts[0]


def _repeat_spec(a: Bound) -> Spec:
    x = convert_to_tensor(a["input"])
    dims: list[Any] = [None] if a["axis"] is None else list(x.shape)
    dims[plain(a["axis"]) or 0] = None
    return _spec(dims, x.dtype)


def constant(value: Any, dtype: Any = None, shape: Any = None, name: Any = None) -> Tensor:
    """A tensor of the values given.

    Args:
        value: number, nested list, or array.
        dtype: element type; by default float32 for Python floats, int32 for ints, that of an array.
        shape: shape of the result; a single value is repeated.
        name: not kept.

    Raises:
        InvalidArgumentError: the list is ragged, or the values don't fill `shape`.
        TypeError: the values can't be had in `dtype` without rounding.
    """
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    if wanted is not None and hasattr(value, "dtype") and wanted is not dtypes.string:
        tensor = ops.cast(value, wanted)
    else:
        tensor = convert_to_tensor(value, dtype=wanted)
    if shape is None:
        return tensor
    dims = tuple(plain(shape)) if not isinstance(shape, int) else (shape,)
    if tensor.size == 1:
        return ops.broadcast_to(ops.reshape(tensor, ()), dims)
    if tensor.size != int(np.prod(dims)):
        raise InvalidArgumentError(f"constant: {tensor.size} values don't fill the shape {dims}")
    return ops.reshape(tensor, dims)


def zeros(shape: Any, dtype: Any = "float32", name: Any = None) -> Tensor:
    """Zeros of the shape and dtype given."""
    return _filled(shape, 0, dtypes.as_dtype(dtype))


def ones(shape: Any, dtype: Any = "float32", name: Any = None) -> Tensor:
    """Ones of the shape and dtype given."""
    return _filled(shape, 1, dtypes.as_dtype(dtype))


def fill(dims: Any, value: Any, name: Any = None) -> Tensor:
    """`value` repeated to the shape `dims`."""
    value = convert_to_tensor(value)
    return _filled(dims, value, value.dtype)


def _filled(shape: Any, value: Any, dtype: Any) -> Tensor:
    """A tensor full of `value`; sizes may be known only when the graph runs."""
    shape = plain(shape)
    if dtype is dtypes.string:
        return ops.broadcast_to(convert_to_tensor(value if is_tensor(value) else "", dtype), shape)
    parts = (shape,) if isinstance(shape, int) else shape
    live = isinstance(parts, SymbolicTensor) or any(isinstance(n, SymbolicTensor) for n in parts)
    if live:
        return ops.broadcast_to(ops.cast(convert_to_tensor(value), dtype), parts)
    if is_tensor(value):
        return ops.broadcast_to(value, tuple(parts))
    filled: Tensor = ops.full(tuple(parts), value, dtype)
    return filled


def zeros_like(input: Any, dtype: Any = None, name: Any = None) -> Tensor:
    """Zeros in the shape of `input`, and in its dtype unless another is given."""
    x = convert_to_tensor(input)
    if (x.dtype if dtype is None else dtypes.as_dtype(dtype)) is dtypes.string:
        return ops.broadcast_to(convert_to_tensor(""), ops.shape(x))
    return ops.zeros_like(x, dtype)


def ones_like(input: Any, dtype: Any = None, name: Any = None) -> Tensor:
    """Ones in the shape of `input`, and in its dtype unless another is given."""
    return ops.ones_like(input, dtype)


@needs_values("num_rows", "num_columns", "batch_shape", gives=_eye_spec)
def eye(
    num_rows: int,
    num_columns: int | None = None,
    batch_shape: Any = None,
    dtype: Any = "float32",
    name: Any = None,
) -> Tensor:
    """Identity matrices (batch_shape..., num_rows, num_columns)."""
    matrix = ops.eye(plain(num_rows), plain(num_columns), dtype=dtype)
    if batch_shape is None:
        return matrix
    return ops.broadcast_to(matrix, tuple(plain(batch_shape)) + tuple(matrix.shape))


def range(
    start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: Any = None
) -> Tensor:
    """Numbers from `start` up to, not including, `limit`, in steps of `delta`.

    With one argument that is `limit`, and `start` is 0.
    """
    if limit is None:
        start, limit = 0, start
    return ops.arange(start, limit, delta, dtype=dtype)


@needs_values("num", "axis", gives=_linspace_spec)
def linspace(start: Any, stop: Any, num: int, name: Any = None, axis: int = 0) -> Tensor:
    """`num` evenly spaced numbers from `start` to `stop`, both included."""
    result: Tensor = ops.linspace(start, stop, plain(num), axis=axis)
    return result


@needs_values("depth", gives=_one_hot_spec)
def one_hot(
    indices: Any,
    depth: int,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: Any = None,
) -> Tensor:
    """`on_value` (1) where the place on the new axis is the index, `off_value` (0) elsewhere."""
    values = [convert_to_tensor(v) for v in (on_value, off_value) if v is not None]
    wanted = dtypes.as_dtype(dtype or (values[0].dtype if values else "float32"))
    hot = ops.one_hot(indices, plain(depth), axis=-1 if axis is None else axis, dtype="bool")
    on = 1 if on_value is None else on_value
    off = 0 if off_value is None else off_value
    return ops.where(hot, ops.cast(on, wanted), ops.cast(off, wanted))


def identity(input: Any, name: Any = None) -> Tensor:
    """The same values as a new tensor."""
    result: Tensor = PRIMITIVES["identity"].op(input)
    return result


def shape(input: Any, out_type: Any = "int32", name: Any = None) -> Tensor:
    """The sizes of the axes as a 1-d tensor."""
    tensor = input if isinstance(input, Tensor) else convert_to_tensor(input)
    if tensor.shape.is_fully_defined():
        return convert_to_tensor(np.array(tensor.shape, _numpy_dtype(out_type)))
    return ops.cast(PRIMITIVES["shape"].op(tensor), out_type)


def size(input: Any, out_type: Any = "int32", name: Any = None) -> Tensor:
    """The number of elements as a scalar tensor."""
    if isinstance(input, SymbolicTensor) and input.shape.is_fully_defined():
        return convert_to_tensor(np.array(input.shape.num_elements(), _numpy_dtype(out_type)))
    return ops.cast(ops.size(input), out_type)


def _numpy_dtype(dtype: Any) -> Any:
    return dtypes.as_dtype(dtype).dtype


def rank(input: Any, name: Any = None) -> Tensor:
    """The number of axes as a scalar tensor."""
    return convert_to_tensor(len(convert_to_tensor(input).shape))


def reshape(tensor: Any, shape: Any, name: Any = None) -> Tensor:
    """The same elements in another shape; one size may be -1."""
    dims = plain(shape)
    return ops.reshape(tensor, (dims,) if isinstance(dims, int) else dims)


def expand_dims(input: Any, axis: Any, name: Any = None) -> Tensor:
    """A new axis of size 1 at `axis`."""
    if type(axis) is not int and is_later(axis):
        result: Tensor = later(expand_dims, {"input": input, "axis": axis}, unknown(input, 1))
        return result
    return ops.expand_dims(input, plain(axis))


def squeeze(input: Any, axis: Any = None, name: Any = None) -> Tensor:
    """Without the axes of size 1, or those of `axis`, which must have size 1."""
    axis = plain(axis)
    return ops.squeeze(input, None if axis == () else axis)


@needs_values("perm", gives=lambda a: unknown(a["a"]))
def transpose(a: Any, perm: Any = None, conjugate: bool = False, name: Any = None) -> Tensor:
    """Axes in the order `perm`, by default reversed."""
    result = ops.transpose(a, plain(perm))
    return ops.conj(result) if conjugate else result


def broadcast_to(input: Any, shape: Any, name: Any = None) -> Tensor:
    """Repeated to `shape` by NumPy's rule."""
    return ops.broadcast_to(input, plain(shape))


def broadcast_static_shape(shape_x: Any, shape_y: Any) -> TensorShape:
    """The shape to which both broadcast."""
    return TensorShape(broadcast_dims(tuple(shape_x), tuple(shape_y)))


def concat(values: Any, axis: Any, name: Any = None) -> Tensor:
    """Tensors one after the other along `axis`."""
    items = list(values) if isinstance(values, list | tuple) else [values]
    if type(axis) is not int and is_later(axis):
        spec = unknown(items[0], dtype=dtypes.result_type(*map(convert_to_tensor, items)))
        result: Tensor = later(concat, {"values": items, "axis": axis}, spec)
        return result
    return ops.concatenate(items, axis=plain(axis))


def stack(values: Any, axis: int = 0, name: Any = None) -> Tensor:
    """Tensors of one shape along a new axis."""
    return ops.stack(values, axis=plain(axis))


def unstack(value: Any, num: int | None = None, axis: int = 0, name: Any = None) -> list[Tensor]:
    """The items along `axis`, which goes away."""
    return list(ops.unstack(value, num, axis))


@needs_values("num_or_size_splits", "axis", gives=_split_specs)
def split(
    value: Any, num_or_size_splits: Any, axis: Any = 0, num: Any = None, name: Any = None
) -> list[Tensor]:
    """Pieces along `axis`: a number of equal ones, or pieces of the sizes given (one may be -1).

    Raises:
        InvalidArgumentError: the axis can't be cut so.
    """
    axis = plain(axis)
    sizes = plain(num_or_size_splits)
    if isinstance(sizes, int):
        return list(ops.split(value, sizes, axis=axis))
    total = convert_to_tensor(value).shape[axis]
    sizes = list(sizes)
    if total is None and -1 in sizes:  # the cuts behind it are counted from the end
        rest = sizes.index(-1)
        back = -np.cumsum(sizes[:rest:-1])[::-1]
        cuts = [*np.cumsum(sizes[:rest]).tolist(), *back.tolist()]
        return list(ops.split(value, cuts, axis=axis))
    if -1 in sizes:
        sizes[sizes.index(-1)] = total - sum(n for n in sizes if n != -1)
    if (total is not None and sum(sizes) != total) or min(sizes, default=0) < 0:
        raise InvalidArgumentError(
            f"split: sizes {sizes} do not add up to {total}, the size of axis {axis}"
        )
    cuts = np.cumsum(sizes)[:-1].tolist()
    return list(ops.split(value, cuts, axis=axis))


def tile(input: Any, multiples: Any, name: Any = None) -> Tensor:
    """Repeated `multiples[i]` times along axis i."""
    return ops.tile(input, plain(multiples))


@needs_values("repeats", gives=_repeat_spec)
def repeat(input: Any, repeats: Any, axis: int | None = None, name: Any = None) -> Tensor:
    """Each item repeated along `axis`."""
    return ops.repeat(input, plain(repeats), axis=axis)


@needs_values("paddings", gives=lambda a: unknown(a["tensor"]))
def pad(
    tensor: Any, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0, name: Any = None
) -> Tensor:
    """With borders of `paddings[i] = (before, after)` along axis i.

    Args:
        tensor: of any shape.
        paddings: (rank, 2) of ints.
        mode: `"CONSTANT"`, `"REFLECT"` or `"SYMMETRIC"`, in any case.
        constant_values: the value of a constant border.
        name: not kept.
    """
    kind = mode.lower()
    if kind not in ("constant", "reflect", "symmetric"):
        raise ValueError(f"pad: mode {mode!r}; use CONSTANT, REFLECT or SYMMETRIC")
    widths = tuple(tuple(p) for p in plain(paddings))
    if kind == "constant":
        return ops.pad(tensor, widths, mode=kind, constant_values=constant_values)
    return ops.pad(tensor, widths, mode=kind)


@needs_values("axis", gives=lambda a: like(a["tensor"]))
def reverse(tensor: Any, axis: Any, name: Any = None) -> Tensor:
    """In reverse order along the axes `axis`."""
    return ops.flip(tensor, plain(axis))


@needs_values("shift", "axis", gives=lambda a: like(a["input"]))
def roll(input: Any, shift: Any, axis: Any, name: Any = None) -> Tensor:
    """Shifted along `axis`; what leaves at one end comes in at the other."""
    return ops.roll(input, plain(shift), axis=plain(axis))


def cast(x: Any, dtype: Any, name: Any = None) -> Tensor:
    """`x` in the element type `dtype`."""
    return ops.cast(x, dtype)


def meshgrid(*args: Any, indexing: str = "xy", name: Any = None) -> list[Tensor]:
    """Coordinate grids of 1-d tensors."""
    return list(ops.meshgrid(*args, indexing=indexing))


def sequence_mask(
    lengths: Any, maxlen: Any = None, dtype: Any = "bool", name: Any = None
) -> Tensor:
    """True at the first `lengths[...]` of `maxlen` places of a new last axis."""
    lengths = convert_to_tensor(lengths)
    limit = ops.max(lengths) if maxlen is None else plain(maxlen)
    places = ops.arange(limit, dtype=lengths.dtype)
    return ops.cast(places < ops.expand_dims(lengths, -1), dtype)


def einsum(equation: str, *inputs: Any, **kwargs: Any) -> Tensor:
    """Einstein's sum over the letters of `equation`."""
    unknown = set(kwargs) - {"optimize", "name"}
    if unknown:
        raise TypeError(f"einsum: unknown arguments {sorted(unknown)}; it takes optimize and name")
    return ops.einsum(equation, *inputs)


def ensure_shape(x: Any, shape: Any, name: Any = None) -> Tensor:
    """`x`, known to have a shape: compared now, and inside of a function when it runs.

    Raises:
        InvalidArgumentError: the shape is another.
    """
    return _ensure_shape(x, shape)
