"""An update program as one compiled loop: every element is read once, updated, and written once.

One call of the loop serves all weights, and whoever of the thread pool is free takes a part of
their elements.

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
from trainkit.kernels.threads.thread_pool import shared
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
_NANOSECONDS = 0.15
"""What the loop takes on one core for an element of each buffer, in memory."""


def is_exact(program: UpdateProgram) -> bool:
    """Whether a loop gives the bits of the program."""
    return all(x.is_scalar or x.ufunc in INFIX or x.ufunc in _ROUNDED for x in program.order)


def loop_source(program: UpdateProgram) -> str:
    """The text of `loop(part, parts, b0, ..., s0, ..., h0, ..., c0, ...)`.

    They are buffers, scalars, what is hoisted, and the numbers of the rule: one text, and so one
    compiled loop, serves all settings that lead to the same steps.
    """
    numbers, body = statements(program, [])
    arguments = ["part", "parts", *(f"b{i}" for i in range(program.n_buffers)), *numbers]
    lines = [f"def loop({', '.join(arguments)}):"]
    # 16 float32 fill a line of cache, which two threads should not write to
    lines.append("    first, last = chunk_range(part, parts, b0.size, 16)")
    lines.append("    for i in range(first, last):")
    return "\n".join(lines + [f"        {line}" for line in body]) + "\n"


_JOINT = """\
def loop({arguments}):
    total = 0
    for k in range(sizes.size):
        total += sizes[k]
    first, last = total * part // parts, total * (part + 1) // parts
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
    """The text of `loop(part, parts, items, offset, sizes, s0, ..., h0, ..., c0, ...)`.

    `items` (weights, buffers) are the addresses of flat arrays, `sizes` their sizes. A part is as
    many elements as any other, as if the arrays stood behind one another.
    """
    numbers, body = statements(program, [])
    size = program.dtype.itemsize
    # any number of weights: their addresses are data, and one compiled loop serves all networks
    views = [
        f"b{i} = numbers_at(items[k, {i}], offset, low * {size}, high - low, real(0))"
        for i in range(program.n_buffers)
    ]
    return _JOINT.format(
        arguments=", ".join(["part", "parts", "items", "offset", "sizes", *numbers]),
        views="\n".join(" " * 12 + line for line in views),
        body="\n".join(" " * 16 + line for line in body),
    )


class FusedUpdate:
    """A program, and the loops that take over from its NumPy steps once it has run often enough.

    Up to `MOST_JOINT` buffers one loop serves all weights together where they are large enough for
    all cores, and in graphs; beyond, LLVM gives up proving that they don't overlap. Otherwise there
    is a call of a loop for each weight: on one core and with few weights the joint loop is no
    faster by itself.

    Args:
        program: the program, for float32 or float64 buffers.
    """

    def __init__(self, program: UpdateProgram) -> None:
        self.program = program
        self._real = program.dtype.type
        self._key: kernel_family.Key | None = None
        self._joint_key: kernel_family.Key | None = None
        self._constants: list[float] = []
        if is_exact(program):
            dtype, scalars = program.dtype.name, len(statements(program, self._constants)[0])
            self._key = (loop_source(program), dtype, program.n_buffers, scalars)
            # without the place of addresses in an array's object the loop can't find its numbers
            if program.n_buffers <= MOST_JOINT and data_offset() is not None:
                self._joint_key = (joint_source(program), dtype, scalars)

    def kernels(self) -> list[tuple[kernel_family.Family, kernel_family.Key]]:
        """The loops that may be compiled, each with what it is compiled for."""
        loops = [(UPDATES, self._key), (JOINT_UPDATES, self._joint_key)]
        return [(family, key) for family, key in loops if key is not None]

    def run(self, buffers: Sequence[Any], scalars: Sequence[Any]) -> None:
        """Update the buffers in place, as `UpdateProgram.run` does."""
        self.run_all([buffers], scalars)

    def run_all(self, members: Sequence[Sequence[Any]], scalars: Sequence[Any]) -> None:
        """Update the buffers of several weights, no two of which share one that is written."""
        sizes = [buffers[0].size for buffers in members]
        total = sum(sizes)
        if self._joint_key is not None and total >= WIDE:
            buffers = [x for member in members for x in member]
            if not self.run_joint(buffers, np.array(sizes, np.int64), total, scalars):
                self._run_each(members, sizes, scalars, None)
        else:
            self._run_each(members, sizes, scalars, self._loop(sizes, total))

    def run_joint(
        self, buffers: Sequence[Any], sizes: Any, total: int, scalars: Sequence[Any]
    ) -> bool:
        """Update all weights in one call of a loop, if there is one yet.

        Args:
            buffers: C-contiguous arrays of the program's dtype: those of the first weight in the
                order of `run`, then those of the next.
            sizes: how many elements the arrays of each weight have, an int64 array.
            total: their sum.
            scalars: as `run` takes them.

        Returns:
            Whether that is done; nothing has changed where it is not.
        """
        if self._joint_key is None:
            return False
        loop = JOINT_UPDATES.find(self._joint_key, self._seconds(len(sizes), total))
        if loop is None:
            return False
        # Objects in place of addresses: the loop reads these itself, as `array.ctypes.data` of
        # each array would take far longer. `buffers` keeps the objects alive meanwhile.
        items = np.fromiter(map(id, buffers), np.int64, len(buffers))
        items = items.reshape(-1, self.program.n_buffers)
        numbers = (*self.numbers(scalars), *self._constants)
        loop(*self._shared(total), items, data_offset(), sizes, *numbers)
        return True

    def _seconds(self, count: int, total: int) -> float:
        """What the steps take for so many weights of so many elements in all."""
        each = _SECONDS_PER_STEP * count + _SECONDS_PER_ELEMENT * total
        return len(self.program.steps) * each

    def _loop(self, sizes: list[int], total: int) -> Any:
        """The loop for one weight, `None` where steps are to do it.

        All weights count together, but for single numbers, which need no loop.
        """
        ones = sizes.count(1)
        if self._key is None or ones == len(sizes):
            return None
        return UPDATES.find(self._key, self._seconds(len(sizes) - ones, total - ones))

    def _run_each(
        self,
        members: Sequence[Sequence[Any]],
        sizes: list[int],
        scalars: Sequence[Any],
        loop: Any,
    ) -> None:
        """Weight by weight: by the loop, if there is one."""
        numbers = self.numbers(scalars)
        for buffers, size in zip(members, sizes, strict=True):
            if size == 1:
                self.of_number(FIRST[buffers[0].ndim], *buffers, *numbers)
                continue
            # no loop yet, or none at all: steps with new memory where it is little, else in pieces
            if loop is not None:
                loop(*self._shared(size), *map(_FLAT, buffers), *numbers, *self._constants)
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

    def _shared(self, size: int) -> tuple[int, int]:
        """The pool and the parts for so many elements."""
        if size < WIDE:
            return 0, 1
        return shared(_NANOSECONDS * self.program.n_buffers * size)

    def numbers(self, scalars: Sequence[Any]) -> list[Any]:
        """Scalars and what is computed from them, in the program's type."""
        real = self._real
        numbers = list(scalars)
        # in nearly all steps they are NumPy's scalars of this type already
        if set(map(type, numbers)) != {real}:
            numbers = [real(x) for x in numbers]
        if self.program.scalar_steps:
            numbers += [real(x) for x in self.program.hoisted(scalars)]
        return numbers
