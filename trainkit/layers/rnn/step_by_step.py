"""A cell's steps along a sequence, one after the other; a loop where a graph is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit import ops
from trainkit.core import nest
from trainkit.core.dispatch import trace_state
from trainkit.core.errors import ShapeError

_FEWEST_STEPS = 3
"""Shorter sequences are no loop in a graph: the first step stands before it anyway."""

Carry = tuple[Any, list[Any]]


class StepByStep:
    """Goes through a sequence.

    Args:
        step: function of a frame and a list of states to an output and the new states.
        return_sequences: whether all outputs are wanted, or the last.
        zero_output_for_mask: whether a masked step puts out zeros rather than the output before it.
        adds_losses: whether the steps so far have added losses to layers, which a loop's body can't
            give to what is around it.
    """

    def __init__(
        self,
        step: Callable[[Any, list[Any]], Carry],
        return_sequences: bool,
        zero_output_for_mask: bool,
        adds_losses: Callable[[], bool] = lambda: False,
    ) -> None:
        self._step = step
        self._adds_losses = adds_losses
        self._return_sequences = return_sequences
        self._zero_output = zero_output_for_mask

    def run(self, inputs: Any, states: list[Any], mask: Any, unroll: bool) -> Carry:
        """The outputs, (batch, steps, ...) or of the last step, and the last states.

        Args:
            inputs: (batch, steps, ...), in the order in which they are gone through.
            states: before the first step.
            mask: (batch, steps), or `None`.
            unroll: whether a graph holds each step by itself.

        Raises:
            ShapeError: the number of steps is not known, but the steps are to be unrolled.
        """
        steps = inputs.shape[1]
        if steps is None and unroll:
            raise ShapeError(
                "with unroll=True the number of steps must be known, the sequences have shape "
                f"{tuple(inputs.shape)}; leave unroll out"
            )
        short = steps is not None and steps < _FEWEST_STEPS
        if unroll or short or trace_state.current_trace() is None:
            return self._one_by_one(inputs, mask, [], (None, states))
        return self._loop(inputs, states, mask)

    def _one_by_one(self, inputs: Any, mask: Any, outputs: list[Any], carry: Carry) -> Carry:
        """As `run`, after steps that gave these outputs and this output and state."""
        frames = ops.unstack(inputs, axis=1)
        masks = [None] * len(frames) if mask is None else ops.unstack(mask, axis=1)
        for frame, step_mask in zip(frames, masks, strict=True):
            carry = self._next(carry, frame, step_mask)
            outputs.append(carry[0])
        if not self._return_sequences:
            return carry
        # Steps lie one behind the other in memory, as those that a loop stacks do: sums over all
        # of them then go the same way.
        return ops.moveaxis(ops.stack(outputs), 0, 1), carry[1]

    def _loop(self, inputs: Any, states: list[Any], mask: Any) -> Carry:
        """The first step, in which cells make what they keep for the others, then a loop."""
        first_mask = None if mask is None else mask[:, 0]
        first = self._next((None, states), inputs[:, 0], first_mask)
        later = None if mask is None else mask[:, 1:]
        if inputs.shape[1] is not None and self._adds_losses():
            return self._one_by_one(inputs[:, 1:], later, [first[0]], first)
        rows = [ops.moveaxis(x, 1, 0) for x in (inputs[:, 1:], later) if x is not None]
        same = [i for i, state in enumerate(nest.flatten(first[1])) if state is first[0]]

        def body(carry: Any, x: Any) -> Any:
            states = carry[-1]
            output = nest.flatten(states)[same[0]] if same else carry[0]
            after = self._next((output, states), x[0], x[1] if mask is not None else None)
            if same and after[0] is not nest.flatten(after[1])[same[0]]:
                raise ValueError(
                    "the first output of the cell is one of its states, that of a later step is "
                    "not: return the same tensors from each step, or unroll the layer"
                )
            # A row is the output before, not after: its gradient then comes to the state ahead of
            # what this step gives it, in the order in which a tape around all steps adds them up.
            return after[1:] if same else after, output if self._return_sequences else None

        last, earlier = ops.scan(body, first[1:] if same else first, rows)
        states = last[-1]
        output = nest.flatten(states)[same[0]] if same else last[0]
        if not self._return_sequences:
            return output, states
        if inputs.shape[1] is None:  # without rows the loop does not know the batch's size either
            earlier = ops.reshape(earlier, (ops.shape(inputs)[1] - 1, *ops.shape(first[0])))
        together = ops.concatenate([earlier, ops.expand_dims(output, 0)], axis=0)
        return ops.moveaxis(together, 0, 1), states

    def _next(self, carry: Carry, frame: Any, step_mask: Any) -> Carry:
        """Output and states after one more step, of which the mask may leave out some samples."""
        before, old = carry
        output, new = self._step(frame, old)
        if step_mask is None:
            return output, list(new)
        if self._zero_output or before is None:
            before = ops.zeros_like(output)
        states = nest.map_structure(lambda a, b: _select(step_mask, a, b), list(new), list(old))
        return _select(step_mask, output, before), states


def _select(mask: Any, a: Any, b: Any) -> Any:
    """`a` for the samples that the mask (batch,) keeps, else `b`."""
    mask = ops.cast(mask, "bool")
    for _ in range(len(a.shape) - 1):
        mask = ops.expand_dims(mask, -1)
    return ops.where(mask, a, b)
