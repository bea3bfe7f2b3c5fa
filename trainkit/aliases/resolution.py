"""What the name of a module of TensorFlow or Keras stands for: namespaces of trainkit."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from trainkit.tf.left_out import LEFT_OUT

ROOTS = {
    "tensorflow": "trainkit",
    "keras": "trainkit.keras",
    "keras_core": "trainkit.keras",
    "tf_keras": "trainkit.keras",
}

TENSORFLOW = "2.21.0"
"""The version of TensorFlow whose names and values trainkit's are compared with."""

VERSIONS = {
    ("tensorflow", "__version__"): TENSORFLOW,
    ("tensorflow.compat.v1", "__version__"): TENSORFLOW,
    ("tensorflow.compat.v2", "__version__"): TENSORFLOW,
    ("tensorflow.version", "VERSION"): TENSORFLOW,
}

# Packages inside, whose files hold public names beside private ones. The longest prefix counts.
_INSIDES = {
    "keras.src": "keras",
    "keras.api": "keras",
    "keras._tf_keras": "keras",
    "keras._tf_keras.keras": "keras",
    "keras.engine": "keras",
    "keras_core.src": "keras",
    "tf_keras.src": "keras",
    "tensorflow.python.keras": "keras",
    "tensorflow.python": "tensorflow",
}

# Where public names of a file inside may stand: `keras.src.backend` has those of three families.
_FAMILIES = {
    "keras": ("backend", "config", "utils", "saving", "ops", "random", "tree", "models", "layers"),
    "tensorflow": ("math", "nn", "linalg", "random", "io", "data", "train", "config", "image"),
}

# Files and folders inside that programs import, and that have no public module or class by name.
_FILES = frozenset(
    """
    api_export array_ops backend_utils base_layer callback_list check_ops client clip_ops common
    compile_utils config_lib const constant_op context control_flow_ops core custom_gradient
    data_adapter dataset_ops def_function device device_lib distribute dtypes eager engine
    file_utils framework func_graph functional generic_utils global_state gfile
    gradients gradients_impl image_ops indexed_slices init_ops input_layer keras_tensor
    layer_utils lib linalg_ops losses_utils math_ops metrics_utils module network nn_ops
    numerical_utils object_registration ops platform python_utils random_ops resource_variable_ops
    saving_api saving_lib sequential serialization serialization_lib standardize_dtype state_ops
    string_ops summary tensor tensor_shape tensor_spec tensor_util tf_logging tf_utils trackable
    topology tracking traceback_utils trainer trainers training training_utils util variable_scope
    variables
    """.split()
)

# Files that Keras 2 had beside its public names, which older programs import them from.
_OLDER_FILES = frozenset(
    """
    advanced_activations convolutional convolutional_recurrent data_utils embeddings generic_utils
    io_utils layer_utils merge noise normalization np_utils pooling recurrent vis_utils wrappers
    """.split()
)


def namespaces(fullname: str) -> list[Any]:
    """Where the names of a module are looked up, one after the other; empty if there is none.

    Args:
        fullname: such as `"tensorflow.keras.layers"` or `"keras.src.layers.core.dense"`.
    """
    for prefix in sorted(_INSIDES, key=len, reverse=True):
        if fullname == prefix or fullname.startswith(prefix + "."):
            return _inside(_INSIDES[prefix], fullname[len(prefix) + 1 :])
    root, _, inner_path = fullname.partition(".")
    module = _public(ROOTS[root], inner_path)
    if module is None and inner_path.rpartition(".")[2] in _OLDER_FILES:
        return _inside("keras", inner_path.removeprefix("keras."))
    return [] if module is None else [module]


def left_out(fullname: str) -> str | None:
    """What to use in place of a module of TensorFlow that is left out on purpose.

    Args:
        fullname: such as `"tensorflow.experimental.numpy"`.
    """
    root, _, path = fullname.partition(".")
    space, _, name = path.rpartition(".")
    return LEFT_OUT.get(space, {}).get(name) if root == "tensorflow" else None


def _inside(library: str, path: str) -> list[Any]:
    """The namespaces of a file inside: the nearest public one first."""
    root = importlib.import_module(ROOTS[library])
    parts = path.split(".") if path else []
    if parts and _public(ROOTS[library], path) is None and not _is_file(root, parts):
        return []
    paths = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    modules = [_public(ROOTS[library], p) for p in paths]
    families = [_public(ROOTS[library], name) for name in _FAMILIES[library]]
    # a name at the top is the library's own one, as Model is; the families then help out
    return [m for m in (*modules, root, *families) if m is not None]


def _is_file(root: ModuleType, parts: list[str]) -> bool:
    """Whether a path has parts of a library's source: known files, or one for a public class."""
    classes = {name.lower() for name in _class_names(root)}
    return all(
        part in _FILES | _OLDER_FILES
        or part.replace("_", "") in classes
        or _public(root.__name__, part)
        for part in parts
    )


def _class_names(root: ModuleType) -> set[str]:
    names = set(dir(root))
    for family in ("layers", "losses", "metrics", "optimizers", "callbacks", "models"):
        module = _public(root.__name__, family)
        names |= set() if module is None else set(dir(module))
    return {name for name in names if name[:1].isupper()}


def is_public(space: Any, name: str) -> bool:
    """Whether a namespace has this name for its users, and not only imports it for itself."""
    # the namespaces of older programs give the newest names too, and do not list them
    falls_back = getattr(space, "__name__", "") in ("trainkit.compat.v1", "trainkit.compat.v2")
    return name in dir(space) or (falls_back and name in dir(sys.modules["trainkit"]))


def _public(root: str, path: str) -> Any:
    """A public module or namespace by its path, `None` if there is none."""
    space: Any = importlib.import_module(root)
    for part in path.split(".") if path else ():
        if not is_public(space, part):
            return None
        space = getattr(space, part, None)
        if space is None:
            return None
    if isinstance(space, ModuleType):
        return space
    # tf.io.gfile and its like are classes of functions, which are imported as modules are
    return space if isinstance(space, type) and space.__name__.islower() else None
