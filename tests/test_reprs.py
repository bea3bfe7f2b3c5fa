"""What `repr` says of objects: what they hold, on one line; it never fails."""

import re

import numpy as np
import pytest

import trainkit as tk
from trainkit.callbacks import EarlyStopping, LambdaCallback, LearningRateScheduler
from trainkit.constraints import MaxNorm
from trainkit.initializers import Constant, GlorotUniform, RandomNormal
from trainkit.optimizers import schedules
from trainkit.regularizers import L2

CALLS = [
    GlorotUniform(seed=3),
    RandomNormal(stddev=0.5),
    Constant(2.0),
    L2(0.5),
    MaxNorm(3, axis=1),
    schedules.ExponentialDecay(0.1, 100, 0.9, staircase=True),
    schedules.PiecewiseConstantDecay([1, 2], [0.5, 0.25, 0.125]),
    schedules.CosineDecay(0.1, 1000, alpha=0.5),
]


@pytest.mark.parametrize("made", CALLS, ids=lambda made: type(made).__name__)
def test_an_object_of_settings_is_shown_as_the_call_that_makes_it(made):
    text = repr(made)
    again = eval(text, {type(made).__name__: type(made)})
    assert again.get_config() == made.get_config()
    assert len(text) > len(type(made).__name__) + 2


def named(epoch):
    return 0.1


@pytest.mark.parametrize(
    ("callback", "text"),
    [
        (EarlyStopping("loss", patience=3), "EarlyStopping(monitor='loss', patience=3)"),
        (LearningRateScheduler(named), "LearningRateScheduler(schedule=named)"),
        (LambdaCallback(on_epoch_end=named), "LambdaCallback(on_epoch_end=named)"),
        (tk.callbacks.TerminateOnNaN(), "TerminateOnNaN()"),
    ],
)
def test_callbacks_show_what_is_not_at_its_default(callback, text):
    assert repr(callback) == text


def test_a_history_shows_its_epochs_and_the_last_numbers():
    model = tk.Sequential([tk.Input((2,)), tk.layers.Dense(1, kernel_initializer="zeros")])
    model.compile("sgd", "mse")
    assert repr(tk.callbacks.History()) == "<History of no epochs>"
    x = np.ones((4, 2), np.float32)
    history = model.fit(x, np.full((4, 1), 2.0), epochs=1, verbose=0)
    assert repr(history) == "<History of 1 epoch, the last: loss=4>"


def test_tapes_and_checkpoints(tmp_path):
    tape = tk.GradientTape(persistent=True)
    assert repr(tape) == "<GradientTape, persistent: computed tensors 0, watched 0, variables 0>"
    weight = tk.Variable(2.0)
    with tape:
        loss = weight * weight
        assert "recording, persistent" in repr(tape)
    assert re.search(r"computed tensors 1, watched \d, variables 1>", repr(tape))
    assert float(tape.gradient(loss, weight)) == 4.0

    checkpoint = tk.train.Checkpoint(weight=weight)
    assert repr(checkpoint) == "<Checkpoint: weight=Variable>"
    manager = tk.train.CheckpointManager(checkpoint, str(tmp_path), max_to_keep=2)
    assert "0 checkpoints; keeps the newest 2>" in repr(manager)
    manager.save()
    assert "1 checkpoints, the newest 'ckpt-1'; keeps the newest 2>" in repr(manager)
    assert repr(checkpoint).endswith("save_counter=Variable, 1 saves>")


class Unfinished(tk.regularizers.Regularizer):
    def get_config(self):
        raise RuntimeError


class Strange:
    def __eq__(self, other):
        raise ValueError

    __hash__ = None


def test_a_repr_never_fails():
    assert "Unfinished object at" in repr(Unfinished())
    assert repr(Constant(np.ones(3))).startswith("Constant(value=")
    assert "weird" in repr(EarlyStopping(monitor="weird", baseline=Strange()))
