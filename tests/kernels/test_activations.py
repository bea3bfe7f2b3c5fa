"""The compiled exponential, sigmoid and tanh are good to float32."""

import numpy as np
import pytest

SPREAD = np.concatenate([np.linspace(-90, 89, 20001), np.linspace(-1, 1, 20001), [0.0]])


@pytest.mark.parametrize(
    ("name", "exact", "tolerance"),
    [
        ("exponential", lambda x: np.exp(np.clip(x, -87, 88)), 3e-7),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-np.clip(x, -88, 87))), 4e-7),
        ("tanh", np.tanh, 2e-6),
    ],
)
def test_relative_error_is_that_of_float32(name, exact, tolerance):
    numba = pytest.importorskip("numba")
    from trainkit.kernels.compiled import activations

    function = getattr(activations, name)

    @numba.njit
    def apply(x, y):
        for i in range(x.size):
            y[i] = function(x[i])

    x = SPREAD.astype("float32")
    y = np.empty_like(x)
    apply(x, y)
    np.testing.assert_allclose(y, exact(x.astype("float64")), rtol=tolerance, atol=1e-38)
