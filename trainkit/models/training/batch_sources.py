"""Where the batches of each epoch come from: arrays, data sets, generators and sequences.

Feeds of arrays are `tk.data` pipelines, so their order and position are stored with a run.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from trainkit.core import devices, nest
from trainkit.core.tensor import Tensor, wrap_on_device
from trainkit.core.tensor_spec import TensorSpec
from trainkit.core.trackable import Trackable, set_silently
from trainkit.data import Dataset, structure
from trainkit.data.sources import SlicesNode
from trainkit.models.training import data_adapters, limits
from trainkit.models.training.py_dataset import PyDataset, ahead

_PASSES, _SEEN = "passes", "seen"
_UNUSUAL_KINDS = frozenset("OUSTV")  # texts, and what has no tensor type


class Feed(Trackable):
    """Gives the batches of epochs. A subclass gives an iterator over those of a pass.

    Args:
        steps: how many batches make an epoch, which then goes on where the last one ended; by
            default an epoch is a whole pass.
        length: how many batches a pass has, `None` if that is not known before its end.
        class_weight: weights of the samples by class, a third part of each batch.

    Attributes:
        steps: how many batches an epoch has, `None` if that is not known before its end.
        whole_passes: each epoch begins the data anew, rather than go on where the last one ended.
        begun_again: whether `begin` was called more than once.
    """

    _untracked = frozenset({"iterator", "class_weight"})
    whole_passes: bool
    steps: int | None
    length: int | None
    iterator: Any
    class_weight: Any

    def __init__(self, steps: int | None, length: int | None, class_weight: Any = None) -> None:
        # past `__setattr__`: none of these is a part, and each call of `predict` makes a feed
        set_silently(
            self, whole_passes=steps is None, steps=length if steps is None else steps,
            length=length, iterator=None, class_weight=class_weight,
        )  # fmt: skip
        self.passes = self.seen = self.given = self.epochs = 0

    # ------------------------------------------------------------------ what a subclass says

    def fresh(self) -> Iterator[Any] | None:
        """An iterator over the next pass; `None` if there is none any more."""
        raise NotImplementedError

    def batch(self, element: Any) -> Any:
        """A batch, of tensors, from what the iterator gave."""
        return element

    def spec(self) -> Any:
        """The nest of `TensorSpec`s of a batch, if it is known."""
        return None

    def reset(self) -> None:
        """A fit or an evaluation is about to begin."""

    def end(self) -> None:
        """An epoch is over."""

    def missing_numbers(self) -> str:
        """Where the data has NaN or infinities, in words, if that can be seen at once."""
        return ""

    # ------------------------------------------------------------------ epochs

    @property
    def spent(self) -> bool:
        """Whether there is nothing left, now and in later epochs."""
        return False

    @property
    def begun_again(self) -> bool:
        return self.epochs > 1

    def begin(self, anew: bool = False) -> Iterator[Any]:
        """An iterator over the batches of the next epoch.

        Args:
            anew: begin the data anew in any case, if it can be.
        """
        passed = self.length is not None and self.seen >= self.length
        if self.iterator is None or self.whole_passes or anew or passed:
            self._next_pass()
        set_silently(self, given=0, epochs=self.epochs + 1)
        return self

    def more(self) -> bool:
        """Whether there may be more batches in this epoch."""
        if self.length is not None and self.seen >= self.length:
            return False
        return self.steps is None or self.given < self.steps

    def _next_pass(self) -> bool:
        iterator = self.fresh()
        if iterator is None:
            return False
        set_silently(self, iterator=iterator, passes=self.passes + 1, seen=0)
        return True

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.iterator is None:
            raise StopIteration
        try:
            element = next(self.iterator)
        except StopIteration:
            # the pass ended with the last epoch, which nobody knew
            if self.given or not self.seen or not self._next_pass():
                self.iterator = None
                raise
            element = next(self.iterator)
        counts = self.__dict__  # plain numbers, which no checkpoint follows
        counts["seen"] += 1
        counts["given"] += 1
        batch = self.batch(element)
        return batch if not self.class_weight else self._weigh(batch)

    def _weigh(self, batch: Any) -> Any:
        x, y, weight = data_adapters.unpack(batch)
        return x, y, wrap_on_device(data_adapters.weights_of_classes(y, weight, self.class_weight))

    # ------------------------------------------------------------------ positions

    def position(self, within: bool) -> dict[str, Any]:
        """Where the data stands, `within` an epoch or between two."""
        position: dict[str, Any] = {_PASSES: np.int64(self.passes)}
        if self.iterator is not None and (within or not self.whole_passes):
            position |= {_SEEN: np.int64(self.seen), **self.stored()}
        return position

    def go_to(self, arrays: dict[str, Any], step: int) -> Iterator[Any] | None:
        """Stand where `position` was taken, at a step of the epoch.

        Between epochs that begin the data anew it is `None`.
        """
        arrays = dict(arrays)
        passes = int(arrays.pop(_PASSES, 0))
        batch_count = arrays.pop(_SEEN, None)
        if not arrays:
            self.passes = passes
            return None
        self.passes = max(passes - 1, 0)
        self._next_pass()
        self.restore(arrays)
        self.seen = int(batch_count) if batch_count is not None else self.seen
        self.given = step
        return self

    def stored(self) -> dict[str, Any]:
        """Where the iterator stands."""
        return {}

    def restore(self, arrays: dict[str, Any]) -> None:
        """Put the iterator where `stored` was asked."""


class DatasetFeed(Feed):
    """Batches of a data set; see `Feed`.

    Raises:
        ValueError: the data set has no end and `steps` is not given.
    """

    def __init__(
        self, dataset: Dataset, steps: int | None = None, class_weight: Any = None
    ) -> None:
        count = dataset.node.count()
        if steps is None and count == -1:
            raise ValueError(
                "the data set has no end: say how many batches make an epoch, by steps"
            )
        super().__init__(steps, count if count >= 0 else None, class_weight)
        self.dataset = dataset

    def spec(self) -> Any:
        return self.dataset.element_spec

    def missing_numbers(self) -> str:
        """The same of the arrays that a data set was made from, where it has come from arrays."""
        node: Any = self.dataset.node
        while node is not None and not isinstance(node, SlicesNode):
            node = getattr(node, "source", None)
        if node is None:
            return ""
        try:
            return _missing_in(data_adapters.unpack(nest.pack(node.shape_of, node.arrays)))
        except ValueError:  # steps of the data set make batches of more parts than three
            return ""

    def fresh(self) -> Iterator[Any]:
        return iter(self.dataset)

    def stored(self) -> dict[str, Any]:
        arrays: dict[str, Any] = self.iterator.state_arrays()
        return arrays

    def restore(self, arrays: dict[str, Any]) -> None:
        self.iterator.load_state_arrays(arrays)


def _missing_in(parts: Any) -> str:
    """Which of the arrays of x, y and weights hold NaN or infinities, in words."""
    texts = []
    for name, part in zip(("x", "y", "sample_weight"), parts, strict=True):
        for array in nest.flatten(part):
            if array is None or not np.issubdtype(array.dtype, np.floating):
                continue
            for kind, holds in (("NaN", np.isnan), ("inf", np.isinf)):
                bad = np.argwhere(holds(array))
                if len(bad):
                    first = ", ".join(map(str, bad[0].tolist()))
                    texts.append(
                        f"{name} has {kind} in {len(bad)} of {array.size} places, [{first}] first"
                    )
    return "; ".join(texts)


class ArrayFeed(DatasetFeed):
    """Batches of arrays.

    Args:
        parts: (x, y, sample_weight), nests of arrays of one first size; `None` where missing.
        batch_size: samples in a batch; the last one may be smaller. By default 32, or, with
            `steps`, as many as let so many batches hold all samples.
        shuffle: `True` for samples in random order, `"batch"` for batches in random order.
        steps: batches of an epoch; by default all.
    """

    _untracked = Feed._untracked | {"parts_given"}
    parts_given: Any

    def __init__(
        self, parts: Any, batch_size: int | None, shuffle: Any, steps: int | None = None
    ) -> None:
        leaves, samples, batch_size = _cut(parts, batch_size, steps)
        dataset = Dataset.from_tensor_slices(tuple(leaves))
        if shuffle == "batch":
            count = -(-samples // batch_size)
            dataset = dataset.batch(batch_size).shuffle(max(count, 1))
        elif shuffle:
            dataset = dataset.shuffle(max(samples, 1)).batch(batch_size)
        else:
            dataset = dataset.batch(batch_size)
        super().__init__(dataset, steps)
        self.__dict__.update(batch=data_adapters.packer(parts), parts_given=parts)

    def missing_numbers(self) -> str:
        return _missing_in(self.parts_given)

    def spec(self) -> Any:
        return self.batch(self.dataset.element_spec)


def _cut(parts: Any, batch_size: int | None, steps: int | None) -> tuple[list[Any], int, int]:
    """The arrays of `parts`, their number of samples, and that of a batch; see `ArrayFeed`."""
    leaves = [leaf for leaf in nest.flatten(parts) if leaf is not None]
    samples = data_adapters.sample_count(leaves)
    if batch_size is None:
        batch_size = max(-(-samples // steps), 1) if steps else 32
    return leaves, samples, batch_size


class OrderedFeed(ArrayFeed):
    """Batches of arrays in their order, for passes of which nobody stores the position.

    A pipeline of `tk.data` costs more than a small network takes for a batch, so the arrays are cut
    here; replicas divide the data set that stands for the same batches.
    """

    _untracked = ArrayFeed._untracked | {"leaves"}
    leaves: list[Any]
    samples: int
    batch_size: int

    def __init__(self, parts: Any, batch_size: int | None, steps: int | None = None) -> None:
        leaves, samples, batch_size = _cut(parts, batch_size, steps)
        if any(leaf.dtype.kind in _UNUSUAL_KINDS for leaf in leaves):
            _, leaves = structure.arrays_of(tuple(leaves), "from_tensor_slices")
        length = -(-samples // batch_size)
        Feed.__init__(self, steps, length)
        set_silently(
            self, leaves=leaves, samples=samples, batch_size=batch_size,
            batch=data_adapters.packer(parts), parts_given=parts,
        )  # fmt: skip

    @functools.cached_property
    def dataset(self) -> Dataset:  # type: ignore[override]
        """The same batches as a data set."""
        return Dataset.from_tensor_slices(tuple(self.leaves)).batch(self.batch_size)

    def fresh(self) -> Iterator[Any]:
        return _batches_of(self.leaves, self.samples, self.batch_size)


def rows_of_one_batch(x: Any, batch_size: Any) -> Any:
    """A copy of the array of an input that is one batch for a pass; `None` for other data.

    Args:
        x: what `predict` was given.
        batch_size: samples in a batch; by default 32.
    """
    array = x._array if type(x) is Tensor else x
    if type(array) is not np.ndarray or not array.ndim or array.dtype.kind in _UNUSUAL_KINDS:
        return None
    if limits.max_steps_per_epoch() is not None:  # which decides about the sizes of batches
        return None
    if batch_size is not None:
        batch_size = limits.whole(batch_size, "batch_size", minimum=1)
    if not 0 < len(array) <= (batch_size or 32):
        return None
    return data_adapters.as_arrays(array).copy()


def _batches_of(leaves: list[Any], samples: int, batch_size: int) -> Iterator[list[Any]]:
    """The leaves of each batch; no method of a feed, which holds it: a cycle lives on."""
    where = devices.current()
    for start in range(0, samples, batch_size):
        rows = [leaf[start : start + batch_size].copy() for leaf in leaves]
        yield structure.tensors_on(rows, where)


class IterableFeed(Feed):
    """Batches of a Python generator, of a sequence of batches, or of anything that can be iterated.

    To take up a position it is iterated again up to there, so it should give the same each time.

    Args:
        source: an iterator, or what can be iterated anew for each epoch. If it has methods
            `on_epoch_begin` and `on_epoch_end`, they are called.
        steps: batches of an epoch; needed if `source` has no end.
        shuffle: whether the batches of a `PyDataset` come in random order.
        class_weight: see `Feed`.
    """

    _untracked = Feed._untracked | {"source", "waiting"}
    source: Any
    waiting: Any

    def __init__(
        self, source: Any, steps: int | None, shuffle: Any = False, class_weight: Any = None
    ) -> None:
        self.indexed = isinstance(source, PyDataset)
        if self.indexed:
            length = source.num_batches
        else:
            length = len(source) if hasattr(source, "__len__") else None
        if length == 0:
            raise ValueError(f"{type(source).__name__} has no batches")
        super().__init__(steps, length, class_weight)
        self.once = not self.indexed and hasattr(source, "__iter__") and iter(source) is source
        self.shuffle = bool(shuffle)
        self.source, self.waiting = source, None
        self.within = False

    def spec(self) -> Any:
        if self.indexed:
            first = self.source[0]
        else:
            waiting = self._all() if self.waiting is None else self.waiting
            first = next(waiting, None)
            if first is None:
                return None
            self.waiting = itertools.chain([first], waiting)
        parts = self.batch(first)
        return nest.map_structure(lambda x: None if x is None else TensorSpec.from_tensor(x), parts)

    def fresh(self) -> Iterator[Any] | None:
        waiting, self.waiting = self.waiting, None
        if waiting is not None:  # a look at the first batch has begun it
            return waiting
        if self.once and self.passes:
            return None
        return self._all()

    @property
    def spent(self) -> bool:
        return self.once and self.epochs > 0 and self.iterator is None

    def _all(self) -> Iterator[Any]:
        source = self.source
        if self.indexed:
            return self._by_index()
        if hasattr(source, "__iter__"):
            return iter(source)
        return (source[i] for i in range(len(source)))

    def _by_index(self) -> Iterator[Any]:
        source = self.source
        if source.num_batches is None:
            return ahead(source, itertools.count())
        order = list(range(source.num_batches))
        if self.shuffle:  # by the number of the pass alone, as Keras does
            random.Random(self.passes + 1).shuffle(order)
        return ahead(source, order)

    def begin(self, anew: bool = False) -> Iterator[Any]:
        self._tell("on_epoch_begin")
        self.within = True
        return super().begin(anew and not self.once)

    def reset(self) -> None:
        # Keras ends an epoch of a `PyDataset` before the first one, too: what shuffles its indices
        # there would otherwise give other batches than in Keras.
        if self.indexed:
            self._tell("on_epoch_end")

    def end(self) -> None:
        if self.within:
            self.within = False
            self._tell("on_epoch_end")

    def _tell(self, method: str) -> None:
        hook = getattr(self.source, method, None)
        if hook is not None:
            hook()

    def batch(self, element: Any) -> Any:
        return data_adapters.of_tensors(element)

    def stored(self) -> dict[str, Any]:
        return {"taken": np.int64(self.seen)}

    def restore(self, arrays: dict[str, Any]) -> None:
        self.seen = int(arrays["taken"])
        for _ in range(self.seen):
            next(self.iterator)
        if not self.within:
            self._tell("on_epoch_begin")
            self.within = True


def feed(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    batch_size: int | None = None,
    shuffle: Any = False,
    steps: int | None = None,
    class_weight: dict[int, float] | None = None,
    resumes: bool = False,
) -> Feed:
    """The feed for what `fit`, `evaluate` and `predict` may be given as `x`.

    Args:
        x: arrays, nested for several inputs; or a `Dataset`, generator or sequence of batches.
        y: targets; part of the batches if `x` gives these.
        sample_weight: weights; the same.
        batch_size: samples in a batch of arrays, see `ArrayFeed`; not those of a `Dataset`.
        shuffle: whether arrays are shuffled, or `"batch"`.
        steps: batches of an epoch; 0, as small data gives after a division, is none given.
        class_weight: weights by class.
        resumes: whether its position is stored with a run.

    Raises:
        ValueError: an argument that does not go with the kind of `x`.
        TypeError: `x` is no data.
    """
    steps = limits.steps(steps)
    if batch_size is not None:
        batch_size = limits.whole(batch_size, "batch_size", minimum=1)
    if data_adapters.is_arrays(x):
        parts = tuple(data_adapters.as_arrays(part) for part in (x, y, sample_weight))
        if class_weight:
            weight = data_adapters.weights_of_classes(parts[1], parts[2], class_weight)
            parts = (parts[0], parts[1], weight)
        if resumes or shuffle:
            return ArrayFeed(parts, batch_size, shuffle, steps)
        return OrderedFeed(parts, batch_size, steps)
    kind = type(x).__name__
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise ValueError(f"{name} must be part of the batches when x is a {kind}")
    if isinstance(x, Dataset):
        return DatasetFeed(x, steps, class_weight)
    if hasattr(x, "__iter__") or (hasattr(x, "__getitem__") and hasattr(x, "__len__")):
        return IterableFeed(x, steps, shuffle, class_weight)
    raise TypeError(f"x must be arrays, a Dataset, a generator or a sequence, got {x!r}")
