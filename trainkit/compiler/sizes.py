"""Sizes that are not known until code runs: a number of the code that grows with them.

A graph whose leading size is `None` is traced at a few sizes. Each number that the code needs, be
it a size, a stride, an offset or a number of bytes, then is a·n + b, or, where two sizes are not
known, a·n·m + b·n + c·m + d: it is worked out from the ends of a range of sizes, and further sizes
verify it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from trainkit.compiler.ir import Unsupported
from trainkit.core.cpu.cost_model import CACHE_LINE

Terms = dict[tuple[str, ...], int]
"""By the names of the unknown sizes that are multiplied, in order, the coefficient."""

ALIGNMENT = CACHE_LINE
"""Bytes at whose multiples results begin that stay inside of a kernel."""
ROUNDED = "_rounded"
"""What the name of a size ends with that is rounded up to the alignment of memory."""


class UnknownSize(int):
    """A number that depends on unknown sizes.

    As an `int` it is the number at one choice of these sizes, by which comparisons decide; whoever
    decides by it writes code for several choices, and uses it where all are the same. Equality and
    hash are those of the polynomial: equal for all sizes, or not.

    Attributes:
        terms: the polynomial.
        at: the choice of sizes, by name.
    """

    terms: Terms
    at: Mapping[str, int]

    def __new__(cls, terms: Terms, at: Mapping[str, int]) -> UnknownSize:
        # A rounded size is a variable of its own: rounding up is no polynomial.
        rounded = {name + ROUNDED: -(-n // ALIGNMENT) * ALIGNMENT for name, n in at.items()}
        size = super().__new__(cls, evaluate(terms, {**at, **rounded}))
        size.terms, size.at = terms, at
        return size

    def __add__(self, other: int) -> int:
        terms = dict(self.terms)
        for names, factor in terms_of(other).items():
            terms[names] = terms.get(names, 0) + factor
        return polynomial(terms, self.at)

    __radd__ = __add__

    def __mul__(self, other: int) -> int:
        terms: Terms = {}
        for left, a in self.terms.items():
            for right, b in terms_of(other).items():
                # Products commute, and n·m must be one key with m·n.
                names = tuple(sorted(left + right))
                terms[names] = terms.get(names, 0) + a * b
        return polynomial(terms, self.at)

    __rmul__ = __mul__

    def __neg__(self) -> int:
        return self * -1

    def __sub__(self, other: int) -> int:
        return self + -other

    def __rsub__(self, other: int) -> int:
        return -self + other

    def __floordiv__(self, other: int) -> int:
        # Only where every coefficient divides is the quotient a polynomial, and right at all sizes.
        if isinstance(other, UnknownSize) or any(factor % other for factor in self.terms.values()):
            raise Unsupported(f"({self!r}) // {other!r}")
        return polynomial({names: a // other for names, a in self.terms.items()}, self.at)

    # As an `int` this would be worked out for the one choice of sizes at hand, and be a plain
    # number from then on. Code for other sizes would have it as a constant.
    def _refuse(self, *others: Any) -> Any:
        raise Unsupported(f"arithmetic on the unknown size {self!r}")

    __rfloordiv__ = __mod__ = __rmod__ = __lshift__ = __rshift__ = __and__ = __or__ = _refuse
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __divmod__ = __rdivmod__ = _refuse

    def __eq__(self, other: object) -> bool:
        # Equal to no plain number: what is equal at one choice of sizes alone must not be merged.
        return isinstance(other, UnknownSize) and self.terms == other.terms

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(tuple(self.terms.items()))

    def rounded_up(self, unit: int) -> int:
        """A multiple of `unit` that is no less, for all sizes: one of each product is rounded up.

        Raises:
            Unsupported: it falls when a size grows.
        """
        terms: Terms = {}
        for names, factor in self.terms.items():
            if names and factor < 0:
                raise Unsupported(f"memory of {self!r} bytes")
            # A size that is rounded up is a multiple of the unit, and so is whatever it multiplies.
            key = tuple(sorted((names[0] + ROUNDED, *names[1:]))) if names else ()
            terms[key] = factor if names else -(-factor // unit) * unit
        return polynomial(terms, self.at)

    def __repr__(self) -> str:
        return python_text(self)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return f"«{self!r}»"  # no text of LLVM's has it: what is written must ask for a name


def terms_of(x: int) -> Terms:
    """The polynomial that a number is."""
    return x.terms if isinstance(x, UnknownSize) else {(): x}


def polynomial(terms: Terms, at: Mapping[str, int]) -> int:
    """The number of these terms: a `UnknownSize`, or an `int` where nothing depends on sizes."""
    # In order and without zeros, so that equal polynomials are equal dictionaries, and hash
    # alike.
    terms = {names: terms[names] for names in sorted(terms) if terms[names]}
    return UnknownSize(terms, at) if any(terms) else terms.get((), 0)


def evaluate(terms: Terms, at: Mapping[str, int]) -> int:
    """The value of a polynomial."""
    return sum(factor * math.prod(at[name] for name in names) for names, factor in terms.items())


def value_at(x: int, sizes: Mapping[str, int]) -> int:
    """A number at a choice of the unknown sizes; those rounded up follow from it."""
    if not isinstance(x, UnknownSize):
        return x
    rounded = {name + ROUNDED: -(-n // ALIGNMENT) * ALIGNMENT for name, n in sizes.items()}
    return evaluate(x.terms, {**sizes, **rounded})


def python_text(x: int) -> str:
    """A Python expression of a number, in which sizes are called by their names."""
    parts = [
        "*".join([str(a), *names]) if a != 1 or not names else "*".join(names)
        for names, a in terms_of(x).items()
    ]
    return " + ".join(parts) or "0"


def interpolated(names: Sequence[str], ends: Sequence[tuple[int, int]], values: list[int]) -> Terms:
    """The polynomial, of degree 1 in each size, that has these values at the ends of ranges.

    Args:
        names: of the sizes.
        ends: the least and the largest of each.
        values: one for each corner, as `itertools.product(*ends)` gives them.

    Raises:
        Unsupported: a coefficient is no whole number.
    """
    if not names:
        return {(): values[0]}
    half, (low, high) = len(values) // 2, ends[0]
    # Half of the corners lie at either end of the first size. On each side there is a polynomial
    # in the other sizes; in between, each coefficient runs on a straight line.
    first = interpolated(names[1:], ends[1:], values[:half])
    second = interpolated(names[1:], ends[1:], values[half:])
    terms: Terms = {}
    for key in {**first, **second}:
        rise = second.get(key, 0) - first.get(key, 0)
        if rise % (high - low):
            raise Unsupported("a number that does not grow evenly with a size")
        slope = rise // (high - low)
        terms[key] = first.get(key, 0) - slope * low
        terms[(names[0], *key)] = slope
    return terms
