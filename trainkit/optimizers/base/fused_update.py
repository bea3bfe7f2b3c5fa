"""An update program as one compiled loop: every element is read once, updated, and written once.

One call of the loop serves all weights, and each core takes an equal part of their elements.

The loop does the same float operations in the same order as the program's NumPy steps, so both give
the same bits. It is compiled once a program has done enough work for that to pay.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from operator import methodcaller
from typing import Any

import numpy as np

from trainkit.kernels.jit import kernel_family
from trainkit.kernels.jit.array_addresses import data_offset
from trainkit.kernels.threads.pools import compute_threads
from trainkit.optimizers.base.update_calls import MOST, array_calls, number_calls
from trainkit.optimizers.base.update_program import UpdateProgram
from trainkit.optimizers.base.update_statements import INFIX, statements

UPDATES = kernel_family.Family("update", "jit.update_loops", "update", exact=True, alone=True)
JOINT_UPDATES = kernel_family.Family("joint_update", "jit.update_loops", "joint_update", exact=True)

MOST_JOINT = 4
"""Buffers of a program whose weights share one loop: weight, gradient and two slots."""

WIDE = 250_000
"""From so many elements on, beyond a cache, the loop is spread over the cores.

Loops for fewer wake no threads: they take 2.2 us for 10 elements where the steps take 2.2 to 4.7.
"""

_ROUNDED = {np.sqrt, np.absolute, np.sign, np.maximum, np.minimum, np.negative, np.square}
"""Functions whose result is exact or correctly rounded, so that it is the same everywhere."""

_FLAT = methodcaller("reshape", -1)
FIRST = [(0,) * rank for rank in range(65)]
"""The place of the only element, by rank."""

_SECONDS_PER_STEP, _SECONDS_PER_ELEMENT = 4e-7, 8e-11
"""What one NumPy step of a program costs."""


def is_exact(program: UpdateProgram) -> bool:
    """Whether a loop gives the bits of the program."""
    return all(x.is_scalar or x.ufunc in INFIX or x.ufunc in _ROUNDED for x in program.order)


def loop_source(program: UpdateProgram) -> str:
    """The text of a module with `loop(b0, ..., s0, ..., h0, ...)`: buffers, scalars, hoisted."""
    numbers, body = statements(program)
    arguments = [f"b{i}" for i in range(program.n_buffers)] + numbers
    lines = ["import numpy as np", "from numba import prange", f"real = np.{program.dtype.name}"]
    lines += ["", f"def loop({', '.join(arguments)}):", "    for i in prange(b0.size):"]
    return "\n".join(lines + [f"        {line}" for line in body]) + "\n"


_JOINT = """\
import numpy as np
from numba import prange
from trainkit.kernels.jit.object_addresses import numbers_at

real = np.{dtype}


def loop({arguments}):
    total = 0
    for k in range(sizes.size):
        total += sizes[k]
    for number in prange(workers):
        worker = np.int64(number)
        first, last = total * worker // workers, total * (worker + 1) // workers
        start = 0
        for k in range(sizes.size):
            low, high = max(first, start) - start, min(last, start + sizes[k]) - start
            start += sizes[k]
            if low < high:
{views}
                for i in range(b0.size):
{body}
"""


def joint_source(program: UpdateProgram) -> str:
    """The text of a module with `loop(items, offset, sizes, workers, s0, ..., h0, ...)`.

    `items` (weights, buffers) are the addresses of flat arrays, `sizes` their sizes. Each worker
    takes an equal part of all elements, as if the arrays stood behind one another.
    """
    numbers, body = statements(program)
    size = program.dtype.itemsize
    views = [
        f"b{i} = numbers_at(items[k, {i}], offset, low * {size}, high - low, real(0))"
        for i in range(program.n_buffers)
    ]
    return _JOINT.format(
        dtype=program.dtype.name,
        arguments=", ".join(["items", "offset", "sizes", "workers", *numbers]),
        views="\n".join(" " * 16 + line for line in views),
        body="\n".join(" " * 20 + line for line in body),
    )


class FusedUpdate:
    """A program, and the loops that take over from its NumPy steps once it has run often enough.

    Up to `MOST_JOINT` buffers one loop serves all weights together where they are large enough for
    all cores; beyond, LLVM gives up proving that they don't overlap. Otherwise there is a call of a
    loop for each weight: on one core the joint loop was no faster by itself, and within a training
    step, beside the threads of BLAS, it took three times as long.

    Args:
        program: the program, for float32 or float64 buffers.
    """

    def __init__(self, program: UpdateProgram) -> None:
        self.program = program
        self._real = program.dtype.type
        self._keys: list[kernel_family.Key] = []
        self._joint_key: kernel_family.Key | None = None
        if is_exact(program):
            hoisted = sum(x.is_scalar for x in program.order)
            counts = (program.n_buffers, program.n_scalars + hoisted)
            facts = ("loop", program.dtype.name, *counts)
            self._keys = [(loop_source(program), *facts, wide) for wide in (False, True)]
            if program.n_buffers <= MOST_JOINT and data_offset() is not None:
                self._joint_key = (joint_source(program), *facts, True)

    def run(self, buffers: Sequence[Any], scalars: Sequence[Any]) -> None:
        """Update the buffers in place, as `UpdateProgram.run` does."""
        self.run_all([buffers], scalars)

    def run_all(self, members: Sequence[Sequence[Any]], scalars: Sequence[Any]) -> None:
        """Update the buffers of several weights, no two of which share one that is written."""
        sizes = [buffers[0].size for buffers in members]
        total = sum(sizes)
        if self._joint_key is not None and total >= WIDE:
            loop = JOINT_UPDATES.find(self._joint_key, self._seconds(len(sizes), total))
            if loop is not None:
                self._run_joint(loop, members, scalars)
            else:
                self._run_each(members, sizes, scalars, (None, None))
        else:
            self._run_each(members, sizes, scalars, self._loops(sizes, total))

    def _seconds(self, count: int, total: int) -> float:
        """What the steps take for so many weights of so many elements in all."""
        each = _SECONDS_PER_STEP * count + _SECONDS_PER_ELEMENT * total
        return len(self.program.steps) * each

    def _loops(self, sizes: list[int], total: int) -> tuple[Any, Any]:
        """The loops for weights below `WIDE` and for the others, `None` where steps are to do it.

        The weights of a kind count together, by what the steps take for them.
        """
        if not self._keys:
            return None, None
        wide = [size for size in sizes if size >= WIDE] if total >= WIDE else []
        most, ones = sum(wide), sizes.count(1)  # numbers need no loop
        narrow = len(sizes) - len(wide) - ones
        return self._loop(False, narrow, total - most - ones), self._loop(True, len(wide), most)

    def _loop(self, wide: bool, count: int, total: int) -> Any:
        return UPDATES.find(self._keys[wide], self._seconds(count, total)) if count else None

    def _run_each(
        self,
        members: Sequence[Sequence[Any]],
        sizes: list[int],
        scalars: Sequence[Any],
        loops: tuple[Any, Any],
    ) -> None:
        """Weight by weight: by the loop for its size, if there is one."""
        numbers = self.numbers(scalars)
        for buffers, size in zip(members, sizes, strict=True):
            if size == 1:
                self.of_number(FIRST[buffers[0].ndim], *buffers, *numbers)
                continue
            loop = loops[size >= WIDE]
            if loop is not None:
                loop(*map(_FLAT, buffers), *numbers)
            elif size <= MOST:
                self._of_arrays(*buffers, *numbers)
            else:
                self.program.run(buffers, scalars)

    @cached_property
    def of_number(self) -> Any:
        """`update(i, b0, ..., s0, ..., h0, ...)` of element `i` of the buffers."""
        return number_calls(self.program)

    @cached_property
    def _of_arrays(self) -> Any:
        return array_calls(self.program)

    def _run_joint(self, loop: Any, members: Any, scalars: Sequence[Any]) -> None:
        items = np.array([[id(x) for x in buffers] for buffers in members], np.int64)
        sizes = np.array([buffers[0].size for buffers in members], np.int64)
        loop(items, data_offset(), sizes, compute_threads(), *self.numbers(scalars))

    def numbers(self, scalars: Sequence[Any]) -> list[Any]:
        """Scalars and what is computed from them, in the program's type."""
        real = self._real
        numbers = list(scalars)
        if set(map(type, numbers)) != {real}:
            numbers = [real(x) for x in numbers]
        if self.program.scalar_steps:
            numbers += [real(x) for x in self.program.hoisted(scalars)]
        return numbers
