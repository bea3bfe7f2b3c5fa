"""What installing from source does where something can't be compiled."""

import pathlib
import runpy
import sys
import types

import pytest

setuptools = pytest.importorskip("setuptools")
build_ext = pytest.importorskip("setuptools.command.build_ext")

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def commands(monkeypatch):
    """The commands of `setup.py`, none of which is run."""
    given = {}
    cython = types.ModuleType("Cython.Build")
    cython.cythonize = lambda extensions: extensions
    monkeypatch.setitem(sys.modules, "Cython", types.ModuleType("Cython"))
    monkeypatch.setitem(sys.modules, "Cython.Build", cython)
    monkeypatch.setattr(setuptools, "setup", given.update)
    runpy.run_path(str(ROOT / "setup.py"))
    return given


def made(commands, name):
    return commands["cmdclass"][name](setuptools.Distribution(commands))


@pytest.mark.parametrize("error", [FileNotFoundError(2, "No such file", "gcc"), OSError("a\nb")])
def test_without_a_compiler_one_line_says_what_that_costs(error, commands, monkeypatch, capsys):
    def fails(self, ext):
        raise error

    monkeypatch.setattr(build_ext.build_ext, "build_extension", fails)
    (native,) = commands["ext_modules"]
    made(commands, "build_ext").build_extension(native)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("trainkit: trainkit.core.dispatch._native can't be compiled (")
    assert str(error).partition("\n")[0] in line
    assert line.endswith("eager steps of small models take up to twice as long")


def test_kernels_that_can_not_be_built_do_not_stop_an_installation(
    commands, monkeypatch, capsys, tmp_path
):
    build = made(commands, "build_kernels")
    build.build_lib = str(tmp_path)
    monkeypatch.setitem(build.run.__globals__, "LEVELS", "x86-64-v9")
    build.run()
    assert "no kernels come compiled; with the extra numba" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
