"""Proofs of runs: honest runs pass, forged ones are caught, and files of strangers are refused."""

import dataclasses
import json
import math

import numpy as np
import pytest

import trainkit as tk
from tests.attacks import forged_runs
from tests.runs.test_journal import Stop, fitted, new_model, train
from trainkit.cli.main import main


def proven(folder, **settings):
    model = fitted(folder, **{"save_every": 2, **settings})
    return model, tk.runs.prove(tk.runs.open(folder))


@pytest.mark.parametrize("save_every", [3, "epoch"])
def test_an_honest_run_passes_in_all_segments(tmp_path, save_every):
    model, proof = proven(tmp_path / "a", save_every=save_every)
    proof.save(tmp_path / "proof")
    assert (tmp_path / "proof").stat().st_size < 4096
    assert tk.runs.RunProof.load(tmp_path / "proof").as_dict() == {**proof.as_dict(), "folder": "a"}
    found = tk.runs.verify(tmp_path / "proof", sample=99, model=model)
    assert found.passed, str(found)
    assert found.segments == proof.segments
    assert proof.beginning == "seed"
    assert not found.notes
    assert found.caught(1) == 1


def test_runs_that_were_resumed_pass(tmp_path):
    with pytest.raises(RuntimeError):
        fitted(tmp_path / "a", callbacks=[Stop(7, "failed")], save_every=3)
    fitted(tmp_path / "a", callbacks=[Stop(0, "failed")], save_every=3)
    found = tk.runs.verify(tk.runs.prove(tk.runs.open(tmp_path / "a")), sample=99)
    assert found.passed, str(found)


def test_runs_with_callbacks_and_other_learning_rates_pass(tmp_path):
    halve = tk.callbacks.LearningRateScheduler(lambda epoch: 0.02 / 2**epoch)
    _, proof = proven(tmp_path / "a", callbacks=[halve])
    found = tk.runs.verify(proof, sample=99)
    assert found.passed, str(found)


def test_a_loop_of_ones_own_is_verified_by_its_program(tmp_path):
    folder = tmp_path / "a"
    train(folder)
    run = tk.runs.open(folder, program=lambda: train(folder))
    proof = tk.runs.prove(run)
    assert proof.beginning == "program"
    found = tk.runs.verify(proof, run, sample=99)
    assert found.passed, str(found)
    with pytest.raises(RuntimeError, match="in the program"):
        tk.runs.verify(proof)


def test_which_segments_is_not_for_the_prover_to_know(tmp_path):
    _, proof = proven(tmp_path / "a")
    seeds = [tk.runs.verify(proof, sample=1) for _ in range(2)]
    assert seeds[0].seed != seeds[1].seed
    again = tk.runs.verify(proof, sample=1, seed=seeds[0].seed)
    assert again.segments == seeds[0].segments
    counts = len(proof.segments)
    assert seeds[0].caught(2) == pytest.approx(1 - math.comb(counts - 2, 1) / counts)


@pytest.mark.parametrize("forgery", forged_runs.FORGERIES, ids=lambda f: f.__name__)
def test_forged_runs_are_caught(tmp_path, forgery, monkeypatch):
    monkeypatch.setattr(forged_runs, "EPOCHS", 2)
    monkeypatch.setattr(forged_runs, "EVERY", 5)
    assert forged_runs.forged(forgery, tmp_path, 5, sample=2) == (True, 1.0)


def test_another_model_is_not_the_result(tmp_path):
    model, proof = proven(tmp_path / "a")
    model.layers[0].bias.assign(model.layers[0].bias + 1e-6)
    found = tk.runs.verify(proof, sample=1, model=model)
    assert found.problems == ["the model has other weights than those proven"]


def test_what_was_changed_after_the_proof_is_named(tmp_path):
    folder = tmp_path / "a"
    _, proof = proven(folder)
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    (array,) = (path for path in files if path.suffix == ".npy" and len(files[path]) > 700)
    for name, text in (
        ("journal.jsonl", "the journal is another"),
        ("checkpoints/step-12", "after step 12 is not the file"),
        ("model.json", "the stored model is another"),
        (array.name, "the data is another"),
    ):
        (path,) = (path for path in files if str(path).endswith(name))
        changed = bytearray(files[path])
        changed[-3] ^= 1
        path.unlink()  # which other runs may share
        path.write_bytes(changed)
        found = tk.runs.verify(proof)
        assert any(text in problem for problem in found.problems), str(found)
        path.write_bytes(files[path])
    (folder / "checkpoints" / "step-12").unlink()
    assert "after step 12 is gone" in str(tk.runs.verify(proof))


def test_a_run_that_went_on_after_the_proof_is_still_proven(tmp_path):
    folder = tmp_path / "a"
    with pytest.raises(RuntimeError):
        fitted(folder, callbacks=[Stop(6, "failed")], save_every=2)
    proof = tk.runs.prove(tk.runs.open(folder))
    fitted(folder, callbacks=[Stop(0, "failed")], save_every=2)
    assert tk.runs.open(folder).last_step == 12
    assert tk.runs.verify(proof, sample=2).passed


def test_given_weights_are_not_claimed_to_come_from_the_seed(tmp_path):
    model = new_model()
    model.layers[0].kernel.assign(np.ones((4, 8), "f"))
    _, proof = proven(tmp_path / "a", model=model)
    assert proof.beginning == "given"
    found = tk.runs.verify(proof, sample=1)
    assert found.passed
    assert "is given" in str(found)
    found = tk.runs.verify(dataclasses.replace(proof, beginning="seed"), sample=1)
    assert "not that of the seed" in str(found)


def test_runs_that_can_not_be_proven_say_why(tmp_path):
    folder = tmp_path / "a"
    fitted(folder)
    run = tk.runs.open(folder)
    files = list(run.checkpoints.values())
    data = files[1].read_bytes()
    files[1].write_bytes(data[:-1] + b"?")
    with pytest.raises(RuntimeError, match="step-5 is not the file"):
        tk.runs.prove(run)
    for path in files[1:]:
        path.unlink()
    with pytest.raises(RuntimeError, match=r"has 1 of its checkpoints.*can still be read"):
        tk.runs.prove(run)
    journal = folder / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"n":3,', b'"n":9,'))
    with pytest.raises(RuntimeError, match=r"torn or was changed.*Steps 1 to 2 can still"):
        tk.runs.prove(tk.runs.open(folder))


def _changes():
    yield "{", "is no proof"
    yield "[]", "no 'trainkit_proof'"
    yield "[" * 100_000, "is no proof"
    yield "x" * (1 << 19), "more than"
    for name, value in [
        ("trainkit_proof", 9),
        ("head", "zz"),
        ("weights", None),
        ("checkpoints", [0]),
        ("checkpoints", [0, 12, 5]),
        ("checkpoints", [0, "5"]),
        ("checkpoints", list(range(9999))),
        ("lines", -1),
        ("lines", True),
        ("beginning", "nothing"),
        ("config", []),
        ("folder", ["a"]),
    ]:
        yield {name: value}, "is no proof|is of version 9"


@pytest.mark.parametrize(("change", "text"), list(_changes()), ids=lambda c: str(c)[:30])
def test_files_of_strangers_are_refused(tmp_path, change, text):
    proof = tk.runs.RunProof(
        "0", "a", "now", 3, "0" * 64, 9, (0, 9), "0" * 64, None, None, "given", {}
    )
    fields = change if isinstance(change, str) else json.dumps({**proof.as_dict(), **change})
    (tmp_path / "proof").write_text(fields)
    with pytest.raises(ValueError, match=text):
        tk.runs.RunProof.load(tmp_path / "proof")


def test_the_command_line(tmp_path, capsys):
    folder, proof = str(tmp_path / "a"), str(tmp_path / "a.proof")
    fitted(folder, save_every=2).save(tmp_path / "m.keras")
    assert main(["runs", "prove", folder, "-o", proof]) == 0
    assert "12 steps in 6 segments" in capsys.readouterr().out
    words = ["runs", "verify", proof, "--sample", "2", "--model", str(tmp_path / "m.keras")]
    assert main(words) == 0
    assert "passed: 2 of 6 segments" in capsys.readouterr().out
    assert main([*words, "--json", "--seed", "4"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["passed"], answer["drawn"], answer["seed"]) == (True, 2, 4)
    new_model(1).save(tmp_path / "m.keras")
    assert main(words) == 1
    assert "FAILED" in capsys.readouterr().out
    (tmp_path / "a").rename(tmp_path / "b")
    assert main(words) == 1
    assert "holds no run" in capsys.readouterr().err
    assert main([*words[:-2], "--run", str(tmp_path / "b")]) == 0
    assert main(["runs", "prove", str(tmp_path / "nothing"), "-o", proof]) == 1
