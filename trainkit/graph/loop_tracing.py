"""Tracing loops: the body becomes a graph, what it changes becomes loop variables.

What a body uses from outside comes in as captures; a variable that it assigns becomes one more
loop variable.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from trainkit.core import nest
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import PRIMITIVES, Tensor, convert_to_tensor, is_tensor
from trainkit.graph.graph import Graph, GraphTensor
from trainkit.graph.loops import for_primitive, while_primitive
from trainkit.graph.subgraphs import (
    add_node,
    as_output,
    is_number,
    merged_dims,
    scalar_pred,
    trace_into,
)


def traced_while(
    outer: Graph,
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    maximum_iterations: Any = None,
    names: Sequence[str] | None = None,
) -> Any:
    """Trace condition and body and add one `while_loop` node.

    A size that the body changes becomes unknown; a Python number takes the dtype that the body
    gives it.

    Args:
        outer: the graph being traced.
        cond: function of the loop variables to a scalar.
        body: function of the loop variables to their next values, in the same structure.
        loop_vars: nest of tensors and numbers.
        maximum_iterations: Python int, or `None`.
        names: what the loop variables are called in error texts.

    Raises:
        InvalidArgumentError: a loop variable changes dtype, rank or structure.
    """
    leaves = nest.flatten(loop_vars)
    weak = [type(x) in (bool, int, float) for x in leaves]
    start = [_loop_start(x) for x in leaves]
    specs = [Spec(x.shape, x.dtype) for x in start]
    for _ in range(8):
        inner, result, placeholders = _trace_body(outer, body, loop_vars, specs, names)
        new_specs = _agreed(specs, result, weak, names)
        if new_specs == specs:
            break
        specs = new_specs
    start = [_cast_to(x, spec) for x, spec in zip(start, specs, strict=True)]
    inner.outputs = [inner.lift(y) for y in result]
    test, test_inputs = _trace_test(outer, cond, loop_vars, specs)
    assigned = inner.assigned
    inner_first, test_first = [], []
    before = []
    for slot in assigned:
        before.append(outer.read_variable(slot.variable))
        inner_first.append(slot.first)
        inner.outputs.append(inner.lift(slot.now))
        there = test.slots.get(id(slot.variable))
        spec = Spec(slot.first.shape, slot.first.dtype)
        test_first.append(there.first if there else _loose_input(test, spec))
    _order_inputs(inner, placeholders + inner_first)
    _order_inputs(test, test_inputs + test_first)
    settings = {
        "cond": test,
        "body": inner,
        "count": len(start) + len(before),
        "split": len(test.captures),
        "limit": None if maximum_iterations is None else int(maximum_iterations),
    }
    inputs = (*start, *before, *test.captures, *inner.captures)
    outputs = add_node(outer, while_primitive, inputs, settings)
    for slot, y in zip(assigned, outputs[len(start) :], strict=True):
        outer.assign_variable(slot.variable, y)
    return nest.pack(loop_vars, list(outputs[: len(start)]))


def _loop_start(x: Any) -> Any:
    if is_tensor(x):
        return x if isinstance(x, Tensor) else x.value()
    from trainkit.core.abstract import eagerly

    with eagerly():
        return convert_to_tensor(x)


def _cast_to(x: Any, spec: Spec) -> Any:
    return x if x.dtype == spec.dtype else PRIMITIVES["cast"].op(x, dtype=spec.dtype.name)


def _loose_input(graph: Graph, spec: Spec) -> GraphTensor:
    symbol = graph.add_input(spec)
    graph.inputs.pop()
    return symbol


def _order_inputs(graph: Graph, first: list[GraphTensor]) -> None:
    """Put `first` before the captures in the list of inputs; they are captures no longer."""
    mine = set(first)
    graph.captures = {k: v for k, v in graph.captures.items() if v not in mine}
    graph.inputs = first + list(graph.captures.values())


def _trace_body(
    outer: Graph, body: Callable[..., Any], loop_vars: Any, specs: list[Spec], names: Any
) -> tuple[Graph, list[Any], list[GraphTensor]]:
    graph = Graph("body", outer)
    placeholders = [graph.add_input(spec, _name(names, i)) for i, spec in enumerate(specs)]
    packed = nest.pack(loop_vars, list(placeholders))
    result = trace_into(graph, lambda: body(*packed) if _spreads(loop_vars) else body(packed))
    if _spreads(loop_vars) and len(loop_vars) == 1 and not isinstance(result, list | tuple):
        result = (result,)
    leaves = nest.flatten(result)
    if len(leaves) != len(specs):
        raise InvalidArgumentError(
            f"while_loop: the body returns {len(leaves)} values for {len(specs)} loop variables"
        )
    with graph:
        return (
            graph,
            [_body_output(graph, y, spec) for y, spec in zip(leaves, specs, strict=True)],
            placeholders,
        )


def _body_output(graph: Graph, y: Any, spec: Spec) -> GraphTensor:
    if is_tensor(y):
        return graph.lift(y)
    if not is_number(y):
        raise InvalidArgumentError(
            f"while_loop: the body gives {y!r} for a loop variable that was a tensor of dtype "
            f"{spec.dtype.name}"
        )
    from trainkit.core.abstract import eagerly

    with eagerly():
        return graph.lift(convert_to_tensor(y, dtype_hint=spec.dtype))


def _spreads(loop_vars: Any) -> bool:
    return isinstance(loop_vars, list | tuple)


def _name(names: Sequence[str] | None, i: int) -> str:
    return names[i].replace(".", "_") if names and i < len(names) else f"loop_var_{i}"


def _agreed(specs: list[Spec], result: list[Any], weak: list[bool], names: Any) -> list[Spec]:
    """Specs of the loop variables that fit both their start and what the body gives."""
    agreed = []
    for i, (spec, y) in enumerate(zip(specs, result, strict=True)):
        label = f"{_name(names, i)!r}"
        if len(spec.shape) != len(y.shape):
            raise InvalidArgumentError(
                f"while_loop: loop variable {label} has shape {spec.shape} before the loop and "
                f"{tuple(y.shape)} "
                "after one iteration; the rank can't change. Start with a tensor of the final rank."
            )
        dtype = spec.dtype
        if dtype != y.dtype:
            if not weak[i] or dtype.is_bool:
                raise InvalidArgumentError(
                    f"while_loop: loop variable {label} has dtype {dtype.name} before the loop and "
                    f"{y.dtype.name} after one iteration; start with a value of that dtype, or "
                    "cast it in the body"
                )
            dtype = y.dtype
        agreed.append(Spec(merged_dims(spec.shape, y.shape), dtype))
    return agreed


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


def traced_for_each(
    outer: Graph,
    source: Any,
    element_spec: Any,
    body: Callable[[Any, Any], Any],
    loop_vars: list[Any],
    names: Sequence[str] | None = None,
) -> list[Any]:
    """Trace `body(element, loop_vars)` and add one node that runs it for each element of a dataset.

    The body gives the next loop variables, and a bool scalar that says whether to go on, or `None`.
    """
    weak = [type(x) in (bool, int, float) for x in loop_vars]
    start = [_loop_start(x) for x in loop_vars]
    specs = [Spec(x.shape, x.dtype) for x in start]
    fed_specs = nest.flatten(element_spec)
    for _ in range(8):
        graph = Graph("body", outer)
        state = [graph.add_input(spec, _name(names, i)) for i, spec in enumerate(specs)]
        fed = [graph.add_input(Spec(s.shape, s.dtype), "element") for s in fed_specs]
        element = nest.pack(element_spec, list(fed))
        result, flag = trace_into(graph, functools.partial(body, element, list(state)))
        with graph:
            result = [_body_output(graph, y, spec) for y, spec in zip(result, specs, strict=True)]
        new_specs = _agreed(specs, result, weak, names)
        if new_specs == specs:
            break
        specs = new_specs
    start = [_cast_to(x, spec) for x, spec in zip(start, specs, strict=True)]
    assigned = graph.assigned
    graph.outputs = [*result, *(graph.lift(slot.now) for slot in assigned)]
    if flag is not None:
        with graph:
            graph.outputs.append(as_output(graph, flag, flag, "loop's"))
    firsts = [slot.first for slot in assigned]
    mine = set(firsts)
    graph.captures = {k: v for k, v in graph.captures.items() if v not in mine}
    graph.inputs = state + firsts + fed + list(graph.captures.values())
    if not result and not assigned:
        raise_nothing_to_do(graph)
    settings = {
        "body": graph,
        "count": len(start) + len(assigned),
        "source": source,
        "fed": len(fed),
        "stops": flag is not None,
    }
    before = [outer.read_variable(slot.variable) for slot in assigned]
    inputs = (*start, *before, *graph.captures)
    outputs = add_node(outer, for_primitive, inputs, settings)
    for slot, y in zip(assigned, outputs[len(start) :], strict=True):
        outer.assign_variable(slot.variable, y)
    return list(outputs[: len(start)])


def raise_nothing_to_do(graph: Graph) -> None:
    """Refuse a loop that changes nothing, unless it has effects."""
    if graph.has_effects:
        return
    raise InvalidArgumentError(
        "the loop over a dataset inside a function changes no variable and no tensor, so it does "
        "nothing"
    )
