"""Reuters: 11,228 news of 46 topics, as numbers of words.

Source: Lewis 1987, the Reuters-21578 collection.
"""

import os

import numpy as np

from trainkit.core.errors import InvalidArgumentError
from trainkit.datasets.housing import MIRROR
from trainkit.datasets.integer_lists import read_integer_lists
from trainkit.datasets.store import Source
from trainkit.datasets.word_numbers import (
    Choice,
    Part,
    as_rows,
    check_labels,
    read_word_index,
    shuffled,
)

SOURCE = Source(
    name="reuters",
    files={"reuters.npz": "d6586e694ee56d7a4e65172e12b3e987c03096cb01eab99753921ef915959916"},
    mirrors=(MIRROR,),
    folders=("", "reuters"),
)
WORDS = Source(
    name="reuters",
    files={"reuters_word_index.json": "4d44cc38712099c9e383dc6e5f11a921"},
    mirrors=(MIRROR,),
    folders=("", "reuters"),
)
_TOPICS = (
    "cocoa grain veg-oil earn acq wheat copper housing money-supply coffee sugar trade reserves "
    "ship cotton carcass crude nat-gas cpi money-fx interest gnp meal-feed alum oilseed gold tin "
    "strategic-metal livestock retail ipi iron-steel rubber heat jobs lei bop zinc orange pet-chem "
    "dlr gas silver wpi hog lead"
)
available = SOURCE.available


def load_data(
    path: str | os.PathLike[str] = "reuters.npz",
    num_words: int | None = None,
    skip_top: int = 0,
    maxlen: int | None = None,
    test_split: float = 0.2,
    seed: int = 113,
    start_char: int | None = 1,
    oov_char: int | None = 2,
    index_from: int = 3,
) -> tuple[Part, Part]:
    """Load the news, downloading them on first use (2 MB).

    Words are numbered by how often they occur, from 1 on; 0 is free for padding. The file keeps
    lists as pickled objects; they are read without running anything of it.

    Args:
        path: the path of a copy of the file, or a bare name, under which it is looked for in the
            folder of `TRAINKIT_DATA` and in the cache (`TRAINKIT_CACHE`, else `~/.cache/trainkit`);
            it is otherwise downloaded and checked against its SHA-256.
        num_words: words from this number on are replaced by `oov_char`; none by default, but for
            the rarest.
        skip_top: words before this number are replaced, too.
        maxlen: news of so many words, and longer ones, are left out.
        test_split: share of the news for testing, in [0, 1].
        seed: of the order of the news.
        start_char: number in front of each text, `None` for none.
        oov_char: what replaces words, `None` to leave them out.
        index_from: added to the numbers of words.

    Returns:
        `((x_train, y_train), (x_test, y_test))`: arrays of lists of ints, and topics, int64 from 0
        to 45, which `get_label_names` names.

    Raises:
        FileNotFoundError: the file is not on this machine and cannot be downloaded.
        ValueError: no text is short enough, `test_split` is outside of its range, or the file
            holds something else.
    """
    if not 0 <= test_split <= 1:
        raise InvalidArgumentError(f"reuters: test_split must be in [0, 1], got {test_split!r}")
    archive_path = SOURCE.path(path)
    columns = read_integer_lists(archive_path, ("x", "y"))
    check_labels(columns, (("x", "y"),), archive_path)
    choice = Choice(num_words, skip_top, maxlen, start_char, oov_char, index_from)
    texts, labels = shuffled(columns["x"], columns["y"], np.random.RandomState(seed))
    short_texts, labels = choice.short_enough(choice.marked(texts), labels, "reuters")
    rows = choice.without_rare(short_texts)
    end = int(len(rows) * (1 - test_split))
    return (as_rows(rows[:end]), labels[:end]), (as_rows(rows[end:]), labels[end:])


def get_word_index(path: str | os.PathLike[str] = "reuters_word_index.json") -> dict[str, int]:
    """The numbers of words, from 1 on, to which `load_data` adds `index_from`.

    Args:
        path: of a copy of the file, or its name in the cache, as in `load_data`.

    Returns:
        Numbers by words.

    Raises:
        FileNotFoundError: the file is not on this machine and cannot be downloaded.
        ValueError: the file holds something else.
    """
    return read_word_index(WORDS, path)


def get_label_names() -> tuple[str, ...]:
    """The names of the topics, in the order of their numbers."""
    return tuple(_TOPICS.split())
