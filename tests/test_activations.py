"""Activations by name, and relu's settings."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import activations, ops
from trainkit.core.errors import InvalidArgumentError

X = np.array([-3.0, -0.5, 0.0, 0.5, 7.0], "float32")


def test_relu_with_settings():
    np.testing.assert_allclose(
        activations.relu(X, negative_slope=0.1).numpy(), [-0.3, -0.05, 0, 0.5, 7]
    )
    assert activations.relu(X, max_value=6).numpy().max() == 6
    np.testing.assert_allclose(
        activations.relu(X, threshold=1.0, negative_slope=0.5).numpy(), [-2, -0.75, -0.5, -0.25, 7]
    )
    with pytest.raises(InvalidArgumentError, match="0 or more"):
        activations.relu(X, negative_slope=-1.0)


def test_gelu_is_exact_by_default():
    assert not np.allclose(activations.gelu(X).numpy(), ops.gelu(X).numpy(), atol=1e-7)


@pytest.mark.parametrize("name", sorted(activations.ACTIVATIONS.named))
def test_every_name_gives_a_function_that_works(name):
    function = activations.get(name)
    more = {"threshold": (0.1, -1.0)}.get(name, ())
    x = np.linspace(-2, 2, 8, dtype="float32").reshape(2, 4)
    y = function(x, *more)
    assert y.shape[0] == 2
    assert np.isfinite(np.asarray(y)).all()
    assert activations.get(activations.serialize(function)) is function


def test_none_means_linear_and_own_functions_pass():
    assert activations.get(None) is activations.linear
    assert activations.get(ops.tanh) is ops.tanh
    with pytest.raises(ValueError, match="is no activation"):
        activations.get("rleu")


# Keras 3.15 on TensorFlow 2.21: value and slope at [-2, -1, 0, 0.5, 1, 1.5, 2, 6, 7].
AT = np.float32([-2, -1, 0, 0.5, 1, 1.5, 2, 6, 7])
RELUS = [
    ({}, [0, 0, 0, 0.5, 1, 1.5, 2, 6, 7], [0, 0, 0, 1, 1, 1, 1, 1, 1]),
    ({"threshold": 1.0}, [0, 0, 0, 0, 0, 1.5, 2, 6, 7], [0, 0, 0, 0, 0, 1, 1, 1, 1]),
    (
        {"negative_slope": 0.5},
        [-1, -0.5, 0, 0.5, 1, 1.5, 2, 6, 7],
        [0.5, 0.5, 0.5, 1, 1, 1, 1, 1, 1],
    ),
    (
        {"negative_slope": 0.5, "threshold": 1.0},
        [-1.5, -1, -0.5, -0.25, 0, 1.5, 2, 6, 7],
        [0.5, 0.5, 0.5, 0.5, 0, 1, 1, 1, 1],
    ),
    ({"max_value": 6.0}, [0, 0, 0, 0.5, 1, 1.5, 2, 6, 6], [0, 0, 0, 1, 1, 1, 1, 0, 0]),
    (
        {"negative_slope": 0.5, "threshold": 1.0, "max_value": 1.5},
        [-1.5, -1, -0.5, -0.25, 0, 1.5, 1.5, 1.5, 1.5],
        [0.5, 0.5, 0.5, 0.5, 0, 1, 0, 0, 0],
    ),
    ({"threshold": -1.0}, [0, 0, 0, 0.5, 1, 1.5, 2, 6, 7], [0, 0, 1, 1, 1, 1, 1, 1, 1]),
]


@pytest.mark.parametrize("copies", [1, 20_000 // len(AT)], ids=["small", "large"])
@pytest.mark.parametrize(("settings", "values", "slopes"), RELUS, ids=lambda x: str(x)[:40])
def test_relu_at_its_corners(settings, values, slopes, copies):
    x = tk.constant(np.tile(AT, copies))
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = activations.relu(x, **settings)
    np.testing.assert_array_equal(y, np.tile(np.float32(values), copies))
    assert not np.signbit(y.numpy()[y.numpy() == 0]).any()
    np.testing.assert_array_equal(tape.gradient(y, x), np.tile(np.float32(slopes), copies))


def test_relu_of_whole_numbers_stays_whole():
    y = activations.relu(tk.constant([-1, 2, 3]), threshold=2)
    assert y.dtype == tk.int32
    assert y.numpy().tolist() == [0, 0, 3]
