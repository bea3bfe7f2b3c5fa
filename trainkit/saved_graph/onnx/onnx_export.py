"""`export_onnx`: a traced function as an ONNX file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from trainkit.checkpoints.format.atomic import AtomicFile
from trainkit.core.files.local_paths import local_path
from trainkit.core.process.later_imports import DeferredModule
from trainkit.graph.tracing.concrete import ConcreteFunction
from trainkit.saved_graph.onnx.runtime_check import Check, check_file, onnxruntime
from trainkit.saved_graph.saving import concrete_function

# with the rules of all operations, which are loaded when a file is written
_model_encoding = DeferredModule("trainkit.saved_graph.onnx.model_encoding")

OPSET_VERSIONS = range(18, 26)
IR_VERSIONS = range(8, 14)
SUFFIX = ".onnx"
LARGEST_WRITE = 1 << 30  # bytes; Linux writes less than 2 GB at once


def export_onnx(
    function: Any,
    path: str | os.PathLike[str],
    *args: Any,
    opset_version: int = 18,
    ir_version: int = 8,
    verify: bool = False,
    **kwargs: Any,
) -> Check | None:
    """Write a traced function, with the values of its variables, as an ONNX file.

    Any runtime that reads ONNX runs it, without trainkit. Sizes that are `None` in the signature
    stay free. More than 2 GB of weights go into a second file beside it, whose name begins with
    that of the first and ends in ".data".

    Args:
        function: a `tk.function` or one of its concrete functions.
        path: the file to make or to replace, which ends in ".onnx"; it appears whole or not at
            all.
        *args: what to trace it for, as for `tk.saved_graph.save`.
        opset_version: of ONNX's operators, 18 to 25.
        ir_version: of the format, 8 to 13.
        verify: whether the file is run in onnxruntime, beside the function, on random inputs of
            two batch sizes or more, and the results compared. The file stays away if they differ.
        **kwargs: further arguments to trace for, by name.

    Returns:
        With `verify`, the largest differences, else `None`.

    Raises:
        TypeError: `function` is no traced function.
        ValueError: the path does not end in ".onnx", or a version is out of range.
        InvalidArgumentError: it has no trace or several and no arguments were given, or its results
            in onnxruntime differ.
        UnimplementedError: an operation has no form in ONNX, a tensor is of text, or the function
            assigns variables.
        ImportError: `verify` without onnxruntime.
        OSError: the file can't be written.

    Example:
        >>> @tk.function(input_signature=[tk.TensorSpec([None, 3])])
        ... def double(x):
        ...     return 2.0 * x
        >>> tk.saved_graph.export_onnx(double, "double.onnx")
    """
    check_arguments(path, opset_version, ir_version)
    concrete = concrete_function(function, args, kwargs, "export_onnx")
    return write_onnx(concrete, path, opset_version, ir_version, verify)


def is_onnx_path(path: str | os.PathLike[str]) -> bool:
    """Whether a file has the name of an ONNX file."""
    return str(local_path(path)).endswith(SUFFIX)


def check_arguments(path: str | os.PathLike[str], opset_version: int, ir_version: int) -> None:
    """Refuse paths and versions that do not serve.

    Raises:
        ValueError: what is wrong, and what serves.
    """
    if not is_onnx_path(path):
        raise ValueError(f"export to ONNX: {os.fspath(path)!r} does not end in {SUFFIX!r}")
    for name, version, supported in (
        ("opset_version", opset_version, OPSET_VERSIONS), ("ir_version", ir_version, IR_VERSIONS)
    ):  # fmt: skip
        if type(version) is not int or version not in supported:
            raise ValueError(
                f"export to ONNX: {name}={version!r} is not supported; "
                f"{supported[0]} to {supported[-1]} are"
            )


def write_onnx(
    concrete: ConcreteFunction,
    path: str | os.PathLike[str],
    opset_version: int,
    ir_version: int,
    verify: bool,
    batch_name: str | None = None,
    name: str | None = None,
) -> Check | None:
    """The same for a concrete function, whose arguments have been checked.

    Args:
        concrete: the function.
        path: the file.
        opset_version: of ONNX's operators.
        ir_version: of the format.
        verify: whether it is run in onnxruntime.
        batch_name: what the first axis of all inputs is called, where they share it.
        name: of the graph; by default that of the function.
    """
    if verify:
        onnxruntime()
    location = Path(local_path(path)).name
    model = _model_encoding.encode(concrete, opset_version, ir_version, batch_name, name, location)
    with AtomicFile(path) as file:
        _write(file.fd, model.data)
        check = check_file(concrete, model, batch_name is not None) if verify else None
        if model.outside:
            _write_weights(Path(local_path(path)).with_name(model.location), model)
        file.commit()
    return check


def _write(fd: int, data: Any) -> None:
    view = memoryview(data).cast("B")
    while view:
        view = view[os.write(fd, view[:LARGEST_WRITE]) :]


def _write_weights(path: Path, model: Any) -> None:
    """The file of the weights, which no model refers to before it is there."""
    with AtomicFile(path) as file:
        for content in model.contents():
            _write(file.fd, content)
        file.commit()
