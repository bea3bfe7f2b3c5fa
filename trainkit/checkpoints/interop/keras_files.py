"""Reading and writing files in Keras's layout of weights: one, or several shards of one size.

A class may say itself what is stored of it, by `save_own_variables(store)` and
`load_own_variables(store)`, as in Keras; `store` is a dict of arrays then.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from trainkit.checkpoints.format.atomic import AtomicFile
from trainkit.checkpoints.format.manifest import manifest
from trainkit.checkpoints.format.reader import SavedFile
from trainkit.checkpoints.format.validation import ArrayNode, GroupNode
from trainkit.checkpoints.format.writer import (
    CheckpointOptions,
    Entry,
    Group,
    Values,
    as_json,
    write_file,
)
from trainkit.checkpoints.interop.keras_archive import weights_file_in
from trainkit.checkpoints.interop.keras_weights import SCALED, Filler, Saveable, layout, overrides
from trainkit.checkpoints.restore.object_graph import has_slots
from trainkit.checkpoints.restore.report import Difference, Report
from trainkit.checkpoints.restore.restoration import (
    IncompleteRestoreWarning,
    load_verified,
    mismatch,
)
from trainkit.core.errors import (
    CheckpointError,
    CheckpointMismatchError,
    InvalidArgumentError,
    NoSuchFileError,
)
from trainkit.core.trackable import Trackable, traverse
from trainkit.core.variable import Variable

_LARGEST_MAP = 1 << 24
_LORA = "lora_state"
_GB = 1 << 30  # what Keras means by a GB here

Found = tuple[SavedFile, ArrayNode]
"""A value, and the file that it is in."""


# ---------------------------------------------------------------------- writing


def save_keras(
    model: Trackable,
    name: str,
    options: CheckpointOptions | None = None,
    skipped: Iterable[Any] = (),
) -> None:
    """Write what Keras stores of `model` into the file `name`.

    Args:
        model: the objects.
        name: the file.
        options: compression and narrow slots.
        skipped: objects that are left out, with all below them.
    """
    _write(name, model, [_entries(item) for item in layout(model, skipped)], options)


def _write(
    name: str, model: Trackable, groups: list[list[Entry]], options: CheckpointOptions | None
) -> None:
    notes = {"manifest": as_json(manifest(model)), "format": "keras"}
    write_file(name, [entry for group in groups for entry in group], notes, options)


def _entries(item: Saveable) -> list[Entry]:
    values = list(_values(item))
    if item.name is None and not values:
        return []
    head = Group(item.base, {} if item.name is None else {"name": item.name})
    return [head, *values, *_lora_values(item)]


def _values(item: Saveable) -> Iterator[Values]:
    if not overrides(item.part, "save_own_variables"):
        for path, variable in item.items():
            yield Values(path, partial(array_for_keras, variable), item.optional)
        return
    store: dict[str, Any] = {}
    item.part.save_own_variables(store)  # type: ignore[attr-defined]
    for key, value in store.items():
        yield Values(f"{item.base}/{key}", partial(array_for_keras, value))


def array_for_keras(value: Any) -> Any:
    """The array that stands in the file for a variable, a filler or an array.

    HDF5 has no bfloat16. Keras would take the bits, written as integers, for the numbers.
    """
    view = getattr(value, "_host_view", None) or getattr(value, "numpy", None)
    array = np.asarray(value if view is None else view())
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def _lora_values(item: Saveable) -> Iterator[Values]:
    """What training a layer with LoRA goes on from, where Keras does not look."""
    store: dict[str, Any] = {}
    if hasattr(item.part, "save_lora_state"):
        item.part.save_lora_state(store)
    for key, array in store.items():
        yield Values(f"{item.path}/{_LORA}/{key}", partial(array_for_keras, array))


def save_shards(model: Trackable, name: str, largest: float, skipped: Iterable[Any] = ()) -> None:
    """Write what Keras stores of `model` into several files, and into `name` which is in which.

    Args:
        model: the objects.
        name: ends in `.weights.json`; the shards stand beside it, as `NAME_00000.weights.h5`.
        largest: GB of values in one file.
        skipped: objects that are left out, with all below them.

    Raises:
        InvalidArgumentError: one value alone is larger.
    """
    map_path = Path(name)
    stem = map_path.name.removesuffix(".json").removesuffix(".h5").removesuffix(".weights")
    limit = largest * _GB
    shards: list[list[Entry]] = [[]]
    filled = total = 0
    shard_numbers: dict[str, list[int]] = {}
    for item in layout(model, skipped):
        for entry in _entries(item):
            if isinstance(entry, Group):
                head = entry
                shards[-1].append(head)
                continue
            size = _bytes_of(entry)
            if size > limit:
                raise InvalidArgumentError(
                    f"save_weights: {entry.path} has {size} bytes, more than max_shard_size="
                    f"{largest} GB allows; allow larger shards"
                )
            if filled + size > limit:
                shards.append([head])
                filled = 0
            filled, total = filled + size, total + size
            shards[-1].append(entry)
            item_shards = shard_numbers.setdefault(f"/{item.base}", [])
            if len(shards) - 1 not in item_shards:
                item_shards.append(len(shards) - 1)
    names = [f"{stem}_{number:05}.weights.h5" for number in range(len(shards))]
    for file_name, entries in zip(names, shards, strict=True):
        _write(str(map_path.with_name(file_name)), model, [entries], None)
    shard_names = {path: [names[n] for n in numbers] for path, numbers in shard_numbers.items()}
    weight_map = {path: f[0] if len(f) == 1 else f for path, f in shard_names.items()}
    text = json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}, indent=4)
    with AtomicFile(map_path) as out:
        os.write(out.fd, text.encode())
        out.commit()


def _bytes_of(entry: Any) -> int:
    return int(np.asarray(entry.read()).nbytes)


# ---------------------------------------------------------------------- reading


class Shelf:
    """The values of one file, or of several as one."""

    def __init__(self, name: str, files: list[SavedFile]) -> None:
        self.name = name
        self.files = files

    def group(self, path: str) -> dict[str, Found] | None:
        """The values in a group by name, `None` if no file has the group."""
        values: dict[str, Found] | None = None
        for file in self.files:
            node = file.root.find(path)
            if isinstance(node, GroupNode):
                values = {} if values is None else values
                _gather(file, node, "", values)
        return values

    def arrays(self) -> Iterator[ArrayNode]:
        """All values."""
        for file in self.files:
            yield from file.arrays()

    def close(self) -> None:
        """Give the files back."""
        for file in self.files:
            file.close()


def _gather(file: SavedFile, group: GroupNode, path: str, values: dict[str, Found]) -> None:
    for name, node in group.children.items():
        if isinstance(node, ArrayNode):
            values.setdefault(path + name, (file, node))
        else:
            _gather(file, node, f"{path}{name}/", values)


def load_keras(
    model: Trackable, name: str, skip_mismatch: bool = False, skipped: Iterable[Any] = ()
) -> None:
    """Take the weights of `model` from a file in Keras's layout, `.keras` or `.weights.json`.

    Args:
        model: the objects.
        name: the file.
        skip_mismatch: take what fits and warn of the rest.
        skipped: objects that keep what they have, with all below them.
    """
    if name.endswith(".keras"):
        with weights_file_in(name) as fd:
            load_shelf(
                model, Shelf(name, [SavedFile(name, foreign=True, fd=fd)]), skip_mismatch, skipped
            )
    elif name.endswith(".json"):
        load_shelf(model, _shards(name), skip_mismatch, skipped)
    else:
        load_shelf(model, Shelf(name, [SavedFile(name, foreign=True)]), skip_mismatch, skipped)


def _shards(name: str) -> Shelf:
    """The files that a `.weights.json` names; they stand in its folder."""
    map_path = Path(name)
    if not map_path.is_file():
        raise NoSuchFileError(f"there is no file {name!r}")
    if map_path.stat().st_size > _LARGEST_MAP:
        raise CheckpointError(f"{name} is refused: it has more than {_LARGEST_MAP} bytes")
    try:
        parts = json.loads(map_path.read_bytes())["weight_map"].values()
        names = {file for part in parts for file in ([part] if isinstance(part, str) else part)}
        if not all(isinstance(file, str) and file == Path(file).name for file in names):
            raise ValueError("a shard's name is no plain file name")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{name} is damaged or no map of weights: {error}") from error
    files: list[SavedFile] = []
    try:
        for file in sorted(names):
            files.append(SavedFile(map_path.with_name(file), foreign=True))
    except BaseException:
        Shelf(name, files).close()
        raise
    return Shelf(name, files)


def load_shelf(
    model: Trackable, shelf: Shelf, skip_mismatch: bool = False, skipped: Iterable[Any] = ()
) -> None:
    """Take the weights of `model` from open files, and close them.

    Raises:
        CheckpointMismatchError: something does not fit; nothing is changed.
        CheckpointError: a file is damaged; nothing is changed.
    """
    try:
        loading = _Loading(model, shelf, skipped)
        settle(shelf.name, loading.differences, skip_mismatch)
        for file in shelf.files:
            file.verify()
        loading.finish()
    finally:
        shelf.close()


class _Loading:
    """What of a shelf goes where.

    Attributes:
        differences: what does not fit.
    """

    def __init__(self, model: Trackable, shelf: Shelf, skipped: Iterable[Any]) -> None:
        self.shelf = shelf
        self.differences: list[Difference] = []
        self._jobs: list[tuple[Variable, Found]] = []
        self._own: list[tuple[Saveable, dict[str, Found]]] = []
        self._known: set[int] = set()
        self._scaled: list[Any] = []
        skipped = list(skipped)
        _build_optimizer(model, shelf)
        for item in layout(model, skipped):
            self._match(item)
        if skipped:
            return
        for node in shelf.arrays():
            if id(node) not in self._known and not _may_stay(model, node.path):
                text = f"{node.shape} {node.dtype.name}"
                self.differences.append(Difference("unused", node.path, text))

    def _match(self, item: Saveable) -> None:
        values = self.shelf.group(item.base)
        if values is None:  # it may have been saved by a class that calls it by another name
            named = (self.shelf.group(f"{path}/vars") for path in item.others)
            values = next((group for group in named if group), None)
        if overrides(item.part, "load_own_variables"):
            self._known |= {id(node) for _, node in (values or {}).values()}
            self._own.append((item, values or {}))
            return
        if item.optional and (values is None or _has_no_slots(values)):
            self._known |= {id(node) for _, node in (values or {}).values()}
            self._numbers(item, values or {})
            return
        for number, variable in enumerate(item.variables):
            self._match_one(f"{item.base}/{number}", variable, (values or {}).get(str(number)))
        if item.optional and item.path.endswith(SCALED):
            self._scaled.append(item.part)

    def _numbers(self, item: Saveable, values: dict[str, Found]) -> None:
        """Step and rate of an optimizer that was saved before it had slots."""
        for number, variable in enumerate(item.variables[: len(values)]):
            self._match_one(f"{item.base}/{number}", variable, values.get(str(number)))

    def _match_one(self, path: str, variable: Any, stored: Found | None) -> None:
        if stored is not None:
            self._known.add(id(stored[1]))
        if isinstance(variable, Filler):
            return
        if stored is None:
            self.differences.append(Difference("missing", path, shown(variable)))
            return
        node = stored[1]
        problem = problem_of(path, variable, node.shape, node.dtype)
        if problem:
            self.differences.append(problem)
        else:
            self._jobs.append((variable, stored))

    def finish(self) -> None:
        """Give the values, first to classes that take them their own way: these may refuse."""
        replaced: list[tuple[Variable, Any]] = []
        for item, values in self._own:
            replaced += [(v, v.value()) for _, v in traverse(item.part) if isinstance(v, Variable)]
            arrays = {name: file.value(node) for name, (file, node) in values.items()}
            try:
                item.part.load_own_variables(arrays)  # type: ignore[attr-defined]
                self._load_lora(item)
            except Exception as error:
                for variable, before in reversed(replaced):
                    variable._store(before._array)
                raise CheckpointMismatchError(
                    f"{self.shelf.name}: {type(item.part).__name__} at '{item.path}' can't take "
                    f"its values {', '.join(arrays) or '(there are none)'}: "
                    f"{type(error).__name__} {error}"
                ) from error
        for file in self.shelf.files:
            jobs = [(v, node) for v, (other, node) in self._jobs if other is file]
            load_verified(file, [(v, node) for v, node in jobs if v.dtype == node.dtype.name])
            for variable, node in jobs:
                if variable.dtype != node.dtype.name:
                    variable._store(file.value(node).astype(variable.dtype.dtype))
        for optimizer in self._scaled:
            optimizer.recount_steps()

    def _load_lora(self, item: Saveable) -> None:
        state = self.shelf.group(f"{item.path}/{_LORA}")
        if state and hasattr(item.part, "load_lora_state"):
            arrays = {name: file.value(node) for name, (file, node) in state.items()}
            item.part.load_lora_state(arrays)


def _has_no_slots(values: dict[str, Found]) -> bool:
    return len(values) <= 2 and all(math.prod(node.shape) == 1 for _, node in values.values())


def _may_stay(model: Trackable, path: str) -> bool:
    """Whether a value may stay unused: private state of Keras, an optimizer without a taker."""
    has_optimizer = any(has_slots(part) for part in type(model).parts(model).values())
    if path.startswith("optimizer/"):
        return not has_optimizer
    names = path.split("/")  # earlier versions stored what stateful layers have in `_kept`
    return path.startswith("_") or not {"seed_generator", "_kept", _LORA}.isdisjoint(names)


def _build_optimizer(model: Trackable, shelf: Shelf) -> None:
    """Make the slots of a compiled model's optimizer when the file has values for them."""
    for part in type(model).parts(model).values():
        build = getattr(part, "build", None)
        fresh = has_slots(part) and not part.slot_variables()  # type: ignore[attr-defined]
        if fresh and callable(build) and len(shelf.group("optimizer/vars") or ()) > 2:
            build(model.trainable_variables)  # type: ignore[attr-defined]


# ---------------------------------------------------------------------- what does not fit


def shown(variable: Variable) -> str:
    """Shape and dtype."""
    return f"{tuple(variable.shape)} {variable.dtype.name}"


def problem_of(path: str, variable: Variable, shape: Any, dtype: Any) -> Difference | None:
    """Why `variable` can't take a value of this shape and dtype, None when it can.

    Values of another float type, or of another integer type, are cast.
    """
    dtype = np.dtype(dtype)
    if not variable.shape.is_compatible_with(shape):
        problem = "other shape"
    elif dtype != variable.dtype.dtype and _sort(dtype) != _sort(variable.dtype.dtype):
        problem = "other dtype"
    else:
        return None
    text = f"object {shown(variable)}, file {tuple(shape)} {dtype.name}"
    return Difference(problem, path, text)


def _sort(dtype: np.dtype[Any]) -> str:
    if dtype.kind in "iu":
        return "integer"
    return "float" if dtype.kind == "f" or dtype.name == "bfloat16" else dtype.name


def settle(name: str, differences: list[Difference], skip_mismatch: bool) -> None:
    """Raise for differences, or warn of them."""
    report = Report(name, differences)
    if report and not skip_mismatch:
        raise mismatch(report)
    if report:
        warnings.warn(str(report), IncompleteRestoreWarning, stacklevel=5)
