"""Chebyshev series in one pass have the bits of NumPy's steps."""

import numpy as np
import pytest

import trainkit as tk
from tests.core.dispatch.test_direct_indexing import assert_alike
from trainkit.core.dispatch import native
from trainkit.kernels.special import chebyshev

pytestmark = pytest.mark.skipif(native.NATIVE is None, reason="there is no compiled half")

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e-40]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 2, 5, 40, 64, 65])
@pytest.mark.parametrize("dims", [(), (0,), (1,), (8,), (3, 11), (257,), (40, 130)])
def test_series_have_the_bits_of_numpy(dtype, count, dims):
    generator = np.random.default_rng(count)
    coefficients = tuple(generator.standard_normal(count).tolist())
    t = np.asarray(generator.uniform(-1, 1, dims), dtype)
    t.reshape(-1)[: len(SPECIAL)] = SPECIAL[: t.size]
    for array in (t, t.T, np.concatenate([t.reshape(-1)] * 2)[::2]):
        assert_alike(lambda array=array: tk.constant(chebyshev.series_at(np, coefficients, array)))


@pytest.mark.parametrize("name", ["bessel_j0", "bessel_y1", "bessel_k0", "bessel_i1", "spence"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_functions_made_of_series_have_the_bits_of_numpy(name, dtype):
    x = np.random.default_rng(0).standard_normal((30, 50)) * 12
    x[0, : len(SPECIAL)] = SPECIAL
    function = getattr(tk.math, name, None) or getattr(tk.math.special, name)
    assert_alike(lambda: function(tk.constant(x.astype(dtype))))
    assert_alike(lambda: function(tk.transpose(tk.constant(x.astype(dtype)))))
