"""States of random generators: their words, and where `skip` leads, at once and in a graph."""

import numpy as np
import pytest

import trainkit as tk

MOST = (1 << 64) - 1
WAYS = pytest.mark.parametrize("way", [lambda f: f, tk.function], ids=["eager", "function"])


def words(generator):
    return [int(word) for word in generator.state.numpy()]


@WAYS
@pytest.mark.parametrize(
    ("start", "delta", "end"),
    [
        ([0, 0, 7], 3, [3, 0, 7]),
        ([MOST, 5, 7], 1, [0, 6, 7]),
        ([MOST, MOST, 7], 2, [1, 0, 7]),
        ([1, 1, 7], -2, [MOST, 0, 7]),
        ([0, 0, 7], 5 << 64, [0, 5, 7]),
    ],
)
def test_skip_moves_the_counter_in_each_run_and_gives_the_state_before(way, start, delta, end):
    generator = tk.random.Generator.from_state(np.array(start, np.uint64), "philox")
    skip = way(lambda: generator.skip(delta))
    assert [int(word) for word in skip().numpy()] == start
    assert words(generator) == end
    skip()
    counter = (start[0] + (start[1] << 64) + 2 * delta) % (1 << 128)
    assert words(generator) == [counter & MOST, counter >> 64, start[2]]


@WAYS
def test_skip_takes_a_tensor(way):
    generator = tk.random.Generator.from_state([1, 2, 3], "philox")
    way(generator.skip)(tk.constant(5))
    assert words(generator) == [6, 2, 3]


def test_numbers_after_skip_are_those_after_as_many_blocks():
    one, two = (tk.random.Generator.from_seed(3) for _ in range(2))
    one.uniform([8])  # eight floats of 32 bits fill a block
    two.skip(1)
    np.testing.assert_array_equal(one.uniform([5]), two.uniform([5]))


@pytest.mark.parametrize("convert", [list, np.array, tk.constant], ids=["list", "array", "tensor"])
def test_a_state_of_tensorflow_has_words_with_a_sign(convert):
    state = convert([2, 0, -5])
    generator = tk.random.Generator.from_state(state, "philox")
    assert words(generator) == [2, 0, (1 << 64) - 5]
    generator.reset(state)
    assert words(generator) == [2, 0, (1 << 64) - 5]
    assert generator.uniform([2]).shape == (2,)
