"""Orders of shuffles."""

import numpy as np
import pytest

from trainkit.core import rng as core_rng
from trainkit.core.tensor_spec import TensorSpec
from trainkit.data import Dataset

N = 300


def by_position():
    return Dataset.range(N)


def walked():
    return Dataset.from_generator(lambda: iter(range(N)), output_signature=TensorSpec((), "int64"))


def order(dataset):
    return [int(n) for n in dataset]


@pytest.mark.parametrize("source", [by_position, walked])
@pytest.mark.parametrize("buffer", [1, 7, N, 10 * N])
def test_every_element_comes_once_and_not_before_its_time(source, buffer):
    found = order(source().shuffle(buffer, seed=1))
    assert sorted(found) == list(range(N))
    # Element number k can leave only after k - buffer others have.
    assert all(value <= place + buffer - 1 for place, value in enumerate(found))
    if buffer > 1:
        assert found != sorted(found)


@pytest.mark.parametrize("buffer", [7, N])
def test_a_seed_fixes_the_order_and_each_pass_has_its_own(buffer):
    one, two = (by_position().shuffle(buffer, seed=5) for _ in range(2))
    first, second = order(one), order(one)
    assert first != second
    assert [order(two), order(two)] == [first, second]
    assert order(by_position().shuffle(buffer, seed=6)) != first


def test_without_reshuffling_all_passes_are_alike():
    dataset = by_position().shuffle(50, seed=5, reshuffle_each_iteration=False)
    assert order(dataset) == order(dataset)


def test_repeat_after_shuffle_reshuffles():
    found = order(by_position().shuffle(N, seed=5).repeat(2))
    assert found[:N] != found[N:]
    assert sorted(found[:N]) == sorted(found[N:]) == list(range(N))


def test_without_a_seed_the_global_one_counts():
    core_rng.set_seed(11)
    first = order(by_position().shuffle(N))
    core_rng.set_seed(11)
    assert order(by_position().shuffle(N)) == first
    assert order(by_position().shuffle(N)) != first


def test_orders_are_fair():
    # In 2,000 passes each of the 6 orders of 3 elements comes about 333 times (deviation 17).
    dataset = Dataset.range(3).shuffle(3, seed=0)
    counts = {}
    for _ in range(2000):
        key = tuple(order(dataset))
        counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 6
    assert all(abs(count - 2000 / 6) < 5 * 17 for count in counts.values())


def test_batches_hold_the_same_order_as_elements():
    def make():
        return by_position().shuffle(40, seed=2)

    batches = [n for batch in make().batch(16).as_numpy_iterator() for n in batch]
    assert batches == order(make())


def test_rows_of_several_arrays_stay_together():
    x = np.arange(N) * 3
    for a, b in Dataset.from_tensor_slices((x, np.arange(N))).shuffle(N).batch(7):
        np.testing.assert_array_equal(a.numpy(), b.numpy() * 3)
