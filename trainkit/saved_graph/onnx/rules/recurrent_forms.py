"""LSTM and GRU as ONNX's nodes of these names.

The traced graph multiplies all steps by the input kernel first. Where that product is a `dense`
whose weights are known, the node takes its input and its kernel, and the product is left out;
else the product is taken as the input, and the kernel is the identity.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.dispatch import late_ops
from trainkit.core.errors import UnimplementedError
from trainkit.ops.neural import recurrence as recurrence  # declares operations
from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value
from trainkit.saved_graph.onnx.rules.control_forms import (
    add_node,
    body_builder,
    body_inputs,
    give_results,
)
from trainkit.saved_graph.onnx.rules.indexing_forms import LAST_STEP
from trainkit.saved_graph.onnx.rules.onnx_form import onnx_form

LSTM_GATES = (0, 3, 1, 2)  # ONNX has input, output, forget, cell; here they are i, f, g, o
GRU_GATES = (0, 1, 2)  # update, reset, new, in both


def _reorder(to: GraphBuilder, value: Value, gates: tuple[int, ...]) -> Value:
    """Columns gate by gate, in another order of the gates."""
    if value.is_known:
        parts = np.split(value.array, len(gates), axis=-1)
        return to.known(np.concatenate([parts[i] for i in gates], axis=-1), label=value.label)
    count, units = len(gates), int(value.shape[-1] or 0) // len(gates)
    shapes, dtypes = [(None,) * value.rank] * count, [value.dtype] * count
    sizes = [units] * count
    cut = to.ops("Split", value, sizes, count=count, shapes=shapes, dtypes=dtypes, axis=-1)
    ordered = [cut[i] for i in gates]
    return to.op("Concat", *ordered, axis=value.rank - 1, shape=value.shape)


def _weights(to: GraphBuilder, matrix: Value, gates: tuple[int, ...]) -> Value:
    """A kernel (inputs, gates and units) as (1, gates and units, inputs)."""
    ordered = _reorder(to, matrix, gates)
    if ordered.is_known:
        return to.known(np.ascontiguousarray(ordered.array.T[None]), label=matrix.label)
    return to.unsqueeze(to.transpose(ordered, [1, 0]), [0])


def _input_product(to: GraphBuilder, projected: Value) -> tuple[Value, Value, Value | None]:
    """What is multiplied by the input kernel, the kernel, and the bias or `None`."""
    if projected.source is not None:
        (x, kernel, bias), activation = projected.source
        if activation is None and x.rank == 3 and kernel.rank == 2:
            return x, kernel, bias
    size = projected.shape[-1]
    if size is None:
        raise UnimplementedError("the number of units is not known")
    return projected, to.known(np.eye(size), projected.dtype), None


def _run(
    to: GraphBuilder,
    kind: str,
    projected: Value,
    states: list[Value],
    kernel: Value,
    bias: Value | None,
    gates: tuple[int, ...],
    **attributes: int,
) -> tuple[Value, list[Value]]:
    """The node; all steps (batch, steps, units), and the states behind the last one."""
    x, of_input, input_bias = _input_product(to, projected)
    dtype = projected.dtype
    units, columns = kernel.shape
    zeros = to.known(np.zeros(int(columns or 0)), dtype)
    biases = [_reorder(to, zeros if b is None else b, gates) for b in (input_bias, bias)]
    both = to.op("Concat", *biases, axis=0, shape=(None,))
    if all(b.is_known for b in biases):
        both = to.known(np.concatenate([b.array for b in biases]))
    both = to.known(both.array[None]) if both.is_known else to.unsqueeze(both, [0])
    weights = [_weights(to, matrix, gates) for matrix in (of_input, kernel)]
    batch, steps = projected.shape[:2]
    first = [to.unsqueeze(state, [0]) for state in states]
    shapes = [(steps, 1, batch, units), *[(1, batch, units)] * len(states)]
    all_steps, *last = to.ops(
        kind,
        *[to.transpose(x, [1, 0, 2]), *weights, both, None, *first],
        count=len(shapes),
        shapes=shapes,
        dtypes=[dtype] * len(shapes),
        hidden_size=units,
        **attributes,
    )
    hidden = to.transpose(to.squeeze(all_steps, [1]), [1, 0, 2])
    hidden.last_step = to.squeeze(last[0], [0])
    return hidden, [to.squeeze(state, [0]) for state in last]


def _only_last(to: GraphBuilder, index: int) -> bool:
    """Whether of a result nothing but the last step is looked at."""
    get_item = late_ops.get_item.primitive
    return all(
        node is not None
        and node.primitive is get_item
        and tuple(node.settings["key"][:2]) == LAST_STEP
        for node in to.call.consumers[index]
    )


def _last_alone(to: GraphBuilder, last: Value, shape: Any) -> Value:
    """States of which only those behind the last step are there."""
    value = Value(to, shape, last.dtype, "")
    value.last_step = last
    return value


def _lstm_by_steps(
    to: GraphBuilder, projected: Value, h: Value, c: Value, kernel: Value
) -> tuple[Value, ...]:
    """The same with the memory behind each step, which ONNX's node does not give."""
    body = body_builder(to, "body")
    state = [((None, None), projected.dtype)] * 2
    old_h, old_c, row = body_inputs(body, [*state, ((None, None), projected.dtype)], "step")
    total = body.each("Add", row, body.op("MatMul", old_h, kernel, shape=(None, None)))
    units = int(kernel.shape[0] or 0)
    gates = body.ops("Split", total, [units] * 4, count=4, shapes=[(None, units)] * 4,
                     dtypes=[projected.dtype] * 4, axis=1)  # fmt: skip
    i, f, o = [body.each("Sigmoid", gates[k]) for k in (0, 1, 3)]
    share = body.each("Mul", i, body.each("Tanh", gates[2]))
    new_c = body.each("Add", body.each("Mul", f, old_c), share)
    new_h = body.each("Mul", o, body.each("Tanh", new_c))
    give_results(body, [new_h, new_c, new_h, new_c], [projected.dtype] * 4)
    steps = to.transpose(projected, [1, 0, 2])
    likes = [*state, *[((None, None, units), projected.dtype)] * 2]
    _, _, hidden, memory = add_node(
        to, "Scan", [h, c, steps], likes, body=body.record, num_scan_inputs=1
    )
    hidden, memory = [to.transpose(x, [1, 0, 2]) for x in (hidden, memory)]
    return hidden, memory, hidden  # nothing takes the gates, the third


@onnx_form("lstm")
def _lstm(to: GraphBuilder, projected: Value, h: Value, c: Value, kernel: Value) -> Any:
    if to.call.is_used(2):
        raise UnimplementedError("the gates of an LSTM, which gradients alone need")
    if not _only_last(to, 1):
        return _lstm_by_steps(to, projected, h, c, kernel)
    hidden, (_, memory) = _run(to, "LSTM", projected, [h, c], kernel, None, LSTM_GATES)
    specs = to.call.specs
    last_memory = _last_alone(to, memory, specs[2].shape)
    return hidden, _last_alone(to, memory, specs[1].shape), last_memory


@onnx_form("gru")
def _gru(
    to: GraphBuilder,
    projected: Value,
    h: Value,
    kernel: Value,
    bias: Value | None,
    reset_after: bool = True,
) -> Any:
    if to.call.is_used(1):
        raise UnimplementedError("the gates of a GRU, which gradients alone need")
    before = int(reset_after)
    hidden, (last,) = _run(
        to, "GRU", projected, [h], kernel, bias, GRU_GATES, linear_before_reset=before
    )
    return hidden, _last_alone(to, last, to.call.specs[1].shape)
