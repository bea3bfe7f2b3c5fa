"""Every public name is there, has a text, and is the same at all doors."""

import importlib
import inspect
import pathlib
import subprocess
import sys
import types

import pytest

import trainkit as tk
import trainkit.eager as tfe
import trainkit.keras as keras

PACKAGE = pathlib.Path(tk.__file__).parent
KERAS = [
    "activations",
    "callbacks",
    "constraints",
    "datasets",
    "dtype_policies",
    "initializers",
    "layers",
    "losses",
    "metrics",
    "mixed_precision",
    "models",
    "ops",
    "optimizers",
    "regularizers",
    "saving",
    "utils",
    "visualization",
    "DTypePolicy",
    "Initializer",
    "Input",
    "InputSpec",
    "KerasTensor",
    "Layer",
    "Loss",
    "Metric",
    "Model",
    "Optimizer",
    "Regularizer",
    "Sequential",
    "device",
]
# TensorFlow keeps another thing under these names than Keras does.
DIFFERENT = {"config", "random", "Variable", "name_scope"}


def public_names(module):
    return [name for name in dir(module) if not name.startswith("_")]


def all_names():
    for name in public_names(tk):
        yield "", name
        value = getattr(tk, name)
        if isinstance(value, types.ModuleType):
            yield from ((f"{name}.", inner) for inner in public_names(value))


@pytest.mark.parametrize(("door", "name"), list(all_names()), ids=lambda part: part or "tk")
def test_a_public_name_has_a_text(door, name):
    holder = getattr(tk, door[:-1]) if door else tk
    value = getattr(holder, name)
    ours = str(getattr(value, "__module__", "")).startswith("trainkit")
    if callable(value) and (ours or not door):
        assert inspect.getdoc(value), f"tk.{door}{name} has no docstring"


def test_a_folder_that_was_imported_is_no_public_name():
    for path in PACKAGE.iterdir():
        if (path / "__init__.py").exists():
            importlib.import_module(f"trainkit.{path.name}")
    inner = {"applications", "cli", "compiler", "core", "graph", "kernels", "tf"}
    assert not inner & set(dir(tk))


@pytest.mark.parametrize("name", KERAS)
def test_keras_names_are_the_same_at_the_top(name):
    assert getattr(tk, name) is getattr(keras, name)


def test_every_keras_name_resolves():
    for name in dir(keras):
        assert getattr(keras, name) is not None, name
    missing = set(dir(keras)) - set(dir(tk)) - DIFFERENT
    assert missing == {
        "applications",
        "FloatDTypePolicy",
        "Function",
        "Operation",
        "RematScope",
        "SeedGenerator",
        "StatelessScope",
        "SymbolicScope",
        "__version__",
        "backend",
        "export",
        "legacy",
        "preprocessing",
        "remat",
        "tree",
    }


@pytest.mark.parametrize(
    ("second", "first"),
    [
        ("trainkit.keras.layers", "trainkit.layers"),
        ("trainkit.keras.layers.dense", "trainkit.layers.dense"),
        ("trainkit.keras.optimizers.schedules", "trainkit.optimizers.schedules"),
        ("trainkit.keras.datasets.mnist", "trainkit.datasets.mnist"),
        ("trainkit.keras.ops", "trainkit.ops"),
    ],
)
def test_a_second_name_imports_the_same_module(second, first):
    assert importlib.import_module(second) is importlib.import_module(first)
    assert importlib.import_module(first).__spec__.name == first


def test_unmodified_keras_imports_work_in_a_fresh_process():
    code = """
from trainkit.keras.layers import Dense, Input
from trainkit.keras import layers, models, ops
from trainkit.keras.utils import to_categorical
import trainkit.keras.optimizers.schedules as schedules
import trainkit as tk
assert layers.Dense is Dense is tk.layers.Dense
assert schedules is tk.optimizers.schedules
assert issubclass(models.Model, tk.Layer)
"""
    subprocess.run(
        [sys.executable, "-W", "error", "-c", code], check=True, cwd=PACKAGE.parent, timeout=120
    )


def test_what_does_not_exist_can_not_be_imported():
    with pytest.raises(ModuleNotFoundError, match="nothing_here"):
        importlib.import_module("trainkit.keras.layers.nothing_here")
    with pytest.raises(ImportError):
        importlib.import_module("trainkit.keras.nothing_here")


@pytest.mark.parametrize(
    ("holder", "name", "hint"),
    [
        (tk, "reduce_maen", "did you mean 'reduce_mean'"),
        (tk, "Modle", "'Model'"),
        (keras, "layer", "did you mean 'layers'"),
        (tk.random, "normall", "module 'trainkit.random' .* did you mean 'normal'"),
        (tk.signal, "fft2", "module 'trainkit.signal' .* 'fft2d'"),
        (tk.nn, "softmx", "module 'trainkit.nn' .* 'softmax'"),
        (tk.nest, "flaten", "'flatten'"),
        (tk.utils, "to_categoricl", "'to_categorical'"),
        (tk.saving, "load_modle", "'load_model'"),
    ],
)
def test_an_unknown_name_shows_the_nearest(holder, name, hint):
    with pytest.raises(AttributeError, match=hint):
        getattr(holder, name)
    assert not hasattr(holder, name)


def test_namespaces_list_what_users_look_for_alone():
    for name in dir(tk):
        space = getattr(tk, name)
        if isinstance(space, types.ModuleType) and name != "errors":
            of_the_source = {"Any", "Callable", "TYPE_CHECKING", "annotations", "np"}
            assert not of_the_source & set(dir(space)), name


def test_files_behind_the_top_door_are_no_names():
    for name in ("arrays", "scopes", "clipping", "tf", "core", "kernels"):
        assert name not in dir(tk)
    with pytest.raises(AttributeError):
        _ = tk.arrays


def test_each_namespace_of_tensorflows_is_reached_from_the_top():
    unreached = {"arrays", "control_flow", "convolution", "left_out", "parallelism", "positions"}
    for path in (PACKAGE / "tf").glob("[a-z]*.py"):
        if path.stem not in unreached:
            assert getattr(tk, path.stem) is importlib.import_module(f"trainkit.tf.{path.stem}")


def test_tensorflows_functions_are_those_of_their_namespaces():
    for name in ("add", "reduce_mean", "sqrt", "argmax"):
        assert getattr(tk, name) is getattr(tk.math, name)
    assert tk.matmul is tk.linalg.matmul
    assert tk.random_normal is tk.random.normal


def test_the_first_eager_api():
    for name in public_names(tfe):
        assert getattr(tfe, name) is not None
    assert tfe.Variable is tk.Variable
    assert tfe.GradientTape is tk.GradientTape


def test_operations_of_keras_that_stand_above():
    assert tk.ops.custom_gradient is tk.custom_gradient
    assert tk.ops.stop_gradient is tk.stop_gradient
    assert tk.ops.is_tensor is tk.is_tensor


def test_versions():
    assert tk.version.VERSION == tk.__version__
    assert keras.version() == keras.__version__ == "3.15.0"
