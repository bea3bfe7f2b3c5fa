"""`DatasetIterator`: one pass over a data set, which a checkpoint can store and take up again."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import devices
from trainkit.core.dispatch import trace_state
from trainkit.core.errors import FailedPreconditionError, OutOfRangeError
from trainkit.core.tensor_spec import TensorSpec
from trainkit.core.trackable import Trackable, traverse
from trainkit.core.values.text_arrays import text_array
from trainkit.data import structure
from trainkit.data.calling import PASS
from trainkit.data.node import DatasetOp, Leaves, Stage
from trainkit.data.optional import Optional
from trainkit.data.pass_draws import PassDraws
from trainkit.data.traced_iteration import begun_later, taken_later


class DatasetIterator(Trackable):
    """Gives the elements of one pass over a data set, on the current device.

    A checkpoint that tracks it stores where the pass stands, and so the order of all that follows:
    after a restore the same elements come as would have come. For data in memory that is a few
    numbers; a buffer of elements that can't be had again is stored itself.

    Args:
        dataset: a `Dataset`.

    Example:
        >>> iterator = iter(tk.data.Dataset.range(3))
        >>> type(iterator) is tk.data.DatasetIterator
        True
        >>> int(next(iterator)), int(iterator.get_next())
        (0, 1)
    """

    _untracked = frozenset({"dataset", "_draws"})

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self._node: DatasetOp = dataset.node
        self._pack: Callable[[Leaves], Any] | None = None
        self._draws = PassDraws()
        self._begin()

    def _begin(self) -> None:
        self._stage: Stage = self._node.stage()
        # one that Python makes while a function is traced, as for a comprehension, serves that
        # trace alone
        self._of_trace = trace_state.current_graph() is not None

    # The node belongs to the data set; here only the stage's state is stored.
    def parts(self) -> dict[str, Trackable]:
        return {}

    def __iter__(self) -> DatasetIterator:
        return self

    def __next__(self) -> Any:
        if not self._of_trace and trace_state.current_graph() is not None:
            return taken_later(self._next, self.element_spec)
        return self._next()

    def _next(self) -> Any:
        before, PASS.draws = PASS.draws, self._draws
        try:
            leaves = self._stage.next()
        finally:
            PASS.draws = before
        if self._pack is None:
            self._pack = structure.packer(structure.template_of(self._node.template()))
        return self._pack(structure.tensors_on(leaves, devices.current()))

    def next(self) -> Any:
        """The next element, as of `next(iterator)`."""
        return self.__next__()

    def get_next(self) -> Any:
        """The next element.

        Raises:
            OutOfRangeError: there is none.
        """
        try:
            return self.__next__()
        except StopIteration:
            raise OutOfRangeError("the data set has no further element") from None

    def get_next_as_optional(self) -> Optional:
        """The next element as a `tk.experimental.Optional`, which has no value after the last."""
        if not self._of_trace and trace_state.current_graph() is not None:
            specs = TensorSpec((), "bool"), self.element_spec
            return Optional(*taken_later(self._next_or_nothing, specs))
        return self._next_or_nothing()

    def _next_or_nothing(self) -> Optional:
        try:
            return Optional.from_value(self._next())
        except StopIteration:
            return Optional.empty(self.element_spec)

    @property
    def element_spec(self) -> Any:
        """The structure, shapes and dtypes of an element."""
        return self._node.spec()

    def close(self) -> None:
        """End the threads that work for this pass, as happens when nothing holds it any more."""
        self._stage.close()

    def __del__(self) -> None:
        stage = self.__dict__.get("_stage")
        if stage is not None:
            stage.close()

    def state_arrays(self) -> dict[str, Any]:
        arrays: dict[str, Any] = {"steps": np.int64(_steps(self._node))}
        key = self._draws.pass_key.state()
        if key is not None:
            arrays[_PASS_KEY] = np.uint64(key)
        encode(self._stage.state(), "", arrays)
        return arrays

    def load_state_arrays(self, arrays: dict[str, Any]) -> None:
        arrays = dict(arrays)
        if int(arrays.pop("steps", -1)) != _steps(self._node):
            raise ValueError(_OTHER_STEPS.format(self.dataset))
        key = arrays.pop(_PASS_KEY, None)
        before = self._stage.state()
        try:
            self._stage.load(decode(arrays))
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            self._stage.load(before)
            raise ValueError(f"{_OTHER_STEPS.format(self.dataset)} ({error!r})") from error
        self._draws.pass_key.load(None if key is None else int(key))

    def __repr__(self) -> str:
        return f"<DatasetIterator over {self.dataset!r}>"


class _StageOfRun(threading.local):
    """The pass of the run that this thread is at."""

    stage: Stage | None = None


class IteratorOfRun(DatasetIterator):
    """An iterator that a function makes while it is traced: each run begins a pass of its own."""

    _untracked = DatasetIterator._untracked | {"_run"}

    def __init__(self, dataset: Any) -> None:
        self._run = _StageOfRun()
        super().__init__(dataset)

    def _begin(self) -> None:
        begun_later(self._begin_run)
        self._of_trace = False

    def _begin_run(self) -> None:
        self._draws = PassDraws()
        self._stage = self._node.stage()

    @property
    def _stage(self) -> Stage:
        if self._run.stage is None:
            raise FailedPreconditionError(
                "an iterator that a function made belongs to its runs; make one outside of it"
            )
        return self._run.stage

    @_stage.setter
    def _stage(self, stage: Stage) -> None:
        if self._run.stage is not None:
            self._run.stage.close()
        self._run.stage = stage

    def __del__(self) -> None:
        run = self.__dict__.get("_run")
        if run is not None and run.stage is not None:
            run.stage.close()


_OTHER_STEPS = (
    "the stored position does not fit this pipeline, {!r}: it was stored by one with other steps"
)


def _steps(node: DatasetOp) -> int:
    """A number that stands for the kinds of steps from which a pipeline is made."""
    return zlib.crc32("/".join(getattr(part, "title", "") for _, part in traverse(node)).encode())


_PASS_KEY = "pass_key"
_LENGTH = "length"
_LIST = "item_"
_TEXTS = "texts"


def encode(value: Any, path: str, into: dict[str, Any]) -> None:
    """Write a nest of dicts, lists, numbers and arrays as arrays by path."""
    if isinstance(value, dict):
        for name, item in value.items():
            encode(item, f"{path}.{name}" if path else name, into)
    elif isinstance(value, list | tuple) and not (value and all(type(x) is int for x in value)):
        into[f"{path}.{_LENGTH}"] = np.int64(len(value))
        for i, item in enumerate(value):
            encode(item, f"{path}.{_LIST}{i}", into)
    elif hasattr(value, "node"):
        raise ValueError(
            "a data set of data sets is buffered at this point, which a checkpoint can't store; "
            "save between "
            "windows, or batch them first"
        )
    elif isinstance(value, np.ndarray) and value.dtype == object:
        texts = value.ravel().tolist()
        into[f"{path}.{_TEXTS}"] = np.frombuffer(b"".join(texts), np.uint8)
        into[f"{path}.ends"] = np.cumsum([len(text) for text in texts], dtype=np.int64)
        into[f"{path}.sizes"] = np.array(value.shape, np.int64)
    elif value is not None:
        into[path] = np.asarray(value)


def decode(arrays: dict[str, Any]) -> dict[str, Any]:
    """What `encode` wrote."""
    tree: dict[str, Any] = {}
    for path, array in arrays.items():
        folder_tree = tree
        *folders, last = path.split(".")
        for folder in folders:
            folder_tree = folder_tree.setdefault(folder, {})
        folder_tree[last] = array
    state: dict[str, Any] = _lists(tree)
    return state


def _lists(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    if _LENGTH in tree:
        # An empty dict leaves no trace in the file.
        return [_lists(tree.get(f"{_LIST}{i}", {})) for i in range(int(tree[_LENGTH]))]
    if _TEXTS in tree:
        return _texts(tree)
    return {name: _lists(item) for name, item in tree.items()}


def _texts(tree: Any) -> Any:
    """The array of texts that `encode` wrote as one run of bytes and where each ends."""
    joined, ends = tree[_TEXTS].tobytes(), tree["ends"].tolist()
    parts = [joined[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    texts = text_array(np.array([*parts, None], object)[:-1])
    return texts.reshape(tuple(tree["sizes"].tolist()))
