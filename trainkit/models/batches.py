"""Batches for training, from arrays, data sets, generators and sequences.

A batch has as many parts as the user gave: x, (x, y) or (x, y, sample_weight).

A `Feed` gives an iterator for each epoch. Feeds of arrays are `tk.data` pipelines, so their order
and position are stored with a run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trainkit.core import devices, dtypes, nest
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, is_tensor, wrap_on_device
from trainkit.core.tensor_spec import TensorSpec
from trainkit.core.trackable import Trackable
from trainkit.data import Dataset, DatasetIterator


class Feed(Trackable):
    """Gives the batches of epochs.

    Attributes:
        steps: how many batches an epoch has, `None` if that is not known before its end.
        batch_size: samples in a whole batch, `None` if not known.
        whole_passes: each epoch begins the data anew, rather than go on where the last one ended.
    """

    steps: int | None = None
    whole_passes = True
    batch_size: int | None = None

    def begin(self) -> Iterator[Any]:
        """An iterator over the batches of the next epoch."""
        raise NotImplementedError

    def spec(self) -> Any:
        """The nest of `TensorSpec`s of a batch, if it is known."""
        return None

    def position(self) -> dict[str, Any]:
        """Where the iterator that was begun last stands."""
        return {}

    def go_to(self, arrays: dict[str, Any]) -> Iterator[Any]:
        """Begin at a position."""
        raise NotImplementedError


def unpack(data: Any) -> tuple[Any, Any, Any]:
    """A batch as x, y and sample weights; what is not there is `None`.

    Args:
        data: x, (x,), (x, y) or (x, y, sample_weight); a list is taken as a tuple.

    Raises:
        ValueError: it has more than three parts, or none.
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


def as_arrays(x: Any) -> Any:
    """A nest of arrays and lists of numbers as arrays, floats in the default float type."""
    if isinstance(x, dict):
        return {key: as_arrays(value) for key, value in x.items()}
    if _is_many(x):
        return nest.like(x, [as_arrays(item) for item in x])
    if x is None:
        return None
    if isinstance(x, Tensor):
        array = devices.to_numpy(x._array)
    elif is_tensor(x):
        array = x.numpy()
    else:
        array = np.asarray(x.to_numpy() if hasattr(x, "to_numpy") else x)
    array = dtypes.native(array)
    if array.dtype == object:
        raise InvalidArgumentError(
            "the data has rows of different lengths, or objects; pad it to one shape first"
        )
    if array.dtype == np.float64:
        array = array.astype(dtypes.as_dtype(dtypes.floatx()).dtype)
    return array


class ArrayFeed(Feed):
    """Batches of arrays.

    Args:
        parts: (x, y, sample_weight), nests of arrays of one first size; `None` where missing.
        batch_size: samples in a batch; the last one may be smaller.
        shuffle: `True` for samples in random order, `"batch"` for batches in random order.
        steps: batches of an epoch; by default all. More or less than all goes on in the next epoch.
    """

    def __init__(self, parts: Any, batch_size: int, shuffle: Any, steps: int | None = None) -> None:
        leaves = [leaf for leaf in nest.flatten(parts) if leaf is not None]
        self.samples = _sample_count(leaves)
        if batch_size < 1:
            raise InvalidArgumentError(f"batch_size must be at least 1, got {batch_size}")
        self.batch_size = batch_size
        self.pack = _packer(parts)
        dataset = Dataset.from_tensor_slices(tuple(leaves))
        count = -(-self.samples // batch_size)
        if shuffle == "batch":
            dataset = dataset.batch(batch_size).shuffle(max(count, 1))
        elif shuffle:
            dataset = dataset.shuffle(max(self.samples, 1)).batch(batch_size)
        else:
            dataset = dataset.batch(batch_size)
        self.inner = DatasetFeed(dataset, steps)
        self.steps, self.whole_passes = self.inner.steps, self.inner.whole_passes

    def spec(self) -> Any:
        return self.pack(self.inner.dataset.element_spec)

    def begin(self) -> Iterator[Any]:
        return map(self.pack, self.inner.begin())

    def position(self) -> dict[str, Any]:
        return self.inner.position()

    def go_to(self, arrays: dict[str, Any]) -> Iterator[Any]:
        return map(self.pack, self.inner.go_to(arrays))


def _sample_count(leaves: list[Any]) -> int:
    if not leaves:
        raise InvalidArgumentError("there is no data")
    sizes = [leaf.shape[0] if leaf.ndim else None for leaf in leaves]
    if len(set(sizes)) > 1 or sizes[0] is None:
        listed = ", ".join(str(leaf.shape) for leaf in leaves)
        raise InvalidArgumentError(
            f"x, y and sample_weight need the same number of samples, their shapes are {listed}"
        )
    return int(sizes[0])


def _packer(parts: Any) -> Callable[[tuple[Any, ...]], Any]:
    """A function from leaves to a batch that is nested as the parts (x, y, sample_weight) are."""
    batch = pack_given(*parts)
    if not _nested(batch):
        return lambda leaves: leaves[0]
    if not any(part is None or _nested(part) for part in batch) and not isinstance(batch, dict):
        return tuple
    flat = nest.flatten(batch)
    there = [i for i, leaf in enumerate(flat) if leaf is not None]

    def packed(leaves: tuple[Any, ...]) -> Any:
        filled: list[Any] = [None] * len(flat)
        for i, leaf in zip(there, leaves, strict=True):
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
    count = _sample_count(leaves)
    cut = int(count * (1.0 - share)) if 0 < share < 1 else 0
    if not 0 < cut < count:
        raise ValueError(
            f"validation_split={share} of {count} samples leaves no samples to train on, or none "
            f"to validate with"
        )

    def part(where: slice) -> Any:
        return nest.map_structure(lambda a: None if a is None else a[where], parts)

    return part(slice(0, cut)), part(slice(cut, None))


def weights_of_classes(y: Any, sample_weight: Any, class_weight: dict[int, float]) -> Any:
    """A weight for each sample by its class, times `sample_weight`.

    Args:
        y: class numbers (n,) or (n, 1), or one-hot vectors (n, classes).
        sample_weight: (n,) or `None`.
        class_weight: weights by class number; 1 for classes that are not named.
    """
    if not hasattr(y, "shape"):
        raise ValueError("class_weight is for models with a single target")
    classes = np.asarray(y.numpy() if is_tensor(y) else y)
    if classes.ndim > 1 and classes.shape[-1] > 1:
        classes = classes.argmax(axis=-1)
    classes = classes.reshape(len(classes)).astype(np.int64)
    known, place = np.unique(classes, return_inverse=True)
    by_class = np.array([class_weight.get(int(c), 1.0) for c in known], np.float32)
    weights = by_class[place]
    if sample_weight is not None:
        weights = weights * np.asarray(sample_weight, np.float32)
    return weights


# ---------------------------------------------------------------------- data sets and iterables


class DatasetFeed(Feed):
    """Batches of a data set.

    Args:
        dataset: gives batches.
        steps: batches of an epoch, which then goes on where the last one ended; by default an epoch
            is a whole pass.

    Raises:
        ValueError: the data set has no end and `steps` is not given.
    """

    def __init__(self, dataset: Dataset, steps: int | None = None) -> None:
        self.dataset = dataset
        count = dataset.node.count()
        if steps is None and count == -1:
            raise ValueError(
                "the data set has no end: say how many batches make an epoch, by steps"
            )
        self.whole_passes = steps is None
        self.steps = steps if steps is not None else (count if count >= 0 else None)
        self.__dict__["iterator"] = None

    def spec(self) -> Any:
        return self.dataset.element_spec

    def begin(self) -> Iterator[Any]:
        if self.whole_passes or self.__dict__["iterator"] is None:
            self.__dict__["iterator"] = iter(self.dataset)
        return self if not self.whole_passes else self.__dict__["iterator"]

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        """The next batch of passes one after the other."""
        iterator: DatasetIterator = self.__dict__["iterator"]
        try:
            return next(iterator)
        except StopIteration:
            self.__dict__["iterator"] = iter(self.dataset)
            return next(self.__dict__["iterator"])

    def position(self) -> dict[str, Any]:
        iterator = self.__dict__["iterator"]
        return {} if iterator is None else iterator.state_arrays()

    def go_to(self, arrays: dict[str, Any]) -> Iterator[Any]:
        iterator = iter(self.dataset)
        iterator.load_state_arrays(arrays)
        self.__dict__["iterator"] = iterator
        return iterator if self.whole_passes else self


class IterableFeed(Feed):
    """Batches of a Python generator, of a sequence of batches, or of anything that can be iterated.

    To take up a position it is iterated again up to there, so it should give the same each time.

    Args:
        source: an iterator, or what can be iterated anew for each epoch.
        steps: batches of an epoch; needed if `source` has no end.
    """

    def __init__(self, source: Any, steps: int | None) -> None:
        self.__dict__["source"] = source
        self.once = iter(source) is source if hasattr(source, "__iter__") else False
        length = len(source) if hasattr(source, "__len__") else None
        self.whole_passes = steps is None or not self.once
        self.steps = steps if steps is not None else length
        self.taken = 0
        self.__dict__.update(running=None, waiting=None)

    def spec(self) -> Any:
        if self.__dict__["waiting"] is None:
            waiting = self._fresh()
            first = next(waiting, None)
            if first is None:
                return None
            self.__dict__["waiting"] = itertools.chain([first], waiting)
            self.__dict__["first"] = _batch_of(first)
        parts = self.__dict__["first"]
        return nest.map_structure(lambda x: None if x is None else TensorSpec.from_tensor(x), parts)

    def _fresh(self) -> Iterator[Any]:
        waiting, self.__dict__["waiting"] = self.__dict__["waiting"], None
        if waiting is not None:  # a look at the first batch has begun it
            return waiting
        source = self.__dict__["source"]
        if hasattr(source, "__iter__"):
            return iter(source)
        return (source[i] for i in range(len(source)))

    def begin(self) -> Iterator[Any]:
        if self.__dict__["running"] is None or not self.once:
            self._ended()
            self.taken = 0
            self.__dict__["running"] = self._fresh()
        return self._batches()

    def _ended(self) -> None:
        source = self.__dict__["source"]
        if self.__dict__["running"] is not None and hasattr(source, "on_epoch_end"):
            source.on_epoch_end()

    def _batches(self) -> Iterator[Any]:
        for batch in self.__dict__["running"]:
            self.taken += 1
            yield _batch_of(batch)

    def position(self) -> dict[str, Any]:
        return {"taken": np.int64(self.taken)}

    def go_to(self, arrays: dict[str, Any]) -> Iterator[Any]:
        self.taken, self.__dict__["running"] = 0, None
        batches = self.begin()
        for _ in range(int(arrays["taken"])):
            next(batches)
        return batches


def _batch_of(batch: Any) -> Any:
    """A batch of a generator with its arrays as tensors; a list is (x, y), as a tuple is."""

    def tensor(array: Any) -> Any:
        return None if array is None else wrap_on_device(np.array(array))

    if isinstance(batch, list | tuple):
        unpack(batch)  # which refuses too many parts
        return tuple(nest.map_structure(tensor, as_arrays(part)) for part in batch)
    return nest.map_structure(tensor, as_arrays(batch))


class WeightedFeed(Feed):
    """Another feed's batches, weighted by class."""

    def __init__(self, inner: Feed, class_weight: dict[int, float]) -> None:
        self.inner = inner
        self.__dict__["weights"] = class_weight
        self.steps, self.batch_size = inner.steps, inner.batch_size
        self.whole_passes = inner.whole_passes

    def _weighted(self, data: Any) -> Any:
        x, y, weight = unpack(data)
        return x, y, wrap_on_device(weights_of_classes(y, weight, self.__dict__["weights"]))

    def spec(self) -> Any:
        return self.inner.spec()

    def begin(self) -> Iterator[Any]:
        return map(self._weighted, self.inner.begin())

    def position(self) -> dict[str, Any]:
        return self.inner.position()

    def go_to(self, arrays: dict[str, Any]) -> Iterator[Any]:
        return map(self._weighted, self.inner.go_to(arrays))


# ---------------------------------------------------------------------- choosing


def is_arrays(x: Any) -> bool:
    """Whether `x` is data in memory, as opposed to something that gives batches."""
    if isinstance(x, Dataset | DatasetIterator) or x is None:
        return False
    if hasattr(x, "shape") or isinstance(x, dict | list | tuple):
        return True
    return hasattr(x, "to_numpy") or hasattr(x, "__array__")


def feed(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    batch_size: int | None = None,
    shuffle: Any = False,
    steps: int | None = None,
    class_weight: dict[int, float] | None = None,
) -> Feed:
    """The feed for what `fit`, `evaluate` and `predict` may be given as `x`.

    Args:
        x: arrays, nested for several inputs; or a `Dataset`, generator or sequence of batches.
        y: targets; part of the batches if `x` gives these.
        sample_weight: weights; the same.
        batch_size: samples in a batch of arrays, 32 by default; not for what gives batches itself.
        shuffle: whether arrays are shuffled, or `"batch"`.
        steps: batches of an epoch.
        class_weight: weights by class.

    Raises:
        ValueError: an argument that does not go with the kind of `x`.
        TypeError: `x` is no data.
    """
    if is_arrays(x):
        parts = (as_arrays(x), as_arrays(y), as_arrays(sample_weight))
        if class_weight:
            weight = weights_of_classes(parts[1], parts[2], class_weight)
            parts = (parts[0], parts[1], weight)
        return ArrayFeed(parts, 32 if batch_size is None else batch_size, shuffle, steps)
    kind = type(x).__name__
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise ValueError(f"{name} must be part of the batches when x is a {kind}")
    if batch_size is not None and isinstance(x, Dataset):
        raise ValueError("batch_size does not go with a Dataset: use dataset.batch(size)")
    made: Feed
    if isinstance(x, Dataset):
        made = DatasetFeed(x, steps)
    elif hasattr(x, "__iter__") or (hasattr(x, "__getitem__") and hasattr(x, "__len__")):
        made = IterableFeed(x, steps)
    else:
        raise TypeError(f"x must be arrays, a Dataset, a generator or a sequence, got {x!r}")
    return WeightedFeed(made, class_weight) if class_weight else made
