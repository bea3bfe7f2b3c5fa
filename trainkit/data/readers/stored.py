"""Elements in files: what `cache(filename)`, `snapshot`, `save` and `load` share.

Two files stand side by side. The data are TFRecords, one for each component of each element, a
tensor message; the index is JSON and says structure, number of elements and compression. It is
written last, so that where it stands the data are whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from trainkit.core import nest
from trainkit.core.dtypes import as_dtype
from trainkit.core.errors import DataLossError, InvalidArgumentError, NotFoundError
from trainkit.core.files.output_folders import make_folder
from trainkit.core.files.readable_files import open_regular
from trainkit.core.tensor_spec import TensorSpec
from trainkit.data import structure
from trainkit.data.node import DatasetOp, Leaves, Piped, Stage
from trainkit.data.transformations.choosing import SameElements
from trainkit.records import streams, tensor_messages
from trainkit.records.writer import TFRecordWriter

__all__ = ["FileCacheNode", "StoredNode", "is_compressed", "write"]

_MOST_INDEX_BYTES = 1 << 24
_FORMAT = "trainkit elements 1"


def is_compressed(compression: Any, what: str) -> bool:
    """Whether a name of TensorFlow's for a compression asks for one.

    Raises:
        InvalidArgumentError: it is unknown.
    """
    choices = {None: False, "": False, "NONE": False, "AUTO": False, "GZIP": True, "SNAPPY": None}
    packed = choices.get(compression)
    if packed is None:
        raise InvalidArgumentError(f"{what}: compression {compression!r}; use 'GZIP' or None")
    return packed


def _index_of(path: str) -> str:
    return f"{path}.index"


def _data_of(path: str) -> str:
    return f"{path}.data-00000-of-00001"


# ------------------------------------------------------------------ the index


def _describe(spec: Any) -> Any:
    """A nest of specs as JSON can hold it."""
    if isinstance(spec, dict):
        return {"dict": [[key, _describe(value)] for key, value in spec.items()]}
    if isinstance(spec, tuple | list):
        return {"tuple": [_describe(item) for item in spec]}
    if not isinstance(spec, TensorSpec):
        raise InvalidArgumentError(f"a data set with elements {spec!r} can't be stored in a file")
    return {"dtype": spec.dtype.name, "shape": None if spec.rank is None else list(spec.shape)}


def _spec_from(description: Any) -> Any:
    if "dict" in description:
        return {key: _spec_from(value) for key, value in description["dict"]}
    if "tuple" in description:
        return tuple(_spec_from(item) for item in description["tuple"])
    return TensorSpec(description["shape"], as_dtype(description["dtype"]))


class Index:
    """What the index of a stored data set says.

    Attributes:
        spec: of its elements.
        count: how many there are.
        compression: of the data, as `streams` names it.
    """

    def __init__(self, path: str) -> None:
        try:
            with open_regular(_index_of(path)) as file:
                text = file.read(_MOST_INDEX_BYTES)
        except NotFoundError:
            raise NotFoundError(f"there is no stored data set at {path}") from None
        try:
            fields = json.loads(text)
            if fields["format"] != _FORMAT:
                raise ValueError(f"its format is {fields['format']!r}")
            self.spec = _spec_from(fields["spec"])
            self.count = int(fields["count"])
            self.compression = streams.compression_of(fields["compression"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataLossError(f"{_index_of(path)} is no index of a data set: {error}") from None


def elements_in(path: str) -> Iterator[Leaves]:
    """The elements of a stored data set, flat.

    Raises:
        DataLossError: the files are damaged, or do not belong together.
    """
    index = Index(path)
    specs = nest.flatten(index.spec)
    records: Any = streams.records_of(_data_of(path), index.compression)
    with contextlib.closing(records):
        for number in range(index.count):
            yield [_leaf(records, spec, path, number) for spec in specs]


def _leaf(records: Iterator[bytes], spec: TensorSpec, path: str, number: int) -> Any:
    record = next(records, None)
    if record is None:
        raise DataLossError(f"{path}: the data end at element {number}")
    array = tensor_messages.unpacked(record)
    fits = spec.rank is None or spec.shape.is_compatible_with(array.shape)
    if as_dtype(array.dtype) != spec.dtype or not fits:
        raise DataLossError(
            f"{path}: element {number} has {array.dtype} {array.shape}, the index says {spec}"
        )
    return array


# ------------------------------------------------------------------ writing


class Writing:
    """Elements on their way into files, which appear under their names when all is written."""

    def __init__(self, path: str, compressed: bool) -> None:
        self.path, self.compressed, self.count = path, compressed, 0
        folder = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(folder):
            raise NotFoundError(f"there is no folder {folder}")
        handle, self.part = tempfile.mkstemp(".part", os.path.basename(path), folder)
        os.close(handle)
        self.writer = TFRecordWriter(self.part, "GZIP" if compressed else "")
        self.undo = weakref.finalize(self, _discard, self.writer, self.part)

    def add(self, leaves: Leaves) -> None:
        """Write one element."""
        for leaf in leaves:
            if not isinstance(leaf, np.ndarray | np.generic):
                raise InvalidArgumentError(
                    f"{self.path}: only elements of numbers and texts can be stored in a file"
                )
            self.writer.write(tensor_messages.packed(np.asarray(leaf)))
        self.count += 1

    def finish(self, spec: Any) -> None:
        """Give the files their names."""
        self.undo.detach()
        self.writer.close()
        index = {
            "format": _FORMAT,
            "spec": _describe(spec),
            "count": self.count,
            "compression": "GZIP" if self.compressed else "",
        }
        os.replace(self.part, _data_of(self.path))
        with open(self.part, "w") as file:
            json.dump(index, file)
        os.replace(self.part, _index_of(self.path))


def _discard(writer: TFRecordWriter, part: str) -> None:
    writer.close()
    with contextlib.suppress(FileNotFoundError):
        os.unlink(part)


def write(node: DatasetOp, folder: str, compressed: bool) -> None:
    """Store all elements of a pipeline in a folder."""
    make_folder(folder, "Dataset.save")
    writing, stage = Writing(os.path.join(folder, "elements"), compressed), node.stage()
    try:
        while True:
            try:
                writing.add(stage.next())
            except StopIteration:
                break
        writing.finish(node.spec())
    finally:
        writing.undo()
        stage.close()


# ------------------------------------------------------------------ reading


class StoredNode(DatasetOp):
    """The elements that `write` stored in a folder."""

    title = "Load"

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "elements")
        self.index = Index(self.path)

    def spec(self) -> Any:
        return self.index.spec

    def count(self) -> int:
        return self.index.count

    def stage(self) -> Stage:
        return StoredStage(self.path)


class StoredStage(Stage):
    """One pass over a stored data set."""

    def __init__(self, path: str) -> None:
        self.path, self.position = path, 0
        self.elements = elements_in(path)

    def next(self) -> Leaves:
        leaves = next(self.elements)
        self.position += 1
        return leaves

    def state(self) -> dict[str, Any]:
        return {"position": self.position}

    def load(self, state: dict[str, Any]) -> None:
        self.close()
        self.elements, self.position = elements_in(self.path), 0
        self.skip(int(state["position"]))

    def close(self) -> None:
        self.elements.close()  # type: ignore[attr-defined]


class FileCacheNode(SameElements):
    """Keeps the elements of the first whole pass in files for the later ones."""

    title = "Cache"

    def __init__(self, source: DatasetOp, path: str, compressed: bool = False) -> None:
        super().__init__(source)
        self.path, self.compressed = path, compressed

    def is_whole(self) -> bool:
        """Whether the files are there."""
        return os.path.exists(_index_of(self.path))

    def count(self) -> int:
        return self.source.count()

    def stage(self) -> Stage:
        return FileCacheStage(self)


class FileCacheStage(Stage):
    """Reads the files where they are whole, and writes them otherwise.

    A pass that wrote is taken up again by walking its source from the start.
    """

    def __init__(self, node: FileCacheNode) -> None:
        self.node, self.position = node, 0
        self.inner: Stage = self._reader() if node.is_whole() else FillingStage(node)
        self.began = self.inner.began if isinstance(self.inner, FillingStage) else {}

    def _reader(self) -> Stage:
        stored = Index(self.node.path).spec
        component_count = len(nest.flatten(self.node.template()))
        if len(nest.flatten(stored)) != component_count:
            raise InvalidArgumentError(
                f"cache: the file {self.node.path!r} was written by another pipeline; its elements "
                f"are {stored}, here they have {component_count} components. Choose another name, "
                "or delete the file."
            )
        return StoredStage(self.node.path)

    def next(self) -> Leaves:
        leaves = self.inner.next()
        self.position += 1
        return leaves

    def state(self) -> dict[str, Any]:
        return {"position": self.position, "began": self.began}

    def load(self, state: dict[str, Any]) -> None:
        self.inner.close()
        self.began, self.position = state.get("began", {}), 0
        if self.node.is_whole():
            self.inner = self._reader()
        else:
            self.inner = FillingStage(self.node)
            self.inner.source.load(self.began)
        self.skip(int(state["position"]))

    def close(self) -> None:
        self.inner.close()


class FillingStage(Piped):
    """Writes down what passes; the files appear when the pass is whole."""

    def __init__(self, node: FileCacheNode) -> None:
        super().__init__(node.source.stage())
        self.node, self.began = node, self.source.state()
        self.writing: Writing | None = None
        self.total = node.source.count()
        self.ended = False

    def next(self) -> Leaves:
        if self.ended:
            raise StopIteration
        if self.writing is None:
            self.writing = Writing(self.node.path, self.node.compressed)
        try:
            leaves = self.source.next()
        except StopIteration:
            self._finish()
            raise
        self.writing.add(leaves)
        if self.writing.count == self.total:
            self._finish()  # whoever reads no further, as zip does, has had the whole pass
        return leaves

    def _finish(self) -> None:
        """Give the files their names."""
        self.ended = True
        if self.writing is not None:
            self.writing.finish(structure.loose(self.node.spec()))

    def close(self) -> None:
        if self.writing is not None:
            self.writing.undo()
        super().close()
