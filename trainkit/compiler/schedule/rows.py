"""Sums, maxima and minima of rows are made in the loop that computes the rows, a row at a time.

A row stays in the cache, often on the stack alone, until NumPy's own loop has reduced it; that is
called with the same length and stride as for the whole array, so the bits are the same. Sums of all
elements are left as they are: those of large arrays are BLAS's, whose order depends on the whole.
"""

from __future__ import annotations

import math

from trainkit.compiler.ir import Buffer, Loop, Reduction, Step, View, results_of
from trainkit.compiler.schedule import parallel
from trainkit.core.cpu.cost_model import CACHED_BYTES, FIRST_CACHE, LINE_FLOATS

FEWEST_BYTES = CACHED_BYTES // 2
"""Smaller results are in the cache anyway, beside what they are computed from, and one long loop is
faster than many short ones."""
FEWEST_ELEMENTS = 2 * LINE_FLOATS
"""Of a row, for the same reason."""
MOST_BYTES = FIRST_CACHE // 2
"""Of a row; it has to fit into the nearest cache beside what it is computed from."""
_MOST_ENDS = FEWEST_BYTES // MOST_BYTES
"""Reductions in one loop, each of which may need a row on the stack."""


def with_rows_reduced(order: list[Step]) -> list[Step]:
    """The same work with reductions of rows done by the loops that make the rows.

    Where no loop does, as for an input, rows of a large array are a loop of their own, which is
    shared out to several threads.
    """
    writer_of: dict[Buffer, Step] = {}
    steps: list[Step] = []
    for step in order:
        if isinstance(step, Reduction) and _has_rows(step):
            home = writer_of.get(step.source.buffer)
            if isinstance(home, Loop) and _joins(home, step):
                # It is done earlier now than where it stood, which is safe: all that it reads is a
                # result of this loop.
                home.ends.append(step)
                continue
            if _bytes_of(step.source) >= parallel.FEWEST_BYTES:
                step = Loop(ends=[step])
        steps.append(step)
        writer_of.update((v.buffer, step) for v in results_of(step))
    return steps


def _has_rows(step: Reduction) -> bool:
    """Whether `step` reduces rows that are worth being taken one by one."""
    shape, first = step.source.shape, first_inside(step)
    width = math.prod(shape[first:])
    return (
        # Reduced axes come last without a gap: only then is a row one run of memory.
        all(n == 1 or i in step.axes for i, n in enumerate(shape) if i >= first)
        # One row alone is the sum of all elements.
        and math.prod(shape[:first]) > 1
        and width >= FEWEST_ELEMENTS
        and width * step.source.dtype.itemsize <= MOST_BYTES
        and _bytes_of(step.source) >= FEWEST_BYTES
    )


def _joins(loop: Loop, step: Reduction) -> bool:
    """Whether `loop` makes what `step` reduces, and takes it row by row or may do so."""
    return (
        any(m.out == step.source for m in loop.members)
        and len(loop.ends) < _MOST_ENDS
        # The loop over the rows is written once, so all its reductions have to cut rows alike.
        and all(first_inside(end) == first_inside(step) for end in loop.ends)
    )


def first_inside(step: Reduction) -> int:
    """The first of the axes that make up a row: the first that is reduced and has more elements."""
    return min((i for i in step.axes if step.source.shape[i] > 1), default=len(step.source.shape))


def _bytes_of(view: View) -> int:
    return view.size * view.dtype.itemsize
