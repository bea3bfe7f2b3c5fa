"""Convolutions with stride 2 by transforms of phases: against direct sums, and when they serve."""

import functools
import itertools
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainkit as tk
from trainkit.kernels.convolution import (
    conv_reference,
    conv_tuned,
    phase_copies_tuned,
    phases_tuned,
    winograd_tuned,
)
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.matmul.prepared_weights import PreparedWeights
from trainkit.kernels.normalization.norm_tuned import NONE
from trainkit.kernels.repeated.repeated_convolution import RepeatedConvolution
from trainkit.kernels.threads import pools

PADDINGS = ["same", "valid", ((1, 1), (2, 2)), ((3, 0), (0, 4)), ((0, 3), (1, 5)), ((2, 1), (5, 2))]
SERVED = (4, (32, 32), (6, 6), 16, 32, "same")
"""Forward and both gradients are made by phases."""


def arrays(case, rng):
    batch, sizes, window, channels, filters, padding = case
    w = Windows(sizes, window, (2, 2), padding, (1, 1))
    x = rng.normal(size=(batch, *sizes, channels)).astype("float32")
    kernel = rng.normal(size=(*window, channels, filters)).astype("float32")
    g = rng.normal(size=(batch, *w.out, filters)).astype("float32")
    return w, x, kernel, g


def plain(w, x, kernel, g):
    return [
        conv_reference.conv(np, w, x, kernel, 1),
        conv_reference.conv_input_gradient(np, w, g, kernel, 1),
        conv_reference.conv_kernel_gradient(np, w, x, g, 1),
    ]


def direct(w, x, kernel, g):
    """The three results in float64."""
    return plain(w, *(a.astype("float64") for a in (x, kernel, g)))


def by_phases(w, x, kernel, g, bias=None, low=-math.inf):
    return [
        phases_tuned.forward(w, x, kernel, bias, low, 1.0),
        phases_tuned.input_gradient(w, g, kernel, 1.0),
        phases_tuned.kernel_gradient(w, x, g, 1.0),
    ]


def tuned(w, x, kernel, g):
    return [
        conv_tuned.forward(w, x, kernel, None, False, 1),
        conv_tuned.input_gradient(w, g, kernel, 1),
        conv_tuned.kernel_gradient(w, x, g, 1),
    ]


SCALE = (
    1.0  # of operands and their products: transforms round to a part of these where sums are small
)


def error(result, exact):
    """The largest error as a part of the largest number."""
    return np.abs(result - exact).max() / max(np.abs(exact).max(), SCALE)


@pytest.fixture(autouse=True)
def compiled(eager):
    """Hypothesis takes no fixture of a single test."""


@pytest.fixture
def always(monkeypatch):
    """All windows that can be are made by phases, whether it pays or not."""
    for name in ("PHASES", "PHASES_BACK", "PHASE_GRADIENTS"):
        costs = getattr(phases_tuned, name)
        monkeypatch.setattr(phases_tuned, name, costs._replace(gain=0.0))


@pytest.mark.parametrize("padding", PADDINGS, ids=str)
@pytest.mark.parametrize("window", [*itertools.product((3, 4, 5, 6), repeat=2)], ids=str)
def test_results_and_gradients_are_those_of_direct_sums(rng, window, padding):
    for sizes in ((8, 8), (9, 12), (13, 7)):
        operands = arrays((2, sizes, window, 5, 18, padding), rng)
        for result, exact in zip(by_phases(*operands), direct(*operands), strict=True):
            assert result.shape == exact.shape
            assert result.dtype == np.float32
            assert error(result, exact) < 5e-6


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 3),
    st.tuples(st.integers(1, 15), st.integers(1, 15)),
    st.tuples(st.integers(3, 6), st.integers(3, 6)),
    st.integers(1, 40),
    st.integers(1, 40),
    st.tuples(*[st.tuples(st.integers(0, 5), st.integers(0, 5))] * 2),
    st.integers(0, 1 << 30),
)
def test_any_sizes_and_paddings(batch, sizes, window, channels, filters, padding, seed):
    sizes = tuple(max(n, k - sum(p)) for n, k, p in zip(sizes, window, padding, strict=True))
    case = batch, sizes, window, channels, filters, padding
    operands = arrays(case, np.random.default_rng(seed))
    for result, exact in zip(by_phases(*operands), direct(*operands), strict=True):
        assert error(result, exact) < 1e-5


def test_no_tile_is_transformed_for_padding_where_the_kernel_can_begin_later():
    for window in ((4, 4), (5, 5)):
        w = Windows((32, 32), window, (2, 2), "same", (1, 1))
        assert phases_tuned.phases_of(w).windows.sizes == (16, 16)
    w = Windows((32, 32), (6, 6), (2, 2), ((1, 1), (2, 2)), (1, 1))
    assert phases_tuned.phases_of(w).windows.sizes == (17, 16)


def test_gradients_are_central_differences(rng):
    with tk.device("cpu"):
        w, x, kernel, g = arrays((2, (7, 8), (4, 5), 3, 18, "same"), rng)
        _, by_input, by_kernel = by_phases(w, x, kernel, g)
        dx, dk = rng.normal(size=x.shape), rng.normal(size=kernel.shape)

        def loss(step):
            y = conv_reference.conv(np, w, x + step * dx, kernel + step * dk, 1)
            return (y * g.astype("float64")).sum()

        slope = (loss(1e-4) - loss(-1e-4)) / 2e-4
        assert (
            abs((by_input * dx).sum() + (by_kernel * dk).sum() - slope) < 1e-5 * abs(slope) + 1e-3
        )


def test_bias_and_rectifier_come_after_the_sums(rng):
    w, x, kernel, g = arrays((2, (9, 9), (5, 5), 6, 20, "same"), rng)
    bias = rng.normal(size=20).astype("float32") * 10
    unshifted, *_ = by_phases(w, x, kernel, g)
    shifted, *_ = by_phases(w, x, kernel, g, bias)
    rectified, *_ = by_phases(w, x, kernel, g, bias, 0.0)
    np.testing.assert_array_equal(shifted, unshifted + bias)
    np.testing.assert_array_equal(rectified, np.maximum(shifted, 0))


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_threads_change_no_bit(monkeypatch, rng, threads):
    operands = arrays(SERVED, rng)
    before = tuned(*operands)
    monkeypatch.setattr(pools, "compute_threads", lambda: threads)
    if threads == 1:
        for module in (winograd_tuned, phase_copies_tuned):
            monkeypatch.setattr(module, "shared", lambda nanoseconds: (0, 1))
    for a, b in zip(before, tuned(*operands), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_kernel_over_phases_is_kept_for_calls_with_the_same_weights(rng, monkeypatch):
    w, x, kernel, _ = arrays(SERVED, rng)
    weights, made = PreparedWeights(), []
    regroup = phases_tuned.regroup_kernel
    monkeypatch.setattr(phases_tuned, "regroup_kernel", lambda *a: made.append(None) or regroup(*a))
    results = [conv_tuned.forward(w, x, kernel, None, False, 1, weights) for _ in range(5)]
    assert len(made) < 4
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    kernel2 = kernel + 1
    fresh = conv_tuned.forward(w, x, kernel2, None, False, 1)
    np.testing.assert_array_equal(conv_tuned.forward(w, x, kernel2, None, False, 1, weights), fresh)


def test_repeated_calls_have_the_bits_of_the_first(rng):
    w, x, kernel, _ = arrays(SERVED, rng)
    bias = rng.normal(size=32).astype("float32")
    repeated = RepeatedConvolution(PreparedWeights(), True, NONE, lambda *_: None)
    expected = conv_tuned.forward(w, x, kernel, bias, True, 1)
    for _ in range(5):
        y = repeated.calls(x, kernel, bias, None, None, None)
        if y is None:
            y = repeated.first(w, 1, x, kernel, bias, None)
        np.testing.assert_array_equal(y, expected)


# ------------------------------------------------------------------ numbers that are not finite


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # infinity less infinity
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("index", [0, -1, 503])
@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_what_is_not_finite_stays_in_the_windows_that_see_it(
    always, rng, padding, value, index, which
):
    w, *operands = arrays((2, (11, 12), (5, 4), 18, 20, padding), rng)
    operands[which].reshape(-1)[index] = value
    results, expected = tuned(w, *operands), plain(w, *operands)
    for result, exact in zip(results, expected, strict=True):
        if result is not None:  # else the plain version serves
            np.testing.assert_array_equal(np.isnan(result), np.isnan(exact))
            np.testing.assert_array_equal(np.isfinite(result), np.isfinite(exact))
            finite = np.abs(exact) < 1e30
            np.testing.assert_allclose(result[finite], exact[finite], rtol=1e-3, atol=2e-3)


def test_finite_results_are_not_made_twice(rng, monkeypatch):
    operands = arrays(SERVED, rng)
    monkeypatch.setattr(conv_tuned.PIXELS, "find", lambda *key: pytest.fail("direct sums"))
    monkeypatch.setattr(conv_tuned.WEIGHTS, "find", lambda *key: pytest.fail("direct sums"))
    assert all(result is not None for result in tuned(*operands))


# ------------------------------------------------------------------ which convolutions these are


def windows(window=(5, 5), sizes=(32, 32), strides=(2, 2), dilation=(1, 1)):
    return Windows(sizes, window, strides, "same", dilation)


ALL = (
    phases_tuned.serves_forward,
    phases_tuned.serves_input_gradient,
    phases_tuned.serves_kernel_gradient,
)


@pytest.mark.parametrize(
    ("w", "batch", "channels", "filters", "expected"),
    [
        (windows(), 32, 64, 128, (True, True, True)),
        (windows((6, 6)), 32, 32, 32, (True, True, True)),
        (windows((4, 4), (64, 64)), 32, 3, 64, (False, True, False)),  # lanes of few channels
        (windows((4, 4)), 8, 64, 64, (False, False, False)),
        (windows((5, 5), (8, 8)), 1, 512, 512, (False, False, False)),  # more work for weights
        (windows((5, 5), (8, 8)), 1, 16, 16, (False, False, False)),  # little work
        (windows((5, 5)), 8, 1, 64, (False, True, False)),
        (windows((2, 2)), 32, 64, 128, (False, False, False)),
        (windows((7, 7)), 32, 64, 128, (False, False, False)),
        (windows((5, 7)), 32, 64, 128, (False, False, False)),
        (windows(strides=(1, 1)), 32, 64, 128, (False, False, False)),
        (windows(strides=(2, 1)), 32, 64, 128, (False, False, False)),
        (windows(dilation=(2, 2), strides=(2, 2)), 32, 64, 128, (False, False, False)),
        (Windows((64,), (5,), (2,), "same", (1,)), 32, 64, 128, (False, False, False)),
        (Windows((16,) * 3, (5,) * 3, (2,) * 3, "same", (1,) * 3), 8, 64, 64, (False,) * 3),
    ],
)
def test_shapes_decide(w, batch, channels, filters, expected):
    assert tuple(serves(w, batch, channels, filters, 1) for serves in ALL) == expected
    assert not any(serves(w, batch, channels, filters, 2) for serves in ALL)


def test_the_switch_gives_direct_sums(rng, monkeypatch):
    operands = arrays(SERVED, rng)
    expected = by_phases(*operands)
    for result, other in zip(tuned(*operands), expected, strict=True):
        np.testing.assert_array_equal(result, other)
    monkeypatch.setattr(winograd_tuned, "ENABLED", False)
    for result, other in zip(tuned(*operands), expected, strict=True):
        assert not np.array_equal(result, other)


# ------------------------------------------------------------------ how exact they are


def test_errors_are_near_those_of_direct_sums(rng, monkeypatch):
    w, x, kernel, g = arrays(SERVED, rng)
    x = np.maximum(x, 0)  # as behind a rectifier: sums that do not cancel
    exact = direct(w, x, kernel, g)
    errors = [error(*pair) for pair in zip(tuned(w, x, kernel, g), exact, strict=True)]
    monkeypatch.setattr(winograd_tuned, "ENABLED", False)
    sums = [error(*pair) for pair in zip(tuned(w, x, kernel, g), exact, strict=True)]
    for transformed, plain_sums in zip(errors, sums, strict=True):
        assert transformed < max(4 * plain_sums, 3e-6)


def step_of(model, optimizer):
    def step(x, y):
        with tk.GradientTape() as tape:
            loss = tk.reduce_mean((model(x) - y) ** 2)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        return loss

    return step


@pytest.mark.parametrize("window", [4, 5, 6])
def test_a_step_has_the_same_bits_eagerly_and_compiled(always, rng, window):
    x = tk.constant(rng.normal(size=(2, 16, 16, 16)).astype("float32"))
    y = tk.constant(rng.normal(size=(2, 16, 16, 3)).astype("float32"))
    weights = []
    jit = functools.partial(tk.function, jit_compile=True)
    for wrap in (lambda step: step, tk.function, jit):
        tk.random.set_seed(3)
        model = tk.Sequential(
            [
                tk.layers.Conv2D(32, window, strides=2, padding="same", activation="relu"),
                tk.layers.Conv2DTranspose(3, window, strides=2, padding="same"),
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


def test_an_inference_has_the_same_bits_however_often_it_is_called(always, rng):
    x = tk.constant(rng.normal(size=(2, 16, 16, 16)).astype("float32"))
    model = tk.Sequential(
        [
            tk.layers.Conv2D(32, 6, strides=2, padding="same"),
            tk.layers.BatchNormalization(),
            tk.layers.ReLU(),
            tk.layers.Conv2DTranspose(16, 5, strides=2, padding="same"),
        ]
    )
    eagerly = model(x, training=False).numpy()
    infer = tk.function(lambda x: model(x, training=False))
    results = [infer(x).numpy() for _ in range(6)]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    np.testing.assert_allclose(results[0], eagerly, rtol=1e-4, atol=1e-5)


def test_transposed_convolutions_go_this_way(rng, monkeypatch):
    w, _, kernel, g = arrays(SERVED, rng)
    asked = []
    gradient = phases_tuned.input_gradient
    monkeypatch.setattr(
        phases_tuned, "input_gradient", lambda *a: asked.append(None) or gradient(*a)
    )
    y = tk.ops.conv_transpose(tk.constant(g), tk.constant(kernel), strides=2, padding="same")
    assert asked
    exact = conv_reference.conv_input_gradient(
        np, w, g.astype("float64"), kernel.astype("float64"), 1
    )
    assert error(y.numpy(), exact) < 5e-6


@pytest.mark.parametrize("channels", [16, 17])
def test_bfloat16_is_read_as_it_is_and_results_are_rounded_once(rng, channels):
    w, x, kernel, g = arrays((2, (9, 12), (5, 4), channels, 20, "same"), rng)
    short = x.astype(ml_dtypes.bfloat16), g.astype(ml_dtypes.bfloat16)
    wide = [a.astype("float32") for a in short]
    bias = rng.normal(size=20).astype("float32")
    results = by_phases(w, short[0], kernel, short[1], bias, 0.0)
    expected = by_phases(w, wide[0], kernel, wide[1], bias, 0.0)
    for result, exact in zip(results[:2], expected[:2], strict=True):
        assert result.dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(
            result.view("u2"), exact.astype(ml_dtypes.bfloat16).view("u2")
        )
    assert results[2].dtype == np.float32
    np.testing.assert_array_equal(results[2], expected[2])
