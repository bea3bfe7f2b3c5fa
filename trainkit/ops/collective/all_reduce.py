"""Collective operations: tensors of all replicas combined element by element, or joined by rows.

They are called in the same order in each replica, eagerly or in graphs, which never move them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.collectives import replica as replicas
from trainkit.core import devices
from trainkit.core.dispatch.facets import CONTROL, Effect, one_by_one
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import FailedPreconditionError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor


def _alike(*inputs: Any, **settings: Any) -> tuple[Spec, ...]:
    return tuple(Spec(x.shape, x.dtype) for x in inputs)


@primitive(
    _alike, name="all_reduce", effect=Effect("it waits for other processes"), semantics=CONTROL
)
def _all_reduce(
    xp: Any, *arrays: Any, replica: replicas.Replica, reduction: str, weight: float
) -> tuple[Any, ...]:
    """Combine each array with those of all replicas, times the weight of each replica."""
    results: list[Any] = [None] * len(arrays)
    for dtype in dict.fromkeys(a.dtype for a in arrays):
        indices = [i for i, a in enumerate(arrays) if a.dtype == dtype]
        on_device = replica.group.takes_device_arrays
        bucket = [arrays[i] if on_device else devices.to_numpy(arrays[i]) for i in indices]
        flat = (xp if on_device else np).concatenate([a.reshape(-1) for a in bucket])
        if weight != 1.0:
            flat *= dtype.type(weight)
        replica.group.all_reduce(flat, reduction)
        at = 0
        for i in indices:
            size = int(arrays[i].size)
            results[i] = xp.asarray(flat[at : at + size].reshape(arrays[i].shape))
            at += size
    return tuple(results)


@_all_reduce.joint_gradient
def _all_reduce_gradient(
    g: Any, y: Any, *inputs: Any, replica: replicas.Replica, reduction: str, weight: float
) -> tuple[Any, ...]:
    """What each input adds to the losses of all replicas.

    The gradients of a replica count `replica.weight` where they are joined in the end, which is
    taken into account here.
    """
    if reduction != "SUM":
        raise FailedPreconditionError(f"all_reduce: {reduction!r} has no gradient; sums have one")
    own = replica.weight
    joined = _all_reduce(*g, replica=replica, reduction="SUM", weight=own)
    factor = weight / own if own else 0.0  # what a replica without rows adds is left out anyway
    return tuple(x * factor for x in joined)


_all_reduce.declare(batch=one_by_one("the processes meet for one item at a time"))


def all_reduce(
    tensors: list[Any],
    reduction: str = "SUM",
    weight: float = 1.0,
    replica: replicas.Replica | None = None,
) -> list[Tensor]:
    """Each tensor combined with those of all replicas.

    Args:
        tensors: of the same shapes and dtypes in each replica; they travel together.
        reduction: `"SUM"`, `"MAX"` or `"MIN"`.
        weight: what they are multiplied by before.
        replica: by default the one that this thread is in.

    Returns:
        Tensors like those given; without a replica, or with one alone, times the weight.
    """
    inputs = [convert_to_tensor(x) for x in tensors]
    replica = replicas.among_others() if replica is None else replica
    if replica is None or not replica.joins or not inputs:
        return inputs if weight == 1.0 else [x * weight for x in inputs]
    replica.check_meets("all_reduce")
    return list(_all_reduce(*inputs, replica=replica, reduction=reduction, weight=weight))
