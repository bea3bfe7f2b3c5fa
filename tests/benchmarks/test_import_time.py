"""The import benchmark measures fresh interpreters and tells failures apart."""

import importlib.util
import pathlib

import pytest

PATH = pathlib.Path(__file__).parents[2] / "benchmarks" / "import_time.py"


@pytest.fixture
def import_time():
    spec = importlib.util.spec_from_file_location("import_time", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_time_is_that_of_the_import(import_time):
    assert 0 < import_time.seconds_to_import("import json") < 60


def test_a_failed_import_is_an_error(import_time):
    with pytest.raises(ImportError, match="a_module_nobody_has"):
        import_time.seconds_to_import("import a_module_nobody_has")


def test_each_import_is_sampled_in_each_round(import_time, monkeypatch):
    asked = []
    monkeypatch.setattr(import_time, "seconds_to_import", lambda code: asked.append(code) or 1.0)
    samples = import_time.measure({"a": "import a", "b": "import b"}, rounds=3)
    assert samples == {"a": [1.0] * 3, "b": [1.0] * 3}
    assert asked[2:] == ["import a", "import b", "import b", "import a", "import a", "import b"]


def test_the_report_names_both_sides(import_time, monkeypatch, capsys):
    monkeypatch.setattr(import_time, "PEERS", {})
    monkeypatch.setattr(
        import_time, "seconds_to_import", lambda code: 0.3 if "trainkit" in code else 0.2
    )
    import_time.main(rounds=3)
    out = capsys.readouterr().out
    assert "trainkit takes 1.50 x the time of numpy\n" in out
    assert "trainkit takes 1.50 x the time of numpy + h5py" in out


def test_bytecode_is_stored_as_usual(import_time, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    with pytest.raises(ImportError, match="stored is as usual"):
        import_time.seconds_to_import(
            "import sys\nif not sys.dont_write_bytecode: raise ImportError('stored is as usual')"
        )
