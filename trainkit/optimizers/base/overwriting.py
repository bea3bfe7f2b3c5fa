"""Variables that become their gradient, in place of a step along it: `overwrite_with_gradient`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainkit import ops
from trainkit.core.dispatch import trace_state
from trainkit.core.tensor import convert_to_tensor
from trainkit.core.variable import OVERWRITTEN, Variable

if TYPE_CHECKING:
    from trainkit.optimizers.base.optimizer import Optimizer


def is_overwritten(weight: Any) -> bool:
    """Whether `weight` asks to become its gradient."""
    return id(weight) in OVERWRITTEN


def overwrite(
    optimizer: Optimizer, grads: Sequence[Any], weights: Sequence[Any], finite: Any = None
) -> tuple[list[Any], list[Any]]:
    """Assign the gradients of the variables that ask for it.

    With gradient accumulation a variable becomes, once in a period, the greatest of its gradients.

    Args:
        optimizer: whose step it is.
        grads: tensors; `None` leaves a variable as it is.
        weights: variables.
        finite: scalar bool tensor, of a graph; where it is False nothing changes.

    Returns:
        The other gradients, and their variables.
    """
    left: list[tuple[Any, Any]] = []
    with trace_state.silence():
        for grad, weight in zip(grads, weights, strict=True):
            if not is_overwritten(weight):
                left.append((grad, weight))
            elif grad is not None:
                grad = ops.cast(convert_to_tensor(grad), weight.dtype)
                _overwrite(optimizer, grad, weight, finite)
    return [grad for grad, _ in left], [weight for _, weight in left]


def _overwrite(optimizer: Optimizer, grad: Any, weight: Variable, finite: Any) -> None:
    period = optimizer.gradient_accumulation_steps
    if period is None:
        weight.assign(grad if finite is None else ops.where(finite, grad, weight.value()))
        return
    accumulated = optimizer.state_of(weight).slots["accumulated_gradient"]
    last = ops.equal((optimizer._iterations.value() + 1) % period, 0)
    # this slot holds the greatest so far, where other weights have a sum
    maximum = ops.maximum(grad, ops.cast(accumulated.value(), grad.dtype))
    # within a period the weight stays what it is
    now = last if finite is None else ops.logical_and(finite, last)
    # begins again at 0: these weights are scales of float8, which lie above it
    next_greatest = ops.where(last, ops.zeros_like(maximum), maximum)
    accumulated.assign(
        ops.cast(next_greatest, accumulated.dtype)
        if finite is None
        else ops.where(finite, ops.cast(next_greatest, accumulated.dtype), accumulated.value())
    )
    weight.assign(ops.where(now, maximum, weight.value()))
