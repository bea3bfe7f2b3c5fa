"""Sums over replicas that begin while a tape still goes back, for a step made right behind it.

What `tape.gradient` gives to a program is that of its replica, which may do with it what it likes,
such as clip it, before an optimizer adds up. So sums begin early only where the gradients go from
the tape to the optimizer and nobody else sees them: in `minimize` and in the step of `fit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainkit.autodiff.early_gradients import early_gradients
from trainkit.collectives import replica as replicas
from trainkit.core.dispatch import trace_state
from trainkit.core.tensor import Tensor
from trainkit.core.variable import OVERWRITTEN, Variable
from trainkit.ops.collective.buckets import abandon, begin, finish
from trainkit.optimizers.base.joined_gradients import gradient_buckets, joined
from trainkit.optimizers.base.overwriting import is_overwritten

if TYPE_CHECKING:
    from trainkit.autodiff.tape import GradientTape
    from trainkit.optimizers.base.optimizer import Optimizer


def early_joined(
    optimizer: Optimizer, tape: GradientTape, loss: Any, weights: Sequence[Any]
) -> list[Any] | None:
    """The gradients of all replicas, whose sums began on the way.

    Returns:
        A tensor or `None` for each; `None` in place of them where nothing would be gained: without
        other replicas at work, in a graph, which does it by itself, or with a single bucket.
    """
    replica = replicas.among_others()
    if replica is None or not replica.meets or trace_state.current_trace() is not None:
        return None
    if optimizer.gradient_accumulation_steps is not None or not _are_plain(weights):
        return None
    sums = _Sums(replica, weights)
    # a single bucket is full when the backward pass is over: nothing would overlap
    if len(sums.buckets) < 2:
        return None
    try:
        groups = [indices for _, indices in sums.buckets]
        return sums.all(early_gradients(tape, loss, weights, groups, sums.begin))
    # an interruption, too, must leave no sums under way
    except BaseException:
        sums.abandon()
        raise


def _are_plain(weights: Sequence[Any]) -> bool:
    if not all(isinstance(weight, Variable) for weight in weights):
        return False
    return not (OVERWRITTEN and any(map(is_overwritten, weights)))


class _Sums:
    """The sums of one step.

    Buckets are those of the weights and go off in one order, which follows from the weights alone,
    so that it is the same in all replicas whatever each of them computes.
    """

    def __init__(self, replica: replicas.Replica, weights: Sequence[Variable]) -> None:
        self.replica, self.weights = replica, weights
        self.buckets = gradient_buckets(weights, replica)
        self.begun: list[tuple[Any, list[int], list[Tensor]]] = []

    def begin(self, number: int, grads: list[Any]) -> None:
        """All gradients of a bucket are there."""
        dtype, indices = self.buckets[number]
        # buckets were divided by the weights' dtypes; a gradient of another is joined at the end
        indexed_grads = [
            (i, g)
            for i, g in zip(indices, grads, strict=True)
            if type(g) is Tensor and g.dtype == self.weights[i].dtype
        ]
        if indexed_grads:
            tensors = [g for _, g in indexed_grads]
            with trace_state.silence():
                ticket = begin(tensors, self.replica, dtype)
            self.begun.append((ticket, [i for i, _ in indexed_grads], tensors))

    def all(self, grads: list[Any]) -> list[Any]:
        """All sums, once they are there; what has not begun yet comes last."""
        results: list[Any] = [None] * len(grads)
        with trace_state.silence():
            begun = {i for _, indices, _ in self.begun for i in indices}
            left = [i for i, g in enumerate(grads) if g is not None and i not in begun]
            # what has begun travels on meanwhile
            last = joined([grads[i] for i in left], self.replica) if left else []
            while self.begun:
                # off the list before it is waited for: after an error only the others are forgotten
                ticket, indices, tensors = self.begun.pop(0)
                for i, total in zip(indices, finish(ticket, tensors), strict=True):
                    results[i] = total
        for i, total in zip(left, last, strict=True):
            results[i] = total
        return results

    def abandon(self) -> None:
        """Forget what has begun, after an error."""
        for ticket, _, _ in self.begun:
            abandon(ticket)
