"""Masks and averages of weights in fit and evaluate, beside the numbers of Keras 3.15."""

import numpy as np
import pytest

import trainkit as tk

X = np.array([[[1.0], [0.0], [3.0]], [[2.0], [5.0], [0.0]], [[0.1], [0.0], [0.0]]], dtype="float32")
Y = np.array([[[1.0], [1.0], [0.0]], [[0.0], [1.0], [1.0]], [[1.0], [0.0], [1.0]]], dtype="float32")


def model_with(**options):
    model = tk.keras.Sequential(
        [
            tk.keras.Input((3, 1)),
            tk.keras.layers.Masking(),
            tk.keras.layers.Dense(1, kernel_initializer="ones", activation="sigmoid"),
        ]
    )
    model.compile(tk.keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5), "mse", **options)
    return model


eagerly = pytest.mark.parametrize("run_eagerly", [True, False])


@eagerly
def test_masks_count_in_means_of_scores_alone(run_eagerly):
    metrics = ["mse", "accuracy", tk.keras.metrics.AUC(name="auc")]
    metrics.append(tk.keras.metrics.FalseNegatives(name="missed"))
    model = model_with(metrics=metrics, run_eagerly=run_eagerly)
    found = model.evaluate(X, Y, verbose=0, return_dict=True, batch_size=2)
    wanted = {"loss": 0.3678108, "mse": 0.3962440, "accuracy": 0.6, "auc": 0.3611111, "missed": 3}
    assert found == pytest.approx(wanted, rel=1e-5)


@eagerly
def test_weights_of_steps_meet_masks(run_eagerly):
    model = model_with(
        weighted_metrics=["mse", "accuracy"], metrics=["mae"], run_eagerly=run_eagerly
    )
    weights = np.arange(9.0).reshape(3, 3)
    found = model.evaluate(X, Y, sample_weight=weights, verbose=0, return_dict=True, batch_size=2)
    wanted = {"loss": 1.1416870, "mse": 0.3664169, "accuracy": 0.6666667, "mae": 0.5168052}
    assert found == pytest.approx(wanted, rel=1e-5)


@eagerly
def test_fit_ends_with_the_averages_of_the_weights(run_eagerly):
    model = model_with(run_eagerly=run_eagerly)
    model.fit(X, Y, epochs=3, batch_size=2, shuffle=False, verbose=0)
    kernel, bias = model.get_weights()
    np.testing.assert_allclose(kernel, [[0.97019231]], rtol=1e-5)
    np.testing.assert_allclose(bias, [0.04399152], rtol=1e-4)
    average = model.optimizer._model_variables_moving_average[0]
    np.testing.assert_array_equal(kernel, average)


@eagerly
def test_a_metric_begins_with_what_its_reset_gives(run_eagerly):
    class Least(tk.keras.metrics.Metric):
        def __init__(self, name="least"):
            super().__init__(name=name)
            self.value = self.add_weight(name="value", initializer="zeros")

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.value.assign(tk.minimum(self.value, tk.reduce_min(y_pred)))

        def result(self):
            return self.value

        def reset_state(self):
            self.value.assign(np.inf)

    model = model_with(metrics=[Least()], run_eagerly=run_eagerly)
    assert model.evaluate(X, Y, verbose=0, return_dict=True)["least"] == pytest.approx(0.5)
