"""Compiled forward and backward variables of CTC against the plain loops, in all modes."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.autodiff.check import check_gradient
from trainkit.ops.neural import ctc

SIZES = [(3, 12, 6, 4), (2, 5, 4, 0), (1, 1, 3, 1), (2, 3, 4, 5), (4, 60, 30, 20)]


def inputs_of(rng, batch, steps, classes, length, scale=1.0):
    """Logits, labels with one that repeats, and lengths of both."""
    logits = rng.normal(size=(batch, steps, classes)) * scale
    labels = rng.integers(1, classes, (batch, length)).astype("int32")
    labels[:1, 1:2] = labels[:1, :1]
    counts = rng.integers(0, length + 1, batch), rng.integers(max(1, steps // 2), steps + 1, batch)
    return logits, labels, *counts


def loss_and_slope(logits, *labels):
    x = tk.constant(logits)
    with tk.GradientTape() as tape:
        tape.watch(x)
        loss = tk.ops.ctc_loss(labels[0], x, *labels[1:])
    return loss.numpy(), tape.gradient(loss, x).numpy()


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("sizes", SIZES)
def test_kernels_have_the_digits_of_their_dtype(sizes, scale, kernels, rng):
    logits, *labels = inputs_of(rng, *sizes, scale)
    logits = logits.astype("float32")  # so that both dtypes have the same numbers
    kernels("off")
    exact = loss_and_slope(logits.astype("float64"), *labels)
    kernels("eager")
    for dtype, rtol, atol in (("float64", 1e-11, 1e-11), ("float32", 5e-5 * scale, 2e-5 * scale)):
        for result, expected in zip(
            loss_and_slope(logits.astype(dtype), *labels), exact, strict=True
        ):
            assert result.dtype == dtype
            np.testing.assert_allclose(result, expected, rtol=rtol, atol=atol)


def test_a_nan_stays_in_its_row(eager, rng):
    logits, *labels = inputs_of(rng, *SIZES[0])
    logits[1, 0] = np.nan
    loss, slope = loss_and_slope(logits.astype("float32"), *labels)
    np.testing.assert_array_equal(np.isnan(loss), [False, True, False])
    assert not np.isnan(slope[[0, 2]]).any()


def test_gradients_agree_with_differences(eager, rng):
    logits, *labels = inputs_of(rng, 2, 6, 5, 2)
    check_gradient(lambda x: tk.ops.ctc_loss(labels[0], x, *labels[1:]), [logits], order=2)


@pytest.mark.usefixtures("mode")
def test_graphs_and_numbers_of_rows_change_no_bit(rng):
    logits, *labels = inputs_of(rng, 40, 50, 20, 8)
    arrays = [tk.constant(a) for a in (logits.astype("float32"), *labels)]

    def loss(x, y, *counts):
        return tk.ops.ctc_loss(y, x, *counts)

    whole = loss(*arrays).numpy()
    np.testing.assert_array_equal(tk.function(loss)(*arrays), whole)
    rows = [loss(*[a[i : i + 1] for a in arrays]).numpy() for i in range(40)]
    np.testing.assert_array_equal(np.concatenate(rows), whole)


def test_the_kernels_are_what_serves(eager, rng):
    emitted = rng.normal(size=(2, 5, 7)).astype("float32")
    skips = rng.random((2, 7)) < 0.5
    skips[:, :2] = False
    lengths, last = np.array([5, 3]), np.array([6, 4])
    for run, body, arrays in (
        (ctc.forward, ctc._forward_body, (emitted, skips, lengths)),
        (ctc.backward, ctc._backward_body, (emitted, skips, last, lengths)),
    ):
        turned = [np.asfortranarray(a) for a in arrays]
        np.testing.assert_allclose(run(np, *turned), body(np, *arrays), rtol=3e-6)
