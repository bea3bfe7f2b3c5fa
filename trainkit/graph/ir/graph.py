"""`Graph`: nodes in order, and what is known of variables while it is made.

A graph is an ordered list of nodes over the primitives. Variables are no nodes with side effects:
reading
gives the symbolic value that the variable has at that point, assigning replaces it, and what has
been
assigned when the graph ends is stored when it has run. So a run that fails leaves variables alone,
and order is a matter of data alone. Only around calls back into Python, which may read and assign
any variable, they are stored and read by nodes: see `variable_access`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from trainkit.core.dispatch import late_ops, trace_state
from trainkit.core.dispatch.eager import KERNEL_ERRORS
from trainkit.core.dispatch.eval_shape import eagerly
from trainkit.core.errors import InvalidArgumentError, LeakedTensorError, OpError
from trainkit.core.names import current_name_scope, name_scope
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.user_frames import user_line
from trainkit.core.variable import Variable
from trainkit.graph.ir.assigned_devices import copy_needed
from trainkit.graph.ir.nodes import GraphTensor as GraphTensor
from trainkit.graph.ir.nodes import Node as Node
from trainkit.graph.ir.nodes import NodeList, runs_python
from trainkit.graph.ir.nodes import VariableSlot as VariableSlot
from trainkit.graph.ir.session_operation import HandBuilt, SessionOperation, assignment, group_of
from trainkit.graph.ir.user_lines import at_user_line, located, place_text
from trainkit.graph.ir.variable_access import load_variable, store_variable
from trainkit.graph.ir.watched_tensors import is_watched, watched_constant
from trainkit.ops.math.update_weights import Rule, update_weights

if TYPE_CHECKING:
    from trainkit.core.values.type_aliases import TensorLike


class Above:
    """What the files above do for a graph: each puts its part into `ABOVE` when it is imported.

    Importing `trainkit.graph` imports them all, so nothing is missing when a graph is made.

    Attributes:
        cond: adds both branches as one node; takes what `Graph.cond` takes, the graph first, as do
            the next three.
        while_loop: adds a loop as one node.
        scan: adds a fold over rows as one node.
        with_gradient: adds a call with a gradient rule of the user's as one node.
        convert: function with its control flow rewritten for tensors.
        text: the graph as lines of text.
        dot: the graph in Graphviz's language.
        graph_def: the graph as a protocol buffer.
        program: the executable form of a graph; takes whether loops are compiled, too.
        program_in_parts: the same, as a generator that pauses in between.
    """

    cond: Callable[..., Any]
    while_loop: Callable[..., Any]
    scan: Callable[..., Any]
    with_gradient: Callable[..., Any]
    convert: Callable[..., Any]
    text: Callable[..., str]
    dot: Callable[..., str]
    graph_def: Callable[..., Any]
    program: Callable[..., Any]
    program_in_parts: Callable[..., Generator[bool, None, Any]]


ABOVE = Above()


class Graph(NodeList):
    """An ordered list of nodes with named inputs and outputs.

    Attributes:
        name: what it is called in listings.
        nodes: in the order in which they were made, inputs of a node before it.
        inputs: the symbolic tensors that a call gives values to, arguments first, captures after.
        outputs: the symbolic tensors that a call gives.
        outer: the graph in which this one is a branch or a loop body, else `None`.
        slots: the variables that are read or assigned, by `id`.
        crossing_was_shown: whether a tape has warned of targets (n,) that meet outputs (n, 1).
        is_built_by_hand: whether it is one of version 1, whose effects are operations to be run.

    Example:
        >>> f = tk.function(lambda x: x + 1.0)
        >>> isinstance(f.get_concrete_function(tk.TensorSpec([2])).graph, tk.Graph)
        True
    """

    def __init__(self, name: str = "graph", outer: Graph | None = None) -> None:
        self.name = name
        self.nodes: list[Node] = []
        self.inputs: list[GraphTensor] = []
        self.outputs: list[GraphTensor] = []
        self.outer = outer
        # the graph in which a nested function was called, whose tensors it may refer to
        self.caller: Graph | None = None
        self.slots: dict[int, VariableSlot] = {}
        self.crossing_was_shown = False
        self.is_built_by_hand = False
        self.by_hand: HandBuilt | None = None
        # calls of Python so far; a loop in which Python runs between rounds begins with one
        self.python_calls = 0
        self.captures: dict[GraphTensor, GraphTensor] = {}
        # captures that stand for variables, and by what came in as one of them its plain value
        self._of_variables: set[GraphTensor | None] = set()
        self._values: dict[GraphTensor, GraphTensor] = {}
        self.may_create_variables: bool = outer.may_create_variables if outer else True
        # for symbols in names that a loop may leave without a value: a flag that says, and the name
        self.unset: dict[GraphTensor | None, tuple[Any, str]] = {}
        # tapes that record in the graph around, and hear of variables that are read in here
        self.watchers: list[Any] = []
        self.value_tape: Any = None  # see `watched_tensors`
        self._constants: dict[int, GraphTensor] = {}
        self._names: dict[str, int] = {}
        self._program: Any = None
        # how a loop's body is differentiated, by what is asked for, and what it was made from
        self.plans: dict[Any, Any] = {}
        self.made_by: Any = None
        self.jit_compile: bool | None = outer.jit_compile if outer else None

    # ------------------------------------------------------------------ names

    def unique_name(self, name: str) -> str:
        """`name`, with a number after it where it is taken."""
        count = self._names.get(name, 0)
        self._names[name] = count + 1
        return name if not count else f"{name}_{count}"

    # ------------------------------------------------------------------ building

    def _add(self, node: Node) -> Node:
        self.nodes.append(node)
        return node

    def hasten(self, node: Node) -> None:
        """Let a node that was just added run as soon as its inputs are there."""
        assert self.nodes.pop() is node
        inputs = {x.node for x in node.inputs if isinstance(x, GraphTensor)}
        at = len(self.nodes)
        while at and self.nodes[at - 1] not in inputs:
            at -= 1
        self.nodes.insert(at, node)

    def add_input(self, spec: Spec, name: str = "input") -> GraphTensor:
        """Add an input at the end of the list."""
        node = self._add(Node(self, "input", name, (spec,)))
        self.inputs.append(node.outputs[0])
        return node.outputs[0]

    def constant(self, tensor: Tensor) -> GraphTensor:
        """The symbolic tensor that stands for the value `tensor`; one for each tensor."""
        symbol = self._constants.get(id(tensor))
        if symbol is None:
            spec = Spec(tensor.shape, tensor.dtype)
            node = self._add(Node(self, "constant", "Const", (spec,), value=tensor))
            symbol = self._constants[id(tensor)] = node.outputs[0]
        return symbol

    def lift(self, x: Any) -> GraphTensor:
        """`x` as a symbolic tensor of this graph: a constant, a capture, or itself.

        Raises:
            InvalidArgumentError: `x` belongs to a graph that is neither this one nor around it.
        """
        if not isinstance(x, GraphTensor):
            tensor = x if isinstance(x, Tensor) else self._eager_tensor(x)
            if isinstance(tensor, SymbolicTensor):
                if isinstance(tensor, GraphTensor):
                    return self.lift(tensor)
                raise InvalidArgumentError(f"{tensor!r} is no part of the function being traced")
            if self.outer is not None and is_watched(self, tensor):
                return self._capture(watched_constant(self, tensor))
            return self.constant(tensor)
        if x.node.graph is self:
            return x
        return self._capture(x)

    @staticmethod
    def _eager_tensor(x: Any) -> Tensor:
        if isinstance(x, Variable):
            return x.value()
        with eagerly():
            return convert_to_tensor(x)

    def _capture(self, x: GraphTensor) -> GraphTensor:
        capture = self.captures.get(x)
        if capture in self._of_variables:
            x = self._value_of(x)
            capture = self.captures.get(x)
        if capture is not None:
            return capture
        around = self.outer or self.caller
        if around is None or not around.encloses(x):
            raise LeakedTensorError(x.leak_text(self.root().name))
        around.lift(x)
        inner = self.add_input(Spec(x.shape, x.dtype), x.node.name)
        self.captures[x] = inner
        return inner

    def _value_of(self, x: GraphTensor) -> GraphTensor:
        """What stands in the graph around for `x`, as which a variable has come in.

        The input for the variable has another value in each round of a loop that assigns it.
        """
        value = self._values.get(x)
        if value is None:
            identity, around = late_ops.identity.primitive, self.outer
            assert around is not None
            value = self._values[x] = around.apply(identity, (x,), {})
            for tape in self.watchers:
                if x in tape.tracked:
                    tape.tracked[value] = (identity, {}, x)
        return value

    def encloses(self, x: GraphTensor) -> bool:
        """Whether `x` belongs to this graph or to one around it."""
        graph: Graph | None = self
        while graph is not None:
            if x.node.graph is graph:
                return True
            graph = graph.outer or graph.caller
        return False

    def apply(self, primitive: Any, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Add a call of `primitive`; its inputs are symbolic or eager tensors, numbers, `None`s."""
        lifted = tuple(self.lift(x) if isinstance(x, Tensor) else x for x in inputs)
        specs = [x._spec if isinstance(x, GraphTensor) else x for x in lifted]
        try:
            result = primitive.shape_rule(*specs, **settings)
        except (OpError, *KERNEL_ERRORS) as error:
            refused = primitive.refused(error, inputs, settings)
            if refused is error and not isinstance(error, OpError):
                raise
            raise at_user_line(refused) from None
        many = isinstance(result, tuple)
        calls = runs_python(primitive, settings)
        if calls:
            self.store_pending()
        node = Node(
            self,
            "op",
            primitive.facets.graph_name,
            result if many else (result,),
            primitive,
            lifted,
            settings,
        )
        node.many = many
        node.where = user_line()
        self._add(node)
        self.python_calls += calls
        return node.outputs if many else node.outputs[0]

    # ------------------------------------------------------------------ variables

    def slot_of(self, variable: Variable) -> VariableSlot:
        """What this graph knows of `variable`, which becomes known by this."""
        slot = self.slots.get(id(variable))
        if slot is None:
            if self.outer is not None:
                symbol = self.outer.read_variable(variable)
                if symbol in self.captures:  # as a value, which stays when the variable changes
                    symbol = self.outer.apply(late_ops.identity.primitive, (symbol,), {})
                for tape in self.watchers:
                    tape.note_variable(variable, symbol)
                first = self.lift(symbol)
                self._of_variables.add(first)
            else:
                spec = Spec(variable.shape, variable.dtype)
                name = getattr(variable, "_name", "variable")
                node = self._add(Node(self, "variable", name, (spec,), value=variable))
                first = node.outputs[0]
            slot = self.slots[id(variable)] = VariableSlot(variable, first)
            # layers make their variables at once, wherever they are built
            if self.by_hand is not None and not (variable._numbered or variable._goes_on):
                self.by_hand.keep(variable, variable._value)
        return slot

    def read_variable(self, variable: Variable) -> Any:
        """The symbolic value that `variable` has at this point."""
        slot = self.slot_of(variable)
        if self.by_hand is not None and self.by_hand.run_before:
            # a node of this place, which is computed after what has to be run before
            return self.apply(late_ops.identity.primitive, (slot.now,), {})
        if slot.known_at < self.python_calls:
            slot.now = self.apply(load_variable.primitive, (slot.now,), {"variable": slot.variable})
            slot.known_at = self.python_calls
        return slot.now

    def store_pending(self) -> None:
        """Let variables have what was assigned to them so far, whoever reads them."""
        for slot in self.slots.values():
            if slot.pending:
                slot.now = self.apply(
                    store_variable.primitive, (slot.now,), {"variable": slot.variable}
                )
                slot.pending, slot.stored = False, True
                slot.assigned = self.outer is not None

    def assign_variable(self, variable: Variable, value: Any) -> SessionOperation | None:
        """Let `variable` have the value `value` from this point on.

        In a graph that is built by hand nothing happens before a session runs the operation that
        comes back; the states of random generators alone go on by themselves.
        """
        slot, value = self.slot_of(variable), self.lift(value)
        if self.by_hand is not None and not variable._goes_on:
            operation = assignment(variable, value)
            if not variable._numbered:  # a layer's or metric's own, whose operation nobody gets
                self.by_hand.updates.append(operation)
            return operation
        if copy_needed(variable, value, slot.first):
            now = self.apply(late_ops.copy_to_device_of.primitive, (value, slot.first), {})
        else:
            # a name of its own: a tape may watch the variable, and have an entry for the value
            now = self.apply(late_ops.identity.primitive, (value,), {})
        self._note_assigned(slot, now)
        return None

    def assign_from_part(self, variable: Variable, value: TensorLike) -> None:
        """Let `variable` have what a branch, or the body of a loop, has assigned to it."""
        if self.by_hand is not None and not variable._goes_on:
            self.by_hand.assign_with(variable, value)
        else:
            self.assign_variable(variable, value)

    def result_symbol(self, operation: SessionOperation, spec: Spec) -> GraphTensor:
        """The symbolic tensor of the value that an operation has when it is run."""
        assert self.by_hand is not None
        node = Node(self, "input", f"{operation.name}/value", (spec,))
        self.by_hand.results[node] = operation
        return node.outputs[0]

    def begin_dependents(self, operations: Sequence[Any]) -> tuple[tuple[Any, ...], int]:
        """Let what is added to a graph built by hand from here on come after operations.

        Returns:
            What `end_dependents` takes.
        """
        assert self.by_hand is not None
        mark = self.by_hand.run_before, len(self.nodes)
        self.by_hand.run_before = (*mark[0], group_of(operations))
        return mark

    def end_dependents(self, mark: tuple[tuple[Any, ...], int]) -> None:
        """End what `begin_dependents` began."""
        assert self.by_hand is not None
        before, start = mark
        for node in self.nodes[start:]:
            if node.kind == "op":
                self.by_hand.dependencies.setdefault(node, self.by_hand.run_before)
        self.by_hand.run_before = before

    def assigns(self, variable: Variable) -> bool:
        """Whether this graph, or one around it, has assigned `variable` so far."""
        graph: Graph | None = self
        while graph is not None:
            slot = graph.slots.get(id(variable))
            if slot is not None and slot.assigned:
                return True
            graph = graph.outer or graph.caller
        return False

    def assign_results(self, variables: list[Variable], results: Sequence[Any]) -> None:
        """As `assign_variable` for each pair; of results that are nothing else than new values.

        Args:
            variables: each once.
            results: of one node that was just added, which nobody else has.
        """
        for variable, value in zip(variables, results, strict=True):
            slot = self.slot_of(variable)
            if copy_needed(variable, value, slot.first) or self.is_built_by_hand:
                self.assign_variable(variable, value)
            else:
                self._note_assigned(slot, value)

    def _note_assigned(self, slot: VariableSlot, value: GraphTensor) -> None:
        slot.now = value
        slot.assigned = slot.pending = True
        slot.known_at = self.python_calls

    def initial_value(self, value: Any, name: str | None) -> Any:
        """The eager initial value of a variable that is made while tracing.

        Raises:
            ValueError: variables may not be made in this call, or the value is symbolic.
        """
        if not self.may_create_variables:
            raise ValueError(
                f"the variable {name or 'Variable'!r} was created on a later call of "
                f"{self.root().name!r}"
                f"{place_text(user_line(), ', at ')}; a function may create variables only the "
                "first time it is "
                "called. Create it outside, or keep it on an object and create it only when it "
                "is not there yet."
            )
        return self._compute_value(value, name) if isinstance(value, GraphTensor) else value

    def _compute_value(self, x: GraphTensor, name: str | None) -> Tensor:
        """The value of `x` now, which only constants and variables may decide."""
        part = Graph("initial value")
        part.nodes, part.outputs = x.node.graph.nodes, [x]
        ancestors = [node for node in needed_nodes(part) if not node.effect]
        if any(node.kind == "input" for node in ancestors):
            raise ValueError(
                f"the initial value of the variable {name or 'Variable'!r} depends on an "
                "argument of "
                f"{self.root().name!r}{place_text(user_line(), ', at ')}, which has no value "
                "while tracing; create "
                "the variable outside, or start from a constant and assign it"
            )
        part.nodes = ancestors
        with eagerly(), trace_state.silence():
            value: Tensor = replay(part, [])[0]
        return value

    def root(self) -> Graph:
        """The outermost graph around this one."""
        graph = self
        while graph.outer is not None:
            graph = graph.outer
        return graph

    @property
    def assigned(self) -> list[VariableSlot]:
        """The variables that the graph assigns, in the order in which they were first met."""
        return [slot for slot in self.slots.values() if slot.assigned]

    @property
    def has_effects(self) -> bool:
        """Whether a node does something besides its results."""
        return any(node.effect for node in self.nodes)

    @property
    def runs_python(self) -> bool:
        """Whether code of the user's runs in it, which may read and assign any variable."""
        return any(node.runs_python for node in self.nodes)

    # ------------------------------------------------------------------ control flow

    def cond(self, pred: Any, true_fn: Any, false_fn: Any) -> Any:
        """Both branches as one node; what `ops.cond` does while tracing."""
        return ABOVE.cond(self, pred, true_fn, false_fn)

    def while_loop(
        self, cond: Any, body: Any, loop_vars: Any, maximum_iterations: Any = None
    ) -> Any:
        """A loop as one node; what `ops.while_loop` does while tracing."""
        return ABOVE.while_loop(self, cond, body, loop_vars, maximum_iterations)

    def scan(self, f: Any, init: Any, xs: Any, steps: Any, reverse: bool = False) -> Any:
        """A fold over rows as one node; what `ops.scan` does while tracing."""
        return ABOVE.scan(self, f, init, xs, steps, reverse)

    def with_gradient(
        self, function: Any, result: Any, backward: Any, sources: Any, variables: Any
    ) -> Any:
        """A call with a gradient rule of the user's; what `custom_gradient` does while tracing."""
        return ABOVE.with_gradient(self, function, result, backward, sources, variables)

    def convert(self, function: Any) -> Any:
        """`function` with its `if`, `while` and `for` rewritten for tensors."""
        return ABOVE.convert(function)

    # ------------------------------------------------------------------ looking

    @property
    def operations(self) -> list[Node]:
        """All nodes, in order."""
        return list(self.nodes)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables that are read or assigned."""
        return tuple(slot.variable for slot in self.slots.values())

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        """Those of them that are trainable."""
        return tuple(v for v in self.variables if v.trainable)

    def name_scope(self, name: str) -> Any:
        """A `with` block in which names begin with `name`, as with `tk.name_scope`."""
        return name_scope(name)

    def get_name_scope(self) -> str:
        """What names begin with at the moment, without a slash at the end."""
        return current_name_scope()

    def get_operations(self) -> list[Node]:
        """All nodes, in order."""
        return list(self.nodes)

    def get_operation_by_name(self, name: str) -> Node:
        """The node called `name`.

        Raises:
            KeyError: there is none.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(f"graph {self.name!r} has no operation {name!r}")

    def get_tensor_by_name(self, name: str) -> GraphTensor:
        """The tensor called `name`, such as `"MatMul:0"`."""
        node, _, index = name.partition(":")
        return self.get_operation_by_name(node).outputs[int(index or 0)]

    def as_graph_def(self) -> Any:
        """A `GraphDef` protocol buffer (tensorboardX's) for TensorBoard's graph page."""
        return ABOVE.graph_def(self)

    def to_dot(self) -> str:
        """The graph in Graphviz's language."""
        return ABOVE.dot(self)

    def __str__(self) -> str:
        return ABOVE.text(self)

    def __repr__(self) -> str:
        return f"<Graph {self.name!r}: {len(self.nodes)} nodes>"

    # ------------------------------------------------------------------ running

    def program(self) -> Any:
        """The executable form, made on first use: a function of arrays to a list of arrays."""
        if self._program is None:
            self._program = ABOVE.program(self, self.jit_compile)
        return self._program

    def program_in_parts(self) -> Generator[bool, None, None]:
        """Make what `program` gives bit by bit, for callers who have something to do in between.

        It gives True where it only waits for another thread.
        """
        if self._program is None:
            self._program = yield from ABOVE.program_in_parts(self, self.jit_compile)

    def gpu_status(self) -> str | None:
        """How it runs on a GPU, in words; `None` before it has."""
        gpu = getattr(self._program, "gpu", None)
        return None if gpu is None else str(gpu.status())

    def __enter__(self) -> Graph:
        trace_state.THREAD.traces.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        trace_state.THREAD.traces.remove(self)

    def as_default(self) -> Graph:
        """This graph as a context in which operations become its nodes."""
        self.is_built_by_hand = True
        if self.by_hand is None:
            self.by_hand = HandBuilt()
        return self


def replay(graph: Graph, values: list[Any]) -> list[Any]:
    """Run the nodes of `graph` one by one as operations on tensors.

    Tapes that record see each operation; inside another trace the nodes are added there.

    Args:
        graph: its variables are read and assigned for real (or in the trace around).
        values: one tensor for each of its inputs.

    Returns:
        The tensors of its outputs.
    """
    env: dict[Any, Any] = dict(zip(graph.inputs, values, strict=True))
    nodes = needed_nodes(graph)
    last = _last_uses(graph, nodes)
    for node in nodes:
        if node.kind == "op":
            ready = [env[x] if isinstance(x, GraphTensor) else x for x in node.inputs]
            call = (
                _access_of(graph, node)
                or _as_node(node, ready)
                or _in_part(node)
                or node.primitive.op
            )
            try:
                result = call(*ready, **node.settings)
            except Exception as error:
                raise located(error, node) from None
            for symbol, y in zip(node.outputs, result if node.many else (result,), strict=True):
                env[symbol] = y
                if isinstance(y, GraphTensor):
                    y.node.where = node.where
            for x in last.get(node, ()):
                del env[x]
        elif node.kind == "constant":
            env[node.outputs[0]] = node.value
        elif node.kind == "variable":
            env[node.outputs[0]] = node.value.value()
    if graph.outer is None:
        for slot in graph.assigned:
            operation: Any = slot.variable.assign(env[slot.now])
            if isinstance(operation, SessionOperation):  # in a graph of version 1
                operation.belong_to([env[y] for y in graph.outputs])
    return [env[y] for y in graph.outputs]


def _access_of(graph: Graph, node: Node) -> Callable[..., Any] | None:
    """What stores to or reads a variable in the middle of a graph that is no branch.

    Tapes hear of it, and so does the trace around, which stores and reads by nodes of its own.
    """
    if graph.outer is not None:
        return None
    if node.primitive is store_variable.primitive:
        return _store
    return _load if node.primitive is load_variable.primitive else None


def _store(x: Any, *, variable: Variable) -> Any:
    variable.assign(x)
    return x


def _load(x: Any, *, variable: Variable) -> Any:
    return variable.read_value()


def _last_uses(graph: Graph, nodes: list[Node]) -> dict[Node, list[GraphTensor]]:
    """For each node the results of others that nothing after it uses; memory falls by these."""
    user = {x: node for node in nodes for x in node.inputs if isinstance(x, GraphTensor)}
    for y in (*graph.outputs, *(slot.now for slot in graph.assigned)):
        user.pop(y, None)
    last: dict[Node, list[GraphTensor]] = {}
    for x, node in user.items():
        last.setdefault(node, []).append(x)
    return last


def _as_node(node: Node, inputs: list[Any]) -> Callable[..., Any] | None:
    """What adds an effect without symbolic inputs to the graph being traced, which it belongs to.

    Called as an operation it would happen while tracing.
    """
    trace = trace_state.current_trace()
    if not isinstance(trace, Graph) or not node.effect:
        return None
    if any(isinstance(x, SymbolicTensor) for x in inputs):
        return None
    return lambda *ready, **settings: trace.apply(node.primitive, ready, settings)


def _in_part(node: Node) -> Callable[..., Any] | None:
    """What adds an optimizer's step to a branch or the body of a loop: the operations of its rule.

    Gradients go through these, and values from round to round.
    """
    trace = trace_state.current_trace()
    if node.primitive is not update_weights.primitive or not isinstance(trace, Graph):
        return None
    return None if trace.outer is None else _update_as_operations


def _update_as_operations(*inputs: Any, rule: Rule) -> tuple[Any, ...]:
    with trace_state.silence():
        return tuple(rule.as_operations(inputs))


def needed_nodes(graph: Graph) -> list[Node]:
    """The nodes that an output, an assignment or an effect needs, in order."""
    needed = {y.node for y in graph.outputs}
    if graph.outer is None:
        needed.update([slot.now.node for slot in graph.assigned])
    nodes: list[Node] = []
    # from the end: inputs stand before what reads them
    for node in reversed(graph.nodes):
        if node in needed or node.effect:
            nodes.append(node)
            needed.update([x.node for x in node.inputs if isinstance(x, GraphTensor)])
    nodes.reverse()
    return nodes
