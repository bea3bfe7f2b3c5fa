"""`tk.config.threading`, on the library's own pools."""

import subprocess
import sys

import numpy as np
import pytest

import trainkit as tk
from trainkit.data.transformations import mapping
from trainkit.kernels.threads import pools

threading = tk.config.threading
SETTERS = [threading.set_intra_op_parallelism_threads, threading.set_inter_op_parallelism_threads]


@pytest.fixture(autouse=True)
def _as_before():
    yield
    threading.set_intra_op_parallelism_threads(0)
    threading.set_inter_op_parallelism_threads(0)


@pytest.mark.parametrize("setter", SETTERS)
def test_only_whole_numbers_from_zero_on(setter):
    name = setter.__name__
    with pytest.raises(ValueError, match=f"{name}: the number must be 0 or more, got -1"):
        setter(-1)
    for wrong in (1.5, "2", None, True):
        with pytest.raises(TypeError, match=f"{name}: the number must be an int, got {wrong!r}"):
            setter(wrong)
    setter(np.int64(1))


@pytest.mark.skipif(pools.blas_library() is None, reason="NumPy has another BLAS")
def test_threads_of_one_operation():
    threading.set_intra_op_parallelism_threads(1)
    assert threading.get_intra_op_parallelism_threads() == pools.blas_threads() == 1
    threading.set_intra_op_parallelism_threads(0)
    assert threading.get_intra_op_parallelism_threads() == 0
    assert pools.blas_threads() == min(pools.core_count(), pools.most_blas_threads())


@pytest.mark.skipif(pools.blas_library() is None, reason="NumPy has another BLAS")
def test_kernels_have_as_many_threads_as_blas():
    code = """
import trainkit as tk
tk.config.threading.set_intra_op_parallelism_threads(3)
import numba
assert numba.get_num_threads() == 3
tk.config.threading.set_intra_op_parallelism_threads(2)
assert numba.get_num_threads() == 2
try:
    tk.config.threading.set_intra_op_parallelism_threads(4)
except tk.errors.FailedPreconditionError as error:
    print(error)
assert numba.get_num_threads() == tk.config.threading.get_intra_op_parallelism_threads() == 2
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "loaded with 3 threads for compiled kernels and can't have 4" in done.stdout


def test_calls_of_a_pipeline(monkeypatch):
    made = []
    pool = mapping.ThreadPoolExecutor
    monkeypatch.setattr(
        mapping, "ThreadPoolExecutor", lambda n, **more: made.append(n) or pool(n, **more)
    )
    threading.set_inter_op_parallelism_threads(3)
    assert threading.get_inter_op_parallelism_threads() == 3
    source = tk.data.Dataset.range(4).map(
        lambda x: x + np.random.default_rng(0).integers(1), num_parallel_calls=tk.data.AUTOTUNE
    )
    assert [int(x) for x in source] == [0, 1, 2, 3]
    assert made == [3]
