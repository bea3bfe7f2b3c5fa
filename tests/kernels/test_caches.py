"""The sizes of caches decide how work is cut, and on no bit of a result."""

import numpy as np
import pytest

from trainkit.core.tensor import PRIMITIVES
from trainkit.kernels.convolution import conv_layout
from trainkit.kernels.matmul import product_tuned

_PLANS = conv_layout.forward, conv_layout.backward, conv_layout.weights, product_tuned._blocks
_WHERE = {"strides": (1, 1), "padding": "same", "dilation_rate": (1, 1)}


@pytest.fixture
def cached(monkeypatch):
    """A function that sets the bytes of the first and the second cache."""

    def with_caches(first, second):
        for module in (conv_layout, product_tuned):
            monkeypatch.setattr(module, "cache_bytes", {1: first, 2: second}.get)
        for plan in _PLANS:
            plan.cache_clear()

    yield with_caches
    monkeypatch.undo()
    for plan in _PLANS:
        plan.cache_clear()


def results(rng, channels, filters):
    """A convolution, its gradients, and two products, by the compiled kernels."""
    x, g = (rng.normal(size=(5, 14, 14, n)).astype("float32") for n in (channels, filters))
    kernel = rng.normal(size=(3, 3, channels, filters)).astype("float32")
    a, b = (rng.normal(size=shape).astype("float32") for shape in ((300, 500), (500, 700)))

    def tuned(name, *arrays, **settings):
        return PRIMITIVES[name].facets.tuned.run(*arrays, **settings)

    return [
        tuned("conv", x, kernel, None, activation=None, **_WHERE),
        tuned("conv_input_gradient", g, kernel, x, **_WHERE),
        tuned("conv_kernel_gradient", x, g, kernel_size=(3, 3), groups=1, **_WHERE),
        product_tuned.product(a, b),
        product_tuned.product(np.asfortranarray(a), b),
    ]


@pytest.mark.parametrize("filters", [24, 128])
@pytest.mark.parametrize("sizes", [(1 << 9, 1 << 12), (1 << 14, 1 << 17), (1 << 20, 1 << 26)])
def test_results_are_the_same_bits_whatever_the_caches(eager, cached, filters, sizes):
    cached(48 << 10, 1 << 20)
    wanted = results(np.random.default_rng(0), 70, filters)
    cached(*sizes)
    found = results(np.random.default_rng(0), 70, filters)
    for one, other in zip(found, wanted, strict=True):
        assert one is not None
        np.testing.assert_array_equal(one, other)
