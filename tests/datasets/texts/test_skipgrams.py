"""`skipgrams` and `make_sampling_table`: pairs and numbers are those of Keras."""

import random

import numpy as np
import pytest

from trainkit.keras.preprocessing.sequence import make_sampling_table, skipgrams

KERAS = ([[2, 2], [3, 2], [2, 1], [1, 2], [2, 1], [2, 3], [1, 8], [3, 6]], [0, 1, 1, 1, 0, 1, 0, 0])


def test_pairs_within_the_window():
    pairs, labels = skipgrams([1, 2, 0, 3], 9, window_size=2, negative_samples=0, shuffle=False)
    assert pairs == [[1, 2], [2, 1], [2, 3], [3, 2]]
    assert labels == [1, 1, 1, 1]


def test_pairs_are_those_of_keras_for_one_seed():
    random.seed(3)
    pairs, labels = skipgrams([1, 2, 3], 9, window_size=1, seed=5)
    assert (pairs, labels) == KERAS
    assert len(pairs) == 8
    assert sum(labels) == 4


def test_labels_of_two_classes():
    pairs, labels = skipgrams([1, 2, 3], 5, categorical=True, negative_samples=0.5, shuffle=False)
    assert len(pairs) == 9
    assert labels == [[0, 1]] * 6 + [[1, 0]] * 3
    assert all(1 <= other < 5 for _, other in pairs[6:])


def test_the_order_does_not_disturb_pythons_generator():
    random.seed(1)
    skipgrams([1, 2], 5, negative_samples=0, seed=7)
    first = random.random()
    random.seed(1)
    assert first == random.random()


def test_a_sampling_table_leaves_words_out():
    table = np.array([1.0, 0.0, 1.0])
    pairs, _ = skipgrams([1, 2, 1], 3, negative_samples=0, sampling_table=table, shuffle=False)
    assert pairs == [[2, 1], [2, 1]]


def test_the_sampling_table_is_that_of_keras():
    np.testing.assert_allclose(
        make_sampling_table(5),
        [0.00315225, 0.00315225, 0.00547597, 0.00741556, 0.00912817],
        rtol=1e-5,
    )
    assert make_sampling_table(10, sampling_factor=1.0).max() == 1.0


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="window_size=-1"):
        skipgrams([1], 3, window_size=-1)
    with pytest.raises(ValueError, match="vocabulary_size must be at least 2"):
        skipgrams([1, 1], 1)
    assert skipgrams([], 3) == ([], [])
