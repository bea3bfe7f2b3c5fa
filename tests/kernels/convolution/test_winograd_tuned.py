"""Winograd's convolutions against direct sums, how exact they are, and when they are chosen."""

import functools
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainkit as tk
from trainkit.kernels.convolution import conv_reference, conv_tuned, winograd_tuned
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.threads import pools

# batch, sizes, channels, filters, padding, and for volumes how deep windows are
CASES = [
    (2, (8, 8), 16, 16, "same"),  # whole tiles and vectors
    (3, (9, 11), 20, 40, "same"),
    (1, (6, 6), 17, 33, "valid"),  # one tile, no edge
    (1, (3, 3), 64, 64, "valid"),  # a single result
    (1, (1, 2), 32, 32, "same"),
    (2, (13, 30), 70, 64, "valid"),
    (2, (7, 10), 33, 31, ((1, 2), (0, 1))),
    (1, (7, 10), 33, 65, ((4, 0), (0, 5))),  # tiles in the padding alone
    (5, (20, 18), 130, 64, "same"),  # several strips
    (5, (20, 18), 24, 200, "same"),
    (2, (9, 9), 130, 130, "same"),  # tasks transform weights of their own, in pieces
    (3, (66, 65), 24, 40, "same"),  # tiles of weights' sums in two shares, several strips each
]
VOLUMES = [
    (2, (4, 8, 8), 16, 16, "same", 3),
    (2, (5, 9, 11), 20, 40, "same", 3),  # planes whose last vector reaches into the next one
    (1, (4, 6, 6), 17, 33, "valid", 2),
    (2, (3, 9, 9), 64, 64, "same", 1),
    (1, (1, 5, 4), 16, 20, "same", 5),  # most planes lie in the padding
    (2, (5, 7, 10), 33, 31, ((1, 2), (0, 1), (2, 1)), 5),
    (1, (3, 7, 10), 33, 65, ((4, 0), (0, 5), (1, 1)), 3),  # results that see padding alone
    (1, (4, 9, 9), 130, 130, "same", 3),  # pieces of weights across planes; plane after plane
    (3, (9, 38, 33), 24, 40, "same", 3),  # all planes of a window at once, in two shares
    (2, (4, 30, 18), 70, 200, "same", 2),
]


def arrays(case, rng):
    batch, sizes, channels, filters, padding, *depth = case
    window = (*depth, 3, 3)
    ones = (1,) * len(window)
    w = Windows(sizes, window, ones, padding, ones)
    x = rng.normal(size=(batch, *sizes, channels)).astype("float32")
    kernel = rng.normal(size=(*window, channels, filters)).astype("float32")
    g = rng.normal(size=(batch, *w.out, filters)).astype("float32")
    return w, x, kernel, g


def direct(w, x, kernel, g):
    """The three results in float64."""
    x, kernel, g = (a.astype("float64") for a in (x, kernel, g))
    return [
        conv_reference.conv(np, w, x, kernel, 1),
        conv_reference.conv_input_gradient(np, w, g, kernel, 1),
        conv_reference.conv_kernel_gradient(np, w, x, g, 1),
    ]


def transformed(w, x, kernel, g, bias=None, low=-math.inf):
    return [
        winograd_tuned.forward(w, x, kernel, bias, low, 1.0),
        winograd_tuned.input_gradient(w, g, kernel, 1.0),
        winograd_tuned.kernel_gradient(w, x, g, 1.0),
    ]


def error(result, exact):
    """The largest error as a part of the largest number."""
    return np.abs(result - exact).max() / np.abs(exact).max()


@pytest.mark.parametrize("case", CASES + VOLUMES, ids=str)
def test_results_and_gradients_are_those_of_direct_sums(eager, rng, case):
    operands = arrays(case, rng)
    for result, exact in zip(transformed(*operands), direct(*operands), strict=True):
        assert result.shape == exact.shape
        assert result.dtype == np.float32
        assert error(result, exact) < 5e-6


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 3),
    st.tuples(st.integers(3, 14), st.integers(3, 14)),
    st.integers(16, 70),
    st.integers(16, 70),
    st.tuples(*[st.tuples(st.integers(0, 3), st.integers(0, 3))] * 2),
    st.integers(0, 1 << 30),
)
def test_any_sizes_and_paddings(batch, sizes, channels, filters, padding, seed):
    operands = arrays((batch, sizes, channels, filters, padding), np.random.default_rng(seed))
    for result, exact in zip(transformed(*operands), direct(*operands), strict=True):
        assert error(result, exact) < 1e-5


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 2),
    st.tuples(st.integers(1, 5), st.integers(3, 9), st.integers(3, 9)),
    st.integers(16, 40),
    st.integers(16, 40),
    st.tuples(*[st.tuples(st.integers(0, 3), st.integers(0, 3))] * 3),
    st.integers(1, 4),
    st.integers(0, 1 << 30),
)
def test_any_volumes(batch, sizes, channels, filters, padding, depth, seed):
    depth = min(depth, sizes[0] + sum(padding[0]))
    case = batch, sizes, channels, filters, padding, depth
    operands = arrays(case, np.random.default_rng(seed))
    for result, exact in zip(transformed(*operands), direct(*operands), strict=True):
        assert error(result, exact) < 1e-5


@pytest.fixture(autouse=True)
def compiled(eager):
    """Hypothesis takes no fixture of a single test."""


def test_bias_and_rectifier_come_after_the_sums(rng):
    w, x, kernel, g = arrays(CASES[1], rng)
    bias = rng.normal(size=40).astype("float32") * 10
    plain, *_ = transformed(w, x, kernel, g)
    shifted, *_ = transformed(w, x, kernel, g, bias)
    rectified, *_ = transformed(w, x, kernel, g, bias, 0.0)
    np.testing.assert_array_equal(shifted, plain + bias)  # to the bit, as by eager calls
    np.testing.assert_array_equal(rectified, np.maximum(shifted, 0))
    assert (rectified == 0).any()
    assert (rectified > 0).any()


def test_arrays_in_another_order_or_read_only_are_taken(rng):
    w, x, kernel, g = arrays(CASES[1], rng)
    same = transformed(w, x, kernel, g)
    fixed = kernel.copy()
    fixed.flags.writeable = False
    turned = transformed(w, np.asfortranarray(x), fixed, np.asfortranarray(g))
    for a, b in zip(same, turned, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("case", CASES[8:] + VOLUMES[7:], ids=str)
@pytest.mark.parametrize(("threads", "cache"), [(1, 1 << 18), (2, 1 << 24), (8, 1 << 22)])
def test_neither_threads_nor_caches_change_a_bit(monkeypatch, case, threads, cache):
    operands = arrays(case, np.random.default_rng(0))
    before = transformed(*operands)
    monkeypatch.setattr(pools, "compute_threads", lambda: threads)
    monkeypatch.setattr(winograd_tuned, "cache_bytes", lambda level: cache)
    if threads == 1:
        monkeypatch.setattr(winograd_tuned, "shared", lambda nanoseconds: (0, 1))
    for a, b in zip(before, transformed(*operands), strict=True):
        np.testing.assert_array_equal(a, b)


def test_strips_and_shares_differ_where_threads_and_caches_do(monkeypatch):
    """Else the test above would compare a thing with itself."""
    divisions = set()
    for threads, cache in [(1, 1 << 18), (2, 1 << 24), (8, 1 << 22)]:
        monkeypatch.setattr(pools, "compute_threads", lambda threads=threads: threads)
        monkeypatch.setattr(winograd_tuned, "cache_bytes", lambda level, cache=cache: cache)
        divisions.add(winograd_tuned._division(500, 130, 64, 3, 6))
    assert len(divisions) == 3


@pytest.mark.parametrize(
    ("tiles", "sums", "expected"),
    [
        (867, 36 * 24 * 48, 2),
        (767, 36 * 24 * 48, 1),  # adding up their sums would take too long
        (1568, 36 * 64 * 80, 4),
        (1 << 20, 36 * 64 * 80, 8),
        (1 << 20, 36 * 128 * 144, 1),  # sums that leave the cache
    ],
)
def test_many_tiles_are_summed_in_shares_where_weights_are_few(tiles, sums, expected):
    assert winograd_tuned._shares(tiles, sums) == expected


# ------------------------------------------------------------------ numbers that are not finite

LARGE = (2, (16, 16), 32, 64, "same")
DEEP = (2, (3, 12, 12), 32, 64, "same", 3)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # infinity less infinity
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("index", [0, -1, 1000, 5003])
@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("case", [LARGE, DEEP], ids=str)
def test_what_is_not_finite_stays_in_the_windows_that_see_it(rng, case, value, index, which):
    w, *operands = arrays(case, rng)
    operands[which].reshape(-1)[index] = value
    x, kernel, g = operands
    plain = (
        conv_reference.conv(np, w, x, kernel, 1),
        conv_reference.conv_input_gradient(np, w, g, kernel, 1),
        conv_reference.conv_kernel_gradient(np, w, x, g, 1),
    )
    results = (
        conv_tuned.forward(w, x, kernel, None, False, 1),
        conv_tuned.input_gradient(w, g, kernel, 1),
        conv_tuned.kernel_gradient(w, x, g, 1),
    )
    for result, expected in zip(results, plain, strict=True):
        if result is not None:  # else the plain version serves
            np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
            finite = np.abs(expected) < 1e30
            np.testing.assert_allclose(result[finite], expected[finite], rtol=1e-3, atol=1e-3)
            np.testing.assert_array_equal(np.isfinite(result), np.isfinite(expected))


@pytest.mark.parametrize("case", [LARGE, DEEP], ids=str)
def test_finite_results_are_not_made_twice(rng, monkeypatch, case):
    w, x, kernel, g = arrays(case, rng)
    monkeypatch.setattr(conv_tuned.PIXELS, "find", lambda *key: pytest.fail("direct sums"))
    monkeypatch.setattr(conv_tuned.WEIGHTS, "find", lambda *key: pytest.fail("direct sums"))
    assert conv_tuned.forward(w, x, kernel, None, False, 1) is not None
    assert conv_tuned.input_gradient(w, g, kernel, 1) is not None
    assert conv_tuned.kernel_gradient(w, x, g, 1) is not None


# ------------------------------------------------------------------ which convolutions these are


def windows(sizes=(32, 32), window=(3, 3), strides=(1, 1), dilation=(1, 1)):
    return Windows(sizes, window, strides, "same", dilation)


def volumes(window=(3, 3, 3), strides=(1, 1, 1), dilation=(1, 1, 1)):
    return windows((8, 8, 8), window, strides, dilation)


@pytest.mark.parametrize(
    ("w", "batch", "channels", "filters", "groups", "expected"),
    [
        (windows(), 8, 32, 32, 1, True),
        (windows((56, 56)), 1, 64, 64, 1, True),
        (windows((7, 7)), 8, 512, 512, 1, True),
        (windows((7, 7)), 1, 512, 512, 1, False),  # more work for weights than for results
        (windows(), 8, 3, 32, 1, False),  # few channels
        (windows(), 8, 32, 8, 1, False),  # few filters
        (windows((8, 8)), 1, 32, 32, 1, False),  # little work
        (windows(strides=(2, 2)), 8, 32, 32, 1, False),
        (windows(dilation=(2, 2)), 8, 32, 32, 1, False),
        (windows(window=(5, 5)), 8, 32, 32, 1, False),
        (windows(), 8, 64, 64, 2, False),
        (Windows((400,), (3,), (1,), "same", (1,)), 8, 64, 64, 1, False),
        (volumes(), 8, 64, 64, 1, True),
        (volumes(window=(2, 3, 3)), 8, 64, 64, 1, True),
        (volumes(window=(1, 3, 3)), 8, 64, 64, 1, True),
        (volumes(window=(3, 1, 1)), 8, 64, 64, 1, False),
        (volumes(window=(3, 3, 5)), 8, 64, 64, 1, False),
        (volumes(strides=(2, 1, 1)), 8, 64, 64, 1, False),
        (volumes(dilation=(2, 1, 1)), 8, 64, 64, 1, False),
        (volumes(), 8, 3, 64, 1, False),
    ],
)
def test_shapes_decide(w, batch, channels, filters, groups, expected):
    assert winograd_tuned.serves_forward(w, batch, channels, filters, groups) is expected


def test_gradients_of_many_weights_over_few_tiles_are_direct_sums():
    assert not winograd_tuned.serves_kernel_gradient(windows((7, 7)), 8, 512, 512, 1)
    assert winograd_tuned.serves_kernel_gradient(windows((14, 14)), 8, 256, 256, 1)


def test_the_switch_gives_direct_sums(rng, monkeypatch):
    w, x, kernel, g = arrays(LARGE, rng)
    winograd = conv_tuned.forward(w, x, kernel, None, False, 1)
    np.testing.assert_array_equal(winograd, transformed(w, x, kernel, g)[0])
    monkeypatch.setattr(winograd_tuned, "ENABLED", False)
    assert not np.array_equal(conv_tuned.forward(w, x, kernel, None, False, 1), winograd)


# ------------------------------------------------------------------ how exact they are


@pytest.mark.parametrize(
    "case",
    [
        (2, (24, 24), 64, 32, "same"),
        (2, (24, 24), 256, 32, "same"),
        (2, (6, 16, 16), 32, 32, "same", 3),
        (1, (4, 16, 16), 128, 64, "same", 3),
    ],
    ids=str,
)
def test_errors_are_near_those_of_direct_sums(rng, monkeypatch, case):
    w, x, kernel, g = arrays(case, rng)
    x = np.maximum(x, 0)  # as behind a rectifier: sums that do not cancel
    exact = direct(w, x, kernel, g)
    errors = [error(*pair) for pair in zip(transformed(w, x, kernel, g), exact, strict=True)]
    monkeypatch.setattr(winograd_tuned, "ENABLED", False)
    sums = (
        conv_tuned.forward(w, x, kernel, None, False, 1),
        conv_tuned.input_gradient(w, g, kernel, 1),
        conv_tuned.kernel_gradient(w, x, g, 1),
    )
    for winograd, plain in zip(errors, map(error, sums, exact), strict=True):
        assert winograd < max(4 * plain, 3e-6)


def step_of(model, optimizer):
    def step(x, y):
        with tk.GradientTape() as tape:
            loss = tk.reduce_mean((model(x) - y) ** 2)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        return loss

    return step


def conv_layers(sizes):
    if len(sizes) == 2:
        return [
            tk.layers.Conv2D(48, 3, padding="same", activation="relu"),
            tk.layers.Conv2D(32, 3, padding="same"),
        ]
    return [
        tk.layers.Conv3D(48, 3, padding="same", activation="relu"),
        tk.layers.Conv3DTranspose(32, (2, 3, 3), padding="same"),
    ]


@pytest.mark.parametrize("sizes", [(24, 24), (4, 12, 12)])
def test_a_step_has_the_same_bits_eagerly_and_compiled(rng, sizes):
    x = tk.constant(rng.normal(size=(4, *sizes, 32)).astype("float32"))
    y = tk.constant(rng.normal(size=(4, *sizes, 32)).astype("float32"))
    weights = []
    jit = functools.partial(tk.function, jit_compile=True)
    for wrap in (lambda step: step, tk.function, jit):
        tk.random.set_seed(3)
        model = tk.Sequential(conv_layers(sizes))
        model.build(x.shape)
        step = wrap(step_of(model, tk.optimizers.SGD(0.01)))
        for _ in range(3):
            step(x, y)
        weights.append([v.numpy() for v in model.trainable_variables])
    for eagerly, *compiled in zip(*weights, strict=True):
        for other in compiled:
            np.testing.assert_array_equal(eagerly, other)


@pytest.mark.parametrize("case", [CASES[1], CASES[6], CASES[8], VOLUMES[1]], ids=str)
def test_bfloat16_is_read_as_it_is_and_results_are_rounded_once(rng, case):
    w, x, kernel, g = arrays(case, rng)
    short = x.astype(ml_dtypes.bfloat16), g.astype(ml_dtypes.bfloat16)
    wide = [a.astype("float32") for a in short]
    bias = rng.normal(size=kernel.shape[-1]).astype("float32")
    results = transformed(w, short[0], kernel, short[1], bias, 0.0)
    expected = transformed(w, wide[0], kernel, wide[1], bias, 0.0)
    for result, exact, dtype in zip(
        results[:2], expected[:2], [a.dtype for a in short], strict=True
    ):
        assert result.dtype == dtype
        np.testing.assert_array_equal(result.view("u2"), exact.astype(dtype).view("u2"))
    assert results[2].dtype == np.float32
    np.testing.assert_array_equal(results[2], expected[2])


def test_bfloat16_that_is_not_finite_is_left_to_direct_sums(rng):
    w, x, kernel, _ = arrays(CASES[1], rng)
    short = x.astype(ml_dtypes.bfloat16)
    short[1, 3, 4, 5] = np.inf
    assert winograd_tuned.forward(w, short, kernel, None, -math.inf, 1.0) is None
