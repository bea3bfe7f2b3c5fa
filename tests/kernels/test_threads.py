"""The sizes of the pools of threads."""

import os
import sys
import types

import pytest

from trainkit.core import openblas
from trainkit.core.errors import FailedPreconditionError, InvalidArgumentError
from trainkit.kernels import threads


@pytest.fixture
def blas(monkeypatch):
    """What BLAS was told; its own threads stay as they are."""
    told = []
    monkeypatch.setattr(threads, "set_blas_threads", lambda n: told.append(n) or True)
    monkeypatch.setattr(threads, "blas_threads", lambda: 5)
    monkeypatch.setattr(threads, "most_blas_threads", lambda: 64)
    monkeypatch.setattr(threads, "core_count", lambda: 3)
    monkeypatch.setattr(threads._Chosen, "compute", 0)
    monkeypatch.setattr(threads._Chosen, "pipeline", 0)
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
    threads.set_compute_threads(2)
    assert blas == [2]
    assert os.environ["NUMBA_NUM_THREADS"] == "2"
    assert threads.compute_threads() == threads.chosen_compute_threads() == 2
    threads.set_compute_threads(0)
    assert blas == [2, 3]
    assert threads.chosen_compute_threads() == 0


def test_kernels_that_are_loaded_can_only_get_fewer_threads(blas, numba):
    threads.set_compute_threads(2)
    assert (blas, numba.told, numba.config.NUMBA_NUM_THREADS) == ([2], [2], 4)
    with pytest.raises(FailedPreconditionError, match=r"loaded with 4 threads.*can't have 6"):
        threads.set_compute_threads(6)
    with pytest.raises(FailedPreconditionError, match="NUMBA_NUM_THREADS=6 before Python starts"):
        threads.set_compute_threads(6)
    assert blas == [2]
    assert threads.chosen_compute_threads() == 2
    numba.config.NUMBA_NUM_THREADS = 2
    threads.set_compute_threads(0)  # as many as can be
    assert blas == [2, 2]


def test_more_than_openblas_was_built_for(blas):
    with pytest.raises(InvalidArgumentError, match="built for at most 64 threads, got 65"):
        threads.set_compute_threads(65)
    assert blas == []


def test_a_blas_that_can_not_be_told(blas, monkeypatch):
    monkeypatch.setattr(threads, "blas_threads", lambda: 0)
    with pytest.raises(NotImplementedError, match="is not OpenBLAS"):
        threads.set_compute_threads(2)
    assert os.environ["NUMBA_NUM_THREADS"] == "1"


def test_a_new_thread_follows_what_was_set(blas, numba):
    threads.follow()
    assert numba.told == []
    threads.set_compute_threads(2)
    threads.follow()
    assert numba.told == [2, 2]


def test_the_kernels_pool_is_as_large_as_that_of_blas(blas, monkeypatch):
    monkeypatch.delitem(os.environ, "NUMBA_NUM_THREADS")
    monkeypatch.setitem(os.environ, "GOMP_SPINCOUNT", "9")
    threads.calm.__wrapped__()
    assert os.environ["NUMBA_NUM_THREADS"] == "5"
    assert os.environ["GOMP_SPINCOUNT"] == "9"
    os.environ["NUMBA_NUM_THREADS"] = "7"
    threads.calm.__wrapped__()
    assert os.environ["NUMBA_NUM_THREADS"] == "7"


def test_pipelines_have_a_size_of_their_own(blas, monkeypatch):
    assert threads.pipeline_threads() == 3
    monkeypatch.setattr(threads, "core_count", lambda: 100)
    assert threads.pipeline_threads() == 8
    threads.set_pipeline_threads(20)
    assert threads.pipeline_threads() == threads.chosen_pipeline_threads() == 20


@pytest.mark.skipif(threads.blas_library() is None, reason="NumPy has another BLAS")
def test_openblas_speaks_of_itself():
    assert "OpenBLAS" in threads.blas_text("config")
    assert threads.blas_text("corename").isalnum()
    assert threads.most_blas_threads() >= threads.blas_threads() >= 1
    assert threads.blas_text("weather") == ""


def test_another_blas_says_nothing(monkeypatch):
    monkeypatch.setattr(openblas, "blas_library", lambda: None)
    assert threads.blas_text("config") == ""
    assert threads.most_blas_threads() == threads.blas_threads() == 0
    assert not threads.set_blas_threads(2)
