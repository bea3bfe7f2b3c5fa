"""The arithmetic of shapes, on arrays that are known at least in part, while a graph is traced."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.tensor import Tensor
from trainkit.onnx.imported_values import Elements, axes_of, live_sizes, objects, packed
from trainkit.onnx.operator_rules import NodeCall, onnx_rule, size_rule
from trainkit.onnx.rules.slicing import slice_key
from trainkit.onnx.tensor_reading import dtype_name

MOST_MADE = 4096


@onnx_rule("Shape")
def _shape(call: NodeCall, x: Any) -> Any:
    sizes = live_sizes(x)
    start, end = call.int("start", 0), call.int("end", None)
    picked = sizes[slice(start, end)]
    return packed(objects(picked, (len(picked),)), "int64")


@onnx_rule("Size")
def _size(call: NodeCall, x: Any) -> Any:
    total: Any = 1
    for n in live_sizes(x):
        total = total * n
    return packed(objects([total], ()), "int64")


@size_rule("Identity")
def _identity(call: NodeCall, x: Any) -> Any:
    return x


@size_rule("Cast")
def _cast(call: NodeCall, x: Any) -> Any:
    name = dtype_name(call.int("to"), "the result")
    if x.dtype == object:
        return Elements(x, name) if name in ("int64", "int32") else None
    return None if name in ("bfloat16",) else x.astype(name)


@size_rule("Gather")
def _gather(call: NodeCall, x: Any, indices: Any) -> Any:
    if indices.dtype == object:
        return None
    (axis,) = axes_of([call.int("axis", 0)], x.ndim)
    return np.take(x, indices, axis=axis)


@size_rule("Concat")
def _concat(call: NodeCall, *xs: Any) -> Any:
    return np.concatenate(xs, axis=call.int("axis"))


@size_rule("Unsqueeze")
def _unsqueeze(call: NodeCall, x: Any, axes: Any = None) -> Any:
    new_axes = call.axes(axes) or ()
    return np.expand_dims(x, axes_of(new_axes, x.ndim + len(new_axes)))


@size_rule("Squeeze")
def _squeeze(call: NodeCall, x: Any, axes: Any = None) -> Any:
    squeezed_axes = call.axes(axes)
    return np.squeeze(x, None if squeezed_axes is None else axes_of(squeezed_axes, x.ndim))


@size_rule("Reshape")
def _reshape(call: NodeCall, x: Any, shape: Any) -> Any:
    if shape.dtype == object or call.flag("allowzero"):
        return None
    return x.reshape([x.shape[i] if n == 0 else int(n) for i, n in enumerate(shape)])


@size_rule("Slice")
def _slice(call: NodeCall, x: Any, *bounds: Any) -> Any:
    if any(b is not None and b.dtype == object for b in bounds):
        return None
    return x[slice_key(call, x.shape, bounds)]


@size_rule("Add", "Sub", "Mul")
def _arithmetic(call: NodeCall, a: Any, b: Any) -> Any:
    """Sizes that are not known stay positive; what may become negative is left to tensors."""
    if not _are_whole(a, b):
        return None
    if object in (a.dtype, b.dtype) and (
        call.op_type == "Sub" or any(x.dtype != object and (x < 0).any() for x in (a, b))
    ):
        return None
    return {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}[call.op_type](a, b)


@size_rule("Div")
def _div(call: NodeCall, a: Any, b: Any) -> Any:
    """Sizes are positive: what is divided by a positive number rounds down."""
    if not _are_whole(a, b) or b.dtype == object or (b <= 0).any():
        return None
    if a.dtype != object and (a < 0).any():
        return None
    return a // b


@size_rule("Equal")
def _equal(call: NodeCall, a: Any, b: Any) -> Any:
    """A size that is not known is never negative."""
    if a.dtype != object and b.dtype != object:
        return np.equal(a, b)
    a, b = np.broadcast_arrays(a, b)
    pairs = [_equal_pair(x, y) for x, y in zip(a.ravel(), b.ravel(), strict=True)]
    if None in pairs:
        return None
    return Elements(np.array(pairs, object).reshape(a.shape), "bool")


def _equal_pair(x: Any, y: Any) -> bool | None:
    numbers = [n for n in (x, y) if not isinstance(n, Tensor)]
    if len(numbers) == 2:
        return bool(x == y)
    return False if x is not y and numbers and numbers[0] < 0 else None


@size_rule("Where")
def _where(call: NodeCall, condition: Any, a: Any, b: Any) -> Any:
    if condition.dtype == object:
        return None
    return np.where(condition, a, b)


@size_rule("ConstantOfShape")
def _constant_of_shape(call: NodeCall, shape: Any) -> Any:
    if shape.dtype == object or (shape < 0).any() or np.prod(shape, dtype=float) > MOST_MADE:
        return None
    value = call.array("value", np.zeros(1, np.float32))
    return Elements(np.full(shape, value.ravel()[0].item(), object), value.dtype.name)


@size_rule("ReduceProd")
def _reduce_prod(call: NodeCall, x: Any, axes: Any = None) -> Any:
    reduced_axes = call.axes(axes)
    if (
        reduced_axes
        or x.ndim > 1
        or not _are_whole(x)
        or (reduced_axes is not None and not reduced_axes)
    ):
        return None
    total: Any = 1
    for n in x.ravel():
        total = total * n
    return objects([total], (1,) * x.ndim if call.flag("keepdims", True) else ())


@size_rule("Split")
def _split(call: NodeCall, x: Any, parts: Any = None) -> Any:
    sizes = call.list("split", None) if parts is None else parts
    if sizes is None or x.ndim != 1 or np.asarray(sizes).dtype == object:
        return None
    return tuple(np.split(x, np.cumsum(sizes)[:-1]))


@size_rule("Range")
def _range(call: NodeCall, start: Any, stop: Any, step: Any) -> Any:
    if any(x.dtype == object or x.ndim for x in (start, stop, step)) or not step:
        return None
    if not 0 <= abs(float(stop - start) / float(step)) <= MOST_MADE:
        return None
    return np.arange(start[()], stop[()], step[()]).astype(start.dtype)


@size_rule("Transpose")
def _transpose(call: NodeCall, x: Any) -> Any:
    return x if x.ndim < 2 else None


def _are_whole(*arrays: Any) -> bool:
    return all(x.dtype == object or x.dtype.kind == "i" for x in arrays)
