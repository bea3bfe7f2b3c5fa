"""The command line itself."""

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
