"""Nodes of graphs, and the symbolic tensors between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainkit.core import nest
from trainkit.core.dispatch import late_ops
from trainkit.core.shapes import Spec, TensorShape
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.user_frames import Line
from trainkit.core.variable import Variable
from trainkit.graph.ir.session_operation import session_or_default
from trainkit.graph.ir.user_lines import place_text

if TYPE_CHECKING:
    from trainkit.graph.ir.graph import Graph


class NodeList:
    """What `Graph` is to its nodes, which stand in a file before it."""

    @property
    def runs_python(self) -> bool:
        """Whether code of the user's runs in it."""
        raise NotImplementedError


_PARTS = {
    "body": "body of a loop",
    "condition": "condition of a loop",
    "true": "branch of an if",
    "false": "branch of an if",
    "trial": "body of a loop",
}


def _settles(function: Any) -> bool:
    return hasattr(type(function), "settle")


class GraphTensor(SymbolicTensor):
    """One output of a node.

    Attributes:
        node: the node that computes it.
        index: which of the node's outputs it is.
    """

    __slots__ = ("index", "node")

    def __init__(self, spec: Spec, node: Node, index: int) -> None:
        # without a call of the base: a graph of a large network has tens of thousands of these
        self._spec = spec
        self._known = self._own_mask = None
        self.node = node
        self.index = index

    @property
    def graph(self) -> Graph:
        """The graph that it belongs to."""
        return self.node.graph

    @property
    def op(self) -> Node:
        """The node that computes it."""
        return self.node

    @property
    def name(self) -> str:
        """The node's name and the number of the output, such as `"MatMul:0"`."""
        return f"{self.node.name}:{self.index}"

    def leak_text(self, user: str = "eager code") -> str:
        """What went wrong when this tensor is used in `user`, where it has no value."""
        graph = self.node.graph
        origin = place_text(self.node.where, ", made at ")
        if graph.outer is not None:
            return (
                f"{self!r}{origin}, belongs to the {_PARTS.get(graph.name, graph.name)} in "
                f"{graph.root().name!r}, so "
                f"it has no value outside of it (used in {user!r}). A Python list, dict or "
                "attribute can't carry it "
                "out: give the name a tensor before the loop or branch and assign it inside, or "
                "collect values "
                "of a loop in a tk.TensorArray."
            )
        return (
            f"{self!r}{origin}, belongs to the function {graph.name!r}, whose tracing is over, so "
            "it has no value in "
            f"{user!r}. A tensor leaked out of a trace: return it from the function that made "
            "it, or store it in "
            "a tk.Variable."
        )

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """The value, as a session of version 1 computes it.

        Args:
            feed_dict: a value for each placeholder that it depends on.
            session: by default the one that is entered.

        Raises:
            ValueError: none is entered.
        """
        return session_or_default(session, f"eval of {self.name!r}").run(self, feed_dict)

    def set_shape(self, shape: Any) -> None:
        """Narrow the shape that is known of this tensor; when the graph runs it is compared.

        Raises:
            ShapeError: the shapes can't be one.
        """
        if self.settle(shape):
            return
        narrowed = self.shape.merge_with(shape)
        if narrowed != self.shape:
            self.node.graph.apply(
                late_ops.check_shape.primitive, (self,), {"shape": tuple(narrowed)}
            )
            self._spec = Spec(narrowed, self._spec.dtype)

    def settle(self, shape: Any) -> bool:
        """Take the shape of a result of Python, of which none was announced, from `set_shape`."""
        function: Any = (self.node.settings or {}).get("function")
        spec = function.settle(self.index, TensorShape(shape)) if _settles(function) else None
        if spec is not None:
            self._spec = spec
        return spec is not None

    def __str__(self) -> str:
        dims = tuple(self.shape)
        return f'Tensor("{self.name}", shape={dims}, dtype={self.dtype.name})'

    def __repr__(self) -> str:
        return f"<tf.Tensor {self.name!r} shape={tuple(self.shape)} dtype={self.dtype.name}>"

    __hash__ = object.__hash__


nest.KINDS[GraphTensor] = None


class Node:
    """One call of a primitive in a graph, or an input, a constant or a variable's first value.

    Attributes:
        kind: `"op"`, `"input"`, `"constant"` or `"variable"`.
        primitive: what is called, for kind `"op"`.
        inputs: symbolic tensors of the same graph, Python numbers and `None`s.
        settings: keyword settings of the call; graphs of branches and loop bodies are among them.
        outputs: one symbolic tensor per result.
        value: the tensor of a constant, or the variable.
        where: `(file, line, text)` of the user's code that made it, or `None`.
    """

    __slots__ = (
        "graph",
        "inputs",
        "kind",
        "many",
        "name",
        "outputs",
        "primitive",
        "settings",
        "value",
        "where",
    )

    def __init__(
        self,
        graph: Graph,
        kind: str,
        name: str,
        specs: tuple[Spec, ...],
        primitive: Any = None,
        inputs: tuple[Any, ...] = (),
        settings: dict[str, Any] | None = None,
        value: Any = None,
    ) -> None:
        self.graph = graph
        self.kind = kind
        self.name = graph.unique_name(name)
        self.primitive = primitive
        self.inputs = inputs
        self.settings = settings or {}
        self.value = value
        self.many = False
        self.where: Line | None = None
        self.outputs = tuple([GraphTensor(spec, self, i) for i, spec in enumerate(specs)])

    @property
    def type(self) -> str:
        """The kind of operation, by TensorFlow's names."""
        if self.kind == "op":
            name: str = self.primitive.facets.graph_name
            return name
        return {"input": "Placeholder", "constant": "Const", "variable": "ReadVariableOp"}[
            self.kind
        ]

    @property
    def effect(self) -> bool:
        """Whether the node does something besides its results."""
        if self.kind != "op":
            return False
        if self.primitive.facets.effect is not None:
            return True
        return bool(self.settings) and any(g.has_effects for g in self.subgraphs())

    @property
    def runs_python(self) -> bool:
        """Whether code of the user's runs in it, which may read and assign any variable."""
        return self.kind == "op" and runs_python(self.primitive, self.settings)

    def subgraphs(self) -> list[Any]:
        """The graphs of branches and loop bodies."""
        if not self.settings:  # as of most nodes, which passes ask time and again
            return []
        return [value for value in self.settings.values() if isinstance(value, NodeList)]

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"


def runs_python(primitive: Any, settings: dict[str, Any]) -> bool:
    """Whether code of the user's runs in a call, or in a branch or body of it."""
    effect = primitive.facets.effect
    if effect is not None and effect.runs_python:
        return True
    return any(x.runs_python for x in settings.values() if isinstance(x, NodeList))


class VariableSlot:
    """What a graph knows of one variable: its value at the start and its value now.

    Attributes:
        variable: the variable.
        first: its value at the start.
        now: its value after all nodes so far.
        assigned: whether `now` is stored when the graph has run.
        pending: whether the graph has assigned it, and no node has stored that yet.
        stored: whether a node of the graph stores to it.
        known_at: how many calls of Python there were in the graph when `now` was its value.
    """

    __slots__ = ("assigned", "first", "known_at", "now", "pending", "stored", "variable")

    def __init__(self, variable: Variable, first: GraphTensor) -> None:
        self.variable = variable
        self.first = first
        self.now: Any = first
        self.assigned = False
        self.pending = False
        self.stored = False
        self.known_at = 0
