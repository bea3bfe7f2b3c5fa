"""State of an optimizer that is shared out: each replica keeps the slots of some of the weights.

A replica updates the weights whose slots it has, and gives them to the others. The slots of other
weights hold zeros that take up no memory. Files do not show it: whoever saves gathers them first.
Source: Rajbhandari, Rasley, Ruwase and He 2020, "ZeRO: Memory Optimizations Toward Training
Trillion Parameter Models", arXiv:1910.02054 (stage 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trainkit import ops
from trainkit.collectives import replica as replicas
from trainkit.core import devices
from trainkit.core.dispatch import eval_shape, trace_state
from trainkit.core.tensor import convert_to_tensor, wrap
from trainkit.core.variable import Variable
from trainkit.ops.collective.gather_shares import Shares, gather_shares
from trainkit.optimizers.base.accumulated_gradients import SLOT, PeriodMeans, add_gradients
from trainkit.optimizers.base.clipping import ClipLimits, clip_gradients
from trainkit.optimizers.base.grads_and_vars import checked_pairs, warn_of_missing
from trainkit.optimizers.base.step import ARRAYS, apply_step
from trainkit.optimizers.base.traced_step import TENSORS

if TYPE_CHECKING:
    from trainkit.optimizers.base.optimizer import Optimizer


def owners_of(sizes: Sequence[int], count: int) -> list[int]:
    """Which replica gets each weight: the largest first, to the replica that has least so far.

    Returns:
        A rank for each weight; loads differ by no more than the largest weight.
    """
    loads, owners = [0] * count, [0] * len(sizes)
    # ties go by position and rank, so all replicas come to the same owners without a message
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        rank = min(range(count), key=lambda rank: loads[rank])
        owners[i] = rank
        loads[rank] += sizes[i]
    return owners


def sharded_state(optimizer: Optimizer) -> ShardedState | None:
    """How the state of `optimizer` is shared out in the replica of this thread, if it is."""
    replica = replicas.among_others()
    if replica is None or not replica.shards_state:
        return None
    state: ShardedState | None = optimizer.__dict__.get("sharded_state")
    if state is None:
        state = optimizer.__dict__["sharded_state"] = ShardedState(optimizer, replica)
    return state


class ShardedState:
    """Which replica has the slots of which weight of one optimizer.

    Raises:
        ValueError: the optimizer averages weights, which takes all slots.
    """

    def __init__(self, optimizer: Optimizer, replica: replicas.Replica) -> None:
        if optimizer.use_ema:
            raise ValueError(
                f"{optimizer.name}: use_ema does not go with shard_optimizer_state=True of a "
                "strategy; leave one of them out"
            )
        self.group = replica.group
        self.owners: dict[int, int] = {}
        self._optimizer = optimizer

    def step(self, grads: Sequence[Any], weights: Sequence[Variable]) -> None:
        """Update the weights of this replica, and give all their new values to all.

        Args:
            grads: of all weights, added up over all replicas; with gradient accumulation this
                replica's parts of them.
            weights: all of them.
        """
        optimizer, replica = self._optimizer, replicas.among_others()
        assert replica is not None
        grads, of, missing = checked_pairs(optimizer.name, grads, weights)
        if missing and optimizer._states.is_news(missing):
            warn_of_missing(optimizer.name, missing)
        self._divide(of)
        if not self._is_released():  # a checkpoint was restored
            self.release()
        means = None
        if optimizer.gradient_accumulation_steps is not None:
            means = self._means(grads, of)
            if means.is_last is False:
                optimizer._iterations.assign_add(1)
                return
            grads, of = means.grads, [state.weight for state in means.states]
        # all gradients at once: a joint norm counts those of the other replicas, too
        grads = self._clip(list(grads))
        mine = [self.owners[id(weight)] == replica.rank for weight in of]
        states = [optimizer.state_of(w) for w, own in zip(of, mine, strict=True) if own]
        own_grads = [g for g, own in zip(grads, mine, strict=True) if own]
        if means is not None:
            conditions = [c for c, is_mine in zip(means.conditions, mine, strict=True) if is_mine]
            means = PeriodMeans(states, own_grads, conditions, means.is_last)
        # clipped already; past `__setattr__`, which drops the programs
        limits, optimizer.__dict__["_limits"] = optimizer._limits, ClipLimits(None, None, None)
        try:
            apply_step(optimizer, states, own_grads, means)
        finally:
            optimizer.__dict__["_limits"] = limits
        last = None if means is None or means.is_last is True else means.is_last
        with trace_state.silence():
            self._spread(replica, of, mine, last)

    def _means(self, grads: Any, of: Sequence[Variable]) -> PeriodMeans:
        """The means over a period, as tensors."""
        optimizer = self._optimizer
        states, steps = [optimizer.state_of(weight) for weight in of], optimizer._iterations.value()
        with trace_state.silence():
            grads = TENSORS.own_gradients(optimizer, states, grads)
            # a graph finds out whether the period ends when it runs; eagerly the count tells now
            if trace_state.current_trace() is not None:
                return add_gradients(TENSORS, optimizer, states, grads, steps)
            arrays = [g._array for g in grads]
            means = add_gradients(ARRAYS, optimizer, states, arrays, int(steps))
            return means._replace(grads=[wrap(x) for x in means.grads])

    def _divide(self, weights: Sequence[Variable]) -> None:
        """Find owners for weights that are new; all are divided anew then."""
        if all(id(weight) in self.owners for weight in weights):
            return
        # weights without a gradient in this step have slots, which need an owner, too
        states = self._optimizer._states
        repeated = [*weights, *states.chosen, *(state.weight for state in states.by_id.values())]
        every = list({id(weight): weight for weight in repeated}.values())
        sizes = [int(np.prod(weight.shape.as_list())) for weight in every]
        ranks = owners_of(sizes, self.group.size)
        if self.owners:
            # owners change, so everybody first gets what the old ones have
            self.gather()
        self.owners = {id(weight): rank for weight, rank in zip(every, ranks, strict=True)}
        # real slots even in a trace, as those of other replicas are let go at once
        with eval_shape.eagerly():
            for weight in every:
                self._optimizer.state_of(weight)
        self.release()

    def _clip(self, grads: list[Any]) -> list[Any]:
        limits = self._optimizer._limits
        if not limits:
            return grads
        with trace_state.silence():
            return [convert_to_tensor(g) for g in clip_gradients(ops, grads, limits)]

    def _spread(
        self, replica: replicas.Replica, weights: Sequence[Variable], mine: list[bool], last: Any
    ) -> None:
        shares: Shares = tuple(
            (self.owners[id(w)], tuple(w.shape.as_list()), w.dtype.name) for w in weights
        )
        values = [w.value() for w, own in zip(weights, mine, strict=True) if own]
        new_values = gather_shares(values, shares, replica, last)
        for weight, own, value in zip(weights, mine, new_values, strict=True):
            # where nothing is sent zeros come back
            if not own:
                weight.assign(value if last is None else ops.where(last, value, weight.value()))

    # ------------------------------------------------------------------ for files

    def _slots(self) -> list[tuple[int, Variable]]:
        """The owner of each slot, and the slot, in the same order in all replicas."""
        return [
            (self.owners[id(weight)], slot)
            for name, weight, slot in self._optimizer.slot_variables()
            # of an accumulated gradient each replica has a part of its own
            if id(weight) in self.owners and name != SLOT
        ]

    def gather(self) -> None:
        """Give the values of all slots to all replicas, which all have to call it."""
        # every replica in the same order, or the messages of two slots would meet
        for owner, slot in self._slots():
            if owner == self.group.rank:
                array = np.ascontiguousarray(devices.to_numpy(slot._value._array))
            else:
                array = np.empty(tuple(slot.shape), slot.dtype.dtype)
            self.group.broadcast(array, owner, "the state of the optimizer")
            if owner != self.group.rank:
                slot._take(devices.to_device(array, devices.device_of(slot._value._array)))

    def _is_released(self) -> bool:
        for owner, slot in self._slots():
            array = slot._value._array
            if owner != self.group.rank and array.size > 1:
                # one look will do, as slots are released and restored together; the strides of a
                # spread zero are 0
                return not any(array.strides)
        return True

    def release(self) -> None:
        """Let go of the values of slots that other replicas have."""
        for owner, slot in self._slots():
            if owner != self.group.rank:
                xp = devices.XP_OF[type(slot._value._array)]
                zero = xp.zeros((), slot.dtype.dtype)
                # a view of one zero: the slot keeps its shape, and takes no memory
                # not `_take`, which would give each element memory
                slot._value = wrap(xp.broadcast_to(zero, tuple(slot.shape)))
