"""When OpenBLAS is told which kernels to use."""

import os
import subprocess
import sys

import pytest

from trainkit.core import blas

ALL = {"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd", "sse"}


@pytest.fixture
def before_numpy(monkeypatch):
    """As if NumPy had not been imported, and nothing been set."""
    monkeypatch.setattr(blas.sys, "modules", {})
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_THREAD_TIMEOUT", "TRAINKIT_BLAS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(blas, "_processor_flags", lambda: ALL)
    return monkeypatch


def test_avx512_is_asked_for(before_numpy):
    before_numpy.setenv("OPENBLAS_CORETYPE", "")  # so that it is taken back after the test
    before_numpy.delenv("OPENBLAS_CORETYPE")
    before_numpy.setenv("OPENBLAS_THREAD_TIMEOUT", "9")
    assert blas.choose_kernels() == "OPENBLAS_CORETYPE=SkylakeX was set for AVX-512"
    assert os.environ["OPENBLAS_CORETYPE"] == "SkylakeX"
    assert os.environ["OPENBLAS_THREAD_TIMEOUT"] == "9"


def test_a_choice_of_the_user_stays(before_numpy):
    before_numpy.setenv("OPENBLAS_THREAD_TIMEOUT", "9")
    before_numpy.setenv("TRAINKIT_BLAS", "default")
    assert blas.choose_kernels() == "TRAINKIT_BLAS=default leaves the choice to OpenBLAS"
    before_numpy.setenv("OPENBLAS_CORETYPE", "Haswell")
    assert blas.choose_kernels() == "OPENBLAS_CORETYPE=Haswell was set"


def test_other_processors_are_left_alone(before_numpy):
    before_numpy.setenv("OPENBLAS_THREAD_TIMEOUT", "9")
    before_numpy.setattr(blas, "_processor_flags", lambda: ALL - {"avx512vl"})
    assert "no AVX-512" in blas.choose_kernels()
    assert "OPENBLAS_CORETYPE" not in os.environ


def test_after_numpy_it_is_too_late():
    assert "NumPy was imported before trainkit" in blas.choose_kernels()


def test_the_choice_is_made_before_numpy_is_imported():
    code = "import trainkit.core.blas as b; print(b.CHOICE)"
    folder = os.path.dirname(os.path.dirname(os.path.dirname(blas.__file__)))
    environment = {**os.environ, "PYTHONPATH": folder}
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert "imported before" not in found.stdout


def test_a_limit_of_time_sizes_the_pool(before_numpy):
    for name in ("OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE"):
        before_numpy.setenv(name, "")  # so that it is taken back after the test
        before_numpy.delenv(name)
    for name in ("GOTO_NUM_THREADS", "OMP_NUM_THREADS"):
        before_numpy.delenv(name, raising=False)
    before_numpy.setenv("OPENBLAS_THREAD_TIMEOUT", "9")
    before_numpy.setattr(blas, "SET", {})
    before_numpy.setattr(blas, "bound_cores", lambda: 8)
    before_numpy.setattr(blas, "usable_cores", lambda: 3)
    blas.choose_kernels()
    assert os.environ["OPENBLAS_NUM_THREADS"] == "3"
    assert blas.SET == {"OPENBLAS_NUM_THREADS": "3", "OPENBLAS_CORETYPE": "SkylakeX"}
    before_numpy.setenv("OMP_NUM_THREADS", "5")
    before_numpy.delenv("OPENBLAS_NUM_THREADS")
    blas.choose_kernels()
    assert "OPENBLAS_NUM_THREADS" not in os.environ
