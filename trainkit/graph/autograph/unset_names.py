"""Names that have no value after a loop without a round.

A graph gives them zeros. A flag, a bool scalar of the graph, says whether a name was given its
value; it goes with the symbol that the name holds, through loops and conditionals.
"""

from __future__ import annotations

import functools
from typing import Any

from trainkit.core import nest
from trainkit.core.dispatch import trace_state
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.graph.ir.graph import Graph
from trainkit.ops.core.run_time_checks import assert_true

RETURNED = "the returned value"


@functools.cache
def undefined_kinds() -> tuple[type, ...]:
    """What the rewriting puts in place of a name, or a returned value, that is not there yet."""
    from malt.operators import variables

    return (variables.Undefined, variables.UndefinedReturnValue)


def is_without_value(x: Any) -> bool:
    """Whether a name that holds `x` is one of the user's without a value, not that of a result."""
    return isinstance(x, undefined_kinds()[0])


def label(name: str) -> str:
    """What the name that a statement changes is called in texts."""
    if name.startswith("retval_") or name == "fscope.ret":
        return RETURNED
    return f"{name!r}"


def flag_of(x: Any) -> Any:
    """The flag of the name that holds `x`, `None` if that surely has a value."""
    graph = _graph_of_flag(x)
    return None if graph is None else graph.unset[_first_symbol(x)][0]


def put_flag(x: Any, flag: Any, name: str) -> None:
    """Let `flag` say whether `name`, which holds `x` now, has been given it."""
    symbol, graph = _first_symbol(x), trace_state.current_trace()
    if symbol is not None and isinstance(graph, Graph) and isinstance(flag, SymbolicTensor):
        graph.unset[symbol] = (flag, name)


def read_name(x: Any) -> Any:
    """What a name holds; that it has been given it is checked when the graph runs."""
    if is_without_value(x):
        return x.read()  # raises, and names it
    graph = _graph_of_flag(x)
    if graph is not None:
        flag, name = graph.unset[_first_symbol(x)]
        check_flags(flag, [name])
        if graph is trace_state.current_trace():  # not where a branch checks it alone
            del graph.unset[_first_symbol(x)]
    return x


def check_flags(flag: Any, names: list[str]) -> None:
    """Raise, when the graph runs, if names have no value.

    Python raises where such a name is used, TensorFlow behind the loop; zeros would be wrong.
    """
    if not isinstance(flag, bool):
        those = " and ".join(map(label, names))
        message = (
            f"{those} must be defined before the loop: it had no round, and its body alone gives "
            "a value. Start with one, such as a zero of the right dtype."
        )
        assert_true(flag, message=message)


def _graph_of_flag(x: Any) -> Graph | None:
    """The graph that has a flag for the name that holds `x`."""
    graph = trace_state.current_trace()
    while isinstance(graph, Graph):  # other traces, those of shapes alone, run no loop in a graph
        if graph.unset and _first_symbol(x) in graph.unset:
            return graph
        graph = graph.outer
    return None


def _first_symbol(x: Any) -> Any:
    return next((leaf for leaf in nest.flatten(x) if isinstance(leaf, SymbolicTensor)), None)
