"""`save_weights` and `load_weights`: a model's weights in one file; its name says the format.

| name | format |
| --- | --- |
| `*.weights.h5`, `*.h5`, `*.hdf5` | Keras 3's layout, with the optimizer of a compiled model |
| `*.keras` | the weights inside of a Keras archive; reading only |
| `*.safetensors`, `*.npz` | the weights alone, by path |
| anything else | a checkpoint, as `tk.train.Checkpoint(model).write` makes it |
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from trainkit.checkpoints.checkpoint import Checkpoint
from trainkit.checkpoints.flat_files import (
    NpzFile,
    SafetensorsFile,
    write_npz,
    write_safetensors,
)
from trainkit.checkpoints.guard import ArrayNode, GroupNode, Node
from trainkit.checkpoints.hdf5 import CheckpointOptions, Entry, Group, Values, as_json, write_file
from trainkit.checkpoints.keras_archive import weights_file_in
from trainkit.checkpoints.keras_weights import Filler, layout
from trainkit.checkpoints.manifest import manifest
from trainkit.checkpoints.report import Difference, Report
from trainkit.checkpoints.restoring import IncompleteRestoreWarning, load_verified, mismatch
from trainkit.checkpoints.saved import SavedFile
from trainkit.checkpoints.tree import has_slots, weight_paths
from trainkit.core.errors import FailedPreconditionError, InvalidArgumentError
from trainkit.core.trackable import Trackable
from trainkit.core.variable import Variable

_KERAS = (".h5", ".hdf5")


def save_weights(
    model: Trackable, path: str | os.PathLike[str], options: CheckpointOptions | None = None
) -> None:
    """Write the weights of a model into one file, which appears whole or not at all.

    Args:
        model: a model or layer that has been built.
        path: the file; its ending says the format, see above.
        options: compression and narrow slots, for the formats that are HDF5.

    Raises:
        FailedPreconditionError: the model has no weights yet.
        InvalidArgumentError: the ending is `.keras`, which holds a whole model.
        OSError: the file can't be written; an older one is untouched.
    """
    name = os.fspath(path)
    _require_weights(model, "save_weights")
    if name.endswith(_KERAS):
        _save_keras(model, name, options)
    elif name.endswith(".keras"):
        raise InvalidArgumentError(
            f"save_weights: {name!r} is the name of a whole model; use model.save, or .weights.h5"
        )
    elif name.endswith((".safetensors", ".npz")):
        arrays = {path: variable.numpy()[...] for path, variable in weight_paths(model)}
        (write_npz if name.endswith(".npz") else write_safetensors)(name, arrays)
    else:
        Checkpoint(model).write(name, options)


def load_weights(
    model: Trackable, path: str | os.PathLike[str], skip_mismatch: bool = False
) -> None:
    """Take the weights of a model from a file.

    Nothing changes unless all fits: each weight of the model is in the file with its shape and
    dtype, and the file has no others. An optimizer's state is taken when the model has been
    compiled and the file has it, and must fit too.

    Args:
        model: a model or layer that has been built.
        path: the file; its ending says the format, as for `save_weights`.
        skip_mismatch: take what fits and warn of the rest.

    Raises:
        FailedPreconditionError: the model has no weights yet.
        NotFoundError: there is no such file.
        CheckpointMismatchError: something does not fit; the text shows each difference.
        CheckpointError: the file is damaged or hostile.
    """
    name = os.fspath(path)
    _require_weights(model, "load_weights")
    if name.endswith((*_KERAS, ".keras")):
        _load_keras(model, name, skip_mismatch)
    elif name.endswith((".safetensors", ".npz")):
        kind = NpzFile if name.endswith(".npz") else SafetensorsFile
        with kind(name) as file:
            _load_flat(model, file, skip_mismatch)
    else:
        restore = Checkpoint(model)._restore(name, strict=not skip_mismatch)
        restore.warn(only_lost=True)


def _require_weights(model: Trackable, what: str) -> None:
    if next(iter(weight_paths(model)), None) is None:
        raise FailedPreconditionError(
            f"{what}: {getattr(model, 'name', type(model).__name__)!r} has no weights yet. Call it "
            "on a batch, or model.build(input_shape), first"
        )


# ------------------------------------------------------------------ Keras's layout


def _save_keras(model: Trackable, name: str, options: CheckpointOptions | None) -> None:
    entries: list[Entry] = []
    for item in layout(model):
        if item.name is None and not item.variables:
            continue
        base = f"{item.path}/vars" if item.path else "vars"
        entries.append(Group(base, {} if item.name is None else {"name": item.name}))
        slot = item.optional
        entries += [Values(path, variable.numpy, slot) for path, variable in item.items()]
    notes = {"manifest": as_json(manifest(model)), "format": "keras"}
    write_file(name, entries, notes, options)


def _load_keras(model: Trackable, name: str, skip_mismatch: bool) -> None:
    if name.endswith(".keras"):
        with weights_file_in(name) as fd:
            saved = SavedFile(name, foreign=True, fd=fd)
            _load_saved(model, saved, skip_mismatch)
    else:
        _load_saved(model, SavedFile(name, foreign=True), skip_mismatch)


def _load_saved(model: Trackable, saved: SavedFile, skip_mismatch: bool) -> None:
    try:
        jobs, differences = _matched(model, saved)
        _settle(saved.name, differences, skip_mismatch)
        saved.verify()
        load_verified(saved, jobs)
    finally:
        saved.close()


def _matched(
    model: Trackable, saved: SavedFile
) -> tuple[list[tuple[Variable, ArrayNode]], list[Difference]]:
    """What fits, and what does not."""
    jobs: list[tuple[Variable, ArrayNode]] = []
    differences: list[Difference] = []
    known: set[int] = set()
    _build_optimizer(model, saved.root)
    for item in layout(model):
        group = _find(saved.root, f"{item.path}/vars" if item.path else "vars")
        if group is None and item.optional:
            continue
        for path, variable in item.items():
            node = _find(saved.root, path)
            if isinstance(variable, Filler):
                known.add(id(node))
                continue
            if not isinstance(node, ArrayNode):
                differences.append(Difference("missing", path, _shown(variable)))
                continue
            known.add(id(node))
            problem = _problem(path, variable, node.shape, node.dtype.name)
            if problem:
                differences.append(problem)
            else:
                jobs.append((variable, node))
    for node in saved.arrays():
        if id(node) not in known and not _may_stay(model, node.path):
            text = f"{node.shape} {node.dtype.name}"
            differences.append(Difference("unused", node.path, text))
    return jobs, differences


def _may_stay(model: Trackable, path: str) -> bool:
    """Whether a value may stay unused: private state of Keras, an optimizer without a taker."""
    has_optimizer = any(has_slots(part) for part in type(model).parts(model).values())
    return path.startswith("_") or (path.startswith("optimizer/") and not has_optimizer)


def _build_optimizer(model: Trackable, root: GroupNode) -> None:
    """Make the slots of a compiled model's optimizer when the file has values for them."""
    group = _find(root, "optimizer/vars")
    for part in type(model).parts(model).values():
        build = getattr(part, "build", None)
        fresh = has_slots(part) and not part.slot_variables()  # type: ignore[attr-defined]
        if isinstance(group, GroupNode) and fresh and callable(build) and len(group.children) > 2:
            build(model.trainable_variables)  # type: ignore[attr-defined]


def _find(root: Node, path: str) -> Node | None:
    node: Node | None = root
    for name in path.split("/"):
        node = node.children.get(name) if isinstance(node, GroupNode) else None
    return node


# ------------------------------------------------------------------ flat tables


def _load_flat(model: Trackable, file: Any, skip_mismatch: bool) -> None:
    there = file.shapes()
    differences, jobs = [], []
    for path, variable in weight_paths(model):
        found = there.pop(path, None)
        problem = (
            Difference("missing", path, _shown(variable))
            if found is None
            else _problem(path, variable, *found)
        )
        if problem:
            differences.append(problem)
        else:
            jobs.append((variable, path))
    differences += [
        Difference("unused", path, f"{shape} {dtype}") for path, (shape, dtype) in there.items()
    ]
    _settle(file.name, differences, skip_mismatch)
    values = [(variable, file.read(path)) for variable, path in jobs]
    for variable, value in values:
        variable._store(value)


# ------------------------------------------------------------------ common


def _shown(variable: Variable) -> str:
    return f"{tuple(variable.shape)} {variable.dtype.name}"


def _problem(path: str, variable: Variable, shape: Any, dtype: str) -> Difference | None:
    """Why `variable` can't take a value of this shape and dtype, None when it can."""
    text = f"object {_shown(variable)}, file {tuple(shape)} {dtype}"
    if not variable.shape.is_compatible_with(shape):
        return Difference("other shape", path, text)
    return None if dtype == variable.dtype.name else Difference("other dtype", path, text)


def _settle(name: str, differences: list[Difference], skip_mismatch: bool) -> None:
    report = Report(name, differences)
    if report and not skip_mismatch:
        raise mismatch(report)
    if report:
        warnings.warn(str(report), IncompleteRestoreWarning, stacklevel=4)
