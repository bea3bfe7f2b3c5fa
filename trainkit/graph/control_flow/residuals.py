"""A body and its backward pass in one graph, taken apart: which half computes what.

What the backward pass uses of the forward pass is kept, so that nothing is computed twice, but for
what is cheaper to compute again than to keep.
"""

from __future__ import annotations

from typing import Any

from trainkit.core import devices
from trainkit.core.dispatch.facets import SHAPE
from trainkit.core.tensor import wrap
from trainkit.graph.ir.graph import Graph, GraphTensor, Node
from trainkit.graph.ir.passes import copied, rebuild


def dependencies(graph: Graph) -> list[int]:
    """For each output a set of the inputs that it has a gradient by, as the bits of an int."""
    # Ints as sets: a union is one operation, also for the hundreds of inputs of a large model.
    masks: dict[GraphTensor, int] = {
        x: 1 << i if x.dtype.is_differentiable else 0 for i, x in enumerate(graph.inputs)
    }
    for node in graph.nodes:
        # Tapes do not record the others, so no gradient goes through: their results have no bit.
        if node.kind == "op" and node.primitive.recorded:
            mask = 0
            for x in node.inputs:
                if isinstance(x, GraphTensor):
                    mask |= masks.get(x, 0)
            for y in node.outputs:
                masks[y] = mask if y.dtype.is_differentiable else 0
    return [masks.get(y, 0) for y in graph.outputs]


class Split:
    """The joint graph, split into the forward and the backward pass.

    Args:
        joint: the graph.
        count: how many of its inputs are loop variables.
        fed: how many after them are rows, or captures that the backward pass can have as they are.
        inputs: how many inputs belong to the forward pass; those behind are upstream gradients.
        there: the operations that the forward pass needs itself. Others are left to the backward
            pass, whatever they depend on; by default those that no upstream gradient comes into
            belong to the forward pass.

    Attributes:
        used: tensors of the forward pass that the backward pass takes as they are.
    """

    def __init__(
        self, joint: Graph, count: int, fed: int, inputs: int, there: set[Node] | None = None
    ) -> None:
        self.joint = joint
        self._there = there
        self.used: set[GraphTensor] = set()
        self._late: set[Node] = {x.node for x in joint.inputs[inputs:]}
        self._varies: set[Node] = {x.node for x in joint.inputs[: count + fed]}
        self._rows = set(joint.inputs[count : count + fed])
        # In the order of nodes, inputs come before their users, so one pass is enough.
        for node in joint.nodes:
            sources = [x.node for x in node.inputs if isinstance(x, GraphTensor)]
            if not self._late.isdisjoint(sources):
                self._late.add(node)
            elif not self._varies.isdisjoint(sources):
                self._varies.add(node)
        self._copy: dict[Node, None] = {}
        self._kept: dict[GraphTensor, None] = {}

    def kept(self, grads: list[GraphTensor], recompute: bool = True) -> list[GraphTensor]:
        """The tensors that the body must give for the backward pass to compute `grads`.

        Args:
            grads: outputs of the joint graph.
            recompute: what is cheap to compute again is not kept.
        """
        for y in grads:
            self._require(y)
        if recompute:
            self._leave_out_cheap()
        return list(self._kept)

    def _require(self, x: GraphTensor) -> None:
        """Make sure that the backward pass has `x`."""
        node = x.node
        if node in self._copy or x in self._kept or node.kind == "constant":
            return
        if node.kind != "op":
            self.used.add(x)
            if node in self._varies and x not in self._rows:
                self._kept[x] = None
        # An operation that is computed again needs its own inputs, and so on. The search ends
        # at results that are kept.
        elif self._again(node):
            self._copy[node] = None
            for source in self._values_of(node):
                self._require(source)
        else:
            self._kept[x] = None

    def _again(self, node: Node) -> bool:
        """Whether the backward pass computes `node` itself."""
        if node in self._late or (self._there is not None and node not in self._there):
            return True
        # An effect happens in the forward pass alone.
        if node.effect:
            return False
        # The same in all rounds: a stack of it would hold as many equal rows.
        if node not in self._varies:
            return True
        # A view costs nothing, and neither does what only reads shapes.
        return node.primitive.facets.recompute == "free" or not self._values_of(node)

    @staticmethod
    def _values_of(node: Node) -> list[GraphTensor]:
        """The inputs whose values count, not their shapes alone."""
        # Where only the shape is read and it is known, no value has to outlive the round for it.
        reads = node.primitive.facets.reads
        return [
            x
            for i, x in enumerate(node.inputs)
            if isinstance(x, GraphTensor)
            and not (reads.get(i) == SHAPE and None not in tuple(x.shape))
        ]

    def _leave_out_cheap(self) -> None:
        """Compute again what is cheap and made of what is there."""
        # One at a time: what stays kept is what the next one may be computed from.
        for x in reversed(list(self._kept)):
            node = x.node
            if node.kind != "op" or node.primitive.facets.recompute == "costly":
                continue
            if all(self._is_there(source, x) for source in self._values_of(node)):
                del self._kept[x]
                self._copy[node] = None

    def _is_there(self, x: GraphTensor, but: GraphTensor) -> bool:
        if x is but:
            return False
        return (
            x in self._kept or x in self.used or x.node in self._copy or (x.node.kind == "constant")
        )

    def copy_into(self, back: Graph, env: dict[Any, Any]) -> None:
        """Add to `back` what it computes; `env` tells what stands for tensors in it so far."""
        for node in self.joint.nodes:
            if node.kind == "constant":
                env[node.outputs[0]] = back.constant(node.value)
            elif node in self._copy:
                values = set(self._values_of(node))
                inputs = tuple(
                    (env[x] if x in values else back.constant(_stand_in(x)))
                    if isinstance(x, GraphTensor)
                    else x
                    for x in node.inputs
                )
                for y, twin in zip(node.outputs, copied(back, node, inputs), strict=True):
                    # One of several results may have been kept, and is there already.
                    env.setdefault(y, twin)


def _stand_in(x: GraphTensor) -> Any:
    """A tensor of the shape and dtype of `x` that takes no memory, for those who ask no more."""
    # On the device of the values that it meets, as operations refuse arrays of two devices.
    xp = devices.current().xp
    return wrap(xp.broadcast_to(xp.zeros((), x.dtype.dtype), tuple(x.shape)))


# ---------------------------------------------------------------------- effects


def quiet(graph: Graph) -> Graph:
    """`graph` without prints and assertions, also in its parts; itself if there are none."""
    if not any(node.effect for node in graph.nodes):
        return graph
    part = Graph(graph.name)
    # What has results is a call of Python, whose values the graph goes on with.
    part.nodes = [node for node in graph.nodes if node.outputs or not node.effect]
    part.inputs, part.outputs = graph.inputs, graph.outputs
    return rebuild(part, _quieter)


def _quieter(new: Graph, node: Node, inputs: tuple[Any, ...]) -> Any:
    if not node.subgraphs():
        return None
    outputs = copied(new, node, inputs)
    # The copy shares its settings with the node that it was made from, so they are replaced.
    outputs[0].node.settings = {
        k: quiet(v) if isinstance(v, Graph) else v for k, v in node.settings.items()
    }
    return outputs
