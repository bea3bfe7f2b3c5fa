"""Loops of functions over datasets that do not say the ranks of their elements."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.errors import InvalidArgumentError


def unranked(*elements, types=(tk.int32, tk.int32)):
    return tk.data.Dataset.from_generator(lambda: iter(elements), types)


@tk.function
def total(dataset):
    loss = tk.constant(0)
    for x, y in dataset:
        loss += tk.reduce_sum(tk.abs(y - x))
    return loss


def test_elements_have_the_ranks_of_the_first_one():
    assert int(total(unranked((1, 3), (2, 2), (5, 1)))) == 6
    assert int(total(unranked(([1, 2], [3, 3]), ([1], [4])))) == 6


def test_sizes_may_differ_and_known_shapes_stay():
    rows = unranked([1.0], [1.0, 2.0], [], types=tk.float32)
    pairs = tk.data.Dataset.zip((rows, tk.data.Dataset.from_tensor_slices(np.ones((3, 2)))))

    @tk.function
    def f(pairs):
        sums, shapes = tk.constant(0.0), []
        for x, y in pairs:
            sums += tk.reduce_sum(x)
            shapes.append((tuple(x.shape), tuple(y.shape)))
        assert set(shapes) == {((None,), (2,))}
        return sums

    assert float(f(pairs)) == 4.0


def test_an_element_of_another_rank_is_refused():
    with pytest.raises(InvalidArgumentError, match=r"rank 0, .*shape \(2,\) came"):
        total(unranked((1, 3), ([1, 2], [3, 4])))


@pytest.mark.parametrize("make", [unranked, lambda: iter(unranked((1, 3)))])
def test_ranks_that_can_not_be_found_out_are_asked_for(make):
    with pytest.raises(ValueError, match="output_signature"):
        total(make())
