"""The command line itself."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import trainkit as tk
from trainkit.cli.main import COMMANDS, main

ROOT = pathlib.Path(__file__).parents[2]


def files_about(command, folder, pattern):
    """Files below a folder that say `trainkit COMMAND`, or name the command in quotes."""
    words = re.compile(rf"trainkit {command}\b|trainkit\.cli\.{command}\b|\"{command}\"")
    return [path for path in (ROOT / folder).glob(pattern) if words.search(path.read_text("utf-8"))]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_is_documented_and_tested(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"usage: trainkit {command}" in capsys.readouterr().out
    assert files_about(command, "docs", "*.md"), (
        f"say in a page of docs/ what `python -m trainkit {command}` is for"
    )
    assert files_about(command, "tests/cli", "test_[!m]*.py"), (
        f"add tests/cli/test_{command}.py, which runs `trainkit {command}`"
    )


def test_a_command_without_a_page_or_a_test_is_seen():
    assert files_about("no_such_command", "docs", "*.md") == []
    assert files_about("no_such_command", "tests/cli", "*.py") == [pathlib.Path(__file__)]


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"trainkit {tk.__version__}\n"


def test_an_unknown_command_is_refused_with_those_that_there_are(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["trian"])
    assert ended.value.code == 2
    assert "doctor" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="a pipe is closed otherwise there")
def test_a_reader_that_has_enough_is_no_error(tmp_path):
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    command = [sys.executable, "-m", "trainkit", "runs", "ls", str(tmp_path)]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, cwd=root, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")
