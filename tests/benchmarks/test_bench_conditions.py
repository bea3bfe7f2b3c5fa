"""Conditions of the first steps: what a process finds in each, and how its time is counted."""

import json
import os
import shutil
import subprocess
import sys

import pytest

FINDS = """
import importlib.util, json, os, pathlib, resource, shutil, tempfile

def possible(work, *arguments):
    try:
        work(*arguments)
    except (OSError, ImportError):
        return False
    return True

def write():
    pathlib.Path(os.environ["OWN"], "file").write_text("something")

print(json.dumps({
    "numba": importlib.util.find_spec("numba") is not None,
    "llvmlite": importlib.util.find_spec("llvmlite") is not None,
    "HOME": "HOME" in os.environ and possible(os.makedirs, os.environ["HOME"], 0o777, True),
    "temporary": possible(tempfile.gettempdir),
    "writes": possible(write),
    "compiler": any(map(shutil.which, ("cc", "gcc", "clang"))),
    "cache": os.environ.get("TRAINKIT_CACHE", "usual"),
    "memory": resource.getrlimit(resource.RLIMIT_DATA)[0],
    **{name: os.environ.get(f"TRAINKIT_{name}", "") for name in ("JIT", "NATIVE", "KERNELS")},
}))
"""
MISSING = {
    "with an empty cache": {"cache"},
    "2 processes that fill one empty cache": {"cache"},
    "8 processes that fill one empty cache": {"cache"},
    "without Numba, with an empty cache": {"cache", "numba"},
    "without Numba and llvmlite": {"cache", "numba", "llvmlite"},
    "no C compiler, with an empty cache": {"cache", "compiler"},
    "`HOME` unset": {"HOME"},
    "home read-only": {"HOME"},
    "home and temporary folders read-only": {"HOME", "temporary"},
    "no room for files, with an empty cache": {"cache", "temporary", "writes"},
    "400 MiB of memory": {"memory"},
    "`TRAINKIT_JIT=0`": {"JIT", "cache"},
    "`TRAINKIT_NATIVE=0`": {"NATIVE"},
    "`TRAINKIT_KERNELS=0`, with an empty cache": {"KERNELS", "cache"},
    "`TRAINKIT_KERNELS=0`, without Numba": {"KERNELS", "cache", "numba"},
}


@pytest.fixture
def bench(bench_modules):
    return bench_modules("bench_conditions")


@pytest.fixture
def found(bench, tmp_path, monkeypatch):
    """`found(condition)`: what a process finds in it."""
    for name in ("TRAINKIT_CACHE", "TRAINKIT_JIT", "TRAINKIT_KERNELS", "TRAINKIT_NATIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OWN", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))

    def in_condition(condition):
        folder = tmp_path / "run"
        folder.mkdir(exist_ok=True)
        environment = bench._environment(condition, folder)
        command = [sys.executable, "-c", FINDS]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        facts = json.loads(done.stdout)
        if facts["cache"] != "usual":
            assert os.listdir(facts["cache"]) == []
        return facts

    return in_condition


@pytest.mark.parametrize("words", MISSING)
def test_a_condition_lacks_what_it_says(bench, found, words, tmp_path):
    usual = found(bench.Condition())
    shutil.rmtree(tmp_path / "run")  # with the bytecode of what ran, where that is written
    facts = found({**bench.MISSING, **bench.SLOW_TO_RUN}[words])
    assert {name for name, value in facts.items() if value != usual[name]} == MISSING[words]


def test_every_condition_is_measured_and_has_words(bench):
    words = {**bench.MISSING, **bench.SLOW_TO_RUN}
    assert set(words) == set(MISSING)
    for benchmark in bench.BENCHMARKS:
        assert set(benchmark.apart) == set(benchmark.contestants) - {"trainkit"}
        assert next(iter(benchmark.contestants)) == "trainkit"
    assert {w for one in bench.BENCHMARKS for w in one.apart.values()} == set(words)


PROGRAM = """
import os, pathlib, sys, time
while time.process_time() < 0.2:
    pass
told = pathlib.Path(os.environ["TOLD"])
with told.open("a") as file:
    file.write(f"{os.environ.get('TRAINKIT_CACHE', 'usual')}\\n")
"""


@pytest.fixture
def told(bench, monkeypatch, tmp_path):
    """What runs of a short program write down."""
    program, told = tmp_path / "program.py", tmp_path / "told"
    program.write_text(PROGRAM)
    monkeypatch.setattr(sys.modules["bench_start"], "PROGRAM", program)
    monkeypatch.setenv("TOLD", str(told))
    monkeypatch.delenv("TRAINKIT_CACHE", raising=False)
    return told


def test_processes_at_a_time_share_a_cache_and_count_alone(bench, told):
    start = bench.Start(bench.Condition(bench.EMPTY, processes=3))
    assert not told.exists()
    assert 0.2 <= start.measured() < 0.6
    folders = told.read_text().splitlines()
    assert len(folders) == 3
    assert len(set(folders)) == 1
    assert not os.path.exists(folders[0])


@pytest.mark.parametrize("words", ["with an empty cache", "2 processes that fill one empty cache"])
def test_each_contestant_runs_the_program_in_its_condition(bench, told, words):
    assert bench.BENCHMARKS[0].contestants[f"trainkit {words}"]().measured() > 0
    assert len(told.read_text().splitlines()) == bench.MISSING[words].processes


def test_a_program_that_fails_is_told(bench, told):
    """It can't write down anything here."""
    with pytest.raises(RuntimeError, match="File too large"):
        bench.BENCHMARKS[0].contestants["trainkit no room for files, with an empty cache"]()()


def test_code_that_is_kept_is_there_when_it_is_measured(bench, told):
    bench.Start(bench.Condition())
    assert told.read_text() == "usual\n"
