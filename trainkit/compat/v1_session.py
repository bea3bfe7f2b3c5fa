"""Sessions of version 1: they run the parts of a graph that are asked for.

A run goes in stages. In each stage the tensors that depend on no later operation are computed by
one program, from the values that variables have at that moment; then the operations of the stage
act, on values of these tensors. So `session.run([train, loss])` gives the loss of the step itself,
and what was made under `control_dependencies` is computed in the stage after.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from trainkit.compat.v1_graphs import get_default_graph
from trainkit.core import nest
from trainkit.core.dispatch.eval_shape import eagerly
from trainkit.core.dtypes import string
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.string_tensor import string_results
from trainkit.core.tensor import Tensor, convert_to_tensor, wrap
from trainkit.core.variable import Variable
from trainkit.graph.ir.graph import Graph, GraphTensor, Node
from trainkit.graph.ir.passes import copied, source_copied
from trainkit.graph.ir.session_operation import SESSIONS, HandBuilt, SessionOperation
from trainkit.graph.runtime.tiers import compile_graph


class Session:
    """Runs parts of a graph.

    Args:
        target: must be empty: sessions are of this process.
        graph: the graph; by default the one being built.
        config: must be None; see `tk.config`.

    Example:
        >>> with tk.compat.v1.Graph().as_default():
        ...     x = tk.compat.v1.placeholder(tk.float32, [])
        ...     with tk.compat.v1.Session() as session:
        ...         print(session.run(x * 2.0, {x: 3.0}))
        6.0
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: object = None) -> None:
        if target:
            raise InvalidArgumentError(
                f"Session: target {target!r}: only sessions of this process are supported"
            )
        if config is not None:
            raise InvalidArgumentError("Session: config is not supported; use tk.config")
        self.graph = graph or get_default_graph()
        self._programs: dict[Any, Any] = {}
        self._stages = _Stages(self.graph)
        self._closed = False

    def __enter__(self) -> Session:
        SESSIONS.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        SESSIONS.remove(self)
        self.close()

    def as_default(self) -> _Entered:
        """A context in which `eval` and `run` use this session; it is not closed behind it."""
        return _Entered(self)

    def close(self) -> None:
        """End the session; it runs nothing after that."""
        self._closed = True

    def run(self, fetches: object, feed_dict: Mapping[Any, Any] | None = None) -> Any:
        """The values of `fetches`.

        Each operation runs once. Tensors and variables have the values from before, but for what
        depends on an operation: the value of an assignment, and what was made under
        `control_dependencies`.

        Args:
            fetches: tensor, variable or operation of the graph, or a nest of them.
            feed_dict: a value for each placeholder that they depend on; other tensors may be fed
                as well.

        Returns:
            A nest like `fetches` of NumPy arrays; `None` for operations without a value.

        Raises:
            RuntimeError: the session is closed.
            InvalidArgumentError: a placeholder is not fed, or fed with another shape.
            TypeError: something else is to be fetched or fed.
        """
        if self._closed:
            raise RuntimeError("Session.run: the session is closed")
        leaves = nest.flatten(fetches)
        for x in leaves:
            if not isinstance(x, SessionOperation | Variable | Tensor):
                raise TypeError(
                    f"Session.run: can't fetch {x!r}; fetch tensors, variables or operations"
                )
        run = _Run(self, feed_dict or {})
        results = {id(x): x.numpy() for x in leaves if isinstance(x, Variable)}
        results |= {id(x): _numpy_value(x) for x in leaves if type(x) is Tensor}
        run.do(
            [x for x in leaves if isinstance(x, GraphTensor)],
            [x for x in leaves if isinstance(x, SessionOperation)],
        )
        for x in leaves:
            if isinstance(x, SessionOperation):
                results[id(x)] = _numpy_value(run.outcomes[x])
            elif isinstance(x, GraphTensor):
                results[id(x)] = _numpy_value(run.values[id(x)])
        return nest.map_structure(lambda x: results[id(x)], fetches)


class InteractiveSession(Session):
    """A session that `eval` and `run` use from here on, until it is closed."""

    def __init__(self, target: str = "", graph: Graph | None = None, config: object = None) -> None:
        super().__init__(target, graph, config)
        SESSIONS.append(self)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        super().close()
        if self in SESSIONS:
            SESSIONS.remove(self)


class _Entered:
    def __init__(self, session: Session) -> None:
        self._session = session

    def __enter__(self) -> Session:
        SESSIONS.append(self._session)
        return self._session

    def __exit__(self, *exc: object) -> None:
        SESSIONS.remove(self._session)


def get_default_session() -> Session | None:
    """The session that is entered, `None` outside of all."""
    session: Session | None = SESSIONS[-1] if SESSIONS else None
    return session


def _numpy_value(value: Tensor | None) -> Any:
    """A value as `run` gives it: an array, or a number of NumPy's for a scalar."""
    if value is None:
        return None
    array = value.numpy()
    return array[()] if isinstance(array, np.ndarray) and not array.ndim else array


class _Stages:
    """In which stage of a run each node of a graph is computed, and each operation acts."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes: dict[Node, int] = {}
        self._operations: dict[SessionOperation, int] = {}
        self._count = -1

    @property
    def by_hand(self) -> HandBuilt:
        by_hand = self._graph.by_hand
        if by_hand is None:
            raise InvalidArgumentError(
                f"Session: {self._graph!r} is no graph of version 1; build it inside "
                "`with graph.as_default():`"
            )
        return by_hand

    def refresh(self) -> None:
        """Look at all nodes again, if some were added."""
        if self._count == len(self._graph.nodes):
            return
        self._nodes.clear()
        self._operations.clear()
        for node in self._graph.nodes:  # inputs of a node before it
            self.of_node(node)
        self._count = len(self._graph.nodes)

    def of_node(self, node: Node) -> int:
        """The stage in which a node is computed."""
        stage = self._nodes.get(node)
        if stage is None:
            sources = [self.of_node(x.node) for x in node.inputs if isinstance(x, GraphTensor)]
            later = [self.of_operation(op) + 1 for op in self.operations_of(node)]
            stage = self._nodes[node] = max([0, *sources, *later])
        return stage

    def operations_of(self, node: Node) -> tuple[SessionOperation, ...]:
        """The operations that come right before a node."""
        result = self.by_hand.results.get(node)
        return self.by_hand.dependencies.get(node, ()) if result is None else (result,)

    def of_operation(self, operation: SessionOperation) -> int:
        """The stage behind whose tensors an operation acts."""
        stage = self._operations.get(operation)
        if stage is None:
            inputs = [self.of_node(x.node) for x in operation.inputs]
            before = [self.of_operation(op) + 1 for op in operation.before]
            stage = self._operations[operation] = max([0, *inputs, *before])
        return stage


class _Run:
    """One call of `Session.run`.

    Attributes:
        values: of tensors, by `id`.
        outcomes: the values of operations that have acted.
    """

    def __init__(self, session: Session, feed: Any) -> None:
        self._session = session
        self._graph, self._stages = session.graph, session._stages
        self.values = {id(k): self._feed_value(k, v) for k, v in feed.items()}
        self.outcomes: dict[SessionOperation, Tensor | None] = {}

    def do(self, tensors: list[GraphTensor], operations: list[SessionOperation]) -> None:
        """Compute tensors and run operations, and all that these depend on."""
        self._stages.refresh()
        nodes, required = self._closure(tensors, operations)
        targets = [*tensors, *(x for op in required for x in op.inputs)]
        states = self._states(nodes)
        targets += states.values()
        stage_of = self._stages.of_node
        for node in nodes:  # what a later stage takes from an earlier one
            targets += [
                x
                for x in node.inputs
                if isinstance(x, GraphTensor)
                and x.node.kind in ("op", "input")
                and stage_of(x.node) < stage_of(node)
            ]
        ordered = sorted(required, key=lambda op: (self._stages.of_operation(op), op.number))
        last = max([0, *(stage_of(x.node) for x in targets)])
        last = max([last, *map(self._stages.of_operation, ordered)])
        for stage in range(last + 1):
            self._compute([x for x in targets if stage_of(x.node) == stage])
            for op in ordered:
                if self._stages.of_operation(op) == stage:
                    self._act(op)
        with eagerly():
            for variable, now in states.items():
                variable.assign(self.values[id(now)])

    def _closure(
        self, tensors: Iterable[GraphTensor], operations: Iterable[SessionOperation]
    ) -> tuple[list[Node], list[SessionOperation]]:
        """The nodes and operations that have to be computed and run, in no order."""
        nodes: dict[Node, None] = {}
        required: dict[SessionOperation, None] = {}
        by_hand = self._stages.by_hand
        waiting: list[Any] = [*tensors, *operations]
        while waiting:
            x = waiting.pop()
            if isinstance(x, SessionOperation):
                if x not in required:
                    required[x] = None
                    waiting += [*x.inputs, *x.before]
            elif x.node not in nodes and id(x) not in self.values:
                nodes[x.node] = None
                waiting += [y for y in x.node.inputs if isinstance(y, GraphTensor)]
                waiting += self._stages.operations_of(x.node)
                waiting += by_hand.effects.get(x.node, ())
                if x.node.kind == "variable" and x.node.value._goes_on:
                    waiting.append(self._graph.slots[id(x.node.value)].now)
        return list(nodes), list(required)

    def _states(self, nodes: Iterable[Node]) -> dict[Variable, GraphTensor]:
        """The new states of the random generators that nodes draw from."""
        slots = [self._graph.slots[id(n.value)] for n in nodes if n.kind == "variable"]
        return {s.variable: s.now for s in slots if s.variable._goes_on and s.assigned}

    def _compute(self, tensors: list[GraphTensor]) -> None:
        """Give tensors of one stage their values."""
        missing = list({id(x): x for x in tensors if id(x) not in self.values}.values())
        if not missing:
            return
        key = tuple(map(id, missing)), frozenset(self.values)
        programs = self._session._programs
        if key not in programs:
            programs[key] = self._program(missing)
        inputs, program = programs[key]
        arrays = [self._value_of(x)._array for x in inputs]
        for x, y in zip(missing, program(arrays), strict=True):
            self.values[id(x)] = string_results(y) if x.dtype is string else wrap(y)

    def _program(self, tensors: list[GraphTensor]) -> Any:
        """The tensors whose values a program takes, and the program for some others."""
        required: set[Node] = set()
        inputs: dict[int, GraphTensor] = {}
        waiting = list(tensors)
        while waiting:
            x = waiting.pop()
            if id(x) in self.values or x.node.kind == "input":
                inputs[id(x)] = x
            elif x.node not in required:
                required.add(x.node)
                waiting += [y for y in x.node.inputs if isinstance(y, GraphTensor)]
        part = Graph("session")
        env: dict[Any, Any] = {x: part.add_input(x._spec, x.node.name) for x in inputs.values()}
        for node in self._graph.nodes:
            if node not in required:
                continue
            if node.kind != "op":
                env.setdefault(node.outputs[0], source_copied(part, node))
                continue
            operands = tuple(env[x] if isinstance(x, GraphTensor) else x for x in node.inputs)
            for x, y in zip(node.outputs, copied(part, node, operands), strict=True):
                env.setdefault(x, y)
        part.outputs = [env[x] for x in tensors]
        return list(inputs.values()), compile_graph(part)

    def _value_of(self, x: GraphTensor) -> Tensor:
        value = self.values.get(id(x))
        if value is None:
            raise InvalidArgumentError(
                f"Session.run: the placeholder {x.name!r} of shape {tuple(x.shape)} and dtype "
                f"{x.dtype.name} is needed, and feed_dict has no value for it"
            )
        return value

    def _act(self, operation: SessionOperation) -> None:
        with eagerly():
            value = operation.act([self._value_of(x) for x in operation.inputs])
        self.outcomes[operation] = value
        if operation._result is not None:
            self.values[id(operation._result)] = value

    def _feed_value(self, x: Any, value: Any) -> Tensor:
        if not isinstance(x, GraphTensor):
            raise TypeError(f"Session.run: can't feed {x!r}; feed tensors of the graph")
        with eagerly():
            tensor = convert_to_tensor(np.asarray(value).astype(x.dtype.dtype))
        if not x.shape.is_compatible_with(tensor.shape):
            raise InvalidArgumentError(
                f"Session.run: the placeholder {x.name!r} has shape {tuple(x.shape)}, it is fed "
                f"with {tuple(tensor.shape)}"
            )
        return tensor
