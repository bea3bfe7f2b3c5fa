"""The README keeps its word: its commands exist, and its example runs and learns."""

import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def example():
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    return code


def test_the_example_is_short():
    assert len(example().splitlines()) == 15


@pytest.mark.slow
def test_the_example_learns(capsys):
    exec(compile(example(), "README.md", "exec"), {})
    share, count = re.search(r"right on ([\d.]+)% of (\d+)", capsys.readouterr().out).groups()
    assert float(share) > 90
    assert int(count) == 359


def test_each_make_target_named_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"make ([a-z-]+)(?=`|  | ARGS)", README))
    assert named >= {"train", "test", "check", "bench", "test-gpu"}
    assert named <= targets


def test_each_extra_named_exists():
    project = (ROOT / "pyproject.toml").read_text()
    table = README[README.index("| extra |") : README.index("## Data sets")]
    for extra in re.findall(r"`([a-z0-9]+)`", table.replace("`tk.", "")):
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE), extra


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_training_compiles_and_installs_no_tools_unless_they_are_there(tmp_path):
    command = ["make", "--dry-run", f"VENV={tmp_path}", "train"]
    commands = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "-r " in commands
    assert "examples/mnist.py" in commands
    assert "-e " not in commands
    for name in (".ready-train", ".ready"):  # the stamp of all development tools
        (tmp_path / name).touch()
    commands = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "pip install" not in commands
    assert "examples/mnist.py" in commands
