"""Runs a graph saved by trainkit, with nothing but numpy and h5py; one file, to be copied.

    from standalone import load
    model = load("model.h5")
    probabilities = model(images)

A folder that `tk.saved_model.save` wrote holds several functions: `load(folder, "serve")` is the
one of that name. From a shell, `python standalone.py model.h5` lists what a file holds. It is data:
operations are looked up by name in a table, and an unknown one is refused by its name. Values are
computed with NumPy alone, with the bits of trainkit's own NumPy bodies.

A file that `tk.saved_graph.save_training` wrote is trained on, and replaced:

    python standalone.py train.h5 --data new.npz --epochs 2
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import inspect
import itertools
import json
import math
import os
import shutil
import stat
import struct
import sys
import tempfile
import threading
import time
import typing
import zipfile
from collections import namedtuple

import numpy as np

FORMAT, VERSION = "trainkit-graph", "1"
MODEL_FORMAT, MODEL_FILE = "trainkit-saved-model", "saved_model.h5"
MAX_GRAPH = 1 << 28  # bytes of JSON
MAX_DEPTH = 50
_DTYPES = """bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64
complex64 complex128""".split()


class GraphError(ValueError):
    """The file is damaged, no saved graph, or holds something that this reader does not know."""


# ---------------------------------------------------------------------- reading the file


def load(path, function=None, trace=0):
    """Read the graph in the file `path`.

    Args:
        path: a file that `tk.saved_graph.save` wrote, or a folder that `tk.saved_model.save` wrote.
        function: of a folder, the name of a signature or of a function of the outermost object; by
            default `"serving_default"`, or the only one.
        trace: which of its graphs, where it has several.

    Returns:
        A `SavedGraph`: call it with one array for each of its inputs.

    Raises:
        GraphError: the file is damaged, no saved graph, or needs an operation that is not in
            `OPERATIONS`. Calls raise it too, when the graph does not compute what it says.
        OSError: there is no such file, or it can't be opened.
    """
    if os.path.isdir(path):
        path = os.path.join(path, MODEL_FILE)
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise GraphError(f"{path} is no regular file")
    import h5py  # slow to import, and `check_document` needs none

    try:
        with h5py.File(path, "r") as file:
            content = _Content(file, h5py)
            document = _document_in(content, path)
            if "functions" in document:
                return _function_in(document, content, path, function, trace)
            if function not in (None, document["name"]) or trace:
                raise GraphError(f"{path} holds the one graph of {document['name']!r}")
            return SavedGraph(document, content)
    except GraphError:
        raise
    except OSError as error:
        if error.errno is not None:
            raise
        raise GraphError(f"{path} is no HDF5 file, or damaged: {error}") from error
    except FAILURES as error:
        raise GraphError(f"{path} makes no sense: {type(error).__name__}: {error}") from error


FAILURES = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
    MemoryError,
)
"""What reading and running a file that makes no sense may end with."""


def _document_in(content, path):
    kind = content.text("format")
    if kind not in (FORMAT, MODEL_FORMAT) or content.text("version") != VERSION:
        raise GraphError(f"{path} is no saved graph of version {VERSION}")
    raw = content.array("graph")
    if raw.dtype != np.uint8 or raw.ndim != 1 or raw.size > MAX_GRAPH:
        raise GraphError(f"{path}: 'graph' is no text, or longer than {MAX_GRAPH} bytes")
    document = json.loads(raw.tobytes().decode("utf-8"))
    (check_document if kind == FORMAT else check_model)(document)
    return document


def _endpoints(document):
    """The functions that a saved model is called by: numbers of graphs, and names of results."""
    endpoints = {e["name"]: (e["functions"], e["outputs"]) for e in document["signatures"]}
    for name, kind, number in document["objects"][0]["children"]:
        if kind == "callable":
            endpoints.setdefault(name, (document["traced"][number]["functions"], None))
    return {name: endpoint for name, endpoint in endpoints.items() if endpoint[0]}


def _function_in(document, content, path, function, trace):
    """One function of a saved model."""
    endpoints = _endpoints(document)
    if function is None:
        function = next(iter(endpoints)) if len(endpoints) == 1 else "serving_default"
    if function not in endpoints:
        raise GraphError(
            f"{path} has no function {function!r}; it has {', '.join(endpoints) or 'none'}"
        )
    numbers, names = endpoints[function]
    if not 0 <= trace < len(numbers):
        raise GraphError(f"{path}: {function!r} has {len(numbers)} graphs, there is no {trace}")
    entry = dict(document["functions"][numbers[trace]], name=function)
    if names is not None:
        entry["results"] = {"dict": [[name, {"tensor": position}] for name, position in names]}
    tables = {name: document[name] for name in ("graphs", "variables")}
    return SavedGraph({**tables, **entry}, content)


class _Content:
    """An open HDF5 file, of which only what `save` writes is read."""

    def __init__(self, file, h5py):
        self._file, self._h5 = file, h5py

    def text(self, name, owner=None):
        """An attribute of `owner`, by default of the file."""
        value = (self._file if owner is None else owner).attrs.get(name, b"")
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

    def array(self, name, group=None):
        """The values of a dataset that is stored in this very file, as plain numbers."""
        dataset = self._own(self._file if group is None else group, name, self._h5.Dataset)
        if dataset.external or dataset.is_virtual or dataset.shape is None:
            raise GraphError(f"{name!r} has no values in this file")
        if dataset.dtype.kind not in "biufc":
            raise GraphError(f"{name!r} holds {dataset.dtype}, not numbers")
        if dataset.chunks is not None:
            raise GraphError(f"{name!r} is compressed, which a saved graph never is")
        if dataset.id.get_storage_size() != dataset.nbytes:
            raise GraphError(f"{name!r} declares {dataset.nbytes} bytes that are not stored")
        array = dataset[()]
        if self.text("dtype", dataset) == "bfloat16":
            array = (np.asarray(array).astype(np.uint32) << 16).view(np.float32)
        return array

    def value(self, number, spec):
        """The array of this number, which must be of this `[shape, dtype]`."""
        group = self._own(self._file, "values", self._h5.Group)
        array = self.array(str(_number(number)), group)
        shape, dtype = spec
        if array.dtype != _dtype(dtype) or not _of_shape(array, shape):
            raise GraphError(
                f"the value {number} is {array.dtype}{list(array.shape)}, not {dtype}{shape}"
            )
        return array

    def _own(self, group, name, kind):
        """What stands under `name`, not reached through a link to somewhere else."""
        link = group.get(name, getlink=True)
        if not isinstance(link, self._h5.HardLink):
            raise GraphError(f"{name!r} is missing, or a link to somewhere else")
        member = group[name]
        if not isinstance(member, kind):
            raise GraphError(f"{name!r} is no {kind.__name__.lower()}")
        return member


def _of_shape(array, shape):
    return array.ndim == len(shape) and all(
        n in (None, m) for n, m in zip(shape, array.shape, strict=True)
    )


def _number(x):
    if type(x) is not int or x < 0:
        raise GraphError(f"{str(x)[:40]!r} is no place in a list")
    return x


_KEYS = (str, int, float, tuple, type(None))
record_type = functools.lru_cache(maxsize=256)(namedtuple)
"""The type of named results, the same for the same names."""


def decode(value, special, depth=0):
    """A setting or a nest from its JSON form."""
    if depth > MAX_DEPTH:
        raise GraphError("settings are nested too deep")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if not isinstance(value, dict) or len(value) != 1:
        raise GraphError(f"{str(value)[:60]!r} is no setting")
    ((kind, content),) = value.items()
    if kind in special:
        return special[kind](content)
    if kind == "float" and content in ("inf", "-inf", "nan"):
        return float(content)
    if kind == "complex" and isinstance(content, list) and len(content) == 2:
        return complex(*[float(decode(part, special, depth + 1)) for part in content])
    if kind in ("tuple", "list") and isinstance(content, list):
        items = [decode(item, special, depth + 1) for item in content]
        return tuple(items) if kind == "tuple" else items
    if kind == "dict" and isinstance(content, list):
        pairs = [decode({"tuple": pair}, special, depth + 1) for pair in content]
        if all(len(pair) == 2 and isinstance(pair[0], _KEYS) for pair in pairs):
            return dict(pairs)
    if kind == "record" and isinstance(content, list) and len(content) == 2:
        name, pairs = content
        record = record_type(str(name), tuple(str(field) for field, _ in pairs))
        return record(*[decode(item, special, depth + 1) for _, item in pairs])
    raise GraphError(f"{str(kind)[:40]!r} is no kind of setting")


_HOLE = object()


def _template(content):
    """What a print shows: a nest with holes for values, text between and behind, and where to."""
    fields = decode(content, {"hole": lambda _: _HOLE})
    if not isinstance(fields, tuple) or [type(x) for x in fields] != [tuple, str, str, str, int]:
        raise GraphError("no template of print")
    if fields[3] not in ("stderr", "stdout"):
        raise GraphError(f"print writes to stderr or stdout, not to {fields[3][:40]!r}")
    return fields


# ---------------------------------------------------------------------- checking the document

_TABLES = {"graphs": list, "variables": list}
_FUNCTION = {"name": str, "labels": list, "arguments": object, "results": object, "main": int}
_ROOT = _TABLES | _FUNCTION
_TRAINING = {"inputs": list, "paths": list, "resets": list, "finish": object, "epochs": int}
_MODEL = _TABLES | {"functions": list, "traced": list, "objects": list, "signatures": list}
_CALLABLE = {"name": str, "parameters": object, "functions": list}
_OBJECT = {"class": str, "kind": str, "children": list, "collections": dict}
_SIGNATURE = {"name": str, "functions": list, "outputs": list}
_VARIABLE = {"name": str, "trainable": bool, "value": int, "spec": list}
_GRAPH = {"name": str, "nodes": list, "inputs": list, "outputs": list}
_NODE = {"kind": str, "name": str, "specs": list}
_KINDS = {
    "input": {},
    "constant": {"value": int},
    "variable": {"variable": int},
    "op": {"op": str, "many": bool, "inputs": list, "settings": dict},
}


def check_document(document):
    """Refuse what `save` never writes; operations and their settings are looked at later.

    Args:
        document: what was read as JSON.

    Raises:
        GraphError: a part is missing, of another type or not known, or a number is no place in the
            list that it points into.
    """
    _has(document, _ROOT, "the document", optional=("training",))
    _check_tables(document)
    _check_function(document, document)
    if "training" in document:
        _check_training(document)


def _check_training(document):
    """What training needs: a name for each input, and what metrics start from."""
    training = document["training"]
    _has(training, _TRAINING, "the training")
    main, variables = document["graphs"][document["main"]], document["variables"]
    names, paths = training["inputs"], training["paths"]
    if len(names) != len(main["inputs"]) or len(paths) != len(variables):
        raise GraphError("the training has other inputs or variables than the step")
    named = [path for path in paths if path is not None]
    if not all(isinstance(text, str) for text in [*names, *named]):
        raise GraphError("a name of the training is no text")
    if len(set(names)) != len(names) or len(set(named)) != len(named):
        raise GraphError("two inputs or variables of the training share a name")
    used = [v["value"] for v in variables] + [training["epochs"]]
    used += [n["value"] for g in document["graphs"] for n in g["nodes"] if n["kind"] == "constant"]
    for pair in training["resets"]:
        if not isinstance(pair, list) or len(pair) != 2:
            raise GraphError(f"{str(pair)[:40]!r} resets no variable")
        _below(pair[0], len(variables), "a variable")
        used.append(_number(pair[1]))
    if len(set(used)) != len(used):
        raise GraphError("two places share a value")
    results = document["results"].get("dict") if isinstance(document["results"], dict) else None
    if not isinstance(results, list) or not all(
        isinstance(name, str) and isinstance(value, dict) and "tensor" in value
        for name, value in results
    ):
        raise GraphError("a training step gives tensors by name")
    if training["finish"] is not None:
        number = _below(training["finish"], len(document["graphs"]), "a graph")
        if document["graphs"][number]["inputs"]:
            raise GraphError("what training ends with takes no inputs")


def check_model(document):
    """Refuse what `tk.saved_model.save` never writes; operations are looked at later.

    Args:
        document: what was read as JSON.

    Raises:
        GraphError: a part is missing, of another type or not known, or a number is no place in the
            list that it points into.
    """
    _has(document, _MODEL, "the document")
    _check_tables(document)
    for entry in document["functions"]:
        _has(entry, _FUNCTION, "a function")
        _check_function(entry, document)
    for entry in document["traced"]:
        _has(entry, _CALLABLE, "a traced function")
        _check_numbers(entry["functions"], document["functions"], "a function")
        _check_parameters(entry["parameters"])
    limits = {
        "variable": len(document["variables"]),
        "callable": len(document["traced"]),
        "object": len(document["objects"]),
    }
    if not document["objects"]:
        raise GraphError("there is no object")
    for entry in document["objects"]:
        _check_object(entry, limits)
    for entry in document["signatures"]:
        _check_signature(entry, document)
    used = [number for entry in document["signatures"] for number in entry["functions"]]
    if len(set(used)) != len(used):
        raise GraphError("two signatures share a function")


def _check_numbers(numbers, entries, label):
    if not isinstance(numbers, list):
        raise GraphError(f"{str(numbers)[:40]!r} is no list of numbers")
    for number in numbers:
        _below(number, len(entries), label)


def _check_parameters(rows):
    for name, kind, has_default, default in rows or ():
        if not (isinstance(name, str) and kind in range(5) and isinstance(has_default, bool)):
            raise GraphError(f"{str(name)[:40]!r} is no parameter")
        decode(default, {"object": lambda _: None})


def _check_object(entry, limits):
    """Attributes are variables, functions and other objects, under names that Python keeps free."""
    _has(entry, _OBJECT, "an object")
    if entry["kind"] not in ("object", "list", "dict"):
        raise GraphError(f"{entry['kind'][:40]!r} is no kind of object")
    for name, kind, number in entry["children"]:
        if not isinstance(name, str) or kind not in ("variable", "callable", "object", "none"):
            raise GraphError(f"{str(name)[:40]!r} is no attribute")
        reserved = name[:2] == "__" == name[-2:] or name in ("_kind", "signatures")
        if entry["kind"] == "object" and reserved and (name, kind) != ("__call__", "callable"):
            raise GraphError(f"an attribute can't be called {name[:40]!r}")
        if kind == "none":
            if entry["kind"] == "object":
                raise GraphError(f"the attribute {name[:40]!r} is nothing")
        else:
            _below(number, limits[kind], f"a {kind}")
    for name, numbers in entry["collections"].items():
        if name not in ("variables", "trainable_variables", "non_trainable_variables"):
            raise GraphError(f"{name[:40]!r} is no list of variables")
        _check_numbers(numbers, range(limits["variable"]), "a variable")


def _check_signature(entry, document):
    """The graphs of a signature take tensors by name, and give a list of them."""
    _has(entry, _SIGNATURE, "a signature")
    _check_numbers(entry["functions"], document["functions"], "a function")
    if not entry["functions"]:
        raise GraphError(f"the signature {entry['name'][:40]!r} has no graph")
    for number in entry["functions"]:
        function = document["functions"][number]
        main = document["graphs"][function["main"]]
        arguments = [[label, {"tensor": i}] for i, label in enumerate(function["labels"])]
        results = function["results"]
        given_back = results.get("list") if isinstance(results, dict) else None
        count = len(given_back) if isinstance(given_back, list) else -1
        if (
            function["arguments"] != {"tuple": [{"tuple": []}, {"dict": arguments}]}
            or len(arguments) != len(main["inputs"])
            or count != len(main["outputs"])
            or given_back != [{"tensor": i} for i in range(count)]
        ):
            raise GraphError(f"the signature {entry['name'][:40]!r} is no function of tensors")
        for label, position in entry["outputs"]:
            if not isinstance(label, str):
                raise GraphError(f"{str(label)[:40]!r} is no name of a result")
            _below(position, count, "a result")


def _check_tables(document):
    """Refuse graphs and variables that do not fit together."""
    for entry in document["variables"]:
        _has(entry, _VARIABLE, "a variable")
        _check_spec(entry["spec"])
    for number, graph in enumerate(document["graphs"]):
        _check_graph(graph, number, document)
    used = [entry["value"] for entry in document["variables"]]
    used += [n["value"] for g in document["graphs"] for n in g["nodes"] if n["kind"] == "constant"]
    if len(set(used)) != len(used):
        raise GraphError("two places share a value")


def _check_function(entry, document):
    """Refuse a function that is none of the graphs."""
    main = document["graphs"][_below(entry["main"], len(document["graphs"]), "a graph")]
    decode(entry["results"], {"tensor": _place_in(main["outputs"], "a result")})
    inputs, labels = len(main["inputs"]), entry["labels"]
    if not all(isinstance(label, str) for label in labels):
        raise GraphError("a label is no text")
    if entry["arguments"] is not None:
        input_tensor = {"tensor": _place_in(main["inputs"], "an input")}
        args, kwargs = decode(entry["arguments"], input_tensor)
        if not isinstance(args, (tuple, list)) or not isinstance(kwargs, dict):
            raise GraphError("the arguments are no tuple and dict")
        inputs = len(args) + len(kwargs)
        if len(labels) != inputs:
            raise GraphError(f"there are {len(labels)} labels for {inputs} arguments")


def _has(entry, fields, label, optional=()):
    """Refuse what is not a dict of just these fields."""
    if not isinstance(entry, dict) or not set(fields) <= set(entry) <= {*fields, *optional}:
        raise GraphError(f"{label} needs {', '.join(fields)}, and has {str(entry)[:80]}")
    for name, kind in fields.items():
        if not isinstance(entry[name], kind) or (kind is int and type(entry[name]) is not int):
            raise GraphError(f"{label}: {name} is {str(entry[name])[:40]!r}, not {kind.__name__}")


def _below(number, limit, label):
    if _number(number) >= limit:
        raise GraphError(f"{label} has number {number}; there are {limit}")
    return number


def _place_in(entries, label):
    return lambda number: _below(number, len(entries), label)


def _check_spec(spec):
    """A spec is a shape, with `None` for any size, and a dtype."""
    if not isinstance(spec, list) or len(spec) != 2 or not isinstance(spec[0], list):
        raise GraphError(f"{str(spec)[:60]!r} is no shape and dtype")
    for size in spec[0]:
        if size is not None:
            _number(size)
    if math.prod(n or 1 for n in spec[0]) >= 1 << 62 or len(spec[0]) > 32:
        raise GraphError(f"a value of shape {str(spec[0])[:80]} is too large")
    _dtype(spec[1])


def _check_graph(graph, number, document):
    _has(graph, _GRAPH, "a graph", optional=("assigned",))
    nodes = graph["nodes"]
    for position, node in enumerate(nodes):
        _check_node(node, nodes, position, number, document)
    kinds = [nodes[_below(i, len(nodes), "an input")]["kind"] for i in graph["inputs"]]
    if set(kinds) - {"input"} or len(set(graph["inputs"])) != len(kinds):
        raise GraphError(f"the inputs of graph {graph['name']!r} are none")
    if sum(node["kind"] == "input" for node in nodes) != len(kinds):
        raise GraphError(f"graph {graph['name']!r} has an input that nothing is given to")
    for reference in graph["outputs"]:
        _check_place(reference, nodes, len(nodes))
    for target, reference in graph.get("assigned", []):
        _below(target, len(document["variables"]), "a variable")
        node, index = _check_place(reference, nodes, len(nodes))
        shape, dtype = document["variables"][target]["spec"]
        value_shape, kind = nodes[node]["specs"][index]
        if (
            kind != dtype
            or len(value_shape) != len(shape)
            or not all(None in (a, b) or a == b for a, b in zip(value_shape, shape, strict=True))
        ):
            raise GraphError(f"the value assigned to variable {target} does not fit it")


def _check_node(node, nodes, position, number, document):
    kind = node.get("kind") if isinstance(node, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise GraphError(f"{str(kind)[:40]!r} is no kind of node")
    _has(node, _NODE | _KINDS[kind], f"a node of kind {kind!r}")
    for spec in node["specs"]:
        _check_spec(spec)
    if kind == "op":
        special = {"tensor": lambda reference: _check_place(reference, nodes, position)}
        for value in node["inputs"]:
            argument = decode(value, special)
            if isinstance(argument, str | dict | list) or (
                isinstance(argument, tuple) and "tensor" not in value
            ):
                raise GraphError(f"{node['name']!r} takes {str(value)[:40]!r}, which is no value")
        part = {"graph": lambda i: _check_part(i, number, document), "template": _template}
        for value in node["settings"].values():
            decode(value, part)
    elif len(node["specs"]) != 1:
        raise GraphError(f"{node['name']!r} has {len(node['specs'])} values")
    if kind == "variable":
        _below(node["variable"], len(document["variables"]), "a variable")
        if document["variables"][node["variable"]]["spec"] != node["specs"][0]:
            raise GraphError(f"{node['name']!r} is said to be {node['specs'][0]}")


def _check_place(reference, nodes, limit):
    if not isinstance(reference, list) or len(reference) != 2:
        raise GraphError(f"{str(reference)[:40]!r} is no place of a value")
    node, index = _number(reference[0]), _number(reference[1])
    if node >= limit:
        raise GraphError(f"a node refers to node {node}, which does not come before it")
    if index >= len(nodes[node]["specs"]):
        raise GraphError(f"a node refers to value {index} of node {node}, which has no such value")
    return node, index


def _check_part(number, limit, document):
    """A branch or body is a graph that comes before, without variables."""
    if _number(number) >= limit:
        raise GraphError(f"a graph refers to graph {number}, which does not come before it")
    part = document["graphs"][number]
    if part.get("assigned") or any(node["kind"] == "variable" for node in part["nodes"]):
        raise GraphError(f"graph {part['name']!r} is part of another and uses variables")
    return number


# ---------------------------------------------------------------------- running it


class SavedGraph:
    """A function of arrays.

    Attributes:
        name: of the function that was saved.
        inputs: a tuple `(name, shape, dtype)` for each array that a call takes; `None` in a shape
            is any size.
        variables: a dict of the variables by number and name; a call changes those that the
            function assigns.
        training: of a training step, the names of inputs and the number of epochs; else `None`.
    """

    def __init__(self, document, values):
        self.name = str(document["name"])
        self._results = document["results"]
        self._state = [values.value(v["value"], v["spec"]) for v in document["variables"]]
        self._names = [str(entry["name"]) for entry in document["variables"]]
        self._graphs = []
        for entry in document["graphs"]:
            self._graphs.append(_Graph(entry, values, self._graphs))
        self._main = self._graphs[document["main"]]
        self.inputs = [self._main.described(i) for i in self._main.inputs]
        self._numbers = [entry["value"] for entry in document["variables"]]
        self.has_bfloat16 = any(v["spec"][1] == "bfloat16" for v in document["variables"])
        self.training, self.epochs_number, self._resets, self._finish = None, None, [], None
        if document.get("training") is not None:
            training = document["training"]
            self.epochs_number = training["epochs"]
            epochs = values.value(self.epochs_number, [[], "int64"])
            self.training = {"inputs": training["inputs"], "epochs": int(epochs)}
            specs = [entry["spec"] for entry in document["variables"]]
            self._resets = [(v, values.value(n, specs[v])) for v, n in training["resets"]]
            if training["finish"] is not None:
                self._finish = self._graphs[training["finish"]]

    def reset(self):
        """Let metrics start anew, as they do with each epoch."""
        for number, value in self._resets:
            self._state[number] = value

    def finish(self):
        """Do what training ends with, such as taking averages of weights for weights."""
        if self._finish is not None:
            self._run(self._finish, [])

    @property
    def values(self):
        """The variables now, by the numbers that their values have in the file."""
        return dict(zip(self._numbers, self._state, strict=True))

    @property
    def variables(self):
        """The variables now."""
        pairs = zip(self._names, self._state, strict=False)
        return {f"{i}:{name}": value for i, (name, value) in enumerate(pairs)}

    def __call__(self, *arrays):
        """The results for one array per input, nested as the function returned them.

        Raises:
            TypeError, ValueError: an array does not fit its input.
            GraphError: an operation fails, or gives another shape or dtype than the file says.
        """
        if len(arrays) != len(self.inputs):
            raise TypeError(
                f"{self.name} takes {len(self.inputs)} arrays, {len(arrays)} were given"
            )
        ready = [_fitting(x, *spec) for x, spec in zip(arrays, self.inputs, strict=False)]
        outputs = self._run(self._main, ready)
        return decode(self._results, {"tensor": lambda i: outputs[i]})

    def _run(self, graph, arrays):
        """The outputs of a graph; variables change only if all of it could be computed."""
        try:
            with np.errstate(all="ignore"):
                outputs, assigned = graph.run(arrays, self._state)
        except GraphError:
            raise
        except FAILURES as error:
            raise GraphError(f"{self.name}: {type(error).__name__}: {error}") from error
        for number, value in assigned:
            self._state[number] = value
        return outputs

    def __repr__(self):
        return (
            f"<SavedGraph {self.name}({', '.join(f'{n} {d}{list(s)}' for n, s, d in self.inputs)})>"
        )


def _fitting(x, name, shape, dtype):
    array = np.asarray(x)
    if array.dtype != dtype:
        if not np.can_cast(array.dtype, dtype, "same_kind") and array.dtype.kind not in "if":
            raise TypeError(f"{name}: needs {dtype}, given is {array.dtype}")
        array = array.astype(dtype)
    fits = array.ndim == len(shape) and all(
        n in (None, m) for n, m in zip(shape, array.shape, strict=False)
    )
    if not fits:
        raise ValueError(f"{name}: needs shape {tuple(shape)}, given is {array.shape}")
    return array


class _Graph:
    """Nodes in order, each a function of earlier values."""

    def __init__(self, entry, values, earlier):
        self._nodes = entry["nodes"]
        self._steps = [_step(node, values, earlier) for node in self._nodes]
        self.inputs, self._outputs = entry["inputs"], entry["outputs"]
        self._assigned = entry.get("assigned", [])

    def described(self, i):
        """Name, shape and dtype of an input."""
        node = self._nodes[i]
        shape, dtype = node["specs"][0]
        return str(node["name"]), tuple(shape), _dtype(dtype)

    def results(self):
        """Shape and dtype of each output."""
        specs = [self._nodes[n]["specs"][k] for n, k in self._outputs]
        return [(tuple(shape), _dtype(dtype)) for shape, dtype in specs]

    def run(self, arrays, state=()):
        """The outputs, and `(number, value)` of the variables that are assigned."""
        env = [None] * len(self._steps)
        for number, array in zip(self.inputs, arrays, strict=True):
            shape, dtype = self._nodes[number]["specs"][0]
            if array.dtype != _dtype(dtype) or array.ndim != len(shape):
                raise GraphError("a part of the graph is given other values than it takes")
            env[number] = (array,)
        for i, step in enumerate(self._steps):
            if step is not None:
                env[i] = step(env, state)
        outputs = [env[n][k] for n, k in self._outputs]
        return outputs, [(v, env[n][k]) for v, (n, k) in self._assigned]


def _step(node, values, earlier):
    """What computes the values of one node, from the values so far and the variables."""
    kind = node["kind"]
    if kind == "input":
        return None
    if kind == "constant":
        constant = (values.value(node["value"], node["specs"][0]),)
        return lambda env, state: constant
    if kind == "variable":
        number = node["variable"]
        return lambda env, state: (state[number],)
    return _operation(node, earlier)


def _operation(node, earlier):
    name = node["op"]
    body = OPERATIONS.get(name)
    if body is None:
        reason = f", because {_REASONS[name]}" if name in _REASONS else ""
        raise GraphError(
            f"the operation {name[:60]!r} ({node['name']}) is not known to this reader{reason}"
        )
    special = {"tensor": lambda reference: _Ref(reference)}
    inputs = [decode(x, special) for x in node["inputs"]]
    parts = {"graph": lambda i: earlier[i], "template": _template}
    settings = {k: decode(v, parts) for k, v in node["settings"].items()}
    _check_call(name, body, inputs, settings)
    specs, many = node["specs"], node["many"]
    floats = [dtype for _, dtype in specs if _dtype(dtype).kind == "f"]

    def step(env, state):
        _DEFAULT_FLOAT.name = floats[0] if floats else "float32"
        arrays = [env[x.node][x.index] if isinstance(x, _Ref) else x for x in inputs]
        results = body(*arrays, **settings)
        results = tuple(results) if many else (results,)
        if len(results) != len(specs):
            raise GraphError(f"{name!r} gives {len(results)} values, not {len(specs)}")
        exact = all(x.dtype.kind == "f" for x in arrays if isinstance(x, np.ndarray))
        return tuple(
            [_as_declared(y, *t, name, exact) for y, t in zip(results, specs, strict=True)]
        )

    return step


def _check_call(name, body, inputs, settings):
    """Refuse settings that the operation does not have, and a wrong number of inputs."""
    if name in _OF_ARRAYS and not all(x is None or isinstance(x, _Ref) for x in inputs):
        raise GraphError(f"{name!r} takes arrays, not numbers")
    if isinstance(body, np.ufunc):
        if settings or len(inputs) != body.nin:
            raise GraphError(f"{name!r} takes {body.nin} values and no settings")
        return
    try:
        inspect.signature(body).bind(*inputs, **settings)
    except TypeError as error:
        raise GraphError(f"{name!r} is called with other inputs or settings: {error}") from error


def _as_declared(y, shape, dtype, name, floats):
    """A result, which must have the shape and the dtype that the file says.

    Of whole numbers, NumPy makes others than trainkit, more bits for instance; these are converted.
    """
    y, declared = np.asarray(y), _dtype(dtype)
    exact = floats and declared.kind == "f"
    same = y.dtype == declared if exact else y.dtype.kind == declared.kind
    if not same or not _of_shape(y, shape):
        raise GraphError(f"{name!r} is said to be {dtype}{shape}, it is {y.dtype}{list(y.shape)}")
    return y.astype(declared, copy=False)


def _dtype(name):
    """A dtype of numbers; bfloat16 is computed in float32."""
    if name == "bfloat16":
        return np.dtype(np.float32)
    if name not in _DTYPES:
        raise GraphError(f"{str(name)[:40]!r} is no dtype of numbers")
    return np.dtype(name)


class _Ref:
    """An input of an operation that is a value of another node."""

    def __init__(self, reference):
        self.node, self.index = reference


# ---------------------------------------------------------------------- control flow, checks


def _cond(pred, *arrays, true, false, split):
    if bool(np.asarray(pred).reshape(())):
        return true.run(arrays[:split])[0]
    return false.run(arrays[split:])[0]


def _while_loop(*arrays, cond, body, count, split, limit, stacked=None, padded=()):
    state = list(arrays[:count])
    for_cond, for_body = list(arrays[count : count + split]), list(arrays[count + split :])
    rounds, rows = 0, []
    while (limit is None or rounds < limit) and bool(
        np.asarray(cond.run(state + for_cond)[0][0]).reshape(())
    ):
        results = body.run(state + for_body)[0]
        state = results[:count]
        rows.append(results[count:])
        rounds += 1
    if stacked is None:
        return state
    return (*state, *_stack(rows, body, count, padded), np.asarray(rounds, np.int32))


def _scan(steps, *arrays, body, count, fed, reverse=False, length=None, padded=()):
    n = int(np.asarray(steps).reshape(()))
    state, stacks = list(arrays[:count]), arrays[count : count + fed]
    constants = list(arrays[count + fed :])
    rows = [None] * n
    for i in range(n - 1, -1, -1) if reverse else range(n):
        results = body.run([*state, *[x[i] for x in stacks], *constants])[0]
        state, rows[i] = results[:count], results[count:]
    return (*state, *_stack(rows, body, count, padded))


def _stack(rows, body, count, padded):
    """What the rounds of a loop gave beyond its variables, each stacked."""
    columns = []
    for k, (shape, dtype) in enumerate(body.results()[count:]):
        column = [np.asarray(row[k]) for row in rows]
        if not column:
            columns.append(np.zeros((0, *(n or 0 for n in shape)), dtype))
            continue
        dims = np.max([y.shape for y in column], axis=0).astype(int) if k in padded else None
        if dims is not None and len(dims):
            column = [
                np.pad(y, [(0, m - n) for m, n in zip(dims, y.shape, strict=True)]) for y in column
            ]
        columns.append(np.stack(column))
    return columns


def _print(*values, template):
    if not isinstance(template, tuple):
        raise GraphError("no template of print")
    parts, sep, end, stream, _ = template
    left = iter(values)
    print(sep.join(_shown(part, left) for part in parts), end=end, file=getattr(sys, stream))
    return ()


def _shown(part, values):
    """A part of a print, values as NumPy shows them."""
    if part is _HOLE:
        return str(next(values))
    if isinstance(part, dict):
        return "{" + ", ".join(f"{k!r}: {_shown(v, values)}" for k, v in part.items()) + "}"
    if isinstance(part, (list, tuple)):
        return "[" + ", ".join(_shown(item, values) for item in part) + "]"
    return str(part)


def _ensure_shape(x, shape, variable=""):
    if x.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, x.shape, strict=True)):
        needs = f"variable {variable!r} has" if variable else "needed is"
        raise GraphError(f"{needs} shape {tuple(shape)}, the value has {x.shape}")
    return x


# ---------------------------------------------------------------------- what bodies take
#
# The bodies are trainkit's own, copied by a script; these stand for what they take of trainkit.


class _ElementType:
    """What bodies ask of a dtype, given by name or as NumPy's."""

    def __init__(self, dtype):
        self.dtype = dtype if isinstance(dtype, np.dtype) else _dtype(dtype)
        self.name, self.size = self.dtype.name, self.dtype.itemsize
        kinds = (self.dtype.kind in letters for letters in ("f", "c", "iu", "b"))
        self.is_floating, self.is_complex, self.is_integer, self.is_bool = kinds

    @property
    def limits(self):
        """The least and the greatest number."""
        if self.is_bool:
            return False, True
        facts, kind = (np.finfo, float) if self.is_floating else (np.iinfo, int)
        return kind(facts(self.dtype).min), kind(facts(self.dtype).max)

    @property
    def min(self):
        """The least number."""
        return self.limits[0]

    @property
    def max(self):
        """The greatest number."""
        return self.limits[1]


_FLOAT32, _FLOAT16 = _ElementType("float32"), _ElementType("float16")
_BFLOAT16 = _ElementType(np.dtype("V2"))  # which no array has: it is computed in float32
_GREATEST = {np.dtype(t): float(np.finfo(t).max) for t in (np.float16, np.float32, np.float64)}
_Spec = namedtuple("_Spec", "shape dtype")
_Part = namedtuple("_Part", "first size total blocks", defaults=(1,))


class _DefaultFloat(threading.local):
    """The float that whole numbers become: the one that a result is said to have."""

    name = "float32"


_DEFAULT_FLOAT = _DefaultFloat()


def _floatx():
    return _DEFAULT_FLOAT.name


def _cast_array(x, dtype):
    return x.astype(dtype, copy=False)


def _make(key, make):
    return make()


def _part_of(dims, rows):
    """All elements of a draw."""
    if rows is not None:
        raise GraphError(
            "random numbers are drawn for one replica of several; save a function that was "
            "traced outside of a strategy"
        )
    count = math.prod(dims)
    return _Part(0, count, count)


# ---------------------------------------------------------------------- by hand


def _view(x, dtype):
    """The same bytes as numbers of another type; the last axis grows or shrinks with it."""
    if dtype == "bfloat16":
        raise GraphError("bytes can't be viewed as bfloat16, which this reader has no type for")
    return np.ascontiguousarray(x).reshape(x.shape).view(_dtype(dtype))


_OF_ARRAYS = frozenset(
    """biased_gelu softmax log_softmax concatenate stack matmul dense einsum conv max_pool
average_pool fused_normalization standardized attention lstm gru embedding_lookup conv_transpose
int8_product sparsemax searchsorted""".split()
)
"""Operations for which a number would be stretched where trainkit wants an array."""

OPERATIONS: dict[str, typing.Any] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "scan": _scan,
    "print": _print,
    "ensure_shape": _ensure_shape,
    "view": _view,
    "all_finite": lambda *xs: np.bool_(all(np.isfinite(x).all() for x in xs)),
}
"""What this reader computes, by the names of operations; others are refused.

These are by hand: the first three run graphs of this file, what is printed is no object of
trainkit, shapes have no class here, and there is neither bfloat16 nor a GPU.
"""

# ====== written by `python -m tests.saved_graph.write_reader`, from here


# core.cpu.cost_model
_CACHE_LINE = 64
_LINE_FLOATS = _CACHE_LINE // 4
_FIRST_CACHE = 32 << 10
_SECOND_CACHE = 512 << 10
_THIRD_CACHE = 8 << 20
_FIRST_FLOATS, _THIRD_FLOATS = _FIRST_CACHE // 4, _THIRD_CACHE // 4
_CACHED_BYTES = _SECOND_CACHE // 2
_BYTE_NANOSECONDS = 0.03
_FUNCTION_NANOSECONDS = 5.0
_CALL_FLOATS = 1 << 12

# core.dispatch.eager
_MOST_BY_DOT = _CALL_FLOATS


# core.dtypes
def _widen_halves(x):
    return _cast_array(x, _FLOAT32.dtype) if x is not None and x.dtype.itemsize < 4 else x


def _refuse_complex(x):
    if x.dtype.kind == "c":
        raise GraphError(
            f"the function is one of real numbers, the input has dtype {x.dtype}; call it on "
            "tk.math.real(x) or tk.math.imag(x), or on tk.abs(x)"
        )
    return x


def _real_floats(x):
    return _widen_halves(_refuse_complex(x))


def _sort_keys(x):
    return _cast_array(x, _FLOAT32.dtype) if x.dtype == _BFLOAT16.dtype else x


# core.rng
_WORDS_PER_BLOCK = 4
_WORD_BITS = (1 << 64) - 1


def _bits(key, counter, count):
    # NumPy steps its counter before the first block, so that block 0 is at counter -1.
    start = (counter - 1) % (1 << 256)
    source = np.random.Philox(key=key % (1 << 128), counter=_words(start, 4))
    return source.random_raw(count)


def _words(number, count):
    return np.array([(number >> (64 * i)) & _WORD_BITS for i in range(count)], np.uint64)


# core.fingerprints
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_MURMUR = 0xC6A4A7935BD1E995
_START = 0xDECAFCAFFE


def _fingerprint64(text):

    def word(at, count=8):
        return int.from_bytes(text[at : at + count], "little")

    for longest, formula in _FORMULAS:
        if len(text) <= longest:
            return int(formula(word, len(text))) & _WORD_BITS
    return _of_many(text)


def _word(text, at):
    return int.from_bytes(text[at : at + 8], "little")


def _turn(x, right):
    x = x & _WORD_BITS
    return x >> right | x << (64 - right) & _WORD_BITS


def _mix(x):
    x = x & _WORD_BITS
    return x ^ x >> 47


def _join(u, v, factor):
    a = _mix((u ^ v) * factor)
    return _mix((v ^ a) * factor) * factor & _WORD_BITS


def _of_few(word, n):
    y, z = word(0, 1) + (word(n >> 1, 1) << 8), n + (word(n - 1, 1) << 2)
    return _mix(y * _K2 ^ z * _K0) * _K2


def _of_4_to_7(word, n):
    return _join(n + (word(0, 4) << 3), word(n - 4, 4), _K2 + 2 * n)


def _of_8_to_16(word, n):
    factor = _K2 + 2 * n
    a, b = word(0) + _K2, word(n - 8)
    return _join(_turn(b, 37) * factor + a, (_turn(a, 25) + b) * factor, factor)


def _of_17_to_32(word, n):
    factor = _K2 + 2 * n
    return _join(*_ends(word, n, _K1, factor), factor)


def _of_33_to_64(word, n):
    factor = _K2 + 2 * n
    y, last = _ends(word, n, _K2, factor)
    z = _join(y, last, factor)
    e, f = word(16) * factor, word(24)
    g, h = (y + word(n - 32)) * factor, (z + word(n - 24)) * factor
    a = word(0) * _K2
    return _join(_turn(e + f, 43) + _turn(g, 30) + h, e + _turn(f + a, 18) + g, factor)


def _of_none(word, n):
    return _K2


_FORMULAS = (
    (0, _of_none), (3, _of_few), (7, _of_4_to_7), (16, _of_8_to_16), (32, _of_17_to_32),
    (64, _of_33_to_64),
)  # fmt: skip


def _ends(word, n, first, factor):
    a, b = word(0) * first, word(8)
    c, d = word(n - 8) * factor, word(n - 16) * _K2
    return _turn(a + b, 43) + _turn(c, 30) + d & _WORD_BITS, a + _turn(b + _K2, 18) + c & _WORD_BITS


def _of_many(text):
    y = 81 * _K1 + 113
    state = (81 * _K2 + _word(text, 0), y, _mix(y * _K2 + 113) * _K2, (0, 0), (0, 0))
    tail_size = (len(text) - 1) & 63
    for at in range(0, len(text) - 1 - tail_size, 64):
        state = _block(state, text, at, _K1, 1)
    x, y, z, v, w = state
    factor = _K1 + ((z & 0xFF) << 1)
    v = (v[0] + w[0] + tail_size, v[1])
    w = (w[0] + tail_size + v[0], w[1])
    x, y, z, v, w = _block((x, y, z, v, w), text, len(text) - 64, factor, 9)
    one, two = _join(v[0], w[0], factor), _join(v[1], w[1], factor)
    return int(_join(one + _mix(y) * _K0 + z, two + x, factor))


def _block(state, text, at, factor, weight):
    x, y, z, v, w = state
    x = _turn(x + y + v[0] + _word(text, at + 8), 37) * factor & _WORD_BITS
    y = _turn(y + v[1] + _word(text, at + 48), 42) * factor & _WORD_BITS
    x ^= w[1] * weight & _WORD_BITS
    y += v[0] * weight + _word(text, at + 40)
    z = _turn(z + w[0], 33) * factor & _WORD_BITS
    v = _halve(text, at, v[1] * factor, x + w[0])
    w = _halve(text, at + 32, z + w[1], y + _word(text, at + 16))
    return z, y & _WORD_BITS, x, v, w


def _halve(text, at, a, b):
    first, second, third, last = (_word(text, at + i) for i in (0, 8, 16, 24))
    a += first
    b, c = _turn(b + a + last, 21), a
    a += second + third
    return a + last & _WORD_BITS, b + _turn(a, 44) + c & _WORD_BITS


def _siphash(text, key):
    a, b = (k & _WORD_BITS for k in key)
    v = [a ^ 0x736F6D6570736575, b ^ 0x646F72616E646F6D,
         a ^ 0x6C7967656E657261, b ^ 0x7465646279746573]  # fmt: skip
    padded = text + bytes(7 - len(text) % 8) + bytes([len(text) & 0xFF])
    for at in range(0, len(padded), 8):
        word = _word(padded, at)
        v[3] ^= word
        _rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xFF
    _rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _rounds(v, count):
    for _ in range(count):
        for i, j, left, turn in ((0, 1, 13, 1), (2, 3, 16, 0), (0, 3, 21, 0), (2, 1, 17, 1)):
            v[i] = v[i] + v[j] & _WORD_BITS
            v[j] = _turn(v[j], 64 - left) ^ v[i]
            if turn:
                v[i] = _turn(v[i], 32)


def _crossed(words):
    h = _START
    for word in words:
        h = (h ^ _MURMUR) ^ _mix((word & _WORD_BITS) * _MURMUR) * _MURMUR & _WORD_BITS
        h = _mix(_mix(h * _MURMUR) * _MURMUR)
    return h


# core.shapes
_ONLY_INTS = frozenset((int,))


def _size_of_shapes(shape):
    return None if None in shape else math.prod(shape)


_MOST_ELEMENTS = 2**47
_CALLS = 4096


def _bounded(op, *dims):
    total = 1
    for n in dims:
        total *= n or 1
    if total > _MOST_ELEMENTS:
        raise GraphError(
            f"{op}: a result of shape {dims} would have {total} elements, more than any memory "
            f"holds ({_MOST_ELEMENTS}); give smaller sizes"
        )


def _canonical_axis(axis, rank, op="operation"):
    try:
        number = axis.__index__()
    except AttributeError:
        raise TypeError(f"{op}: axis must be an integer, got {axis!r}") from None
    if not -rank <= number < rank:
        raise GraphError(
            f"{op}: axis {number} is out of range for a tensor of rank {rank}; "
            f"valid axes are {-rank} to {rank - 1}"
        )
    return number % rank


def _canonical_axes(axis, rank, op="operation"):
    if axis is None:
        return tuple(range(rank))
    if type(axis) is tuple and _ONLY_INTS.issuperset(
        map(type, axis)
    ):  # as nearly all calls have it
        usual = _axes_from_front(axis, rank)
        if usual is not None:
            return usual
    if hasattr(axis, "__index__") and not isinstance(axis, list | tuple):
        return (_canonical_axis(axis, rank, op),)
    axes = tuple(_canonical_axis(a, rank, op) for a in axis)
    if len(set(axes)) != len(axes):
        raise GraphError(f"{op}: axis {tuple(axis)} names an axis twice")
    return axes


@functools.lru_cache(maxsize=_CALLS)
def _axes_from_front(axes, rank):
    if not all(-rank <= axis < rank for axis in axes):
        return None
    from_front = tuple(axis % rank for axis in axes)
    return from_front if len({*from_front}) == len(axes) else None


def _broadcast_dim(a, b):
    if a == b or b == 1:
        yield a
    elif a == 1:
        yield b
    elif a is None or b is None:
        yield a if b is None else b


def _broadcast_dims(*shapes, op="operation"):
    rank = max((len(s) for s in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for i, n in enumerate(shape, rank - len(shape)):
            joined = tuple(_broadcast_dim(result[i], n))
            if not joined:
                listed = ", ".join(str(tuple(s)) for s in shapes)
                raise GraphError(f"{op}: shapes {listed} do not broadcast")
            result[i] = joined[0]
    return tuple(result)


def _reduced_dims(shape, axis, keepdims):
    axes = _canonical_axes(axis, len(shape))
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def _float_dtype(dtype):
    if dtype.is_floating or dtype.is_complex:
        return dtype
    return _ElementType(_floatx())


def _as_float_array(x):
    return x.astype(_ElementType(_floatx()).dtype) if x.dtype.kind in "iub" else x


# graph.control_flow.custom_gradient


def _with_gradient(*arrays, backward, results, sources, given):
    return tuple(arrays[:results])


# graph.control_flow.tensor_array_elements
def _blanks(shape, dtype):
    return np.zeros(shape, dtype)


def _tensor_array_write(buffer, index, value, *, grows):
    i, n = int(index), buffer.shape[0]
    # NumPy takes -1 for the last row; here it is an error, as in TensorFlow.
    if i < 0 or (i >= n and not grows):
        raise GraphError(
            f"TensorArray.write: index {i} is not in [0, {n}); make the array longer, or with "
            "dynamic_size=True"
        )
    if buffer.size and buffer.shape[1:] != value.shape:
        raise GraphError(
            f"TensorArray.write: elements have shape {buffer.shape[1:]}, the value at {i} has "
            f"{value.shape}; all have one shape, with infer_shape=False as well"
        )
    # A copy, as the array before the write stays in use: tapes hold it, and so may the user. Loops
    # over `range` that write row i are rewritten without it, by `loop_to_scan`.
    out = _blanks((max(n, i + 1), *value.shape), buffer.dtype)
    if buffer.size:
        out[:n] = buffer
    out[i, ...] = value  # without the dots a text would be stored as an array of one
    return out


def _tensor_array_without(g, index, like):
    # The buffer before the first write had sizes of 0, so it has nothing to give a gradient for.
    if not like.size:
        return np.zeros(like.shape, g.dtype)
    # A growing array was shorter before. A copy, as others may add up the same gradient.
    out = g[: like.shape[0]].copy()
    if int(index) < len(out):
        out[int(index)] = 0
    return out


def _tensor_array_padded(g, index, like):
    out = np.zeros(like.shape, g.dtype)
    if g.size:
        out[: len(g)] = g
        if int(index) < len(out):
            out[int(index)] = 0
    return out


def _tensor_array_read(buffer, index):
    i = int(index)
    if not 0 <= i < buffer.shape[0]:
        raise GraphError(f"TensorArray.read: index {i} is not in [0, {buffer.shape[0]})")
    # With the dots an element of rank 0 is an array, not a NumPy scalar.
    return buffer[i, ...]


def _tensor_array_placed(g, index, like):
    out = np.zeros(like.shape, g.dtype)
    out[int(index)] = g
    return out


# graph.control_flow.while_loop


def _cut_to_sizes(x, sizes, *, dims):
    return x[tuple(slice(int(n)) for n in sizes)]


def _padded_like(x, like):
    out = np.zeros(like.shape, x.dtype)
    out[tuple(map(slice, x.shape))] = x
    return out


# kernels.attention.attention_reference
_MOST_SCORES = _THIRD_CACHE // 8


def _pieces(q, k):
    each = max(1, q.shape[1] * q.shape[2] * k.shape[1])
    count = max(1, _MOST_SCORES // each)
    return [slice(i, i + count) for i in range(0, max(1, len(q)), count)]


def _of(mask, piece):
    return mask if mask is None or len(mask) == 1 else mask[piece]


def _by_head(x, heads):
    group = heads // x.shape[2]
    x = x.transpose(0, 2, 1, 3)
    return x if group == 1 else x.repeat(group, axis=1)


def _shares(q, k, mask, scale, causal):
    s = np.matmul(q * q.dtype.type(scale), k.swapaxes(2, 3))
    if not s.shape[3]:  # without sources there is no greatest score
        return s
    if causal:
        causal_mask = np.tril(np.ones(s.shape[2:], bool))
        mask = causal_mask if mask is None else mask & causal_mask
    if mask is not None:
        s = np.where(mask, s, s.dtype.type(-np.inf))
    top = s.max(axis=-1, keepdims=True)
    s -= np.where(top == -np.inf, top.dtype.type(0), top)
    s = np.exp(s, out=s)
    total = s.sum(axis=-1, keepdims=True)
    s /= np.where(total == 0, total.dtype.type(1), total)
    return s


def _attention_of_attention_reference(q, k, v, mask, scale, causal):
    y = np.empty((*q.shape[:3], v.shape[3]), q.dtype)
    heads = q.shape[2]
    for piece in _pieces(q, k):
        one, two, values = (_by_head(x[piece], heads) for x in (q, k, v))
        p = _shares(one, two, _of(mask, piece), scale, causal)
        y[piece] = np.matmul(p, values).transpose(0, 2, 1, 3)
    return y


def _attention_gradient_of_attention_reference(g, q, k, v, mask, scale, causal):
    results = tuple(np.empty(x.shape, x.dtype) for x in (q, k, v))
    for piece in _pieces(q, k):
        inputs = tuple(x[piece] for x in (g, q, k, v))
        gradients = _gradient(inputs, _of(mask, piece), scale, causal)
        for result, part in zip(results, gradients, strict=True):
            result[piece] = _summed(part, result.shape[2])
    return results


def _gradient(inputs, mask, scale, causal):
    g, q, k, v = (_by_head(x, inputs[1].shape[2]) for x in inputs)
    p = _shares(q, k, mask, scale, causal)
    by_v = np.matmul(p.swapaxes(2, 3), g)
    grads = np.matmul(g, v.swapaxes(2, 3))
    grads *= p
    grads -= p * grads.sum(axis=-1, keepdims=True)
    grads *= grads.dtype.type(scale)
    return np.matmul(grads, k), np.matmul(grads.swapaxes(2, 3), q), by_v


def _summed(x, heads):
    batch, every, length, size = x.shape
    if every != heads:
        x = x.reshape(batch, heads, every // heads, length, size).sum(axis=2)
    return x.transpose(0, 2, 1, 3)


# kernels.coding.beam_search
def _log_sum(a, b):
    low, high = (a, b) if a < b else (b, a)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


def _best_labels(chances, blank, width):
    # prefix -> log chance of its paths that end in a blank, and of those that end in its last label
    beams = {(): (0.0, -math.inf)}
    for step in chances.tolist():
        grown = {}
        for prefix, (in_blank, in_label) in beams.items():
            either = _log_sum(in_blank, in_label)
            _put(grown, prefix, either + step[blank], -math.inf)
            for label, score in enumerate(step):
                if label == blank:
                    continue
                if prefix and label == prefix[-1]:
                    _put(grown, prefix, -math.inf, in_label + score)
                    _put(grown, (*prefix, label), -math.inf, in_blank + score)
                else:
                    _put(grown, (*prefix, label), -math.inf, either + score)
        beams = dict(sorted(grown.items(), key=lambda item: -_log_sum(*item[1]))[:width])
    return [(prefix, _log_sum(*both)) for prefix, both in beams.items()]


def _put(beams, prefix, in_blank, in_label):
    before = beams.get(prefix, (-math.inf, -math.inf))
    beams[prefix] = _log_sum(before[0], in_blank), _log_sum(before[1], in_label)


# kernels.convolution.sliding_windows
def _reach(window, dilation):
    return (window - 1) * dilation + 1


def _output_size(size, window, stride, pad, dilation=1):
    if pad == "same":
        return -(-size // stride)
    before, after = (0, 0) if pad == "valid" else pad
    return (size + before + after - _reach(window, dilation)) // stride + 1


def _pad_pair(size, window, stride, pad, dilation=1):
    if pad == "valid":
        return (0, 0)
    if pad != "same":
        return (pad[0], pad[1])
    # The window that reaches farthest is the last one, so only its end needs padding.
    count = -(-size // stride)
    total = max((count - 1) * stride + _reach(window, dilation) - size, 0)
    return (total // 2, total - total // 2)


def _per_axis(padding, rank):
    return (padding,) * rank if isinstance(padding, str) else tuple(padding)


class _Windows:
    __slots__ = (
        "_facts", "_fits", "dilation", "out", "padded", "pads", "sizes", "strides", "window",
    )  # fmt: skip

    def __init__(self, sizes, window, strides, padding, dilation):
        axes = list(
            zip(sizes, window, strides, _per_axis(padding, len(window)), dilation, strict=True)
        )
        self.sizes, self.window = tuple(sizes), tuple(window)
        self.strides, self.dilation = tuple(strides), tuple(dilation)
        self.out = tuple(_output_size(*axis) for axis in axes)
        self.pads = tuple(_pad_pair(*axis) for axis in axes)
        self.padded = tuple(n + a + b for n, (a, b) in zip(self.sizes, self.pads, strict=True))
        self._facts = self.sizes, self.window, self.strides, self.pads, self.dilation, self.out
        self._fits = all(
            min(s, d) > 0 and (n - 1) * s + _reach(k, d) <= m
            for n, s, k, d, m in zip(
                self.out, self.strides, self.window, self.dilation, self.padded, strict=True
            )
        )

    def __eq__(self, other):
        return isinstance(other, _Windows) and self._facts == other._facts

    def __hash__(self):
        return hash(self._facts)

    @property
    def has_padding(self):
        return self.padded != self.sizes

    def pad(self, x, value=0):
        if not self.has_padding:
            return x
        shape = (x.shape[0], *self.padded, x.shape[-1])
        result = np.full(shape, value, x.dtype) if value else np.zeros(shape, x.dtype)
        result[self.interior] = x
        return result

    @property
    def overlap(self):
        return any(
            _reach(n, d) > s
            for n, s, d in zip(self.window, self.strides, self.dilation, strict=True)
        )

    @property
    def tiles(self):
        sizes = tuple(n * k for n, k in zip(self.out, self.window, strict=True))
        # Dilated windows leave elements out, unless they have a single one.
        dense = all(d == 1 or k == 1 for d, k in zip(self.dilation, self.window, strict=True))
        return dense and self.strides == self.window and self.padded == sizes

    @property
    def pointwise(self):
        return not self.has_padding and all(n == 1 for n in self.window)

    @property
    def interior(self):
        spatial = tuple(slice(a, a + n) for n, (a, _) in zip(self.sizes, self.pads, strict=True))
        return (slice(None), *spatial)

    def view(self, padded):
        batch, *space, channel = padded.strides
        moved = [s * n for s, n in zip(space, self.strides, strict=True)]
        inside = [s * n for s, n in zip(space, self.dilation, strict=True)]
        # A view that reaches beyond the array would read whatever lies there.
        if padded.shape[1:-1] != self.padded or not self._fits:
            raise ValueError(
                f"windows {self.window} by {self.strides}, elements {self.dilation} apart, do not "
                f"fit an array of sizes {padded.shape[1:-1]}"
            )
        return np.lib.stride_tricks.as_strided(
            padded,
            shape=(padded.shape[0], *self.out, *self.window, padded.shape[-1]),
            strides=(batch, *moved, *inside, channel),
        )

    def offset(self, position):
        spatial = tuple(
            # The end is right behind the last element: a later one may be outside of the array.
            slice(p * d, p * d + (n - 1) * s + 1, s)
            for p, d, n, s in zip(position, self.dilation, self.out, self.strides, strict=True)
        )
        return (slice(None), *spatial)


_placed = functools.lru_cache(maxsize=_CALLS)(_Windows)

# kernels.convolution.conv_reference
_COLUMN_BYTES = _CACHED_BYTES


def _sum_dtype(dtype):
    return np.dtype(np.float32) if dtype.itemsize < 4 and dtype.kind in "fV" else dtype


def _factor(dtype):
    return _sum_dtype(dtype)


def _chunks(batch, bytes_each):
    # On a GPU each part would be several launches, so all images are one part.
    step = max(1, _COLUMN_BYTES // max(bytes_each, 1))
    for start in range(0, batch, max(step, 1)):
        yield slice(start, min(start + step, batch))


def _windows_of(w, x):
    room = []  # the first part with padding, which is the largest, and its windows
    has_padding, interior = w.has_padding, w.interior

    def windows(part):
        # Padding stays zero from one part to the next, so only the inside is copied again.
        if not room:
            room.append(w.pad(x[part]) if has_padding else x)
            room.append(w.view(room[0]))
        elif has_padding:
            room[0][: part.stop - part.start][interior] = x[part]
        return room[1][: part.stop - part.start] if has_padding else room[1][part]

    return windows


def _columns(w, windows, group):
    view = windows[..., group]
    rows = view.shape[0] * math.prod(w.out)
    inside = view.shape[-1]
    is_short = _run(w, inside, windows.shape[-1]) < _LINE_FLOATS
    if not _is_pointwise(w) and is_short:
        # Copied by columns, each copy runs along the image, which is long where windows are narrow.
        # The transpose is a view, and BLAS takes either order.
        axes = range(view.ndim)
        outer = 1 + len(w.window)
        column_by_column = view.transpose(*axes[outer:], *axes[:outer])
        return column_by_column.reshape(math.prod(w.window) * inside, rows).T
    return view.reshape(rows, math.prod(w.window) * inside)


def _run(w, inside, channels):
    together = inside == channels and w.dilation[-1] == 1
    return inside * w.window[-1] if together else inside


def _all_columns(w, x, part, groups, windows_of):
    windows = None
    for group in groups:
        columns = None
        if columns is None:
            # The view serves all groups of channels, but not beyond this part.
            windows = windows_of(part) if windows is None else windows
            columns = _columns(w, windows, group)
        yield columns


def _is_pointwise(w):
    return math.prod(w.window) == 1 and math.prod(w.strides) == 1 and not w.has_padding


def _groups(kernel, groups):
    inside, filters = kernel.shape[-2], kernel.shape[-1] // groups
    for i in range(groups):
        yield slice(i * inside, (i + 1) * inside), slice(i * filters, (i + 1) * filters)


def _conv_of_conv_reference(w, x, kernel, groups, finish=lambda y: y):
    dtype = x.dtype
    by_channel = groups > 1 and kernel.shape[-2] == 1
    worked = _sum_dtype(dtype) if by_channel else _factor(dtype)
    x, kernel = x.astype(worked, copy=False), kernel.astype(worked, copy=False)
    y = np.empty((x.shape[0], *w.out, kernel.shape[-1]), worked)
    if by_channel:
        _depthwise(w, x, kernel, y)
        return finish(y.astype(dtype, copy=False))
    elements = math.prod(w.window)
    each = math.prod(w.out) * elements * kernel.shape[-2] * x.itemsize
    at_once = worked != dtype
    parts = list(_groups(kernel, groups))
    inputs, windows_of = [inside for inside, _ in parts], _windows_of(w, x)
    for part in _chunks(x.shape[0], each):
        made_columns = _all_columns(w, x, part, inputs, windows_of)
        for (_, filters), columns in zip(parts, made_columns, strict=True):
            matrix = kernel[..., filters].reshape(columns.shape[1], -1)
            if groups == 1:
                # Without groups a part of the result is contiguous, and the product goes straight
                # there.
                np.matmul(columns, matrix, out=y[part].reshape(-1, kernel.shape[-1]))
            else:
                sums = np.matmul(columns, matrix)
                y[part][..., filters] = sums.reshape(*y[part].shape[:-1], -1)
        # While it is in the cache. Short floats are rounded first, so they wait for the end.
        if not at_once:
            finish(y[part])
    return finish(y.astype(dtype, copy=False)) if at_once else y


def _conv_input_gradient_of_conv_reference(w, g, kernel, groups):
    dtype = g.dtype
    by_channel = groups > 1 and kernel.shape[-2] == 1
    sum_dtype = _sum_dtype(dtype)
    worked = sum_dtype if by_channel else _factor(dtype)
    g, kernel = g.astype(worked, copy=False), kernel.astype(worked, copy=False)
    channels = kernel.shape[-2] * groups
    if not by_channel:
        # The gradient is a convolution with the turned kernel. It copies windows of the outputs, so
        # it is for kernels that do not have far more filters than channels.
        around = _windows_back(w)
        if around is not None and kernel.shape[-1] <= 2 * channels:
            return _conv_of_conv_reference(
                around, g, _turn_of_conv_reference(kernel, groups), groups
            ).astype(dtype, copy=False)
    result = np.empty((g.shape[0], *w.sizes, channels), sum_dtype)
    if by_channel:
        _depthwise_back(w, g, kernel, result)
        return result.astype(dtype, copy=False)
    elements = math.prod(w.window)
    each = math.prod(w.out) * elements * kernel.shape[-2] * g.itemsize
    for part in _chunks(g.shape[0], each):
        for inputs, filters in _groups(kernel, groups):
            matrix = kernel[..., filters].reshape(elements * kernel.shape[-2], -1)
            rows = g[part][..., filters].reshape(-1, matrix.shape[1])
            columns = np.matmul(rows, matrix.T)
            # Overlapping windows are summed in float32, and the sum is rounded once, as one product
            # would.
            columns = columns.astype(sum_dtype, copy=False)
            if _is_pointwise(w):
                result[part][..., inputs] = columns.reshape(*g[part].shape[:-1], -1)
                continue
            columns = columns.reshape(-1, *w.out, *w.window, kernel.shape[-2])
            result[part][..., inputs] = _summed_windows(w, columns)
    return result.astype(dtype, copy=False)


def _windows_back(w):
    reaches = [_reach(k, d) - 1 for k, d in zip(w.window, w.dilation, strict=True)]
    around = [(r - a, r - b) for r, (a, b) in zip(reaches, w.pads, strict=True)]
    if max(w.strides) > 1 or min(map(min, around)) < 0:
        return None
    return _placed(w.out, w.window, w.strides, tuple(around), w.dilation)


def _turn_of_conv_reference(kernel, groups):
    rank = kernel.ndim - 2
    # The first window that covers an input sees it under its last offset, the last one under its
    # first, so offsets come in falling order.
    turned = kernel[(slice(None, None, -1),) * rank]
    parted = turned.reshape(*kernel.shape[:-1], groups, -1)
    back = parted.transpose(*range(rank), rank + 2, rank + 1, rank)
    return back.reshape(*kernel.shape[:rank], kernel.shape[-1] // groups, -1)


def _summed_windows(w, columns):
    rank = len(w.window)
    padded = np.zeros((columns.shape[0], *w.padded, columns.shape[-1]), columns.dtype)
    outs = (slice(None),) * (rank + 1)
    for position in itertools.product(*map(range, w.window)):
        padded[w.offset(position)] += columns[(*outs, *position)]
    return padded[w.interior]


def _conv_kernel_gradient_of_conv_reference(w, x, g, groups):
    dtype = x.dtype
    inside = x.shape[-1] // groups
    by_channel = groups > 1 and inside == 1
    worked = _sum_dtype(dtype) if by_channel else _factor(dtype)
    x, g = x.astype(worked, copy=False), g.astype(worked, copy=False)
    result = np.zeros((*w.window, inside, g.shape[-1]), worked)
    if by_channel:
        _depthwise_kernel(w, x, g, result)
        return result.astype(dtype, copy=False)
    elements = math.prod(w.window)
    parts = list(_groups(result, groups))
    inputs, windows_of = [channels for channels, _ in parts], _windows_of(w, x)
    for part in _chunks(x.shape[0], math.prod(w.out) * elements * inside * x.itemsize):
        made_columns = _all_columns(w, x, part, inputs, windows_of)
        for (_, filters), columns in zip(parts, made_columns, strict=True):
            matrix = g[part][..., filters].reshape(columns.shape[0], -1)
            partial_gradient = np.matmul(columns.T, matrix).reshape(*w.window, inside, -1)
            result[..., filters] += partial_gradient
    return result.astype(dtype, copy=False)


def _multiply(kernel, channels):
    return kernel.reshape(*kernel.shape[:-2], channels, -1)


def _depthwise(w, x, kernel, y):
    padded = w.pad(x)
    weights = _multiply(kernel, x.shape[-1])
    # Offset by offset for all channels at once: a matrix product for each would be a tiny one.
    total = y.reshape(*y.shape[:-1], *weights.shape[-2:])
    total[...] = 0
    for position in itertools.product(*map(range, w.window)):
        total += padded[w.offset(position)][..., None] * weights[position]


def _add_up(x, axis):
    return np.add.reduce(x, axis)


def _depthwise_back(w, g, kernel, result):
    weights = _multiply(kernel, result.shape[-1])
    by_multiplier = g.reshape(*g.shape[:-1], *weights.shape[-2:])
    padded = np.zeros((g.shape[0], *w.padded, result.shape[-1]), g.dtype)
    for position in itertools.product(*map(range, w.window)):
        padded[w.offset(position)] += _add_up(by_multiplier * weights[position], -1)
    result[...] = padded[w.interior]


def _depthwise_kernel(w, x, g, result):
    padded = w.pad(x)
    channels = x.shape[-1]
    by_multiplier = g.reshape(*g.shape[:-1], channels, -1)
    outer = tuple(range(by_multiplier.ndim - 2))
    for position in itertools.product(*map(range, w.window)):
        inputs = padded[w.offset(position)][..., None]
        result[(*position, 0)] = _add_up(inputs * by_multiplier, outer).reshape(-1)


# kernels.elementwise.elementwise_reference
_TANH_SCALE, _CUBIC = math.sqrt(2 / math.pi), 0.044715
_DENSITY = 1 / math.sqrt(2 * math.pi)
_ERF_TOP = (
    1.986648191844802e-06, 0.00028455542942285256, 0.003883339700814107,
    0.05310175418127554, 0.1935464549078571, 1.1283791394067937,
)  # fmt: skip
_ERF_BOTTOM = (
    3.741820720134403e-05, 0.001185549400101956, 0.015207271334095171,
    0.11535041196506143, 0.5048586373291866, 1.0,
)  # fmt: skip
_MILLS_TOP = (
    2.1165280294169975e-07, 0.014576691117281501, 0.10857582039537265,
    0.34170183700256435, 0.4999999286043085,
)  # fmt: skip
_MILLS_BOTTOM = (
    0.03656405080589212, 0.2716341301620386, 0.8991085342080644, 1.481280571431044, 1.0,
)  # fmt: skip


def _relu(x):
    return np.maximum(x, 0)


def _relu6(x):
    return np.minimum(np.maximum(x, 0), 6)


def _relu_gradient(g, y):
    return g * (y > 0)


def _leaky_relu_of_elementwise_reference(x, *, negative_slope):
    return np.maximum(x, x * negative_slope)


def _clip_of_elementwise_reference(x, *, x_min, x_max):
    return np.minimum(np.maximum(x, x_min), x_max)


def _soft_shrink(x, *, threshold):
    return np.where(x > threshold, x - threshold, np.where(-x > threshold, x + threshold, 0))


def _hard_shrink(x, *, threshold):
    return np.where(np.abs(x) > threshold, x, 0)


def _sparse_plus(x):
    bend = 0.25 * (x + 1) * (x + 1)
    return np.where(x >= 1, x, np.where(x <= -1, 0, bend))


def _huber_penalty(x, *, delta):
    size = np.abs(x)
    bounded = np.minimum(size, delta)
    return bounded * (size - 0.5 * bounded)


def _nan_to_num(x, *, nan, posinf, neginf):
    finite_above = np.where(x == -np.inf, neginf, x)
    return np.where(np.isnan(x), nan, np.where(x == np.inf, posinf, finite_above))


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _hard_sigmoid(x):
    return np.minimum(np.maximum(x / 6 + 0.5, 0), 1)


def _hard_silu(x):
    return x * _hard_sigmoid(x)


def _hard_silu_gradient(g, x):
    rise = np.where(x > -3, np.where(x < 3, x * (1 / 6), 0), 0)
    return g * (_hard_sigmoid(x) + rise)


def _softplus_of_elementwise_reference(x):
    # NumPy's logaddexp takes ten times as long on large arrays.
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _silu(x):
    return x / (1 + np.exp(-x))


def _silu_gradient(g, x):
    s = _sigmoid(x)
    return g * (s * (1 + x * (1 - s)))


def _inverse_gate(x, squared):
    return 1 + np.exp(x * (squared * (-2 * _TANH_SCALE * _CUBIC) - 2 * _TANH_SCALE))


def _gelu_tanh_of_elementwise_reference(x):
    return x / _inverse_gate(x, x * x)


def _gelu_tanh_gradient_of_elementwise_reference(g, x):
    squared = x * x
    s = 1 / _inverse_gate(x, squared)
    slope = squared * (6 * _TANH_SCALE * _CUBIC) + 2 * _TANH_SCALE
    return g * (s * (1 + x * slope * (1 - s)))


_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def _elu_gradient(g, x, *, alpha):
    slope = np.exp(np.minimum(x, 0)) * alpha
    return np.where(x > 0, g, g * slope).astype(g.dtype, copy=False)  # CuPy's bfloat16 is wider


def _selu(x):
    below = (_SELU_SCALE * _SELU_ALPHA) * np.expm1(np.minimum(x, 0))
    return _SELU_SCALE * np.maximum(x, 0) + below


def _selu_gradient(g, x):
    below = np.exp(np.minimum(x, 0)) * (_SELU_SCALE * _SELU_ALPHA)
    return np.where(x >= 0, g * _SELU_SCALE, g * below).astype(g.dtype, copy=False)


def _rsqrt(x):
    return 1 / np.sqrt(x)


def _polynomial(coefficients, x):
    value = x * coefficients[0]
    value += coefficients[1]
    for c in coefficients[2:]:
        value *= x
        value += c
    return value


def _ratio(top, bottom, x):
    value = _polynomial(top, x)
    value /= _polynomial(bottom, x)
    return value


def _erf_of_elementwise_reference(x):
    x = np.clip(x, -4, 4)  # NumPy's maximum and minimum take six times as long
    value = _ratio(_ERF_TOP, _ERF_BOTTOM, x * x)
    value *= x
    return np.clip(value, -1, 1)


def _mills_ratio(t):
    return _ratio(_MILLS_TOP, _MILLS_BOTTOM, t)


class _NormalTail(typing.NamedTuple):
    farthest: object
    gap: object
    slope: object


def _tail_by_mills_ratio(bell, farthest):
    return _NormalTail(
        farthest,
        lambda t: t * _mills_ratio(t) * bell(t),
        lambda t: (_mills_ratio(t) - t * _DENSITY) * bell(t),
    )


def _tail_by_erfc(erfc):

    def share(t):
        value = erfc(t * math.sqrt(0.5))
        value *= 0.5
        return value

    def gap(t):
        value = share(t)
        value *= t
        return value

    def slope(t):
        value = share(t)
        value -= t * np.exp(t * t * -0.5) * _DENSITY
        return value

    return _NormalTail(39.0, gap, slope)


def _choose(condition, x, y):
    # By bits: NumPy's `where` branches, and takes as long as ten functions where signs are mixed.
    bits, others = (a.view(f"i{a.itemsize}") for a in (x, y))
    bits ^= others
    bits *= condition
    bits ^= others
    return x


def _gelu_erf_of_elementwise_reference(x, tail):
    below = tail.gap(np.clip(np.abs(x), -math.inf, tail.farthest))
    return _choose(x >= 0, x - below, -below)


def _gelu_erf_gradient_of_elementwise_reference(g, x, tail):
    slope = tail.slope(np.clip(np.abs(x), -math.inf, tail.farthest))
    return g * _choose(x >= 0, 1 - slope, slope)


# kernels.embedding.scatter_reference
def _scatter_at(name, out, index, values):
    ufunc = getattr(np, name)
    positions = _flat_positions(out, index)
    if positions is None:
        ufunc.at(out, index, values)
    else:  # several times as fast, and each number meets its values in the same order
        picked = np.broadcast_to(values, positions.shape)
        ufunc.at(out.reshape(-1), positions.reshape(-1), picked.reshape(-1))


def _all_inside(ids, count):
    if ids.dtype.kind == "i":  # negative ones stand above all others, so one pass finds both kinds
        ids = ids.view(f"u{ids.dtype.itemsize}")
    return not ids.size or bool(ids.max() < count)


def _flat_positions(out, index):
    parts = [np.asarray(part) for part in (index if isinstance(index, tuple) else (index,))]
    if any(part.dtype.kind not in "iu" for part in parts) or not out.size:
        return None
    if not out.flags.c_contiguous or len(parts) > out.ndim:
        return None
    inner_dims = out.shape[len(parts) :]
    if max(part.size for part in parts) * math.prod(inner_dims) < _CALL_FLOATS:
        return None
    positions = np.int64(0)
    for axis, part in enumerate(parts):
        n = out.shape[axis]
        if part.size and (part.min() < -n or part.max() >= n):
            return None
        step = math.prod(out.shape[axis + 1 :])
        positions = positions + np.where(part < 0, part + n, part).astype(np.int64) * step
    rows = np.asarray(positions)
    if not inner_dims:
        return rows
    inner = np.arange(math.prod(inner_dims)).reshape(inner_dims)
    return rows.reshape(rows.shape + (1,) * len(inner_dims)) + inner


# kernels.embedding.row_additions
def _add_rows(out, rows, values, wrap=True):
    len(out)
    _fold_rows("add", out, rows, values)


def _fold_rows(name, out, rows, values):
    rows = np.where(rows < 0, rows + len(out), rows)
    _scatter_at(name, out, rows, values)


# kernels.normalization.norm_reference
def _count(x, axes):
    return math.prod(x.shape[a] for a in axes)


def _statistics(x, axes, centred=True):
    mean = x.mean(axis=axes, keepdims=True)
    if not centred:
        mean = np.zeros_like(mean)
    deviation = x - mean
    variance = np.square(deviation).mean(axis=axes, keepdims=True)
    return deviation, mean, variance


def _apart(deviation, axes, epsilon):
    factor = 1 / np.sqrt(
        np.square(deviation).mean(axis=axes, keepdims=True) + deviation.dtype.type(epsilon)
    )
    return deviation * factor, factor


def _normalized(x, scale, offset, axes, epsilon, centred=True):
    y, mean, variance = _statistics(x, axes, centred)
    factor = 1 / np.sqrt(variance + x.dtype.type(epsilon))
    y *= factor
    if scale is not None:
        y *= scale
    if offset is not None:
        y += offset
    return y, mean, variance


def _normalized_gradient(g, x, scale, by_mean, by_variance, axes, epsilon, centred=True):
    n, _, variance = _statistics(x, axes, centred)
    factor = 1 / np.sqrt(variance + x.dtype.type(epsilon))
    n *= factor
    product = g * n
    h, weighted = (g, product) if scale is None else (g * scale, product * scale)
    grad, level = weighted.mean(axis=axes, keepdims=True), h.mean(axis=axes, keepdims=True)
    if not centred:
        level = np.zeros_like(level)
    count = _count(x, axes)
    if by_mean is not None:
        level = level - by_mean / (factor * count)
    if by_variance is not None:
        grad = grad - 2 * by_variance / (factor * factor * count)
    n *= grad
    n += level
    result = h - n
    result *= factor
    return result, product


# kernels.pooling.pool_reference
def _lowest(dtype):
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    return False if dtype.kind == "b" else -math.inf


def _offsets(w):
    return (w.offset(position) for position in itertools.product(*map(range, w.window)))


def _max_pool_of_pool_reference(w, x):
    padded = w.pad(x, _lowest(x.dtype))
    result = None
    for offset in _offsets(w):
        if result is None:
            result = padded[offset].copy()
        else:
            np.maximum(result, padded[offset], out=result)
    return result


def _max_pool_with_argmax_of_pool_reference(w, x):
    image = np.arange(math.prod(x.shape[1:])).reshape(1, *x.shape[1:])
    padded, indices = w.pad(x, _lowest(x.dtype)), np.asarray(w.pad(image, -1))
    largest = None
    for offset in _offsets(w):
        values, index = (
            padded[offset],
            np.broadcast_to(indices[offset], (len(x), *w.out, image.shape[-1])),
        )
        if largest is None:
            largest, argmax = values.copy(), index.copy()
            continue
        # a window that begins among what is padded has no index until its first element
        is_larger = (values > largest) | ((values != values) & (largest == largest)) | (argmax < 0)
        is_larger &= index >= 0
        np.copyto(largest, values, where=is_larger)
        np.copyto(argmax, index, where=is_larger)
    return largest, argmax


def _rows(array):
    return array.reshape(len(array), math.prod(array.shape[1:]))


def _add_at_argmax(g, argmax, x):
    total = np.zeros(x.shape, np.float32 if g.dtype.itemsize == 2 else g.dtype)
    images = np.arange(len(x))[:, None]
    _scatter_at("add", _rows(total), (images, _rows(argmax)), _rows(g).astype(total.dtype))
    return total.astype(g.dtype, copy=False)


def _take_at_argmax(values, argmax):
    return np.take_along_axis(_rows(values), _rows(argmax), axis=1).reshape(argmax.shape)


def _firsts(w, x, y):
    padded = w.pad(x, _lowest(x.dtype))
    still_open = np.ones(y.shape, bool)
    for offset in _offsets(w):
        is_first = padded[offset] == y
        is_first &= still_open
        still_open ^= is_first
        yield offset, is_first


def _max_pool_gradient_of_pool_reference(w, g, x, y):
    by_bits = g.dtype.itemsize in _BITS
    room = np.empty if by_bits and w.tiles else np.zeros
    total = room((x.shape[0], *w.padded, x.shape[-1]), g.dtype)
    if by_bits:
        _add_at_firsts(w, g, x, y, total)
    else:
        for offset, is_first in _firsts(w, x, y):
            total[offset] += np.where(is_first, g, g.dtype.type(0))
    return np.ascontiguousarray(total[w.interior])


_BITS = {n: np.dtype(f"i{n}") for n in (2, 4, 8)}


def _add_at_firsts(w, g, x, y, total):
    bits = _BITS[g.dtype.itemsize]
    gradient_bits, result = g.view(bits), total.view(bits)
    for offset, is_first in _firsts(w, x, y):
        if w.overlap:
            total[offset] += np.multiply(gradient_bits, is_first, dtype=bits).view(g.dtype)
        else:
            np.multiply(gradient_bits, is_first, out=result[offset])


def _max_pool_pick_of_pool_reference(w, values, x, y):
    padded = w.pad(values)
    result = np.zeros(y.shape, values.dtype)
    for offset, is_first in _firsts(w, x, y):
        np.copyto(result, padded[offset], where=is_first)
    return result


def _counts(w, dtype):
    dtype = np.dtype(dtype)
    key = ("pool counts", w.sizes, w.window, w.strides, w.dilation, w.pads, w.out, dtype)
    return _make(key, lambda: _count_of_pool_reference(w).astype(dtype))


def _count_of_pool_reference(w):
    count = np.ones((*w.out, 1), np.float64)
    for axis, (n, k, s, d, (before, _)) in enumerate(
        zip(w.sizes, w.window, w.strides, w.dilation, w.pads, strict=True)
    ):
        at = np.arange(w.out[axis])[:, None] * s - before + np.arange(k) * d
        inside = ((at >= 0) & (at < n)).sum(axis=1)
        count *= inside.reshape(-1, *(1,) * (count.ndim - 1 - axis))
    return count


def _average_pool_of_pool_reference(w, x):
    padded = w.pad(x)
    total = None
    for offset in _offsets(w):
        if total is None:
            total = padded[offset].copy()
        else:
            total += padded[offset]
    if w.has_padding:
        return total / _counts(w, x.dtype)
    return total * x.dtype.type(1 / math.prod(w.window))


def _average_pool_gradient_of_pool_reference(w, g):
    share = g / _counts(w, g.dtype) if w.has_padding else g * g.dtype.type(1 / math.prod(w.window))
    total = np.zeros((g.shape[0], *w.padded, g.shape[-1]), g.dtype)
    for offset in _offsets(w):
        total[offset] += share
    return np.ascontiguousarray(total[w.interior])


# kernels.recurrent.recurrent_reference
def _before(first, states):
    return np.concatenate([first[:, None], states[:, :-1]], axis=1)


def _rows_of_recurrent_reference(x):
    return x.reshape(-1, x.shape[-1])


def _by_gate(x):
    batch, steps, width = x.shape
    return x.reshape(batch, steps, 4, width // 4).transpose(1, 2, 0, 3)


def _lstm_of_recurrent_reference(projected, h, c, kernel):
    batch, steps, width = projected.shape
    units = width // 4
    gates = np.empty(projected.shape, projected.dtype)
    hidden = np.empty((batch, steps, units), projected.dtype)
    memory = np.empty_like(hidden)
    # sigma(x) = tanh(x / 2) / 2 + 1 / 2, so that all four gates take one tanh
    half = np.full((4, batch, units), 0.5, projected.dtype)
    half[2] = 1
    shift = 1 - half
    products = np.empty((batch, width), projected.dtype)
    z, state, cell = np.empty_like(half), np.empty_like(h), c.copy()
    (i, f, g, o), sums = z, products.reshape(batch, 4, units).swapaxes(0, 1)
    inputs, results = _by_gate(projected), _by_gate(gates)
    for t in range(steps):
        np.matmul(h, kernel, out=products)
        np.add(sums, inputs[t], out=z)
        np.multiply(z, half, out=z)
        np.tanh(z, out=z)
        np.multiply(z, half, out=z)
        np.add(z, shift, out=z)
        results[t] = z
        np.multiply(cell, f, out=cell)
        np.multiply(i, g, out=i)
        np.add(cell, i, out=cell)
        np.tanh(cell, out=state)
        h = np.multiply(state, o, out=state)
        memory[:, t], hidden[:, t] = cell, h
    return hidden, memory, gates


def _lstm_gradient_of_recurrent_reference(
    by_hidden, by_memory, h, c, kernel, hidden, memory, gates
):
    batch, steps, units = hidden.shape
    grads = np.empty(gates.shape, gates.dtype)
    turned = np.ascontiguousarray(kernel.T)
    by_h, by_c = np.zeros_like(h), np.zeros_like(c)
    a, z, complements = (np.empty((4, batch, units), gates.dtype) for _ in range(3))
    squashed, cell, share = (np.empty_like(by_c) for _ in range(3))
    i, f, g, o = a
    cell[...] = memory[:, -1]
    gate_values, results = _by_gate(gates), _by_gate(grads)
    for t in range(steps - 1, -1, -1):
        a[...] = gate_values[t]
        np.subtract(1, a, out=complements)  # times the gate its slope, but that of the tanh
        np.multiply(g, g, out=complements[2])
        np.subtract(1, complements[2], out=complements[2])
        np.add(by_h, by_hidden[:, t], out=by_h)
        np.tanh(cell, out=squashed)
        np.multiply(by_h, squashed, out=z[3])
        np.multiply(squashed, squashed, out=squashed)
        np.subtract(1, squashed, out=squashed)
        np.multiply(by_h, o, out=share)
        np.multiply(share, squashed, out=share)
        np.add(by_c, share, out=by_c)
        if by_memory is not None:
            np.add(by_c, by_memory[:, t], out=by_c)
        np.multiply(by_c, g, out=z[0])
        cell[...] = memory[:, t - 1] if t else c
        np.multiply(by_c, cell, out=z[1])
        np.multiply(by_c, i, out=z[2])
        np.multiply(z[:2], a[:2], out=z[:2])
        np.multiply(z[3], o, out=z[3])
        np.multiply(z, complements, out=results[t])
        np.multiply(by_c, f, out=by_c)
        np.matmul(grads[:, t], turned, out=by_h)
    by_kernel = np.matmul(
        _rows_of_recurrent_reference(_before(h, hidden)).T, _rows_of_recurrent_reference(grads)
    )
    return grads, by_h, by_c, by_kernel


def _gru_of_recurrent_reference(projected, h, kernel, bias, reset_after):
    batch, steps, width = projected.shape
    units = width // 3
    hidden = np.empty((batch, steps, units), projected.dtype)
    gates = np.empty((batch, steps, 4 * units), projected.dtype)
    for t in range(steps):
        inner = np.matmul(h, kernel if reset_after else kernel[:, : 2 * units])
        if bias is not None:
            inner += bias
        both = projected[:, t, : 2 * units] + inner[:, : 2 * units]
        both *= 0.5
        np.tanh(both, out=both)
        both *= 0.5
        both += 0.5
        update, reset = both[:, :units], both[:, units:]
        share = inner[:, 2 * units :] if reset_after else reset * h
        recurrent_part = reset * share if reset_after else np.matmul(share, kernel[:, 2 * units :])
        new = np.tanh(projected[:, t, 2 * units :] + recurrent_part)
        h = new + update * (h - new)
        hidden[:, t] = h
        gates[:, t, : 2 * units] = both
        gates[:, t, 2 * units : 3 * units] = new
        gates[:, t, 3 * units :] = share
    return hidden, gates


def _gru_gradient_of_recurrent_reference(by_hidden, h, kernel, hidden, gates, reset_after):
    gradient_function = _after_gradient if reset_after else _before_gradient
    gradients = gradient_function(by_hidden, h, kernel, hidden, gates)
    return gradients


def _after_gradient(by_hidden, h, kernel, hidden, gates):
    batch, steps, units = hidden.shape
    grads = np.empty((batch, steps, 3 * units), gates.dtype)
    inner = np.empty_like(grads)
    turned = np.ascontiguousarray(kernel.T)
    earlier = _before(h, hidden)
    by_h = np.zeros_like(h)
    for t in range(steps - 1, -1, -1):
        z, r, new, share = (gates[:, t, n * units : (n + 1) * units] for n in range(4))
        by_h = by_h + by_hidden[:, t]
        by_new = by_h * (1 - z) * (1 - new * new)
        grads[:, t, :units] = by_h * (earlier[:, t] - new) * z * (1 - z)
        grads[:, t, units : 2 * units] = by_new * share * r * (1 - r)
        grads[:, t, 2 * units :] = by_new
        inner[:, t, : 2 * units] = grads[:, t, : 2 * units]
        inner[:, t, 2 * units :] = by_new * r
        by_h = by_h * z + np.matmul(inner[:, t], turned)
    by_kernel = np.matmul(
        _rows_of_recurrent_reference(earlier).T, _rows_of_recurrent_reference(inner)
    )
    return grads, by_h, by_kernel, _rows_of_recurrent_reference(inner).sum(axis=0)


def _before_gradient(by_hidden, h, kernel, hidden, gates):
    batch, steps, units = hidden.shape
    grads = np.empty((batch, steps, 3 * units), gates.dtype)
    by_gates, by_new = (
        np.ascontiguousarray(part.T) for part in (kernel[:, : 2 * units], kernel[:, 2 * units :])
    )
    earlier = _before(h, hidden)
    by_h = np.zeros_like(h)
    for t in range(steps - 1, -1, -1):
        z, r, new = (gates[:, t, n * units : (n + 1) * units] for n in range(3))
        by_h = by_h + by_hidden[:, t]
        grads[:, t, 2 * units :] = by_h * (1 - z) * (1 - new * new)
        by_share = np.matmul(grads[:, t, 2 * units :], by_new)
        grads[:, t, :units] = by_h * (earlier[:, t] - new) * z * (1 - z)
        grads[:, t, units : 2 * units] = by_share * earlier[:, t] * r * (1 - r)
        by_h = by_h * z + by_share * r + np.matmul(grads[:, t, : 2 * units], by_gates)
    flat = _rows_of_recurrent_reference(grads)
    parts = [np.matmul(_rows_of_recurrent_reference(earlier).T, flat[:, : 2 * units])]
    parts.append(
        np.matmul(_rows_of_recurrent_reference(gates)[:, 3 * units :].T, flat[:, 2 * units :])
    )
    return grads, by_h, np.concatenate(parts, axis=1), np.zeros(3 * units, gates.dtype)


# kernels.softmax.softmax_reference
def _shifted_powers(x, axis=-1):
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted, np.exp(shifted)


def _softmax_of_softmax_reference(x, axis=-1):
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    powers /= powers.sum(axis=axis, keepdims=True)
    return powers


def _log_softmax_of_softmax_reference(x, axis=-1):
    shifted, powers = _shifted_powers(x, axis)
    shifted -= np.log(powers.sum(axis=axis, keepdims=True))
    return shifted


# kernels.sorting.sort_gpu
def _sorted_last(x):
    return _cast_array(np.sort(_sort_keys(x), axis=-1), x.dtype)


def _stable_order(x):
    return np.argsort(_sort_keys(x), axis=-1, kind="stable")


# kernels.special.chebyshev
def _series_at(coefficients, t):
    twice = 2 * t
    one = two = 0 * t
    for c in reversed(coefficients[1:]):
        one, two = twice * one - two + c, one
    return t * one - two + coefficients[0]


def _series_between(coefficients, low, high, x):
    return _series_at(coefficients, (2 * x - (low + high)) / (high - low))


def _log_above_zero(x):
    return np.log(np.maximum(x, np.finfo(x.dtype).tiny))


# kernels.special.bessel_reference
_LEAST_LARGE = 8.0
_PHASE = math.sqrt(0.5)
_J0_SMALL = (
    0.15772797147489012, -0.008723442352852221, 0.2651786132033368, -0.37009499387264977,
    0.15806710233209725, -0.034893769411408884, 0.004819180069467605, -0.00046062616620627504,
    3.246032882100508e-05, -1.7619469077621507e-06, 7.608163592418782e-08, -2.679253530557673e-09,
    7.848696314479465e-11, -1.9438346867370164e-12, 4.125320595634374e-14, -7.588508125447546e-16,
    1.2218515873961411e-17,
)  # fmt: skip
_J1_SMALL = (
    0.08104484632565812, -0.1489751450676521, 0.1609992623572097, -0.08268049176681791,
    0.022213639654966037, -0.003646940600769276, 0.0004050337728354822, -3.255554866857259e-05,
    1.9858774049915165e-06, -9.521984756750436e-08, 3.687133759097148e-09, -1.178026622695885e-10,
    3.160154580348003e-12, -7.221755239651773e-14, 1.4232144003513942e-15, -2.4441972916190464e-17,
)  # fmt: skip
_Y0_SMALL = (
    0.03645469809116044, -0.2783237094075825, 0.2960499990207148, 0.09825508408187864,
    -0.10755155280627783, 0.031799074084414514, -0.005161397105810715, 0.0005498525320039012,
    -4.1996983149420134e-05, 2.4290361107923793e-06, -1.1049969793472957e-07, 4.06651736597911e-09,
    -1.2374148898289854e-10, 3.1685725528945945e-12, -6.926956032431002e-14,
    1.3086308625876684e-15, -2.1586201986914482e-17,
)  # fmt: skip
_Y1_SMALL = (
    0.038300769852423776, -0.08182561412732826, -0.0248677076121964, 0.047967452752746984,
    -0.01852588451089802, 0.003680607687823511, -0.0004627254060293369, 4.06940026958087e-05,
    -2.6617695125295625e-06, 1.350602691325434e-07, -5.483524110336276e-09, 1.8245086841229007e-10,
    -5.070666636591129e-12, 1.1956162517587948e-13, -2.423162442712473e-15, 4.268126513072962e-17,
)  # fmt: skip
_P0 = (
    0.9994603493475187, -0.0005365220468132117, 3.0751847875194745e-06, -5.1705945376060975e-08,
    1.6306464635151382e-09, -7.86409137723707e-11, 5.168262387349193e-12, -4.3045788699253914e-13,
    4.3265957431549404e-14, -5.069034095935236e-15, 6.748072215733873e-16, -1.0011513723467786e-16,
)  # fmt: skip
_Q0 = (
    -0.015555854605337009, 6.838519942611649e-05, -7.414498411060647e-07, 1.7972457247968992e-08,
    -7.27191593686632e-10, 4.2201219046687385e-11, -3.206747420996635e-12, 3.006145125351706e-13,
    -3.336328185322427e-14, 4.255225040245461e-15, -6.09993013164005e-16, 9.662128970303257e-17,
    -1.6686065214378146e-17, 3.1082440486738143e-18, -6.191115787358145e-19,
)  # fmt: skip
_P1 = (
    1.0009030408600137, 0.0008989898330859408, -3.987284300488908e-06, 6.177633960644299e-08,
    -1.8718907491063067e-09, 8.816898659582339e-11, -5.704863640395645e-12, 4.699195515230542e-13,
    -4.6842237839904895e-14, 5.452674896044717e-15, -7.221180842274018e-16, 1.0667689114335412e-16,
)  # fmt: skip
_Q1 = (
    0.04677778706953532, -9.62772354915708e-05, 9.138615257955454e-07, -2.0959781384083424e-08,
    8.229193327650554e-10, -4.686363688176945e-11, 3.5152187949686082e-12, -3.2643156743279e-13,
    3.5967765829165294e-14, -4.5612523950772974e-15, 6.508282957783384e-16,
    -1.0269147531823243e-16, 1.767635548776479e-17, -3.2834519872981614e-18,
)  # fmt: skip


def _small(size):
    x = np.minimum(size, _LEAST_LARGE)
    return x, x * x


def _waves(order, size):
    x = np.minimum(np.maximum(size, _LEAST_LARGE), np.finfo(size.dtype).max)
    ratio = _LEAST_LARGE / x
    t = ratio * ratio
    p = _series_between((_P0, _P1)[order], 0, 1, t)
    q = _series_between((_Q0, _Q1)[order], 0, 1, t) * ratio
    sine, cosine = np.sin(x), np.cos(x)
    # sin(w) and cos(w) without the rounding of x - pi / 4
    sin_w, cos_w = (sine - cosine) * _PHASE, (sine + cosine) * _PHASE
    if order:
        sin_w, cos_w = -cos_w, sin_w
    height = np.sqrt(2 / (math.pi * x))
    waves = height * (p * cos_w - q * sin_w), height * (p * sin_w + q * cos_w)
    at_end = size == math.inf
    return np.where(at_end, 0, waves[0]), np.where(at_end, 0, waves[1])


def _bessel_j0_of_bessel_reference(x):
    size = np.abs(x)
    _, square = _small(size)
    low = _series_between(_J0_SMALL, 0, 64, square)
    return np.where(size <= _LEAST_LARGE, low, _waves(0, size)[0])


def _bessel_j1_of_bessel_reference(x):
    size = np.abs(x)
    low, square = _small(size)
    low = low * _series_between(_J1_SMALL, 0, 64, square)
    value = np.where(size <= _LEAST_LARGE, low, _waves(1, size)[0])
    return np.where(x < 0, -value, value)


def _bessel_y0_of_bessel_reference(x):
    size = np.maximum(x, 0)
    low, square = _small(size)
    smooth = _series_between(_Y0_SMALL, 0, 64, square)
    low = smooth + 2 / math.pi * np.log(low / 2) * _series_between(_J0_SMALL, 0, 64, square)
    value = np.where(size <= _LEAST_LARGE, low, _waves(0, size)[1])
    return np.where(x < 0, math.nan, value)


def _bessel_y1_of_bessel_reference(x):
    size = np.maximum(x, 0)
    low, square = _small(size)
    first = low * _series_between(_J1_SMALL, 0, 64, square)
    low = low * _series_between(_Y1_SMALL, 0, 64, square) + 2 / math.pi * (
        _log_above_zero(low / 2) * first - 1 / low
    )
    value = np.where(size <= _LEAST_LARGE, low, _waves(1, size)[1])
    return np.where(x < 0, math.nan, value)


# kernels.special.modified_bessel_reference
_I0_SMALL = (
    0.338397637204738, -0.30468267234319835, 0.17162090152220863, -0.09490109704804749,
    0.049305284239670545, -0.023737414805899353, 0.010546460394594748, -0.004324309995050515,
    0.001639475616941317, -0.0005763755745385569, 0.00018850288509575486, -5.754195010051921e-05,
    1.644844807049961e-05, -4.416738358531402e-06, 1.1173875389114407e-06, -2.6707938531211896e-07,
    6.046995004727052e-08, -1.3000250169148409e-08, 2.659823703510256e-09, -5.18979322849944e-10,
    9.675803380737591e-11, -1.726826348580346e-11, 2.954790856435352e-12, -4.85346207668158e-13,
    7.646439037500841e-14, -1.1679268663300491e-14, 1.5376588891058418e-15,
    -1.0880185641326534e-16, -4.662936703425657e-17, -8.895661984809067e-17,
    -2.0539125955565397e-16, 4.818367926873179e-16, 2.2759572004815707e-16, -7.577272143066693e-17,
    -2.3092638912203257e-16, 3.6415315207705137e-16, -9.43689570931383e-17, 2.586819647376615e-16,
    -3.469446951953614e-16, 4.590772206825022e-16,
)  # fmt: skip
_I0_LARGE = (
    0.40224520550705434, 0.003369116478255698, 6.889758346915187e-05, 2.891370520892167e-06,
    2.048918588570814e-07, 2.266668996497856e-08, 3.396231893493251e-09, 4.940602815750595e-10,
    1.1889156326105876e-11, -3.149915883682297e-11, -1.3215872840532938e-11,
    -1.7940782193193173e-12, 7.179368211041038e-13, 3.8527847578961885e-13, 1.5307755063531658e-14,
    -4.1466829969749597e-14, -9.658940314238862e-15, 3.733680031814402e-15, 1.8118839761882555e-15,
)  # fmt: skip
_I1_SMALL = (
    0.1262935932218168, -0.176416518357834, 0.10264365868984704, -0.05294598120809491,
    0.02472644903062644, -0.010564084894626142, 0.004156422944312771, -0.0015135724506312276,
    0.0005122859561685564, -0.00016176081582588043, 4.781565107545474e-05, -1.3273163655881659e-05,
    3.470251308021477e-06, -8.568720265031416e-07, 2.0032947525422396e-07, -4.4450591245304154e-08,
    9.38153729673763e-09, -1.887249776177935e-09, 3.625590050404526e-10, -6.663478213653207e-11,
    1.1736166483089506e-11, -1.9839861697956705e-12, 3.2226415980218806e-13,
    -5.028963356856764e-14, 7.457368056407177e-15, -1.1096332186433244e-15,
)  # fmt: skip
_I1_LARGE = (
    0.3892881175091401, -0.009761097491361425, -0.00011058893876265907, -3.8825648088014475e-06,
    -2.512236238816357e-07, -2.631468840164075e-08, -3.835380517624998e-09, -5.589743112821566e-10,
    -1.8974946058847308e-11, 3.2526044080327665e-11, 1.4125753899918436e-11, 2.035722701521081e-12,
    -7.199396634405275e-13, -4.0836001247157586e-13, -2.111644192837048e-14, 4.275690912436403e-14,
    1.0311751452718453e-14, -3.884670363163423e-15, -1.8407497748285097e-15, 4.440892098500626e-16,
)  # fmt: skip
_K0_SMALL = (
    -0.2676636966169514, 0.3442898999246285, 0.0359799365153615, 0.001264615411446926,
    2.286212103119452e-05, 2.5347910790261494e-07, 1.904516377220209e-09, 1.0349695257633625e-11,
    4.2598161427910826e-14, 1.3744654358807508e-16,
)  # fmt: skip
_K1_SMALL = (
    -0.06409034516866254, -0.10916919599320105, -0.006636878452817714, -0.00016822792382067343,
    -2.389559180803608e-06, -2.1853569024549695e-08, -1.3982271326113327e-10,
    -6.618562752976041e-13, -2.4134516242987822e-15, -6.990873731242567e-18,
)  # fmt: skip
_K0_LARGE = (
    1.2201515410329777, -0.0314481013119645, 0.0015698838857300533, -0.00012849549581627802,
    1.39498137188765e-05, -1.8317555227191195e-06, 2.766813639445015e-07, -4.660489897687948e-08,
    8.574034017414225e-09, -1.6975345093890614e-09, 3.5773972814003283e-10, -7.957489244477396e-11,
    1.8559491149549264e-11, -4.514597883374519e-12, 1.1403405882073441e-12,
    -2.9800969231481784e-13, 8.032890775068375e-14, -2.2275133267462965e-14, 6.340076476276646e-15,
    -1.848593377920907e-15, 5.5120559994043335e-16, -1.6782311257549006e-16,
    5.2103917776435543e-17,
)  # fmt: skip
_K1_LARGE = (
    1.3603130952422213, 0.10392373657681724, -0.002857816859622779, 0.00019521551847135162,
    -1.936197974166083e-05, 2.406484947837217e-06, -3.5019606030878126e-07, 5.7410841254500495e-08,
    -1.0345762465678097e-08, 2.0150497551970347e-09, -4.1903547593419254e-10,
    9.218315187605315e-11, -2.129967838427791e-11, 5.139639673482343e-12, -1.2891739609498229e-12,
    3.348419666052243e-13, -8.976705182010146e-14, 2.4771544242195988e-14, -7.0198370892147685e-15,
    2.038703166239861e-15, -6.057047270643018e-16, 1.8380935752430455e-16, -5.689462849193648e-17,
)  # fmt: skip


def _bessel_i0e(x):
    size = np.abs(x)
    beyond = np.maximum(size, 8)
    low = _series_at(_I0_SMALL, np.minimum(size, 8) / 4 - 1)
    return np.where(size <= 8, low, _series_at(_I0_LARGE, 16 / beyond - 1) / np.sqrt(beyond))


def _bessel_i1e(x):
    size = np.abs(x)
    beyond = np.maximum(size, 8)
    low = x * _series_at(_I1_SMALL, np.minimum(size, 8) / 4 - 1)
    high = _series_at(_I1_LARGE, 16 / beyond - 1) / np.sqrt(beyond)
    return np.where(size <= 8, low, np.where(x < 0, -high, high))


def _bessel_i0(x):
    return _bessel_i0e(x) * np.exp(np.abs(x))


def _bessel_i1(x):
    return _bessel_i1e(x) * np.exp(np.abs(x))


def _small_k0(x):
    zero = np.where(x == 0, math.inf, _series_between(_K0_SMALL, 0, 4, x * x))
    return zero - _log_above_zero(x / 2) * _bessel_i0e(x) * np.exp(x)


def _small_k1(x):
    first = x * _series_between(_K1_SMALL, 0, 4, x * x) + 1 / x
    return first + _log_above_zero(x / 2) * _bessel_i1e(x) * np.exp(x)


def _k(order, x, scaled):
    size = np.maximum(x, 0)
    inside, beyond = np.minimum(size, 2), np.maximum(size, 2)
    low = (_small_k0, _small_k1)[order](inside)
    high = _series_between((_K0_LARGE, _K1_LARGE)[order], 0, 1, 2 / beyond) / np.sqrt(beyond)
    if scaled:
        low = low * np.exp(inside)
    else:
        high = high * np.exp(-beyond)
    return np.where(x < 0, math.nan, np.where(size <= 2, low, high))


def _bessel_k0_of_modified_bessel_reference(x):
    return _k(0, x, scaled=False)


def _bessel_k1_of_modified_bessel_reference(x):
    return _k(1, x, scaled=False)


def _bessel_k0e_of_modified_bessel_reference(x):
    return _k(0, x, scaled=True)


def _bessel_k1e_of_modified_bessel_reference(x):
    return _k(1, x, scaled=True)


# kernels.special.special_reference
_ERF_TOP_of_special_reference = (
    1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2,
    3.77485237685302021e2, 3.20937758913846947e3,
)  # fmt: skip
_ERF_BOTTOM_of_special_reference = (
    1.0, 2.36012909523441209e1, 2.44024637934444173e2,
    1.28261652607737228e3, 2.84423683343917062e3,
)  # fmt: skip
_ERFC_TOP = (
    2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0,
    6.61191906371416295e1, 2.98635138197400131e2, 8.81952221241769090e2,
    1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3,
)  # fmt: skip
_ERFC_BOTTOM = (
    1.0, 1.57449261107098347e1, 1.17693950891312499e2,
    5.37181101862009858e2, 1.62138957456669019e3, 3.29079923573345963e3,
    4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3,
)  # fmt: skip
_TAIL_TOP = (
    1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1,
    1.25781726111229246e-1, 1.60837851487422766e-2, 6.58749161529837803e-4,
)  # fmt: skip
_TAIL_BOTTOM = (
    1.0, 2.56852019228982242e0, 1.87295284992346047e0,
    5.27905102951428412e-1, 6.05183413124413191e-2, 2.33520497626869185e-3,
)  # fmt: skip
_MIDDLE_TOP = (
    2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
    4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
    1.3314166789178437745e2, 3.3871328727963666080e0,
)  # fmt: skip
_MIDDLE_BOTTOM = (
    5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
    2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
    4.2313330701600911252e1, 1.0,
)  # fmt: skip
_NEAR_TOP = (
    7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
    1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
    4.63033784615654529590e0, 1.42343711074968357734e0,
)  # fmt: skip
_NEAR_BOTTOM = (
    1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
    1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
    2.05319162663775882187e0, 1.0,
)  # fmt: skip
_FAR_TOP = (
    2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
    2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0,
    5.46378491116411436990e0, 6.65790464350110377720e0,
)  # fmt: skip
_FAR_BOTTOM = (
    2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
    7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
    5.99832206555887937690e-1, 1.0,
)  # fmt: skip
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_MOST_TERMS = 3000  # of series and fractions of incomplete functions
_START_of_special_reference = 10  # from here on the series of the gamma function are exact to 1e-16


def _erf_of_special_reference(x):
    size = np.minimum(np.abs(x), 6)  # beyond 6 the result is 1 to the last place
    centre = x * _ratio(
        _ERF_TOP_of_special_reference,
        _ERF_BOTTOM_of_special_reference,
        np.minimum(size * size, 0.25),
    )
    outside = 1 - np.exp(-size * size) * _ratio(_ERFC_TOP, _ERFC_BOTTOM, size)
    return np.where(size <= 0.46875, centre, np.copysign(outside, x))


def _erfc_of_special_reference(x):
    size = np.abs(x)
    # From 30 on exp(-x**2) is 0; an infinite x would make 0 times infinity of the tail.
    outer = np.minimum(np.maximum(size, 4), 30)
    inverse = 1 / (outer * outer)
    # Divisions take longest, so of the three approximations the parts are chosen, then divided.
    parts = [
        np.where(
            size <= 0.46875,
            _polynomial(centre, np.minimum(size * size, 0.25)),
            np.where(
                size <= 4, _polynomial(middle, np.minimum(size, 4)), _polynomial(tail, inverse)
            ),
        )
        for centre, middle, tail in (
            (_ERF_TOP_of_special_reference, _ERFC_TOP, _TAIL_TOP),
            (_ERF_BOTTOM_of_special_reference, _ERFC_BOTTOM, _TAIL_BOTTOM),
        )
    ]
    share = parts[0] / parts[1]
    tail = (1 / math.sqrt(math.pi) - inverse * share) * (inverse * outer)
    upper = _exp_of_square(size) * np.where(size <= 4, share, tail)
    outside = np.where(x < 0, 2 - upper, upper)
    return np.where(size <= 0.46875, 1 - x * share, outside)


def _exp_of_square(x):
    x = np.minimum(x, 30)
    coarse = np.floor(x * 16) / 16
    return np.exp(-coarse * coarse) * np.exp(-(x - coarse) * (x + coarse))


def _normal_quantile(q, p):
    is_middle = np.abs(q) <= 0.425
    r = np.sqrt(-np.log(p))
    t_near, t_far = np.minimum(r, 5) - 1.6, np.maximum(np.minimum(r, 30), 5) - 5
    t_middle = 0.180625 - np.minimum(q * q, 0.180625)
    parts = [
        np.where(
            is_middle,
            _polynomial(middle, t_middle),
            np.where(r <= 5, _polynomial(near, t_near), _polynomial(outer, t_far)),
        )
        for middle, near, outer in (
            (_MIDDLE_TOP, _NEAR_TOP, _FAR_TOP),
            (_MIDDLE_BOTTOM, _NEAR_BOTTOM, _FAR_BOTTOM),
        )
    ]
    share = parts[0] / parts[1]
    tail = np.copysign(np.where(p == 0, np.inf, share), q)
    value = np.where(is_middle, q * share, tail)
    return np.where(p < 0, np.nan, value)


def _erfinv_of_special_reference(x):
    return _normal_quantile(x / 2, (1 - np.abs(x)) / 2) * math.sqrt(0.5)


def _erfcinv_of_special_reference(x):
    return _normal_quantile((1 - x) / 2, np.minimum(x, 2 - x) / 2) * math.sqrt(0.5)


def _ndtri_of_special_reference(x):
    return _normal_quantile(x - 0.5, np.minimum(x, 1 - x))


def _stirling_series(x):
    inverse = 1 / x
    return _polynomial(_STIRLING, inverse * inverse) * inverse


_STIRLING = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1))[::-1]
_DIGAMMA = (*(b / (2 * k) for k, b in reversed([*enumerate(_BERNOULLI, 1)])), 0.0)
_TRIGAMMA = (*reversed(_BERNOULLI), 0.0)
_HALF_LOG = 0.5 * math.log(2 * math.pi)


def _positive_lgamma(x):
    product, x = _product_to_start(x)
    return (x - 0.5) * np.log(x) - x + _HALF_LOG + _stirling_series(x) - np.log(product)


def _product_to_start(x):
    product = np.where(x < _START_of_special_reference, x, 1.0)
    x = x + (x < _START_of_special_reference)
    for _ in range(_START_of_special_reference - 1):
        below = x < _START_of_special_reference
        product = np.where(below, product * x, product)
        x = x + below
    return product, x


def _lgamma_of_special_reference(x):
    upper = np.where(x < 0.5, 1 - x, x)
    value = _positive_lgamma(np.minimum(upper, 1e300))
    part = x - np.rint(x)  # exact beside 0, where both go to infinity
    reflected = math.log(math.pi) - np.log(np.abs(np.sin(math.pi * part))) - value
    value = np.where(x < 0.5, reflected, value)
    pole = ((x <= 0) & (part == 0)) | (np.abs(x) == np.inf)
    return np.where(pole, np.inf, value)


def _digamma_of_special_reference(x):
    high = np.where(x < 0.5, 1 - x, x)
    top, bottom = (
        np.where(high < _START_of_special_reference, 1.0, 0.0),
        np.where(high < _START_of_special_reference, high, 1.0),
    )
    high = high + (high < _START_of_special_reference)
    for _ in range(
        _START_of_special_reference - 1
    ):  # top / bottom is the sum of 1 / high over all steps
        below = high < _START_of_special_reference
        top = np.where(below, top * high + bottom, top)
        bottom = np.where(below, bottom * high, bottom)
        high = high + below
    inverse = 1 / high
    series = _polynomial(_DIGAMMA, inverse * inverse)
    value = np.log(high) - 0.5 * inverse - series - top / bottom
    part = x - np.rint(x)  # exact beside 0, where both go to infinity
    angle = math.pi * part
    value = np.where(x < 0.5, value - math.pi * np.cos(angle) / np.sin(angle), value)
    value = np.where((x <= 0) & (part == 0), np.nan, value)
    return np.where(x == np.inf, np.inf, value)


def _trigamma(x):
    high = np.where(x < 0.5, 1 - x, x)
    top, bottom = (
        np.where(high < _START_of_special_reference, 1.0, 0.0),
        np.where(high < _START_of_special_reference, high * high, 1.0),
    )
    high = high + (high < _START_of_special_reference)
    for _ in range(
        _START_of_special_reference - 1
    ):  # top / bottom is the sum of 1 / high**2 over all steps
        below, square = high < _START_of_special_reference, high * high
        top = np.where(below, top * square + bottom, top)
        bottom = np.where(below, bottom * square, bottom)
        high = high + below
    inverse = 1 / high
    square = inverse * inverse
    value = top / bottom + inverse * _polynomial(_TRIGAMMA, square) + 0.5 * square + inverse
    part = x - np.rint(x)  # exact beside 0, where both go to infinity
    slope = math.pi / np.sin(math.pi * part)
    value = np.where(x < 0.5, slope * slope - value, value)
    return np.where(((x <= 0) & (part == 0)) | (x == -np.inf), np.inf, value)


# ops.arrays.axes


def _transpose(x, *, axes=None):
    return x.transpose() if axes is None else x.transpose(axes)


def _expand(dims, axis):
    rank = len(dims) + len(axis)
    axes = _canonical_axes(axis, rank, "expand_dims")
    sizes = iter(dims)
    return tuple(1 if i in axes else next(sizes) for i in range(rank))


def _expand_dims(x, *, axis):
    if len(axis) == 1 and -x.ndim - 1 <= axis[0] <= x.ndim:
        at = axis[0] % (x.ndim + 1)
        return x.reshape((*x.shape[:at], 1, *x.shape[at:]))
    return x.reshape(_expand(x.shape, axis))


def _squeeze_dims(dims, axis):
    axes = _canonical_axes(axis, len(dims), "squeeze")
    for i in axes:
        if dims[i] not in (1, None):
            raise GraphError(
                f"squeeze: axis {i} of a tensor of shape {dims} has size {dims[i]}; only axes of "
                "size 1 go away"
            )
    return tuple(n for i, n in enumerate(dims) if i not in axes)


def _squeeze(x, *, axis):
    return x.reshape(_squeeze_dims(x.shape, axis))


# ops.arrays.shaping


def _shape(x):
    return np.array(x.shape, np.int32)


def _size(x):
    return np.int32(x.size)


def _reshape_dims(dims, target):
    if any(n is not None and n < -1 for n in target) or list(target).count(-1) > 1:
        raise GraphError(
            f"reshape: {tuple(target)} is no shape; one size may be -1, the others are >= 0"
        )
    total = _size_of_shapes(dims)
    product = _size_of_shapes([n for n in target if n != -1])
    if -1 not in target:
        if total is not None and product is not None and total != product:
            raise GraphError(
                f"reshape: a tensor of shape {dims} has {total} elements, {tuple(target)} needs "
                f"{product}"
            )
        return tuple(target)
    if total is None or product is None:
        inferred = None
    elif product == 0 or total % product:
        raise GraphError(
            f"reshape: {total} elements of shape {dims} do not divide into {tuple(target)}"
        )
    else:
        inferred = total // product
    return tuple(inferred if n == -1 else n for n in target)


def _reshape(x, *, shape):
    if -1 in shape and x.size == 0:
        shape = _reshape_dims(x.shape, shape)
    return x.reshape(shape)


def _filled(shape, sizes):
    if not sizes and type(shape) is tuple and None not in shape:
        return shape
    if len(sizes) != sum(n is None for n in shape):
        raise GraphError(f"{len(sizes)} sizes are given for those missing in {tuple(shape)}")
    live = iter(sizes)
    return tuple(int(next(live)) if n is None else n for n in shape)


def _reshape_sized(x, *sizes, shape):
    return x.reshape(_filled(shape, sizes))


def _reshape_like(x, like):
    return x.reshape(like.shape)


# ops.arrays.broadcasting
def _broadcast_dims_of_broadcasting(dims, target):
    extra = len(target) - len(dims)
    sizes = tuple(dims[i - extra] if n == -1 and i >= extra else n for i, n in enumerate(target))
    ends = zip(dims, sizes[extra:], strict=True) if extra >= 0 else None
    if ends is None or any(None not in (a, b) and a not in (1, b) for a, b in ends):
        raise GraphError(f"broadcast_to: shape {tuple(dims)} does not broadcast to {tuple(target)}")
    return sizes


def _broadcast_to(x, *, shape):
    added = len(shape) - len(x.shape)
    if shape[added:] == x.shape and added > 0 and x.dtype.kind in "fiub":
        if x.size and x.flags.c_contiguous and min(shape) > 0:
            # What `broadcast_to` gives for new axes in front, in a fifth of its time.
            repeated = np.ndarray(shape, x.dtype, x, 0, (0,) * added + x.strides)
            repeated.flags.writeable = False
            return repeated
    if -1 in shape:
        shape = _broadcast_dims_of_broadcasting(x.shape, shape)
    return np.broadcast_to(x, shape)


def _broadcast_to_sized(x, *sizes, shape):
    return np.broadcast_to(x, _broadcast_dims_of_broadcasting(x.shape, _filled(shape, sizes)))


# ops.arrays.class_hits


def _sparse_categorical_hits(labels, scores):
    if labels.shape != scores.shape[:-1] and labels.ndim != scores.ndim - 1:
        raise ValueError("the labels do not fit")  # the shape rule has the words
    best = scores.argmax(axis=-1).astype(np.int32, copy=False)
    hits = labels.astype(np.int32, copy=False) == best
    return hits.astype(_ElementType(_floatx()).dtype)


# ops.arrays.concat_and_split


def _concatenate(*xs, axis):
    return np.concatenate(xs, axis)


def _split_like(g, *xs, axis):
    cuts = np.cumsum([x.shape[axis] for x in xs[:-1]]).tolist()
    return _pieces_of_concat_and_split(g, cuts, axis)


def _cuts(n, parts):
    if isinstance(parts, tuple):
        return list(parts)
    return [n // parts * i for i in range(1, parts)]


def _pieces_of_concat_and_split(x, cuts, axis):
    before = (slice(None),) * (axis % x.ndim)
    ends = [*cuts, x.shape[axis]]
    starts = [0, *cuts]
    return tuple(x[(*before, slice(a, b))] for a, b in zip(starts, ends, strict=True))


def _check_parts(n, parts, dims, axis):
    if isinstance(parts, tuple):
        cuts = [p for p in parts if p >= 0]
        if cuts != sorted(cuts) or (n is not None and cuts and cuts[-1] > n):
            raise GraphError(
                f"split: the cuts {parts} are no rising positions within axis {axis} of a tensor "
                f"of shape {tuple(dims)}"
            )
        return
    if parts < 1 or (n is not None and n % parts):
        raise GraphError(
            f"split: axis {axis} of a tensor of shape {tuple(dims)} has size {n}, which {parts} "
            "does not "
            "divide; give the cut positions, or use array_split"
        )


def _split(x, *, parts, axis):
    if parts != ():
        _canonical_axis(axis, x.ndim, "split")
        _check_parts(x.shape[axis], parts, x.shape, axis)
    if type(parts) is int and axis == 0:
        size = len(x) // parts
        return tuple([x[i : i + size] for i in range(0, len(x), size)] if size else [x] * parts)
    return _pieces_of_concat_and_split(x, _cuts(x.shape[axis], parts), axis)


def _stack_of_concat_and_split(*xs, axis):
    dims = xs[0].shape
    if axis == 0 and dims and all(x.shape == dims for x in xs):
        # What `np.stack` gives, without its loops in Python, which take longer than small rows.
        return np.concatenate(xs).reshape((len(xs), *dims))
    return np.stack(xs, axis)


def _unstack(x, *, axis, num):
    if x.shape[axis] != num:
        raise ValueError(f"axis {axis} has size {x.shape[axis]}, num={num}")
    before = (slice(None),) * (axis % x.ndim)
    return tuple(x[(*before, i)] for i in range(num))


# ops.arrays.conversion


def _stop_gradient(x):
    return x


def _copy(x):
    return np.array(x)


# ops.arrays.creation


def _fill(value, *, shape):
    return np.broadcast_to(value, shape)


def _zeros_like(x, *, dtype):
    return np.zeros(x.shape, x.dtype if dtype is None else _ElementType(dtype).dtype)


def _ones_like(x, *, dtype):
    return np.ones(x.shape, x.dtype if dtype is None else _ElementType(dtype).dtype)


def _full_like(x, value):
    if value.ndim == 0 and x.size:  # what `broadcast_to` gives, in a fifth of its time
        repeated = np.ndarray(x.shape, value.dtype, np.asarray(value), 0, (0,) * x.ndim)
        repeated.flags.writeable = False
        return repeated
    return np.broadcast_to(value, x.shape)


def _one_hot(x, *, num_classes, axis, dtype):
    _bounded("one_hot", *x.shape, num_classes)
    if x.dtype.kind in "iu" and x.size * num_classes >= _FEWEST_WRITTEN:
        return _ones_written(x, num_classes, axis, _ElementType(dtype).dtype)
    classes = np.arange(num_classes, dtype=np.int64)
    hot = np.asarray(x)[..., None] == classes
    if axis != -1:
        hot = np.moveaxis(hot, -1, _canonical_axis(axis, hot.ndim, "one_hot"))
    return hot.astype(_ElementType(dtype).dtype)


_FEWEST_WRITTEN = 1 << 12


def _ones_written(x, num_classes, axis, dtype):
    hot = np.zeros((x.size, num_classes), dtype)
    classes = x.reshape(-1)
    rows = np.nonzero((classes >= 0) & (classes < num_classes))[0]
    hot[rows, classes[rows].astype(np.int64, copy=False)] = 1
    hot = hot.reshape(*x.shape, num_classes)
    return np.moveaxis(hot, -1, _canonical_axis(axis, hot.ndim, "one_hot"))


# ops.arrays.diagonals


def _diagonal(x, *, offset, axis1, axis2):
    return x.diagonal(offset, axis1, axis2)


def _diagonal_put(g, x, *, offset, axis1, axis2):
    out = np.zeros(x.shape, g.dtype)
    moved = np.moveaxis(out, (axis1, axis2), (-2, -1))
    i = np.arange(g.shape[-1])
    moved[..., i + max(-offset, 0), i + max(offset, 0)] = g
    return out


def _diag(x, *, k):
    lead, length = x.shape[:-1], x.shape[-1]
    n = length + abs(k)
    out = np.zeros((*lead, n * n), x.dtype)
    start = max(-k, 0) * n + max(k, 0)
    out[..., start : start + length * (n + 1) : n + 1] = x
    return out.reshape((*lead, n, n))


_MOST_STORED = 1 << 16


def _below_of_diagonals(rows, columns, k):
    if rows * columns <= _MOST_STORED:
        return _mask_below(rows, columns, k)
    return np.tri(rows, columns, k, bool)


@functools.lru_cache(maxsize=16)
def _mask_below(rows, columns, k):
    mask = np.tri(rows, columns, k, bool)
    mask.flags.writeable = False
    return mask


def _lower_triangle(x, k):
    return np.where(_below_of_diagonals(x.shape[-2], x.shape[-1], k), x, np.zeros((), x.dtype))


def _upper_triangle(x, k):
    return np.where(_below_of_diagonals(x.shape[-2], x.shape[-1], k - 1), np.zeros((), x.dtype), x)


def _tril(x, *, k):
    return _lower_triangle(x, k)


def _triu(x, *, k):
    return _upper_triangle(x, k)


# ops.arrays.pad_and_roll


def _flip(x, *, axis):
    return np.flip(x, axis)


def _roll(x, *, shift, axis):
    if type(shift) is int and x.size:
        if type(axis) is int:
            return _roll_along(x, shift, axis)
        if axis is None:
            return _roll_along(x.reshape(-1), shift, 0).reshape(x.shape)
    return np.roll(x, shift, axis)


def _roll_along(x, shift, axis):
    axis = _canonical_axis(axis, x.ndim, "roll")
    moved, before = np.empty_like(x), (slice(None),) * axis
    cut = x.shape[axis] - shift % x.shape[axis]
    moved[(*before, slice(x.shape[axis] - cut, None))] = x[(*before, slice(None, cut))]
    moved[(*before, slice(None, x.shape[axis] - cut))] = x[(*before, slice(cut, None))]
    return moved


def _pad_rule(x, *, pad_width, mode, value):
    if len(pad_width) != len(x.shape):
        raise GraphError(
            f"pad: shape {x.shape} has {len(x.shape)} axes, pad_width {pad_width} has not"
        )
    for (low, high), n in zip(pad_width, x.shape, strict=True):
        limit = None if n is None else {"reflect": n - 1, "symmetric": n}.get(mode)
        if min(low, high) < 0 or (limit is not None and max(low, high) > limit):
            raise GraphError(
                f"pad: shape {x.shape} can't be padded by {pad_width} in mode {mode!r}: "
                "'reflect' allows "
                "size - 1 at each end, 'symmetric' the size; none may be negative"
            )
    total = (None if n is None else n + a + b for n, (a, b) in zip(x.shape, pad_width, strict=True))
    return _Spec(total, x.dtype)


def _pad(x, *, pad_width, mode, value):
    if mode != "constant" or len(pad_width) != x.ndim or min(map(min, pad_width), default=0) < 0:
        _pad_rule(x, pad_width=pad_width, mode=mode, value=value)
    dims = [n + a + b for n, (a, b) in zip(x.shape, pad_width, strict=True)]
    _bounded("pad", *dims)
    if mode == "wrap" or not x.size:
        return np.pad(x, pad_width, mode)
    if mode != "constant":
        return _mirror_ends(x, pad_width, mode)
    out = np.full(dims, value, x.dtype) if value else np.zeros(dims, x.dtype)
    out[_inside(x.shape, pad_width)] = x
    return out


def _mirror_ends(x, pad_width, mode):
    out = np.empty([n + a + b for n, (a, b) in zip(x.shape, pad_width, strict=True)], x.dtype)
    out[_inside(x.shape, pad_width)] = x
    skipped = 1 if mode == "reflect" else 0  # an edge is no mirror of itself
    for axis, (n, (low, high)) in enumerate(zip(x.shape, pad_width, strict=True)):
        lead, end = (slice(None),) * axis, low + n
        first, last = low + skipped, end - skipped
        if low:
            source = slice(low, low + 1) if mode == "edge" else slice(first, first + low)
            out[(*lead, slice(low - 1, None, -1))] = out[(*lead, source)]
        if high:
            source = slice(end - 1, end) if mode == "edge" else slice(last - high, last)
            out[(*lead, slice(end + high - 1, end - 1, -1))] = out[(*lead, source)]
    return out


def _inside(dims, pad_width):
    return tuple(slice(a, a + n) for n, (a, _) in zip(dims, pad_width, strict=True))


def _source_on(n, width, mode):

    def make():
        return np.pad(np.arange(n), width, mode)

    return _make(("pad source", n, tuple(width), mode), make)


def _pad_sum(g, *, pad_width, mode):
    dims = [n - a - b for n, (a, b) in zip(g.shape, pad_width, strict=True)]
    if mode == "constant":
        return g[_inside(dims, pad_width)]
    for axis, (n, width) in enumerate(zip(dims, pad_width, strict=True)):
        if width == (0, 0):
            continue
        source = _source_on(n, width, mode)
        out = np.zeros((*g.shape[:axis], n, *g.shape[axis + 1 :]), g.dtype)
        _scatter_at("add", out, (slice(None),) * axis + (source,), g)
        g = out
    return g


# ops.arrays.ranges
def _check_count(start, stop, step):
    span = abs(stop - start) // abs(step) if step else 0
    if span > 2**31 and span == span:  # not NaN, of which NumPy says what it is
        _bounded("arange", int(span) if span < 2**63 else 2**63)


def _arange(start, stop, step, *, dtype):
    if not step:
        raise GraphError("arange: step is 0, so the end is never reached")
    _check_count(start.item(), stop.item(), step.item())
    return np.arange(start.item(), stop.item(), step.item()).astype(_ElementType(dtype).dtype)


def _linspace(start, stop, *, size, endpoint, axis, dtype):
    _bounded("linspace", size, *start.shape, *stop.shape)
    parts = size - 1 if endpoint else size
    step = (stop - start) / parts if parts else (stop - start) * np.nan
    rank = len(step.shape)
    position = np.arange(size, dtype=start.dtype).reshape((size,) + (1,) * rank)
    values = start + position * (step if parts else 0)
    if endpoint and size > 1:
        values[-1] = stop  # the last one exactly
    axis_index = _canonical_axis(axis, rank + 1, "linspace")
    if axis_index:
        values = np.moveaxis(values, 0, axis_index)
    return values.astype(_ElementType(dtype).dtype, copy=False), np.asarray(step)


# ops.arrays.searching


def _searchsorted(sorted_sequence, values, *, side, dtype="int32"):
    sorted_sequence, values = map(_sort_keys, (sorted_sequence, values))
    if sorted_sequence.ndim == 1:
        return np.asarray(np.searchsorted(sorted_sequence, values, side)).astype(dtype)
    if not values.size:
        return np.zeros(values.shape, dtype)
    *leading, length = sorted_sequence.shape
    lines = sorted_sequence.reshape(math.prod(leading), length)
    queries = values.reshape(len(lines), -1)
    positions = [np.searchsorted(a, v, side) for a, v in zip(lines, queries, strict=True)]
    return np.stack(positions).reshape(values.shape).astype(dtype)


def _unique(x, *, sorted, axis, size):
    host = np.asarray(x)
    values, first, inverse, counts = np.unique(
        _sort_keys(host), return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    values, inverse = _cast_array(values, host.dtype), inverse.reshape(-1)
    if axis == 0 and host.ndim == 1 and counts.size and counts[-1] > 1 and values[-1] != values[-1]:
        values, first, inverse, counts = _split_nans(host, values, first, inverse, counts)
    if not sorted:
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        values, inverse = np.take(values, order, axis), rank[inverse]
        first, counts = first[order], counts[order]
    start = first[0] if len(first) else 0
    values, counts = _fit(values, axis, size, 0), _fit(counts, 0, size, 0)
    first = _fit(first, 0, size, start)
    outputs = (values, *(a.astype(np.int32) for a in (first, inverse, counts)))
    return tuple(np.asarray(a) for a in outputs)


def _split_nans(host, values, first, inverse, counts):
    nans = np.flatnonzero(host != host)
    start = len(values) - 1
    inverse = inverse.copy()
    inverse[nans] = start + np.arange(len(nans))
    values = np.concatenate([values[:start], host[nans]])
    counts = np.concatenate([counts[:start], np.ones(len(nans), counts.dtype)])
    return values, np.concatenate([first[:start], nans]), inverse, counts


def _fit(array, axis, size, fill):
    if size is None:
        return array
    array = array[(slice(None),) * axis + (slice(size),)]
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, size - array.shape[axis])
    return np.pad(array, widths, constant_values=fill)


_MOST_COMPARED = 1 << 12


def _isin(x, members):
    if x.size * members.size <= _MOST_COMPARED:  # where sorting takes longer
        return np.equal(x.reshape(-1, 1), members.reshape(1, -1)).any(1).reshape(x.shape)
    return np.isin(x, members)


# ops.arrays.sorting
_INT32 = np.int32


def _sort(x, *, axis):
    if x.dtype == _BFLOAT16.dtype:
        return _cast_array(np.sort(_sort_keys(x), axis=axis), x.dtype)
    return np.sort(x, axis=axis)


def _argsort(x, *, axis):
    return np.argsort(_sort_keys(x), axis, kind="stable").astype(_INT32)


def _argpartition(x, *, kth, axis):
    return np.argpartition(_sort_keys(x), kth, axis=axis).astype(_INT32)


def _top_rule(x, *, k, sorted):
    if len(x.shape) == 0:
        raise GraphError("top_k: needs one axis at least, got a scalar")
    if k < 0 or (x.shape[-1] is not None and k > x.shape[-1]):
        raise GraphError(
            f"top_k: input must have at least k columns. Had {x.shape[-1]}, needed {k} [Op:TopKV2]"
        )
    dims = (*x.shape[:-1], k)
    return _Spec(dims, x.dtype), _Spec(dims, "int32")


def _top_k(x, *, k, sorted):
    if not x.ndim or not 0 <= k <= x.shape[-1]:
        _top_rule(_Spec(x.shape, "float32"), k=k, sorted=sorted)  # has the words
    n = x.shape[-1]
    few = _greatest_in_turn(x, k) if 0 < k <= _IN_TURN and 8 * k < n else None
    if few is not None:
        return few
    keys = _sort_keys(x)
    if 0 < 8 * k < n and not (x != x).any():
        where = _few_greatest(keys, k)
    else:
        rising = np.argsort(keys[..., ::-1], axis=-1, kind="stable")
        where = n - 1 - rising[..., ::-1][..., :k]
    if x.ndim == 2:
        rows = np.arange(len(x))[:, None]
        return x[rows, where], where.astype(_INT32)
    return np.take_along_axis(x, where, axis=-1), where.astype(_INT32)


_IN_TURN = 8


def _greatest_in_turn(x, k):
    if x.dtype.kind not in "fiu" or not x.size:
        return None
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    rows = x.reshape(-1, x.shape[-1])
    left = rows.copy() if k > 1 else rows
    numbers = np.arange(len(rows))
    values, where = np.empty((len(rows), k), x.dtype), np.empty((len(rows), k), _INT32)
    for i in range(k):
        at = left.argmax(axis=-1)  # the first of equal ones, and of NaNs
        values[:, i], where[:, i] = left[numbers, at], at
        if i + 1 < k:
            left[numbers, at] = lowest
    if not (values > lowest).all():
        return None
    dims = (*x.shape[:-1], k)
    return values.reshape(dims), where.reshape(dims)


def _few_greatest(x, k):
    rows = x.reshape(-1, x.shape[-1])
    threshold = np.partition(rows, -k, axis=-1)[:, -k, None]
    above = rows > threshold
    room = k - above.sum(axis=-1, keepdims=True)
    level = rows == threshold
    selected = above | (level & (np.cumsum(level, axis=-1) <= room))
    where = np.nonzero(selected)[1].reshape(-1, k)
    values = np.take_along_axis(rows, where, axis=-1)
    falling = k - 1 - np.argsort(values[:, ::-1], axis=-1, kind="stable")[:, ::-1]
    return np.take_along_axis(where, falling, axis=-1).reshape((*x.shape[:-1], k))


def _in_top_rule(targets, predictions, *, k):
    dims, rows = targets.shape, predictions.shape[:-1]
    pairs = zip(dims, rows, strict=False)
    if len(dims) != len(rows) or any(None not in p and p[0] != p[1] for p in pairs):
        raise GraphError(
            f"in_top_k: targets {dims} need predictions (*targets.shape, classes), got "
            f"{predictions.shape}"
        )
    return _Spec(dims, "bool")


def _in_top_k(targets, predictions, *, k):
    _in_top_rule(_Spec(targets.shape, "int32"), _Spec(predictions.shape, "float32"), k=k)
    classes = predictions.shape[-1]
    inside = (targets >= 0) & (targets < classes)
    safe = np.where(inside, targets, 0)
    score = np.take_along_axis(predictions, safe[..., None], axis=-1)
    winners = (predictions > score).sum(axis=-1)
    return inside & np.isfinite(score[..., 0]) & (winners < k)


# ops.arrays.tile_and_repeat
def _align_repeats(dims, repeats):
    extra = len(repeats) - len(dims)
    return (1,) * extra + tuple(dims), (1,) * -extra + tuple(repeats)


def _tiled_dims(dims, repeats):
    return [n * r for n, r in zip(*_align_repeats(dims, repeats), strict=True)]


def _tile(x, *, repeats):
    _bounded("tile", *_tiled_dims(x.shape, repeats))
    return np.tile(x, repeats)


def _tile_sum(g, *, repeats, rank):
    dims, counts = _align_repeats(g.shape, repeats)
    folded = []
    for n, r in zip(dims, counts, strict=True):
        folded += [r, n // max(r, 1)]
    total = g.reshape(folded).sum(axis=tuple(range(0, len(folded), 2)), dtype=g.dtype)
    return total.reshape(total.shape[total.ndim - rank :])


def _tile_sized(x, *sizes, repeats):
    return _tile(x, repeats=_filled(repeats, sizes))


def _tile_sum_sized(g, x, *sizes, repeats):
    return _tile_sum(g, repeats=_filled(repeats, sizes), rank=x.ndim)


def _repeat(x, *, repeats, axis):
    axis_index = _canonical_axis(axis, x.ndim, "repeat")
    n = sum(repeats) if isinstance(repeats, tuple) else x.shape[axis_index] * repeats
    _bounded("repeat", *x.shape[:axis_index], n, *x.shape[axis_index + 1 :])
    return np.repeat(x, repeats, axis)


def _owner_on(repeats):
    return _make(("repeat owner", repeats), lambda: np.repeat(np.arange(len(repeats)), repeats))


def _repeat_sum(g, *, repeats, axis):
    axis_index = axis % g.ndim
    if not isinstance(repeats, tuple):
        folded = (
            *g.shape[:axis_index],
            g.shape[axis_index] // repeats,
            repeats,
            *g.shape[axis_index + 1 :],
        )
        runs = g.reshape(folded)
        if repeats == 2:
            # The loop of NumPy's sum is along the run, however short that is; this one is not.
            first, second = (runs[(slice(None),) * (axis_index + 1) + (i,)] for i in (0, 1))
            return np.add(first, second)
        return runs.sum(axis=axis_index + 1, dtype=g.dtype)
    out = np.zeros((*g.shape[:axis_index], len(repeats), *g.shape[axis_index + 1 :]), g.dtype)
    owner = _owner_on(repeats)
    _scatter_at("add", out, (slice(None),) * axis_index + (owner,), g)
    return out


# ops.convolutional.window_arguments
def _checked_padding(padding, rank, op):
    if isinstance(padding, str):
        if padding.lower() in ("valid", "same"):
            return padding.lower()
    elif padding is not None and len(padding) == rank:
        pairs = tuple(tuple(int(n) for n in pair) for pair in padding)
        if all(len(pair) == 2 and min(pair) >= 0 for pair in pairs):
            return pairs
    raise GraphError(
        f"{op}: padding={padding!r} must be 'valid', 'same' or {rank} pairs (before, after)"
    )


def _windowed_dims(op, sizes, window, strides, padding, dilation):
    result = []
    pads = _per_axis(padding, len(window))
    for axis, (n, k, s, pad, d) in enumerate(
        zip(sizes, window, strides, pads, dilation, strict=True)
    ):
        count = None if n is None else _output_size(n, k, s, pad, d)
        if count is not None and count < 1 and n != 0:
            raise GraphError(
                f"{op}: along spatial axis {axis} the window spans {_reach(k, d)} "
                "positions, and the "
                f"input has {n} with padding {pad!r}.\n  input   {sizes}\n  window  {window}\n"
                "Use padding='same', a smaller window, or a larger input."
            )
        result.append(None if count is None else max(count, 0))
    return tuple(result)


@functools.lru_cache(maxsize=1024)
def _checked_windows(op, sizes, window, strides, padding, dilation):
    _checked_padding(padding, len(window), op)
    _windowed_dims(op, sizes, window, strides, padding, dilation)
    return _placed(sizes, window, strides, padding, dilation)


# ops.convolutional.convolution_geometry
def _group_count(op, x, kernel):
    channels, inside, filters = x[-1], kernel[-2], kernel[-1]
    if channels is None or inside is None or filters is None:
        return 1
    if inside == 0 or channels % inside or filters % (channels // inside):
        raise GraphError(
            f"{op}: the input has {channels} channels, the kernel takes {inside} and has "
            f"{filters} filters.\n"
            f"  input   {tuple(x)}\n  kernel  {tuple(kernel)}\n"
            "The channels must be equal; or, for a grouped convolution, the input's a multiple of "
            "the kernel's, "
            "and the filters a multiple of the number of groups."
        )
    return channels // inside


def _check_bias(bias, filters):
    if bias is not None and bias.shape != (filters,) and None not in (filters, *bias.shape):
        raise GraphError(f"conv: the kernel has {filters} filters, the bias shape {bias.shape}")


def _placed_of_convolution_geometry(x, window, strides, padding, dilation_rate):
    return _checked_windows("conv", x.shape[1:-1], window, strides, padding, dilation_rate)


def _facts_of(x, kernel, bias, strides, padding, dilation_rate):
    groups = _group_count("conv", x.shape, kernel.shape)
    _check_bias(bias, kernel.shape[-1])
    return _placed_of_convolution_geometry(
        x, kernel.shape[:-2], strides, padding, dilation_rate
    ), groups


# ops.linear_algebra.matmul
_SHORT_FLOATS = frozenset(d.dtype for d in (_FLOAT16, _BFLOAT16))
_INT8_of_matmul = np.dtype(np.int8)
_EXACT_SUMS = 1 << 10
_BY_DOT = frozenset(np.dtype(t) for t in (np.float32, np.float64, np.int32, np.int64))


def _matmul(x1, x2):
    dtype = x1.dtype
    if x1.ndim == 2 == x2.ndim and dtype in _BY_DOT:
        if 1 < x1.size <= _MOST_BY_DOT >= x2.size and x1.flags.forc and x2.flags.forc:
            return x1.dot(x2)  # `product`, without its call
        return np.matmul(x1, x2)
    if dtype in _SHORT_FLOATS:
        return _cast_array(_matmul_of_matmul(_widen_halves(x1), _widen_halves(x2)), dtype)
    if dtype is _INT8_of_matmul or dtype == _INT8_of_matmul:
        return _int8_sums(x1, x2)
    return _matmul_of_matmul(x1, x2)


def _product(a, b):
    if 1 < a.size <= _MOST_BY_DOT >= b.size and a.flags.forc and b.flags.forc:
        return a.dot(b)
    return np.matmul(a, b)


def _int8_sums(a, b):
    if min(a.ndim, b.ndim) < 2:
        return _matmul_of_matmul(a.astype(np.int32), b.astype(np.int32))
    total = None
    for start in range(0, max(a.shape[-1], 1), _EXACT_SUMS):
        end = start + _EXACT_SUMS
        part = _matmul_of_matmul(
            a[..., start:end].astype(np.float32), b[..., start:end, :].astype(np.float32)
        ).astype(np.int32)
        total = part if total is None else total + part
    return total


def _matmul_of_matmul(a, b):
    if (
        a.ndim > 2 and b.ndim == 2 and a.flags.c_contiguous
    ):  # one large product, not many small ones
        rows = math.prod(a.shape[:-1])
        if a.shape[-1] == b.shape[0]:
            product = np.matmul(a.reshape(rows, a.shape[-1]), b)
            return product.reshape((*a.shape[:-1], b.shape[1]))
    return np.matmul(a, b)


# ops.neural.dense
_ZERO = {np.dtype(t): np.zeros((), t) for t in (np.float32, np.float64)}
_LARGE = 2 * _FIRST_FLOATS


def _rectified_gradient(g, y):
    result = g * (y > 0)
    floats = result.astype(np.float32) if g.dtype.itemsize < 4 else result
    rows = floats.reshape(-1, g.shape[-1])
    by_bias = np.ones(len(rows), rows.dtype) @ rows
    return result, by_bias.astype(g.dtype, copy=False)


def _rows_of_dense(x):
    return x if x.ndim == 2 else x.reshape(-1, x.shape[-1])


def _is_short(dtype):
    return dtype.itemsize < 4


def _finished(y, bias, activation):
    if bias is not None:
        y += bias
    if activation == "relu":
        if y.size >= _LARGE and y.dtype in _ZERO:
            np.clip(y, 0, np.inf, out=y)  # NumPy's maximum takes twice as long as both
            y += 0  # -0 becomes 0, as by the maximum
        else:
            np.maximum(y, 0, out=y)
    return y


def _dense(x, kernel, bias, *, activation):
    if x.shape[-1] != kernel.shape[0]:  # a kernel of one axis more would broadcast
        raise ValueError("the inner sizes differ")
    dtype = x.dtype
    if x.ndim == 2 == kernel.ndim and dtype in _ZERO:
        y = _product(x, kernel)
    else:
        if _is_short(dtype):
            x, kernel, bias = _widen_halves(x), _widen_halves(kernel), _widen_halves(bias)
        y = np.matmul(_rows_of_dense(x), kernel)
    y = _finished(y, bias, activation)
    if x.ndim != 2:
        y = y.reshape(*x.shape[:-1], kernel.shape[1])
    return _cast_array(y, dtype)


def _sum_of_dense(flat):
    return flat.sum(axis=0, dtype=np.float32 if flat.dtype.itemsize < 4 else None)


def _sent_back_of_dense(arrays, activation, needed, multiplied, summed, by_bias=None):
    g, y, x, kernel = arrays
    dtype = g.dtype
    if _is_short(dtype):
        g, y, x, kernel = map(_widen_halves, (g, y, x, kernel))
    if activation == "relu" and by_bias is None:
        g = g * (y > 0)
    flat = _rows_of_dense(g)
    result = []
    if needed[0]:
        by_x = multiplied(flat, kernel.T)
        result.append(by_x if x.ndim == 2 else by_x.reshape(x.shape))
    if needed[1]:
        result.append(multiplied(_rows_of_dense(x).T, flat))
    if needed[2]:
        result.append(summed(flat) if by_bias is None else by_bias)
    return tuple(_cast_array(part, dtype) for part in result)


def _dense_gradient(g, y, x, kernel, *, activation, wanted):
    multiplied = np.matmul
    return _sent_back_of_dense((g, y, x, kernel), activation, wanted, multiplied, _sum_of_dense)


# ops.convolutional.convolution


def _conv(x, kernel, bias, *, strides, padding, dilation_rate, activation):
    w, groups = _facts_of(x, kernel, bias, strides, padding, dilation_rate)
    finish = functools.partial(_finished, bias=bias, activation=activation)
    return _conv_of_conv_reference(w, x, kernel, groups, finish)


def _conv_input_gradient(g, kernel, x, *, strides, padding, dilation_rate):
    w = _placed_of_convolution_geometry(x, kernel.shape[:-2], strides, padding, dilation_rate)
    groups = x.shape[-1] // kernel.shape[-2]
    return _conv_input_gradient_of_conv_reference(w, g, kernel, groups)


def _conv_kernel_gradient(x, g, *, kernel_size, groups, strides, padding, dilation_rate):
    w = _placed_of_convolution_geometry(x, kernel_size, strides, padding, dilation_rate)
    return _conv_kernel_gradient_of_conv_reference(w, x, g, groups)


# ops.convolutional.im2col
def _windows_of_of_im2col(sizes, kernel_size, dilation, padding, stride):
    return _Windows(sizes, kernel_size, stride, tuple((p, p) for p in padding), dilation)


def _unfold(x, *, kernel_size, dilation, padding, stride):
    w = _windows_of_of_im2col(x.shape[2:], kernel_size, dilation, padding, stride)
    _windowed_dims("unfold", x.shape[2:], kernel_size, stride, w.pads, dilation)
    view = w.view(w.pad(x.transpose(0, 2, 3, 1)))  # (batch, out, out, *window, channels)
    columns = view.transpose(0, 5, 3, 4, 1, 2)
    elements, count = math.prod(kernel_size), math.prod(w.out)
    return columns.reshape(x.shape[0], x.shape[1] * elements, count)


def _fold_columns(x, w):
    batch, elements = x.shape[0], math.prod(w.window)
    channels = x.shape[1] // elements
    columns = x.reshape(batch, channels, *w.window, *w.out)
    padded = np.zeros((batch, *w.padded, channels), x.dtype)
    for a, b in itertools.product(*map(range, w.window)):
        padded[w.offset((a, b))] += columns[:, :, a, b].transpose(0, 2, 3, 1)
    return np.ascontiguousarray(padded[w.interior].transpose(0, 3, 1, 2))


def _unfold_gradient(g, x, *, kernel_size, dilation, padding, stride):
    return _fold_columns(
        g, _windows_of_of_im2col(x.shape[2:], kernel_size, dilation, padding, stride)
    )


def _fold_rule(x, *, output_size, kernel_size, **settings):
    elements = math.prod(kernel_size)
    if x.shape[1] is not None and x.shape[1] % elements:
        raise GraphError(
            f"fold: the input {tuple(x.shape)} has {x.shape[1]} rows, which is no multiple of the "
            f"{elements} elements of "
            f"kernel_size={kernel_size}"
        )
    w = _windows_of_of_im2col(output_size, kernel_size, **settings)
    count = math.prod(w.out)
    if x.shape[2] not in (None, count) or min(w.out) < 1:
        raise GraphError(
            f"fold: the input {tuple(x.shape)} has {x.shape[2]} columns, an output of "
            f"{output_size} has "
            f"{w.out[0]} x {w.out[1]} windows"
        )
    return _Spec(
        (x.shape[0], None if x.shape[1] is None else x.shape[1] // elements, *output_size), x.dtype
    )


def _fold(x, *, output_size, kernel_size, dilation, padding, stride):
    _fold_rule(
        x,
        output_size=output_size,
        kernel_size=kernel_size,
        dilation=dilation,
        padding=padding,
        stride=stride,
    )
    return _fold_columns(
        x, _windows_of_of_im2col(output_size, kernel_size, dilation, padding, stride)
    )


# ops.math.reductions
_SUMMED_IN = {
    np.dtype(np.bool_): np.dtype(np.int32),
    np.dtype(np.int8): np.dtype(np.int32),
    np.dtype(np.int16): np.dtype(np.int32),
    np.dtype(np.uint8): np.dtype(np.uint32),
    np.dtype(np.uint16): np.dtype(np.uint32),
    np.dtype(np.int32): np.dtype(np.int32),
    np.dtype(np.uint32): np.dtype(np.uint32),
    _BFLOAT16.dtype: np.dtype(np.float32),
    _FLOAT16.dtype: np.dtype(np.float32),
}
_F32, _BOOL = np.dtype(np.float32), np.dtype(np.bool_)
_HALVES = (_BFLOAT16.dtype, _FLOAT16.dtype)


def _check_axes(x, axis, op):
    if axis is not None and axis != () and not x.shape:
        _canonical_axes(axis, 0, op)


def _wide_sum_dtype(dtype):
    return _SUMMED_IN[dtype] if dtype in _HALVES else None


def _summed_dtype(dtype):
    if dtype.is_floating:
        return dtype
    return _ElementType(_SUMMED_IN.get(dtype.dtype, dtype.dtype))


def _sum(x, *, axis, keepdims):
    if axis is not None:
        _check_axes(x, axis, "sum")
    if x.dtype is _F32:
        return np.add.reduce(x, axis, None, None, keepdims)
    if axis is None and x.dtype is _BOOL:
        # In a tenth of the time of a sum, which casts each to int32.
        count = np.int64(np.count_nonzero(x)).astype(np.int32)
        return np.full((1,) * x.ndim, count) if keepdims else count
    total = np.add.reduce(x, axis, _SUMMED_IN.get(x.dtype), None, keepdims)
    return total.astype(x.dtype) if x.dtype in _HALVES else total


def _spread(g, x, *, axis, keepdims, mean):
    if mean:
        g = g / (x.size // g.size if g.size and x.size else 1)
    if axis is not None and not keepdims and x.shape:
        g = np.expand_dims(g, _canonical_axes(axis, len(x.shape)))
    if not g.shape and g.dtype.kind == "f":
        # What `broadcast_to` gives, in a tenth of its time.
        return np.ndarray(x.shape, g.dtype, g, 0, (0,) * x.ndim)
    return np.broadcast_to(g, x.shape)


def _broadcast_axes(dims, broadcast_dims):
    added = len(broadcast_dims) - len(dims)
    return tuple(range(added)) + tuple(
        i + added for i, n in enumerate(dims) if n == 1 and broadcast_dims[i + added] != 1
    )


def _sum_to_like(g, x):
    target, source = x.shape, g.shape
    if target == source:
        return g
    if not target and g.dtype is _F32:
        return np.add.reduce(g, None)
    axes = _broadcast_axes(target, source)
    dtype = _SUMMED_IN[g.dtype] if g.dtype in _HALVES else g.dtype
    total = np.add.reduce(g, axes, dtype) if axes else g
    if total.shape != target:
        total = total.reshape(target)
    return total if total.dtype is g.dtype else total.astype(g.dtype)


def _broadcast_like(x, like):
    return np.broadcast_to(x, like.shape)


def _mean(x, *, axis, keepdims):
    if axis is not None:
        _check_axes(x, axis, "mean")
    dtype = x.dtype
    if dtype is _F32:
        result_dtype = summed = dtype
    else:
        result_dtype = dtype if dtype.kind in "fcV" else np.dtype(_floatx())
        summed = _F32 if dtype in _HALVES else result_dtype
    total = np.add.reduce(x, axis, summed, None, keepdims)
    count = x.size // total.size if total.size else 1
    mean = total / count if count else total * np.nan
    return mean if mean.dtype is result_dtype else mean.astype(result_dtype)


def _variance_by(x, axis, keepdims, total, squares):
    _check_axes(x, axis, "var")
    kind = x.dtype.kind
    floats = x if kind in "fc" and x.dtype.itemsize > 2 else x.astype(np.float32)
    sums = total(floats, axis, True)
    count = x.size // sums.size if sums.size else 1
    if not count:
        nothing = np.add.reduce(floats, axis, None, None, keepdims).real * np.nan
        return nothing.astype(x.dtype) if x.dtype in _HALVES else nothing
    variance = squares(floats, sums / count, axis, keepdims) / count
    return variance.astype(x.dtype) if x.dtype in _HALVES else variance


def _total(x, axis, keepdims):
    return np.add.reduce(x, axis, None, None, keepdims)


def _square(x, centre):
    away = x - centre
    if x.dtype.kind == "c":
        return (away * away.conj()).real
    away *= away
    return away


def _squares(x, centre, axis, keepdims):
    return _total(_square(x, centre), axis, keepdims)


def _var(x, *, axis, keepdims):
    return _variance_by(x, axis, keepdims, _total, _squares)


# ops.convolutional.local_response


def _channel_window_sums(x, *, radius):
    dtype, channels = _wide_sum_dtype(x.dtype) or x.dtype, x.shape[-1]
    radius = min(radius, channels)
    width, rows = channels + 2 * radius, x.size // max(channels, 1)
    # zeros between the rows, so that one vector of all of them is shifted and not each row
    line = np.zeros(rows * width + 2 * radius, dtype)
    line[: rows * width].reshape(rows, width)[:, radius : radius + channels] = x.reshape(
        rows, channels
    )
    total = np.zeros(rows * width, dtype)
    for k in range(2 * radius + 1):
        total += line[k : k + rows * width]
    return total.reshape(rows, width)[:, :channels].reshape(x.shape).astype(x.dtype)


# ops.convolutional.pooling
def _windows_of_of_pooling(op, x, pool_size, strides, padding):
    return _checked_windows(op, x.shape[1:-1], pool_size, strides, padding, (1,) * len(pool_size))


def _max_pool(x, *, pool_size, strides, padding):
    return _max_pool_of_pool_reference(
        _windows_of_of_pooling("max_pool", x, pool_size, strides, padding), x
    )


def _max_pool_gradient(g, x, y, *, pool_size, strides, padding):
    w = _windows_of_of_pooling("max_pool", x, pool_size, strides, padding)
    return _max_pool_gradient_of_pool_reference(w, g, x, y)


def _max_pool_pick(values, x, y, *, pool_size, strides, padding):
    return _max_pool_pick_of_pool_reference(
        _windows_of_of_pooling("max_pool", x, pool_size, strides, padding), values, x, y
    )


def _average_pool(x, *, pool_size, strides, padding):
    w = _windows_of_of_pooling("average_pool", x, pool_size, strides, padding)
    return _average_pool_of_pool_reference(w, x)


def _average_pool_gradient(g, x, *, pool_size, strides, padding):
    w = _windows_of_of_pooling("average_pool", x, pool_size, strides, padding)
    return _average_pool_gradient_of_pool_reference(w, g)


# ops.convolutional.pooling_argmax
_OP = "max_pool_with_argmax"


def _windows_of_of_pooling_argmax(x, pool_size, strides, padding):
    return _checked_windows(_OP, x.shape[1:-1], pool_size, strides, padding, (1, 1))


def _max_pool_with_argmax(x, *, pool_size, strides, padding):
    w = _windows_of_of_pooling_argmax(x, pool_size, strides, padding)
    return _max_pool_with_argmax_of_pool_reference(w, x)


# ops.convolutional.transposed_convolution
def _transposed_dims(sizes, window, strides, padding, output_padding, dilation):
    extra = output_padding or (None,) * len(window)
    result = []
    for n, k, s, more, d in zip(sizes, window, strides, extra, dilation, strict=True):
        span = _reach(k, d)
        if n is None:
            result.append(None)
        elif more is None:
            result.append(n * s + (max(span - s, 0) if padding == "valid" else 0))
        else:
            inner = span if padding == "valid" else span - 2 * (span // 2)
            result.append((n - 1) * s + inner + more)
    return tuple(result)


def _result_dims(x, kernel, *, strides, padding, output_padding, dilation_rate):
    if None not in (x[-1], kernel[-1]) and x[-1] != kernel[-1]:
        raise GraphError(
            f"conv_transpose: the input has {x[-1]} channels, the kernel takes {kernel[-1]}.\n"
            f"  input   {x}\n  kernel  {kernel}   (window..., filters, channels)"
        )
    window = tuple(n or 1 for n in kernel[:-2])
    space = _transposed_dims(x[1:-1], window, strides, padding, output_padding, dilation_rate)
    return x[0], *space, kernel[-2]


@functools.lru_cache(maxsize=1024)
def _windows_of_of_transposed_convolution(
    x, kernel, strides, padding, output_padding, dilation_rate
):
    dims = _result_dims(
        x,
        kernel,
        strides=strides,
        padding=padding,
        output_padding=output_padding,
        dilation_rate=dilation_rate,
    )
    sizes = tuple(n or 0 for n in dims[1:-1])
    w = _placed(sizes, kernel[:-2], strides, padding, dilation_rate)
    if w.out != x[1:-1]:
        raise GraphError(
            f"conv_transpose: output_padding={output_padding} does not fit strides={strides}: it "
            "must be below "
            "the stride of its axis"
        )
    return w


def _conv_transpose(x, kernel, *, strides, padding, output_padding, dilation_rate):
    w = _windows_of_of_transposed_convolution(
        x.shape, kernel.shape, strides, padding, output_padding, dilation_rate
    )
    return _conv_input_gradient_of_conv_reference(w, x, kernel, 1)


# ops.core.optimization_barrier


def _optimization_barrier(x, signal):
    return x


# ops.core.run_time_checks


def _assert_true(condition, *values, message):
    if not bool(condition.all()):
        texts = [f"\n  {np.asarray(x)!r}" for x in values]
        raise GraphError(message + "".join(texts))
    return ()


# ops.images.patches
def _counts_of_patches(dims, size, strides, dilation):
    return [
        None if n is None else max(0, (n - (k - 1) * d - 1) // s + 1)
        for n, k, s, d in zip(dims, size, strides, dilation, strict=True)
    ]


def _windows(dims, size, strides, dilation):
    counts = _counts_of_patches(dims, size, strides, dilation)
    for number, offset in enumerate(itertools.product(*map(range, size))):
        where = tuple(
            slice(o * d, o * d + (c - 1) * s + 1, s) if c else slice(0, 0)
            for o, d, c, s in zip(offset, dilation, counts, strides, strict=True)
        )
        yield number, (slice(None), *where)


def _extract_patches(x, *, size, strides, dilation):
    counts = _counts_of_patches(x.shape[1:-1], size, strides, dilation)
    channels = x.shape[-1]
    out = np.empty((x.shape[0], *counts, math.prod(size), channels), x.dtype)
    for number, where in _windows(x.shape[1:-1], size, strides, dilation):
        out[..., number, :] = x[where]
    return out.reshape((x.shape[0], *counts, math.prod(size) * channels))


def _patches_sum(g, x, *, size, strides, dilation):
    out = np.zeros(x.shape, g.dtype)
    parts = g.reshape((*g.shape[:-1], math.prod(size), x.shape[-1]))
    for number, where in _windows(x.shape[1:-1], size, strides, dilation):
        out[where] += parts[..., number, :]
    return out


# ops.images.weighted_images


def _weighted_pixels(x, rows, columns, *, method, antialias, transposed):
    batch, height, width, channels = x.shape
    x = np.matmul(rows, x.reshape(batch, height, width * channels))
    return np.matmul(columns, x.reshape(batch, len(rows), width, channels))


# ops.indexing.gathering
def _first_outside(indices, size, low):
    indices = np.asarray(indices)
    wrong = np.argwhere((indices < low) | (indices >= size))
    if not len(wrong):
        return ""
    index = tuple(wrong[0].tolist())
    at = "[" + ",".join(map(str, index)) + "]" if index else ""
    return f"indices{at} = {indices[index]} is not in [0, {size})"


def _check_range(indices, size, low, op, tf_op):
    if not indices.size or (indices.min() >= low and indices.max() < size):
        return
    raise GraphError(f"{op}: {_first_outside(indices, size, low)} [Op:{tf_op}]")


def _take(x, indices, *, axis, wrap=True):
    _canonical_axis(axis, x.ndim, "take")
    n = x.shape[axis]
    if not wrap:
        _check_range(indices, n, 0, "gather", "GatherV2")
    try:
        return x.take(indices, axis)
    except IndexError:
        _check_range(np.asarray(indices), n, -n if n else 0, "take", "GatherV2")
        raise


def _take_sum(g, indices, x, *, axis, wrap=True):
    axis %= x.ndim
    indices = np.asarray(indices)
    n = x.shape[axis]
    out = np.zeros((n, *x.shape[:axis], *x.shape[axis + 1 :]), g.dtype)
    if out.size and indices.size:
        picked = tuple(range(axis, axis + indices.ndim))
        rows = np.moveaxis(g, picked, tuple(range(indices.ndim))).reshape((indices.size, -1))
        _add_rows(out.reshape(n, -1), indices.reshape(-1), rows, wrap)
    return np.moveaxis(out, 0, axis)


def _along_rule(x, indices, *, axis):
    if len(x.shape) != len(indices.shape):
        raise GraphError(
            f"take_along_axis: x and indices need as many axes, got shapes {x.shape} and "
            f"{indices.shape}"
        )
    axis_index = _canonical_axis(axis, len(x.shape), "take_along_axis")
    rest_x, rest_i = list(x.shape), list(indices.shape)
    rest_x[axis_index] = rest_i[axis_index] = 1
    dims = list(_broadcast_dims(rest_x, rest_i, op="take_along_axis"))
    dims[axis_index] = indices.shape[axis_index]
    return _Spec(dims, x.dtype)


def _grid(dims, indices, axis):
    grid = []
    for i, n in enumerate(dims):
        line = (1,) * i + (-1,) + (1,) * (len(dims) - i - 1)
        grid.append(indices if i == axis else (0 if n == 1 else np.arange(n).reshape(line)))
    return tuple(grid)


def _differ_along(dims, others, axis):
    return bool(dims[:axis] == others[:axis] and dims[axis + 1 :] == others[axis + 1 :])


def _positions_along(dims, indices, axis):
    n, inner = dims[axis], math.prod(dims[axis + 1 :])
    flat = indices.astype(np.intp)
    if flat.size and np.minimum.reduce(flat, None) < 0:
        flat += n * (flat < 0)
    if inner != 1:
        flat *= inner
        flat += np.arange(inner).reshape(dims[axis + 1 :])
    if axis:
        lines = (*dims[:axis], *(1,) * (len(dims) - axis))
        flat += (np.arange(math.prod(dims[:axis])) * (n * inner)).reshape(lines)
    return flat


def _take_along_axis(x, indices, *, axis):
    _along_rule(_Spec(x.shape, "float32"), _Spec(indices.shape, "int32"), axis=axis)
    axis %= x.ndim
    n = x.shape[axis]
    indices = np.asarray(indices)
    _check_range(indices, n, -n if n else 0, "take_along_axis", "GatherNd")
    if x.flags.c_contiguous and _differ_along(x.shape, indices.shape, axis):
        return x.reshape(-1).take(_positions_along(x.shape, indices, axis))
    return x[_grid(x.shape, indices, axis)]


def _take_along_axis_sum(g, indices, x, *, axis):
    out = np.zeros(x.shape, g.dtype)
    _scatter_at("add", out, _grid(x.shape, np.asarray(indices), axis % x.ndim), g)
    return out


def _depth_of(x, indices, op):
    depth = indices.shape[-1] if len(indices.shape) else None
    if depth is None or depth > len(x.shape):
        raise GraphError(
            f"{op}: rows of indices of shape {tuple(indices.shape)} name {depth} axes, the tensor "
            f"has shape {tuple(x.shape)}"
        )
    return depth


def _rows_as_index(x, indices, op):
    depth = _depth_of(x, indices, op)
    indices = _whole(np.asarray(indices), op)
    wrong = _outside(indices, x.shape[:depth])
    if wrong.any():
        row_index = tuple(int(i) for i in np.argwhere(_plain(wrong.any(axis=-1)))[0])
        row = _plain(indices)[row_index].tolist()
        at = ",".join(map(str, row_index))
        raise GraphError(f"{op}: indices[{at}] = {row} does not index into shape {list(x.shape)}")
    return tuple(indices[..., i] for i in range(depth))


def _outside(indices, sizes):
    ends = np.asarray(sizes, np.int64)
    return (indices < -ends) | (indices >= ends)


def _whole(indices, op):
    if indices.dtype.kind in "iu":
        return indices
    integers = indices.astype(np.int64)
    if indices.dtype.kind != "f" or (integers != indices).any():
        raise GraphError(f"{op}: positions are integers, got {indices.dtype.name}")
    return integers


def _plain(array):
    return array


def _gather_nd(x, indices):
    sizes = x.shape[: _depth_of(x, indices, "gather_nd")]
    if sizes and x.flags.c_contiguous and _has_rows_inside(indices, sizes):
        rows = x.reshape((math.prod(sizes), *x.shape[len(sizes) :]))
        return rows.take(_row_numbers(indices, sizes), axis=0)
    where = _rows_as_index(x, indices, "gather_nd")
    return x[where] if where else np.broadcast_to(x, (*indices.shape[:-1], *x.shape))


def _gather_nd_sum(g, indices, x):
    out = np.zeros(x.shape, g.dtype)
    _add_at(out, indices, g, "gather_nd")
    return out


def _add_at(out, indices, values, op):
    if not _depth_of(out, indices, op):
        out += values.reshape((-1, *out.shape)).sum(axis=0)
        return
    flat, rows = _flat_rows(out, indices, values, op)
    if out.size and rows.size:
        _add_rows(out.reshape(-1, rows.shape[1]), flat, rows, wrap=False)


def _fold_at(name, out, indices, values, op):
    if not _depth_of(out, indices, op):
        _scatter_at(name, out, ..., values)
        return
    flat, rows = _flat_rows(out, indices, values, op)
    if out.size and rows.size:
        _fold_rows(name, out.reshape(-1, rows.shape[1]), flat, rows)


def _flat_rows(out, indices, values, op):
    flat = _flat_positions_of_gathering(out, indices, op)
    inner = out.shape[indices.shape[-1] :]
    row_dims = (*flat.shape, *inner)
    rows = values if values.shape == row_dims else np.broadcast_to(values, row_dims)
    return flat.reshape(-1), rows.reshape(flat.size, math.prod(inner))


def _flat_positions_of_gathering(x, indices, op):
    sizes = x.shape[: indices.shape[-1]]
    if sizes and _has_rows_inside(indices, sizes):
        return _row_numbers(indices, sizes)
    where = _rows_as_index(x, indices, op)
    flat = np.zeros(where[0].shape, np.int64)
    for size, position in zip(x.shape, where, strict=False):
        flat = flat * size + np.where(position < 0, position + size, position)
    return flat


def _has_rows_inside(indices, sizes):
    if indices.dtype.kind not in "iu":
        return False
    if len(sizes) == 1:
        return _all_inside(indices, sizes[0])
    if indices.dtype.kind == "i":  # negative ones stand above all others
        indices = indices.view(f"u{indices.dtype.itemsize}")
    return bool((indices < np.asarray(sizes, np.uint64)).all())


def _row_numbers(indices, sizes):
    numbers = indices[..., 0].astype(np.int64, copy=False)
    for axis in range(1, len(sizes)):
        numbers = numbers * sizes[axis] + indices[..., axis].astype(np.int64, copy=False)
    return numbers


def _unravel_index(indices, *, shape):
    size = int(np.prod(shape, dtype=np.int64))
    _check_range(indices, size, -size, "unravel_index", "UnravelIndex")
    left = np.where(indices < 0, indices + size, indices)
    axis_positions = []
    for n in reversed(shape):
        axis_positions.append((left % n).astype(indices.dtype))
        left = left // n
    return tuple(reversed(axis_positions))


# ops.indexing.counted_positions


def _positions_from_start(indices, x, *, operation, axis=0, rows=True):
    integers = indices.astype(np.int32 if indices.dtype == np.int32 else np.int64, copy=False)
    if not rows:
        _check_range(integers, x.shape[axis], 0, operation, "GatherV2")
        return integers
    dims = x.shape[axis:]
    depth = _depth_of(_Spec(dims, "float32"), _Spec(integers.shape, "int64"), operation)
    if depth and not _has_rows_inside(integers, dims[:depth]):
        outside = ((integers < 0) | (integers >= np.asarray(dims[:depth]))).any(axis=-1)
        row_index = tuple(np.argwhere(outside)[0].tolist())
        at = ",".join(map(str, row_index))
        raise GraphError(
            f"{operation}: indices[{at}] = {integers[row_index].tolist()} does not index into "
            f"shape {list(dims)}"
        )
    return integers


# ops.indexing.dynamic_slice
def _block_of_dynamic_slice(dims, start, sizes, op):
    if len(start) != len(dims) or len(sizes) != len(dims):
        raise GraphError(
            f"{op}: a tensor of shape {tuple(dims)} needs {len(dims)} start indices and sizes, got "
            f"{tuple(start)} and {tuple(sizes)}"
        )
    block = []
    for axis, (n, a, k) in enumerate(zip(dims, start, sizes, strict=True)):
        end = n if k == -1 else a + k
        if not 0 <= a <= end <= n:
            raise GraphError(
                f"{op}: positions {a} to {end} of axis {axis} are outside of a tensor of shape "
                f"{tuple(dims)}"
            )
        block.append(slice(a, end))
    return tuple(block)


def _slice(x, *live, start, sizes):
    return x[_block_of_dynamic_slice(x.shape, _filled(start, live), sizes, "slice")]


def _slice_like(x, like, *live, start):
    return x[_block_of_dynamic_slice(x.shape, _filled(start, live), like.shape, "slice")]


def _slice_update(x, updates, *live, start):
    block = _block_of_dynamic_slice(x.shape, _filled(start, live), updates.shape, "slice_update")
    out = np.array(x)
    out[block] = updates
    return out


# ops.indexing.index_keys
@functools.lru_cache(maxsize=4096)
def _plain_of_index_keys(key):
    return tuple(slice(*k) if type(k) is tuple else (... if k == "..." else k) for k in key)


def _with_parts(x, key, parts):
    return tuple(_live(k, parts) for k in key)


def _live(k, parts):
    if type(k) is tuple:
        return slice(*(int(parts[int(b[1:])]) if type(b) is str else b for b in k))
    if type(k) is not str:
        return k
    if k == "...":
        return ...
    part = parts[int(k[1:])]
    if part.ndim == 0 and part.dtype.kind != "b":
        return int(part)
    return part


def _distinct(key, parts):
    arrays = [p for p in parts if p.ndim or p.dtype.kind == "b"]
    return len(arrays) < 2 and all(p.dtype.kind == "b" for p in arrays)


def _checked(x, key):
    return


# ops.indexing.get_item
_ROWS = ("@0",)


def _get_item(x, *, key):
    return x[_plain_of_index_keys(key)]


def _put_item(g, x, *, key):
    out = np.zeros(x.shape, g.dtype)
    out[_plain_of_index_keys(key)] = g
    return out


def _get_item_at(x, *parts, key):
    live = _with_parts(x, key, parts)
    _checked(x, live)
    return x[live]


def _put_item_at(g, x, *parts, key):
    out = np.zeros(x.shape, g.dtype)
    live = _with_parts(x, key, parts)
    if _distinct(key, parts):
        out[live] = g
    elif key == _ROWS and out.size and g.size:
        ids = parts[0].reshape(-1)
        _add_rows(out.reshape(len(out), -1), ids, g.reshape(ids.size, -1))
    else:
        _scatter_at("add", out, live, g)
    return out


def _nonzero(x, *, dtype):
    return tuple(axis_positions.astype(dtype) for axis_positions in np.nonzero(x))


# ops.indexing.integer_tables
def _hash_of(salt):
    return _fingerprint64 if salt is None else functools.partial(_siphash, key=salt)


def _hashes(values, buckets, salt):
    function = _hash_of(salt)
    items = values.astype(np.int64, copy=False).ravel().tolist()
    buckets_by_item = {item: function(b"%d" % item) % buckets for item in set(items)}
    return np.array([buckets_by_item[item] for item in items], np.int64).reshape(values.shape)


def _number_tokens(x, *, tokens, numbers, first, count, hashed, salt):
    values = np.asarray(x)
    table = np.asarray(tokens, np.int64)
    positions = np.minimum(np.searchsorted(table, values), max(len(table) - 1, 0))
    is_token = table[positions] == values if len(table) else np.zeros(values.shape, bool)
    if not count and not is_token.all():
        raise GraphError(
            f"number_tokens: {values[~is_token].ravel()[0]} is not in the vocabulary, and there "
            "are no numbers for unknown tokens"
        )
    other = np.int64(first)
    if count > 1 and hashed:
        other = first + _hashes(values, count, salt)
    elif count > 1:
        other = first + values.astype(np.int64) % count
    token_numbers = np.asarray(numbers, np.int64)[positions] if len(table) else other
    return np.asarray(np.where(is_token, token_numbers, other))


def _tokens_of_numbers(x, *, tokens, other, dtype):
    kind = _ElementType(dtype).dtype
    table = np.asarray(np.asarray((*tokens, other), kind))
    inside = (x >= 0) & (x < len(tokens))
    return table[np.where(inside, x, len(tokens)).astype(np.int64)]


def _hash_buckets(x, *, buckets, salt, mask, dtype):
    values = np.asarray(x)
    masked = mask is not None and buckets > 1
    hashes = _hashes(values, buckets - masked, salt)
    if masked:
        hashes = np.where(values == mask, 0, hashes + 1)
    return np.asarray(hashes.astype(_ElementType(dtype).dtype))


def _crossed_buckets(*xs, buckets, dtype):
    columns = [np.asarray(x).ravel().tolist() for x in xs]
    hashes = [_crossed(list(row)) % buckets for row in zip(*columns, strict=True)]
    return np.asarray(np.array(hashes, _ElementType(dtype).dtype).reshape(xs[0].shape))


# ops.indexing.item_assignment


def _with_items(x, value, *parts, key):
    out = x.copy()
    live = _with_parts(x, key, parts) if parts else _plain_of_index_keys(key)
    if parts:
        _checked(x, live)
    out[live] = value
    return out


# ops.indexing.scattering
def _fits(dims, target):
    ends = zip(reversed(dims), reversed(target), strict=False)
    return len(dims) <= len(target) and all(a in (1, b) or None in (a, b) for a, b in ends)


def _rule(x, indices, updates):
    depth = _depth_of(x, indices, "scatter")
    needed_dims = (*indices.shape[:-1], *x.shape[depth:])
    update_dims = tuple(updates.shape)
    if update_dims != needed_dims and not _fits(update_dims, needed_dims):
        raise GraphError(
            f"scatter: updates of shape {update_dims} do not fit indices of shape "
            f"{tuple(indices.shape)} and a tensor of shape {tuple(x.shape)}; they need "
            f"{needed_dims}"
        )
    return _Spec(x.shape, x.dtype)


def _check(x, indices, updates):
    specs = [_Spec(a.shape, "float32") for a in (x, indices, updates)]
    _rule(*specs)


def _scatter_nd_add(x, indices, updates):
    _check(x, indices, updates)
    out = np.array(x, order="C")
    _add_at(out, indices, updates, "scatter_nd_add")
    return out


def _scatter_update(x, indices, updates):
    _check(x, indices, updates)
    out = np.array(x, order="C")
    out[_rows_as_index(x, indices, "scatter_update") or ...] = updates
    return out


def _scatter_max(x, indices, updates):
    return _extreme("maximum", x, indices, updates, "scatter_max")


def _scatter_min(x, indices, updates):
    return _extreme("minimum", x, indices, updates, "scatter_min")


def _extreme(name, x, indices, updates, op):
    _check(x, indices, updates)
    out = np.array(x, order="C")
    _fold_at(name, out, indices, updates, op)
    return out


def _scatter_multiply(x, indices, updates):
    _check(x, indices, updates)
    out = np.array(x, order="C")
    _fold_at("multiply", out, indices, updates, "scatter_multiply")
    return out


# ops.indexing.segments
def _rule_of_segments(data, segment_ids, *, num_segments):
    rank = len(segment_ids.shape)
    pairs = zip(data.shape, segment_ids.shape, strict=False)
    if not rank or rank > len(data.shape) or any(None not in p and p[0] != p[1] for p in pairs):
        raise GraphError(
            f"segments: segment_ids of shape {tuple(segment_ids.shape)} must be the first axes of "
            f"data of shape {tuple(data.shape)}"
        )
    return _Spec((num_segments, *data.shape[rank:]), data.dtype)


def _prepare(data, ids, count):
    _rule_of_segments(_Spec(data.shape, "float32"), _Spec(ids.shape, "int32"), num_segments=count)
    inner = data.shape[ids.ndim :]
    flat = np.asarray(ids).reshape(-1)
    rows = data.reshape((flat.size, math.prod(inner)))
    if count is None:
        count = int(flat.max()) + 1 if flat.size else 0
    if _all_inside(flat, count):
        return rows, flat, count, inner
    if flat.max() >= count:
        wrong = _first_outside(ids, count, np.iinfo(np.int64).min)
        raise GraphError(f"segments: segment_{wrong.replace('indices', 'ids')}")
    keep = (flat >= 0) & (flat < count)
    if not keep.all():
        rows, flat = rows[keep], flat[keep]
    return rows, flat, count, inner


def _start_rows(count, rows, start):
    return np.full((count + 1, rows.shape[1]), start, rows.dtype)


def _segment_sum(data, ids, *, num_segments):
    rows, flat, count, inner = _prepare(data, ids, num_segments)
    out = _start_rows(count, rows, 0)
    if out.size and rows.size:
        _add_rows(out, flat, rows)
    return out[:count].reshape((count, *inner))


def _by_ufunc(name, data, ids, count, start):
    rows, flat, count, inner = _prepare(data, ids, count)
    out = _start_rows(count, rows, start)
    _fold_rows(name, out, flat, rows)
    return out[:count].reshape((count, *inner))


def _segment_max(data, ids, *, num_segments):
    return _by_ufunc("maximum", data, ids, num_segments, _ElementType(data.dtype).min)


def _segment_min(data, ids, *, num_segments):
    return _by_ufunc("minimum", data, ids, num_segments, _ElementType(data.dtype).max)


def _segment_prod(data, ids, *, num_segments):
    return _by_ufunc("multiply", data, ids, num_segments, 1)


# ops.linear_algebra.einsum
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@functools.lru_cache(maxsize=1024)
def _plan(subscripts):
    inputs, out = subscripts.split("->")
    one, two = inputs.split(",")
    batch = [s for s in out if s in one and s in two]
    joined = [s for s in one if s in two and s not in out]
    first = [s for s in out if s in one and s not in two]
    second = [s for s in out if s in two and s not in one]
    order_a = tuple(one.index(s) for s in batch + first + joined)
    order_b = tuple(two.index(s) for s in batch + joined + second)
    product_letters = batch + first + second
    order_out = tuple(product_letters.index(s) for s in out)
    return order_a, order_b, order_out, (len(batch), len(first), len(joined), len(second))


def _einsum(a, b, *, subscripts):
    if a.dtype in _SHORT_FLOATS:
        product = _pair_product(_widen_halves(a), _widen_halves(b), subscripts)
        return _cast_array(product, a.dtype)
    if a.dtype == np.int8:
        a, b = a.astype(np.int32), b.astype(np.int32)
    return _pair_product(a, b, subscripts)


def _pair_product(a, b, subscripts, multiply=None):
    order_a, order_b, order_out, (batch, first, joined, second) = _plan(subscripts)
    a, b = a.transpose(order_a), b.transpose(order_b)
    batch_dims, first_dims = a.shape[:batch], a.shape[batch : batch + first]
    inner, second_dims = a.shape[batch + first :], b.shape[batch + joined :]
    if batch_dims != b.shape[:batch] or inner != b.shape[batch : batch + joined]:
        raise ValueError("sizes of equal letters differ")
    if not joined:  # no sum: a product element by element
        left = a.reshape((*batch_dims, *first_dims, *(1,) * second))
        right = b.reshape((*batch_dims, *(1,) * first, *second_dims))
        return (left * right).transpose(order_out)
    if batch and not first and not second and a.dtype.kind != "b":
        names = _LETTERS[: batch + joined]
        return np.einsum(f"{names},{names}->{names[:batch]}", a, b).transpose(order_out)
    n, k, m = math.prod(first_dims), math.prod(inner), math.prod(second_dims)
    a, b = a.reshape((*batch_dims, n, k)), b.reshape((*batch_dims, k, m))
    product = multiply(a, b) if multiply else np.matmul(a, b)
    return product.reshape((*batch_dims, *first_dims, *second_dims)).transpose(order_out)


# ops.linear_algebra.matrices
def _strictly():
    return contextlib.nullcontext()


def _nan_where_lapack_fails(kernel, x):
    example = kernel(np.eye(*x.shape[-2:], dtype=x.dtype))
    single = not isinstance(example, tuple)
    parts = [
        np.full((*x.shape[:-2], *part.shape), np.nan, part.dtype)
        for part in ([example] if single else example)
    ]
    for index in np.ndindex(x.shape[:-2]):
        with contextlib.suppress(np.linalg.LinAlgError):
            of_one = kernel(x[index])
            for part, value in zip(parts, [of_one] if single else of_one, strict=True):
                part[index] = value
    return parts[0] if single else tuple(parts)


def _lapack(failure):

    def declare(kernel):
        @functools.wraps(kernel)
        def run(*arrays, **settings):
            dtype = arrays[0].dtype
            short = dtype in _SHORT_FLOATS
            if short:
                arrays = tuple(a.astype(np.float32) for a in arrays)
            try:
                with _strictly():
                    result = kernel(*arrays, **settings)
            except np.linalg.LinAlgError as error:
                if failure is None:
                    with _strictly():
                        result = _nan_where_lapack_fails(lambda x: kernel(x, **settings), arrays[0])
                    return _narrow(result, dtype) if short else result
                name = kernel.__name__.strip("_")
                raise GraphError(
                    f"{name}: {failure} ({error}); the input has shape {arrays[0].shape}"
                ) from None
            return _narrow(result, dtype) if short else result

        return run

    return declare


def _narrow(result, dtype):
    if isinstance(result, tuple):
        return tuple(_narrow(part, dtype) for part in result)
    return result.astype(dtype) if result.dtype.kind == "f" else result


def _call(name, *arrays, **settings):
    function = getattr(np.linalg, name, None)
    if function is not None:
        return function(*arrays, **settings)
    result = getattr(np.linalg, name)(*(a.get() for a in arrays), **settings)
    return tuple(map(np.asarray, result)) if isinstance(result, tuple) else np.asarray(result)


# ops.linear_algebra.factorizations


@_lapack("Cholesky decomposition was not successful. The input is not positive definite.")
def _cholesky(x, *, or_nan=False):
    try:
        y = np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        if not or_nan:
            raise
        y = _nan_where_lapack_fails(np.linalg.cholesky, x)
    return y


@_lapack("the QR decomposition failed")
def _qr(x, *, mode):
    q, r = np.linalg.qr(x, mode)
    return q, r


@_lapack("Input is not invertible.")
def _lu_factor(x):
    work = np.array(np.asarray(x))
    flat = work.reshape(math.prod(work.shape[:-2]), *work.shape[-2:])
    short = min(work.shape[-2:])
    pivots = np.empty((len(flat), short), np.int32)
    every = np.arange(len(flat))
    for k in range(short):
        best = k + abs(flat[:, k:, k]).argmax(axis=1)
        pivots[:, k] = best
        rows = flat[every, best].copy()
        flat[every, best] = flat[:, k]
        flat[:, k] = rows
        if not flat[:, k, k].all():
            raise np.linalg.LinAlgError("Singular matrix")
        flat[:, k + 1 :, k] /= flat[:, k, None, k]
        flat[:, k + 1 :, k + 1 :] -= flat[:, k + 1 :, k, None] * flat[:, k, None, k + 1 :]
    return np.asarray(work), np.asarray(pivots.reshape(*work.shape[:-2], short))


def _pivots_to_permutation(pivots, *, rows=None):
    exchanges = np.asarray(pivots).reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1])
    rows = pivots.shape[-1] if rows is None else rows
    order = np.tile(np.arange(rows), (len(exchanges), 1))
    every = np.arange(len(exchanges))
    for k in range(pivots.shape[-1]):
        other = exchanges[:, k]
        displaced = order[:, k].copy()
        order[:, k] = order[every, other]
        order[every, other] = displaced
    permutations = np.zeros((*order.shape, order.shape[-1]), np.float32)
    np.put_along_axis(permutations, order[:, None, :], 1.0, axis=1)
    return np.asarray(permutations.reshape((*pivots.shape[:-1], rows, rows)))


@_lapack("Self-adjoint eigen decomposition did not converge.")
def _eigh(x):
    w, v = np.linalg.eigh(x)
    return w, v


@_lapack("the eigenvalues did not converge")
def _eig(x):
    complex_dtype = np.complex128 if x.dtype in (np.float64, np.complex128) else np.complex64
    w, v = _call("eig", x)
    return w.astype(complex_dtype), v.astype(complex_dtype)


# ops.linear_algebra.int8_product
_INT8 = np.dtype(np.int8)


def _int8_product(x1, x2):
    if x1.dtype != _INT8 or x2.dtype != _INT8:
        raise ValueError("both inputs must be int8")
    return _int8_sums(x1, x2)


# ops.linear_algebra.linear_solve
_NOT_INVERTIBLE = "Input is not invertible."


@_lapack(_NOT_INVERTIBLE)
def _inv(x):
    return np.linalg.inv(x)


def _solve_stacks(a, b):
    return np.linalg.solve(a, b)


@_lapack(_NOT_INVERTIBLE)
def _solve(a, b):
    return _solve_stacks(a, b)


@_lapack(_NOT_INVERTIBLE)
def _solve_triangular(a, b, *, lower):
    return _solve_stacks((_lower_triangle if lower else _upper_triangle)(a, 0), b)


@_lapack("the determinant failed")
def _det(x):
    return np.linalg.det(x)


@_lapack("the determinant failed")
def _slogdet(x):
    sign, size = np.linalg.slogdet(x)
    return sign, size


@_lapack(None)
def _pinv(x, *, rcond):
    return np.linalg.pinv(x, rcond)


_PADE = [
    math.factorial(26 - k)
    * math.factorial(13)
    / (math.factorial(26) * math.factorial(k) * math.factorial(13 - k))
    for k in range(14)
]
_THETA = 5.371920351148152  # the norm up to which [13/13] has double precision


@_lapack("the Padé approximant failed")
def _expm(x):
    x = _as_float_array(x)
    norm = float(abs(x).sum(axis=-2).max()) if x.size else 0.0
    if not math.isfinite(norm):
        return np.full(x.shape, np.nan, x.dtype)
    squarings = max(0, math.ceil(math.log2(norm / _THETA))) if norm > _THETA else 0
    a = x / 2**squarings
    a2 = a @ a
    power = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
    odd = np.zeros_like(x)
    even = np.zeros_like(x)
    for k in range(0, 14, 2):
        even = even + x.dtype.type(_PADE[k]) * power
        odd = odd + x.dtype.type(_PADE[k + 1]) * power
        power = power @ a2
    odd = a @ odd
    y = np.linalg.solve(even - odd, even + odd)
    for _ in range(squarings):
        y = y @ y
    return y


# ops.linear_algebra.singular_values


@_lapack(None)
def _svd(x, *, full):
    u, s, vh = np.linalg.svd(x, full_matrices=full)
    return u, s, vh


@_lapack(None)
def _singular_values(x):
    return np.linalg.svd(_as_float_array(x), compute_uv=False)


def _no_gradient_here(g):
    if g.size and (g != 0).any():
        raise GraphError(
            "svd: with full_matrices=True the vectors beyond min(n, m) are arbitrary and have no "
            "gradient; "
            "use full_matrices=False"
        )
    return np.zeros((), g.dtype)


# ops.linear_algebra.square_sums


def _square_sum(x, *, axis, keepdims):
    if axis is not None:
        _check_axes(x, axis, "norm")
    sum_dtype = _wide_sum_dtype(x.dtype)
    sums = np.add.reduce(np.square(x), axis, sum_dtype, None, keepdims)
    return sums if sum_dtype is None else sums.astype(x.dtype)


# ops.math.complex_parts
_COMPLEX_OF = {"float64": _ElementType("complex128"), "complex128": _ElementType("complex128")}


def _complex_dtype(dtype):
    return _COMPLEX_OF.get(dtype.name, _ElementType("complex64"))


def _real(x):
    return np.real(x)


def _imag(x):
    return np.imag(x) if x.dtype.kind == "c" else np.zeros_like(x)


def _conj(x):
    return np.conjugate(x) if x.dtype.kind == "c" else x


def _angle(x):
    if x.dtype.kind == "c":
        return np.arctan2(x.imag, x.real)
    angle_dtype = _float_dtype(_ElementType(x.dtype)).dtype
    # a half turn where the sign is -1; NaN stays
    turns = np.abs(np.minimum(np.sign(x.astype(angle_dtype, copy=False)), 0)) * math.pi
    return turns.astype(angle_dtype, copy=False)


def _complex(a, b):
    shape = np.broadcast_shapes(a.shape, b.shape) if a.shape != b.shape else a.shape
    z = np.empty(shape, _complex_dtype(_ElementType(a.dtype)).dtype)
    z.real = a
    z.imag = b
    return z


def _view_as_real(x):
    return np.stack([np.real(x), np.imag(x)], axis=-1)


def _view_as_complex(x):
    z = np.empty(x.shape[:-1], _complex_dtype(_ElementType(x.dtype)).dtype)
    z.real, z.imag = x[..., 0], x[..., 1]
    return z


# ops.math.cumulative
_BROAD = round(_CALL_FLOATS * 8 * _BYTE_NANOSECONDS / (2 * _FUNCTION_NANOSECONDS))


def _along_axis(n, cut, axis):
    return tuple(cut if i == axis else slice(None) for i in range(n))


def _accumulate(step, x, start, axis, exclusive, reverse):
    flipped = np.flip(x, axis) if reverse else x
    result = step(flipped, axis=axis)
    if exclusive:
        shifted = np.full_like(result, start)
        rank, axis_index = result.ndim, axis % result.ndim
        shifted[_along_axis(rank, slice(1, None), axis_index)] = result[
            _along_axis(rank, slice(None, -1), axis_index)
        ]
        result = shifted
    return np.flip(result, axis) if reverse else result


def _accumulate_once_rounded(function, x, start, axis, exclusive, reverse):
    wide_dtype = _wide_sum_dtype(x.dtype) or x.dtype

    def step(values, axis):
        # CuPy's take no bfloat16
        return function(values.astype(wide_dtype, copy=False), axis=axis, dtype=wide_dtype)

    return _accumulate(step, x, start, axis, exclusive, reverse).astype(x.dtype, copy=False)


def _cumsum(x, *, axis, exclusive, reverse):
    _check_axes(x, axis, "cumsum")
    return _accumulate_once_rounded(np.cumsum, x, 0, axis, exclusive, reverse)


def _cumprod(x, *, axis, exclusive, reverse):
    _check_axes(x, axis, "cumprod")
    return _accumulate_once_rounded(np.cumprod, x, 1, axis, exclusive, reverse)


def _linear_recurrence(a, b, *, axis, reverse):
    result = np.empty_like(b)
    out, factors, terms = (np.moveaxis(v, axis, 0) for v in (result, a, b))
    order = range(len(terms))
    previous = np.zeros(terms.shape[1:], b.dtype)
    for i in reversed(order) if reverse else order:
        previous = terms[i] + factors[i] * previous
        out[i] = previous
    return result


def _shift_along(x, *, axis, reverse):
    result = np.zeros_like(x)
    rank, axis_index = x.ndim, axis % x.ndim
    early = _along_axis(rank, slice(None, -1), axis_index)
    late = _along_axis(rank, slice(1, None), axis_index)
    if reverse:
        result[early] = x[late]
    else:
        result[late] = x[early]
    return result


def _cumulative_logsumexp(x, *, axis, exclusive, reverse):
    _check_axes(x, axis, "cumulative_logsumexp")

    def step(values, axis):
        # a call for each row, or number by number, where each waits for the one before it
        if values.size < _BROAD * values.shape[axis]:
            return np.logaddexp.accumulate(values, axis=axis)
        rows = np.moveaxis(values, axis, 0)
        out = np.empty_like(rows)
        running = np.full(rows.shape[1:], -np.inf, rows.dtype)
        for i, row in enumerate(rows):
            running = out[i] = np.logaddexp(running, row)
        return np.moveaxis(out, 0, axis)

    return _accumulate(step, x, -np.inf, axis, exclusive, reverse)


def _prod(x, *, axis, keepdims):
    _check_axes(x, axis, "prod")
    dtype = _summed_dtype(_ElementType(x.dtype)).dtype
    wide_dtype = _wide_sum_dtype(dtype) or dtype
    return np.prod(x, axis=axis, dtype=wide_dtype, keepdims=keepdims).astype(dtype, copy=False)


# ops.math.differences


def _sliding_product(x, window):
    return np.correlate(x, np.conj(window), "valid").astype(x.dtype)


# ops.math.elementwise
def _cast_rule(x, *, dtype):
    if dtype == "string" and x.dtype.name != dtype:
        raise GraphError(
            f"cast: {x.dtype.name} can't be cast to string; tk.strings.as_string writes numbers"
        )
    return _Spec(x.shape, dtype)


def _cast(x, *, dtype):
    target = _ElementType(dtype).dtype
    if target.kind == "O" and x.dtype != target:
        _cast_rule(_Spec(x.shape, _ElementType(x.dtype)), dtype=dtype)
    if x.dtype.kind == "c" and target.kind != "c":
        x = x.real
    return x.astype(target)


def _identity(x):
    return x


def _divide_no_nan(x1, x2):
    return np.where(x2 == 0, 0, x1 / np.where(x2 == 0, 1, x2))


def _reciprocal(x):
    return 1 / x


def _keep_where(x, mask):
    return np.where(mask, x, 0)


def _where(condition, x1, x2):
    return np.where(condition, x1, x2)


# ops.math.error_functions


def _erf(x):
    if x.dtype != np.float64:
        return _erf_of_elementwise_reference(_real_floats(x)).astype(x.dtype, copy=False)
    return _erf_of_special_reference(x)


def _erfc(x):
    return _erfc_of_special_reference(_real_floats(x).astype(np.float64)).astype(x.dtype)


_TAIL32 = _tail_by_mills_ratio(lambda t: np.exp(t * t * -0.5), 15.0)
_TAIL64 = _tail_by_erfc(lambda t: _erfc(t))


def _normal_tail(x):
    return _TAIL64 if x.dtype == np.float64 else _TAIL32


def _erfinv(x):
    return _erfinv_of_special_reference(_real_floats(x).astype(np.float64)).astype(x.dtype)


def _erfcinv(x):
    return _erfcinv_of_special_reference(_real_floats(x).astype(np.float64)).astype(x.dtype)


def _ndtri(x):
    return _ndtri_of_special_reference(_real_floats(x).astype(np.float64)).astype(x.dtype)


# ops.math.max_and_argmax
def _reduced_extreme(x, name, axis, keepdims, initial):
    _check_axes(x, axis, name)
    if initial is None:
        return _extreme_of_max_and_argmax(name, x, axis, keepdims)
    pick = np.maximum if name == "max" else np.minimum
    return pick.reduce(x, axis, None, None, keepdims, initial)


def _extreme_of_max_and_argmax(name, x, axis, keepdims):
    pick = np.maximum if name == "max" else np.minimum
    return pick.reduce(x, axis, None, None, keepdims)


def _max(x, *, axis, keepdims, initial):
    return _reduced_extreme(x, "max", axis, keepdims, initial)


def _min(x, *, axis, keepdims, initial):
    return _reduced_extreme(x, "min", axis, keepdims, initial)


def _position(name, x, axis, keepdims, dtype):
    if not keepdims:  # the method itself, behind no wrapper in Python
        positions = x.argmax(axis) if name == "argmax" else x.argmin(axis)
    else:
        positions = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    return positions.astype(dtype, copy=False)


def _argmax(x, *, axis, keepdims, dtype):
    _check_axes(x, axis, "argmax")
    return _position("argmax", x, axis, keepdims, dtype)


def _argmin(x, *, axis, keepdims, dtype):
    _check_axes(x, axis, "argmin")
    return _position("argmin", x, axis, keepdims, dtype)


# ops.math.exponentials


def _logaddexp(x1, x2):
    return np.logaddexp(x1, x2)


def _xlogy(x, y):
    return np.where(x == 0, 0, x * np.log(np.where(x == 0, 1, y)))


def _xlog1py(x, y):
    return np.where(x == 0, 0, x * np.log1p(np.where(x == 0, 0, y)))


def _xdivy(x, y):
    return np.where(x == 0, 0, x / np.where(x == 0, 1, y))


def _logsumexp(x, *, axis, keepdims):
    _check_axes(x, axis, "logsumexp")
    if x.dtype.kind in "iub":
        x = x.astype(_floatx())
    if x.dtype.itemsize < 4:  # sums of 16-bit floats stop growing, or overflow
        kernel = _logsumexp
        return kernel(x.astype(np.float32), axis=axis, keepdims=keepdims).astype(x.dtype)
    if not x.size:
        return np.log(np.add.reduce(x, axis, None, None, keepdims))
    top = _extreme_of_max_and_argmax("max", x, axis, True)
    limit = _GREATEST[x.dtype]
    top = np.minimum(np.maximum(top, -limit), limit)  # inf - inf would be NaN
    total = np.log(np.add.reduce(np.exp(x - top), axis, None, None, keepdims))
    return total + top.reshape(total.shape)


# ops.math.finiteness


def _isposinf(x):
    return np.equal(x, np.inf)


def _isneginf(x):
    return np.equal(x, -np.inf)


def _isclose(x1, x2, *, rtol, atol, equal_nan):
    if x1.dtype.kind in "iub":
        x1, x2 = x1.astype(np.float64), x2.astype(np.float64)
    close = np.abs(x1 - x2) <= atol + rtol * np.abs(x2)
    close = np.where(np.isfinite(x1) & np.isfinite(x2), close, x1 == x2)
    return close | (np.isnan(x1) & np.isnan(x2)) if equal_nan else close


# ops.math.gamma
_MOST_TERMS_of_gamma = 10_000  # of a sum that begins at a negative number


def _lgamma(x):
    return _lgamma_of_special_reference(_real_floats(x).astype(np.float64)).astype(x.dtype)


def _digamma(x):
    return _digamma_of_special_reference(_real_floats(x).astype(np.float64)).astype(x.dtype)


def _zeta(x, q):
    s, a = np.broadcast_arrays(
        _real_floats(x).astype(np.float64), _real_floats(q).astype(np.float64)
    )
    pole = (a <= 0) & (a == np.floor(a))
    plain = ~pole & np.isfinite(a) & (a > -_MOST_TERMS_of_gamma) & np.isfinite(s)
    total = _zeta_sum(np.where(plain, s, 2.0), np.where(plain, a, 1.0))
    total = np.where(plain, total, np.nan)
    total = np.where(pole & (s % 2 == 0), np.inf, total)
    total = np.where(s == np.inf, np.where(a > 1, 0, np.where(a == 1, 1, np.inf)), total)
    total = np.where((a == np.inf) & (s > 1), 0, total)
    total = np.where((s < 1) | np.isnan(a) | np.isnan(s), np.nan, total)
    return np.where(s == 1, np.inf, total).astype(x.dtype)


def _zeta_sum(s, a):
    total = 0 * (s + a)
    steps = (
        _START_of_special_reference
        if not a.size
        else max(
            _START_of_special_reference, math.ceil(_START_of_special_reference - float(a.min()))
        )
    )
    for k in range(steps):
        total = total + (a + k) ** -s
    end = a + steps
    total = total + end ** (1 - s) / (s - 1) + 0.5 * end**-s
    # Euler-Maclaurin: each term has two more factors s + j and two more powers of 1 / end.
    factor = s * end ** (-s - 1)
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        total = total + bernoulli / math.factorial(2 * k) * factor
        factor = factor * (s + 2 * k - 1) * (s + 2 * k) / (end * end)
    return total


def _is_trigamma(a):
    return a.size > 0 and bool((a == 1).all())


def _polygamma(a, x):
    order, doubles = np.broadcast_arrays(
        _real_floats(a).astype(np.float64), _real_floats(x).astype(np.float64)
    )
    if _is_trigamma(a):
        return _trigamma(doubles).astype(x.dtype)
    factorial = np.exp(_positive_lgamma(order + 1))
    sign = 2 * (order % 2) - 1
    value = sign * factorial * _zeta(order + 1, doubles)
    value = np.where(order == 0, _digamma(doubles), value)
    valid = (order >= 0) & (order == np.floor(order))
    return np.where(valid, value, np.nan).astype(x.dtype)


# ops.math.incomplete_gamma
_EPSILON = 1e-16
_TINY = 1e-300


def _fraction(first, term, active):
    value = np.where(first == 0, _TINY, first)
    c, d = value, np.zeros_like(value)
    for n in range(1, _MOST_TERMS):
        a, b = term(n)
        d = b + a * d
        d = 1 / np.where(d == 0, _TINY, d)
        c = b + a / c
        c = np.where(c == 0, _TINY, c)
        step = c * d
        value = np.where(active, value * step, value)
        active = active & (np.abs(step - 1) > _EPSILON * 8)
        if n % 16 == 0 and not active.any():
            break
    return value


def _lower_series(a, x, active):
    total, term = np.ones_like(a), np.ones_like(a)
    for n in range(1, _MOST_TERMS):
        term = np.where(active, term * x / (a + n), 0)
        total = total + term
        if n % 16 == 0 and not (term > _EPSILON * total).any():
            break
    return total


def _gamma_parts(a, x):
    low = x < a + 1
    valid = (a > 0) & (x > 0) & np.isfinite(x) & np.isfinite(a)
    safe_a, safe_x = np.where(valid, a, 1.0), np.where(valid, x, 1.0)
    scale = np.exp(safe_a * np.log(safe_x) - safe_x - _lgamma(safe_a))
    lower = scale / safe_a * _lower_series(safe_a, safe_x, valid & low)
    b0 = safe_x + 1 - safe_a
    upper = scale / _fraction(b0, lambda n: (-n * (n - safe_a), b0 + 2 * n), valid & ~low)
    return np.where(low, lower, upper), low, valid


def _igamma_of_incomplete_gamma(a, x, upper):
    a64, x64 = np.broadcast_arrays(
        _real_floats(a).astype(np.float64), _real_floats(x).astype(np.float64)
    )
    part, low, valid = _gamma_parts(a64, x64)
    value = np.where(low != upper, part, 1 - part)
    at_end = np.where((x64 == 0) != upper, 0.0, 1.0)
    value = np.where(valid, value, np.where((x64 == 0) | (x64 == np.inf), at_end, np.nan))
    wrong = (a64 <= 0) | (x64 < 0) | np.isnan(a64) | np.isnan(x64)
    return np.where(wrong, np.nan, value).astype(x.dtype)


def _igamma(a, x):
    return _igamma_of_incomplete_gamma(a, x, False)


def _igammac(a, x):
    return _igamma_of_incomplete_gamma(a, x, True)


def _lower_slope(a, x, active):
    total, term = np.ones_like(a), np.ones_like(a)
    bent, harmonic = np.zeros_like(a), np.zeros_like(a)
    for n in range(1, _MOST_TERMS):
        term = np.where(active, term * x / (a + n), 0)
        harmonic = harmonic + 1 / (a + n)
        total, bent = total + term, bent - term * harmonic
        if n % 16 == 0 and not (term * (1 + harmonic) > _EPSILON * total).any():
            break
    log_scale = a * np.log(x) - x - _lgamma(a + 1)
    by_scale = np.log(x) - _digamma(a + 1)
    return np.exp(log_scale) * (by_scale * total + bent)


def _upper_slope(a, x, active):
    first = x + 1 - a
    value, slope = first, np.full_like(first, -1.0)
    c, dc = value, slope
    d, dd = np.zeros_like(value), np.zeros_like(value)
    for n in range(1, _MOST_TERMS):
        top, bottom = -n * (n - a), first + 2 * n  # derivatives n and -1
        dd = -1 + n * d + top * dd
        d = bottom + top * d
        d = 1 / np.where(d == 0, _TINY, d)
        dd = -dd * d * d
        dc = -1 + n / c - top * dc / (c * c)
        c = bottom + top / c
        c = np.where(c == 0, _TINY, c)
        step, bend = c * d, dc * d + c * dd
        slope = np.where(active, slope * step + value * bend, slope)
        value = np.where(active, value * step, value)
        settled = (np.abs(step - 1) <= _EPSILON * 8) & (np.abs(bend) <= _EPSILON * 8)
        active = active & ~settled
        if n % 16 == 0 and not active.any():
            break
    scale = np.exp(a * np.log(x) - x - _lgamma(a))
    by_scale = np.log(x) - _digamma(a)
    return scale / value * (by_scale - slope / value)


def _igamma_slope(a, x):
    a64, x64 = np.broadcast_arrays(
        _real_floats(a).astype(np.float64), _real_floats(x).astype(np.float64)
    )
    valid = (a64 > 0) & (x64 > 0) & np.isfinite(x64) & np.isfinite(a64)
    safe_a, safe_x = np.where(valid, a64, 1.0), np.where(valid, x64, 1.0)
    low = safe_x < safe_a + 1
    value = _lower_slope(safe_a, np.where(low, safe_x, safe_a), valid & low)
    beyond = np.where(low, safe_a + 2, safe_x)
    value = np.where(low, value, -_upper_slope(safe_a, beyond, valid & ~low))
    at_end = (a64 > 0) & ((x64 == 0) | (x64 == np.inf))
    return np.where(valid, value, np.where(at_end, 0.0, np.nan)).astype(x.dtype)


def _beta_term(a, b, x, n):
    m = n // 2
    if n % 2 == 0:
        return m * (b - m) * x / ((a + n - 1) * (a + n)), 1.0
    return -(a + m) * (a + b + m) * x / ((a + n - 1) * (a + n)), 1.0


def _betainc(a, b, x):
    a64, b64, x64 = np.broadcast_arrays(*(_real_floats(v).astype(np.float64) for v in (a, b, x)))
    valid = (a64 > 0) & (b64 > 0) & (x64 >= 0) & (x64 <= 1)
    inside = valid & (x64 > 0) & (x64 < 1)
    a_, b_ = np.where(inside, a64, 1.0), np.where(inside, b64, 1.0)
    x_ = np.where(inside, x64, 0.5)
    turned = x_ > (a_ + 1) / (a_ + b_ + 2)  # I(x; a, b) = 1 - I(1 - x; b, a), which converges
    p, q = np.where(turned, b_, a_), np.where(turned, a_, b_)
    z = np.where(turned, 1 - x_, x_)
    complement = np.where(turned, x_, 1 - x_)
    log_beta = _lgamma(p) + _lgamma(q) - _lgamma(p + q)
    scale = np.exp(p * np.log(z) + q * np.log(complement) - log_beta) / p
    part = scale / _fraction(np.ones_like(z), lambda n: _beta_term(p, q, z, n), inside)
    value = np.where(turned, 1 - part, part)
    value = np.where(inside, value, np.where(x64 >= 1, 1.0, 0.0))
    return np.where(valid, value, np.nan).astype(x.dtype)


# ops.math.predicates


def _all(x, *, axis, keepdims):
    _check_axes(x, axis, "all")
    return np.all(x, axis=axis, keepdims=keepdims)


def _any(x, *, axis, keepdims):
    _check_axes(x, axis, "any")
    return np.any(x, axis=axis, keepdims=keepdims)


# ops.math.rounding


def _floor(x):
    return np.floor(x)


def _ceil(x):
    return np.ceil(x)


def _divide(function, a, b, op):
    if b.dtype.kind in "iub" and not b.all():
        raise GraphError(f"{op}: division of an integer by zero")
    if b.dtype.kind == "b":
        a, b = a.astype(np.int32), b.astype(np.int32)
    return function(a, b)


def _floor_divide(x1, x2):
    return _divide(np.floor_divide, x1, x2, "floor_divide")


def _mod(x1, x2):
    return _divide(np.remainder, x1, x2, "mod")


def _fmod(x1, x2):
    return _divide(np.fmod, x1, x2, "fmod")


def _saturate_cast(x, *, dtype):
    target = _ElementType(dtype)
    low, high = target.limits
    if x.dtype.kind not in "iub":
        # A float next to the greatest integer may lie beyond it, so the ends are put in by
        # comparison.
        inside = (x >= low) & (x <= high)
        clipped = np.where(inside, x, 0).astype(target.dtype)
        clipped = np.where(x >= high, np.asarray(high, target.dtype), clipped)
        return np.where(x <= low, np.asarray(low, target.dtype), clipped)
    if target.is_floating:
        return x.astype(target.dtype)
    source_limits = _ElementType(x.dtype).limits
    return np.clip(x, max(low, source_limits[0]), min(high, source_limits[1])).astype(target.dtype)


# ops.math.statistics
def _ranks(q, n, method):
    position = q * np.maximum(n - 1, 0)
    low, high = np.floor(position), np.ceil(position)
    if method == "linear":
        weight = position - low
    elif method == "midpoint":
        weight = (high - low) / 2
    else:
        rank = {"lower": low, "higher": high, "nearest": np.rint(position)}[method]
        low, high, weight = rank, rank, 0 * position
    return low.astype(np.int64)[..., None], high.astype(np.int64)[..., None], weight[..., None]


def _between_ranks(ordered, q, method):
    low, high, weight = (x[0] for x in _ranks(q, np.array(ordered.shape[-1]), method))
    if not weight:
        return ordered[..., low] + 0.0
    return _weigh(ordered[..., low], ordered[..., high], weight)


def _weigh(lower, upper, weight):
    step = np.where(weight > 0, upper - lower, 0)  # of two infinities where nothing is added
    between = lower + step * weight
    beside_infinity = lower * (1 - weight) + upper * weight  # where the step is none
    return np.where(np.isfinite(step), between, beside_infinity)


def _rows_of_statistics(x, axis):
    axes = _canonical_axes(axis, x.ndim, "quantile")
    other_axes = [i for i in range(x.ndim) if i not in axes]
    dims = [x.shape[i] for i in other_axes]
    size = 1
    for i in axes:
        size *= x.shape[i]
    if not size:
        raise GraphError("quantile: there are no elements along the axis")
    return x.transpose(*other_axes, *axes).reshape(*dims, size), axes, [*other_axes, *axes]


def _row_lengths(rows, skip_nan):
    if skip_nan:
        return np.sum(~np.isnan(rows), axis=-1)
    return np.full(rows.shape[:-1], rows.shape[-1])


def _join_of_statistics(results, q, dims, dtype):
    if type(q) is not tuple:
        return results[0].astype(dtype, copy=False)
    return np.stack(results).astype(dtype, copy=False) if q else np.empty((0, *dims), dtype)


def _quantile(x, *, q, axis, method, keepdims, skip_nan):
    _check_axes(x, axis, "quantile")
    quantile_dtype = _float_dtype(_ElementType(x.dtype)).dtype
    rows, axes, _ = _rows_of_statistics(x.astype(quantile_dtype, copy=False), axis)
    ordered = _sorted_last(rows)  # NaN comes last
    last = ordered[..., -1]
    n = _row_lengths(rows, skip_nan) if skip_nan else None
    has_nan = last != last if n is None else n == 0
    results = []
    for share in q if type(q) is tuple else (q,):
        if n is None:
            between = _between_ranks(ordered, share, method)
        else:
            low, high, weight = _ranks(share, n, method)
            lower = np.take_along_axis(ordered, low, axis=-1)
            upper = np.take_along_axis(ordered, high, axis=-1)
            between = _weigh(lower, upper, weight)[..., 0]
        value = np.where(has_nan, np.nan, between)
        results.append(np.expand_dims(value, axes) if keepdims else value)
    return _join_of_statistics(results, q, _reduced_dims(x.shape, axis, keepdims), quantile_dtype)


def _index_of_rank(rows, ordered, rank):
    numbers, sorted_numbers = rows.reshape(-1), ordered.reshape(-1)
    number = sorted_numbers[rank]
    if number != number:  # NaN comes last
        alike, sorted_alike = numbers != numbers, sorted_numbers != sorted_numbers
    else:
        alike, sorted_alike = numbers == number, sorted_numbers == number
    return np.flatnonzero(alike)[rank - np.argmax(sorted_alike)]


def _quantile_spread(g, x, *, q, axis, method, keepdims, skip_nan):
    rows, _, order = _rows_of_statistics(x, axis)
    n = _row_lengths(rows, skip_nan)
    # Ordering positions takes NumPy ten times as long as ordering numbers.
    ordered = _sorted_last(rows) if rows.size == rows.shape[-1] else None
    ranking = _stable_order(rows) if ordered is None else None
    result = np.zeros(rows.shape, g.dtype)
    for i, share in enumerate(q if type(q) is tuple else (q,)):
        part = (g[i] if type(q) is tuple else g).reshape(rows.shape[:-1])[..., None]
        low, high, weight = _ranks(share, n, method)
        for rank, factor in ((low, 1 - weight), (high, weight)):
            if ordered is None:
                index = np.take_along_axis(ranking, rank, axis=-1)
            else:
                index = np.reshape(_index_of_rank(rows, ordered, rank.item()), rank.shape)
            current = np.take_along_axis(result, index, axis=-1)
            np.put_along_axis(result, index, current + (part * factor).astype(g.dtype), axis=-1)
    moved = result.reshape([x.shape[i] for i in order])
    return moved.transpose(*np.argsort(order).tolist())


def _quantile_gather(g, x, *, q, axis, method, keepdims, skip_nan):
    rows, axes, _ = _rows_of_statistics(x, axis)
    n = _row_lengths(rows, skip_nan)
    ranked = np.take_along_axis(_rows_of_statistics(g, axis)[0], _stable_order(rows), axis=-1)
    results = []
    for share in q if type(q) is tuple else (q,):
        low, high, weight = _ranks(share, n, method)
        value = np.take_along_axis(ranked, low, axis=-1) * (1 - weight)
        value = (value + np.take_along_axis(ranked, high, axis=-1) * weight)[..., 0]
        results.append(np.expand_dims(value, axes) if keepdims else value)
    return _join_of_statistics(results, q, _reduced_dims(x.shape, axis, keepdims), g.dtype)


def _as_rows(x):
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _count_of_statistics(rows, weights, bins, all_fit):
    rows, cell_count = rows.astype(np.int64, copy=False), len(rows) * bins
    bin_indices = rows
    if len(rows) > 1:  # All rows at once: each has its own range of bins.
        bin_indices = rows + np.arange(len(rows), dtype=np.int64)[:, None] * bins
    if not all_fit:
        bin_indices = np.where((rows >= 0) & (rows < bins), bin_indices, cell_count)
    bin_indices, flat_weights = bin_indices.ravel(), None if weights is None else weights.ravel()
    counts = np.bincount(bin_indices, weights=flat_weights, minlength=cell_count)
    return counts[:cell_count].reshape(len(rows), bins)


def _limits_of(x):
    if not x.size:
        return 0, -1
    return int(x.min()), int(x.max())


def _bins_for(lowest, greatest, minlength, maxlength):
    if lowest < 0:
        raise GraphError(f"bincount: x has the negative value {lowest}")
    bins = max(minlength, greatest + 1)
    return bins if maxlength is None else min(bins, maxlength)


def _as_counts(x, weights, counts):
    count_dtype = np.int32 if weights is None else weights.dtype
    return counts.reshape(*x.shape[:-1], counts.shape[-1]).astype(count_dtype, copy=False)


def _bincount(x, *weights, minlength, maxlength=None):
    lowest, greatest = _limits_of(x)
    bins = _bins_for(lowest, greatest, minlength, maxlength)
    row_weights = _as_rows(weights[0]) if weights else None
    return _as_counts(
        x, row_weights, _count_of_statistics(_as_rows(x), row_weights, bins, greatest < bins)
    )


def _histogram(x, *, bins, range):
    edge_dtype = _float_dtype(_ElementType(x.dtype)).dtype
    counts, edges = np.histogram(x.astype(edge_dtype, copy=False).ravel(), bins=bins, range=range)
    return counts.astype(edge_dtype), edges.astype(edge_dtype)


# ops.math.trigonometry


def _sinc(x):
    angle = math.pi * x
    return np.where(x == 0, 1, np.sin(angle) / np.where(x == 0, 1, angle))


# ops.math.value_limits


def _clip(x, *, x_min, x_max):
    if type(x) is np.ndarray and x.dtype.kind in "iu" and x.size > _CALL_FLOATS:
        # by vectors, which NumPy's minimum and maximum of integers beside a number are not
        return np.clip(x, x_min, x_max)
    return _clip_of_elementwise_reference(x, x_min=x_min, x_max=x_max)


def _clip_by_tensors(x, x_min, x_max):
    return np.maximum(np.minimum(x, x_max), x_min)


# ops.neural.activations


def _keep_between(g, x, *, low, high):
    return np.where(np.logical_and(x > low, x < high), g, 0)


def _leaky_relu(x, *, negative_slope):
    if 0 < negative_slope <= 1:
        return _leaky_relu_of_elementwise_reference(x, negative_slope=negative_slope)
    return np.where(x > 0, x, x * negative_slope)


def _leaky_relu_gradient(g, x, *, negative_slope):
    return np.where(x > 0, g, g * negative_slope)


def _log_sigmoid(x):
    x = _refuse_complex(x)
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


def _softplus(x):
    return _softplus_of_elementwise_reference(_refuse_complex(x))


def _softsign(x):
    return x / (1 + np.abs(x))


def _sparse_sigmoid(x):
    return np.minimum(np.maximum((x + 1) * 0.5, 0), 1)


def _hard_tanh(x):
    return _clip_of_elementwise_reference(x, x_min=-1, x_max=1)


def _elu(x, *, alpha):
    return np.maximum(x, 0) + alpha * np.expm1(np.minimum(x, 0))


def _celu(x, *, alpha):
    return np.maximum(x, 0) + alpha * np.expm1(np.minimum(x, 0) / alpha)


def _squareplus(x, *, b):
    return 0.5 * (x + np.sqrt(x * x + b))


def _tanh_shrink(x):
    return x - np.tanh(x)


# ops.neural.gated_activations


def _mish(x):
    return x * np.tanh(_softplus_of_elementwise_reference(_refuse_complex(x)))


def _gelu_tanh(x):
    return _gelu_tanh_of_elementwise_reference(_real_floats(x)).astype(x.dtype, copy=False)


def _gelu_tanh_gradient(g, x):
    by_x = _gelu_tanh_gradient_of_elementwise_reference(g, _widen_halves(x))
    return by_x.astype(g.dtype, copy=False)


def _gelu_erf(x):
    floats = _real_floats(x)
    return _gelu_erf_of_elementwise_reference(floats, _normal_tail(floats)).astype(
        x.dtype, copy=False
    )


def _gelu_erf_gradient(g, x):
    floats = _widen_halves(x)
    by_x = _gelu_erf_gradient_of_elementwise_reference(g, floats, _normal_tail(floats))
    return by_x.astype(g.dtype, copy=False)


# ops.neural.bias_activation
def _check_of_bias_activation(z, bias):
    if not z or len(bias) != 1 or (None not in (z[-1], bias[0]) and z[-1] != bias[0]):
        raise GraphError(
            "biased_gelu: the bias needs one number for each feature.\n"
            f"  input  {tuple(z)}\n  bias   {tuple(bias)}"
        )


def _biased_gelu(z, bias):
    _check_of_bias_activation(z.shape, bias.shape)
    return _gelu_erf(_as_float_array(z + bias))


def _sent_back(g, z, bias, summed):
    result = _gelu_erf_gradient(g, z + bias)
    floats = result.astype(np.float32) if result.dtype.itemsize < 4 else result
    by_bias = summed(floats.reshape(-1, z.shape[-1]))
    return result, by_bias.astype(bias.dtype, copy=False)


def _biased_gelu_gradient(g, z, bias):
    return _sent_back(g, z, bias, lambda flat: flat.sum(axis=0))


# ops.neural.cross_entropy


def _sigmoid_cross_entropy_with_logits(labels, logits):
    loss = np.log1p(np.exp(-np.abs(logits)))
    loss += np.maximum(logits, 0)
    return loss - logits * labels


# ops.neural.ctc
_FAR = -1e30


class _States:
    def __init__(self, target, target_length, blank):
        batch, length = target.shape
        self.classes = np.full((batch, 2 * length + 1), blank, np.int64)
        self.classes[:, 1::2] = target
        self.skips = np.zeros(self.classes.shape, bool)
        self.skips[:, 2:] = self.classes[:, 2:] != self.classes[:, :-2]
        self.skips[:, ::2] = False
        self.last = 2 * target_length.astype(np.int64)


def _shift(values, by):
    result = np.full(values.shape, _FAR, values.dtype)
    if by > 0:
        result[:, by:] = values[:, :-by]
    else:
        result[:, :by] = values[:, -by:]
    return result


def _forward_body(emitted, skips, lengths):
    batch, steps, count = emitted.shape
    alpha = np.full((steps, batch, count), _FAR, emitted.dtype)
    alpha[0, :, :2] = emitted[:, 0, :2]
    for t in range(1, steps):
        before = alpha[t - 1]
        ways = np.logaddexp(before, _shift(before, 1))
        ways = np.where(skips, np.logaddexp(ways, _shift(before, 2)), ways)
        alpha[t] = np.where((t < lengths)[:, None], ways + emitted[:, t], before)
    return alpha.transpose(1, 0, 2)


def _backward_body(emitted, skips, last, lengths):
    batch, steps, count = emitted.shape
    positions = np.arange(count)[None, :]
    final = (positions == last[:, None]) | (positions == last[:, None] - 1)
    end = np.where(final, emitted.dtype.type(0), emitted.dtype.type(_FAR))
    beta = np.full((steps, batch, count), _FAR, emitted.dtype)
    leaps = np.zeros_like(skips)
    leaps[:, :-2] = skips[:, 2:]
    beta[steps - 1] = end
    for t in range(steps - 2, -1, -1):
        after = beta[t + 1] + emitted[:, t + 1]
        ways = np.logaddexp(after, _shift(after, -1))
        ways = np.where(leaps, np.logaddexp(ways, _shift(after, -2)), ways)
        beta[t] = np.where((t + 1 < lengths)[:, None], ways, end)
    return beta.transpose(1, 0, 2)


def _emissions(scores, states):
    return np.take_along_axis(scores, states.classes[:, None, :], axis=2)


def _total_of_ctc(alpha, states):
    end = alpha[:, -1]
    last = np.take_along_axis(end, states.last[:, None], axis=1)[:, 0]
    label = np.take_along_axis(end, np.maximum(states.last - 1, 0)[:, None], axis=1)[:, 0]
    return np.where(states.last > 0, np.logaddexp(last, label), last)


def _check_values(logits, target, lengths, blank):
    _, steps, classes = logits.shape
    target_length, output_length = lengths
    if not -classes <= blank < classes:
        raise GraphError(f"ctc_loss: mask_index={blank} is not among {classes} classes")
    used = np.arange(target.shape[1])[None, :] < target_length[:, None]
    if bool((used & ((target < 0) | (target >= classes))).any()):
        raise GraphError(
            f"ctc_loss: a target is not in [0, {classes}): the output has {classes} classes"
        )
    for name, length, limit in (
        ("target_length", target_length, target.shape[1]),
        ("output_length", output_length, steps),
    ):
        if length.size and not (length.min() >= 0 and length.max() <= limit):
            raise GraphError(f"ctc_loss: {name} must lie in [0, {limit}], got {length}")


def _prepare_of_ctc(logits, target, target_length, blank):
    floats = logits.astype(np.float32) if logits.dtype.itemsize < 4 else logits
    inside = np.clip(target, 0, logits.shape[-1] - 1)
    states = _States(inside, target_length, blank % logits.shape[-1])
    return _log_softmax_of_softmax_reference(floats), states


def _ctc_loss(logits, target, target_length, output_length, *, blank):
    if logits.ndim != 3 or not len(logits) == len(target) == len(target_length):
        raise ValueError("shapes do not fit")  # the shape rule has the words
    _check_values(logits, target, (target_length, output_length), blank)
    scores, states = _prepare_of_ctc(logits, target, target_length, blank)
    alpha = _forward_body(_emissions(scores, states), states.skips, output_length)
    chance = _total_of_ctc(alpha, states)
    loss = np.where(chance < _FAR / 2, np.inf, -chance)
    return loss.astype(logits.dtype)


def _ctc_gradient(g, logits, target, target_length, output_length, *, blank):
    scores, states = _prepare_of_ctc(logits, target, target_length, blank)
    emitted = _emissions(scores, states)
    alpha = _forward_body(emitted, states.skips, output_length)
    beta = _backward_body(emitted, states.skips, states.last, output_length)
    chance = _total_of_ctc(alpha, states)
    posteriors = np.exp(np.minimum(alpha + beta - chance[:, None, None], 0))
    share = _by_class(posteriors, states.classes, scores.shape[-1])
    times = np.arange(scores.shape[1])[None, :]
    is_counted = times < output_length[:, None]
    gradient = np.where(is_counted[..., None], np.exp(scores) - share, 0)
    return (gradient * g[:, None, None]).astype(logits.dtype)


def _by_class(posteriors, classes, count):
    batch, steps, _states = posteriors.shape
    rows, times = np.arange(batch)[:, None], np.arange(steps)[None, :]
    bins = ((rows * steps + times) * count)[:, :, None] + classes[:, None, :]
    sums = np.bincount(bins.ravel(), posteriors.ravel(), batch * steps * count)
    return sums.astype(posteriors.dtype).reshape(batch, steps, count)


# ops.neural.ctc_decoding


def _ctc_decode(logits, lengths, *, strategy, beam_width, top_paths, merge_repeated, mask_index):
    x, heard = np.asarray(logits), np.asarray(lengths)
    if heard.size and not 0 <= heard.min() <= heard.max() <= x.shape[1]:
        raise GraphError(
            f"ctc_decode: sequence_lengths {heard.tolist()} must lie in [0, {x.shape[1]}], the "
            "number of time steps"
        )
    if strategy == "greedy":
        labels, scores = _greedy(x, heard, merge_repeated, mask_index)
    else:
        labels, scores = _beams(x, heard, beam_width, top_paths, mask_index)
    return np.asarray(labels), np.asarray(scores)


def _greedy(logits, lengths, merge, blank):
    batch, steps, classes = logits.shape
    best = logits.argmax(axis=-1)
    heard = np.arange(steps)[None, :] < lengths[:, None]
    scores = -np.where(heard, logits.max(axis=-1), 0).sum(axis=1, keepdims=True)
    emitted = heard & (best != blank % classes)
    if merge:
        emitted[:, 1:] &= best[:, 1:] != best[:, :-1]
    labels = np.full((1, batch, steps), -1, np.int32)
    for row in range(batch):
        sequence = best[row, emitted[row]]
        labels[0, row, : sequence.size] = sequence
    return labels, scores.astype(logits.dtype)


def _beams(logits, lengths, width, paths, blank):
    batch, steps, classes = logits.shape
    labels = np.full((paths, batch, steps), -1, np.int32)
    scores = np.full((batch, paths), -np.inf, logits.dtype)
    chances = _log_softmax_of_softmax_reference(logits.astype(np.float64))
    for row in range(batch):
        best_paths = _best_labels(chances[row, : lengths[row]], blank % classes, width)[:paths]
        for path, (sequence, score) in enumerate(best_paths):
            labels[path, row, : len(sequence)] = sequence
            scores[row, path] = score
    return labels, scores


# ops.neural.dropout


def _dropped(x, kept, *, scale):
    return x * np.multiply(kept, x.dtype.type(scale), dtype=x.dtype)


# ops.neural.embedding
def _check_ids(ids, rows):
    if ids.size and not (ids.min() >= 0 and ids.max() < rows):
        index = np.argwhere(np.asarray((ids < 0) | (ids >= rows)).reshape(ids.shape))[0]
        at = ", ".join(map(str, index))
        raise GraphError(
            f"embedding_lookup: ids[{at}] = {ids[tuple(index)]} is not in [0, {rows}): the table "
            f"has {rows} rows"
        )


def _embedding_lookup(table, ids):
    if ids.dtype.kind not in "iu" or not table.ndim:
        raise ValueError("ids do not fit")  # the shape rule has the words
    _check_ids(ids, table.shape[0])
    return np.take(table, ids, axis=0)


def _embedding_gradient(g, ids, table):
    flat = ids.reshape(-1)
    rows = g.reshape(flat.shape[0], math.prod(table.shape[1:]))
    _check_ids(flat, table.shape[0])
    return _summed_by_id(rows, flat, table.shape[0]).reshape(table.shape)


def _summed_by_id(rows, ids, count):
    sum_dtype = np.float32 if rows.dtype.itemsize < 4 else rows.dtype
    result = np.zeros((count, rows.shape[1]), rows.dtype)
    if not ids.size:
        return result
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    result[ordered[starts]] = np.add.reduceat(
        rows[order].astype(sum_dtype, copy=False), starts, axis=0
    )
    return result


# ops.neural.fake_quant
_FLOAT8 = {"float8_e4m3fn": (3, -6, 448.0), "float8_e5m2": (2, -14, 57344.0)}


def _fake_quant(x, low, high, *, num_bits, narrow_range):
    lowest, greatest = int(narrow_range), 2**num_bits - 1
    empty = high == low
    width = np.where(empty, 1, high - low)
    scale, inverse = width / (greatest - lowest), (greatest - lowest) / width
    zero = np.floor(np.minimum(np.maximum(lowest - low / scale, lowest), greatest) + 0.5)
    start, end = (lowest - zero) * scale, (greatest - zero) * scale
    first = np.floor(0.5 - start * inverse)
    steps = (np.minimum(np.maximum(x, start), end) - start) * inverse
    return np.where(empty, 0, np.floor(steps - first + 0.5) * scale)


def _float8_rounded(x, *, kind):
    mantissa, lowest, greatest = _FLOAT8[kind]
    floats = x.astype("float32") if x.dtype.itemsize < 4 else x
    clipped = np.minimum(np.maximum(floats, -greatest), greatest)
    _, exponent = np.frexp(np.maximum(np.abs(clipped), 2.0**lowest))  # fractions in [1/2, 1)
    step = np.ldexp(np.ones_like(floats), exponent - (mantissa + 1))
    rounded = np.rint(clipped / step) * step
    return rounded.astype(x.dtype, copy=False)


# ops.neural.fused_attention
def _misfit(q, k, v):
    return GraphError(
        "attend: query, key and value must be (batch, length, heads, size) of one batch; key and "
        "value of one length and as many heads, the query's a multiple of them, and query and key "
        f"of one size.\n  query  {tuple(q)}\n  key    {tuple(k)}\n  value  {tuple(v)}"
    )


def _fit_of_fused_attention(one, two):
    return one == two or one is None or two is None


def _check_of_fused_attention(q, k, v):
    if not len(q) == len(k) == len(v) == 4 or not (
        (
            _fit_of_fused_attention(q[0], k[0])
            and _fit_of_fused_attention(k[0], v[0])
            and _fit_of_fused_attention(q[0], v[0])
        )
        and (
            _fit_of_fused_attention(k[1], v[1])
            and _fit_of_fused_attention(k[2], v[2])
            and _fit_of_fused_attention(q[3], k[3])
        )
    ):
        raise _misfit(q, k, v)
    if None not in (q[2], k[2]) and q[2] % k[2]:
        raise _misfit(q, k, v)


def _check_mask(mask, q, k):
    score_dims = (q[0], q[2], q[1], k[1])
    if mask is None:
        return
    fits = len(mask.shape) == 4 and all(
        None in (m, n) or m in (1, n) for m, n in zip(mask.shape, score_dims, strict=True)
    )
    if not fits or mask.dtype.name != "bool":
        raise GraphError(
            f"attend: the mask must be of bools and broadcast to (batch, heads, targets, sources)."
            f"\n  mask    {tuple(mask.shape)} {mask.dtype.name}\n  scores  {score_dims}"
        )


def _attention(q, k, v, mask, *, scale, causal):
    _check_of_fused_attention(q.shape, k.shape, v.shape)
    _check_mask(mask, q.shape, k.shape)
    dtype = q.dtype
    q, k, v = map(_widen_halves, (q, k, v))
    y = _attention_of_attention_reference(q, k, v, mask, scale, causal)
    return y.astype(dtype, copy=False)


def _attention_gradient(g, q, k, v, mask, *, scale, causal):
    dtype = q.dtype
    g, q, k, v = map(_widen_halves, (g, q, k, v))
    gradients = _attention_gradient_of_attention_reference(g, q, k, v, mask, scale, causal)
    return tuple(part.astype(dtype, copy=False) for part in gradients)


# ops.neural.fused_normalization
def _statistics_axes(axis, rank, over_batch):
    return tuple(i for i in range(rank) if i not in axis) if over_batch else axis


def _parameter_shape(x, axis):
    return tuple(n if i in axis else 1 for i, n in enumerate(x.shape))


def _vector_dtype(x, scale):
    return (x if scale is None else scale).dtype


def _check_parameters_of_fused_normalization(x, scale, offset, axis):
    shape = x.shape
    needed_dims = tuple([shape[i] for i in axis])
    if scale is not None and scale.shape != needed_dims:
        _check_parameter("scale", scale.shape, shape, needed_dims, axis)
    if offset is not None and offset.shape != needed_dims:
        _check_parameter("offset", offset.shape, shape, needed_dims, axis)


def _check_parameter(name, dims, shape, needed_dims, axis):
    if len(dims) != len(needed_dims) or any(
        None not in (a, b) and a != b for a, b in zip(dims, needed_dims, strict=True)
    ):
        raise GraphError(
            f"normalization: {name} has shape {dims}, the input {tuple(shape)} needs {needed_dims} "
            "for its "
            f"axes {axis}"
        )


def _fused_normalization(x, scale, offset, *, axis, epsilon, over_batch, centred=True):
    _check_parameters_of_fused_normalization(x, scale, offset, axis)
    shape = _parameter_shape(x, axis)
    y, centre, spread = _normalized(
        _widen_halves(x),
        None if scale is None else _widen_halves(scale).reshape(shape),
        None if offset is None else _widen_halves(offset).reshape(shape),
        _statistics_axes(axis, x.ndim, over_batch),
        epsilon,
        centred,
    )
    y = y.astype(x.dtype, copy=False)
    if not over_batch:
        return y
    vector = tuple(x.shape[i] for i in axis)
    dtype = _vector_dtype(x, scale)
    return y, centre.reshape(vector).astype(dtype), spread.reshape(vector).astype(dtype)


def _fused_normalization_gradient(
    g, x, scale, by_mean, by_variance, *, axis, epsilon, over_batch, centred=True
):
    shape, dtype = _parameter_shape(x, axis), _vector_dtype(x, scale)
    floats = _widen_halves(g)
    scale, by_mean, by_variance = (
        None if v is None else _widen_halves(v).reshape(shape)
        for v in (scale, by_mean, by_variance)
    )
    axes = _statistics_axes(axis, x.ndim, over_batch)
    result, product = _normalized_gradient(
        floats, _widen_halves(x), scale, by_mean, by_variance, axes, epsilon, centred
    )
    outer = tuple(i for i in range(x.ndim) if i not in axis)
    sums = (product.sum(axis=outer), floats.sum(axis=outer))
    vectors = [part.astype(dtype, copy=False) for part in sums]
    return result.astype(x.dtype, copy=False), *vectors


# ops.neural.group_normalization
def _group_sizes(sizes, axis, groups):
    return (*sizes[:axis], groups, sizes[axis] // groups, *sizes[axis + 1 :])


def _axes_of_groups(rank, axis):
    return tuple(i for i in range(1, rank + 1) if i != axis)


def _group_vector(vector, x, axis, groups):
    if vector is None:
        return None
    return _widen_halves(vector).reshape(_group_sizes(_parameter_shape(x, (axis,)), axis, groups))


def _grouped_normalization(x, scale, offset, *, axis, groups, epsilon):
    floats = _widen_halves(x).reshape(_group_sizes(x.shape, axis, groups))
    y = _normalized(
        floats,
        _group_vector(scale, x, axis, groups),
        _group_vector(offset, x, axis, groups),
        _axes_of_groups(x.ndim, axis),
        epsilon,
    )[0]
    return y.reshape(x.shape).astype(x.dtype, copy=False)


def _grouped_normalization_gradient(g, x, scale, *, axis, groups, epsilon):
    sizes, upstream = _group_sizes(x.shape, axis, groups), _widen_halves(g)
    result, product = _normalized_gradient(
        upstream.reshape(sizes),
        _widen_halves(x).reshape(sizes),
        _group_vector(scale, x, axis, groups),
        None,
        None,
        _axes_of_groups(x.ndim, axis),
        epsilon,
    )
    outer = tuple(i for i in range(x.ndim) if i != axis)
    sums = product.reshape(x.shape).sum(axis=outer), upstream.sum(axis=outer)
    dtype = (x if scale is None else scale).dtype
    vectors = [part.astype(dtype, copy=False) for part in sums]
    return result.reshape(x.shape).astype(x.dtype, copy=False), *vectors


# ops.neural.recurrence
def _widen(function, *arrays, **settings):
    parts = function(*map(_widen_halves, arrays), **settings)
    return parts and tuple(part.astype(arrays[0].dtype, copy=False) for part in parts)


def _check_of_recurrence(op, count, projected, states, kernel, bias=None):
    units = kernel.shape[0]
    fits = (
        len(projected.shape) == 3
        and len(kernel.shape) == 2
        and all(len(s.shape) == 2 and s.shape[1] in (None, units) for s in states)
        and kernel.shape[1] in (None, count * (units or 0))
        and projected.shape[2] in (None, kernel.shape[1])
        and len({n.shape[0] for n in (projected, *states)} - {None}) <= 1
        and (bias is None or (len(bias.shape) == 1 and bias.shape[0] in (None, kernel.shape[1])))
    )
    if not fits:
        shapes = [("projected", projected), *((f"state {i}", s) for i, s in enumerate(states))]
        shapes += [("kernel", kernel)] + [("bias", bias)] * (bias is not None)
        shape_lines = "\n".join(f"  {name:<9} {tuple(x.shape)}" for name, x in shapes)
        and_bias = "" if bias is None else f", and a bias ({count} units,)"
        raise GraphError(
            f"{op}: projected must be (batch, steps, {count} units), each state (batch, units), "
            f"and the recurrent kernel (units, {count} units){and_bias}.\n{shape_lines}"
        )


def _lstm(projected, h, c, kernel):
    _check_of_recurrence("lstm", 4, projected, (h, c), kernel)
    return _widen(_lstm_of_recurrent_reference, projected, h, c, kernel)


def _lstm_gradient(by_hidden, by_memory, projected, h, c, kernel, hidden, memory, gates):
    function = _lstm_gradient_of_recurrent_reference
    return _widen(function, by_hidden, by_memory, h, c, kernel, hidden, memory, gates)


def _gru(projected, h, kernel, bias, *, reset_after=True):
    _check_of_recurrence("gru", 3, projected, (h,), kernel, bias)
    function = _gru_of_recurrent_reference
    return _widen(function, projected, h, kernel, bias, reset_after=reset_after)


def _gru_gradient(by_hidden, projected, h, kernel, bias, hidden, gates, *, reset_after=True):
    function = _gru_gradient_of_recurrent_reference
    return _widen(function, by_hidden, h, kernel, hidden, gates, reset_after=reset_after)


# ops.neural.softmax


def _softmax(x, *, axis):
    return _softmax_of_softmax_reference(x, axis) if x.size else x


def _softmax_gradient(g, y, *, axis):
    share = g * y
    return share - y * share.sum(axis=axis, keepdims=True)


def _log_softmax(x, *, axis):
    return _log_softmax_of_softmax_reference(x, axis) if x.size else x


def _log_softmax_gradient(g, y, *, axis):
    return g - np.exp(y) * g.sum(axis=axis, keepdims=True)


def _threshold_weights(x, axis):
    z = np.moveaxis(x, axis, -1)
    order = _stable_order(-z)
    descending = np.take_along_axis(z, order, axis=-1)
    ranks = np.arange(1, z.shape[-1] + 1, dtype=z.dtype)
    inside = 1 + ranks * descending > np.cumsum(descending, axis=-1)
    size = np.sum(inside, axis=-1, keepdims=True).astype(z.dtype)
    by_rank = np.where(inside, (size - ranks + 1) / size, 0)
    inverse_order = np.argsort(order, axis=-1)
    weights = np.take_along_axis(by_rank, inverse_order, axis=-1)
    return np.moveaxis(weights, -1, axis), np.moveaxis(size, -1, axis)


def _sparsemax_weights(x, *, axis):
    return _threshold_weights(x, axis)[0]


def _sparsemax(x, *, axis):
    weights, size = _threshold_weights(x, axis)
    threshold = np.sum(weights * x, axis=axis, keepdims=True) - 1 / size
    return np.maximum(x - threshold, 0)


# ops.neural.softmax_cross_entropy


def _scaled_rows(g, grads):
    return grads * np.expand_dims(g, -1)


def _softmax_cross_entropy_with_logits(labels, logits):
    _check_dense(labels, logits)
    shifted, powers = _shifted_powers(_widen_halves(logits))
    losses = _dense_losses(labels, shifted, powers.sum(axis=-1, keepdims=True))
    return losses.astype(logits.dtype, copy=False)


def _check_dense(labels, logits):
    if labels.shape != logits.shape or not logits.ndim:
        raise ValueError("shapes differ")  # the shape rule has the words


def _dense_losses(labels, shifted, sums):
    shifted -= np.log(sums)
    # A label of 0 counts nothing, even where the probability is 0.
    shifted = np.where(labels == 0, shifted.dtype.type(0), shifted * _widen_halves(labels))
    return -shifted.sum(axis=-1)


def _softmax_cross_entropy_and_slopes(labels, logits):
    _check_dense(labels, logits)
    shifted, powers = _shifted_powers(logits)
    sums = powers.sum(axis=-1, keepdims=True)
    losses = _dense_losses(labels, shifted, sums)
    powers *= labels.sum(axis=-1, keepdims=True) / sums
    powers -= labels
    return losses.astype(logits.dtype, copy=False), powers


def _softmax_cross_entropy_gradient(g, labels, logits):
    _, powers = _shifted_powers(_widen_halves(logits))
    floats = _widen_halves(labels)
    powers *= floats.sum(axis=-1, keepdims=True) / powers.sum(axis=-1, keepdims=True)
    powers -= floats
    powers *= g[..., None]
    return powers.astype(logits.dtype, copy=False)


_UNSIGNED = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}


def _check_labels(labels, classes):
    # As unsigned numbers, labels below 0 are greater than all classes.
    if labels.size and not labels.view(_UNSIGNED[labels.itemsize]).max() < classes:
        index = np.argwhere(np.asarray((labels < 0) | (labels >= classes)).reshape(labels.shape))[0]
        at = ", ".join(map(str, index))
        raise GraphError(
            f"sparse_softmax_cross_entropy_with_logits: labels[{at}] = {labels[tuple(index)]} is "
            "not in "
            f"[0, {classes}): the logits have {classes} classes, and the last layer needs "
            "a unit for each class there is"
        )


def _pick(labels):
    return np.arange(labels.size), labels.reshape(-1)


def _sparse_softmax_cross_entropy_with_logits(labels, logits):
    _check_sparse(labels, logits)
    shifted, powers = _shifted_powers(_widen_halves(logits))
    losses = _sparse_losses(_pick(labels), shifted, powers.sum(axis=-1))
    return losses.astype(logits.dtype, copy=False)


def _check_sparse(labels, logits):
    if labels.shape != logits.shape[:-1] or labels.dtype.kind not in "iu" or not logits.ndim:
        raise ValueError("labels do not fit")  # the shape rule has the words
    _check_labels(labels, logits.shape[-1])


def _sparse_losses(label_index, shifted, sums):
    return np.log(sums) - shifted.reshape(-1, shifted.shape[-1])[label_index].reshape(sums.shape)


def _sparse_softmax_cross_entropy_and_slopes(labels, logits):
    _check_sparse(labels, logits)
    logits = np.ascontiguousarray(logits)  # as the flat rows below have to be views
    shifted, powers = _shifted_powers(logits)
    sums = powers.sum(axis=-1, keepdims=True)
    label_index = _pick(labels)
    losses = _sparse_losses(label_index, shifted, sums[..., 0])
    powers /= sums
    powers.reshape(-1, logits.shape[-1])[label_index] -= 1
    return losses.astype(logits.dtype, copy=False), powers.astype(logits.dtype, copy=False)


def _sparse_softmax_cross_entropy_gradient(g, labels, logits):
    # Contiguous, or the flat rows were a copy, from which the labels would be taken in vain.
    powers = _softmax_of_softmax_reference(np.ascontiguousarray(_widen_halves(logits)))
    flat = powers.reshape(-1, logits.shape[-1])
    flat[_pick(labels)] -= 1
    powers *= g[..., None]
    return powers.astype(logits.dtype, copy=False)


# ops.neural.standardization


def _standardized(x, *, axis, epsilon, centred=True):
    floats = _widen_halves(x)
    deviations = floats - floats.mean(axis=axis, keepdims=True) if centred else floats
    y = _apart(deviations, axis, epsilon)[0]
    return y.astype(x.dtype, copy=False)


def _standardized_gradient(g, x, *, axis, epsilon, centred=True):
    floats, g = _widen_halves(x), _widen_halves(g)
    deviations = floats - floats.mean(axis=axis, keepdims=True) if centred else floats
    y, factor = _apart(deviations, axis, epsilon)
    along = g - g.mean(axis=axis, keepdims=True) if centred else g
    grad = (along - y * (g * y).mean(axis=axis, keepdims=True)) * factor
    return grad.astype(x.dtype, copy=False)


# ops.sampling.philox
_LOW = 0xFFFFFFFF
_WORD = (1 << 64) - 1


def _multiply_wide(a, b):
    word = np.uint64
    a_low, a_high = a & word(_LOW), a >> word(32)
    b_low, b_high = word(b & _LOW), word(b >> 32)
    cross = (a_low * b_low) >> word(32)
    middle = a_high * b_low + cross
    other = a_low * b_high + (middle & word(_LOW))
    high = a_high * b_high + (middle >> word(32)) + (other >> word(32))
    return high, a * word(b)


def _words_of_philox(state, count):
    low, high, key = state.tolist()
    return _bits(key, low + (high << 64), count)


def _drawn_words(state, count):
    return (_words_of_philox(state, count), _advanced(state, count))


def _whole_of_philox(count):
    return _Part(0, count, count)


def _cut(values, part):
    if part.blocks == 1:
        return values[part.first : part.first + part.size]
    blocks = values.reshape(part.blocks, -1)
    return blocks[:, part.first : part.first + part.size // part.blocks].reshape(-1)


def _advance(state, count):
    low, high, key = state.tolist()
    counter = low + (high << 64) + count
    return np.array([counter & _WORD, counter >> 64 & _WORD, key], np.uint64)


def _advanced(state, word_count):
    return _advance(state, max(1, -(-word_count // _WORDS_PER_BLOCK)))


def _words_from(state, first, count):
    block, inside = divmod(first, _WORDS_PER_BLOCK)
    if block:
        state = _advance(state, block)
    word_count = inside + count
    raw = _words_of_philox(state, word_count)
    return raw[inside:]


def _small_words_from(state, first, count, kind):
    per_word = 8 // np.dtype(kind).itemsize
    start, inside = divmod(first, per_word)
    raw = _words_from(state, start, -(-(inside + count) // per_word))
    return raw.view(kind)[inside : inside + count]


def _small_words(state, part, kind):
    per_word = 8 // np.dtype(kind).itemsize
    needed = -(-part.total // per_word)
    if part.size == part.total:
        raw, new = _drawn_words(state, needed)
        return raw.view(kind)[: part.size], new
    integers = _small_words_from(state, part.first, part.size, kind)
    return integers, _advanced(state, needed)


def _scaled_singles(state, first, count, scale, offset):
    halves = _small_words_from(state, first, count, np.uint32)
    floats = (halves >> np.uint32(8)).astype(np.float32)
    floats *= np.float32(1.0 / (1 << 24))
    return _rescale(floats, scale, offset)


def _rescale(floats, scale, offset):
    if scale != 1:
        floats *= floats.dtype.type(scale)
    if offset != 0:
        floats += floats.dtype.type(offset)
    return floats


def _unit_floats_from(state, first, count, dtype, scale=1.0, offset=0.0):
    if np.dtype(dtype) == np.float64:
        words = _words_from(state, first, count)
        return _rescale((words >> np.uint64(11)) * (1.0 / (1 << 53)), scale, offset)
    return _scaled_singles(state, first, count, scale, offset)


def _after_floats(state, total, dtype):
    return _advanced(state, total if np.dtype(dtype) == np.float64 else (total + 1) // 2)


def _unit_floats(state, part, dtype, scale=1.0, offset=0.0):
    floats = _unit_floats_from(state, part.first, part.size, dtype, scale, offset)
    return floats, _after_floats(state, part.total, dtype)


def _normal_floats(state, part, dtype):
    half = (part.total + 1) // 2
    if part.size == part.total:
        flat = _unit_floats_from(state, 0, 2 * half, dtype)
        radius, angle = _polar(flat[:half], flat[half:])
        normals = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[: part.total]
    else:
        end = part.first + part.size
        pieces = []
        for first, last, offset, wave in (
            (part.first, min(end, half), 0, np.cos),
            (max(part.first, half), end, half, np.sin),
        ):
            size = max(0, last - first)
            pairs = (
                _unit_floats_from(state, first - offset + start, size, dtype) for start in (0, half)
            )
            radius, angle = _polar(*pairs)
            pieces.append(radius * wave(angle))
        normals = np.concatenate(pieces)
    return normals, _after_floats(state, 2 * half, dtype)


def _polar(one, two):
    unit, turn = one.dtype.type(1), one.dtype.type(2 * np.pi)
    return np.sqrt(-2 * np.log(unit - one)), turn * two


def _working(dtype):
    return np.float64 if dtype == "float64" else np.float32


def _in_shape(flat, dims):
    if type(flat) is np.ndarray and flat.base is None and flat.size and dims:
        flat.resize(dims, refcheck=False)
        return flat
    return flat.reshape(dims)


def _philox_uniform(state, *sizes, shape, dtype, rows=None, scale=1.0, offset=0.0):
    dims = _filled(shape, sizes)
    flat, new = _unit_floats(state, _part_of(dims, rows), _working(dtype), scale, offset)
    if dtype in ("float16", "bfloat16"):  # rounding up to 1 would leave the interval
        flat = np.minimum(flat, np.float32(1 - 2.0 ** (-9 if dtype == "bfloat16" else -12)))
        step = np.float32(2.0 ** (8 if dtype == "bfloat16" else 11))
        flat = np.floor(flat * step) / step
    return _in_shape(flat, dims).astype(_ElementType(dtype).dtype, copy=False), new


def _philox_normal(state, *sizes, shape, dtype, rows=None):
    dims = _filled(shape, sizes)
    flat, new = _normal_floats(state, _part_of(dims, rows), _working(dtype))
    return flat.reshape(dims).astype(_ElementType(dtype).dtype, copy=False), new


def _philox_integers(state, *sizes, shape, dtype, low, high, rows=None):
    dims = _filled(shape, sizes)
    raw, new = _small_words(state, _part_of(dims, rows), np.uint64)
    kind = _ElementType(dtype).dtype
    result = np.empty(raw.shape, kind)
    step = 1 << 14  # words at a time, so that what is in between stays in the cache
    for start in range(0, raw.size, step):
        part = slice(start, start + step)
        result[part] = _within(raw[part], low, high).astype(kind, copy=False)
    return result.reshape(dims), new


def _within(raw, low, high):
    width = high - low
    offsets = raw if width == 1 << 64 else _multiply_wide(raw, width)[0]
    return offsets + np.uint64(low % (1 << 64))


def _philox_integers_between(state, low, high, *sizes, shape, dtype, rows=None):
    settings = {"low": int(low), "high": int(high)}
    _check_range_of_philox(**settings, dtype=_ElementType(dtype))
    if rows is not None:
        settings["rows"] = rows
    return _philox_integers(state, *sizes, shape=shape, dtype=dtype, **settings)


def _check_range_of_philox(low, high, dtype):
    lowest, greatest = dtype.limits
    if not lowest <= low < high <= greatest + 1:
        raise GraphError(
            f"random integers: [{low}, {high}) is no range of {dtype.name}, which holds {lowest} "
            f"to {greatest}; minval must be below maxval"
        )


def _limit(rate):
    return min(max(round(rate * 65536), 0), 65536)


def _philox_mask(state, *sizes, shape, dtype, rate, scale, rows=None):
    mask, new = _draw_kept(state, _filled(shape, sizes), rate, rows)
    mask_dtype = _ElementType(dtype).dtype
    return np.multiply(mask, mask_dtype.type(scale), dtype=mask_dtype), new


def _draw_kept(state, dims, rate, rows):
    raw, new = _small_words(state, _part_of(dims, rows), np.uint16)
    limit = _limit(rate)
    mask = raw >= limit if limit < 65536 else np.zeros(raw.shape, bool)
    return mask.reshape(dims), new


def _philox_kept(state, *sizes, shape, rate, rows=None):
    return _draw_kept(state, _filled(shape, sizes), rate, rows)


def _philox_state(seed):
    first, second = (int(n) % (1 << 64) for n in seed)
    key = _words_of_philox(np.array([second, 0, first], np.uint64), 1)[0]
    return np.asarray(np.array([0, 0, key], np.uint64))


def _philox_truncated_normal(state, *sizes, shape, dtype, rows=None):
    dims = _filled(shape, sizes)
    part, kind = _part_of(dims, rows), _working(dtype)
    flat, new = _normal_floats(state, _whole_of_philox(part.total), kind)
    while True:
        outside = np.abs(flat) > 2
        count = int(outside.sum())
        if not count:
            break
        flat[outside], new = _normal_floats(new, _whole_of_philox(count), kind)
    flat = _cut(flat, part)
    return flat.reshape(dims).astype(_ElementType(dtype).dtype, copy=False), new


# ops.sampling.distributions
_F64 = np.float64


def _spread_of_distributions(dims, *parameters):
    _check_spread(dims, parameters)
    return [np.asarray(np.broadcast_to(p, dims), _F64).reshape(-1) for p in parameters]


def _check_spread(dims, parameters):
    shapes = [tuple(p.shape) for p in parameters]
    try:
        fit = np.broadcast_shapes(dims, *shapes) == tuple(dims)
    except ValueError:
        fit = False
    if not fit:
        texts = ", ".join(map(str, shapes))
        raise GraphError(f"random: parameters of shape {texts} do not broadcast to {dims}")


def _until_accepted(state, count, propose):
    out = np.zeros(count, _F64)
    open_places = np.arange(count)
    while open_places.size:
        values, accepted, state = propose(state, open_places)
        out[open_places[accepted]] = values[accepted]
        open_places = open_places[~accepted]
    return out, state


def _two_uniforms(state, count):
    flat, state = _unit_floats(state, _whole_of_philox(2 * count), _F64)
    return flat[:count], 1.0 - flat[count:], state  # the second in (0, 1], so its log is finite


def _philox_gamma(state, alpha, *sizes, shape, dtype, count):
    dims = _filled(shape, sizes)
    (alphas,) = _spread_of_distributions(dims, alpha)
    possible = (alphas > 0) & (alphas < math.inf)
    a = np.where(possible, alphas, 1.0)
    raised = np.where(a < 1, a + 1, a)
    d = raised - 1 / 3
    c = 1 / np.sqrt(9 * d)

    def propose(state, at):
        x, state = _normal_floats(state, _whole_of_philox(at.size), _F64)
        _, u, state = _two_uniforms(state, at.size)
        v = (1 + c[at] * x) ** 3
        safe = np.where(v > 0, v, 1)
        accepted = np.log(u) < 0.5 * x * x + d[at] * (1 - safe + np.log(safe))
        return d[at] * safe, (v > 0) & accepted, state

    values, state = _until_accepted(state, a.size, propose)
    _, u, state = _two_uniforms(state, a.size)
    small = np.where(a < 1, u ** (1 / np.maximum(a, 1e-300)), 1)
    values = np.where(possible, values * small, math.nan)
    return values.reshape(dims).astype(_ElementType(dtype).dtype), state


_LOG_FACTORIALS = np.array([math.lgamma(k + 1) for k in range(20)])


def _log_factorial(k):
    table = _make("log factorials", lambda: _LOG_FACTORIALS)
    large = np.maximum(k, 19.0)
    series = (large + 0.5) * np.log(large) - large + 0.5 * math.log(2 * math.pi)
    series = series + 1 / (12 * large) - 1 / (360 * large**3)
    return np.where(k < 20, table[np.clip(k, 0, 19).astype(np.int64)], series)


def _philox_poisson(state, lam, *sizes, shape, dtype, count):
    dims = _filled(shape, sizes)
    (mean,) = _spread_of_distributions(dims, lam)
    u, _, state = _two_uniforms(state, mean.size)
    first = np.clip(mean, 0.0, 10.0)
    out = _invert(u, np.exp(-first), lambda k, term: term * first / k)
    large = np.nonzero((mean >= 10) & (mean < math.inf))[0]
    if large.size:
        out[large], state = _poisson_by_rejection(state, mean[large])
    out = np.where(mean < math.inf, out, mean)  # NaN and infinity give themselves
    return _as_counts_of_distributions(out, _ElementType(dtype).dtype).reshape(dims), state


def _as_counts_of_distributions(counts, kind):
    if kind.kind not in "iu":
        return counts.astype(kind)
    greatest = np.iinfo(kind).max
    limit = float(greatest)
    limit = limit if limit <= greatest else math.nextafter(limit, 0)  # int64's is no float64
    return np.where(np.isfinite(counts), np.minimum(counts, limit), 0).astype(kind)


def _invert(u, first, following, limit=200):
    k = np.zeros(u.shape, _F64)
    term, total = first, first
    for i in range(1, limit):
        beyond = u >= total
        if not bool(beyond.any()):
            break
        term = following(i, term)
        total = total + term
        k = k + beyond
    return k


def _poisson_by_rejection(state, mean):
    b = 0.931 + 2.53 * np.sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def propose(state, at):
        u, v, state = _two_uniforms(state, at.size)
        u = u - 0.5
        us = 0.5 - np.abs(u)
        safe = np.maximum(us, 1e-12)
        k = np.floor((2 * a[at] / safe + b[at]) * u + mean[at] + 0.43)
        quick = (us >= 0.07) & (v <= v_r[at])
        left = np.log(v * inverse_alpha[at] / (a[at] / (safe * safe) + b[at]))
        clipped = np.maximum(k, 0.0)
        right = -mean[at] + clipped * np.log(mean[at]) - _log_factorial(clipped)
        fits = (k >= 0) & ((us >= 0.013) | (v <= us)) & (left <= right)
        return k, quick | fits, state

    return _until_accepted(state, mean.size, propose)


def _philox_binomial(state, counts, probabilities, *sizes, shape, dtype, count):
    dims = _filled(shape, sizes)
    n, p = _spread_of_distributions(dims, counts, probabilities)
    flipped = p > 0.5
    p = np.where(flipped, 1 - p, p)
    u, _, state = _two_uniforms(state, n.size)
    big = (n * p >= 10) & (n < math.inf)
    low_n, low_p = np.where(big, 0.0, n), np.where(big, 0.0, p)
    ratio = low_p / (1 - low_p)
    start = np.exp(low_n * np.log1p(-low_p))
    out = _invert(u, start, lambda k, term: term * ratio * np.maximum(low_n - k + 1, 0) / k)
    large = np.nonzero(big)[0]
    if large.size:
        out[large], state = _binomial_by_rejection(state, n[large], p[large])
    out = np.minimum(out, n)
    out = np.where(flipped, n - out, out)
    return _as_counts_of_distributions(out, _ElementType(dtype).dtype).reshape(dims), state


def _binomial_by_rejection(state, n, p):
    spread = np.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre = n * p + 0.5
    v_r = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * spread
    log_odds = np.log(p / (1 - p))
    mode = np.floor((n + 1) * p)
    at_mode = _log_factorial(mode) + _log_factorial(n - mode)

    def propose(state, at):
        u, v, state = _two_uniforms(state, at.size)
        u = u - 0.5
        us = 0.5 - np.abs(u)
        safe = np.maximum(us, 1e-12)
        k = np.floor((2 * a[at] / safe + b[at]) * u + centre[at])
        inside = (k >= 0) & (k <= n[at])
        quick = (us >= 0.07) & (v <= v_r[at])
        left = np.log(v * alpha[at] / (a[at] / (safe * safe) + b[at]))
        clipped = np.clip(k, 0, n[at])
        at_clipped = _log_factorial(clipped) + _log_factorial(n[at] - clipped)
        right = at_mode[at] - at_clipped + (clipped - mode[at]) * log_odds[at]
        return k, inside & (quick | (left <= right)), state

    return _until_accepted(state, n.size, propose)


def _philox_categorical(state, logits, *count, samples, dtype, rows=None):
    size, classes = logits.shape
    if samples is None:
        samples = int(count[0])
    dims = (size, samples)
    doubles = logits.astype(_F64)
    cumulated = np.cumsum(_shifted_powers(doubles)[1], axis=1)
    u, state = _unit_floats(state, _part_of(dims, rows), _F64)
    u = u.reshape(dims) * cumulated[:, -1:]
    if size <= samples:
        row_indices = [np.searchsorted(cumulated[i], u[i], side="right") for i in range(size)]
        index = np.stack(row_indices) if row_indices else np.zeros((0, samples), np.int64)
    else:
        index = (u[:, :, None] >= cumulated[:, None, :]).sum(axis=2)
    index = np.minimum(index, classes - 1)
    return index.astype(_ElementType(dtype).dtype), state


def _philox_permutation(state, *sizes, shape):
    (n,) = _filled(shape, sizes)
    keys, new = _drawn_words(state, n)
    order = _stable_order(keys)
    return order.astype(np.int64), new


# ops.signal.fourier
def _axes(rank):
    return tuple(range(-rank, 0))


def _fft(x, *, rank):
    if rank == 1:  # what transforms over several axes do besides takes as long as a short one
        return np.fft.fft(x).astype(x.dtype, copy=False)
    return np.fft.fftn(x, axes=_axes(rank)).astype(x.dtype, copy=False)


def _ifft(x, *, rank):
    if rank == 1:
        return np.fft.ifft(x).astype(x.dtype, copy=False)
    return np.fft.ifftn(x, axes=_axes(rank)).astype(x.dtype, copy=False)


def _fft_transposed(x, *, rank):
    if rank == 1:
        return np.fft.ifft(x, norm="forward").astype(x.dtype, copy=False)
    return np.fft.ifftn(x, axes=_axes(rank), norm="forward").astype(x.dtype, copy=False)


def _ifft_transposed(x, *, rank):
    if rank == 1:
        return np.fft.fft(x, norm="forward").astype(x.dtype, copy=False)
    return np.fft.fftn(x, axes=_axes(rank), norm="forward").astype(x.dtype, copy=False)


def _half_weights(n, middle, dtype):
    weights = np.full(n // 2 + 1, middle, dtype)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    return weights


def _weights_on(n, middle, dtype):
    key = ("half weights", n, middle, np.dtype(dtype))
    return _make(key, lambda: _half_weights(n, middle, dtype))


def _rfft(x):
    return np.fft.rfft(x).astype(np.result_type(x.dtype, np.complex64), copy=False)


def _irfft(x, *, n):
    return np.fft.irfft(x, n).astype(x.real.dtype, copy=False)


def _rfft_transposed(g, x):
    n = x.shape[-1]
    weights = _weights_on(n, 0.5, g.real.dtype)
    return np.fft.irfft(g * weights, n, norm="forward").astype(g.real.dtype, copy=False)


def _irfft_transposed(g, *, n):
    weights = _weights_on(g.shape[-1], 2.0, g.dtype)
    spectrum = np.fft.rfft(g, norm="forward") * weights
    return spectrum.astype(np.result_type(g.dtype, np.complex64), copy=False)


# ops.signal.stft


def _extract_sequences(x, *, length, stride):
    if x.shape[-1] < length:
        return np.zeros((*x.shape[:-1], 0, length), x.dtype)
    views = np.lib.stride_tricks.sliding_window_view(x, length, axis=-1)
    return views[..., ::stride, :]


def _sum_of_stft(g, stride, size):
    *lead, count, length = g.shape
    steps = -(-length // stride)
    chunks = np.zeros((*lead, count, steps * stride), g.dtype)
    chunks[..., :length] = g
    chunks = chunks.reshape((*lead, count, steps, stride))
    out = np.zeros((*lead, count + steps - 1 if count else 0, stride), g.dtype)
    for k in range(steps if count else 0):
        out[..., k : k + count, :] += chunks[..., :, k, :]
    natural = (count - 1) * stride + length if count else 0
    flat = out.reshape((*lead, out.shape[-2] * stride))[..., :natural]
    if size is None or size == natural:
        return flat
    signal = np.zeros((*lead, size), g.dtype)
    signal[..., :natural] = flat
    return signal


def _sequences_sum(g, x, *, stride):
    return _sum_of_stft(g, stride, x.shape[-1])


def _overlap_add(x, *, stride):
    return _sum_of_stft(x, stride, None)


# ops.signal.window_functions


def _vander(x, *, exponents):
    promised = x.dtype
    if x.dtype.kind == "b":
        x = x.astype(np.int32)
    kind = x.dtype if x.dtype.kind in "iu" else np.dtype(np.int32)
    powers = _make(("vander", exponents, kind), lambda: np.asarray(exponents, kind))
    return np.power(x, powers).astype(promised)


# ops.special.bessel


def _bessel_j0(x):
    return _bessel_j0_of_bessel_reference(_real_floats(x).astype(np.float64)).astype(x.dtype)


def _bessel_j1(x):
    return _bessel_j1_of_bessel_reference(_real_floats(x).astype(np.float64)).astype(x.dtype)


def _bessel_y0(x):
    return _bessel_y0_of_bessel_reference(_real_floats(x).astype(np.float64)).astype(x.dtype)


def _bessel_y1(x):
    return _bessel_y1_of_bessel_reference(_real_floats(x).astype(np.float64)).astype(x.dtype)


# ops.special.integrals
_D_SMALL = (
    0.2954024494198404, -0.3686101010183668, 0.19573707613330618, -0.08879096156869916,
    0.03474695286653526, -0.011869296283072076, 0.0035806007478345527, -0.0009641999171742024,
    0.000233995670511025, -5.1608995394598965e-05, 1.0421076949031142e-05, -1.9389463805581323e-06,
    3.34303921197687e-07, -5.367925612250851e-08, 8.062713846388207e-09, -1.1373024279315408e-09,
    1.5118929297641922e-10, -1.900169309947957e-11, 2.2642905752488e-12, -2.564881089929297e-13,
    2.768364064375852e-14, -2.853233414038453e-15, 2.8136426898343644e-16, -2.6595536455748177e-17,
)  # fmt: skip
_D_MIDDLE = (
    0.5203145610495489, 0.013709479111854815, 0.0007164356550629098, 7.075952708870916e-05,
    4.150514902316849e-06, -1.7861564587902959e-06, -5.689529663093126e-07, 2.7774357681268896e-08,
    3.696894141443373e-08, -1.5468531109325238e-09, -2.548734643415614e-09, 3.281342176618435e-10,
    1.5695885264868672e-10, -5.072043783859163e-11, -3.477879397519972e-12, 5.030054915933158e-12,
    -8.994806247273984e-13, -2.0832456843253907e-13, 1.3922896065731817e-13, -2.28309391833648e-14,
    -5.595171457578947e-15, 3.99282660342542e-15, -8.590103045418117e-16, -7.049059918136341e-17,
    1.0883529340491625e-16, -3.5017217398058977e-17,
)  # fmt: skip
_D_LARGE = (
    0.5035876129645751, 0.0036272895370968276, 4.043227794147476e-05, 7.765781114870023e-07,
    2.1642658791578287e-08, 8.061553832188654e-10, 3.8293208699328153e-11, 2.253688704681202e-12,
    1.6150561891539438e-13, 1.3978659939493424e-14, 1.462595325998312e-15, 1.8626981994519345e-16,
    2.875450915602032e-17,
)  # fmt: skip
_EI_SMALL = (
    4.9111058843464575, 5.666113598608016, 2.3492626676137034, 0.7563543093844007,
    0.19920229382356897, 0.04442875265306707, 0.008598716638276844, 0.0014705025963922846,
    0.00022533301939463562, 3.1284662784803325e-05, 3.9711039220839795e-06, 4.643268488593228e-07,
    5.032918336954619e-08, 5.084550545442788e-09, 4.810144028835289e-10, 4.278742020424449e-11,
    3.5916634036991113e-12, 2.8542399260415613e-13, 2.1535115484481425e-14, 1.5466334313866187e-15,
)  # fmt: skip
_EI_MIDDLE = (
    1.186519731605943, 0.08867277799156566, 0.004538849615854891, -0.0007360917133533506,
    -0.0001311802094421383, 1.860281858277769e-05, 1.7610424153850599e-06, -6.410426692376372e-07,
    4.3431190977401596e-08, 9.457713014017885e-09, -2.804867660824966e-09, 2.9077513809389464e-10,
    1.5005396668585005e-11, -1.1038674953026538e-11, 2.0752769575841014e-12,
    -1.824894014255641e-13, -1.3060424323093775e-14, 8.22817443438954e-15, -1.7064640854405607e-15,
    2.0895115006185691e-16,
)  # fmt: skip
_EI_FAR = (
    1.060465984738911, 0.04044003974686163, 0.0018827933933886283, 0.0001661247091308257,
    1.9474518728065798e-05, 9.486496520647806e-07, -6.290783312138484e-07, -2.0453934370490606e-07,
    -2.073624869982355e-10, 1.2869458258869968e-08, 9.814330647881027e-10, -8.77112672841316e-10,
    -6.343456568946796e-11, 6.992389550036919e-11, -5.706763018380663e-13, -5.607263860231897e-12,
    8.186180082457199e-13, 3.4296049921026816e-13, -1.347335559540424e-13, -2.2460430546901835e-15,
    1.2567658183224806e-14, -2.885470288332907e-15, -3.964356034608175e-16, 3.7870458869716316e-16,
    -7.391218360505751e-17,
)  # fmt: skip
_EI_LARGE = (
    1.0107605092742287, 0.010878323438924555, 0.00011979560394849838, 2.026995752581765e-06,
    4.6900702245060815e-08, 1.3931421596912e-09, 5.108132848770682e-11, 2.251871069398116e-12,
    1.1717193052565767e-13, 7.102165089449786e-15, 4.968725666498446e-16, 3.988627092302658e-17,
)  # fmt: skip
_C_SMALL = (
    0.5282931311708557, -0.37676220250161824, 0.08537377549656906, -0.009010259972062552,
    0.0005393127720408215, -2.075044934605623e-05, 5.564687021283882e-07, -1.0999812843114444e-08,
    1.6696510396208076e-10, -2.00773053966069e-12, 1.9601599749420958e-14, -1.5849094421108914e-16,
)  # fmt: skip
_S_SMALL = (
    0.3142743195347836, -0.18188587850106117, 0.025424557742876257, -0.0019214582098450639,
    8.966525954745101e-05, -2.830802868181572e-06, 6.442546962604405e-08, -1.1068235106036057e-09,
    1.4862338485609142e-11, -1.6028109554824476e-13, 1.4188008517448966e-15,
    -1.0494270345038239e-17,
)  # fmt: skip
_F_MIDDLE = (
    0.9830793138395346, -0.015743451324243155, -0.0014367354482250313, 0.00018413199565588424,
    -1.1245652310044537e-05, -3.032790254593764e-07, 2.1513003220972224e-07,
    -3.9262901695857846e-08, 4.6826897637822294e-09, -2.7837038287685836e-10,
    -4.220591507374187e-11, 1.927115857839309e-11, -4.430966777617154e-12, 7.622910274617246e-13,
    -9.792591327296987e-14, 6.119062225462015e-15, 1.4148606821769174e-15, -7.139628702642209e-16,
    1.9815047439194558e-16, -4.3320391327812504e-17,
)  # fmt: skip
_F_LARGE = (
    0.9989379097865693, -0.0014096569723672158, -0.0003428361561269566, 5.298952675434986e-06,
    5.346923001228963e-07, -3.495303326118791e-08, -9.932917926618574e-10, 2.9162575770832355e-10,
    -1.289430113158058e-11, -1.971479055688955e-12, 3.654626622493659e-13, -1.296751980070219e-14,
    -4.5787704139713435e-15, 9.084043711349122e-16, -4.359158641143206e-17,
)  # fmt: skip
_G_MIDDLE = (
    0.9266022328381702, -0.06447544903709214, -0.003687613496432674, 0.0009907176003583168,
    -0.00010785660225489113, 4.4072035974492e-06, 1.097139029848634e-06, -3.5151068884039693e-07,
    6.247701047221066e-08, -7.578320962008248e-09, 3.754198469253473e-10, 1.1974965408859784e-10,
    -4.956199638970557e-11, 1.1933073308385934e-11, -2.2090496709226656e-12,
    3.1351466785816027e-13, -2.4965089700225286e-14, -3.533959177980785e-15, 2.32503314749671e-15,
    -7.20461166637461e-16, 1.7333855296548154e-16, -3.5016809564241865e-17,
)  # fmt: skip
_G_LARGE = (
    0.9947829648698477, -0.006900232861075718, -0.0016427534755932, 4.493254166440782e-05,
    4.097026835502644e-06, -4.0062656625273154e-07, -5.216990660384064e-09, 3.904667794011875e-09,
    -2.763040546392698e-10, -2.3585791455687686e-11, 6.92852001966451e-12, -4.738779717574278e-13,
    -7.031329681993653e-14, 2.1445854250974255e-14, -1.9040909365597085e-15,
    -2.2669789865523256e-16, 9.919483647762691e-17,
)  # fmt: skip
_LI2 = (
    1.0149416064096537, 0.13148012838765802, 0.015313452518102082, 0.002272188943655959,
    0.00038516199300815945, 7.103404374209115e-05, 1.3885622487404779e-05, 2.8323954583854513e-06,
    5.968314737835964e-07, 1.2902312437546724e-07, 2.8475309127972237e-08, 6.392641519505728e-09,
    1.4558235675968631e-09, 3.356030027905024e-10, 7.818019409066589e-11, 1.8379324194103908e-11,
    4.355524622917214e-12, 1.0395111785603755e-12, 2.496666278162975e-13, 6.030470288343577e-14,
    1.4640624936086265e-14, 3.570903196070032e-15, 8.746346791364233e-16, 2.1505456792131715e-16,
    5.3064798693556575e-17,
)  # fmt: skip
_EULER = 0.5772156649015329
_LEAST_WAVE = 1.6
_ENOUGH = 1e18  # the waves of Fresnel's integrals are below the rounding of 1/2 from here on


def _dawson(size):
    low = np.minimum(size, 3)
    middle = 3 / np.minimum(np.maximum(size, 3), 6)
    high = 6 / np.maximum(size, 6)
    inner = low * _series_between(_D_SMALL, 0, 9, low * low)
    between = _series_between(_D_MIDDLE, 0.25, 1, middle * middle) * (middle / 3)
    outer = _series_between(_D_LARGE, 0, 1, high * high) * (high / 6)
    return np.where(size <= 3, inner, np.where(size <= 6, between, outer))


def _dawsn(x):
    floats = _real_floats(x)
    return (np.sign(floats) * _dawson(np.abs(floats))).astype(x.dtype)


def _ei(x):
    low = np.minimum(x, 6)
    near = _EULER + np.log(low) + low * _series_between(_EI_SMALL, 0, 6, low)
    finite = np.minimum(np.maximum(x, 6), np.finfo(x.dtype).max)
    scaled = np.where(
        x <= 12,
        _series_between(_EI_MIDDLE, 0.5, 1, 6 / np.minimum(finite, 12)),
        np.where(
            x <= 48,
            _series_between(_EI_FAR, 0.25, 1, 12 / np.minimum(np.maximum(finite, 12), 48)),
            _series_between(_EI_LARGE, 0, 1, 48 / np.maximum(finite, 48)),
        ),
    )
    half = np.exp(finite / 2)  # exp(x) alone overflows before the quotient does
    return np.where(x <= 6, near, half * (scaled / finite) * half)


def _expint(x):
    floats = _real_floats(x)
    return np.where(floats < 0, np.nan, _ei(np.maximum(floats, 0))).astype(x.dtype)


def _fresnel(size, small, sine):
    x = np.minimum(np.maximum(size, _LEAST_WAVE), _ENOUGH)
    ratio = (_LEAST_WAVE / x) ** 2
    far, near = np.minimum(ratio, 0.25), np.maximum(ratio, 0.25)
    f, g = (
        np.where(
            ratio <= 0.25,
            _series_between(large, 0, 0.25, far),
            _series_between(middle, 0.25, 1, near),
        )
        for large, middle in ((_F_LARGE, _F_MIDDLE), (_G_LARGE, _G_MIDDLE))
    )
    f, g = f / (math.pi * x), g / (math.pi * x) / (math.pi * x) / x
    turn = np.fmod(x * x, 4) * (math.pi / 2)  # the period is kept, and the argument small
    s, c = np.sin(turn), np.cos(turn)
    wave = -f * c - g * s if sine else f * s - g * c
    return np.where(size <= _LEAST_WAVE, small(np.minimum(size, _LEAST_WAVE)), 0.5 + wave)


def _fresnel_cos(x):

    def small(u):
        return u * _series_between(_C_SMALL, 0, _LEAST_WAVE**4, u**4)

    floats = _real_floats(x)
    return (np.sign(floats) * _fresnel(np.abs(floats), small, sine=False)).astype(x.dtype)


def _fresnel_sin(x):

    def small(u):
        return u**3 * _series_between(_S_SMALL, 0, _LEAST_WAVE**4, u**4)

    floats = _real_floats(x)
    return (np.sign(floats) * _fresnel(np.abs(floats), small, sine=True)).astype(x.dtype)


def _dilogarithm(z):
    return z * _series_at(_LI2, 2 * z)


def _spence_of_integrals(x):
    low, high = np.minimum(x, 0.5), np.maximum(x, 0.5)
    logs = _log_above_zero(low) * np.log1p(-low)
    below = math.pi**2 / 6 - logs - _dilogarithm(low)
    return np.where(x < 0.5, below, _dilogarithm(1 - high))


def _spence(x):
    floats = _real_floats(x)
    size = np.maximum(floats, 0)
    beyond = np.maximum(size, 1.5)
    # by the value at 1 / x, since Li2(1 - x) + Li2(1 - 1 / x) = -log(x)**2 / 2
    y = _spence_of_integrals(np.where(size <= 1.5, size, 1 / beyond))
    y = np.where(size <= 1.5, y, -(np.log(beyond) ** 2) / 2 - y)
    return np.where(floats < 0, np.nan, y).astype(x.dtype)


# ops.special.modified_bessel


def _i0e(x):
    return _bessel_i0e(_real_floats(x).astype(np.float64)).astype(x.dtype)


def _i1e(x):
    return _bessel_i1e(_real_floats(x).astype(np.float64)).astype(x.dtype)


def _i0(x):
    return _bessel_i0(_real_floats(x).astype(np.float64)).astype(x.dtype)


def _i1(x):
    return _bessel_i1(_real_floats(x).astype(np.float64)).astype(x.dtype)


def _bessel_k0(x):
    return _bessel_k0_of_modified_bessel_reference(_real_floats(x).astype(np.float64)).astype(
        x.dtype
    )


def _bessel_k1(x):
    return _bessel_k1_of_modified_bessel_reference(_real_floats(x).astype(np.float64)).astype(
        x.dtype
    )


def _bessel_k0e(x):
    return _bessel_k0e_of_modified_bessel_reference(_real_floats(x).astype(np.float64)).astype(
        x.dtype
    )


def _bessel_k1e(x):
    return _bessel_k1e_of_modified_bessel_reference(_real_floats(x).astype(np.float64)).astype(
        x.dtype
    )


OPERATIONS.update(
    (name, globals()[f"_{name}"])
    for name in """
        add_at_argmax all angle any arange argmax argmin argpartition argsort assert_true attention
        attention_gradient average_pool average_pool_gradient bessel_j0 bessel_j1 bessel_k0
        bessel_k0e bessel_k1 bessel_k1e bessel_y0 bessel_y1 betainc biased_gelu biased_gelu_gradient
        bincount broadcast_like broadcast_to broadcast_to_sized cast ceil celu channel_window_sums
        cholesky clip clip_by_tensors complex concatenate conj conv conv_input_gradient
        conv_kernel_gradient conv_transpose copy crossed_buckets ctc_decode ctc_gradient ctc_loss
        cumprod cumsum cumulative_logsumexp cut_to_sizes dawsn dense dense_gradient det diag
        diagonal diagonal_put digamma divide_no_nan dropped eig eigh einsum elu elu_gradient
        embedding_gradient embedding_lookup erf erfc erfcinv erfinv expand_dims expint expm
        extract_patches extract_sequences fake_quant fft fft_transposed fill flip float8_rounded
        floor floor_divide fmod fold fresnel_cos fresnel_sin full_like fused_normalization
        fused_normalization_gradient gather_nd gather_nd_sum gelu_erf gelu_erf_gradient gelu_tanh
        gelu_tanh_gradient get_item get_item_at grouped_normalization grouped_normalization_gradient
        gru gru_gradient hard_shrink hard_sigmoid hard_silu hard_silu_gradient hard_tanh
        hash_buckets histogram huber_penalty i0 i0e i1 i1e identity ifft ifft_transposed igamma
        igamma_slope igammac imag in_top_k int8_product inv irfft irfft_transposed isclose isin
        isneginf isposinf keep_between keep_where leaky_relu leaky_relu_gradient lgamma
        linear_recurrence linspace log_sigmoid log_softmax log_softmax_gradient logaddexp logsumexp
        lstm lstm_gradient lu_factor matmul max max_pool max_pool_gradient max_pool_pick
        max_pool_with_argmax mean min mish mod nan_to_num ndtri no_gradient_here nonzero
        number_tokens one_hot ones_like optimization_barrier overlap_add pad pad_sum padded_like
        patches_sum philox_binomial philox_categorical philox_gamma philox_integers
        philox_integers_between philox_kept philox_mask philox_normal philox_permutation
        philox_poisson philox_state philox_truncated_normal philox_uniform pinv
        pivots_to_permutation polygamma positions_from_start prod put_item put_item_at qr quantile
        quantile_gather quantile_spread real reciprocal rectified_gradient relu relu6 relu_gradient
        repeat repeat_sum reshape reshape_like reshape_sized rfft rfft_transposed roll rsqrt
        saturate_cast scaled_rows scatter_max scatter_min scatter_multiply scatter_nd_add
        scatter_update searchsorted segment_max segment_min segment_prod segment_sum selu
        selu_gradient sequences_sum shape shift_along sigmoid sigmoid_cross_entropy_with_logits silu
        silu_gradient sinc singular_values size slice slice_like slice_update sliding_product
        slogdet soft_shrink softmax softmax_cross_entropy_and_slopes softmax_cross_entropy_gradient
        softmax_cross_entropy_with_logits softmax_gradient softplus softsign solve solve_triangular
        sort sparse_categorical_hits sparse_plus sparse_sigmoid
        sparse_softmax_cross_entropy_and_slopes sparse_softmax_cross_entropy_gradient
        sparse_softmax_cross_entropy_with_logits sparsemax sparsemax_weights spence split split_like
        spread square_sum squareplus squeeze standardized standardized_gradient stop_gradient sum
        sum_to_like svd take take_along_axis take_along_axis_sum take_at_argmax take_sum tanh_shrink
        tensor_array_padded tensor_array_placed tensor_array_read tensor_array_without
        tensor_array_write tile tile_sized tile_sum tile_sum_sized tokens_of_numbers top_k transpose
        tril triu unfold unfold_gradient unique unravel_index unstack vander var view_as_complex
        view_as_real weighted_pixels where with_gradient with_items xdivy xlog1py xlogy zeros_like
        zeta""".split()
)
OPERATIONS.update(
    (name, getattr(np, name))
    for name in """
        absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_or
        bitwise_xor cbrt copysign cos cosh deg2rad divide equal exp exp2 expm1 fmax fmin gcd greater
        greater_equal heaviside hypot isfinite isinf isnan lcm left_shift less less_equal log log10
        log1p log2 logaddexp2 logical_and logical_not logical_or logical_xor maximum minimum
        multiply negative nextafter not_equal power rad2deg right_shift sign signbit sin sinh sqrt
        square subtract tan tanh trunc""".split()
)
OPERATIONS.update(bitwise_not=np.invert, round=np.rint, stack=_stack_of_concat_and_split)
UNREADABLE = {
    "a saved graph holds no Python": """
        all_reduce finish_bucket for_each gather_shares host_call keep_gradients load_variable
        py_call py_call_gradient start_bucket store_variable with_values""",
    "saved graphs hold the operations of its rule": """
        update_weights""",
    "the reader has one device": """
        copy_to_device copy_to_device_of""",
    "what it does is not data alone": """
        check_shape iterator_begin iterator_get_next raise_error table_request write_summary""",
}
# ====== to here

_REASONS = {name: reason for reason, names in UNREADABLE.items() for name in names.split()}


def graphs_in(path):
    """All functions of a file or folder.

    Args:
        path: as for `load`.

    Returns:
        A list of `SavedGraph`s, one for each graph of each function.
    """
    if not os.path.isdir(path):
        return [load(path)]
    import h5py

    with h5py.File(os.path.join(path, MODEL_FILE), "r") as file:
        endpoints = _endpoints(_document_in(_Content(file, h5py), path))
    return [
        load(path, name, i) for name, endpoint in endpoints.items() for i in range(len(endpoint[0]))
    ]


# ---------------------------------------------------------------------- training


class TrainingFile:
    """A training step in a file that `tk.saved_graph.save_training` wrote, to be trained on.

    Args:
        path: the file.

    Attributes:
        step: the `SavedGraph` of a step.
        names: what the arrays of data are called, in the order in which the step takes them.
        epochs: how many epochs it was trained on since it was saved.

    Raises:
        GraphError: the file is damaged, or holds no training step, or one that this reader can't
            train.
        OSError: there is no such file.
    """

    def __init__(self, path):
        self.path = os.fspath(path)
        self.step = load(path)
        training = self.step.training
        if training is None:
            raise GraphError(
                f"{path} holds a function and no training step, which tk.saved_graph.save_training "
                "writes"
            )
        self.names = training["inputs"]
        self.epochs = int(training["epochs"])
        if self.step.has_bfloat16:
            raise GraphError(
                f"{path} has bfloat16 variables, which this reader computes in float32: training "
                "would give other weights than trainkit's"
            )

    def train(self, data, epochs=1, batch_size=32, seed=None, say=None):
        """Train on data; the file stays as it is until `save`.

        Args:
            data: an array with a row for each example, for each of `names`.
            epochs: how many times all rows are taken.
            batch_size: rows of a step; the last step of an epoch takes what is left.
            seed: takes the rows in a random order, another one in each epoch; the same seed gives
                the same orders. By default they come as they are.
            say: function of the number of an epoch and its results, called after each.

        Returns:
            For each epoch a dict of the loss and the metrics.

        Raises:
            ValueError: an array is missing, or does not fit; or a number is below 1.
            GraphError: a step fails. The variables are as before the step.
        """
        for name, number in (("epochs", epochs), ("batch_size", batch_size)):
            if number < 1:
                raise ValueError(f"{name} is {number}, it must be at least 1")
        arrays, rows = self._arrays(data)
        history = []
        for _ in range(epochs):
            self.step.reset()
            order = np.arange(rows)
            if seed is not None:
                order = np.random.default_rng([seed, self.epochs]).permutation(rows)
            for start in range(0, rows, batch_size):
                part = order[start : start + batch_size]
                logs = self.step(*[array[part] for array in arrays])
            self.epochs += 1
            history.append({name: np.asarray(value).tolist() for name, value in logs.items()})
            if say is not None:
                say(self.epochs, history[-1])
        self.step.finish()
        return history

    def _arrays(self, data):
        """The arrays in order, and the number of their rows."""
        takes = dict(zip(self.names, self.step.inputs, strict=True))
        missing = [name for name in takes if name not in data]
        more = [name for name in data if name not in takes]
        if missing or more:
            needs = ", ".join(f"{n} ({d}{_in_words(s)})" for n, (_, s, d) in takes.items())
            raise ValueError(f"training takes {needs}; given is {', '.join(data) or 'nothing'}")
        arrays = [_fitting(data[n], n, s, d) for n, (_, s, d) in takes.items()]
        rows = {name: len(array) for name, array in zip(takes, arrays, strict=True)}
        if len(set(rows.values())) > 1 or not min(rows.values()):
            counts = ", ".join(f"{name} has {count}" for name, count in rows.items())
            raise ValueError(
                f"training needs the same number of rows of each, at least 1: {counts}"
            )
        return arrays, next(iter(rows.values()))

    def save(self, path=None):
        """Write the file with the variables as they are now; it is replaced whole or not at all.

        Args:
            path: where to; by default the file that was read.

        Raises:
            GraphError: the file that was read has changed its layout since, or was none of
                trainkit's.
            OSError: the file can't be written.
        """
        values = dict(self.step.values)
        values[self.step.epochs_number] = np.asarray(self.epochs, np.int64)
        target = self.path if path is None else os.fspath(path)
        folder, name = os.path.split(os.path.abspath(target))
        handle, temporary = tempfile.mkstemp(".tmp", f".{name[:100]}.", folder)
        os.close(handle)
        try:
            shutil.copyfile(self.path, temporary)
            shutil.copymode(self.path, temporary)
            with open(temporary, "r+b") as file:
                _write_values(file, temporary, values)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise


def _in_words(shape):
    return "[" + ", ".join("any" if n is None else str(n) for n in shape) + "]"


def _write_values(file, path, values):
    """Put arrays where those of these numbers stand in a file, and its checksums right."""
    import h5py

    extents = {}
    with h5py.File(path, "r") as content:
        for number, array in values.items():
            dataset = content["values"][str(number)]
            stored = dataset[()]
            if stored.shape != array.shape or stored.dtype != array.dtype:
                raise GraphError(f"the value {number} has changed its form since it was read")
            if array.size:
                extents[number] = dataset.id.get_offset(), stored.tobytes()
    for number, (offset, before) in extents.items():
        file.seek(offset)
        if file.read(len(before)) != before:
            raise GraphError(f"the value {number} does not stand where HDF5 says")
        file.seek(offset)
        file.write(np.ascontiguousarray(values[number]).tobytes())
    _write_header(file, path)


# The header of trainkit's files, in front of HDF5: magic, version, flags, length, order, place and
# number of the extents, length of the contents, checksum of all outside of the extents; then a
# checksum of the header, and a text. An extent is a big array: offset, size, checksum.
_HEADER, _EXTENT = struct.Struct("<8sIIQQQQQ32s"), struct.Struct("<QQ16s")
_BLOCK, _MAGIC, _HEADER_VERSION = 512, b"\x89TKC\r\n\x1a\n", 3
_SUMMED_ROWS, _SUMMED_WORDS = 512, 1031


def _write_header(file, path):
    """Write the checksums of a file anew."""
    file.seek(0)
    block = file.read(_BLOCK)
    if not block.startswith(_MAGIC):
        raise GraphError(f"{path} has no header of trainkit's; save it there again")
    fields = list(_HEADER.unpack(block[: _HEADER.size]))
    _, version, _, length, order, table, count, _, _ = fields
    if version != _HEADER_VERSION or table + count * _EXTENT.size != length:
        raise GraphError(f"{path} has a header of version {version}, {_HEADER_VERSION} is known")
    file.seek(table)
    extents = list(_EXTENT.iter_unpack(file.read(count * _EXTENT.size)))
    outer, position, entries = hashlib.blake2b(digest_size=32), _BLOCK, []
    for offset, size, _ in extents:
        file.seek(offset)
        entries.append(_EXTENT.pack(offset, size, _checksum(file.read(size))))
    file.seek(table)
    file.write(b"".join(entries))
    for offset, size in [*[extent[:2] for extent in extents], (length, 0)]:
        file.seek(position)
        outer.update(file.read(offset - position))
        position = offset + size
    fields[4], fields[8] = max(order + 1, time.time_ns()), outer.digest()
    head, text = _HEADER.pack(*fields), block[_HEADER.size + 16 :]
    file.seek(0)
    file.write(head + hashlib.blake2b(head + text, digest_size=16).digest() + text)


def _checksum(content):
    """Of a big array's bytes: BLAKE2b of their length and of the sums of columns of words."""
    digest = hashlib.blake2b(len(content).to_bytes(8, "little"), digest_size=16)
    row, chunk = 8 * _SUMMED_WORDS, 8 * _SUMMED_WORDS * _SUMMED_ROWS
    for start in range(0, len(content), chunk):
        part = content[start : start + chunk]
        part += bytes(-len(part) % row)
        words = np.frombuffer(part, "<u8").reshape(-1, _SUMMED_WORDS)
        digest.update(np.add.reduce(words, axis=0).astype("<u8").tobytes())
    return digest.digest()


def train(path, data, epochs=1, batch_size=32, seed=None, output=None, say=None):
    """Train on a file of `tk.saved_graph.save_training`, and write it back.

    Args:
        path: the file.
        data: arrays by name, see `TrainingFile.names`.
        epochs: how many times all rows are taken.
        batch_size: rows of a step.
        seed: for a random order of rows; by default they come as they are.
        output: where the trained file goes; by default it replaces `path`.
        say: function of the number of an epoch and its results, called after each.

    Returns:
        For each epoch a dict of the loss and the metrics.
    """
    file = TrainingFile(path)
    history = file.train(data, epochs, batch_size, seed, say)
    file.save(output)
    return history


def _said(epoch, results):
    texts = [
        f"{name} {value:.6g}"
        if isinstance(value, float)
        else f"{name} {np.array2string(np.asarray(value), precision=6)}"
        for name, value in results.items()
    ]
    print(f"epoch {epoch}: {', '.join(texts)}", flush=True)


def main(arguments):
    """List what each file holds; with --data, train on one.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(
        description="List what saved graphs hold, or train on a file of save_training."
    )
    parser.add_argument("path", nargs="+", help="files and folders")
    parser.add_argument("--data", metavar="FILE", help="an npz of x, y and so on: train on it")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--seed", type=int, help="take rows in a random order, that of this seed")
    parser.add_argument("--output", metavar="FILE", help="by default the file itself is replaced")
    args = parser.parse_args(arguments)
    if args.data is None:
        training = [name for name in ("seed", "output") if getattr(args, name) is not None]
        if training or (args.epochs, args.batch_size) != (1, 32):
            parser.error("--epochs, --batch-size, --seed and --output go with --data")
        for path in args.path:
            for graph in graphs_in(path):
                print(graph)
                if graph.training is not None:
                    names, epochs = graph.training["inputs"], graph.training["epochs"]
                    print(f"  trains on {', '.join(names)}; {epochs} epochs since it was saved")
                for name, value in graph.variables.items():
                    print(f"  {name}  {value.dtype}{list(value.shape)}")
        return 0
    if len(args.path) != 1:
        parser.error("one file is trained at a time")
    if args.seed is not None and args.seed < 0:
        parser.error(f"--seed is {args.seed}, it must be 0 or above")
    try:
        archive = np.load(args.data, allow_pickle=False)
        if not hasattr(archive, "files"):
            raise ValueError(f"{args.data} is no npz")
        with archive:
            data = {name: archive[name] for name in archive.files}
        numbers = args.epochs, args.batch_size, args.seed
        train(args.path[0], data, *numbers, args.output, _said)
    except (OSError, ValueError, TypeError, zipfile.BadZipFile) as error:
        print(f"{os.path.basename(sys.argv[0])}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
