"""Compiled activations of rows plus a bias against the plain ones."""

import numpy as np
import pytest

from trainkit.kernels.elementwise import bias_activation_tuned
from trainkit.kernels.elementwise.elementwise_tuned import PARALLEL
from trainkit.kernels.jit import array_kernel, kernel_family
from trainkit.ops.neural.bias_activation import biased_gelu, biased_gelu_gradient

SHAPES = [(PARALLEL // 40 + 3, 41), (3, PARALLEL // 2), (5, PARALLEL // 30, 7), (1, 1), (2, 3)]


@pytest.fixture
def given(rng, request):
    g, z = (4 * rng.normal(size=(2, *request.param))).astype("float32")
    return g, z, rng.normal(size=request.param[-1]).astype("float32")


@pytest.mark.parametrize("given", SHAPES, indirect=True)
@pytest.mark.parametrize("turned", [False, True])
def test_they_equal_the_formulas_in_float64(eager, given, turned):
    wide = [a.astype("float64") for a in given]
    g, z, bias = map(np.asfortranarray, given) if turned else given
    y, (by_z, by_bias) = (
        bias_activation_tuned.gelu(z, bias),
        bias_activation_tuned.gelu_gradient(g, z, bias),
    )
    kernel_family.set_mode("off")
    np.testing.assert_allclose(y, biased_gelu.primitive.run(wide[1:], {}), atol=4e-6)
    expected = biased_gelu_gradient.primitive.run(wide, {})
    np.testing.assert_allclose(by_z, expected[0], atol=2e-5)
    np.testing.assert_allclose(by_bias, expected[1], atol=2e-3)


@pytest.mark.parametrize("given", SHAPES[:1], indirect=True)
def test_the_same_bits_by_one_thread_and_by_several(eager, given, monkeypatch):
    several = bias_activation_tuned.gelu_gradient(*given)
    monkeypatch.setattr(array_kernel, "shared", lambda work: (0, 1))
    for a, b in zip(several, bias_activation_tuned.gelu_gradient(*given), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("given", SHAPES[:1], indirect=True)
def test_other_dtypes_are_left_to_the_plain_version(eager, given):
    g, z, bias = given
    assert bias_activation_tuned.gelu(z, bias.astype("float64")) is None
    assert bias_activation_tuned.gelu_gradient(g.astype("float64"), z, bias) is None
