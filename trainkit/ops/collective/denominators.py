"""What sums over the rows of a replica are divided by, so that all come to those of all rows."""

from __future__ import annotations

from typing import Any

from trainkit.collectives import replica as replicas
from trainkit.core.tensor import Tensor
from trainkit.ops.collective.all_reduce import all_reduce


def of_all_replicas(denominator: Tensor) -> Tensor:
    """What a replica divides its sum by, so that the mean over replicas is that of all values.

    Where replicas average by their rows, replica r counts `c_r` of 1. With its sum `s_r` and its
    denominator `d_r` it gives `s_r / (c_r * sum(d))`; the mean, `sum(c_r * given_r)`, is then
    `sum(s) / sum(d)`, and gradients are those of that.

    Args:
        denominator: `d_r` of this replica; all have to ask for theirs.

    Returns:
        `c_r * sum(d)`; `d_r` itself elsewhere, also where replicas run one after the other: a mean
        is that of each replica's rows then.
    """
    replica = replicas.among_others()
    if replica is None or not replica.averages or not replica.meets:
        return denominator
    own = replica.weight
    # a replica without rows computes on rows of others, which count there
    (total,) = all_reduce([denominator], weight=1.0 if own else 0.0, replica=replica)
    return total * own if own else total


def of_all_rows(function: Any, value: Any) -> Any:
    """The loss of a replica so that the mean over all, by their rows, is the loss of all rows.

    Means are as they are, and so is what all replicas have computed for the rows of all; a sum
    counts as often as the replica's rows go into those of all.
    """
    replica = replicas.among_others()
    if replica is None or not replica.averages or getattr(function, "reduction", None) != "sum":
        return value
    if getattr(function, "_of_whole_batch", False):
        return value
    return value * (1.0 / replica.weight if replica.weight else 0.0)


def summing_replicas() -> int:
    """How many replicas add up gradients of their losses as they are: 1 where they are averaged."""
    replica = replicas.among_others()
    return 1 if replica is None or replica.averages else replica.count
