"""Gradients of `while_loop` and `scan`: the loop that keeps what is needed, and a scan back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from trainkit.autodiff.backward import zeros_like
from trainkit.core.dispatch import late_ops, trace_state
from trainkit.core.tensor import Tensor
from trainkit.graph.control_flow.loop_vjp_plan import LoopVjpPlan, plan_of
from trainkit.graph.control_flow.while_loop import scan_primitive, while_primitive
from trainkit.graph.ir.graph import Graph
from trainkit.graph.ir.subgraphs import tracked_by_tapes


def _plan(
    body: Graph,
    count: int,
    fed: int,
    padded: tuple[int, ...],
    needed: tuple[bool, ...],
    has_upstream: tuple[bool, ...],
) -> tuple[LoopVjpPlan | None, bool]:
    """The plan for gradients of a loop, and whether the loop has kept what it needs already."""
    # Second gradients and eager tapes meet the loop that keeps residuals: no new plan, no new run.
    made_by: LoopVjpPlan | None = body.made_by
    if made_by is not None and made_by.serves(needed, has_upstream):
        return made_by, True
    has_upstream = tuple(
        g and y.dtype.is_differentiable for g, y in zip(has_upstream, body.outputs, strict=True)
    )
    return plan_of(body, count, fed, padded, needed, has_upstream), False


@while_primitive.joint_gradient
def _while_gradient(
    g: Any,
    y: Any,
    *inputs: Any,
    cond: Graph,
    body: Graph,
    count: int,
    split: int,
    limit: Any,
    needed: tuple[bool, ...],
    stacked: int | None = None,
    padded: tuple[int, ...] = (),
    sums: Sequence[Any] = (),
) -> list[Any]:
    # Inputs are loop variables, captures of the condition, captures of the body. The condition
    # has no gradient: all that comes out of it is the number of rounds.
    own = (*range(count), *range(count + split, len(inputs)))  # places of the body's inputs
    has_upstream = tuple(gx is not None for gx in g[: len(body.outputs)])
    plan, is_saved = _plan(body, count, 0, padded, tuple(needed[i] for i in own), has_upstream)
    input_gradients: list[Any] = [None] * len(inputs)
    if plan is None:
        return input_gradients
    if not is_saved:
        y = while_primitive(*inputs, cond=cond, limit=limit, split=split, **_more(plan, count))
    sums = [sums[i] for i in own] if sums else ()
    gradient = _run_backward(
        plan, g, y[-1], y, [inputs[i] for i in own], count, sums, reverse=True, length=None
    )
    for index, gx in gradient.items():
        input_gradients[own[index]] = gx
    return input_gradients


@scan_primitive.joint_gradient
def _scan_gradient(
    g: Any,
    y: Any,
    steps: Any,
    *inputs: Any,
    body: Graph,
    count: int,
    fed: int,
    needed: tuple[bool, ...],
    reverse: bool = False,
    length: int | None = None,
    padded: tuple[int, ...] = (),
    sums: Sequence[Any] = (),
) -> list[Any]:
    plan, is_saved = _plan(body, count, fed, padded, needed[1:], tuple(gx is not None for gx in g))
    input_gradients: list[Any] = [None] * (1 + len(inputs))
    if plan is None:
        return input_gradients
    if not is_saved:
        y = scan_primitive(
            steps,
            *inputs,
            body=plan.saving,
            count=count,
            fed=fed,
            reverse=reverse,
            length=length,
            padded=plan.padded,
        )
    gradient = _run_backward(
        plan, g, steps, y, inputs, count, sums[1:], reverse=not reverse, length=length
    )
    for index, gx in gradient.items():
        input_gradients[1 + index] = gx
    return input_gradients


def _more(plan: LoopVjpPlan, count: int) -> dict[str, Any]:
    """Settings of a while loop that keeps what the plan needs."""
    return {
        "body": plan.saving,
        "count": count,
        "stacked": len(plan.saving.outputs) - count,
        "padded": plan.padded,
    }


def _run_backward(
    plan: LoopVjpPlan,
    g: Sequence[Any],
    steps: Any,
    y: Sequence[Any],
    inputs: Sequence[Any],
    count: int,
    sums: Sequence[Any],
    reverse: bool,
    length: int | None,
) -> dict[int, Any]:
    """Run the backward pass; gradients by the places of the body's inputs.

    Where `sums` has what came together of an input so far, its gradient is the total.
    """
    totals = {i: total for i, total in enumerate(sums) if total is not None}

    def upstream(i: int) -> Any:
        # The plan may be one made for more gradients than are asked for now.
        return zeros_like(y[i]) if i >= len(g) or g[i] is None else g[i]

    # Gradients of captures are sums over all rounds, so they are loop variables of this scan.
    # They begin with what came before, and rounds add to that one by one, as steps on a tape do: so
    # a weight that is penalized, or used by two loops, has the same bits as in eager steps.
    state = [upstream(i) for i in plan.carried]
    for i in plan.summed:
        x, total = inputs[i], totals.get(i)
        goes_on = isinstance(total, Tensor) and total.shape == x.shape
        state.append(totals.pop(i) if goes_on else zeros_like(x))
    source: dict[str, Callable[[int], Any]] = {
        "fed": lambda i: inputs[count + i],
        "stack": lambda k: y[count + k],
        "gradient": lambda k: upstream(count + k),
    }
    rows = [source[kind](k) for kind, k in plan.rows]
    # A while loop comes back as a scan as well: by now the number of its rounds is known.
    results = scan_primitive(
        steps,
        *state,
        *rows,
        *[inputs[i] for i in plan.captured],
        body=plan.backward,
        count=len(state),
        fed=len(rows),
        reverse=reverse,
        length=length,
    )
    gradients = dict(zip((*plan.carried, *plan.summed, *plan.fed), results, strict=True))
    for i in plan.fed:
        # Without a round nothing tells the other sizes of a stack, where the trace did not know.
        if None in tuple(gradients[i].shape)[1:]:
            gradients[i] = late_ops.reshape_like(gradients[i], inputs[i])
    for i in totals.keys() & gradients.keys():
        gradients[i] = late_ops.add(totals[i], gradients[i])
    return gradients


for _operation in (while_primitive, scan_primitive):
    # Zeros in place of missing gradients would be seeds, and a backward pass through all of the
    # body, for results that nobody uses.
    _operation.primitive.joint_sparse = True
    # The operation of the body that failed has put its name and line in already.
    _operation.primitive.passes_errors = True


# ---------------------------------------------------------------------- eager tapes


def _keep_needed(op: Callable[..., Any], own: Callable[..., Any]) -> Callable[..., Any]:
    """`op` that keeps what gradients need at once when a tape looks on and no graph is traced.

    Args:
        op: the loop.
        own: function of the number of inputs and the settings to the places of the body's inputs.
    """

    @functools.wraps(op)
    def call(*inputs: Any, **settings: Any) -> Any:
        if not trace_state.TAPES or trace_state.current_trace() is not None:
            return op(*inputs, **settings)
        tracked = tracked_by_tapes(inputs)
        if not any(tracked) or not all(type(x) is Tensor for x in inputs):
            return op(*inputs, **settings)
        body, count = settings["body"], settings["count"]
        needed = tuple(tracked[i] for i in own(len(inputs), settings))
        differentiable = tuple(y.dtype.is_differentiable for y in body.outputs)
        fed, padded = settings.get("fed", 0), settings.get("padded", ())
        plan = plan_of(body, count, fed, padded, needed, differentiable)
        if plan is None:
            return op(*inputs, **settings)
        more: dict[str, Any] = {"body": plan.with_effects, "padded": plan.padded}
        if op is while_primitive:
            more["stacked"] = len(plan.saving.outputs) - count
        # The tape notes this call, with all it gives, before its caller gets fewer results.
        results = op(*inputs, **{**settings, **more})
        base = results[: len(body.outputs)]
        # A while loop that stacks gives the number of rounds last, behind the residuals.
        return base if settings.get("stacked") is None else (*base, results[-1])

    return call


while_primitive.primitive.op = _keep_needed(
    while_primitive, lambda n, s: (*range(s["count"]), *range(s["count"] + s["split"], n))
)
scan_primitive.primitive.op = _keep_needed(scan_primitive, lambda n, s: range(1, n))
