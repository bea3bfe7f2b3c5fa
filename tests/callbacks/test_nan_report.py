"""`TerminateOnNaN(explain=True)`: the step at fault is found, explained and kept."""

import os
import subprocess
import sys

import numpy as np
import pytest

import trainkit as tk
from trainkit.callbacks import nan_report

STEP_AT_FAULT = 5


def data(bad=1e30):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3)).astype("float32")
    x[4 * STEP_AT_FAULT + 1] = bad
    return x, rng.normal(size=(40, 1)).astype("float32")


def model_of(optimizer="adam", **compiled):
    tk.random.set_seed(0)
    layers = [tk.Input((3,)), tk.layers.Dense(4, activation="tanh", name="hidden")]
    layers += [tk.layers.Dropout(0.3), tk.layers.Lambda(tk.square, name="square")]
    model = tk.Sequential([*layers[:1], *layers[3:], *layers[1:3], tk.layers.Dense(1)])
    model.compile(optimizer, "mse", **compiled)
    return model


def fit(model, folder, x, y, **more):
    callback = tk.callbacks.TerminateOnNaN(explain=True, bundle_dir=folder, **more)
    return model.fit(x, y, batch_size=4, epochs=2, verbose=0, shuffle=False, callbacks=[callback])


@pytest.mark.parametrize(
    "compiled", [{}, {"run_eagerly": True}, {"steps_per_execution": 4}], ids=str
)
def test_the_step_is_explained_and_the_model_left_as_before(tmp_path, capsys, compiled):
    model = model_of(**compiled)
    fit(model, tmp_path / "nan", *data())
    said = capsys.readouterr().out
    assert "square in layer 'sequential" in said
    assert "/square' gave" in said
    assert f"after {STEP_AT_FAULT} steps" in said
    expected = model_of(**compiled)
    x, y = data()
    count = 4 * STEP_AT_FAULT
    expected.fit(x[:count], y[:count], batch_size=4, verbose=0, shuffle=False)
    for a, b in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert int(model.optimizer.iterations) == STEP_AT_FAULT
    slots = zip(model.optimizer.variables, expected.optimizer.variables, strict=True)
    for a, b in slots:
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert (tmp_path / "nan" / "report.txt").read_text() in said


def test_the_bundle_does_the_step_again(tmp_path):
    model = model_of()
    layers = [layer for layer in model.layers if layer.name != "square"]
    model = tk.Sequential([tk.Input((3,)), *layers])
    model.compile("adam", "mse")
    x, y = data(np.nan)
    fit(model, tmp_path / "nan", x, y)
    with pytest.raises(tk.errors.InvalidArgumentError, match="an input had NaN already"):
        tk.callbacks.TerminateOnNaN.reproduce(tmp_path / "nan", model)
    package = os.path.dirname(os.path.dirname(tk.__file__))
    done = subprocess.run(
        [sys.executable, str(tmp_path / "nan" / "reproduce.py")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": package},
        check=False,
    )
    assert done.returncode == 1
    report = (tmp_path / "nan" / "report.txt").read_text().splitlines()
    assert report[1] in done.stderr


def test_a_model_that_can_not_be_saved_is_made_by_hand(tmp_path):
    class Own(tk.layers.Layer):
        def __init__(self, given, **kwargs):
            super().__init__(**kwargs)
            self.given = given

        def call(self, x):
            return tk.math.log(x - x)

        def get_config(self):
            raise NotImplementedError("no config")

    model = tk.Sequential([tk.Input((3,)), Own(object()), tk.layers.Dense(1)])
    model.compile("sgd", "mse")
    fit(model, tmp_path / "nan", *data())
    script = (tmp_path / "nan" / "reproduce.py").read_text()
    assert "no config" in script
    assert "model = ..." in script
    compile(script, "reproduce.py", "exec")
    with pytest.raises(tk.errors.InvalidArgumentError, match="log in layer"):
        tk.callbacks.TerminateOnNaN.reproduce(tmp_path / "nan", model)


def test_weights_are_looked_at_before_the_loss_shows_it(tmp_path, capsys):
    x = tk.Input((3,))
    y = tk.layers.Dense(1, name="out")(
        tk.layers.Lambda(lambda v: tk.sqrt(v * 0.0))(tk.layers.Dense(2)(x))
    )
    model = tk.Model(x, y)
    model.compile("sgd", "mse")
    fit(model, tmp_path / "nan", *data(0.0))
    said = capsys.readouterr().out
    assert "sqrt gradient in layer" in said
    assert "after 0 steps" in said
    assert int(model.optimizer.iterations) == 0


def test_an_update_that_overflows_is_told(tmp_path, capsys):
    model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(1)], name="line")
    model.compile(tk.optimizers.SGD(1e38), "mse")
    fit(model, tmp_path / "nan", data(0.0)[0] * 1e4, data()[1])
    said = capsys.readouterr().out
    assert "the optimizer's update made these weights so: line/dense" in said


def test_folders_of_earlier_bundles_stay(tmp_path):
    for _ in range(2):
        fit(model_of(), tmp_path / "nan", *data())
    assert {path.name for path in tmp_path.iterdir()} == {"nan", "nan-2"}


def test_an_error_carries_the_explanation(tmp_path):
    with pytest.raises(RuntimeError, match="square in layer"):
        fit(model_of(), tmp_path / "nan", *data(), raise_error=True)


def test_training_that_goes_well_is_the_same(tmp_path):
    x, y = data(0.0)
    plain, watched = model_of(), model_of()
    plain.fit(x, y, batch_size=4, epochs=2, verbose=0, shuffle=False)
    fit(watched, tmp_path / "nan", x, y)
    for a, b in zip(plain.get_weights(), watched.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_batches_of_any_structure_come_back(tmp_path, dtype):
    model = model_of()
    model.train_on_batch(*(part[:4] for part in data(0.0)))
    a, b = tk.ones((2, 3), dtype), tk.zeros((1,), "int32")
    batch = ({"b": [a, b], "a": (b,)}, None, a)
    from trainkit.ops.sampling.generators import global_generator

    generator = global_generator()
    folder = nan_report.write_bundle(tmp_path / "x", model, generator, batch, "text")
    found = nan_report.read_bundle(folder, model, generator)
    assert found[1] is None
    assert isinstance(found[0]["a"], tuple)
    assert found[2].dtype == a.dtype
    np.testing.assert_array_equal(found[0]["b"][0].numpy(), a.numpy())
