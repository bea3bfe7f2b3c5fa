"""TensorFlow's top-level functions on arrays: making, shaping, concatenating.

Each takes TensorFlow's argument names, and `name`, which is not kept: tensors have no
names outside graphs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trainkit import ops
from trainkit.core import dtypes
from trainkit.core.dtypes import int32
from trainkit.core.shapes import Spec, TensorShape, broadcast_dims
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import PRIMITIVES, Tensor, convert_to_tensor
from trainkit.core.values.docstrings import describe_arguments as _describe_arguments
from trainkit.ops.arrays.conversion import ensure_shape as _ensure_shape
from trainkit.ops.arrays.filling import constant as constant
from trainkit.ops.arrays.filling import eye as eye
from trainkit.ops.arrays.filling import fill as fill
from trainkit.ops.arrays.filling import one_hot as one_hot
from trainkit.ops.arrays.filling import ones as ones
from trainkit.ops.arrays.filling import sequence_mask as sequence_mask
from trainkit.ops.arrays.filling import zeros as zeros
from trainkit.ops.arrays.filling import zeros_like as zeros_like
from trainkit.ops.arrays.shaping import shape_tensor
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.core.dynamic_shapes import Bound, is_later, later, like, needs_values, unknown
from trainkit.ops.core.slices import split as split
from trainkit.ops.math.complex_parts import complex_from
from trainkit.ops.math.elementwise import identity as _identity
from trainkit.ops.math.elementwise import lists_as_tensors as _lists_as_tensors
from trainkit.tf.control_flow import gradients as gradients
from trainkit.tf.control_flow import hessians as hessians
from trainkit.tf.control_flow import identity_n as identity_n
from trainkit.tf.control_flow import tuple_ as tuple_
from trainkit.tf.positions import scatter_nd as scatter_nd
from trainkit.tf.positions import searchsorted as searchsorted
from trainkit.tf.positions import tensor_scatter_nd_add as tensor_scatter_nd_add
from trainkit.tf.positions import tensor_scatter_nd_max as tensor_scatter_nd_max
from trainkit.tf.positions import tensor_scatter_nd_min as tensor_scatter_nd_min
from trainkit.tf.positions import tensor_scatter_nd_sub as tensor_scatter_nd_sub
from trainkit.tf.positions import tensor_scatter_nd_update as tensor_scatter_nd_update
from trainkit.tf.positions import unravel_index as unravel_index

if TYPE_CHECKING:
    from trainkit.core.values.type_aliases import Axis, DTypeLike, Shape, TensorLike


newaxis = None


def _linspace_spec(a: Bound) -> Spec:
    start = convert_to_tensor(a["start"])
    return unknown(start, 1, start.dtype if start.dtype.is_floating else "float32")


def _repeat_spec(a: Bound) -> Spec:
    x = convert_to_tensor(a["input"])
    dims: list[Any] = [None] if a["axis"] is None else list(x.shape)
    dims[plain(a["axis"]) or 0] = None
    return Spec(tuple(dims), x.dtype)


def ones_like(input: TensorLike, dtype: DTypeLike | None = None, name: str | None = None) -> Tensor:
    """Ones in the shape of `input`, and in its dtype unless another is given.

    Args:
        dtype: of the result; by default that of `input`.

    Example:
        >>> tk.ones_like([1, 2]).numpy()
        array([1, 1], dtype=int32)
    """
    return ops.ones_like(input, dtype)


def range(
    start: TensorLike,
    limit: Any = None,
    delta: TensorLike = 1,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Numbers from `start` up to, not including, `limit`, in steps of `delta`.

    With one argument that is `limit`, and `start` is 0.

    Args:
        start: first number, or the limit where it stands alone.
        limit: number that is not reached.
        delta: step; negative ones go down.
        dtype: of the result; by default that to which the numbers promote.

    Example:
        >>> tk.range(5).numpy()
        array([0, 1, 2, 3, 4], dtype=int32)
        >>> tk.range(1.0, 2.0, 0.5).numpy()
        array([1. , 1.5], dtype=float32)
    """
    if limit is None:
        if type(start) is int and type(delta) is int and delta == 1:
            return ops.arange(start, dtype=dtype)
        start, limit = 0, start
    return ops.arange(start, limit, delta, dtype=dtype)


@needs_values("num", "axis", gives=_linspace_spec)
def linspace(
    start: TensorLike, stop: TensorLike, num: int, name: str | None = None, axis: int = 0
) -> Tensor:
    """`num` evenly spaced numbers from `start` to `stop`, both included.

    Whole numbers are spaced in float64, those of 8 and 16 bits in float32.

    Args:
        start: first number, or tensor of them.
        stop: last number, or tensor of them.
        num: how many numbers, 1 or more.
        axis: where the new axis stands if `start` is a tensor.

    Example:
        >>> tk.linspace(0.0, 1.0, 5).numpy()
        array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    if type(start) is type(stop) is float and type(num) is int:
        line: Tensor = ops.linspace(start, stop, num, axis=axis)
        return line
    ends = convert_to_tensor(start), convert_to_tensor(stop)
    dtype = None
    if all(x.dtype.is_integer for x in ends):
        dtype = "float32" if all(x.dtype.size <= 2 for x in ends) else "float64"
    result: Tensor = ops.linspace(*ends, plain(num), dtype=dtype, axis=axis)
    return result


def identity(input: TensorLike, name: str | None = None) -> Tensor:
    """The same values as a new tensor.

    Example:
        >>> tk.identity([1, 2]).numpy()
        array([1, 2], dtype=int32)
    """
    result: Tensor = _identity(input)
    return result


def shape(input: TensorLike, out_type: DTypeLike = "int32", name: str | None = None) -> Tensor:
    """The sizes of the axes as a 1-d tensor.

    Example:
        >>> tk.shape(tk.ones((2, 3))).numpy()
        array([2, 3], dtype=int32)
    """
    tensor = input if isinstance(input, Tensor) else convert_to_tensor(input)
    if tensor.shape.is_fully_defined():
        return convert_to_tensor(np.array(tensor.shape, _numpy_dtype(out_type)))
    return ops.cast(shape_tensor(tensor), out_type)


def size(input: TensorLike, out_type: DTypeLike = "int32", name: str | None = None) -> Tensor:
    """The number of elements as a scalar tensor.

    Example:
        >>> int(tk.size(tk.ones((2, 3))))
        6
    """
    if isinstance(input, SymbolicTensor) and input.shape.is_fully_defined():
        return convert_to_tensor(np.array(input.shape.num_elements(), _numpy_dtype(out_type)))
    return ops.cast(ops.size(input), out_type)


def _numpy_dtype(dtype: Any) -> Any:
    return dtypes.as_dtype(dtype).dtype


def rank(input: TensorLike, name: str | None = None) -> Tensor:
    """The number of axes as a scalar tensor.

    Example:
        >>> int(tk.rank(tk.ones((2, 3))))
        2
    """
    return convert_to_tensor(len(convert_to_tensor(input).shape))


def reshape(tensor: TensorLike, shape: Shape, name: str | None = None) -> Tensor:
    """The same elements in another shape; one size may be -1.

    Args:
        shape: sizes of the result, whose product is the number of elements.

    Example:
        >>> tk.reshape([1, 2, 3, 4], (2, -1)).numpy()
        array([[1, 2],
               [3, 4]], dtype=int32)
    """
    return ops.reshape(tensor, shape)


def expand_dims(input: TensorLike, axis: Axis, name: str | None = None) -> Tensor:
    """A new axis of size 1 at `axis`.

    Args:
        axis: place of the new axis, in [-rank - 1, rank].

    Example:
        >>> tk.expand_dims([1, 2], axis=0).shape
        TensorShape([1, 2])
    """
    if type(axis) is int:
        return ops.expand_dims(input, axis)
    if is_later(axis):
        result: Tensor = later(expand_dims, {"input": input, "axis": axis}, unknown(input, 1))
        return result
    return ops.expand_dims(input, plain(axis))


def squeeze(input: TensorLike, axis: Axis | None = None, name: str | None = None) -> Tensor:
    """Without the axes of size 1, or those of `axis`, which must have size 1.

    Args:
        axis: int or ints; by default all axes of size 1.

    Example:
        >>> tk.squeeze(tk.ones((1, 2, 1))).shape
        TensorShape([2])
    """
    axis = plain(axis)
    return ops.squeeze(input, None if axis == () else axis)


@needs_values("perm", gives=lambda a: unknown(a["a"]))
def transpose(
    a: TensorLike, perm: Any = None, conjugate: bool = False, name: str | None = None
) -> Tensor:
    """Axes in the order `perm`, by default reversed.

    Args:
        a: tensor of any shape.
        perm: for each axis of the result the axis of `a` that it is.
        conjugate: conjugate complex values, too.

    Example:
        >>> tk.transpose([[1, 2, 3], [4, 5, 6]]).numpy()
        array([[1, 4],
               [2, 5],
               [3, 6]], dtype=int32)
    """
    result = ops.transpose(a, plain(perm))
    return ops.conj(result) if conjugate else result


def broadcast_to(input: TensorLike, shape: Shape, name: str | None = None) -> Tensor:
    """Repeated to `shape` by NumPy's rule.

    Args:
        input: tensor whose axes, from the last on, have size 1 or that of `shape`.
        shape: sizes of the result.

    Example:
        >>> tk.broadcast_to([1, 2], (2, 2)).numpy()
        array([[1, 2],
               [1, 2]], dtype=int32)
    """
    return ops.broadcast_to(input, plain(shape))


def broadcast_static_shape(shape_x: Any, shape_y: Any) -> TensorShape:
    """The shape to which both broadcast.

    Args:
        shape_x: a shape.
        shape_y: another.

    Example:
        >>> tk.broadcast_static_shape(tk.TensorShape([2, 1]), tk.TensorShape([3]))
        TensorShape([2, 3])
    """
    return TensorShape(broadcast_dims(tuple(shape_x), tuple(shape_y)))


def concat(values: TensorLike, axis: Axis, name: str | None = None) -> Tensor:
    """Tensors one after the other along `axis`.

    Args:
        values: list of tensors, whose sizes differ along `axis` alone.
        axis: int.

    Example:
        >>> tk.concat([[[1, 2]], [[3, 4]]], axis=0).numpy()
        array([[1, 2],
               [3, 4]], dtype=int32)
    """
    items = list(values) if isinstance(values, list | tuple) else [values]
    if type(axis) is int:
        return ops.concatenate(items, axis)
    if is_later(axis):
        spec = unknown(items[0], dtype=dtypes.result_type(*map(convert_to_tensor, items)))
        result: Tensor = later(concat, {"values": items, "axis": axis}, spec)
        return result
    return ops.concatenate(items, axis=plain(axis))


def stack(values: TensorLike, axis: int = 0, name: str | None = None) -> Tensor:
    """Tensors of one shape along a new axis.

    Args:
        values: list of tensors of one shape; of nothing it is an empty vector.
        axis: place of the new axis.

    Example:
        >>> tk.stack([[1, 2], [3, 4]], axis=1).numpy()
        array([[1, 3],
               [2, 4]], dtype=int32)
    """
    if isinstance(values, list | tuple) and not values:
        return convert_to_tensor([])
    return ops.stack(values, axis=plain(axis))


def unstack(
    value: TensorLike, num: int | None = None, axis: int = 0, name: str | None = None
) -> list[Tensor]:
    """The items along `axis`, which goes away.

    Args:
        value: tensor of one axis or more.
        num: size of the axis, which need not be given.
        axis: the axis.

    Example:
        >>> [x.numpy() for x in tk.unstack([[1, 2], [3, 4]])]
        [array([1, 2], dtype=int32), array([3, 4], dtype=int32)]
    """
    return list(ops.unstack(value, num, axis))


def tile(input: TensorLike, multiples: TensorLike, name: str | None = None) -> Tensor:
    """Repeated `multiples[i]` times along axis i.

    Args:
        multiples: for each axis how often it is repeated.

    Example:
        >>> tk.tile([[1, 2]], [2, 2]).numpy()
        array([[1, 2, 1, 2],
               [1, 2, 1, 2]], dtype=int32)
    """
    return ops.tile(input, plain(multiples))


@needs_values("repeats", gives=_repeat_spec)
def repeat(
    input: TensorLike, repeats: Any, axis: int | None = None, name: str | None = None
) -> Tensor:
    """Each item repeated along `axis`.

    Args:
        repeats: how often each item is repeated: one number, or one for each item.
        axis: by default the tensor is flattened first.

    Example:
        >>> tk.repeat([1, 2], [2, 3]).numpy()
        array([1, 1, 2, 2, 2], dtype=int32)
    """
    return ops.repeat(input, plain(repeats), axis=axis)


@needs_values("paddings", gives=lambda a: unknown(a["tensor"]))
def pad(
    tensor: TensorLike,
    paddings: TensorLike,
    mode: str = "CONSTANT",
    constant_values: Any = 0,
    name: str | None = None,
) -> Tensor:
    """With borders of `paddings[i] = (before, after)` along axis i.

    Args:
        paddings: (rank, 2) of ints.
        mode: `"CONSTANT"`, `"REFLECT"` or `"SYMMETRIC"`, in any case.
        constant_values: the value of a constant border.

    Raises:
        ValueError: `mode` is none of the three.

    Example:
        >>> tk.pad([[1, 2]], [[0, 1], [1, 0]]).numpy()
        array([[0, 1, 2],
               [0, 0, 0]], dtype=int32)
    """
    kind = mode.lower()
    if kind not in ("constant", "reflect", "symmetric"):
        raise ValueError(f"pad: mode {mode!r}; use CONSTANT, REFLECT or SYMMETRIC")
    widths = tuple(tuple(p) for p in plain(paddings))
    if kind == "constant":
        return ops.pad(tensor, widths, mode=kind, constant_values=constant_values)
    return ops.pad(tensor, widths, mode=kind)


@needs_values("axis", gives=lambda a: like(a["tensor"]))
def reverse(tensor: TensorLike, axis: Axis, name: str | None = None) -> Tensor:
    """In reverse order along the axes `axis`.

    Args:
        axis: int or ints.

    Example:
        >>> tk.reverse([[1, 2], [3, 4]], axis=[1]).numpy()
        array([[2, 1],
               [4, 3]], dtype=int32)
    """
    return ops.flip(tensor, plain(axis))


@needs_values("shift", "axis", gives=lambda a: like(a["input"]))
def roll(input: TensorLike, shift: TensorLike, axis: Axis, name: str | None = None) -> Tensor:
    """Shifted along `axis`; what leaves at one end comes in at the other.

    Args:
        shift: places to the end, one number or one for each axis.
        axis: int or ints.

    Example:
        >>> tk.roll([1, 2, 3], shift=1, axis=0).numpy()
        array([3, 1, 2], dtype=int32)
    """
    return ops.roll(input, plain(shift), axis=plain(axis))


def cast(x: TensorLike, dtype: DTypeLike, name: str | None = None) -> Tensor:
    """`x` in the element type `dtype`.

    Args:
        x: tensor of any shape.
        dtype: element type.

    Example:
        >>> tk.dtypes.cast([1.7, 2.2], tk.int32).numpy()
        array([1, 2], dtype=int32)
    """
    return ops.cast(x, dtype)


def meshgrid(*args: Any, indexing: str = "xy", name: str | None = None) -> list[Tensor]:
    """Coordinate grids of 1-d tensors.

    Args:
        *args: tensors (n,).
        indexing: `"xy"`, by which the first two axes are exchanged, or `"ij"`.

    Example:
        >>> x, y = tk.meshgrid([1, 2], [3, 4])
        >>> x.numpy(), y.numpy()
        (array([[1, 2],
               [1, 2]], dtype=int32), array([[3, 3],
               [4, 4]], dtype=int32))
    """
    return list(ops.meshgrid(*args, indexing=indexing))


def einsum(equation: str, *inputs: Any, **kwargs: Any) -> Tensor:
    """Einstein's sum over the letters of `equation`.

    Args:
        equation: such as `"ij,jk->ik"`.
        *inputs: a tensor for each group of letters.
        **kwargs: `optimize`, which changes nothing, and `name`.

    Raises:
        TypeError: an unknown keyword argument.
        InvalidArgumentError: the formula is malformed, or the number of operands is another.
        ShapeError: axes of the same letter differ in size.

    Example:
        >>> tk.einsum("ij,j->i", [[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0]).numpy()
        array([3., 7.], dtype=float32)
    """
    unknown = set(kwargs) - {"optimize", "name"}
    if unknown:
        raise TypeError(f"einsum: unknown arguments {sorted(unknown)}; it takes optimize and name")
    return ops.einsum(equation, *inputs)


def ensure_shape(x: TensorLike, shape: Shape, name: str | None = None) -> Tensor:
    """`x`, known to have a shape: compared now, and inside of a function when it runs.

    Args:
        x: tensor.
        shape: sizes, `None` where any will do.

    Raises:
        InvalidArgumentError: the shape is another.

    Example:
        >>> tk.ensure_shape(tk.ones((2, 3)), (None, 3)).shape
        TensorShape([2, 3])
    """
    return _ensure_shape(x, shape)


def truncatemod(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """What `truncatediv` leaves: x - y * truncatediv(x, y), with the sign of x.

    Args:
        x: tensor of numbers.
        y: tensor that broadcasts with `x`.

    Example:
        >>> tk.truncatemod([-5], [3]).numpy()
        array([-2], dtype=int32)
    """
    return ops.fmod(x, y)


def shape_n(input: Any, out_type: Any = "int32", name: str | None = None) -> list[Tensor]:
    """The shapes of a list of tensors, each as a tensor.

    Args:
        input: list of tensors.

    Example:
        >>> [x.numpy() for x in tk.shape_n([tk.ones((2, 3)), tk.ones(4)])]
        [array([2, 3], dtype=int32), array([4], dtype=int32)]
    """
    return [shape(x, out_type) for x in input]


@needs_values("shape_x", "shape_y", gives=lambda a: Spec((None,), int32))
def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """The shape that two shapes broadcast to, as a tensor.

    Args:
        shape_x: ints (n,).
        shape_y: ints (m,).

    Raises:
        ShapeError: they do not broadcast.

    Example:
        >>> tk.broadcast_dynamic_shape([2, 1], [3]).numpy()
        array([2, 3], dtype=int32)
    """
    dims = broadcast_dims(
        tuple(plain(shape_x)), tuple(plain(shape_y)), op="broadcast_dynamic_shape"
    )
    return convert_to_tensor(np.array(dims, np.int32))


def parallel_stack(values: Any, name: str | None = None) -> Tensor:
    """Tensors of one shape stacked along a new first axis.

    Args:
        values: list of tensors.

    Example:
        >>> tk.parallel_stack([[1, 2], [3, 4]]).numpy()
        array([[1, 2],
               [3, 4]], dtype=int32)
    """
    return ops.stack([convert_to_tensor(x) for x in values], axis=0)


def complex(real: TensorLike, imag: TensorLike, name: str | None = None) -> Tensor:
    """Complex numbers of two float tensors, their parts.

    Args:
        real: tensor of floats.
        imag: tensor of the same dtype, which broadcasts with `real`.

    Example:
        >>> tk.dtypes.complex([1.0], [2.0]).numpy()
        array([1.+2.j], dtype=complex64)
    """
    return complex_from(real, imag)


def saturate_cast(value: TensorLike, dtype: DTypeLike, name: str | None = None) -> Tensor:
    """Another element type, with values beyond its range at its ends.

    Args:
        value: tensor of numbers.
        dtype: element type.

    Example:
        >>> tk.dtypes.saturate_cast([300.0, -5.0], tk.uint8).numpy()
        array([255,   0], dtype=uint8)
    """
    return ops.saturate_cast(value, dtype)


def clip_by_value(
    t: TensorLike, clip_value_min: Any, clip_value_max: Any, name: str | None = None
) -> Tensor:
    """`t` with values outside of the bounds replaced by the nearer one; gradient 0 there.

    Args:
        t: tensor of any shape.
        clip_value_min: number, or tensor that broadcasts with `t`.
        clip_value_max: number, or tensor that broadcasts with `t`.

    Example:
        >>> tk.clip_by_value([-1.0, 0.5, 9.0], 0.0, 1.0).numpy()
        array([0. , 0.5, 1. ], dtype=float32)
    """
    return ops.clip(*_lists_as_tensors(t, clip_value_min, clip_value_max))


_describe_arguments(
    globals(),
    """
    input: tensor of any shape.
    out_type: int32 or int64.
    tensor: of any shape.
    """,
)


_describe_arguments(globals(), "name: not kept.", package="trainkit")
