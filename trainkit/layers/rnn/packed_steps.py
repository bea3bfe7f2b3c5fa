"""Masked sequences as sequences without gaps: a recurrence runs over the kept steps alone.

A step that the mask leaves out changes no state, so a recurrence over all steps of a sample is one
over those that are kept, moved to the front:

    mask              1 0 1 1 0        kept steps, then zeros   x0 x2 x3 0 0
    kept so far       1 1 2 3 3        state after each step    h1 h1 h2 h3 h3

What is taken from where follows from the mask alone, so the whole is a few operations, whatever the
number of steps, and its gradient is that of taking rows.
"""

from __future__ import annotations

from typing import Any

from trainkit import ops


class PackedSteps:
    """Where the kept steps of each sample are.

    Args:
        mask: (batch, steps), true where a step is kept.
        go_backwards: whether the sequence is gone through from its end; what comes out is in that
            order.
    """

    def __init__(self, mask: Any, go_backwards: bool) -> None:
        mask = ops.cast(mask, "bool")
        self._steps = ops.shape(mask)[1]
        self.mask = ops.flip(mask, axis=1) if go_backwards else mask
        ones = ops.ones_like(mask, dtype="int32")
        steps = ops.cumsum(ones, axis=1) - 1
        # kept steps come first, each group in its order, when those left out count as later ones
        order = ops.sort(ops.where(self.mask, steps, steps + self._steps), axis=1)
        self._is_kept = order < self._steps
        order = ops.where(self._is_kept, order, order - self._steps)
        self._source = self._steps - 1 - order if go_backwards else order
        self._counts = ops.cumsum(ops.cast(self.mask, "int32"), axis=1)
        self._starts = (ops.cumsum(ones[:, :1], axis=0) - 1) * self._steps

    def pack(self, sequences: Any) -> Any:
        """The kept steps of (batch, steps, features), followed by zeros."""
        return self._taken(sequences, self._source, self._is_kept)

    def spread(self, states: Any, zero_output: bool) -> Any:
        """For each step of the sequence the packed state after it; zeros before the first kept one.

        Args:
            states: (batch, steps, units), after each packed step.
            zero_output: whether all steps that are left out have zeros.
        """
        mask = self.mask if zero_output else self._counts > 0
        return self._taken(states, ops.maximum(self._counts - 1, 0), mask)

    def last_output(self, states: Any, zero_output: bool) -> Any:
        """The last step of `spread`, (batch, units)."""
        count = self._counts[:, -1:]
        mask = self.mask[:, -1:] if zero_output else count > 0
        return self._taken(states, ops.maximum(count - 1, 0), mask)[:, 0]

    def last_state(self, states: Any, first: Any) -> Any:
        """The state after all steps, that before the first where none is kept."""
        count = self._counts[:, -1:]
        last = ops.take(self._rows(states), ops.maximum(count - 1, 0) + self._starts, axis=0)
        return ops.where(count > 0, last[:, 0], first)

    def _taken(self, x: Any, positions: Any, mask: Any) -> Any:
        rows = ops.take(self._rows(x), positions + self._starts, axis=0)
        return ops.where(ops.expand_dims(mask, -1), rows, ops.zeros((), rows.dtype))

    @staticmethod
    def _rows(x: Any) -> Any:
        return ops.reshape(x, (-1, x.shape[-1]))
