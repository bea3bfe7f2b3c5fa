"""What runs along an axis from element to element, by `Scan`; quantiles; diagonals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainkit.core.errors import UnimplementedError
from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value
from trainkit.saved_graph.onnx.rules.control_forms import (
    add_node,
    body_builder,
    body_inputs,
    give_results,
)
from trainkit.saved_graph.onnx.rules.elementwise_forms import widen
from trainkit.saved_graph.onnx.rules.onnx_form import onnx_form
from trainkit.saved_graph.onnx.rules.reductions_forms import axes_of, reduce

Step = Callable[..., Value]


def _scan_along(
    to: GraphBuilder, step: Step, lines: Sequence[Value], axis: int, reverse: bool, start: float,
    exclusive: bool = False,
) -> Value:  # fmt: skip
    """`state = step(body, state, *elements)` along an axis; each state, or the one before it."""
    x = lines[0]
    if x.shape[axis] == 0:
        return x
    inner = body_builder(to, "body")
    dims = tuple(n for i, n in enumerate(x.shape) if i != axis)
    state = body_inputs(inner, [(dims, x.dtype)], "carried")[0]
    elements = body_inputs(inner, [(dims, x.dtype)] * len(lines), "element")
    following = step(inner, state, *elements)
    give_results(inner, [following, state if exclusive else following], [x.dtype] * 2)
    sizes = [to.size_of(x, i) for i in range(x.rank) if i != axis]
    first = to.op("Expand", to.known(start, x.dtype), to.vector(sizes), shape=dims)
    ways: dict[str, Any] = {"scan_input_axes": [axis] * len(lines), "scan_output_axes": [axis]}
    if reverse:
        ways["scan_input_directions"] = [1] * len(lines)
        ways["scan_output_directions"] = [1]
    likes = [(dims, x.dtype), (x.shape, x.dtype)]
    node = add_node(
        to, "Scan", [first, *lines], likes, body=inner.record, num_scan_inputs=len(lines), **ways
    )
    return node[1]


@onnx_form("cumprod")
def _cumprod(to: GraphBuilder, x: Value, axis: int, exclusive: bool, reverse: bool) -> Value:
    def step(body: GraphBuilder, state: Value, element: Value) -> Value:
        return body.each("Mul", state, element)

    return _scan_along(to, step, [widen(to, x)], axis % x.rank, reverse, 1, exclusive)


@onnx_form("cumulative_logsumexp")
def _cumulative_logsumexp(
    to: GraphBuilder, x: Value, axis: int, exclusive: bool, reverse: bool
) -> Value:
    def step(body: GraphBuilder, state: Value, element: Value) -> Value:
        peak = body.each("Max", state, element)
        apart = body.each("Neg", body.each("Abs", body.each("Sub", state, element)))
        total = body.each("Add", peak, body.each("Log", body.each("Add", body.each("Exp", apart),
                                                                  1.0)))  # fmt: skip
        # two infinities have no difference
        is_number = body.each("IsNaN", apart, dtype="bool")
        return body.each("Where", is_number, peak, total)

    return _scan_along(to, step, [x], axis % x.rank, reverse, -np.inf, exclusive)


@onnx_form("linear_recurrence")
def _linear_recurrence(to: GraphBuilder, a: Value, b: Value, axis: int, reverse: bool) -> Value:
    def step(body: GraphBuilder, state: Value, factor: Value, element: Value) -> Value:
        return body.each("Add", element, body.each("Mul", factor, state))

    if a.shape != b.shape:
        raise UnimplementedError(f"a recurrence of factors {a.shape} and elements {b.shape}")
    return _scan_along(to, step, [a, b], axis % b.rank, reverse, 0)


@onnx_form("shift_along")
def _shift_along(to: GraphBuilder, x: Value, axis: int, reverse: bool) -> Value:
    axis %= x.rank
    ends = np.zeros((2, x.rank), np.int64)
    ends[int(reverse), axis] = 1
    ends[int(not reverse), axis] = -1
    return to.op("Pad", x, to.known(ends.ravel()), mode="constant", shape=x.shape)


# ---------------------------------------------------------------------- quantiles


@onnx_form("quantile")
def _quantile(
    to: GraphBuilder, x: Value, q: Any, axis: Any, method: str, keepdims: bool, skip_nan: bool
) -> Value:
    """Two ranks of the sorted elements, and what lies between them."""
    axes = axes_of(axis, x.rank)
    sizes = [x.shape[i] for i in axes]
    if skip_nan or None in sizes:
        kind = "that leave NaN out" if skip_nan else "along an axis of unknown size"
        raise UnimplementedError(f"quantiles {kind}")
    x = to.cast(x, to.call.specs[0].dtype.name)
    count = int(np.prod(sizes))
    others = [i for i in range(x.rank) if i not in axes]
    lead = [to.size_of(x, i) for i in others]
    dims = tuple(x.shape[i] for i in others)
    rows = to.reshape(to.transpose(x, [*others, *axes]), [*lead, count], (*dims, count))
    ordered = to.ops("TopK", rows, [count], count=2, shapes=[rows.shape] * 2,
                     dtypes=[x.dtype, "int64"], axis=-1, largest=0, sorted=1)[0]  # fmt: skip
    has_nan = to.cast(to.each("IsNaN", rows, dtype="bool"), "int32")
    is_nan = to.cast(reduce(to, "ReduceMax", has_nan, -1, False), "bool")
    results = []
    for share in q if isinstance(q, tuple) else (q,):
        low, high, weight = _ranks(float(share), count, method)
        pair = [
            to.op("Gather", ordered, to.known(np.int64(rank)), axis=len(dims), shape=dims)
            for rank in (low, high)
        ]
        between = pair[0]
        if weight:
            between = to.each("Add", pair[0], to.each("Mul", to.each("Sub", pair[1], pair[0]),
                                                      weight))  # fmt: skip
        value = to.each("Where", is_nan, to.known(np.nan, x.dtype), between)
        results.append(to.unsqueeze(value, axes) if keepdims and axes else value)
    if not isinstance(q, tuple):
        return results[0]
    stack = [to.unsqueeze(value, [0]) for value in results]
    return to.op("Concat", *stack, axis=0, shape=(len(stack), *results[0].shape))


def _ranks(share: float, count: int, method: str) -> tuple[int, int, float]:
    """The two ranks next to a quantile, and the share of the upper one."""
    position = share * (count - 1)
    low, high = int(np.floor(position)), int(np.ceil(position))
    if method == "linear":
        return low, high, position - low
    if method == "midpoint":
        return low, high, (high - low) / 2
    rank = {"lower": low, "higher": high, "nearest": int(np.rint(position))}[method]
    return rank, rank, 0.0


# ---------------------------------------------------------------------- diagonals and powers


@onnx_form("diag")
def _diag(to: GraphBuilder, x: Value, k: int) -> Value:
    """Each element in its row, and zeros around the square."""
    size = x.shape[-1]
    if size is None:
        raise UnimplementedError("diagonals of an unknown size")
    rows = to.unsqueeze(x, [x.rank])
    square = to.each("Where", to.known(np.eye(size, dtype=bool)), rows, to.known(0, x.dtype))
    if not k:
        return square
    ends = np.zeros((2, square.rank), np.int64)
    ends[0, -1] = ends[1, -2] = max(k, 0)
    ends[0, -2] = ends[1, -1] = max(-k, 0)
    shape = (*x.shape[:-1], size + abs(k), size + abs(k))
    return to.op("Pad", square, to.known(ends.ravel()), mode="constant", shape=shape)


@onnx_form("diagonal")
def _diagonal(to: GraphBuilder, x: Value, offset: int, axis1: int, axis2: int) -> Value:
    first, second = axis1 % x.rank, axis2 % x.rank
    rows, columns = x.shape[first], x.shape[second]
    if rows is None or columns is None:
        raise UnimplementedError("the diagonal of matrices of unknown size")
    others = [i for i in range(x.rank) if i not in (first, second)]
    dims = tuple(x.shape[i] for i in others)
    lead = [to.size_of(x, i) for i in others]
    moved = to.transpose(x, [*others, first, second])
    flat = to.reshape(moved, [*lead, rows * columns], (*dims, rows * columns))
    positions = np.diagonal(np.arange(rows * columns).reshape(rows, columns), offset).copy()
    return to.op("Gather", flat, to.known(positions), axis=len(dims), shape=(*dims, len(positions)))


@onnx_form("vander")
def _vander(to: GraphBuilder, x: Value, exponents: Sequence[int]) -> Value:
    powers = to.known(np.array(exponents), x.dtype)
    return to.each("Pow", x, powers)


# ---------------------------------------------------------------------- windows


@onnx_form("unfold")
def _unfold(
    to: GraphBuilder, x: Value, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> Value:
    """Rows and columns of each window are looked up, (batch, channels, k, out, k, out)."""
    if None in x.shape[1:]:
        raise UnimplementedError("windows of images of unknown size")
    batch, channels = to.size_of(x, 0), x.shape[1]
    ends = [0, 0, *padding] * 2
    sizes = [n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True)]
    padded = to.op("Pad", x, to.known(ends, "int64"), mode="constant", shape=(*x.shape[:2], *sizes))
    counts = []
    for axis in (2, 3):
        i = axis - 2
        offsets = np.arange(kernel_size[i])[:, None] * dilation[i]
        last = sizes[i] - (kernel_size[i] - 1) * dilation[i]
        positions = offsets + np.arange(0, last, stride[i])
        counts.append(positions.shape[1])
        shape = tuple(positions.size if a == axis else n for a, n in enumerate(padded.shape))
        flat = to.known(positions.reshape(-1))
        padded = to.op("Gather", padded, flat, axis=axis, shape=shape)
    split = [kernel_size[0], counts[0], kernel_size[1], counts[1]]
    apart = to.reshape(padded, [batch, channels, *split], (x.shape[0], channels, *split))
    moved = to.transpose(apart, [0, 1, 2, 4, 3, 5])
    rows, columns = channels * kernel_size[0] * kernel_size[1], counts[0] * counts[1]
    return to.reshape(moved, [batch, rows, columns], (x.shape[0], rows, columns))


@onnx_form("sliding_product")
def _sliding_product(to: GraphBuilder, x: Value, window: Value) -> Value:
    """A convolution of one channel."""
    y = to.op("Conv", to.unsqueeze(x, [0, 1]), to.unsqueeze(window, [0, 1]), shape=(1, 1, None))
    return to.squeeze(y, [0, 1])


# ---------------------------------------------------------------------- losses


@onnx_form("sigmoid_cross_entropy_with_logits")
def _sigmoid_cross_entropy(to: GraphBuilder, labels: Value, logits: Value) -> Value:
    """max(x, 0) - x z + log(1 + exp(-|x|))."""
    peak = to.each("Max", logits, 0.0)
    small = to.each("Exp", to.each("Neg", to.each("Abs", logits)))
    logarithm = to.each("Log", to.each("Add", small, 1.0))
    return to.each("Add", to.each("Sub", peak, to.each("Mul", logits, labels)), logarithm)


@onnx_form("softmax_cross_entropy_with_logits")
def _softmax_cross_entropy(to: GraphBuilder, labels: Value, logits: Value) -> Value:
    logs = to.op("LogSoftmax", logits, axis=-1, shape=logits.shape)
    return to.each("Neg", reduce(to, "ReduceSum", to.each("Mul", labels, logs), -1, False))


@onnx_form("sparse_softmax_cross_entropy_with_logits")
def _sparse_softmax_cross_entropy(to: GraphBuilder, labels: Value, logits: Value) -> Value:
    logs = to.op("LogSoftmax", logits, axis=-1, shape=logits.shape)
    rows = to.unsqueeze(to.cast(labels, "int64"), [labels.rank])
    score = to.op("GatherElements", logs, rows, axis=logits.rank - 1, shape=(*labels.shape, 1))
    return to.each("Neg", to.squeeze(score, [labels.rank]))
