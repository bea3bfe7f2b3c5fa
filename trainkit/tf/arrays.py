"""TensorFlow's top-level functions on arrays: making, shaping, joining.

Each takes TensorFlow's argument names, and `name`, which is not kept: tensors have no
names outside graphs.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from trainkit import ops
from trainkit.core import dtypes, nest
from trainkit.core.dtypes import int32
from trainkit.core.shapes import Spec, TensorShape, broadcast_dims
from trainkit.core.tensor import PRIMITIVES, SymbolicTensor, Tensor, convert_to_tensor
from trainkit.ops.arrays.conversion import ensure_shape as _ensure_shape
from trainkit.ops.arrays.filling import constant as constant
from trainkit.ops.arrays.filling import eye as eye
from trainkit.ops.arrays.filling import fill as fill
from trainkit.ops.arrays.filling import one_hot as one_hot
from trainkit.ops.arrays.filling import ones as ones
from trainkit.ops.arrays.filling import sequence_mask as sequence_mask
from trainkit.ops.arrays.filling import zeros as zeros
from trainkit.ops.arrays.filling import zeros_like as zeros_like
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.core.dynamic_shapes import (
    Bound,
    is_later,
    later,
    like,
    needs_values,
    unknown,
)
from trainkit.ops.core.slices import split as split
from trainkit.ops.indexing.scattering import scatter_max, scatter_min
from trainkit.ops.math.complex_parts import complex_from

newaxis = None


def _linspace_spec(a: Bound) -> Spec:
    start = convert_to_tensor(a["start"])
    return unknown(start, 1, start.dtype if start.dtype.is_floating else "float32")


def _repeat_spec(a: Bound) -> Spec:
    x = convert_to_tensor(a["input"])
    dims: list[Any] = [None] if a["axis"] is None else list(x.shape)
    dims[plain(a["axis"]) or 0] = None
    return Spec(tuple(dims), x.dtype)


def ones_like(input: Any, dtype: Any = None, name: Any = None) -> Tensor:
    """Ones in the shape of `input`, and in its dtype unless another is given."""
    return ops.ones_like(input, dtype)


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


def tensor_scatter_nd_max(tensor: Any, indices: Any, updates: Any, name: Any = None) -> Tensor:
    """`tensor` with entries at `indices` (n, k) raised to `updates` (n, ...)."""
    result: Tensor = scatter_max(
        convert_to_tensor(tensor), convert_to_tensor(indices), convert_to_tensor(updates)
    )
    return result


def tensor_scatter_nd_min(tensor: Any, indices: Any, updates: Any, name: Any = None) -> Tensor:
    """`tensor` with entries at `indices` (n, k) lowered to `updates` (n, ...)."""
    result: Tensor = scatter_min(
        convert_to_tensor(tensor), convert_to_tensor(indices), convert_to_tensor(updates)
    )
    return result


def identity_n(input: Any, name: Any = None) -> list[Tensor]:
    """A list of the tensors."""
    return [convert_to_tensor(x) for x in nest.flatten(input)]


def tuple_(tensors: Any, control_inputs: Any = None, name: Any = None) -> list[Any]:
    """A list of the tensors, all of them computed; `None`s stay.

    Args:
        tensors: what to list.
        control_inputs: computed already, since operations run in order.
        name: not kept.
    """
    return [x if x is None else convert_to_tensor(x) for x in tensors]


def searchsorted(
    sorted_sequence: Any, values: Any, side: str = "left", out_type: Any = "int32", name: Any = None
) -> Tensor:
    """Where `values` would stand in the sorted last axis."""
    return ops.cast(ops.searchsorted(sorted_sequence, values, side=side), out_type)


def tensor_scatter_nd_update(tensor: Any, indices: Any, updates: Any, name: Any = None) -> Tensor:
    """`tensor` with `updates` at the coordinates `indices`."""
    return ops.scatter_update(tensor, indices, updates)


def tensor_scatter_nd_add(tensor: Any, indices: Any, updates: Any, name: Any = None) -> Tensor:
    """`tensor` with `updates` added at the coordinates `indices`; equal ones add up."""
    result: Tensor = PRIMITIVES["scatter_nd_add"].op(
        convert_to_tensor(tensor), convert_to_tensor(indices), convert_to_tensor(updates)
    )
    return result


def tensor_scatter_nd_sub(tensor: Any, indices: Any, updates: Any, name: Any = None) -> Tensor:
    """`tensor` with `updates` subtracted at the coordinates `indices`."""
    return tensor_scatter_nd_add(tensor, indices, ops.negative(updates))


def _scattered(a: Bound) -> Spec:
    rank = len(a["shape"]) if isinstance(a["shape"], list | tuple) else a["shape"].shape[0]
    return Spec((None,) * rank, convert_to_tensor(a["updates"]).dtype)


@needs_values("shape", gives=_scattered)
def scatter_nd(indices: Any, updates: Any, shape: Any, name: Any = None) -> Tensor:
    """Zeros of `shape` with `updates` added at the coordinates `indices`."""
    return ops.scatter(indices, updates, plain(shape))


def truncatemod(x: Any, y: Any, name: Any = None) -> Tensor:
    """What `truncatediv` leaves: x - y * truncatediv(x, y), with the sign of x."""
    return ops.fmod(x, y)


def shape_n(input: Any, out_type: Any = "int32", name: Any = None) -> list[Tensor]:
    """The shapes of a list of tensors, each as a tensor."""
    return [shape(x, out_type) for x in input]


@needs_values("shape_x", "shape_y", gives=lambda a: Spec((None,), int32))
def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """The shape that two shapes broadcast to, as a tensor.

    Raises:
        ShapeError: they do not broadcast.
    """
    dims = broadcast_dims(
        tuple(plain(shape_x)), tuple(plain(shape_y)), op="broadcast_dynamic_shape"
    )
    return convert_to_tensor(np.array(dims, np.int32))


def parallel_stack(values: Any, name: Any = None) -> Tensor:
    """Tensors of one shape stacked along a new first axis."""
    return ops.stack([convert_to_tensor(x) for x in values], axis=0)


def complex(real: Any, imag: Any, name: Any = None) -> Tensor:
    """Complex numbers of two float tensors, their parts."""
    return complex_from(real, imag)


def saturate_cast(value: Any, dtype: Any, name: Any = None) -> Tensor:
    """Another element type, with values beyond its range at its ends."""
    return ops.saturate_cast(value, dtype)


def unravel_index(indices: Any, dims: Any, name: Any = None) -> Any:
    """The positions along each axis of positions in a flat array of sizes `dims`."""
    return ops.unravel_index(indices, dims)


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: Any = None) -> Tensor:
    """`t` with values outside of the bounds replaced by the nearer one; gradient 0 there."""
    return ops.clip(t, clip_value_min, clip_value_max)


def gradients(ys: Any, xs: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Not there outside of graphs of the first API, in TensorFlow 2 neither.

    Raises:
        RuntimeError: always; it names what to use.
    """
    raise RuntimeError(
        "tk.gradients works on graphs of the first API only. Record with `with tk.GradientTape() "
        "as tape:` and ask for `tape.gradient(ys, xs)`; for functions, see tk.eager."
    )


def hessians(ys: Any, xs: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Not there outside of graphs of the first API, in TensorFlow 2 neither.

    Raises:
        RuntimeError: always; it names what to use.
    """
    raise RuntimeError(
        "tk.hessians works on graphs of the first API only. Use `tk.autodiff.hessian(f, x)`, or "
        "`tape.jacobian` of a gradient."
    )
