"""Messages go to the terminal, or to the log."""

import logging

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.process import console

K = tk.keras


@pytest.fixture(autouse=True)
def _interactive():
    yield
    console.enable_interactive_logging()


def fitted(**settings):
    model = tk.Sequential([tk.Input((2,)), tk.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.ones((8, 2), "float32")
    model.fit(x, x[:, :1], batch_size=2, verbose=1, **settings)
    return model


def test_both_doors_have_the_switch():
    assert K.config.is_interactive_logging_enabled()
    K.utils.disable_interactive_logging()
    assert not K.config.is_interactive_logging_enabled()
    K.config.enable_interactive_logging()
    assert K.utils.is_interactive_logging_enabled()


def test_training_is_told_to_the_log_alone(capsys, caplog):
    caplog.set_level(logging.INFO, "trainkit")
    K.config.disable_interactive_logging()
    model = fitted(callbacks=[tk.callbacks.LearningRateScheduler(lambda e: 0.1, verbose=1)])
    model.summary()
    assert model.name in caplog.text
    bar = K.utils.Progbar(2)
    bar.update(2, values=[("loss", 0.5)])
    assert capsys.readouterr().out == ""
    text = caplog.text
    assert "loss" in text
    assert "params" in text
    assert "the learning rate is 0.1" in text
    assert not any(set(r.getMessage()) & set("\r\x1b\n") for r in caplog.records)
    K.config.enable_interactive_logging()
    fitted()
    assert "loss" in capsys.readouterr().out


def test_a_program_without_a_console_is_quiet(monkeypatch):
    monkeypatch.setattr("sys.stdout", None)
    console.say("text")
