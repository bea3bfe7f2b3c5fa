"""Files of values as tables of arrays by path, whatever their format; converting them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from trainkit.checkpoints.checkpoint import next_order, numbered
from trainkit.checkpoints.format.reader import SavedFile
from trainkit.checkpoints.format.validation import ArrayNode, GroupNode
from trainkit.checkpoints.format.writer import (
    FORMAT,
    CheckpointOptions,
    Entry,
    Group,
    Link,
    Values,
    as_json,
    write_file,
)
from trainkit.checkpoints.interop.keras_archive import weights_file_in
from trainkit.checkpoints.interop.safetensors import (
    NpzFile,
    SafetensorsFile,
    write_npz,
    write_safetensors,
)
from trainkit.core.errors import CheckpointError, InvalidArgumentError, NotFoundError
from trainkit.core.files.local_paths import local_path
from trainkit.core.names import near_names


class Table(Protocol):
    """Arrays by path.

    Attributes:
        name: the file.
        kind: `"checkpoint"`, `"keras weights"`, `"safetensors"` or `"npz"`.
        manifest: what the file says about its making.
    """

    name: str
    kind: str
    manifest: dict[str, Any]

    def shapes(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and dtype of each array, by path."""

    def read(self, path: str) -> Any:
        """One array, checked."""

    def verify(self) -> None:
        """Check all that the format allows to check."""


class _Flat:
    def __init__(self, file: Any, kind: str) -> None:
        self.name, self.kind = file.name, kind
        self.manifest: dict[str, Any] = {}
        self._file = file
        self.shapes = file.shapes
        self.read = file.read

    def verify(self) -> None:
        for path in self.shapes():
            self.read(path)


class _Hdf5:
    def __init__(self, saved: SavedFile) -> None:
        self.saved = saved
        self.name, self.manifest = saved.name, saved.manifest
        is_checkpoint = saved.root.attributes.get("format") == FORMAT
        self.kind = "checkpoint" if is_checkpoint else "keras weights"
        self._nodes = {node.path: node for node in saved.arrays()}

    def shapes(self) -> dict[str, tuple[tuple[int, ...], str]]:
        return {
            path: (node.shape, "str" if node.dtype.kind == "U" else node.dtype.name)
            for path, node in self._nodes.items()
        }

    def read(self, path: str) -> Any:
        return self.saved.value(self._nodes[path])

    def verify(self) -> None:
        self.saved.verify()
        self.saved.verify_structure()

    def entries(self) -> list[Entry]:
        """All that the file holds, ready to be written again."""
        return list(_entries(self.saved, self.saved.root, "", set()))


def _entries(saved: SavedFile, group: GroupNode, path: str, visited: set[int]) -> Iterator[Entry]:
    visited.add(id(group))
    for name, node in group.children.items():
        below = f"{path}/{name}".lstrip("/")
        if id(node) in visited:
            yield Link(below, node.path)
        elif isinstance(node, ArrayNode):
            visited.add(id(node))
            yield Values(below, _Reader(saved, node))
        else:
            yield Group(below, node.attributes)
            yield from _entries(saved, node, below, visited)


class _Reader:
    """A function that reads one array."""

    def __init__(self, saved: SavedFile, node: ArrayNode) -> None:
        self._saved, self._node = saved, node

    def __call__(self) -> Any:
        return self._saved.value(self._node)


@contextmanager
def opened_table(path: str | os.PathLike[str]) -> Iterator[Table]:
    """The file at `path` as a table.

    Args:
        path: a checkpoint, `.h5`, `.keras`, `.safetensors` or `.npz` file.

    Raises:
        NotFoundError: there is no such file.
        CheckpointError: it is damaged, hostile or of another format.
    """
    name = local_path(path, CheckpointError)
    if name.endswith((".safetensors", ".npz")):
        flat: Any = SafetensorsFile(name) if name.endswith(".safetensors") else NpzFile(name)
        with flat:
            yield _Flat(flat, name.rpartition(".")[2])
    elif name.endswith(".keras"):
        with weights_file_in(name) as fd:
            yield from _save(SavedFile(name, foreign=True, fd=fd))
    else:
        yield from _save(SavedFile(name, foreign=True))


def _save(saved: SavedFile) -> Iterator[Table]:
    try:
        yield _Hdf5(saved)
    finally:
        saved.close()


def files_in(path: str | os.PathLike[str]) -> list[str]:
    """The path itself, or the checkpoints in a folder, oldest first, then damaged ones.

    Raises:
        NotFoundError: there is nothing.
    """
    name = local_path(path, CheckpointError)
    if not os.path.isdir(name):
        return [name]
    checkpoints = [os.path.join(name, checkpoint.name) for checkpoint, _ in numbered(Path(name))]
    paths = sorted(os.path.join(name, entry) for entry in os.listdir(name))
    numbered_paths = set(checkpoints)
    others = [entry for entry in paths if entry not in numbered_paths and _looks_like_one(entry)]
    if not checkpoints and not others:
        raise NotFoundError(f"there is no checkpoint in {name!r}")
    return checkpoints + others


def _looks_like_one(path: str) -> bool:
    base = os.path.basename(path)
    numbered_name = base.rpartition("-")[2].isdigit() and "-" in base
    endings = (".h5", ".keras", ".safetensors", ".npz")
    return os.path.isfile(path) and (numbered_name or base.endswith(endings))


def differences(one: Table, other: Table) -> list[dict[str, Any]]:
    """How two tables differ: one entry with `path` and `what` for each array that is not the same.

    `what` is `"only in the first"`, `"only in the second"`, `"other shape"`, `"other dtype"` or
    `"other values"`; the last comes with `largest`, the largest absolute difference, and `count`,
    how many elements differ.
    """
    left, right = one.shapes(), other.shapes()
    entries: list[dict[str, Any]] = []
    for path in sorted({*left, *right}):
        if path not in right or path not in left:
            side = "first" if path in left else "second"
            entries.append({"path": path, "what": f"only in the {side}"})
        elif left[path] != right[path]:
            difference = "other shape" if left[path][0] != right[path][0] else "other dtype"
            entries.append(
                {"path": path, "what": difference, "first": left[path], "second": right[path]}
            )
        else:
            entries += _value_difference(path, one.read(path), other.read(path))
    return entries


def _value_difference(path: str, a: Any, b: Any) -> list[dict[str, Any]]:
    if a.tobytes() == b.tobytes():
        return []
    if a.dtype.kind in "US":
        return [{"path": path, "what": "other values", "count": int((a != b).sum())}]
    dtype = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a.astype(dtype), b.astype(dtype)
    unequal = (x != y) & ~(np.isnan(x) & np.isnan(y))
    gaps = np.abs(x - y)[unequal]
    largest = float(gaps.max(initial=0.0)) if gaps.size else 0.0
    return [{"path": path, "what": "other values", "count": int(unequal.sum()), "largest": largest}]


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    options: CheckpointOptions | None = None,
) -> str:
    """Write the values of one file in another format.

    HDF5 files keep their structure: a checkpoint stays one, and so do weights in Keras's layout.
    Flat tables take and give arrays by path. What a path means to a model is not known here; to get
    from a checkpoint to Keras's layout, restore the model and call `save_weights`.

    Args:
        source: a file of any format that can be read.
        target: its ending says the format: `.safetensors`, `.npz`, `.h5`; anything else is a
            checkpoint.
        options: compression, for HDF5.

    Returns:
        The kind that was written.

    Raises:
        InvalidArgumentError: the conversion would need the model.
        CheckpointError: the source is damaged or hostile.
        OSError: the target can't be written.
    """
    name = local_path(target)
    with opened_table(source) as table:
        if name.endswith((".safetensors", ".npz")):
            arrays = {path: table.read(path) for path in table.shapes()}
            (write_npz if name.endswith(".npz") else write_safetensors)(name, arrays)
            return name.rpartition(".")[2]
        if name.endswith(".keras"):
            raise InvalidArgumentError("a .keras archive holds a whole model; use model.save")
        kind = "keras weights" if name.endswith((".h5", ".hdf5")) else "checkpoint"
        if isinstance(table, _Hdf5) and table.kind != kind:
            raise InvalidArgumentError(
                f"{table.name} is of kind '{table.kind}', {name} would be of kind '{kind}'; "
                "only the model knows how they correspond: load the one and save the other with it"
            )
        _write_hdf5(table, name, kind, options)
        return kind


def _write_hdf5(table: Table, name: str, kind: str, options: CheckpointOptions | None) -> None:
    root: dict[str, str] = {"manifest": as_json(table.manifest)}
    if isinstance(table, _Hdf5):
        attributes = table.saved.root.attributes
        root |= {
            key: text for key, text in attributes.items() if key not in ("version", "manifest")
        }
        entries = table.entries()
    else:
        entries = [Values(path, _TableReader(table, path)) for path in table.shapes()]
    root["format"] = FORMAT if kind == "checkpoint" else "keras"
    write_file(name, entries, root, options, next_order(name))


class _TableReader:
    """A function that reads one array of a table."""

    def __init__(self, table: Table, path: str) -> None:
        self._table, self._path = table, path

    def __call__(self) -> Any:
        return self._table.read(self._path)


def found_in(table: Table, path: str) -> Any:
    """The array at `path`.

    Raises:
        NotFoundError: there is none; the text names near ones.
    """
    shapes = table.shapes()
    path = path.strip("/")
    if path not in shapes:
        near = near_names(path, shapes, likeness=0.3)
        hint = f"; near: {', '.join(near)}" if near else ""
        raise NotFoundError(f"{table.name} has no values at {path!r}{hint}")
    return table.read(path)
