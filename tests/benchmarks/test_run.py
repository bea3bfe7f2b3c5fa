"""The command: what is chosen, who takes part, and the page that it writes."""

import contextlib
import json

import pytest


@pytest.fixture
def runner(bench_modules):
    return bench_modules("run")


@pytest.fixture
def report(runner, monkeypatch, tmp_path):
    """The module that writes the page, into a folder of the test."""
    monkeypatch.setattr(runner.report, "PAGE", tmp_path / "benchmarks.md")
    monkeypatch.setattr(runner.report, "RESULTS", tmp_path / "benchmarks.json")
    monkeypatch.setattr(runner.report, "machine", lambda: "a machine")
    monkeypatch.setattr(runner.report, "versions", lambda where: "PyTorch 1.2.3")
    return runner.report


FILE = """
from timing import Benchmark


def slow():
    raise AssertionError("was not asked for")


def other():
    import time
    return lambda: time.perf_counter() and 2.0


def absent():
    import a_framework_nobody_has


SLOW = {"torch compiled"}
CHANCE = {"two"}
BENCHMARKS = [
    Benchmark(
        name,
        "s",
        1,
        {
            "trainkit": lambda: lambda: 1.0,
            "torch": other,
            "torch compiled": slow,
            "jax jit": absent,
        },
    )
    for name in ("one", "two")
]
"""
QUICK = ["--rounds", "1", "--seconds", "0", "--warm-seconds", "0"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "bench_workloads.py").write_text(FILE)
    (tmp_path / "other.py").write_text("raise AssertionError")
    return tmp_path


def test_who_takes_part(runner, folder, capsys):
    assert runner.main(QUICK, folder) == 0
    out = capsys.readouterr().out
    assert out.count("  trainkit ") == out.count("  torch  ") == 2
    assert "compiled" not in out
    assert "jax" not in out
    assert out.count("torch begins with 2 where trainkit has 1") == 1


def test_parts_are_chosen_by_name(runner, folder, capsys):
    assert runner.main(["two", *QUICK, "--frameworks", "jax"], folder) == 0
    out = capsys.readouterr().out
    assert "two (s, less is better)" in out
    assert "one" not in out
    assert "torch" not in out
    assert runner.main(["--list"], folder) == 0
    assert capsys.readouterr().out == "bench_workloads one\nbench_workloads two\n"


def test_one_that_fails_is_told_and_left_out(runner, folder, capsys):
    assert runner.main(["one", "--all", *QUICK], folder) == 0
    told = capsys.readouterr()
    assert "torch compiled can't take part: AssertionError: was not asked for" in told.err
    assert "torch compiled" not in told.out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["absent"], "no benchmark is named like absent"),
        (["--rounds", "0"], "--rounds is at least 1"),
    ],
)
def test_wrong_arguments(runner, folder, capsys, words, text):
    with pytest.raises(SystemExit):
        runner.main(words, folder)
    assert text in capsys.readouterr().err


def test_the_page_is_written_in_parts(runner, report, folder):
    assert runner.main(["one", *QUICK, "--write-docs"], folder) == 0
    assert runner.main(["two", *QUICK, "--write-docs", "--frameworks", "jax"], folder) == 0
    page = report.PAGE.read_text()
    assert "| one (s) | " in page
    assert "| two (s) | " in page
    assert page.count("Measured, beside PyTorch 1.2.3, on") == 1
    assert "- a machine, 20" in page
    rows = json.loads(report.RESULTS.read_text())["bench_workloads"]
    assert set(rows["one"]["rows"]) == {"trainkit", "torch"}
    assert set(rows["two"]["rows"]) == {"trainkit"}


def test_conditions_have_tables_of_their_own(runner, report, folder, monkeypatch):
    def nothing(*given):
        return contextlib.nullcontext()

    monkeypatch.setattr(runner.conditions, "busy", nothing)
    monkeypatch.setattr(runner.conditions, "quota", nothing)
    for asked in ([], ["--busy"], ["--quota", "0.5"]):
        assert runner.main(["one", *QUICK, "--write-docs", *asked], folder) == 0
    page = report.PAGE.read_text()
    for title in ("", ": beside a busy process on each core", ": with 0.5 of a core's time"):
        assert f"## {'Workloads' if title else 'Whole pieces of work'}{title}\n" in page
    assert page.count("| one (s) | ") == 3


def found(rate, **seconds):
    rows = {
        name.replace("_", " "): {"median": 1 / s if rate else s, "seconds": [s, s]}
        for name, s in seconds.items()
    }
    return {"unit": "s", "rate": rate, "rows": rows}


@pytest.mark.parametrize("rate", [False, True])
def test_a_row_has_the_best_mode_of_each_and_the_best_peer(report, rate):
    one = found(rate, trainkit=4.0, trainkit_function=2.0, torch=8.0, torch_tuned=1.0, numpy=0.5)
    table = report._table({"step": one}).splitlines()
    assert table[0] == "|  | trainkit | PyTorch | NumPy by hand | ratio |"
    values = ("0.5 (function)", "1 (tuned)", "2") if rate else ("2 (function)", "1 (tuned)", "0.5")
    assert table[2] == f"| step (s) | {' | '.join(values)} | 2.00 |"


def test_what_has_no_column_stands_under_others(report):
    table = report._table({"save": found(False, trainkit=2.0, h5py=1.0)}).splitlines()
    assert table[0] == "|  | trainkit | others | ratio |"
    assert table[2] == "| save (s) | 2 | h5py 1 |  |"


@pytest.mark.parametrize(
    ("name", "framework"),
    [("keras-jax fit", "keras"), ("trainkit function", "trainkit"), ("safetensors", "")],
)
def test_columns(report, name, framework):
    assert report.framework_of(name) == framework


def test_losses_are_compared(report):
    assert report.disagreements({"torch": 3.0}) == []
    assert report.disagreements({"trainkit": 2.0, "torch": 2.001, "jax jit": 2.1}) == [
        "jax jit begins with 2.1 where trainkit has 2"
    ]
    assert report.disagreements({"trainkit": float("nan"), "torch": 1.0})


def test_versions_are_those_of_each_frameworks_python(runner, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 1.2.3\n")
    python.chmod(0o755)
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    where = dict.fromkeys(("tensorflow", "jax"), str(broken))
    where |= {"torch": str(python), "keras-jax": str(python)}
    assert runner.report.versions(where) == "Keras 1.2.3, PyTorch 1.2.3"


def test_the_machine_is_named(runner):
    text = runner.report.machine()
    assert "cores" in text
    assert "NumPy" in text


def test_another_case_has_a_line_of_its_own(report):
    rows = {"trainkit": 2.0, "trainkit cold": 3.0, "torch": 6.0}
    result = {
        "rate": False,
        "unit": "s",
        "apart": {"trainkit cold": "with an empty cache"},
        "rows": {name: {"median": t, "seconds": [t]} for name, t in rows.items()},
    }
    table = report._table({"start": result}).splitlines()
    assert table[2:] == [
        "| start (s) | 2 | 6 | 0.33 |",
        "| start, with an empty cache (s) | 3 | 6 | 0.50 |",
    ]


def test_a_case_that_was_not_measured_has_no_line(report):
    result = {
        "rate": False,
        "unit": "s",
        "apart": {"trainkit cold": "with an empty cache"},
        "rows": {"trainkit": {"median": 2.0, "seconds": [2.0]}},
    }
    assert len(report._table({"start": result}).splitlines()) == 3


def test_a_case_without_peers_is_measured_by_the_usual_one(report):
    rows = {"trainkit": [2.0, 4.0, 1.0], "trainkit cold": [3.0, 6.0, 1.0]}
    result = {
        "rate": False,
        "unit": "s",
        "apart": {"trainkit cold": "with an empty cache"},
        "rows": {name: {"median": t[0], "seconds": t} for name, t in rows.items()},
    }
    table = report._table({"start": result}).splitlines()
    assert table[2:] == ["| start (s) | 2 |  |", "| start, with an empty cache (s) | 3 | 1.50 |"]


def test_a_file_of_benchmarks_may_have_a_text_above_its_table(report):
    result = {"unit": "s", "rate": False, "date": "2020-01-02", "machine": "a machine"}
    one = {"start": {**result, "rows": {"trainkit": {"median": 2.0, "seconds": [2.0]}}}}
    report.RESULTS.write_text(json.dumps({"bench_conditions": one, "bench_start": one}))
    report.write_page("")
    page = report.PAGE.read_text()
    assert "## Conditions\n\nCPU seconds" in page
    assert "## Start\n\n|" in page
