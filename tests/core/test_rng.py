"""Philox and what is made of its bits."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.core import rng

# Known answers of the Random123 library (kat_vectors): philox 4x64, 10 rounds.
KNOWN = [
    (0, 0, [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]),
    (
        2**128 - 1,
        2**256 - 1,
        [0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0],
    ),
]


@pytest.mark.parametrize(("key", "counter", "words"), KNOWN)
def test_known_answers(key, counter, words):
    assert rng.bits(key, counter, 4).tolist() == words


def test_the_counter_counts_blocks_of_four_words():
    stream = rng.bits(7, 0, 12)
    np.testing.assert_array_equal(rng.bits(7, 1, 8), stream[4:])
    assert [rng.blocks_for(n) for n in (1, 4, 5)] == [1, 1, 2]
    assert rng.blocks_for(9, bits_each=32) == 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_uniform_floats(dtype):
    draws = rng.uniform_floats(3, 0, 20_001, dtype)
    assert draws.dtype == dtype
    assert 0 <= draws.min() < 1e-3
    assert 1 - 1e-3 < draws.max() < 1
    assert abs(draws.mean() - 0.5) < 0.01
    step = 2.0**-24 if dtype == np.float32 else 2.0**-53
    np.testing.assert_array_equal(draws / step, np.round(draws / step))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normal_floats(dtype):
    draws = rng.normal_floats(3, 0, 20_001, dtype)
    assert draws.dtype == dtype
    assert np.isfinite(draws).all()
    assert abs(draws.mean()) < 0.02
    assert abs(draws.std() - 1) < 0.02


def test_seeds_repeat_themselves():
    tk.random.set_seed(5)
    first = [rng.next_seed() for _ in range(3)]
    version = rng.seed_version()
    tk.random.set_seed(5)
    assert [rng.next_seed() for _ in range(3)] == first
    assert len(set(first)) == 3
    assert rng.seed_version() > version
    assert rng.current_seed() == 5


def test_without_a_seed_nothing_repeats():
    rng.set_seed(None)
    assert rng.next_seed() != rng.next_seed()
    assert 0 <= rng.next_seed() < 2**63


def test_a_seed_is_an_int():
    with pytest.raises(TypeError, match="the seed must be an int, got 'a'"):
        rng.set_seed("a")
    rng.set_seed(np.int64(3))
    assert rng.current_seed() == 3


def test_a_seed_may_be_a_float_of_a_whole_number():
    tk.random.set_seed(3)
    wanted = tk.random.uniform([2]).numpy().tolist()
    tk.random.set_seed(3.0)
    assert tk.random.uniform([2]).numpy().tolist() == wanted
    with pytest.raises(TypeError, match=r"must be an int, got 3\.5"):
        tk.random.set_seed(3.5)
