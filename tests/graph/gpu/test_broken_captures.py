"""What is left after a capture that was broken off, and interpreters that count otherwise."""

import gc
import sys
import weakref

import numpy as np
import pytest

import trainkit as tk
from tests.stand_in import memory
from tests.stand_in.kernels import has_compiler
from trainkit.core.dispatch import ownership
from trainkit.graph.gpu.gpu_program import CALLS_BEFORE_CAPTURE

CALLS = CALLS_BEFORE_CAPTURE + 1
ONES = np.ones((3, 3), "float32")

pytestmark = pytest.mark.skipif(not has_compiler(), reason="no g++ for this machine is here")


@pytest.fixture(autouse=True)
def _gpu(any_gpu):
    """Each test runs on the stand-in, and on a GPU where there is one."""


@pytest.fixture
def pools(inside, monkeypatch):
    """Weak references to the pools that are made."""
    import cupy

    found = []

    class Pool(cupy.cuda.MemoryPool):
        def __init__(self):
            super().__init__()
            found.append(weakref.ref(self))

    monkeypatch.setattr(cupy.cuda, "MemoryPool", Pool)
    return found


def waiting(x):
    """A product, and then a number of elements that the host has to know."""
    y = x @ x
    return tk.boolean_mask(y[0], y[0] > 1.0) * 2.0


def test_a_broken_capture_gives_its_memory_back(pools):
    f = tk.function(waiting, autograph=False)
    for _ in range(CALLS + 1):
        assert f(tk.constant(ONES)).numpy().tolist() == [6.0] * 3
    assert "not as a CUDA graph" in f.explain()
    gc.collect()
    assert len(pools) == 1
    assert [pool() for pool in pools] == [None]
    before = memory.count()
    for _ in range(20):
        f(tk.constant(ONES))
    gc.collect()
    assert memory.count() == before


def test_after_a_broken_capture_others_are_made_and_products_are_right():
    broken = tk.function(waiting, autograph=False)
    for _ in range(CALLS + 1):
        broken(tk.constant(ONES))
    count = tk.Variable(np.zeros((3, 3), "float32"))
    whole = tk.function(lambda x: count.assign_add(x @ x), autograph=False)
    for k in range(CALLS + 3):
        assert (tk.constant(ONES) @ tk.constant(ONES)).numpy().tolist() == [[3.0] * 3] * 3
        broken(tk.constant(ONES))
        assert whole(tk.constant(ONES)).numpy()[0, 0] == 3 * (k + 1)
    assert "4 replays of 1 CUDA graph" in whole.explain()


def test_an_error_of_the_capture_itself_is_the_reason(inside, monkeypatch):
    import cupy

    def fails(self):
        self._tape = None
        raise RuntimeError("no memory for the graph")

    monkeypatch.setattr(cupy.cuda.Stream, "end_capture", fails)
    f = tk.function(lambda x: x @ x + 1.0)
    for _ in range(CALLS + 1):
        assert f(tk.constant(ONES)).numpy()[0, 0] == 4
    assert "not as a CUDA graph: no memory for the graph" in f.explain()


# ---------------------------------------------------------------------- counts of references


def counted_with(extra, monkeypatch):
    """Let the interpreter count `extra` references more of each object, as another version may."""
    monkeypatch.setattr(ownership, "getrefcount", lambda x: sys.getrefcount(x) + extra)
    counts = ownership.measure_counts()
    monkeypatch.setattr(ownership, "_TENSOR", counts.tensor)
    monkeypatch.setattr(ownership, "_ARRAY", counts.array)
    monkeypatch.setattr(ownership, "sole_array", ownership._sole_array)


@pytest.mark.parametrize("extra", [-3, -1, 0, 1, 4])
def test_an_interpreter_that_counts_otherwise_captures_as_much(extra, monkeypatch):
    counted_with(extra, monkeypatch)
    count = tk.Variable(np.zeros((3, 3), "float32"))
    step = tk.function(count.assign_add, autograph=False)
    kept = []
    for k in range(4 * CALLS):
        if k == CALLS + 1:
            kept.append(count.value())
        step(tk.constant(ONES))
        del kept[1:]
    assert kept[0].numpy()[0, 0] == CALLS + 1
    assert count.numpy()[0, 0] == 4 * CALLS
    assert "of 2 CUDA graphs" in step.explain()


def test_a_count_that_never_fits_costs_captures_and_nothing_else(monkeypatch):
    monkeypatch.setattr(ownership, "sole_array", lambda variable: None)
    count = tk.Variable(np.zeros((3, 3), "float32"))
    step = tk.function(count.assign_add, autograph=False)
    kept = []
    for _ in range(60):
        kept.append(count.value())
        step(tk.constant(ONES))
    assert [int(x.numpy()[0, 0]) for x in kept] == list(range(60))
    assert "is held by another tensor" in step.explain()
