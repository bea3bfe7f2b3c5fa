"""Operators on each element, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.tensor import Tensor
from trainkit.onnx.imported_values import ChannelsLast, dtype_of, known_array, rank, tensor
from trainkit.onnx.operator_rules import ELEMENTWISE, RULES, NodeCall, onnx_rule
from trainkit.onnx.tensor_reading import dtype_name

_ONE: dict[str, Callable[..., Tensor]] = {
    "Abs": ops.abs, "Neg": ops.negative, "Exp": ops.exp, "Log": ops.log, "Sqrt": ops.sqrt,
    "Reciprocal": ops.reciprocal, "Floor": ops.floor, "Ceil": ops.ceil, "Round": ops.round,
    "Sign": ops.sign, "Erf": ops.erf, "Sigmoid": ops.sigmoid, "Tanh": ops.tanh, "Relu": ops.relu,
    "Sin": ops.sin, "Cos": ops.cos, "Tan": ops.tan, "Asin": ops.arcsin, "Acos": ops.arccos,
    "Atan": ops.arctan, "Sinh": ops.sinh, "Cosh": ops.cosh, "Asinh": ops.arcsinh,
    "Acosh": ops.arccosh, "Atanh": ops.arctanh, "Softplus": ops.softplus,
    "Softsign": ops.softsign, "HardSwish": ops.hard_swish, "Mish": ops.mish,
    "Not": ops.logical_not, "IsNaN": ops.isnan, "BitwiseNot": ops.bitwise_not,
}  # fmt: skip
_TWO: dict[str, Callable[..., Tensor]] = {
    "Add": ops.add, "Sub": ops.subtract, "Mul": ops.multiply, "Equal": ops.equal,
    "Greater": ops.greater, "GreaterOrEqual": ops.greater_equal, "Less": ops.less,
    "LessOrEqual": ops.less_equal, "And": ops.logical_and, "Or": ops.logical_or,
    "Xor": ops.logical_xor, "BitwiseAnd": ops.bitwise_and, "BitwiseOr": ops.bitwise_or,
    "BitwiseXor": ops.bitwise_xor,
}  # fmt: skip
_MANY = {"Max": ops.maximum, "Min": ops.minimum, "Sum": ops.add}
_SELU = 1.67326319217681884765625, 1.05070102214813232421875


def _unary(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda call, x: function(tensor(x))


def _binary(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda call, a, b: function(tensor(a), tensor(b))


def _variadic(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda call, *xs: reduce(function, [tensor(x) for x in xs])


RULES.update({name: _unary(f) for name, f in _ONE.items()})
RULES.update({name: _binary(f) for name, f in _TWO.items()})
RULES.update({name: _variadic(f) for name, f in _MANY.items()})
ELEMENTWISE.update(name for name in (*_ONE, *_TWO, *_MANY))
ELEMENTWISE.update(
    """Identity Div Mod Pow Mean Cast CastLike Clip LeakyRelu Elu Selu Celu ThresholdedRelu
    HardSigmoid Gelu Swish Shrink IsInf Where BitShift""".split()
)


onnx_rule("Identity")(lambda call, x: x)
onnx_rule("Mean")(lambda call, *xs: reduce(ops.add, [tensor(x) for x in xs]) / len(xs))


@onnx_rule("Div")
def _div(call: NodeCall, a: Any, b: Any) -> Tensor:
    a, b = tensor(a), tensor(b)
    if a.dtype.is_floating:
        return ops.divide(a, b)
    if a.dtype.name.startswith("u"):
        return ops.floor_divide(a, b)
    quotient = ops.floor_divide(ops.abs(a), ops.abs(b))  # ONNX rounds towards 0
    return ops.where(ops.equal(ops.less(a, 0), ops.less(b, 0)), quotient, -quotient)


@onnx_rule("Mod")
def _mod(call: NodeCall, a: Any, b: Any) -> Tensor:
    return (ops.fmod if call.flag("fmod") else ops.mod)(tensor(a), tensor(b))


@onnx_rule("Pow")
def _pow(call: NodeCall, x: Any, y: Any) -> Tensor:
    x, y = tensor(x), tensor(y)
    if y.dtype.is_floating and not x.dtype.is_floating:
        return ops.cast(ops.power(ops.cast(x, y.dtype), y), x.dtype)
    return ops.power(x, ops.cast(y, x.dtype))


@onnx_rule("BitShift")
def _bit_shift(call: NodeCall, x: Any, y: Any) -> Tensor:
    left = call.one_of("direction", None, ("LEFT", "RIGHT")) == "LEFT"
    return (ops.left_shift if left else ops.right_shift)(tensor(x), tensor(y))


@onnx_rule("Cast")
def _cast(call: NodeCall, x: Any) -> Tensor:
    dtype = dtype_name(call.int("to"), "the result")
    if dtype_of(x) == "string":
        raise UnimplementedError("text is not read as numbers; give the numbers")
    return ops.cast(tensor(x), dtype)


onnx_rule("CastLike")(lambda call, x, like: ops.cast(tensor(x), dtype_of(like)))


@onnx_rule("Clip")
def _clip(call: NodeCall, x: Any, low: Any = None, high: Any = None) -> Tensor:
    if call.version < 11:
        low, high = call.float("min", None), call.float("max", None)
    y = tensor(x)
    limits = [bound if isinstance(bound, float) else known_array(bound) for bound in (low, high)]
    if limits == [0.0, 6.0] and y.dtype.is_floating:
        return ops.relu6(y)  # the same bits, and done together with what stands before it
    for bound, limited in ((low, ops.maximum), (high, ops.minimum)):
        if bound is not None:
            y = limited(y, ops.cast(bound if isinstance(bound, float) else tensor(bound), y.dtype))
    return y


onnx_rule("Where")(lambda call, condition, a, b: ops.where(tensor(condition), tensor(a), tensor(b)))


@onnx_rule("IsInf")
def _isinf(call: NodeCall, x: Any) -> Tensor:
    x = tensor(x)
    y = ops.isinf(x)
    if not call.flag("detect_positive", True):
        y = ops.logical_and(y, ops.less(x, 0))
    return y if call.flag("detect_negative", True) else ops.logical_and(y, ops.greater(x, 0))


# ------------------------------------------------------------------ activations


onnx_rule("LeakyRelu")(lambda call, x: ops.leaky_relu(tensor(x), call.float("alpha", 0.01)))


@onnx_rule("PRelu")
def _prelu(call: NodeCall, x: Any, slope: Any) -> Any:
    if isinstance(x, ChannelsLast) and rank(slope) == rank(x):
        moved = ops.transpose(tensor(slope), (0, *range(2, rank(x)), 1))
        return ChannelsLast(_rectify(x.tensor, moved))
    return _rectify(tensor(x), tensor(slope))


def _rectify(x: Tensor, slope: Tensor) -> Tensor:
    return ops.where(ops.less(x, 0), slope * x, x)


onnx_rule("Elu")(lambda call, x: ops.elu(tensor(x), call.float("alpha", 1.0)))
onnx_rule("Celu")(lambda call, x: ops.celu(tensor(x), call.float("alpha", 1.0)))


@onnx_rule("Selu")
def _selu(call: NodeCall, x: Any) -> Tensor:
    alpha, gamma = call.float("alpha", _SELU[0]), call.float("gamma", _SELU[1])
    return gamma * ops.elu(tensor(x), alpha)


@onnx_rule("ThresholdedRelu")
def _thresholded_relu(call: NodeCall, x: Any) -> Tensor:
    x = tensor(x)
    return ops.where(ops.greater(x, call.float("alpha", 1.0)), x, ops.zeros_like(x))


@onnx_rule("HardSigmoid")
def _hard_sigmoid(call: NodeCall, x: Any) -> Tensor:
    line = call.float("alpha", 0.2) * tensor(x) + call.float("beta", 0.5)
    return ops.clip(line, 0.0, 1.0)


@onnx_rule("Gelu")
def _gelu(call: NodeCall, x: Any) -> Tensor:
    kind = call.one_of("approximate", "none", ("none", "tanh"))
    return ops.gelu(tensor(x), approximate=kind == "tanh")


@onnx_rule("Swish")
def _swish(call: NodeCall, x: Any) -> Tensor:
    x = tensor(x)
    return x * ops.sigmoid(call.float("alpha", 1.0) * x)


@onnx_rule("Shrink")
def _shrink(call: NodeCall, x: Any) -> Tensor:
    x, bias, bound = tensor(x), call.float("bias", 0.0), call.float("lambd", 0.5)
    zero = ops.zeros_like(x)
    above = ops.where(ops.greater(x, bound), ops.cast(x - bias, x.dtype), zero)
    return ops.where(ops.less(x, -bound), ops.cast(x + bias, x.dtype), above)


@onnx_rule("Softmax", "LogSoftmax", "Hardmax")
def _softmax(call: NodeCall, x: Any) -> Tensor:
    x = tensor(x)
    functions = {"Softmax": ops.softmax, "LogSoftmax": ops.log_softmax, "Hardmax": _hardmax}
    function, count = functions[call.op_type], len(x.shape)
    if call.version >= 13:
        return function(x, axis=call.int("axis", -1))
    axis = call.int("axis", 1)
    if axis in (-1, count - 1):
        return function(x, axis=-1)
    live = ops.shape(x)  # older versions take all axes from this one on as one
    flat = ops.reshape(x, (*live[:axis], -1))
    return ops.reshape(function(flat, axis=-1), live)


def _hardmax(x: Tensor, axis: int) -> Tensor:
    size = x.shape[axis]
    if size is None:
        raise InvalidArgumentError("the size of the axis has to be known")
    return ops.one_hot(ops.argmax(x, axis=axis), size, axis=axis, dtype=x.dtype)
