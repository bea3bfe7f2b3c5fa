"""`save`: a concrete function with its weights as one HDF5 file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.checkpoints.format.writer import Entry, Group, Values, as_json, write_file
from trainkit.core import devices, dtypes, nest
from trainkit.core.dispatch.primitive import Primitive
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import PRIMITIVES, Tensor
from trainkit.graph.control_flow.effects import HOLE, Template
from trainkit.graph.ir.graph import Graph, GraphTensor, Node, needed_nodes
from trainkit.graph.ir.passes import optimised, without_copies
from trainkit.graph.ir.written_out_updates import with_updates_written_out
from trainkit.graph.tracing.concrete import ConcreteFunction
from trainkit.ops.core.dynamic_shapes import Call
from trainkit.saved_graph.encoding import encoded

FORMAT = "trainkit-graph"
VERSION = "1"


def may_be_saved(primitive: Primitive) -> bool:
    """Whether a node with effects may be stored: what it does, or what its branches do, is data.

    The nodes of branches and loop bodies are asked for themselves.
    """
    effect = primitive.facets.effect
    return bool(primitive.facets.bodies) if effect is None else effect.saved


def save(function: Any, path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
    """Store the graph of a traced function, with the values of its variables, as one HDF5 file.

    `tk.saved_graph.load` runs it without the Python source; so does the one file
    `trainkit/saved_graph/standalone.py`, which needs only numpy and h5py.

    Args:
        function: a `tk.function` or one of its concrete functions.
        path: the file to make or to replace; it appears whole or not at all.
        *args: what to trace it for, when it is a `tk.function` without an input signature that has
        not been
            called with one signature only: tensors, `TensorSpec`s and Python values.
        **kwargs: the same by name.

    Raises:
        TypeError: `function` is neither.
        InvalidArgumentError: it has no trace or several, and no arguments were given.
        UnimplementedError: the graph holds something that is no data, such as a call into Python.
        OSError: the file can't be written.
    """
    concrete = concrete_function(function, args, kwargs)
    writer = GraphWriter()
    document = {**writer.function(concrete), **writer.tables()}
    write_document(path, FORMAT, concrete.name, document, writer.arrays)


def write_document(
    path: str | os.PathLike[str], kind: str, name: str, document: dict[str, Any], arrays: list[Any]
) -> None:
    """Write what a file of graphs says, and the arrays that it counts out, whole or not at all.

    Args:
        path: the file.
        kind: the format that the file says it has.
        name: what is in it.
        document: plain values, for JSON.
        arrays: the values of constants and variables, in the order of their numbers.

    Raises:
        OSError: the file can't be written.
    """
    text = np.frombuffer(json.dumps(document).encode("utf-8"), np.uint8)
    entries: list[Entry] = [Values("graph", lambda: text)]
    if arrays:
        entries.append(Group("values", {}))
        entries += [Values(f"values/{i}", _reader(a)) for i, a in enumerate(arrays)]
    manifest = as_json({"name": name})
    write_file(path, entries, {"format": kind, "version": VERSION, "manifest": manifest})


def _reader(array: Any) -> Callable[[], Any]:
    return lambda: np.asarray(devices.to_numpy(array))


def concrete_function(
    function: Any, args: Any, kwargs: Any, of: str = "saved_graph.save"
) -> ConcreteFunction:
    """The one trace of a function that is to be stored.

    Raises:
        TypeError: `function` is neither, or is concrete and arguments are given.
        InvalidArgumentError: it has no trace or several, and no arguments were given.
    """
    if isinstance(function, ConcreteFunction):
        if args or kwargs:
            raise TypeError(f"{of}: a concrete function takes no example arguments")
        return function
    if not hasattr(function, "get_concrete_function"):
        raise TypeError(f"{of}: {function!r} is no traced function; decorate it with tk.function")
    if args or kwargs or function.input_signature is not None:
        concrete = function.get_concrete_function(*args, **kwargs)
        if not isinstance(concrete, ConcreteFunction):
            raise InvalidArgumentError(
                f"{of}: the rank of an argument of {function._name!r} is not known; "
                "give a TensorSpec with None for each size"
            )
        return concrete
    traces = function.concrete_functions()
    if len(traces) != 1:
        raise InvalidArgumentError(
            f"{of}: {function._name!r} has {len(traces)} traces; give arguments or "
            "TensorSpecs that say which one to save"
        )
    only: ConcreteFunction = traces[0]
    return only


class _Output:
    """The place of a tensor among the results."""

    def __init__(self, number: int) -> None:
        self.number = number


def _plain_text(y: Any) -> Any:
    """A text among the results as Python has it, which a file can hold."""
    return y.numpy().decode() if isinstance(y, Tensor) else y


class GraphWriter:
    """Turns graphs into JSON: `tables()` of what they share, and an entry for each `function`.

    Attributes:
        arrays: the values of constants and variables.
    """

    def __init__(self) -> None:
        self._graphs: list[dict[str, Any]] = []
        self._known: dict[int, int] = {}
        self._mains: dict[int, tuple[Graph, int]] = {}
        self._kept: list[Any] = []  # what `_known` has by identity
        self._variables: list[Any] = []
        self.arrays: list[Any] = []

    def tables(self) -> dict[str, Any]:
        """The graphs and variables of all functions so far."""
        return {"graphs": self._graphs, "variables": self._variables}

    def function(self, concrete: ConcreteFunction) -> dict[str, Any]:
        """All that a file says of one function besides the tables."""
        if concrete.closed:
            raise UnimplementedError(
                f"saved_graph.save: {concrete.name!r} refers to tensors of a function around it; "
                "save that one"
            )
        graph, main = self._main(concrete.graph)
        inputs = {x: i for i, x in enumerate(concrete.graph.inputs)}
        outputs = iter(range(len(graph.outputs)))
        # numbered in the order of the graph's outputs, which is not that of the dicts' keys
        results = nest.map_structure(
            lambda y: _Output(next(outputs)) if isinstance(y, GraphTensor) else _plain_text(y),
            concrete.structured_outputs,
        )

        def argument(x: Any) -> Any:
            return {"tensor": inputs[x]} if isinstance(x, GraphTensor) and x in inputs else None

        def result(y: Any) -> Any:
            return {"tensor": y.number} if isinstance(y, _Output) else None

        try:
            arguments = encoded(concrete.arguments, argument, "an argument")
        except UnimplementedError:  # an object that was given while tracing is part of the graph
            arguments = None
        return {
            "name": concrete.name,
            "labels": list(concrete._labels),
            "arguments": arguments,
            "results": encoded(results, result, "the result"),
            "main": main,
        }

    def _main(self, traced: Graph) -> tuple[Graph, int]:
        """The graph that is stored for `traced`, and its number; one for all that call it."""
        if id(traced) not in self._mains:
            graph = optimised(with_updates_written_out(traced))
            self._kept.append(traced)
            self._mains[id(traced)] = graph, self._graph(graph)
        return self._mains[id(traced)]

    def _graph(self, graph: Graph) -> int:
        """The number of `graph` in the document; those of its branches and bodies are smaller."""
        if id(graph) in self._known:
            return self._known[id(graph)]
        original, graph = graph, without_copies(graph)  # a file is for any device
        nodes = needed_nodes(graph)
        present = set(nodes)
        nodes = [x.node for x in graph.inputs if x.node not in present] + nodes
        node_numbers = {node: i for i, node in enumerate(nodes)}
        written = [self._node(node, node_numbers) for node in nodes]
        entry: dict[str, Any] = {
            "name": graph.name,
            "nodes": written,
            "inputs": [node_numbers[x.node] for x in graph.inputs],
            "outputs": [_output_reference(y, node_numbers) for y in graph.outputs],
        }
        if graph.outer is None:
            entry["assigned"] = [
                [self.variable(slot.variable), _output_reference(slot.now, node_numbers)]
                for slot in graph.assigned
            ]
        self._graphs.append(entry)
        self._kept += [original, graph]
        self._known[id(original)] = len(self._graphs) - 1
        return self._known[id(original)]

    def _node(self, node: Node, node_numbers: dict[Node, int]) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "kind": node.kind,
            "name": node.name,
            "specs": [_spec(y._spec) for y in node.outputs],
        }
        if node.kind == "constant":
            entry["value"] = self._array(node.value._array)
        elif node.kind == "variable":
            entry["variable"] = self.variable(node.value)
        elif node.kind == "op":
            primitive, settings, many = self._as_data(node)
            label = f"the operation {node.name!r} ({primitive.name})"
            entry["op"] = primitive.name
            entry["many"] = many
            entry["inputs"] = [
                encoded(x, lambda x: _tensor(x, node_numbers), label) for x in node.inputs
            ]
            entry["settings"] = {
                name: encoded(value, self._special, f"{label}: {name}")
                for name, value in settings.items()
            }
        return entry

    def _as_data(self, node: Node) -> tuple[Any, dict[str, Any], bool]:
        """The operation that is stored for a node, its settings, and whether it has many results.

        In place of a call into Python that says what does the same as data, that is stored.
        """
        call = node.settings.get("call")
        data = call.as_data() if isinstance(call, Call) else None
        if data is not None and all(x._spec.dtype is not dtypes.string for x in node.inputs):
            operation, settings = data
            return operation.primitive, settings, False
        self._check(node)
        return node.primitive, node.settings, node.many

    def _check(self, node: Node) -> None:
        primitive = node.primitive
        is_registered = (
            isinstance(primitive, Primitive) and PRIMITIVES.get(primitive.name) is primitive
        )
        if not is_registered or (node.effect and not may_be_saved(primitive)):
            where = f', made at "{node.where[0]}", line {node.where[1]}' if node.where else ""
            raise UnimplementedError(
                f"saved_graph.save: the operation {node.name!r} ({primitive.name}){where} does "
                "something besides its "
                "result, which can't be stored as data; leave it out of the function that is saved"
            )

    def _special(self, x: Any) -> Any:
        if isinstance(x, Graph):
            return {"graph": self._graph(x)}
        if x is HOLE:
            return {"hole": None}
        if isinstance(x, Template):
            return {"template": self._template(x)}
        return None

    def _template(self, template: Template) -> Any:
        data = template.data()
        if data is None:
            raise UnimplementedError(
                f"saved_graph.save: a print goes to {template.stream!r}, which is no data; one to "
                "sys.stderr or sys.stdout can be saved"
            )
        return encoded(data, self._special, "a print")

    def _array(self, array: Any) -> int:
        self.arrays.append(array)
        return len(self.arrays) - 1

    def variable(self, variable: Any) -> int:
        """The number of `variable` among the variables of the file."""
        if id(variable) not in self._known:
            self._known[id(variable)] = len(self._variables)
            self._kept.append(variable)
            self._variables.append(
                {
                    "name": variable.name.removesuffix(":0"),
                    "trainable": bool(variable.trainable),
                    "value": self._array(variable._value._array),
                    "spec": _spec(Spec(variable.shape, variable.dtype)),
                }
            )
        return self._known[id(variable)]


def _spec(spec: Spec) -> list[Any]:
    if spec.dtype is dtypes.string:
        raise UnimplementedError(
            "saved_graph.save: the graph takes or gives text, and files of graphs hold numbers "
            "alone; turn text into numbers outside of the function"
        )
    return [list(spec.shape), spec.dtype.name]


def _output_reference(x: GraphTensor, node_numbers: dict[Node, int]) -> list[int]:
    return [node_numbers[x.node], x.index]


def _tensor(x: Any, node_numbers: dict[Node, int]) -> Any:
    return {"tensor": _output_reference(x, node_numbers)} if isinstance(x, GraphTensor) else None
