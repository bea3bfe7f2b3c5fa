"""`If`, `Loop`, `Scan`: nodes that hold graphs; and sequences, which are Python's lists."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.dispatch import eval_shape, trace_state
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor
from trainkit.graph.control_flow.tensor_array import TensorArray
from trainkit.onnx.graph_records import ImportedGraph
from trainkit.onnx.imported_values import axis_of, dims, known_array, numbers, rank, tensor
from trainkit.onnx.operator_rules import NodeCall, onnx_rule

MOST_UNROLLED = 64  # rounds of a loop that become nodes of their own in a traced graph


def _graph(call: NodeCall, name: str) -> ImportedGraph:
    value = call.record.attributes.get(name)
    if not isinstance(value, ImportedGraph):
        raise InvalidArgumentError(f"the attribute {name!r} is {value!r}, and not a graph")
    return value


@onnx_rule("If")
def _if(call: NodeCall, condition: Any) -> Any:
    branches = [_graph(call, f"{name}_branch") for name in ("then", "else")]
    array = known_array(condition)
    if array is not None:
        return tuple(call.run.results(branches[0 if array.ravel()[0] else 1], []))

    def branch(graph: ImportedGraph) -> Any:
        return lambda: [tensor(y) for y in call.run.results(graph, [])]

    results = ops.cond(ops.reshape(tensor(condition), ()), branch(branches[0]), branch(branches[1]))
    return tuple(results)


@onnx_rule("Loop")
def _loop(call: NodeCall, trip_count: Any, condition: Any, *carried: Any) -> Any:
    body = _graph(call, "body")
    count = None if trip_count is None else known_array(trip_count)
    first = np.array(True) if condition is None else known_array(condition)
    if first is not None and (trip_count is None or count is not None):
        limit = None if count is None else int(count.ravel()[0])
        results = _unroll(call, body, limit, bool(np.ravel(first)[0]), list(carried))
        if results is not None:
            return results
    if any(isinstance(x, list) for x in carried):
        raise UnimplementedError(
            "a loop over sequences, whose rounds are known only when the graph runs, is supported "
            "in eager calls alone"
        )
    return _traced_loop(call, body, trip_count, condition, [tensor(x) for x in carried])


def _unroll(
    call: NodeCall, body: ImportedGraph, limit: int | None, goes_on: bool, state: list[Any]
) -> Any:
    """The results round by round, `None` if it depends on later values when the loop ends."""
    is_eager = all(isinstance(x, list) or known_array(x) is not None for x in state)
    if not is_eager and (limit is None or limit > MOST_UNROLLED):
        return None
    max_rounds = MOST_UNROLLED if trace_state.current_trace() is not None else math.inf
    scans: list[list[Any]] = [[] for _ in range(len(body.outputs) - 1 - len(state))]
    rounds = 0
    while goes_on and (limit is None or rounds < limit):
        if rounds == max_rounds:
            return None
        inputs = [np.array(rounds, np.int64), np.array(True), *state]
        decision, *outputs = call.run.results(body, inputs)
        now = known_array(decision)
        if now is None:
            return None
        state, rows = outputs[: len(state)], outputs[len(state) :]
        for scan, row in zip(scans, rows, strict=True):
            scan.append(tensor(row))
        goes_on, rounds = bool(now.ravel()[0]), rounds + 1
    if not rounds and scans:
        return None
    return *state, *(ops.stack(scan) for scan in scans)


def _traced_loop(
    call: NodeCall, body: ImportedGraph, trip_count: Any, condition: Any, state: list[Tensor]
) -> Any:
    """The loop as one of the graph, whose rounds are counted when it runs."""
    kinds = [v.dtype for v in body.outputs[1 + len(state) :]]
    if None in kinds:
        raise UnimplementedError("the body of the loop does not say the dtypes of what it collects")
    arrays = [TensorArray(kind, size=0, dynamic_size=True) for kind in kinds]
    going = ops.convert_to_tensor(True) if condition is None else tensor(condition)
    if isinstance(trace_state.current_trace(), eval_shape.ShapeTrace):
        return _shapes_of_loop(call, body, going, state)
    limit = None if trip_count is None else ops.reshape(tensor(trip_count), ())
    count = len(state)

    def go_on(iteration: Tensor, going: Tensor, *_: Any) -> Tensor:
        return going if limit is None else ops.logical_and(going, ops.less(iteration, limit))

    def round_of(iteration: Tensor, going: Tensor, *parts: Any) -> Any:
        decision, *outputs = call.run.results(body, [iteration, going, *parts[:count]])
        rows = [
            array.write(ops.cast(iteration, "int32"), tensor(row))
            for array, row in zip(parts[count:], outputs[count:], strict=True)
        ]
        after = [tensor(x) for x in outputs[:count]]
        return iteration + 1, ops.reshape(tensor(decision), ()), *after, *rows

    start = (ops.zeros((), "int64"), ops.reshape(going, ()), *state, *arrays)
    results: Any
    _, _, *results = ops.while_loop(go_on, round_of, start)
    return *results[:count], *(array.stack() for array in results[count:])


def _shapes_of_loop(
    call: NodeCall, body: ImportedGraph, going: Tensor, state: list[Tensor]
) -> tuple[Tensor, ...]:
    """What a loop gives where shapes alone are asked for: one round shows them."""
    count = len(state)
    _, *outputs = call.run.results(body, [ops.zeros((), "int64"), ops.reshape(going, ()), *state])
    after = [tensor(x) for x in outputs]
    specs = [_common(x.shape, y.shape) for x, y in zip(state, after[:count], strict=True)]
    specs += [(None, *y.shape) for y in after[count:]]
    return tuple(SymbolicTensor(Spec(n, y.dtype)) for n, y in zip(specs, after, strict=True))


def _common(a: Any, b: Any) -> tuple[int | None, ...]:
    if len(a) != len(b):
        raise UnimplementedError(f"a loop changes the number of axes of {tuple(a)} to {len(b)}")
    return tuple(n if n == m else None for n, m in zip(a, b, strict=True))


@onnx_rule("Scan")
def _scan(call: NodeCall, *values: Any) -> Any:
    if call.version < 9:
        return _scan_of_batches(call, *values)
    body, inputs = _graph(call, "body"), call.int("num_scan_inputs")
    count = len(values) - inputs
    outputs = len(body.outputs) - count
    if inputs < 1 or count < 0 or outputs < 0:
        raise InvalidArgumentError(f"{inputs} scan inputs of {len(values)} inputs do not fit")
    axes = call.list("scan_input_axes", None) or (0,) * inputs
    turned = call.list("scan_input_directions", None) or (0,) * inputs
    rows = [
        _turn(ops.moveaxis(tensor(x), axis_of(axis, rank(x)), 0), flag)
        for x, axis, flag in zip(values[count:], axes, turned, strict=True)
    ]

    def step(carry: list[Tensor], xs: list[Tensor]) -> Any:
        results = [tensor(y) for y in call.run.results(body, [*carry, *xs])]
        return results[:count], results[count:]

    state, collected = ops.scan(step, [tensor(x) for x in values[:count]], rows)
    axes = call.list("scan_output_axes", None) or (0,) * outputs
    turned = call.list("scan_output_directions", None) or (0,) * outputs
    moved = [
        ops.moveaxis(_turn(y, flag), 0, axis_of(axis, rank(y)))
        for y, axis, flag in zip(collected, axes, turned, strict=True)
    ]
    return *state, *moved


def _scan_of_batches(call: NodeCall, lengths: Any, *values: Any) -> Any:
    """`Scan` of opset 8: each item of a batch goes along its own steps, as many as it has.

    Shapes: states (batch, ...), what is scanned and collected (batch, steps, ...).
    """
    body, inputs = _graph(call, "body"), call.int("num_scan_inputs")
    count = len(values) - inputs
    if inputs < 1 or count < 0 or len(body.outputs) < count:
        raise InvalidArgumentError(f"{inputs} scan inputs of {len(values)} inputs do not fit")
    turned = call.list("directions", None) or (0,) * inputs
    if len(turned) != inputs:
        raise InvalidArgumentError(f"the directions {turned} do not fit {inputs} scan inputs")
    sources = [tensor(x) for x in values]
    if lengths is not None:
        sources.append(ops.cast(tensor(lengths), "int64"))

    def item(xs: list[Tensor]) -> list[Tensor]:
        limit = None if lengths is None else xs[len(values)]
        rows = [_steps(x, flag, limit) for x, flag in zip(xs[count : len(values)], turned,
                                                          strict=True)]  # fmt: skip
        positions = ops.cast(ops.arange(ops.shape(rows[0])[0]), "int64")

        def step(carry: list[Tensor], row: list[Tensor]) -> Any:
            results = [tensor(y) for y in call.run.results(body, [*carry, *row[1:]])]
            if limit is None:
                return results[:count], results[count:]
            is_inside = row[0] < limit
            states = [
                ops.where(is_inside, y, x) for x, y in zip(carry, results[:count], strict=True)
            ]
            return states, [ops.where(is_inside, y, ops.zeros_like(y)) for y in results[count:]]

        state, collected = ops.scan(step, xs[:count], [positions, *rows])
        return [*state, *collected]

    return tuple(ops.map(item, sources))


def _steps(x: Tensor, flag: int, limit: Any) -> Tensor:
    """The steps of an item in the order in which they are scanned."""
    if not flag or limit is None:
        return _turn(x, flag)
    size = ops.cast(ops.shape(x)[0], "int64")
    positions = limit - 1 - ops.cast(ops.arange(ops.shape(x)[0]), "int64")
    return ops.take(x, ops.mod(positions, size), axis=0)  # those behind the end are not looked at


def _turn(x: Tensor, flag: int) -> Tensor:
    return ops.flip(x, 0) if flag else x


# ------------------------------------------------------------------ sequences


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidArgumentError("an input is a tensor, and has to be a sequence")
    return value


def _index(position: Any, count: int) -> int:
    (at,) = numbers(position, "the position in a sequence")
    if not -count <= at <= count:
        raise InvalidArgumentError(f"position {at} is none of a sequence of {count}")
    return at


onnx_rule("SequenceConstruct")(lambda call, *xs: (list(xs),))
onnx_rule("SequenceEmpty")(lambda call: ([],))


@onnx_rule("SequenceInsert")
def _insert(call: NodeCall, items: Any, x: Any, position: Any = None) -> Any:
    result = list(_items(items))
    result.insert(len(result) if position is None else _index(position, len(result)), x)
    return (result,)


@onnx_rule("SequenceErase")
def _erase(call: NodeCall, items: Any, position: Any = None) -> Any:
    result = list(_items(items))
    del result[-1 if position is None else _index(position, len(result))]
    return (result,)


onnx_rule("SequenceAt")(lambda call, items, position: _items(items)[_index(position, len(items))])
onnx_rule("SequenceLength")(lambda call, items: np.array(len(_items(items)), np.int64))


@onnx_rule("ConcatFromSequence")
def _concat_from(call: NodeCall, items: Any) -> Tensor:
    tensors = [tensor(x) for x in _items(items)]
    join = ops.stack if call.flag("new_axis") else ops.concatenate
    return join(tensors, axis=call.int("axis"))


@onnx_rule("SplitToSequence")
def _split_to(call: NodeCall, x: Any, parts: Any = None) -> Any:
    axis = axis_of(call.int("axis", 0), rank(x))
    size = dims(x)[axis]
    if size is None:
        raise UnimplementedError("the size of the axis that is split is not known")
    lengths = None if parts is None else numbers(parts, "the sizes of a split")
    if lengths is None or rank(parts) == 0:
        each = 1 if lengths is None else lengths[0]
        ends = list(range(each, size, each))
    else:
        ends = [int(n) for n in np.cumsum(lengths)[:-1]]
    cut = ops.split(tensor(x), ends, axis=axis)
    if lengths is None and not call.flag("keepdims", True):
        cut = [ops.squeeze(part, axis) for part in cut]
    return (list(cut),)


@onnx_rule("SequenceMap")
def _sequence_map(call: NodeCall, items: Any, *others: Any) -> Any:
    body, results = _graph(call, "body"), []
    for i, item in enumerate(_items(items)):
        other_items = [x[i] if isinstance(x, list) else x for x in others]
        results.append(call.run.results(body, [item, *other_items]))
    return tuple(list(column) for column in zip(*results, strict=True)) or tuple(
        [] for _ in body.outputs
    )


onnx_rule("Optional")(lambda call, x=None: (x,))
onnx_rule("OptionalHasElement")(lambda call, x=None: np.array(x is not None))


@onnx_rule("OptionalGetElement")
def _get_element(call: NodeCall, x: Any) -> Any:
    if x is None:
        raise InvalidArgumentError("the optional value is not there")
    return (x,)
