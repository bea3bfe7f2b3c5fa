"""Functional models as plain values, in the layout that Keras has for them, and back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from trainkit.core import nest
from trainkit.core.errors import ConfigError
from trainkit.core.registry import deserialize_object, serialize_object
from trainkit.layers.base.keras_operations import KerasOperation
from trainkit.layers.base.keras_tensor import CallNode, KerasTensor, PrimitiveCall, symbol_of
from trainkit.layers.base.layer import Layer
from trainkit.layers.core import InputLayer
from trainkit.models.functional import FunctionalGraph
from trainkit.models.legacy.legacy_config import modern_graph

_Key = tuple[str, int]


def graph_config(graph: FunctionalGraph, name: str, trainable: bool) -> dict[str, Any]:
    """The graph as plain values."""
    calls: dict[int, list[CallNode]] = {}
    for node in graph.nodes:
        calls.setdefault(id(node.operation), []).append(node)
    numbers: dict[int, list[Any]] = {}
    for x in graph.flat_inputs:
        numbers[id(x)] = [x.node.operation.name, 0, 0]
    for nodes in calls.values():
        layer = nodes[0].operation
        for index, node in enumerate(nodes):
            for tensor_index, y in enumerate(nest.flatten(node.outputs)):
                numbers[id(y)] = [layer.name, index, tensor_index]

    def end(x: KerasTensor) -> list[Any]:
        name, index, tensor_index = numbers[id(x)]
        assert x.node is not None
        return [name, index + _offset(x.node.operation), tensor_index]

    return {
        "name": name,
        "trainable": trainable,
        "layers": [_layer_config(op, calls.get(id(op), []), numbers) for op in graph.operations],
        "input_layers": _map(graph.inputs, end),
        "output_layers": _map(graph.outputs, end),
    }


def _offset(layer: Any) -> int:
    """What Keras adds to the number of a call where it names an end of the model.

    There, and only there, it counts the drawing up of an inner functional model as its first call.
    """
    return 1 if getattr(layer, "_counts_its_drawing", False) else 0


def _layer_config(
    layer: Layer, nodes: list[CallNode], numbers: dict[int, list[Any]]
) -> dict[str, Any]:
    called = [] if isinstance(layer, InputLayer) else nodes
    return {
        **serialize_object(layer),
        "name": layer.name,
        "inbound_nodes": [_node_config(node, numbers) for node in called],
    }


def _node_config(node: CallNode, numbers: dict[int, list[Any]]) -> dict[str, Any]:
    def plain(x: Any) -> Any:
        if isinstance(x, KerasTensor):
            return x.as_config(list(numbers[id(x)]))
        return serialize_object(x)

    args = node.args
    if isinstance(node.operation, PrimitiveCall):
        args = node.operation.written_args(args)
    return {"args": _map(args, plain), "kwargs": _map(node.kwargs, plain)}


def _map(structure: Any, of: Callable[[Any], Any]) -> Any:
    """A nest with its leaves replaced; lists of results may be leaves, which `nest` would enter."""
    if isinstance(structure, dict):
        return {key: _map(value, of) for key, value in structure.items()}
    if isinstance(structure, list | tuple):
        items = [_map(item, of) for item in structure]
        return items if isinstance(structure, list) else tuple(items)
    return of(structure)


# ---------------------------------------------------------------------- reading


def graph_from_config(config: dict[str, Any]) -> tuple[Any, Any]:
    """The symbolic inputs and outputs that `graph_config` described; layers are made anew.

    Raises:
        ConfigError: calls wait for each other, or for what nothing gives.
    """
    try:
        return _Drawing(modern_graph(config)).ends()
    except (KeyError, IndexError, AttributeError) as error:
        raise ConfigError(
            f"the config of a functional model lacks something: {type(error).__name__} {error}"
        ) from error


class _Call:
    """A call of a layer that may wait for the results of others."""

    def __init__(self, key: _Key, node: Any) -> None:
        self.key, self.node = key, node
        self.args, self.kwargs = node["args"], node.get("kwargs", {})
        self.waits_for = set(_sources((self.args, self.kwargs)))


def _is_symbol(x: Any) -> bool:
    return isinstance(x, dict) and x.get("class_name") == "__keras_tensor__"


def _sources(x: Any) -> Iterator[_Key]:
    """The calls whose results stand in the arguments of a call."""
    if _is_symbol(x):
        name, number, _ = x["config"]["keras_history"]
        yield str(name), int(number)
    elif isinstance(x, dict):
        for item in x.values():
            yield from _sources(item)
    elif isinstance(x, list | tuple):
        for item in x:
            yield from _sources(item)


class _Drawing:
    """Layers called one after the other, each as soon as what it is given is there."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.layers: dict[str, Any] = {}
        self.made: dict[_Key, list[Any]] = {}
        for item in config["layers"]:
            self._add_layer(item)
        calls: list[_Call] = []
        for item in config["layers"]:
            for index, node in enumerate(item["inbound_nodes"]):
                calls.append(_Call((item["name"], index), node))
                if index:  # the calls of one layer keep their order
                    calls[-1].waits_for.add((item["name"], index - 1))
        self._run(calls)

    def _add_layer(self, item: dict[str, Any]) -> None:
        described = {key: value for key, value in item.items() if key != "inbound_nodes"}
        layer = deserialize_object(described)
        if not isinstance(layer, Layer | KerasOperation):
            raise ConfigError(f"the config of a model lists {layer!r}, which is no layer")
        self.layers[item["name"]] = layer
        if isinstance(layer, InputLayer):
            self.made[item["name"], 0] = [symbol_of(layer)]

    def _run(self, calls: list[_Call]) -> None:
        followers: dict[_Key, list[_Call]] = {}
        for call in calls:
            call.waits_for -= self.made.keys()
            for key in call.waits_for:
                followers.setdefault(key, []).append(call)
        ready = deque(call for call in calls if not call.waits_for)
        while ready:
            call = ready.popleft()
            args, kwargs = self._value(call.args), self._value(call.kwargs)
            self.made[call.key] = nest.flatten(self.layers[call.key[0]](*args, **kwargs))
            for follower in followers.get(call.key, ()):
                follower.waits_for.discard(call.key)
                if not follower.waits_for:
                    ready.append(follower)
        self._check_all_made(calls)

    def _check_all_made(self, calls: list[_Call]) -> None:
        left = [call for call in calls if call.key not in self.made]
        if not left:
            return
        missing = {key[0] for call in left for key in call.waits_for} - self.layers.keys()
        if missing:
            raise ConfigError(
                f"Missing node: {', '.join(sorted(missing))}. The config of the model has calls "
                "with the results of layers that it does not have"
            )
        names = ", ".join(dict.fromkeys(call.key[0] for call in left))
        raise ConfigError(
            f"the config of the model has a loop, or calls whose inputs nothing gives: {names}"
        )

    def _value(self, x: Any) -> Any:
        """Arguments of a call, with symbols where the config names results."""
        if _is_symbol(x):
            name, number, tensor_index = x["config"]["keras_history"]
            return self.made[str(name), int(number)][int(tensor_index)]
        if isinstance(x, dict):
            if "class_name" in x:
                return deserialize_object(x)
            return {key: self._value(item) for key, item in x.items()}
        if isinstance(x, list | tuple):
            return type(x)(self._value(item) for item in x)
        return x

    def ends(self) -> tuple[Any, Any]:
        """The inputs and the outputs."""
        histories = self.config["input_layers"], self.config["output_layers"]
        return self._places(histories[0]), self._places(histories[1])

    def _places(self, histories: Any) -> Any:
        if isinstance(histories, list) and len(histories) == 3 and isinstance(histories[0], str):
            name, number, tensor_index = histories
            counted = int(number) - _offset(self.layers[name])
            return self.made[name, max(0, counted)][int(tensor_index)]
        if isinstance(histories, dict):
            return {key: self._places(value) for key, value in histories.items()}
        return type(histories)(self._places(item) for item in histories)
