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
import time
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


def _decode(value, special, depth=0):
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
        return complex(*[float(_decode(part, special, depth + 1)) for part in content])
    if kind in ("tuple", "list") and isinstance(content, list):
        items = [_decode(item, special, depth + 1) for item in content]
        return tuple(items) if kind == "tuple" else items
    if kind == "dict" and isinstance(content, list):
        pairs = [_decode({"tuple": pair}, special, depth + 1) for pair in content]
        if all(len(pair) == 2 and isinstance(pair[0], _KEYS) for pair in pairs):
            return dict(pairs)
    if kind == "record" and isinstance(content, list) and len(content) == 2:
        name, pairs = content
        fields = [str(field) for field, _ in pairs]
        items = [_decode(item, special, depth + 1) for _, item in pairs]
        return namedtuple(str(name), fields)(*items)
    raise GraphError(f"{str(kind)[:40]!r} is no kind of setting")


_HOLE = object()


def _template(content):
    """What a print shows: a nest with holes for values, text between and behind, and where to."""
    fields = _decode(content, {"hole": lambda _: _HOLE})
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
        _decode(default, {"object": lambda _: None})


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
    _decode(entry["results"], {"tensor": _place_in(main["outputs"], "a result")})
    inputs, labels = len(main["inputs"]), entry["labels"]
    if not all(isinstance(label, str) for label in labels):
        raise GraphError("a label is no text")
    if entry["arguments"] is not None:
        input_tensor = {"tensor": _place_in(main["inputs"], "an input")}
        args, kwargs = _decode(entry["arguments"], input_tensor)
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
            argument = _decode(value, special)
            if isinstance(argument, str | dict | list) or (
                isinstance(argument, tuple) and "tensor" not in value
            ):
                raise GraphError(f"{node['name']!r} takes {str(value)[:40]!r}, which is no value")
        part = {"graph": lambda i: _check_part(i, number, document), "template": _template}
        for value in node["settings"].values():
            _decode(value, part)
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
        return _decode(self._results, {"tensor": lambda i: outputs[i]})

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
    inputs = [_decode(x, special) for x in node["inputs"]]
    parts = {"graph": lambda i: earlier[i], "template": _template}
    settings = {k: _decode(v, parts) for k, v in node["settings"].items()}
    _check_call(name, body, inputs, settings)
    specs, many = node["specs"], node["many"]

    def step(env, state):
        arrays = [env[x.node][x.index] if isinstance(x, _Ref) else x for x in inputs]
        results = body(*arrays, **settings)
        results = tuple(results) if many else (results,)
        if len(results) != len(specs):
            raise GraphError(f"{name!r} gives {len(results)} values, not {len(specs)}")
        floats = all(x.dtype.kind == "f" for x in arrays if isinstance(x, np.ndarray))
        return tuple(
            [_as_declared(y, *t, name, floats) for y, t in zip(results, specs, strict=True)]
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


def _assert_true(condition, *values, message):
    if not np.all(condition):
        raise GraphError(str(message) + "".join(f"\n  {x!r}" for x in values))
    return ()


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


# ---------------------------------------------------------------------- shapes


def _ensure_shape(x, shape, variable=""):
    if x.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, x.shape, strict=True)):
        needs = f"variable {variable!r} has" if variable else "needed is"
        raise GraphError(f"{needs} shape {tuple(shape)}, the value has {x.shape}")
    return x


def _get_item(x, *parts, key):
    return x[_index(key, parts)]


def _index(key, parts=()):
    """What stands between brackets: `"..."`, slices as triples, `"@k"` for the k-th index array."""

    def one(item, in_slice=False):
        if item == "...":
            return Ellipsis
        if isinstance(item, str):
            part = np.asarray(parts[int(item[1:])])
            return int(part) if in_slice or (part.ndim == 0 and part.dtype.kind in "iu") else part
        if isinstance(item, tuple):
            return slice(*[one(bound, True) for bound in item])
        return item

    return tuple(one(item) for item in key)


def _filled(shape, sizes):
    if len(sizes) != sum(n is None for n in shape):
        raise GraphError(f"{len(sizes)} sizes are given for those missing in {shape}")
    live = iter(sizes)
    return tuple(int(next(live)) if n is None else n for n in shape)


def _broadcast(x, shape):
    extra = len(shape) - x.ndim
    return np.broadcast_to(
        x, [x.shape[i - extra] if n == -1 and i >= extra else n for i, n in enumerate(shape)]
    )


def _expand_dims(x, axis):
    return np.expand_dims(x, axis)


def _unstack(x, axis, num):
    if x.shape[axis] != num:
        raise ValueError(f"unstack: axis {axis} has size {x.shape[axis]}, not {num}")
    return [np.take(x, i, axis) for i in range(num)]


def _split(x, parts, axis):
    return np.split(x, list(parts) if isinstance(parts, tuple) else parts, axis)


def _pad(x, pad_width, mode, value):
    if mode == "constant":
        return np.pad(x, pad_width, constant_values=value or 0)
    return np.pad(x, pad_width, mode)


def _block(x, start, sizes):
    ends = [n if k == -1 else a + k for n, a, k in zip(x.shape, start, sizes, strict=False)]
    return tuple(slice(a, b) for a, b in zip(start, ends, strict=False))


def _slice(x, *live, start, sizes):
    return x[_block(x, _filled(start, live), sizes)]


def _slice_update(x, updates, *live, start):
    out = np.array(x)
    out[_block(x, _filled(start, live), updates.shape)] = updates
    return out


def _take(x, indices, axis, wrap=True):
    indices = np.asarray(indices)
    if not wrap and indices.size and indices.min() < 0:
        raise IndexError(f"take: index {indices.min()} is below 0")
    return np.take(x, indices, axis)


def _gather_nd(x, indices):
    if indices.shape[-1] == 0:
        return np.broadcast_to(x, (*indices.shape[:-1], *x.shape))
    return x[tuple(np.moveaxis(indices, -1, 0))]


def _one_hot(x, num_classes, axis, dtype):
    hot = np.asarray(x)[..., None] == np.arange(num_classes)
    return np.moveaxis(hot, -1, axis).astype(dtype)


def _array_write(buffer, index, value, grows):
    i, n = int(index), buffer.shape[0]
    if i < 0 or (i >= n and not grows):
        raise IndexError(f"index {i} is not in [0, {n})")
    out = np.zeros((max(n, i + 1), *np.shape(value)), buffer.dtype)
    if buffer.size:
        out[:n] = buffer
    out[i] = value
    return out


# ---------------------------------------------------------------------- products and windows
#
# What follows adds in the order in which trainkit's own NumPy bodies do, and rounds where they do:
# a model that is trained on by this file has the bits that trainkit would have given it.

_COLUMN_BYTES = 1 << 18  # of columns that are made at a time; it decides on roundings
_SHORT_RUN = 16  # numbers side by side in a window, below which columns are copied one by one
_LARGE = 1 << 14  # elements from which relu is clipping


def _widen(x):
    """Numbers of less than 32 bits as float32, in which they are summed."""
    return x.astype(np.float32) if x is not None and x.dtype.itemsize < 4 else x


def _float32_of_short(x):
    """The same for floats alone."""
    return x.astype(np.float32) if x.dtype == np.float16 else x


def _rows(x):
    return x if x.ndim == 2 else x.reshape(-1, x.shape[-1])


def _matmul(a, b):
    if a.dtype == np.float16:
        return _matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
    if a.dtype == np.int8 == b.dtype:
        return _int8_product(a, b)
    if a.ndim > 2 and b.ndim == 2 and a.flags.c_contiguous and a.shape[-1] == b.shape[0]:
        rows = a.reshape(math.prod(a.shape[:-1]), a.shape[-1])
        return np.matmul(rows, b).reshape(*a.shape[:-1], b.shape[1])
    return np.matmul(a, b)


def _int8_product(a, b):
    """The product of int8 in int32, by float32: sums of 1024 such products are exact there."""
    if a.dtype != np.int8 or b.dtype != np.int8:
        raise ValueError(f"both inputs must be int8, they are {a.dtype} and {b.dtype}")
    if min(a.ndim, b.ndim) < 2:
        return np.matmul(a.astype(np.int32), b.astype(np.int32))
    total = 0
    for i in range(0, max(a.shape[-1], 1), 1024):
        one, two = a[..., i : i + 1024], b[..., i : i + 1024, :]
        total = total + _matmul(one.astype(np.float32), two.astype(np.float32)).astype(np.int32)
    return total


def _einsum(a, b, subscripts):
    """Sum of products of two arrays over the letters that the result lacks, as a matrix product."""
    if a.dtype == np.float16:
        return _einsum(a.astype(np.float32), b.astype(np.float32), subscripts).astype(a.dtype)
    if a.dtype == np.int8:
        a, b = a.astype(np.int32), b.astype(np.int32)
    inputs, out = subscripts.split("->")
    one, two = inputs.split(",")
    batch = [s for s in out if s in one and s in two]
    joined = [s for s in one if s in two and s not in out]
    first = [s for s in out if s in one and s not in two]
    second = [s for s in out if s in two and s not in one]
    a = a.transpose([one.index(s) for s in batch + first + joined])
    b = b.transpose([two.index(s) for s in batch + joined + second])
    order = [(batch + first + second).index(s) for s in out]
    nb, nf, nj = len(batch), len(first), len(joined)
    lead, rows, inner, columns = a.shape[:nb], a.shape[nb : nb + nf], a.shape[nb + nf :], ()
    columns = b.shape[nb + nj :]
    if lead != b.shape[:nb] or inner != b.shape[nb : nb + nj]:
        raise ValueError(f"einsum {subscripts!r}: sizes of equal letters differ")
    if not joined:
        left = a.reshape((*lead, *rows, *(1,) * len(columns)))
        return (left * b.reshape((*lead, *(1,) * nf, *columns))).transpose(order)
    if batch and not first and not second and a.dtype.kind != "b":
        names = "".join(map(chr, range(97, 97 + nb + nj)))
        return np.einsum(f"{names},{names}->{names[:nb]}", a, b).transpose(order)
    a = a.reshape((*lead, math.prod(rows), math.prod(inner)))
    b = b.reshape((*lead, math.prod(inner), math.prod(columns)))
    return np.matmul(a, b).reshape((*lead, *rows, *columns)).transpose(order)


def _dense(x, kernel, bias, activation):
    y = np.matmul(_rows(_widen(x)), _widen(kernel))
    y = _finish(y, _widen(bias), activation)
    return y.reshape(*x.shape[:-1], kernel.shape[1]).astype(x.dtype, copy=False)


def _finish(y, bias, activation):
    """A product with its bias and activation, in place."""
    if activation not in (None, "relu"):
        raise GraphError(f"{str(activation)[:40]!r} is no activation of a product")
    if bias is not None:
        y += bias
    if activation == "relu" and y.size >= _LARGE and y.dtype in (np.float32, np.float64):
        np.clip(y, 0, np.inf, out=y)
        y += 0  # -0.0 becomes 0.0
    elif activation == "relu":
        np.maximum(y, 0, out=y)
    return y


def _dense_gradient(g, y, x, kernel, activation, wanted):
    """What `_dense` sends back: by x, kernel and bias, as far as they are wanted."""
    dtype = g.dtype
    g, x, kernel = _widen(g), _widen(x), _widen(kernel)
    if activation == "relu":
        g = g * (y > 0)
    flat, parts = _rows(g), []
    if wanted[0]:
        parts.append(np.matmul(flat, kernel.T).reshape(x.shape))
    if wanted[1]:
        parts.append(np.matmul(_rows(x).T, flat))
    if wanted[2]:
        parts.append(flat.sum(axis=0))
    return tuple([part.astype(dtype, copy=False) for part in parts])


def _rectified_gradient(g, y):
    result = g * (y > 0)
    rows = _rows(_widen(result))
    return result, (np.ones(len(rows), rows.dtype) @ rows).astype(g.dtype, copy=False)


class _WindowGrid:
    """Where the windows over an array (batch, spatial..., channels) lie.

    Attributes:
        out: the number of windows along each axis.
        pads: what is added before and after each axis.
        padded: spatial sizes with that.
    """

    def __init__(self, sizes, window, strides, padding, dilation):
        per_axis = (padding,) * len(window) if isinstance(padding, str) else padding
        axes = list(zip(sizes, window, strides, per_axis, dilation, strict=True))
        self.sizes, self.window = tuple(sizes), tuple(window)
        self.strides, self.dilation = tuple(strides), tuple(dilation)
        self.pads = [_pads(*axis) for axis in axes]
        self.padded = tuple(n + a + b for n, (a, b) in zip(self.sizes, self.pads, strict=True))
        self.out = tuple(
            (n - (k - 1) * d - 1) // s + 1
            for n, (_, k, s, _, d) in zip(self.padded, axes, strict=True)
        )
        spatial = [slice(a, a + n) for n, (a, _) in zip(self.sizes, self.pads, strict=True)]
        self.interior = (slice(None), *spatial)
        steps = (*self.window, *self.strides, *self.dilation)
        if min(steps, default=1) < 1 or min([*sum(self.pads, ()), *self.out], default=0) < 0:
            raise ValueError(
                f"windows {self.window} by {self.strides}, {self.dilation} apart, do not fit "
                f"{self.sizes} with {padding!r}"
            )
        self.pointwise = math.prod(self.window) == math.prod(self.strides) == 1
        self.pointwise = self.pointwise and self.padded == self.sizes

    def pad(self, x, value=0):
        """`x` with `value` around it."""
        if self.padded == self.sizes:
            return x
        result = np.full((x.shape[0], *self.padded, x.shape[-1]), value, x.dtype)
        result[self.interior] = x
        return result

    def view(self, padded):
        """All windows of a padded array, (batch, out..., window..., channels)."""
        if padded.shape[1:-1] != self.padded:  # a view of other sizes would leave the array
            raise ValueError(f"an array of sizes {padded.shape[1:-1]} is no {self.padded}")
        batch, *space, channel = padded.strides
        moved = [s * n for s, n in zip(space, self.strides, strict=True)]
        inside = [s * n for s, n in zip(space, self.dilation, strict=True)]
        shape = (padded.shape[0], *self.out, *self.window, padded.shape[-1])
        return np.lib.stride_tricks.as_strided(padded, shape, (batch, *moved, *inside, channel))

    def offsets(self):
        """For each element of a window its position, and what it sees of all windows."""
        for position in itertools.product(*map(range, self.window)):
            spatial = [
                slice(p * d, p * d + (n - 1) * s + 1, s)
                for p, d, n, s in zip(position, self.dilation, self.out, self.strides, strict=True)
            ]
            yield position, (slice(None), *spatial)


def _pads(size, window, stride, pad, dilation):
    if pad == "valid":
        return 0, 0
    if pad != "same":
        return int(pad[0]), int(pad[1])
    total = max((-(-size // stride) - 1) * stride + (window - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def _images_at_once(batch, bytes_each):
    """Stretches of images whose columns take so much memory together."""
    step = max(1, _COLUMN_BYTES // max(bytes_each, 1))
    return [slice(i, min(i + step, batch)) for i in range(0, batch, step)]


def _columns(w, windows, group):
    """Windows of some images as a matrix (images * out, window * channels of the group)."""
    view = windows[..., group]
    inside, elements = view.shape[-1], math.prod(w.window)
    rows = view.shape[0] * math.prod(w.out)
    together = inside == windows.shape[-1] and w.dilation[-1] == 1
    run = inside * w.window[-1] if together else inside
    if w.pointwise or run >= _SHORT_RUN:
        return view.reshape(rows, elements * inside)
    outer, axes = 1 + len(w.window), range(view.ndim)
    by_column = view.transpose(*axes[outer:], *axes[:outer])
    return by_column.reshape(elements * inside, rows).T


def _by_group(kernel, groups):
    """The input channels and filters of each group."""
    inside, filters = kernel.shape[-2], kernel.shape[-1] // groups
    for i in range(groups):
        yield slice(i * inside, (i + 1) * inside), slice(i * filters, (i + 1) * filters)


def _conv(x, kernel, bias, strides, padding, dilation_rate, activation):
    w = _WindowGrid(x.shape[1:-1], kernel.shape[:-2], strides, padding, dilation_rate)
    groups = x.shape[-1] // kernel.shape[-2]
    return _convolv(w, x, kernel, groups, lambda y: _finish(y, bias, activation))


def _convolv(w, x, kernel, groups, finish=lambda y: y):
    """Cross-correlation by columns of windows; each element goes through `finish`, in place."""
    dtype, filters = x.dtype, kernel.shape[-1]
    x, kernel = _float32_of_short(x), _float32_of_short(kernel)
    y = np.empty((x.shape[0], *w.out, filters), x.dtype)
    if groups > 1 and kernel.shape[-2] == 1:
        _depthwise(w, x, kernel, y)
        return finish(y.astype(dtype, copy=False))
    each = math.prod(w.out) * math.prod(w.window) * kernel.shape[-2] * x.itemsize
    for part in _images_at_once(len(x), each):
        windows = w.view(w.pad(x[part]))
        for inputs, outputs in _by_group(kernel, groups):
            columns = _columns(w, windows, inputs)
            matrix = kernel[..., outputs].reshape(columns.shape[1], -1)
            if groups == 1:
                np.matmul(columns, matrix, out=y[part].reshape(-1, filters))
            else:
                y[part][..., outputs] = np.matmul(columns, matrix).reshape(*y[part].shape[:-1], -1)
        if x.dtype == dtype:
            finish(y[part])
    return y if x.dtype == dtype else finish(y.astype(dtype))


def _conv_input_gradient(g, kernel, x, strides, padding, dilation_rate):
    w = _WindowGrid(x.shape[1:-1], kernel.shape[:-2], strides, padding, dilation_rate)
    return _spread_over_windows(w, g, kernel, x.shape[-1] // kernel.shape[-2])


def _conv_transpose(x, kernel, strides, padding, output_padding, dilation_rate):
    sizes = []
    extra = output_padding or (None,) * len(strides)
    for n, k, s, more, d in zip(
        x.shape[1:-1], kernel.shape[:-2], strides, extra, dilation_rate, strict=True
    ):
        span = (k - 1) * d + 1
        inner = span if padding == "valid" else span - 2 * (span // 2)
        smallest = max(span - s, 0) if padding == "valid" else 0
        sizes.append(n * s + smallest if more is None else (n - 1) * s + inner + more)
    w = _WindowGrid(sizes, kernel.shape[:-2], strides, padding, dilation_rate)
    if w.out != x.shape[1:-1]:
        raise ValueError(f"output_padding={output_padding} does not fit strides={strides}")
    return _spread_over_windows(w, x, kernel, 1)


def _spread_over_windows(w, g, kernel, groups):
    """What a convolution sends back to its input: each output spread over its window."""
    dtype, inside = g.dtype, kernel.shape[-2]
    g, kernel = _float32_of_short(g), _float32_of_short(kernel)
    channels, by_channel = inside * groups, groups > 1 and inside == 1
    around = _windows_back(w)
    if not by_channel and around is not None and kernel.shape[-1] <= 2 * channels:
        return _convolv(around, g, _turn(kernel, groups), groups).astype(dtype, copy=False)
    result = np.empty((g.shape[0], *w.sizes, channels), g.dtype)
    if by_channel:
        _depthwise_back(w, g, kernel, result)
        return result.astype(dtype, copy=False)
    elements = math.prod(w.window)
    for part in _images_at_once(len(g), math.prod(w.out) * elements * inside * g.itemsize):
        for inputs, outputs in _by_group(kernel, groups):
            matrix = kernel[..., outputs].reshape(elements * inside, -1)
            columns = np.matmul(g[part][..., outputs].reshape(-1, matrix.shape[1]), matrix.T)
            if w.pointwise:
                result[part][..., inputs] = columns.reshape(*g[part].shape[:-1], -1)
                continue
            columns = columns.reshape(-1, *w.out, *w.window, inside)
            padded = np.zeros((len(columns), *w.padded, inside), g.dtype)
            for position, window in w.offsets():
                padded[window] += columns[(*(slice(None),) * (len(w.window) + 1), *position)]
            result[part][..., inputs] = padded[w.interior]
    return result.astype(dtype, copy=False)


def _windows_back(w):
    """Where the gradient of an element gathers from; `None` where windows are not neighbours."""
    reaches = [(k - 1) * d for k, d in zip(w.window, w.dilation, strict=True)]
    around = [(r - a, r - b) for r, (a, b) in zip(reaches, w.pads, strict=True)]
    if max(w.strides) > 1 or min(map(min, around)) < 0:
        return None
    return _WindowGrid(w.out, w.window, w.strides, around, w.dilation)


def _turn(kernel, groups):
    """The kernel from its outputs to its inputs: (window..., filters // groups, channels)."""
    rank = kernel.ndim - 2
    parted = kernel[(slice(None, None, -1),) * rank].reshape(*kernel.shape[:-1], groups, -1)
    back = parted.transpose(*range(rank), rank + 2, rank + 1, rank)
    return back.reshape(*kernel.shape[:rank], kernel.shape[-1] // groups, -1)


def _conv_kernel_gradient(x, g, kernel_size, groups, strides, padding, dilation_rate):
    w = _WindowGrid(x.shape[1:-1], kernel_size, strides, padding, dilation_rate)
    dtype, inside = x.dtype, x.shape[-1] // groups
    x, g = _float32_of_short(x), _float32_of_short(g)
    result = np.zeros((*w.window, inside, g.shape[-1]), x.dtype)
    if groups > 1 and inside == 1:
        _depthwise_kernel(w, x, g, result)
        return result.astype(dtype, copy=False)
    each = math.prod(w.out) * math.prod(w.window) * inside * x.itemsize
    for part in _images_at_once(len(x), each):
        windows = w.view(w.pad(x[part]))
        for inputs, outputs in _by_group(result, groups):
            columns = _columns(w, windows, inputs)
            matrix = g[part][..., outputs].reshape(columns.shape[0], -1)
            product = np.matmul(columns.T, matrix)
            result[..., outputs] += product.reshape(*w.window, inside, -1)
    return result.astype(dtype, copy=False)


def _multiply(kernel, channels):
    """A kernel (window..., 1, channels * multiplier) as (window..., channels, multiplier)."""
    return kernel.reshape(*kernel.shape[:-2], channels, -1)


def _depthwise(w, x, kernel, y):
    padded, weights = w.pad(x), _multiply(kernel, x.shape[-1])
    total = y.reshape(*y.shape[:-1], *weights.shape[-2:])
    total[...] = 0
    for position, window in w.offsets():
        total += padded[window][..., None] * weights[position]


def _depthwise_back(w, g, kernel, result):
    weights = _multiply(kernel, result.shape[-1])
    by_multiplier = g.reshape(*g.shape[:-1], *weights.shape[-2:])
    padded = np.zeros((g.shape[0], *w.padded, result.shape[-1]), g.dtype)
    for position, window in w.offsets():
        padded[window] += (by_multiplier * weights[position]).sum(axis=-1)
    result[...] = padded[w.interior]


def _depthwise_kernel(w, x, g, result):
    padded = w.pad(x)
    by_multiplier = g.reshape(*g.shape[:-1], x.shape[-1], -1)
    outer = tuple(range(by_multiplier.ndim - 2))
    for position, window in w.offsets():
        product = padded[window][..., None] * by_multiplier
        result[(*position, 0)] = product.sum(axis=outer).reshape(-1)


def _pool(x, pool_size, strides, padding):
    return _WindowGrid(x.shape[1:-1], pool_size, strides, padding, (1,) * len(pool_size))


def _lowest(dtype):
    return {"f": -np.inf, "b": False}[dtype.kind] if dtype.kind in "fb" else np.iinfo(dtype).min


def _max_pool(x, pool_size, strides, padding):
    w = _pool(x, pool_size, strides, padding)
    padded = w.pad(x, _lowest(x.dtype))
    return np.maximum.reduce([padded[window] for _, window in w.offsets()])


def _first_maxima(w, x, y):
    """For each element of a window what it sees, and where it is the first to equal the maximum."""
    padded = w.pad(x, _lowest(x.dtype))
    still_open = np.ones(y.shape, bool)
    for _, window in w.offsets():
        is_first = padded[window] == y
        is_first &= still_open
        still_open ^= is_first
        yield window, is_first


def _max_pool_gradient(g, x, y, pool_size, strides, padding):
    w = _pool(x, pool_size, strides, padding)
    total = np.zeros((x.shape[0], *w.padded, x.shape[-1]), g.dtype)
    for window, is_first in _first_maxima(w, x, y):
        total[window] += np.where(is_first, g, g.dtype.type(0))
    return np.ascontiguousarray(total[w.interior])


def _max_pool_pick(values, x, y, pool_size, strides, padding):
    w = _pool(x, pool_size, strides, padding)
    padded, result = w.pad(values), np.zeros(y.shape, values.dtype)
    for window, is_first in _first_maxima(w, x, y):
        np.copyto(result, padded[window], where=is_first)
    return result


def _max_pool_with_argmax(x, pool_size, strides, padding):
    w = _pool(x, pool_size, strides, padding)
    images = np.arange(int(np.prod(x.shape[1:]))).reshape((1, *x.shape[1:])) + np.zeros_like(x, int)
    # behind all elements, so that of equal ones the first is inside
    padded, indices = w.pad(x, _lowest(x.dtype)), w.pad(images, -1)
    values = np.stack([padded[window] for _, window in w.offsets()], -1)
    positions = np.stack([indices[window] for _, window in w.offsets()], -1)
    order = np.argsort(positions < 0, axis=-1, kind="stable")
    values, positions = (np.take_along_axis(a, order, -1) for a in (values, positions))
    best = np.argmax(values, axis=-1)[..., None]
    return tuple(np.take_along_axis(a, best, -1)[..., 0] for a in (values, positions))


def _add_at_argmax(g, argmax, x):
    total = np.zeros((len(x), int(np.prod(x.shape[1:]))), np.result_type(g.dtype, np.float32))
    rows = len(x), int(np.prod(g.shape[1:]))
    np.add.at(total, (np.arange(len(x))[:, None], argmax.reshape(rows)), g.reshape(rows))
    return total.astype(g.dtype).reshape(x.shape)


def _take_at_argmax(values, argmax):
    rows = values.reshape(len(values), int(np.prod(values.shape[1:])))
    indices = argmax.reshape(len(argmax), int(np.prod(argmax.shape[1:])))
    return np.take_along_axis(rows, indices, axis=1).reshape(argmax.shape)


def _channel_window_sums(x, radius):
    channels = x.shape[-1]
    radius = min(radius, channels)
    sums = np.zeros(x.shape, np.float32 if x.dtype.itemsize == 2 else x.dtype)
    for shift in range(-radius, radius + 1):
        inside = slice(max(-shift, 0), min(channels - shift, channels))
        sums[..., inside] += x[..., inside.start + shift : inside.stop + shift]
    return sums.astype(x.dtype)


def _window_counts(w, dtype):
    """How many positions of each window lie inside the array, (out..., 1)."""
    inside = np.ones((1, *w.sizes, 1))
    padded = w.pad(inside)[0]
    return sum(padded[window[1:]] for _, window in w.offsets()).astype(dtype)


def _average_pool(x, pool_size, strides, padding):
    w = _pool(x, pool_size, strides, padding)
    padded = w.pad(x)
    parts = [padded[window] for _, window in w.offsets()]
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    if w.padded != w.sizes:
        return total / _window_counts(w, x.dtype)
    return total * x.dtype.type(1 / math.prod(w.window))


def _average_pool_gradient(g, x, pool_size, strides, padding):
    w = _pool(x, pool_size, strides, padding)
    padded = w.padded != w.sizes
    factor = g.dtype.type(1 / math.prod(w.window))
    share = g / _window_counts(w, g.dtype) if padded else g * factor
    total = np.zeros((g.shape[0], *w.padded, g.shape[-1]), g.dtype)
    for _, window in w.offsets():
        total[window] += share
    return np.ascontiguousarray(total[w.interior])


def _patch_places(dims, size, strides, dilation):
    """For each element of a patch its number and what it sees, and the counts of patches."""
    axes = list(zip(dims, size, strides, dilation, strict=True))
    counts = [max(0, (n - (k - 1) * d - 1) // s + 1) for n, k, s, d in axes]
    windows = []
    for offset in itertools.product(*map(range, size)):
        spatial = [
            slice(o * d, o * d + (c - 1) * s + 1, s) if c else slice(0, 0)
            for o, c, (_, _, s, d) in zip(offset, counts, axes, strict=True)
        ]
        windows.append((slice(None), *spatial))
    return counts, windows


def _weighted_pixels(x, rows, columns, **settings):
    batch, height, width, channels = x.shape
    x = np.matmul(rows, x.reshape(batch, height, width * channels))
    return np.matmul(columns, x.reshape(batch, len(rows), width, channels))


def _extract_patches(x, size, strides, dilation):
    counts, windows = _patch_places(x.shape[1:-1], size, strides, dilation)
    parts = np.stack([x[window] for window in windows], axis=-2)
    return parts.reshape(x.shape[0], *counts, math.prod(size) * x.shape[-1])


def _patches_sum(g, x, size, strides, dilation):
    out = np.zeros(x.shape, g.dtype)
    parts = g.reshape(*g.shape[:-1], math.prod(size), x.shape[-1])
    for number, window in enumerate(_patch_places(x.shape[1:-1], size, strides, dilation)[1]):
        out[window] += parts[..., number, :]
    return out


# ---------------------------------------------------------------------- layers' own operations


def _statistics(x, axes, centred):
    """x - mean, mean and variance; of what is not centred the mean counts as 0."""
    mean = x.mean(axis=axes, keepdims=True)
    mean = mean if centred else np.zeros_like(mean)
    deviations = x - mean
    return deviations, mean, np.square(deviations).mean(axis=axes, keepdims=True)


def _normalized_axes(x, axis, over_batch):
    return tuple(i for i in range(x.ndim) if i not in axis) if over_batch else tuple(axis)


def _along(vector, x, axis):
    """A vector of the normalized axes, to be broadcast against `x`."""
    shape = tuple(n if i in axis else 1 for i, n in enumerate(x.shape))
    return None if vector is None else _widen(vector).reshape(shape)


def _normalization(x, scale, offset, axis, epsilon, over_batch, centred=True):
    axes = _normalized_axes(x, axis, over_batch)
    y, mean, variance = _statistics(_widen(x), axes, centred)
    y *= 1 / np.sqrt(variance + y.dtype.type(epsilon))
    if scale is not None:
        y *= _along(scale, x, axis)
    if offset is not None:
        y += _along(offset, x, axis)
    y = y.astype(x.dtype, copy=False)
    if not over_batch:
        return y
    vector, dtype = tuple(x.shape[i] for i in axis), (x if scale is None else scale).dtype
    return y, mean.reshape(vector).astype(dtype), variance.reshape(vector).astype(dtype)


def _normalization_gradient(
    g, x, scale, by_mean, by_variance, axis, epsilon, over_batch, centred=True
):
    """By x, by the scale and by the offset.

    With h = g * scale and n = (x - mean) / d the first is (h - mean(h) - n * mean(h * n)) / d, and
    for the moments (by_mean + 2 n d * by_variance) / count more.
    """
    dtype, kind = x.dtype, (x if scale is None else scale).dtype
    axes, floats = _normalized_axes(x, axis, over_batch), _widen(g)
    scale, by_mean, by_variance = (_along(v, x, axis) for v in (scale, by_mean, by_variance))
    n, _, variance = _statistics(_widen(x), axes, centred)
    factor = 1 / np.sqrt(variance + n.dtype.type(epsilon))
    n *= factor
    product = floats * n
    h, weighted = (floats, product) if scale is None else (floats * scale, product * scale)
    grad, level = weighted.mean(axis=axes, keepdims=True), h.mean(axis=axes, keepdims=True)
    level = level if centred else np.zeros_like(level)
    count = math.prod(x.shape[a] for a in axes)
    if by_mean is not None:
        level = level - by_mean / (factor * count)
    if by_variance is not None:
        grad = grad - 2 * by_variance / (factor * factor * count)
    n *= grad
    n += level
    result = h - n
    result *= factor
    outer = tuple(i for i in range(x.ndim) if i not in axis)
    vectors = [part.sum(axis=outer).astype(kind, copy=False) for part in (product, floats)]
    return (result.astype(dtype, copy=False), *vectors)


def _over_root(deviations, axis, epsilon):
    """`deviations` over the root of their mean square, and the factor for that."""
    mean = np.square(deviations).mean(axis=axis, keepdims=True)
    factor = 1 / np.sqrt(mean + deviations.dtype.type(epsilon))
    return deviations * factor, factor


def _standardize(x, axis, epsilon, centred=True):
    floats = _widen(x)
    deviations = floats - floats.mean(axis=axis, keepdims=True) if centred else floats
    return _over_root(deviations, axis, epsilon)[0].astype(x.dtype, copy=False)


def _standardized_gradient(g, x, axis, epsilon, centred=True):
    floats, g = _widen(x), _widen(g)
    deviations = floats - floats.mean(axis=axis, keepdims=True) if centred else floats
    y, factor = _over_root(deviations, axis, epsilon)
    along = g - g.mean(axis=axis, keepdims=True) if centred else g
    grad = (along - y * (g * y).mean(axis=axis, keepdims=True)) * factor
    return grad.astype(x.dtype, copy=False)


def _by_head(x, heads):
    """(batch, length, heads, size) as (batch, heads, length, size); shared heads are repeated."""
    group, x = heads // x.shape[2], x.transpose(0, 2, 1, 3)
    return x if group == 1 else x.repeat(group, axis=1)


def _shares(q, k, mask, scale, causal):
    """What part of each value a query takes, by head; 0 where it sees none."""
    s = np.matmul(q * q.dtype.type(scale), k.swapaxes(2, 3))
    if causal:
        visible = np.tril(np.ones(s.shape[2:], bool))
        mask = visible if mask is None else mask & visible
    if mask is not None:
        s = np.where(mask, s, s.dtype.type(-np.inf))
    top = s.max(axis=-1, keepdims=True)
    s -= np.where(top == -np.inf, top.dtype.type(0), top)
    s = np.exp(s, out=s)
    total = s.sum(axis=-1, keepdims=True)
    s /= np.where(total == 0, total.dtype.type(1), total)
    return s


def _attention(q, k, v, mask, scale, causal):
    dtype, heads = q.dtype, q.shape[2]
    q, k, v = (_by_head(_widen(x), heads) for x in (q, k, v))
    y = np.matmul(_shares(q, k, mask, scale, causal), v).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(y).astype(dtype, copy=False)


def _attention_gradient(g, q, k, v, mask, scale, causal):
    dtype, heads, groups = q.dtype, q.shape[2], k.shape[2]
    g, q, k, v = (_by_head(_widen(x), heads) for x in (g, q, k, v))
    p = _shares(q, k, mask, scale, causal)
    by_v = np.matmul(p.swapaxes(2, 3), g)
    grads = np.matmul(g, v.swapaxes(2, 3))
    grads *= p
    grads -= p * grads.sum(axis=-1, keepdims=True)
    grads *= grads.dtype.type(scale)
    parts = []
    for part, count in (
        (np.matmul(grads, k), heads),
        (np.matmul(grads.swapaxes(2, 3), q), groups),
        (by_v, groups),
    ):
        batch, every, length, size = part.shape
        if every != count:
            part = part.reshape(batch, count, every // count, length, size).sum(axis=2)
        part = np.ascontiguousarray(part.transpose(0, 2, 1, 3))
        parts.append(part.astype(dtype, copy=False))
    return parts


def _short_as_wide(run):
    """An operation on short floats computed in float32, its results short again."""

    @functools.wraps(run)
    def run_wide(*arrays, **settings):
        parts = run(*map(_widen, arrays), **settings)
        return tuple([part.astype(arrays[0].dtype, copy=False) for part in parts])

    return run_wide


def _states_before(first, states):
    """The state before each step, (batch, steps, units)."""
    return np.concatenate([first[:, None], states[:, :-1]], axis=1)


def _by_gate(x):
    """A view (steps, 4, batch, units) of four gates, (batch, steps, 4 units)."""
    batch, steps, width = x.shape
    return x.reshape(batch, steps, 4, width // 4).transpose(1, 2, 0, 3)


@_short_as_wide
def _lstm(projected, h, c, kernel):
    batch, steps, width = projected.shape
    gates, units = np.empty(projected.shape, projected.dtype), width // 4
    hidden = np.empty((batch, steps, units), projected.dtype)
    memory = np.empty_like(hidden)
    # sigma(x) = tanh(x / 2) / 2 + 1 / 2, so that all four gates take one tanh
    half = np.full((4, batch, 1), 0.5, projected.dtype)
    half[2] = 1
    inputs, results = _by_gate(projected), _by_gate(gates)
    for t in range(steps):
        sums = np.matmul(h, kernel).reshape(batch, 4, units).swapaxes(0, 1)
        results[t] = np.tanh((sums + inputs[t]) * half) * half + (1 - half)
        i, f, g, o = results[t]
        c = c * f + i * g
        h = np.tanh(c) * o
        memory[:, t], hidden[:, t] = c, h
    return hidden, memory, gates


def _lstm_gradient(by_hidden, by_memory, projected, h, c, kernel, hidden, memory, gates):
    return _lstm_sent_back(by_hidden, by_memory, h, c, kernel, hidden, memory, gates)


@_short_as_wide
def _lstm_sent_back(by_hidden, by_memory, h, c, kernel, hidden, memory, gates):
    """By the projected inputs, the first h and c, and the recurrent kernel."""
    steps = hidden.shape[1]
    grads, turned = np.empty(gates.shape, gates.dtype), np.ascontiguousarray(kernel.T)
    by_h, by_c = np.zeros_like(h), np.zeros_like(c)
    values, results = _by_gate(gates), _by_gate(grads)
    for t in range(steps - 1, -1, -1):
        i, f, g, o = values[t]
        by_h = by_h + by_hidden[:, t]
        squashed = np.tanh(memory[:, t])
        by_c = by_c + by_h * o * (1 - squashed * squashed)
        if by_memory is not None:
            by_c = by_c + by_memory[:, t]
        before = memory[:, t - 1] if t else c
        results[t, 0] = by_c * g * i * (1 - i)
        results[t, 1] = by_c * before * f * (1 - f)
        results[t, 2] = by_c * i * (1 - g * g)
        results[t, 3] = by_h * squashed * o * (1 - o)
        by_c = by_c * f
        by_h = np.matmul(grads[:, t], turned)
    by_kernel = np.matmul(_rows(_states_before(h, hidden)).T, _rows(grads))
    return grads, by_h, by_c, by_kernel


@_short_as_wide
def _gru(projected, h, kernel, bias, reset_after=True):
    batch, steps, width = projected.shape
    units = width // 3
    hidden = np.empty((batch, steps, units), projected.dtype)
    gates = np.empty((batch, steps, 4 * units), projected.dtype)
    for t in range(steps):
        inner = np.matmul(h, kernel if reset_after else kernel[:, : 2 * units])
        if bias is not None:
            inner += bias
        both = projected[:, t, : 2 * units] + inner[:, : 2 * units]
        both = np.tanh(both * 0.5) * 0.5 + 0.5
        z, r = both[:, :units], both[:, units:]
        share = inner[:, 2 * units :] if reset_after else r * h
        recurrent = r * share if reset_after else np.matmul(share, kernel[:, 2 * units :])
        new = np.tanh(projected[:, t, 2 * units :] + recurrent)
        h = new + z * (h - new)
        hidden[:, t] = h
        gates[:, t] = np.concatenate([both, new, share], axis=1)
    return hidden, gates


def _gru_gradient(by_hidden, projected, h, kernel, bias, hidden, gates, reset_after=True):
    sent_back = _gru_after_sent_back if reset_after else _gru_before_sent_back
    return sent_back(by_hidden, h, kernel, hidden, gates)


@_short_as_wide
def _gru_after_sent_back(by_hidden, h, kernel, hidden, gates):
    """By the projected inputs, the first h, the recurrent kernel and its bias."""
    batch, steps, units = hidden.shape
    grads = np.empty((batch, steps, 3 * units), gates.dtype)
    inner, turned = np.empty_like(grads), np.ascontiguousarray(kernel.T)
    earlier, by_h = _states_before(h, hidden), np.zeros_like(h)
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
    return grads, by_h, np.matmul(_rows(earlier).T, _rows(inner)), _rows(inner).sum(axis=0)


@_short_as_wide
def _gru_before_sent_back(by_hidden, h, kernel, hidden, gates):
    """The same where the reset comes before the product; no bias takes part, its share is 0."""
    batch, steps, units = hidden.shape
    grads = np.empty((batch, steps, 3 * units), gates.dtype)
    by_gates = np.ascontiguousarray(kernel[:, : 2 * units].T)
    by_new = np.ascontiguousarray(kernel[:, 2 * units :].T)
    earlier, by_h = _states_before(h, hidden), np.zeros_like(h)
    for t in range(steps - 1, -1, -1):
        z, r, new = (gates[:, t, n * units : (n + 1) * units] for n in range(3))
        by_h = by_h + by_hidden[:, t]
        grads[:, t, 2 * units :] = by_h * (1 - z) * (1 - new * new)
        by_share = np.matmul(grads[:, t, 2 * units :], by_new)
        grads[:, t, :units] = by_h * (earlier[:, t] - new) * z * (1 - z)
        grads[:, t, units : 2 * units] = by_share * earlier[:, t] * r * (1 - r)
        by_h = by_h * z + by_share * r + np.matmul(grads[:, t, : 2 * units], by_gates)
    flat = _rows(grads)
    parts = [np.matmul(_rows(earlier).T, flat[:, : 2 * units])]
    parts.append(np.matmul(_rows(gates)[:, 3 * units :].T, flat[:, 2 * units :]))
    return grads, by_h, np.concatenate(parts, axis=1), np.zeros(3 * units, gates.dtype)


# ---------------------------------------------------------------------- activations, reductions


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _softmax(x, axis):
    if not x.size:
        return x
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    powers /= powers.sum(axis=axis, keepdims=True)
    return powers


def _softmax_gradient(g, y, axis):
    share = g * y
    return share - y * share.sum(axis=axis, keepdims=True)


def _log_softmax(x, axis):
    centred = x - x.max(axis=axis, keepdims=True)
    return centred - np.log(np.exp(centred).sum(axis=axis, keepdims=True))


def _sparsemax_weights(x, axis):
    return _sparsemax_parts(x, axis)[0]


def _sparsemax_parts(x, axis):
    """The share of each score in the threshold, and how many scores are above it."""
    z = np.moveaxis(x, axis, -1)
    order = np.argsort(-z, axis=-1, kind="stable")
    descending = np.take_along_axis(z, order, axis=-1)
    ranks = np.arange(1, z.shape[-1] + 1, dtype=z.dtype)
    inside = 1 + ranks * descending > np.cumsum(descending, axis=-1)
    size = np.sum(inside, axis=-1, keepdims=True).astype(z.dtype)
    by_rank = np.where(inside, (size - ranks + 1) / size, 0)
    weights = np.take_along_axis(by_rank, np.argsort(order, axis=-1), axis=-1)
    return np.moveaxis(weights, -1, axis), np.moveaxis(size, -1, axis)


def _sparsemax(x, axis):
    weights, size = _sparsemax_parts(x, axis)
    return np.maximum(x - (np.sum(weights * x, axis=axis, keepdims=True) - 1 / size), 0)


def _sparse_plus(x):
    bend = 0.25 * (x + 1) * (x + 1)
    return np.where(x >= 1, x, np.where(x <= -1, 0, bend))


# Coefficients of rational approximations, the highest power first. Cody 1969, "Rational Chebyshev
# approximations for the error function"; those for float32 are fitted for trainkit.
_ERF = (
    (1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2,
     3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3,
     2.84423683343917062e3),
)  # fmt: skip
_ERFC = (
    (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1,
     2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
     1.23033935479799725e3),
    (1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2,
     1.62138957456669019e3, 3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3,
     1.23033935480374942e3),
)  # fmt: skip
_ERFC_TAIL = (
    (0.016315387137302097, 0.30532663496123236, 0.36034489994980445, 0.12578172611122926,
     0.016083785148742275, 0.0006587491615298378),
    (1.0, 2.568520192289822, 1.8729528499234604, 0.5279051029514285, 0.06051834131244132,
     0.0023352049762686918),
)  # fmt: skip
_ERF32 = (
    (1.986648191844802e-06, 0.00028455542942285256, 0.003883339700814107, 0.05310175418127554,
     0.1935464549078571, 1.1283791394067937),
    (3.741820720134403e-05, 0.001185549400101956, 0.015207271334095171, 0.11535041196506143,
     0.5048586373291866, 1.0),
)  # fmt: skip
_MILLS32 = (
    (2.1165280294169975e-07, 0.014576691117281501, 0.10857582039537265, 0.34170183700256435,
     0.4999999286043085),
    (0.03656405080589212, 0.2716341301620386, 0.8991085342080644, 1.481280571431044, 1.0),
)  # fmt: skip


def _ratio(coefficients, x):
    """The quotient of two polynomials, by Horner's rule."""
    values = []
    for part in coefficients:
        value = x * part[0]
        value += part[1]
        for c in part[2:]:
            value *= x
            value += c
        values.append(value)
    values[0] /= values[1]
    return values[0]


def _erf(x):
    if x.dtype != np.float64:
        floats = np.clip(_widen(x), -4, 4)
        value = _ratio(_ERF32, floats * floats)
        value *= floats
        return np.clip(value, -1, 1).astype(x.dtype, copy=False)
    size = np.minimum(np.abs(x), 6)
    centre = x * _ratio(_ERF, np.minimum(size * size, 0.25))
    outside = 1 - np.exp(-size * size) * _ratio(_ERFC, size)
    return np.where(size <= 0.46875, centre, np.copysign(outside, x))


def _erfc(x):
    """1 - erf(x), which does not cancel for large x."""
    doubles = x.astype(np.float64)
    size = np.abs(doubles)
    centre = 1 - doubles * _ratio(_ERF, np.minimum(size * size, 0.25))
    middle, bound = _ratio(_ERFC, np.minimum(size, 4)), np.maximum(size, 4)
    inverse = 1 / (bound * bound)
    tail = (1 / math.sqrt(math.pi) - inverse * _ratio(_ERFC_TAIL, inverse)) / bound
    near = np.minimum(size, 30)
    coarse = np.floor(near * 16) / 16
    bell = np.exp(-coarse * coarse) * np.exp(-(near - coarse) * (near + coarse))
    upper = bell * np.where(size <= 4, middle, tail)
    outside = np.where(doubles < 0, 2 - upper, upper)
    return np.where(size <= 0.46875, centre, outside).astype(x.dtype)


_DENSITY = 1 / math.sqrt(2 * math.pi)


def _normal_tail(x):
    """Of the normal distribution P beyond t = |x|: t * P, and P less t times the density."""
    if x.dtype == np.float64:
        t = np.clip(np.abs(x), -math.inf, 39.0)
        share = _erfc(t * math.sqrt(0.5)) * 0.5
        return share * t, share - t * np.exp(t * t * -0.5) * _DENSITY
    t = np.clip(np.abs(x), -math.inf, 15.0)
    ratio, bell = _ratio(_MILLS32, t), np.exp(t * t * -0.5)
    return t * ratio * bell, (ratio - t * _DENSITY) * bell


def _gelu_erf(x):
    """x times the share below x; for x < 0 by that beyond -x, which does not cancel."""
    floats = _widen(x)
    gap, _ = _normal_tail(floats)
    return np.where(floats >= 0, floats - gap, -gap).astype(x.dtype, copy=False)


def _gelu_erf_gradient(g, x):
    floats = _widen(x)
    _, slope = _normal_tail(floats)
    return (g * np.where(floats >= 0, 1 - slope, slope)).astype(g.dtype, copy=False)


def _biased_gelu_gradient(g, z, bias):
    result = _gelu_erf_gradient(g, z + bias)
    by_bias = _widen(result).reshape(-1, z.shape[-1]).sum(axis=0)
    return result, by_bias.astype(bias.dtype, copy=False)


_TANH_SCALE, _CUBIC = 0.7978845608028654, 0.044715


def _tanh_sigmoid(floats, squared):
    """(1 + tanh(u)) / 2 as 1 / (1 + exp(-2 u)), without its reciprocal."""
    return 1 + np.exp(floats * (squared * (-2 * _TANH_SCALE * _CUBIC) - 2 * _TANH_SCALE))


def _gelu_tanh(x):
    floats = _widen(x)
    return (floats / _tanh_sigmoid(floats, floats * floats)).astype(x.dtype, copy=False)


def _gelu_tanh_gradient(g, x):
    floats = _widen(x)
    squared = floats * floats
    s = 1 / _tanh_sigmoid(floats, squared)
    slope = squared * (6 * _TANH_SCALE * _CUBIC) + 2 * _TANH_SCALE
    return (g * (s * (1 + floats * slope * (1 - s)))).astype(g.dtype, copy=False)


def _silu_gradient(g, x):
    s = 1 / (1 + np.exp(-x))
    return g * (s * (1 + x * (1 - s)))


def _fake_quant(x, low, high, num_bits, narrow_range):
    """x rounded to the nearest of the values that so many bits have between low and high."""
    lowest, greatest = int(narrow_range), 2**num_bits - 1
    empty = high == low
    width = np.where(empty, 1, high - low)
    scale, inverse = width / (greatest - lowest), (greatest - lowest) / width
    zero = np.floor(np.minimum(np.maximum(lowest - low / scale, lowest), greatest) + 0.5)
    start, end = (lowest - zero) * scale, (greatest - zero) * scale
    first = np.floor(0.5 - start * inverse)
    steps = (np.minimum(np.maximum(x, start), end) - start) * inverse
    return np.where(empty, 0, np.floor(steps - first + 0.5) * scale)


def _logsumexp(x, axis, keepdims):
    top = x.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    total = np.log(np.exp(x - top).sum(axis=axis, keepdims=keepdims))
    return total + top.reshape(total.shape)


def _sum(x, axis, keepdims):
    summed = {"f": _widen(x).dtype, "b": np.int32}.get(x.dtype.kind, x.dtype)
    total = np.add.reduce(x, axis, summed, None, keepdims)
    return total.astype(x.dtype) if x.dtype == np.float16 else total


def _mean(x, axis, keepdims):
    summed = _widen(x).dtype if x.dtype.kind in "fc" else np.float64
    total = np.add.reduce(x, axis, summed, None, keepdims)
    count = x.size // total.size if total.size else 1
    mean = total / count if count else total * np.nan
    return mean.astype(x.dtype) if x.dtype == np.float16 else mean


def _var(x, axis, keepdims):
    floats = x if x.dtype.kind in "fc" and x.dtype.itemsize > 2 else x.astype(np.float32)
    sums = np.add.reduce(floats, axis, None, None, True)
    count = x.size // sums.size if sums.size else 1
    if not count:
        return np.add.reduce(floats, axis, None, None, keepdims).real * np.nan
    away = floats - sums / count
    squares = (away * away.conj()).real if away.dtype.kind == "c" else away * away
    variance = np.add.reduce(squares, axis, None, None, keepdims) / count
    return variance.astype(x.dtype) if x.dtype == np.float16 else variance


def _prod(x, axis, keepdims):
    total = np.prod(_float32_of_short(x), axis=axis, keepdims=keepdims)
    return total.astype(x.dtype) if x.dtype == np.float16 else total


def _extreme(reduce):
    def run(x, axis, keepdims, initial=None):
        limits = {} if initial is None else {"initial": initial}
        return reduce(x, axis=axis, keepdims=keepdims, **limits)

    return run


def _running(step, start):
    """Sums or products of all elements so far, without the element itself if `exclusive`."""

    def run(x, axis, exclusive, reverse):
        result = step(np.flip(x, axis) if reverse else x, axis).astype(x.dtype, copy=False)
        if exclusive:
            shifted = np.full_like(result, start)
            shifted[_on_axis(x, slice(1, None), axis)] = result[_on_axis(x, slice(-1), axis)]
            result = shifted
        return np.flip(result, axis) if reverse else result

    return run


def _on_axis(x, part, axis):
    return tuple(part if i == axis % x.ndim else slice(None) for i in range(x.ndim))


def _sums_so_far(x, axis):
    return np.cumsum(x, axis=axis, dtype=_float32_of_short(x).dtype)


def _products_so_far(x, axis):
    return np.cumprod(x, axis=axis, dtype=_float32_of_short(x).dtype)


def _logsumexps_so_far(x, axis):
    rows = np.moveaxis(x, axis, 0)
    out, running = np.empty_like(rows), np.full(rows.shape[1:], -np.inf, rows.dtype)
    for i, row in enumerate(rows):
        running = out[i] = np.logaddexp(running, row)
    return np.moveaxis(out, 0, axis)


def _linear_recurrence(a, b, axis, reverse):
    """y[i] = b[i] + a[i] * y[i - 1] along an axis."""
    result = np.empty_like(b)
    out, factors, terms = (np.moveaxis(v, axis, 0) for v in (result, a, b))
    previous = np.zeros(terms.shape[1:], b.dtype)
    for i in range(len(terms) - 1, -1, -1) if reverse else range(len(terms)):
        previous = terms[i] + factors[i] * previous
        out[i] = previous
    return result


def _shift_along(x, axis, reverse):
    result = np.zeros_like(x)
    early, late = _on_axis(x, slice(-1), axis), _on_axis(x, slice(1, None), axis)
    if reverse:
        result[early] = x[late]
    else:
        result[late] = x[early]
    return result


def _top_k(x, k, sorted):
    # Backwards, as there is no negative of a number without a sign; of equal ones the first.
    rising = np.argsort(x[..., ::-1], axis=-1, kind="stable")
    where = x.shape[-1] - 1 - rising[..., ::-1][..., :k]
    return np.take_along_axis(x, where, -1), where


def _in_top_k(targets, predictions, k):
    if targets.shape != predictions.shape[:-1]:
        raise ValueError(f"targets {targets.shape} do not fit predictions {predictions.shape}")
    inside = (targets >= 0) & (targets < predictions.shape[-1])
    safe = np.where(inside, targets, 0)
    score = np.take_along_axis(predictions, safe[..., None], axis=-1)
    winners = (predictions > score).sum(axis=-1)
    return inside & np.isfinite(score[..., 0]) & (winners < k)


def _bincount(x, *weights, minlength, maxlength=None):
    """How often, or with what weight, each number from 0 on occurs in each row."""
    lowest, greatest = (int(x.min()), int(x.max())) if x.size else (0, -1)
    if lowest < 0:
        raise ValueError(f"x has the negative value {lowest}")
    bins = max(minlength, greatest + 1)
    bins = bins if maxlength is None else min(bins, maxlength)
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1]).astype(np.int64, copy=False)
    cell_count = len(rows) * bins
    cells = rows + np.arange(len(rows), dtype=np.int64)[:, None] * bins
    cells = np.where((rows >= 0) & (rows < bins), cells, cell_count).ravel()
    flat_weights = weights[0].reshape(rows.shape).ravel() if weights else None
    counts = np.bincount(cells, weights=flat_weights, minlength=cell_count)[:cell_count]
    kind = weights[0].dtype if weights else np.int32
    return counts.reshape(*x.shape[:-1], bins).astype(kind, copy=False)


def _isclose(x1, x2, rtol, atol, equal_nan):
    if x1.dtype.kind in "iub":
        x1, x2 = x1.astype(np.float64), x2.astype(np.float64)
    close = np.abs(x1 - x2) <= atol + rtol * np.abs(x2)
    close = np.where(np.isfinite(x1) & np.isfinite(x2), close, x1 == x2)
    return close | (np.isnan(x1) & np.isnan(x2)) if equal_nan else close


def _cast(x, dtype):
    x = x.real if x.dtype.kind == "c" and np.dtype(dtype).kind != "c" else x
    return x.astype(_dtype(dtype))


def _view(x, dtype):
    """The same bytes as numbers of another type; the last axis grows or shrinks with it."""
    if dtype == "bfloat16":
        raise GraphError("bytes can't be viewed as bfloat16, which this reader has no type for")
    return np.ascontiguousarray(x).reshape(x.shape).view(_dtype(dtype))


def _linspace(start, stop, size, endpoint, axis, dtype):
    parts = size - 1 if endpoint else size
    step = (stop - start) / parts if parts else (stop - start) * np.nan
    rank = np.ndim(step)
    position = np.arange(size, dtype=start.dtype).reshape((size,) + (1,) * rank)
    values = start + position * (step if parts else 0)
    if endpoint and size > 1:
        values[-1] = stop
    return np.moveaxis(values, 0, axis).astype(_dtype(dtype), copy=False), step


def _searchsorted(sorted_sequence, values, side, dtype="int32"):
    if sorted_sequence.ndim == 1:
        return np.asarray(np.searchsorted(sorted_sequence, values, side)).astype(dtype)
    if not values.size:
        return np.zeros(values.shape, dtype)
    *leading, length = sorted_sequence.shape
    lines = sorted_sequence.reshape(math.prod(leading), length)
    rows = zip(lines, values.reshape(len(lines), -1), strict=True)
    positions = [np.searchsorted(a, v, side) for a, v in rows]
    return np.stack(positions).reshape(values.shape).astype(dtype)


# ---------------------------------------------------------------------- signals


def _fft(x, rank):
    return np.fft.fftn(x, axes=range(-rank, 0)).astype(x.dtype)


def _ifft(x, rank):
    return np.fft.ifftn(x, axes=range(-rank, 0)).astype(x.dtype)


def _fft_transposed(x, rank):
    return np.fft.ifftn(x, axes=range(-rank, 0), norm="forward").astype(x.dtype)


def _ifft_transposed(x, rank):
    return np.fft.fftn(x, axes=range(-rank, 0), norm="forward").astype(x.dtype)


def _half_weights(n, middle, dtype):
    """The weight of each frequency that half of a spectrum has; the ends stand for themselves."""
    weights = np.full(n // 2 + 1, middle, dtype)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    return weights


def _rfft_transposed(g, x):
    n, dtype = x.shape[-1], g.real.dtype
    weights = _half_weights(n, 0.5, dtype)
    return np.fft.irfft(g * weights, n, norm="forward").astype(dtype)


def _irfft_transposed(g, n):
    spectrum = np.fft.rfft(g, norm="forward") * _half_weights(g.shape[-1], 2.0, g.dtype)
    return spectrum.astype(np.result_type(g.dtype, np.complex64))


def _extract_sequences(x, length, stride):
    if x.shape[-1] < length:
        return np.zeros((*x.shape[:-1], 0, length), x.dtype)
    views = np.lib.stride_tricks.sliding_window_view(x, length, axis=-1)
    return views[..., ::stride, :]


def _overlap_added(g, stride, size=None):
    """Frames (..., count, length) added up, each `stride` behind the one before."""
    *lead, count, length = g.shape
    steps = -(-length // stride)
    chunks = np.zeros((*lead, count, steps * stride), g.dtype)
    chunks[..., :length] = g
    chunks = chunks.reshape(*lead, count, steps, stride)
    out = np.zeros((*lead, count + steps - 1 if count else 0, stride), g.dtype)
    for k in range(steps if count else 0):
        out[..., k : k + count, :] += chunks[..., :, k, :]
    natural = (count - 1) * stride + length if count else 0
    flat = out.reshape(*lead, out.shape[-2] * stride)[..., :natural]
    if size in (None, natural):
        return flat
    signal = np.zeros((*lead, size), g.dtype)
    signal[..., :natural] = flat
    return signal


# ---------------------------------------------------------------------- picking and putting


def _diag(x, k):
    n, i = x.shape[-1] + abs(k), np.arange(x.shape[-1])
    out = np.zeros((*x.shape[:-1], n, n), x.dtype)
    out[..., i + max(-k, 0), i + max(k, 0)] = x
    return out


def _diagonal_put(g, x, offset, axis1, axis2):
    out, i = np.zeros(x.shape, g.dtype), np.arange(g.shape[-1])
    moved = np.moveaxis(out, (axis1, axis2), (-2, -1))
    moved[..., i + max(-offset, 0), i + max(offset, 0)] = g
    return out


def _tril(x, k):
    return np.where(np.tri(x.shape[-2], x.shape[-1], k, bool), x, np.zeros((), x.dtype))


def _triu(x, k):
    return np.where(np.tri(x.shape[-2], x.shape[-1], k - 1, bool), np.zeros((), x.dtype), x)


def _with_items(x, value, *parts, key):
    out = x.copy()
    out[_index(key, parts)] = value
    return out


def _put_item(g, x, key):
    out = np.zeros(x.shape, g.dtype)
    out[_index(key)] = g
    return out


def _put_item_at(g, x, *parts, key):
    out, index = np.zeros(x.shape, g.dtype), _index(key, parts)
    arrays = [p for p in parts if p.ndim or p.dtype.kind == "b"]
    if len(arrays) < 2 and all(p.dtype.kind == "b" for p in arrays):
        out[index] = g  # a mask picks nothing twice
    else:
        np.add.at(out, index, g)
    return out


def _add_rows(out, rows, values):
    """Add rows to those of `out` that they are numbered for, one after the other."""
    n, d = out.shape
    rows = np.where(rows < 0, rows + n, rows)
    where = rows if d == 1 else (rows[:, None] * np.int64(d) + np.arange(d)).reshape(-1)
    np.add.at(out.reshape(-1), where, np.ascontiguousarray(values).reshape(-1))


def _positions(x, indices):
    """Index arrays for the first axes of `x`, checked."""
    depth = indices.shape[-1]
    integers = indices if indices.dtype.kind in "iu" else indices.astype(np.int64)
    ends = np.asarray(x.shape[:depth], np.int64)
    if (
        depth > x.ndim
        or (integers != indices).any()
        or ((integers < -ends) | (integers >= ends)).any()
    ):
        raise IndexError(f"indices do not point into shape {list(x.shape)}")
    return tuple(integers[..., i] for i in range(depth))


def _add_at(out, indices, values):
    """Add `values` at the positions that the last axis of `indices` gives."""
    depth = indices.shape[-1]
    if not depth:
        out += values.reshape(-1, *out.shape).sum(axis=0)
        return out
    where = _positions(out, indices)
    flat = np.zeros(where[0].shape, np.int64)
    for size, position in zip(out.shape, where, strict=False):
        flat = flat * size + np.where(position < 0, position + size, position)
    values = np.broadcast_to(values, (*flat.shape, *out.shape[depth:]))
    if out.size and values.size:
        table = out.reshape(math.prod(out.shape[:depth]), -1)
        _add_rows(table, flat.reshape(-1), values.reshape(flat.size, -1))
    return out


def _segment_sum(data, ids, num_segments):
    """Sums of the rows with equal ids; rows with an id below 0 are left out."""
    inner, flat = data.shape[ids.ndim :], ids.reshape(-1)
    rows = data.reshape(flat.size, math.prod(inner))
    id_count = int(flat.max()) + 1 if flat.size else 0
    count = id_count if num_segments is None else num_segments
    if id_count > count:
        raise IndexError(f"the id {id_count - 1} is beyond {count} segments")
    out = np.zeros((count, rows.shape[1]), rows.dtype)
    if out.size and rows.size:
        _add_rows(out, flat[flat >= 0], rows[flat >= 0])
    return out.reshape(count, *inner)


def _scatter_nd_add(x, indices, updates):
    return _add_at(np.array(x, order="C"), indices, updates)


def _scatter_update(x, indices, updates):
    out = np.array(x, order="C")
    out[_positions(x, indices) or ...] = updates
    return out


def _take_sum(g, indices, x, axis, wrap=True):
    axis %= x.ndim
    indices = np.asarray(indices)
    out = np.zeros((x.shape[axis], *x.shape[:axis], *x.shape[axis + 1 :]), g.dtype)
    if out.size and indices.size:
        picked = tuple(range(axis, axis + indices.ndim))
        rows = np.moveaxis(g, picked, tuple(range(indices.ndim))).reshape(indices.size, -1)
        _add_rows(out.reshape(len(out), -1), indices.reshape(-1), rows)
    return np.moveaxis(out, 0, axis)


def _take_along_axis_sum(g, indices, x, axis):
    out, grid = np.zeros(x.shape, g.dtype), []
    for i, n in enumerate(x.shape):
        line = (1,) * i + (-1,) + (1,) * (x.ndim - i - 1)
        grid.append(indices if i == axis % x.ndim else 0 if n == 1 else np.arange(n).reshape(line))
    np.add.at(out, tuple(grid), g)
    return out


def _gather_nd_sum(g, indices, x):
    return _add_at(np.zeros(x.shape, g.dtype), indices, g)


def _embedding_gradient(g, ids, table):
    """Rows sorted by id, then each run of equal ids summed at once."""
    flat = ids.reshape(-1)
    rows = g.reshape(flat.size, math.prod(table.shape[1:]))
    if flat.size and not 0 <= flat.min() <= flat.max() < len(table):
        raise IndexError(f"an id is outside of a table of {len(table)} rows")
    result = np.zeros((len(table), rows.shape[1]), g.dtype)
    if flat.size:
        order = np.argsort(flat, kind="stable")
        ordered = flat[order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        result[ordered[starts]] = np.add.reduceat(_widen(rows[order]), starts, axis=0)
    return result.reshape(table.shape)


# ---------------------------------------------------------------------- tables and hashes

_WORD = 0xFFFFFFFFFFFFFFFF


def _number_tokens(x, tokens, numbers, first, count, hashed, salt):
    """Numbers by a table; what is not in it shares `count` numbers from `first` on."""
    table = np.asarray(tokens, np.int64)
    position = np.minimum(np.searchsorted(table, x), max(len(table) - 1, 0))
    in_table = table[position] == x if len(table) else np.zeros(x.shape, bool)
    if not count and not in_table.all():
        raise ValueError(f"{x[~in_table].ravel()[0]} is not in the vocabulary")
    other = np.int64(first)
    if count > 1:
        other = first + (_hashes(x, count, salt) if hashed else x.astype(np.int64) % count)
    return np.where(
        in_table, np.asarray(numbers, np.int64)[position] if len(table) else other, other
    )


def _tokens_of_numbers(x, tokens, other, dtype):
    table = np.asarray((*tokens, other), _dtype(dtype))
    inside = (x >= 0) & (x < len(tokens))
    return table[np.where(inside, x, len(tokens)).astype(np.int64)]


def _hash_buckets(x, buckets, salt, mask, dtype):
    masked = mask is not None and buckets > 1
    hashes = _hashes(x, buckets - masked, salt)
    return np.where(x == mask, 0, hashes + 1) if masked else hashes


def _crossed_buckets(*xs, buckets, dtype):
    """A joint hash of several features, modulo `buckets`, as TensorFlow's feature columns have."""
    murmur, columns = 0xC6A4A7935BD1E995, [x.ravel().tolist() for x in xs]

    def mixed(x):
        x &= _WORD
        return x ^ x >> 47

    hashes = []
    for row in zip(*columns, strict=True):
        h = 0xDECAFCAFFE
        for word in row:
            h = (h ^ murmur) ^ mixed((word & _WORD) * murmur) * murmur & _WORD
            h = mixed(mixed(h * murmur) * murmur)
        hashes.append(h % buckets)
    return np.array(hashes, _dtype(dtype)).reshape(xs[0].shape)


def _hashes(values, buckets, salt):
    """Hashes of the decimal texts of integers, modulo `buckets`; each integer once."""
    items = values.astype(np.int64, copy=False).ravel().tolist()
    hashes = {}
    for item in set(items):
        text = b"%d" % item
        hashes[item] = (_farmhash(text) if salt is None else _siphash(text, salt)) % buckets
    return np.array([hashes[item] for item in items], np.int64).reshape(values.shape)


def _farmhash(text):
    """FarmHash's Fingerprint64 (Pike and Alakuijala) of at most 32 bytes: digits are at most 20."""
    k0, k1, k2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F

    def word(at, size=8):
        return int.from_bytes(text[at : at + size], "little")

    def turned(x, right):
        x &= _WORD
        return x >> right | x << (64 - right) & _WORD

    def mixed(x):
        x &= _WORD
        return x ^ x >> 47

    def joined(u, v):
        a = mixed((u ^ v) * factor)
        return mixed((v ^ a) * factor) * factor & _WORD

    n = len(text)
    factor = k2 + 2 * n
    if n > 16:
        a, b = word(0) * k1, word(8)
        c, d = word(n - 8) * factor, word(n - 16) * k2
        u, v = turned(a + b, 43) + turned(c, 30) + d & _WORD, a + turned(b + k2, 18) + c & _WORD
        return joined(u, v)
    if n >= 8:
        a, b = word(0) + k2, word(n - 8)
        return joined(turned(b, 37) * factor + a, (turned(a, 25) + b) * factor)
    if n >= 4:
        return joined(n + (word(0, 4) << 3), word(n - 4, 4))
    y, z = text[0] + (text[n >> 1] << 8), n + (text[-1] << 2)
    return mixed(y * k2 ^ z * k0) * k2 & _WORD


def _siphash(text, key):
    """SipHash-2-4 (Aumasson and Bernstein 2012) with a key of two words."""
    a, b = (k & _WORD for k in key)
    v = [a ^ 0x736F6D6570736575, b ^ 0x646F72616E646F6D]
    v += [a ^ 0x6C7967656E657261, b ^ 0x7465646279746573]

    def rounds(count):
        for _ in range(count):
            for i, j, left, turns in ((0, 1, 13, 1), (2, 3, 16, 0), (0, 3, 21, 0), (2, 1, 17, 1)):
                v[i] = v[i] + v[j] & _WORD
                v[j] = (v[j] << left & _WORD | v[j] >> (64 - left)) ^ v[i]
                if turns:
                    v[i] = v[i] << 32 & _WORD | v[i] >> 32

    padded = text + bytes(7 - len(text) % 8) + bytes([len(text) & 0xFF])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


# ---------------------------------------------------------------------- back to the inputs


def _spread_back(g, x, axis, keepdims, mean):
    """What a sum or mean sends back: the same to all elements that it took in."""
    if mean:
        g = g / (x.size // g.size if g.size and x.size else 1)
    if axis is not None and not keepdims and x.ndim:
        axes = axis if isinstance(axis, tuple) else (axis,)
        g = np.expand_dims(g, tuple(a % x.ndim for a in axes))
    return np.broadcast_to(g, x.shape)


def _sum_to_like(g, x):
    """A gradient summed over the axes along which `x` was stretched."""
    added = g.ndim - x.ndim
    if g.shape == x.shape:
        return g
    if not x.ndim and g.dtype == np.float32:
        return np.add.reduce(g, None)
    stretched = [i + added for i, n in enumerate(x.shape) if n == 1 != g.shape[i + added]]
    axes = (*range(added), *stretched)
    total = np.add.reduce(g, axes, _float32_of_short(g).dtype) if axes else g
    return total.reshape(x.shape).astype(g.dtype, copy=False)


def _split_like(g, *xs, axis):
    return np.split(g, np.cumsum([x.shape[axis] for x in xs[:-1]]), axis)


def _pad_sum(g, pad_width, mode):
    dims = [n - a - b for n, (a, b) in zip(g.shape, pad_width, strict=True)]
    if mode == "constant":
        return g[tuple(slice(a, a + n) for n, (a, _) in zip(dims, pad_width, strict=True))]
    for axis, (n, width) in enumerate(zip(dims, pad_width, strict=True)):
        if tuple(width) != (0, 0):
            source = np.pad(np.arange(n), width, mode)
            out = np.zeros((*g.shape[:axis], n, *g.shape[axis + 1 :]), g.dtype)
            np.add.at(out, (slice(None),) * axis + (source,), g)
            g = out
    return g


def _tile_sum(g, repeats, rank):
    counts = (1,) * (g.ndim - len(repeats)) + tuple(repeats)
    folded = []
    for n, r in zip(g.shape, counts, strict=True):
        folded += [r, n // max(r, 1)]
    total = g.reshape(folded).sum(axis=tuple(range(0, len(folded), 2)), dtype=g.dtype)
    return total.reshape(total.shape[total.ndim - rank :])


def _tile_sum_sized(g, x, *sizes, repeats):
    return _tile_sum(g, _filled(repeats, sizes), x.ndim)


def _repeat_sum(g, repeats, axis):
    dimension = axis % g.ndim
    before, after = g.shape[:dimension], g.shape[dimension + 1 :]
    if not isinstance(repeats, tuple):
        folded = g.reshape(*before, g.shape[dimension] // repeats, repeats, *after)
        return folded.sum(axis=dimension + 1, dtype=g.dtype)
    out, owner = np.zeros((*before, len(repeats), *after), g.dtype), np.arange(len(repeats))
    np.add.at(out, (slice(None),) * dimension + (np.repeat(owner, repeats),), g)
    return out


def _slice_like(x, like, *live, start):
    return x[_block(x, _filled(start, live), like.shape)]


def _array_without(g, index, like):
    if not like.size:
        return np.zeros(like.shape, g.dtype)
    out = g[: like.shape[0]].copy()
    if int(index) < len(out):
        out[int(index)] = 0
    return out


def _array_padded(g, index, like):
    out = np.zeros(like.shape, g.dtype)
    if g.size:
        out[: len(g)] = g
        if int(index) < len(out):
            out[int(index)] = 0
    return out


def _array_placed(g, index, like):
    out = np.zeros(like.shape, g.dtype)
    out[int(index)] = g
    return out


def _padded_like(x, like):
    out = np.zeros(like.shape, x.dtype)
    out[tuple(map(slice, x.shape))] = x
    return out


# ---------------------------------------------------------------------- losses


def _shifted_powers(logits):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted, np.exp(shifted)


def _dense_losses(labels, shifted, sums):
    shifted -= np.log(sums)
    shifted = np.where(labels == 0, shifted.dtype.type(0), shifted * _widen(labels))
    return -shifted.sum(axis=-1)


def _dense_cross_entropy(labels, logits):
    shifted, powers = _shifted_powers(_widen(logits))
    losses = _dense_losses(labels, shifted, powers.sum(axis=-1, keepdims=True))
    return losses.astype(logits.dtype, copy=False)


def _dense_cross_entropy_pair(labels, logits):
    shifted, powers = _shifted_powers(logits)
    sums = powers.sum(axis=-1, keepdims=True)
    losses = _dense_losses(labels, shifted, sums)
    powers *= labels.sum(axis=-1, keepdims=True) / sums
    powers -= labels
    return losses.astype(logits.dtype, copy=False), powers


def _dense_cross_entropy_gradient(g, labels, logits):
    powers, floats = _shifted_powers(_widen(logits))[1], _widen(labels)
    powers *= floats.sum(axis=-1, keepdims=True) / powers.sum(axis=-1, keepdims=True)
    powers -= floats
    powers *= g[..., None]
    return powers.astype(logits.dtype, copy=False)


def _label_places(labels, logits):
    """Where the score of each label is among the rows of all scores."""
    classes = logits.shape[-1]
    if labels.shape != logits.shape[:-1] or labels.dtype.kind not in "iu":
        raise ValueError(f"labels {labels.dtype}{list(labels.shape)} do not fit {logits.shape}")
    if labels.size and not 0 <= labels.min() <= labels.max() < classes:
        raise ValueError(
            f"labels go from {labels.min()} to {labels.max()}, there are {classes} classes from 0"
        )
    return np.arange(labels.size), labels.reshape(-1)


def _sparse_losses(label_indices, shifted, sums):
    return np.log(sums) - shifted.reshape(-1, shifted.shape[-1])[label_indices].reshape(sums.shape)


def _sparse_cross_entropy(labels, logits):
    label_indices = _label_places(labels, logits)
    shifted, powers = _shifted_powers(_widen(logits))
    losses = _sparse_losses(label_indices, shifted, powers.sum(axis=-1))
    return losses.astype(logits.dtype, copy=False)


def _sparse_cross_entropy_pair(labels, logits):
    label_indices = _label_places(labels, logits)
    # contiguous, as the flat rows below have to be views
    shifted, powers = _shifted_powers(np.ascontiguousarray(logits))
    sums = powers.sum(axis=-1, keepdims=True)
    losses = _sparse_losses(label_indices, shifted, sums[..., 0])
    powers /= sums
    powers.reshape(-1, logits.shape[-1])[label_indices] -= 1
    return losses.astype(logits.dtype, copy=False), powers


def _sparse_cross_entropy_gradient(g, labels, logits):
    powers = _shifted_powers(np.ascontiguousarray(_widen(logits)))[1]
    powers /= powers.sum(axis=-1, keepdims=True)
    powers.reshape(-1, logits.shape[-1])[_label_places(labels, logits)] -= 1
    powers *= g[..., None]
    return powers.astype(logits.dtype, copy=False)


def _sigmoid_cross_entropy(labels, logits):
    loss = np.log1p(np.exp(-np.abs(logits)))
    loss += np.maximum(logits, 0)
    return loss - logits * labels


def _class_hits(labels, scores):
    if labels.shape != scores.shape[:-1] and labels.ndim != scores.ndim - 1:
        raise ValueError(f"labels {labels.shape} do not fit scores {scores.shape}")
    return (labels.astype(np.int32) == scores.argmax(axis=-1)).astype(np.float32)


_FAR = -1e30  # the logarithm of a chance of nothing


class _CTCStates:
    """Blank, label, blank, ..., blank: the states that a path goes through.

    Graves et al. 2006, "Connectionist temporal classification".
    """

    def __init__(self, logits, target, target_length, blank):
        classes = logits.shape[-1]
        used = np.arange(target.shape[1])[None, :] < target_length[:, None]
        if (used & ((target < 0) | (target >= classes))).any():
            raise ValueError(f"a target is not in [0, {classes})")
        batch, length = target.shape
        self.classes = np.full((batch, 2 * length + 1), blank % classes, np.int64)
        self.classes[:, 1::2] = np.clip(target, 0, classes - 1)
        self.skips = np.zeros(self.classes.shape, bool)
        self.skips[:, 2:] = self.classes[:, 2:] != self.classes[:, :-2]
        self.skips[:, ::2] = False
        self.last = 2 * target_length.astype(np.int64)
        self.scores = _log_softmax(_widen(logits), -1)
        self.emitted = np.take_along_axis(self.scores, self.classes[:, None, :], axis=2)

    def forward(self, lengths):
        """Log chance of all ways to each state at each time, (steps, batch, states)."""
        emitted, steps = self.emitted, self.scores.shape[1]
        alpha = np.full((steps, *self.classes.shape), _FAR, self.scores.dtype)
        alpha[0, :, :2] = emitted[:, 0, :2]
        for t in range(1, steps):
            before = alpha[t - 1]
            ways = np.logaddexp(before, _states_moved(before, 1))
            two = np.logaddexp(ways, _states_moved(before, 2))
            ways = np.where(self.skips, two, ways)
            alpha[t] = np.where((t < lengths)[:, None], ways + emitted[:, t], before)
        return alpha

    def backward(self, lengths):
        """Log chance of all ways on from each state at each time."""
        emitted, steps = self.emitted, self.scores.shape[1]
        positions = np.arange(self.classes.shape[1])[None, :]
        final = (positions == self.last[:, None]) | (positions == self.last[:, None] - 1)
        kind = self.scores.dtype.type
        end = np.where(final, kind(0), kind(_FAR))
        beta = np.full((steps, *self.classes.shape), _FAR, self.scores.dtype)
        skips = np.zeros_like(self.skips)
        skips[:, :-2] = self.skips[:, 2:]
        beta[steps - 1] = end
        for t in range(steps - 2, -1, -1):
            after = beta[t + 1] + emitted[:, t + 1]
            ways = np.logaddexp(after, _states_moved(after, -1))
            ways = np.where(skips, np.logaddexp(ways, _states_moved(after, -2)), ways)
            beta[t] = np.where((t + 1 < lengths)[:, None], ways, end)
        return beta

    def total(self, alpha):
        """Log chance of the targets."""
        last = np.take_along_axis(alpha[-1], self.last[:, None], axis=1)[:, 0]
        before_last = np.maximum(self.last - 1, 0)[:, None]
        label = np.take_along_axis(alpha[-1], before_last, axis=1)[:, 0]
        return np.where(self.last > 0, np.logaddexp(last, label), last)


def _states_moved(values, by):
    result = np.full(values.shape, _FAR, values.dtype)
    if by > 0:
        result[:, by:] = values[:, :-by]
    else:
        result[:, :by] = values[:, -by:]
    return result


def _ctc_loss(logits, target, target_length, output_length, blank):
    states = _CTCStates(logits, target, target_length, blank)
    chance = states.total(states.forward(output_length))
    return np.where(chance < _FAR / 2, np.inf, -chance).astype(logits.dtype)


def _ctc_gradient(g, logits, target, target_length, output_length, blank):
    states = _CTCStates(logits, target, target_length, blank)
    alpha, scores = states.forward(output_length), states.scores
    beta, chance = states.backward(output_length), states.total(alpha)
    posterior = np.exp(np.minimum(alpha + beta - chance[None, :, None], 0)).transpose(1, 0, 2)
    share = np.zeros(scores.shape, scores.dtype)
    rows, times = np.arange(scores.shape[0])[:, None], np.arange(scores.shape[1])[None, :]
    for s in range(states.classes.shape[1]):
        share[rows, times, states.classes[:, s : s + 1]] += posterior[..., s]
    heard = times < output_length[:, None]
    slope = np.where(heard[..., None], np.exp(scores) - share, 0)
    return (slope * g[:, None, None]).astype(logits.dtype)


def _ctc_decode(logits, lengths, strategy, beam_width, top_paths, merge_repeated, mask_index):
    steps, blank = logits.shape[1], mask_index % logits.shape[-1]
    if lengths.size and not 0 <= lengths.min() <= lengths.max() <= steps:
        raise ValueError(f"sequence lengths {lengths.tolist()} must lie in [0, {steps}]")
    if strategy == "greedy":
        return _ctc_greedy(logits, lengths, merge_repeated, blank)
    labels = np.full((top_paths, *logits.shape[:2]), -1, np.int32)
    scores = np.full((len(logits), top_paths), -np.inf, logits.dtype)
    chances = _log_softmax(logits.astype(np.float64), -1)
    for row, length in enumerate(lengths):
        best = _best_labels(chances[row, :length], blank, beam_width)[:top_paths]
        for path, (sequence, score) in enumerate(best):
            labels[path, row, : len(sequence)] = sequence
            scores[row, path] = score
    return labels, scores


def _ctc_greedy(logits, lengths, merge, blank):
    best, steps = logits.argmax(axis=-1), logits.shape[1]
    heard = np.arange(steps)[None, :] < lengths[:, None]
    scores = -np.where(heard, logits.max(axis=-1), 0).sum(axis=1, keepdims=True)
    labelled = heard & (best != blank)
    if merge:
        labelled[:, 1:] &= best[:, 1:] != best[:, :-1]
    labels = np.full((1, *logits.shape[:2]), -1, np.int32)
    for row in range(len(logits)):
        sequence = best[row, labelled[row]]
        labels[0, row, : sequence.size] = sequence
    return labels, scores.astype(logits.dtype)


def _best_labels(chances, blank, width):
    """The likeliest label sequences and their log chances, by a beam search over prefixes."""
    beams = {(): (0.0, -math.inf)}  # log chances of prefixes that end in a blank, in a label
    for step in chances.tolist():
        grown = {}
        for prefix, (in_blank, in_label) in beams.items():
            either = _log_sum(in_blank, in_label)
            _put_beam(grown, prefix, either + step[blank], -math.inf)
            for label, score in enumerate(step):
                if label == blank:
                    continue
                if prefix and label == prefix[-1]:
                    _put_beam(grown, prefix, -math.inf, in_label + score)
                    _put_beam(grown, (*prefix, label), -math.inf, in_blank + score)
                else:
                    _put_beam(grown, (*prefix, label), -math.inf, either + score)
        beams = dict(sorted(grown.items(), key=lambda item: -_log_sum(*item[1]))[:width])
    return [(prefix, _log_sum(*both)) for prefix, both in beams.items()]


def _log_sum(a, b):
    low, high = (a, b) if a < b else (b, a)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


def _put_beam(beams, prefix, in_blank, in_label):
    before = beams.get(prefix, (-math.inf, -math.inf))
    beams[prefix] = (_log_sum(before[0], in_blank), _log_sum(before[1], in_label))


# ---------------------------------------------------------------------- random numbers
#
# A state is three uint64 words, (counter low, counter high, key). Philox4x64-10: Salmon, Moraes,
# Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".


def _words(state, count):
    """`count` words of 64 random bits from where `state` stands, and the next state."""
    low, high, key = state.tolist()
    counter = low + (high << 64)
    # NumPy steps its counter before the first block
    start = (counter - 1) % (1 << 256)
    quarters = np.array([(start >> 64 * i) & 0xFFFFFFFFFFFFFFFF for i in range(4)], np.uint64)
    raw = np.random.Philox(key=key, counter=quarters).random_raw(count)
    after = (counter + max(1, -(-count // 4))) % (1 << 128)
    pair = [after & 0xFFFFFFFFFFFFFFFF, after >> 64, key]
    return np.asarray(raw, np.uint64), np.array(pair, np.uint64)


def _small_words(state, count, kind):
    """Integers of the whole range of an unsigned type, and the next state."""
    raw, state = _words(state, -(-count // (8 // np.dtype(kind).itemsize)))
    return raw.view(kind)[:count], state


def _unit_floats(state, count, dtype):
    """Floats in [0, 1), multiples of 2**-24 or, as float64, of 2**-53, and the next state."""
    if dtype == "float64":
        raw, state = _words(state, count)
        return (raw >> np.uint64(11)) * (1.0 / (1 << 53)), state
    halves, state = _small_words(state, count, np.uint32)
    floats = (halves >> np.uint32(8)).astype(np.float32)
    floats *= np.float32(1.0 / (1 << 24))
    return floats, state


def _normal_floats(state, count, dtype):
    """Box and Muller 1958, "A note on the generation of random normal deviates"."""
    half = (count + 1) // 2
    flat, state = _unit_floats(state, 2 * half, dtype)
    unit, turn = flat.dtype.type(1), flat.dtype.type(2 * np.pi)
    radius, angle = np.sqrt(-2 * np.log(unit - flat[:half])), turn * flat[half:]
    normals = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
    return normals[:count], state


def _two_uniforms(state, count):
    flat, state = _unit_floats(state, 2 * count, "float64")
    return flat[:count], 1.0 - flat[count:], state  # the second in (0, 1]: its log is finite


def _draws(run):
    """An operation that draws for a shape whose missing sizes come last among its inputs.

    `run` takes the state, its parameters, the whole shape and settings.
    """

    def draw(state, *inputs, shape, rows=None, **settings):
        if rows is not None:
            raise GraphError(
                "random numbers are drawn for one replica of several; save a function that was "
                "traced outside of a strategy"
            )
        count = sum(n is None for n in shape)
        parameters = inputs[: len(inputs) - count]
        return run(state, *parameters, _filled(shape, inputs[len(parameters) :]), **settings)

    return draw


@_draws
def _philox_uniform(state, dims, dtype, scale=1.0, offset=0.0):
    flat, state = _unit_floats(state, math.prod(dims), dtype)
    if scale != 1:
        flat *= flat.dtype.type(scale)
    if offset != 0:
        flat += flat.dtype.type(offset)
    if dtype in ("float16", "bfloat16"):
        bits = 8 if dtype == "bfloat16" else 11
        flat = np.minimum(flat, np.float32(1 - 2.0 ** -(bits + 1)))
        step = np.float32(2.0**bits)
        flat = np.floor(flat * step) / step
    return flat.reshape(dims).astype(_dtype(dtype), copy=False), state


@_draws
def _philox_normal(state, dims, dtype):
    flat, state = _normal_floats(state, math.prod(dims), dtype)
    return flat.reshape(dims).astype(_dtype(dtype), copy=False), state


@_draws
def _philox_truncated_normal(state, dims, dtype):
    flat, state = _normal_floats(state, math.prod(dims), dtype)
    while (outside := np.abs(flat) > 2).any():
        flat[outside], state = _normal_floats(state, int(outside.sum()), dtype)
    return flat.reshape(dims).astype(_dtype(dtype), copy=False), state


@_draws
def _philox_integers(state, dims, dtype, low, high):
    raw, state = _words(state, math.prod(dims))
    return _within(raw, low, high).astype(_dtype(dtype)).reshape(dims), state


@_draws
def _philox_integers_between(state, low, high, dims, dtype):
    low, high, limits = int(low), int(high), np.iinfo(_dtype(dtype))
    if not limits.min <= low < high <= limits.max + 1:
        raise ValueError(f"[{low}, {high}) is no range of {dtype}; minval must be below maxval")
    raw, state = _words(state, math.prod(dims))
    return _within(raw, low, high).astype(_dtype(dtype)).reshape(dims), state


def _within(raw, low, high):
    """Words as integers in [low, high): the high halves of their products with the width."""
    width, word = high - low, np.uint64
    if width < 1 << 64:
        a_low, a_high = raw & word(0xFFFFFFFF), raw >> word(32)
        b_low, b_high = word(width & 0xFFFFFFFF), word(width >> 32)
        middle = a_high * b_low + ((a_low * b_low) >> word(32))
        other = a_low * b_high + (middle & word(0xFFFFFFFF))
        raw = a_high * b_high + (middle >> word(32)) + (other >> word(32))
    return raw + word(low % (1 << 64))


def _kept(state, dims, rate):
    raw, state = _small_words(state, math.prod(dims), np.uint16)
    limit = min(max(round(rate * 65536), 0), 65536)
    mask = raw >= limit if limit < 65536 else np.zeros(raw.shape, bool)
    return mask.reshape(dims), state


_philox_kept = _draws(_kept)


@_draws
def _philox_mask(state, dims, dtype, rate, scale):
    mask, state = _kept(state, dims, rate)
    return np.multiply(mask, _dtype(dtype).type(scale), dtype=_dtype(dtype)), state


def _dropped(x, mask, scale):
    return x * np.multiply(mask, x.dtype.type(scale), dtype=x.dtype)


def _philox_state(seed):
    first, second = (int(n) % (1 << 64) for n in seed)
    start = [second & 0xFFFFFFFFFFFFFFFF, 0, first]
    return np.array([0, 0, _words(np.array(start, np.uint64), 1)[0][0]], np.uint64)


@_draws
def _philox_permutation(state, dims):
    keys, state = _words(state, *dims)
    return np.argsort(keys, kind="stable"), state


def _philox_categorical(state, logits, *count, samples, dtype, rows=None):
    size, classes = logits.shape
    dims = (size, int(count[0]) if samples is None else samples)
    doubles = logits.astype(np.float64)
    cumulated = np.cumsum(np.exp(doubles - doubles.max(axis=1, keepdims=True)), axis=1)
    u, state = _draws(_units64)(state, shape=dims, rows=rows)
    u = u * cumulated[:, -1:]
    index = [np.searchsorted(cumulated[i], u[i], side="right") for i in range(size)]
    index = np.stack(index) if index else np.zeros(dims, np.int64)
    return np.minimum(index, classes - 1).astype(_dtype(dtype)), state


def _units64(state, dims):
    flat, state = _unit_floats(state, math.prod(dims), "float64")
    return flat.reshape(dims), state


def _until_accepted(state, count, propose):
    """`count` values of a rejection method, and the next state."""
    out, open_places = np.zeros(count), np.arange(count)
    while open_places.size:
        values, accepted, state = propose(state, open_places)
        out[open_places[accepted]] = values[accepted]
        open_places = open_places[~accepted]
    return out, state


def _parameters_for(dims, *parameters):
    """One float64 of each parameter for each draw."""
    return [np.asarray(np.broadcast_to(p, dims), np.float64).reshape(-1) for p in parameters]


@_draws
def _philox_gamma(state, alpha, dims, dtype, count):
    """Marsaglia and Tsang 2000, "A simple method for generating gamma variables"."""
    (alpha,) = _parameters_for(dims, alpha)
    possible = (alpha > 0) & (alpha < math.inf)
    a = np.where(possible, alpha, 1.0)
    d = np.where(a < 1, a + 1, a) - 1 / 3
    c = 1 / np.sqrt(9 * d)

    def propose(state, at):
        x, state = _normal_floats(state, at.size, "float64")
        _, u, state = _two_uniforms(state, at.size)
        v = (1 + c[at] * x) ** 3
        safe = np.where(v > 0, v, 1)
        accepted = np.log(u) < 0.5 * x * x + d[at] * (1 - safe + np.log(safe))
        return d[at] * safe, (v > 0) & accepted, state

    values, state = _until_accepted(state, a.size, propose)
    _, u, state = _two_uniforms(state, a.size)
    small = np.where(a < 1, u ** (1 / np.maximum(a, 1e-300)), 1)
    values = np.where(possible, values * small, math.nan)
    return values.reshape(dims).astype(_dtype(dtype)), state


_LOG_FACTORIALS = np.array([math.lgamma(k + 1) for k in range(20)])


def _log_factorial(k):
    """log(k!), by a table below 20 and by Stirling's series from there."""
    large = np.maximum(k, 19.0)
    series = (large + 0.5) * np.log(large) - large + 0.5 * math.log(2 * math.pi)
    series = series + 1 / (12 * large) - 1 / (360 * large**3)
    return np.where(k < 20, _LOG_FACTORIALS[np.clip(k, 0, 19).astype(np.int64)], series)


def _invert(u, first, following):
    """The least k whose cumulated probability is above u; terms follow from one another."""
    k, term, total = np.zeros(u.shape), first, first
    for i in range(1, 200):
        beyond = u >= total
        if not beyond.any():
            break
        term = following(i, term)
        total = total + term
        k = k + beyond
    return k


@_draws
def _philox_poisson(state, lam, dims, dtype, count):
    """Hoermann 1993, "The transformed rejection method for generating Poisson random variables"."""
    (mean,) = _parameters_for(dims, lam)
    u, _, state = _two_uniforms(state, mean.size)
    first = np.minimum(mean, 10.0)
    out = _invert(u, np.exp(-first), lambda k, term: term * first / k)
    large = np.flatnonzero(mean >= 10)
    if large.size:
        out[large], state = _poisson_by_rejection(state, mean[large])
    return out.reshape(dims).astype(_dtype(dtype)), state


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
        counts = np.maximum(k, 0.0)
        right = -mean[at] + counts * np.log(mean[at]) - _log_factorial(counts)
        fits = (k >= 0) & ((us >= 0.013) | (v <= us)) & (left <= right)
        return k, quick | fits, state

    return _until_accepted(state, mean.size, propose)


@_draws
def _philox_binomial(state, counts, probabilities, dims, dtype, count):
    """Hoermann 1993, "The generation of binomial random variates", algorithm BTRS."""
    n, p = _parameters_for(dims, counts, probabilities)
    flipped = p > 0.5
    p = np.where(flipped, 1 - p, p)
    u, _, state = _two_uniforms(state, n.size)
    big = (n * p >= 10) & (n < math.inf)
    low_n, low_p = np.where(big, 0.0, n), np.where(big, 0.0, p)
    ratio = low_p / (1 - low_p)
    start = np.exp(low_n * np.log1p(-low_p))
    out = _invert(u, start, lambda k, term: term * ratio * np.maximum(low_n - k + 1, 0) / k)
    large = np.flatnonzero(big)
    if large.size:
        out[large], state = _binomial_by_rejection(state, n[large], p[large])
    out = np.minimum(out, n)
    out = np.where(flipped, n - out, out)
    return out.reshape(dims).astype(_dtype(dtype)), state


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
        counts = np.clip(k, 0, n[at])
        both = _log_factorial(counts) + _log_factorial(n[at] - counts)
        right = at_mode[at] - both + (counts - mode[at]) * log_odds[at]
        return k, inside & (quick | (left <= right)), state

    return _until_accepted(state, n.size, propose)


_UFUNCS = """add subtract multiply divide negative square sqrt absolute exp expm1 exp2 log log1p
log2 log10 power maximum minimum fmax fmin sin cos tan arcsin arccos arctan arctan2
sinh cosh tanh arcsinh arccosh arctanh sign logaddexp logaddexp2 cbrt hypot equal
not_equal less less_equal greater greater_equal logical_and logical_or logical_not
logical_xor isfinite isinf isnan bitwise_and bitwise_or bitwise_xor left_shift
right_shift trunc ceil floor floor_divide copysign deg2rad rad2deg""".split()

_OF_ARRAYS = frozenset(
    """biased_gelu softmax log_softmax concatenate stack matmul dense einsum conv max_pool
average_pool fused_normalization standardized attention lstm gru embedding_lookup conv_transpose
int8_product sparsemax searchsorted""".split()
)
"""Operations for which a number would be stretched where trainkit wants an array."""

OPERATIONS = {name: getattr(np, name) for name in _UFUNCS}
OPERATIONS.update(
    {
        "cond": _cond,
        "while_loop": _while_loop,
        "scan": _scan,
        "cut_to_sizes": lambda x, sizes, dims: x[tuple(slice(int(n)) for n in sizes)],
        "assert_true": _assert_true,
        "print": _print,
        "identity": lambda x: x,
        "ensure_shape": _ensure_shape,
        "stop_gradient": lambda x: x,
        "copy": lambda x: x,
        "cast": _cast,
        "round": np.rint,
        "bitwise_not": np.invert,
        "mod": np.remainder,
        "fmod": np.fmod,
        "divide_no_nan": lambda a, b: np.where(b == 0, 0, a / np.where(b == 0, 1, b)),
        "reciprocal": lambda x: 1 / x,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "where": np.where,
        "keep_where": lambda x, mask: np.where(mask, x, 0),
        "clip": lambda x, x_min, x_max: np.minimum(np.maximum(x, x_min), x_max),
        "clip_by_tensors": lambda x, low, high: np.maximum(np.minimum(x, high), low),
        # activations
        "relu": lambda x: np.maximum(x, 0),
        "relu6": lambda x: np.minimum(np.maximum(x, 0), 6),
        "leaky_relu": lambda x, negative_slope: np.where(x > 0, x, x * negative_slope),
        "elu": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
        "celu": lambda x, alpha: np.maximum(x, 0) + alpha * np.expm1(np.minimum(x, 0) / alpha),
        "elu_gradient": lambda g, x, alpha: np.where(
            x > 0, g, g * (np.exp(np.minimum(x, 0)) * alpha)
        ),
        "selu_gradient": lambda g, x: np.where(
            x >= 0,
            g * 1.0507009873554805,
            g * (np.exp(np.minimum(x, 0)) * (1.0507009873554805 * 1.6732632423543772)),
        ),
        "selu": lambda x: (
            1.0507009873554805 * np.maximum(x, 0)
            + 1.0507009873554805 * 1.6732632423543772 * np.expm1(np.minimum(x, 0))
        ),
        "sigmoid": _sigmoid,
        "hard_sigmoid": lambda x: np.minimum(np.maximum(x / 6 + 0.5, 0), 1),
        "hard_silu_gradient": lambda g, x: (
            g
            * (
                np.minimum(np.maximum(x / 6 + 0.5, 0), 1)
                + np.where((x > -3) & (x < 3), x * (1 / 6), 0)
            )
        ),
        "hard_silu": lambda x: x * np.minimum(np.maximum(x / 6 + 0.5, 0), 1),
        "hard_tanh": lambda x: np.minimum(np.maximum(x, -1), 1),
        "silu": lambda x: x / (1 + np.exp(-x)),
        "silu_gradient": _silu_gradient,
        "relu_gradient": lambda g, y: g * (y > 0),
        "sparse_sigmoid": lambda x: np.minimum(np.maximum((x + 1) * 0.5, 0), 1),
        "squareplus": lambda x, b: 0.5 * (x + np.sqrt(x * x + b)),
        "sparse_plus": _sparse_plus,
        "softplus": _softplus,
        "softsign": lambda x: x / (1 + np.abs(x)),
        "mish": lambda x: x * np.tanh(_softplus(x)),
        "log_sigmoid": lambda x: -_softplus(-x),
        "tanh_shrink": lambda x: x - np.tanh(x),
        "soft_shrink": lambda x, threshold: np.sign(x) * np.maximum(np.abs(x) - threshold, 0),
        "hard_shrink": lambda x, threshold: np.where(np.abs(x) > threshold, x, 0),
        "erf": _erf,
        "erfc": _erfc,
        "gelu_erf": _gelu_erf,
        "gelu_erf_gradient": _gelu_erf_gradient,
        "biased_gelu": lambda z, bias: _gelu_erf(z + bias),
        "biased_gelu_gradient": _biased_gelu_gradient,
        "gelu_tanh": _gelu_tanh,
        "gelu_tanh_gradient": _gelu_tanh_gradient,
        "softmax": _softmax,
        "softmax_gradient": _softmax_gradient,
        "log_softmax": _log_softmax,
        "log_softmax_gradient": lambda g, y, axis: (
            g - np.exp(y) * np.sum(g, axis=axis, keepdims=True)
        ),
        "sparsemax": _sparsemax,
        "sparsemax_weights": _sparsemax_weights,
        "fake_quant": _fake_quant,
        # reductions
        "sum": _sum,
        "square_sum": lambda x, axis, keepdims: _sum(np.square(x), axis, keepdims),
        "mean": _mean,
        "max": _extreme(np.max),
        "min": _extreme(np.min),
        "prod": _prod,
        "var": _var,
        "all": lambda x, axis, keepdims: np.all(x, axis=axis, keepdims=keepdims),
        "any": lambda x, axis, keepdims: np.any(x, axis=axis, keepdims=keepdims),
        "argmax": lambda x, axis, keepdims, dtype: np.argmax(x, axis=axis, keepdims=keepdims),
        "argmin": lambda x, axis, keepdims, dtype: np.argmin(x, axis=axis, keepdims=keepdims),
        "logsumexp": _logsumexp,
        "cumsum": _running(_sums_so_far, 0),
        "cumprod": _running(_products_so_far, 1),
        "cumulative_logsumexp": _running(_logsumexps_so_far, -np.inf),
        "linear_recurrence": _linear_recurrence,
        "shift_along": _shift_along,
        "sliding_product": lambda x, window: np.correlate(x, np.conj(window), "valid"),
        "top_k": _top_k,
        "in_top_k": _in_top_k,
        "bincount": _bincount,
        "isclose": _isclose,
        "all_finite": lambda *xs: np.bool_(all(np.isfinite(x).all() for x in xs)),
        # shapes
        "reshape": lambda x, shape: x.reshape(shape),
        "reshape_sized": lambda x, *sizes, shape: x.reshape(_filled(shape, sizes)),
        "reshape_like": lambda x, like: x.reshape(like.shape),
        "broadcast_to": lambda x, shape: _broadcast(x, shape),
        "broadcast_to_sized": lambda x, *sizes, shape: _broadcast(x, _filled(shape, sizes)),
        "broadcast_like": lambda x, like: np.broadcast_to(x, like.shape),
        "transpose": lambda x, axes=None: np.transpose(x, axes),
        "expand_dims": _expand_dims,
        "squeeze": lambda x, axis: np.squeeze(x, axis),
        "shape": lambda x: np.array(x.shape, np.int32),
        "size": lambda x: np.int32(x.size),
        "concatenate": lambda *xs, axis: np.concatenate(xs, axis),
        "stack": lambda *xs, axis: np.stack(xs, axis),
        "unstack": _unstack,
        "split": _split,
        "pad": _pad,
        "slice": _slice,
        "slice_update": _slice_update,
        "get_item": _get_item,
        "get_item_at": _get_item,
        "tile": lambda x, repeats: np.tile(x, repeats),
        "tile_sized": lambda x, *sizes, repeats: np.tile(x, _filled(repeats, sizes)),
        "linspace": _linspace,
        "view": _view,
        "real": lambda x: np.real(x),
        "imag": lambda x: np.imag(x) if x.dtype.kind == "c" else np.zeros_like(x),
        "diagonal": lambda x, offset, axis1, axis2: np.diagonal(x, offset, axis1, axis2),
        "diag": _diag,
        "tril": _tril,
        "triu": _triu,
        "repeat": lambda x, repeats, axis: np.repeat(x, repeats, axis),
        "flip": lambda x, axis: np.flip(x, axis),
        "sort": lambda x, axis: np.sort(x, axis=axis),
        "argsort": lambda x, axis: np.argsort(x, axis, kind="stable"),
        "argpartition": lambda x, kth, axis: np.argpartition(x, kth, axis=axis),
        "searchsorted": _searchsorted,
        "roll": lambda x, shift, axis: np.roll(x, shift, axis),
        "zeros_like": lambda x, dtype=None: np.zeros_like(x, dtype),
        "ones_like": lambda x, dtype=None: np.ones_like(x, dtype),
        "full_like": lambda x, value, dtype=None: np.full_like(x, value, dtype),
        "fill": lambda value, shape: np.broadcast_to(value, shape),
        "arange": lambda start, stop, step, dtype: np.arange(  # type: ignore[call-overload]
            start, stop, step, dtype
        ),
        "one_hot": _one_hot,
        "take": _take,
        "take_along_axis": lambda x, indices, axis: np.take_along_axis(x, indices, axis),
        "gather_nd": _gather_nd,
        "number_tokens": _number_tokens,
        "tokens_of_numbers": _tokens_of_numbers,
        "hash_buckets": _hash_buckets,
        "crossed_buckets": _crossed_buckets,
        "with_items": _with_items,
        "segment_sum": _segment_sum,
        "scatter_nd_add": _scatter_nd_add,
        "scatter_update": _scatter_update,
        "embedding_lookup": lambda table, ids: _take(table, ids, 0, wrap=False),
        "tensor_array_write": _array_write,
        "tensor_array_read": lambda buffer, index: buffer[int(index)],
        # products, windows, normalisation, recurrence
        "matmul": _matmul,
        "int8_product": _int8_product,
        "dense": _dense,
        "einsum": _einsum,
        "conv": _conv,
        "conv_transpose": _conv_transpose,
        "extract_patches": _extract_patches,
        "weighted_pixels": _weighted_pixels,
        "max_pool": _max_pool,
        "average_pool": _average_pool,
        "fused_normalization": _normalization,
        "standardized": _standardize,
        "attention": _attention,
        "lstm": _lstm,
        "gru": _gru,
        # signals
        "fft": _fft,
        "ifft": _ifft,
        "rfft": lambda x: np.fft.rfft(x).astype(np.result_type(x.dtype, np.complex64)),
        "irfft": lambda x, n: np.fft.irfft(x, n).astype(x.real.dtype),
        "extract_sequences": _extract_sequences,
        "overlap_add": lambda x, stride: _overlap_added(x, stride),
        # what gradients are made of
        "with_gradient": lambda *arrays, backward, results, sources, given: arrays[:results],
        "optimization_barrier": lambda x, signal: x,
        "spread": _spread_back,
        "sum_to_like": _sum_to_like,
        "split_like": _split_like,
        "slice_like": _slice_like,
        "padded_like": _padded_like,
        "pad_sum": _pad_sum,
        "tile_sum": _tile_sum,
        "tile_sum_sized": _tile_sum_sized,
        "repeat_sum": _repeat_sum,
        "diagonal_put": _diagonal_put,
        "put_item": _put_item,
        "put_item_at": _put_item_at,
        "take_sum": _take_sum,
        "take_along_axis_sum": _take_along_axis_sum,
        "gather_nd_sum": _gather_nd_sum,
        "embedding_gradient": _embedding_gradient,
        "tensor_array_without": _array_without,
        "tensor_array_padded": _array_padded,
        "tensor_array_placed": _array_placed,
        "rectified_gradient": _rectified_gradient,
        "dense_gradient": _dense_gradient,
        "conv_input_gradient": _conv_input_gradient,
        "conv_kernel_gradient": _conv_kernel_gradient,
        "patches_sum": _patches_sum,
        "max_pool_gradient": _max_pool_gradient,
        "max_pool_pick": _max_pool_pick,
        "max_pool_with_argmax": _max_pool_with_argmax,
        "add_at_argmax": _add_at_argmax,
        "channel_window_sums": _channel_window_sums,
        "take_at_argmax": _take_at_argmax,
        "average_pool_gradient": _average_pool_gradient,
        "fused_normalization_gradient": _normalization_gradient,
        "standardized_gradient": _standardized_gradient,
        "attention_gradient": _attention_gradient,
        "lstm_gradient": _lstm_gradient,
        "gru_gradient": _gru_gradient,
        "scaled_rows": lambda g, grads: grads * np.expand_dims(g, -1),
        "fft_transposed": _fft_transposed,
        "ifft_transposed": _ifft_transposed,
        "rfft_transposed": _rfft_transposed,
        "irfft_transposed": _irfft_transposed,
        "sequences_sum": lambda g, x, stride: _overlap_added(g, stride, x.shape[-1]),
        # losses and metrics
        "softmax_cross_entropy_with_logits": _dense_cross_entropy,
        "softmax_cross_entropy_and_slopes": _dense_cross_entropy_pair,
        "softmax_cross_entropy_gradient": _dense_cross_entropy_gradient,
        "sparse_softmax_cross_entropy_with_logits": _sparse_cross_entropy,
        "sparse_softmax_cross_entropy_and_slopes": _sparse_cross_entropy_pair,
        "sparse_softmax_cross_entropy_gradient": _sparse_cross_entropy_gradient,
        "sigmoid_cross_entropy_with_logits": _sigmoid_cross_entropy,
        "sparse_categorical_hits": _class_hits,
        "ctc_loss": _ctc_loss,
        "ctc_gradient": _ctc_gradient,
        "ctc_decode": _ctc_decode,
        # random numbers
        "philox_state": _philox_state,
        "philox_uniform": _philox_uniform,
        "philox_normal": _philox_normal,
        "philox_truncated_normal": _philox_truncated_normal,
        "philox_integers": _philox_integers,
        "philox_integers_between": _philox_integers_between,
        "philox_kept": _philox_kept,
        "philox_mask": _philox_mask,
        "philox_permutation": _philox_permutation,
        "philox_categorical": _philox_categorical,
        "philox_gamma": _philox_gamma,
        "philox_poisson": _philox_poisson,
        "philox_binomial": _philox_binomial,
        "dropped": _dropped,
    }
)


UNREADABLE = {
    "the reader has one device": """copy_to_device copy_to_device_of""",
    "no layer computes with it": """
        angle bessel_j0 bessel_j1 bessel_k0 bessel_k0e bessel_k1 bessel_k1e bessel_y0 bessel_y1
        betainc cholesky complex conj dawsn det digamma eig eigh erfcinv erfinv expint expm
        float8_rounded fold fresnel_cos fresnel_sin gcd heaviside histogram i0 i0e i1 i1e igamma
        igamma_slope igammac inv isin isneginf isposinf lcm lgamma lu_factor ndtri nextafter
        no_gradient_here nonzero pinv pivots_to_permutation polygamma qr quantile
        quantile_gather quantile_spread saturate_cast scatter_max scatter_min scatter_multiply
        segment_max segment_min segment_prod signbit sinc singular_values slogdet
        solve solve_triangular spence svd unfold unfold_gradient unique unravel_index vander
        view_as_complex view_as_real xdivy xlog1py xlogy zeta""",
    "saved graphs hold the operations of its rule": "update_weights",
    "a saved graph holds no Python": """
        all_reduce finish_bucket for_each gather_shares host_call keep_gradients load_variable
        py_call py_call_gradient start_bucket store_variable with_values""",
    "what it does is not data alone": """
        check_shape iterator_begin iterator_get_next raise_error table_request write_summary""",
}
"""Operations of trainkit that this reader goes without, by the reason."""

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
