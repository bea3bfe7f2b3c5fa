"""Lengths of gradients."""

import numpy as np
import pytest

from trainkit.ops.math.norm_clipping import joint_norm, square_sum


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("size", [0, 1, 7, 16_384, 16_385, 20_011, 1 << 17, 999_983])
def test_squares_of_pieces_add_up_to_the_bits_of_those_of_all_elements(size, dtype):
    x = np.random.default_rng(size).normal(size=size).astype(dtype)
    with np.errstate(over="ignore"):  # of half precision
        total, expected = square_sum(np, x), np.sum(np.square(x))
    assert total.dtype == dtype
    np.testing.assert_array_equal(total, expected)


@pytest.mark.parametrize("turned", [False, True])
def test_squares_of_any_shape_and_order(turned):
    x = np.random.default_rng(0).normal(size=(123, 7, 45)).astype("float32")
    x = np.asfortranarray(x) if turned else x
    np.testing.assert_array_equal(square_sum(np, x), np.sum(np.square(x)))
    np.testing.assert_array_equal(square_sum(np, x[:, ::2]), np.sum(np.square(x[:, ::2])))


def test_one_element_that_is_not_finite_makes_the_length_so():
    x = np.ones(40_000, "float32")
    x[-1] = np.inf
    assert joint_norm(np, [x, np.ones(3, "float32")]) == np.inf
    x[17] = np.nan
    assert np.isnan(joint_norm(np, [x, np.ones(3, "float32")]))
