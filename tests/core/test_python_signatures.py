"""What users annotate with names that only type checkers know: Python 3.14 reads them late."""

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.values.python_signatures import signature_of

if TYPE_CHECKING:
    from elsewhere import Batch, Logs, Rate, Result

if sys.version_info < (3, 14):
    pytest.skip("before 3.14 a definition computes its annotations", allow_module_level=True)


def test_a_signature_names_its_parameters():
    def scaled(x: Batch, by: Rate = 2.0) -> Result:
        return x * by

    assert list(signature_of(scaled).parameters) == ["x", "by"]
    assert signature_of(scaled).bind(1.0).arguments == {"x": 1.0}


def test_a_graph_follows_control_flow():
    @tk.function
    def halved(x: Batch, at_least: Rate = 1.0) -> Result:
        def half(y: Batch) -> Result:
            return y / 2

        while x > at_least:
            x: Result = half(x)
        return x

    assert float(halved(tk.constant(8.0))) == 1.0


def test_a_rule_of_ones_own_gives_gradients():
    @tk.custom_gradient
    def thrice(x: Batch) -> Result:
        def backward(g: Batch) -> Result:
            return 3 * g

        return 3 * x, backward

    x = tk.constant(1.0)
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = thrice(x)
    assert float(tape.gradient(y, x)) == 3.0


class Scaled(tk.layers.Layer):
    size: Batch

    def __init__(self, rate: Rate = 2.0, **kwargs: Logs) -> None:
        super().__init__(**kwargs)
        self.rate = rate

    def call(self, x: Batch, training: Rate | None = None, mask: Batch = None) -> Result:
        return x * self.rate


class Regression(tk.Model):
    parts: Logs

    def __init__(self, units: Batch = 1, **kwargs: Logs) -> None:
        super().__init__(**kwargs)
        self.scaled, self.dense = Scaled(), tk.layers.Dense(units)

    def call(self, inputs: Batch, training: Rate = False) -> Result:
        return self.dense(self.scaled(inputs, training=training))

    def train_step(self, data: Batch) -> Logs:
        return super().train_step(data)


class Steps(tk.optimizers.SGD):
    def __init__(self, learning_rate: Rate = 0.1, **kwargs: Logs) -> None:
        super().__init__(learning_rate, **kwargs)


def squared(y_true: Batch, y_pred: Batch) -> Result:
    return (y_true - y_pred) ** 2


def rate_of(epoch: int, rate: Rate) -> Rate:
    return rate / 2


X = np.ones((8, 2), "float32")


def test_a_model_of_own_parts_trains_and_is_saved(tmp_path):
    model = Regression()
    model.compile(Steps(), squared, metrics=[squared])
    schedule = tk.callbacks.LearningRateScheduler(rate_of)
    model.fit(X, X[:, :1], epochs=3, verbose=0, callbacks=[schedule])
    assert float(model.optimizer.learning_rate) == pytest.approx(0.0125)
    model.save(str(tmp_path / "model.keras"))
    scope = {x.__name__: x for x in (Regression, Scaled, Steps, squared)}
    loaded = tk.keras.models.load_model(str(tmp_path / "model.keras"), custom_objects=scope)
    np.testing.assert_array_equal(model.predict(X, verbose=0), loaded.predict(X, verbose=0))


def test_a_model_of_symbolic_tensors_comes_from_its_config():
    def shifted(x: Batch) -> Result:
        return x + 1

    inputs = tk.Input((2,))
    model = tk.Model(inputs, tk.layers.Lambda(shifted)(Scaled(rate=3.0)(inputs)))
    np.testing.assert_array_equal(model(X), 3 * X + 1)
    layers = tk.Sequential([Scaled(rate=3.0)])
    assert tk.Sequential.from_config(layers.get_config(), {"Scaled": Scaled}).layers[0].rate == 3.0


def test_a_dataset_is_mapped():
    def doubled(x: Batch) -> Result:
        if x > 1:
            x = x * 2
        return x

    assert [int(x) for x in tk.data.Dataset.range(3).map(doubled)] == [0, 1, 4]


def test_a_module_is_exported(tmp_path):
    class Exported(tk.Module):
        @tk.function(input_signature=[tk.TensorSpec((), "float32")])
        def run(self, x: Batch) -> Result:
            return x + 1

    tk.saved_model.save(Exported(), str(tmp_path / "m"))
    assert float(tk.saved_model.load(str(tmp_path / "m")).run(tk.constant(1.0))) == 2.0
