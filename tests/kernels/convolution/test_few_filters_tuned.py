"""Convolutions of few filters in blocks of windows: against the plain ones, and when they serve."""

import functools
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainkit as tk
from trainkit.kernels.convolution import conv_reference, conv_tuned, few_filters_tuned
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.matmul.prepared_weights import PreparedWeights
from trainkit.kernels.normalization.norm_tuned import NONE
from trainkit.kernels.repeated.repeated_convolution import RepeatedConvolution
from trainkit.kernels.threads import pools

PADDINGS = ["same", "valid", ((1, 2), (0, 1)), ((0, 2), (2, 2))]
SERVED = (4, (28, 28), (3, 3), 32, 3, "same")


@pytest.fixture(autouse=True)
def always(eager, monkeypatch):
    """Small convolutions are made in this way too."""
    monkeypatch.setattr(few_filters_tuned, "LEAST_WORK", 0)


def arrays(case, rng):
    """Windows, and operands of few filters; then gradients and a kernel of few channels."""
    batch, sizes, window, channels, filters, padding = case
    w = Windows(sizes, window, (1, 1), padding, (1, 1))
    x = rng.normal(size=(batch, *sizes, channels)).astype("float32")
    kernel = rng.normal(size=(*window, channels, filters)).astype("float32")
    g = rng.normal(size=(batch, *w.out, filters)).astype("float32")
    wide_g = rng.normal(size=(batch, *w.out, channels)).astype("float32")
    return w, x, kernel, g, wide_g, np.ascontiguousarray(kernel.swapaxes(-1, -2))


def plain(w, x, kernel, g, wide_g, turned):
    return [
        conv_reference.conv(np, w, x, kernel, 1),
        conv_reference.conv_input_gradient(np, w, wide_g, turned, 1),
        conv_reference.conv_kernel_gradient(np, w, x, g, 1),
    ]


def exactly(w, *operands):
    return plain(w, *(a.astype("float64") for a in operands))


def tuned(w, x, kernel, g, wide_g, turned):
    return [
        conv_tuned.forward(w, x, kernel, None, False, 1),
        conv_tuned.input_gradient(w, wide_g, turned, 1),
        conv_tuned.kernel_gradient(w, x, g, 1),
    ]


def error(result, exact):
    """The largest error as a part of the largest number."""
    return np.abs(result - exact).max() / max(np.abs(exact).max(), 1e-30)


@pytest.mark.parametrize("padding", PADDINGS, ids=str)
@pytest.mark.parametrize("window", [(3, 3), (4, 4), (2, 5), (5, 2), (7, 7)], ids=str)
@pytest.mark.parametrize("filters", [1, 2, 3, 5])
def test_results_and_gradients_are_those_of_direct_sums(rng, monkeypatch, filters, window, padding):
    made = []
    for name in ("forward", "input_gradient", "swapped_gradient"):
        make = getattr(few_filters_tuned, name)
        monkeypatch.setattr(
            few_filters_tuned, name, lambda *a, make=make: made.append(None) or make(*a)
        )
    for sizes in ((8, 8), (9, 11), (7, 14)):
        operands = arrays((2, sizes, window, 18, filters, padding), rng)
        for result, exact in zip(tuned(*operands), exactly(*operands), strict=True):
            if result is None:  # gradients by a single channel
                assert filters == 1
                continue
            assert result.shape == exact.shape
            assert result.dtype == np.float32
            assert error(result, exact) < 2e-6
    assert made


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 3),
    st.tuples(st.integers(1, 12), st.integers(1, 12)),
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.integers(16, 40),
    st.integers(1, 8),
    st.tuples(*[st.tuples(st.integers(0, 5), st.integers(0, 5))] * 2),
    st.integers(0, 1 << 30),
)
def test_any_sizes_and_paddings(batch, sizes, window, channels, filters, padding, seed):
    sizes = tuple(max(n, k - sum(p)) for n, k, p in zip(sizes, window, padding, strict=True))
    case = batch, sizes, window, channels, filters, padding
    operands = arrays(case, np.random.default_rng(seed))
    for result, exact in zip(tuned(*operands), exactly(*operands), strict=True):
        if result is not None:  # gradients by a single channel are left to the plain version
            assert error(result, exact) < 5e-6


@pytest.mark.parametrize(
    ("window", "filters", "block"),
    [
        ((3, 3), 1, (4, 4)),
        ((3, 3), 2, (2, 4)),
        ((7, 7), 3, (2, 2)),
        ((3, 3), 4, (2, 2)),
        ((3, 3), 8, (1, 2)),
        ((3, 3), 9, (1, 1)),
        ((1, 9), 3, (1, 4)),
    ],
)
def test_a_block_fills_the_lanes_with_the_fewest_products(window, filters, block):
    assert few_filters_tuned.block_of(window, filters) == block


def test_bias_and_rectifier_come_after_the_sums(rng):
    w, x, kernel, *_ = arrays(SERVED, rng)
    bias = rng.normal(size=3).astype("float32") * 10
    shifted = few_filters_tuned.forward(w, x, kernel, bias, -math.inf, 1.0)
    rectified = few_filters_tuned.forward(w, x, kernel, bias, 0.0, 1.0)
    exact = exactly(*arrays(SERVED, rng))[0]
    exact = conv_reference.conv(np, w, x.astype("float64"), kernel.astype("float64"), 1) + bias
    assert error(shifted, exact) < 2e-6
    np.testing.assert_array_equal(rectified, np.maximum(shifted, 0))


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_threads_change_no_bit(monkeypatch, rng, threads):
    operands = arrays(SERVED, rng)
    before = tuned(*operands)
    monkeypatch.setattr(pools, "compute_threads", lambda: threads)
    monkeypatch.setattr(pools, "planned_threads", lambda: threads)
    for a, b in zip(before, tuned(*operands), strict=True):
        np.testing.assert_array_equal(a, b)


def test_repeated_calls_have_the_bits_of_the_first(rng):
    w, x, kernel, *_ = arrays(SERVED, rng)
    bias = rng.normal(size=3).astype("float32")
    repeated = RepeatedConvolution(PreparedWeights(), True, NONE, lambda *_: None)
    expected = conv_tuned.forward(w, x, kernel, bias, True, 1)
    for _ in range(5):
        y = repeated.calls(x, kernel, bias, None, None, None)
        if y is None:
            y = repeated.first(w, 1, x, kernel, bias, None)
        np.testing.assert_array_equal(y, expected)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # infinity less infinity
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("index", [0, -1, 77])
@pytest.mark.parametrize("which", range(5))
def test_what_is_not_finite_stays_in_the_windows_that_see_it(rng, value, index, which):
    w, *operands = arrays((2, (9, 10), (3, 3), 18, 2, "same"), rng)
    operands[which].reshape(-1)[index] = value
    for result, exact in zip(tuned(w, *operands), plain(w, *operands), strict=True):
        if result is not None:  # else the plain version serves
            np.testing.assert_array_equal(np.isnan(result), np.isnan(exact))
            np.testing.assert_array_equal(np.isfinite(result), np.isfinite(exact))
            finite = np.abs(exact) < 1e30
            np.testing.assert_allclose(result[finite], exact[finite], rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("w", "channels", "filters", "groups", "expected"),
    [
        (Windows((9, 9), (3, 3), (1, 1), "same", (1, 1)), 32, 3, 1, True),
        (Windows((9, 9), (3, 3), (1, 1), "same", (1, 1)), 32, 9, 1, False),
        (Windows((9, 9), (3, 3), (1, 1), "same", (1, 1)), 32, 2, 2, False),
        (Windows((9, 9), (3, 3), (2, 2), "same", (1, 1)), 32, 3, 1, False),
        (Windows((9, 9), (3, 3), (1, 1), "same", (2, 2)), 32, 3, 1, False),
        (Windows((9, 9), (1, 1), (1, 1), "same", (1, 1)), 32, 3, 1, False),
        (Windows((9,), (3,), (1,), "same", (1,)), 32, 3, 1, False),
    ],
)
def test_shapes_decide(monkeypatch, w, channels, filters, groups, expected):
    assert few_filters_tuned.serves_forward(w, 2, channels, filters, groups) is expected
    monkeypatch.setattr(few_filters_tuned, "LEAST_WORK", 1 << 40)
    assert not few_filters_tuned.serves_forward(w, 2, channels, filters, groups)


def step_of(model, optimizer):
    def step(x, y):
        with tk.GradientTape() as tape:
            loss = tk.reduce_mean((model(x) - y) ** 2)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        return loss

    return step


def test_a_step_has_the_same_bits_eagerly_and_compiled(rng):
    x = tk.constant(rng.normal(size=(2, 12, 12, 16)).astype("float32"))
    y = tk.constant(rng.normal(size=(2, 12, 12, 1)).astype("float32"))
    weights = []
    jit = functools.partial(tk.function, jit_compile=True)
    for wrap in (lambda step: step, tk.function, jit):
        tk.random.set_seed(3)
        model = tk.Sequential(
            [
                tk.layers.Conv2D(3, 3, padding="same", activation="relu"),
                tk.layers.Conv2D(16, 3, padding="same", activation="relu"),
                tk.layers.Conv2DTranspose(1, 3, padding="same", activation="sigmoid"),
            ]
        )
        model.build(x.shape)
        step = wrap(step_of(model, tk.optimizers.SGD(0.01)))
        for _ in range(3):
            step(x, y)
        weights.append([v.numpy() for v in model.trainable_variables])
    for eagerly, *others in zip(*weights, strict=True):
        for other in others:
            np.testing.assert_array_equal(eagerly, other)


def test_bfloat16_is_summed_in_float32_and_rounded_once(rng):
    w, x, kernel, *_ = arrays(SERVED, rng)
    short = x.astype(ml_dtypes.bfloat16)
    result = few_filters_tuned.forward(w, short, kernel, None, -math.inf, 1.0)
    exact = few_filters_tuned.forward(w, short.astype("float32"), kernel, None, -math.inf, 1.0)
    assert result.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(result.view("u2"), exact.astype(ml_dtypes.bfloat16).view("u2"))
