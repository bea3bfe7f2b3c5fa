"""Operations of quantized layers."""

from __future__ import annotations

import math

from trainkit.ops.linear_algebra import int8_product as int8_product  # declares operations
from trainkit.ops.neural import fake_quant as fake_quant
from trainkit.ops.neural.fake_quant import FLOAT8
from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value
from trainkit.saved_graph.onnx.rules.elementwise_forms import clipped
from trainkit.saved_graph.onnx.rules.onnx_form import onnx_form
from trainkit.saved_graph.onnx.rules.shapes_forms import spec_shape


@onnx_form("int8_product")
def _int8_product(to: GraphBuilder, a: Value, b: Value) -> Value:
    return to.op("MatMulInteger", a, b, shape=spec_shape(to), dtype="int32")


@onnx_form("float8_rounded")
def _float8_rounded(to: GraphBuilder, x: Value, kind: str) -> Value:
    """The nearest multiple of the distance of numbers of 8 bits around x."""
    mantissa, lowest, largest = FLOAT8[kind]
    operand = to.cast(x, "float32") if x.dtype in ("float16", "bfloat16") else x
    inside = clipped(to, operand, -float(largest), float(largest))
    size = to.each("Max", to.each("Abs", inside), 2.0**lowest)
    power = to.each("Floor", to.each("Mul", to.each("Log", size), 1 / math.log(2.0)))
    step = to.each("Pow", 2.0, to.each("Sub", power, float(mantissa)))
    return to.each("Mul", to.each("Round", to.each("Div", inside, step)), step)


@onnx_form("fake_quant")
def _fake_quant(
    to: GraphBuilder, x: Value, low: Value, high: Value, num_bits: int, narrow_range: bool
) -> Value:
    """`x` rounded to one of `2**num_bits` numbers, as the body of the operation has it."""
    lowest, greatest = float(narrow_range), float(2**num_bits - 1)
    low, high = [to.as_value(end, x) for end in (low, high)]
    is_empty = to.each("Equal", high, low, dtype="bool")
    width = to.each("Where", is_empty, to.known(1, x.dtype), to.each("Sub", high, low))
    scale = to.each("Div", width, greatest - lowest)
    inverse = to.each("Div", greatest - lowest, width)
    zero_point = to.each("Sub", lowest, to.each("Div", low, scale))
    zero = to.each("Floor", to.each("Add", clipped(to, zero_point, lowest, greatest), 0.5))
    start, end = [to.each("Mul", to.each("Sub", n, zero), scale) for n in (lowest, greatest)]
    first = to.each("Floor", to.each("Sub", 0.5, to.each("Mul", start, inverse)))
    steps = to.each("Mul", to.each("Sub", clipped(to, x, start, end), start), inverse)
    rounded = to.each("Floor", to.each("Add", to.each("Sub", steps, first), 0.5))
    return to.each("Where", is_empty, to.known(0, x.dtype), to.each("Mul", rounded, scale))
