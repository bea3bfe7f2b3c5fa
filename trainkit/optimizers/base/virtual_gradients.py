"""Gradients of virtual replicas: kept in each turn, added up after the last, applied once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.collectives import replica as replicas
from trainkit.collectives.tree_sum import TreeSum
from trainkit.collectives.virtual_replica import UpdatingReplica, VirtualReplica
from trainkit.core import devices
from trainkit.core.dispatch import trace_state
from trainkit.core.errors import FailedPreconditionError, UnimplementedError
from trainkit.core.tensor import convert_to_tensor, wrap
from trainkit.core.variable import OVERWRITTEN
from trainkit.ops.collective.keep_gradients import keep_gradients
from trainkit.optimizers.base.overwriting import is_overwritten


class Update:
    """What an optimizer is to do once all gradients are there; graphs hold one.

    Args:
        optimizer: whose step it is.
        weights: the variables.
        has_gradient: of each of them, whether it has one.
    """

    def __init__(
        self, optimizer: Any, weights: Sequence[Any], has_gradient: Sequence[bool]
    ) -> None:
        self.optimizer, self.weights = optimizer, list(weights)
        self.has_gradient = list(has_gradient)


class VirtualGradients:
    """What the virtual replicas of a process have come to in a step."""

    def __init__(self, replica: VirtualReplica) -> None:
        self._replica = replica
        self._sums: dict[Any, TreeSum] = {}
        self._now: list[tuple[TreeSum, list[int]]] = []
        self._update: Update | None = None
        self._shapes: list[Any] = []
        self._last = -1

    def add(self, update: Update, arrays: Sequence[Any]) -> None:
        """The gradients of the replica whose turn it is.

        Raises:
            UnimplementedError: it is its second update.
        """
        replica, rows = self._replica, self._replica.rows
        if self._last == replica.rank:
            raise UnimplementedError(
                f"{update.optimizer.name}: the step of a model updates weights for a second time, "
                f"and virtual_replicas={replica.count} keeps gradients until all replicas have "
                "theirs, so that each would use weights from before the first: join what both "
                "update under one optimizer, or leave virtual_replicas out"
            )
        self._last, self._update = replica.rank, update
        assert rows is not None
        # makes the mean over this part's rows its share of that over all, times the count of
        # replicas, by which `apply` divides
        weight = rows.size * replica.count / rows.total
        self._shapes = [array.shape for array in arrays]
        self._now = self._tree_sums(arrays)
        for sums, indices in self._now:
            sums.add([arrays[i] for i in indices], weight)

    def _tree_sums(self, arrays: Sequence[Any]) -> list[tuple[TreeSum, list[int]]]:
        """The arrays of each dtype, and what adds them up: short floats in float32."""
        by_dtype: dict[Any, list[int]] = {}
        for i, array in enumerate(arrays):
            sum_dtype = array.dtype if array.dtype.itemsize > 2 else np.dtype(np.float32)
            by_dtype.setdefault(sum_dtype, []).append(i)
        dtype_groups = []
        for dtype, indices in by_dtype.items():
            shapes = tuple(arrays[i].shape for i in indices)
            key = (dtype, shapes, devices.device_of(arrays[indices[0]]))
            # the memory of the last step's sums serves again
            if key not in self._sums:
                replica = self._replica
                self._sums[key] = TreeSum(replica.group, replica.count, dtype, "the gradients")
            dtype_groups.append((self._sums[key], indices))
        return dtype_groups

    def drop(self) -> None:
        """Forget what was kept since the last update."""
        for sums, _ in self._now:
            sums.drop()
        self._update, self._last, self._now = None, -1, []

    def apply(self, shards_state: bool) -> None:
        """Make the update that all replicas have kept gradients for, if they have.

        Args:
            shards_state: each process keeps the slots of some of the weights.
        """
        update, now = self._update, self._now
        # before the update: an error in it must not have it made a second time
        self._update, self._last, self._now = None, -1, []
        if update is None:
            return
        means: list[Any] = [None] * len(self._shapes)
        for sums, indices in now:
            total = sums.total()
            # by a number of the sum's own type: beside float64 products would be rounded twice
            total *= total.dtype.type(1.0 / self._replica.count)
            parts = sums.parts(total, [self._shapes[i] for i in indices])
            for i, part in zip(indices, parts, strict=True):
                means[i] = wrap(part)
        means_in_order = iter(means)
        grads = [next(means_in_order) if has else None for has in update.has_gradient]
        # gradients are joined, so `apply` sends none
        with UpdatingReplica(self._replica.group, shards_state=shards_state):
            update.optimizer.apply(grads, update.weights)


def is_kept(optimizer: Any, grads: Sequence[Any], weights: Sequence[Any]) -> bool:
    """Whether gradients are kept for an update after the last turn of virtual replicas.

    Args:
        optimizer: what was to apply them.
        grads: tensors, `None` where there is none.
        weights: the variables.

    Raises:
        UnimplementedError: a weight becomes its gradient, or a step updates twice.
        FailedPreconditionError: the replica is not one of a step of `fit` or its like.
    """
    replica = replicas.among_others()
    if not isinstance(replica, VirtualReplica):
        return False
    if replica.gradients is None:
        raise FailedPreconditionError(
            f"{optimizer.name}: gradients of virtual replicas are applied by the steps of fit"
        )
    if OVERWRITTEN and any(map(is_overwritten, weights)):
        raise UnimplementedError(
            f"{optimizer.name}: weights that become their gradient, as scales of float8, do not go "
            "with virtual_replicas; leave one of them out"
        )
    has_gradient = [g is not None for g in grads]
    if any(has_gradient):
        with trace_state.silence():
            tensors = [convert_to_tensor(g) for g in grads if g is not None]
            update = Update(optimizer, weights, has_gradient)
            keep_gradients(*tensors, replica=replica, update=update)
    return any(has_gradient)
