"""The compiled exponential, sigmoid and tanh are good to float32."""

import numpy as np
import pytest

SPREAD = np.concatenate([np.linspace(-87, 88, 20001), np.linspace(-1, 1, 20001), [0.0]])


def applied(name, x):
    """The function `name` of each number, in a loop that is compiled as the kernels are."""
    pytest.importorskip("numba")
    from trainkit.kernels.elementwise import vector_math
    from trainkit.kernels.jit import options

    function = getattr(vector_math, name)

    @options.compiled(parallel=False)
    def apply(x, y):
        for i in range(x.size):
            y[i] = function(x[i])

    y = np.empty_like(x)
    apply(x, y)
    return y


@pytest.mark.parametrize(
    ("name", "exact", "tolerance"),
    [
        ("exponential", np.exp, 3e-7),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), 4e-7),
        ("tanh", np.tanh, 2e-6),
    ],
)
def test_relative_error_is_that_of_float32(name, exact, tolerance):
    x = SPREAD.astype("float32")
    y = applied(name, x)
    np.testing.assert_allclose(y, exact(x.astype("float64")), rtol=tolerance, atol=1e-38)


@pytest.mark.parametrize(
    ("name", "below", "above"), [("exponential", 0, np.inf), ("sigmoid", 0, 1), ("tanh", -1, 1)]
)
def test_limits_are_reached_and_nan_stays(name, below, above):
    x = np.array([-np.inf, -200, np.inf, 1e30, np.nan] * 16, "float32")
    found = applied(name, x)[:5]
    np.testing.assert_array_equal(found, np.float32([below, below, above, above, np.nan]))
