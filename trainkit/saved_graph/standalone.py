"""Runs a graph saved by trainkit, with nothing but numpy and h5py; one file, to be copied.

    from standalone import load
    model = load("model.h5")
    probabilities = model(images)

A folder that `tk.saved_model.save` wrote holds several functions: `load(folder, "serve")` is the
one of that name. From a shell, `python standalone.py model.h5` lists what a file holds. It is data:
operations are
looked up by name in the table at the end, and an unknown one is refused by its name. Values are
computed
with NumPy alone, so they agree with trainkit's to rounding.
"""

from __future__ import annotations

import inspect
import itertools
import json
import math
import os
import stat
import sys
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
    found = {e["name"]: (e["functions"], e["outputs"]) for e in document["signatures"]}
    for name, what, number in document["objects"][0]["children"]:
        if what == "callable":
            found.setdefault(name, (document["traced"][number]["functions"], None))
    return {name: found for name, found in found.items() if found[0]}


def _function_in(document, content, path, function, trace):
    """One function of a saved model."""
    known = _endpoints(document)
    if function is None:
        function = next(iter(known)) if len(known) == 1 else "serving_default"
    if function not in known:
        raise GraphError(
            f"{path} has no function {function!r}; it has {', '.join(known) or 'none'}"
        )
    numbers, names = known[function]
    if not 0 <= trace < len(numbers):
        raise GraphError(f"{path}: {function!r} has {len(numbers)} graphs, there is no {trace}")
    entry = dict(document["functions"][numbers[trace]], name=function)
    if names is not None:
        entry["results"] = {"dict": [[name, {"tensor": place}] for name, place in names]}
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
        found = group[name]
        if not isinstance(found, kind):
            raise GraphError(f"{name!r} is no {kind.__name__.lower()}")
        return found


def _of_shape(array, shape):
    return array.ndim == len(shape) and all(
        n in (None, m) for n, m in zip(shape, array.shape, strict=True)
    )


def _number(x):
    if type(x) is not int or x < 0:
        raise GraphError(f"{str(x)[:40]!r} is no place in a list")
    return x


_KEYS = (str, int, float, tuple, type(None))


def _decoded(value, special, depth=0):
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
        return complex(*[float(_decoded(part, special, depth + 1)) for part in content])
    if kind in ("tuple", "list") and isinstance(content, list):
        items = [_decoded(item, special, depth + 1) for item in content]
        return tuple(items) if kind == "tuple" else items
    if kind == "dict" and isinstance(content, list):
        pairs = [_decoded({"tuple": pair}, special, depth + 1) for pair in content]
        if all(len(pair) == 2 and isinstance(pair[0], _KEYS) for pair in pairs):
            return dict(pairs)
    if kind == "record" and isinstance(content, list) and len(content) == 2:
        name, pairs = content
        fields = [str(field) for field, _ in pairs]
        items = [_decoded(item, special, depth + 1) for _, item in pairs]
        return namedtuple(str(name), fields)(*items)
    raise GraphError(f"{str(kind)[:40]!r} is no kind of setting")


_HOLE = object()


def _template(content):
    """What a print shows: a nest with holes for values, text between and behind, and where to."""
    found = _decoded(content, {"hole": lambda _: _HOLE})
    if not isinstance(found, tuple) or [type(x) for x in found] != [tuple, str, str, str, int]:
        raise GraphError("no template of print")
    if found[3] not in ("stderr", "stdout"):
        raise GraphError(f"print writes to stderr or stdout, not to {found[3][:40]!r}")
    return found


# ---------------------------------------------------------------------- checking the document

_TABLES = {"graphs": list, "variables": list}
_FUNCTION = {"name": str, "labels": list, "arguments": object, "results": object, "main": int}
_ROOT = _TABLES | _FUNCTION
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
    _has(document, _ROOT, "the document")
    _check_tables(document)
    _check_function(document, document)


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


def _check_numbers(numbers, places, what):
    if not isinstance(numbers, list):
        raise GraphError(f"{str(numbers)[:40]!r} is no list of numbers")
    for number in numbers:
        _below(number, len(places), what)


def _check_parameters(rows):
    for name, kind, has_default, default in rows or ():
        if not (isinstance(name, str) and kind in range(5) and isinstance(has_default, bool)):
            raise GraphError(f"{str(name)[:40]!r} is no parameter")
        _decoded(default, {"object": lambda _: None})


def _check_object(entry, limits):
    """Attributes are variables, functions and other objects, under names that Python keeps free."""
    _has(entry, _OBJECT, "an object")
    if entry["kind"] not in ("object", "list", "dict"):
        raise GraphError(f"{entry['kind'][:40]!r} is no kind of object")
    for name, what, number in entry["children"]:
        if not isinstance(name, str) or what not in ("variable", "callable", "object", "none"):
            raise GraphError(f"{str(name)[:40]!r} is no attribute")
        reserved = name[:2] == "__" == name[-2:] or name in ("_kind", "signatures")
        if entry["kind"] == "object" and reserved and (name, what) != ("__call__", "callable"):
            raise GraphError(f"an attribute can't be called {name[:40]!r}")
        if what == "none":
            if entry["kind"] == "object":
                raise GraphError(f"the attribute {name[:40]!r} is nothing")
        else:
            _below(number, limits[what], f"a {what}")
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
        given = [[label, {"tensor": i}] for i, label in enumerate(function["labels"])]
        results = function["results"]
        given_back = results.get("list") if isinstance(results, dict) else None
        count = len(given_back) if isinstance(given_back, list) else -1
        if (
            function["arguments"] != {"tuple": [{"tuple": []}, {"dict": given}]}
            or len(given) != len(main["inputs"])
            or count != len(main["outputs"])
            or given_back != [{"tensor": i} for i in range(count)]
        ):
            raise GraphError(f"the signature {entry['name'][:40]!r} is no function of tensors")
        for label, place in entry["outputs"]:
            if not isinstance(label, str):
                raise GraphError(f"{str(label)[:40]!r} is no name of a result")
            _below(place, count, "a result")


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
    _decoded(entry["results"], {"tensor": _place_in(main["outputs"], "a result")})
    inputs, labels = len(main["inputs"]), entry["labels"]
    if not all(isinstance(label, str) for label in labels):
        raise GraphError("a label is no text")
    if entry["arguments"] is not None:
        given = {"tensor": _place_in(main["inputs"], "an input")}
        args, kwargs = _decoded(entry["arguments"], given)
        if not isinstance(args, (tuple, list)) or not isinstance(kwargs, dict):
            raise GraphError("the arguments are no tuple and dict")
        inputs = len(args) + len(kwargs)
        if len(labels) != inputs:
            raise GraphError(f"there are {len(labels)} labels for {inputs} arguments")


def _has(entry, fields, what, optional=()):
    """Refuse what is not a dict of just these fields."""
    if not isinstance(entry, dict) or not set(fields) <= set(entry) <= {*fields, *optional}:
        raise GraphError(f"{what} needs {', '.join(fields)}, and has {str(entry)[:80]}")
    for name, kind in fields.items():
        if not isinstance(entry[name], kind) or (kind is int and type(entry[name]) is not int):
            raise GraphError(f"{what}: {name} is {str(entry[name])[:40]!r}, not {kind.__name__}")


def _below(number, limit, what):
    if _number(number) >= limit:
        raise GraphError(f"{what} has number {number}; there are {limit}")
    return number


def _place_in(places, what):
    return lambda number: _below(number, len(places), what)


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
    for here, node in enumerate(nodes):
        _check_node(node, nodes, here, number, document)
    kinds = [nodes[_below(i, len(nodes), "an input")]["kind"] for i in graph["inputs"]]
    if set(kinds) - {"input"} or len(set(graph["inputs"])) != len(kinds):
        raise GraphError(f"the inputs of graph {graph['name']!r} are none")
    if sum(node["kind"] == "input" for node in nodes) != len(kinds):
        raise GraphError(f"graph {graph['name']!r} has an input that nothing is given to")
    for place in graph["outputs"]:
        _check_place(place, nodes, len(nodes))
    for target, place in graph.get("assigned", []):
        _below(target, len(document["variables"]), "a variable")
        node, index = _check_place(place, nodes, len(nodes))
        shape, dtype = document["variables"][target]["spec"]
        found, kind = nodes[node]["specs"][index]
        if (
            kind != dtype
            or len(found) != len(shape)
            or not all(None in (a, b) or a == b for a, b in zip(found, shape, strict=True))
        ):
            raise GraphError(f"the value assigned to variable {target} does not fit it")


def _check_node(node, nodes, here, number, document):
    kind = node.get("kind") if isinstance(node, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise GraphError(f"{str(kind)[:40]!r} is no kind of node")
    _has(node, _NODE | _KINDS[kind], f"a node of kind {kind!r}")
    for spec in node["specs"]:
        _check_spec(spec)
    if kind == "op":
        special = {"tensor": lambda place: _check_place(place, nodes, here)}
        for value in node["inputs"]:
            found = _decoded(value, special)
            if isinstance(found, str | dict | list) or (
                isinstance(found, tuple) and "tensor" not in value
            ):
                raise GraphError(f"{node['name']!r} takes {str(value)[:40]!r}, which is no value")
        part = {"graph": lambda i: _check_part(i, number, document), "template": _template}
        for value in node["settings"].values():
            _decoded(value, part)
    elif len(node["specs"]) != 1:
        raise GraphError(f"{node['name']!r} has {len(node['specs'])} values")
    if kind == "variable":
        _below(node["variable"], len(document["variables"]), "a variable")
        if document["variables"][node["variable"]]["spec"] != node["specs"][0]:
            raise GraphError(f"{node['name']!r} is said to be {node['specs'][0]}")


def _check_place(place, nodes, limit):
    if not isinstance(place, list) or len(place) != 2:
        raise GraphError(f"{str(place)[:40]!r} is no place of a value")
    node, index = _number(place[0]), _number(place[1])
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
        try:
            with np.errstate(all="ignore"):
                outputs, assigned = self._main.run(ready, self._state)
        except GraphError:
            raise
        except FAILURES as error:
            raise GraphError(f"{self.name}: {type(error).__name__}: {error}") from error
        for number, value in assigned:
            self._state[number] = value
        return _decoded(self._results, {"tensor": lambda i: outputs[i]})

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
        for place, array in zip(self.inputs, arrays, strict=True):
            shape, dtype = self._nodes[place]["specs"][0]
            if array.dtype != _dtype(dtype) or array.ndim != len(shape):
                raise GraphError("a part of the graph is given other values than it takes")
            env[place] = (array,)
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
        raise GraphError(
            f"the operation {name[:60]!r} ({node['name']}) is not known to this reader"
        )
    special = {"tensor": lambda place: _Ref(place)}
    inputs = [_decoded(x, special) for x in node["inputs"]]
    parts = {"graph": lambda i: earlier[i], "template": _template}
    settings = {k: _decoded(v, parts) for k, v in node["settings"].items()}
    _check_call(name, body, inputs, settings)
    specs, many = node["specs"], node["many"]

    def step(env, state):
        arrays = [env[x.node][x.index] if isinstance(x, _Ref) else x for x in inputs]
        found = body(*arrays, **settings)
        found = tuple(found) if many else (found,)
        if len(found) != len(specs):
            raise GraphError(f"{name!r} gives {len(found)} values, not {len(specs)}")
        floats = all(x.dtype.kind == "f" for x in arrays if isinstance(x, np.ndarray))
        return tuple([_as_declared(y, *t, name, floats) for y, t in zip(found, specs, strict=True)])

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

    def __init__(self, place):
        self.node, self.index = place


# ---------------------------------------------------------------------- control flow, checks


def _cond(pred, *arrays, true, false, split):
    if bool(np.asarray(pred).reshape(())):
        return true.run(arrays[:split])[0]
    return false.run(arrays[split:])[0]


def _while_loop(*arrays, cond, body, count, split, limit, stacked=None, padded=()):
    state = list(arrays[:count])
    for_cond, for_body = list(arrays[count : count + split]), list(arrays[count + split :])
    done, rows = 0, []
    while (limit is None or done < limit) and bool(
        np.asarray(cond.run(state + for_cond)[0][0]).reshape(())
    ):
        found = body.run(state + for_body)[0]
        state = found[:count]
        rows.append(found[count:])
        done += 1
    if stacked is None:
        return state
    return (*state, *_stacked(rows, body, count, padded), np.asarray(done, np.int32))


def _scan(steps, *arrays, body, count, fed, reverse=False, length=None, padded=()):
    n = int(np.asarray(steps).reshape(()))
    state, stacks = list(arrays[:count]), arrays[count : count + fed]
    rest = list(arrays[count + fed :])
    rows = [None] * n
    for i in range(n - 1, -1, -1) if reverse else range(n):
        found = body.run([*state, *[x[i] for x in stacks], *rest])[0]
        state, rows[i] = found[:count], found[count:]
    return (*state, *_stacked(rows, body, count, padded))


def _stacked(rows, body, count, padded):
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


def _assert_true(condition, *shown, message):
    if not np.all(condition):
        raise GraphError(str(message) + "".join(f"\n  {x!r}" for x in shown))
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


def _ensure_shape(x, shape):
    if x.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, x.shape, strict=True)):
        raise GraphError(f"the shape {tuple(shape)} is needed, it is {x.shape}")
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


def _dense(x, kernel, bias, activation):
    y = x @ kernel
    if bias is not None:
        y = y + bias
    return _activated(y, activation)


def _activated(y, activation):
    if activation not in (None, "relu"):
        raise GraphError(f"{str(activation)[:40]!r} is no activation of a product")
    return np.maximum(y, 0) if activation == "relu" else y


def _pads(size, window, stride, pad, dilation):
    if pad == "valid":
        return 0, 0
    if pad != "same":
        return int(pad[0]), int(pad[1])
    total = max((-(-size // stride) - 1) * stride + (window - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def _windows(x, window, strides, padding, dilation, value):
    """`(padded, out, offsets)`: the padded array, the number of windows, an index per offset."""
    rank = len(window)
    per_axis = (padding,) * rank if isinstance(padding, str) else padding
    axes = list(zip(x.shape[1:-1], window, strides, per_axis, dilation, strict=False))
    pads = [_pads(*axis) for axis in axes]
    padded = np.pad(x, [(0, 0), *pads, (0, 0)], constant_values=value)
    out = [
        (n + sum(p) - (w - 1) * d - 1) // s + 1
        for (n, w, s, _, d), p in zip(axes, pads, strict=False)
    ]
    offsets = [
        (
            slice(None),
            *[
                slice(t * d, t * d + (n - 1) * s + 1, s)
                for t, d, n, s in zip(offset, dilation, out, strides, strict=False)
            ],
        )
        for offset in itertools.product(*map(range, window))
    ]
    return padded, out, offsets


def _conv(x, kernel, bias, strides, padding, dilation_rate, activation):
    window, filters = kernel.shape[:-2], kernel.shape[-1]
    padded, out, offsets = _windows(x, window, strides, padding, dilation_rate, 0)
    groups = x.shape[-1] // kernel.shape[-2]
    weights = kernel.reshape(-1, *kernel.shape[-2:])
    y = np.zeros((x.shape[0], *out, filters), x.dtype)
    here, there = kernel.shape[-2], filters // groups
    for offset, w in zip(offsets, weights, strict=False):
        seen = padded[offset]
        for g in range(groups):
            mine = slice(g * there, (g + 1) * there)
            y[..., mine] += seen[..., g * here : (g + 1) * here] @ w[:, mine]
    y = y if bias is None else y + bias
    return _activated(y, activation)


def _max_pool(x, pool_size, strides, padding):
    low = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    padded, _, offsets = _windows(x, pool_size, strides, padding, (1,) * len(pool_size), low)
    return np.maximum.reduce([padded[offset] for offset in offsets])


def _average_pool(x, pool_size, strides, padding):
    ones = (1,) * len(pool_size)
    padded, _, offsets = _windows(x, pool_size, strides, padding, ones, 0)
    counts, _, _ = _windows(np.ones_like(x[:1, ..., :1]), pool_size, strides, padding, ones, 0)
    total = sum(padded[offset] for offset in offsets)
    return total / sum(counts[offset] for offset in offsets)


def _normalization(x, scale, offset, axis, epsilon, over_batch, centred=True):
    shape = tuple(n if i in axis else 1 for i, n in enumerate(x.shape))
    axes = tuple(i for i in range(x.ndim) if i not in axis) if over_batch else tuple(axis)
    mean = x.mean(axis=axes, keepdims=True) if centred else x.dtype.type(0)
    variance = np.square(x - mean).mean(axis=axes, keepdims=True)
    y = (x - mean) / np.sqrt(variance + x.dtype.type(epsilon))
    y = y if scale is None else y * scale.reshape(shape)
    y = y if offset is None else y + offset.reshape(shape)
    if not over_batch:
        return y
    vector = tuple(x.shape[i] for i in axis)
    return y, mean.reshape(vector), variance.reshape(vector)


def _standardized(x, axis, epsilon, centred=True):
    x = x - x.mean(axis=axis, keepdims=True) if centred else x
    return x / np.sqrt(np.square(x).mean(axis=axis, keepdims=True) + x.dtype.type(epsilon))


def _attention(q, k, v, mask, scale, causal):
    group = q.shape[2] // k.shape[2]
    q, k, v = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
    k, v = k.repeat(group, axis=1), v.repeat(group, axis=1)
    scores = np.matmul(q * q.dtype.type(scale), k.swapaxes(2, 3))
    seen = np.tril(np.ones(scores.shape[2:], bool)) if causal else np.ones((1, 1), bool)
    seen = seen if mask is None else seen & mask
    scores = np.where(seen, scores, scores.dtype.type(-np.inf))
    top = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - np.where(top == -np.inf, top.dtype.type(0), top))
    total = powers.sum(axis=-1, keepdims=True)
    shares = powers / np.where(total == 0, total.dtype.type(1), total)
    return np.matmul(shares, v).transpose(0, 2, 1, 3)


def _lstm(projected, h, c, kernel):
    hidden, memory, gates = [], [], []
    for t in range(projected.shape[1]):
        i, f, g, o = np.split(projected[:, t] + h @ kernel, 4, axis=-1)
        i, f, g, o = _sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o)
        c = f * c + i * g
        h = o * np.tanh(c)
        hidden.append(h), memory.append(c), gates.append(np.concatenate([i, f, g, o], -1))
    return [np.stack(part, 1) for part in (hidden, memory, gates)]


def _gru(projected, h, kernel, bias, reset_after=True):
    hidden, gates, units = [], [], h.shape[1]
    for t in range(projected.shape[1]):
        inner = h @ (kernel if reset_after else kernel[:, : 2 * units])
        inner = inner if bias is None else inner + bias
        z, r = np.split(_sigmoid(projected[:, t, : 2 * units] + inner[:, : 2 * units]), 2, -1)
        share = inner[:, 2 * units :] if reset_after else r * h
        kept = r * share if reset_after else share @ kernel[:, 2 * units :]
        new = np.tanh(projected[:, t, 2 * units :] + kept)
        h = new + z * (h - new)
        hidden.append(h), gates.append(np.concatenate([z, r, new, share], -1))
    return [np.stack(part, 1) for part in (hidden, gates)]


# ---------------------------------------------------------------------- activations, reductions


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _softmax(x, axis):
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _log_softmax(x, axis):
    centred = x - x.max(axis=axis, keepdims=True)
    return centred - np.log(np.exp(centred).sum(axis=axis, keepdims=True))


def _erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype)


def _gelu_erf(x):
    """0.5 * x * (1 + erf(x / sqrt(2))) by erfc, which does not cancel for x far below 0."""
    wide = x.astype(np.float64)
    return (
        0.5 * wide * np.vectorize(math.erfc, otypes=[np.float64])(wide * -math.sqrt(0.5))
    ).astype(x.dtype)


def _gelu_tanh(x):
    """0.5 * x * (1 + tanh(u)) by 1 / (1 + exp(-2 * u)), which does not cancel for u far below 0."""
    wide = x.astype(np.float32) if x.dtype.itemsize < 4 else x
    twice = 2 * math.sqrt(2 / math.pi) * (wide + 0.044715 * wide * wide * wide)
    return (wide / (1 + np.exp(-twice))).astype(x.dtype)


def _logsumexp(x, axis, keepdims):
    top = x.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    total = np.log(np.exp(x - top).sum(axis=axis, keepdims=keepdims))
    return total + top.reshape(total.shape)


def _mean(x, axis, keepdims):
    return np.mean(
        x, axis=axis, keepdims=keepdims, dtype=None if x.dtype.kind in "fc" else np.float64
    )


def _extreme(reduce):
    def run(x, axis, keepdims, initial=None):
        limits = {} if initial is None else {"initial": initial}
        return reduce(x, axis=axis, keepdims=keepdims, **limits)

    return run


def _cumsum(x, axis, exclusive, reverse):
    x = np.flip(x, axis) if reverse else x
    total = np.cumsum(x, axis=axis, dtype=x.dtype)
    total = total - x if exclusive else total
    return np.flip(total, axis) if reverse else total


def _top_k(x, k, sorted):
    where = np.argsort(-x, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(x, where, -1), where


def _cast(x, dtype):
    x = x.real if x.dtype.kind == "c" and np.dtype(dtype).kind != "c" else x
    return x.astype(_dtype(dtype))


_UFUNCS = """add subtract multiply divide negative square sqrt absolute exp expm1 exp2 log log1p
log2 log10 power maximum minimum fmax fmin sin cos tan arcsin arccos arctan arctan2
sinh cosh tanh arcsinh arccosh arctanh sign logaddexp logaddexp2 cbrt hypot equal
not_equal less less_equal greater greater_equal logical_and logical_or logical_not
logical_xor isfinite isinf isnan bitwise_and bitwise_or bitwise_xor left_shift
right_shift trunc ceil floor floor_divide copysign deg2rad rad2deg""".split()

_OF_ARRAYS = frozenset(
    """biased_gelu softmax log_softmax concatenate stack matmul dense einsum conv max_pool
average_pool fused_normalization standardized attention lstm gru embedding_lookup""".split()
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
        "clip_by_tensors": lambda x, low, high: np.minimum(np.maximum(x, low), high),
        # activations
        "relu": lambda x: np.maximum(x, 0),
        "relu6": lambda x: np.minimum(np.maximum(x, 0), 6),
        "leaky_relu": lambda x, negative_slope: np.where(x > 0, x, x * negative_slope),
        "elu": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
        "celu": lambda x, alpha: np.maximum(x, 0) + alpha * np.expm1(np.minimum(x, 0) / alpha),
        "selu": lambda x: (
            1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))
        ),
        "sigmoid": _sigmoid,
        "hard_sigmoid": lambda x: np.minimum(np.maximum(x / 6 + 0.5, 0), 1),
        "hard_silu": lambda x: x * np.minimum(np.maximum(x / 6 + 0.5, 0), 1),
        "hard_tanh": lambda x: np.minimum(np.maximum(x, -1), 1),
        "silu": lambda x: x * _sigmoid(x),
        "softplus": _softplus,
        "softsign": lambda x: x / (1 + np.abs(x)),
        "mish": lambda x: x * np.tanh(_softplus(x)),
        "log_sigmoid": lambda x: -_softplus(-x),
        "tanh_shrink": lambda x: x - np.tanh(x),
        "soft_shrink": lambda x, threshold: np.sign(x) * np.maximum(np.abs(x) - threshold, 0),
        "hard_shrink": lambda x, threshold: np.where(np.abs(x) > threshold, x, 0),
        "erf": _erf,
        "gelu_erf": _gelu_erf,
        "biased_gelu": lambda z, bias: _gelu_erf(z + bias),
        "gelu_tanh": _gelu_tanh,
        "softmax": _softmax,
        "log_softmax": _log_softmax,
        # reductions
        "sum": lambda x, axis, keepdims: np.sum(
            x, axis=axis, keepdims=keepdims, dtype=None if x.dtype.kind == "b" else x.dtype
        ),
        "mean": _mean,
        "max": _extreme(np.max),
        "min": _extreme(np.min),
        "prod": lambda x, axis, keepdims: np.prod(x, axis=axis, keepdims=keepdims),
        "var": lambda x, axis, keepdims: np.var(x, axis=axis, keepdims=keepdims),
        "all": lambda x, axis, keepdims: np.all(x, axis=axis, keepdims=keepdims),
        "any": lambda x, axis, keepdims: np.any(x, axis=axis, keepdims=keepdims),
        "argmax": lambda x, axis, keepdims, dtype: np.argmax(x, axis=axis, keepdims=keepdims),
        "argmin": lambda x, axis, keepdims, dtype: np.argmin(x, axis=axis, keepdims=keepdims),
        "logsumexp": _logsumexp,
        "cumsum": _cumsum,
        "top_k": _top_k,
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
        "repeat": lambda x, repeats, axis: np.repeat(x, repeats, axis),
        "flip": lambda x, axis: np.flip(x, axis),
        "sort": lambda x, axis: np.sort(x, axis=axis),
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
        "embedding_lookup": lambda table, ids: _take(table, ids, 0, wrap=False),
        "tensor_array_write": _array_write,
        "tensor_array_read": lambda buffer, index: buffer[int(index)],
        # products, windows, normalisation, recurrence
        "matmul": np.matmul,
        "dense": _dense,
        "einsum": lambda a, b, subscripts: np.einsum(subscripts, a, b),
        "conv": _conv,
        "max_pool": _max_pool,
        "average_pool": _average_pool,
        "fused_normalization": _normalization,
        "standardized": _standardized,
        "attention": _attention,
        "lstm": _lstm,
        "gru": _gru,
    }
)


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
        known = _endpoints(_document_in(_Content(file, h5py), path))
    return [load(path, name, i) for name, found in known.items() for i in range(len(found[0]))]


def main(arguments):
    """List what each file holds."""
    for path in arguments:
        for graph in graphs_in(path):
            print(graph)
            for name, value in graph.variables.items():
                print(f"  {name}  {value.dtype}{list(value.shape)}")


if __name__ == "__main__":
    main(sys.argv[1:])
