"""Tracing loops: the body becomes a graph, what it changes becomes loop variables.

What a body uses from outside comes in as captures; a variable that it assigns becomes one more
loop variable.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from trainkit.core import nest
from trainkit.core.dispatch import late_ops
from trainkit.core.dispatch.eval_shape import eagerly
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import convert_to_tensor, is_tensor
from trainkit.core.values.python_values import short_text
from trainkit.graph.control_flow import loop_vjp as loop_vjp  # gives the loops their gradients
from trainkit.graph.control_flow.loop_options import LoopOptions, loop_options
from trainkit.graph.control_flow.loop_specs import LoopSpecs
from trainkit.graph.control_flow.loop_to_scan import RowPlan
from trainkit.graph.control_flow.loop_variables import (
    body_output,
    carried_slots,
    loop_start,
    order_inputs,
    take_carried,
    variable_name,
)
from trainkit.graph.control_flow.tensor_array import has_empty, with_elements
from trainkit.graph.control_flow.while_loop import (
    element_of,
    element_specs,
    for_primitive,
    scan_primitive,
    while_primitive,
)
from trainkit.graph.ir.graph import ABOVE, Graph, GraphTensor
from trainkit.graph.ir.subgraphs import add_node, as_output, scalar_pred, trace_into


def traced_while(
    outer: Graph,
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    maximum_iterations: Any = None,
    names: Sequence[str] | None = None,
    fixed: Sequence[bool] | None = None,
    first: Any = None,
) -> Any:
    """Trace condition and body and add one `while_loop` node.

    A size that the body changes becomes unknown, where the shape is not `fixed`; a Python number
    takes the dtype that the body gives it. A condition that assigns variables is run before the
    loop and behind each round, as a part of the body, whose variables are loop variables.

    Args:
        outer: the graph being traced.
        cond: function of the loop variables to a scalar.
        body: function of the loop variables to their next values, in the same structure.
        loop_vars: nest of tensors and numbers.
        maximum_iterations: Python int, or `None`.
        names: what the loop variables are called in error texts.
        fixed: which leaves of the loop variables must keep their shapes, as in `LoopSpecs`.
        first: what `cond` gave before the loop, where it was run already; a second run would show.

    Raises:
        InvalidArgumentError: a loop variable changes dtype, rank, structure, or a fixed shape.
    """
    if first is not None:
        return _tested_behind(outer, cond, body, loop_vars, maximum_iterations, names, fixed, first)
    # An array without elements is no leaf and one with elements is, so a loop that fills it would
    # change its structure.
    if has_empty(loop_vars):
        loop_vars = _fill_arrays(outer, body, loop_vars)
    with loop_options() as options:
        agreement = LoopSpecs(nest.flatten(loop_vars), names, "while_loop", options, fixed)

        def trace(python_calls: int = 0) -> tuple[Graph, list[Any], list[GraphTensor]]:
            return _trace_body(
                outer, body, loop_vars, agreement.specs, names, python_calls, options
            )

        # Body first: a condition is traced for the shapes and dtypes that all rounds agree on.
        inner, result, placeholders = _agree(agreement, trace, lambda traced: traced[1])
    limits = [int(n) for n in (maximum_iterations, options.max_rounds) if n is not None]
    start, specs = agreement.start(), agreement.specs
    test, test_inputs = _trace_test(outer, cond, loop_vars, specs)
    # What a condition assigns is no loop variable, so the next round would not see it. And
    # eager loops ask once more at the limit, as in TensorFlow, where the node does not.
    if test.assigned or (limits and test.has_effects):
        begin = nest.map_structure(lambda x: loop_start(x) if is_tensor(x) else x, loop_vars)
        values = nest.map_structure(loop_start, begin)
        first = cond(*values) if _spreads(loop_vars) else cond(values)
        return _tested_behind(outer, cond, body, begin, maximum_iterations, names, fixed, first)
    if test.runs_python:  # which is between the start of a round and what the round reads
        inner, result, placeholders = trace(1)
    inner.outputs = [inner.lift(y) for y in result]
    assigned = carried_slots(inner, test)
    inner_first, test_first = [], []
    before = []
    for slot in assigned:
        before.append(outer.read_variable(slot.variable))
        inner_first.append(slot.first)
        inner.outputs.append(inner.lift(slot.now))
        test_slot = test.slots.get(id(slot.variable))
        spec = Spec(slot.first.shape, slot.first.dtype)
        # Condition and body are given the same loop variables, whether they read them or not.
        test_first.append(test_slot.first if test_slot else _loose_input(test, spec))
    # Last, as lifting outputs and reading variables adds captures.
    order_inputs(inner, placeholders + inner_first)
    order_inputs(test, test_inputs + test_first)
    settings = {
        "cond": test,
        "body": inner,
        "count": len(start) + len(before),
        "split": len(test.captures),
        "limit": min(limits, default=None),
    }
    inputs = (*start, *before, *test.captures, *inner.captures)
    outputs = add_node(outer, while_primitive, inputs, settings)
    take_carried(outer, assigned, outputs[len(start) :], inner.runs_python or test.runs_python)
    return nest.pack(loop_vars, list(outputs[: len(start)]))


def _tested_behind(
    outer: Graph,
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    maximum_iterations: Any,
    names: Sequence[str] | None,
    fixed: Sequence[bool] | None,
    first: Any,
) -> Any:
    """A loop whose test is run behind each round; `first` is what it gave before the loop."""
    spreads = _spreads(loop_vars)

    def step(goes_on: Any, state: Any) -> Any:
        # The condition is a loop variable itself: it is computed where its effects are due, and the
        # node asks for a value that is there.
        result = _result_of(body, loop_vars, state)
        return (cond(*result) if spreads else cond(result)), result

    return traced_while(
        outer,
        lambda goes_on, state: goes_on,
        step,
        [first, loop_vars],
        maximum_iterations,
        None if names is None else ["the condition", *names],
        None if fixed is None else [True, *fixed],
    )[1]


def _result_of(body: Callable[..., Any], loop_vars: Any, state: Any) -> Any:
    """What a body gives, nested as the loop variables are: a list may be given as a tuple."""
    spreads = _spreads(loop_vars)
    result = body(*state) if spreads else body(state)
    if spreads and len(loop_vars) == 1 and not _spreads(result):
        result = (result,)
    _check_result(loop_vars, result)
    return nest.like(loop_vars, list(result)) if spreads else result


def _check_result(loop_vars: Any, result: Any) -> None:
    """Refuse what a body gives where it is no set of the loop variables.

    Raises:
        InvalidArgumentError: there are more or fewer, or they are nested otherwise.
    """
    count, results = len(nest.flatten(loop_vars)), len(nest.flatten(result))
    if results != count:
        raise InvalidArgumentError(
            f"while_loop: the body returns {results} values for {count} loop variables"
        )
    if not nest.same_variables(loop_vars, result):
        raise InvalidArgumentError(
            f"while_loop: the body returns {short_text(result)}, which is nested otherwise than "
            f"the loop variables {short_text(loop_vars)}"
        )


def _agree(agreement: LoopSpecs, trace: Callable[[], Any], results: Callable[[Any], Any]) -> Any:
    """Trace a body until its results have the shapes and dtypes that it was traced for.

    A round makes at least one size unknown or changes one dtype, so few are enough. A body may
    fail for the shapes before the loop, and not for those that it has said.
    """
    while True:
        try:
            traced = trace()
        # Not the error of a shape alone: a body may raise what it likes for sizes that it does not
        # take. The error counts if there are no invariants to try.
        except Exception:
            if not agreement.take_invariants():
                raise
            continue
        if agreement.admit(results(traced)):
            return traced


def _fill_arrays(outer: Graph, body: Callable[..., Any], loop_vars: Any) -> Any:
    """The loop variables with elements in arrays that only the body fills; a trial tells which."""
    # This graph is thrown away: only the shapes of elements are taken from it.
    trial = Graph("trial", outer)
    specs = [Spec(x.shape, x.dtype) for x in map(loop_start, nest.flatten(loop_vars))]
    packed = nest.pack(loop_vars, [trial.add_input(spec) for spec in specs])
    with loop_options():
        result = trace_into(trial, lambda: body(*packed) if _spreads(loop_vars) else body(packed))
    if _spreads(loop_vars) and len(loop_vars) == 1 and not _spreads(result):
        result = (result,)
    return with_elements(loop_vars, result)


def traced_loop(
    outer: Graph,
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    maximum_iterations: Any = None,
) -> Any:
    """`traced_while` whose largest number of rounds may be a symbolic scalar, too."""
    if isinstance(maximum_iterations, GraphTensor):
        return _while_below(outer, cond, body, loop_vars, maximum_iterations)
    return traced_while(outer, cond, body, loop_vars, maximum_iterations)


def _while_below(
    outer: Graph, cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Any, limit: Any
) -> Any:
    """As `traced_while`, with a symbolic scalar as the largest number of rounds."""
    logical_and, spreads = late_ops.logical_and, _spreads(loop_vars)

    def check(round_count: Any, state: Any) -> Any:
        # A count of rounds as one more loop variable, since the limit of a node is a Python number.
        return logical_and(round_count < limit, cond(*state) if spreads else cond(state))

    def step(round_count: Any, state: Any) -> Any:
        result = body(*state) if spreads else body(state)
        if spreads and len(loop_vars) == 1 and not _spreads(result):
            result = (result,)
        if spreads and nest.same_variables(loop_vars, result):
            result = nest.like(loop_vars, list(result))  # a list may be given as a tuple
        return round_count + 1, result

    return traced_while(outer, check, step, [loop_start(0), loop_vars])[1]


def _loose_input(graph: Graph, spec: Spec) -> GraphTensor:
    symbol = graph.add_input(spec)
    # Out of the list again: `order_inputs` puts it in its place among the loop variables.
    graph.inputs.pop()
    return symbol


def _trace_body(
    outer: Graph,
    body: Callable[..., Any],
    loop_vars: Any,
    specs: list[Spec],
    names: Any,
    python_calls: int,
    options: LoopOptions,
) -> tuple[Graph, list[Any], list[GraphTensor]]:
    graph = Graph("body", outer)
    graph.python_calls = python_calls
    placeholders = [graph.add_input(spec, variable_name(names, i)) for i, spec in enumerate(specs)]
    # By these `set_loop_options` recognises the loop variables that the body names.
    options.variables = placeholders
    packed = nest.pack(loop_vars, list(placeholders))
    result = trace_into(graph, lambda: body(*packed) if _spreads(loop_vars) else body(packed))
    if _spreads(loop_vars) and len(loop_vars) == 1 and not _spreads(result):
        result = (result,)
    _check_result(loop_vars, result)
    leaves = nest.flatten(result)
    with graph:
        return (
            graph,
            [body_output(graph, y, spec) for y, spec in zip(leaves, specs, strict=True)],
            placeholders,
        )


def _spreads(loop_vars: Any) -> bool:
    """Whether loop variables are several; a `TensorArray` is one."""
    return isinstance(loop_vars, list | tuple) and nest.above_arrays(loop_vars) is not None


def _trace_test(
    outer: Graph, cond: Callable[..., Any], loop_vars: Any, specs: list[Spec]
) -> tuple[Graph, list[GraphTensor]]:
    graph = Graph("condition", outer)
    placeholders = [graph.add_input(spec, f"loop_var_{i}") for i, spec in enumerate(specs)]
    packed = nest.pack(loop_vars, list(placeholders))
    result = trace_into(graph, lambda: cond(*packed) if _spreads(loop_vars) else cond(packed))
    with graph:
        graph.outputs = [as_output(graph, result, result, "loop's")]
    scalar_pred(graph.outputs[0])
    return graph, placeholders


class _Fed:
    """A body that is given the loop variables and elements, traced.

    Attributes:
        graph: the body; it gives the next loop variables, those assigned, and what else it gives.
        start: the loop variables before the first round.
        slots: variables whose values are loop variables, too: see `carried_slots`.
        max_rounds: the largest number of rounds that it says of itself, `None` for any.
    """

    def __init__(
        self,
        outer: Graph,
        body: Callable[[list[Any], list[Any]], tuple[list[Any], list[Any]]],
        loop_vars: list[Any],
        elements: list[Spec],
        names: Sequence[str] | None,
        loop: str,
        between: bool = False,
        fixed: Sequence[bool] | None = None,
    ) -> None:
        self._outer = outer
        with loop_options() as options:
            agreement = LoopSpecs(loop_vars, names, loop, options, fixed)

            def trace() -> Any:
                graph = Graph("body", outer)
                graph.python_calls = int(between)
                # Read anew for each trace, as the one before may have made them more general.
                specs = agreement.specs
                state = [graph.add_input(s, variable_name(names, i)) for i, s in enumerate(specs)]
                fed = [graph.add_input(spec, "element") for spec in elements]
                options.variables = state
                result, extra = trace_into(graph, functools.partial(body, list(state), list(fed)))
                with graph:
                    result = [body_output(graph, y, s) for y, s in zip(result, specs, strict=True)]
                return graph, state, fed, result, extra

            graph, state, fed, result, extra = _agree(agreement, trace, lambda traced: traced[3])
        self.start = agreement.start()
        self.max_rounds = options.max_rounds
        with graph:
            extra_outputs = [as_output(graph, y, y, "loop's") for y in extra]
        # A dataset's own functions run between rounds, outside of the body.
        self._runs_python = between or graph.runs_python
        self.slots = carried_slots(graph, runs_python=self._runs_python)
        graph.outputs = [*result, *(graph.lift(slot.now) for slot in self.slots), *extra_outputs]
        order_inputs(graph, state + [slot.first for slot in self.slots])
        captures = graph.inputs[len(state) + len(self.slots) :]
        # `order_inputs` knows loop variables and captures; elements stand between them.
        graph.inputs = [*state, *(slot.first for slot in self.slots), *fed, *captures]
        self.graph = graph

    @property
    def count(self) -> int:
        """How many loop variables there are."""
        return len(self.start) + len(self.slots)

    @property
    def state(self) -> list[Any]:
        """All loop variables before the first round."""
        return [*self.start, *(self._outer.read_variable(slot.variable) for slot in self.slots)]

    def settle(self, outputs: Sequence[Any]) -> list[Any]:
        """Take note of what the loop assigned; the loop variables after the last round."""
        after = outputs[len(self.start) : self.count]
        take_carried(self._outer, self.slots, after, self._runs_python)
        return list(outputs[: len(self.start)])


def traced_scan(
    outer: Graph,
    body: Callable[[list[Any], list[Any]], tuple[list[Any], list[Any]]],
    loop_vars: list[Any],
    stacks: list[Any],
    steps: Any,
    reverse: bool = False,
    names: Sequence[str] | None = None,
    loop: str = "scan",
    fixed: Sequence[bool] | None = None,
) -> tuple[list[Any], list[Any]]:
    """Trace `body(loop_vars, rows)` and add one `scan` node.

    Args:
        outer: the graph being traced.
        body: gives the next loop variables, and results that are stacked.
        loop_vars: tensors and numbers.
        stacks: tensors (steps, ...), whose rows the body is given.
        steps: how many rounds, a Python int or an int scalar.
        reverse: from the last row to the first.
        names: what the loop variables are called in error texts.
        loop: what the loop is called there.
        fixed: which loop variables must keep their shapes, as in `LoopSpecs`.

    Returns:
        The loop variables after the last round, and the stacked results.

    Raises:
        InvalidArgumentError: a loop variable changes dtype, rank, or a fixed shape.
    """
    elements = [Spec(tuple(x.shape)[1:], x.dtype) for x in stacks]
    fed = _Fed(outer, body, loop_vars, elements, names, loop, fixed=fixed)
    # A body without results or effects does nothing, so it leaves no node.
    if not fed.graph.outputs and not fed.graph.has_effects:
        return [], []
    stacks = [loop_start(x) for x in stacks]
    if fed.max_rounds is not None:
        stacks = [_first_rows(x, fed.max_rounds) for x in stacks]
        smaller = min if isinstance(steps, int) else _at_most
        steps = smaller(steps, fed.max_rounds)
    # Stacks must be tensors by now: rows of a constant counter are recognised by its values.
    by_rows = RowPlan(fed.graph, fed.count, stacks, steps)
    by_rows.apply(len(fed.start))
    # An array that is written row by row is no loop variable any more, but a stacked result; it
    # goes back to its place among the loop variables behind the node.
    state = [x for i, x in enumerate(fed.state) if i not in by_rows.written]
    settings = {
        "body": by_rows.graph,
        "count": len(state),
        "fed": len(by_rows.stacks),
        "reverse": reverse,
        "length": steps if isinstance(steps, int) else None,
    }
    inputs = (loop_start(steps), *state, *by_rows.stacks, *by_rows.captures)
    outputs = add_node(outer, scan_primitive, inputs, settings)
    results = outputs[len(state) :]
    finals = iter(outputs)
    after = [
        results[by_rows.written[i]] if i in by_rows.written else next(finals)
        for i in range(fed.count)
    ]
    return fed.settle(after), list(results[: len(results) - len(by_rows.written)])


def _first_rows(x: Any, count: int) -> Any:
    """As many rows of `x`; of known values at once, so that counters stay known."""
    if isinstance(x, GraphTensor):
        return x[:count]
    with eagerly():
        return x[:count]


def _at_most(steps: Any, count: int) -> Any:
    with eagerly():
        limit = convert_to_tensor(count, dtype_hint=steps.dtype)
    return late_ops.minimum(steps, limit)


def traced_fold(
    outer: Graph,
    f: Callable[[Any, Any], Any],
    init: Any,
    xs: Any,
    steps: Any,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """What `ops.scan` gives, as one `scan` node.

    Args:
        outer: the graph being traced.
        f: function of carry and row to the next carry and a result.
        init: nest of tensors and numbers.
        xs: nest of tensors (steps, ...), or `None`.
        steps: how many rounds, a Python int or an int scalar.
        reverse: from the last row to the first.

    Raises:
        InvalidArgumentError: the carry changes its structure, a dtype or a rank.
    """
    outline: list[Any] = []

    def step(state: list[Any], rows: list[Any]) -> tuple[list[Any], list[Any]]:
        carry, y = f(nest.pack(init, state), None if xs is None else nest.pack(xs, rows))
        leaves, results = nest.flatten(carry), nest.flatten(y)
        if len(leaves) != len(state):
            raise InvalidArgumentError(
                f"scan: the function gives a carry of {len(leaves)} values, it was given one of "
                f"{len(state)}; the carry must keep its structure"
            )
        # The body may be traced several times; the last trace is the one that counts.
        outline[:] = [y]
        return leaves, [leaf for leaf in results if leaf is not None]

    stacks = [] if xs is None else nest.flatten(xs)
    carry, rows = traced_scan(outer, step, nest.flatten(init), stacks, steps, reverse)
    # `None` is no tensor, so it was left out of the results and comes back in its place here.
    stacked = iter(rows)
    ys = nest.map_structure(lambda leaf: None if leaf is None else next(stacked), outline[0])
    return nest.pack(init, carry), ys


def traced_for_each(
    outer: Graph,
    source: Any,
    element_spec: Any,
    body: Callable[[Any, Any], Any],
    loop_vars: list[Any],
    names: Sequence[str] | None = None,
    known: tuple[list[Spec], bool] | None = None,
    fixed: Sequence[bool] | None = None,
) -> list[Any]:
    """Trace `body(element, loop_vars)` and add one node that runs it for each element of a dataset.

    The body gives the next loop variables, and a bool scalar that says whether to go on, or `None`.
    `known` is what `element_specs` gives for the dataset, if the caller has it; `fixed` says which
    loop variables must keep their shapes.
    """

    def step(state: list[Any], leaves: list[Any]) -> tuple[list[Any], list[Any]]:
        result, flag = body(element_of(element_spec, leaves), state)
        return result, [] if flag is None else [flag]

    elements, checked = known or element_specs(source)
    fed = _Fed(outer, step, loop_vars, elements, names, "for", between=True, fixed=fixed)
    if fed.max_rounds is not None:
        source = _first_elements(source, fed.max_rounds)
    settings = {
        "body": fed.graph,
        "count": fed.count,
        "source": source,
        "fed": len(elements),
        "stops": len(fed.graph.outputs) > fed.count,
        "checked": checked,
    }
    outputs = add_node(outer, for_primitive, (*fed.state, *fed.graph.captures), settings)
    return fed.settle(outputs)


def _first_elements(source: Any, count: int) -> Any:
    """As many elements of a dataset.

    Raises:
        InvalidArgumentError: `source` is an iterator, which can't be shortened.
    """
    if not hasattr(source, "take"):
        raise InvalidArgumentError(
            "set_loop_options: maximum_iterations is not supported in a loop over an iterator of a "
            "dataset; loop over the dataset, or over dataset.take(n)"
        )
    return source.take(count)


ABOVE.while_loop, ABOVE.scan = traced_loop, traced_fold
