"""Tensors around a traced function have gradients, as arguments have."""

import pytest

import trainkit as tk


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex64"])
def test_gradients_by_a_tensor_that_a_function_refers_to(dtype):
    x = tk.constant(2.0, dtype)
    scale = tk.function(lambda z: x * z * x)
    for value in (3.0, 5.0):  # traced under the tape, then the same graph again
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = scale(tk.constant(value, dtype))
        assert tape.gradient(y, x).numpy() == 4 * value
        assert scale(tk.constant(value, dtype)).numpy() == 4 * value


def test_gradients_by_a_computed_tensor_that_a_function_refers_to():
    w = tk.Variable(3.0)
    with tk.GradientTape() as tape:
        x = w * w
        y = tk.function(lambda z: x * z)(tk.constant(5.0))
    assert float(tape.gradient(y, w)) == 30.0
