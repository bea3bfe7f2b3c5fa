"""`ops.vectorize` against NumPy's."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops

RNG = np.random.default_rng(5)


def test_elements_broadcast_as_numpys_do():
    def slope(x, y):
        return x * 2.0 + y

    x, y = RNG.normal(size=(3, 1)), RNG.normal(size=4)
    np.testing.assert_allclose(ops.vectorize(slope)(x, y).numpy(), np.vectorize(slope)(x, y))


def test_a_signature_hands_over_whole_axes():
    a, b = RNG.normal(size=(5, 2, 3)), RNG.normal(size=3)
    got = ops.vectorize(lambda m, v: ops.sum(m * v, axis=-1), signature="(m,n),(n)->(m)")(a, b)
    np.testing.assert_allclose(got.numpy(), a @ b, rtol=1e-12)


def test_several_results():
    x = RNG.normal(size=(2, 3))
    low, high = ops.vectorize(lambda v: (ops.min(v), ops.max(v)), signature="(n)->(),()")(x)
    np.testing.assert_allclose(low.numpy(), x.min(1))
    np.testing.assert_allclose(high.numpy(), x.max(1))


def test_excluded_arguments_are_handed_over_as_they_are():
    seen = []

    def power(x, kind, exponent=1):
        seen.append((kind, exponent))
        return x**exponent

    got = ops.vectorize(power, excluded={1, "exponent"})(np.arange(3.0), "text", exponent=2)
    np.testing.assert_array_equal(got.numpy(), [0, 1, 4])
    assert set(seen) == {("text", 2)}


def test_gradients_go_through():
    x = tk.constant([1.0, 2.0])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = ops.vectorize(lambda v: v * v * v)(x)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), [3.0, 12.0])


def test_what_does_not_fit_is_refused():
    with pytest.raises(TypeError, match="function"):
        ops.vectorize(3)
    with pytest.raises(ValueError, match="signature"):
        ops.vectorize(abs, signature="m,n->m")
    with pytest.raises(ValueError, match="2 arguments, 1"):
        ops.vectorize(lambda a, b: a, signature="(n),(n)->()")(np.ones(3))
    with pytest.raises(ValueError, match="size 3 and size 4"):
        ops.vectorize(lambda a, b: a, signature="(n),(n)->(n)")(np.ones(3), np.ones(4))
    with pytest.raises(ValueError, match="asks for the axes"):
        ops.vectorize(lambda a: a, signature="(m,n)->()")(np.ones(3))
    with pytest.raises(ValueError, match="excluded"):
        ops.vectorize(lambda a, k=1: a)(np.ones(3), k=2)
