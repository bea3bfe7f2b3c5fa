"""Convolutions of bfloat16 as products of windows, beside sums of float64, and when they serve."""

import ml_dtypes
import numpy as np
import pytest

from trainkit.kernels.convolution import conv_reference, conv_tuned, gathered_tuned
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.jit import bfloat16_pairs

BF16 = np.dtype(ml_dtypes.bfloat16)

# sizes, window, channels, filters, strides, padding, dilation
CASES = [
    ((50,), (5,), 24, 40, (1,), "same", (1,)),
    ((50,), (5,), 7, 40, (2,), ((4, 0),), (1,)),
    ((50,), (3,), 16, 33, (1,), "same", (8,)),
    ((9, 11), (4, 4), 6, 64, (2, 2), "same", (1, 1)),
    ((9, 11), (3, 2), 5, 48, (1, 1), ((3, 2), (0, 4)), (1, 1)),
    ((8, 12), (4, 3), 3, 32, (4, 3), "valid", (1, 1)),
    ((9, 12), (4, 3), 3, 32, (4, 3), "valid", (1, 1)),  # a row of the image is in no window
    ((3, 3), (5, 5), 40, 70, (1, 1), "same", (3, 3)),  # some offsets never lie inside
    ((4, 5, 6), (3, 3, 3), 4, 35, (1, 1, 1), "same", (1, 1, 1)),
    ((4, 6, 6), (2, 2, 2), 5, 35, (2, 2, 2), "valid", (1, 1, 1)),
]


@pytest.fixture(params=[True, False], ids=["pairs", "words"])
def pairs(request, eager, monkeypatch):
    """Products of pairs, where the processor has them, and those of all processors."""
    if request.param and not bfloat16_pairs.has_bfloat16_pairs():
        pytest.skip("this processor has no AVX512-BF16")
    monkeypatch.setattr(bfloat16_pairs, "has_bfloat16_pairs", lambda: request.param)


def arrays(case, rng, batch=3):
    sizes, window, channels, filters, strides, padding, dilation = case
    w = Windows(sizes, window, strides, padding, dilation)
    shapes = (batch, *sizes, channels), (*window, channels, filters), (batch, *w.out, filters)
    return w, *(rng.normal(size=shape).astype(BF16) for shape in shapes)


def assert_near(result, exact, relative):
    assert result.shape == exact.shape
    limit = relative * np.abs(exact) + 2e-5 * np.abs(exact).max()
    assert (np.abs(result.astype("float64") - exact) <= limit).all()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_are_sums_rounded_once(pairs, rng, case):
    w, x, kernel, g = arrays(case, rng)
    bias = rng.normal(size=kernel.shape[-1]).astype("float32")
    wide = [a.astype("float64") for a in (x, kernel, g)]
    y = gathered_tuned.forward(w, x, kernel, bias, True)
    assert y.dtype == BF16
    exact = np.maximum(conv_reference.conv(np, w, wide[0], wide[1], 1) + bias, 0)
    assert_near(y, exact, 2**-8)
    by_kernel = gathered_tuned.kernel_gradient(w, x, g)
    assert by_kernel.dtype == np.float32
    assert_near(by_kernel, conv_reference.conv_kernel_gradient(np, w, wide[0], wide[2], 1), 1e-5)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_of_images_are_sums_rounded_once(eager, rng, monkeypatch, case):
    if not bfloat16_pairs.has_bfloat16_pairs():
        pytest.skip("this processor has no AVX512-BF16")
    monkeypatch.setattr(gathered_tuned, "block_columns", lambda: 1)
    monkeypatch.setattr(gathered_tuned, "PRODUCT_NANOSECONDS", 200.0)
    w, _, kernel, g = arrays(case, rng)
    result = gathered_tuned.input_gradient(w, g, kernel)
    strides = set(w.strides)
    overlaps = w.window != w.strides or w.sizes == (9, 12)
    # windows in the padding alone would be cut off
    if (strides != {1} and overlaps) or case is CASES[4]:
        assert result is None
        return
    exact = conv_reference.conv_input_gradient(
        np, w, g.astype("float64"), kernel.astype("float64"), 1
    )
    assert result.dtype == BF16
    assert_near(result, exact, 2**-8)


@pytest.mark.parametrize("case", CASES[:4], ids=str)
def test_pieces_of_a_batch_have_the_bits_of_the_whole(pairs, rng, monkeypatch, case):
    w, x, kernel, g = arrays(case, rng, batch=7)
    y, by_kernel = (
        gathered_tuned.forward(w, x, kernel),
        gathered_tuned.kernel_gradient(w, x, g).astype("float64"),
    )
    monkeypatch.setattr(gathered_tuned, "_PIECE_BYTES", 1)
    pieces = gathered_tuned.forward(w, x, kernel)
    np.testing.assert_array_equal(pieces.view("u2"), y.view("u2"))
    assert_near(gathered_tuned.kernel_gradient(w, x, g), by_kernel, 1e-5)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_of_images_in_pieces_have_the_bits_of_the_whole(eager, rng, monkeypatch, case):
    if not bfloat16_pairs.has_bfloat16_pairs():
        pytest.skip("this processor has no AVX512-BF16")
    monkeypatch.setattr(gathered_tuned, "block_columns", lambda: 1)
    monkeypatch.setattr(gathered_tuned, "PRODUCT_NANOSECONDS", 200.0)
    w, _, kernel, g = arrays(case, rng, batch=7)
    whole = gathered_tuned.input_gradient(w, g, kernel)
    if whole is None:
        return
    monkeypatch.setattr(gathered_tuned, "_PIECE_BYTES", 1)
    pieces = gathered_tuned.input_gradient(w, g, kernel)
    np.testing.assert_array_equal(pieces.view("u2"), whole.view("u2"))
    # weights whose axes lie in another order, as a transposed variable has them
    turned = np.ascontiguousarray(kernel.swapaxes(-1, -2).view("u2")).view(BF16).swapaxes(-1, -2)
    again = gathered_tuned.input_gradient(w, g, turned)
    np.testing.assert_array_equal(again.view("u2"), whole.view("u2"))


def test_convolutions_ask_for_it_where_copies_pay(eager, rng, monkeypatch):
    if not bfloat16_pairs.has_bfloat16_pairs():
        pytest.skip("this processor has no AVX512-BF16")
    calls = []
    for name in ("forward", "input_gradient", "kernel_gradient"):
        function = getattr(gathered_tuned, name)
        monkeypatch.setattr(
            gathered_tuned, name, lambda *a, f=function, n=name: calls.append(n) or f(*a)
        )

    def calls_of(case, dtype=BF16):
        calls.clear()
        w, x, kernel, g = arrays(case, rng)
        x, kernel, g = (a.astype(dtype) for a in (x, kernel, g))
        conv_tuned.forward(w, x, kernel, None, False, 1)
        conv_tuned.input_gradient(w, g, kernel, 1)
        conv_tuned.kernel_gradient(w, x, g, 1)
        return set(calls)

    # the gradient by the input is one of as many windows, of which a part is done within
    assert calls_of(((50,), (5,), 64, 64, (1,), "same", (1,))) == {
        "forward", "input_gradient", "kernel_gradient",
    }  # fmt: skip
    assert "forward" not in calls_of(((28, 28), (3, 3), 1, 32, (1, 1), "valid", (1, 1)))
    assert "forward" not in calls_of(((50,), (5,), 64, 16, (2,), "same", (1,)))
    assert not calls_of(((50,), (5,), 64, 64, (1,), "same", (1,)), np.float32)
    monkeypatch.setattr(gathered_tuned, "_MOST_BYTES", 50 * 5 * 64 * 2 - 1)
    assert calls_of(((50,), (5,), 64, 64, (1,), "same", (1,))) == {"input_gradient"}
    monkeypatch.setattr(bfloat16_pairs, "has_bfloat16_pairs", lambda: False)
    assert calls_of(((50,), (5,), 64, 64, (1,), "same", (1,))) == {"input_gradient"}


def test_images_in_another_order_are_taken(pairs, rng):
    w, x, kernel, g = arrays(CASES[3], rng)
    others = [np.asfortranarray(a) for a in (x, kernel, g)]
    others[0].flags.writeable = False
    for function, inputs, turned in (
        (gathered_tuned.forward, (x, kernel), others[:2]),
        (gathered_tuned.kernel_gradient, (x, g), others[::2]),
    ):
        np.testing.assert_array_equal(
            function(w, *inputs).astype("float32"), function(w, *turned).astype("float32")
        )


def test_what_is_not_finite_goes_where_the_plain_version_takes_it(pairs, rng):
    w, x, kernel, _ = arrays(CASES[0], rng)
    x[1, 20, 3] = np.nan
    y = gathered_tuned.forward(w, x, kernel).astype("float32")
    seen = np.zeros(y.shape, bool)
    seen[1, 18:23] = True
    np.testing.assert_array_equal(np.isnan(y), seen)
