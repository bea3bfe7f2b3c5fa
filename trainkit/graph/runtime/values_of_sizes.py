"""What a program computes of sizes alone: once for each choice of sizes that calls have.

A function of a batch asks how many rows there are, divides by them, and makes a state of zeros for
each. With sizes that are written down all of it is constants. Where a program serves a range of
sizes, sizes of arrays inside are a·n + b as well, and what follows from them stays for the next
call with the same n.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from trainkit.compiler.ir import Unsupported
from trainkit.compiler.sizes import python_text
from trainkit.core.dispatch.facets import ASKED, WHOLE_KERNEL, Absent, Semantics
from trainkit.core.dispatch.known_sizes import known_results
from trainkit.graph.ir.graph import Graph, GraphTensor, Node
from trainkit.graph.ir.passes import MOST_CONSTANT_BYTES, may_be_folded
from trainkit.graph.runtime.joined_normalization import JoinedOperation

if TYPE_CHECKING:
    from trainkit.compiler.generalized import Generalizer

Array = Any

MOST_CHOICES = 64
"""Choices of sizes whose values stay; for one more all are made anew."""

_SEMANTICS = Semantics(
    "values of sizes alone",
    memory="view",  # they are there for the next call
    batch=Absent("graphs that are batched are not fused yet"),
    stackable=Absent("functions of datasets are not fused"),
    lowering=WHOLE_KERNEL,
    export=Absent("graphs are saved before they are fused"),
)


def _shape_rule(*inputs: Any, **settings: Any) -> Any:
    raise NotImplementedError("a node of sizes has the spec of the node that it stands for")


OF_SIZES = JoinedOperation("of_sizes", None, _shape_rule, semantics=_SEMANTICS)
"""Gives an array of sizes, or one of an unknown size that holds one number throughout.

A program writes it out, as it alone knows the sizes of a call. Settings: `numbers`, the sizes in a
row, and their `shape`; or `filled`, that number as an array, and the unknown `shape`.
"""


class ValuesOfSizes(dict[Any, tuple[Array, ...]]):
    """Arrays by the sizes that they follow from; nobody may write to them."""

    def __init__(self, compute: Callable[..., tuple[Array, ...]]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, sizes: Any) -> tuple[Array, ...]:
        values = self._compute(*sizes) if isinstance(sizes, tuple) else self._compute(sizes)
        if sum(value.nbytes for value in values) <= MOST_CONSTANT_BYTES:
            if len(self) >= MOST_CHOICES:
                self.clear()
            self[sizes] = values
        return values


def text_of(node: Node, name: str) -> tuple[str, Any]:
    """A Python expression of what a node of sizes gives, and what `name` stands for in it."""
    shape, filled = node.settings["shape"], node.settings.get("filled")
    dims = "".join(f"{python_text(n)}, " for n in shape)
    if filled is not None:
        return f"np.full(({dims}), {name})", filled
    numbers = ", ".join(map(python_text, node.settings["numbers"]))
    return f"np.array(({numbers},), {name}).reshape(({dims}))", node.outputs[0].dtype.dtype


def settings_of(nodes: Sequence[Node], merge: Generalizer) -> dict[str, Any] | None:
    """The settings of a node of sizes that stands for one at each point, `None` for any other node.

    Args:
        nodes: the same node of a graph at each point.
        merge: finds what numbers at these points have in common.

    Raises:
        Unsupported: numbers are not a·n + b.
    """
    node = nodes[0]
    if node.kind == "constant":
        arrays = [n.value._array for n in nodes]
        if all(array.shape == arrays[0].shape for array in arrays):
            return None
        filled = arrays[0].reshape(-1)[0]
        return {"filled": filled, "shape": merge.shape([array.shape for array in arrays])}
    if node.kind != "op" or getattr(node.primitive.facets, "sizes", None) != ASKED:
        return None
    answers = [known_results(n.primitive, n.inputs, n.settings) for n in nodes]
    if any(one is None or one.unknown.any() for one in answers):
        return None
    rows = [[int(n) for n in one.values.reshape(-1)] for one in answers]
    if not rows[0]:
        return None
    numbers = tuple(merge.number(column) for column in zip(*rows, strict=True))
    return {"numbers": numbers, "shape": answers[0].values.shape}


def of_sizes(operations: Sequence[Node], results: Collection[GraphTensor]) -> list[Node]:
    """The operations that follow from sizes and constants alone, and are no results.

    Args:
        operations: of a graph, inputs before what reads them.
        results: what leaves the graph.
    """
    returned = set(results)
    nodes: dict[Node, None] = {}
    for node in operations:
        if any(y in returned for y in node.outputs):
            continue
        if node.primitive is OF_SIZES or _follows(node, nodes):
            nodes[node] = None
    return list(nodes)


def _follows(node: Node, nodes: dict[Node, None]) -> bool:
    sources = [x.node for x in node.inputs if isinstance(x, GraphTensor)]
    return (
        may_be_folded(node)
        and any(source in nodes for source in sources)
        and all(source in nodes or source.kind == "constant" for source in sources)
    )


def exact_settings(graph: Graph, merge: Generalizer) -> dict[Node, dict[str, Any]]:
    """For nodes of a graph of known sizes that ask for these the settings of nodes of sizes."""
    settings_by_node = {}
    for node in graph.nodes:
        try:
            settings = settings_of([node], merge)
        except Unsupported:
            continue
        if settings is not None:
            settings_by_node[node] = settings
    return settings_by_node
