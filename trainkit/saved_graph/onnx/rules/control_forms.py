"""Conditions and loops: `If`, `Loop` and `Scan`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit.core.errors import UnimplementedError
from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value
from trainkit.saved_graph.onnx.rules.elementwise_forms import as_bool
from trainkit.saved_graph.onnx.rules.onnx_form import onnx_form
from trainkit.saved_graph.onnx.rules.shapes_forms import reversed_axis
from trainkit.saved_graph.onnx.translation import translate


def body_builder(to: GraphBuilder, name: str) -> GraphBuilder:
    """What writes the body of a node."""
    return GraphBuilder(to.unique_name(f"{to.label}_{name}"), to)


def body_inputs(body: GraphBuilder, likes: Sequence[tuple[Any, str]], label: str) -> list[Value]:
    """Values that a body is given."""
    values = []
    for shape, dtype in likes:
        name = body.unique_name(f"{label}_in")
        body.record.inputs.append((name, dtype, shape))
        values.append(Value(body, shape, dtype, name))
    return values


def give_results(body: GraphBuilder, values: Sequence[Value], dtypes: Sequence[str]) -> None:
    """Let a body give these values, each from a node of its own."""
    for value, dtype in zip(values, dtypes, strict=True):
        name = body.node("Identity", [body.name_of(body.cast(value, dtype))])
        body.record.outputs.append((name, dtype, (None,) * value.rank))


def _dtypes(tensors: Sequence[Any]) -> list[str]:
    return [x.dtype.name for x in tensors]


@onnx_form("cond")
def _cond(to: GraphBuilder, pred: Value, *values: Value, true: Any, false: Any, split: int) -> Any:
    if not isinstance(pred, Value):
        pred = to.known(bool(pred), "bool")
    specs = to.call.specs
    bodies = {}
    for name, graph, part in (
        ("then_branch", true, values[:split]), ("else_branch", false, values[split:])
    ):  # fmt: skip
        body = body_builder(to, name)
        results = translate(body, graph, [to.as_value(x) for x in part])
        give_results(body, results, [spec.dtype.name for spec in specs])
        bodies[name] = body.record
    if not specs:
        return ()
    pred = as_bool(to, pred)
    if pred.rank:
        pred = to.op("Reshape", pred, to.known([], "int64"))
    return add_node(to, "If", [pred], [(s.shape, s.dtype.name) for s in specs], **bodies)


def add_node(
    to: GraphBuilder,
    kind: str,
    inputs: Sequence[Value | None],
    likes: Sequence[tuple[Any, str]],
    **attributes: Any,
) -> tuple[Value, ...]:
    """Add a node with bodies, and give its results, whose shapes and dtypes `likes` has."""
    shapes, dtypes = [shape for shape, _ in likes], [dtype for _, dtype in likes]
    return tuple(
        to.ops(kind, *inputs, count=len(likes), shapes=shapes, dtypes=dtypes, **attributes)
    )


def _carried(graph: Any, count: int) -> list[tuple[Any, str]]:
    """Ranks and dtypes of loop variables; sizes may change from round to round."""
    return [((None,) * len(x.shape), x.dtype.name) for x in graph.inputs[:count]]


@onnx_form("while_loop")
def _while_loop(
    to: GraphBuilder,
    *values: Any,
    cond: Any,
    body: Any,
    count: int,
    split: int,
    limit: int | None,
    stacked: int | None = None,
    padded: tuple[int, ...] = (),
) -> Any:
    if padded:
        raise UnimplementedError("a loop stacks results of different sizes")
    operands = [to.as_value(x) for x in values]
    state, for_cond, for_body = (
        operands[:count],
        operands[count : count + split],
        operands[count + split :],
    )
    first = _is_true(to, translate(to, cond, state + for_cond)[0])
    inner = body_builder(to, "body")
    body_inputs(inner, [((), "int64"), ((), "bool")], "round")
    carried = body_inputs(inner, _carried(body, count), "carried")
    counter = body_inputs(inner, [((), "int64")], "count")
    results = translate(inner, body, [*carried, *for_body])
    names = _dtypes(body.inputs[:count])
    # dtypes of loop variables hold for the condition, too
    following = [inner.cast(y, name) for y, name in zip(results[:count], names, strict=True)]
    again = _is_true(inner, translate(inner, cond, following + for_cond)[0])
    next_count = inner.each("Add", counter[0], 1)
    rows = results[count:]
    give_results(inner, [again, *following, next_count, *rows],
          ["bool", *names, "int64", *_dtypes(body.outputs[count:])])  # fmt: skip
    rounds = None if limit is None else to.known(int(limit), "int64")
    likes = [*_carried(body, count), ((), "int64")]
    likes += [((None,) * (len(y.shape) + 1), y.dtype.name) for y in body.outputs[count:]]
    outputs = add_node(
        to, "Loop", [rounds, first, *state, to.known(0, "int64")], likes, body=inner.record
    )
    if stacked is None:
        return outputs[:count]
    return *outputs[:count], *outputs[count + 1 :], outputs[count]


def _is_true(to: GraphBuilder, value: Value) -> Value:
    flag = as_bool(to, value)
    return to.op("Reshape", flag, to.known([], "int64")) if flag.rank else flag


@onnx_form("scan")
def _scan(
    to: GraphBuilder,
    steps: Any,
    *values: Any,
    body: Any,
    count: int,
    fed: int,
    reverse: bool = False,
    length: int | None = None,
    padded: tuple[int, ...] = (),
) -> Any:
    if padded:
        raise UnimplementedError("a loop stacks results of different sizes")
    operands = [to.as_value(x) for x in values]
    state, rows, captured = operands[:count], operands[count : count + fed], operands[count + fed :]
    if not (length and fed):  # onnxruntime's Scan takes no stack without rows
        steps = to.cast(to.as_value(steps), "int64")
        return _counted_loop(to, steps, state, rows, captured, body, reverse)
    inner = body_builder(to, "body")
    carried = body_inputs(inner, _carried(body, count), "carried")
    lines = [x if x.shape[0] == length else to.slice_axis(x, 0, 0, length) for x in rows]
    elements = body_inputs(inner, [(x.shape[1:], x.dtype) for x in rows], "row")
    results = translate(inner, body, [*carried, *elements, *captured])
    give_results(inner, results, _dtypes(body.inputs[:count]) + _dtypes(body.outputs[count:]))
    stacks = len(body.outputs) - count
    likes = _carried(body, count)
    likes += [((length, *y.shape), y.dtype.name) for y in body.outputs[count:]]
    attributes: dict[str, Any] = {"num_scan_inputs": len(lines)}
    if reverse:
        attributes["scan_input_directions"] = [1] * len(lines)
        attributes["scan_output_directions"] = [1] * stacks
    return add_node(to, "Scan", [*state, *lines], likes, body=inner.record, **attributes)


def _counted_loop(
    to: GraphBuilder,
    steps: Value,
    state: Sequence[Value],
    rows: Sequence[Value],
    captured: Sequence[Value],
    body: Any,
    reverse: bool,
) -> tuple[Value, ...]:
    """The same as a loop that looks up its rows, for a number of steps that may be 0."""
    count = len(state)
    inner = body_builder(to, "body")
    number, going_on = body_inputs(inner, [((), "int64"), ((), "bool")], "round")
    carried = body_inputs(inner, _carried(body, count), "carried")
    if reverse:
        number = inner.each("Sub", inner.each("Sub", steps, number), 1)
    elements = [inner.op("Gather", x, number, axis=0, shape=x.shape[1:]) for x in rows]
    results = translate(inner, body, [*carried, *elements, *captured])
    dtypes = ["bool", *_dtypes(body.inputs[:count]), *_dtypes(body.outputs[count:])]
    give_results(inner, [going_on, *results], dtypes)
    likes = _carried(body, count)
    likes += [((None, *y.shape), y.dtype.name) for y in body.outputs[count:]]
    first = to.known(True)
    outputs = add_node(to, "Loop", [steps, first, *state], likes, body=inner.record)
    if not reverse:
        return outputs
    return *outputs[:count], *[reversed_axis(to, y, 0) for y in outputs[count:]]
