"""`load_model`: the object tree and functions of a folder that `save_model` wrote."""

from __future__ import annotations

import inspect
import os
import pathlib
from collections.abc import Iterable
from typing import Any

from trainkit.core.errors import CheckpointError, InvalidArgumentError, NotFoundError
from trainkit.core.files.local_paths import local_path
from trainkit.core.trackable import Trackable, TrackedDict, TrackedList, set_silently, traverse
from trainkit.core.variable import Variable
from trainkit.saved_graph.encoding import decoded
from trainkit.saved_graph.loading import GraphReader, LoadedFunction, read_document
from trainkit.saved_graph.restored_function import RestoredFunction
from trainkit.saved_graph.saved_model_options import LoadOptions
from trainkit.saved_graph.signatures import Signature, SignatureMap
from trainkit.saved_graph.standalone import MODEL_FILE, MODEL_FORMAT, check_model

_TENSORFLOWS = ("saved_model.pb", "saved_model.pbtxt")
_COLLECTIONS = ("variables", "trainable_variables", "non_trainable_variables")
_KINDS = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.KEYWORD_ONLY,
    inspect.Parameter.VAR_KEYWORD,
)


class LoadedObject(Trackable):
    """What stands for an object that was saved: its variables, functions and parts as attributes.

    Attributes:
        variables: the variables, in the order in which the saved object had them.
        trainable_variables: those that are trained.
        non_trainable_variables: the others.
        signatures: of the outermost object, its signatures by name.
    """

    _untracked = frozenset({"signatures", *_COLLECTIONS})
    _kind: str  # the class of the saved object

    def __init__(self, kind: str) -> None:
        set_silently(self, _kind=kind)

    def __repr__(self) -> str:
        return f"<loaded {self._kind}>"


class LoadedCallable(LoadedObject):
    """A loaded object that was called as a function itself."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run its traced `__call__`.

        Args:
            *args: as for the saved object.
            **kwargs: as for the saved object.

        Raises:
            ValueError: it was not traced for such arguments.
        """
        return self.__dict__["__call__"](*args, **kwargs)


class _NotSaved:
    """The default of a parameter that was no data."""

    def __repr__(self) -> str:
        return "<an object>"


def contains_saved_model(export_dir: str | os.PathLike[str]) -> bool:
    """Whether a folder holds what `tk.saved_model.save` wrote, as far as names tell.

    Args:
        export_dir: the folder; it need not exist.

    Example:
        >>> tk.saved_model.contains_saved_model("nowhere")
        False
    """
    return (pathlib.Path(local_path(export_dir)) / MODEL_FILE).is_file()


def load_model(
    export_dir: str | os.PathLike[str], tags: Any = None, options: LoadOptions | None = None
) -> Any:
    """Load what `tk.saved_model.save`, `Model.export` or `ExportArchive` wrote.

    The Python source is not needed. Variables are new `tk.Variable`s that can be trained through
    the loaded functions; a function takes the kinds of arguments that it was traced for before.
    Lists, tuples and dicts come back as lists and dicts. Nothing in the file is executed as code:
    operations are looked up by name among trainkit's own, and sizes and dtypes are worked out anew.

    Args:
        export_dir: the folder, in trainkit's own format; TensorFlow's SavedModels are not read.
        tags: `None` or `"serve"`, alone or in a list: there is one set of graphs in a folder.
        options: see `LoadOptions`.

    Returns:
        An object with the attributes of the saved one, `variables`, `trainable_variables`, and
        `signatures`, functions by name that give dicts of tensors.

    Raises:
        NotFoundError: there is no such folder, or nothing saved in it.
        CheckpointError: the file is damaged, hostile, of another version, or holds an operation
            that is not known.
        InvalidArgumentError: other tags.
    """
    if options is not None and not isinstance(options, LoadOptions):
        raise TypeError(
            f"saved_model.load: options is {options!r}; give tk.saved_model.LoadOptions"
        )
    named = [] if tags is None else [tags] if isinstance(tags, str) else list(tags)
    if named not in ([], ["serve"]):
        raise InvalidArgumentError(f"saved_model.load: tags is {tags!r}; it can be None or 'serve'")
    folder = pathlib.Path(local_path(export_dir, CheckpointError))
    if not contains_saved_model(folder):
        raise NotFoundError(_nothing_in(folder))
    with read_document(folder / MODEL_FILE, MODEL_FORMAT, check_model, "saved model") as (
        reader,
        document,
    ):
        return _Tree(reader, document).root()


def _nothing_in(folder: pathlib.Path) -> str:
    if any((folder / name).exists() for name in _TENSORFLOWS):
        return (
            f"{folder} holds a SavedModel of TensorFlow, which is not read: in TensorFlow, save "
            "the model as a .keras file, and read that with keras.models.load_model"
        )
    return f"there is no saved model in {folder}: it has no {MODEL_FILE}"


class _Tree:
    """Makes the objects and functions of one file."""

    def __init__(self, reader: GraphReader, document: dict[str, Any]) -> None:
        self._reader = reader
        self._document = document
        self._functions: list[LoadedFunction] = [
            reader.function(entry) for entry in document["functions"]
        ]
        self._restored = [self._callable(entry) for entry in document["traced"]]
        self._objects = [self._empty(entry) for entry in document["objects"]]

    def root(self) -> Any:
        """The outermost object, with all below it."""
        for owner, entry in zip(self._objects, self._document["objects"], strict=True):
            self._fill(owner, entry)
        for owner, entry in zip(self._objects, self._document["objects"], strict=True):
            if isinstance(owner, LoadedObject):
                self._collect(owner, entry["collections"])
        root = self._objects[0]
        if not isinstance(root, LoadedObject):
            raise CheckpointError("the saved model is refused: its outermost object is a container")
        signatures = {e["name"]: self._signature(e) for e in self._document["signatures"]}
        set_silently(root, signatures=SignatureMap(signatures))
        return root

    def _empty(self, entry: dict[str, Any]) -> Any:
        if entry["kind"] == "list":
            return TrackedList()
        if entry["kind"] == "dict":
            return TrackedDict()
        called = any(name == "__call__" for name, _, _ in entry["children"])
        return (LoadedCallable if called else LoadedObject)(entry["class"])

    def _fill(self, owner: Any, entry: dict[str, Any]) -> None:
        for name, kind, number in entry["children"]:
            child = self._child(kind, number)
            if isinstance(owner, TrackedList):
                owner.append(child)
            elif isinstance(owner, TrackedDict):
                owner[name] = child
            else:
                owner.__dict__[name] = child

    def _child(self, kind: str, number: int) -> Any:
        if kind == "none":
            return None
        if kind == "variable":
            return self._reader.variables[number]
        return (self._objects if kind == "object" else self._restored)[number]

    def _collect(self, owner: LoadedObject, stored: dict[str, list[int]]) -> None:
        """Give an object the lists of its variables, unless attributes have those names."""
        below: list[Any] | None = None
        for name in _COLLECTIONS:
            if name in owner.__dict__:
                continue
            if name in stored:
                variables: Iterable[Any] = (self._reader.variables[i] for i in stored[name])
            else:
                if below is None:
                    below = [x for _, x in traverse(owner) if isinstance(x, Variable)]
                trainable_flags = {
                    "trainable_variables": [True],
                    "non_trainable_variables": [False],
                }
                variables = (
                    v for v in below if v.trainable in trainable_flags.get(name, [True, False])
                )
            owner.__dict__[name] = tuple(variables)

    def _callable(self, entry: dict[str, Any]) -> RestoredFunction:
        graphs = [
            (self._functions[i], self._document["functions"][i]["arguments"] is None)
            for i in entry["functions"]
        ]
        return RestoredFunction(entry["name"], _signature_of(entry["parameters"]), graphs)

    def _signature(self, entry: dict[str, Any]) -> Signature:
        graphs = [self._functions[i] for i in entry["functions"]]
        outputs = [(label, position) for label, position in entry["outputs"]]
        return Signature(entry["name"], list(graphs), outputs)


def _signature_of(rows: Any) -> inspect.Signature | None:
    """The parameters of a function; Python refuses names and orders that make no sense."""
    if rows is None:
        return None
    parameters = []
    for name, kind, has_default, default in rows:
        value = inspect.Parameter.empty
        if has_default:
            value = decoded(default, {"object": lambda _: _NotSaved()})
        parameters.append(inspect.Parameter(name, _KINDS[kind], default=value))
    return inspect.Signature(parameters)
