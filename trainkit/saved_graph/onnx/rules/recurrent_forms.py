"""LSTM and GRU as ONNX's nodes of these names.

The traced graph multiplies all steps by the input kernel first. Where that product is a `dense`
whose weights are known, the node takes its input and its kernel, and the product is left out;
else the product is taken as the input, and the kernel is the identity.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core.errors import UnimplementedError
from trainkit.core.tensor import PRIMITIVES
from trainkit.ops.neural import recurrence as recurrence  # declares operations
from trainkit.saved_graph.onnx.graph_builder import GraphBuilder
from trainkit.saved_graph.onnx.graph_values import Value
from trainkit.saved_graph.onnx.rules.indexing_forms import LAST_STEP
from trainkit.saved_graph.onnx.rules.onnx_form import onnx_form

LSTM_GATES = (0, 3, 1, 2)  # ONNX has input, output, forget, cell; here they are i, f, g, o
GRU_GATES = (0, 1, 2)  # update, reset, new, in both


def _known(value: Value | None, what: str) -> Any:
    if value is None:
        return None
    if not value.is_known:
        raise UnimplementedError(f"the {what} of a recurrent layer is no constant")
    return value.array


def _reordered(matrix: Any, gates: tuple[int, ...]) -> Any:
    """Columns gate by gate, in another order of the gates."""
    return np.concatenate([np.split(matrix, len(gates), axis=-1)[i] for i in gates], axis=-1)


def _input_product(projected: Value) -> tuple[Value, Any, Any]:
    """What is multiplied by the input kernel, the kernel, and the bias or `None`."""
    if projected.source is not None:
        _, (x, kernel, bias), activation = projected.source
        if activation is None and kernel.is_known and (bias is None or bias.is_known):
            if x.rank == 3 and kernel.rank == 2:
                return x, kernel.array, None if bias is None else bias.array
    size = projected.shape[-1]
    if size is None:
        raise UnimplementedError("the number of units is not known")
    return projected, np.eye(size), None


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
    x, of_input, input_bias = _input_product(projected)
    dtype = projected.dtype
    recurrent = _known(kernel, "recurrent kernel")
    units, columns = recurrent.shape
    biases = [np.zeros(columns) if b is None else b for b in (input_bias, _known(bias, "bias"))]
    weights = [
        to.known(_reordered(m, gates).T[None], dtype, label=f"{kernel.label}_onnx")
        for m in (of_input, recurrent)
    ]
    both = to.known(np.concatenate([_reordered(b, gates) for b in biases])[None], dtype)
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
    get_item = PRIMITIVES["get_item"]
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


@onnx_form("lstm")
def _lstm(to: GraphBuilder, projected: Value, h: Value, c: Value, kernel: Value) -> Any:
    if not _only_last(to, 1) or to.call.is_used(2):
        raise UnimplementedError("ONNX gives the memory of an LSTM behind the last step alone")
    hidden, (_, memory) = _run(to, "LSTM", projected, [h, c], kernel, None, LSTM_GATES)
    specs = to.call.specs
    rest = _last_alone(to, memory, specs[2].shape)
    return hidden, _last_alone(to, memory, specs[1].shape), rest


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
        raise UnimplementedError("ONNX gives no gates of a GRU")
    before = int(reset_after)
    hidden, (last,) = _run(
        to, "GRU", projected, [h], kernel, bias, GRU_GATES, linear_before_reset=before
    )
    return hidden, _last_alone(to, last, to.call.specs[1].shape)
