"""A step for which there is not enough memory names the layers that hold it."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.models.training.memory_report import holdings


def model_of(layer):
    model = tk.Sequential(
        [tk.Input((10,)), tk.layers.Dense(200, name="wide"), layer, tk.layers.Dense(1)], name="m"
    )
    model.compile("adam", "mse")
    return model


X, Y = np.ones((64, 10), np.float32), np.ones((64, 1), np.float32)


@pytest.mark.parametrize("eagerly", [True, False])
@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_the_layers_that_hold_memory_are_named(method, eagerly):
    model = model_of(tk.layers.Identity(name="same"))
    model.layers[1].call = lambda x: x + float(np.empty((1 << 60,), np.uint8)[0])
    model.run_eagerly = eagerly
    arguments = (X,) if method == "predict" else (X, Y)
    with pytest.raises(tk.errors.ResourceExhaustedError) as caught:
        getattr(model, method)(*arguments, batch_size=32, verbose=0)
    assert isinstance(caught.value, MemoryError)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(f"{method} of model 'm' ran out of memory in layer 'same'")
    assert "Unable to allocate 1.00 EiB" in lines[0]
    assert "for a batch of 32" in lines[1]
    if method == "fit":
        weights = 11 * 200 * 4
        assert (
            lines[2].split()
            == (
                f"wide (Dense) weights {weights / 1024:.2f} KB, gradients and optimizer "
                f"{weights / 1024:.2f} KB, outputs {32 * 200 * 4 / 1024:.2f} KB"
            ).split()
        )
    assert "smaller batch_size" in lines[-1]


def test_slots_count_and_the_largest_come_first():
    model = model_of(tk.layers.Activation("relu"))
    model.fit(X, Y, verbose=0)
    rows = holdings(model, 64, training=True)
    assert rows[0].name == "wide (Dense)"
    weights = 11 * 200 * 4
    assert rows[0] == ("wide (Dense)", weights, 3 * weights, 64 * 200 * 4)
    assert holdings(model, 64, training=False)[0].training == 0
    assert [row.total for row in rows] == sorted([row.total for row in rows], reverse=True)


def test_layers_of_nested_models_count():
    inner = tk.Sequential([tk.Input((10,)), tk.layers.Dense(7, name="inside")])
    model = tk.Sequential([tk.Input((10,)), inner, tk.layers.Dense(1)])
    assert {row.name for row in holdings(model, 1, False)} >= {"inside (Dense)"}
