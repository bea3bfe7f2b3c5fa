"""AutoGraph: what `while` and `for` mean when tensors are involved."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from trainkit import ops
from trainkit.core import nest
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.eval_shape import eagerly
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.graph.autograph.builtins import length
from trainkit.graph.autograph.conditional_operators import (
    State,
    at_line,
    filled,
    is_symbolic,
    staged_if,
    undefined,
)
from trainkit.graph.autograph.loop_state import LoopState, is_varying
from trainkit.graph.autograph.unset_names import flag_of, is_without_value
from trainkit.graph.control_flow.loop_options import loop_options
from trainkit.graph.control_flow.tensor_array import has_empty, with_elements
from trainkit.graph.control_flow.trace_loops import traced_for_each, traced_scan, traced_while
from trainkit.graph.control_flow.while_loop import element_of, element_specs
from trainkit.graph.ir.graph import Graph


def while_stmt(
    test: Callable[[], Any],
    body: Callable[[], Any],
    get_state: Callable[[], Any],
    set_state: Callable[[Any], None],
    symbol_names: tuple[str, ...],
    opts: Any,
) -> None:
    """A `while` statement; a tensor as its condition makes a loop of the graph, as with a `for`."""
    outer = trace_state.current_trace()
    while True:
        marks = _marks_of(outer)
        decision = test()
        if is_symbolic(decision) or (outer is not None and is_tensor(decision)):
            break
        if not decision:
            return
        with loop_options():  # a loop of Python, whose options are not those of a loop around
            body()
    # a test that does something has been run for the first round; any other is left out here
    first = decision if _has_shown(outer, marks) else None
    _staged_loop(outer, test, body, State(get_state, set_state, symbol_names), first)


def _marks_of(outer: Graph | None) -> tuple[int, dict[int, Any]]:
    """How far a graph has been traced, for `_has_shown`."""
    if outer is None:
        return 0, {}
    return len(outer.nodes), {key: slot.now for key, slot in outer.slots.items()}


def _has_shown(outer: Graph | None, marks: tuple[int, dict[int, Any]]) -> bool:
    """Whether what was traced since does something besides its results."""
    if outer is None:
        return False
    count, values = marks
    return any(node.effect for node in outer.nodes[count:]) or any(
        slot.now is not values.get(key, slot.first) for key, slot in outer.slots.items()
    )


def _staged_loop(
    outer: Graph, test: Callable[[], Any], body: Callable[[], Any], state: State, first: Any
) -> None:
    """A loop whose condition is a tensor: the names it changes become loop variables.

    Args:
        outer: the graph being traced.
        test: gives the condition.
        body: runs a round.
        state: the names.
        first: what `test` gave before the loop, where it was run already; a second run would show.
    """
    changed = _loop_state(outer, lambda graph: body(), state, rounds_known=False)

    def step(*values: Any) -> Any:
        changed.put(values)
        body()
        return changed.leaves()

    def check(*values: Any) -> Any:
        changed.put(values)
        return test()

    trace = functools.partial(traced_while, names=changed.labels, fixed=changed.fixed, first=first)
    try:
        after = at_line(trace, outer, check, step, changed.start)
    finally:
        state.put(changed.before)
    changed.finish(after)


def _loop_state(
    outer: Graph, body: Callable[[Graph], Any], state: State, rounds_known: bool
) -> LoopState:
    """The loop variables of a loop; flags among them where only its rounds tell them."""
    values = tuple(state.get())
    before, unset = _define(outer, values, body, state)
    new = {i for i, x in enumerate(values) if is_without_value(x) and before[i] is not x}
    flagged = {i for i, x in enumerate(values) if flag_of(x) is not None}
    flagged |= new & unset if rounds_known else new
    return LoopState(values, before, state, sorted(flagged))


def _define(
    outer: Graph, before: tuple[Any, ...], body: Callable[[Graph], Any], state: State
) -> tuple[tuple[Any, ...], set[int]]:
    """`before` with zeros for names that only the body defines; a trial run tells their kind.

    Returns:
        Those values, and the numbers of names that a round may leave without a value.
    """
    if not any(undefined(x) or has_empty(x) for x in before):
        return before, set()
    trial = Graph("trial", outer)
    symbols = [
        nest.map_structure(lambda v: _trial_symbol(trial, v) if is_varying(v) else v, x)
        if any(map(is_varying, nest.flatten(x)))
        else x
        for x in before
    ]
    with trial, loop_options(), trace_state.silence():
        state.put(tuple(symbols))
        body(trial)
        after = tuple(state.get())
        unset = {i for i, x in enumerate(after) if flag_of(x) is not None}
    state.put(before)
    values = tuple(
        filled(outer, x, y) if undefined(x) and not undefined(y) else with_elements(x, y)
        for x, y in zip(before, after, strict=True)
    )
    return values, unset


def _trial_symbol(graph: Graph, x: Any) -> Any:
    with eagerly():
        tensor = x if is_tensor(x) else convert_to_tensor(x)
    return graph.add_input(Spec(tensor.shape, tensor.dtype))


def for_stmt(
    iter_: Any,
    extra_test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    get_state: Callable[[], Any],
    set_state: Callable[[Any], None],
    symbol_names: tuple[str, ...],
    opts: Any,
) -> None:
    """A `for` statement over anything; over tensors and datasets it becomes a loop in the graph."""
    outer = trace_state.current_trace()
    loop = _for_python
    if outer is not None and isinstance(iter_, Tensor):
        loop = functools.partial(_for_tensor, outer)
    elif outer is not None and hasattr(iter_, "element_spec"):
        loop = functools.partial(_for_dataset, outer)
    loop(iter_, extra_test, body, State(get_state, set_state, symbol_names))


def _for_python(
    iter_: Any, extra_test: Callable[[], Any] | None, body: Callable[[Any], None], state: State
) -> None:
    """A loop over a Python iterable, unrolled; a tensor that decides on `break` guards rounds."""
    with loop_options():  # not those of a loop around
        _unroll(iter_, extra_test, body, state)


def _unroll(
    iter_: Any, extra_test: Callable[[], Any] | None, body: Callable[[Any], None], state: State
) -> None:
    for item in iter_:
        if extra_test is not None:
            goes_on = extra_test()
            if is_symbolic(goes_on):
                _run_under(goes_on, functools.partial(body, item), state)
                continue
            if not goes_on:
                break
        body(item)


def _run_under(goes_on: Any, run: Callable[[], Any], state: State) -> None:
    """`run` under the condition `goes_on`."""
    if is_symbolic(goes_on):
        staged_if(goes_on, run, lambda: None, state, len(state.names), True)
    elif goes_on:
        run()


def _for_tensor(
    outer: Graph,
    x: Any,
    extra_test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    state: State,
) -> None:
    if len(x.shape) == 0:
        raise TypeError("for: a scalar tensor can't be iterated; use tk.range(n)")
    count = length(x) if x.shape[0] is None else x.shape[0]
    if extra_test is None:
        _for_rows(outer, x, count, body, state)
        return
    position = [convert_to_tensor(0)]

    def get() -> Any:
        return (*state.get(), position[0])

    def put(values: Any) -> None:
        state.put(tuple(values)[:-1])
        position[0] = values[-1]

    def test() -> Any:
        goes_on = position[0] < count
        extra = extra_test()
        if is_symbolic(extra) or is_tensor(extra):
            return ops.logical_and(goes_on, extra)
        return goes_on if extra else ops.logical_and(goes_on, False)

    def step() -> None:
        i = position[0]
        body(ops.take(x, i, axis=0))
        position[0] = i + 1

    _staged_loop(outer, test, step, State(get, put, (*state.names, "position")), None)


def _for_rows(outer: Graph, x: Any, count: Any, body: Callable[[Any], None], state: State) -> None:
    """A loop over all rows of a tensor."""

    def one(graph: Graph) -> None:
        body(graph.add_input(Spec(tuple(x.shape)[1:], x.dtype), "element"))

    changed = _loop_state(outer, one, state, rounds_known=True)

    def step(leaves: list[Any], rows: list[Any]) -> tuple[list[Any], list[Any]]:
        changed.put(leaves)
        body(rows[0])
        return changed.leaves(), []

    try:
        after, _ = at_line(
            functools.partial(traced_scan, loop="for", fixed=changed.fixed),
            outer,
            step,
            changed.start,
            [x],
            count,
            False,
            changed.labels,
        )
    finally:
        state.put(changed.before)
    ran = isinstance(count, int) and count > 0
    changed.finish(after, ran or convert_to_tensor(count) > 0)


def _for_dataset(
    outer: Graph,
    dataset: Any,
    extra_test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    state: State,
) -> None:
    """A loop over a dataset as one node, which stops reading where the loop breaks."""
    spec, specs_and_flag = dataset.element_spec, element_specs(dataset)

    def one(graph: Graph) -> None:
        fed = [graph.add_input(s, "element") for s in specs_and_flag[0]]
        body(element_of(spec, fed))

    changed = _loop_state(outer, one, state, rounds_known=False)

    def step(element: Any, leaves: Any) -> Any:
        changed.put(leaves)
        goes_on = True if extra_test is None else extra_test()
        _run_under(goes_on, functools.partial(body, element), state)
        new_leaves = changed.leaves()
        return new_leaves, None if extra_test is None else extra_test()

    try:
        after = at_line(
            functools.partial(traced_for_each, known=specs_and_flag, fixed=changed.fixed),
            outer,
            dataset,
            spec,
            step,
            changed.start,
            changed.labels,
        )
    finally:
        state.put(changed.before)
    changed.finish(after)
