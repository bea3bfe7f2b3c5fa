"""Sequences and data sets brought to the sizes that training wants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.rng import next_seed
from trainkit.core.values.type_aliases import DTypeLike
from trainkit.data import Dataset


def pad_sequences(
    sequences: Sequence[Any],
    maxlen: int | None = None,
    dtype: DTypeLike = "int32",
    padding: str = "pre",
    truncating: str = "pre",
    value: Any = 0.0,
) -> Any:
    """Sequences of different lengths as rows of one array.

    Args:
        sequences: each a list or array (steps, ...) of one element shape.
        maxlen: length of the rows; by default that of the longest sequence.
        dtype: element type of the result.
        padding: `"pre"` or `"post"`: where `value` fills up short sequences.
        truncating: `"pre"` or `"post"`: where long sequences lose steps.
        value: what fills up.

    Returns:
        A NumPy array (sequences, maxlen, ...).

    Raises:
        ValueError: `padding` or `truncating` is another word, or something is no sequence.
        InvalidArgumentError: elements have different shapes.

    >>> pad_sequences([[1], [2, 3, 4]], maxlen=2).tolist()
    [[0, 1], [3, 4]]
    """
    for name, word in (("padding", padding), ("truncating", truncating)):
        if word not in ("pre", "post"):
            raise ValueError(f"pad_sequences: {name}={word!r} must be 'pre' or 'post'")
    rows = [_row(sequence, i) for i, sequence in enumerate(sequences)]
    steps = max(map(len, rows), default=0) if maxlen is None else maxlen
    shape = next((row.shape[1:] for row in rows if len(row)), ())
    result = np.full((len(rows), steps, *shape), value, dtype=dtype)
    for i, row in enumerate(rows):
        if len(row) and row.shape[1:] != shape:
            raise InvalidArgumentError(
                f"pad_sequences: elements of sequence {i} have shape {row.shape[1:]}, those before "
                f"{shape}"
            )
        steps_of_row = row[max(len(row) - steps, 0) :] if truncating == "pre" else row[:steps]
        if len(steps_of_row):
            positions = (
                slice(steps - len(steps_of_row), None)
                if padding == "pre"
                else slice(len(steps_of_row))
            )
            result[i, positions] = steps_of_row
    return result


def _row(sequence: Any, position: int) -> Any:
    if not hasattr(sequence, "__len__"):
        raise ValueError(f"pad_sequences: item {position} is no sequence: {sequence!r}")
    return np.asarray(sequence)


def split_dataset(
    dataset: Any,
    left_size: float | None = None,
    right_size: float | None = None,
    shuffle: bool = False,
    seed: int | None = None,
    preferred_backend: str | None = None,
) -> tuple[Dataset, Dataset]:
    """A data set as two.

    Args:
        dataset: a `Dataset`, an array, or a nest of arrays with one first axis.
        left_size: number of elements of the first part, or its share in (0, 1), which is rounded.
        right_size: likewise of the second, the last ones; by default what is left.
        shuffle: whether elements are drawn by chance.
        seed: of the order; by default the next one of the process.
        preferred_backend: whose data sets the parts are: `None` and `"tensorflow"` mean
            `tk.data.Dataset`; others are not supported.

    Returns:
        The two parts.

    Raises:
        ValueError: `preferred_backend` is another, no size is given, or the sizes do not fit the
            number of elements.

    Example:
        >>> train, test = tk.utils.split_dataset(np.arange(10), left_size=0.8)
        >>> len(train), len(test)
        (8, 2)
    """
    if preferred_backend not in (None, "tensorflow"):
        raise ValueError(
            f"split_dataset: preferred_backend is {preferred_backend!r}; it can be None or "
            "'tensorflow', which give a tk.data.Dataset"
        )
    elements = dataset if isinstance(dataset, Dataset) else Dataset.from_tensor_slices(dataset)
    count = len(elements)
    left, right = _sizes(count, left_size, right_size)
    if shuffle:
        drawn = next_seed() % 2**31 if seed is None else seed
        elements = elements.shuffle(count, seed=drawn, reshuffle_each_iteration=False)
    return elements.take(left), elements.skip(count - right)  # the last ones, as in Keras


def _sizes(count: int, left: float | None, right: float | None) -> tuple[int, int]:
    if left is None and right is None:
        raise ValueError("split_dataset: give left_size or right_size")
    for name, size in (("left_size", left), ("right_size", right)):
        if isinstance(size, float) and not 0 < size < 1:
            raise ValueError(
                f"split_dataset: {name}={size} is no share between 0 and 1; give a whole number of "
                f"elements, such as {int(size)}"
            )
    if isinstance(left, float) and isinstance(right, float) and left + right > 1:
        raise ValueError(
            f"split_dataset: left_size={left} and right_size={right} are more than the whole"
        )
    sizes = [
        None if n is None else round(n * count) if 0 < n < 1 else int(n) for n in (left, right)
    ]
    first = count - int(sizes[1] or 0) if sizes[0] is None else sizes[0]
    second = count - first if sizes[1] is None else sizes[1]
    if first < 1 or second < 1 or first + second > count:
        raise ValueError(
            f"split_dataset: there are {count} elements; left_size={left} and right_size={right} "
            f"are parts of {first} and {second}, which have to be above 0 and to fit"
        )
    return first, second
