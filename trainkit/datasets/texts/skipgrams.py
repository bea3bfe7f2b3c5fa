"""Pairs of words for skip-gram models, and how often frequent words are to be taken."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np


def make_sampling_table(size: int, sampling_factor: float = 1e-5) -> Any:
    """How likely each word is to be kept, by its rank, so that frequent ones come less often.

    p(rank) = min(1, sqrt(t / f)), where t is `sampling_factor` and, by Zipf's law,
    1 / f(rank) = rank (log rank + gamma) + 1/2 - 1 / (12 rank). Rank 0 has the chance of rank 1.
    Source: Mikolov et al. 2013, arXiv:1310.4546, section 2.3.

    Args:
        size: how many ranks.
        sampling_factor: t; the smaller, the less often frequent words come.

    Returns:
        A NumPy array (size,) of float64 in (0, 1].

    >>> make_sampling_table(3).round(5).tolist()
    [0.00315, 0.00315, 0.00548]
    """
    gamma = 0.577  # to as many places as Keras has it
    rank = np.maximum(np.arange(size), 1)
    rarity = rank * (np.log(rank) + gamma) + 0.5 - 1.0 / (12.0 * rank)
    return np.minimum(1.0, np.sqrt(sampling_factor * rarity))


def skipgrams(
    sequence: Sequence[int],
    vocabulary_size: int,
    window_size: int = 4,
    negative_samples: float = 1.0,
    shuffle: bool = True,
    categorical: bool = False,
    sampling_table: Any = None,
    seed: int | None = None,
) -> tuple[list[list[int]], list[Any]]:
    """Pairs of a word and one near it, labelled 1, and of a word and any other, labelled 0.

    Chance is that of Python's `random` module, as in Keras, so `random.seed` repeats the pairs.

    Args:
        sequence: the numbers of a text's words; 0 stands for no word and is left out.
        vocabulary_size: one more than the largest number.
        window_size: how many words to each side are near.
        negative_samples: how many pairs of label 0 there are for each of label 1.
        shuffle: whether pairs come in random order; otherwise those of label 1 come first.
        categorical: whether labels are `[0, 1]` and `[1, 0]` rather than 1 and 0.
        sampling_table: how likely each word is to be taken, by its number, as
            `make_sampling_table` gives it; `None` takes all.
        seed: of the random order.

    Returns:
        The pairs, each a list of two numbers, and their labels.

    Raises:
        ValueError: `window_size` or `negative_samples` is negative, or `vocabulary_size` leaves no
            word to draw.

    >>> skipgrams([1, 2, 3], 4, window_size=1, negative_samples=0, shuffle=False)
    ([[1, 2], [2, 1], [2, 3], [3, 2]], [1, 1, 1, 1])
    """
    if window_size < 0 or negative_samples < 0:
        raise ValueError(
            f"skipgrams: window_size={window_size} and negative_samples={negative_samples} must "
            "not be negative"
        )
    if negative_samples and vocabulary_size < 2:
        raise ValueError(f"skipgrams: vocabulary_size must be at least 2, got {vocabulary_size}")
    near, any_other = ([0, 1], [1, 0]) if categorical else (1, 0)
    pairs = _near_pairs(sequence, window_size, sampling_table)
    labels = [near] * len(pairs)
    others = int(len(pairs) * negative_samples)
    if others:
        words = [word for word, _ in pairs]
        random.shuffle(words)
        pairs += [
            [words[i % len(words)], random.randint(1, vocabulary_size - 1)] for i in range(others)
        ]
        labels += [any_other] * others
    if shuffle:
        order = list(range(len(pairs)))
        random.Random(random.getrandbits(32) if seed is None else seed).shuffle(order)
        pairs, labels = [pairs[i] for i in order], [labels[i] for i in order]
    return pairs, labels


def _near_pairs(sequence: Sequence[int], window_size: int, sampling_table: Any) -> list[list[int]]:
    pairs = []
    for i, word in enumerate(sequence):
        if not word or (sampling_table is not None and sampling_table[word] < random.random()):
            continue
        window = range(max(0, i - window_size), min(len(sequence), i + window_size + 1))
        pairs += [[word, sequence[j]] for j in window if j != i and sequence[j]]
    return pairs
