"""Images of unknown sizes by products with matrices of weights, which are worked out in the file.

ONNX's own `Resize` has neither lanczos nor areas, and another antialias than trainkit has; the
weights here are those of `ops/images/resizing.py`, formula by formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.ops.images.pixel_weights import BICUBIC_FRACTIONS
from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value
from trainkit.saved_graph.onnx.rules.reductions_forms import reduce

_EXACT = "float64"  # of weights, as trainkit has it
_LEAST_TOTAL = 1000 * float(np.finfo(np.float32).eps)


def resample(
    to: GraphBuilder, x: Value, size: tuple[Any, Any], method: str, antialias: bool, is_first: bool
) -> Value:
    """Images in another size.

    Args:
        to: writes the nodes.
        x: floats (batch, height, width, channels), or with the channels as second axis.
        size: height and width, ints or values with one element.
        method: one of `KERNELS`, or `"area"`.
        antialias: whether weights are spread as far as images shrink.
        is_first: whether the channels are the second axis.
    """
    axes = (2, 3) if is_first else (1, 2)
    for axis, new in zip(axes, size, strict=True):
        old = _scalar(to, to.size_of(x, axis))
        if method == "area":
            weights = _areas(to, old, _scalar(to, new))
        else:
            fractions = BICUBIC_FRACTIONS if method == "bicubic" and not antialias else 0
            weights = _weights(to, old, _scalar(to, new), KERNELS[method], antialias, fractions)
        letters = "bchw" if is_first else "bhwc"
        summed = letters[axis]
        equation = f"n{summed},{letters}->{letters.replace(summed, 'n')}"
        shape = tuple(None if i == axis else n for i, n in enumerate(x.shape))
        x = to.op("Einsum", to.cast(weights, x.dtype), x, equation=equation, shape=shape)
    return x


def _scalar(to: GraphBuilder, size: Any) -> Value:
    if not isinstance(size, Value):
        return to.known(size, "int64")
    return to.op("Reshape", to.cast(size, "int64"), to.known([], "int64"), shape=())


def _count(to: GraphBuilder, end: Value, start: int = 0) -> Value:
    """The numbers 0, 1, 2 ... below a size, as floats."""
    numbers = to.op("Range", to.known(start, "int64"), end, to.known(1, "int64"), shape=(None,))
    return to.cast(numbers, _EXACT)


def _weights(
    to: GraphBuilder,
    old: Value,
    new: Value,
    kernel: Callable[..., Value],
    antialias: bool,
    fractions: int,
) -> Value:
    """The shares (new, old) of old pixels in new ones."""
    step = to.each("Div", to.cast(old, _EXACT), to.cast(new, _EXACT))
    centers = to.each("Mul", to.each("Add", _count(to, new), 0.5), step)
    centers = to.unsqueeze(to.each("Sub", centers, 0.5), [1])
    if fractions:
        centers = to.each(
            "Div", to.each("Round", to.each("Mul", centers, float(fractions))), float(fractions)
        )
    apart = to.each("Abs", to.each("Sub", centers, _count(to, old)))
    if antialias:
        apart = to.each("Div", apart, to.each("Max", step, 1.0))
    raw = kernel(to, apart)
    total = reduce(to, "ReduceSum", raw, -1, True)
    is_some = to.each("Greater", to.each("Abs", total), _LEAST_TOTAL, dtype="bool")
    share = to.each("Div", raw, to.each("Where", is_some, total, to.known(1.0, _EXACT)))
    return to.each("Where", is_some, share, to.known(0.0, _EXACT))


def _areas(to: GraphBuilder, old: Value, new: Value) -> Value:
    """The shares (new, old) of old pixels in the areas of new ones."""
    step = to.each("Div", to.cast(old, _EXACT), to.cast(new, _EXACT))
    numbers, pixels = to.unsqueeze(_count(to, new), [1]), _count(to, old)
    first = to.each("Mul", numbers, step)
    last = to.each("Mul", to.each("Add", numbers, 1.0), step)
    end = to.each("Min", last, to.each("Add", pixels, 1.0))
    overlap = to.each("Max", to.each("Sub", end, to.each("Max", first, pixels)), 0.0)
    return to.each("Div", overlap, step)


# ---------------------------------------------------------------------- kernels


def _polynomial(to: GraphBuilder, x: Value, *factors: float) -> Value:
    """The factor of the highest power first."""
    value = to.each("Mul", x, factors[0])
    for factor in factors[1:-1]:
        value = to.each("Mul", to.each("Add", value, factor), x) if factor else to.each(
            "Mul", value, x
        )  # fmt: skip
    return to.each("Add", value, factors[-1])


def _pieces(to: GraphBuilder, x: Value, *pieces: tuple[float, Value]) -> Value:
    """The first piece up to its end, then the next one, then 0."""
    result = to.known(0.0, _EXACT)
    for end, value in reversed(pieces):
        result = to.each("Where", to.each("Less", x, end, dtype="bool"), value, result)
    return result


def _triangle(to: GraphBuilder, x: Value) -> Value:
    return to.each("Max", to.each("Sub", 1.0, x), 0.0)


def _cubic(to: GraphBuilder, x: Value) -> Value:
    near, outer = _polynomial(to, x, 1.5, -2.5, 0, 1), _polynomial(to, x, -0.5, 2.5, -4, 2)
    return _pieces(to, x, (1.0, near), (2.0, outer))


def _lanczos(radius: float) -> Callable[[GraphBuilder, Value], Value]:
    def kernel(to: GraphBuilder, x: Value) -> Value:
        is_apart = to.each("Greater", x, 1e-3, dtype="bool")
        safe = to.each("Where", is_apart, x, to.known(1.0, _EXACT))
        waves = [to.each("Sin", to.each("Mul", safe, math.pi / n)) for n in (1, radius)]
        square = to.each("Mul", to.each("Mul", safe, safe), math.pi**2 / radius)
        value = to.each("Div", to.each("Mul", *waves), square)
        is_outside = to.each("Greater", x, radius, dtype="bool")
        value = to.each("Where", is_outside, to.known(0.0, _EXACT), value)
        return to.each("Where", is_apart, value, to.known(1.0, _EXACT))

    return kernel


def _gaussian(to: GraphBuilder, x: Value) -> Value:
    bell = to.each("Exp", to.each("Mul", to.each("Mul", x, x), -2.0))
    is_outside = to.each("Greater", x, 1.5, dtype="bool")
    return to.each("Where", is_outside, to.known(0.0, _EXACT), bell)


def _mitchell(to: GraphBuilder, x: Value) -> Value:
    near = _polynomial(to, x, 7 / 6, -2.0, 0, 8 / 9)
    outer = _polynomial(to, x, -7 / 18, 2.0, -10 / 3, 16 / 9)
    return _pieces(to, x, (1.0, near), (2.0, outer))


KERNELS: dict[str, Callable[[GraphBuilder, Value], Value]] = {
    "bilinear": _triangle,
    "bicubic": _cubic,
    "lanczos3": _lanczos(3.0),
    "lanczos5": _lanczos(5.0),
    "gaussian": _gaussian,
    "mitchellcubic": _mitchell,
}
"""From distances in pixels to weights."""
