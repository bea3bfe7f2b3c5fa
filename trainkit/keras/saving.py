"""`keras.saving`: whole models, and objects as configs."""

import os
from typing import Any

from trainkit.checkpoints.interop.file_editor import KerasFileEditor as KerasFileEditor
from trainkit.core.config_values import SafeModeScope as SafeModeScope
from trainkit.core.errors import InvalidArgumentError as _InvalidArgumentError
from trainkit.core.files.local_paths import local_path
from trainkit.core.names import explain_unknown_names as _explain_unknown_names
from trainkit.core.registry import CustomObjectScope as CustomObjectScope
from trainkit.core.registry import CustomObjectScope as custom_object_scope
from trainkit.core.registry import ObjectSharingScope as ObjectSharingScope
from trainkit.core.registry import custom_object as _custom_object
from trainkit.core.registry import deserialize_object as deserialize_keras_object
from trainkit.core.registry import get_custom_objects as get_custom_objects
from trainkit.core.registry import register_keras_serializable as register_keras_serializable
from trainkit.core.registry import registered_name as _registered_name
from trainkit.core.registry import serialize_object as serialize_keras_object
from trainkit.models.saving import load_model as load_model
from trainkit.models.saving import save_model as save_model


def get_registered_name(obj: Any) -> str:
    """The name under which a class or function was registered, else its own.

    Args:
        obj: class or function.
    """
    return _registered_name(obj) or str(obj.__name__)


def get_registered_object(
    name: str, custom_objects: dict[str, Any] | None = None, module_objects: Any = None
) -> Any:
    """The class or function of a name, `None` if there is none.

    Args:
        name: as `get_registered_name` gives it.
        custom_objects: looked at first, by name.
        module_objects: looked at last, by name.
    """
    with CustomObjectScope(custom_objects):
        custom = _custom_object(name)
    return (module_objects or {}).get(name) if custom is None else custom


def save_weights(
    model: Any,
    filepath: str | os.PathLike[str],
    overwrite: bool = True,
    max_shard_size: float | None = None,
    objects_to_skip: Any = None,
) -> None:
    """Write the weights of a model, as `model.save_weights` does.

    Args:
        model: built.
        filepath: ends in `.weights.h5`, or in `.weights.json` with `max_shard_size`.
        overwrite: whether a file that exists is replaced.
        max_shard_size: split the weights into files of so many GB at most.
        objects_to_skip: layers and optimizers that are left out.

    Raises:
        ValueError: the path ends otherwise, or the model has no weights yet.

    Example:
        >>> model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(2)])
        >>> tk.saving.save_weights(model, "model.weights.h5")
    """
    path = local_path(filepath)
    endings = (".weights.h5",) if max_shard_size is None else (".weights.json", ".weights.h5")
    if not path.endswith(endings):
        raise _InvalidArgumentError(
            f"save_weights: the path must end in {' or '.join(endings)}, got {path!r}"
        )
    model.save_weights(path, overwrite, max_shard_size, objects_to_skip)


def load_weights(
    model: Any,
    filepath: str | os.PathLike[str],
    skip_mismatch: bool = False,
    objects_to_skip: Any = None,
    by_name: Any = None,
) -> None:
    """Read the weights of a model, as `model.load_weights` does.

    Args:
        model: built.
        filepath: ends in `.weights.h5`, `.weights.json` or `.keras`; or in `.h5` or `.hdf5` for
            files in Keras 2's layout.
        skip_mismatch: leave weights alone that do not fit the file, rather than fail.
        objects_to_skip: layers and optimizers that keep what they have; not for `.keras`.
        by_name: for Keras 2's layout alone: match layers by their names; by default the order says
            which is which.

    Raises:
        ValueError: the path ends otherwise, or an argument does not go with it.
        CheckpointError: the file is damaged, or does not fit; nothing is changed.

    Example:
        >>> model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(2)])
        >>> model.save_weights("model.weights.h5")
        >>> tk.saving.load_weights(model, "model.weights.h5")
    """
    path = local_path(filepath)
    if not path.endswith((".h5", ".hdf5", ".weights.json", ".keras")):
        raise _InvalidArgumentError(
            "load_weights: the path must end in .weights.h5, .h5, .hdf5, .weights.json or .keras, "
            f"got {path!r}"
        )
    model.load_weights(path, skip_mismatch, objects_to_skip, by_name)


_explain_unknown_names(globals())
