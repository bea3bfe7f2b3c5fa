"""The compiled product of int8 against sums of int64: it is exact, whatever divides the work."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.kernels.matmul import int8_tuned
from trainkit.ops.linear_algebra.int8_product import int8_product


def wanted(a, b):
    return (a.astype("int64") @ b.astype("int64")).astype("int32")


@pytest.mark.parametrize("shape", [(1,), (8,), (2, 3), (1, 1, 5)])
@pytest.mark.parametrize(("inner", "columns"), [(256, 256), (1027, 67), (3, 40000), (70001, 1)])
def test_products_are_exact(eager, rng, shape, inner, columns):
    a = rng.integers(-128, 128, (*shape, inner)).astype("int8")
    b = rng.integers(-128, 128, (inner, columns)).astype("int8")
    got = int8_tuned.int8_product(a, b)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, wanted(a, b))
    np.testing.assert_array_equal(int8_product(a, b), got)
    np.testing.assert_array_equal(tk.matmul(a, b), got)


def test_the_greatest_sums(eager):
    a, b = np.full((2, 3000), -128, "int8"), np.full((3000, 64), -128, "int8")
    np.testing.assert_array_equal(int8_tuned.int8_product(a, b), 3000 * 128 * 128)


def test_turned_and_sliced_arrays(eager, rng):
    a = rng.integers(-128, 128, (600, 4)).astype("int8").T
    b = rng.integers(-128, 128, (300, 600)).astype("int8").T
    np.testing.assert_array_equal(int8_tuned.int8_product(a, b), wanted(a, b))
    np.testing.assert_array_equal(int8_tuned.int8_product(a[::2], b[:, ::1]), wanted(a[::2], b))


@pytest.mark.parametrize(
    ("a", "b"),
    [((9, 256), (256, 256)), ((1, 16), (16, 16)), ((0, 256), (256, 256)), ((1, 2, 2), (2, 2, 2))],
)
def test_others_are_left_to_blas(eager, a, b):
    assert int8_tuned.int8_product(np.ones(a, "int8"), np.ones(b, "int8")) is None


def test_sizes_that_do_not_fit_are_refused_as_ever(eager):
    with pytest.raises(ValueError, match="int8_product"):
        int8_product(np.ones((1, 300), "int8"), np.ones((256, 300), "int8"))


def test_the_same_bits_before_it_is_compiled(kernels, rng):
    a = rng.integers(-128, 128, (2, 2000)).astype("int8")
    b = rng.integers(-128, 128, (2000, 100)).astype("int8")
    kernels("off")
    assert int8_tuned.int8_product(a, b) is None
    plain = int8_product(a, b)
    kernels("eager")
    np.testing.assert_array_equal(int8_product(a, b), plain)
