"""`FunctionalGraph`: the layers between symbolic inputs and outputs, and how to run them.

Layers stand in the order that Keras gives them: by their distance from the outputs, far ones first,
then by when a traversal from the outputs first meets them. So weights come in the same order as in
Keras.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from trainkit.core import nest
from trainkit.core.names import unique_name
from trainkit.layers.base.keras_tensor import CallNode, KerasTensor, node_of, symbol_of
from trainkit.layers.base.layer import Layer
from trainkit.layers.base.operation import Operation
from trainkit.layers.core import InputLayer
from trainkit.models.functional_inputs import fitted, masked, matched


class FunctionalGraph:
    """A model drawn up from symbolic tensors.

    Args:
        inputs: nest of `KerasTensor`s; a new `InputLayer` takes the place of each that is the
            result of a layer.
        outputs: nest of `KerasTensor`s that are computed from them.

    Raises:
        ValueError: something in them is no `KerasTensor`, an output does not depend on the inputs
            alone, or two layers have one name.

    Attributes:
        inputs, outputs: as given, but for inputs that are results of layers.
        operations: all layers, operations among them.
        layers: the layers that users called.
    """

    def __init__(self, inputs: Any, outputs: Any) -> None:
        _check(inputs, "inputs")
        _check(outputs, "outputs")
        self._set(*_from_inputs(inputs, outputs))

    def _set(self, inputs: Any, outputs: Any) -> None:
        self.inputs, self.outputs = inputs, outputs
        self.flat_inputs, self.flat_outputs = nest.flatten(inputs), nest.flatten(outputs)
        self.nodes, self.operations = _order(self.flat_inputs, self.flat_outputs)
        self.layers = [op for op in self.operations if not isinstance(op, Operation)]
        _check_names(self.layers)
        self.steps = [_NodeRun(n) for n in self.nodes if not isinstance(n.operation, InputLayer)]
        self.names = [x.node.operation.name for x in self.flat_inputs]
        self._alone = _alone(outputs)
        needed = {id(y) for y in self.flat_outputs}
        for step in reversed(self.steps):
            step.last_of = [source for source in step.sources if source not in needed]
            needed.update(step.sources)

    @property
    def output_names(self) -> list[str]:
        """A name for each output: its key in a dict, else that of its layer."""
        if isinstance(self.outputs, dict):
            return [str(key) for key in nest.sorted_keys(self.outputs)]
        return self.output_operations

    @property
    def output_operations(self) -> list[str]:
        """The name of the layer that makes each output."""
        return [x.name if x.node is None else x.node.operation.name for x in self.flat_outputs]

    def __reduce__(self) -> Any:
        """As one flat table: a chain of nodes may be longer than Python's stack is high."""
        return table_as_graph, graph_as_table(self)

    # ------------------------------------------------------------------ running

    def run(self, inputs: Any, mask: Any = None, fits: bool = False) -> Any:
        """The outputs for `inputs`, a nest like that of the model's, or a dict by input names.

        Args:
            inputs: tensors or arrays.
            mask: masks for them, nested likewise, where they carry none of their own.
            fits: whether they are taken as they are, in place of being cast to the dtypes of the
                symbols and brought to their ranks.
        """
        leaves = matched(self, inputs)
        if mask is not None:
            leaves = masked(leaves, matched(self, mask))
        values: dict[int, Any] = {}
        for symbol, x in zip(self.flat_inputs, leaves, strict=True):
            values[id(symbol)] = x if fits else fitted(x, symbol)
        for step in self.steps:
            step.run(values)
            # what nobody reads any more is freed, unless a tape needs it
            for source in step.last_of:
                del values[source]
        if self._alone is not None:
            return values[id(self._alone)]
        return nest.map_structure(lambda y: values[id(y)], self.outputs)

    def redrawn(
        self, inputs: Any, layer_of: Callable[[Layer], Layer], call: Callable[..., Any] | None
    ) -> Any:
        """The symbolic outputs of other layers, called on other symbols as these are on theirs.

        Args:
            inputs: nest of `KerasTensor`s like that of the inputs.
            layer_of: gives the layer to be called in place of each.
            call: `call(layer, *args, **kwargs)` calls one; by default the layer is called.
        """
        values = {id(x): y for x, y in zip(self.flat_inputs, nest.flatten(inputs), strict=True)}
        for step in self.steps:
            step.run(values, layer_of(step.layer), call)
        return nest.map_structure(lambda y: values[id(y)], self.outputs)


def _alone(outputs: Any) -> KerasTensor | None:
    """The output of a model that has just one, in a list or not; `None` for nests."""
    if isinstance(outputs, list | tuple) and len(outputs) == 1:
        outputs = outputs[0]
    return outputs if isinstance(outputs, KerasTensor) else None


def source_inputs(tensor: KerasTensor) -> list[KerasTensor]:
    """The symbols of the inputs that a symbolic tensor is computed from, each once.

    Args:
        tensor: the result of layers.

    Raises:
        ValueError: it is no symbolic tensor.

    Example:
        >>> x = tk.Input((4,))
        >>> len(tk.utils.get_source_inputs(tk.layers.Dense(2)(x)))
        1
    """
    inputs: dict[int, KerasTensor] = {}
    waiting, visited = _check([tensor], "tensor"), set()
    while waiting:
        x = waiting.pop()
        if id(x) in visited or x.node is None:
            continue
        visited.add(id(x))
        if isinstance(x.node.operation, InputLayer):
            inputs[id(x)] = x
        waiting += reversed(x.node.inputs)
    return list(inputs.values())


def graph_as_table(graph: FunctionalGraph) -> tuple[Any, ...]:
    """A graph as symbols by number: inputs, outputs, and each call with what it was given."""
    numbers: dict[int, _Place] = {}

    def place(x: Any) -> Any:
        if not isinstance(x, KerasTensor):
            return x
        return numbers.setdefault(id(x), _Place(len(numbers), tuple(x.shape), x.dtype.name, x.name))

    calls = [
        (n.operation, *(nest.map_structure(place, x) for x in (n.args, n.kwargs, n.outputs)))
        for n in graph.nodes
    ]
    ends = [nest.map_structure(place, x) for x in (graph.inputs, graph.outputs)]
    return (type(graph), ends, calls, [x.node.operation for x in graph.flat_inputs])


class _Place(NamedTuple):
    number: int
    shape: tuple[Any, ...]
    dtype: str
    name: str


def table_as_graph(
    kind: type[FunctionalGraph], ends: Any, calls: Any, starts: Any
) -> FunctionalGraph:
    """What `graph_as_table` described; its layers know their symbolic inputs and outputs."""
    symbols: dict[int, KerasTensor] = {}

    def symbol(x: Any) -> Any:
        if not isinstance(x, _Place):
            return x
        return symbols.setdefault(x.number, KerasTensor(x.shape, x.dtype, name=x.name))

    for operation, *parts in calls:
        args, kwargs, outputs = (_substitute(part, symbol) for part in parts)
        node_of(operation, args, kwargs, outputs)
    inputs, outputs = (_substitute(part, symbol) for part in ends)
    for layer, x in zip(starts, nest.flatten(inputs), strict=True):
        if x.node is None:  # an input that no output depends on
            node_of(layer, (), {}, x)
    graph = kind.__new__(kind)
    graph._set(inputs, outputs)
    return graph


def _substitute(structure: Any, symbol: Callable[[Any], Any]) -> Any:
    """A nest with its places, which are tuples themselves, replaced by symbols."""
    if isinstance(structure, _Place) or not nest.is_nested(structure):
        return symbol(structure)
    if isinstance(structure, dict):
        return {key: _substitute(value, symbol) for key, value in structure.items()}
    items = [_substitute(item, symbol) for item in structure]
    if hasattr(structure, "_fields"):
        return type(structure)(*items)
    return items if isinstance(structure, list) else tuple(items)


class _NodeRun:
    """One node, ready to run on values by the `id` of their symbols.

    Attributes:
        sources: the ids of what it reads.
        last_of: those that no later node reads.
    """

    def __init__(self, node: CallNode) -> None:
        self.node, self.layer = node, node.operation
        arguments = nest.flatten((node.args, node.kwargs))
        self.sources = {id(x) for x in arguments if isinstance(x, KerasTensor)}
        self.last_of: list[int] = []
        plain = len(node.args) == 1 and not node.kwargs and isinstance(node.args[0], KerasTensor)
        self.source = id(node.args[0]) if plain else None
        self.target = id(node.outputs) if isinstance(node.outputs, KerasTensor) else None

    def run(self, values: dict[int, Any], layer: Any = None, call: Any = None) -> None:
        layer = self.layer if layer is None else layer
        if self.source is not None and call is None:
            y = layer(values[self.source])
        else:
            args = nest.map_structure(lambda x: _value(x, values), self.node.args)
            kwargs = nest.map_structure(lambda x: _value(x, values), self.node.kwargs)
            y = layer(*args, **kwargs) if call is None else call(layer, *args, **kwargs)
        if self.target is not None:
            values[self.target] = y
            return
        for symbol, part in zip(nest.flatten(self.node.outputs), nest.flatten(y), strict=True):
            values[id(symbol)] = part


def _value(x: Any, values: dict[int, Any]) -> Any:
    return values[id(x)] if isinstance(x, KerasTensor) else x


def _check(symbols: Any, argument: str) -> list[KerasTensor]:
    flat = nest.flatten(symbols)
    for x in flat:
        if not isinstance(x, KerasTensor):
            raise ValueError(
                f"Model({argument}=...) takes symbolic tensors, made by Input and by calling "
                f"layers on them; "
                f"got {x!r}"
            )
    if not flat:
        raise ValueError(f"Model({argument}=...) needs at least one symbolic tensor")
    return flat


def _from_inputs(inputs: Any, outputs: Any) -> tuple[Any, Any]:
    """The nests, drawn anew if they do not begin at the symbols of input layers."""
    flat = nest.flatten(inputs)
    if all(x.node is not None and isinstance(x.node.operation, InputLayer) for x in flat):
        return inputs, outputs
    traversal = _CallTraversal({id(x) for x in flat})
    for x in nest.flatten(outputs):
        traversal.visit(x)
    new: dict[int, KerasTensor] = {}
    for x in flat:
        enters = x.node is not None and isinstance(x.node.operation, InputLayer)
        new[id(x)] = x if enters else _entrance(x)

    def swapped(x: Any) -> Any:
        return new.get(id(x), x) if isinstance(x, KerasTensor) else x

    for node in traversal.finished:
        if isinstance(node.operation, InputLayer) or traversal.starts(node):
            continue
        args, kwargs = (nest.map_structure(swapped, x) for x in (node.args, node.kwargs))
        results = nest.map_structure(_twin, node.outputs)
        node_of(node.operation, args, kwargs, results)
        pairs = zip(nest.flatten(node.outputs), nest.flatten(results), strict=True)
        new.update((id(old), twin) for old, twin in pairs)
    return nest.map_structure(swapped, inputs), nest.map_structure(swapped, outputs)


def _entrance(x: KerasTensor) -> KerasTensor:
    """The symbol of a new input for what `x` stands for."""
    return symbol_of(
        InputLayer(batch_shape=tuple(x.shape), dtype=x.dtype.name, name=unique_name(x.name))
    )


def _twin(x: Any) -> Any:
    return KerasTensor(x.shape, x.dtype.name) if isinstance(x, KerasTensor) else x


class _CallTraversal:
    """A traversal from the outputs: nodes in the order they are finished, layers as met."""

    def __init__(self, input_ids: set[int]) -> None:
        self.given = input_ids
        self.finished: list[CallNode] = []
        self.met: dict[int, int] = {}
        self.done: set[int] = set()
        self.parents: dict[int, list[CallNode]] = {}

    def visit(self, x: KerasTensor) -> None:
        # Without recursion: models may be deeper than Python's stack.
        stack: list[tuple[CallNode, int]] = [(self._node(x), 0)]
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

    def _node(self, x: KerasTensor) -> CallNode:
        if x.node is None:
            raise ValueError(f"{x!r} was not made by Input or a layer, so no model can end in it")
        return x.node

    def _meet(self, node: CallNode) -> None:
        self.met.setdefault(id(node.operation), len(self.met))
        if id(node) in self.parents:
            return
        starts = self.starts(node)
        inputs = [] if starts else node.inputs
        if isinstance(node.operation, InputLayer) and not starts:
            raise ValueError(_not_connected(node))
        if not inputs and not starts:
            raise ValueError(f"layer {node.operation.name!r} has no symbolic input")
        computed = (x for x in inputs if x.node is not None or id(x) not in self.given)
        self.parents[id(node)] = [self._node(x) for x in computed]

    def starts(self, node: CallNode) -> bool:
        """Whether the traversal ends at the results of this node, which are given."""
        return any(id(y) in self.given for y in nest.flatten(node.outputs))


def _not_connected(node: CallNode) -> str:
    return (
        f"the outputs depend on the Input {node.operation.name!r}, which is not among the inputs "
        f"of the "
        "model; add it to inputs="
    )


def _order(
    inputs: list[KerasTensor], outputs: list[KerasTensor]
) -> tuple[list[CallNode], list[Layer]]:
    """The nodes in an order in which they can run, and the layers in Keras's order."""
    traversal = _CallTraversal({id(x) for x in inputs})
    for x in outputs:
        if id(x.node) not in traversal.done and x.node is not None and _is_open_input(x, traversal):
            raise ValueError(_not_connected(x.node))
        traversal.visit(x)
    depth: dict[int, int] = {}
    layer_depth: dict[int, int] = {}
    for node in reversed(traversal.finished):
        own = max(depth.get(id(node), 0), layer_depth.get(id(node.operation), 0))
        depth[id(node)] = layer_depth[id(node.operation)] = own
        for parent in traversal.parents[id(node)]:
            depth[id(parent)] = max(own + 1, depth.get(id(parent), 0))
    layers = {id(node.operation): node.operation for node in traversal.finished}
    for x in inputs:  # inputs that no output depends on
        if x.node is not None and id(x.node.operation) not in layers:
            layers[id(x.node.operation)] = x.node.operation
            layer_depth[id(x.node.operation)], traversal.met[id(x.node.operation)] = 0, -1
    order = sorted(layers.values(), key=lambda op: (-layer_depth[id(op)], traversal.met[id(op)]))
    return traversal.finished, order


def _is_open_input(x: KerasTensor, traversal: _CallTraversal) -> bool:
    node = x.node
    is_input = id(x) in traversal.given
    return node is not None and isinstance(node.operation, InputLayer) and not is_input


def _check_names(layers: list[Layer]) -> None:
    counts = Counter(layer.name for layer in layers)
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        raise ValueError(f"layers of one model need different names; {twice[0]!r} is there twice")
