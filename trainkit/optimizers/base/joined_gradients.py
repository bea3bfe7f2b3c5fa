"""Gradients of all replicas as one: what an optimizer steps along where there are several.

They travel in buckets. In a graph a bucket goes off as soon as the last of its gradients is there,
while the rest of the backward pass is still to come, and what an update needs is waited for. Where
a tape goes back operation by operation, `early_sums` does the same.
Source: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training",
arXiv:2006.15704.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainkit.collectives import replica as replicas
from trainkit.collectives.communication import split_messages
from trainkit.core.dispatch import trace_state
from trainkit.core.dtypes import as_dtype
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.variable import OVERWRITTEN
from trainkit.graph.ir.graph import Graph, GraphTensor
from trainkit.ops.collective.all_reduce import all_reduce
from trainkit.ops.collective.buckets import begin, finish
from trainkit.optimizers.base.overwriting import is_overwritten

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
    if replica is None or replica.gradients_are_joined:
        return list(grads)
    with trace_state.silence():
        if OVERWRITTEN and any(map(is_overwritten, weights)):
            return _with_greatest(grads, weights, replica)
        sums = iter(joined([g for g in grads if g is not None], replica))
        return [None if g is None else next(sums) for g in grads]


def _with_greatest(
    grads: Sequence[Any], weights: Sequence[Any], replica: replicas.Replica
) -> list[Any]:
    """The same where some weights become their gradient: the greatest of all replicas."""
    results = list(grads)
    present = [i for i, g in enumerate(grads) if g is not None]
    overwritten = [i for i in present if is_overwritten(weights[i])]
    added = [i for i in present if not is_overwritten(weights[i])]
    maxima = all_reduce([grads[i] for i in overwritten], "MAX", replica=replica)
    # the others step along their gradients, which are added up as always
    sums = joined([grads[i] for i in added], replica) if added else []
    for i, value in zip([*overwritten, *added], [*maxima, *sums], strict=True):
        results[i] = value
    return results


def joined(
    grads: Sequence[Any], replica: replicas.Replica, weight: float | None = None, active: Any = None
) -> list[Tensor]:
    """Gradients added up over all replicas.

    Args:
        grads: tensors of this replica.
        replica: this one.
        weight: what they count; by default what the replica does.
        active: scalar bool tensor of a graph, the same in all replicas; where it is False nothing
            is sent, and zeros are given.
    """
    grads = [convert_to_tensor(g) for g in grads]
    parts = gradient_buckets(grads, replica)
    tickets = []
    for dtype, indices in parts:
        # a single bucket has nothing to overlap with, and is added up at once
        some, waits = [grads[i] for i in indices], len(parts) == 1
        ticket = begin(some, replica, dtype, waits, weight, active)
        if isinstance(ticket, GraphTensor):
            # nodes stand in the order of the trace, this one behind all gradients: it moves to
            # the last of its own
            ticket.graph.hasten(ticket.node)
        tickets.append(ticket)
    results: list[Any] = [None] * len(grads)
    for (_, indices), ticket in zip(parts, tickets, strict=True):
        # waited for when all are on their way, in the order in which they went off
        joined = finish(ticket, [grads[i] for i in indices])
        for i, sum_ in zip(indices, joined, strict=True):
            results[i] = sum_
    return results


def gradient_buckets(
    grads: Sequence[Any], replica: replicas.Replica
) -> list[tuple[str, list[int]]]:
    """Buckets in the order in which they are full: the dtype and the positions of each.

    Args:
        grads: tensors, or the variables whose gradients they will be.
        replica: this one.
    """
    settings = replica.group.communication
    order = _order(grads)
    by_dtype: dict[str, list[int]] = {}
    for i in order:
        own = grads[i].dtype
        # half precision is no longer than the short dtypes in which gradients may travel
        is_single_or_double = own.is_floating and own.dtype.itemsize > 2
        short = settings.gradient_dtype if is_single_or_double else None
        by_dtype.setdefault(short or own.name, []).append(i)
    buckets = []
    for dtype, indices in by_dtype.items():
        size = as_dtype(dtype).dtype.itemsize
        sizes = [math.prod(grads[i].shape) * size for i in indices]
        for part in split_messages(sizes, settings):
            buckets.append((dtype, [indices[k] for k in part]))
    rank = {i: k for k, i in enumerate(order)}
    # a bucket is full with the last of its gradients
    return sorted(buckets, key=lambda bucket: max(rank[i] for i in bucket[1]))


def _order(grads: Sequence[Any]) -> list[int]:
    """The positions of gradients in the order in which they are computed.

    It is the same in all replicas, whose graphs differ in sizes alone. Outside of graphs all of
    them are there, and the last layers come first, as they do in graphs.
    """
    graphs = {g.graph for g in grads if isinstance(g, GraphTensor)}
    if len(graphs) != 1:
        return list(range(len(grads)))[::-1]
    graph: Graph = graphs.pop()
    at = {node: k for k, node in enumerate(graph.nodes)}
    # what is no node's result is there from the start
    when = [at[g.node] if isinstance(g, GraphTensor) else -1 for g in grads]
    return sorted(range(len(grads)), key=lambda i: (when[i], i))
