"""Settings of losses and metrics, and items of lists, hold at once and in resumed runs."""

import copy
import pickle

import numpy as np
import pytest

import trainkit as tk
from tests.callbacks.breaking_off import Kill, Killed

cb = tk.callbacks
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(48, 4)).astype("float32"), RNG.normal(size=(48, 1)).astype("float32")


class Weighted(tk.losses.Loss):
    """A loss of the user's own, with numbers in a list and in a dict."""

    def __init__(self):
        super().__init__()
        self.factors, self.powers = [1.0, 1.0], {"error": 1.0, "other": [2.0]}

    def call(self, y_true, y_pred):
        error = tk.abs(y_true - y_pred) ** self.powers["error"]
        return tk.reduce_mean(error * self.factors[1] * self.powers["other"][0], axis=-1)


class Scaled(tk.layers.Layer):
    def __init__(self):
        super().__init__()
        self.rates = [1.0, 2.0]

    def call(self, x):
        return x * self.rates[0]


class Near(tk.metrics.Mean):
    def __init__(self):
        super().__init__("near")
        self.distance = 0.1

    def update_state(self, y_true, y_pred, sample_weight=None):
        near = tk.abs(y_true - y_pred) < self.distance
        return super().update_state(tk.cast(near, "float32"))


CHANGES = {
    "delta": lambda m: setattr(m.loss["a"], "delta", 0.2),
    "list": lambda m: m.loss["b"].factors.__setitem__(1, 3.0),
    "dict": lambda m: m.loss["b"].powers.update(error=2.0),
    "nested": lambda m: m.loss["b"].powers["other"].__setitem__(0, 0.5),
    "new_list": lambda m: setattr(m.loss["b"], "factors", [0.0, 2.0]),
    "layer_list": lambda m: m.layers[2].rates.__setitem__(0, 0.5),
}


class Change(cb.Callback):
    def __init__(self, what):
        super().__init__()
        self.what = what

    def on_train_batch_end(self, batch, logs=None):
        if batch == 3:
            CHANGES[self.what](self.model)


def train(what, eagerly, *callbacks):
    tk.random.set_seed(1)
    x = tk.Input((4,))
    hidden = Scaled()(tk.layers.Dense(3)(x))
    outputs = {name: tk.layers.Dense(1, name=name)(hidden) for name in "ab"}
    model = tk.Model(x, outputs)
    model.compile("sgd", {"a": tk.losses.Huber(), "b": Weighted()}, run_eagerly=eagerly)
    changes = [Change(what)] if what else []
    model.fit(X, {"a": Y, "b": Y}, 8, epochs=2, verbose=0, callbacks=[*changes, *callbacks])
    return np.concatenate([w.ravel() for w in model.get_weights()])


@pytest.fixture(scope="module")
def unchanged():
    return train(None, True)


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_setting_holds_in_a_compiled_step(what, unchanged):
    eager, compiled = train(what, True), train(what, False)
    assert abs(eager - unchanged).max() > 1e-4
    np.testing.assert_allclose(eager, compiled, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("what", ["delta", "list", "nested"])
def test_a_resumed_run_has_it(tmp_path, what):
    whole = train(what, True)
    backup = [cb.BackupAndRestore(tmp_path, save_freq=2, delete_checkpoint=False) for _ in "ab"]
    with pytest.raises(Killed):
        train(what, True, Kill(5), backup[0])
    np.testing.assert_array_equal(train(what, True, backup[1]), whole)


@pytest.mark.parametrize(
    ("metric", "name", "value"),
    [(tk.metrics.BinaryAccuracy(), "threshold", 2.0), (Near(), "distance", 9.0)],
)
def test_a_changed_setting_of_a_metric_holds(metric, name, value):
    model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(1)])
    targets = (Y > 0).astype("float32")
    model.compile("sgd", "mse", metrics=[[metric]])
    before = model.evaluate(X, targets, 8, verbose=0, return_dict=True)  # traces the step
    setattr(metric, name, value)
    logs = model.evaluate(X, targets, 8, verbose=0, return_dict=True)
    metric.reset_state()
    metric.update_state(targets, model.predict(X, verbose=0))
    assert logs[metric.name] != before[metric.name]
    np.testing.assert_allclose(logs[metric.name], float(metric.result()), rtol=1e-6)


def test_a_setting_of_a_loss_of_the_library_reaches_its_function_and_its_config():
    loss = tk.losses.Huber(delta=1.0)
    other = copy.deepcopy(loss)
    loss.delta = 2.0
    assert loss.get_config()["delta"] == 2.0
    assert float(loss([[0.0]], [[3.0]])) == float(tk.losses.Huber(2.0)([[0.0]], [[3.0]]))
    assert (other.delta, other.get_config()["delta"]) == (1.0, 1.0)
    again = pickle.loads(pickle.dumps(loss))
    again.delta = 0.5
    assert again.get_config()["delta"] == 0.5
    assert loss.delta == 2.0
    metric = tk.metrics.BinaryAccuracy(threshold=0.5)
    metric.threshold = 0.7
    assert metric.get_config()["threshold"] == 0.7
