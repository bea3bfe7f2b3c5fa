"""AutoGraph: what `while` and `for` mean when tensors are involved."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from trainkit import ops
from trainkit.core import nest
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.eval_shape import eagerly
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.graph.autograph.builtins import length
from trainkit.graph.autograph.conditional_operators import (
    State,
    at_line,
    filled,
    is_symbolic,
    is_without_value,
    label,
    reader,
    staged_if,
    undefined,
)
from trainkit.graph.control_flow.loop_options import loop_options
from trainkit.graph.control_flow.tensor_array import has_empty, with_elements
from trainkit.graph.control_flow.trace_loops import traced_for_each, traced_scan, traced_while
from trainkit.graph.control_flow.while_loop import element_specs
from trainkit.graph.ir.graph import Graph
from trainkit.graph.ir.subgraphs import equal_values
from trainkit.ops.core.run_time_checks import assert_true


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
        decision = test()
        if is_symbolic(decision) or (outer is not None and is_tensor(decision)):
            break
        if not decision:
            return
        with loop_options():  # a loop of Python, whose options are not those of a loop around
            body()
    read = reader(get_state, symbol_names)
    _staged_loop(outer, test, lambda: body(), read, set_state, symbol_names, None)


def _staged_loop(
    outer: Graph,
    test: Callable[[], Any],
    body: Callable[[], Any],
    get_state: Callable[[], Any],
    set_state: Callable[[Any], None],
    names: tuple[str, ...],
    limit: Any,
) -> None:
    """A loop whose condition is a tensor: the names it changes become loop variables."""
    known = tuple(get_state())
    before = _defined(outer, known, lambda graph: body(), get_state, set_state, names)
    of_body = _names_of_body(known, before, names)
    dynamic = [i for i, x in enumerate(before) if _is_loop_value(x)]
    # whether there was a round is a loop variable of its own, where names get values in it alone
    start = [before[i] for i in dynamic] + [False] * bool(of_body)

    def put(values: Any) -> None:
        state = list(before)
        for i, value in zip(dynamic, values, strict=False):
            state[i] = value
        set_state(tuple(state))

    def step(*values: Any) -> Any:
        put(values)
        body()
        after = tuple(get_state())
        _check_constant(before, after, dynamic, names)
        return [after[i] for i in dynamic] + [True] * bool(of_body)

    def check(*values: Any) -> Any:
        put(values)
        return test()

    labels = [name for i in dynamic for name in _labels(names[i], before[i])]
    labels += ["a round"] * bool(of_body)
    try:
        after = at_line(traced_while, outer, check, step, start, limit, labels)
    finally:
        set_state(before)
    if of_body:
        _check_that_it_ran(after[-1], of_body)
    put(after)


def _names_of_body(known: Any, filled_up: Any, names: tuple[str, ...]) -> list[str]:
    """The names that only the body of a loop gives a value, and that have zeros before it."""
    pairs = enumerate(zip(known, filled_up, strict=True))
    return [names[i] for i, (x, y) in pairs if is_without_value(x) and y is not x]


def _check_that_it_ran(ran: Any, of_body: list[str]) -> None:
    """Raise, when the graph runs, if a loop without a round should have given names their values.

    Python raises where such a name is used, TensorFlow behind the loop; zeros would be wrong.
    """
    if not isinstance(ran, bool):
        those = " and ".join(map(label, of_body))
        message = (
            f"{those} must be defined before the loop: it had no round, and its body alone gives "
            "a value. Start with one, such as a zero of the right dtype."
        )
        assert_true(ran, message=message)


def _check_constant(before: Any, after: Any, dynamic: list[int], names: tuple[str, ...]) -> None:
    """Refuse a loop that changes something which is neither tensor nor number."""
    for i, (x, y) in enumerate(zip(before, after, strict=True)):
        if i not in dynamic and not (x is y or undefined(x) or equal_values(x, y)):
            raise InvalidArgumentError(
                f"{label(names[i])} is {x!r} before the loop and {y!r} after one iteration. The "
                "loop runs over "
                "tensors, so its body is in the graph once, and only tensors and numbers can "
                "change in it: start "
                "with a tensor."
            )


def _is_loop_value(x: Any) -> bool:
    leaves = nest.flatten(x)
    return bool(leaves) and all(is_tensor(v) or isinstance(v, bool | int | float) for v in leaves)


def _defined(
    outer: Graph,
    before: tuple[Any, ...],
    body: Callable[[Graph], Any],
    get_state: Callable[[], Any],
    set_state: Callable[[Any], None],
    names: tuple[str, ...],
) -> tuple[Any, ...]:
    """`before` with zeros for names that only the body defines; a trial run tells their kind."""
    if not any(undefined(x) or has_empty(x) for x in before):
        return before
    trial = Graph("trial", outer)
    symbols = [
        nest.map_structure(lambda v: _trial_symbol(trial, v), x) if _is_loop_value(x) else x
        for x in before
    ]
    with trial, loop_options(), trace_state.silence():
        set_state(tuple(symbols))
        body(trial)
        after = tuple(get_state())
    set_state(before)
    return tuple(
        filled(outer, x, y) if undefined(x) and not undefined(y) else with_elements(x, y)
        for x, y in zip(before, after, strict=True)
    )


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
        _unrolled(iter_, extra_test, body, state)


def _unrolled(
    iter_: Any, extra_test: Callable[[], Any] | None, body: Callable[[Any], None], state: State
) -> None:
    for item in iter_:
        if extra_test is not None:
            goes_on = extra_test()
            if is_symbolic(goes_on):
                _guarded(goes_on, functools.partial(body, item), state)
                continue
            if not goes_on:
                break
        body(item)


def _guarded(goes_on: Any, run: Callable[[], Any], state: State) -> None:
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

    _staged_loop(outer, test, step, get, put, (*state.names, "position"), None)


def _for_rows(outer: Graph, x: Any, count: Any, body: Callable[[Any], None], state: State) -> None:
    """A loop over all rows of a tensor."""

    def one(graph: Graph) -> None:
        body(graph.add_input(Spec(tuple(x.shape)[1:], x.dtype), "element"))

    known = tuple(state.get())
    changed = _Changed(_defined(outer, known, one, state.get, state.put, state.names), state)
    of_body = _names_of_body(known, changed.before, state.names)

    def step(leaves: list[Any], rows: list[Any]) -> tuple[list[Any], list[Any]]:
        changed.put(leaves)
        body(rows[0])
        return changed.leaves(), []

    try:
        after, _ = at_line(
            traced_scan, outer, step, changed.start, [x], count, False, changed.labels, "for"
        )
    finally:
        state.put(changed.before)
    if of_body and not (isinstance(count, int) and count > 0):
        _check_that_it_ran(convert_to_tensor(count) > 0, of_body)
    changed.put(after)


class _Changed:
    """The names that a loop changes, as a flat list of tensors and numbers.

    Attributes:
        before: the values of all names before the loop.
        start: those of them that are tensors and numbers, flattened.
        labels: what they are called in texts.
    """

    def __init__(self, before: tuple[Any, ...], state: State) -> None:
        self.before = before
        self._state = state
        self._dynamic = [i for i, x in enumerate(before) if _is_loop_value(x)]
        self.start = [leaf for i in self._dynamic for leaf in nest.flatten(before[i])]
        names = state.names
        self.labels = [name for i in self._dynamic for name in _labels(names[i], before[i])]

    def put(self, leaves: Any) -> None:
        """Give the names these values."""
        rest = iter(leaves)
        values = list(self.before)
        for i in self._dynamic:
            like = self.before[i]
            values[i] = nest.pack(like, [next(rest) for _ in nest.flatten(like)])
        self._state.put(tuple(values))

    def leaves(self) -> list[Any]:
        """The values that the names have now.

        Raises:
            InvalidArgumentError: something changed that is neither tensor nor number.
        """
        after = tuple(self._state.get())
        _check_constant(self.before, after, self._dynamic, self._state.names)
        return [leaf for i in self._dynamic for leaf in nest.flatten(after[i])]


def _for_dataset(
    outer: Graph,
    dataset: Any,
    extra_test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    state: State,
) -> None:
    """A loop over a dataset as one node, which stops reading where the loop breaks."""
    spec, known = dataset.element_spec, element_specs(dataset)

    def one(graph: Graph) -> None:
        fed = [graph.add_input(s, "element") for s in known[0]]
        body(nest.pack(spec, list(fed)))

    changed = _Changed(
        _defined(outer, tuple(state.get()), one, state.get, state.put, state.names), state
    )

    def step(element: Any, leaves: Any) -> Any:
        changed.put(leaves)
        goes_on = True if extra_test is None else extra_test()
        _guarded(goes_on, functools.partial(body, element), state)
        given = changed.leaves()
        return given, None if extra_test is None else extra_test()

    try:
        after = at_line(
            traced_for_each, outer, dataset, spec, step, changed.start, changed.labels, known
        )
    finally:
        state.put(changed.before)
    changed.put(after)


def _labels(name: str, x: Any) -> list[str]:
    """What the leaves of `x` are called in texts."""
    count = len(nest.flatten(x))
    return [name] if count == 1 else [f"{name}[{i}]" for i in range(count)]
