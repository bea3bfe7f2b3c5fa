"""`save` and `load` of `tk.hub`: models in folders as the Hugging Face Hub has them.

A folder has `config.json`, which says how the model is made, `model.safetensors` (or several and
their index), and `README.md`, the card.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any

import numpy as np

from trainkit.checkpoints.format.atomic import AtomicFile
from trainkit.checkpoints.format.positioned_io import read_at, write_at
from trainkit.checkpoints.format.regular_files import open_regular
from trainkit.checkpoints.interop.keras_archive import LARGEST_CONFIG
from trainkit.core.config_values import SafeModeScope
from trainkit.core.errors import (
    CheckpointError,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
)
from trainkit.core.files.local_paths import local_path
from trainkit.core.registry import CustomObjectScope
from trainkit.layers.base.weight_budget import WeightBudget
from trainkit.models.model import Model
from trainkit.models.saving import load_model, make_model, model_config
from trainkit.weights import weight_files
from trainkit.weights.hub_download import is_hub_address, local_folder
from trainkit.weights.weight_loading import load_into
from trainkit.weights.weight_saving import save as save_weights

_LIBRARY = "trainkit"
_WIDEST = 4  # bytes of a weight for a byte of it in the file, which may be float8
_FLOOR = 1 << 20


def save(
    model: Model,
    folder: str | os.PathLike[str],
    *,
    card: str | None = None,
    max_shard_size: int | str | None = "5GB",
) -> None:
    """Write a model as a folder for the Hugging Face Hub.

    `huggingface_hub.upload_folder(repo_id="me/name", folder_path=folder)` puts it there.

    Args:
        model: a model that is built. Its optimizer is not written: `model.save` does.
        folder: is made where it is missing.
        card: the text of `README.md`; by default a short one, where there is none yet.
        max_shard_size: as for `tk.weights.save`.

    Raises:
        NotBuiltError: the model has no weights yet.
        InvalidArgumentError: it is no model, or its config is too large.
        TypeError: a part of the model can't be put into a config.
        OSError: a file can't be written.

    Example:
        >>> model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(2)])
        >>> tk.hub.save(model, "my_model")
        >>> sorted(os.listdir("my_model"))
        ['README.md', 'config.json', 'model.safetensors']
    """
    name = local_path(folder)
    if not isinstance(model, Model):
        raise InvalidArgumentError(f"hub.save: model must be a Model, got {model!r}")
    config = model_config(model)
    config.pop("compile_config", None)
    text = json.dumps({"library_name": _LIBRARY, "model": config}, indent=2).encode()
    if len(text) > LARGEST_CONFIG:
        raise InvalidArgumentError(
            f"hub.save: the config of model {model.name!r} has {len(text)} bytes, and "
            f"{LARGEST_CONFIG} are read again at most. Keep large arrays in weights"
        )
    save_weights(model, os.path.join(name, "model.safetensors"), max_shard_size=max_shard_size)
    _write(os.path.join(name, "config.json"), text)
    readme = os.path.join(name, "README.md")
    if card is not None or not os.path.exists(readme):
        _write(readme, (_default_card(model) if card is None else card).encode())


def _write(name: str, data: bytes) -> None:
    with AtomicFile(name) as target:
        write_at(target.fd, data, 0)
        target.commit()


def _default_card(model: Model) -> str:
    count = sum(math.prod(variable.shape) for variable in model.weights)
    return (
        f"---\nlibrary_name: {_LIBRARY}\n---\n\n# {model.name}\n\nA model of trainkit with "
        f'{count:,} weights.\n\n```python\nimport trainkit as tk\n\nmodel = tk.hub.load("FOLDER or '
        'hf://OWNER/NAME")\n```\n'
    )


def load(
    source: str | os.PathLike[str],
    *,
    custom_objects: dict[str, Any] | None = None,
    safe_mode: bool = True,
) -> Any:
    """Read a model from a folder that `tk.hub.save` or Keras wrote, here or on the Hub.

    Args:
        source: the folder; or `hf://owner/name`, or `hf://owner/name@revision`, which needs the
            package huggingface_hub.
        custom_objects: classes and functions that the config names, by name.
        safe_mode: whether lambdas, which are code, are refused.

    Returns:
        The model, not compiled.

    Raises:
        NotFoundError: there is no such folder, or no config in it.
        ImportError: huggingface_hub is missing.
        UnimplementedError: the model is of another library; the text says how to take its weights.
        CheckpointError: a file is damaged, or does not fit the others.
        ValueError: the config names a class that is not known, or holds code.

    Example:
        >>> tk.hub.save(tk.Sequential([tk.Input((3,)), tk.layers.Dense(2)]), "my_model")
        >>> tk.hub.load("my_model").output_shape
        (None, 2)
    """
    name = local_folder(source) if is_hub_address(source) else local_path(source, CheckpointError)
    if not os.path.isdir(name):
        raise NotFoundError(f"hub.load: there is no folder {name!r}")
    config = _read_config(os.path.join(name, "config.json"))
    if "class_name" in config and os.path.exists(os.path.join(name, "metadata.json")):
        return load_model(name, custom_objects, False, safe_mode)  # as Keras writes it
    if config.get("library_name") != _LIBRARY or not isinstance(config.get("model"), dict):
        kind = config.get("architectures") or config.get("model_type") or config.get("_class_name")
        raise UnimplementedError(
            f"hub.load: {name} holds a model of another library"
            + (f" ({str(kind)[:80]})" if kind else "")
            + ". Build that model here, and take its weights by tk.weights.load_into(model, "
            f"{str(source)!r})"
        )
    with weight_files.open(name) as table:
        total = sum(
            math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in table.shapes().values()
        )
        with (
            CustomObjectScope(custom_objects),
            SafeModeScope(safe_mode),
            WeightBudget(_WIDEST * total + _FLOOR, name),
        ):
            model = make_model(config["model"], name)
        load_into(model, table)
    return model


def _read_config(name: str) -> dict[str, Any]:
    fd = open_regular(name, "config of a model")
    try:
        size = os.fstat(fd).st_size
        if size > LARGEST_CONFIG:
            raise CheckpointError(f"{name} is refused: it has {size} bytes")
        config = json.loads(read_at(fd, size, 0))
        if type(config) is not dict:
            raise ValueError("it is no table")
    except (ValueError, RecursionError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{name} is damaged or no config: {error}") from None
    finally:
        os.close(fd)
    return config
