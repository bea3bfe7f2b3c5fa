"""Planted differences: the step, the kind and the cause are named."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import trainkit as tk
from tests.runs.test_journal import X, Y, fitted, journal, new_model


class AtStep(tk.callbacks.Callback):
    """Does something to the model before a step."""

    def __init__(self, step, change):
        super().__init__()
        self.step, self.__dict__["change"] = step, change

    def on_train_batch_begin(self, batch, logs=None):
        if int(self.model.optimizer.iterations) == self.step - 1:
            self.change(self.model)


def run(folder, seed=0, x=X, y=Y, model=None, callbacks=None, epochs=2, **arguments):
    model = new_model(seed) if model is None else model
    own = journal(folder)
    model.fit(x, y, 16, epochs, verbose=0, callbacks=callbacks, run=own, **arguments)


def pixel(rng):
    x = X.copy()
    row, column = rng.integers(60), rng.integers(4)
    x[row, column] += 1e-3
    return {"x": x}, "batch", rf"inputs of row \d+ differ at \[{column}\]"


def label(rng):
    y = Y.copy()
    row = rng.integers(60)
    y[row] = (y[row] + 1) % 3
    return {"y": y}, "batch", rf"labels of row \d+ differ: {Y[row]} in the first run, {y[row]} in"


def seed(rng):
    return {"seed": 900}, "seed", "another seed: .* in the first run, 900 in the other"


def order(rng):
    return {"shuffle": False}, "batch", "other rows of the same data.*shuffle"


def weights(rng):
    share = rng.uniform(size=60).astype("f") + 0.5
    return {"sample_weight": share}, "batch", "the batch has 2 parts in the first run, 3 in"


def rate(rng):
    step = int(rng.integers(2, 8))

    def change(model):
        model.optimizer.learning_rate = 0.5

    return {"callbacks": [AtStep(step, change)]}, "learning rate", rf"step {step}: .* 0.5 in the"


def weight(rng):
    step = int(rng.integers(2, 8))

    def change(model):
        kernel = model.layers[0].kernel
        kernel.assign(kernel + 1e-3)

    return {"callbacks": [AtStep(step, change)]}, "callbacks", f"step {step}: .*AtStep"


CHANGES = [pixel, label, seed, order, weights, rate, weight]


@pytest.mark.parametrize("number", range(2))
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_other_data_and_states_are_named(tmp_path, change, number):
    arguments, kind, text = change(np.random.default_rng(number))
    run(tmp_path / "a", **{"seed": number})
    run(tmp_path / "b", **{"seed": number, **arguments})
    found = tk.runs.diff(*(tk.runs.open(tmp_path / name) for name in "ab"))
    assert found.kind == kind
    assert re.search(text, str(found)), str(found)


def edited_activation(model):
    model.layers[0].activation = tk.activations.tanh


def edited_dropout(model):
    model.layers[1].rate = 0.5


def edited_epsilon(model):
    model.layers[2].epsilon = 0.1


def edited_momentum(model):
    model.layers[2].momentum = 0.5


def _compiled(model, optimizer=None, **loss):
    loss = tk.losses.SparseCategoricalCrossentropy(from_logits=True, **loss)
    model.compile(optimizer or tk.optimizers.Adam(0.01), loss, metrics=["accuracy"])


def edited_beta(model):
    _compiled(model, tk.optimizers.Adam(0.01, beta_1=0.8))


def edited_rate(model):
    _compiled(model, tk.optimizers.Adam(0.02))


def edited_clipping(model):
    _compiled(model, tk.optimizers.Adam(0.01, clipnorm=0.1))


def edited_loss(model):
    _compiled(model, reduction="sum")


def edited_optimizer(model):
    _compiled(model, tk.optimizers.SGD(0.01))


EDITS = {
    edited_activation: ("operation", r"in layer 'sequential\w*/dense\w*' with 'relu'.*'tanh'"),
    edited_dropout: (
        "operation",
        r"dropout\w*' with .*rate of 'dropout' is 0.3 in the first run, 0.5",
    ),
    edited_epsilon: ("operation", "epsilon of 'batch_normalization' is"),
    edited_momentum: ("operation|optimizer", "momentum of 'batch_normalization' is"),
    edited_beta: ("optimizer", "beta_1 of 'adam' is 0.9 in the first run, 0.8"),
    edited_rate: ("learning rate", "the learning rate is 0.0099.* 0.0199"),
    edited_clipping: ("operation|optimizer", "clipnorm of 'adam' is None in the first run, 0.1"),
    edited_loss: ("operation", "reduction .*is 'sum_over_batch_size' in the first run, 'sum'"),
    edited_optimizer: ("model", "optimizer.class_name is 'Adam' in the first run, 'SGD'"),
}


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_other_settings_are_named(tmp_path, edit):
    kind, text = EDITS[edit]
    run(tmp_path / "a")
    model = new_model(0)
    edit(model)
    run(tmp_path / "b", model=model)
    found = tk.runs.diff(*(tk.runs.open(tmp_path / name) for name in "ab"))
    assert found.step == 1
    assert re.fullmatch(kind, found.kind)
    assert re.search(text, str(found)), str(found)


def test_runs_alike_do_not_differ(tmp_path):
    run(tmp_path / "a")
    run(tmp_path / "b")
    run(tmp_path / "c", epochs=3)
    a, b, c = (tk.runs.open(tmp_path / name) for name in "abc")
    assert tk.runs.diff(a, b).kind == "none"
    found = tk.runs.diff(a, c)
    assert found.step is None
    assert "has 12 steps" in str(found)


def test_models_of_other_shapes_are_said_to_be(tmp_path):
    run(tmp_path / "a")
    run(tmp_path / "b", model=new_model(0, layers=[tk.layers.Dense(5)]))
    found = tk.runs.diff(*(tk.runs.open(tmp_path / name) for name in "ab"))
    assert found.kind == "model"
    assert "has 5 (InputLayer, Dense, Dropout, BatchNormalization, Dense)" in found.cause


def test_sparse_digests_are_enough(tmp_path):
    def change(model):
        model.optimizer.learning_rate = 0.5

    for name, callbacks in (("a", []), ("b", [AtStep(4, change)])):
        callbacks = callbacks or [tk.callbacks.Callback()]
        fitted(tmp_path / name, callbacks=callbacks, digest_every=8, save_every=100)
    found = tk.runs.diff(*(tk.runs.open(tmp_path / name) for name in "ab"))
    assert (found.step, found.kind) == (4, "learning rate")


def test_a_program_calls_callbacks_again(tmp_path):
    def change(model):
        model.layers[0].kernel.assign(model.layers[0].kernel + 1e-3)

    def train():
        run(tmp_path / "b", callbacks=[AtStep(5, change)])

    run(tmp_path / "a")
    train()
    found = tk.runs.diff(tk.runs.open(tmp_path / "a"), tk.runs.open(tmp_path / "b", program=train))
    assert (found.step, found.kind) == (5, "state")
    assert "kernel first" in found.cause


def test_without_data_the_journals_are_compared(tmp_path):
    for name, number in (("a", 0), ("b", 1)):
        fitted(tmp_path / name, model=new_model(number), keep_data=0)
    found = tk.runs.diff(*(tk.runs.open(tmp_path / name) for name in "ab"))
    assert (found.step, found.kind) == (1, "journal")
    assert "the data" in str(found)
    assert "is not stored" in str(found)


_OTHER = "from tests.runs.test_diff import run; run({folder!r})"


def test_another_installation_is_named(tmp_path):
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    for name, kernels in (("a", "Haswell"), ("b", "Nehalem")):
        environment = os.environ | {"PYTHONPATH": root, "OPENBLAS_CORETYPE": kernels}
        code = _OTHER.format(folder=str(tmp_path / name))
        subprocess.run([sys.executable, "-c", code], env=environment, cwd=root, check=True)
    found = tk.runs.diff(*(tk.runs.open(tmp_path / name) for name in "ab"))
    if found.step is None:
        pytest.skip("these kernels give equal bits here, or BLAS is no OpenBLAS")
    assert found.kind == "environment"
    assert "another kernel of the BLAS: Haswell in the first run, Nehalem in the" in str(found)


def test_differences_are_found_from_the_command_line(tmp_path, capsys):
    import json

    from trainkit.cli.main import main

    run(tmp_path / "a")
    run(tmp_path / "b", seed=1)
    words = ["runs", "diff", str(tmp_path / "a"), str(tmp_path / "b")]
    assert main(words) == 1
    assert "another seed: 0 in the first run, 1 in the other" in capsys.readouterr().out
    assert main([*words, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["kind"] == "seed"
    assert main(["runs", "diff", words[2], words[2]]) == 0
