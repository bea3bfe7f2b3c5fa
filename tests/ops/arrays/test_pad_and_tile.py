import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trainkit as tk
from tests.ops.numpy_compare import arrays, assert_same
from trainkit import ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.ops.arrays.tile_and_repeat import repeat_sum

X = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("dtype", "float32 float64 float16 bfloat16 complex64 int8".split())
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_the_gradient_of_doubling_has_the_bits_of_numpys_sum(rng, dtype, axis):
    g = tk.cast(100 * rng.normal(size=(4, 6, 8)), dtype).numpy()
    runs = np.stack([np.take(g, range(i, g.shape[axis], 2), axis) for i in (0, 1)])
    sums = repeat_sum(tk.constant(g), repeats=2, axis=axis)
    assert sums.dtype.name == dtype
    np.testing.assert_array_equal(sums, runs.sum(axis=0, dtype=g.dtype))


@given(arrays(), st.data())
def test_tile_and_repeat_agree_with_numpy(x, data):
    counts = tuple(data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4)))
    assert_same(ops.tile(x, counts), np.tile(x, counts))
    assert_same(ops.repeat(x, 3), np.repeat(x, 3))
    if x.ndim:
        axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
        n = x.shape[axis]
        each = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
        if n != 1:
            assert_same(ops.repeat(x, each, axis), np.repeat(x, each, axis))


@given(arrays(min_dims=1), st.data())
def test_flip_and_roll_agree_with_numpy(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    shift = data.draw(st.integers(-5, 5))
    assert_same(ops.flip(x), np.flip(x))
    assert_same(ops.flip(x, axis), np.flip(x, axis))
    assert_same(ops.roll(x, shift), np.roll(x, shift))
    assert_same(ops.roll(x, shift, axis), np.roll(x, shift, axis))


@given(arrays(min_dims=2), st.integers(-5, 5), st.sampled_from([(0, 1), (1, 0), (-1, 0)]))
def test_rot90_agrees_with_numpy(x, k, axes):
    assert_same(ops.rot90(x, k, axes), np.rot90(x, k, axes))


@given(arrays(min_dims=1, min_side=3), st.data())
def test_pad_agrees_with_numpy(x, data):
    pair = st.tuples(st.integers(0, 2), st.integers(0, 2))
    widths = data.draw(st.lists(pair, min_size=x.ndim, max_size=x.ndim))
    for mode in ("constant", "reflect", "symmetric", "edge", "wrap"):
        assert_same(ops.pad(x, widths, mode), np.pad(x, widths, mode))
    assert_same(ops.pad(x, widths, constant_values=7), np.pad(x, widths, constant_values=7))


def test_one_width_serves_all_axes():
    assert_same(ops.pad(X, 1), np.pad(X, 1))
    assert_same(ops.pad(X, (1, 2)), np.pad(X, (1, 2)))


def test_several_axes_roll_at_once():
    assert_same(ops.roll(X, (1, 2), (0, 1)), np.roll(X, (1, 2), (0, 1)))


def test_matrices_flip_by_direction():
    assert_same(ops.fliplr(X), np.fliplr(X))
    assert_same(ops.flipud(X), np.flipud(X))


ERRORS = [
    (lambda: ops.tile(X, -1), "repeats must be 0 or more"),
    (lambda: ops.repeat(X, [1, 2], 0), "needs 3 repeats"),
    (lambda: ops.repeat(X, -1, 0), "0 or more"),
    (lambda: ops.repeat(X, 2, 4), "axis 4 is out of range"),
    (lambda: ops.flip(X, 2), "axis 2 is out of range"),
    (lambda: ops.fliplr([1.0]), "axis 1 is out of range"),
    (lambda: ops.roll(X, 1, 2), "axis 2 is out of range"),
    (lambda: ops.rot90(X, 1, (0, 0)), "names an axis twice"),
    (lambda: ops.rot90(X, 1, (0, 1, 2)), "needs two axes"),
    (lambda: ops.pad(X, 5, "reflect"), "'reflect' allows size - 1"),
    (lambda: ops.pad(X, -1), "none may be negative"),
    (lambda: ops.pad(X, ((1, 1), (1, 1), (1, 1))), "no pair for each of the 2 axes"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors_show_the_shapes(call, message):
    with pytest.raises(InvalidArgumentError, match=message):
        call()


def test_pad_refuses_settings_that_do_not_go_together():
    with pytest.raises(ValueError, match="'median' is none of"):
        ops.pad(X, 1, "median")
    with pytest.raises(ValueError, match="goes with mode 'constant'"):
        ops.pad(X, 1, "reflect", constant_values=1)


@pytest.mark.parametrize("dims", [(5,), (3, 4), (2, 3, 4), (0, 3), (3, 0)])
@pytest.mark.parametrize("shift", [0, 1, -1, 3, 7, -12])
def test_roll_along_one_axis_is_numpys(dims, shift):
    x = np.arange(np.prod(dims), dtype="float32").reshape(dims)
    for values in (x, np.asfortranarray(x), x[..., ::-1]):
        for axis in range(-len(dims), len(dims)):
            rolled = tk.ops.roll(tk.constant(values), shift, axis)
            np.testing.assert_array_equal(rolled, np.roll(values, shift, axis))


def test_roll_along_an_axis_that_is_not_there_names_it():
    with pytest.raises(tk.errors.ShapeError, match="roll"):
        tk.ops.roll([[1, 2]], 1, 2)
