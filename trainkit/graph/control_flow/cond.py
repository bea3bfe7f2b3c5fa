"""`cond` as a primitive over graphs.

Branches are graphs of their own. What they use from outside comes in as captures; a variable that
they assign becomes one more result. Gradients are in `cond_vjp`.
"""

from __future__ import annotations

from typing import Any

from trainkit.core.dispatch.facets import CONTROL, NUMBER
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.shapes import Spec
from trainkit.graph.ir.graph import Graph
from trainkit.graph.ir.subgraphs import merged_dims


def _cond_rule(pred: Any, *inputs: Any, true: Graph, false: Graph, split: int) -> tuple[Spec, ...]:
    # Both branches are traced before one is chosen, so a size on which they differ is unknown.
    return tuple(
        Spec(merged_dims(a.shape, b.shape), a.dtype)
        for a, b in zip(true.outputs, false.outputs, strict=True)
    )


@primitive(
    _cond_rule,
    name="cond",
    semantics=CONTROL,
    graph_name="If",
    reads={0: NUMBER},
    bodies=("true", "false"),
    export=True,
)
def cond_primitive(xp: Any, pred: Any, *arrays: Any, true: Graph, false: Graph, split: int) -> Any:
    """Run one of two graphs: `true` on the first `split` arrays, `false` on the others."""
    if bool(pred):
        return tuple(true.program()(list(arrays[:split])))
    return tuple(false.program()(list(arrays[split:])))


# An error of a branch names its own operation and line; `cond` has nothing to add to it.
cond_primitive.primitive.passes_errors = True
