"""Unfolding into columns, and folding back."""

import numpy as np
import pytest

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError

SETTINGS = {"kernel_size": (2, 3), "dilation": (2, 1), "padding": (1, 2), "stride": (1, 2)}


def test_a_product_with_columns_is_a_convolution(rng):
    x, kernel = rng.normal(size=(2, 3, 6, 7)), rng.normal(size=(2, 3, 3, 4))
    columns = ops.unfold(x, **SETTINGS).numpy()
    flat = kernel.transpose(2, 0, 1, 3).reshape(18, 4)  # rows in the order of the columns
    expected = ops.conv(x, kernel, (1, 2), ((1, 1), (2, 2)), "channels_first", dilation_rate=(2, 1))
    found = np.einsum("rf,brn->bfn", flat, columns)
    np.testing.assert_allclose(found, expected.numpy().reshape(2, 4, -1), atol=1e-12)


def test_fold_adds_up_what_unfold_took(rng):
    x = rng.normal(size=(2, 3, 6, 7))
    y = rng.normal(size=ops.unfold(x, **SETTINGS).shape)
    back = ops.fold(y, (6, 7), **SETTINGS).numpy()
    np.testing.assert_allclose((back * x).sum(), (ops.unfold(x, **SETTINGS).numpy() * y).sum())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ops.unfold(np.ones((3, 4, 5)), 2), "batch, channels, height, width"),
        (lambda: ops.unfold(np.ones((1, 1, 2, 5)), 3), "spans 3 positions"),
        (lambda: ops.fold(np.ones((1, 7, 4)), 3, 2), "no multiple of the 4 elements"),
        (lambda: ops.fold(np.ones((1, 8, 5)), 3, 2), "has 5 columns.*2 x 2 windows"),
        (lambda: ops.fold(np.ones((8, 5)), 3, 2), "batch, channels"),
    ],
)
def test_shapes_that_do_not_fit_are_shown(call, words):
    with pytest.raises(ShapeError, match=words):
        call()


def test_a_negative_padding_is_an_error():
    with pytest.raises(InvalidArgumentError, match="padding=-1"):
        ops.unfold(np.ones((1, 1, 4, 4)), 2, padding=-1)
