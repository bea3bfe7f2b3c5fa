"""`Servable`: what a file of a model computes, as functions of named arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainkit.cli.model_files import is_model_file
from trainkit.core.errors import CheckpointError, NotFoundError
from trainkit.core.files.local_paths import local_path
from trainkit.core.tensor import convert_to_tensor
from trainkit.models.saving import load_model as load_keras_model
from trainkit.saved_graph.loading import load as load_graph
from trainkit.saved_graph.model_loading import load_model as load_folder
from trainkit.saved_graph.signatures import DEFAULT, Signature, signatures_of
from trainkit.saved_graph.standalone import FAILURES


class InputError(ValueError):
    """Arrays that do not fit what a model takes."""


class Servable:
    """The signatures of a model by name.

    Args:
        name: what it is called, such as the name of its file without its ending.
        signatures: by name.

    Attributes:
        name: of the model.
        signatures: by name.
    """

    def __init__(self, name: str, signatures: Mapping[str, Signature]) -> None:
        self.name = name
        self.signatures = dict(signatures)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Servable:
        """Read a saved graph (HDF5), a saved model (a folder) or a `.keras` file.

        Raises:
            NotFoundError: there is nothing.
            CheckpointError: it is damaged, or none of these.
            ValueError: it has no function of tensors.
        """
        path = local_path(path)
        if not os.path.exists(path):
            raise NotFoundError(f"there is no file or folder {os.fspath(path)!r}")
        if not is_model_file(path):
            raise CheckpointError(
                f"{os.fspath(path)!r} is no saved graph (HDF5), no folder of a saved model and no "
                ".keras file"
            )
        name = os.path.splitext(os.path.basename(os.path.abspath(path)))[0]
        if os.path.isdir(path):
            signatures: Mapping[str, Signature] = load_folder(path).signatures
        elif os.fspath(path).endswith(".keras"):
            signatures = signatures_of(load_keras_model(path, compile=False), None)
        else:
            signatures = signatures_of(None, {DEFAULT: load_graph(path)})
        if not signatures:
            raise ValueError(f"{os.fspath(path)!r} has no signature that could be called")
        return cls(name, signatures)

    def signature(self, name: str | None = None) -> Signature:
        """The signature of this name; by default `"serving_default"`, or the only one.

        Raises:
            InputError: there is none; the text lists those there are.
        """
        if name is None:
            name = next(iter(self.signatures)) if len(self.signatures) == 1 else DEFAULT
        signature = self.signatures.get(name) if isinstance(name, str) else None
        if signature is None:
            raise InputError(
                f"the model {self.name!r} has no signature {name!r}; it has "
                f"{', '.join(self.signatures)}"
            )
        return signature


def specs_of(signature: Signature) -> dict[str, Any]:
    """What a signature takes: a `TensorSpec` for each name."""
    takes: dict[str, Any] = signature.structured_input_signature[1]
    return takes


def _shown(shape: Any) -> str:
    return "[" + ", ".join("any" if n is None else str(n) for n in shape) + "]"


def described(spec: Any) -> str:
    """A dtype and shape in words, such as `float32[any, 3]`."""
    return f"{spec.dtype.name}{'' if spec.shape.rank is None else _shown(spec.shape)}"


def fitting(name: str, array: Any, spec: Any) -> Any:
    """An array as the dtype that an input has, if nothing is lost that the dtype says.

    Raises:
        InputError: the dtype or shape does not fit; the text has both.
    """
    target = np.dtype(spec.dtype.dtype)
    kinds = {"b": "b", "i": "iu", "u": "iu", "f": "iuf", "c": "iufc"}.get(target.kind, "f")
    got = f"{array.dtype.name}{list(array.shape)}"
    if array.size and (array.dtype.kind not in "biufc" or array.dtype.kind not in kinds):
        raise InputError(f"input {name!r} needs {described(spec)}, given is {got}")
    if array.size and target.kind in "iu":
        limits, lowest, greatest = np.iinfo(target), int(array.min()), int(array.max())
        if lowest < limits.min or greatest > limits.max:
            raise InputError(
                f"input {name!r} needs {described(spec)}, given are integers from "
                f"{lowest} to {greatest}"
            )
    shape = spec.shape
    fits = shape.rank is None or (
        array.ndim == shape.rank
        and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    )
    if not fits:
        raise InputError(f"input {name!r} needs {described(spec)}, given is {got}")
    with np.errstate(over="ignore"):
        return array.astype(target, copy=False)


def named_arrays(signature: Signature, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays that a signature takes, each checked against its input.

    Raises:
        InputError: one is missing, unknown, or does not fit.
    """
    takes = specs_of(signature)
    wrong = [name for name in takes if name not in arrays]
    more = [name for name in arrays if name not in takes]
    if wrong or more:
        listed = ", ".join(f"{name!r} ({described(spec)})" for name, spec in takes.items())
        names = ", ".join(map(repr, arrays)) or "none"
        raise InputError(f"the model takes {listed or 'no input'}; given: {names}")
    return {name: fitting(name, arrays[name], spec) for name, spec in takes.items()}


def computed(signature: Signature, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The results by name, as NumPy arrays.

    Args:
        signature: what computes them.
        arrays: by name, as `named_arrays` gives them.

    Raises:
        InputError: the model refuses these values.
    """
    try:
        results = signature(**{name: convert_to_tensor(x) for name, x in arrays.items()})
    except FAILURES as error:
        raise InputError(f"the model can't compute with these values: {error}") from error
    return {name: np.asarray(y.numpy()) for name, y in results.items()}
