"""What IMDB and Reuters share: texts as lists of the numbers of their words, by frequency."""

import json
import os
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainkit.checkpoints.format.regular_files import opened_regular
from trainkit.core.errors import CheckpointError
from trainkit.datasets.store import Source

Part = tuple[np.ndarray, np.ndarray]
Texts = list[list[int]]


@dataclass(frozen=True)
class Choice:
    """The arguments by which Keras chooses texts and words.

    Attributes:
        num_words: words from this number on are replaced; all are kept by default.
        skip_top: words before this number are replaced.
        maxlen: texts of so many words, and longer ones, are left out.
        start_char: number in front of each text, `None` for none.
        oov_char: what replaces words, `None` to leave them out.
        index_from: added to the numbers of words.
    """

    num_words: int | None
    skip_top: int
    maxlen: int | None
    start_char: int | None
    oov_char: int | None
    index_from: int

    def marked(self, texts: Texts) -> list[Any]:
        """Each text as an array of its numbers, with its start marked."""
        shift = self.index_from if self.start_char is not None or self.index_from else 0
        start = [] if self.start_char is None else [self.start_char]
        return [
            np.concatenate([np.asarray(start, np.int64), np.asarray(text, np.int64) + shift])
            for text in texts
        ]

    def short_enough(self, texts: list[Any], labels: Any, name: str) -> tuple[list[Any], Any]:
        """Texts and labels without the texts that are too long.

        Raises:
            ValueError: none is left.
        """
        if not self.maxlen:
            return texts, labels
        short_indices = [i for i, text in enumerate(texts) if len(text) < self.maxlen]
        if not short_indices:
            raise ValueError(
                f"{name}: no text has fewer than maxlen={self.maxlen} words; give a larger maxlen"
            )
        return [texts[i] for i in short_indices], labels[short_indices]

    def without_rare(self, texts: list[Any]) -> list[list[int]]:
        """Lists of numbers in which words that are too frequent or too rare are replaced."""
        end = self.num_words or max((int(text.max(initial=0)) for text in texts), default=0)
        frequent = []
        for text in texts:
            common = (text >= self.skip_top) & (text < end)
            left = text[common] if self.oov_char is None else np.where(common, text, self.oov_char)
            frequent.append(left.tolist())
        return frequent


def shuffled(texts: Any, labels: Any, rng: Any) -> tuple[Texts, Any]:
    """Both in one random order, drawn as Keras does."""
    order = np.arange(len(texts))
    rng.shuffle(order)
    return [texts[i] for i in order], np.asarray(labels)[order]


def as_rows(texts: Sequence[list[int]]) -> np.ndarray:
    """An array of lists."""
    rows = np.empty(len(texts), object)
    rows[:] = texts
    return rows


def check_labels(arrays: dict[str, Any], pairs: Sequence[tuple[str, str]], origin: Any) -> None:
    """Refuse labels that are no numbers, or not one for each text.

    Raises:
        ValueError: they are.
    """
    for texts, labels in pairs:
        count = len(arrays[texts])
        if not isinstance(arrays[labels], np.ndarray) or arrays[labels].shape != (count,):
            raise ValueError(f"{origin}: {labels} has not a number for each of {count} texts.")


def read_word_index(source: Source, path: str | os.PathLike[str]) -> dict[str, int]:
    """The numbers of words, from a JSON file.

    Args:
        source: where the file is.
        path: the path of a copy, or the name of the file in the cache.

    Raises:
        FileNotFoundError: the file is not on this machine and cannot be downloaded.
        ValueError: the file is no table of numbers by words.
    """
    json_path = source.path(path)
    try:
        word_index = json.loads(_read(json_path))
        if not isinstance(word_index, dict) or not all(type(n) is int for n in word_index.values()):
            raise ValueError("it is no table of whole numbers")
    except (ValueError, RecursionError, CheckpointError) as error:
        raise ValueError(f"{json_path}: not a table of words: {error}.") from error
    return word_index


def _read(json_path: pathlib.Path) -> bytes:
    with opened_regular(json_path) as file:
        return file.read()
