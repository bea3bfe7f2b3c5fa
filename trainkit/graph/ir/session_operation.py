"""What a session of version 1 runs for its effect, and what a graph built by hand notes of it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainkit.core import nest
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.eval_shape import eagerly
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec

if TYPE_CHECKING:
    from trainkit.compat.v1_session import Session
    from trainkit.graph.ir.graph import Graph

SESSIONS: list[Any] = []
"""The sessions that are entered, the innermost last; `eval` and `run` use that."""


def session_or_default(session: Any, name: str) -> Any:
    """`session`, or without one the session that is entered.

    Raises:
        ValueError: there is none.
    """
    if session is None and not SESSIONS:
        raise ValueError(
            f"{name}: no session is entered; call it inside `with tk.compat.v1.Session():`, or "
            "give it the session"
        )
    return SESSIONS[-1] if session is None else session


class HandBuilt:
    """What a graph of version 1 knows besides its nodes.

    Attributes:
        run_before: operations that come before all that is added now.
        dependencies: by a node, those that come before it.
        results: by the node that stands for the value of an assignment, its operation.
        variables: that were made in the graph, by `id`.
        updates: the assignments that layers have made.
        effects: by a node, the assignments that belong to it.
        operations: how many there are.
    """

    def __init__(self) -> None:
        self.run_before: tuple[SessionOperation, ...] = ()
        self.dependencies: dict[Any, tuple[SessionOperation, ...]] = {}
        self.results: dict[Any, SessionOperation] = {}
        self.variables: dict[int, Any] = {}
        self.updates: list[SessionOperation] = []
        self.effects: dict[Any, list[SessionOperation]] = {}
        self.operations = 0

    def effect(self, name: str, act: Callable[[list[Any]], Any], inputs: Any) -> SessionOperation:
        """An operation that does something with the values of tensors.

        Args:
            name: what it is called.
            act: takes a list of the values.
            inputs: tensors of the graph, or with values.
        """
        graph = trace_state.current_graph()
        return SessionOperation(name, act, [graph.lift(x) for x in inputs])

    @staticmethod
    def change(variable: Any, method: str, arguments: Sequence[Any]) -> SessionOperation:
        """What the function `change` gives."""
        return change(variable, method, arguments)

    def assign_with(self, variable: Any, value: Any) -> None:
        """Let a variable be assigned whenever the node of `value` is computed.

        Args:
            variable: that a branch or the body of a loop assigns.
            value: a result of the node of the branches or the loop.
        """
        assignment(variable, value).belong_to([value])

    def keep(self, variable: Any, initial_value: Any) -> None:
        """Take note of a variable that is made in the graph, or by a layer that it calls."""
        self.variables[id(variable)] = variable
        if variable._initializer is None:
            variable._initializer = initializer_of(variable, initial_value)


class SessionOperation:
    """Something a session runs for its effect: an initializer, an assignment, a step of training.

    Where an assignment is used as a tensor it stands for the new value.

    Args:
        name: what it is called.
        act: is called with the values of `inputs`, as a list of tensors; gives a value or `None`.
        inputs: tensors of the graph.
        before: operations that are run first; to them come those of `control_dependencies`.
        spec: of the value, if it has one.
    """

    is_run_by_session = True

    def __init__(
        self,
        name: str,
        act: Callable[[list[Any]], Any],
        inputs: Iterable[Any] = (),
        before: Iterable[Any] = (),
        spec: Spec | None = None,
    ) -> None:
        self.name = name
        self.act = act
        self.inputs = list(inputs)
        graph = trace_state.current_graph()
        by_hand: HandBuilt | None = getattr(graph, "by_hand", None)
        scope_operations = by_hand.run_before if by_hand is not None else ()
        self.before = tuple(dict.fromkeys([*scope_operations, *before]))
        self.number = 0
        if by_hand is not None:
            by_hand.operations += 1
            self.number = by_hand.operations
        self._graph = None if graph is None else weakref.ref(graph)
        self._spec = spec
        self._result: Any = None

    def run(
        self, feed_dict: Mapping[Any, Any] | None = None, session: Session | None = None
    ) -> None:
        """Run it in the session that is entered, or another.

        Args:
            feed_dict: a value for each placeholder that it depends on.
            session: instead of the one that is entered.
        """
        session_or_default(session, f"run of {self.name!r}").run(self, feed_dict)

    eval = run

    @property
    def result(self) -> Any:
        """The symbolic tensor of its value.

        Raises:
            InvalidArgumentError: it has none.
        """
        graph = self.graph
        if self._spec is None or graph is None:
            raise InvalidArgumentError(
                f"{self!r} has no value: run it in a session, or give it to tk.control_dependencies"
            )
        if self._result is None:
            self._result = graph.result_symbol(self, self._spec)
        return self._result

    def __tensor__(self, dtype: Any = None) -> Any:
        return self.result

    def belong_to(self, tensors: Iterable[Any]) -> None:
        """Let it be run whenever one of some tensors of the graph is computed."""
        graph = self.graph
        by_hand: HandBuilt | None = None if graph is None else graph.by_hand
        assert by_hand is not None
        for x in tensors:
            node = getattr(x, "node", None)
            if node is not None:
                by_hand.effects.setdefault(node, []).append(self)

    @property
    def graph(self) -> Graph | None:
        """The graph that it belongs to, `None` once that is gone."""
        return None if self._graph is None else self._graph()

    @property
    def op(self) -> SessionOperation:
        """The operation itself, as of a tensor the node that computes it."""
        return self

    def __getattr__(self, name: str) -> Any:
        # `node` tells tensors of the graph from operations
        if name.startswith("_") or name == "node" or self._spec is None:
            raise AttributeError(f"{self!r} has no attribute {name!r}")
        return getattr(self.result, name)

    def __repr__(self) -> str:
        return f"<tf.Operation {self.name!r}>"


def _operator(name: str) -> Any:
    def operator(self: SessionOperation, *operands: Any) -> Any:
        return getattr(self.result, name)(*operands)

    operator.__name__ = name
    return operator


for _name in (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul "
    "rmatmul neg abs lt le gt ge getitem"
).split():
    setattr(SessionOperation, f"__{_name}__", _operator(f"__{_name}__"))


def assignment(variable: Any, value: Any, name: str = "assign") -> SessionOperation:
    """An operation that stores `value`, a tensor of the session's graph, in a variable."""

    def act(values: list[Any]) -> Any:
        variable.assign(values[0])
        return variable.value()

    return SessionOperation(name, act, [value], spec=Spec(variable.shape, variable.dtype))


def change(variable: Any, method: str, arguments: Sequence[Any]) -> SessionOperation:
    """An operation that calls a method of a variable on values."""
    positions = [i for i, x in enumerate(arguments) if _is_symbolic(x)]

    def act(values: list[Any]) -> Any:
        operands = list(arguments)
        for i, value in zip(positions, values, strict=True):
            operands[i] = value
        getattr(variable, method)(*operands)
        return variable.value()

    inputs = [_symbol(arguments[i]) for i in positions]
    return SessionOperation(method, act, inputs, spec=Spec(variable.shape, variable.dtype))


def _is_symbolic(x: Any) -> bool:
    return hasattr(x, "node") or isinstance(x, SessionOperation) or hasattr(type(x), "_is_variable")


def _symbol(x: Any) -> Any:
    if isinstance(x, SessionOperation):
        return x.result
    return x._read() if hasattr(type(x), "_is_variable") else x


def group_of(items: Iterable[Any], name: str = "group_deps") -> SessionOperation:
    """An operation without an effect of its own, behind others and behind tensors."""
    leaves = nest.flatten(list(items))
    return SessionOperation(
        name,
        lambda values: None,
        [x for x in leaves if hasattr(x, "node")],
        [x for x in leaves if isinstance(x, SessionOperation)],
    )


def initializer_of(variable: Any, value: Any) -> SessionOperation:
    """An operation that gives a variable its initial value.

    Args:
        variable: the variable.
        value: a tensor of the graph, which is computed anew each time, or with values.
    """
    if hasattr(value, "node"):
        return assignment(variable, value, f"{variable.name.removesuffix(':0')}/Assign")

    def act(values: list[Any]) -> None:
        with eagerly():
            variable.assign(value)

    return SessionOperation(f"{variable.name.removesuffix(':0')}/Assign", act)
