"""What version 1 keeps with a graph: its variables by name, scopes and collections."""

from __future__ import annotations

from typing import Any

from trainkit.core.dispatch import trace_state
from trainkit.core.errors import FailedPreconditionError
from trainkit.core.variable import Variable
from trainkit.graph.ir.graph import Graph
from trainkit.graph.ir.session_operation import SessionOperation, change


class _Reuse:
    def __repr__(self) -> str:
        return "AUTO_REUSE"


AUTO_REUSE = _Reuse()
"""For `variable_scope(reuse=...)`: take the variable if there is one, else make it."""


class GraphKeys:
    """Names of the collections that version 1 knows."""

    GLOBAL_VARIABLES = "variables"
    GLOBAL_STEP = "global_step"
    LOSSES = "losses"
    REGULARIZATION_LOSSES = "regularization_losses"
    TRAINABLE_VARIABLES = "trainable_variables"
    UPDATE_OPS = "update_ops"


class GraphState:
    """What version 1 keeps with a graph.

    Attributes:
        by_name: the variables that `get_variable` made.
        scopes: the scopes that are open, with whether they reuse variables.
        collections: lists of anything, by their names.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, Variable] = {}
        self.scopes: list[tuple[str, Any]] = []
        self.collections: dict[str, list[Any]] = {}


def graph_state(graph: Graph) -> GraphState:
    """What version 1 keeps with `graph`."""
    state: GraphState | None = graph.__dict__.get("_v1_state")
    if state is None:
        state = graph.__dict__["_v1_state"] = GraphState()
    return state


def get_default_graph() -> Graph:
    """The graph that is being built.

    Raises:
        FailedPreconditionError: no `with graph.as_default():` block is open.
    """
    graph = trace_state.current_trace()
    if not isinstance(graph, Graph):
        raise FailedPreconditionError(
            "there is no default graph: build graphs of version 1 inside `with "
            "tk.compat.v1.Graph().as_default():`"
        )
    return graph


def is_building_graph() -> bool:
    """Whether a graph of version 1 is being built, rather than one of `tk.function`, or none."""
    graph = trace_state.current_trace()
    return isinstance(graph, Graph) and graph.is_built_by_hand


def global_variables() -> list[Variable]:
    """The variables that were made in the default graph."""
    by_hand = get_default_graph().by_hand
    return [] if by_hand is None else list(by_hand.variables.values())


def trainable_variables() -> list[Variable]:
    """Those of `global_variables` that are trained."""
    return [variable for variable in global_variables() if variable.trainable]


def add_to_collection(name: str, value: object) -> None:
    """Put something at the end of a list that the default graph keeps.

    Args:
        name: of the list.
        value: anything.
    """
    graph_state(get_default_graph()).collections.setdefault(name, []).append(value)


def get_collection(name: str, scope: str | None = None) -> list[Any]:
    """A list that the default graph keeps: what was put there, or its variables.

    `GraphKeys.UPDATE_OPS` has the updates of moving averages by layers as well.

    Args:
        name: one of `GraphKeys`, or any.
        scope: only what has a name that begins with this.
    """
    if name == GraphKeys.GLOBAL_VARIABLES:
        items: list[Any] = [*global_variables()]
    elif name == GraphKeys.TRAINABLE_VARIABLES:
        items = [*trainable_variables()]
    elif name == GraphKeys.UPDATE_OPS:
        by_hand = get_default_graph().by_hand
        items = [] if by_hand is None else [*by_hand.updates]
        items += graph_state(get_default_graph()).collections.get(name, ())
    else:
        items = list(graph_state(get_default_graph()).collections.get(name, ()))
    if scope is None:
        return items
    return [x for x in items if str(getattr(x, "name", "")).startswith(scope)]


def operation_of(
    variable: Variable, method: str, arguments: tuple[Any, ...], name: str | None
) -> SessionOperation:
    """An operation of the default graph that calls a method of a variable when it is run."""
    operation = change(variable, method, arguments)
    operation.name = name or method
    return operation
