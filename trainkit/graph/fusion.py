"""Fusion: chains of element-wise operations become one loop over memory, compiled by Numba.

Only operations that are rounded exactly (arithmetic, square root, comparison, selection, casts
between floats)
are fused, in the order in which they stand, so a fused graph gives the same bits as an interpreted
one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.graph.graph import Graph, GraphTensor, Node, needed_nodes
from trainkit.graph.passes import copied, finished, rebuilt_frame, source_copied

# Primitive name -> the expression over its inputs, in the syntax that Numba compiles.
_EXPRESSIONS: dict[str, str] = {
    "add": "({0} + {1})",
    "subtract": "({0} - {1})",
    "multiply": "({0} * {1})",
    "divide": "({0} / {1})",
    "negative": "(-{0})",
    "square": "({0} * {0})",
    "sqrt": "np.sqrt({0})",
    "absolute": "abs({0})",
    "relu": "({0} if {0} > zero else ({0} if {0} != {0} else zero))",
    "identity": "{0}",
}
_SMALLEST = 2


class FusedKernel:
    """A group of operations as one kernel: what a `fused` node calls.

    Attributes:
        source: the text of the loop.
        outputs: how many results it gives.
    """

    name = "fused"
    effect = False
    is_ufunc = False
    gpu = None
    rules = None
    joint = None
    floats_only = False

    def __init__(
        self, source: str, shape: tuple[int, ...], dtype: Any, kinds: str, outputs: int
    ) -> None:
        self.source = source
        self.shape = shape
        self.dtype = dtype
        self.kinds = kinds
        self.outputs = outputs
        self._size = int(np.prod(shape))
        self._loop: Callable[..., None] | None = None

    def compile(self) -> Callable[..., None]:
        """The compiled loop; from the cache on disk where an earlier process left it."""
        if self._loop is None:
            from trainkit.kernels.generated import compiled_function

            self._loop = compiled_function(self.source, "loop")
        return self._loop

    def kernel(self, xp: Any, *arrays: Any) -> tuple[Any, ...]:
        """Run the loop; results are new arrays."""
        loop = self._loop or self.compile()
        number = self.dtype.type
        outs = [np.empty(self._size, self.dtype) for _ in range(self.outputs)]
        given = [
            number(x)
            if kind == "s"
            else (x if x.flags.c_contiguous else np.ascontiguousarray(x)).ravel()
            for x, kind in zip(arrays, self.kinds, strict=True)
        ]
        loop(*given, *outs)
        shape = self.shape
        return tuple([out.reshape(shape) for out in outs])

    def explained(self, error: Exception, inputs: Any, settings: Any) -> Exception:
        """The error itself: the operations inside can't fail on shapes that were checked."""
        return error

    def run(self, arrays: Any, settings: Any) -> Any:
        """The results on arrays."""
        return self.kernel(np, *arrays)


def _kind(x: Any, shape: tuple[int, ...], dtype: Any) -> str | None:
    """How an input is read: whole "w", row by row "r", or one number "s"; `None` if it can't be."""
    if isinstance(x, int | float) and not isinstance(x, bool):
        return "s"
    if not isinstance(x, GraphTensor) or x.dtype != dtype or None in tuple(x.shape):
        return None
    dims = tuple(x.shape)
    if dims == shape:
        return "w"
    if dims == ():
        return "s"
    if len(dims) <= len(shape) and dims == shape[len(shape) - len(dims) :]:
        return "r"
    return None


def _fusible(node: Node) -> bool:
    if node.kind != "op" or node.primitive.name not in _EXPRESSIONS or node.settings:
        return False
    y = node.outputs[0]
    shape = tuple(y.shape)
    if None in shape or not shape or y.dtype.name not in ("float32", "float64"):
        return False
    return all(_kind(x, shape, y.dtype) is not None for x in node.inputs)


def _groups(nodes: list[Node]) -> dict[Node, list[Node]]:
    """The group of each node that is fused, members in order.

    Groups don't depend on one another in a circle, so each can be run as a whole.
    """
    index = {node: i for i, node in enumerate(nodes)}
    unit_of: dict[Node, list[Node]] = {}
    for node in nodes:
        unit_of[node] = [node]
        if not _fusible(node):
            continue
        spec = node.outputs[0]._spec
        for source in _sources(node):
            mine, other = unit_of[node], unit_of[source]
            fits = other is not mine and _fusible(other[0]) and other[0].outputs[0]._spec == spec
            if fits and not _makes_circle(mine + other, unit_of, index):
                joined = sorted(mine + other, key=index.__getitem__)
                for member in joined:
                    unit_of[member] = joined
    return {node: unit for node, unit in unit_of.items() if len(unit) >= _SMALLEST}


def _sources(node: Node) -> list[Node]:
    return [x.node for x in node.inputs if isinstance(x, GraphTensor)]


def _makes_circle(
    members: list[Node], unit_of: dict[Node, list[Node]], index: dict[Node, int]
) -> bool:
    """Whether a way from one member to another leads through a node that is none."""
    inside = set(members)
    first = min(index[node] for node in members)
    seen: set[int] = set()
    stack = [source for node in members for source in _sources(node) if source not in inside]
    while stack:
        node = stack.pop()
        if node in inside:
            return True
        unit = unit_of[node]
        if (
            id(unit) not in seen and index[unit[-1]] > first
        ):  # what is all before can't depend on them
            seen.add(id(unit))
            stack += [source for member in unit for source in _sources(member)]
    return False


def fuse(graph: Graph) -> Graph:
    """Replace groups of element-wise operations by one node each."""
    nodes = needed_nodes(graph)
    groups = _groups(nodes)
    if not groups:
        return graph
    kept = set(graph.outputs) | {slot.now for slot in graph.assigned}
    users: dict[GraphTensor, set[int]] = {}
    for node in nodes:
        for x in node.inputs:
            if isinstance(x, GraphTensor):
                users.setdefault(x, set()).add(id(groups.get(node, node)))
    new, env = rebuilt_frame(graph)
    for node in _schedule(nodes, groups):
        if isinstance(node, list):
            _emit(new, node, env, kept, users)
        elif node.kind == "op":
            inputs = tuple(env[x] if isinstance(x, GraphTensor) else x for x in node.inputs)
            env.update(zip(node.outputs, copied(new, node, inputs), strict=True))
        else:
            env[node.outputs[0]] = source_copied(new, node)
    return finished(graph, new, env)


def _schedule(nodes: list[Node], groups: dict[Node, list[Node]]) -> list[Any]:
    """Nodes and groups in an order in which inputs come first."""
    done: set[Any] = set()
    order: list[Any] = []

    def visit(item: Any) -> None:
        stack = [(item, False)]
        while stack:
            unit, ready = stack.pop()
            key = id(unit)
            if key in done:
                continue
            if ready:
                done.add(key)
                order.append(unit)
                continue
            stack.append((unit, True))
            members = unit if isinstance(unit, list) else [unit]
            for member in reversed(members):
                for x in member.inputs:
                    if isinstance(x, GraphTensor):
                        source = groups.get(x.node, x.node)
                        if id(source) not in done and source is not unit:
                            stack.append((source, False))

    for node in nodes:
        visit(groups.get(node, node))
    return order


def _emit(new: Graph, group: list[Node], env: dict[Any, Any], kept: Any, users: Any) -> None:
    """Add the node of one group to the new graph."""
    members = set(group)
    results = [
        node.outputs[0]
        for node in group
        if node.outputs[0] in kept or users.get(node.outputs[0], set()) - {id(group)}
    ]
    spec = group[0].outputs[0]._spec
    shape, dtype = tuple(spec.shape), spec.dtype
    names: dict[Any, str] = {}
    inputs: list[Any] = []
    kinds = ""
    body = []
    for i, node in enumerate(group):
        given = []
        for x in node.inputs:
            if isinstance(x, GraphTensor) and x.node in members:
                given.append(names[x])
                continue
            key = x if isinstance(x, GraphTensor) else (type(x), x)
            if key not in names:
                kind = _kind(x, shape, dtype)
                assert kind is not None
                names[key] = f"x{len(inputs)}"
                inputs.append(env[x] if isinstance(x, GraphTensor) else x)
                kinds += kind
            given.append(names[key])
        names[node.outputs[0]] = f"y{i}"
        body.append(f"y{i} = {_EXPRESSIONS[node.primitive.name].format(*given)}")
    source = _source(kinds, body, [names[r] for r in results], shape, inputs)
    primitive = FusedKernel(source, shape, np.dtype(dtype.dtype), kinds, len(results))
    made = Node(new, "op", "Fused", tuple(r._spec for r in results), primitive, tuple(inputs), {})
    made.many = True
    made.where = group[-1].where
    new.nodes.append(made)
    env.update(zip(results, made.outputs, strict=True))


def _source(kinds: str, body: list[str], stores: list[str], shape: Any, inputs: list[Any]) -> str:
    """The text of `loop(inputs..., outputs...)` over flat arrays."""
    names = [f"x{i}" if kind == "s" else f"a{i}" for i, kind in enumerate(kinds)]
    outs = [f"o{i}" for i in range(len(stores))]
    rows = sorted({int(np.prod(inputs[i].shape)) for i, kind in enumerate(kinds) if kind == "r"})
    lines = ["import numpy as np", "", "", f"def loop({', '.join(names + outs)}):"]
    lines.append("    zero = o0.dtype.type(0)")
    loads = [
        f"x{i} = a{i}[i]" if kind == "w" else f"x{i} = a{i}[i % {int(np.prod(inputs[i].shape))}]"
        for i, kind in enumerate(kinds)
        if kind != "s"
    ]
    steps = loads + body + [f"o{i}[i] = {name}" for i, name in enumerate(stores)]
    if len(rows) == 1:
        steps = [s.replace(f"[i % {rows[0]}]", "[j]") for s in steps]
        lines += [
            f"    for r in range(o0.size // {rows[0]}):",
            f"        for j in range({rows[0]}):",
        ]
        lines += [f"            i = r * {rows[0]} + j"] + [f"            {s}" for s in steps]
    else:
        lines += ["    for i in range(o0.size):"] + [f"        {s}" for s in steps]
    return "\n".join(lines) + "\n"


def warm(graph: Graph) -> bool:
    """Compile the loops of all fused nodes by running each on zeros.

    Returns:
        False, with a warning, when Numba can't be used here; the graph must not be run then.
    """
    try:
        for node in graph.nodes:
            if node.kind == "op" and isinstance(node.primitive, FusedKernel):
                kernel = node.primitive
                zeros = [_zero(x, kernel.dtype) for x in node.inputs]
                kernel.kernel(np, *zeros)
    except Exception as error:
        warnings.warn(
            f"fused loops can't be compiled here ({type(error).__name__}: {error}); graphs run "
            "without them. "
            "TRAINKIT_JIT=0 turns them off.",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True


def _zero(x: Any, dtype: Any) -> Any:
    return np.zeros(tuple(x.shape), dtype) if isinstance(x, GraphTensor) else x
