"""Loop variables: how they start, and what shapes and dtypes all rounds agree on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit.core.dispatch.eval_shape import eagerly
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.graph.ir.graph import Graph, GraphTensor, VariableSlot
from trainkit.graph.ir.subgraphs import is_number


def loop_start(x: Any) -> Any:
    """A loop variable before the first round, as a tensor."""
    if is_tensor(x):
        return x if isinstance(x, Tensor) else x.value()
    with eagerly():
        return convert_to_tensor(x)


def order_inputs(graph: Graph, first: list[GraphTensor]) -> None:
    """Put `first` before the captures in the list of inputs; they are captures no longer."""
    # Symbols for variables come in as captures when the body reads them first, in any order.
    mine = set(first)
    graph.captures = {k: v for k, v in graph.captures.items() if v not in mine}
    graph.inputs = first + list(graph.captures.values())


def body_output(graph: Graph, y: Any, spec: Spec) -> GraphTensor:
    """What a body gives for a loop variable, as a symbol of its graph."""
    if is_tensor(y):
        return graph.lift(y)
    if not is_number(y):
        raise InvalidArgumentError(
            f"while_loop: the body gives {y!r} for a loop variable that was a tensor of dtype "
            f"{spec.dtype.name}"
        )
    with eagerly():
        return graph.lift(convert_to_tensor(y, dtype_hint=spec.dtype))


def carried_slots(
    body: Graph, test: Graph | None = None, runs_python: bool = False
) -> list[VariableSlot]:
    """The variables whose values are loop variables, with these at the end of a round.

    They are those that the body assigns. Where Python runs in the loop they are all: it may assign
    them between two reads, and in the next round it sees what this one has assigned.

    Args:
        body: the loop's body.
        test: its condition.
        runs_python: whether Python runs outside of both, between rounds.
    """
    if not (runs_python or body.runs_python or (test is not None and test.runs_python)):
        return body.assigned
    # The order matters: all slots exist before the stores, and the reads behind them give what
    # Python in this round has left in the variables.
    for slot in [] if test is None else test.slots.values():
        body.slot_of(slot.variable)
    body.store_pending()
    for slot in body.slots.values():
        body.read_variable(slot.variable)
    return list(body.slots.values())


def take_carried(
    outer: Graph, slots: Sequence[VariableSlot], values: Sequence[Any], runs_python: bool
) -> None:
    """Let the graph around go on from `values`, those after the last round.

    Args:
        outer: the graph around.
        slots: what `carried_slots` gave for the body.
        values: a symbol of `outer` for each.
        runs_python: whether Python ran in the loop. The variables have these values then, if it has
            not assigned others since, so they are read again.
    """
    for slot, y in zip(slots, values, strict=True):
        # The loop has stored to the variables itself, so nothing is to be assigned: that would undo
        # what Python did after the last store.
        if runs_python:
            outer.slot_of(slot.variable).now = y
        else:
            outer.assign_from_part(slot.variable, y)


def variable_name(names: Sequence[str] | None, i: int) -> str:
    """What error texts call loop variable `i`."""
    return names[i].replace(".", "_") if names and i < len(names) else f"loop_var_{i}"
