"""`Tokenizer`: a vocabulary learnt from texts, and texts as numbers or vectors by it."""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from trainkit.datasets.texts.words import PUNCTUATION, text_to_word_sequence

MODES = ("binary", "count", "freq", "tfidf")


class Tokenizer:
    """A vocabulary learnt from texts: words get numbers from 1, the most frequent ones first.

    `layers.TextVectorization` does the same within a model, on tensors; this works on Python's
    strings, before training. Numbers are those of Keras's `Tokenizer`, and so is the JSON text.

    Args:
        num_words: one more than the largest number that `texts_to_sequences` gives: rarer words
            are left out, or become `oov_token`. `None` keeps all.
        filters: characters that are dropped; each of them ends a word.
        lower: whether capitals become small letters.
        split: what stands between two words.
        char_level: whether each character is a word.
        oov_token: what stands for words that are not known, number 1; `None` leaves them out.
        analyzer: a function from a text to its words, instead of `filters`, `lower` and `split`.
        **kwargs: `document_count`, the number of texts that were seen before.

    Attributes:
        word_index: the number of each word, all words included.
        index_word: the word of each number.
        word_counts: how often each word came, in the order in which words first came.
        word_docs: in how many texts each word came.
        index_docs: the same by number.
        document_count: how many texts were seen.

    Raises:
        TypeError: an argument is not known.

    >>> tokenizer = Tokenizer(num_words=4, oov_token="?")
    >>> tokenizer.fit_on_texts(["the cat sat", "the cat ran"])
    >>> tokenizer.word_index
    {'?': 1, 'the': 2, 'cat': 3, 'sat': 4, 'ran': 5}
    >>> tokenizer.texts_to_sequences(["The cat ran!"])
    [[2, 3, 1]]
    """

    def __init__(
        self,
        num_words: int | None = None,
        filters: str = PUNCTUATION,
        lower: bool = True,
        split: str = " ",
        char_level: bool = False,
        oov_token: str | None = None,
        analyzer: Callable[[str], Sequence[str]] | None = None,
        **kwargs: Any,
    ) -> None:
        if "nb_words" in kwargs:
            warnings.warn(
                "Tokenizer: nb_words is called num_words now", FutureWarning, stacklevel=2
            )
            num_words = kwargs.pop("nb_words")
        self.document_count = kwargs.pop("document_count", 0)
        if kwargs:
            raise TypeError(f"Tokenizer: unknown arguments {', '.join(kwargs)}")
        self.num_words = num_words
        self.filters = filters
        self.lower = lower
        self.split = split
        self.char_level = char_level
        self.oov_token = oov_token
        self.analyzer = analyzer
        self.word_counts: OrderedDict[str, int] = OrderedDict()
        self.word_docs: defaultdict[str, int] = defaultdict(int)
        self.index_docs: defaultdict[int, int] = defaultdict(int)
        self.word_index: dict[str, int] = {}
        self.index_word: dict[int, str] = {}

    def _words(self, text: Any, position: int) -> Sequence[str]:
        """The words of a text, or of a list of words."""
        if isinstance(text, (list, tuple)):
            return [word.lower() for word in text] if self.lower else text
        if not isinstance(text, str):
            raise TypeError(
                f"Tokenizer: text {position} is {text!r}, a {type(text).__name__}; it must be a "
                "str or a list of words (of a tensor, x.numpy().decode()); fill missing values"
            )
        if self.char_level:
            return text.lower() if self.lower else text
        if self.analyzer is not None:
            return self.analyzer(text)
        return text_to_word_sequence(text, self.filters, self.lower, self.split)

    def fit_on_texts(self, texts: Iterable[Any]) -> None:
        """Count the words of these texts, and number all words by how often they came.

        Called again, it goes on counting; numbers that were given before may change then.

        Args:
            texts: strings, or lists of words; a generator is possible.

        Raises:
            TypeError: one is neither; the vocabulary stays as it was.
        """
        totals, documents, count = self._count_items(_several(texts, self.char_level))
        self.document_count += count
        for word, number in totals.items():
            self.word_counts[word] = self.word_counts.get(word, 0) + number
            self.word_docs[word] += documents[word]
        ranked = sorted(self.word_counts, key=lambda word: -self.word_counts[word])
        first = [] if self.oov_token is None else [self.oov_token]
        self.word_index = {word: i for i, word in enumerate([*first, *ranked], 1)}
        self.index_word = {i: word for word, i in self.word_index.items()}
        for word, count in self.word_docs.items():
            self.index_docs[self.word_index[word]] = count

    def _count_items(self, texts: Iterable[Any]) -> tuple[Counter[str], Counter[str], int]:
        """How often each word comes, in how many texts, and how many texts there are."""
        totals: Counter[str] = Counter()
        documents: Counter[str] = Counter()
        count = 0
        for count, text in enumerate(texts, 1):
            words = self._words(text, count - 1)
            totals.update(words)
            documents.update(list(dict.fromkeys(words)))
        return totals, documents, count

    def fit_on_sequences(self, sequences: Iterable[Iterable[int]]) -> None:
        """Count in how many of these lists of numbers each number comes, for `mode="tfidf"`."""
        for sequence in sequences:
            self.document_count += 1
            for number in set(sequence):
                self.index_docs[number] += 1

    def texts_to_sequences(self, texts: Iterable[Any]) -> list[list[int]]:
        """A list of numbers for each text.

        Args:
            texts: strings, or lists of words.

        Raises:
            TypeError: one is neither.
        """
        return list(self.texts_to_sequences_generator(texts))

    def texts_to_sequences_generator(self, texts: Iterable[Any]) -> Iterator[list[int]]:
        """The same lists of numbers one after the other."""
        unknown = self.word_index.get(self.oov_token) if self.oov_token is not None else None
        limit = self.num_words or math.inf
        numbers = {word: i if i < limit else unknown for word, i in self.word_index.items()}
        for position, text in enumerate(_several(texts, self.char_level)):
            word_numbers = (numbers.get(word, unknown) for word in self._words(text, position))
            yield [number for number in word_numbers if number is not None]

    def sequences_to_texts(self, sequences: Iterable[Iterable[int]]) -> list[str]:
        """A text for each list of numbers: its words with spaces between them."""
        return list(self.sequences_to_texts_generator(sequences))

    def sequences_to_texts_generator(self, sequences: Iterable[Iterable[int]]) -> Iterator[str]:
        """The same texts one after the other."""
        limit = self.num_words or math.inf
        word_of_number = {
            i: word if i < limit else self.oov_token for i, word in self.index_word.items()
        }
        for sequence in sequences:
            words = (word_of_number.get(int(number), self.oov_token) for number in sequence)
            yield " ".join(word for word in words if word is not None)

    def texts_to_matrix(self, texts: Iterable[Any], mode: str = "binary") -> Any:
        """A vector over the vocabulary for each text, as `sequences_to_matrix` makes it."""
        return self.sequences_to_matrix(self.texts_to_sequences(texts), mode)

    def sequences_to_matrix(self, sequences: Sequence[Sequence[int]], mode: str = "binary") -> Any:
        """A vector over the vocabulary for each list of numbers.

        With c the count of a word in a text of length n, d the texts that have it, and D all texts:
        `"binary"` 1, `"count"` c, `"freq"` c / n, `"tfidf"` (1 + log c) log(1 + D / (1 + d)).

        Args:
            sequences: lists of numbers; those from `num_words` on are left out.
            mode: one of these four.

        Returns:
            A NumPy array (texts, num_words) of float64; without `num_words`, (texts, words + 1).

        Raises:
            ValueError: `mode` is another word, or the vocabulary is needed and empty.

        >>> tokenizer = Tokenizer()
        >>> tokenizer.fit_on_texts(["a b a"])
        >>> tokenizer.texts_to_matrix(["a b a"], mode="count").tolist()
        [[0.0, 2.0, 1.0]]
        """
        if mode not in MODES:
            raise ValueError(
                f"Tokenizer: mode={mode!r} must be one of {', '.join(map(repr, MODES))}"
            )
        if not self.num_words and not self.word_index:
            raise ValueError("Tokenizer: give num_words, or call fit_on_texts first")
        if mode == "tfidf" and not self.document_count:
            raise ValueError("Tokenizer: mode='tfidf' needs counts, call fit_on_texts first")
        size = self.num_words or len(self.word_index) + 1
        matrix = np.zeros((len(sequences), size))
        for row, sequence in zip(matrix, sequences, strict=True):
            counted = {i: n for i, n in Counter(sequence).items() if i < size}
            numbers, counts = list(counted), np.array([*counted.values()], "float64")
            row[numbers] = self._weights(numbers, counts, len(sequence), mode)
        return matrix

    def _weights(self, numbers: list[int], counts: Any, length: int, mode: str) -> Any:
        if mode == "binary":
            return 1.0
        if mode == "tfidf":
            documents = np.array([self.index_docs.get(i, 0) for i in numbers], "float64")
            return (1 + np.log(counts)) * np.log(1 + self.document_count / (1 + documents))
        return counts if mode == "count" else counts / max(length, 1)

    def get_config(self) -> dict[str, Any]:
        """The settings, and the vocabulary as JSON texts; an `analyzer` is not part of it."""
        settings = ("num_words", "filters", "lower", "split", "char_level", "oov_token")
        tables = ("word_counts", "word_docs", "index_docs", "index_word", "word_index")
        return {
            **{name: getattr(self, name) for name in settings},
            "document_count": self.document_count,
            **{name: json.dumps(getattr(self, name)) for name in tables},
        }

    def to_json(self, **kwargs: Any) -> str:
        """The tokenizer as JSON, for `tokenizer_from_json`.

        Args:
            **kwargs: of `json.dumps`.

        >>> tokenizer = Tokenizer()
        >>> tokenizer.fit_on_texts(["a b"])
        >>> tokenizer_from_json(tokenizer.to_json()).word_index
        {'a': 1, 'b': 2}
        """
        return json.dumps({"class_name": "Tokenizer", "config": self.get_config()}, **kwargs)


def tokenizer_from_json(json_string: str) -> Tokenizer:
    """The tokenizer of a text that `Tokenizer.to_json`, or that of Keras, has written.

    Args:
        json_string: the text.

    Raises:
        ValueError: it is not the JSON text of a tokenizer.
    """
    try:
        config = dict(json.loads(json_string)["config"])
        counts, docs, index_docs, index_word, word_index = (
            json.loads(config.pop(name))
            for name in ("word_counts", "word_docs", "index_docs", "index_word", "word_index")
        )
        return _tokenizer(config, counts, docs, index_docs, index_word, word_index)
    except (
        TypeError,
        KeyError,
        ValueError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise ValueError(
            "tokenizer_from_json: this is not the text that Tokenizer.to_json() writes"
        ) from error


def _tokenizer(config: Any, counts: Any, docs: Any, index_docs: Any, index_word: Any,
               word_index: Any) -> Tokenizer:  # fmt: skip
    tokenizer = Tokenizer(**config)
    tokenizer.word_counts = OrderedDict(counts)
    tokenizer.word_docs = defaultdict(int, docs)
    tokenizer.index_docs = defaultdict(int, {int(i): count for i, count in index_docs.items()})
    tokenizer.index_word = {int(i): word for i, word in index_word.items()}
    tokenizer.word_index = word_index
    return tokenizer


def _several(texts: Iterable[Any], char_level: bool) -> Iterable[Any]:
    """The texts; each letter of a string is one, which is rarely meant."""
    if isinstance(texts, str) and not char_level:
        warnings.warn(
            f"Tokenizer: texts is one string, so each letter is a text; write [{texts[:20]!r}]",
            stacklevel=3,
        )
    return texts
