"""The source of one kernel: what one loop of element-wise steps does, in CUDA C++.

Sizes, strides and numbers stand in the text, so a kernel is for one shape. Each thread takes every
so many-th element; what is computed on the way stays in registers.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np

from trainkit.compiler.cuda.cuda_functions import expression, literal, type_of
from trainkit.compiler.ir import (
    Buffer,
    Elementwise,
    Loop,
    Number,
    Operand,
    View,
    sources_of,
)
from trainkit.compiler.schedule.loops import coalesced, spread_strides

_FEWEST_LONG = 2**31
"""Positions from which on 32 bits are too few to count them."""


@dataclass(frozen=True)
class KernelSource:
    """A kernel and what it takes.

    Attributes:
        name: of the function.
        text: its source.
        views: whose buffers are its parameters, results last.
        size: how many elements there are.
    """

    name: str
    text: str
    views: tuple[View, ...]
    size: int


def source_of(loop: Loop, held: set[Buffer], shared: set[Buffer]) -> KernelSource:
    """The kernel of a loop.

    Args:
        loop: its steps.
        held: the buffers that need memory.
        shared: those of them that may lie in one place with another.
    """
    return _CudaWriter(loop, held, shared).written()


class _CudaWriter:
    def __init__(self, loop: Loop, held: set[Buffer], shared: set[Buffer]) -> None:
        self.loop = loop
        self.shared = shared
        made = dict.fromkeys(m.out for m in loop.members)
        self.sources = [v for v in dict.fromkeys(sources_of(loop)) if v.buffer.kind != "constant"]
        self.results = [v for v in made if v.buffer in held]
        self.names: dict[View, str] = {}
        self.lines: list[str] = []

    def written(self) -> KernelSource:
        shape, views = self.loop.out.shape, (*self.sources, *self.results)
        strides = [spread_strides(v, shape) for v in views]
        dims = coalesced(shape, strides, by=spread_strides(self.loop.out, shape))
        size = math.prod(shape)
        far = max(abs(sum((n - 1) * s[k] for n, s in dims)) for k in range(len(views)))
        index = "long long" if max(size, far) >= _FEWEST_LONG else "int"
        self._positions([n for n, _ in dims], index)
        for k, v in enumerate(self.sources):
            self._load(v, f"p{k}[{self._place(v, [s[k] for _, s in dims])}]")
        for member in self.loop.members:
            self._compute(member)
        for k, v in enumerate(self.results, len(self.sources)):
            place = self._place(v, [s[k] for _, s in dims])
            self.lines.append(f"p{k}[{place}] = {self.names[v]};")
        return self._kernel(size, index, views)

    def _kernel(self, size: int, index: str, views: tuple[View, ...]) -> KernelSource:
        parameters = [
            f"{'const ' if k < len(self.sources) else ''}{type_of(v.dtype)}* "
            f"{'' if v.buffer in self.shared else '__restrict__ '}p{k}"
            for k, v in enumerate(views)
        ]
        body = "\n".join(f"    {line}" for line in self.lines)
        text = (
            f"({', '.join(parameters)}) {{\n"
            f"  const {index} step = ({index})gridDim.x * blockDim.x;\n"
            f"  for ({index} i = ({index})blockIdx.x * blockDim.x + threadIdx.x; i < {size}; "
            f"i += step) {{\n{body}\n  }}\n}}\n"
        )
        name = "fused_" + hashlib.sha256(text.encode()).hexdigest()[:16]
        return KernelSource(name, f'extern "C" __global__ void {name}{text}', views, size)

    def _positions(self, sizes: list[int], index: str) -> None:
        """The place along each axis, the last one moving fastest."""
        self.axes = [f"i{k}" for k in range(len(sizes))] if len(sizes) > 1 else ["i"]
        rest = "i"
        for k in range(len(sizes) - 1, 0, -1):
            self.lines.append(f"const {index} i{k} = {rest} % {sizes[k]};")
            self.lines.append(f"const {index} r{k} = {rest} / {sizes[k]};")
            rest = f"r{k}"
        if len(sizes) > 1:
            self.lines.append(f"const {index} i0 = {rest};")

    def _place(self, view: View, strides: list[int]) -> str:
        """Where the element of a view lies, in elements from the start of its buffer."""
        width = view.dtype.itemsize
        steps = [(axis, s // width) for axis, s in zip(self.axes, strides, strict=False) if s]
        parts = [axis if s == 1 else f"{axis} * {s}" for axis, s in steps]
        if view.offset:
            parts.append(str(view.offset // width))
        return " + ".join(parts) or "0"

    def _load(self, view: View, place: str) -> None:
        self.names[view] = name = f"v{len(self.names)}"
        self.lines.append(f"const {type_of(view.dtype)} {name} = {place};")

    def _compute(self, member: Elementwise) -> None:
        given = [self._operand(x) for x in member.inputs]
        out: View = member.out
        dtype = member.inputs[-1].dtype
        text = expression(member.name, dtype, given, out.dtype)
        self._load(out, text)

    def _operand(self, x: Operand) -> str:
        if isinstance(x, Number):
            return literal(x.value, x.dtype)
        if x.buffer.kind == "constant":
            return literal(np.asarray(x.buffer.value[0]).reshape(-1)[0], x.dtype)
        return self.names[x]
