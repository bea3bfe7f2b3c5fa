"""When OpenBLAS is told which kernels to use."""

import os
import pathlib
import subprocess
import sys
from types import SimpleNamespace

import pytest

from trainkit.core.cpu import blas_config, openblas

ALL = {"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd", "sse"}


@pytest.fixture
def before_numpy(monkeypatch):
    """As if NumPy had not been imported, and nothing been set."""
    # not the modules of `sys` itself, which whoever imports meanwhile needs
    monkeypatch.setattr(blas_config, "sys", SimpleNamespace(modules={}))
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_THREAD_TIMEOUT", "TRAINKIT_BLAS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(blas_config, "_processor_flags", lambda: ALL)
    return monkeypatch


def test_avx512_is_asked_for(before_numpy):
    before_numpy.setenv("OPENBLAS_CORETYPE", "")  # so that it is taken back after the test
    before_numpy.delenv("OPENBLAS_CORETYPE")
    before_numpy.setenv("OPENBLAS_THREAD_TIMEOUT", "9")
    assert blas_config.choose_kernels() == "OPENBLAS_CORETYPE=SkylakeX was set for AVX-512"
    assert os.environ["OPENBLAS_CORETYPE"] == "SkylakeX"
    assert os.environ["OPENBLAS_THREAD_TIMEOUT"] == "9"


def test_a_choice_of_the_user_stays(before_numpy):
    before_numpy.setenv("OPENBLAS_THREAD_TIMEOUT", "9")
    before_numpy.setenv("TRAINKIT_BLAS", "default")
    assert blas_config.choose_kernels() == "TRAINKIT_BLAS=default leaves the choice to OpenBLAS"
    before_numpy.setenv("OPENBLAS_CORETYPE", "Haswell")
    assert blas_config.choose_kernels() == "OPENBLAS_CORETYPE=Haswell was set"


def test_other_processors_are_left_alone(before_numpy):
    before_numpy.setenv("OPENBLAS_THREAD_TIMEOUT", "9")
    before_numpy.setattr(blas_config, "_processor_flags", lambda: ALL - {"avx512vl"})
    assert "no AVX-512" in blas_config.choose_kernels()
    assert "OPENBLAS_CORETYPE" not in os.environ


@pytest.fixture
def after_numpy(before_numpy):
    """As if NumPy were loaded with an OpenBLAS that can be told, and nothing been set."""
    told = []
    before_numpy.setattr(blas_config.sys, "modules", {"numpy": object()})
    before_numpy.setattr(blas_config, "SET", {})
    for name in blas_config.THREAD_VARIABLES:
        before_numpy.delenv(name, raising=False)
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_THREAD_TIMEOUT", "OPENBLAS_NUM_THREADS"):
        before_numpy.setenv(name, "")  # so that it is taken back after the test
        before_numpy.delenv(name)
    before_numpy.setattr(blas_config.openblas, "blas_library", object)
    before_numpy.setattr(blas_config.openblas, "others_wait", lambda: True)
    before_numpy.setattr(
        blas_config.openblas, "read_again", lambda: told.append("read again") or True
    )
    before_numpy.setattr(blas_config.openblas, "set_blas_threads", told.append)
    before_numpy.told = told
    return before_numpy


def test_a_loaded_openblas_is_told_too(after_numpy):
    assert blas_config.choose_kernels() == "OPENBLAS_CORETYPE=SkylakeX was set for AVX-512"
    assert after_numpy.told == ["read again"]
    assert os.environ["OPENBLAS_THREAD_TIMEOUT"] == blas_config._TIMEOUT


def test_a_loaded_openblas_gets_as_many_threads_as_there_is_time_for(after_numpy):
    after_numpy.setattr(blas_config, "bound_cores", lambda: 8)
    after_numpy.setattr(blas_config, "usable_cores", lambda: 3)
    blas_config.choose_kernels()
    assert after_numpy.told == ["read again", 3]


def test_a_loaded_openblas_stays_as_the_user_has_set_it(after_numpy):
    after_numpy.setenv("OPENBLAS_CORETYPE", "Haswell")
    after_numpy.setenv("OPENBLAS_THREAD_TIMEOUT", "9")
    assert blas_config.choose_kernels() == "OPENBLAS_CORETYPE=Haswell was set"
    assert after_numpy.told == []


def test_a_loaded_openblas_at_work_is_left_alone(after_numpy):
    after_numpy.setattr(blas_config.openblas, "others_wait", lambda: False)
    assert "other threads were at work" in blas_config.choose_kernels()
    assert (after_numpy.told, blas_config.SET) == ([], {})


def test_a_loaded_openblas_is_left_alone_by_request(after_numpy):
    after_numpy.setenv("TRAINKIT_BLAS", "default")
    assert "TRAINKIT_BLAS=default leaves it as it is" in blas_config.choose_kernels()
    assert (after_numpy.told, blas_config.SET) == ([], {})


def test_a_loaded_openblas_that_reads_nothing_again_gets_its_threads_all_the_same(after_numpy):
    after_numpy.setattr(blas_config.openblas, "read_again", lambda: False)
    after_numpy.setattr(blas_config, "bound_cores", lambda: 8)
    after_numpy.setattr(blas_config, "usable_cores", lambda: 3)
    blas_config.choose_kernels()
    assert after_numpy.told == [3]


def test_a_loaded_openblas_that_can_not_be_told(after_numpy):
    after_numpy.setattr(blas_config.openblas, "read_again", lambda: False)
    assert "an OpenBLAS that can't be told" in blas_config.choose_kernels()
    assert blas_config.SET == {}
    assert "OPENBLAS_CORETYPE" not in os.environ
    after_numpy.setattr(blas_config.openblas, "blas_library", lambda: None)
    assert "with another BLAS" in blas_config.choose_kernels()


def test_the_choice_is_made_before_numpy_is_imported():
    code = "import trainkit.core.cpu.blas_config as b; print(b.CHOICE)"
    folder = str(pathlib.Path(blas_config.__file__).parents[3])
    environment = {**os.environ, "PYTHONPATH": folder}
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert "imported before" not in found.stdout


def test_the_order_of_imports_does_not_matter():
    code = """
{0}
import trainkit
from trainkit.core.cpu import blas_config, openblas
a = trainkit.ops.ones((300, 300))
assert float((a @ a)[0, 0]) == 300.0
print(blas_config.CHOICE, blas_config.SET, openblas.blas_text("corename"), openblas.blas_threads())
"""
    folder = str(pathlib.Path(blas_config.__file__).parents[3])
    unset = ("OPENBLAS_CORETYPE", "OPENBLAS_THREAD_TIMEOUT")
    environment = {k: v for k, v in os.environ.items() if k not in unset} | {"PYTHONPATH": folder}
    product = "import numpy as np; a = np.ones((300, 300)); a @ a"  # its threads have been at work
    said = [
        subprocess.run(
            [sys.executable, "-c", code.format(first)],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        ).stdout
        for first in ("", product)
    ]
    if not openblas.can_read_again():  # only what is set before NumPy is imported counts there
        assert said[1].startswith("NumPy was imported before trainkit")
        said = [text[text.index("}") :] for text in said]
    assert said[0] == said[1]


def test_a_limit_of_time_sizes_the_pool(before_numpy):
    for name in ("OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE"):
        before_numpy.setenv(name, "")  # so that it is taken back after the test
        before_numpy.delenv(name)
    for name in ("GOTO_NUM_THREADS", "OMP_NUM_THREADS"):
        before_numpy.delenv(name, raising=False)
    before_numpy.setenv("OPENBLAS_THREAD_TIMEOUT", "9")
    before_numpy.setattr(blas_config, "SET", {})
    before_numpy.setattr(blas_config, "bound_cores", lambda: 8)
    before_numpy.setattr(blas_config, "usable_cores", lambda: 3)
    blas_config.choose_kernels()
    assert os.environ["OPENBLAS_NUM_THREADS"] == "3"
    assert blas_config.SET == {"OPENBLAS_NUM_THREADS": "3", "OPENBLAS_CORETYPE": "SkylakeX"}
    before_numpy.setenv("OMP_NUM_THREADS", "5")
    before_numpy.delenv("OPENBLAS_NUM_THREADS")
    blas_config.choose_kernels()
    assert "OPENBLAS_NUM_THREADS" not in os.environ
