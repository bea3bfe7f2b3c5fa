"""Arithmetic, sums and arrangement of complex numbers, which are pairs of real ones here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value
from trainkit.saved_graph.onnx.rules.elementwise_forms import arctan2
from trainkit.saved_graph.onnx.rules.onnx_form import complex_form
from trainkit.saved_graph.onnx.rules.reductions_forms import axes_of, reduce
from trainkit.saved_graph.onnx.rules.shapes_forms import filled, spec_shape
from trainkit.saved_graph.onnx.rules.spectra_forms import (
    make_complex,
    part_of,
    parts_of,
    stack_parts,
)


def _pair(to: GraphBuilder, x: Any) -> tuple[Value, Value]:
    return part_of(to, x, 0), part_of(to, x, 1)


def _squared_magnitude(to: GraphBuilder, x: Any) -> Value:
    """The square of the magnitude."""
    re, im = _pair(to, x)
    return to.each("Add", to.each("Mul", re, re), to.each("Mul", im, im))


def _product(to: GraphBuilder, kind: str, a: Any, b: Any, **settings: Any) -> Value:
    """(a + bi)(c + di) = (ac - bd) + (ad + bc)i, of elements or of matrices."""
    (re_a, im_a), (re_b, im_b) = _pair(to, a), _pair(to, b)

    def product(x: Value, y: Value) -> Value:
        if kind == "Mul":
            return to.each(kind, x, y)
        return to.op(kind, x, y, shape=spec_shape(to), **settings)

    re = to.each("Sub", product(re_a, re_b), product(im_a, im_b))
    im = to.each("Add", product(re_a, im_b), product(im_a, re_b))
    return make_complex(to, stack_parts(to, re, im))


complex_form("multiply")(lambda to, a, b: _product(to, "Mul", a, b))
complex_form("matmul")(lambda to, a, b: _product(to, "MatMul", a, b))


@complex_form("divide")
def _divide(to: GraphBuilder, a: Any, b: Any) -> Value:
    """The product with the conjugate, divided by the square of the magnitude."""
    (re_a, im_a), (re_b, im_b) = _pair(to, a), _pair(to, b)
    square = _squared_magnitude(to, b)
    re = to.each("Add", to.each("Mul", re_a, re_b), to.each("Mul", im_a, im_b))
    im = to.each("Sub", to.each("Mul", im_a, re_b), to.each("Mul", re_a, im_b))
    return make_complex(to, stack_parts(to, *(to.each("Div", part, square) for part in (re, im))))


complex_form("square")(lambda to, x: _product(to, "Mul", x, x))


@complex_form("exp")
def _exp(to: GraphBuilder, x: Value) -> Value:
    re, im = _pair(to, x)
    return _polar(to, to.each("Exp", re), im)


def _polar(to: GraphBuilder, magnitude: Value, angle: Value) -> Value:
    parts = [to.each("Mul", magnitude, to.each(kind, angle)) for kind in ("Cos", "Sin")]
    return make_complex(to, stack_parts(to, *parts))


@complex_form("log")
def _log(to: GraphBuilder, x: Value) -> Value:
    return make_complex(
        to,
        stack_parts(
            to, to.each("Mul", to.each("Log", _squared_magnitude(to, x)), 0.5), _angle(to, x)
        ),
    )


@complex_form("angle")
def _angle(to: GraphBuilder, x: Value) -> Value:
    re, im = _pair(to, x)
    return arctan2(to, im, re)


@complex_form("equal")
def _equal(to: GraphBuilder, a: Any, b: Any) -> Value:
    parts = zip(_pair(to, a), _pair(to, b), strict=True)
    return to.each("And", *(to.each("Equal", x, y, dtype="bool") for x, y in parts))


# ---------------------------------------------------------------------- arrangement and sums


def _arrange_parts(to: GraphBuilder, x: Value, arrange: Callable[[Value], Value]) -> Value:
    """Both parts arranged alike."""
    return make_complex(to, stack_parts(to, *(arrange(part) for part in _pair(to, x))))


@complex_form("reshape")
def _reshape(to: GraphBuilder, x: Value, shape: Sequence[int]) -> Value:
    return make_complex(to, to.reshape(parts_of(to, x), [*shape, 2], (*spec_shape(to), 2)))


@complex_form("reshape_sized")
def _reshape_sized(to: GraphBuilder, x: Value, *sizes: Any, shape: Sequence[int | None]) -> Value:
    target = [*filled(shape, sizes), 2]
    return make_complex(to, to.reshape(parts_of(to, x), target, (*spec_shape(to), 2)))


@complex_form("squeeze")
def _squeeze(to: GraphBuilder, x: Value, axis: Any = None) -> Value:
    axes = [i for i, n in enumerate(x.shape) if n == 1] if axis is None else axes_of(axis, x.rank)
    return make_complex(to, to.squeeze(parts_of(to, x), axes))


@complex_form("concatenate")
def _concatenate(to: GraphBuilder, *values: Value, axis: int) -> Value:
    parts = [parts_of(to, x) for x in values]
    shape = (*spec_shape(to), 2)
    return make_complex(to, to.op("Concat", *parts, axis=axis % values[0].rank, shape=shape))


@complex_form("stack")
def _stack(to: GraphBuilder, *values: Value, axis: int) -> Value:
    axis %= values[0].rank + 1
    parts = [to.unsqueeze(parts_of(to, x), [axis]) for x in values]
    return make_complex(to, to.op("Concat", *parts, axis=axis, shape=(*spec_shape(to), 2)))


@complex_form("sum")
def _sum(to: GraphBuilder, x: Value, axis: Any, keepdims: bool) -> Value:
    return _arrange_parts(to, x, lambda part: reduce(to, "ReduceSum", part, axis, keepdims))


@complex_form("mean")
def _mean(to: GraphBuilder, x: Value, axis: Any, keepdims: bool) -> Value:
    return _arrange_parts(to, x, lambda part: reduce(to, "ReduceMean", part, axis, keepdims))


def _fill_like(to: GraphBuilder, x: Value, number: float) -> Value:
    shape = to.shape_of(part_of(to, x, 0))
    parts = [to.op("Expand", to.known(n, parts_of(to, x).dtype), shape, shape=x.shape)
             for n in (number, 0.0)]  # fmt: skip
    return make_complex(to, stack_parts(to, *parts))


complex_form("zeros_like")(lambda to, x, dtype=None: _fill_like(to, x, 0.0))
complex_form("ones_like")(lambda to, x, dtype=None: _fill_like(to, x, 1.0))


@complex_form("where")
def _where(to: GraphBuilder, condition: Value, a: Any, b: Any) -> Value:
    pairs = zip(_pair(to, a), _pair(to, b), strict=True)
    return make_complex(to, stack_parts(to, *(to.each("Where", condition, *p) for p in pairs)))
