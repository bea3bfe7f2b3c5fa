"""Passes: plain functions from graph to graph, and the list in which they run.

A pass builds a new graph and leaves the old one alone, or gives it back where nothing changes:
copying takes longer than looking. `rebuild` does the copying; a pass says what becomes of each
operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trainkit.core.cpu.cost_model import UNCACHED_BYTES
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.eval_shape import eagerly
from trainkit.core.dispatch.facets import IF_ALIKE, INVOLUTION, UNCHANGED, Unit
from trainkit.core.process.side_work import give_way
from trainkit.graph.ir.assigned_devices import brings_beside
from trainkit.graph.ir.graph import Graph, GraphTensor, Node, VariableSlot, needed_nodes

Visit = Callable[[Graph, Node, tuple[Any, ...]], Any]


def rebuild(graph: Graph, visit: Visit) -> Graph:
    """A copy of the nodes that are needed, each operation replaced by what `visit` gives.

    Args:
        graph: stays as it is.
        visit: function of the new graph, the old node and its new inputs to a tuple of outputs in
            the
            new graph, or `None` to copy the node.
    """
    new, env = rebuilt_frame(graph)
    for node in needed_nodes(graph):
        give_way()
        if node.kind == "op":
            inputs = tuple(env[x] if isinstance(x, GraphTensor) else x for x in node.inputs)
            outputs = visit(new, node, inputs)
            if outputs is None:
                outputs = copied(new, node, inputs)
            env.update(zip(node.outputs, outputs, strict=True))
        else:
            env[node.outputs[0]] = source_copied(new, node)
    return finished(graph, new, env)


def rebuilt_frame(graph: Graph) -> tuple[Graph, dict[GraphTensor, Any]]:
    """A new graph with the inputs of `graph`, and what has become of each tensor so far."""
    new = Graph(graph.name, graph.outer)
    new.jit_compile = graph.jit_compile
    return new, {x: new.add_input(x._spec, x.node.name) for x in graph.inputs}


def source_copied(new: Graph, node: Node) -> GraphTensor:
    """What stands in `new` for a constant or a variable; an input is there already."""
    if node.kind == "constant":
        return new.constant(node.value)
    if node.kind == "variable":
        first: GraphTensor = new.slot_of(node.value).now
        return first
    return new.inputs[place_of(node.outputs[0], node.graph.inputs)]


def place_of(tensor: GraphTensor, tensors: Sequence[GraphTensor]) -> int:
    """Where `tensor` itself is among `tensors`; `list.index` would compare values."""
    return next(i for i, x in enumerate(tensors) if x is tensor)


def finished(graph: Graph, new: Graph, env: dict[GraphTensor, Any]) -> Graph:
    """`new` with the outputs and assignments of `graph`."""
    new.outputs = [env[y] for y in graph.outputs]
    for key, slot in graph.slots.items():
        new_slot = new.slots.get(key)
        if graph.outer is None and (slot.assigned or slot.stored or new_slot is not None):
            if new_slot is None:
                new_slot = new.slots[key] = VariableSlot(slot.variable, slot.first)
            new_slot.assigned, new_slot.stored = slot.assigned, slot.stored
            if slot.assigned:
                new_slot.now = env[slot.now]
    return new


def copied(new: Graph, node: Node, inputs: tuple[Any, ...]) -> tuple[GraphTensor, ...]:
    """The outputs of a copy of `node` in the graph `new`."""
    twin = Node(
        new,
        "op",
        node.name,
        tuple(y._spec for y in node.outputs),
        node.primitive,
        inputs,
        node.settings,
    )
    twin.many, twin.where = node.many, node.where
    new.nodes.append(twin)
    return twin.outputs


def prune(graph: Graph) -> Graph:
    """Leave out what no output, assignment or effect needs."""
    if len(needed_nodes(graph)) == len(graph.nodes):
        return graph
    return rebuild(graph, lambda new, node, inputs: None)


MOST_CONSTANT_BYTES = UNCACHED_BYTES
"""Larger constants are better computed than stored."""


def fold_constants(graph: Graph) -> Graph:
    """Compute what depends on constants alone."""
    return rebuild(graph, _fold)


def _fold(new: Graph, node: Node, inputs: tuple[Any, ...]) -> Any:
    """The results of a call of constants as constants, else `None`."""
    if not may_be_folded(node):
        return None
    if any(isinstance(x, GraphTensor) and x.node.kind != "constant" for x in inputs):
        return None
    values = [x.node.value if isinstance(x, GraphTensor) else x for x in inputs]
    try:
        with eagerly(), trace_state.silence():
            result = node.primitive.op(*values, **node.settings)
    except Exception:  # the error belongs to the run, where it names the user's line
        return None
    results = result if node.many else (result,)
    if sum(r.nbytes for r in results) > MOST_CONSTANT_BYTES:
        return None
    return tuple(new.constant(r) for r in results)


def may_be_folded(node: Node) -> bool:
    """Whether the results of an operation follow from its inputs, and are the same at each run."""
    if not node.inputs or node.effect or node.subgraphs():
        return False
    # draws of each replica's own rows
    return not getattr(node.settings.get("rows"), "moves", False)


def share(graph: Graph) -> Graph:
    """Compute equal calls once."""
    return rebuild(graph, _make_sharing())


def _make_sharing() -> Visit:
    """A visit that gives equal calls the results of the first of them."""
    results_by_call: dict[Any, tuple[GraphTensor, ...]] = {}

    def visit(new: Graph, node: Node, inputs: tuple[Any, ...]) -> Any:
        if node.effect or node.subgraphs():
            return None
        key_inputs = tuple(x if isinstance(x, GraphTensor) else (type(x), repr(x)) for x in inputs)
        try:
            key = (node.primitive, key_inputs, frozenset(node.settings.items()))
            outputs = results_by_call.get(key)
        except TypeError:  # a setting that can't be hashed
            return None
        if outputs is None:
            outputs = results_by_call[key] = copied(new, node, inputs)
        return outputs

    return visit


def simplify(graph: Graph) -> Graph:
    """Take out calls that change nothing: identity, a cast to what is there, * 1, - - x."""
    return _without(_simpler, graph)


def simplify_for_gradients(graph: Graph) -> Graph:
    """As `simplify`, but what has another gradient than the identity stays."""
    return _without(_simpler_for_gradients, graph)


def _without(simpler: Callable[[Node, tuple[Any, ...]], Any], graph: Graph) -> Graph:
    """`graph` with what is simpler; the first such call has no other one before it."""
    if not any(node.kind == "op" and simpler(node, node.inputs) for node in graph.nodes):
        return graph
    return rebuild(graph, lambda new, node, inputs: simpler(node, inputs))


def reduce(graph: Graph) -> Graph:
    """`prune`, `simplify`, `fold_constants` and `share` in one copy."""
    return rebuild(graph, _make_reducing(_simpler))


def reduce_for_gradients(graph: Graph) -> Graph:
    """As `reduce`, but what has another gradient than the identity stays."""
    return rebuild(graph, _make_reducing(_simpler_for_gradients))


def _make_reducing(simpler: Callable[[Node, tuple[Any, ...]], Any]) -> Visit:
    shared = _make_sharing()

    def visit(new: Graph, node: Node, inputs: tuple[Any, ...]) -> Any:
        replacement = simpler(node, inputs)
        if replacement is None:
            replacement = _fold(new, node, inputs)
        return shared(new, node, inputs) if replacement is None else replacement

    return visit


def _simpler(node: Node, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """What stands for the results of a call that changes nothing, else `None`."""
    facet, replacement = node.primitive.facets.simplify, None
    if type(facet) is Unit:
        replacement = _without_unit(facet, node, inputs)
    elif facet == INVOLUTION:
        replacement = _undone(node, inputs)
    elif facet == UNCHANGED or (facet == IF_ALIKE and _is_alike(node, inputs)):
        replacement = inputs[0]
    return None if replacement is None else (replacement,)


def _simpler_for_gradients(node: Node, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
    replacement = _simpler(node, inputs)
    stops = not node.primitive.facets.vjp
    return (
        None if replacement and stops and node.outputs[0].dtype.is_differentiable else replacement
    )


def _is_alike(node: Node, inputs: tuple[Any, ...]) -> bool:
    x, y = inputs[0], node.outputs[0]
    return None not in tuple(x.shape) and x._spec == y._spec


def _without_unit(unit: Unit, node: Node, inputs: tuple[Any, ...]) -> Any:
    """The other input where one is the neutral Python number, or scalar constant."""
    if unit.integers and not node.outputs[0].dtype.is_integer:
        return None
    for position in unit.places:
        other, x = inputs[position], inputs[1 - position]
        if isinstance(x, GraphTensor) and _is_number(other, unit.value):
            if x._spec == node.outputs[0]._spec:
                return x
    return None


def _is_number(x: Any, value: float) -> bool:
    if isinstance(x, GraphTensor):
        if x.node.kind != "constant" or tuple(x.shape) != ():
            return False
        return bool(x.node.value._array == value)
    return type(x) in (int, float) and x == value


def _undone(node: Node, inputs: tuple[Any, ...]) -> Any:
    """The input of the same call before this one."""
    inner = inputs[0].node
    same = inner.kind == "op" and inner.primitive is node.primitive
    return inner.inputs[0] if same and inner.settings == node.settings else None


def merge_calls(graph: Graph) -> Graph:
    """Let a loop or a choice that keeps more stand for the one that it was made from.

    Both must have the same inputs. Where one of them prints or asserts, what stands for both does.
    """
    fullest = _fullest(graph)
    if not fullest:
        return graph
    merged: dict[Node, tuple[GraphTensor, ...]] = {}
    effective = {best for node, best in fullest.items() if node.effect}

    def visit(new: Graph, node: Node, inputs: tuple[Any, ...]) -> Any:
        best = fullest.get(node)
        if best is None:
            return None
        if best not in merged:
            merged[best] = copied(new, best, inputs)
            if best in effective:
                merged[best][0].node.settings = _with_effects(best.settings)
        results, n = merged[best], len(node.outputs)
        counts = node is not best and node.settings.get("stacked") is not None
        return (*results[: n - 1], results[-1]) if counts else results[:n]

    return rebuild(graph, visit)


def _fullest(graph: Graph) -> dict[Node, Node]:
    """For calls that share inputs and what they were made from, the one that keeps most."""
    groups: dict[Any, list[Node]] = {}
    for node in graph.nodes:
        if node.kind == "op" and node.primitive.facets.bodies:
            groups.setdefault((node.primitive, node.inputs), []).append(node)
    fullest: dict[Node, Node] = {}
    for nodes in groups.values():
        for node in nodes:
            above = [other for other in nodes if _extends(other, node)]
            count = max(len(other.outputs) for other in above)
            best = [other for other in above if len(other.outputs) == count][-1]
            if best is not node:
                fullest[node] = fullest[best] = best
    return fullest


def _extends(more: Node, node: Node) -> bool:
    """Whether `more` gives all that `node` gives, and then what gradients need."""
    names = node.primitive.facets.bodies
    return all(_is_made_from(more.settings[name], node.settings[name]) for name in names)


def _is_made_from(more: Graph, body: Graph) -> bool:
    graph: Graph | None = more
    while graph is not None:
        if graph is body:
            return True
        graph = graph.made_by.base if graph.made_by is not None else None
    return False


def _with_effects(settings: dict[str, Any]) -> dict[str, Any]:
    """`settings` with graphs that print and assert in place of those made without."""
    return {
        name: getattr(value.made_by, "with_effects", value) if isinstance(value, Graph) else value
        for name, value in settings.items()
    }


def without_copies(graph: Graph) -> Graph:
    """`graph` for arrays of one device, where no value need be brought beside another one."""
    if not any(map(brings_beside, graph.nodes)):
        return graph
    return rebuild(graph, lambda new, node, inputs: (inputs[0],) if brings_beside(node) else None)


PASSES: list[Callable[[Graph], Graph]] = [reduce, merge_calls, simplify, prune]


# For graphs that may be differentiated again.
BEFORE_GRADIENTS: list[Callable[[Graph], Graph]] = [
    reduce_for_gradients,
    merge_calls,
    simplify_for_gradients,
    prune,
]


def optimised(graph: Graph, passes: list[Callable[[Graph], Graph]] = PASSES) -> Graph:
    """`graph` after all passes."""
    for run in passes:
        graph = run(graph)
    return graph
