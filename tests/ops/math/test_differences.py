import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trainkit as tk
from tests.ops.numpy_compare import arrays, assert_same
from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError

X = np.random.default_rng(0).normal(size=(4, 3))


@given(arrays(("int32", "float64"), min_dims=1), st.integers(0, 3), st.data())
def test_diff_agrees_with_numpy(x, n, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    assert_same(ops.diff(x, n, axis), np.diff(x, n, axis))


def test_bools_differ_or_not():
    assert ops.diff([True, False, False]).tolist() == [True, False]


@pytest.mark.parametrize("mode", ["valid", "same", "full"])
def test_correlate_agrees_with_numpy(mode, rng):
    for n in range(1, 6):
        for m in range(1, 6):
            a, b = rng.normal(size=n), rng.normal(size=m) + 1j * rng.normal(size=m)
            for two in (b.real, b):
                np.testing.assert_allclose(
                    ops.correlate(a, two, mode).numpy(), np.correlate(a, two, mode), atol=1e-12
                )


def test_integers_correlate_as_floats():
    assert ops.correlate(np.int32([1, 2, 3]), np.int32([0, 1]), "same").tolist() == [1, 2, 3]
    assert ops.correlate(np.int64([1]), np.int64([1])).dtype == "float64"


def test_cross_products_of_space_and_plane():
    space, plane = X, X[::-1, :2]
    padded = np.pad(plane, ((0, 0), (0, 1)))
    assert_same(ops.cross(space, space[::-1]), np.cross(space, space[::-1]))
    assert_same(ops.cross(space, plane), np.cross(space, padded))
    many = np.tile(space, (900, 1)) * np.arange(900 * len(space))[:, None]
    assert_same(ops.cross(many, many[::-1]), np.cross(many, many[::-1]))
    assert_same(ops.cross(plane, space), np.cross(padded, space))
    assert_same(ops.cross(plane, plane[::-1]), np.cross(padded, padded[::-1])[:, 2])
    assert_same(ops.cross(space.T, space[::-1].T, axis=0), np.cross(space, space[::-1]).T)
    assert_same(ops.cross(space, space[::-1], axisc=0), np.cross(space, space[::-1]).T)


def test_trapezoid_agrees_with_numpy():
    x = np.array([0.0, 1.0, 4.0, 5.0])
    assert_same(ops.trapezoid(X, axis=0), np.trapezoid(X, axis=0))
    assert_same(ops.trapezoid(X, x, axis=0), np.trapezoid(X, x, axis=0))
    assert_same(ops.trapezoid(X, dx=0.5), np.trapezoid(X, dx=0.5))
    assert float(ops.trapezoid([1, 2, 3])) == 4
    for size in (0, 1, 2, 3, 40_000):
        y = np.cos(np.arange(size * 2.0)).reshape(2, size)
        assert_same(ops.trapezoid(y, dx=2), np.trapezoid(y, dx=2))
        assert_same(tk.function(lambda y: ops.trapezoid(y, dx=2))(y), np.trapezoid(y, dx=2))
    assert float(ops.trapezoid([np.inf, 1.0, 2.0])) == np.inf
    assert float(ops.trapezoid([1.0, 2.0], dx=tk.constant(3.0))) == 4.5


def test_correlation_coefficients_agree_with_numpy():
    assert_same(ops.corrcoef(X), np.corrcoef(X))
    assert float(ops.corrcoef(X[0])) == pytest.approx(1.0)


ERRORS = [
    (lambda: ops.diff(1.0), ShapeError, "axis -1 is out of range"),
    (lambda: ops.diff([1.0], n=-1), InvalidArgumentError, "n must be 0 or more"),
    (lambda: ops.cross(np.ones(4), np.ones(4)), ShapeError, "2 or 3 components, got 4 and 4"),
    (lambda: ops.correlate([1.0], [[1.0]]), ShapeError, "needs two vectors"),
    (lambda: ops.correlate([], [1.0]), ShapeError, "needs two vectors"),
    (lambda: ops.correlate([1.0], [1.0], "max"), ValueError, "not 'max'"),
    (lambda: ops.corrcoef(np.ones((1, 1, 1))), ShapeError, "a vector or a matrix"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors_say_what_is_wrong(call, error, message):
    with pytest.raises(error, match=message):
        call()
