"""Every example in a docstring runs and gives what it shows."""

import doctest
import importlib
import importlib.util
import linecache
import pathlib
import re

import numpy as np
import pytest

import trainkit as tk

PACKAGE = pathlib.Path(tk.__file__).parent
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL

# Examples that need a package which is not installed with the others for tests.
NEEDED = {
    "trainkit.interop.jax_functions": "jax",
    "trainkit.interop.torch_functions": "torch",
    "trainkit.layers.foreign.flax_layer": "flax",
    "trainkit.layers.foreign.jax_layer": "jax",
    "trainkit.layers.foreign.torch_module_wrapper": "torch",
}


def with_examples():
    files = sorted(PACKAGE.rglob("*.py"))
    return [path for path in files if ">>> " in path.read_text(encoding="utf-8")]


def module_name(path):
    parts = ["trainkit", *path.relative_to(PACKAGE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.fixture(autouse=True)
def _files_stay(monkeypatch):
    """No file of source changes: doctest asks for the dates of hundreds at each of its examples."""
    monkeypatch.setattr(linecache, "checkcache", lambda filename=None: None)


def failures(module):
    """Report of each example that gives something else than it shows, and how many ran."""
    reports = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    for test in doctest.DocTestFinder().find(module, extraglobs={"tk": tk, "np": np}):
        runner.run(test, out=reports.append)
    return reports, runner.summarize(verbose=False).attempted


@pytest.mark.parametrize("path", with_examples(), ids=module_name)
def test_examples_give_what_they_show(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # for the files that some write
    if module_name(path) in NEEDED:
        pytest.importorskip(NEEDED[module_name(path)])
    reports, attempted = failures(importlib.import_module(module_name(path)))
    assert not reports, "\n".join(reports)
    declares = re.search(r"^@primitive|= ufunc\(|^def ufunc", path.read_text(), re.MULTILINE)
    assert attempted or declares, f"the examples of {path} belong to nothing that doctest finds"


def operations_with_examples():
    """Operations are made by functions, so doctest doesn't find them in a module."""
    found = {}
    for door in (tk.ops, tk.math, tk.nn):
        for name in dir(door):
            value = getattr(door, name)
            if hasattr(value, "primitive") and ">>> " in (value.__doc__ or ""):
                found[value.primitive.name] = value
    return found


OPERATIONS = operations_with_examples()


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_examples_of_an_operation_give_what_they_show(name):
    text = OPERATIONS[name].__doc__
    test = doctest.DocTestParser().get_doctest(text, {"tk": tk, "np": np}, name, None, 0)
    reports = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    runner.run(test, out=reports.append)
    assert not reports, "\n".join(reports)
    assert runner.summarize(verbose=False).attempted


def test_there_are_operations_with_examples():
    assert len(OPERATIONS) > 80


def test_a_wrong_example_is_caught(tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text('"""An example.\n\n>>> 1 + 1\n3\n"""\n')
    spec = importlib.util.spec_from_file_location("wrong", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (report,), attempted = failures(module)
    assert "Expected:\n    3" in report
    assert attempted == 1
