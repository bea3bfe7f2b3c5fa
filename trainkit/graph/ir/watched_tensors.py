"""Tensors with values that a body of a loop or branch refers to, and a tape outside tracks.

The body is traced unseen by that tape. Such a tensor comes in as a capture, as which the tape
knows it: it gets an entry that says that the capture is the tensor. What the body computes of such
tensors alone is computed at once; a tape of the body's own records it, and the tape outside gets
these entries as soon as one of the results is used.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from trainkit.core.dispatch import late_ops, trace_state
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor


def record_of_values(graph: Any) -> AbstractContextManager[Any]:
    """A context for the trace of a body that records what is computed of watched values."""
    values = {
        x
        for tape in graph.watchers
        for x in list(tape.tracked)
        if isinstance(x, Tensor) and not isinstance(x, SymbolicTensor)
    }
    if not values:
        return nullcontext()
    graph.value_tape = trace_state.new_tape(persistent=True, watch_accessed_variables=False)
    graph.value_tape.tracked.update(dict.fromkeys(values))
    tape: AbstractContextManager[Any] = graph.value_tape
    return tape


def is_watched(graph: Any, tensor: Tensor) -> bool:
    """Whether a tape outside of a body, or of one around it, tracks `tensor`."""
    while graph is not None:
        if graph.value_tape is not None and tensor in graph.value_tape.tracked:
            return True
        graph = graph.outer
    return False


def watched_constant(graph: Any, tensor: Tensor) -> Any:
    """What stands for `tensor` in the graph around a body, as which tapes know it from here on."""
    recorded = {} if graph.value_tape is None else graph.value_tape.tracked
    for tape in graph.watchers:
        for output, entry in list(recorded.items()):
            if output not in tape.tracked and _is_of_values(output, entry):
                tape.tracked[output] = entry
    constant = graph.outer.lift(tensor)
    for tape in graph.watchers:
        if tensor in tape.tracked:
            tape.tracked[constant] = (late_ops.identity.primitive, {}, tensor)
    return constant


def _is_of_values(output: Any, entry: Any) -> bool:
    """Whether an entry of a tape, or one of several results, has nothing symbolic in it."""
    results = output if isinstance(output, tuple) else (output,)
    inputs = () if entry is None else entry[2:]
    return not any(isinstance(x, SymbolicTensor) for x in (*results, *inputs))


def smooth_constants(graph: Any) -> list[Tensor]:
    """The values of a graph's constants that may have gradients."""
    return [
        node.value
        for node in graph.nodes
        if node.kind == "constant" and node.value.dtype.is_differentiable
    ]


def constants_of_parts(graph: Any) -> list[Tensor]:
    """The same of all graphs inside of it: branches, and bodies of loops."""
    constants = []
    for node in graph.nodes:
        for part in node.subgraphs():
            constants += [*smooth_constants(part), *constants_of_parts(part)]
    return constants
