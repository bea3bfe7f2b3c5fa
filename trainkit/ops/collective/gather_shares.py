"""Tensors that each replica has a share of, given to all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trainkit.core import devices
from trainkit.core.dispatch.facets import CONTROL, Absent, Effect, one_by_one
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor

if TYPE_CHECKING:
    from trainkit.collectives import replica as replicas

Shares = tuple[tuple[int, tuple[int, ...], str], ...]
"""For each tensor of all replicas: the rank that has it, its shape, and the name of its dtype."""


@primitive(
    lambda *inputs, shares, **settings: tuple(Spec(shape, dtype) for _, shape, dtype in shares),
    name="gather_shares",
    effect=Effect("it waits for other processes"),
    semantics=CONTROL,
    no_gradient=Absent("it is a step of optimizers"),
)
def _gather_shares(
    xp: Any, *arrays: Any, replica: replicas.Replica, shares: Shares, conditional: bool
) -> tuple[Any, ...]:
    """The tensors of all replicas, each from the one that has it.

    Where it is `conditional` the first array is a bool; zeros are given if that is False.
    """
    if conditional:
        active, *arrays = arrays  # type: ignore[assignment]
        if not bool(active):
            specs = [Spec(shape, name) for _, shape, name in shares]
            return tuple(
                xp.zeros(shape, spec.dtype.dtype)
                for (_, shape, _), spec in zip(shares, specs, strict=True)
            )
    flat = [np.ascontiguousarray(devices.to_numpy(a)).reshape(-1).view(np.uint8) for a in arrays]
    mine = np.concatenate(flat) if flat else np.empty(0, np.uint8)
    parts = replica.group.all_gather(mine, "the updated weights")
    at = [0] * len(parts)
    results = []
    for rank, shape, name in shares:
        dtype = Spec(shape, name).dtype.dtype
        end = at[rank] + int(np.prod(shape)) * dtype.itemsize
        results.append(xp.asarray(parts[rank][at[rank] : end].view(dtype).reshape(shape)))
        at[rank] = end
    return tuple(results)


_gather_shares.declare(batch=one_by_one("the processes meet for one item at a time"))


def gather_shares(
    mine: list[Any], shares: Shares, replica: replicas.Replica, active: Tensor | None = None
) -> list[Tensor]:
    """All tensors of all replicas, in every replica.

    Args:
        mine: those that this replica has, in the order in which `shares` names them.
        shares: which replica has which tensor.
        replica: this one.
        active: scalar bool tensor, the same in all replicas; where it is False nothing is sent, and
            zeros are given.

    Returns:
        A tensor for each of `shares`.
    """
    inputs = [convert_to_tensor(x) for x in mine]
    if not inputs:  # a graph gets its node by an input
        inputs = [convert_to_tensor(np.empty(0, np.uint8))]
    conditional = active is not None
    if active is not None:
        inputs = [active, *inputs]
    return list(_gather_shares(*inputs, replica=replica, shares=shares, conditional=conditional))
