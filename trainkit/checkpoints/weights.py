"""`save_weights` and `load_weights`: a model's weights in one file; its name says the format.

| name | format |
| --- | --- |
| `*.weights.h5`, `*.h5`, `*.hdf5` | Keras 3's layout, with the optimizer of a compiled model; the
  weights of files in Keras 2's layout, such as whole models, are read too |
| `*.weights.json` | the same in several files of limited size |
| `*.keras` | the weights inside of a Keras archive; reading only |
| `*.safetensors`, `*.npz` | the weights alone, by path |
| anything else | a checkpoint, as `tk.train.Checkpoint(model).write` makes it |
"""

from __future__ import annotations

import os
import warnings
import zipfile
from collections.abc import Iterable
from typing import Any

from trainkit.checkpoints.checkpoint import Checkpoint
from trainkit.checkpoints.format.writer import CheckpointOptions
from trainkit.checkpoints.interop.keras_files import (
    load_keras,
    problem_of,
    save_keras,
    save_shards,
    settle,
    shown,
)
from trainkit.checkpoints.interop.safetensors import (
    NpzFile,
    SafetensorsFile,
    write_npz,
    write_safetensors,
)
from trainkit.checkpoints.legacy.legacy_weights import is_legacy, load_legacy
from trainkit.checkpoints.restore.object_graph import weight_paths
from trainkit.checkpoints.restore.report import Difference
from trainkit.core.errors import (
    CheckpointError,
    InvalidArgumentError,
    NoSuchFileError,
    NotBuiltError,
)
from trainkit.core.files.local_paths import local_path
from trainkit.core.trackable import Trackable

_KERAS = (".h5", ".hdf5")


def save_weights(
    model: Trackable,
    path: str | os.PathLike[str],
    options: CheckpointOptions | None = None,
    max_shard_size: float | None = None,
    skipped: Iterable[Any] = (),
) -> None:
    """Write the weights of a model into one file, which appears whole or not at all.

    Args:
        model: a model or layer that has been built.
        path: the file; its ending says the format, see above.
        options: compression and narrow slots, for the formats that are HDF5.
        max_shard_size: GB in one file of several, for `.weights.json`.
        skipped: objects that are left out, with all below them, in Keras's layout.

    Raises:
        FailedPreconditionError: the model has no weights yet.
        InvalidArgumentError: the ending is `.keras`, which holds a whole model, or does not go
            with the other arguments.
        OSError: the file can't be written; an older one is untouched.
    """
    name = local_path(path)
    _require_weights(model, "save_weights")
    _require_keras(name, "max_shard_size", max_shard_size is not None, (".weights.json", *_KERAS))
    _require_keras(name, "objects_to_skip", bool(skipped), (".json", *_KERAS))
    if max_shard_size is not None:
        save_shards(model, _named_json(name), max_shard_size, skipped)
    elif name.endswith(".weights.json"):
        raise InvalidArgumentError(f"save_weights: {name!r} needs max_shard_size=")
    elif name.endswith(_KERAS):
        save_keras(model, name, options, skipped)
    elif name.endswith(".keras"):
        raise InvalidArgumentError(
            f"save_weights: {name!r} is the name of a whole model; use model.save, or .weights.h5"
        )
    elif name.endswith((".safetensors", ".npz")):
        arrays = {path: variable._host_view() for path, variable in weight_paths(model)}
        (write_npz if name.endswith(".npz") else write_safetensors)(name, arrays)
    else:
        Checkpoint(model).write(name, options)


def load_weights(
    model: Trackable,
    path: str | os.PathLike[str],
    skip_mismatch: bool = False,
    skipped: Iterable[Any] = (),
    by_name: bool | None = None,
) -> None:
    """Take the weights of a model from a file.

    Nothing changes unless all fits: each weight of the model is in the file with its shape, and
    the file has no others. Floats of another width are cast, and so are integers. An optimizer's
    state is taken when the model has been compiled and the file has it, and must fit too.

    Args:
        model: a model or layer that has been built.
        path: the file; its ending says the format, as for `save_weights`.
        skip_mismatch: take what fits and warn of the rest.
        skipped: objects that keep what they have, with all below them, for Keras 3's layout.
        by_name: for Keras 2's layout alone: match layers by their names, and leave those alone
            that the file does not have; by default the order says which is which.

    Raises:
        FailedPreconditionError: the model has no weights yet.
        InvalidArgumentError: an argument does not go with the file.
        NotFoundError: there is no such file.
        CheckpointMismatchError: something does not fit; the text shows each difference.
        CheckpointError: the file is damaged or hostile.
    """
    name = local_path(path, CheckpointError)
    _require_weights(model, "load_weights")
    _require_keras(name, "objects_to_skip", bool(skipped), (".json", *_KERAS), "load_weights")
    legacy = name.endswith(_KERAS) and os.path.exists(name) and is_legacy(name)
    if legacy and skipped:
        raise InvalidArgumentError(
            f"load_weights: objects_to_skip is not for files in Keras 2's layout, as {name!r} is; "
            "use by_name=True to leave layers out by their names"
        )
    if by_name is not None and not legacy:
        raise InvalidArgumentError(
            "load_weights: by_name is for .h5 and .hdf5 files in Keras 2's layout alone, got "
            f"{name!r}"
        )
    if legacy:
        load_legacy(model, name, skip_mismatch, by_name)
    elif name.endswith((*_KERAS, ".keras", ".weights.json")):
        load_keras(model, name, skip_mismatch, skipped)
    elif name.endswith((".safetensors", ".npz")):
        kind = NpzFile if name.endswith(".npz") else SafetensorsFile
        with kind(name) as file:
            _load_flat(model, file, skip_mismatch)
    elif not os.path.exists(name):
        raise NoSuchFileError(f"there is no checkpoint {name!r}")
    elif name.endswith((".pt", ".pth", ".bin")) and zipfile.is_zipfile(name):
        raise InvalidArgumentError(
            f"load_weights: {name!r} was written by torch.save, whose layouts are others; use "
            "tk.weights.load_into(model, path)"
        )
    else:
        restore = Checkpoint(model)._restore(name, strict=not skip_mismatch)
        restore.warn(only_lost=True)


def _require_keras(
    name: str, argument: str, is_set: bool, endings: tuple[str, ...], caller: str = "save_weights"
) -> None:
    if is_set and not name.endswith(endings):
        raise InvalidArgumentError(
            f"{caller}: {argument} is for files that end in {' or '.join(endings)}, got {name!r}"
        )


def _named_json(name: str) -> str:
    """The map of shards that goes with the name of one file."""
    if name.endswith(".json"):
        return name
    new = os.path.splitext(name)[0] + ".json"
    warnings.warn(
        f"the weights go into several files: {name!r} is called {new!r}, which says what is where",
        stacklevel=4,
    )
    return new


def _require_weights(model: Trackable, caller: str) -> None:
    if next(iter(weight_paths(model)), None) is None and not getattr(model, "built", False):
        raise NotBuiltError(
            f"{caller}: {getattr(model, 'name', type(model).__name__)!r} has no weights yet. Call "
            "it on a batch, or model.build(input_shape), first"
        )


# ------------------------------------------------------------------ flat tables


def _load_flat(model: Trackable, file: Any, skip_mismatch: bool) -> None:
    unmatched = file.shapes()
    differences, jobs = [], []
    for path, variable in weight_paths(model):
        stored = unmatched.pop(path, None)
        problem = (
            Difference("missing", path, shown(variable))
            if stored is None
            else problem_of(path, variable, *stored)
        )
        if problem:
            differences.append(problem)
        else:
            jobs.append((variable, path))
    differences += [
        Difference("unused", path, f"{shape} {dtype}") for path, (shape, dtype) in unmatched.items()
    ]
    settle(file.name, differences, skip_mismatch)
    values = [(variable, file.read(path)) for variable, path in jobs]
    for variable, value in values:
        variable._store(value.astype(variable.dtype.dtype, copy=False))
