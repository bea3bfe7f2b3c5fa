"""Optimizers that hold others keep all state in `.keras` and `.weights.h5`, in Keras's layout."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.keras import layers, models, optimizers

X, Y = np.linspace(-1, 1, 96, dtype=np.float32).reshape(16, 6), np.ones((16, 3), np.float32)

MAKERS = {
    "loss_scale": lambda: optimizers.LossScaleOptimizer(optimizers.Adam(0.1), initial_scale=64.0),
    "multi": lambda: optimizers.MultiOptimizer(
        optimizers.OptimizerMap(optimizers.Adam(0.1), {"bias": optimizers.SGD(0.1, momentum=0.9)})
    ),
}


def trained(name):
    tk.random.set_seed(1)
    model = models.Sequential([layers.Input((6,)), layers.Dense(4, "relu"), layers.Dense(3)])
    model.compile(MAKERS[name](), "mse")
    model.fit(X, Y, epochs=2, verbose=0)
    return model


def values(model):
    return [v.numpy() for v in model.optimizer.variables]


@pytest.mark.parametrize("name", MAKERS)
def test_training_goes_on_from_a_model_file(name, tmp_path):
    model = trained(name)
    model.save(tmp_path / "model.keras")
    again = models.load_model(tmp_path / "model.keras")
    assert int(again.optimizer.iterations) == int(model.optimizer.iterations) == 2
    for each in (model, again):
        each.fit(X, Y, verbose=0, shuffle=False)
    for left, right in zip(values(model), values(again), strict=True):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(model.predict(X, verbose=0), again.predict(X, verbose=0))


@pytest.mark.parametrize("name", MAKERS)
def test_weight_files_hold_it_too(name, tmp_path):
    model, other = trained(name), trained(name)
    model.save_weights(tmp_path / "model.weights.h5")
    other.fit(X, Y, verbose=0)
    other.load_weights(tmp_path / "model.weights.h5")
    for left, right in zip(values(model), values(other), strict=True):
        np.testing.assert_array_equal(left, right)


def test_the_places_are_those_of_keras(tmp_path):
    h5py = pytest.importorskip("h5py")
    for name, inner in (("loss_scale", ["inner_optimizer"]), ("multi", ["optimizers"])):
        path = tmp_path / f"{name}.weights.h5"
        trained(name).save_weights(path)
        with h5py.File(path) as file:
            assert sorted(file["optimizer"]) == [*inner, "vars"]
            own = file["optimizer/vars"]
            # a step and a rate of its own come first, which Keras makes and never uses for the
            # loss scale; then the scale's counter and value, or the optimizers one after the other
            assert own["0"].dtype == np.int64
            assert own["1"].dtype == np.float32
            assert float(own["3"][()]) == pytest.approx(64.0 if name == "loss_scale" else 0.1)
