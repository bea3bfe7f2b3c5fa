"""The command line itself."""

import os
import subprocess
import sys

import pytest

import trainkit as tk
from trainkit.cli.main import main


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
