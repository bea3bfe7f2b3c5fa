"""Loops over `range(n)` that take and write row i of something: fed with rows, rows stacked.

`x[i]` in the body, where i counts the rounds, becomes a row that the loop is fed with, and
`array.write(i, y)` a result that the loop stacks. So nothing is searched or copied in each round,
and gradients of these are rows too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.dispatch import late_ops
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor
from trainkit.graph.ir.graph import Graph, GraphTensor, Node
from trainkit.graph.ir.passes import place_of, rebuild


class RowPlan:
    """A loop's body by rows, if that can be.

    Attributes:
        graph: the body.
        stacks: what the loop is fed with.
        captures: what the body uses of the graph around.
        written: loop variables that are results now, as `{place: number among the results}`.
    """

    def __init__(self, graph: Graph, count: int, stacks: list[Any], steps: Any) -> None:
        self.graph = graph
        self.stacks = list(stacks)
        self.captures = list(graph.captures)
        self.written: dict[int, int] = {}
        self._count = count
        rows = graph.inputs[count : count + len(stacks)]
        # Only 0, 1, 2 ... makes `x[i]` the row that a scan feeds in round i.
        self._counters = {row for row, x in zip(rows, stacks, strict=True) if _counts(x, steps)}
        self._steps = steps
        self._users = _users(graph)

    def apply(self, movable: int) -> None:
        """Change the body; of the loop variables the first `movable` may become results."""
        if not self._counters:
            return
        self._feed()
        # Variables of the graph come behind these, and are loop variables whatever the body does.
        for position in range(movable):
            if self._is_written(position):
                self.written[position] = 0
        self._stack()

    # ------------------------------------------------------------------ rows that are taken

    def _feed(self) -> None:
        outside: dict[Any, Any] = {inner: x for x, inner in self.graph.captures.items()}
        sources: dict[GraphTensor, Any] = {}
        for node in self.graph.nodes:
            x = self._row_of(node)
            # A constant is a node of the body itself; all else that is no loop variable is a
            # capture, whose tensor in the graph around is what the loop is fed with.
            if x is not None and x.node.kind == "constant":
                sources[x] = x.node.value
            elif x in outside:
                sources[x] = outside[x]
        if not sources:
            return
        rows: dict[GraphTensor, GraphTensor] = {}
        graph, first = self.graph, self._count + len(self.stacks)
        for inner, x in sources.items():
            spec = late_ops.get_item.primitive.shape_rule(inner._spec, key=(0,))
            rows[inner] = graph.add_input(spec, inner.node.name)
            # A body takes loop variables, then rows, then captures.
            graph.inputs.insert(first, graph.inputs.pop())
            first += 1
            self.stacks.append(_first_rows(x, self._steps))

        def visit(new: Graph, node: Node, inputs: tuple[Any, ...]) -> Any:
            x = self._row_of(node)
            return (new.inputs[place_of(rows[x], graph.inputs)],) if x in rows else None

        self._rebuilt(visit)

    def _row_of(self, node: Node) -> Any:
        """The tensor of which `node` takes the row of the round, or `None`."""
        if node.kind != "op" or len(node.inputs) != 2 or node.inputs[1] not in self._counters:
            return None
        if _use_of_row(node) != "read":
            return None
        x = node.inputs[0]
        long_enough = isinstance(x, GraphTensor) and x.shape[0] is not None
        # A shorter tensor has to fail in the round that asks for a row behind its end.
        return x if long_enough and x.shape[0] >= self._steps else None

    def _rebuilt(self, visit: Any) -> None:
        """Take the rebuilt body, and know its inputs by their places."""
        old = self.graph
        captured = list(zip(old.captures, old.captures.values(), strict=True))
        new = rebuild(old, visit)
        replacements = {x: new.inputs[i] for i, x in enumerate(old.inputs)}
        self._counters = {replacements[x] for x in self._counters}
        # The copy has all inputs of the old body. A capture of which only rows were read has no
        # user left, and goes with its node.
        used = {x for node in new.nodes for x in node.inputs if isinstance(x, GraphTensor)}
        used |= set(new.outputs)
        new.captures = {
            x: replacements[inner] for x, inner in captured if replacements[inner] in used
        }
        dropped = {replacements[inner] for _, inner in captured} - set(new.captures.values())
        new.inputs = [x for x in new.inputs if x not in dropped]
        new.nodes = [node for node in new.nodes if dropped.isdisjoint(node.outputs)]
        self.graph, self.captures = new, list(new.captures)
        self._users = _users(new)

    # ------------------------------------------------------------------ rows that are written

    def _is_written(self, position: int) -> bool:
        """Whether a loop variable is an array of which each round writes its row, and no more."""
        x, y = self.graph.inputs[position], self.graph.outputs[position]
        node = y.node
        if node.kind != "op" or _use_of_row(node) != "written":
            return False
        buffer, index, value = node.inputs
        # The write is the only use of the array that comes in, and the next round the only use of
        # the one that goes out, so no round can tell whether rows of others are there. As many rows
        # as rounds means that each is written, and that nothing of the first value is left.
        return (
            buffer is x
            and index in self._counters
            and self._users.get(x, 0) == 1
            and self._users.get(y, 0) == 1
            and tuple(x.shape) == (self._steps, *value.shape)
            and None not in tuple(x.shape)
        )

    def _stack(self) -> None:
        graph, results = self.graph, len(self.graph.outputs) - self._count
        if not self.written:
            return
        values, gone = [], set()
        # Results that the body stacked before keep their numbers; these come after them.
        for number, position in enumerate(self.written):
            self.written[position] = results + number
            write = graph.outputs[position].node
            values.append(write.inputs[2])
            gone |= {write, graph.inputs[position].node}
        graph.nodes = [node for node in graph.nodes if node not in gone]
        unwritten = [i for i in range(len(graph.outputs)) if i not in self.written]
        graph.outputs = [*(graph.outputs[i] for i in unwritten), *values]
        graph.inputs = [x for i, x in enumerate(graph.inputs) if i not in self.written]


def _use_of_row(node: Node) -> Any:
    """Whether a call reads or writes the row of its first input at its second, else `None`."""
    rows = node.primitive.facets.rows
    return rows(node.settings) if rows else None


def _users(graph: Graph) -> dict[Any, int]:
    """How often each tensor is used, as an input or as a result."""
    users: dict[Any, int] = {}
    for node in graph.nodes:
        for x in node.inputs:
            if isinstance(x, GraphTensor):
                users[x] = users.get(x, 0) + 1
    for y in graph.outputs:
        users[y] = users.get(y, 0) + 1
    return users


def _counts(x: Any, steps: Any) -> bool:
    """Whether `x` holds 0, 1, 2 ... to as many `steps`."""
    if not isinstance(steps, int) or len(x.shape) != 1 or not x.dtype.is_integer:
        return False
    if isinstance(x, GraphTensor) and x.node.kind == "constant":
        x = x.node.value
    if not isinstance(x, Tensor) or isinstance(x, SymbolicTensor):
        return False
    return np.array_equal(np.asarray(x), np.arange(steps))


def _first_rows(x: Any, steps: int) -> Any:
    return x if x.shape[0] == steps else late_ops.get_item(x, key=((None, steps, None),))
