"""What machine code for a run of nodes consists of: buffers, views of them, and steps over them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainkit.core.dtypes import bfloat16, float16
from trainkit.kernels.threads.part_functions import PartFunction


class Unsupported(Exception):
    """A kernel does what can't be compiled; its node stays with NumPy."""


CASTS = frozenset(a + b for a in "biuf" for b in "biuf" if a + b not in ("fi", "fu"))
"""Kinds of dtypes between which a conversion is compiled; a float may not fit into an integer."""

_FLOAT_BYTES = (4, 8)


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Whether elements are bfloat16, whose kind NumPy does not know."""
    return bool(dtype == bfloat16.dtype)


def is_half(dtype: np.dtype[Any]) -> bool:
    """Whether elements are floats of 16 bits, which are computed with as float32."""
    return is_bfloat16(dtype) or bool(dtype == float16.dtype)


def kind_of(dtype: np.dtype[Any]) -> str:
    """NumPy's letter for the kind of a dtype, that of floats for bfloat16 too."""
    return "f" if is_bfloat16(dtype) else dtype.kind


def is_known(dtype: np.dtype[Any]) -> bool:
    """Whether elements of this dtype can be worked on."""
    if dtype.kind == "f":
        return dtype.itemsize in _FLOAT_BYTES and dtype.isnative
    return dtype.kind in "biu" and dtype.isnative


class Buffer:
    """One piece of memory.

    Attributes:
        kind: `"input"`, `"constant"`, `"temporary"` or `"output"`.
        size: its bytes.
        shape: that of the array that takes all of it.
        value: the array of a constant.
        index: the place among the inputs, constants or outputs.
        views: how many views of it were taken apart from the array itself.
    """

    __slots__ = ("index", "kind", "shape", "size", "value", "views")

    def __init__(self, kind: str, size: int, shape: Any = (), value: Any = None) -> None:
        self.kind = kind
        self.size = size
        self.shape = shape
        self.value = value
        self.index = -1
        self.views = 0


@dataclass(frozen=True)
class View:
    """Elements of a buffer: where they start, and how far they are apart along each axis."""

    buffer: Buffer
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def contiguous(self) -> bool:
        """Whether the elements follow one another in row-major order."""
        # From the last axis on, each stride has to be what all axes behind it take together. An
        # axis of one element is never gone along, so its stride may be anything.
        expected = self.dtype.itemsize
        for n, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1 and stride != expected:
                return False
            expected *= n
        return True

    @property
    def whole(self) -> bool:
        """Whether this is all of its buffer, in row-major order."""
        return self.contiguous and self.size * self.dtype.itemsize == self.buffer.size


def layout_of(view: View) -> tuple[tuple[int, ...], list[int] | None]:
    """The shape of a row-major array of the elements, and the order of its axes in the view.

    The order is `None` where the view is row-major itself.
    """
    shape = view.shape
    if view.contiguous:
        return shape, None
    # By falling strides the elements follow one another; the second result puts the axes back.
    order = sorted(range(len(shape)), key=lambda i: -view.strides[i])
    return tuple(shape[i] for i in order), [order.index(i) for i in range(len(shape))]


def is_filled(array: Any) -> bool:
    """Whether an array holds one number throughout, to the bit, and at least twice."""
    if array.ndim == 0 or array.size < 2 or kind_of(array.dtype) not in "biuf":
        return False
    rows = np.ascontiguousarray(array).reshape(-1, 1).view(np.uint8)
    return bool((rows == rows[0]).all())


@dataclass(frozen=True)
class Number:
    """A number that stands in the code."""

    value: Any
    dtype: np.dtype[Any]


Operand = View | Number


@dataclass(eq=False)
class Elementwise:
    """`out[i] = name(inputs[i]...)` by an expression that is rounded exactly."""

    name: str
    inputs: tuple[Operand, ...]
    out: View


@dataclass(eq=False)
class NumpyLoop:
    """An element-wise function by NumPy's own loop, over arrays that are contiguous alike."""

    ufunc: np.ufunc
    inputs: tuple[Operand, ...]
    out: View


@dataclass(eq=False)
class Reduction:
    """A reduction of a row-major array along `axes`; `out` keeps them with size 1."""

    ufunc: np.ufunc
    source: View
    axes: tuple[int, ...]
    out: View


@dataclass(eq=False)
class Product:
    """A matrix product of the last two axes; the leading axes of all three are the same."""

    a: View
    b: View
    out: View


@dataclass(eq=False)
class KernelCall:
    """A compiled kernel over arrays, all of its work as one part.

    Attributes:
        function: the kernel.
        operands: its arguments in order, arrays and whole numbers.
        outs: the arrays among them that it writes.
        work: how many multiplications it does, or what takes as long.
    """

    function: PartFunction
    operands: tuple[View | int, ...]
    outs: tuple[View, ...]
    work: int

    @property
    def out(self) -> View:
        """The first of its results."""
        return self.outs[0]


@dataclass(eq=False)
class LabelCheck:
    """Leave the code at once when an input holds a number outside of [0, limit)."""

    labels: View
    limit: int


@dataclass(eq=False)
class Loop:
    """Element-wise steps over one shape, done together for each element.

    Attributes:
        members: the steps.
        ends: reductions of rows of results, done when a row is complete.
    """

    members: list[Elementwise] = field(default_factory=list)
    ends: list[Reduction] = field(default_factory=list)

    @property
    def out(self) -> View:
        """The first result, which has the layout of all; without members what is reduced."""
        return self.members[0].out if self.members else self.ends[0].source


Step = Elementwise | NumpyLoop | Reduction | Product | KernelCall | LabelCheck | Loop


def sources_of(step: Any) -> list[View]:
    """The views that a step reads."""
    if isinstance(step, Loop):
        # What members hand to one another stays in registers: it is no source of the loop.
        written_ids = {id(m.out.buffer) for m in step.members}
        views = [v for part in (*step.members, *step.ends) for v in sources_of(part)]
        return [v for v in views if id(v.buffer) not in written_ids]
    if isinstance(step, Elementwise | NumpyLoop):
        return [x for x in step.inputs if isinstance(x, View)]
    if isinstance(step, Reduction):
        return [step.source]
    if isinstance(step, KernelCall):
        return [x for x in step.operands if isinstance(x, View) and x not in step.outs]
    if isinstance(step, LabelCheck):
        return [step.labels]
    return [step.a, step.b]


def results_of(step: Any) -> list[View]:
    """The views that a step writes."""
    if isinstance(step, Loop):
        return [m.out for m in step.members] + [end.out for end in step.ends]
    if isinstance(step, KernelCall):
        return list(step.outs)
    return [] if isinstance(step, LabelCheck) else [step.out]
