"""What one process saves another loads, which has imported nothing but `trainkit`."""

import importlib
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import trainkit as tk
from tests.conformance.table import all_cases
from tests.conformance.without_gradient import ROWS_WITHOUT_GRADIENT
from trainkit.core.dispatch.declaring_modules import OPERATION_PACKAGES, check_declaring_module
from trainkit.core.dispatch.facets import Effect
from trainkit.core.errors import UnimplementedError
from trainkit.core.tensor import PRIMITIVES

layers = tk.keras.layers

# Loads every file and prints what fails: those with an operation that `import trainkit` brings
# first, in one process, then each of the named ones in a fork of it, then the others in one.
LOADER = """
    import os, sys, warnings
    warnings.simplefilter("error")
    import trainkit as tk
    {load}
    from trainkit.core.tensor import PRIMITIVES

    def attempt(file):
        try:
            load(file)
        except BaseException as error:
            print(os.path.basename(file), str(error)[:200])

    brought, lone, others = [], [], []
    for file in sys.argv[2:]:
        name = os.path.basename(file).split(".")[0]
        group = lone if name in sys.argv[1].split() else brought if name in PRIMITIVES else others
        group.append(file)
    for file in brought:
        attempt(file)
    for file in lone:
        sys.stdout.flush()
        child = os.fork()
        if not child:
            attempt(file)
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)
    for file in others:
        attempt(file)
"""

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")


def failures(load, lone, files):
    """What a process that imports trainkit alone prints as it runs `load` on each of `files`."""
    code = textwrap.dedent(LOADER).replace("{load}", textwrap.dedent(load))
    command = [sys.executable, "-c", code, " ".join(lone), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def saved_operations(folder):
    """A saved graph for each operation that has a row and can be saved."""
    names = {}
    for case in [*all_cases(), *ROWS_WITHOUT_GRADIENT]:
        if case.name in names:
            continue
        arrays = [x for x in case.inputs if isinstance(x, np.ndarray)]

        def call(*tensors, case=case):
            left = list(tensors)
            inputs = [left.pop(0) if isinstance(x, np.ndarray) else x for x in case.inputs]
            return case.op(*inputs, **case.settings)

        path = folder / f"{case.name}.h5"
        try:
            tk.saved_graph.save(tk.function(call), path, *map(tk.convert_to_tensor, arrays))
        except UnimplementedError:
            continue  # it has an effect, or holds a Python function
        names[case.name] = path
    return names


@needs_fork
def test_every_saved_operation_loads_where_nothing_else_was_imported(tmp_path):
    files = saved_operations(tmp_path)
    lone = {"lstm", "gru", "biased_gelu", "int8_product", "fake_quant", "extract_patches"}
    assert lone <= set(files)
    assert not failures("load = tk.saved_graph.load", lone, files.values())


MODELS = {
    "lstm": lambda: [layers.LSTM(3)],
    "gru": lambda: [layers.GRU(3, return_sequences=True), layers.Flatten(), layers.Dense(2)],
    "bidirectional": lambda: [layers.Bidirectional(layers.LSTM(2))],
    "gelu": lambda: [layers.Dense(4, activation="gelu"), layers.GlobalAveragePooling1D()],
    "dropout": lambda: [layers.Dropout(0.5), layers.GaussianNoise(0.1), layers.Dense(2)],
    "attention": lambda: [layers.Conv1D(4, 2), layers.LayerNormalization(), layers.RNN(cell())],
}


def cell():
    return layers.StackedRNNCells([layers.GRUCell(2), layers.LSTMCell(2)])


def model_of(kind):
    model = tk.Sequential([tk.keras.Input((5, 4)), *MODELS[kind]()])
    model.compile("adam", "mse")
    return model


LOADS = {
    ".h5": "load = tk.saved_graph.load",
    ".folder": "load = tk.saved_model.load",
    ".keras": "load = tk.keras.models.load_model",
    ".ckpt": "def load(file): assert tk.train.load_checkpoint(file).get_variable_to_shape_map()",
}


@needs_fork
@pytest.mark.parametrize("kind", LOADS)
def test_models_load_where_nothing_else_was_imported(kind, tmp_path):
    files = []
    for name in MODELS:
        model, path = model_of(name), tmp_path / f"{name}{kind}"
        if kind == ".h5":
            run = tk.function(lambda x, model=model: model(x, training=False))
            tk.saved_graph.save(run, path, tk.TensorSpec((2, 5, 4), "float32"))
        elif kind == ".folder":
            tk.saved_model.save(model, path)
        elif kind == ".keras":
            model.save(path)
        else:
            path = tk.train.Checkpoint(model=model).write(path)
        files.append(path)
    assert not failures(LOADS[kind], MODELS, files)


@needs_fork
def test_a_quantized_model_loads_where_nothing_else_was_imported(tmp_path):
    model = tk.Sequential([tk.keras.Input((4,)), layers.Dense(4)])
    model.quantize("int8")
    model.save(tmp_path / "model.keras")
    tk.saved_model.save(model, tmp_path / "folder")
    assert not failures(LOADS[".keras"], [], [tmp_path / "model.keras"])
    assert not failures(LOADS[".folder"], [], [tmp_path / "folder"])


def test_an_operation_that_no_reader_would_import_is_refused():
    with pytest.raises(ValueError, match=r"'hits' is declared in trainkit\.metrics\.accuracy"):
        check_declaring_module("hits", None, "trainkit.metrics.accuracy")
    with pytest.raises(ValueError, match=r"trainkit\.ops or trainkit\.graph\.control_flow"):
        check_declaring_module("check", Effect("it raises", saved=True), "trainkit.data.rows")
    check_declaring_module("read", Effect("it reads"), "trainkit.data.rows")  # never in a file
    check_declaring_module("cube", None, "anything.of_a_user")


@pytest.mark.parametrize("name", OPERATION_PACKAGES)
def test_the_packages_that_may_declare_operations_are_there(name):
    assert hasattr(importlib.import_module(name), "__path__")


def test_what_is_no_operation_is_said(tmp_path):
    from trainkit.graph.control_flow.operation_lookup import find_operation

    assert find_operation("no such operation") is None
    assert find_operation(7) is None
    assert find_operation("lstm") is PRIMITIVES["lstm"]
