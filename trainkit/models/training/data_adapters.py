"""Batches for training, from arrays, data sets, generators and sequences.

A batch has as many parts as the user gave: x, (x, y) or (x, y, sample_weight).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import devices, dtypes, nest
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, is_tensor, wrap_on_device
from trainkit.core.values.foreign_arrays import as_dense, require_room
from trainkit.core.values.table_columns import require_numbers
from trainkit.core.values.text_arrays import may_be_text, text_array
from trainkit.data import Dataset, DatasetIterator

_F32 = np.dtype(np.float32)


def unpack(data: Any) -> tuple[Any, Any, Any]:
    """A batch as x, y and sample weights; what is not there is `None`.

    Args:
        data: x, (x,), (x, y) or (x, y, sample_weight); a list is taken as a tuple.

    Raises:
        ValueError: it has more than three parts, or none.

    Example:
        >>> x, y, weights = tk.utils.unpack_x_y_sample_weight((1, 2))
        >>> weights is None
        True
    """
    if not isinstance(data, tuple | list):
        return data, None, None
    if not 1 <= len(data) <= 3:
        raise ValueError(
            f"a batch is x, (x,), (x, y) or (x, y, sample_weight); got {len(data)} parts"
        )
    return (*data, None, None)[:3]


def pack(x: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """Inputs, targets and weights as the one thing that a step is given; see `unpack`.

    Without targets it is the inputs alone, which stand in a tuple if they are a list or a tuple.

    Args:
        x: anything, or the inputs.
        y: targets.
        sample_weight: weights of the samples.

    Example:
        >>> len(tk.utils.pack_x_y_sample_weight(tk.ones(2), tk.ones(2)))
        2
    """
    if y is None:
        return (x,) if isinstance(x, list | tuple) else x
    return (x, y) if sample_weight is None else (x, y, sample_weight)


def pack_given(x: Any, y: Any, sample_weight: Any) -> Any:
    """The same, but for weights without targets, which a step of the user's own may want."""
    lone = y is None and sample_weight is not None
    return (x, None, sample_weight) if lone else pack(x, y, sample_weight)


# ---------------------------------------------------------------------- arrays


def _is_many(x: Any) -> bool:
    """Whether a list holds arrays, of several inputs, rather than numbers."""
    return isinstance(x, list | tuple) and any(hasattr(item, "shape") for item in x)


def _is_column(x: Any) -> bool:
    """Whether `x` is a column of a table, a `Series` of pandas."""
    kind = type(x)
    return kind.__name__ == "Series" and kind.__module__.startswith("pandas")


def as_arrays(x: Any) -> Any:
    """A nest of arrays and lists of numbers as arrays, floats in the default float type.

    A column of a table of pandas has a second axis of size 1, as in Keras.
    """
    if x is None or (type(x) is np.ndarray and x.dtype is _F32):
        return x  # what most calls give
    if isinstance(x, dict):
        return {key: as_arrays(value) for key, value in x.items()}
    if _is_many(x):
        return nest.like(x, [as_arrays(item) for item in x])
    if type(x) is np.ndarray:
        array = x
    elif isinstance(x, Tensor):
        array = devices.to_numpy(x._array)
    elif is_tensor(x):
        array = x.numpy()
    else:
        require_room(x)
        require_numbers(x)
        array = np.asarray(x.to_numpy() if hasattr(x, "to_numpy") else as_dense(x))
        if _is_column(x):
            array = array[:, None]
    array = dtypes.native(array)
    if may_be_text(array):
        texts = text_array(array)
        if texts is not None:
            return texts
        array = _numbers(array)
    if array.dtype == np.float64:
        array = array.astype(dtypes.as_dtype(dtypes.floatx()).dtype)
    return array


def _numbers(array: Any) -> Any:
    """Numbers that NumPy has as objects, as a table with a column of bools beside others gives."""
    try:
        numbers = np.array(array.tolist())
    except ValueError:  # rows of different lengths
        numbers = array
    if numbers.dtype.kind not in "biuf" or numbers.shape != array.shape:
        raise InvalidArgumentError(
            "the data has rows of different lengths, or objects; pad it to one shape first"
        )
    return numbers


def sample_count(leaves: list[Any]) -> int:
    """The first size that all arrays have.

    Raises:
        InvalidArgumentError: there are none, or their sizes differ.
    """
    if not leaves:
        raise InvalidArgumentError("there is no data")
    sizes = [leaf.shape[0] if leaf.ndim else None for leaf in leaves]
    if len(set(sizes)) > 1 or sizes[0] is None:
        listed = ", ".join(str(leaf.shape) for leaf in leaves)
        raise InvalidArgumentError(
            f"x, y and sample_weight need the same number of samples, their shapes are {listed}"
        )
    return int(sizes[0])


def packer(parts: Any) -> Callable[[tuple[Any, ...]], Any]:
    """A function from leaves to a batch that is nested as the parts (x, y, sample_weight) are."""
    batch = pack_given(*parts)
    if not _nested(batch):
        return lambda leaves: leaves[0]
    if not any(part is None or _nested(part) for part in batch) and not isinstance(batch, dict):
        return tuple
    flat = nest.flatten(batch)
    indices = [i for i, leaf in enumerate(flat) if leaf is not None]

    def packed(leaves: tuple[Any, ...]) -> Any:
        filled: list[Any] = [None] * len(flat)
        for i, leaf in zip(indices, leaves, strict=True):
            filled[i] = leaf
        return nest.pack(batch, filled)

    return packed


def _nested(x: Any) -> bool:
    return isinstance(x, dict | list | tuple)


def split_arrays(parts: Any, share: float) -> tuple[Any, Any]:
    """The first and the last samples of arrays, `share` of them in the second part.

    Raises:
        ValueError: `share` is not between 0 and 1, or leaves one part empty.
    """
    leaves = [leaf for leaf in nest.flatten(parts) if leaf is not None]
    count = sample_count(leaves)
    cut = int(count * (1.0 - share)) if 0 < share < 1 else 0
    if not 0 < cut < count:
        raise ValueError(
            f"validation_split={share} of {count} samples leaves no samples to train on, or none "
            f"to validate with"
        )

    def part(where: slice) -> Any:
        return nest.map_structure(lambda a: None if a is None else a[where], parts)

    return part(slice(0, cut)), part(slice(cut, None))


def checked_class_weight(class_weight: Any) -> dict[int, float]:
    """Weights by class number.

    Raises:
        ValueError: it is no dict, or a key is no number.
    """
    try:
        return {int(key): float(weight) for key, weight in class_weight.items()}
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            f"class_weight must be a dict of weights by class number, got {class_weight!r}"
        ) from None


def weights_of_classes(y: Any, sample_weight: Any, class_weight: dict[int, float]) -> Any:
    """A weight for each sample by its class.

    Args:
        y: class numbers (n,) or (n, 1), floats among them rounded, or one-hot vectors (n, classes).
        sample_weight: weights that the samples have already, which must be `None`.
        class_weight: weights by class number; 1 for classes that are not named.

    Raises:
        ValueError: there are weights of both kinds, several targets, or no numbers.
    """
    if sample_weight is not None:
        raise ValueError(
            "class_weight and sample_weight can't be given together, also not where the batches "
            "hold the sample weights: multiply them, and give the product as sample_weight"
        )
    if not hasattr(y, "shape"):
        raise ValueError("class_weight is for models with a single target")
    class_weight = checked_class_weight(class_weight)
    classes = np.asarray(y.numpy() if is_tensor(y) else y)
    if classes.ndim > 1 and classes.shape[-1] > 1:
        classes = classes.argmax(axis=-1)
    classes = np.round(classes.reshape(len(classes))).astype(np.int64)
    class_ids, inverse = np.unique(classes, return_inverse=True)
    missing = [int(c) for c in class_ids if int(c) not in class_weight]
    if missing:
        warnings.warn(
            f"class_weight has no weight for {'class' if len(missing) == 1 else 'the classes'} "
            f"{', '.join(map(str, missing))} of the targets, which counts 1: name every class, "
            "with 1.0 where that is meant",
            stacklevel=5,
        )
    by_class = np.array([class_weight.get(int(c), 1.0) for c in class_ids], np.float32)
    return by_class[inverse]


def of_tensors(batch: Any) -> Any:
    """A batch of a generator with its arrays as tensors; a list is (x, y), as a tuple is."""

    def tensor(array: Any) -> Any:
        return None if array is None else wrap_on_device(np.array(array))

    if isinstance(batch, list | tuple):
        unpack(batch)  # which refuses too many parts
        return tuple(nest.map_structure(tensor, as_arrays(part)) for part in batch)
    return nest.map_structure(tensor, as_arrays(batch))


def is_arrays(x: Any) -> bool:
    """Whether `x` is data in memory, as opposed to something that gives batches."""
    if isinstance(x, Dataset | DatasetIterator) or x is None:
        return False
    if hasattr(x, "shape") or isinstance(x, dict | list | tuple):
        return True
    return hasattr(x, "to_numpy") or hasattr(x, "__array__")
