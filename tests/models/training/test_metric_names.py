"""What `compile` and `fit` make of the names of metrics, and how metrics are numbered then."""

import numpy as np
import pytest

import trainkit as tk

X, Y = np.ones((4, 2), "float32"), np.array([[0.0], [1.0], [1.0], [0.0]], "float32")


def model_with(**options):
    model = tk.keras.Sequential([tk.keras.Input((2,)), tk.keras.layers.Dense(1, "sigmoid")])
    model.compile("sgd", "binary_crossentropy", **options)
    return model


def test_a_metric_by_name_counts_once_and_at_the_first_step():
    tk.utils.clear_session()
    model = model_with(metrics=["AUC"], weighted_metrics=["AUC"])
    assert tk.keras.metrics.AUC().name == "auc"
    assert sorted(model.fit(X, Y, verbose=0).history) == ["AUC", "loss", "weighted_AUC"]
    assert tk.keras.metrics.AUC().name == "auc_3"  # Keras's number


@pytest.mark.parametrize("argument", ["metrics", "weighted_metrics"])
def test_a_name_without_a_metric_raises_in_compile(argument):
    with pytest.raises(ValueError, match=rf"compile\({argument}=...\): 'ACU' is no metric"):
        model_with(**{argument: ["ACU"]})
    with pytest.raises(TypeError, match=rf"compile\({argument}=...\): 'MeanIoU'.*'num_classes'"):
        model_with(**{argument: ["MeanIoU"]})
