"""Sizes, counts and bounds that are tensors inside of a function: as with Python's numbers."""

import numpy as np
import pytest

import trainkit as tk

IMAGE = tk.reshape(tk.range(75.0), (5, 5, 3))
INT, FLOAT = tk.constant, tk.constant
BOX = (INT(1), INT(2), INT(3), INT(2))

SAME = {
    "crop_to_bounding_box": (lambda *a: tk.image.crop_to_bounding_box(IMAGE, *a), BOX),
    "pad_to_bounding_box": (
        lambda *a: tk.image.pad_to_bounding_box(IMAGE, *a),
        (INT(1), INT(2), INT(7), INT(9)),
    ),
    "resize_with_crop_or_pad": (
        lambda *a: tk.image.resize_with_crop_or_pad(IMAGE, *a),
        (INT(3), INT(7)),
    ),
    "resize_with_pad": (lambda *a: tk.image.resize_with_pad(IMAGE, *a), (INT(3), INT(7))),
    "resize": (lambda a: tk.image.resize(IMAGE, a), (INT([3, 7]),)),
    "central_crop": (lambda a: tk.image.central_crop(IMAGE, a), (FLOAT(0.5),)),
    "rot90": (lambda a: tk.image.rot90(IMAGE, a), (INT(3),)),
    "crop_and_resize": (
        lambda a: tk.image.crop_and_resize(IMAGE[None], [[0.0, 0.1, 0.9, 1.0]], [0], a),
        (INT([2, 3]),),
    ),
    "stateless_random_crop": (
        lambda size, seed: tk.image.stateless_random_crop(IMAGE, size, seed),
        (INT([2, 3, 3]), INT([1, 2])),
    ),
    "stateless_uniform, whole numbers": (
        lambda low, high: tk.random.stateless_uniform([50], [1, 2], low, high, dtype=tk.int32),
        (INT(-3), INT(9)),
    ),
    "stateless_categorical": (
        lambda n: tk.random.stateless_categorical([[0.0, 1.0, 2.0]], n, [1, 2]),
        (INT(20),),
    ),
    "unsorted_segment_sum": (
        lambda n: tk.math.unsorted_segment_sum([[1.0], [2.0], [4.0]], [0, 2, 0], n),
        (INT(4),),
    ),
    "unsorted_segment_mean": (
        lambda n: tk.math.unsorted_segment_mean([1.0, 2.0, 4.0], [0, 2, 0], n),
        (INT(4),),
    ),
    "scatter_nd": (lambda shape: tk.scatter_nd([[1]], [[5.0, 6.0]], shape), (INT([3, 2]),)),
    "bincount": (
        lambda n, m: tk.math.bincount([1, 2, 2, 5], minlength=n, maxlength=m),
        (INT(4), INT(3)),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_a_traced_call_gives_what_an_eager_one_gives(name):
    f, arguments = SAME[name]
    plain = [x.numpy().tolist() for x in arguments]
    expected = f(*plain)
    traced = tk.function(f)
    for found in (traced(*arguments), traced(*arguments), f(*arguments)):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_gradients_go_through_a_crop_of_a_size_that_is_a_tensor():
    @tk.function
    def slope(x, n):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.reduce_sum(tk.image.crop_to_bounding_box(x, 1, 1, n, n) ** 2)
        return tape.gradient(y, x)

    expected = np.zeros((5, 5, 3), np.float32)
    expected[1:3, 1:3] = 2 * IMAGE.numpy()[1:3, 1:3]
    np.testing.assert_array_equal(slope(IMAGE, INT(2)), expected)


DRAWS = {
    "uniform": (lambda s: tk.random.uniform(s, FLOAT(2.0), FLOAT(3.0)), (INT([20, 3]),), (2, 3)),
    "whole numbers": (
        lambda s, n: tk.random.uniform(s, 0, n, dtype=tk.int32),
        (INT([20, 3]), INT(5)),
        (0, 4),
    ),
    "gamma": (lambda s: tk.random.gamma(s, [1.0, 2.0, 3.0]), (INT([20]),), (0, np.inf)),
    "poisson": (lambda s: tk.random.poisson(s, [1.0, 2.0, 3.0]), (INT([20]),), (0, np.inf)),
    "random_crop": (lambda s: tk.image.random_crop(tk.ones((30, 3)), s), (INT([20, 3]),), (1, 1)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_of_a_shape_that_is_a_tensor(name):
    f, arguments, (low, high) = DRAWS[name]
    traced = tk.function(f)
    one, two = (traced(*arguments).numpy() for _ in range(2))
    assert one.shape == two.shape == (20, 3)
    assert low <= min(one.min(), two.min())
    assert max(one.max(), two.max()) <= high
    assert name == "random_crop" or (one != two).any()


@pytest.mark.usefixtures("on_cpu")  # a GPU gives the least number, as nothing waits for its bounds
def test_bounds_of_whole_numbers_are_compared_when_the_graph_runs():
    f = tk.function(lambda n: tk.random.uniform([3], 0, n, dtype=tk.int32))
    with pytest.raises(tk.errors.InvalidArgumentError, match="minval must be below maxval"):
        f(INT(0))


def test_a_crop_that_does_not_fit_is_refused_when_the_graph_runs():
    f = tk.function(lambda size: tk.image.random_crop(tk.ones((2, 2)), size))
    with pytest.raises(tk.errors.InvalidArgumentError, match="does not fit"):
        f(INT([3, 1]))


def test_dropout_of_a_rate_that_is_a_tensor():
    f = tk.function(lambda x, rate: tk.nn.dropout(x, rate))
    y = f(tk.ones((4000,)), FLOAT(0.25)).numpy()
    assert set(np.unique(y)) == {0.0, np.float32(1 / 0.75)}
    assert abs((y == 0).mean() - 0.25) < 0.05
    assert tk.nn.dropout(tk.ones((3,)), FLOAT(0.5)).shape == [3]
