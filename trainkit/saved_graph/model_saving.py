"""`save_model`: an object with its variables and traced functions as a folder."""

from __future__ import annotations

import contextlib
import inspect
import os
import pathlib
from collections.abc import Iterable
from typing import Any

from trainkit.core.errors import UnimplementedError
from trainkit.core.files.local_paths import local_path
from trainkit.core.files.output_folders import make_folder
from trainkit.core.trackable import Trackable, TrackedDict, TrackedList, TrackedTuple
from trainkit.core.variable import Variable
from trainkit.graph.tracing.concrete import AnyRankFunction, ConcreteFunction
from trainkit.graph.tracing.function import BoundFunction
from trainkit.graph.tracing.signature import VALUES
from trainkit.saved_graph.encoding import encoded
from trainkit.saved_graph.restored_function import RestoredFunction
from trainkit.saved_graph.saved_model_options import SaveOptions
from trainkit.saved_graph.saving import GraphWriter, write_document
from trainkit.saved_graph.signatures import Signature, functions_in, graphs_of, signatures_of
from trainkit.saved_graph.standalone import MODEL_FILE, MODEL_FORMAT

_COLLECTIONS = ("variables", "trainable_variables", "non_trainable_variables")
_CONTAINERS: dict[Any, str] = {TrackedList: "list", TrackedTuple: "list", TrackedDict: "dict"}
# compiled steps of Keras's models, which training makes again
_STEPS = frozenset({"train_function", "test_function", "predict_function"})


def save_model(
    obj: Any,
    export_dir: str | os.PathLike[str],
    signatures: Any = None,
    options: SaveOptions | None = None,
) -> None:
    """Save an object with its variables and traced functions; `load` needs no Python source.

    The folder is in trainkit's own format, not TensorFlow's protocol buffers: it holds one file,
    `saved_model.h5`, which appears whole or not at all. TensorFlow can't read it, nor can trainkit
    read TensorFlow's.

    What is saved: the variables below `obj`; all graphs that its `tk.function` attributes were
    traced to, where one with an input signature is traced if it never was; modules, layers, lists
    and dicts below it with theirs; and the signatures. Plain Python attributes and methods are
    left out, so are the optimizer and metrics that a model was compiled with.

    Each signature and function of `obj` also runs with NumPy and h5py alone, by
    `trainkit/saved_graph/standalone.py`.

    An argument of unknown rank is saved for the ranks 0 to 6, as far as the function takes them.

    Args:
        obj: a module, layer, model or other trackable object.
        export_dir: the folder, which is made if need be.
        signatures: a traced function or a concrete function, called `"serving_default"` then, or a
            dict of them by name. By default, a model's is to call it on a batch, and another
            object's is its only function with an input signature, if it has just one. Results are
            named by the keys of the dict that the function returns, else `output_0` and so on.
        options: see `SaveOptions`.

    Raises:
        ValueError: `obj` is not trackable, a model not built, or a signature no traced function of
            tensors.
        UnimplementedError: a graph holds something that is no data, such as a call into Python or
            texts.
        OSError: the folder can't be written.

    Example:
        >>> class Scale(tk.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.factor = tk.Variable(3.0)
        ...
        ...     @tk.function(input_signature=[tk.TensorSpec([None])])
        ...     def __call__(self, x):
        ...         return x * self.factor
        >>> tk.saved_model.save(Scale(), "scale")
        >>> again = tk.saved_model.load("scale")
        >>> again(tk.constant([1.0, 2.0])).numpy()
        array([3., 6.], dtype=float32)
    """
    if not isinstance(obj, Trackable) or isinstance(obj, Variable):
        raise ValueError(
            f"saved_model.save: {obj!r} is a {type(obj).__name__}; give a tk.Module, a layer, a "
            "model or another trackable object"
        )
    if options is not None and not isinstance(options, SaveOptions):
        raise TypeError(
            f"saved_model.save: options is {options!r}; give tk.saved_model.SaveOptions"
        )
    writer = _ModelWriter()
    document = writer.document(obj, signatures_of(obj, signatures))
    folder = pathlib.Path(local_path(export_dir))
    new_folders = [p for p in (folder, *folder.parents) if not p.exists()]
    try:
        make_folder(folder, "saved_model.save")
        name = type(obj).__name__
        write_document(folder / MODEL_FILE, MODEL_FORMAT, name, document, writer.arrays)
    except BaseException:
        # what is not there, or what somebody has put a file into since, stays as it is
        with contextlib.suppress(OSError):
            for path in new_folders:
                path.rmdir()
        raise


class _ModelWriter(GraphWriter):
    """Adds functions of several graphs and the tree of objects to the tables."""

    def __init__(self) -> None:
        super().__init__()
        self._functions: list[dict[str, Any]] = []
        self._function_numbers: dict[int, int] = {}
        self._restorable: list[dict[str, Any]] = []
        self._callable_numbers: dict[int, int] = {}
        self._objects: list[dict[str, Any]] = []
        self._object_numbers: dict[int, int] = {}

    def document(self, root: Any, signatures: dict[str, Signature]) -> dict[str, Any]:
        """All that the file says besides the arrays."""
        self._object(root, type(root).__name__)
        named = [
            {
                "name": name,
                "functions": [self._added(graph) for graph in signature.graphs],
                "outputs": [[label, position] for label, position in signature.named_outputs],
            }
            for name, signature in signatures.items()
        ]
        return {
            **self.tables(),
            "functions": self._functions,
            "traced": self._restorable,
            "objects": self._objects,
            "signatures": named,
        }

    def _object(self, owner: Any, path: str) -> int:
        """The number of an object, which is written with all below it if it is new."""
        earlier_number = self._object_numbers.get(id(owner))
        if earlier_number is not None:
            return earlier_number
        number = self._object_numbers[id(owner)] = len(self._objects)
        kind = _CONTAINERS.get(type(owner), "object")
        entry: dict[str, Any] = {"class": type(owner).__name__, "kind": kind}
        self._objects.append(entry)
        self._kept.append(owner)
        # first, as tracing may make variables
        methods = [] if kind != "object" else self._methods(owner, path)
        if type(owner) in (TrackedList, TrackedTuple):
            parts: Iterable[tuple[str, Any]] = ((str(i), x) for i, x in enumerate(owner))
        else:
            left_out: frozenset[str] = getattr(type(owner), "_training_parts", frozenset())
            below = type(owner).parts(owner)
            parts = ((name, x) for name, x in below.items() if name not in left_out)
        children = [self._child(name, part, path) for name, part in parts]
        if kind == "object":
            children = [child for child in children if child[1] != "none"] + methods
        entry["children"] = children
        entry["collections"] = {} if kind != "object" else self._collections(owner)
        return number

    def _child(self, name: str, part: Any, path: str) -> list[Any]:
        if isinstance(part, Variable):
            return [name, "variable", self.variable(part)]
        if isinstance(part, Trackable) and _holds_something(part):
            return [name, "object", self._object(part, f"{path}.{name}")]
        return [name, "none", 0]

    def _methods(self, owner: Any, path: str) -> list[list[Any]]:
        return [
            [name, "callable", self._callable(function, f"{path}.{name}")]
            for name, function in functions_in(owner).items()
            if not (name in _STEPS and hasattr(type(owner), "_training_parts"))
        ]

    def _collections(self, owner: Any) -> dict[str, list[int]]:
        """What the object itself says its variables are, in its own order."""
        collections = {}
        for name in _COLLECTIONS:
            if isinstance(getattr(type(owner), name, None), property):
                collections[name] = [self.variable(v) for v in getattr(owner, name)]
        return collections

    def _callable(self, function: Any, path: str) -> int:
        # a bound method is made at each access, the function in it is not
        unbound = function.__wrapped__ if isinstance(function, BoundFunction) else function
        if id(unbound) not in self._callable_numbers:
            entry = {
                "name": path.rpartition(".")[2],
                "parameters": _parameters(function, path),
                "functions": [self._traced(graph, path) for graph in graphs_of(function)],
            }
            self._restorable.append(entry)
            self._kept.append(unbound)
            self._callable_numbers[id(unbound)] = len(self._restorable) - 1
        return self._callable_numbers[id(unbound)]

    def _traced(self, graph: ConcreteFunction, path: str) -> int:
        try:
            return self._function(graph)
        except UnimplementedError as error:
            raise UnimplementedError(
                f"saved_model.save: {path}: {error}. Calls into Python, and texts, as "
                "StringLookup takes, are in no graph: leave them to the code that makes the data"
            ) from error

    def _function(self, graph: ConcreteFunction) -> int:
        if id(graph) not in self._function_numbers:
            self._kept.append(graph)
            self._function_numbers[id(graph)] = self._added(graph)
        return self._function_numbers[id(graph)]

    def _added(self, graph: ConcreteFunction) -> int:
        self._functions.append(self.function(graph))
        return len(self._functions) - 1


def _holds_something(part: Trackable) -> bool:
    """Whether there is more in a list or dict than plain Python values."""
    return type(part) not in _CONTAINERS or any(
        isinstance(x, Variable) or _holds_something(x) for x in type(part).parts(part).values()
    )


def _parameters(function: Any, path: str) -> Any:
    """The parameters of the Python function: name, kind, whether there is a default, default."""
    if isinstance(function, ConcreteFunction | AnyRankFunction):
        return None
    if isinstance(function, RestoredFunction):
        signature = function.function_signature
    else:
        signature = function._arguments.signature
    if signature is None:
        return None
    rows = []
    for p in signature.parameters.values():
        free = p.default is inspect.Parameter.empty
        rows.append([p.name, int(p.kind), not free, None if free else _default(p.default, path)])
    return rows


def _default(value: Any, path: str) -> Any:
    """A default as data; an object has no meaning in a file, but that it was left out has."""

    def special(x: Any) -> Any:
        return None if isinstance(x, (*VALUES, tuple, list, dict)) else {"object": 0}

    return encoded(value, special, path)
