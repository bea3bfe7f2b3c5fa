"""Softmax along columns, as many as a register tile has, in LLVM's vectors."""

from __future__ import annotations

from typing import Any, SupportsFloat

from llvmlite import ir
from numba.core import types

from trainkit.kernels.elementwise.vector_math import LEAST, LOG2_E, LOG_2_HIGH, LOG_2_LOW, SERIES
from trainkit.kernels.jit.emitters import emits
from trainkit.kernels.jit.simd import I32, Loop, Tile


class _Columns(Tile):
    """Emits code for a row of `vectors` vectors at a time."""

    def constant(self, value: SupportsFloat) -> Any:
        """A vector of one number that is known."""
        return ir.Constant(self.vector, [float(value)] * self.lanes)

    def row(self, at: Any) -> list[Any]:
        """The vectors from `at` on."""
        return self.weights(at)

    def store_row(self, at: Any, values: list[Any]) -> None:
        """Write vectors from `at` on."""
        for v, value in enumerate(values):
            self.store(value, self.plus(at, v * self.width))

    def fused(self, a: Any, b: Any, c: Any) -> Any:
        """The vector a * b + c."""
        fma = self.intrinsic("llvm.fma", self.vector, [self.vector] * 3)
        return self.builder.call(fma, [a, b, c])

    def larger(self, a: Any, b: Any) -> Any:
        """`a` where it is above `b`, else `b`."""
        return self.builder.select(self.builder.fcmp_ordered(">", a, b), a, b)

    def exponential(self, x: Any) -> Any:
        """e**x for x up to 0, as `vector_math.exponential`."""
        builder, constant = self.builder, self.constant
        least = constant(LEAST)
        x = builder.select(builder.fcmp_ordered("<", x, least), least, x)
        floor = self.intrinsic("llvm.floor", self.vector, [self.vector])
        n = builder.call(floor, [self.fused(x, constant(LOG2_E), constant(0.5))])
        r = self.fused(n, constant(-LOG_2_HIGH), x)
        r = self.fused(n, constant(-LOG_2_LOW), r)
        p = constant(SERIES[0])
        for term in SERIES[1:]:
            p = self.fused(p, r, constant(term))
        int_vector = ir.VectorType(I32, self.lanes)
        exponent = builder.add(
            builder.fptosi(n, int_vector), ir.Constant(int_vector, [127] * self.lanes)
        )
        bits = builder.shl(exponent, ir.Constant(int_vector, [23] * self.lanes))
        return builder.fmul(p, builder.bitcast(bits, self.vector))


@emits(2, types.intp, types.intp)
def column_softmax(builder, vectors, lanes, s, rows):
    """Each column becomes shares that add up to 1; all are 0 where it is -inf throughout.

    Args:
        vectors: of a row; a literal.
        lanes: numbers of a vector; a literal.
        s: address of the rows.
        rows: how many, at least 1.
    """
    columns = _Columns(builder, 1, vectors, lanes)
    step = columns.vectors * columns.width
    nothing, zero, one = (columns.constant(x) for x in (float("-inf"), 0.0, 1.0))
    loop = Loop(builder, rows, [s, *[nothing] * columns.vectors])
    at, *tops = loop.values
    tops = [columns.larger(x, top) for x, top in zip(columns.row(at), tops, strict=True)]
    _, *tops = loop.close([columns.plus(at, step), *tops])
    tops = [builder.select(builder.fcmp_ordered("==", t, nothing), zero, t) for t in tops]
    loop = Loop(builder, rows, [s, *[zero] * columns.vectors])
    at, *totals = loop.values
    pairs = zip(columns.row(at), tops, strict=True)
    powers = [columns.exponential(builder.fsub(x, top)) for x, top in pairs]
    columns.store_row(at, powers)
    totals = [builder.fadd(t, p) for t, p in zip(totals, powers, strict=True)]
    _, *totals = loop.close([columns.plus(at, step), *totals])
    factors = []
    for total in totals:
        empty = builder.fcmp_ordered("==", total, zero)
        factors.append(builder.select(empty, zero, builder.fdiv(one, total)))
    loop = Loop(builder, rows, [s])
    (at,) = loop.values
    columns.store_row(at, list(map(builder.fmul, columns.row(at), factors)))
    loop.close([columns.plus(at, step)])


@emits(2, *(types.intp,) * 3, types.float32)
def column_gradients(builder, vectors, lanes, shares, grads, rows, scale):
    """Gradients of shares become those of scores: scale * share * (g - mean g of the column).

    Args:
        vectors: of a row; a literal.
        lanes: numbers of a vector; a literal.
        shares: address of what `column_softmax` made.
        grads: address of their gradients, and of the result.
        rows: how many, at least 1.
        scale: a factor.
    """
    columns = _Columns(builder, 1, vectors, lanes)
    step = columns.vectors * columns.width
    factor = columns.spread(scale)
    loop = Loop(builder, rows, [shares, grads, *[columns.constant(0.0)] * columns.vectors])
    at, beside, *levels = loop.values
    levels = list(map(columns.fused, columns.row(at), columns.row(beside), levels))
    _, _, *levels = loop.close([columns.plus(at, step), columns.plus(beside, step), *levels])
    loop = Loop(builder, rows, [shares, grads])
    at, beside = loop.values
    results = []
    for p, grad, level in zip(columns.row(at), columns.row(beside), levels, strict=True):
        results.append(builder.fmul(builder.fmul(factor, p), builder.fsub(grad, level)))
    columns.store_row(beside, results)
    loop.close([columns.plus(at, step), columns.plus(beside, step)])
