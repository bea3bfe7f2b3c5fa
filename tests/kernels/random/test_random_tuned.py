"""Compiled random bits, uniform floats and products of dropout have the bits of NumPy's."""

import numpy as np
import pytest

from trainkit.core import rng as generator
from trainkit.kernels.random import random_tuned

MANY = 80_000  # floats that two threads share


@pytest.mark.parametrize("count", [1, 3, 4, 255, 256, 257, 5000, MANY - 1, MANY, MANY + 257])
@pytest.mark.parametrize("key", [0, 5, 2**64 - 1])
@pytest.mark.parametrize("counter", [0, 2**64 - 3, 2**128 - 2])
def test_words_are_those_of_the_stream(eager, count, key, counter):
    if counter == 2**128 - 2:
        count = 8  # what comes after it has a third word, which no state of a generator has
    found = random_tuned.words(key, counter, count)
    np.testing.assert_array_equal(found, generator.bits(key, counter, count))


def test_no_words_are_none(eager):
    assert random_tuned.words(1, 2, 0).size == 0
    assert random_tuned.scaled_floats(1, 2, 0, 0, 1.0, 0.0).size == 0


@pytest.mark.parametrize("count", [1, 2, 7, 511, 512, 513, 5001, MANY - 1, MANY, MANY + 257])
@pytest.mark.parametrize("first", [0, 1, 8, 13])
@pytest.mark.parametrize("counter", [0, 2**64 - 3])
@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (0.1, -0.05), (-3.0, 2.0)])
def test_scaled_floats_are_those_of_the_words(eager, count, first, counter, scale, offset):
    found = random_tuned.scaled_floats(9, counter, first, count, scale, offset)
    words = generator.bits(9, counter, (first + count) // 2 + 1)
    halves = words.view("uint32")[first : first + count] >> np.uint32(8)
    expected = halves.astype("float32") * np.float32(2.0**-24)
    expected = expected * np.float32(scale) + np.float32(offset)
    np.testing.assert_array_equal(found.view("int32"), expected.view("int32"))


@pytest.mark.parametrize("shape", [(1,), (3, 5), (100, 3), (20_001, 8)])
@pytest.mark.parametrize("turned", [False, True])
def test_products_have_the_bits_of_numpy(eager, rng, shape, turned):
    x = rng.normal(size=shape).astype("float32")
    x.reshape(-1)[:1] = -np.inf
    kept = rng.uniform(size=shape) < 0.5
    if turned:
        x, kept = np.asfortranarray(x), np.asfortranarray(kept)
    found = random_tuned.dropped(x, kept, 1 / 3)
    with np.errstate(invalid="ignore"):
        expected = x * np.multiply(kept, np.float32(1 / 3), dtype="float32")
    np.testing.assert_array_equal(found.view("int32"), expected.view("int32"))


def test_other_dtypes_shared_masks_and_no_elements_are_left_to_numpy(eager):
    x, kept = np.ones((4, 3), "float32"), np.ones((4, 3), bool)
    assert random_tuned.dropped(x.astype("float64"), kept, 2.0) is None
    assert random_tuned.dropped(x, kept[:1], 2.0) is None
    assert random_tuned.dropped(x[:0], kept[:0], 2.0) is None


def test_nothing_is_compiled_when_switched_off(kernels):
    kernels("off")
    assert random_tuned.words(1, 2, 1 << 20) is None
    assert random_tuned.scaled_floats(1, 2, 0, 1 << 20, 1.0, 0.0) is None
    assert random_tuned.dropped(np.ones(9, "float32"), np.ones(9, bool), 2.0) is None
