"""Gradients of all replicas as one: what an optimizer steps along where there are several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainkit.collectives import replica as replicas
from trainkit.core.dispatch import trace_state
from trainkit.core.tensor import convert_to_tensor
from trainkit.ops.collective.all_reduce import all_reduce

if TYPE_CHECKING:
    from trainkit.optimizers.base.optimizer import Optimizer


def joined_gradients(
    optimizer: Optimizer, grads: Sequence[Any], weights: Sequence[Any]
) -> list[Any]:
    """The gradients of all replicas, added up with what each replica counts.

    Args:
        optimizer: whose step it is.
        grads: tensors of this replica; `None` where there is none, which it has to be in all.
        weights: the variables.

    Returns:
        A tensor or `None` for each; those given where this thread is in no replica.
    """
    replica = replicas.among_others()
    if replica is None:
        return list(grads)
    with trace_state.silence():
        found = iter(
            all_reduce(
                [convert_to_tensor(g) for g in grads if g is not None],
                weight=replica.weight,
                replica=replica,
            )
        )
        return [None if g is None else next(found) for g in grads]
