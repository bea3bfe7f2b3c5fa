"""Graphs of branches and loop bodies: tracing into them, what they give, who looks on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.eval_shape import eagerly
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import convert_to_tensor, is_tensor
from trainkit.graph.ir.graph import Graph, GraphTensor
from trainkit.graph.ir.watched_tensors import record_of_values


def merged_dims(a: Any, b: Any) -> tuple[int | None, ...]:
    """Sizes that fit both shapes: `None` where they differ.

    Raises:
        InvalidArgumentError: the ranks differ.
    """
    a, b = tuple(a), tuple(b)
    if len(a) != len(b):
        raise InvalidArgumentError(f"shapes {a} and {b} have different ranks")
    return tuple(m if m == n else None for m, n in zip(a, b, strict=True))


def trace_into(graph: Graph, function: Callable[[], Any]) -> Any:
    """Run `function` with `graph` as the current trace, unseen by the tapes outside."""
    graph.watchers = [t for t in trace_state.TAPES if t.thread == trace_state.get_ident()]
    with graph, trace_state.silence(), record_of_values(graph):
        return function()


def add_node(outer: Graph, op: Any, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """A call of `op` as a node of `outer`, even if no input is symbolic."""
    if not inputs:
        return outer.apply(op.primitive, (), settings)
    return op(*[outer.lift(x) for x in inputs], **settings)


def is_number(x: Any) -> bool:
    """Whether `x` is a Python or NumPy number, or an array."""
    return isinstance(x, bool | int | float | complex) or hasattr(x, "__array__")


def scalar_pred(pred: Any) -> Any:
    """`pred` as a symbolic bool scalar.

    Raises:
        InvalidArgumentError: it has more than one element.
    """
    if tuple(pred.shape) not in ((), (1,), (None,)):
        raise InvalidArgumentError(
            f"a condition must be a scalar, this one has shape {tuple(pred.shape)}; use "
            "tk.reduce_all or "
            "tk.reduce_any"
        )
    return pred


def equal_values(a: Any, b: Any) -> bool:
    """Whether two Python values are of one type and equal; a comparison that raises says no."""
    try:
        return bool(type(a) is type(b) and a == b)
    except Exception:
        return False


def as_output(graph: Graph, x: Any, other: Any, branch: str) -> GraphTensor:
    """A leaf of a branch's result as a symbolic tensor of its graph."""
    if is_tensor(x):
        return graph.lift(x)
    if not is_number(x) and not isinstance(x, str | bytes):
        raise InvalidArgumentError(
            f"cond: the {branch} branch returns {x!r} where the other returns {other!r}; both "
            "must return tensors "
            "of the same dtype"
        )
    hint = other.dtype if is_tensor(other) else None
    if hint is not None and isinstance(x, bool | int | float):
        if isinstance(x, bool):
            fits = hint.is_bool
        else:
            fits = hint.is_floating or hint.is_complex or (hint.is_integer and isinstance(x, int))
        hint = hint if fits else None
    else:
        hint = None
    with eagerly():
        return graph.lift(convert_to_tensor(x, dtype=hint))


def tracked_by_tapes(inputs: Sequence[Any]) -> tuple[bool, ...]:
    """For each input whether a tape of this thread tracks it."""
    me = trace_state.get_ident()
    tapes = [tape for tape in trace_state.TAPES if tape.thread == me]
    return tuple(any(x in tape.tracked for tape in tapes) for x in inputs)
