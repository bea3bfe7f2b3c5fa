"""Compiled convolutions against the plain ones, and where the plain ones stay."""

import numpy as np
import pytest

from trainkit.kernels import conv_cpu, conv_plain
from trainkit.kernels.windows import Windows

# sizes, window, channels, filters, strides, padding, dilation
CASES = [
    ((9, 11), (3, 3), 4, 16, (1, 1), "valid", (1, 1)),
    ((9, 11), (3, 3), 4, 16, (1, 1), "same", (1, 1)),
    ((9, 11), (3, 3), 4, 16, (2, 2), "same", (1, 1)),
    ((9, 11), (3, 3), 4, 16, (1, 1), "same", (2, 2)),
    ((5, 9), (2, 3), 1, 10, (1, 2), "valid", (1, 1)),
    ((8, 5), (3, 2), 5, 33, (1, 1), ((2, 1), (0, 2)), (1, 1)),
    ((8, 8), (3, 3), 2, 64, (3, 1), "valid", (1, 2)),
    ((4, 4), (5, 5), 7, 96, (1, 1), "same", (1, 1)),
    ((13,), (4,), 6, 16, (1,), "same", (1,)),
]


def arrays(case, rng):
    sizes, window, channels, filters, strides, padding, dilation = case
    w = Windows(sizes, window, strides, padding, dilation)
    x = rng.normal(size=(3, *sizes, channels)).astype("float32")
    kernel = rng.normal(size=(*window, channels, filters)).astype("float32")
    g = rng.normal(size=(3, *w.out, filters)).astype("float32")
    return w, x, kernel, g


@pytest.mark.parametrize("case", CASES, ids=str)
def test_forward_equals_the_plain_version(eager, rng, case):
    w, x, kernel, _ = arrays(case, rng)
    bias = rng.normal(size=kernel.shape[-1]).astype("float32")
    plain = conv_plain.conv(np, w, x, kernel, 1)
    assert plain.shape == (3, *w.out, kernel.shape[-1])
    found = conv_cpu.forward(w, x, kernel, None, False, 1)
    np.testing.assert_allclose(found, plain, atol=1e-4)
    found = conv_cpu.forward(w, x, kernel, bias, True, 1)
    np.testing.assert_allclose(found, np.maximum(plain + bias, 0), atol=1e-4)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_input_gradient_equals_the_plain_version(eager, rng, case):
    w, _, kernel, g = arrays(case, rng)
    found = conv_cpu.input_gradient(w, g, kernel, 1)
    pays = kernel.shape[-2] >= conv_cpu.FEWEST_FILTERS and max(w.strides) == 1
    assert (found is not None) == pays
    if pays:
        plain = conv_plain.conv_input_gradient(np, w, g, kernel, 1)
        np.testing.assert_allclose(found, plain, atol=1e-4)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernel_gradient_equals_the_plain_version(eager, rng, case):
    w, x, _, g = arrays(case, rng)
    found = conv_cpu.kernel_gradient(w, x, g, 1)
    plain = conv_plain.conv_kernel_gradient(np, w, x, g, 1)
    np.testing.assert_allclose(found, plain, atol=1e-4)


def test_the_plain_version_stays_where_the_compiled_one_does_not_pay(eager, rng):
    w, x, kernel, _ = arrays(CASES[0], rng)
    assert (
        conv_cpu.forward(w, x.astype("float64"), kernel.astype("float64"), None, False, 1) is None
    )
    assert conv_cpu.forward(w, x, kernel, None, False, 2) is None
    one = Windows((9, 11), (1, 1), (1, 1), "valid", (1, 1))
    assert conv_cpu.forward(one, x, kernel[:1, :1], None, False, 1) is None
    large = np.zeros((3, 3, 600, 64), "float32")
    assert conv_cpu.forward(w, np.zeros((1, 9, 11, 600), "float32"), large, None, False, 1) is None


def test_arrays_in_another_order_or_read_only_are_taken(eager, rng):
    w, x, kernel, _ = arrays(CASES[0], rng)
    expected = conv_plain.conv(np, w, x, kernel, 1)
    turned = np.asfortranarray(x)
    fixed = kernel.copy()
    fixed.flags.writeable = False
    found = conv_cpu.forward(w, turned, fixed, None, False, 1)
    np.testing.assert_allclose(found, expected, atol=1e-4)
