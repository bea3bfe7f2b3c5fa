"""The sizes of the pools of threads."""

import os
import sys
import types

import pytest

from trainkit.core.cpu import openblas
from trainkit.core.errors import FailedPreconditionError, InvalidArgumentError
from trainkit.kernels.threads import pools


@pytest.fixture
def blas(monkeypatch):
    """What BLAS was told; its own threads stay as they are."""
    told = []
    monkeypatch.setattr(pools, "set_blas_threads", lambda n: told.append(n) or True)
    monkeypatch.setattr(pools, "blas_threads", lambda: 5)
    monkeypatch.setattr(pools, "most_blas_threads", lambda: 64)
    monkeypatch.setattr(pools, "core_count", lambda: 3)
    monkeypatch.setattr(pools._Chosen, "compute", 0)
    monkeypatch.setattr(pools._Chosen, "pipeline", 0)
    monkeypatch.setitem(os.environ, "NUMBA_NUM_THREADS", "1")
    return told


@pytest.fixture
def numba(monkeypatch):
    """Stands in for Numba with four threads; `told` is what it is to use of them."""
    made = types.SimpleNamespace(config=types.SimpleNamespace(NUMBA_NUM_THREADS=4), told=[])
    made.set_num_threads = made.told.append
    monkeypatch.setattr(sys, "modules", {**sys.modules, "numba": made})
    return made


@pytest.fixture
def no_numba(monkeypatch):
    monkeypatch.setattr(sys, "modules", {k: v for k, v in sys.modules.items() if k != "numba"})


@pytest.mark.usefixtures("no_numba")
def test_both_pools_get_one_size(blas):
    pools.set_compute_threads(2)
    assert blas == [2]
    assert os.environ["NUMBA_NUM_THREADS"] == "2"
    assert pools.compute_threads() == pools.chosen_compute_threads() == 2
    pools.set_compute_threads(0)
    assert blas == [2, 3]
    assert pools.chosen_compute_threads() == 0


def test_kernels_that_are_loaded_can_only_get_fewer_threads(blas, numba):
    pools.set_compute_threads(2)
    assert (blas, numba.told, numba.config.NUMBA_NUM_THREADS) == ([2], [2], 4)
    with pytest.raises(FailedPreconditionError, match=r"loaded with 4 threads.*can't have 6"):
        pools.set_compute_threads(6)
    with pytest.raises(FailedPreconditionError, match="NUMBA_NUM_THREADS=6 before Python starts"):
        pools.set_compute_threads(6)
    assert blas == [2]
    assert pools.chosen_compute_threads() == 2
    numba.config.NUMBA_NUM_THREADS = 2
    pools.set_compute_threads(0)  # as many as can be
    assert blas == [2, 2]


def test_more_than_openblas_was_built_for(blas):
    with pytest.raises(InvalidArgumentError, match="built for at most 64 threads, got 65"):
        pools.set_compute_threads(65)
    assert blas == []


def test_a_blas_that_can_not_be_told(blas, monkeypatch):
    monkeypatch.setattr(pools, "blas_threads", lambda: 0)
    with pytest.raises(NotImplementedError, match="is not OpenBLAS"):
        pools.set_compute_threads(2)
    assert os.environ["NUMBA_NUM_THREADS"] == "1"


def test_a_new_thread_follows_what_was_set(blas, numba):
    pools.follow()
    assert numba.told == []
    pools.set_compute_threads(2)
    pools.follow()
    assert numba.told == [2, 2]


def test_the_kernels_pool_is_as_large_as_that_of_blas(blas, monkeypatch):
    monkeypatch.delitem(os.environ, "NUMBA_NUM_THREADS")
    monkeypatch.setitem(os.environ, "GOMP_SPINCOUNT", "9")
    pools.configure_threads.__wrapped__()
    assert os.environ["NUMBA_NUM_THREADS"] == "5"
    assert os.environ["GOMP_SPINCOUNT"] == "9"
    os.environ["NUMBA_NUM_THREADS"] = "7"
    pools.configure_threads.__wrapped__()
    assert os.environ["NUMBA_NUM_THREADS"] == "7"


def test_pipelines_have_a_size_of_their_own(blas, monkeypatch):
    assert pools.pipeline_threads() == 3
    monkeypatch.setattr(pools, "core_count", lambda: 100)
    assert pools.pipeline_threads() == 8
    pools.set_pipeline_threads(20)
    assert pools.pipeline_threads() == pools.chosen_pipeline_threads() == 20


@pytest.mark.skipif(pools.blas_library() is None, reason="NumPy has another BLAS")
def test_openblas_speaks_of_itself():
    assert "OpenBLAS" in pools.blas_text("config")
    assert pools.blas_text("corename").isalnum()
    assert pools.most_blas_threads() >= pools.blas_threads() >= 1
    assert pools.blas_text("weather") == ""


def test_another_blas_says_nothing(monkeypatch):
    monkeypatch.setattr(openblas, "blas_library", lambda: None)
    assert pools.blas_text("config") == ""
    assert pools.most_blas_threads() == pools.blas_threads() == 0
    assert not pools.set_blas_threads(2)
