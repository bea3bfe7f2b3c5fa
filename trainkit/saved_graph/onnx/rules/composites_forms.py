"""Products, normalization and attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core.errors import UnimplementedError
from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value
from trainkit.saved_graph.onnx.rules.activations_forms import relu
from trainkit.saved_graph.onnx.rules.elementwise_forms import as_bool
from trainkit.saved_graph.onnx.rules.onnx_form import onnx_form
from trainkit.saved_graph.onnx.rules.reductions_forms import reduce, variance
from trainkit.saved_graph.onnx.rules.shapes_forms import spec_shape


def activated(to: GraphBuilder, x: Value, activation: str | None) -> Value:
    """The activation that is a part of a product."""
    if activation is None:
        return x
    if activation != "relu":
        raise UnimplementedError(f"the activation {activation!r} of a product")
    return relu(to, x)


onnx_form("matmul")(lambda to, a, b: to.op("MatMul", a, b, shape=spec_shape(to)))


@onnx_form("dense")
def _dense(
    to: GraphBuilder, x: Value, kernel: Value, bias: Value | None, activation: str | None
) -> Value:
    shape = spec_shape(to)
    if x.rank == 2 and bias is not None and bias.rank == 1:
        y = to.op("Gemm", x, kernel, bias, shape=shape)
    else:
        y = to.op("MatMul", x, kernel, shape=shape)
        y = y if bias is None else to.each("Add", y, bias)
    y = activated(to, y, activation)
    y.source = ((x, kernel, bias), activation)
    return y


@onnx_form("einsum")
def _einsum(to: GraphBuilder, *values: Value, subscripts: str) -> Value:
    return to.op("Einsum", *values, equation=subscripts, shape=spec_shape(to))


# ---------------------------------------------------------------------- normalization


@onnx_form("fused_normalization")
def _fused_normalization(
    to: GraphBuilder,
    x: Value,
    scale: Value | None,
    offset: Value | None,
    axis: Sequence[int],
    epsilon: float,
    over_batch: bool,
    centred: bool = True,
) -> Any:
    axes = sorted(a % x.rank for a in axis)
    if not over_batch and centred and axes == list(range(x.rank - len(axes), x.rank)):
        return _layer_normalization(to, x, scale, offset, axes, epsilon)
    over = [i for i in range(x.rank) if i not in axes] if over_batch else axes
    y, mean, spread = _standardize(to, x, over, epsilon, centred)
    for kind, factor in (("Mul", scale), ("Add", offset)):
        if factor is not None:
            y = to.each(kind, y, _along(to, factor, axes, x))
    if not over_batch:
        return y
    return y, *[to.reshape(part, [x.shape[a] for a in axes], part.shape) for part in (mean, spread)]


def _layer_normalization(
    to: GraphBuilder, x: Value, scale: Any, offset: Any, axes: list[int], epsilon: float
) -> Value:
    sizes = [x.shape[a] for a in axes]
    if scale is None:
        scale = to.known(np.ones([int(n or 1) for n in sizes]), x.dtype)
    return to.op(
        "LayerNormalization", x, scale, offset, axis=axes[0], epsilon=float(epsilon), shape=x.shape
    )


def _along(to: GraphBuilder, factor: Value, axes: Sequence[int], x: Value) -> Value:
    """A factor for each position along `axes`, which broadcasts to `x`."""
    sizes = [x.shape[i] if i in axes else 1 for i in range(x.rank)]
    if factor.is_known:
        return to.known(factor.array.reshape(sizes), label=factor.label)
    return to.reshape(factor, [-1 if n is None else n for n in sizes], tuple(sizes))


def _standardize(
    to: GraphBuilder, x: Value, axes: Sequence[int], epsilon: float, centred: bool = True
) -> tuple[Value, Value, Value]:
    """`x` less its mean, over its deviation; the mean, and the variance."""
    over = tuple(axes)
    mean = reduce(to, "ReduceMean", x, over, True)
    if centred:
        spread = variance(to, x, over, True)
        x = to.each("Sub", x, mean)
    else:
        spread = reduce(to, "ReduceMean", to.each("Mul", x, x), over, True)
    return to.each("Div", x, to.each("Sqrt", to.each("Add", spread, epsilon))), mean, spread


@onnx_form("grouped_normalization")
def _grouped_normalization(
    to: GraphBuilder,
    x: Value,
    scale: Value | None,
    offset: Value | None,
    axis: int,
    groups: int,
    epsilon: float,
) -> Value:
    dims = [to.size_of(x, i) for i in range(x.rank)]
    parts = groups, x.shape[axis] // groups
    shape = *x.shape[:axis], *parts, *x.shape[axis + 1 :]
    grouped = to.reshape(x, [*dims[:axis], *parts, *dims[axis + 1 :]], shape)
    over = [i for i in range(1, x.rank + 1) if i != axis]
    y = to.reshape(_standardize(to, grouped, over, epsilon)[0], dims, x.shape)
    for kind, factor in (("Mul", scale), ("Add", offset)):
        if factor is not None:
            y = to.each(kind, y, _along(to, factor, [axis], x))
    return y


@onnx_form("standardized")
def _standardized(
    to: GraphBuilder, x: Value, axis: Any, epsilon: float, centred: bool = True
) -> Value:
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    return _standardize(to, x, axes, epsilon, centred)[0]


# ---------------------------------------------------------------------- attention


@onnx_form("attention")
def _attention(
    to: GraphBuilder, q: Value, k: Value, v: Value, mask: Value | None, scale: float, causal: bool
) -> Value:
    """softmax(q k^T * scale) v, each (batch, length, heads, size)."""
    heads, groups = q.shape[2], k.shape[2]
    if heads is None or groups is None:
        raise UnimplementedError("attention over an unknown number of heads")
    q, k, v = [to.transpose(x, [0, 2, 1, 3]) for x in (q, k, v)]
    k, v = [_repeated_heads(to, x, heads // groups) for x in (k, v)]
    rows, columns = q.shape[2], k.shape[2]
    turned = to.transpose(k, [0, 1, 3, 2])
    lines = (q.shape[0], heads, rows, columns)
    scores = to.op("MatMul", to.each("Mul", q, float(scale)), turned, shape=lines)
    visible = _visible(to, q, k, mask, causal)
    if visible is not None:
        low = to.known(-np.inf, scores.dtype)
        scores = to.each("Where", visible, scores, low)
    shares = to.op("Softmax", scores, axis=-1, shape=lines)
    if visible is not None:  # a line that sees nothing has no shares, where softmax gives NaN
        shares = to.each("Where", visible, shares, to.known(0, shares.dtype))
    y = to.op("MatMul", shares, v, shape=(q.shape[0], heads, rows, v.shape[3]))
    return to.transpose(y, [0, 2, 1, 3])


def _repeated_heads(to: GraphBuilder, x: Value, times: int) -> Value:
    if times == 1:
        return x
    positions = np.repeat(np.arange(x.shape[1]), times)
    shape = (x.shape[0], len(positions), *x.shape[2:])
    return to.op("Gather", x, to.known(positions, "int64"), axis=1, shape=shape)


def _visible(
    to: GraphBuilder, q: Value, k: Value, mask: Value | None, causal: bool
) -> Value | None:
    """Which keys each query sees, or `None` where it is all of them."""
    visible = None if mask is None else as_bool(to, mask)
    if not causal:
        return visible
    rows, columns = [_count(to, x) for x in (q, k)]
    earlier = to.each("LessOrEqual", to.unsqueeze(columns, [0]), to.unsqueeze(rows, [1]),
                      dtype="bool")  # fmt: skip
    return earlier if visible is None else to.each("And", visible, earlier)


def _count(to: GraphBuilder, x: Value) -> Value:
    """0, 1, 2, ... along the third axis."""
    if x.shape[2] is not None:
        return to.known(np.arange(x.shape[2]), "int64")
    size = to.squeeze(to.size_of(x, 2), [0])
    bounds = [to.known(0, "int64"), size, to.known(1, "int64")]
    return to.op("Range", *bounds, shape=(None,), dtype="int64")
