"""`vectorized_map`: a function of one item, run once for all items of a stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit.core import nest
from trainkit.core.dispatch import trace_state
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.ops.core.control_flow import map as map_one_by_one
from trainkit.ops.core.one_node import one_node
from trainkit.ops.core.vmap import BatchedTensor, NeedsValue, is_symbol, new_level, unbatched


class _Once:
    """Listens while the function runs once for all, and stops it where that would not do.

    Args:
        graph: the graph being traced around, to which the operations on whole stacks go.
    """

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def read_variable(self, variable: Any) -> Tensor:
        """The value now."""
        value: Tensor = (
            variable._value if self.graph is None else self.graph.read_variable(variable)
        )
        return value

    def assign_variable(self, variable: Any, value: Any) -> None:
        """Stop: each item would assign, or draw random numbers, by itself."""
        raise NeedsValue(f"variable {variable.name!r} is assigned")

    def initial_value(self, value: Any, name: str | None) -> Any:
        """Stop: each item would make a variable by itself."""
        raise NeedsValue("a variable is made")

    def apply(self, primitive: Any, inputs: Any, settings: Any) -> Any:
        """Add an operation on stacks to the graph around."""
        if self.graph is None or primitive.facets.effect:
            raise NeedsValue(f"{primitive.name} of a symbol of a graph")
        return self.graph.apply(primitive, inputs, settings)

    def cond(self, pred: Any, true_fn: Any, false_fn: Any) -> Any:
        """Stop: items may go different ways."""
        raise NeedsValue("a condition depends on the item")

    def while_loop(self, cond: Any, body: Any, state: Any, left: Any) -> Any:
        """Stop: items may take different numbers of steps."""
        raise NeedsValue("the end of a loop depends on the item")


@one_node("vectorized_map")
def vectorized_map(function: Callable[[Any], Any], elements: Any, fallback: bool = True) -> Any:
    """Apply `function` to each item of the first axis of `elements` and stack the results.

    The function runs once, on tensors that look like one item and hold all of them. Where that
    can't be, because it looks at values, draws random numbers or assigns variables, it is called
    once per item.

    Args:
        function: of one item (a tensor, or a nest like `elements`) to a tensor or a nest.
        elements: tensor or nest of tensors (n, ...).
        fallback: whether to call it once per item where once for all can't be.

    Returns:
        The results stacked along a new first axis.

    Raises:
        TypeError: `function` is not callable.
        InvalidArgumentError: the first axes differ in size.
        ValueError: the function can't run once for all, and `fallback` is False.

    >>> vectorized_map(lambda x: x * x + 1.0, tk.constant([1.0, 2.0, 3.0])).numpy()
    array([ 2.,  5., 10.], dtype=float32)
    """
    if not callable(function):
        raise TypeError(f"vectorized_map: give a function of one item, got {function!r}")
    stacks = nest.map_structure(_as_stack, elements)
    leaves = nest.flatten(stacks)
    sizes = {x.shape[0] if len(x.shape) else None for x in leaves}
    trace = trace_state.current_trace()
    graph = trace.graph if isinstance(trace, _Once) else trace
    symbolic = any(is_symbol(x) for x in leaves)
    if len(sizes) != 1 or None in sizes or 0 in sizes:
        if symbolic or sizes == {0}:
            return map_one_by_one(function, stacks)
        raise InvalidArgumentError(
            "vectorized_map: all elements need one size of the first axis; their shapes are "
            f"{[tuple(x.shape) for x in leaves]}"
        )
    if (symbolic or graph is not None) and not hasattr(graph, "scan"):
        return map_one_by_one(function, stacks)
    level, count = new_level(), leaves[0].shape[0]
    try:
        results = _at_once(function, stacks, level, graph)
    except NeedsValue as reason:
        if not fallback:
            raise ValueError(f"vectorized_map: {reason}") from reason
        return map_one_by_one(function, stacks)
    return nest.map_structure(lambda y: unbatched(_as_tensor(y), level, count), results)


def _as_stack(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x
    return x.value() if is_tensor(x) else convert_to_tensor(x)


def _as_tensor(y: Any) -> Any:
    return y if isinstance(y, Tensor) else _as_stack(y)


def _at_once(function: Callable[[Any], Any], stacks: Any, level: int, graph: Any) -> Any:
    trace_state.THREAD.traces.append(_Once(graph))
    try:
        return function(nest.map_structure(lambda x: BatchedTensor(x, level), stacks))
    finally:
        trace_state.THREAD.traces.pop()
