"""Winograd's transforms of tiles of 3 x 3 convolutions: the matrices, and code in LLVM's vectors.

A convolution of numbers is a product of polynomials. Six values of such a product say all of four
results of a window of three: y = A [(G w) * (B x)], with * number by number, takes 6 products where
sums of windows take 12, and in two dimensions 36 where these take 144. The transforms evaluate
polynomials at points (B and G) and find them from their values (A). Their work is paid once for
each channel and each filter of a tile, while products are made for each pair of these. The gradient
by the kernel is such a convolution too, of a window of four by four gradients.
Source: Winograd 1980, "Arithmetic complexity of computations"; Lavin and Gray 2016, "Fast
algorithms for convolutional neural networks", arXiv:1509.09308.

Points are 0, 3/4, -3/4, 3/2, -3/2 and infinity rather than the usual 0, 1, -1, 2, -2: their powers,
which magnify what is rounded, stay near 1. Errors are then about twice those of direct sums, and
with the usual points five to ten times (docs/kernels.md has the numbers).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from trainkit.kernels.convolution.winograd_sizes import SPAN, STEP
from trainkit.kernels.jit.emitters import emits
from trainkit.kernels.jit.half_vectors import HalfTile

Matrix = tuple[tuple[float, ...], ...]

_NEAR, _FAR = 0.75, 1.5
_PAIRS = ((1, 2), (3, 4))
"""Points of one size and two signs."""


def _scales() -> tuple[float, ...]:
    """For each finite point, the product of its distances from the other ones."""
    a, b = _NEAR**2, _FAR**2
    return a * b, 2 * a * (a - b), 2 * a * (a - b), 2 * b * (b - a), 2 * b * (b - a)


def _powers(count: int) -> list[list[float]]:
    """Powers 0 to `count - 1` of each point; of infinity, as it were, the last one alone."""
    points = (0.0, _NEAR, -_NEAR, _FAR, -_FAR)
    return [[p**k for k in range(count)] for p in points] + [[0.0] * (count - 1) + [1.0]]


def _evaluation(count: int) -> Matrix:
    """G: `count` weights at all points."""
    scales = (*_scales(), 1.0)
    return tuple(
        tuple(power / scale for power in row)
        for row, scale in zip(_powers(count), scales, strict=True)
    )


def _interpolation(count: int) -> Matrix:
    """A: `count` results from products at all points."""
    return tuple(zip(*_powers(count), strict=True))


def _input_matrix() -> Matrix:
    """B: for each point the coefficients of the product of x less every other one."""
    a, b = _NEAR**2, _FAR**2
    return (
        (a * b, 0.0, -a - b, 0.0, 1.0, 0.0),
        *((0.0, -p * b, -b, p, 1.0, 0.0) for p in (_NEAR, -_NEAR)),
        *((0.0, -p * a, -a, p, 1.0, 0.0) for p in (_FAR, -_FAR)),
        (0.0, a * b, 0.0, -a - b, 0.0, 1.0),
    )


INPUTS, WEIGHTS, GRADIENTS = range(3)
"""What is transformed: 6 x 6 numbers of an input, 3 x 3 weights or 4 x 4 gradients."""
TO_POINTS = _input_matrix(), _evaluation(3), _evaluation(STEP)
RESULTS, SUMS = range(2)
"""What comes of products: 4 x 4 results, or the sums for 3 x 3 weights."""
FROM_POINTS = _interpolation(STEP), _interpolation(3)


class _Vectors(HalfTile):
    """Emits sums of vectors times numbers that are known now.

    Args:
        builder: LLVM's.
        lanes: numbers of a vector.
        size: bytes of a number of an image: 4 of float32, or 2 of bfloat16.
    """

    def __init__(self, builder: Any, lanes: int, size: int) -> None:
        super().__init__(builder, 1, 1, lanes)
        self._is_half = size == 2

    def read(self, at: Any, mask: Any) -> Any:
        """A vector of an image; with a mask zeros where it says so."""
        if self._is_half:
            return self.widen(self.builder.zext(self.read_halves(at, mask), self.words))
        return self.weights(at)[0] if mask is None else self.masked_load(at, mask)

    def write(self, value: Any, at: Any, mask: Any) -> None:
        """A vector into an image, or the lanes that a mask leaves."""
        if self._is_half:
            self.write_halves(self.round_to_halves(value), at, mask)
        else:
            self.store_rows([value], [at], None if mask is None else [mask])

    def constant(self, number: float) -> Any:
        return ir.Constant(self.vector, [number] * self.lanes)

    def dot(self, factors: Any, vectors: Any) -> Any:
        """The sum of the vectors whose factor is not 0, those with factor 1 first."""
        terms = [(f, v) for f, v in zip(factors, vectors, strict=True) if f]
        terms.sort(key=lambda term: term[0] != 1)
        factor, total = terms[0]
        if factor != 1:
            total = self.builder.fmul(self.constant(factor), total)
        fused = self.intrinsic("llvm.fma", self.vector, [self.vector] * 3)
        for factor, vector in terms[1:]:
            if factor == 1:
                total = self.builder.fadd(total, vector)
            else:
                total = self.builder.call(fused, [self.constant(factor), vector, total])
        return total

    def to_points(self, matrix: Matrix, vectors: list[Any]) -> list[Any]:
        """The product of B or G with vectors."""
        results = [self.dot(matrix[0], vectors)]
        # At opposite points terms of even powers are the same and those of odd powers opposite.
        for one, _ in _PAIRS:
            even = self.dot(matrix[one][::2], vectors[::2])
            odd = self.dot(matrix[one][1::2], vectors[1::2])
            results += [self.builder.fadd(even, odd), self.builder.fsub(even, odd)]
        return [*results, self.dot(matrix[-1], vectors)]

    def from_points(self, matrix: Matrix, vectors: list[Any]) -> list[Any]:
        """The product of A with vectors."""
        pairs = [(vectors[one], vectors[other]) for one, other in _PAIRS]
        sums = [self.builder.fadd(*pair) for pair in pairs]
        differences = [self.builder.fsub(*pair) for pair in pairs]
        results = []
        for power, row in enumerate(matrix):
            middle = differences if power % 2 else sums
            factors = (row[0], *(row[one] for one, _ in _PAIRS), row[-1])
            results.append(self.dot(factors, [vectors[0], *middle, vectors[-1]]))
        return results

    def on_both_axes(self, transform: Any, matrix: Matrix, square: list[list[Any]]) -> Any:
        """A square of vectors, transformed along its columns and then along its rows."""
        columns = [transform(matrix, list(column)) for column in zip(*square, strict=True)]
        return [transform(matrix, list(row)) for row in zip(*columns, strict=True)]

    def inside(self, lanes: Any, bounds: Any, i: int, j: int) -> Any:
        """The mask `lanes` where row i and column j lie within bounds, else nothing."""
        top, bottom, left, right = bounds
        compare = self.builder.icmp_signed
        line, point = self.word(i), self.word(j)
        below, above = compare("<=", top, line), compare("<", line, bottom)
        after, before = compare("<=", left, point), compare("<", point, right)
        in_line, in_column = self.builder.and_(below, above), self.builder.and_(after, before)
        nothing = ir.Constant(lanes.type, [0] * self.lanes)
        return self.builder.select(self.builder.and_(in_line, in_column), lanes, nothing)


@emits(4, *(types.intp,) * 10)
def transform_to_points(
    builder, kind, lanes, size, unmasked, source, line, point, top, bottom, left, right, count,
    target, step,
):  # fmt: skip
    """Write B X B^T or G X G^T of a square of vectors of numbers of some channels.

    Args:
        kind: `INPUTS`, `WEIGHTS` or `GRADIENTS`; a literal.
        lanes: numbers of a vector; a literal.
        size: bytes of a number of the source: 4, or 2 of bfloat16; a literal.
        unmasked: 1 if all rows, columns and lanes are there; a literal.
        source: address of the first vector.
        line: bytes from one row to the next.
        point: bytes from one column to the next.
        top: the first row that is there; others are zeros, and their memory is not touched.
        bottom: the first one below that is not.
        left: the first column that is there.
        right: the first one beyond that is not.
        count: lanes that are there.
        target: address of the first of 36 results, row by row.
        step: bytes from one result to the next.
    """
    matrix, bounds = TO_POINTS[kind], (top, bottom, left, right)
    tile = _Vectors(builder, lanes, size)
    mask = None if unmasked else tile.masks(count)[0]
    square = []
    for i in range(len(matrix[0])):
        row = []
        for j in range(len(matrix[0])):
            at = tile.plus(
                source, builder.mul(tile.word(i), line), builder.mul(tile.word(j), point)
            )
            inside = None if mask is None else tile.inside(mask, bounds, i, j)
            row.append(tile.read(at, inside))
        square.append(row)
    results = tile.on_both_axes(tile.to_points, matrix, square)
    for vector in (vector for row in results for vector in row):
        tile.store(vector, target)
        target = builder.add(target, step)


@emits(4, *(types.intp,) * 3, types.float32, *(types.intp,) * 7)
def transform_from_points(
    builder, kind, lanes, size, unmasked, source, step, bias, low, target, line, point, bottom,
    right, count, sums,
):  # fmt: skip
    """Write max(A P A^T + bias, low) of 36 products, and note whether all of it was finite.

    Args:
        kind: `RESULTS` or `SUMS`; a literal.
        lanes: numbers of a vector; a literal.
        size: bytes of a number of the target: 4, or 2 of bfloat16; a literal.
        unmasked: 1 if all rows, columns and lanes are wanted; a literal.
        source: address of the first product.
        step: bytes from one product to the next.
        bias: address of a vector.
        low: results below it are replaced by it.
        target: address of the first result.
        line: bytes from one row of results to the next.
        point: bytes from one column to the next.
        bottom: rows that are written.
        right: columns that are written.
        count: lanes that are written.
        sums: address of a vector that becomes NaN where a result, written or not, is not finite.
    """
    matrix = FROM_POINTS[kind]
    tile = _Vectors(builder, lanes, size)
    lanes_there = tile.masks(count)[0]
    mask = None if unmasked else lanes_there
    square = []
    for i in range(SPAN):
        row = []
        for j in range(SPAN):
            at = tile.plus(source, builder.mul(tile.word(i * SPAN + j), step))
            row += tile.weights(at)
        square.append(row)
    shift = tile.masked_load(bias, lanes_there)
    least = tile.spread(low)
    results = tile.on_both_axes(tile.from_points, matrix, square)
    bounds = tile.word(0), bottom, tile.word(0), right
    total = None
    for i, row in enumerate(results):
        for j, vector in enumerate(row):
            value = builder.fadd(vector, shift)
            total = value if total is None else builder.fadd(total, value)
            # Ordered, so that NaN stays NaN.
            value = builder.select(builder.fcmp_ordered("<", value, least), least, value)
            at = tile.plus(
                target, builder.mul(tile.word(i), line), builder.mul(tile.word(j), point)
            )
            inside = None if mask is None else tile.inside(mask, bounds, i, j)
            tile.write(value, at, inside)
    # 0 times what is finite is 0. One sum of all results costs less than a look at each.
    noted = builder.fadd(tile.weights(sums)[0], builder.fmul(total, tile.constant(0.0)))
    tile.store(noted, sums)
