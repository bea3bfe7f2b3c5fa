"""Whole models in one file, in the layout of Keras 3: a zip of a config, metadata and weights.

The older format, HDF5, is in `legacy/legacy_saving.py`; the ending of the path says which is meant.

Reading such a file builds objects of trainkit's own classes, and of classes that the reader has
registered or passes in, from plain values. Nothing that stands in the file is executed or imported,
but for lambdas, and these only with `safe_mode=False`.
"""

from __future__ import annotations

import datetime
import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainkit.checkpoints.format.reader import SavedFile
from trainkit.checkpoints.interop.keras_archive import (
    ASSETS,
    CONFIG,
    LARGEST_CONFIG,
    METADATA,
    WEIGHTS,
    Archive,
    opened,
    write_archive,
)
from trainkit.checkpoints.interop.keras_files import Shelf, load_shelf, save_keras
from trainkit.checkpoints.interop.keras_weights import SCALED, layout
from trainkit.checkpoints.replicas import whole_state
from trainkit.core.config_values import SafeModeScope, in_safe_mode
from trainkit.core.errors import CheckpointError, ConfigError, InvalidArgumentError
from trainkit.core.files.local_paths import local_path
from trainkit.core.registry import (
    CustomObjectScope,
    ObjectSharingScope,
    deserialize_object,
    serialize_object,
)
from trainkit.layers.base.weight_budget import WeightBudget
from trainkit.models.legacy.legacy_config import decoded, is_legacy, modern
from trainkit.models.legacy.legacy_saving import load_h5_model, save_h5_model
from trainkit.models.training.trainer import Trainer
from trainkit.optimizers import LossScaleOptimizer

if TYPE_CHECKING:
    from trainkit.models.model import Model

_KERAS_VERSION = "3.15.0"  # the layout of the files is that of this version
_LEGACY = (".h5", ".hdf5")
# What classes raise when they are made from settings of another kind than they expect.
_SURPRISES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
)


# ---------------------------------------------------------------------- whole models


def model_config(model: Model) -> dict[str, Any]:
    """How a model is made and compiled, as plain values."""
    with ObjectSharingScope():
        described: dict[str, Any] = serialize_object(model)
    return described


def model_to_json(model: Model, **kwargs: Any) -> str:
    """`model_config` as JSON; `kwargs` are those of `json.dumps`."""
    return json.dumps(serialize_object(model), **kwargs)


def save_model(
    model: Model, filepath: Any, overwrite: bool = True, zipped: bool | None = None, **kwargs: Any
) -> None:
    """Write a whole model; a file that is there stays whole until the new one is.

    Args:
        model: a model; one without weights yet is written, and read, as such.
        filepath: ends in `.keras`; or in `.h5` or `.hdf5` for the format of Keras 2, which has no
            assets and no build configs; or is a file that is open for writing.
        overwrite: whether a file that exists is replaced.
        zipped: `False` writes a folder in place of one file.
        **kwargs: Keras 2's `save_format`, which the ending has said since, with a warning;
            `include_optimizer`, false for an HDF5 file without the optimizer.

    Raises:
        ValueError: the path ends otherwise, or an argument is not supported.
        TypeError: a part can't be put into a config.
        NotImplementedError: the class of the model has no config.
        FileExistsError: the file exists and is not to be replaced.

    Example:
        >>> model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(2)])
        >>> tk.models.save_model(model, "model.keras")
    """
    if not model.built and hasattr(model, "train_step") and not model.weights:
        warnings.warn(
            f"save: model {model.name!r} is not built, so the file has no weights, and none are "
            "there to load: call the model on a batch, fit it, or build(input_shape) it first",
            stacklevel=3,
        )
    legacy = _ends_legacy(filepath)
    include_optimizer = _checked_arguments(filepath, kwargs, legacy)
    zipped = True if zipped is None else zipped
    with written_once(model) as writes:
        if not writes:
            return
        if zipped and legacy:
            _check_free(local_path(filepath), overwrite)
            save_h5_model(model, local_path(filepath), include_optimizer)
        else:
            _save(
                model,
                _path(filepath, overwrite) if zipped else _folder(filepath, overwrite),
                zipped,
            )


@contextmanager
def written_once(model: Any) -> Iterator[bool]:
    """Context to save a model in; it says whether this is the process that writes."""
    strategy = getattr(model, "distribute_strategy", None)
    if strategy is None or strategy.num_replicas_in_sync == 1:
        yield True
        return
    with whole_state(model) as writes:
        yield writes


def _save(model: Any, path: Any, zipped: bool) -> None:
    config = _config_text(model)
    now = datetime.datetime.now().strftime("%Y-%m-%d@%H:%M:%S")
    metadata = json.dumps({"keras_version": _KERAS_VERSION, "date_saved": now})
    with tempfile.TemporaryDirectory() as folder:
        weights = os.path.join(folder, WEIGHTS)
        save_keras(model, weights)
        members: dict[str, Any] = {METADATA: metadata.encode(), CONFIG: config, WEIGHTS: weights}
        members[WEIGHTS] = Path(weights)
        members.update(_saved_assets(model, os.path.join(folder, "assets")))
        write_archive(path, members, zipped)


def _ends_legacy(filepath: Any) -> bool:
    return not _is_open(filepath) and local_path(filepath).endswith(_LEGACY)


def _is_open(filepath: Any) -> bool:
    return hasattr(filepath, "write") or hasattr(filepath, "read")


def _checked_arguments(filepath: Any, arguments: dict[str, Any], legacy: bool) -> bool:
    """Whether the optimizer goes into the file."""
    arguments = dict(arguments)
    include_optimizer = bool(arguments.pop("include_optimizer", True))
    if not include_optimizer and not legacy:
        raise InvalidArgumentError(
            "save: include_optimizer=False is for .h5 files; save a model that is not compiled"
        )
    form = arguments.pop("save_format", None)
    if arguments:
        raise InvalidArgumentError(
            f"save: there are no arguments {', '.join(map(repr, arguments))}"
        )
    if form and not str(filepath).endswith((".keras", *_LEGACY)):
        raise InvalidArgumentError(
            f"save: save_format={form!r} is gone; the path says the format: let it end in .keras"
        )
    if form:
        warnings.warn(
            f"save: save_format={form!r} is not looked at; the ending of the path says it",
            stacklevel=4,
        )
    return include_optimizer


def _path(filepath: Any, overwrite: bool = True) -> Any:
    if _is_open(filepath):
        return filepath
    path = local_path(filepath)
    if not path.endswith(".keras"):
        raise InvalidArgumentError(
            f"the path of a model must end in '.keras', or in '.h5' or '.hdf5', got {path!r}; "
            "model.export(path) writes a folder, from which tk.saved_model.load serves the model"
        )
    _check_free(path, overwrite)
    return path


def _folder(filepath: Any, overwrite: bool) -> str:
    path = local_path(filepath)
    if path.endswith((".keras", *_LEGACY)):
        raise InvalidArgumentError(
            f"zipped=False writes a folder, whose name should not end in '.keras', got {path!r}"
        )
    _check_free(path, overwrite)
    if os.path.exists(path) and not os.path.isdir(path):
        raise InvalidArgumentError(f"{path!r} is a file; zipped=False writes a folder")
    return path


def _check_free(path: str, overwrite: bool) -> None:
    if not overwrite and os.path.exists(path):
        raise FileExistsError(f"{path} exists already; pass overwrite=True to replace it")


def _config_text(model: Model) -> bytes:
    text = json.dumps(model_config(model)).encode()
    if len(text) > LARGEST_CONFIG:
        raise InvalidArgumentError(
            f"the config of model {model.name!r} has {len(text)} bytes; no more than "
            f"{LARGEST_CONFIG} would be read again. Keep large arrays in weights, or in assets"
        )
    return text


def _saved_assets(model: Model, folder: str) -> dict[str, Path]:
    """The files that parts of the model write, by the names of members."""
    for paths, part in _with_assets(model, "save_assets"):
        subfolder = os.path.join(folder, paths[0])
        os.makedirs(subfolder, exist_ok=True)
        part.save_assets(subfolder)
    files = [path for path in Path(folder).rglob("*") if path.is_file()]
    return {ASSETS + path.relative_to(folder).as_posix(): path for path in sorted(files)}


def _with_assets(model: Model, method: str) -> list[tuple[list[str], Any]]:
    """The parts that have a method, each behind all paths that lead to it, its own first."""
    return [
        ([item.path, *item.others], item.part)
        for item in layout(model)
        if callable(getattr(item.part, method, None))
    ]


def load_model(
    filepath: Any,
    custom_objects: dict[str, Any] | None = None,
    compile: bool = True,  # the name that Keras has
    safe_mode: bool = True,
) -> Model:
    """Read a model that `Model.save` wrote, here or in Keras 2 or 3.

    Weights are made for what the file has: one whose config asks for far more is refused before
    anything is made.

    Args:
        filepath: ends in `.keras`, `.h5` or `.hdf5`, or is a folder that was written with
            `zipped=False`, or a file that is open for reading.
        custom_objects: classes and functions that the file names, by name.
        compile: whether the model is compiled as it was.
        safe_mode: whether lambdas, which are code, are refused; without it the code in the file
            runs, which may be anything.

    Returns:
        The model.

    Raises:
        ValueError: the file names a class that is not known, or holds code.
        NotFoundError: there is no such file.
        CheckpointError: the file is no model, or damaged.

    Example:
        >>> model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(2)])
        >>> model.save("model.keras")
        >>> tk.models.load_model("model.keras").output_shape
        (None, 2)
    """
    if not _is_open(filepath):
        filepath = local_path(filepath, CheckpointError)
    is_folder = isinstance(filepath, str) and os.path.isdir(filepath)
    if not is_folder and _ends_legacy(filepath):
        return load_h5_model(filepath, custom_objects, compile, safe_mode)
    source = filepath if is_folder else _path(filepath)
    mode = in_safe_mode()
    with opened(source) as archive, archive.weights() as fd:
        config = archive.json(CONFIG, LARGEST_CONFIG)
        if "class_name" not in config:
            raise CheckpointError(f"{archive.name}: its config describes no model")
        if not compile:
            config.pop("compile_config", None)
        shelf = None if fd is None else _shelf(archive, fd)
        try:
            with (
                CustomObjectScope(custom_objects),
                SafeModeScope(safe_mode if mode is None else mode),
                WeightBudget(archive.most, archive.name),
            ):
                model = make_model(config, archive.name)
            _take_weights(model, shelf, archive)
        finally:
            if shelf is not None:
                shelf.close()
        _take_assets(model, archive)
    return model


def _shelf(archive: Archive, fd: int) -> Shelf:
    saved = SavedFile(archive.name, foreign=True, fd=fd)
    if archive.sealed_weights and not saved.sealed:
        saved.close()
        raise CheckpointError(f"{archive.name} is damaged: its weights have lost their header")
    return Shelf(archive.name, [saved])


def make_model(config: dict[str, Any], source: str) -> Any:
    """The model that the config in a file describes, without its weights.

    Raises:
        CheckpointError: no model can be made of it.
    """
    try:
        model = model_from_config(config)
    except _SURPRISES as error:
        raise CheckpointError(
            f"{source}: no model can be made from its config: {type(error).__name__} {error}"
        ) from error
    if not isinstance(model, Trainer) and not getattr(type(model), "_saved_alone", False):
        raise CheckpointError(f"{source} holds no model, its config describes {model!r}")
    return model


def _take_weights(model: Model, shelf: Shelf | None, archive: Archive) -> None:
    if shelf is None:
        if model.weights:
            raise CheckpointError(
                f"{archive.name} is damaged: model {model.name!r} has weights, and the file has no "
                f"member {WEIGHTS}"
            )
        return
    has_values = any(not node.path.startswith("optimizer/") for node in shelf.arrays())
    if has_values and not model.weights and not model.built:
        raise CheckpointError(
            f"{archive.name} has weights, but the model {model.name!r} makes none before it is "
            "called; let its class have a build(input_shape)"
        )
    _scale_loss(model, shelf)
    load_shelf(model, shelf)


def _scale_loss(model: Model, shelf: Shelf) -> None:
    """Put a loss scale around the optimizer where the file has one.

    Keras's config has the optimizer that `compile` got: the policy of the day, mixed_float16, put
    the scale around it, and functional models do not say their policy.
    """
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and shelf.group(f"optimizer/{SCALED}/vars") is not None:
        if not isinstance(optimizer, LossScaleOptimizer):
            model.optimizer = LossScaleOptimizer(optimizer)


def _take_assets(model: Model, archive: Archive) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if not archive.unpack_assets(folder):
            return
        for paths, part in _with_assets(model, "load_assets"):
            candidates = [os.path.join(folder, path) for path in paths]
            subfolder = next(filter(os.path.isdir, candidates), None)
            if subfolder is not None:
                part.load_assets(subfolder)


def model_from_config(
    config: dict[str, Any], custom_objects: dict[str, Any] | None = None
) -> Model:
    """A new model from what `model_config` gave; its weights are new.

    Args:
        config: the dict.
        custom_objects: classes and functions by name, besides those that are registered.

    Raises:
        ConfigError: it names a class that is not known, or can't be read.

    Example:
        >>> model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(2)])
        >>> config = {"class_name": "Sequential", "config": model.get_config()}
        >>> tk.models.model_from_config(config).output_shape
        (None, 2)
    """
    if not isinstance(config, dict):
        raise ConfigError(f"a config is a dict, got {config!r}")
    with ObjectSharingScope(), CustomObjectScope(custom_objects):
        return deserialize_object(modern(config) if is_legacy(config) else config)


def model_from_json(json_string: str, custom_objects: dict[str, Any] | None = None) -> Model:
    """A new model from what `Model.to_json` gave; its weights are new.

    Args:
        json_string: the JSON.
        custom_objects: classes and functions by name, besides those that are registered.

    Example:
        >>> model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(2)])
        >>> tk.models.model_from_json(model.to_json()).output_shape
        (None, 2)
    """
    return model_from_config(decoded(json_string, "the text of a model"), custom_objects)
