"""`python -m trainkit runs`."""

import json

import trainkit as tk
from tests.runs.test_journal import fitted
from trainkit.cli.main import main


def test_rewind_shows_a_step_and_keeps_the_model(tmp_path, capsys):
    model = fitted(tmp_path / "a")
    folder, target = str(tmp_path / "a"), str(tmp_path / "m.keras")
    assert main(["runs", "rewind", folder, "--to", "7", "--json", "--output", target]) == 0
    data = json.loads(capsys.readouterr().out)
    run = tk.runs.open(folder)
    assert data["verified"]
    assert data["digests"]["weights"] == run.steps[5].weights
    assert set(data["gradients"]) == {v.path for v in model.trainable_variables}
    assert tk.models.load_model(target).count_params() > 0
    assert main(["runs", "rewind", folder, "--to", "7"]) == 0
    assert "its bits are those of the journal" in capsys.readouterr().out


def test_what_can_not_be_answered_is_said(tmp_path, capsys):
    assert main(["runs", "rewind", str(tmp_path), "--to", "7"]) == 1
    assert "holds no run" in capsys.readouterr().err
    fitted(tmp_path / "a")
    assert main(["runs", "rewind", str(tmp_path / "a"), "--to", "70"]) == 1
    assert "has steps 1 to 12" in capsys.readouterr().err


_SCRIPT = """
from tests.runs.test_journal import train
train({folder!r})
"""


def test_a_script_that_has_changed_is_run_only_if_asked(tmp_path, capsys):
    from tests.runs.test_journal import train

    folder, script = str(tmp_path / "a"), tmp_path / "train.py"
    train(folder)
    script.write_text(_SCRIPT.format(folder=folder))
    words = ["runs", "rewind", folder, "--to", "5", "--script", str(script)]
    assert main(words) == 1
    assert "has changed since" in capsys.readouterr().err
    assert main([*words, "--changed"]) == 0
    assert "its bits are those" in capsys.readouterr().out
