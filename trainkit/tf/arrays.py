"""TensorFlow's top-level functions on arrays: making, shaping, joining, indexing.

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
from trainkit.core.shapes import TensorShape, broadcast_dims
from trainkit.core.tensor import PRIMITIVES, SymbolicTensor, Tensor, convert_to_tensor, is_tensor

newaxis = None


def plain(x: Any) -> Any:
    """An axis, size or list of them as Python ints; a symbolic tensor stays."""
    if x is None or isinstance(x, int | SymbolicTensor):
        return x
    if is_tensor(x) or isinstance(x, np.ndarray | np.generic):
        return np.asarray(x).tolist()
    if isinstance(x, list | tuple):
        return tuple(plain(item) for item in x)
    return x


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
    if wanted is not None and hasattr(value, "dtype"):
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
    parts = (shape,) if isinstance(shape, int) else shape
    live = isinstance(parts, SymbolicTensor) or any(isinstance(n, SymbolicTensor) for n in parts)
    if live:
        return ops.broadcast_to(ops.cast(convert_to_tensor(value), dtype), _shape_arg(parts))
    if is_tensor(value):
        return ops.broadcast_to(value, tuple(parts))
    filled: Tensor = ops.full(tuple(parts), value, dtype)
    return filled


def _shape_arg(parts: Any) -> Any:
    if isinstance(parts, SymbolicTensor) and parts.shape[0] is not None:
        return tuple(parts[i] for i in builtins.range(parts.shape[0]))
    return parts


def zeros_like(input: Any, dtype: Any = None, name: Any = None) -> Tensor:
    """Zeros in the shape of `input`, and in its dtype unless another is given."""
    return ops.zeros_like(input, dtype)


def ones_like(input: Any, dtype: Any = None, name: Any = None) -> Tensor:
    """Ones in the shape of `input`, and in its dtype unless another is given."""
    return ops.ones_like(input, dtype)


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


def linspace(start: Any, stop: Any, num: int, name: Any = None, axis: int = 0) -> Tensor:
    """`num` evenly spaced numbers from `start` to `stop`, both included."""
    result: Tensor = ops.linspace(start, stop, plain(num), axis=axis)
    return result


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
        return convert_to_tensor(np.array(tensor.shape, dtypes.as_dtype(out_type).dtype))
    return ops.cast(PRIMITIVES["shape"].op(tensor), out_type)


def size(input: Any, out_type: Any = "int32", name: Any = None) -> Tensor:
    """The number of elements as a scalar tensor."""
    return ops.cast(ops.size(input), out_type)


def rank(input: Any, name: Any = None) -> Tensor:
    """The number of axes as a scalar tensor."""
    return convert_to_tensor(len(convert_to_tensor(input).shape))


def reshape(tensor: Any, shape: Any, name: Any = None) -> Tensor:
    """The same elements in another shape; one size may be -1."""
    dims = plain(shape)
    if isinstance(dims, SymbolicTensor):
        dims = _shape_arg(dims)
    return ops.reshape(tensor, (dims,) if isinstance(dims, int) else dims)


def expand_dims(input: Any, axis: Any, name: Any = None) -> Tensor:
    """A new axis of size 1 at `axis`."""
    return ops.expand_dims(input, plain(axis))


def squeeze(input: Any, axis: Any = None, name: Any = None) -> Tensor:
    """Without the axes of size 1, or those of `axis`, which must have size 1."""
    axis = plain(axis)
    return ops.squeeze(input, None if axis == () else axis)


def transpose(a: Any, perm: Any = None, conjugate: bool = False, name: Any = None) -> Tensor:
    """Axes in the order `perm`, by default reversed."""
    result = ops.transpose(a, plain(perm))
    return ops.conj(result) if conjugate else result


def broadcast_to(input: Any, shape: Any, name: Any = None) -> Tensor:
    """Repeated to `shape` by NumPy's rule."""
    return ops.broadcast_to(input, _shape_arg(plain(shape)))


def broadcast_static_shape(shape_x: Any, shape_y: Any) -> TensorShape:
    """The shape to which both broadcast."""
    return TensorShape(broadcast_dims(tuple(shape_x), tuple(shape_y)))


def concat(values: Any, axis: Any, name: Any = None) -> Tensor:
    """Tensors one after the other along `axis`."""
    items = list(values) if isinstance(values, list | tuple) else [values]
    return ops.concatenate(items, axis=plain(axis))


def stack(values: Any, axis: int = 0, name: Any = None) -> Tensor:
    """Tensors of one shape along a new axis."""
    return ops.stack(values, axis=plain(axis))


def unstack(value: Any, num: int | None = None, axis: int = 0, name: Any = None) -> list[Tensor]:
    """The items along `axis`, which goes away."""
    return list(ops.unstack(value, num, axis))


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
    if -1 in sizes:
        sizes[sizes.index(-1)] = total - sum(n for n in sizes if n != -1)
    if sum(sizes) != total:
        raise InvalidArgumentError(
            f"split: sizes {sizes} do not add up to {total}, the size of axis {axis}"
        )
    cuts = np.cumsum(sizes)[:-1].tolist()
    return list(ops.split(value, cuts, axis=axis))


def tile(input: Any, multiples: Any, name: Any = None) -> Tensor:
    """Repeated `multiples[i]` times along axis i."""
    return ops.tile(input, plain(multiples))


def repeat(input: Any, repeats: Any, axis: int | None = None, name: Any = None) -> Tensor:
    """Each item repeated along `axis`."""
    return ops.repeat(input, plain(repeats), axis=axis)


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


def reverse(tensor: Any, axis: Any, name: Any = None) -> Tensor:
    """In reverse order along the axes `axis`."""
    return ops.flip(tensor, plain(axis))


def roll(input: Any, shift: Any, axis: Any, name: Any = None) -> Tensor:
    """Shifted along `axis`; what leaves at one end comes in at the other."""
    return ops.roll(input, plain(shift), axis=plain(axis))


def slice(input_: Any, begin: Any, size: Any, name: Any = None) -> Tensor:
    """The block that starts at `begin` and has the sizes `size`, -1 for all that is left."""
    x = convert_to_tensor(input_)
    starts, sizes = plain(begin), plain(size)
    index = tuple(
        builtins.slice(b, None if n == -1 else b + n) for b, n in zip(starts, sizes, strict=True)
    )
    piece: Tensor = x[index]
    return piece


def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: Any = None,
) -> Tensor:
    """`input_[begin:end:strides]` along the first axes.

    Args:
        input_: tensor of any shape.
        begin: first position along each axis.
        end: position after the last.
        strides: steps, 1 by default.
        begin_mask: bit i leaves `begin[i]` out.
        end_mask: bit i leaves `end[i]` out.
        ellipsis_mask: bit i makes entry i stand for all axes that are not named.
        new_axis_mask: bit i makes entry i a new axis.
        shrink_axis_mask: bit i takes the one position `begin[i]`, and its axis goes away.
        var: only `None`.
        name: not kept.

    Raises:
        ValueError: `var` is given.
        InvalidArgumentError: a position or the number of entries does not fit.
    """
    if var is not None:
        raise ValueError("strided_slice: only var=None is supported; assign to the variable")
    starts, stops = plain(begin), plain(end)
    steps = plain(strides) or (1,) * len(starts)
    key: list[Any] = []
    for i, (start, stop, step) in enumerate(zip(starts, stops, steps, strict=True)):
        bit = 1 << i
        if ellipsis_mask & bit:
            key.append(Ellipsis)
        elif new_axis_mask & bit:
            key.append(None)
        elif shrink_axis_mask & bit:
            key.append(start)
        else:
            first = None if begin_mask & bit else start
            key.append(builtins.slice(first, None if end_mask & bit else stop, step))
    piece: Tensor = convert_to_tensor(input_)[tuple(key)]
    return piece


def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    axis: Any = None,
    batch_dims: int = 0,
    name: Any = None,
) -> Tensor:
    """Items of `params` at `indices` along `axis`.

    Args:
        params: tensor.
        indices: integers in [0, size of the axis).
        validate_indices: indices are always checked.
        axis: by default the first after the batch axes.
        batch_dims: how many leading axes `params` and `indices` share.
        name: not kept.

    Raises:
        InvalidArgumentError: an index is out of range.
    """
    params, indices = convert_to_tensor(params), convert_to_tensor(indices)
    batch = int(batch_dims) if batch_dims >= 0 else len(indices.shape) + int(batch_dims)
    axis = plain(batch if axis is None else axis)
    if not batch:
        return ops.gather(params, indices, axis=axis)
    axis = axis if axis >= 0 else len(params.shape) + axis
    # Rows of all batch entries stand one after the other; an offset picks out the right ones.
    lead = tuple(params.shape[:batch])
    moved = ops.moveaxis(params, axis, batch)
    n = moved.shape[batch]
    count = int(np.prod(lead))
    flat = ops.reshape(moved, (count * n, *moved.shape[batch + 1 :]))
    if not isinstance(indices, SymbolicTensor):
        _check_range(indices, n)
    offsets = ops.reshape(ops.arange(count) * n, lead + (1,) * (len(indices.shape) - batch))
    picked = ops.take(flat, ops.cast(indices, "int64") + ops.cast(offsets, "int64"), axis=0)
    return ops.moveaxis(
        picked,
        tuple(builtins.range(len(indices.shape), len(indices.shape) + axis - batch)),
        tuple(builtins.range(batch, axis)),
    )


def _check_range(indices: Tensor, size: int) -> None:
    values = np.asarray(indices.numpy())
    bad = np.argwhere((values < 0) | (values >= size))
    if len(bad):
        at = tuple(bad[0])
        where = ",".join(str(i) for i in at)
        raise InvalidArgumentError(
            f"indices[{where}] = {values[at]} is not in [0, {size}) [Op:GatherV2]"
        )


def gather_nd(params: Any, indices: Any, batch_dims: int = 0, name: Any = None) -> Tensor:
    """Slices of `params` at the coordinates in the last axis of `indices`."""
    params, indices = convert_to_tensor(params), convert_to_tensor(indices)
    if not batch_dims:
        return ops.gather_nd(params, indices)
    lead = tuple(params.shape[:batch_dims])
    grids = np.meshgrid(*[np.arange(n) for n in lead], indexing="ij")
    tail = tuple(indices.shape[batch_dims:-1])
    columns = [
        np.broadcast_to(g.reshape(lead + (1,) * (len(tail) + 1)), (*lead, *tail, 1)) for g in grids
    ]
    rows = [ops.cast(c.copy(), indices.dtype) for c in columns]
    return ops.gather_nd(params, ops.concatenate([*rows, indices], axis=-1))


def boolean_mask(tensor: Any, mask: Any, axis: int | None = None, name: Any = None) -> Tensor:
    """The items at which `mask` is True, in order.

    Args:
        tensor: of shape (..., m..., ...), m being the shape of `mask`.
        mask: bool tensor.
        axis: where the axes of the mask start, 0 by default.
        name: not kept.
    """
    tensor, mask = convert_to_tensor(tensor), convert_to_tensor(mask)
    start = 0 if axis is None else int(axis)
    masked = mask.shape
    if tuple(tensor.shape[start : start + len(masked)]) != tuple(masked):
        raise InvalidArgumentError(
            f"boolean_mask: the mask has shape {masked}, the tensor {tensor.shape} from axis "
            f"{start} on"
        )
    dims = tuple(tensor.shape)
    flat = ops.reshape(tensor, (*dims[:start], -1, *dims[start + len(masked) :]))
    chosen = ops.nonzero(ops.reshape(mask, (-1,)))[0]
    return ops.take(flat, chosen, axis=start)


def where(condition: Any, x: Any = None, y: Any = None, name: Any = None) -> Tensor:
    """`x` where `condition` holds, else `y`; without them the coordinates where it holds.

    Args:
        condition: bool tensor.
        x: tensor or number.
        y: tensor or number; all broadcast together.
        name: not kept.

    Returns:
        The values chosen, or an int64 tensor (count, rank) with a row of coordinates for each True.

    Raises:
        ValueError: only one of `x` and `y` is given.
    """
    if (x is None) != (y is None):
        raise ValueError("where: give both x and y, or neither")
    if x is None:
        rows = ops.nonzero(condition)
        return ops.cast(ops.stack(list(rows), axis=1), "int64")
    return ops.where(condition, x, y)


def cast(x: Any, dtype: Any, name: Any = None) -> Tensor:
    """`x` in the element type `dtype`."""
    return ops.cast(x, dtype)


def argsort(
    values: Any,
    axis: int = -1,
    direction: str = "ASCENDING",
    stable: bool = False,
    name: Any = None,
) -> Tensor:
    """The int32 positions that sort `values` along `axis`; equal values keep their order."""
    _direction(direction)
    x = convert_to_tensor(values)
    if direction == "DESCENDING":
        x = _descending_key(x)
    return ops.cast(ops.argsort(x, axis=axis), "int32")


def _descending_key(x: Tensor) -> Tensor:
    """What sorts in the opposite order, equal values in theirs."""
    if x.dtype.is_bool or x.dtype.is_unsigned:
        x = ops.cast(x, "int64")
    return ops.bitwise_not(x) if x.dtype.is_integer else ops.negative(x)


def _direction(direction: str) -> None:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"sort: direction {direction!r}; use 'ASCENDING' or 'DESCENDING'")


def sort(values: Any, axis: int = -1, direction: str = "ASCENDING", name: Any = None) -> Tensor:
    """`values` in order along `axis`."""
    _direction(direction)
    result = ops.sort(values, axis=axis)
    return ops.flip(result, axis) if direction == "DESCENDING" else result


def searchsorted(
    sorted_sequence: Any, values: Any, side: str = "left", out_type: Any = "int32", name: Any = None
) -> Tensor:
    """Where `values` would stand in the sorted last axis."""
    return ops.cast(ops.searchsorted(sorted_sequence, values, side=side), out_type)


def meshgrid(*args: Any, indexing: str = "xy", name: Any = None) -> list[Tensor]:
    """Coordinate grids of 1-d tensors."""
    return list(ops.meshgrid(*args, indexing=indexing))


def unique(x: Any, out_idx: Any = "int32", name: Any = None) -> tuple[Tensor, Tensor]:
    """The different values as they first occur, and the place of each element among them."""
    values = np.asarray(convert_to_tensor(x).numpy())
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return (
        convert_to_tensor(values[np.sort(first)]),
        ops.cast(convert_to_tensor(places[inverse]), out_idx),
    )


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


def scatter_nd(indices: Any, updates: Any, shape: Any, name: Any = None) -> Tensor:
    """Zeros of `shape` with `updates` added at the coordinates `indices`."""
    return ops.scatter(indices, updates, plain(shape))


def reverse_sequence(
    input: Any, seq_lengths: Any, seq_axis: int = 1, batch_axis: int = 0, name: Any = None
) -> Tensor:
    """Along `seq_axis` the first `seq_lengths[i]` items of batch entry i in reverse order."""
    x = convert_to_tensor(input)
    lengths = convert_to_tensor(seq_lengths)
    n = x.shape[seq_axis]
    steps = ops.arange(n)
    ends = ops.expand_dims(ops.cast(lengths, "int32"), 1)
    index = ops.where(steps < ends, ends - 1 - steps, steps)
    moved = ops.moveaxis(x, (batch_axis, seq_axis), (0, 1))
    full = ops.reshape(index, tuple(index.shape) + (1,) * (len(x.shape) - 2))
    full = ops.broadcast_to(full, tuple(moved.shape))
    return ops.moveaxis(ops.take_along_axis(moved, full, axis=1), (0, 1), (batch_axis, seq_axis))


def sequence_mask(
    lengths: Any, maxlen: Any = None, dtype: Any = "bool", name: Any = None
) -> Tensor:
    """True at the first `lengths[...]` of `maxlen` places of a new last axis."""
    lengths = convert_to_tensor(lengths)
    limit = int(np.max(lengths.numpy())) if maxlen is None else plain(maxlen)
    places = ops.arange(limit, dtype=lengths.dtype)
    return ops.cast(places < ops.expand_dims(lengths, -1), dtype)


def einsum(equation: str, *inputs: Any, **kwargs: Any) -> Tensor:
    """Einstein's sum over the letters of `equation`."""
    unknown = set(kwargs) - {"optimize", "name"}
    if unknown:
        raise TypeError(f"einsum: unknown arguments {sorted(unknown)}; it takes optimize and name")
    return ops.einsum(equation, *inputs)


def map_fn(
    fn: Any,
    elems: Any,
    dtype: Any = None,
    parallel_iterations: Any = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: Any = None,
    fn_output_signature: Any = None,
) -> Any:
    """`fn` applied to each item of the first axis, results stacked.

    TensorFlow's hints about how to run the loop change nothing.
    """
    return ops.map(fn, elems)


def vectorized_map(
    fn: Any, elems: Any, fallback_to_while_loop: bool = True, warn: bool = True
) -> Any:
    """`fn` applied to all items of the first axis at once, results stacked.

    Args:
        fn: of one item (a tensor, or a nest like `elems`) to a tensor or a nest.
        elems: tensor or nest of tensors (n, ...).
        fallback_to_while_loop: call `fn` once per item where once for all can't be.
        warn: a hint of TensorFlow's; there is no warning.

    Raises:
        ValueError: `fn` can't run once for all, and `fallback_to_while_loop` is False.
    """
    return ops.vectorized_map(fn, elems, fallback_to_while_loop)


def scan(
    fn: Any,
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: Any = None,
) -> Any:
    """All states of a fold: `fn(state, item)` along the first axis of `elems`.

    Args:
        fn: function of the state and one item to the next state.
        elems: tensor or nest of tensors (n, ...).
        initializer: the first state; by default the first item, which is then the first result too.
        parallel_iterations: a hint that changes no result.
        back_prop: likewise.
        swap_memory: likewise.
        infer_shape: likewise.
        reverse: from the last to the first.
        name: not kept.
    """
    elems = nest.map_structure(convert_to_tensor, elems)
    if initializer is not None:

        def step(carry: Any, x: Any) -> Any:
            new = nest.map_structure(convert_to_tensor, fn(carry, x))
            return new, new

        return ops.scan(step, initializer, elems, reverse=reverse)[1]
    cut = (lambda t: t[:-1]) if reverse else (lambda t: t[1:])
    first = nest.map_structure(lambda t: t[-1] if reverse else t[0], elems)
    rest = scan(fn, nest.map_structure(cut, elems), first, reverse=reverse)
    order = (lambda a, b: [b, a]) if reverse else (lambda a, b: [a, b])
    return nest.map_structure(
        lambda a, b: ops.concatenate(order(ops.expand_dims(a, 0), b), axis=0), first, rest
    )


def foldl(fn: Any, elems: Any, initializer: Any = None, **hints: Any) -> Any:
    """The last state of a fold from the first item to the last."""
    return nest.map_structure(lambda t: t[-1], scan(fn, elems, initializer))


def foldr(fn: Any, elems: Any, initializer: Any = None, **hints: Any) -> Any:
    """The last state of a fold from the last item to the first."""
    return nest.map_structure(lambda t: t[0], scan(fn, elems, initializer, reverse=True))


def cond(pred: Any, true_fn: Any = None, false_fn: Any = None, name: Any = None) -> Any:
    """The result of `true_fn` if `pred` holds, else that of `false_fn`."""
    return ops.cond(pred, true_fn, false_fn)


def case(
    pred_fn_pairs: Any,
    default: Any = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """The result of the first function whose condition holds, else that of `default`.

    Args:
        pred_fn_pairs: pairs of a bool scalar and a function without arguments.
        default: function without arguments.
        exclusive: check that one condition at most holds.
        strict: results keep their structure in any case.
        name: not kept.

    Raises:
        InvalidArgumentError: no condition holds and there is no default, or two hold and
            `exclusive` is set.
    """
    pairs = list(pred_fn_pairs.items()) if isinstance(pred_fn_pairs, dict) else list(pred_fn_pairs)
    if exclusive and not any(isinstance(p, SymbolicTensor) for p, _ in pairs):
        if sum(bool(p) for p, _ in pairs) > 1:
            raise InvalidArgumentError("case: exclusive=True, and more than one condition holds")
    if not pairs:
        if default is None:
            raise InvalidArgumentError("case: no condition holds, and there is no default")
        return default()
    (pred, fn), *rest = pairs
    if len(pairs) == 1 and default is None and isinstance(pred, SymbolicTensor):
        return fn()
    return ops.cond(pred, fn, lambda: case(rest, default))


def switch_case(
    branch_index: Any, branch_fns: Any, default: Any = None, name: str = "switch_case"
) -> Any:
    """The result of the function number `branch_index`.

    Outside of the range that is `default`, or the last function when there is none.
    """
    pairs = branch_fns.items() if isinstance(branch_fns, dict) else enumerate(branch_fns)
    table = dict(pairs)
    index = convert_to_tensor(branch_index)
    fallback = default or table[max(table)]
    return case([(index == i, fn) for i, fn in table.items()], fallback)


def while_loop(
    cond: Any,
    body: Any,
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: Any = None,
) -> Any:
    """Run `body` while `cond` holds; sizes that change in the loop become unknown by themselves."""
    return ops.while_loop(cond, body, loop_vars, maximum_iterations)


def group(*inputs: Any, **kwargs: Any) -> None:
    """Nothing: everything that has an effect has been run, or is part of the graph, by now."""


def no_op(name: Any = None) -> None:
    """Nothing."""


def ensure_shape(x: Any, shape: Any, name: Any = None) -> Tensor:
    """`x` itself, if its shape fits.

    Raises:
        InvalidArgumentError: it does not.
    """
    x = convert_to_tensor(x)
    if not x.shape.is_compatible_with(shape):
        raise InvalidArgumentError(f"ensure_shape: shape {tuple(shape)} is needed, it is {x.shape}")
    return x
