"""Activations of features plus a bias."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops
from trainkit.core.errors import ShapeError
from trainkit.ops.neural.bias_activation import biased_gelu


def test_it_is_the_activation_of_the_sum(rng):
    z, bias = (tk.constant(rng.normal(size=s).astype("float32")) for s in ((3, 2, 5), (5,)))
    found = biased_gelu(z, bias)
    np.testing.assert_allclose(found, ops.gelu(z + bias, approximate=False), rtol=1e-6, atol=1e-7)


def test_functions_and_eager_calls_agree(rng):
    z, bias = (tk.constant(rng.normal(size=s).astype("float32")) for s in ((300, 400), (400,)))

    def step(z, bias):
        with tk.GradientTape() as tape:
            tape.watch([z, bias])
            y = biased_gelu(z, bias)
        return y, *tape.gradient(y, [z, bias])

    for a, b in zip(step(z, bias), tk.function(step)(z, bias), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("shape", [(4,), (1,), (3, 5), ()])
def test_a_bias_that_does_not_fit_is_shown(shape):
    with pytest.raises(ShapeError, match=r"input  \(3, 5\)\n  bias"):
        biased_gelu(tk.constant(np.ones((3, 5), "float32")), tk.constant(np.ones(shape, "float32")))
