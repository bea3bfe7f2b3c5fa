"""Whole models in HDF5 files, the format of Keras 2, which Keras 3 reads and writes too.

The root has the attributes `model_config` and `training_config`, JSON texts; the weights are laid
out as `checkpoints/legacy` says. Reading such a file makes objects of known classes from plain
values, as reading a `.keras` file does; code in it, a lambda, runs with `safe_mode=False` alone.
"""

from __future__ import annotations

import json
import os
import warnings
from typing import Any

from trainkit.checkpoints.format.writer import write_file
from trainkit.checkpoints.interop.keras_archive import FLOOR, LARGEST_CONFIG, RATIO
from trainkit.checkpoints.legacy.legacy_weights import (
    MODEL,
    LegacyFile,
    optimizer_entries,
    take_optimizer,
    take_weights,
    weight_entries,
)
from trainkit.checkpoints.restore.object_graph import weight_paths
from trainkit.core.config_values import SafeModeScope, in_safe_mode
from trainkit.core.errors import CheckpointError, ConfigError, InvalidArgumentError
from trainkit.core.files.output_folders import make_folder
from trainkit.core.registry import (
    FAMILIES,
    CustomObjectScope,
    ObjectSharingScope,
    deserialize_object,
    serialize_object,
)
from trainkit.layers.base.weight_budget import WeightBudget
from trainkit.layers.quantized.forms_inside import NOTES
from trainkit.models.legacy.legacy_config import (
    OPERATIONS,
    decoded,
    modern,
    modern_loss,
    modern_optimizer,
)
from trainkit.models.training.trainer import Trainer

_SURPRISES = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError)
_OTHERWISE = (*_SURPRISES, RuntimeError)
# Kernels are laid out as TensorFlow's.
_FACTS = {"keras_version": "3.15.0", "backend": "tensorflow"}
_LONG_NAMES = {  # Keras 3.15 does not read the short ones from such files
    "mse": "mean_squared_error",
    "mae": "mean_absolute_error",
    "mape": "mean_absolute_percentage_error",
    "msle": "mean_squared_logarithmic_error",
    "bce": "binary_crossentropy",
    "kld": "kl_divergence",
}
_LONG_CLASS_NAMES = {"GroupQueryAttention": "GroupedQueryAttention"}  # Keras has both elsewhere
_OF_COMPILE = ("loss", "metrics", "weighted_metrics", "loss_weights")


# ---------------------------------------------------------------------- writing


def save_h5_model(model: Any, path: str, include_optimizer: bool = True) -> None:
    """Write a whole model; a file that is there stays whole until the new one is.

    Args:
        model: built.
        path: ends in `.h5` or `.hdf5`; the folders around it are made.
        include_optimizer: whether it goes into the file how the model is compiled, and the state of
            its optimizer.

    Raises:
        NotImplementedError: the class of the model has no config.
        InvalidArgumentError: the config is larger than what would be read again.
    """
    texts = {"model_config": json.dumps(_model_config(model)), **_FACTS}
    entries = weight_entries(model, _FACTS, MODEL)
    training = _training_config(model) if include_optimizer else None
    if training is not None:
        texts["training_config"] = json.dumps(training)
        entries += optimizer_entries(model.optimizer)
    for name, text in texts.items():
        if len(text.encode()) > LARGEST_CONFIG:
            raise InvalidArgumentError(
                f"the {name} of model {model.name!r} has {len(text)} letters; no more than "
                f"{LARGEST_CONFIG} would be read again. Keep large arrays in weights"
            )
    folder = os.path.dirname(path)
    if folder:
        make_folder(folder, "Model.save")
    write_file(path, entries, texts)


def _model_config(model: Any) -> dict[str, Any]:
    try:
        with ObjectSharingScope():
            described = serialize_object(model)
    except (NotImplementedError, TypeError) as error:
        raise NotImplementedError(
            f"{type(model).__name__} {model.name!r} can't be saved as a whole, its class has no "
            f"config: {error}. Give it get_config() and from_config(config), or save the weights "
            "alone with save_weights('NAME.weights.h5')"
        ) from error
    return _plain(described)


def _plain(described: dict[str, Any]) -> dict[str, Any]:
    """A model or layer as the format has it: by its name, without its module."""
    module = str(described.get("module"))
    if module.startswith(OPERATIONS.rpartition(".")[0]):
        return described  # an operation, which is not known by its name alone
    name = described.get("registered_name") or described["class_name"]
    keys = ["name", "inbound_nodes", "shared_object_id"]
    is_own = module.partition(".")[0] == "keras"
    # what a class of a user needs to make its weights, which of any layer are frozen alone, and
    # which forms the weights of layers inside of it have
    if not is_own or (described.get("build_config") or {}).keys() & set(NOTES):
        keys.append("build_config")
    if is_own:
        name = _LONG_CLASS_NAMES.get(name, name)
    description = {"class_name": name, "config": described["config"]}
    description.update((key, described[key]) for key in keys if key in described)
    layers = description["config"].get("layers")
    if isinstance(layers, list) and all(isinstance(layer, dict) for layer in layers):
        plain = [_plain(layer) if "class_name" in layer else layer for layer in layers]
        description["config"] = {**description["config"], "layers": plain}
    return description


def _training_config(model: Any) -> dict[str, Any] | None:
    """How the model is compiled, `None` where it is not, or has no optimizer."""
    arguments = model.get_compile_config()
    if arguments is None or model.optimizer is None:
        return None
    config = {key: _plain_part(value) for key, value in arguments.items() if key != "optimizer"}
    config["loss"] = _with_long_names(config.get("loss"))
    for name in _OF_COMPILE:
        config.setdefault(name, None)
    described = arguments.get("optimizer") or serialize_object(model.optimizer)
    return {**config, "optimizer_config": _plain(described)}


def _plain_part(x: Any) -> Any:
    """A loss, a metric, or a nest of them."""
    if isinstance(x, list | tuple):
        return [_plain_part(item) for item in x]
    if not isinstance(x, dict):
        return x
    if x.get("class_name") == "function":
        return x["config"]
    if "class_name" in x and isinstance(x.get("config"), dict):
        return _plain(x)
    return {key: _plain_part(value) for key, value in x.items()}


def _with_long_names(x: Any) -> Any:
    """Losses, or a nest of them, without short names."""
    if isinstance(x, str):
        return _LONG_NAMES.get(x.lower(), x)
    if isinstance(x, list):
        return [_with_long_names(item) for item in x]
    if isinstance(x, dict) and "class_name" not in x:
        return {key: _with_long_names(value) for key, value in x.items()}
    return x


# ---------------------------------------------------------------------- reading


def load_h5_model(
    path: str,
    custom_objects: dict[str, Any] | None = None,
    compile: bool = True,
    safe_mode: bool = True,
) -> Any:
    """Read a model that `save_h5_model`, Keras 2 or Keras 3 wrote; see `load_model`."""
    mode = in_safe_mode()
    with (
        LegacyFile(path) as file,
        CustomObjectScope(custom_objects),
        SafeModeScope(safe_mode if mode is None else mode),
    ):
        config = _config(file, "model_config")
        if config is None:
            raise ConfigError(
                f"{path} has no config of a model, only weights perhaps: make the model, and call "
                "its load_weights"
            )
        training = _config(file, "training_config") if compile else None
        with WeightBudget(RATIO * os.path.getsize(path) + FLOOR, path):
            model = _make(config, file)
        take_weights(model, file)
        if training is not None:
            _compile(model, training, file)
        elif compile:
            warnings.warn(
                f"{path} does not say how the model was compiled, so it is not; call compile() "
                "before you train it, or pass compile=False",
                stacklevel=3,
            )
    return model


def _config(file: LegacyFile, name: str) -> Any:
    text = file.text(name)
    if text is None:
        return None
    if len(text) > LARGEST_CONFIG:
        raise CheckpointError(
            f"{file.name} is refused: its {name} has {len(text)} letters, {LARGEST_CONFIG} are the "
            "most that is read"
        )
    return decoded(text, f"{file.name}: the {name}")


def _make(config: Any, file: LegacyFile) -> Any:
    try:
        with ObjectSharingScope():
            model = deserialize_object(modern(config))
    except _OTHERWISE as error:
        if isinstance(error, ConfigError):
            raise
        raise CheckpointError(
            f"{file.name}: no model can be made from its config: {type(error).__name__} {error}"
        ) from error
    if not isinstance(model, Trainer):
        raise CheckpointError(f"{file.name} holds no model, its config describes {model!r}")
    if not model.built and next(iter(weight_paths(model)), None) is None and _has_weights(file):
        raise CheckpointError(
            f"{file.name} has weights, but the model {model.name!r} makes none before it is "
            "called; let its class have a build(input_shape)"
        )
    return model


def _has_weights(file: LegacyFile) -> bool:
    group = file.weights()
    return any(node.path.startswith(group.path) for node in file.saved.arrays())


def _compile(model: Any, training: Any, file: LegacyFile) -> None:
    """Compile as the file says, and take the state of the optimizer."""
    if not isinstance(training, dict) or "optimizer_config" not in training:
        raise CheckpointError(f"{file.name}: its training_config names no optimizer")
    optimizer = FAMILIES["optimizers"].deserialize(modern_optimizer(training["optimizer_config"]))
    names = None if model._graph is None else model._graph.output_operations
    model.compile(
        optimizer=optimizer,
        loss=_objects("losses", modern_loss(training.get("loss"))),
        loss_weights=training.get("loss_weights"),
        metrics=_metrics(training.get("metrics"), names),
        weighted_metrics=_metrics(training.get("weighted_metrics"), names),
    )
    if model.optimizer is not None and weight_paths(model):
        model.optimizer.build(model.trainable_variables)
        take_optimizer(model.optimizer, file)


def _metrics(config: Any, outputs: list[str] | None) -> Any:
    """Metrics as `compile` takes them; Keras 2 lists them by output, also where there is one."""
    if not isinstance(config, list):
        return _objects("metrics", modern(config))
    by_output = bool(config) and all(isinstance(item, list) for item in config)
    if not by_output:
        return _objects("metrics", modern(config))
    prefixes = outputs if outputs and len(outputs) > 1 else [""] * len(config)
    per_output = [
        [_metric(item, prefix) for item in items if item is not None]
        for items, prefix in zip(config, prefixes, strict=False)
    ]
    return per_output[0] if len(per_output) == 1 else per_output


def _metric(config: Any, output: str) -> Any:
    """A metric of one output, whose name Keras 2 puts in front of the metric's."""
    config = modern(config)
    settings = config.get("config") if isinstance(config, dict) else None
    if isinstance(settings, dict) and output and isinstance(settings.get("name"), str):
        settings["name"] = settings["name"].removeprefix(f"{output}_")
    return _objects("metrics", config)


def _objects(family: str, x: Any) -> Any:
    """The objects of a nest of configs; names of built-in ones stay, for `compile` to read."""
    if isinstance(x, list | tuple):
        return [_objects(family, item) for item in x]
    if isinstance(x, dict) and "class_name" not in x:
        return {key: _objects(family, value) for key, value in x.items()}
    if isinstance(x, dict):
        return FAMILIES[family].deserialize(x)
    return deserialize_object(x)
