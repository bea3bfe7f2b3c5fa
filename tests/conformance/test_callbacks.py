"""Each callback: trained with eagerly and compiled, taken up again, exported and described."""

import inspect
import sys

import numpy as np
import pytest

import trainkit as tk
from tests.conformance import completeness
from trainkit import callbacks
from trainkit.callbacks.callback import Callback

# How each is made, given a folder; what a user would write.
ROWS = {
    "BackupAndRestore": lambda folder: callbacks.BackupAndRestore(folder / "backup"),
    "CSVLogger": lambda folder: callbacks.CSVLogger(folder / "log.csv"),
    "Callback": lambda folder: callbacks.Callback(),
    "EarlyStopping": lambda folder: callbacks.EarlyStopping("loss", patience=5),
    "History": lambda folder: callbacks.History(),
    "LambdaCallback": lambda folder: callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: None
    ),
    "LearningRateScheduler": lambda folder: callbacks.LearningRateScheduler(lambda epoch: 0.01),
    "ModelCheckpoint": lambda folder: callbacks.ModelCheckpoint(folder / "model.keras", "loss"),
    "ProgressBar": lambda folder: callbacks.ProgressBar(verbose=2),
    "ReduceLROnPlateau": lambda folder: callbacks.ReduceLROnPlateau("loss", patience=1),
    "SwapEMAWeights": lambda folder: callbacks.SwapEMAWeights(),
    "TensorBoard": lambda folder: callbacks.TensorBoard(folder / "logs"),
    "TerminateOnNaN": lambda folder: callbacks.TerminateOnNaN(),
}
# Those that no row can be made for, with the reason.
WITHOUT = {
    "CallbackList": "holds callbacks, is none",
    "OrbaxCheckpoint": "is bound to JAX, and says what to use instead",
    "RunJournal": "writes one run, and a second one into another folder: tests/runs",
    "RemoteMonitor": "sends to a server: tests/callbacks has one on this machine",
}
# Public classes that users do not make themselves.
INNER = {
    "LoopBar": "the bar of evaluate and predict",
    "LogMetrics": "what fit(loggers=...) adds: tests/callbacks/test_loggers.py",
    "LooksAlong": "stands for TensorBoard in other processes",
    "MetricMonitor": "what those that watch a metric have in common",
}


def trained(callback, eagerly, epochs=3):
    x = np.linspace(-1, 1, 32, dtype="float32").reshape(16, 2)
    y = x.sum(axis=1, keepdims=True)
    tk.random.set_seed(1)
    model = tk.Sequential([tk.layers.Dense(1)])
    optimizer = tk.optimizers.SGD(0.05, use_ema=isinstance(callback, callbacks.SwapEMAWeights))
    model.compile(optimizer, "mse", run_eagerly=eagerly)
    history = model.fit(x, y, batch_size=8, epochs=epochs, verbose=0, callbacks=[callback])
    return model, history


def test_every_callback_is_exported_and_has_a_row():
    table = "ROWS in tests/conformance/test_callbacks.py"
    completeness.check_complete(callbacks, Callback, ROWS, table, inner=INNER, apart=WITHOUT)


@pytest.mark.parametrize("eagerly", [True, False])
@pytest.mark.parametrize("name", ROWS)
def test_training_goes_on_with_it(name, eagerly, tmp_path):
    callback = ROWS[name](tmp_path)
    model, history = trained(callback, eagerly)
    assert callback.model is model
    assert history.epoch == [0, 1, 2]
    assert all(np.isfinite(history.history["loss"]))


@pytest.mark.parametrize("name", ROWS)
def test_a_second_training_with_the_same_one_works(name, tmp_path):
    callback = ROWS[name](tmp_path)
    trained(callback, eagerly=True, epochs=2)
    model, history = trained(callback, eagerly=True, epochs=2)
    assert callback.model is model
    assert len(history.epoch) == 2


@pytest.mark.parametrize("name", sorted(completeness.exported(callbacks, object)))
def test_it_says_what_its_arguments_are(name):
    kind = getattr(callbacks, name)
    assert inspect.getdoc(kind)
    own = inspect.signature(kind.__init__).parameters
    arguments = [
        p for p, how in own.items() if p != "self" and how.kind is how.POSITIONAL_OR_KEYWORD
    ]
    text = inspect.getdoc(kind) + (inspect.getdoc(sys.modules[kind.__module__]) or "")
    assert [argument for argument in arguments if argument not in text] == []
