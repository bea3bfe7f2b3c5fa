"""Element-wise steps over the same elements are joined into one loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainkit.compiler.ir import (
    Buffer,
    Elementwise,
    LabelCheck,
    Loop,
    Step,
    View,
    results_of,
    sources_of,
)
from trainkit.core.cpu.processor import cache_bytes
from trainkit.core.process.side_work import give_way

Dims = list[tuple[int, tuple[int, ...]]]
"""Axes as (size, the strides of all operands)."""


def joined(steps: list[Step]) -> list[Step]:
    """The same work with element-wise steps in loops, as many as can be in each.

    A step joins an earlier loop when all that it reads is there by then. What it reads from the
    loop itself has to be the same element, which then stays in a register.
    """
    order: list[Step] = []
    writer_index: dict[Buffer, int] = {}  # where each buffer is written
    for step in steps:
        give_way()
        # The last step that makes an operand. Inputs and constants are made by none, so -1 lets a
        # step join the very first loop.
        ready = max((writer_index.get(v.buffer, -1) for v in sources_of(step)), default=-1)
        index = _place(step, order, writer_index, ready) if isinstance(step, Elementwise) else -1
        if index >= 0:
            loop = order[index]
            assert isinstance(loop, Loop)
            loop.members.append(step)  # type: ignore[arg-type]
        else:
            index = len(order)
            order.append(Loop([step]) if isinstance(step, Elementwise) else step)
        for v in results_of(step):
            writer_index[v.buffer] = index
    return merged(order)


def merged(order: list[Step]) -> list[Step]:
    """The same work, with loops put into earlier ones whose results they read.

    Two loops that had nothing to do with one another may come to feed a third step: it joined the
    second, and the results of the first had to go through memory.
    """
    steps: list[Step] = []
    writer_index: dict[Buffer, int] = {}
    for step in order:
        give_way()
        # Only the last step that it depends on is tried: an earlier loop runs before that one's
        # results exist.
        index = max((writer_index.get(v.buffer, -1) for v in sources_of(step)), default=-1)
        home = steps[index] if index >= 0 else None
        if isinstance(home, Loop) and isinstance(step, Loop) and _continues(home, step):
            home.members += step.members
        else:
            index = len(steps)
            steps.append(step)
        for v in results_of(step):
            writer_index[v.buffer] = index
    return steps


def _continues(loop: Loop, other: Loop) -> bool:
    """Whether `other` reads of the results of `loop` only the same element."""
    inner = {m.out.buffer: m.out for m in loop.members}
    return _alike(loop.out, other.out) and all(
        inner.get(v.buffer, v) == v for v in sources_of(other)
    )


def _place(
    step: Elementwise, order: list[Step], writer_index: dict[Buffer, int], ready: int
) -> int:
    """The loop in which `step` can be done, the latest there is; -1 for none."""
    # The loop at `ready` itself is a candidate, too: what it makes is taken from a register, if
    # it is the same element.
    for index in range(len(order) - 1, max(ready, 0) - 1, -1):
        loop = order[index]
        if isinstance(loop, Loop) and _alike(loop.out, step.out) and _is_faster_in(loop, step):
            inner = {m.out.buffer: m.out for m in loop.members}
            # Another offset or stride into a result of this loop is an element that it has not
            # reached yet, or that never gets to memory.
            if all(inner.get(v.buffer, v) == v for v in sources_of(step)):
                return index
    return -1


def _alike(a: View, b: View) -> bool:
    """Whether results lie in memory alike, so that one loop writes both."""
    # Counted in elements, so that a comparison's bools share the loop of the floats beside them.
    steps_a = [s // a.dtype.itemsize for s in a.strides]
    steps_b = [s // b.dtype.itemsize for s in b.strides]
    return a.shape == b.shape and steps_a == steps_b


def _is_faster_in(loop: Loop, step: Elementwise) -> bool:
    """Whether `step` is done faster in this loop than in one of its own."""
    # Half of the first cache holds it: there the start of a loop costs more than memory.
    if step.out.size * step.out.dtype.itemsize <= cache_bytes(1) // 2:
        return True
    # A large array that two steps read comes from memory once if they share a loop, and what one
    # hands to the other never goes there. Without either, a longer loop only has more streams.
    mine = {v.buffer for v in sources_of(step)}
    return any(v.buffer in mine for m in loop.members for v in (*sources_of(m), m.out))


def held_in_memory(order: list[Step], outputs: set[Buffer]) -> set[Buffer]:
    """The buffers that need memory: those that are read outside of the loop that makes them."""
    needed = set(outputs)
    for step in order:
        needed.update(v.buffer for v in sources_of(step))
        # Members of a loop write only what a step outside reads, which the line above has seen.
        # What ends a row, and all other steps, can't leave their results in registers.
        ends = step.ends if isinstance(step, Loop) else [step]
        needed.update(v.buffer for part in ends for v in results_of(part))
    return needed


def needed(steps: list[Step], outputs: set[Buffer]) -> list[Step]:
    """The steps on which an output depends; loops keep the members that matter."""
    needed_buffers = set(outputs)
    needed_steps: list[Step] = []
    # From the last one back: when a step comes up, all that read its results have been seen.
    for step in reversed(steps):
        # Rows are reduced inside of loops only after this, so there are no `ends` to look after.
        if isinstance(step, Loop):
            members = []
            for member in reversed(step.members):
                if member.out.buffer in needed_buffers:
                    members.append(member)
                    needed_buffers.update(v.buffer for v in sources_of(member))
            if members:
                needed_steps.append(Loop(members[::-1]))
        # A check writes nothing, but a call's failure is what it is for.
        elif isinstance(step, LabelCheck) or any(
            v.buffer in needed_buffers for v in results_of(step)
        ):
            needed_buffers.update(v.buffer for v in sources_of(step))
            needed_steps.append(step)
    return needed_steps[::-1]


def split(loop: Loop, limit: int, materialized: set[Buffer]) -> list[Loop]:
    """A loop as several, each of at most so many arrays, where its steps don't need each other.

    Args:
        loop: element-wise steps alone.
        limit: arrays that a loop reads and writes.
        materialized: the buffers that need memory.
    """
    if _streams(loop.members, materialized) <= limit:
        return [loop]
    groups: list[list[Elementwise]] = []
    # In order and greedily: neighbours come from one formula as a rule, and arrays that they both
    # read count once.
    for part in _split_groups(loop.members):
        if groups and _streams([*groups[-1], *part], materialized) <= limit:
            groups[-1] += part
        else:
            groups.append(part)
    return [Loop(members) for members in groups]


def _streams(members: list[Elementwise], materialized: set[Buffer]) -> int:
    """How many arrays of memory the steps read and write."""
    # Constants of such loops are single numbers that stand in the text.
    read = {v for v in sources_of(Loop(members)) if v.buffer.kind != "constant"}
    return len(read) + len({m.out for m in members if m.out.buffer in materialized})


def _split_groups(members: list[Elementwise]) -> list[list[Elementwise]]:
    """The steps in groups, none of which needs a result of another."""
    results = {m.out.buffer for m in members}
    return _connect(
        members, lambda m: {m.out.buffer, *({v.buffer for v in sources_of(m)} & results)}
    )


def unrelated(loop: Loop) -> list[Loop]:
    """A loop of element-wise steps as several, which have no more than single numbers in common."""
    results = {m.out.buffer for m in loop.members}

    def arrays(member: Elementwise) -> set[Buffer]:
        # A learning rate that all updates read ties none of them together. A single number that the
        # loop makes does: its reader can't run in another kernel at the same time.
        read = {v.buffer for v in sources_of(member) if v.size > 1 or v.buffer in results}
        return {member.out.buffer, *read}

    return [Loop(members) for members in _connect(loop.members, arrays)]


def _connect(
    members: list[Elementwise], arrays: Callable[[Elementwise], set[Buffer]]
) -> list[list[Elementwise]]:
    """The steps in groups, those together that have arrays in common."""
    # Each buffer refers to the list of its group. A step that touches several groups makes one
    # list of them, to which all their buffers refer from then on.
    group: dict[Buffer, list[Elementwise]] = {}
    for member in members:
        mine = [member]
        for other in {id(g): g for g in map(group.get, arrays(member)) if g}.values():
            mine = other + mine
        group.update({buffer: mine for m in mine for buffer in arrays(m)})
    order = {id(m): i for i, m in enumerate(members)}
    # Lists were put one behind the other, so a step may stand before one that it reads.
    sorted_groups = {id(g): sorted(g, key=lambda m: order[id(m)]) for g in group.values()}
    return sorted(sorted_groups.values(), key=lambda g: order[id(g[0])])


def spread_strides(view: View, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a view that is broadcast to `shape`."""
    missing = len(shape) - len(view.shape)
    mine = [
        0 if n == 1 and shape[i + missing] != 1 else s
        for i, (n, s) in enumerate(zip(view.shape, view.strides, strict=True))
    ]
    return (0,) * missing + tuple(mine)


def coalesced(shape: Sequence[int], strides: Sequence[Sequence[int]], by: Sequence[int]) -> Dims:
    """Axes as (size, strides of all operands), largest steps first, as few as can be.

    Args:
        shape: sizes of the axes.
        strides: of each operand, one for each axis.
        by: the strides by which the axes are put in order.
    """
    # The axis of the smallest step comes last, hence innermost: neighbours in memory are taken
    # one after the other, whatever the order of the axes is.
    axes = sorted((i for i, n in enumerate(shape) if n != 1), key=lambda i: -abs(by[i]))
    dims: Dims = []
    for i in axes:
        n, step = shape[i], tuple(s[i] for s in strides)
        # Where the end of a row is the start of the next one, in every operand, two axes are one
        # longer axis: what is contiguous needs a single loop, whatever its rank.
        if dims and all(outer == n * inner for outer, inner in zip(dims[-1][1], step, strict=True)):
            dims[-1] = (dims[-1][0] * n, step)
        else:
            dims.append((n, step))
    return dims
