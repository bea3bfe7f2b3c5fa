"""Whole models in one file, in the layout of Keras 3: a zip of a config, metadata and weights.

Reading such a file builds objects of trainkit's own classes, and of classes that the reader has
registered or passes in, from plain values. Nothing that stands in the file is executed or imported.
"""

from __future__ import annotations

import datetime
import io
import json
import os
import tempfile
import zipfile
from typing import Any

from trainkit.checkpoints.atomic import AtomicFile
from trainkit.checkpoints.weights import load_weights, save_weights
from trainkit.core.errors import CheckpointError, InvalidArgumentError, NotFoundError
from trainkit.core.registry import CustomObjectScope, deserialize_object, serialize_object
from trainkit.models.model import Model

_CONFIG, _METADATA, _WEIGHTS = "config.json", "metadata.json", "model.weights.h5"
_KERAS_VERSION = "3.15.0"  # the layout of the files is that of this version
_LARGEST_CONFIG = 64 << 20


def _path(filepath: Any, ending: str, overwrite: bool = True) -> str:
    path = os.fspath(filepath)
    if not path.endswith(ending):
        raise ValueError(f"the path must end in {ending!r}, got {path!r}")
    if not overwrite and os.path.exists(path):
        raise FileExistsError(f"{path} exists already; pass overwrite=True to replace it")
    return path


# ---------------------------------------------------------------------- whole models


def model_config(model: Model) -> dict[str, Any]:
    """How a model is made and compiled, as plain values."""
    described: dict[str, Any] = serialize_object(model)
    if type(model) is Model:
        described["class_name"] = "Functional"
    described["build_config"] = _build_config(model)
    compiled = model.get_compile_config()
    if compiled is not None:
        described["compile_config"] = compiled
    return described


def _build_config(model: Model) -> dict[str, Any]:
    """The shapes that the model was built with."""
    if model._graph is not None:
        return {"input_shape": serialize_object(model.input_shape)}
    return {name: serialize_object(shape) for name, shape in model.get_build_config().items()}


def model_to_json(model: Model, **kwargs: Any) -> str:
    """`model_config` as JSON, without how it is compiled."""
    config = model_config(model)
    config.pop("compile_config", None)
    return json.dumps(config, **kwargs)


def save_model(model: Model, filepath: Any, overwrite: bool = True) -> None:
    """Write a whole model; a file that is there stays whole until the new one is.

    Args:
        model: built.
        filepath: ends in `.keras`.
        overwrite: whether a file that exists is replaced.

    Raises:
        ValueError: the path ends otherwise, or the model is not built.
        TypeError: a part can't be put into a config.
        FileExistsError: the file exists and is not to be replaced.
    """
    path = _path(filepath, ".keras", overwrite)
    if not model.built:
        raise ValueError(
            f"model {model.name!r} has no weights to save yet: build it, or call it on data"
        )
    config = json.dumps(model_config(model))
    now = datetime.datetime.now().strftime("%Y-%m-%d@%H:%M:%S")
    metadata = json.dumps({"keras_version": _KERAS_VERSION, "date_saved": now})
    stored = b""
    with tempfile.TemporaryDirectory() as folder:
        weights = os.path.join(folder, _WEIGHTS)
        if model.weights:
            save_weights(model, weights)
            with open(weights, "rb") as file:
                stored = file.read()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(_METADATA, metadata)
        archive.writestr(_CONFIG, config)
        if stored:
            archive.writestr(_WEIGHTS, stored)
    with AtomicFile(path) as out:
        with os.fdopen(os.dup(out.fd), "wb") as file:
            file.write(packed.getvalue())
        out.commit()


def model_as_bytes(model: Model) -> bytes:
    """What `save_model` writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        save_model(model, path)
        with open(path, "rb") as file:
            return file.read()


def model_from_bytes(data: bytes) -> Model:
    """The model that `model_as_bytes` was given."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        with open(path, "wb") as file:
            file.write(data)
        model: Model = load_model(path)
        return model


def load_model(
    filepath: Any,
    custom_objects: dict[str, Any] | None = None,
    compile: bool = True,  # the name that Keras has
    safe_mode: bool = True,
) -> Any:
    """Read a model that `Model.save` wrote, here or in Keras.

    Args:
        filepath: ends in `.keras`.
        custom_objects: classes and functions that the file names, by name.
        compile: whether the model is compiled as it was.
        safe_mode: must be true; code in a file is never run.

    Returns:
        The model.

    Raises:
        ValueError: the file names a class that is not known, or holds code.
        NotFoundError: there is no such file.
        CheckpointError: the file is no model, or damaged.
    """
    if not safe_mode:
        raise InvalidArgumentError("load_model: safe_mode=False is not supported; no code is run")
    path = _path(filepath, ".keras")
    if not os.path.exists(path):
        raise NotFoundError(f"there is no file {path}")
    try:
        with zipfile.ZipFile(path) as archive, CustomObjectScope(custom_objects):
            names = archive.namelist()
            config = _read_config(archive, path)
            model = model_from_config(config)
            if compile and config.get("compile_config"):
                compile_from_config(model, config["compile_config"])
    except (zipfile.BadZipFile, KeyError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path} is no model that can be read: {error}") from error
    stored = _WEIGHTS in names
    if stored and not model.weights:
        raise CheckpointError(
            f"{path} has weights, but the model {model.name!r} makes none before it is called; "
            "let its class have a build(input_shape)"
        )
    if stored:
        load_weights(model, path)
    return model


def _read_config(archive: zipfile.ZipFile, path: str) -> dict[str, Any]:
    info = archive.getinfo(_CONFIG)
    if info.file_size > _LARGEST_CONFIG:
        raise CheckpointError(
            f"{path}: its config has {info.file_size} bytes, more than is plausible"
        )
    config = json.loads(archive.read(_CONFIG))
    if not isinstance(config, dict) or "class_name" not in config:
        raise CheckpointError(f"{path}: its config describes no model")
    return config


def model_from_config(config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
    """A new model from what `model_config` gave; its weights are new.

    Raises:
        ValueError: it names a class that is not known.
    """
    with CustomObjectScope(custom_objects):
        own = {"Functional": Model, "Model": Model}
        name = config.get("class_name")
        if name in own and "input_layers" in config.get("config", {}):
            model = own[name].from_config(config["config"])
        else:
            model = deserialize_object({k: v for k, v in config.items() if k != "compile_config"})
        shapes = config.get("build_config") or {}
        if not model.built and shapes.get("input_shape"):
            model.build_from_config({"input_shape": shapes["input_shape"]})
    return model


def model_from_json(text: str, custom_objects: dict[str, Any] | None = None) -> Any:
    """A new model from what `Model.to_json` gave; its weights are new."""
    return model_from_config(json.loads(text), custom_objects)


def compile_from_config(model: Model, config: dict[str, Any]) -> None:
    """Compile a model by what `get_compile_config` gave."""
    known = (
        "optimizer",
        "loss",
        "loss_weights",
        "metrics",
        "weighted_metrics",
        "run_eagerly",
        "steps_per_execution",
        "jit_compile",
    )
    settings = {name: deserialize_object(config[name]) for name in known if name in config}
    model.compile(**settings)
    if model.built:
        model.optimizer.build(model.trainable_variables)


def clone_model(model: Model) -> Any:
    """A model of new layers like those of `model`, with new weights, not compiled.

    Args:
        model: made from symbolic tensors, a `Sequential`, or a subclass with `get_config`.
    """
    return type(model).from_config(model.get_config())
