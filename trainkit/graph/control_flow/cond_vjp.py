"""Gradients of `cond`: branches that keep what is needed, and a choice of vjps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from trainkit.autodiff.backward import zeros_like
from trainkit.core.dispatch import trace_state
from trainkit.core.tensor import Tensor
from trainkit.graph.control_flow.cond import cond_primitive
from trainkit.graph.control_flow.cond_vjp_plan import BranchPlan, Kept, plan_of_branches
from trainkit.graph.ir.graph import Graph
from trainkit.graph.ir.subgraphs import tracked_by_tapes


def _twins(inputs: Sequence[Any], split: int) -> tuple[int | None, ...]:
    """For each input of the second branch the input of the first that is the same tensor."""
    # By identity, as `==` of tensors compares values. Reversed, so that of an input that comes in
    # twice the first place counts.
    indices = {id(x): i for i, x in reversed(list(enumerate(inputs[:split])))}
    return tuple(indices.get(id(x)) for x in inputs[split:])


def _kept_plan(true: Graph, false: Graph, needed: Any, has_upstream: Any) -> BranchPlan | None:
    """The plan that these branches were made for, if it serves."""
    one, two = true.made_by, false.made_by
    if not isinstance(one, Kept) or not isinstance(two, Kept) or one.plan is not two.plan:
        return None
    return one.plan if one.plan.serves(needed, has_upstream) else None


@cond_primitive.joint_gradient
def _cond_gradient(
    g: Any,
    y: Any,
    pred: Any,
    *inputs: Any,
    true: Graph,
    false: Graph,
    split: int,
    needed: tuple[bool, ...],
) -> list[Any]:
    gradients: list[Any] = [None] * (1 + len(inputs))
    has_upstream = tuple(
        gy is not None and out.dtype.is_differentiable
        for gy, out in zip(g, true.outputs, strict=True)
    )
    # Second gradients and eager tapes find branches that have kept their residuals already; then
    # nothing runs twice.
    plan = _kept_plan(true, false, needed[1:], has_upstream)
    if plan is None:
        plan = plan_of_branches(true, false, needed[1:], has_upstream, _twins(inputs, split))
        if plan is None:
            return gradients
        if plan.keeps_more:
            one, two = plan.saving
            # In a graph `merge_calls` lets this call stand for the first one as well, so the branch
            # runs once.
            y = cond_primitive(pred, *inputs, true=one, false=two, split=split)
    for index, gx in zip(plan.places, _run_backward(plan, g, y, pred, inputs), strict=True):
        gradients[1 + index] = gx
    return gradients


def _run_backward(
    plan: BranchPlan, g: Sequence[Any], y: Sequence[Any], pred: Any, inputs: Sequence[Any]
) -> Any:
    """Run the backward pass; the gradients that the plan names."""

    def value(kind: str, i: int) -> Any:
        if kind == "gradient":
            # A plan that serves may have been made for more upstream gradients than there are now.
            return zeros_like(y[i]) if g[i] is None else g[i]
        return inputs[i] if kind == "input" else y[i]

    one, two = ([value(*source) for source in sources] for sources in plan.sources)
    true, false = plan.backward
    return cond_primitive(pred, *one, *two, true=true, false=false, split=len(one))


cond_primitive.primitive.joint_sparse = True


# ---------------------------------------------------------------------- eager tapes


def _keep_needed(op: Callable[..., Any]) -> Callable[..., Any]:
    """`op` that keeps what gradients need at once when a tape looks on and no graph is traced."""

    @functools.wraps(op)
    def call(pred: Any, *inputs: Any, true: Graph, false: Graph, split: int) -> Any:
        if trace_state.TAPES and trace_state.current_trace() is None:
            needed = tracked_by_tapes(inputs)
            # Other classes, such as the items of a vmap, have rules of their own.
            if any(needed) and all(type(x) is Tensor for x in (pred, *inputs)):
                count = len(true.outputs)
                differentiable = tuple(y.dtype.is_differentiable for y in true.outputs)
                plan = plan_of_branches(true, false, needed, differentiable, _twins(inputs, split))
                if plan is not None and plan.keeps_more:
                    # This call is the only run of the branch, so it is the one that prints.
                    one, two = plan.with_effects
                    return op(pred, *inputs, true=one, false=two, split=split)[:count]
        return op(pred, *inputs, true=true, false=false, split=split)

    return call


cond_primitive.primitive.op = _keep_needed(cond_primitive)
