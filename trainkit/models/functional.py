"""`Graph`: the layers between symbolic inputs and outputs, and how to run them.

Layers stand in the order that Keras gives them: by their distance from the outputs, far ones first,
then by when a walk back from the outputs first meets them. So weights come in the same order as in
Keras.
"""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core import nest
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.layers.core import InputLayer
from trainkit.layers.layer import Layer
from trainkit.layers.symbolic import KerasTensor, Node, Operation, symbol_of


class Graph:
    """A model drawn up from symbolic tensors.

    Args:
        inputs: nest of `KerasTensor`s.
        outputs: nest of `KerasTensor`s that are computed from them.

    Raises:
        ValueError: something in them is no `KerasTensor`, an output does not depend on the inputs
            alone, or two layers have one name.

    Attributes:
        operations: all layers, operations among them.
        layers: the layers that users called.
    """

    def __init__(self, inputs: Any, outputs: Any) -> None:
        self.inputs, self.outputs = inputs, outputs
        self.flat_inputs = _checked(inputs, "inputs")
        self.flat_outputs = _checked(outputs, "outputs")
        self.nodes, self.operations = _ordered(self.flat_inputs, self.flat_outputs)
        self.layers = [op for op in self.operations if not isinstance(op, Operation)]
        _check_names(self.layers)
        self.given = {id(x) for x in self.flat_inputs}
        self.steps = [_Step(n) for n in self.nodes if not _is_given(n, self.given)]
        self.names = [_input_name(x) for x in self.flat_inputs]

    @property
    def output_names(self) -> list[str]:
        """A name for each output: its key in a dict, else that of its layer."""
        if isinstance(self.outputs, dict):
            return [str(key) for key in nest.sorted_keys(self.outputs)]
        return [x.name if x.node is None else x.node.operation.name for x in self.flat_outputs]

    # ------------------------------------------------------------------ running

    def run(self, inputs: Any) -> Any:
        """The outputs for `inputs`, a nest like that of the model's, or a dict by input names."""
        given = self._matched(inputs)
        values: dict[int, Any] = {}
        for symbol, x in zip(self.flat_inputs, given, strict=True):
            values[id(symbol)] = _fitted(x, symbol)
        for step in self.steps:
            step.run(values)
        if isinstance(self.outputs, KerasTensor):
            return values[id(self.outputs)]
        return nest.map_structure(lambda y: values[id(y)], self.outputs)

    def _matched(self, inputs: Any) -> list[Any]:
        """The leaves of `inputs` in the order of the model's."""
        if isinstance(self.inputs, KerasTensor) and not isinstance(inputs, dict | list | tuple):
            return [inputs]
        if isinstance(inputs, dict):
            named = self._by_name(inputs)
            if named is not None:
                return named
        flat = nest.flatten(inputs)
        if len(flat) != len(self.flat_inputs):
            raise InvalidArgumentError(
                f"the model has {len(self.flat_inputs)} inputs, {', '.join(self.names)}; "
                f"it was given {len(flat)}"
            )
        return flat

    def _by_name(self, inputs: dict[str, Any]) -> list[Any] | None:
        names = self.names
        if isinstance(self.inputs, dict):
            names = [str(key) for key in nest.sorted_keys(self.inputs)]
        missing = [name for name in names if name not in inputs]
        if missing:
            raise InvalidArgumentError(
                f"the model has the inputs {', '.join(names)}; the dict it was given has "
                f"{', '.join(map(str, inputs))}"
            )
        return [inputs[name] for name in names]


class _Step:
    """One node, ready to run on values by the `id` of their symbols."""

    def __init__(self, node: Node) -> None:
        self.node, self.layer = node, node.operation
        plain = len(node.args) == 1 and not node.kwargs and isinstance(node.args[0], KerasTensor)
        self.source = id(node.args[0]) if plain else None
        self.target = id(node.outputs) if isinstance(node.outputs, KerasTensor) else None

    def run(self, values: dict[int, Any]) -> None:
        if self.source is not None:
            y = self.layer(values[self.source])
        else:
            args = nest.map_structure(lambda x: _value(x, values), self.node.args)
            kwargs = nest.map_structure(lambda x: _value(x, values), self.node.kwargs)
            y = self.layer(*args, **kwargs)
        if self.target is not None:
            values[self.target] = y
            return
        for symbol, part in zip(nest.flatten(self.node.outputs), nest.flatten(y), strict=True):
            values[id(symbol)] = part


def _value(x: Any, values: dict[int, Any]) -> Any:
    return values[id(x)] if isinstance(x, KerasTensor) else x


def _fitted(x: Any, symbol: KerasTensor) -> Any:
    """Data as the input wants it: of its dtype, with the last axis of size 1 it may lack."""
    if x is None:
        return None
    if not isinstance(x, Tensor):
        x = convert_to_tensor(x)
    if x.dtype != symbol.dtype:
        x = ops.cast(x, symbol.dtype)
    want, have = tuple(symbol.shape), tuple(x.shape)
    if len(have) == len(want) - 1 and want[-1] == 1:
        x = ops.expand_dims(x, -1)
    elif len(have) == len(want) + 1 and have[-1] == 1:
        x = ops.squeeze(x, -1)
    have = tuple(x.shape)
    if len(have) != len(want) or any(
        m is not None and n is not None and n != m for n, m in zip(have[1:], want[1:], strict=True)
    ):
        raise ShapeError(
            f"input {symbol.name!r} of the model has shape {want}, it was given {have}"
        )
    return x


def _checked(symbols: Any, what: str) -> list[KerasTensor]:
    flat = nest.flatten(symbols)
    for x in flat:
        if not isinstance(x, KerasTensor):
            raise ValueError(
                f"Model({what}=...) takes symbolic tensors, made by Input and by calling layers "
                f"on them; "
                f"got {x!r}"
            )
    if not flat:
        raise ValueError(f"Model({what}=...) needs at least one symbolic tensor")
    return flat


def _input_name(x: KerasTensor) -> str:
    """The name of the `Input`, or that of a tensor in the middle of another model."""
    enters = x.node is not None and isinstance(x.node.operation, InputLayer)
    return x.node.operation.name if enters and x.node is not None else x.name


def _is_given(node: Node, given: set[int]) -> bool:
    outputs = nest.flatten(node.outputs)
    return isinstance(node.operation, InputLayer) or all(id(y) in given for y in outputs)


class _Walk:
    """A walk back from the outputs: nodes in the order they are finished, layers as met."""

    def __init__(self, given: set[int]) -> None:
        self.given = given
        self.finished: list[Node] = []
        self.met: dict[int, int] = {}
        self.done: set[int] = set()
        self.parents: dict[int, list[Node]] = {}

    def visit(self, x: KerasTensor) -> None:
        # Without recursion: models may be deeper than Python's stack.
        stack: list[tuple[Node, int]] = [(self._node(x), 0)]
        self._meet(stack[0][0])
        while stack:
            node, at = stack.pop()
            if id(node) in self.done:
                continue
            parents = self.parents[id(node)]
            while at < len(parents) and id(parents[at]) in self.done:
                at += 1
            if at == len(parents):
                self.done.add(id(node))
                self.finished.append(node)
                continue
            stack.append((node, at + 1))
            stack.append((parents[at], 0))
            self._meet(parents[at])

    def _node(self, x: KerasTensor) -> Node:
        if x.node is None:
            raise ValueError(f"{x!r} was not made by Input or a layer, so no model can end in it")
        return x.node

    def _meet(self, node: Node) -> None:
        self.met.setdefault(id(node.operation), len(self.met))
        if id(node) in self.parents:
            return
        inputs = [] if self._starts(node) else node.inputs
        if isinstance(node.operation, InputLayer) and not self._starts(node):
            raise ValueError(_not_connected(node))
        if not inputs and not self._starts(node):
            raise ValueError(f"layer {node.operation.name!r} has no symbolic input")
        self.parents[id(node)] = [self._node(x) for x in inputs]

    def _starts(self, node: Node) -> bool:
        return any(id(y) in self.given for y in nest.flatten(node.outputs))


def _not_connected(node: Node) -> str:
    return (
        f"the outputs depend on the Input {node.operation.name!r}, which is not among the inputs "
        f"of the "
        "model; add it to inputs="
    )


def _ordered(
    inputs: list[KerasTensor], outputs: list[KerasTensor]
) -> tuple[list[Node], list[Layer]]:
    """The nodes in an order in which they can run, and the layers in Keras's order."""
    walk = _Walk({id(x) for x in inputs})
    for x in outputs:
        if id(x.node) not in walk.done and x.node is not None and _is_open_input(x, walk):
            raise ValueError(_not_connected(x.node))
        walk.visit(x)
    depth: dict[int, int] = {}
    layer_depth: dict[int, int] = {}
    for node in reversed(walk.finished):
        own = max(depth.get(id(node), 0), layer_depth.get(id(node.operation), 0))
        depth[id(node)] = layer_depth[id(node.operation)] = own
        for parent in walk.parents[id(node)]:
            depth[id(parent)] = max(own + 1, depth.get(id(parent), 0))
    layers = {id(node.operation): node.operation for node in walk.finished}
    for x in inputs:  # inputs that no output depends on
        if x.node is not None and id(x.node.operation) not in layers:
            layers[id(x.node.operation)] = x.node.operation
            layer_depth[id(x.node.operation)], walk.met[id(x.node.operation)] = 0, -1
    order = sorted(layers.values(), key=lambda op: (-layer_depth[id(op)], walk.met[id(op)]))
    return walk.finished, order


def _is_open_input(x: KerasTensor, walk: _Walk) -> bool:
    node = x.node
    return node is not None and isinstance(node.operation, InputLayer) and id(x) not in walk.given


def _check_names(layers: list[Layer]) -> None:
    names = [layer.name for layer in layers]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"layers of one model need different names; {twice[0]!r} is there twice")


# ---------------------------------------------------------------------- config


def graph_config(graph: Graph, name: str, trainable: bool, serialize: Any) -> dict[str, Any]:
    """The graph as plain values, in the layout that Keras has for functional models."""
    numbers: dict[int, tuple[str, int, int]] = {}
    calls: dict[int, list[Node]] = {}
    for node in graph.nodes:
        calls.setdefault(id(node.operation), []).append(node)
        for place, y in enumerate(nest.flatten(node.outputs)):
            index = len(calls[id(node.operation)]) - 1
            numbers[id(y)] = (node.operation.name, index, place)
    layers = []
    for op in graph.operations:
        nodes = [] if isinstance(op, InputLayer) else calls.get(id(op), [])
        described = serialize(op)
        layers.append(
            {
                **described,
                "name": op.name,
                "inbound_nodes": [_node_config(n, numbers) for n in nodes],
            }
        )

    def places(symbols: Any) -> Any:
        return _nested(symbols, lambda x: list(numbers[id(x)]))

    return {
        "name": name,
        "trainable": trainable,
        "layers": layers,
        "input_layers": places(graph.inputs),
        "output_layers": places(graph.outputs),
    }


def _nested(structure: Any, of: Any) -> Any:
    """A nest with its leaves replaced; lists of results may be leaves, which `nest` would walk."""
    if isinstance(structure, dict):
        return {key: _nested(value, of) for key, value in structure.items()}
    if isinstance(structure, list | tuple):
        return [_nested(item, of) for item in structure]
    return of(structure)


def _node_config(node: Node, numbers: dict[int, tuple[str, int, int]]) -> dict[str, Any]:
    def plain(x: Any) -> Any:
        if isinstance(x, KerasTensor):
            config = {
                "shape": list(x.shape),
                "dtype": x.dtype.name,
                "keras_history": list(numbers[id(x)]),
            }
            return {"class_name": "__keras_tensor__", "config": config}
        if isinstance(x, Tensor):
            config = {"value": x.numpy().tolist(), "dtype": x.dtype.name}
            return {"class_name": "__tensor__", "config": config}
        return x

    return {"args": _nested(node.args, plain), "kwargs": _nested(node.kwargs, plain)}


def graph_from_config(config: dict[str, Any], deserialize: Any) -> tuple[Any, Any]:
    """The symbolic inputs and outputs that `graph_config` described; layers are made anew."""
    layers = {item["name"]: deserialize(_without_nodes(item)) for item in config["layers"]}
    made: dict[tuple[str, int], list[Any]] = {}
    waiting = []
    for item in config["layers"]:
        if isinstance(layers[item["name"]], InputLayer):
            made[(item["name"], 0)] = [symbol_of(layers[item["name"]])]
        waiting += [(item["name"], i, node) for i, node in enumerate(item["inbound_nodes"])]
    while waiting:
        left = [call for call in waiting if not _run_call(call, layers, made)]
        if len(left) == len(waiting):
            raise ValueError("the config of the model has calls whose inputs nothing gives")
        waiting = left

    def symbol(place: Any) -> Any:
        return made[(place[0], int(place[1]))][int(place[2])]

    return _placed(config["input_layers"], symbol), _placed(config["output_layers"], symbol)


def _without_nodes(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != "inbound_nodes"}


def _is_place(x: Any) -> bool:
    return (
        isinstance(x, list) and len(x) == 3 and isinstance(x[0], str) and not isinstance(x[1], str)
    )


def _placed(places: Any, symbol: Any) -> Any:
    if _is_place(places):
        return symbol(places)
    if isinstance(places, dict):
        return {key: _placed(value, symbol) for key, value in places.items()}
    items = [_placed(item, symbol) for item in places]
    return items[0] if len(items) == 1 else items


class _NotYet(Exception):
    pass


def _run_call(
    call: tuple[str, int, Any], layers: dict[str, Any], made: dict[Any, list[Any]]
) -> bool:
    """Call a layer on its symbols, if they are there already."""
    name, index, node = call

    def value(x: Any) -> Any:
        if isinstance(x, dict) and x.get("class_name") == "__keras_tensor__":
            layer, number, place = x["config"]["keras_history"]
            if (layer, int(number)) not in made:
                raise _NotYet
            return made[(layer, int(number))][int(place)]
        if isinstance(x, dict) and x.get("class_name") == "__tensor__":
            return convert_to_tensor(x["config"]["value"], dtype=x["config"]["dtype"])
        if isinstance(x, dict):
            return {key: value(item) for key, item in x.items()}
        return [value(item) for item in x] if isinstance(x, list) else x

    try:
        args, kwargs = value(node["args"]), value(node["kwargs"])
    except _NotYet:
        return False
    if index and (name, index - 1) not in made:
        return False
    made[(name, index)] = nest.flatten(layers[name](*args, **kwargs))
    return True
