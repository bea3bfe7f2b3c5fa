"""Butterflies of Fourier transforms of many lines, a line in each lane, in LLVM's vectors.

A room has two vectors for each element of the lines: real parts, and imaginary parts behind them.
Addresses and distances are in bytes.
Source: Stockham 1966, "High-speed convolution and correlation"; Van Loan 1992, "Computational
frameworks for the fast Fourier transform", section 1.7.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba.core import types

from trainkit.core.values.docstrings import describe_arguments
from trainkit.kernels.jit.emitters import emits
from trainkit.kernels.jit.simd import BYTES, F32, I32, Loop, Tile

Complex = tuple[Any, Any]


class _Lanes(Tile):
    """Emits arithmetic of a complex number in each lane, whose real part is `shift` behind it."""

    def __init__(self, builder: Any, lanes: int, shift: Any = 0) -> None:
        super().__init__(builder, 1, 1, lanes)
        self.element = 2 * self.width
        start = self.plus(self.word(0), shift)
        self._shifts = start, builder.sub(self.word(self.width), start)

    def read(self, at: Any) -> Complex:
        real, imaginary = (self.vector_at(self.plus(at, shift)) for shift in self._shifts)
        return real, imaginary

    def write(self, value: Complex, at: Any) -> None:
        for part, shift in zip(value, self._shifts, strict=True):
            self.store(part, self.plus(at, shift))

    def constant(self, value: float) -> Any:
        return ir.Constant(self.vector, [value] * self.lanes)

    def add(self, a: Complex, b: Complex) -> Complex:
        return self.builder.fadd(a[0], b[0]), self.builder.fadd(a[1], b[1])

    def subtract(self, a: Complex, b: Complex) -> Complex:
        return self.builder.fsub(a[0], b[0]), self.builder.fsub(a[1], b[1])

    def scale(self, a: Complex, factor: Any) -> Complex:
        return self.builder.fmul(a[0], factor), self.builder.fmul(a[1], factor)

    def multiply(self, a: Complex, b: Complex) -> Complex:
        mul = self.builder.fmul
        return (
            self.builder.fsub(mul(a[0], b[0]), mul(a[1], b[1])),
            self.builder.fadd(mul(a[0], b[1]), mul(a[1], b[0])),
        )

    def times_i(self, a: Complex, sign: int) -> Complex:
        """`a` times the imaginary unit, or times minus it."""
        return (self.builder.fneg(a[1]), a[0]) if sign > 0 else (a[1], self.builder.fneg(a[0]))

    def conjugate(self, a: Complex) -> Complex:
        return a[0], self.builder.fneg(a[1])

    def small_transform(self, a: list[Complex]) -> list[Complex]:
        """sum over j of a[j] * exp(-2 pi i j k / radix) for each k, of radix 2 to 5."""
        if len(a) == 2:
            return [self.add(*a), self.subtract(*a)]
        if len(a) == 4:
            even, uneven = (self.small_transform(a[first::2]) for first in (0, 1))
            uneven[1] = self.times_i(uneven[1], -1)
            return [
                self.add(even[0], uneven[0]),
                self.add(even[1], uneven[1]),
                self.subtract(even[0], uneven[0]),
                self.subtract(even[1], uneven[1]),
            ]
        return self._transform_by_pairs(a)

    def _transform_by_pairs(self, a: list[Complex]) -> list[Complex]:
        """The same of radix 3 or 5: results k and radix - k have their terms in common."""
        radix, half = len(a), len(a) // 2
        sums = [self.add(a[j], a[radix - j]) for j in range(1, half + 1)]
        differences = [self.subtract(a[j], a[radix - j]) for j in range(1, half + 1)]
        first = a[0]
        for pair in sums:
            first = self.add(first, pair)
        results = [first] + [a[0]] * (radix - 1)
        for k in range(1, half + 1):
            level, slope = a[0], (self.constant(0.0),) * 2
            for j in range(1, half + 1):
                angle = 2 * math.pi * (j * k % radix) / radix
                cosine, sine = self.constant(math.cos(angle)), self.constant(math.sin(angle))
                level = self.add(level, self.scale(sums[j - 1], cosine))
                slope = self.add(slope, self.scale(differences[j - 1], sine))
            turned = self.times_i(slope, -1)
            results[k], results[radix - k] = self.add(level, turned), self.subtract(level, turned)
        return results


@emits(1, *(types.intp,) * 7, types.float32, types.intp)
def butterflies(builder, lanes, radix, is_last, *operands):
    """Transforms of a few elements, of neighbours in the source and in the target.

    Args:
        radix: elements of each: 2, 3, 4 or 5.
        is_last: 1 where results are multiplied by `factor` and not by roots, else 0.
        apart: from one element of a transform to the next, in the source.
        count: transforms, each a result's distance / radix behind the one before; at least 1.
        roots: address of (radix - 1) pairs of floats, for results from 1 on.
        factor: of all results.
        shift: 0, or the bytes of a vector: with real and imaginary parts exchanged a transform is
            the inverse one.
    """
    end = builder.append_basic_block()
    two = ir.Constant(radix.type, 2)
    choice = builder.switch(builder.add(builder.mul(radix, two), is_last), end)
    for number in range(4, 12):
        block = builder.append_basic_block()
        choice.add_case(ir.Constant(radix.type, number), block)
        builder.position_at_end(block)
        _transform_elements(builder, lanes, *divmod(number, 2), *operands)
        builder.branch(end)
    builder.position_at_end(end)


def _transform_elements(
    builder, lanes, radix, is_last, source, target, apart, count, roots, factor, shift
):  # fmt: skip
    tile = _Lanes(builder, lanes, shift)
    if is_last:
        scale = tile.spread(factor)
    else:
        powers = [
            tuple(tile.number(tile.plus(roots, 2 * BYTES * k + BYTES * i)) for i in range(2))
            for k in range(radix - 1)
        ]
    results_apart = builder.mul(count, tile.word(tile.element))
    loop = Loop(builder, count, [source, target])
    at, to = loop.values
    elements, addresses, address = [], [], to
    for _ in range(radix):
        elements.append(tile.read(at))
        addresses.append(address)
        at, address = tile.plus(at, apart), tile.plus(address, results_apart)
    results = tile.small_transform(elements)
    if is_last:
        results = [tile.scale(result, scale) for result in results]
    else:
        results[1:] = map(tile.multiply, results[1:], powers)
    for result, address in zip(results, addresses, strict=True):
        tile.write(result, address)
    loop.close([tile.plus(x, tile.element) for x in loop.values])


@emits(1, *(types.intp,) * 6)
def separate_halves(builder, lanes, source, mirror, target, mirror_target, root, count):
    """Spectra of real lines from those of their pairs of elements, from both ends inwards.

    x[k] = (z[k] + conj(z[h - k])) / 2 - i exp(-pi i k / h) (z[k] - conj(z[h - k])) / 2

    Args:
        source: where element k of z is.
        mirror: where element h - k of z is.
        target: where element k of x goes.
        mirror_target: where element h - k goes.
        root: address of exp(-pi i k / h) as two floats, further ones behind it.
        count: elements k that follow one another, at least 1.
    """
    _pair_elements(builder, lanes, -1, (source, mirror, target, mirror_target, root), count)


@emits(1, *(types.intp,) * 6)
def join_halves(builder, lanes, source, mirror, target, mirror_target, root, count):
    """What `separate_halves` undoes: pairs of elements from the spectra of real lines.

    z[k] = (x[k] + conj(x[h - k])) / 2 + i exp(pi i k / h) (x[k] - conj(x[h - k])) / 2
    """
    _pair_elements(builder, lanes, 1, (source, mirror, target, mirror_target, root), count)


def _pair_elements(
    builder: Any, lanes: int, sign: int, addresses: tuple[Any, ...], count: Any
) -> None:
    tile = _Lanes(builder, lanes)
    loop = Loop(builder, count, list(addresses))
    source, mirror, target, mirror_target, root = loop.values
    a, b = tile.read(source), tile.conjugate(tile.read(mirror))
    half = tile.constant(0.5)
    mean, difference = (tile.scale(x, half) for x in (tile.add(a, b), tile.subtract(a, b)))
    power = tile.number(root), tile.number(tile.plus(root, BYTES))
    if sign > 0:
        power = tile.conjugate(power)
    turned = tile.times_i(tile.multiply(difference, power), sign)
    tile.write(tile.add(mean, turned), target)
    tile.write(tile.conjugate(tile.subtract(mean, turned)), mirror_target)
    ahead, back = tile.word(tile.element), tile.word(-tile.element)
    steps = ahead, back, ahead, back, tile.word(2 * BYTES)
    loop.close([tile.plus(x, step) for x, step in zip(loop.values, steps, strict=True)])


@emits(1, *(types.intp,) * 4)
def split_columns(builder, lanes, source, source_step, target, count):
    """Read `lanes` complex numbers side by side from each of `count` lines of an array."""
    tile = _Lanes(builder, lanes)
    loop = Loop(builder, count, [source, target])
    at, to = loop.values
    parts = tile.vector_at(at), tile.vector_at(tile.plus(at, tile.width))
    orders = [list(range(first, 2 * lanes, 2)) for first in (0, 1)]
    tile.write(tuple(_shuffle(builder, parts, order) for order in orders), to)
    loop.close([tile.plus(at, source_step), tile.plus(to, tile.element)])


@emits(1, *(types.intp,) * 4)
def merge_columns(builder, lanes, source, target, target_step, count):
    """Write `lanes` complex numbers side by side to each of `count` lines of an array."""
    tile = _Lanes(builder, lanes)
    loop = Loop(builder, count, [source, target])
    at, to = loop.values
    parts = tile.read(at)
    for v in range(2):
        order = [n // 2 + n % 2 * lanes for n in range(v * lanes, (v + 1) * lanes)]
        tile.store(_shuffle(builder, parts, order), tile.plus(to, v * tile.width))
    loop.close([tile.plus(at, tile.element), tile.plus(to, target_step)])


def _shuffle(builder: Any, pair: Complex, order: list[int]) -> Any:
    kind = ir.VectorType(I32, len(order))
    return builder.shuffle_vector(*pair, ir.Constant(kind, order))


@emits(0, types.intp, types.intp)
def copy_float(builder, target, source):
    """Copy one float32."""
    value = builder.load(builder.inttoptr(source, F32.as_pointer()))
    builder.store(value, builder.inttoptr(target, F32.as_pointer()))


@emits(0, types.intp)
def clear_float(builder, target):
    """Set one float32 to 0."""
    builder.store(ir.Constant(F32, 0.0), builder.inttoptr(target, F32.as_pointer()))


describe_arguments(
    globals(),
    """
    lanes: of a vector; a literal.
    source: address of what is read.
    source_step: from one line of the array to the next.
    target: address of what is written.
    target_step: from one line of the array to the next.
    """,
)
