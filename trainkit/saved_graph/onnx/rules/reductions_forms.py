"""Sums and other reductions, argmax and argmin, sorting, and sums along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit.core.errors import UnimplementedError
from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value, axis_in_first
from trainkit.saved_graph.onnx.rules.elementwise_forms import widen
from trainkit.saved_graph.onnx.rules.onnx_form import onnx_form

Axes = int | tuple[int, ...] | None


def axes_of(axis: Axes, rank: int) -> list[int]:
    """The axes that a setting names, counted from the front."""
    if axis is None:
        return list(range(rank))
    return sorted(a % rank for a in (axis if isinstance(axis, tuple | list) else (axis,)))


def reduce(to: GraphBuilder, kind: str, x: Value, axis: Axes, keepdims: bool) -> Value:
    """A reduction; what has its channels in front is reduced as it is."""
    axes = axes_of(axis, x.rank)
    if not axes:
        return x
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    if x.is_transposed:
        first = [axis_in_first(a, x.rank) for a in axes]
        left = [i for i in range(x.rank) if i not in axes]
        in_order = sorted(left, key=lambda i: axis_in_first(i, x.rank)) == left
        if keepdims or in_order:
            name = to.node(
                kind,
                [to.name_with_channels_first(x), to.name_of(to.known(sorted(first), "int64"))],
                keepdims=int(keepdims),
            )
            if keepdims:
                return Value(to, shape, x.dtype, channels_first=name)
            return Value(to, tuple(x.shape[i] for i in left), x.dtype, name)
    if not keepdims:
        shape = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    return to.op(kind, x, axes, keepdims=int(keepdims), shape=shape)


onnx_form("sum")(
    lambda to, x, axis, keepdims: reduce(to, "ReduceSum", widen(to, x), axis, keepdims)
)


@onnx_form("square_sum")
def _square_sum(to: GraphBuilder, x: Value, axis: Axes, keepdims: bool) -> Value:
    return reduce(to, "ReduceSumSquare", x, axis, keepdims)


@onnx_form("prod")
def _prod(to: GraphBuilder, x: Value, axis: Axes, keepdims: bool) -> Value:
    return reduce(to, "ReduceProd", widen(to, x), axis, keepdims)


@onnx_form("mean")
def mean(to: GraphBuilder, x: Value, axis: Axes, keepdims: bool) -> Value:
    """The mean, of integers as floats."""
    if "float" not in x.dtype:
        x = to.cast(x, to.call.specs[0].dtype.name)
    return reduce(to, "ReduceMean", x, axis, keepdims)


onnx_form("var")(lambda to, x, axis, keepdims: variance(to, x, axis, keepdims))


def variance(to: GraphBuilder, x: Value, axis: Axes, keepdims: bool) -> Value:
    """The mean of squared distances from the mean."""
    if "float" not in x.dtype:
        x = to.cast(x, to.call.specs[0].dtype.name)
    distance = to.each("Sub", x, reduce(to, "ReduceMean", x, axis, True))
    return reduce(to, "ReduceMean", to.each("Mul", distance, distance), axis, keepdims)


def _extreme(kind: str, of_two: str) -> Callable[..., Value]:
    def rule(to: GraphBuilder, x: Value, axis: Axes, keepdims: bool, initial: Any = None) -> Value:
        result = reduce(to, kind, widen(to, x), axis, keepdims)
        return result if initial is None else to.each(of_two, result, initial)

    return rule


onnx_form("max")(_extreme("ReduceMax", "Max"))
onnx_form("min")(_extreme("ReduceMin", "Min"))


def _truth(kind: str) -> Callable[..., Value]:
    def rule(to: GraphBuilder, x: Value, axis: Axes, keepdims: bool) -> Value:
        ones = to.cast(to.cast(x, "bool"), "int32")
        return to.cast(reduce(to, kind, ones, axis, keepdims), "bool")

    return rule


onnx_form("all")(_truth("ReduceMin"))
onnx_form("any")(_truth("ReduceMax"))


@onnx_form("logsumexp")
def _logsumexp(to: GraphBuilder, x: Value, axis: Axes, keepdims: bool) -> Value:
    return reduce(to, "ReduceLogSumExp", x, axis, keepdims)


def _position(kind: str) -> Callable[..., Value]:
    """The rule for the position of an extreme, by ONNX's `ArgMax` or `ArgMin`."""

    def rule(
        to: GraphBuilder, x: Value, axis: int | None, keepdims: bool, dtype: Any = None
    ) -> Value:
        if axis is None:
            if keepdims and x.rank > 1:
                raise UnimplementedError("the position in a flat tensor can't keep axes")
            x, axis = to.reshape(x, [-1], (None,)), 0
        axis %= x.rank
        shape = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
        if not keepdims:
            shape = x.shape[:axis] + x.shape[axis + 1 :]
        return to.op(
            kind, widen(to, x), axis=axis, keepdims=int(keepdims), shape=shape, dtype="int64"
        )

    return rule


onnx_form("argmax")(_position("ArgMax"))
onnx_form("argmin")(_position("ArgMin"))


@onnx_form("cumsum")
def _cumsum(to: GraphBuilder, x: Value, axis: int, exclusive: bool, reverse: bool) -> Value:
    number = to.known(axis % x.rank, "int64")
    x = widen(to, x)
    return to.op("CumSum", x, number, exclusive=int(exclusive), reverse=int(reverse), shape=x.shape)


onnx_form("sort")(lambda to, x, axis: _order(to, x, axis)[0])
onnx_form("argsort")(lambda to, x, axis, **settings: _order(to, x, axis)[1])


def _order(to: GraphBuilder, x: Value, axis: int) -> list[Value]:
    x = widen(to, x)
    count = to.vector([to.size_of(x, axis)])
    return to.ops(
        "TopK", x, count, count=2, shapes=[x.shape] * 2, dtypes=[x.dtype, "int64"],
        axis=axis % x.rank, largest=0, sorted=1,
    )  # fmt: skip


@onnx_form("top_k")
def _top_k(to: GraphBuilder, x: Value, k: int, sorted: bool) -> tuple[Value, ...]:
    x = widen(to, x)
    shape = (*x.shape[:-1], int(k))
    return tuple(
        to.ops(
            "TopK",
            x,
            [int(k)],
            count=2,
            shapes=[shape] * 2,
            dtypes=[x.dtype, "int64"],
            axis=-1,
            largest=1,
            sorted=1,
        )
    )
