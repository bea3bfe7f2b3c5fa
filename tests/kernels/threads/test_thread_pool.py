"""A thread pool: every part is done once, whoever comes to help."""

import ctypes
import os
import subprocess
import sys
import threading

import pytest

from trainkit.kernels.threads import pools, thread_pool

pytestmark = pytest.mark.skipif(
    thread_pool.thread_pool() is None, reason="one core, or no pool here"
)


@pytest.fixture
def run():
    """Do `work(part, parts)` in the pool."""
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    start = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)

    def go(work, parts):
        function = kind(lambda data, part, parts: work(part, parts))
        address = ctypes.cast(function, ctypes.c_void_p)
        start(thread_pool.thread_pool().run_address)(address, None, parts)

    return go


@pytest.mark.parametrize("parts", [0, 1, 2, 7, 1000])
def test_each_part_is_done_once(run, parts):
    done = []
    run(lambda part, count: done.append((part, count)), parts)
    assert sorted(done) == [(i, parts) for i in range(parts)]


def test_helpers_help(run):
    here, both = set(), threading.Barrier(2)

    def work(part, parts):
        both.wait(timeout=30)  # each of two parts waits for the other
        here.add(threading.get_ident())

    run(work, 2)
    assert len(here) == 2


def test_who_waits_for_a_helper_sleeps_and_is_woken(run):
    """The caller's part is short, the helper's long, so the caller has to wait for it to leave."""
    main, done = threading.get_ident(), []
    for _ in range(20):
        met = threading.Barrier(2)

        def work(part, parts, met=met):
            met.wait(timeout=30)
            if threading.get_ident() != main:
                threading.Event().wait(0.005)
            done.append(part)

        run(work, 2)
        assert len(done) % 2 == 0  # nobody has come back before all parts were done
    assert len(done) == 40


def test_helpers_are_not_woken_more_often_than_they_slept(run):
    """Else they would look for work long after a burst of calls, once for each of them."""
    for _ in range(500):
        run(lambda part, parts: None, 4)
    pool = thread_pool.thread_pool()
    count = ctypes.c_int()
    ctypes.CDLL(None).sem_getvalue(ctypes.c_void_p(pool._semaphores[0]), ctypes.byref(count))
    assert count.value < pool.most


def test_several_callers_at_once(run):
    done = [[] for _ in range(4)]

    def call(i):
        for _ in range(20):
            run(lambda part, parts: done[i].append(part), 5)

    callers = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert [sorted(d) for d in done] == [sorted([*range(5)] * 20)] * 4


def test_a_call_from_within_a_call(run):
    done = []
    run(lambda i, n: run(lambda j, m: done.append((i, j)), 3), 4)
    assert sorted(done) == [(i, j) for i in range(4) for j in range(3)]


def test_one_thread_works_alone(run, monkeypatch):
    monkeypatch.setattr(pools._Chosen, "compute", 1)
    thread_pool.thread_pool().resize()
    try:
        here = set()
        run(lambda part, parts: here.add(threading.get_ident()), 50)
        assert here == {threading.get_ident()}
    finally:
        monkeypatch.undo()
        thread_pool.thread_pool().resize()
    assert thread_pool.thread_pool().size == pools.compute_threads()


def test_there_is_none_for_one_core_or_elsewhere(monkeypatch):
    monkeypatch.setattr(thread_pool.pools, "compute_threads", lambda: 1)
    assert thread_pool.thread_pool.__wrapped__() is None
    monkeypatch.undo()
    monkeypatch.setattr(thread_pool.platform, "machine", lambda: "abacus")
    assert thread_pool.thread_pool.__wrapped__() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_process_that_was_forked_off_works_alone():
    code = """
import os
import numpy as np
import trainkit as tk
from trainkit.kernels.threads.thread_pool import thread_pool

@tk.function(jit_compile=True)
def step(x):
    return x * 2.0 + 1.0

x = tk.constant(np.ones(3_000_000, "float32"))
assert float(step(x)[-1]) == 3.0
child = os.fork()
if not child:
    assert thread_pool().size == 1
    os._exit(0 if float(step(x)[-1]) == 3.0 else 1)
assert os.waitpid(child, 0)[1] == 0
assert thread_pool().size > 1
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=120)
