"""Arithmetic, functions of one element, comparisons, logic, and choices between elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from trainkit.ops.core import run_time_checks as run_time_checks  # declares operations
from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value
from trainkit.saved_graph.onnx.rules.onnx_form import no_onnx_form, onnx_form

NARROW = ("int8", "int16", "uint8", "uint16")
"""Integers that runtimes do not compute with; int32 holds them all."""


def widen(to: GraphBuilder, x: Value) -> Value:
    """Integers of one or two bytes, and truth values, as int32; others as they are."""
    return to.cast(x, "int32") if x.dtype in (*NARROW, "bool") else x


def widened(to: GraphBuilder, values: tuple[Any, ...]) -> list[Any]:
    """The same of each value; numbers stay as they are."""
    return [widen(to, x) if isinstance(x, Value) else x for x in values]


def _direct(name: str, kind: str) -> None:
    """One operation that is one node of the same meaning."""

    @onnx_form(name)
    def rule(to: GraphBuilder, *inputs: Any) -> Value:
        return to.each(kind, *widened(to, inputs))


for _pair in """
    add:Add subtract:Sub multiply:Mul negative:Neg sqrt:Sqrt absolute:Abs exp:Exp log:Log
    power:Pow sin:Sin cos:Cos tan:Tan arcsin:Asin arccos:Acos arctan:Atan sinh:Sinh cosh:Cosh
    tanh:Tanh arcsinh:Asinh arccosh:Acosh arctanh:Atanh sign:Sign floor:Floor ceil:Ceil
    round:Round erf:Erf reciprocal:Reciprocal maximum:Max minimum:Min
""".split():
    _direct(*_pair.split(":"))


def _compare(name: str, kind: str, negated: bool = False) -> None:
    @onnx_form(name)
    def rule(to: GraphBuilder, a: Any, b: Any) -> Value:
        result = to.each(kind, *widened(to, (a, b)), dtype="bool")
        return to.each("Not", result) if negated else result


_compare("equal", "Equal")
_compare("not_equal", "Equal", negated=True)
_compare("less", "Less")
_compare("less_equal", "LessOrEqual")
_compare("greater", "Greater")
_compare("greater_equal", "GreaterOrEqual")


def _logical(name: str, kind: str) -> None:
    @onnx_form(name)
    def rule(to: GraphBuilder, *inputs: Any) -> Value:
        return to.each(kind, *[as_bool(to, x) for x in inputs])


def as_bool(to: GraphBuilder, x: Any) -> Any:
    """Truth values, or numbers as such."""
    return to.cast(x, "bool") if isinstance(x, Value) else bool(x)


_logical("logical_and", "And")
_logical("logical_or", "Or")
_logical("logical_not", "Not")
_logical("logical_xor", "Xor")


def _bitwise(name: str, kind: str, of_bools: str) -> None:
    @onnx_form(name)
    def rule(to: GraphBuilder, *inputs: Any) -> Value:
        bools = all(x.dtype == "bool" for x in inputs if isinstance(x, Value))
        return to.each(of_bools if bools else kind, *inputs)


_bitwise("bitwise_and", "BitwiseAnd", "And")
_bitwise("bitwise_or", "BitwiseOr", "Or")
_bitwise("bitwise_xor", "BitwiseXor", "Xor")
_bitwise("bitwise_not", "BitwiseNot", "Not")


# ---------------------------------------------------------------------- division


def _is_float(x: Any) -> bool:
    return isinstance(x, Value) and "float" in x.dtype


@onnx_form("divide")
def _divide(to: GraphBuilder, a: Any, b: Any) -> Value:
    floats = [x if not isinstance(x, Value) or _is_float(x) else _as_float(to, x) for x in (a, b)]
    return to.each("Div", *floats)


def _as_float(to: GraphBuilder, x: Value) -> Value:
    """An integer as the float that the graph says the result is."""
    return to.cast(x, to.call.specs[0].dtype.name)


@onnx_form("floor_divide")
def _floor_divide(to: GraphBuilder, a: Any, b: Any) -> Value:
    a, b = widened(to, (a, b))
    if any(_is_float(x) for x in (a, b)):
        return to.each("Floor", to.each("Div", a, b))
    # ONNX cuts off behind the point; what is left of the remainder of b's sign divides evenly
    return to.each("Div", to.each("Sub", a, to.each("Mod", a, b, fmod=0)), b)


@onnx_form("mod")
def _mod(to: GraphBuilder, a: Any, b: Any) -> Value:
    a, b = widened(to, (a, b))
    if not any(_is_float(x) for x in (a, b)):
        return to.each("Mod", a, b, fmod=0)
    remainder = to.each("Mod", a, b, fmod=1)  # of a's sign; b's is due
    moved = to.each("Add", remainder, b)
    signs = to.each("Less", to.each("Mul", to.each("Sign", remainder), b), 0.0, dtype="bool")
    return to.each("Where", signs, moved, remainder)


onnx_form("fmod")(lambda to, a, b: to.each("Mod", *widened(to, (a, b)), fmod=1))


@onnx_form("divide_no_nan")
def _divide_no_nan(to: GraphBuilder, a: Any, b: Any) -> Value:
    b = b if isinstance(b, Value) else to.as_value(b, a)
    a = a if isinstance(a, Value) else to.as_value(a, b)
    is_zero = to.each("Equal", b, 0.0, dtype="bool")
    quotient = to.each("Div", a, to.each("Where", is_zero, to.known(1, b.dtype), b))
    return to.each("Where", is_zero, to.known(0, b.dtype), quotient)


onnx_form("rsqrt")(lambda to, x: to.each("Reciprocal", to.each("Sqrt", x)))


# ---------------------------------------------------------------------- functions of one element


def of_floats(name: str, formula: Callable[[GraphBuilder, Value], Value]) -> None:
    """One operation on floats by its formula."""
    onnx_form(name)(formula)


of_floats("square", lambda to, x: to.each("Mul", *widened(to, (x, x))))
of_floats("expm1", lambda to, x: to.each("Sub", to.each("Exp", x), 1.0))
of_floats("exp2", lambda to, x: to.each("Pow", 2.0, x))
of_floats("log1p", lambda to, x: to.each("Log", to.each("Add", x, 1.0)))
of_floats("log2", lambda to, x: to.each("Mul", to.each("Log", x), 1 / math.log(2.0)))
of_floats("log10", lambda to, x: to.each("Mul", to.each("Log", x), 1 / math.log(10.0)))
of_floats("deg2rad", lambda to, x: to.each("Mul", x, math.pi / 180))
of_floats("rad2deg", lambda to, x: to.each("Mul", x, 180 / math.pi))
of_floats("isnan", lambda to, x: to.each("IsNaN", x, dtype="bool"))
of_floats("isinf", lambda to, x: to.each("IsInf", x, dtype="bool"))


@onnx_form("isfinite")
def _isfinite(to: GraphBuilder, x: Value) -> Value:
    infinite = to.each("IsInf", x, dtype="bool")
    return to.each("Not", to.each("Or", infinite, to.each("IsNaN", x, dtype="bool")))


@onnx_form("trunc")
def _trunc(to: GraphBuilder, x: Value) -> Value:
    return to.each("Mul", to.each("Sign", x), to.each("Floor", to.each("Abs", x)))


@onnx_form("cbrt")
def _cbrt(to: GraphBuilder, x: Value) -> Value:
    return to.each("Mul", to.each("Sign", x), to.each("Pow", to.each("Abs", x), 1 / 3))


@onnx_form("hypot")
def _hypot(to: GraphBuilder, a: Any, b: Any) -> Value:
    squares = [to.each("Mul", x, x) if isinstance(x, Value) else x * x for x in (a, b)]
    return to.each("Sqrt", to.each("Add", *squares))


@onnx_form("arctan2")
def arctan2(to: GraphBuilder, y: Any, x: Any) -> Value:
    """The angle of a point, from -pi to pi.

    Args:
        to: writes the nodes.
        y: the second coordinates.
        x: the first coordinates.
    """
    like = y if isinstance(y, Value) else x
    y, x = to.as_value(y, like), to.as_value(x, like)
    # the angle of a half plane; on the other half it is turned by pi, to the side of y
    angle = to.each("Atan", to.each("Div", y, x))
    turn = to.each("Where", to.each("Less", y, 0.0, dtype="bool"), to.known(-math.pi, y.dtype),
                   to.known(math.pi, y.dtype))  # fmt: skip
    angle = to.each("Where", to.each("Less", x, 0.0, dtype="bool"),
                    to.each("Add", angle, turn), angle)  # fmt: skip
    upright = to.each("Mul", to.each("Sign", y), math.pi / 2)
    return to.each("Where", to.each("Equal", x, 0.0, dtype="bool"), upright, angle)


@onnx_form("logaddexp")
def _logaddexp(to: GraphBuilder, a: Any, b: Any) -> Value:
    distance = to.each("Abs", to.each("Sub", a, b))
    return to.each("Add", to.each("Max", a, b), to.each("Softplus", to.each("Neg", distance)))


onnx_form("fmax")(lambda to, a, b: _without_nan(to, "Max", a, b))
onnx_form("fmin")(lambda to, a, b: _without_nan(to, "Min", a, b))


def _without_nan(to: GraphBuilder, kind: str, a: Any, b: Any) -> Value:
    like = a if isinstance(a, Value) else b
    a, b = to.as_value(a, like), to.as_value(b, like)
    if not _is_float(like):
        return to.each(kind, *widened(to, (a, b)))
    larger = to.each(kind, a, b)
    larger = to.each("Where", to.each("IsNaN", b, dtype="bool"), a, larger)
    return to.each("Where", to.each("IsNaN", a, dtype="bool"), b, larger)


@onnx_form("copysign")
def _copysign(to: GraphBuilder, a: Any, b: Any) -> Value:
    like = a if isinstance(a, Value) else b
    a, b = to.as_value(a, like), to.as_value(b, like)
    size = to.each("Abs", a)
    # 1 / -0.0 is below 0, as -0.0 itself is not
    sign = to.each("Less", to.each("Reciprocal", b), 0.0, dtype="bool")
    return to.each("Where", sign, to.each("Neg", size), size)


# ---------------------------------------------------------------------- choices and limits


@onnx_form("where")
def _where(to: GraphBuilder, condition: Value, a: Any, b: Any) -> Value:
    dtype = to.call.specs[0].dtype.name
    a, b = [to.cast(to.as_value(x, to.known(0, dtype)), dtype) for x in (a, b)]
    return to.each("Where", as_bool(to, condition), a, b)


@onnx_form("keep_where")
def _keep_where(to: GraphBuilder, x: Value, mask: Value) -> Value:
    return to.each("Where", as_bool(to, mask), x, to.known(0, x.dtype))


onnx_form("clip")(lambda to, x, x_min, x_max: clipped(to, x, x_min, x_max))
onnx_form("clip_by_tensors")(lambda to, x, low, high: clipped(to, x, low, high))


def clipped(to: GraphBuilder, x: Any, low: Any, high: Any) -> Value:
    """`x` between two limits, either of which may be `None`."""
    x = widen(to, x)
    are_numbers = all(type(bound) in (int, float) for bound in (low, high))
    if are_numbers and x.dtype in ("float32", "float64"):
        # runtimes do it together with the convolution before it, which they don't with two nodes
        bounds = (to.known(bound, x.dtype) for bound in (low, high))
        return to.op("Clip", x, *bounds, shape=x.shape)
    if high is not None:
        x = to.each("Min", x, *widened(to, (high,)))
    return x if low is None else to.each("Max", x, *widened(to, (low,)))


onnx_form("cast")(lambda to, x, dtype: to.cast(x, to.call.specs[0].dtype.name))


@onnx_form("identity", "stop_gradient", "copy", "copy_to_device", "ensure_shape")
def _unchanged(to: GraphBuilder, x: Value, **settings: Any) -> Value:
    return x


@onnx_form("assert_true", "check_shape")
def _check(to: GraphBuilder, *inputs: Any, **settings: Any) -> tuple[Value, ...]:
    return ()  # ONNX has nothing that stops a run; docs/export.md says so


no_onnx_form(
    "ONNX shifts unsigned integers alone; multiply by a power of 2", "left_shift", "right_shift"
)
