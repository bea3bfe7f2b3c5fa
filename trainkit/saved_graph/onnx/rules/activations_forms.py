"""Activations, by ONNX's operator where that means the same, else by their formula."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from trainkit.ops.neural import bias_activation as bias_activation  # declares operations
from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value
from trainkit.saved_graph.onnx.rules.elementwise_forms import clipped, widened
from trainkit.saved_graph.onnx.rules.onnx_form import onnx_form


def _named(name: str, kind: str, **fixed: Any) -> None:
    """One activation that is one operator."""

    @onnx_form(name)
    def rule(to: GraphBuilder, x: Value) -> Value:
        return to.each(kind, x, **fixed)


_named("sigmoid", "Sigmoid")
_named("softplus", "Softplus")
_named("softsign", "Softsign")
_named("selu", "Selu", alpha=1.6732632423543772, gamma=1.0507009873554805)
_named("hard_sigmoid", "HardSigmoid", alpha=1 / 6, beta=0.5)


def _by_formula(name: str, formula: Callable[..., Value]) -> None:
    onnx_form(name)(formula)


@onnx_form("relu")
def relu(to: GraphBuilder, x: Value) -> Value:
    """max(x, 0)."""
    if "float" in x.dtype:
        return to.each("Relu", x)
    return to.each("Max", *widened(to, (x,)), 0)


@onnx_form("leaky_relu")
def _leaky_relu(to: GraphBuilder, x: Value, negative_slope: float) -> Value:
    return to.each("LeakyRelu", x, alpha=float(negative_slope))


onnx_form("elu")(lambda to, x, alpha: to.each("Elu", x, alpha=float(alpha)))


@onnx_form("celu")
def _celu(to: GraphBuilder, x: Value, alpha: float) -> Value:
    below = to.each("Sub", to.each("Exp", to.each("Div", to.each("Min", x, 0.0), alpha)), 1.0)
    return to.each("Add", to.each("Max", x, 0.0), to.each("Mul", below, alpha))


_by_formula("relu6", lambda to, x: clipped(to, x, 0, 6))
_by_formula("hard_tanh", lambda to, x: clipped(to, x, -1, 1))
_by_formula("silu", lambda to, x: to.each("Mul", x, to.each("Sigmoid", x)))
_by_formula("mish", lambda to, x: to.each("Mul", x, to.each("Tanh", to.each("Softplus", x))))
_by_formula("log_sigmoid", lambda to, x: to.each("Neg", to.each("Softplus", to.each("Neg", x))))
_by_formula("tanh_shrink", lambda to, x: to.each("Sub", x, to.each("Tanh", x)))


@onnx_form("hard_silu")
def _hard_silu(to: GraphBuilder, x: Value) -> Value:
    return to.each("Mul", x, to.each("HardSigmoid", x, alpha=1 / 6, beta=0.5))


@onnx_form("soft_shrink")
def _soft_shrink(to: GraphBuilder, x: Value, threshold: float) -> Value:
    size = to.each("Max", to.each("Sub", to.each("Abs", x), threshold), 0.0)
    return to.each("Mul", to.each("Sign", x), size)


@onnx_form("hard_shrink")
def _hard_shrink(to: GraphBuilder, x: Value, threshold: float) -> Value:
    is_large = to.each("Greater", to.each("Abs", x), threshold, dtype="bool")
    return to.each("Where", is_large, x, to.known(0, x.dtype))


@onnx_form("huber_penalty")
def _huber_penalty(to: GraphBuilder, x: Value, delta: float) -> Value:
    size = to.each("Abs", x)
    bounded = to.each("Min", size, delta)
    return to.each("Mul", bounded, to.each("Sub", size, to.each("Mul", bounded, 0.5)))


@onnx_form("squareplus")
def _squareplus(to: GraphBuilder, x: Value, b: float) -> Value:
    root = to.each("Sqrt", to.each("Add", to.each("Mul", x, x), b))
    return to.each("Mul", to.each("Add", x, root), 0.5)


@onnx_form("gelu_erf")
def gelu_erf(to: GraphBuilder, x: Value) -> Value:
    """0.5 * x * (1 + erf(x / sqrt(2)))."""
    share = to.each("Add", to.each("Erf", to.each("Div", x, math.sqrt(2))), 1.0)
    return to.each("Mul", to.each("Mul", x, share), 0.5)


onnx_form("biased_gelu")(lambda to, z, bias: gelu_erf(to, to.each("Add", z, bias)))


@onnx_form("gelu_tanh")
def _gelu_tanh(to: GraphBuilder, x: Value) -> Value:
    cube = to.each("Mul", to.each("Mul", x, x), x)
    inner = to.each("Mul", to.each("Add", x, to.each("Mul", cube, 0.044715)),
                    math.sqrt(2 / math.pi))  # fmt: skip
    return to.each("Mul", to.each("Mul", x, to.each("Add", to.each("Tanh", inner), 1.0)), 0.5)


def _over_axes(kind: str) -> Callable[[GraphBuilder, Value, Any], Value]:
    def rule(to: GraphBuilder, x: Value, axis: Any) -> Value:
        axes = [a % x.rank for a in (axis if isinstance(axis, tuple | list) else (axis,))]
        if len(axes) == 1:
            return to.op(kind, x, axis=axes[0], shape=x.shape)
        order = [i for i in range(x.rank) if i not in axes] + axes
        moved = to.transpose(x, order)
        sizes = [*[to.size_of(moved, i) for i in range(x.rank - len(axes))], -1]
        flat = to.reshape(moved, sizes, (*moved.shape[: x.rank - len(axes)], None))
        result = to.op(kind, flat, axis=-1, shape=flat.shape)
        result = to.op("Reshape", result, to.shape_of(moved), shape=moved.shape)
        return to.transpose(result, [order.index(i) for i in range(x.rank)])

    return rule


onnx_form("softmax")(_over_axes("Softmax"))
onnx_form("log_softmax")(_over_axes("LogSoftmax"))
