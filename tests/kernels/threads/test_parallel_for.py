"""Parts of kernels that whoever of the pool is free takes."""

import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("numba")
from numba import float32, int64, void

from trainkit.kernels.jit.options import compiled
from trainkit.kernels.threads import thread_pool
from trainkit.kernels.threads.parallel_for import POOL, chunk_range, spread
from trainkit.kernels.threads.thread_pool import shared


@compiled(parallel=False)
def _add_part(part, parts, x, number, y):
    first, last = chunk_range(part, parts, x.size, 16)
    for i in range(first, last):
        y[i] += x[i] + number


@pytest.fixture(scope="module")
def add():
    @compiled(parallel=False)
    def run(pool, parts, x, number, y):
        spread(pool, parts, _add_part, (x, number, y))

    run.compile(void(*POOL, float32[::1], float32, float32[::1]))
    return run


@pytest.fixture(scope="module")
def address():
    found = thread_pool.thread_pool()
    return found.run_address if found else 0


@pytest.mark.parametrize("size", [0, 1, 16, 17, 1000, 100_003])
@pytest.mark.parametrize("parts", [1, 2, 7, 64])
def test_each_element_is_visited_once(add, address, size, parts):
    x = np.arange(size, dtype="float32")
    for pool in (address, 0):
        y = np.zeros(size, "float32")
        add(pool, parts, x, np.float32(2), y)
        np.testing.assert_array_equal(y, x + 2)


def test_stretches_begin_at_whole_units():
    @compiled(parallel=False)
    def both(part, parts, count, unit):
        return chunk_range(part, parts, count, unit)

    both.compile((int64,) * 4)
    found = [both(i, 3, 100, 16) for i in range(3)]
    assert found == [(0, 32), (32, 64), (64, 100)]


def test_short_work_is_done_alone_and_parts_depend_on_the_work_only(address):
    assert shared(1000.0) == (0, 1)
    assert shared(39_000.0) == (0, 1)
    assert shared(100_000.0) == (address, 5)
    assert shared(1e12) == (address, 64)


PROGRAM = """
import hashlib
import numpy as np
from trainkit.kernels.softmax import softmax_tuned
x = np.random.default_rng(0).standard_normal((7, 3000)).astype("float32")
print(hashlib.sha1(softmax_tuned.softmax(x, -1).tobytes()).hexdigest())
"""


def test_who_compiles_a_kernel_gets_the_bits_of_who_loads_it_from_disk(tmp_path):
    facts = {"TRAINKIT_JIT": "eager", "TRAINKIT_CACHE": str(tmp_path), "TRAINKIT_KERNELS": "0"}
    bits = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, **facts},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert list(tmp_path.iterdir())
    assert bits[0] == bits[1]
