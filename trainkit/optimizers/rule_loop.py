"""A rule program as one compiled loop: every element is read once, updated, and written once.

The loop does the same float operations in the same order as the program's NumPy steps, so both give
the same bits. It is compiled once a program has done enough work for that to pay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.kernels import registry
from trainkit.optimizers.rule_program import RuleProgram, Symbol

UPDATES = registry.Family("update", "update", "update", exact=True)

WIDE = 250_000
"""From so many elements on, beyond a cache, the loop is spread over the cores."""

_INFIX = {np.add: "+", np.subtract: "-", np.multiply: "*", np.true_divide: "/"}
_ROUNDED = {np.sqrt, np.absolute, np.sign, np.maximum, np.minimum, np.negative, np.square}
"""Functions whose result is exact or correctly rounded, so that it is the same everywhere."""

_SECONDS_PER_STEP, _SECONDS_PER_ELEMENT = 4e-7, 8e-11
"""What one NumPy step of a program costs."""


def is_exact(program: RuleProgram) -> bool:
    """Whether a loop gives the bits of the program."""
    return all(x.is_scalar or x.ufunc in _INFIX or x.ufunc in _ROUNDED for x in program.order)


def loop_source(program: RuleProgram) -> str:
    """The text of a module with `loop(b0, ..., s0, ..., h0, ...)`: buffers, scalars, hoisted."""
    buffers, scalars = program.inputs
    names = {id(x): f"x{i}" for i, x in enumerate(buffers)}
    names |= {id(x): f"s{i}" for i, x in enumerate(scalars)}
    hoisted = [x for x in program.order if x.is_scalar]
    names |= {id(x): f"h{i}" for i, x in enumerate(hoisted)}
    body = []
    for i, symbol in enumerate(x for x in program.order if not x.is_scalar):
        names[id(symbol)] = f"y{i}"
        body.append(f"y{i} = {_expression(symbol, names)}")
    stores = []
    for i, result in enumerate(program.results):
        slot = i if i == 0 else i + 1
        if result is not buffers[slot]:
            stores.append(f"b{slot}[i] = {names[id(result)]}")
    loads = [f"x{i} = b{i}[i]" for i in range(len(buffers))]
    arguments = [f"b{i}" for i in range(len(buffers))]
    arguments += [names[id(x)] for x in (*scalars, *hoisted)]
    lines = ["import numpy as np", "from numba import prange", f"real = np.{program.dtype.name}"]
    lines += ["", f"def loop({', '.join(arguments)}):", "    for i in prange(b0.size):"]
    return "\n".join(lines + [f"        {line}" for line in loads + body + stores]) + "\n"


def _expression(symbol: Symbol, names: dict[int, str]) -> str:
    inputs = [
        names[id(x)] if isinstance(x, Symbol) else f"real({float(x)!r})" for x in symbol.inputs
    ]
    if symbol.ufunc in _INFIX:
        return f"{inputs[0]} {_INFIX[symbol.ufunc]} {inputs[1]}"
    return f"np.{symbol.ufunc.__name__}({', '.join(inputs)})"


class HotProgram:
    """A program, and the loops that take over from its NumPy steps once it has run often enough.

    Args:
        program: the program, for float32 or float64 buffers.
    """

    def __init__(self, program: RuleProgram) -> None:
        self.program = program
        self._real = program.dtype.type
        self._exact = is_exact(program)
        hoisted = sum(x.is_scalar for x in program.order)
        counts = (program.n_buffers, program.n_scalars + hoisted)
        self._keys: list[registry.Key] = []
        if self._exact:
            source = loop_source(program)
            of_dtype = (source, "loop", program.dtype.name, *counts)
            self._keys = [(*of_dtype, wide) for wide in (False, True)]

    def run(self, buffers: Sequence[Any], scalars: Sequence[Any]) -> None:
        """Update the buffers in place, as `RuleProgram.run` does."""
        if self._exact:
            size = buffers[0].size
            seconds = len(self.program.steps) * (_SECONDS_PER_STEP + _SECONDS_PER_ELEMENT * size)
            loop = UPDATES.find(self._keys[size >= WIDE], seconds)
            if loop is not None:
                self._run_loop(loop, buffers, scalars)
                return
        self.program.run(buffers, scalars)

    def _run_loop(self, loop: Any, buffers: Sequence[Any], scalars: Sequence[Any]) -> None:
        real = self._real
        numbers = [x if type(x) is real else real(x) for x in scalars]
        if self.program.scalar_steps:
            numbers += [real(x) for x in self.program.hoisted(scalars)]
        loop(*[x if x.ndim == 1 else x.reshape(-1) for x in buffers], *numbers)
