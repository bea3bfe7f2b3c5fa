"""`save_training` and `load_training`: a training step of a model as a file that trains itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainkit.core import nest
from trainkit.core.dtypes import as_dtype, floatx
from trainkit.core.errors import CheckpointError, InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import is_tensor
from trainkit.core.tensor_spec import TensorSpec
from trainkit.core.trackable import traverse
from trainkit.core.variable import Variable
from trainkit.graph.ir.graph import GraphTensor
from trainkit.graph.tracing.concrete import ConcreteFunction
from trainkit.graph.tracing.function import function as traced_function
from trainkit.saved_graph.loading import read_document
from trainkit.saved_graph.saving import FORMAT, GraphWriter, write_document
from trainkit.saved_graph.standalone import check_document

_PARTS = ("x", "y", "sample_weight")


def save_training(model: Any, path: str | os.PathLike[str], data: Any = None) -> None:
    """Write a model's training step as one file, which goes on to train without trainkit.

    The file holds the whole step as a graph: the forward pass, the gradients, the optimizer's
    update and the metrics; with the weights, the optimizer's state, the state of random generators
    and the form of the data. `trainkit/saved_graph/standalone.py`, one file that needs NumPy and
    h5py alone, trains it and writes it back:

        python standalone.py train.h5 --data new.npz --epochs 2 --batch-size 32

    It takes the rows in their order, or with `--seed` in a random one for each epoch. Epochs have
    the bits of `fit(..., shuffle=False)` with `TRAINKIT_JIT=0`, on the same NumPy and processor.
    `load_training` takes the result back into a model.

    Args:
        model: built and compiled.
        path: the file to make or to replace; it appears whole or not at all.
        data: what one batch looks like, `(x, y)` or `(x, y, sample_weight)`: arrays or
            `TensorSpec`s, or nests of them, whose first axis may have any size. By default what
            `fit` was given last, if it has made a graph of its step, as it does at the third batch.

    Raises:
        TypeError: `model` has no training step.
        InvalidArgumentError: it is not built or not compiled, or the form of its data is not known;
            the text says what is missing.
        UnimplementedError: the step holds something that is no data, such as a call into Python.
        OSError: the file can't be written.

    Example:
        >>> model = tk.keras.Sequential([tk.keras.Input((3,)), tk.keras.layers.Dense(1)])
        >>> model.compile("adam", "mse")
        >>> tk.saved_graph.save_training(model, "train.h5", (tk.ones([1, 3]), tk.ones([1, 1])))
        >>> tk.saved_graph.load_training("train.h5", model)
        0
    """
    _check_trainable(model, "save_training")
    specs = _specs_of(model, data)

    def train_step(batch: Any) -> Any:
        return model.train_step(batch)

    concrete = traced_function(train_step).get_concrete_function(specs)
    results = concrete.structured_outputs
    if not isinstance(results, Mapping) or not all(
        isinstance(y, GraphTensor) for y in results.values()
    ):
        raise InvalidArgumentError(
            f"save_training: train_step of {model.name!r} gives {results!r}; it has to be a dict "
            "of tensors by name"
        )
    writer = _TrainingWriter()
    document = {**writer.function(concrete), "training": writer.training(model, concrete)}
    document |= writer.tables()
    write_document(path, FORMAT, concrete.name, document, writer.arrays)


def load_training(path: str | os.PathLike[str], model: Any) -> int:
    """Take weights, optimizer state and random state from a file of `save_training`.

    Metrics start anew; random generators that are no part of the model, such as the global one,
    stay as they are.

    Args:
        path: the file, as it was saved or trained on since.
        model: built and compiled like the one that was saved.

    Returns:
        How many epochs the file was trained on outside of trainkit.

    Raises:
        NotFoundError: there is no such file.
        CheckpointError: it is damaged, or no file of a training step.
        InvalidArgumentError: the model does not fit; it is left as it was.
    """
    _check_trainable(model, "load_training")
    with read_document(path, FORMAT, check_document, "saved graph") as (reader, document):
        training = document.get("training")
        if training is None:
            raise CheckpointError(
                f"{os.fspath(path)} holds a function, no training step; tk.saved_graph.load reads "
                "it"
            )
        saved = dict(zip(training["paths"], reader.variables, strict=True))
        epochs = int(reader.value(training["epochs"]))
    saved.pop(None, None)
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    own = {path: variable for variable, path in _paths(model).values()}
    missing = sorted(saved.keys() - own.keys())
    if missing:
        raise InvalidArgumentError(
            f"load_training: the model {model.name!r} has no {', '.join(missing[:5])}, which "
            f"{os.fspath(path)} has; build and compile it as the one that was saved"
        )
    for name, variable in saved.items():
        target = own[name]
        if target.dtype != variable.dtype or tuple(target.shape) != tuple(variable.shape):
            raise InvalidArgumentError(
                f"load_training: {name} is {target.dtype.name}{list(target.shape)} in the model "
                f"and {variable.dtype.name}{list(variable.shape)} in {os.fspath(path)}"
            )
    for name, variable in saved.items():
        own[name].assign(variable)
    return epochs


def _check_trainable(model: Any, name: str) -> None:
    if not hasattr(model, "train_step") or not hasattr(model, "compile"):
        raise TypeError(f"{name}: {model!r} is a {type(model).__name__}; give a model")
    if not model.built:
        raise InvalidArgumentError(
            f"{name}: the model {model.name!r} has no weights yet; call it on a batch, or "
            "begin it with an Input"
        )
    if getattr(model, "optimizer", None) is None or not model.compiled:
        raise InvalidArgumentError(
            f"{name}: the model {model.name!r} has no optimizer; call compile() first"
        )


def _specs_of(model: Any, data: Any) -> Any:
    """The form of a batch, its first axis of any size."""
    if data is None:
        batch = getattr(getattr(model, "train_function", None), "traced_batch", None)
        data = None if batch is None else batch()
    if data is None:
        raise InvalidArgumentError(
            f"save_training: the form of the data that {model.name!r} is trained on is not known "
            "before fit has taken three batches; give data=(x, y), arrays or TensorSpecs"
        )
    if not isinstance(data, tuple) or not 1 <= len(data) <= len(_PARTS):
        raise InvalidArgumentError(
            f"save_training: data is a {type(data).__name__}; give (x, y) or (x, y, sample_weight)"
        )
    return nest.map_structure(_spec_of_batch, data)


def _spec_of_batch(leaf: Any) -> Any:
    if leaf is None:
        return None
    if not isinstance(leaf, TensorSpec | Spec) and not is_tensor(leaf):
        leaf = np.asarray(leaf)
    kind = as_dtype(leaf.dtype)
    if kind.name == "float64":  # fit converts these
        kind = as_dtype(floatx())
    if len(leaf.shape) == 0:
        raise InvalidArgumentError(
            "save_training: data has a scalar; each part needs an axis of rows"
        )
    return TensorSpec([None, *list(leaf.shape)[1:]], kind)


def _paths(model: Any) -> dict[int, tuple[Variable, str]]:
    """The variables under a model, by identity, each with the path that leads to it."""
    paths: dict[int, tuple[Variable, str]] = {}
    owners = []
    for names, part in traverse(model):
        if isinstance(part, Variable):
            paths[id(part)] = part, "/".join(names)
        elif callable(getattr(part, "slot_variables", None)):
            owners.append((names, part))
    for names, owner in owners:
        for slot, weight, variable in owner.slot_variables():  # type: ignore[attr-defined]
            if isinstance(variable, Variable) and id(weight) in paths:
                weight_path = paths[id(weight)][1]
                paths[id(variable)] = variable, "/".join((*names, slot, weight_path))
    return paths


class _TrainingWriter(GraphWriter):
    """Adds to a graph what training on with it needs."""

    def training(self, model: Any, concrete: ConcreteFunction) -> dict[str, Any]:
        """The names of inputs, the paths of variables, and what metrics start an epoch from."""
        paths, resets = _paths(model), _resets(model)
        by_number = {self._known[id(v)]: v for v in self._kept if isinstance(v, Variable)}
        variables = [by_number[number] for number in range(len(self._variables))]
        names: list[Any] = [None] * len(concrete.graph.inputs)
        positions = {x: i for i, x in enumerate(concrete.graph.inputs)}
        for name, part in zip(_PARTS, concrete.arguments[0][0], strict=False):
            for path, leaf in nest.flatten_with_path(part):
                if isinstance(leaf, GraphTensor):
                    names[positions[leaf]] = "/".join(map(str, (name, *path)))
        return {
            "inputs": names,
            "finish": self._finish(model),
            # metrics start anew with each epoch, so a model has no use for theirs
            "paths": [
                paths[id(v)][1] if id(v) in paths and id(v) not in resets else None
                for v in variables
            ],
            "resets": [
                [number, self._array(resets[id(v)])]
                for number, v in enumerate(variables)
                if id(v) in resets
            ],
            "epochs": self._array(np.zeros((), np.int64)),
        }

    def _finish(self, model: Any) -> int | None:
        """The graph of what `fit` does to the weights at its end, `None` if that is nothing."""

        def finish() -> None:
            model.optimizer.finalize_variable_values(model.trainable_variables)

        concrete = traced_function(finish).get_concrete_function()
        if not concrete.graph.assigned:
            return None
        number: int = self.function(concrete)["main"]
        return number


def _resets(model: Any) -> dict[int, Any]:
    """What the variables of metrics are at the start of an epoch, by identity."""
    variables = [v for metric in model.metrics for v in metric.variables]
    before = [v.numpy() for v in variables]
    try:
        model.reset_metrics()
        return {id(v): v.numpy() for v in variables}
    finally:
        for v, value in zip(variables, before, strict=True):
            v.assign(value)
