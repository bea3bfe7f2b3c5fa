"""`gelu` in both forms and its gradients keep their digits where 1 + tanh or 1 + erf cancels."""

import math

import numpy as np
import pytest

import trainkit as tk
from trainkit.kernels.elementwise.elementwise_tuned import PARALLEL
from trainkit.kernels.jit import kernel_family
from trainkit.ops.neural.bias_activation import biased_gelu
from trainkit.saved_graph.standalone import OPERATIONS

SCALE, CUBIC = 2 * math.sqrt(2 / math.pi), 0.044715
X = np.linspace(-7, 7, 281)
# A number near 50 is rounded in the exponent.
NEAR = {"float64": 2e-14, "float32": 1.5e-5, "float16": 1e-3, "bfloat16": 8e-3}
LEAST = {"float64": 0, "float32": 1e-37, "float16": 6e-8, "bfloat16": 1e-37}


def derivatives_by_tanh(x):
    """x * s with s = 1 / (1 + exp(-v)), and its first two derivatives."""
    v, slope, bend = SCALE * (x + CUBIC * x**3), SCALE * (1 + 3 * CUBIC * x**2), 6 * SCALE * CUBIC
    s, rest = 1 / (1 + np.exp(-v)), 1 / (1 + np.exp(v))
    once = s * rest * slope
    twice = s * rest * ((rest - s) * slope**2 + bend * x)
    return x * s, s + x * once, 2 * once + x * twice


def derivatives_by_erf(x):
    """x times the normal distribution function, and its first two derivatives."""
    share = np.vectorize(lambda t: 0.5 * math.erfc(-t * math.sqrt(0.5)))(x)
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return x * share, share + x * density, (2 - x * x) * density


FORMS = {True: derivatives_by_tanh, False: derivatives_by_erf}


def by_tapes(x, approximate):
    with tk.GradientTape() as outer:
        outer.watch(x)
        with tk.GradientTape() as inner:
            inner.watch(x)
            y = tk.ops.gelu(x, approximate)
        slope = inner.gradient(y, x)
    return y, slope, outer.gradient(slope, x)


@pytest.mark.parametrize("dtype", NEAR)
@pytest.mark.parametrize("mode", ["eager", "off"])
@pytest.mark.parametrize("approximate", FORMS)
def test_the_tails_of_gelu_are_relative(device, dtype, mode, approximate):
    kernel_family.set_mode(mode)
    sizes = (len(X), PARALLEL + 1) if dtype == "float32" and mode == "eager" else (len(X),)
    for size in sizes:
        with tk.device(device):
            x = tk.cast(tk.constant(np.resize(X, size)), dtype)
            runs = by_tapes(x, approximate), tk.function(by_tapes)(x, approximate)
        x = tk.cast(x, "float64").numpy()
        expected = FORMS[approximate](x)
        for results in runs:
            for order, (found, right) in enumerate(zip(results, expected, strict=True)):
                assert found.dtype == dtype
                found, half = tk.cast(found, "float64").numpy(), dtype in ("float16", "bfloat16")
                np.testing.assert_allclose(
                    found, right, NEAR[dtype], 4 * NEAR[dtype] * (8 if half else 1)
                )
                # The second derivative is made of operations, each of which rounds halves.
                if order < 2 or not half:
                    near, least = NEAR[dtype], LEAST[dtype]
                    np.testing.assert_allclose(found[x < -3.5], right[x < -3.5], near, least)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gelu_by_tanh_falls_to_minus_zero(device, dtype):
    with tk.device(device):
        y = tk.ops.gelu(tk.cast([-1e4, -40.0, -0.0], dtype), approximate=True).numpy()
    assert np.signbit(y).all()
    assert (y == 0).all()


@pytest.mark.parametrize("mode", ["eager", "off"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gelu_of_infinities_and_nan(mode, dtype):
    kernel_family.set_mode(mode)
    x = tk.constant([np.inf, -np.inf, np.nan], dtype)
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = tk.ops.gelu(x, approximate=False)
    np.testing.assert_array_equal(y.numpy(), [np.inf, 0, np.nan])
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), [1, 0, np.nan])


@pytest.mark.parametrize("mode", ["eager", "off"])
def test_the_tails_of_gelu_with_a_bias_are_those_of_the_sum(mode):
    kernel_family.set_mode(mode)
    z, bias = tk.constant(np.resize(X, (64, 33)), "float32"), tk.linspace(-1.0, 1.0, 33)
    with tk.GradientTape(persistent=True) as tape:
        tape.watch([z, bias])
        biased, summed = biased_gelu(z, bias), tk.ops.gelu(z + bias, approximate=False)
    np.testing.assert_array_equal(biased.numpy(), summed.numpy())
    for source in (z, bias):
        a, b = tape.gradient(biased, source), tape.gradient(summed, source)
        np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-5, 1e-37)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("approximate", FORMS)
def test_the_reader_without_trainkit_has_the_same_tails(dtype, approximate):
    x = X.astype(dtype)
    right = FORMS[approximate](x.astype("float64"))[0]
    found = OPERATIONS["gelu_tanh" if approximate else "gelu_erf"](x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, right, NEAR[dtype], LEAST[dtype])
