"""Places of temporaries: none overlaps another that is still needed."""

import numpy as np
import pytest

from trainkit.compiler.ir import Buffer, NumpyLoop, View, results_of, sources_of
from trainkit.compiler.schedule.memory import ALIGNMENT, places


def chain(sizes, spans):
    """Steps that write buffer i at step i and read it for the last time `spans[i]` later."""
    buffers = [Buffer("temporary", size) for size in sizes]
    views = [View(b, 0, (b.size,), (1,), np.dtype("uint8")) for b in buffers]
    steps = []
    for i in range(len(sizes)):
        read = tuple(views[j] for j in range(i) if j + spans[j] >= i)
        steps.append(NumpyLoop(np.add, read, views[i]))
    return buffers, steps


@pytest.mark.parametrize("seed", range(20))
def test_buffers_in_use_at_once_never_overlap(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 500, 30).tolist()
    buffers, steps = chain(sizes, rng.integers(0, 8, 30).tolist())
    offsets, total = places(steps, set(buffers))
    alive = {}
    for i, step in enumerate(steps):
        for view in (*sources_of(step), *results_of(step)):
            alive.setdefault(view.buffer, [i, i])[1] = i
    for a in buffers:
        assert offsets[a] % ALIGNMENT == 0
        assert offsets[a] + a.size <= total
        for b in buffers:
            meet = alive[a][0] <= alive[b][1] and alive[b][0] <= alive[a][1]
            if a is not b and meet:
                apart = offsets[a] + a.size <= offsets[b] or offsets[b] + b.size <= offsets[a]
                assert apart


def test_a_chain_takes_turns_in_two_places():
    buffers, steps = chain([1000] * 10, [1] * 10)
    offsets, total = places(steps, set(buffers))
    assert total == 2 * 1024
    assert len(set(offsets.values())) == 2


def test_a_gap_is_filled():
    buffers, steps = chain([64, 640, 64, 320, 64], [9, 1, 9, 9, 9])
    offsets, total = places(steps, set(buffers))
    assert offsets[buffers[3]] < offsets[buffers[2]]
    assert total == 64 + 640 + 64
