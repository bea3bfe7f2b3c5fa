"""What the two data sets of house prices share: a table of features and a column of prices."""

import os

import numpy as np

from trainkit.core.errors import InvalidArgumentError
from trainkit.datasets.integer_lists import read_integer_lists
from trainkit.datasets.store import Source

Part = tuple[np.ndarray, np.ndarray]

MIRROR = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"


def load_table(
    source: Source,
    path: str | os.PathLike[str],
    features: int,
    test_split: float,
    seed: int,
    max_rows: int | None = None,
) -> tuple[Part, Part]:
    """Both parts of a table, shuffled as Keras does.

    Args:
        source: where its file is.
        path: the path of a copy, or the name of the file in the cache.
        features: how many columns there are.
        test_split: share of the rows for testing, in [0, 1).
        seed: of the order of the rows.
        max_rows: how many of the rows in the file are used; all by default.

    Raises:
        ValueError: the share is outside of its range, or the file holds something else.
        FileNotFoundError: the file is not on this machine and cannot be downloaded.
    """
    if not 0 <= test_split < 1:
        raise InvalidArgumentError(
            f"{source.name}: test_split must be in [0, 1), got {test_split!r}"
        )
    archive_path = source.path(path)
    columns = read_integer_lists(archive_path, ("x", "y"))
    x, y = np.asarray(columns["x"]), np.asarray(columns["y"])
    if x.ndim != 2 or x.shape[1] != features or y.shape != x.shape[:1]:
        raise ValueError(
            f"{archive_path}: x has shape {x.shape} and y {y.shape}, expected (rows, {features}) "
            "and (rows,)."
        )
    x, y = x[:max_rows], y[:max_rows]
    # RandomState is Keras's choice, and its numbers stay the same in all versions of NumPy
    order = np.arange(len(x))
    np.random.RandomState(seed).shuffle(order)
    x, y = x[order], y[order]
    end = int(len(x) * (1 - test_split))
    return (x[:end].copy(), y[:end].copy()), (x[end:].copy(), y[end:].copy())
