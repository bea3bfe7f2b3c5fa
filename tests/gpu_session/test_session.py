"""The commands for a GPU machine come to their end on the stand-in, and say what they find."""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests import stand_in
from tests.gpu_session import (
    endurance,
    longest_kernels,
    recording,
    session,
    speed,
    starts,
    suite,
    summary,
    wheels,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def options():
    return argparse.Namespace(on="stand-in", small=True, only=None)


def test_all_that_a_step_needs_starts(options, capsys):
    with stand_in.in_place():
        assert session.run("starts", starts.checks(), options) == 0
    text = capsys.readouterr().out
    assert text.count("replays of 1 CUDA graph") == 3
    assert text.splitlines()[-1] == f"{len(starts.checks())} checks, 0 to look at"


@pytest.mark.parametrize("name", ["held variables, threads, streams", "the same run twice"])
def test_what_many_steps_show(name, options):
    with stand_in.in_place():
        good, text = endurance.CHECKS[name](options)
    assert good, text


@pytest.mark.slow
def test_all_of_many_steps(options):
    with stand_in.in_place():
        assert session.run("endurance", endurance.CHECKS, options) == 0


def test_memory_that_grows_is_noticed():
    assert endurance._grown(0, endurance.GROWN)[0]
    assert endurance._grown(0, endurance.GROWN + 1) == (False, "+8.4 MB")
    assert endurance._grown(None, 3)[0]


@pytest.mark.parametrize("name", ["mlp, mixed_bfloat16", "operations of an eager step", "by ncu"])
def test_the_longest_kernels(name, options, capsys):
    with stand_in.in_place():
        good, text = longest_kernels.checks()[name](options)
    assert good, text


def test_a_check_that_fails_is_told_and_the_others_go_on(options, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OUT", str(tmp_path))
    checks = {
        "breaks": lambda o: 1 / 0,
        "is off": lambda o: (False, "3"),
        "is well": lambda o: "fine",
    }
    assert session.run("tried", checks, options) == 2
    lines = capsys.readouterr().out.splitlines()
    assert [line[:4] for line in lines] == ["LOOK", "LOOK", "ok  ", "3 ch"]
    rows = json.loads((tmp_path / "tried.json").read_text())
    assert [row["good"] for row in rows] == [False, False, True]
    assert rows[0]["text"] == "ZeroDivisionError: division by zero"


def test_only_some_checks(options):
    options.only = "well"
    assert session.run("tried", {"breaks": lambda o: 1 / 0, "is well": lambda o: ""}, options) == 0


def test_what_is_known_is_there_before_a_command_ends(options, tmp_path, monkeypatch):
    monkeypatch.setenv("OUT", str(tmp_path))
    seen = []

    def looks(options):
        seen.append((tmp_path / summary.NAME).read_text())
        seen.append(json.loads((tmp_path / "tried.json").read_text())[0]["check"])
        return "fine"

    session.run("tried", {"is off": lambda o: (False, "3"), "looks": looks}, options)
    assert "0 ok, 1 to look at, of 2 checks" in seen[0]
    assert "LOOK is off" in seen[0]
    assert seen[1] == "is off"
    lines = (tmp_path / summary.NAME).read_text().splitlines()
    assert len(lines) == 1
    assert "1 ok, 1 to look at, of 2 checks" in lines[0]


def test_each_name_has_one_line_of_the_summary(tmp_path, monkeypatch):
    monkeypatch.setenv("OUT", str(tmp_path))
    for name, text in (("a", 1), ("a b", 2), ("a", "3\nmore")):
        summary.set_line(name, text)
    lines = (tmp_path / summary.NAME).read_text().splitlines()
    assert [" ".join(line.split()) for line in lines] == ["a: 3 more", "a b: 2"]


# ---------------------------------------------------------------------- speed

FULL_SIZES = {"n": 4096, "weights": 100_000_000}


@pytest.mark.parametrize(
    ("case", "found", "wanted"),
    [
        ("mlp", {"mlp trainkit": 1e-4, "mlp torch": 2e-4},
         "0.100 ms; 1.50 of the goal 0.15 ms; 0.50 of torch's time"),
        ("resnet50", {"resnet50 trainkit": 0.12}, "120.000 ms; 0.50 of the goal 60 ms MISSED"),
        ("matmul", {"matmul trainkit": 0.5}, "500.000 ms; 1.22 of the goal 45 TFLOP/s"),
        ("adam", {"adam trainkit": 1e-3, "adam copy": 2e-4},
         "1.000 ms; 0.87 of the goal 0.8 of a copy MISSED; the copy 1.33 of the goal 3 TB/s"),
        ("layer_norm",
         {"layer_norm trainkit": 2e-3, "layer_norm own": 2e-3, "layer_norm cudnn": 1e-3},
         "2.000 ms; 1.00 of own's time; 2.00 of cudnn's time"),
        ("lstm", {"lstm torch": 1.0}, None),
    ],
)  # fmt: skip
def test_times_stand_beside_what_is_wanted(case, found, wanted):
    kept = {name: {"seconds": seconds} for name, seconds in found.items()}
    assert speed.ratios("float32", case, kept, FULL_SIZES) == wanted


def test_a_failure_and_small_sizes_are_beside_nothing():
    failed = {"mlp trainkit": {"failure": "no end"}}
    assert speed.ratios("float32", "mlp", failed, FULL_SIZES) == "FAILED: no end"
    assert speed.ratios("float32", "mlp", {"mlp trainkit": {"seconds": 1}}, {"n": 32}) == (
        "1000.000 ms"
    )


def speed_lines(out, *cases):
    """The summary of `speed` on the stand-in, in words for each policy and case."""
    command = [sys.executable, "-m", "tests.gpu_session.speed", "--small", "--on=stand-in"]
    env = {**os.environ, "OUT": str(out), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*command, *cases], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not measured" not in done.stdout
    lines = (out / summary.NAME).read_text().splitlines()
    return {tuple(line.split(":")[0].split()[1:]): line.split(":")[1].strip() for line in lines}


def wanted_lines(cases):
    once = {"adam", "update"}  # whatever the policy
    return {(p, c) for p in speed.SHARES for c in cases if p == "float32" or c not in once}


def test_speed_ends_on_the_stand_in_with_all_its_lines(tmp_path):
    found = speed_lines(tmp_path, "matmul", "adam", "layer_norm")
    assert set(found) == wanted_lines(["matmul", "adam", "layer_norm"])
    assert all(text.endswith("ms") for text in found.values())


@pytest.mark.slow
def test_all_of_speed_ends_on_the_stand_in(tmp_path):
    found = speed_lines(tmp_path)
    assert set(found) == wanted_lines(speed.ORDER)


# ---------------------------------------------------------------------- the suite


TRIED = """
import pytest

def test_passes(): pass
def test_fails(): assert 1 == 2, "so it is"
@pytest.mark.skip
def test_skipped(): pass
def test_stops(): raise KeyboardInterrupt
"""


def test_failures_and_counts_outlive_a_run_that_is_cut_off(tmp_path, monkeypatch):
    (tmp_path / "test_tried.py").write_text(TRIED)
    env = {**os.environ, "OUT": str(tmp_path), "TRAINKIT_SESSION_PART": "tried"}
    env["PYTHONPATH"] = str(ROOT)
    words = ["-p", "tests.gpu_session.recording", "-p", "no:cacheprovider", "-c", "/dev/null"]
    command = [sys.executable, "-m", "pytest", *words, "test_tried.py"]
    subprocess.run(command, cwd=tmp_path, env=env, capture_output=True)
    line = (tmp_path / summary.NAME).read_text()
    assert "1 passed, 1 failed, 1 skipped in" in line
    assert line.strip().endswith("when it was cut off")
    text = (tmp_path / "tried-failures.txt").read_text()
    assert text.startswith("==== test_tried.py::test_fails")
    assert "so it is" in text


GOES_ON = """
import os, pytest

@pytest.mark.parametrize("i", range(6))
def test_one(i):
    with open("ran.txt", "a") as file:
        file.write(f"{i} ")
    if i == 1:
        assert False, "so it is"
    if i == 2:
        pytest.skip("not now")
    if i == 3 and os.environ["STOPS"]:
        raise KeyboardInterrupt
"""


@pytest.mark.parametrize("more", [[], ["-n", "2"]], ids=["alone", "processes"])
def test_a_run_that_was_cut_off_goes_on_behind_the_tests_that_ended(tmp_path, more):
    if more and importlib.util.find_spec("xdist") is None:
        pytest.skip("pytest-xdist is not here")
    (tmp_path / "test_tried.py").write_text(GOES_ON)
    env = {**os.environ, "OUT": str(tmp_path), "TRAINKIT_SESSION_PART": "tried"}
    env["PYTHONPATH"] = str(ROOT)
    words = ["-p", "tests.gpu_session.recording", "-p", "no:cacheprovider", "-c", "/dev/null"]

    def run(stops, *given):
        command = [sys.executable, "-m", "pytest", *words, *given, "test_tried.py"]
        stopped = {**env, "STOPS": stops}
        subprocess.run(command, cwd=tmp_path, env=stopped, capture_output=True)
        ran = (tmp_path / "ran.txt").read_text().split()
        (tmp_path / "ran.txt").write_text("")
        return sorted(ran), (tmp_path / summary.NAME).read_text().strip()

    ran, line = run("yes")
    assert ran == list("0123")
    assert "1 passed, 1 failed, 1 skipped in" in line
    assert line.endswith("when it was cut off")
    ran, line = run("", *more)
    assert ran == list("345")
    assert "4 passed, 1 failed, 1 skipped in" in line
    assert line.endswith("to its end")
    outcomes = (tmp_path / "tried-outcomes.txt").read_text().splitlines()
    assert sorted(outcome.split("\t")[0] for outcome in outcomes) == [
        "failed", *["passed"] * 4, "skipped",
    ]  # fmt: skip
    ran, line = run("")  # anew
    assert ran == list("012345")
    assert "4 passed, 1 failed, 1 skipped in" in line


def test_counts_are_written_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setenv("OUT", str(tmp_path))
    now = iter([0.0, *[1.0] * 4, 2.0, *[4.0] * 5])
    recorder = recording.Recorder("tried", clock=lambda: next(now))
    found = []
    for name in "abc":
        for when in ("call", "teardown"):
            report = pytest.TestReport(name, (name, 1, name), {}, "passed", None, when)
            recorder.pytest_runtest_logreport(report)
        found.append((tmp_path / summary.NAME).read_text().split(":")[1].strip())
    texts = ("nothing yet in 1 s", "2 passed in 4 s", "2 passed in 4 s")
    assert found == [f"{text}, so far" for text in texts]


def test_the_suite_takes_the_plugins_that_are_there():
    given = suite.words("whole", cores=16, has=lambda name: True, out="here")
    assert given[given.index("-n") + 1] == "14"
    assert given[given.index("--timeout") + 1] == "60"
    assert "--junitxml=here/whole.xml" in given
    assert given[given.index("-m") + 1] == "not gpu and not slow and not null_driver"
    bare = suite.words("needs-gpu", has=lambda name: False)
    assert not {"-n", "--timeout", "--gpu-stand-in"} & set(bare)
    assert "--gpu-stand-in" in suite.words("whole", on="stand-in", has=lambda name: False)


@pytest.mark.parametrize("part", suite.PARTS)
@pytest.mark.parametrize("small", [False, True])
def test_over_the_null_driver_its_own_tests_stand_for_each_part(part, small):
    given = suite.words(part, on="null-driver", has=lambda name: True, small=small)
    assert given[given.index("-m") + 1] == "null_driver"
    assert "-n" not in given
    paths = [word for word in given if word.startswith("tests/")]
    assert paths
    assert all(path.startswith("tests/null_driver") for path in paths)
    assert all((ROOT / path).exists() for path in paths)


def test_a_test_whose_gpu_code_is_not_compiled_fails(tmp_path):
    warned = [(f"{start} x", "RuntimeWarning") for start in suite.NOT_COMPILED]
    warned.append(("of a library", "DeprecationWarning"))
    tests = [
        f'def test_{i}():\n    warnings.warn("{text}", {kind})\n'
        for i, (text, kind) in enumerate(warned)
    ]
    (tmp_path / "test_warns.py").write_text("import warnings\n" + "".join(tests))
    given = suite.words("whole", has=lambda name: False)
    given = [word for word in given if not word.startswith("tests/")]
    command = [sys.executable, "-m", "pytest", "--rootdir", str(tmp_path), *given, "test_warns.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert f"{len(suite.NOT_COMPILED)} failed, 1 passed" in done.stdout, done.stdout + done.stderr


def test_the_small_part_for_a_gpu_has_tests_of_its_mark():
    mark = suite.PARTS["needs-gpu"][0]
    paths = [f"tests/{name}" for name in suite.SMALL["needs-gpu"].split()]
    wanted = [sys.executable, "-m", "pytest", "-q", "--co", "-p", "no:cacheprovider", "-m", mark]
    found = subprocess.run([*wanted, *paths], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout  # 5 where none is selected


@pytest.mark.parametrize("part", suite.PARTS)
def test_the_suite_names_places_that_are_there(part):
    paths = [w for w in suite.words(part, has=lambda name: False) if w.startswith("tests/")]
    assert all((ROOT / path).exists() for path in paths)
    assert suite.words(part, has=lambda name: False, more=["tests/ops"])[-1] == "tests/ops"


def test_a_folder_of_the_suite_runs_on_the_stand_in():
    command = [sys.executable, "-m", "tests.gpu_session.suite", "whole", "--on", "stand-in"]
    done = subprocess.run(
        [*command, "tests/test_initializers.py", "-k", "zeros"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "GPU STAND-IN" in done.stdout or "passed" in done.stdout


# ---------------------------------------------------------------------- wheels


def test_what_the_package_needs_is_taken_along_or_there():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [re.split(r"[\[<>=]", line)[0] for line in project["dependencies"]]
    names += ["nvidia-cudnn-frontend", "array-api-strict"]
    missing = [n for n in names if n not in wheels.TAKEN and n not in wheels.THERE.split()]
    assert not missing, "give it a place in tests/gpu_session/wheels.py"


def test_a_wheel_comes_alone_and_for_the_machine():
    calls = wheels.commands("here", "3.13")
    assert calls[0][-1] == "nvidia-cudnn-frontend==1.28.0"
    assert all({"--no-deps", "3.13", "here", wheels.PLATFORM} <= set(call) for call in calls)


@pytest.mark.skipif(sys.platform != "linux", reason="a script of bash")
def test_a_command_that_is_none(tmp_path):
    done = subprocess.run(
        ["bash", "tests/gpu_session/run.sh", "fly"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "OUT": str(tmp_path), "SCRATCH": str(tmp_path / "s"),
             "PYTHON": sys.executable},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "there is no command fly\n")
