"""Functions of numbers that are written from formulas over arrays: the bits of the formulas."""

import numpy as np
import pytest

pytest.importorskip("numba")

from trainkit.kernels.elementwise import elementwise_reference
from trainkit.kernels.elementwise.formula_text import number_function

FUNCTIONS = {"exp": np.exp, "log1p": np.log1p}
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 6, -6, 1e-30]
FORMULAS = {
    "relu": 1, "relu6": 1, "relu_gradient": 2, "clip": 1, "sigmoid": 1, "softplus": 1,
    "silu": 1, "silu_gradient": 2, "erf": 1, "gelu_tanh": 1, "gelu_tanh_gradient": 2,
    "leaky_relu": 1, "hard_sigmoid": 1, "hard_silu": 1, "hard_silu_gradient": 2,
    "elu_gradient": 2, "selu_gradient": 2, "rsqrt": 1,
}  # fmt: skip
SETTINGS = {
    "clip": {"x_min": -0.5, "x_max": 0.25},
    "leaky_relu": {"negative_slope": 0.3},
    "elu_gradient": {"alpha": 0.7},
}


@pytest.mark.parametrize("name", FORMULAS)
def test_each_element_has_the_bits_of_the_formula(name, rng):
    body = getattr(elementwise_reference, name)
    settings = SETTINGS.get(name, {})
    x = (rng.normal(size=100) * 4).astype("float32")
    x[: len(SPECIAL)] = SPECIAL
    arrays = [rng.normal(size=100).astype("float32"), x][-FORMULAS[name] :]
    function = number_function(body, ["float32"] * len(arrays), FUNCTIONS)
    with np.errstate(all="ignore"):
        expected = body(np, *arrays, **settings)
        numbers = [np.float32(value) for value in settings.values()]
        found = [function(*elements, *numbers) for elements in zip(*arrays, strict=True)]
    np.testing.assert_array_equal(np.float32(found), expected)
    signs = np.signbit(expected) == np.signbit(np.float32(found))
    assert np.all(signs | np.isnan(expected))


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_a_limit_that_is_an_array_may_hold_nan(name):
    limit = getattr(np, name)

    def body(xp, x, y):
        return limit(x, y)

    function = number_function(body, ["float32"] * 2)
    x, y = (a.reshape(-1) for a in np.meshgrid(*[np.float32(SPECIAL)] * 2))
    found = [function(*pair) for pair in zip(x, y, strict=True)]
    np.testing.assert_array_equal(np.float32(found), limit(x, y))


def test_functions_are_those_that_are_told():
    function = number_function(
        elementwise_reference.sigmoid, ["float32"], {"exp": lambda x: np.float32(3)}
    )
    assert function(np.float32(0)) == 0.25


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda xp, x: xp.sin(x), "sin has no text for Numba"),
        (lambda xp, x: xp.clip(x, -1, x * x), "clip by an array has no text for Numba"),
        (lambda xp, x: x * np.float64(3), "computes in other dtypes than float32"),
        (lambda xp, x: x * (x > 0) * np.int32(2), "computes in other dtypes than float32"),
    ],
)
def test_formulas_without_a_text_are_refused(body, message):
    with pytest.raises(NotImplementedError, match=message):
        number_function(body, ["float32"])
