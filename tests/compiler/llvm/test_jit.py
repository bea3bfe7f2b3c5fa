"""Compiled code on disk, and what happens where it can't be used."""

import concurrent.futures
import gc

import numpy as np
import pytest

import trainkit as tk
from trainkit.compiler.llvm import jit
from trainkit.kernels.jit import code_store, numpy_inner_loops

TEXT = """
declare ptr @PyBool_FromLong(i64)
define ptr @run(ptr %self, ptr %args, i64 %count) {
  %r = call ptr @PyBool_FromLong(i64 NUMBER)
  ret ptr %r
}
"""


@pytest.fixture
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINKIT_CACHE", str(tmp_path))


def text(number):
    return TEXT.replace("NUMBER", str(number))


def symbols():
    return {"PyBool_FromLong": numpy_inner_loops.python_function("PyBool_FromLong")}


@pytest.mark.usefixtures("_own_cache")
def test_code_is_kept_and_read_back(tmp_path, monkeypatch):
    assert jit.Machine().function(text(1), symbols())() is True
    (file,) = (tmp_path / "machine").iterdir()
    monkeypatch.setattr(jit.Machine, "_compiled", lambda *given: pytest.fail("compiled again"))
    assert jit.Machine().function(text(1), symbols())() is True
    assert file.exists()


@pytest.mark.usefixtures("_own_cache")
def test_equal_text_is_one_function():
    here = jit.Machine()
    assert here.function(text(0), symbols()) is here.function(text(0), symbols())
    assert here.function(text(0), symbols())() is False


@pytest.mark.usefixtures("_own_cache")
def test_two_threads_compile_a_text_once(two_arrivals, monkeypatch):
    machine, compiled, compile_text = jit.Machine(), [], jit.Machine._compiled

    def compile_late(self, text, name):
        assert two_arrivals.wait(60)
        compiled.append(name)
        return compile_text(self, text, name)

    monkeypatch.setattr(jit.Machine, "_compiled", compile_late)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        functions = list(pool.map(lambda _: machine.function(text(1), symbols()), range(2)))
    assert len(compiled) == 1
    assert functions[0] is functions[1]
    assert functions[0]() is True


@pytest.mark.usefixtures("_own_cache")
@pytest.mark.parametrize("change", [lambda c: c[: len(c) // 2], lambda c: c.replace(b"Py", b"Qy")])
def test_what_would_end_the_process_is_compiled_anew(tmp_path, change):
    """Half of an object, or one that needs what there is not, sealed as if it were whole."""
    jit.Machine().function(text(1), symbols())
    (file,) = (tmp_path / "machine").iterdir()
    whole = file.read_bytes()
    code_store.write_code(file.stem, change(code_store.read_code(file.stem)))
    assert jit.Machine().function(text(1), symbols())() is True
    assert file.read_bytes() == whole


@pytest.mark.usefixtures("_own_cache")
@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda b: b"", lambda b: b[:50] + b"x" * 60])
def test_a_damaged_file_is_compiled_anew(tmp_path, damage):
    jit.Machine().function(text(1), symbols())
    (file,) = (tmp_path / "machine").iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert jit.Machine().function(text(1), symbols())() is True
    assert file.read_bytes() == whole


def test_a_folder_that_can_not_be_written_costs_time_alone(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRAINKIT_CACHE", str(tmp_path / "file"))
    assert jit.Machine().function(text(1), symbols())() is True


def test_an_interpreter_of_another_layout_runs_without():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_inner_loops, "available", lambda: False)
        jit.machine.cache_clear()
        f = tk.function(lambda x: x * 2.0 + 1.0, jit_compile=True)
        with pytest.warns(RuntimeWarning, match="layout that is not known"):
            y = f(tk.constant([1.0, 2.0]))
    assert y.numpy().tolist() == [3.0, 5.0]


@pytest.mark.usefixtures("_own_cache")
def test_a_function_outlives_the_machine_that_made_it():
    here = jit.Machine()
    f = here.function(text(1), symbols())
    del here
    gc.collect()
    assert f() is True


def test_the_layout_is_looked_at():
    assert numpy_inner_loops.available()


def test_numpys_loops_are_found_by_dtype():
    single = (np.dtype("float32"),) * 3
    assert numpy_inner_loops.has_loop(np.add, single)
    assert not numpy_inner_loops.has_loop(
        np.add, (np.dtype("float32"), np.dtype("int8"), single[0])
    )
    assert numpy_inner_loops.loop_of(np.add, single) != numpy_inner_loops.loop_of(
        np.multiply, single
    )
