"""Texts cut into words, and words as numbers by a hash."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

PUNCTUATION = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'


def text_to_word_sequence(
    input_text: str, filters: str = PUNCTUATION, lower: bool = True, split: str = " "
) -> list[str]:
    """The words of a text.

    Args:
        input_text: the text.
        filters: characters that are dropped; each of them ends a word.
        lower: whether capitals become small letters.
        split: what stands between two words.

    Returns:
        The words in their order; there are no empty ones.

    Raises:
        TypeError: `input_text` is no string.

    >>> text_to_word_sequence("The cat, the DOG.")
    ['the', 'cat', 'the', 'dog']
    """
    if not isinstance(input_text, str):
        raise TypeError(
            f"text_to_word_sequence: a text must be a str, got {type(input_text).__name__} "
            f"{input_text!r}; of a tensor take x.numpy().decode(), and fill missing values"
        )
    text = input_text.lower() if lower else input_text
    return [
        word
        for word in text.translate(dict.fromkeys(map(ord, filters), split)).split(split)
        if word
    ]


def hashing_trick(
    text: str,
    n: int,
    hash_function: str | Callable[[str], int] | None = None,
    filters: str = PUNCTUATION,
    lower: bool = True,
    split: str = " ",
    analyzer: Callable[[str], Sequence[str]] | None = None,
) -> list[int]:
    """Words as numbers in [1, n), without a vocabulary; different words may meet in one number.

    Args:
        text: the text.
        n: one more than the largest number.
        hash_function: `None` for Python's `hash`, whose values differ between processes; `"md5"`,
            whose values do not; or a function from a word to an int.
        filters: characters that are dropped.
        lower: whether capitals become small letters.
        split: what stands between two words.
        analyzer: a function from the text to its words, instead of the three arguments before.

    Returns:
        A number for each word.

    Raises:
        ValueError: `n` is less than 2, or `hash_function` another word.
        TypeError: `text` is no string.

    >>> hashing_trick("the cat the dog", 1000, "md5")
    [132, 759, 132, 168]
    """
    if n < 2:
        raise ValueError(f"hashing_trick: n must be at least 2, as numbers begin at 1; got {n}")
    number = _hash_function(hash_function)
    words = analyzer(text) if analyzer else text_to_word_sequence(text, filters, lower, split)
    return [number(word) % (n - 1) + 1 for word in words]


def _hash_function(hash_function: str | Callable[[str], int] | None) -> Callable[[Any], int]:
    if hash_function is None:
        return hash
    if callable(hash_function):
        return hash_function
    if hash_function == "md5":
        return lambda word: int(hashlib.md5(word.encode(), usedforsecurity=False).hexdigest(), 16)
    raise ValueError(
        f"hashing_trick: hash_function={hash_function!r} must be None, 'md5' or a function from a "
        "word to an int"
    )


def one_hot(
    input_text: str,
    n: int,
    filters: str = PUNCTUATION,
    lower: bool = True,
    split: str = " ",
    analyzer: Callable[[str], Sequence[str]] | None = None,
) -> list[int]:
    """Words as numbers in [1, n) by Python's `hash`; despite its name, the result has no vectors.

    The numbers differ between processes: `hashing_trick(text, n, "md5")` gives lasting ones.

    Args:
        input_text: the text.
        n: one more than the largest number.
        filters: characters that are dropped.
        lower: whether capitals become small letters.
        split: what stands between two words.
        analyzer: a function from the text to its words, instead of the three arguments before.

    Returns:
        A number for each word.

    Raises:
        ValueError: `n` is less than 2.
        TypeError: `input_text` is no string.

    >>> first, second, third = one_hot("the cat the", 1000)
    >>> first == third
    True
    """
    return hashing_trick(input_text, n, hash, filters, lower, split, analyzer)
