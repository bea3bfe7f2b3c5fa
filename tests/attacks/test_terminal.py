"""What a file calls its parts reaches the terminal without the escapes that are in it."""

import io
import json
import sys
import zipfile

import numpy as np
import pytest

import trainkit as tk
from trainkit.cli.main import main

EVIL = "\x1b]0;owned\x07\x1b[2J\u202e\udc80"


@pytest.fixture
def model(tmp_path):
    """A model from a file that names its layers, itself and its metric as an attacker likes."""
    made = tk.Sequential([tk.Input((3,)), tk.layers.Dense(2, name="layer1")], name="model1")
    made.compile("sgd", "mse", metrics=[tk.metrics.MeanSquaredError(name="metric1")])
    made.save(tmp_path / "m.keras")
    with zipfile.ZipFile(tmp_path / "m.keras") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    config = members["config.json"].decode()
    for name in ("layer1", "model1", "metric1"):
        config = config.replace(f'"{name}"', json.dumps(name + EVIL))
    with zipfile.ZipFile(tmp_path / "n.keras", "w") as archive:
        for name, content in members.items():
            if name == "config.json":
                content = config.encode()
            elif name == "metadata.json":
                content = json.dumps({"keras_version": "3.15.0"}).encode()
            archive.writestr(name, content)
    return tk.models.load_model(tmp_path / "n.keras")


class Strict(io.TextIOWrapper):
    """A terminal: UTF-8, and no mercy for halves of characters."""

    def __init__(self):
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self):
        return True

    def text(self):
        return self.buffer.getvalue().decode()


def clean(text):
    return "\x1b]" not in text and "\x1b[2J" not in text and "\x07" not in text


@pytest.mark.parametrize("terminal", [True, False])
def test_summary_and_bars(model, terminal, monkeypatch, capsys):
    out = Strict()
    monkeypatch.setattr(sys, "stdout", out) if terminal else None
    model.summary()
    model.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=1)
    model.evaluate(np.ones((4, 3)), np.ones((4, 2)), verbose=1)
    text = out.text() if terminal else capsys.readouterr().out
    assert clean(text)
    assert "layer1\\x1b" in text
    assert "metric1\\x1b" in text


def test_errors():
    with pytest.raises(tk.errors.InvalidArgumentError) as caught:
        raise tk.errors.InvalidArgumentError(f"layer {EVIL} is wrong\n  side by side")
    assert clean(str(caught.value))
    assert str(caught.value).endswith(" is wrong\n  side by side")
    assert clean(tk.errors.NotFoundError(None, None, EVIL).message)


def test_the_command_that_lists_a_file(tmp_path, capsys):
    np.savez(tmp_path / "a.npz", **{f"weight{EVIL[:-1]}": np.ones(2)})
    main(["ckpt", "ls", str(tmp_path / "a.npz")])
    shown = capsys.readouterr()
    assert clean(shown.out + shown.err)
    assert "weight\\x1b" in shown.out + shown.err
