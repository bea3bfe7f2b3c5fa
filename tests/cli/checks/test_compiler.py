import os
import pickle
import sys

import pytest

from trainkit.cli.checks import compiler

GOOD = {"numba": "0.68.1", "disabled": False, "layer": "omp", "compiles": True}
TAG = f"py{sys.version_info.major}{sys.version_info.minor}"


@pytest.fixture
def numba(monkeypatch, tmp_path):
    """Says what the probe finds; caches are in a folder of the test."""
    monkeypatch.setattr(compiler, "cache_folders", lambda: [tmp_path])
    monkeypatch.setattr(compiler.kernel_family, "mode", lambda: "hot")

    def check(facts):
        monkeypatch.setattr(compiler, "probed", lambda code: facts)
        return list(compiler.check())

    return check


def test_all_is_well(numba, tmp_path):
    found = numba(GOOD)
    assert [f.level for f in found] == ["ok", "ok"]
    assert found[0].text == "Numba 0.68.1, with threads of omp"
    assert found[1].text == f"0.0 MB of compiled code in {tmp_path}"


def test_an_eager_path_that_is_compiled(monkeypatch):
    monkeypatch.setattr(compiler.native, "FAILURE", None)
    (found,) = compiler.check_native()
    assert (found.level, found.text) == ("ok", "the eager path is compiled")


def test_an_eager_path_that_is_not_compiled(monkeypatch):
    monkeypatch.delenv("TRAINKIT_NATIVE", raising=False)
    monkeypatch.setattr(
        compiler.native, "FAILURE", "No module named 'trainkit.core.dispatch._native'"
    )
    (found,) = compiler.check_native()
    assert found.level == "warning"
    assert found.text.endswith("take longer: No module named 'trainkit.core.dispatch._native'")
    assert found.mend.startswith("pip install --force-reinstall --no-deps .")
    monkeypatch.setenv("TRAINKIT_NATIVE", "0")
    (found,) = compiler.check_native()
    assert found.mend == "unset TRAINKIT_NATIVE"


@pytest.mark.parametrize("stale", [0, 1, 2])
def test_a_library_of_other_versions_is_told(monkeypatch, stale):
    kernels = [("matmul.dot_compiled", "build", (n,)) for n in range(3)]
    names = [f"k{n}" for n in range(3)]
    monkeypatch.setattr(compiler, "usual_kernels", lambda: iter(kernels))
    monkeypatch.setattr(compiler, "function_name", lambda *kernel: f"k{kernel[2][0]}")
    monkeypatch.setattr(compiler.kernel_library, "kernel_library", lambda: object())
    addresses = dict.fromkeys(names[stale:], 1)
    monkeypatch.setattr(compiler.kernel_library, "address_of", addresses.get)
    (found,) = compiler.check_library()
    assert found.facts == {"kernels": 3, "absent": stale}
    assert found.level == ("warning" if stale else "ok")
    if stale:
        assert found.text.startswith(f"{stale} of 3 kernels are not in ")
        assert found.mend == "python -m trainkit kernels"


def test_without_a_library_there_is_nothing_to_compare(monkeypatch):
    monkeypatch.setattr(compiler.kernel_library, "kernel_library", lambda: None)
    assert not list(compiler.check_library())


@pytest.mark.parametrize(
    ("came_along", "level", "mend"),
    [(True, "ok", ""), (False, "warning", "pip install 'numba>=0.61'")],
)
def test_numba_that_is_missing(numba, monkeypatch, came_along, level, mend):
    """It is an extra where kernels came compiled."""
    monkeypatch.setattr(compiler.kernel_library, "came_along", lambda: came_along)
    found, cache = numba({"failure": "ModuleNotFoundError: No module named 'numba'"})
    assert (found.level, found.mend) == (level, mend)
    assert found.text.startswith("kernels came compiled for" if came_along else "no kernels came")
    assert cache.text.startswith("0.0 MB")


@pytest.mark.parametrize("came_along", [True, False])
def test_llvmlite_that_is_missing(numba, monkeypatch, came_along):
    """Kernels of the library need none; fused chains do, and then their plain form serves."""
    monkeypatch.setattr(compiler.kernel_library, "came_along", lambda: came_along)
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    _, found, _ = numba({"failure": "ModuleNotFoundError: No module named 'numba'"})
    assert (found.level, found.mend) == ("warning", "pip install llvmlite")
    assert found.text.startswith("llvmlite is not there, so fused chains of compiled graphs stay")


def test_numba_that_can_not_be_imported(numba):
    (found,) = numba({"failure": "ImportError: Numba needs NumPy 2.4 or less"})
    assert found.level == "problem"
    assert found.text.endswith("everything is slower: ImportError: Numba needs NumPy 2.4 or less")


def test_numba_that_can_not_compile(numba):
    found = numba({**GOOD, "errors": {"compiles": "OSError: libllvmlite.so"}})
    assert [f.level for f in found] == ["problem", "ok"]
    assert "does not work (compiles): OSError: libllvmlite.so" in found[0].text


def test_compiling_that_is_turned_off(numba, monkeypatch):
    monkeypatch.setattr(compiler.kernel_family, "mode", lambda: "off")
    found = numba({**GOOD, "disabled": True})
    assert [f.mend for f in found if f.level == "warning"] == [
        "unset NUMBA_DISABLE_JIT",
        "unset TRAINKIT_JIT",
    ]


def test_what_other_versions_left_is_stale(numba, tmp_path):
    current = tmp_path / f"g1.loop-4.{TAG}.nbi"
    current.write_bytes(pickle.dumps("0.68.1") + b"rest")
    (tmp_path / f"g1.loop-4.{TAG}.1.nbc").write_bytes(bytes(2_000_000))
    old = tmp_path / f"g2.loop-4.{TAG}.nbi"
    old.write_bytes(pickle.dumps("0.61.0") + b"rest")
    other = tmp_path / "g3.loop-4.py27.nbi"
    other.write_bytes(pickle.dumps("0.68.1"))
    torn = tmp_path / f"g4.loop-4.{TAG}.nbi"
    torn.write_bytes(b"no pickle")
    found = numba(GOOD)[1]
    assert [compiler.is_stale(p, "0.68.1") for p in (current, old, other, torn)] == [
        False,
        True,
        True,
        True,
    ]
    assert found.level == "note"
    assert found.text.startswith("2.0 MB of compiled code")
    assert found.facts["stale"] == 3
    assert found.mend == f"rm -r '{tmp_path}'"


def test_an_index_is_read_without_being_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    index = tmp_path / f"g.loop-1.{TAG}.nbi"
    index.write_bytes(pickle.dumps([Trap()]))
    assert compiler.is_stale(index, "0.68.1")
    assert not (tmp_path / "sprung").exists()


def test_a_folder_that_can_not_be_written_to(numba, monkeypatch, tmp_path):
    monkeypatch.setattr(compiler, "why_not_writable", lambda folder: "Read-only file system")
    found = numba(GOOD)
    assert found[1].level == "warning"
    assert "(Read-only file system), each process compiles its own" in found[1].text
    assert found[1].mend == "export NUMBA_CACHE_DIR=FOLDER"


def test_why_a_folder_can_not_be_written_to(tmp_path):
    assert compiler.why_not_writable(tmp_path / "not" / "yet") == ""
    (tmp_path / "file").touch()
    assert compiler.why_not_writable(tmp_path / "file") == "Not a directory"


def test_the_folders_of_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    monkeypatch.setenv("TRAINKIT_CACHE", str(tmp_path / "own"))
    monkeypatch.setattr(compiler.sys, "platform", "linux")
    assert compiler.cache_folders() == [tmp_path / "own" / "machine"]
    monkeypatch.setattr(compiler.sys, "platform", "darwin")
    assert compiler.cache_folders() == [tmp_path / "own" / "machine", tmp_path / "numba"]
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    assert compiler.cache_folders()[1].name == "kernels"
