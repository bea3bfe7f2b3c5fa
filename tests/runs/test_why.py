"""`why` names what went wrong, and is silent about runs that are well.

`python -m tests.runs.planted_troubles` asks all 60 planted troubles and 20 clean runs.
"""

import json
import types

import numpy as np
import pytest

import trainkit as tk
from tests.runs import planted_troubles as planted
from tests.runs.test_journal import train
from tests.runs.test_views import EVIL, falling, written
from trainkit.cli.main import main
from trainkit.journal.journal_writer import JournalWriter
from trainkit.journal.lines import Step
from trainkit.runs import settings_diff
from trainkit.runs.diagnosis.evidence import Evidence
from trainkit.runs.diagnosis.step_checks import check_jumps

DEEP = [(planted.vanishing, 0), (planted.drifted, 2), (planted.not_finite, 0)]
FROM_DATA = [
    (planted.duplicates, 0),
    (planted.sorted_rows, 1),
    (planted.shifted_labels, 0),
    (planted.unscaled, 0),
    (planted.unbalanced, 0),
]


@pytest.mark.filterwarnings("ignore:fit:UserWarning")  # of the first batch, which says so as well
@pytest.mark.parametrize(("make", "number"), DEEP, ids=lambda x: getattr(x, "__name__", str(x)))
def test_planted_troubles_are_named(tmp_path, monkeypatch, make, number):
    monkeypatch.setattr(planted, "EPOCHS", 3)
    is_named, diagnosis = planted.named(make, number, tmp_path / "a")
    assert is_named, str(diagnosis)


@pytest.mark.filterwarnings("ignore:fit:UserWarning")
@pytest.mark.parametrize(
    ("make", "number"), FROM_DATA, ids=lambda x: getattr(x, "__name__", str(x))
)
def test_stored_data_tells_without_a_step_done_again(tmp_path, monkeypatch, make, number):
    monkeypatch.setattr(planted, "EPOCHS", 2)
    kind, text = make(number, tmp_path / "a")
    diagnosis = tk.runs.open(tmp_path / "a").why(seconds=0)
    assert [f.kind for f in diagnosis.findings if text in f.sentence] == [kind], str(diagnosis)
    assert "seconds=0" in str(diagnosis)


def test_a_run_that_is_well_raises_no_alarm_and_is_left_as_it_was(tmp_path):
    planted.clean_normalized(11, tmp_path / "a")
    before = {path: path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file()}
    tk.random.set_seed(5)
    diagnosis = tk.runs.open(tmp_path / "a").why()
    assert not diagnosis.findings, str(diagnosis)
    assert "nothing unusual" in str(diagnosis)
    one = tk.random.normal((3,)).numpy()
    tk.random.set_seed(5)
    np.testing.assert_array_equal(tk.random.normal((3,)).numpy(), one)
    after = {path: path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file()}
    assert before == after


def test_rows_are_named_by_their_number_in_the_data(tmp_path):
    model, x, y = planted.network_of(1)
    y[[217, 300]] += 500
    planted.fit(model, x, y, tmp_path / "a", epochs=2, shuffle=True)
    run = tk.runs.open(tmp_path / "a")
    jumps = check_jumps(Evidence(run, 60.0))
    jump = next(f for f in jumps if f.kind == "loss jump")
    assert "row 217 made 100%" in jump.sentence or "row 300 made 100%" in jump.sentence
    assert f"rewind {tmp_path / 'a'} --to {jump.step}" in jump.command


def test_steps_that_are_executed_together_can_be_done_again(tmp_path):
    model, x, y = planted.network_of(1)
    model.compile("sgd", "mse", steps_per_execution=4)
    planted.fit(model, x, y, tmp_path / "a", epochs=3)
    run = tk.runs.open(tmp_path / "a")
    assert len(run.steps) < run.last_step
    diagnosis = run.why()
    assert (diagnosis.findings, diagnosis.unknown) == ([], [])


# ------------------------------------------------------------------ from the journal alone


def kinds(run):
    return [finding.kind for finding in run.why().findings]


def test_a_journal_alone_tells_what_it_can(tmp_path):
    growing = written(tmp_path / "high", [1.0 * 1.3**i for i in range(40)])
    assert kinds(growing) == ["high rate"]
    nan = written(tmp_path / "nan", [*falling(30), float("nan")])
    assert kinds(nan) == ["nan"]
    assert nan.why().findings[0].step == 31
    spiked = falling(200)
    spiked[150] = 90.0
    jump = written(tmp_path / "jump", spiked)
    assert kinds(jump) == ["loss jump"]
    assert "step 151, from about 0.1" in str(jump.why())
    assert "no step can be done again" in str(jump.why())
    assert kinds(written(tmp_path / "well", falling(200))) == []
    assert kinds(written(tmp_path / "empty", [])) == []


def test_a_validation_that_fell_is_named(tmp_path):
    epochs = [
        (10 * (i + 1), i, {"loss": 1 / (i + 1), "val_loss": v})
        for i, v in enumerate([1.0, 0.5, 0.4, 0.6, 0.8, 0.9])
    ]
    run = written(tmp_path, falling(60), epochs=epochs)
    assert kinds(run) == ["validation"]
    text = str(run.why())
    assert "val_loss was best in epoch 3 with 0.4 and is 0.85 in epoch 6" in text
    assert "went on falling" in text


def test_waiting_for_data_is_named_but_not_a_single_pause(tmp_path):
    for name, slow in (("slow", range(10, 20)), ("pause", [12])):
        writer = JournalWriter(tmp_path / name)
        writer.header({"id": "0"})
        for n in range(30):
            waited = (0.05 if name == "slow" else 5.0) if n in slow else 0.0
            writer.step(Step(n + 1, n // 10, 1 / (n + 1), {}, waited + 0.01, waited, *[None] * 6))
        writer.record("end", n=30, how="finished")
        writer.close()
    slow = tk.runs.open(tmp_path / "slow")
    assert kinds(slow) == ["waiting"]
    assert "epoch 2 waited 0.5 of its 0.6 s (83%)" in str(slow.why())
    assert kinds(tk.runs.open(tmp_path / "pause")) == []


def test_what_can_not_be_looked_at_is_said(tmp_path):
    train(tmp_path / "a")
    folder = tmp_path / "a"
    assert "in the program" in str(tk.runs.open(folder).why())
    with_program = tk.runs.open(folder, program=lambda: train(folder)).why()
    assert "the step of a loop of one's own" in str(with_program)
    with pytest.raises(ValueError, match="0 or more"):
        tk.runs.open(folder).why(seconds=-1)
    model, x, y = planted.network_of(0)
    planted.fit(model, x, y, tmp_path / "b", epochs=2)
    assert "takes about" in str(tk.runs.open(tmp_path / "b").why(seconds=1e-4))


def test_the_command(tmp_path, capsys):
    folder = str(written(tmp_path / "a", [*falling(30), float("inf")], names=(EVIL,)).folder)
    assert main(["runs", "why", folder]) == 1
    out = capsys.readouterr().out
    assert "the loss is inf from step 31 on" in out
    assert f"look closer: python -m trainkit runs rewind {folder} --to 31" in out
    assert main(["runs", "why", folder, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["kind"] == "nan"
    folder = str(written(tmp_path / "b", falling(60)).folder)
    assert main(["runs", "why", folder]) == 0
    header = {"fit": 3, "compile": [], "model": "x", "data": {"structure": [1], "arrays": 4}}
    folder = str(written(tmp_path / "c", falling(60), header=header).folder)
    assert main(["runs", "why", folder]) == 0


@pytest.mark.parametrize("text", ["[1, 2]", "3", '"model"', "not json"])
def test_a_model_that_is_no_object_is_none(text, tmp_path):
    (tmp_path / "model.json").write_text(text)
    assert settings_diff._stored_model(types.SimpleNamespace(folder=tmp_path)) is None
