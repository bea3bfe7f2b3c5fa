"""Compiled depthwise convolutions against the plain ones, and which are served."""

import ml_dtypes
import numpy as np
import pytest

from trainkit.kernels.convolution import conv_reference, conv_tuned, depthwise_tuned
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.jit import target
from trainkit.kernels.matmul.epilogue_tuned import Epilogue
from trainkit.kernels.normalization.norm_tuned import NONE, RELU, RELU6
from trainkit.kernels.threads import pools

# sizes, window, channels, multiplier, strides, padding, dilation
CASES = [
    ((14, 14), (3, 3), 32, 1, (1, 1), "same", (1, 1)),
    ((14, 28), (3, 3), 16, 1, (2, 2), "same", (1, 1)),
    ((9, 19), (3, 3), 20, 1, (1, 1), "valid", (1, 1)),
    ((9, 30), (5, 5), 40, 1, (2, 2), "same", (1, 1)),
    ((12, 13), (3, 3), 24, 2, (1, 1), "same", (1, 1)),
    ((12, 13), (3, 3), 5, 4, (2, 2), "valid", (1, 1)),
    ((12, 40), (3, 2), 17, 1, (4, 1), ((3, 2), (0, 4)), (1, 1)),
    ((6, 6), (2, 2), 9, 1, (1, 1), ((3, 2), (4, 4)), (1, 1)),  # some windows see nothing
    ((11, 25), (3, 3), 18, 1, (1, 1), "same", (2, 3)),
    ((3, 3), (5, 3), 16, 1, (1, 1), "same", (3, 3)),  # some taps never lie inside
    ((7, 9), (1, 1), 16, 1, (2, 2), "valid", (1, 1)),  # most of the input is not seen
    ((30,), (3,), 70, 1, (1,), "same", (1,)),
]


def arrays(case, rng, batch=2):
    sizes, window, channels, multiplier, strides, padding, dilation = case
    w = Windows(sizes, window, strides, padding, dilation)
    x = rng.normal(size=(batch, *sizes, channels)).astype("float32")
    kernel = rng.normal(size=(*window, 1, channels * multiplier)).astype("float32")
    g = rng.normal(size=(batch, *w.out, channels * multiplier)).astype("float32")
    return w, x, kernel, g, channels


@pytest.mark.parametrize("case", CASES, ids=str)
def test_forward_equals_the_plain_version(eager, unusual, rng, case):
    w, x, kernel, _, groups = arrays(case, rng)
    assert depthwise_tuned.serves(w, groups, kernel.shape[-1], groups)
    bias = rng.normal(size=kernel.shape[-1]).astype("float32")
    plain = conv_reference.conv(np, w, x, kernel, groups)
    found = unusual(conv_tuned.forward(w, x, kernel, None, False, groups))
    np.testing.assert_allclose(found, plain, atol=1e-5)
    found = conv_tuned.forward(w, x, kernel, bias, True, groups)
    np.testing.assert_allclose(found, np.maximum(plain + bias, 0), atol=1e-5)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_equal_the_plain_versions(eager, unusual, rng, case):
    w, x, kernel, g, groups = arrays(case, rng)
    found = unusual(conv_tuned.input_gradient(w, g, kernel, groups))
    plain = conv_reference.conv_input_gradient(np, w, g, kernel, groups)
    np.testing.assert_allclose(found, plain, atol=1e-5)
    found = unusual(conv_tuned.kernel_gradient(w, x, g, groups))
    plain = conv_reference.conv_kernel_gradient(np, w, x, g, groups)
    np.testing.assert_allclose(found, plain, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "served"),
    [
        ({}, True),
        ({"multiplier": 3}, False),
        ({"window": (3, 10)}, False),
        ({"strides": (1, 5)}, False),
        ({"strides": (2, 2), "dilation": (2, 2)}, False),
        ({"sizes": (5, 5, 20), "window": (3, 3, 3)}, False),
        ({"channels": 1}, False),
    ],
    ids=str,
)
def test_which_have_kernels_of_their_own(change, served):
    facts = {
        "sizes": (25, 25),
        "window": (3, 3),
        "channels": 6,
        "multiplier": 1,
        "strides": (1, 1),
        "padding": "same",
        "dilation": (1, 1),
    } | change
    rank = len(facts["sizes"])
    for name in ("strides", "dilation"):
        facts[name] = (*facts[name], 1)[:rank]
    channels, filters = facts["channels"], facts["channels"] * facts["multiplier"]
    w = Windows(*(facts[name] for name in ("sizes", "window", "strides", "padding", "dilation")))
    assert depthwise_tuned.serves(w, channels, filters, channels) is served


def results(case):
    w, x, kernel, g, groups = arrays(case, np.random.default_rng(0), batch=3)
    return [
        conv_tuned.forward(w, x, kernel, None, False, groups),
        conv_tuned.input_gradient(w, g, kernel, groups),
        conv_tuned.kernel_gradient(w, x, g, groups),
    ]


@pytest.mark.parametrize("case", [CASES[0], CASES[3], CASES[4]], ids=str)
def test_the_bits_do_not_depend_on_the_number_of_threads(eager, monkeypatch, case):
    found = results(case)
    monkeypatch.setattr(depthwise_tuned, "shared", lambda nanoseconds: (0, 1))
    monkeypatch.setattr(pools, "compute_threads", lambda: 1)
    alone = results(case)
    for a, b in zip(found, alone, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_follows_is_rounded_step_by_step(eager, rng, case, adds):
    w, x, kernel, g, _ = arrays(case, rng)
    bias, factor, shift = rng.normal(size=(3, kernel.shape[-1])).astype("float32")
    residual = rng.normal(size=g.shape).astype("float32") if adds else None
    y = depthwise_tuned.forward(w, x, kernel, bias, True, 1.0) * factor + shift
    y = y if residual is None else y + residual
    for rectifier in (NONE, RELU, RELU6):
        epilogue = Epilogue(factor, shift, residual, rectifier)
        limited = y
        if rectifier is not NONE:
            limited = np.minimum(np.maximum(y, np.float32(0)), np.float32(rectifier.high))
        result = depthwise_tuned.forward(w, x, kernel, bias, True, 1.0, epilogue)
        np.testing.assert_array_equal(result, limited)


@pytest.mark.parametrize("vectors", [1, 2, 100])
@pytest.mark.parametrize(
    "case", [((9, 15), (3, 3), 70, *CASES[0][3:]), CASES[3], CASES[4]], ids=str
)
def test_the_bits_do_not_depend_on_what_the_first_cache_holds(eager, monkeypatch, case, vectors):
    expected = results(case)
    monkeypatch.setattr(depthwise_tuned, "_near_vectors", lambda *facts: vectors)
    depthwise_tuned.lines_call.cache_clear()
    try:
        for a, b in zip(expected, results(case), strict=True):
            np.testing.assert_array_equal(a, b)
    finally:
        depthwise_tuned.lines_call.cache_clear()


def test_not_a_number_stays_through_the_rectifier(eager, rng):
    w, x, kernel, _, groups = arrays(CASES[0], rng)
    x[0, 5, 5, 3] = np.nan
    found = conv_tuned.forward(w, x, kernel, None, True, groups)
    assert np.isnan(found[0, 4:7, 4:7, 3]).all()
    assert np.isnan(found).sum() == 9


def test_numbers_that_no_window_sees_are_not_read(eager, rng):
    case = ((9, 26), (3, 3), 20, 1, (2, 2), "valid", (1, 1))
    w, x, kernel, g, groups = arrays(case, rng, batch=3)
    x[:, :, 25:] = np.nan  # beyond the last window of a line
    x[-1] = np.nan  # beyond the last image
    assert np.isfinite(conv_tuned.kernel_gradient(w, x[:-1], g[:-1], groups)).all()
    assert np.isfinite(conv_tuned.forward(w, x[:-1], kernel, None, False, groups)).all()


def test_arrays_in_another_order_or_read_only_are_taken(eager, rng):
    w, x, kernel, g, groups = arrays(CASES[0], rng)
    expected = conv_reference.conv(np, w, x, kernel, groups)
    fixed = kernel.copy()
    fixed.flags.writeable = False
    found = conv_tuned.forward(w, np.asfortranarray(x), fixed, None, False, groups)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    found = conv_tuned.input_gradient(w, np.asfortranarray(g), fixed, groups)
    plain = conv_reference.conv_input_gradient(np, w, g, kernel, groups)
    np.testing.assert_allclose(found, plain, atol=1e-5)


@pytest.mark.parametrize("case", [CASES[1], CASES[4], CASES[6]], ids=str)
def test_bfloat16_is_read_as_it_is_and_results_are_rounded_once(eager, unusual, rng, case):
    w, x, kernel, g, channels = arrays(case, rng)
    bias = rng.normal(size=kernel.shape[-1]).astype("float32")
    results, expected = (
        (
            unusual(depthwise_tuned.forward(w, a, kernel, bias, True, 1.0)),
            depthwise_tuned.input_gradient(w, b, kernel, channels, 1.0),
            depthwise_tuned.kernel_gradient(w, a, b, 1.0),
        )
        for a, b in (
            [a.astype(ml_dtypes.bfloat16) for a in (x, g)],
            [a.astype(ml_dtypes.bfloat16).astype("float32") for a in (x, g)],
        )
    )
    for result, exact in zip(results[:2], expected[:2], strict=True):
        assert result.dtype == ml_dtypes.bfloat16
        rounded = exact.astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(result.view("u2"), rounded.view("u2"))
    # Where vectors hold eight numbers LLVM takes the sums of the two kernels in other orders.
    error = {} if "avx512f" in target.features() else {"rtol": 1e-5, "atol": 1e-4}
    np.testing.assert_allclose(results[2], expected[2], **{"rtol": 0, **error})
    assert results[2].dtype == np.float32
