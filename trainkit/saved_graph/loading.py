"""`load`: a graph from a file, checked before anything of it is used."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

from trainkit.checkpoints.format.reader import SavedFile
from trainkit.checkpoints.format.validation import ArrayNode, GroupNode
from trainkit.core import dtypes, nest
from trainkit.core.errors import CheckpointError, OpError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import convert_to_tensor, wrap_on_device
from trainkit.core.values.python_signatures import signature_of
from trainkit.core.variable import Variable
from trainkit.graph.control_flow import cond_vjp as cond_vjp  # registers cond
from trainkit.graph.control_flow import custom_gradient as custom_gradient
from trainkit.graph.control_flow import effects as effects
from trainkit.graph.control_flow import loop_vjp as loop_vjp  # registers while_loop and scan
from trainkit.graph.control_flow import tensor_array as tensor_array
from trainkit.graph.control_flow.cond import cond_primitive
from trainkit.graph.control_flow.operation_lookup import find_operation
from trainkit.graph.control_flow.while_loop import scan_primitive, while_primitive
from trainkit.graph.ir.graph import Graph, GraphTensor, Node, VariableSlot
from trainkit.graph.tracing.concrete import ConcreteFunction
from trainkit.saved_graph.encoding import decoded
from trainkit.saved_graph.saving import FORMAT, VERSION, may_be_saved
from trainkit.saved_graph.standalone import FAILURES, MAX_GRAPH, GraphError, check_document


class LoadedFunction(ConcreteFunction):
    """A graph that was read from a file; called like the concrete function that was saved.

    Attributes:
        graph: the graph.
        variables: its variables, new ones with the saved values; tapes and optimizers take them.
    """


def load(path: str | os.PathLike[str]) -> LoadedFunction:
    """Read a graph that `save` wrote; the Python source of the function is not needed.

    Nothing in the file is executed as code: operations are looked up by name among trainkit's own,
    and all
    sizes and dtypes are worked out anew and compared.

    Args:
        path: the file.

    Returns:
        A function of the tensors that the saved one took, with `variables`, `graph`, `inputs` and
        `outputs`.

    Raises:
        NotFoundError: there is no such file.
        CheckpointError: it is damaged, hostile, of another version, or holds an operation that is
            not known;
            the error names it.
    """
    with read_document(path, FORMAT, check_document, "saved graph") as (reader, document):
        return reader.function(document)


@contextlib.contextmanager
def read_document(
    path: str | os.PathLike[str], kind: str, check: Callable[[Any], None], what: str
) -> Iterator[tuple[GraphReader, dict[str, Any]]]:
    """What a file of graphs says, checked, and a reader that has its variables and graphs.

    Args:
        path: the file.
        kind: the format that it must have.
        check: refuses a document that `save` never writes.
        what: the format in words.

    Raises:
        CheckpointError: it is damaged or hostile, or what is done with it here says so.
    """
    file = SavedFile(path)
    try:
        reader = GraphReader(file, kind, what)
        try:
            document = reader.document(check)
            reader.read_tables(document)
            yield reader, document
        except CheckpointError:
            raise
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, OpError) as error:
            raise reader.refuse(
                f"its graph makes no sense: {type(error).__name__}: {error}"
            ) from error
    finally:
        file.close()


class GraphReader:
    """Builds the graphs of one file.

    Attributes:
        variables: new ones, with the values in the file.
    """

    def __init__(self, file: SavedFile, kind: str, what: str) -> None:
        self._file = file
        attributes = file.root.attributes
        if attributes.get("format") != kind:
            raise CheckpointError(f"{file.name} is no {what}; checkpoints are for tk.train")
        if attributes.get("version") != VERSION:
            raise CheckpointError(
                f"{file.name} has version {attributes.get('version')!r}, this trainkit reads "
                f"{VERSION!r}"
            )
        self._graphs: list[Graph] = []
        self.variables: list[Variable] = []

    def refuse(self, why: str) -> CheckpointError:
        """The error about the content of the file."""
        return CheckpointError(f"{self._file.name} is refused: {why}")

    def document(self, check: Callable[[Any], None]) -> dict[str, Any]:
        """What the file says besides the arrays."""
        node = self._file.root.children.get("graph")
        if not isinstance(node, ArrayNode) or node.stored.str != "|u1" or len(node.shape) != 1:
            raise self.refuse("it has no 'graph'")
        if node.shape[0] > MAX_GRAPH:
            raise self.refuse(f"its graph takes {node.shape[0]} bytes, more than {MAX_GRAPH}")
        try:
            document = json.loads(self._file.value(node).tobytes().decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise self.refuse(f"its graph is no JSON: {error}") from error
        try:
            check(document)
        except (GraphError, *FAILURES) as error:
            raise self.refuse(str(error)) from error
        return dict(document)

    def read_tables(self, document: dict[str, Any]) -> None:
        """Make the variables and graphs."""
        for entry in document["variables"]:
            spec = _spec_of(entry["spec"])
            variable = Variable(
                wrap_on_device(self._array(entry["value"])),
                trainable=entry["trainable"] is True,
                name=str(entry["name"]),
                shape=spec.shape,
            )
            if variable.dtype != spec.dtype:
                raise self.refuse(
                    f"variable {variable.name!r} is {variable.dtype.name}, not {spec.dtype.name}"
                )
            self.variables.append(variable)
        for entry in document["graphs"]:
            self._graphs.append(self._graph(entry))

    def function(self, document: dict[str, Any]) -> LoadedFunction:
        """The function that one entry of the file describes."""
        main = self._graphs[_number(document["main"])]
        if main.outer is not None:
            raise self.refuse("its main graph is part of another")
        tensor = {"tensor": lambda i: main.outputs[_number(i)]}
        input_tensor = {"tensor": lambda i: main.inputs[_number(i)]}
        results = nest.map_structure(
            lambda y: convert_to_tensor(y) if isinstance(y, str) else y,
            decoded(document["results"], tensor),
        )
        arguments = document["arguments"]
        call: Any = (tuple(main.inputs), {})
        labels = [x.node.name for x in main.inputs]
        if arguments is not None:
            call, labels = decoded(arguments, input_tensor), list(map(str, document["labels"]))
        args, kwargs = call
        if len(labels) != len(args) + len(dict(kwargs)):
            raise self.refuse(
                f"it has {len(labels)} labels for {len(args) + len(kwargs)} arguments"
            )
        return LoadedFunction(str(document["name"]), main, (args, kwargs), results, labels)

    def _array(self, number: Any) -> Any:
        values = self._file.root.children.get("values")
        node = values.children.get(str(_number(number))) if isinstance(values, GroupNode) else None
        if not isinstance(node, ArrayNode):
            raise self.refuse(f"the value {number!r} is missing")
        if node.offset is None and node.stored_bytes:
            raise self.refuse(f"the value {number!r} is compressed, which a saved graph never is")
        return self._file.value(node)

    def value(self, number: Any) -> Any:
        """The array of this number, for what a file says besides its graphs."""
        return self._array(number)

    # ------------------------------------------------------------------ graphs

    def _graph(self, entry: dict[str, Any]) -> Graph:
        graph = Graph(str(entry["name"]))
        for item in entry["nodes"]:
            graph.nodes.append(self._node(graph, item))
        graph.inputs = [graph.nodes[_number(i)].outputs[0] for i in entry["inputs"]]
        kinds = [x.node.kind for x in graph.inputs]
        if kinds != ["input"] * len(kinds) or len(set(graph.inputs)) != len(kinds):
            raise self.refuse(f"the inputs of graph {graph.name!r} are none")
        if sum(node.kind == "input" for node in graph.nodes) != len(kinds):
            raise self.refuse(f"graph {graph.name!r} has an input that nothing is given to")
        graph.outputs = [_tensor_at(graph, reference) for reference in entry["outputs"]]
        for number, reference in entry.get("assigned", []):
            self._assign(graph, self.variables[_number(number)], _tensor_at(graph, reference))
        return graph

    def _assign(self, graph: Graph, variable: Variable, value: GraphTensor) -> None:
        if value.dtype != variable.dtype or not variable.shape.is_compatible_with(value.shape):
            raise self.refuse(f"the value assigned to {variable.name!r} does not fit it")
        slot = graph.slots.get(id(variable))
        if slot is None:
            slot = graph.slots[id(variable)] = VariableSlot(variable, value)
        slot.now, slot.assigned = value, True

    def _node(self, graph: Graph, item: dict[str, Any]) -> Node:
        kind, name = item["kind"], str(item["name"])
        specs = tuple(_spec_of(spec) for spec in item["specs"])
        if kind == "op":
            return self._operation(graph, item, name, specs)
        if len(specs) != 1:
            raise self.refuse(f"{name!r} has {len(specs)} values")
        if kind == "input":
            return Node(graph, "input", name, specs)
        if kind == "constant":
            value = wrap_on_device(self._array(item["value"]))
            self._compare(name, specs, (Spec(value.shape, value.dtype),))
            return Node(graph, "constant", name, specs, value=value)
        if kind == "variable":
            variable = self.variables[_number(item["variable"])]
            self._compare(name, specs, (Spec(variable.shape, variable.dtype),))
            node = Node(graph, "variable", name, specs, value=variable)
            graph.slots[id(variable)] = VariableSlot(variable, node.outputs[0])
            return node
        raise self.refuse(f"{str(kind)[:40]!r} is no kind of node")

    def _operation(
        self, graph: Graph, item: dict[str, Any], name: str, specs: tuple[Spec, ...]
    ) -> Node:
        primitive = find_operation(item["op"])
        if primitive is None:
            raise self.refuse(f"the operation {str(item['op'])[:60]!r} is not known")
        tensor = {"tensor": lambda reference: _tensor_at(graph, reference)}
        inputs = tuple(decoded(x, tensor) for x in item["inputs"])
        settings = {
            str(key): decoded(
                value, {"graph": lambda i: self._part_of(graph, i), "template": self._template}
            )
            for key, value in item["settings"].items()
        }
        if primitive.is_ufunc and len(inputs) != primitive.kernel.nin:
            raise self.refuse(f"{primitive.name!r} does not take {len(inputs)} values")
        parameters = () if primitive.is_ufunc else signature_of(primitive.body).parameters
        for key in settings:
            if key not in parameters:
                raise self.refuse(f"{primitive.name!r} has no setting {key[:40]!r}")
        if settings.get("activation") not in (None, "relu"):
            raise self.refuse(f"{str(settings['activation'])[:40]!r} is no activation of {name!r}")
        for count in ("num", "parts"):  # results that are counted out one by one
            if type(settings.get(count)) is int and settings[count] != len(specs):
                raise self.refuse(f"{name!r} has {len(specs)} values and {count}={settings[count]}")
        result_specs = primitive.shape_rule(
            *[x._spec if isinstance(x, GraphTensor) else x for x in inputs], **settings
        )
        many = isinstance(result_specs, tuple)
        self._compare(name, specs, result_specs if many else (result_specs,))
        node = Node(graph, "op", name, specs, primitive, inputs, settings)
        node.many = many
        if item["many"] is not many:
            raise self.refuse(f"{name!r} is said to have {'many' if item['many'] else 'one'} value")
        if node.effect and not may_be_saved(primitive):
            raise self.refuse(f"the operation {primitive.name!r} does more than compute")
        self._check_parts(node)
        return node

    def _template(self, content: Any) -> effects.Template:
        try:
            return effects.template_of(decoded(content, {"hole": lambda _: effects.HOLE}))
        except ValueError as error:
            raise self.refuse(str(error)) from None

    def _part_of(self, graph: Graph, number: Any) -> Graph:
        part = self._graphs[_number(number)]
        if part.slots:
            raise self.refuse(f"graph {part.name!r} is part of another and uses variables")
        part.outer = part.outer or graph
        return part

    def _check_parts(self, node: Node) -> None:
        """Refuse a branch or loop body that takes other values than it is given."""
        rule = node.primitive.facets.parts
        if not rule:
            return
        fed = rule(list(node.inputs), node.settings)
        if fed is None:
            raise self.refuse(f"the loop {node.name!r} has the wrong number of results")
        for part, values in fed:
            fits = len(part.inputs) == len(values) and all(
                isinstance(x, GraphTensor | Spec)
                and x.dtype == part_input.dtype
                and len(x.shape) == len(part_input.shape)
                for x, part_input in zip(values, part.inputs, strict=True)
            )
            if not fits:
                raise self.refuse(
                    f"{node.name!r} gives its {part.name!r} other values than it takes"
                )

    def _compare(self, name: str, declared: tuple[Spec, ...], computed: tuple[Any, ...]) -> None:
        same = len(declared) == len(computed) and all(
            a.dtype == b.dtype and tuple(a.shape) == tuple(b.shape)
            for a, b in zip(declared, computed, strict=True)
        )
        if not same:
            raise self.refuse(f"{name!r} is said to be {declared}, it would be {computed}")


Fed = list[tuple[Graph, list[Any]]]


@cond_primitive.parts_by
def _branches(inputs: list[Any], settings: dict[str, Any]) -> Fed:
    split = _number(settings["split"])
    return [(settings["true"], inputs[1 : 1 + split]), (settings["false"], inputs[1 + split :])]


@while_primitive.parts_by
def _loop(inputs: list[Any], settings: dict[str, Any]) -> Fed | None:
    cond, body = settings["cond"], settings["body"]
    count, split = _number(settings["count"]), _number(settings["split"])
    results = count + _number(settings.get("stacked") or 0)
    if len(body.outputs) != results or len(cond.outputs) != 1:
        return None
    state = inputs[:count]
    return [(cond, state + inputs[count : count + split]), (body, state + inputs[count + split :])]


@scan_primitive.parts_by
def _scan(inputs: list[Any], settings: dict[str, Any]) -> Fed | None:
    body = settings["body"]
    count, rows = _number(settings["count"]), _number(settings["fed"])
    first, last = 1 + count, 1 + count + rows
    if len(body.outputs) < count or len(inputs) < last:
        return None
    return [(body, inputs[1:first] + _rows(inputs[first:last]) + inputs[last:])]


def _rows(stacks: list[Any]) -> list[Any]:
    """What a loop takes of the arrays that it is fed with row by row."""
    return [
        Spec(tuple(x.shape)[1:], x.dtype) if isinstance(x, GraphTensor) and len(x.shape) else None
        for x in stacks
    ]


def _number(x: Any) -> int:
    """A place in a list."""
    if type(x) is not int or x < 0:
        raise ValueError(f"{str(x)[:40]!r} is no place in a list")
    return x


def _spec_of(spec: Any) -> Spec:
    dims, dtype = spec
    for n in dims:
        if n is not None:
            _number(n)
    return Spec(tuple(dims), dtypes.as_dtype(str(dtype)))


def _tensor_at(graph: Graph, reference: Any) -> GraphTensor:
    node, index = reference
    return graph.nodes[_number(node)].outputs[_number(index)]
