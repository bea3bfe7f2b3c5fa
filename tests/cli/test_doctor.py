import json
import os
import subprocess
import sys

import pytest

from trainkit.cli import doctor
from trainkit.cli.checks.finding import Finding
from trainkit.cli.main import main


@pytest.fixture
def checks(monkeypatch):
    """Two checks in place of all: one that is well, one that is not."""

    def ill():
        yield Finding("problem", "no pulse", "press here", {"pulse": 0})
        yield Finding("warning", "pale")

    monkeypatch.setattr(
        doctor, "CHECKS", {"lungs": lambda: [Finding("ok", "both there")], "heart": ill}
    )
    return monkeypatch


def test_the_report_has_a_line_each_and_the_way_out(checks, capsys):
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out == (
        "ok       lungs  both there\n"
        "problem  heart  no pulse\n"
        "                  press here\n"
        "warning  heart  pale\n"
        "1 problem, 1 warning\n"
    )


def test_json_has_the_facts(checks, capsys):
    assert main(["doctor", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["counts"] == {"ok": 1, "note": 0, "warning": 1, "problem": 1}
    assert data["findings"][1] == {
        "level": "problem",
        "text": "no pulse",
        "mend": "press here",
        "facts": {"pulse": 0},
        "area": "heart",
    }


def test_warnings_alone_are_no_failure(checks, capsys):
    checks.setattr(doctor, "CHECKS", {"skin": lambda: [Finding("warning", "pale")]})
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.endswith("no problems, 1 warning\n")


def test_a_check_that_fails_is_a_problem(checks, capsys):
    checks.setattr(doctor, "CHECKS", {"eyes": lambda: 1 // 0, **doctor.CHECKS})
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "problem  eyes   can't be looked at: ZeroDivisionError" in out
    assert "ok       lungs  both there" in out


def test_nothing_is_imported_into_this_process():
    code = """
import json, sys
from trainkit.cli import doctor
found = doctor.examined()
print(json.dumps({"levels": [f.level for f in found], "modules": list(sys.modules)}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    data = json.loads(done.stdout)
    assert not {"numba", "cupy", "h5py", "tensorboardX"} & set(data["modules"])
    assert set(data["levels"]) <= {"ok", "note", "warning", "problem"}


def test_broken_libraries_are_problems_and_no_crash(tmp_path):
    """Each library in turn: cannot be imported, ends the process, is not what it should be."""
    (tmp_path / "h5py.py").write_text("raise ImportError('libhdf5.so: cannot open')")
    (tmp_path / "numba.py").write_text("import os; os.abort()")
    (tmp_path / "tensorboardX.py").write_text("")
    (tmp_path / "cupy.py").write_text("raise RuntimeError('driver')")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-m", "trainkit", "doctor", "--json"],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 1, done.stderr
    findings = json.loads(done.stdout)["findings"]
    problems = {f["area"]: f for f in findings if f["level"] == "problem"}
    assert "libhdf5.so: cannot open" in problems["hdf5"]["text"]
    assert "pip install" in problems["hdf5"]["mend"]
    assert "ends the process with SIGABRT" in problems["numba"]["text"]
    assert "tensorboardX can't be used" in problems["tensorboard"]["text"]
