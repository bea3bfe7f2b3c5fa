"""Operations of preprocessing layers, scattering, and the rarer functions."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core.errors import UnimplementedError
from trainkit.ops.core import optimization_barrier as optimization_barrier  # declares operations
from trainkit.ops.images import patches as patches
from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value
from trainkit.saved_graph.onnx.rules.onnx_form import onnx_form
from trainkit.saved_graph.onnx.rules.reductions_forms import reduce
from trainkit.saved_graph.onnx.rules.shapes_forms import spec_shape

onnx_form("optimization_barrier")(lambda to, x, signal: x)


@onnx_form("searchsorted")
def _searchsorted(
    to: GraphBuilder, sequence: Value, values: Value, side: str, dtype: str = "int32"
) -> Value:
    """The position is the number of elements in front."""
    if sequence.rank != 1:
        raise UnimplementedError("searchsorted in several sequences")
    kind = "Less" if side == "left" else "LessOrEqual"
    is_before = to.each(kind, sequence, to.unsqueeze(values, [values.rank]), dtype="bool")
    return reduce(to, "ReduceSum", to.cast(is_before, "int64"), -1, False)


@onnx_form("sparsemax")
def _sparsemax(to: GraphBuilder, x: Value, axis: int) -> Value:
    """`x` less a threshold, and 0 below it, as the body of the operation has it."""
    if axis % x.rank != x.rank - 1 or x.shape[-1] is None:
        raise UnimplementedError("sparsemax along another axis than the last, or of unknown size")
    size = x.shape[-1]
    ranks = to.known(np.arange(1, size + 1), x.dtype)
    falling = to.ops("TopK", x, [size], count=2, shapes=[x.shape] * 2, dtypes=[x.dtype, "int64"],
                     axis=-1, largest=1, sorted=1)[0]  # fmt: skip
    total = to.op("CumSum", falling, to.known(x.rank - 1, "int64"), shape=x.shape)
    scaled = to.each("Add", to.each("Mul", falling, ranks), 1.0)
    inside = to.cast(to.each("Greater", scaled, total, dtype="bool"), x.dtype)
    count = reduce(to, "ReduceSum", inside, -1, True)
    shares = to.each("Div", to.each("Add", to.each("Sub", count, ranks), 1.0), count)
    weighted = to.each("Mul", to.each("Mul", inside, shares), falling)
    threshold = to.each("Sub", reduce(to, "ReduceSum", weighted, -1, True),
                        to.each("Reciprocal", count))  # fmt: skip
    return to.each("Max", to.each("Sub", x, threshold), 0.0)


@onnx_form("sparse_plus")
def _sparse_plus(to: GraphBuilder, x: Value) -> Value:
    """0 below -1, x above 1, (x + 1)**2 / 4 between."""
    shifted = to.each("Add", x, 1.0)
    curve = to.each("Mul", to.each("Mul", shifted, shifted), 0.25)
    inner = to.each("Where", to.each("Less", x, 1.0, dtype="bool"), curve, x)
    return to.each("Where", to.each("Greater", x, -1.0, dtype="bool"), inner, to.known(0, x.dtype))


@onnx_form("sparse_sigmoid")
def _sparse_sigmoid(to: GraphBuilder, x: Value) -> Value:
    """0 below -1, 1 above 1, (x + 1) / 2 between."""
    line = to.each("Mul", to.each("Add", x, 1.0), 0.5)
    return to.each("Min", to.each("Max", line, 0.0), 1.0)


@onnx_form("logaddexp2")
def _logaddexp2(to: GraphBuilder, a: Value, b: Value) -> Value:
    distance = to.each("Abs", to.each("Sub", a, b))
    power = to.each("Add", to.each("Pow", 2.0, to.each("Neg", distance)), 1.0)
    return to.each("Add", to.each("Max", a, b), to.each("Mul", to.each("Log", power),
                                                        1 / math.log(2.0)))  # fmt: skip


onnx_form("erfc")(lambda to, x: to.each("Sub", 1.0, to.each("Erf", x)))


def _zero_where_x_is(
    to: GraphBuilder, x: Any, y: Any, safe: float, formula: Callable[[Value, Value], Value]
) -> Value:
    """`formula(x, y)`, and 0 where x is 0, whatever y is."""
    like = x if isinstance(x, Value) else y
    x, y = to.as_value(x, like), to.as_value(y, like)
    is_zero = to.each("Equal", x, 0.0, dtype="bool")
    result = formula(x, to.each("Where", is_zero, to.known(safe, y.dtype), y))
    return to.each("Where", is_zero, to.known(0, x.dtype), result)


@onnx_form("xlogy")
def _xlogy(to: GraphBuilder, x: Any, y: Any) -> Value:
    return _zero_where_x_is(to, x, y, 1.0, lambda a, b: to.each("Mul", a, to.each("Log", b)))


@onnx_form("xlog1py")
def _xlog1py(to: GraphBuilder, x: Any, y: Any) -> Value:
    def formula(a: Value, b: Value) -> Value:
        return to.each("Mul", a, to.each("Log", to.each("Add", b, 1.0)))

    return _zero_where_x_is(to, x, y, 0.0, formula)


@onnx_form("xdivy")
def _xdivy(to: GraphBuilder, x: Any, y: Any) -> Value:
    return _zero_where_x_is(to, x, y, 1.0, lambda a, b: to.each("Div", a, b))


@onnx_form("sinc")
def _sinc(to: GraphBuilder, x: Value) -> Value:
    angle = to.each("Mul", x, math.pi)
    is_zero = to.each("Equal", x, 0.0, dtype="bool")
    below = to.each("Where", is_zero, to.known(1, x.dtype), angle)
    return to.each("Where", is_zero, to.known(1, x.dtype),
                   to.each("Div", to.each("Sin", angle), below))  # fmt: skip


@onnx_form("linspace")
def _linspace(
    to: GraphBuilder, start: Value, stop: Value, size: int, endpoint: bool, axis: int, dtype: str
) -> tuple[Value, ...]:
    parts = size - 1 if endpoint else size
    if size < 2 or axis % (max(start.rank, stop.rank) + 1):
        raise UnimplementedError("linspace of fewer than two numbers, or not along the first axis")
    step = to.each("Div", to.each("Sub", stop, start), float(parts))
    positions = np.arange(size).reshape((size,) + (1,) * step.rank)
    values = to.each("Add", start, to.each("Mul", to.known(positions, start.dtype), step))
    return to.cast(values, dtype), step


# ---------------------------------------------------------------------- windows over an axis


@onnx_form("extract_sequences")
def _extract_sequences(to: GraphBuilder, x: Value, length: int, stride: int) -> Value:
    """Pieces at the positions 0, stride, 2 stride and so on."""
    size = x.shape[-1]
    if size is not None:
        count = max(0, 1 + (size - length) // stride)
        positions = to.known(np.arange(count)[:, None] * stride + np.arange(length), "int64")
    else:  # where the axis is shorter than a piece, the last start lies in front of the first
        end = to.op("Sub", to.vector([to.size_of(x, -1)]), to.known([length - 1]), shape=(1,))
        end = to.squeeze(end, [0])
        starts = to.op("Range", to.known(np.int64(0)), end, to.known(np.int64(stride)),
                       shape=(None,), dtype="int64")  # fmt: skip
        positions = to.each("Add", to.unsqueeze(starts, [1]), to.known(np.arange(length), "int64"))
    return to.op("Gather", x, positions, axis=x.rank - 1, shape=spec_shape(to))


@onnx_form("extract_patches")
def _extract_patches(to: GraphBuilder, x: Value, size: Any, strides: Any, dilation: Any) -> Value:
    sizes = x.shape[1:-1]
    if None in sizes:
        raise UnimplementedError("patches are cut out of an image of unknown size")
    axes = list(range(1, x.rank - 1))
    parts = []
    for offset in itertools.product(*map(range, size)):
        starts = [o * d for o, d in zip(offset, dilation, strict=True)]
        ends = [
            a + ((n - (k - 1) * d - 1) // s) * s + 1
            for a, n, k, s, d in zip(starts, sizes, size, strides, dilation, strict=True)
        ]
        cut = to.slice(x, to.vector(starts), to.vector(ends), axes, list(strides))
        parts.append(cut)
    return to.op("Concat", *parts, axis=x.rank - 1, shape=spec_shape(to))


# ---------------------------------------------------------------------- scattering


def scatter_rows(to: GraphBuilder, x: Value, indices: Value, updates: Value, how: str) -> Value:
    """`x` with updates at the rows of indices.

    Args:
        to: writes the node.
        x: tensor.
        indices: integers (..., k).
        updates: what stands there; of the sizes of `indices` and of `x`, or broadcast to them.
        how: two that meet, and what was there, are one: "none", "add", "mul", "max" or "min".
    """
    settings: dict[str, Any] = {} if how == "none" else {"reduction": how}
    positions = to.cast(indices, "int64")
    depth = int(indices.shape[-1] or 0)
    # sizes that are not known yet may be 1, which is broadcast
    if None in updates.shape or updates.shape != (*indices.shape[:-1], *x.shape[depth:]):
        sizes = [to.size_of(indices, i) for i in range(indices.rank - 1)]
        sizes += [to.size_of(x, i) for i in range(depth, x.rank)]
        updates = to.op("Expand", updates, to.vector(sizes), shape=(None,) * len(sizes))
    return to.op("ScatterND", x, positions, updates, shape=x.shape, **settings)


for _name, _how in (
    ("scatter_nd_add", "add"),
    ("scatter_update", "none"),
    ("scatter_max", "max"),
    ("scatter_min", "min"),
    ("scatter_multiply", "mul"),
):
    onnx_form(_name)(functools.partial(scatter_rows, how=_how))


@onnx_form("tensor_array_read")
def _tensor_array_read(to: GraphBuilder, buffer: Value, index: Any) -> Value:
    position = to.cast(to.as_value(index), "int64")
    return to.op("Gather", buffer, position, axis=0, shape=spec_shape(to))


@onnx_form("tensor_array_write")
def _tensor_array_write(
    to: GraphBuilder, buffer: Value, index: Any, value: Value, grows: bool
) -> Value:
    """The buffer is filled up with zeros to the position and the sizes of the value first."""
    position = to.vector([index])
    now = to.op("Shape", buffer, shape=(buffer.rank,), dtype="int64")
    sizes = to.op("Add", position, to.known([1], "int64"), shape=(1,))
    inner = to.op("Shape", value, shape=(value.rank,), dtype="int64")
    sizes = to.op("Concat", sizes, inner, axis=0, shape=(buffer.rank,))
    missing = to.op("Sub", to.op("Max", now, sizes, shape=now.shape), now, shape=now.shape)
    zeros = to.known([0] * buffer.rank, "int64")
    pads = to.op("Concat", zeros, missing, axis=0, shape=(2 * buffer.rank,))
    grown = to.op("Pad", buffer, pads, mode="constant", shape=(None,) * buffer.rank)
    positions = to.op("Reshape", position, [1, 1], shape=(1, 1))
    return to.op("ScatterND", grown, positions, to.unsqueeze(value, [0]), shape=grown.shape)
