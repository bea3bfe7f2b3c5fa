"""Tracing of branches: both of them, brought to one structure, as one node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit.core import nest
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import convert_to_tensor, is_tensor
from trainkit.graph.control_flow import cond_vjp as cond_vjp  # gives `cond` its gradients
from trainkit.graph.control_flow.cond import cond_primitive
from trainkit.graph.ir.graph import ABOVE, Graph, GraphTensor
from trainkit.graph.ir.subgraphs import (
    add_node,
    as_output,
    equal_values,
    merged_dims,
    scalar_pred,
    trace_into,
)


def traced_cond(
    outer: Graph,
    pred: Any,
    true_fn: Callable[[], Any],
    false_fn: Callable[[], Any],
    merge: Callable[[Graph, Any, Graph, Any], Any] | None = None,
) -> Any:
    """Trace both branches and add one `cond` node.

    Args:
        outer: the graph being traced.
        pred: symbolic scalar.
        true_fn: function without arguments.
        false_fn: the same; its result has the structure of that of `true_fn`.
        merge: brings the raw results of both branches to one structure; by default they must agree.

    Returns:
        The structure of the branches' results; Python values that both give stay as they are.

    Raises:
        InvalidArgumentError: structures, ranks or dtypes of the branches differ.
    """
    pred = scalar_pred(pred)
    true, false = Graph("true", outer), Graph("false", outer)
    # Both are traced, whatever `pred` will be: a graph is made once for both cases.
    one = trace_into(true, true_fn)
    two = trace_into(false, false_fn)
    if merge is not None:
        # AutoGraph fills names that a branch leaves undefined, before structures are compared.
        one, two = merge(true, one, false, two)
    leaves_one, leaves_two = nest.flatten(one), nest.flatten(two)
    if not nest.same_structure(one, two):
        raise InvalidArgumentError(
            f"cond: the branches return different structures, {_outline(one)} and "
            f"{_outline(two)}; return the same structure from both"
        )
    leaf_indices = []
    for i, (a, b) in enumerate(zip(leaves_one, leaves_two, strict=True)):
        # A value that both branches agree on needs no result, and stays one that Python can use,
        # as a size or a name.
        if _same_python(a, b):
            continue
        # In the branch, since a variable that it returns is read there, behind what it assigned.
        with true:
            a = as_output(true, a, b, "true")
        with false:
            b = as_output(false, b, a, "false")
        a, b = _same_dtype(true, a, false, b, i)
        true.outputs.append(a)
        false.outputs.append(b)
        leaf_indices.append(i)
    # A node gives the same results whichever branch runs: one that does not assign a variable
    # gives the value that it has read.
    variables = {id(s.variable): s.variable for s in true.assigned + false.assigned}
    for variable in variables.values():
        true.outputs.append(true.lift(true.read_variable(variable)))
        false.outputs.append(false.lift(false.read_variable(variable)))
    # Nothing comes out and nothing happens, so there is nothing to choose.
    if not true.outputs and not (true.has_effects or false.has_effects):
        return one
    _ensure_effect_output(true, false)
    captured = (*true.captures, *false.captures)
    settings = {"true": true, "false": false, "split": len(true.captures)}
    outputs = add_node(outer, cond_primitive, (pred, *captured), settings)
    # Results of branches come first, then variables; one that stands for effects is dropped.
    for i, y in zip(leaf_indices, outputs, strict=False):
        leaves_one[i] = y
    for variable, y in zip(variables.values(), outputs[len(leaf_indices) :], strict=False):
        outer.assign_from_part(variable, y)
    return nest.pack(one, leaves_one)


def _ensure_effect_output(true: Graph, false: Graph) -> None:
    """Give branches that only print or assert one output, since a node has at least one."""
    if not true.outputs:
        true.outputs.append(true.constant(convert_to_tensor(True)))
        false.outputs.append(false.constant(convert_to_tensor(False)))


def _same_python(a: Any, b: Any) -> bool:
    if is_tensor(a) or is_tensor(b):
        # A symbol belongs to a graph, so the same one is still a result of two branches.
        return a is b and not isinstance(a, GraphTensor)
    return a is b or equal_values(a, b)


def _outline(x: Any) -> str:
    def word(leaf: Any) -> str:
        return "a tensor" if is_tensor(leaf) else type(leaf).__name__

    return str(nest.map_structure(word, x)).replace("'", "")


def _same_dtype(true: Graph, a: GraphTensor, false: Graph, b: GraphTensor, index: int) -> Any:
    if a.dtype != b.dtype:
        raise InvalidArgumentError(
            f"cond: result {index} has dtype {a.dtype.name} in the true branch and "
            f"{b.dtype.name} in the false "
            "branch; cast one of them"
        )
    merged_dims(a.shape, b.shape)
    return a, b


ABOVE.cond = traced_cond
