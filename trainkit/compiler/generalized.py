"""Steps of the same work at a few sizes, as steps that serve all sizes in a range."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainkit.compiler.ir import (
    Buffer,
    Elementwise,
    KernelCall,
    LabelCheck,
    Loop,
    Number,
    NumpyLoop,
    Operand,
    Product,
    Reduction,
    Step,
    Unsupported,
    View,
    is_filled,
)
from trainkit.compiler.sizes import Terms, UnknownSize, evaluate, interpolated, polynomial


@dataclass(frozen=True)
class SizeRange:
    """From which to which number unknown sizes may go together.

    Attributes:
        names: of the sizes.
        ends: the least and the largest of each.
    """

    names: tuple[str, ...]
    ends: tuple[tuple[int, int], ...]

    def corners(self) -> list[dict[str, int]]:
        """All choices of an end for each size, the first size varying slowest."""
        return [dict(zip(self.names, ends, strict=True)) for ends in itertools.product(*self.ends)]


class Generalizer:
    """Finds what work at several choices of sizes has in common.

    Args:
        sizes: which sizes are not known.
        points: the choices, first the corners of `sizes`.
        at: the choice by which the result decides where it has to.
    """

    def __init__(
        self, sizes: SizeRange, points: Sequence[Mapping[str, int]], at: Mapping[str, int]
    ) -> None:
        self._sizes = sizes
        self._points = points
        self._at = at
        self._buffers: dict[tuple[int, ...], Buffer] = {}

    def number(self, values: Sequence[int]) -> int:
        """One number for a number at each point.

        Raises:
            Unsupported: they are not a·n + b.
        """
        if all(value == values[0] for value in values):
            return int(values[0])
        return polynomial(self._terms(values), self._at)

    def _terms(self, values: Sequence[int]) -> Terms:
        # The corners settle the polynomial; the points between them show whether it holds there
        # too.
        corners = 1 << len(self._sizes.names)
        terms = interpolated(self._sizes.names, self._sizes.ends, list(values[:corners]))
        for point, value in zip(self._points, values, strict=True):
            if evaluate(terms, point) != value:
                raise Unsupported("a number that does not grow evenly with a size")
        return terms

    def numbers(self, rows: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """As many numbers as each row has; all that are sizes of arrays stay above 0."""
        if len({len(row) for row in rows}) != 1:
            raise Unsupported("shapes of different ranks")
        return tuple(self.number(column) for column in zip(*rows, strict=True))

    def shape(self, shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """One shape for a shape at each point.

        Raises:
            Unsupported: a size that is not known may be 0, or is 1 at an end alone.
        """
        sizes = self.numbers(shapes)
        for column, size in zip(zip(*shapes, strict=True), sizes, strict=True):
            # Loops over nothing are left out, and one element is broadcast: such code is other
            # code.
            if isinstance(size, UnknownSize) and min(column) < 2:
                raise Unsupported("an axis that may have no or one element")
        return sizes

    def buffer(self, buffers: Sequence[Buffer]) -> Buffer:
        """One piece of memory in place of those at each choice of sizes."""
        # Views of one buffer stay views of one: which memory is whose is part of what is the same.
        key = tuple(map(id, buffers))
        buffer = self._buffers.get(key)
        if buffer is None:
            buffer = self._buffers[key] = self._merge(buffers)
        return buffer

    def _merge(self, buffers: Sequence[Buffer]) -> Buffer:
        first = buffers[0]
        if len({(b.kind, b.index) for b in buffers}) != 1:
            raise Unsupported("different pieces of memory")
        if first.kind == "constant" and not _same_constants(buffers):
            raise Unsupported("a constant that depends on a size")
        size = self.number([b.size for b in buffers])
        merged = Buffer(first.kind, size, self.shape([b.shape for b in buffers]), first.value)
        merged.index = first.index
        return merged

    def view(self, views: Sequence[View]) -> View:
        """One view in place of those of the same work at each choice of sizes.

        Its offset, shape and strides are formulas of the sizes where they differ.
        """
        if len({v.dtype for v in views}) != 1:
            raise Unsupported("different dtypes")
        return View(
            self.buffer([v.buffer for v in views]),
            self.number([v.offset for v in views]),
            self.shape([v.shape for v in views]),
            self.numbers([v.strides for v in views]),
            views[0].dtype,
        )

    def operand(self, operands: Sequence[Operand]) -> Operand:
        """One operand in place of those at each choice of sizes; a number may be a size."""
        values = [_value_of(x) for x in operands]
        if all(isinstance(x, View) for x in operands) and None in values:
            return self.view([x for x in operands if isinstance(x, View)])
        if None in values or len({value.dtype for value in values}) != 1:
            raise Unsupported("different operands")
        # The same at all points. Else it has to be a size that a kernel has made a number of, as
        # the count by which a mean divides.
        if len({value.tobytes() for value in values}) == 1:
            views = [x for x in operands if isinstance(x, View)]
            if len({view.shape for view in views}) == 1 and len(views) == len(operands):
                return self.view(views)
            return Number(values[0][()], values[0].dtype)
        return Number(self._size_as_number(values), values[0].dtype)

    def _size_as_number(self, values: Sequence[Any]) -> int:
        """The whole numbers that elements of an array hold, as one that depends on sizes."""
        # a count beyond the range of a 16-bit float is infinite
        if values[0].dtype.kind == "b" or not all(map(_is_whole, values)):
            raise Unsupported("a number that does not grow evenly with a size")
        terms = self._terms([int(value) for value in values])
        if any(abs(int(value)) > _LARGEST for value in values):
            raise Unsupported("a size that floats do not hold")
        return polynomial(terms, self._at)

    # ------------------------------------------------------------------ steps

    def steps(self, lists: Sequence[Sequence[Step]]) -> list[Step]:
        """One list of steps for that at each point.

        Raises:
            Unsupported: the steps are others.
        """
        if len(set(map(len, lists))) != 1:
            raise Unsupported("other steps at other sizes")
        return [self._step(steps) for steps in zip(*lists, strict=True)]

    def _step(self, steps: Sequence[Any]) -> Any:
        first = steps[0]
        if len({_kind_of_step(step) for step in steps}) != 1:
            raise Unsupported("other steps at other sizes")
        # Members are merged one by one, so a loop that took in another step at one of the points is
        # found by its length.
        if isinstance(first, Loop):
            members, ends = (
                [getattr(step, part) for step in steps] for part in ("members", "ends")
            )
            return Loop(self.steps(members), self.steps(ends))  # type: ignore[arg-type]
        if isinstance(first, LabelCheck):
            limit = self.number([step.limit for step in steps])
            return LabelCheck(self.view([step.labels for step in steps]), limit)
        if isinstance(first, KernelCall):
            return self._kernel_call(steps)
        out = self.view([step.out for step in steps])
        if isinstance(first, Reduction):
            return Reduction(first.ufunc, self.view([s.source for s in steps]), first.axes, out)
        if isinstance(first, Product):
            a, b = (self.view([getattr(s, x) for s in steps]) for x in "ab")
            return Product(a, b, out)
        columns = zip(*(step.inputs for step in steps), strict=True)
        operands = tuple(self.operand(column) for column in columns)
        name = first.name if isinstance(first, Elementwise) else first.ufunc
        return type(first)(name, operands, out)

    def _kernel_call(self, calls: Sequence[KernelCall]) -> KernelCall:
        operands = tuple(
            self.view(column) if isinstance(column[0], View) else self.number(column)
            for column in zip(*(call.operands for call in calls), strict=True)
        )
        outs = tuple(map(self.view, zip(*(call.outs for call in calls), strict=True)))
        return KernelCall(
            calls[0].function, operands, outs, self.number([call.work for call in calls])
        )


_LARGEST = 1 << 24
"""Numbers up to which each whole one is a float32, too."""


def _kind_of_step(step: Any) -> tuple[Any, ...]:
    """What has to be the same at all points."""
    if isinstance(step, Elementwise):
        return Elementwise, step.name, len(step.inputs)
    if isinstance(step, NumpyLoop):
        return NumpyLoop, step.ufunc, len(step.inputs)
    if isinstance(step, Reduction):
        return Reduction, step.ufunc, step.axes
    if isinstance(step, KernelCall):
        return KernelCall, step.function, tuple(map(type, step.operands)), len(step.outs)
    return (type(step),)


def _value_of(x: Operand) -> Any:
    """The one number that an operand is in all calls, or all of its elements, else `None`."""
    if isinstance(x, Number):
        return np.asarray(x.value, x.dtype)
    array = x.buffer.value[0] if x.buffer.kind == "constant" else None
    if array is None or array.dtype != x.dtype:
        return None
    if array.ndim == 0:
        return array if x.shape == () else None
    return array.reshape(-1)[:1].reshape(()) if is_filled(array) else None


def _same_constants(buffers: Sequence[Buffer]) -> bool:
    first = buffers[0].value[0]
    return all(
        b.value[0] is first
        or (
            b.value[0].dtype == first.dtype
            and b.value[0].shape == first.shape
            and b.value[0].tobytes() == first.tobytes()
        )
        for b in buffers
    )


def _is_whole(value: Any) -> bool:
    return bool(np.isfinite(value)) and value == int(value)
