"""IMDB: 50,000 reviews of films, each praise or blame, as numbers of words.

Source: Maas et al. 2011, "Learning word vectors for sentiment analysis".
"""

import os

import numpy as np

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
    name="imdb",
    files={"imdb.npz": "69664113be75683a8fe16e3ed0ab59fda8886cb3cd7ada244f7d9544e4676b9f"},
    mirrors=(MIRROR,),
    folders=("", "imdb"),
)
WORDS = Source(
    name="imdb",
    files={"imdb_word_index.json": "bfafd718b763782e994055a2d397834f"},
    mirrors=(MIRROR,),
    folders=("", "imdb"),
)
_PAIRS = (("x_train", "y_train"), ("x_test", "y_test"))
available = SOURCE.available


def load_data(
    path: str | os.PathLike[str] = "imdb.npz",
    num_words: int | None = None,
    skip_top: int = 0,
    maxlen: int | None = None,
    seed: int = 113,
    start_char: int | None = 1,
    oov_char: int | None = 2,
    index_from: int = 3,
) -> tuple[Part, Part]:
    """Load the reviews, downloading them on first use (17 MB).

    Words are numbered by how often they occur, from 1 on; 0 is free for padding. The file keeps
    lists as pickled objects; they are read without running anything of it.

    Args:
        path: the path of a copy of the file, or a bare name, under which it is looked for in the
            folder of `TRAINKIT_DATA` and in the cache (`TRAINKIT_CACHE`, else `~/.cache/trainkit`);
            it is otherwise downloaded and checked against its SHA-256.
        num_words: words from this number on are replaced by `oov_char`; none by default, but for
            the rarest.
        skip_top: words before this number are replaced, too.
        maxlen: reviews of so many words, and longer ones, are left out.
        seed: of the order of the reviews.
        start_char: number in front of each review, `None` for none.
        oov_char: what replaces words, `None` to leave them out.
        index_from: added to the numbers of words.

    Returns:
        `((x_train, y_train), (x_test, y_test))`: arrays of lists of ints, and labels, int64: 1 for
        praise. The full set has 25,000 reviews in each.

    Raises:
        FileNotFoundError: the file is not on this machine and cannot be downloaded.
        ValueError: no review is short enough, or the file holds something else.
    """
    archive_path = SOURCE.path(path)
    columns = read_integer_lists(archive_path, [name for pair in _PAIRS for name in pair])
    check_labels(columns, _PAIRS, archive_path)
    choice = Choice(num_words, skip_top, maxlen, start_char, oov_char, index_from)
    rng = np.random.RandomState(seed)
    parts = [shuffled(columns[x], columns[y], rng) for x, y in _PAIRS]
    short_parts = [choice.short_enough(choice.marked(x), y, "imdb") for x, y in parts]
    rows = choice.without_rare([text for texts, _ in short_parts for text in texts])
    end = len(short_parts[0][0])
    return (as_rows(rows[:end]), short_parts[0][1]), (as_rows(rows[end:]), short_parts[1][1])


def get_word_index(path: str | os.PathLike[str] = "imdb_word_index.json") -> dict[str, int]:
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
