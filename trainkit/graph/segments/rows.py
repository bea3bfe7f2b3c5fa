"""Sums and extremes of rows are made in the loop that computes the rows, a row at a time.

A row stays in the cache, often on the stack alone, until NumPy's own loop has reduced it; that is
called with the same length and stride as for the whole array, so the bits are the same. Sums of all
elements are left as they are: those of large arrays are BLAS's, whose order depends on the whole.
"""

from __future__ import annotations

import math

from trainkit.graph.segments.steps import Buffer, Loop, Reduction, Step, View, results_of

FEWEST_BYTES = 1 << 17
"""Smaller results are in the cache anyway, and one long loop is faster than many short ones."""
FEWEST_ELEMENTS = 32
"""Of a row, for the same reason."""
MOST_BYTES = 1 << 14
"""Of a row; it has to fit into the nearest cache beside what it is computed from."""


def with_rows_reduced(order: list[Step]) -> list[Step]:
    """The same work with reductions of rows done by the loops that make the rows."""
    made: dict[Buffer, Step] = {}
    found: list[Step] = []
    for step in order:
        if isinstance(step, Reduction) and _joins(made.get(step.source.buffer), step):
            home = made[step.source.buffer]
            assert isinstance(home, Loop)
            home.ends.append(step)
        else:
            found.append(step)
            made.update((v.buffer, step) for v in results_of(step))
    return found


def _joins(loop: Step | None, step: Reduction) -> bool:
    """Whether `loop` makes the rows that `step` reduces, and may do so one by one."""
    source = step.source
    if not isinstance(loop, Loop) or all(m.out != source for m in loop.members):
        return False
    first = first_inside(step)
    rows, width = math.prod(source.shape[:first]), math.prod(source.shape[first:])
    return (
        all(n == 1 or i in step.axes for i, n in enumerate(source.shape) if i >= first)
        and all(first_inside(end) == first for end in loop.ends)
        and rows > 1
        and width >= FEWEST_ELEMENTS
        and width * source.dtype.itemsize <= MOST_BYTES
        and _bytes_of(source) >= FEWEST_BYTES
    )


def first_inside(step: Reduction) -> int:
    """The first of the axes that make up a row: the first that is reduced and has more elements."""
    return min((i for i in step.axes if step.source.shape[i] > 1), default=len(step.source.shape))


def _bytes_of(view: View) -> int:
    return view.size * view.dtype.itemsize
