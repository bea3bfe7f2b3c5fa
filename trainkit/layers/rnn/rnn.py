"""`RNN`: a cell applied step by step along a sequence."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core import nest
from trainkit.core.dispatch import eval_shape, trace_state
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.trackable import Trackable, traverse
from trainkit.core.variable import Variable
from trainkit.layers.base.input_spec import InputSpec
from trainkit.layers.base.layer import Layer
from trainkit.layers.rnn.cells import (
    StackedRNNCells,
    build_cell,
    call_cell,
    has_many,
    initial_state,
)
from trainkit.layers.rnn.packed_steps import PackedSteps
from trainkit.layers.rnn.step_by_step import StepByStep
from trainkit.ops.sampling.draw_devices import beside


class SequenceState(Trackable):
    """The state that a stateful layer keeps between calls: stored by checkpoints, no weight.

    Keras's files leave it out, so that weights can be loaded for batches of another size.
    """

    _is_sequence_state = True

    def __init__(self, zeros: Any) -> None:
        self.structure = nest.map_structure(lambda _: None, zeros)
        flat = enumerate(nest.flatten(zeros))
        self.variables = [Variable(z, trainable=False, name=f"rnn_state_{i}") for i, z in flat]

    def values(self) -> Any:
        """The state in the form in which a cell takes it."""
        return nest.pack(self.structure, [v.value() for v in self.variables])

    def assign(self, state: Any) -> None:
        """Take over `state`, or its arrays."""
        for variable, value in zip(self.variables, nest.flatten(state), strict=True):
            variable.assign(value)

    def reset(self) -> None:
        """Go back to zeros."""
        for variable in self.variables:
            variable.assign(ops.zeros_like(variable))


class RNN(Layer):
    """A cell applied to each step of a sequence.

    A traced function holds the steps as one loop, whose number of steps may be unknown. What a cell
    keeps in its attributes from one step to the next has to be made in the first one.
    Shapes: input (batch, steps, features), mask (batch, steps), output (batch, units), or (batch,
    steps, units) with `return_sequences`; with `return_state` a tuple of the output and the tensors
    of the last state.

    Args:
        cell: an object with `call(inputs, states)` that gives output and new states, and
            `state_size`; or a list of such, stacked.
        return_sequences: whether the outputs of all steps are wanted.
        return_state: whether the last state is.
        go_backwards: whether to start from the last step; outputs come in the order in which they
            are computed.
        stateful: whether each call goes on from the state of the last; needs a known batch size.
        unroll: whether a traced function holds each step by itself; their number has to be known.
        zero_output_for_mask: whether a masked step puts out zeros rather than the output before it.

    Raises:
        InvalidArgumentError: the cell is none.
        ShapeError: there are no steps, or `unroll` is true and their number is not known.

    Example:
        >>> cells = [tk.layers.GRUCell(4), tk.layers.GRUCell(8)]
        >>> tk.layers.RNN(cells, return_sequences=True)(tk.ones((2, 5, 3))).shape
        TensorShape([2, 5, 8])
    """

    _advice_on_axes = (
        "After a recurrent layer, give that one return_sequences=True, so that it puts out all "
        "steps and not the last one alone; else give the input an axis of steps."
    )

    def __init__(
        self,
        cell: Any,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        zero_output_for_mask: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if isinstance(cell, list | tuple):
            cell = StackedRNNCells(cell)
        if not callable(cell) or not hasattr(cell, "state_size"):
            raise InvalidArgumentError(
                f"RNN: a cell has call(inputs, states) and state_size, got {cell!r}"
            )
        self.cell = cell
        self.return_sequences = return_sequences
        self.return_state = return_state
        self.go_backwards = go_backwards
        self.stateful = stateful
        self.unroll = unroll
        self.zero_output_for_mask = zero_output_for_mask
        self.supports_masking = True
        self._kept: SequenceState | None = None
        self.input_spec = InputSpec(min_ndim=3)

    @property
    def states(self) -> Any:
        """The variables of the kept state; `None` if the layer is not stateful or not built."""
        return None if self._kept is None else list(self._kept.variables)

    @property
    def state_size(self) -> list[Any]:
        """The length of each tensor of the cell's state; a list of such for each stacked cell."""
        size = self.cell.state_size
        return list(size) if isinstance(size, list | tuple) else [size]

    @property
    def single_state(self) -> bool:
        """Whether the state is one tensor."""
        return len(self.state_size) == 1

    def build(self, sequences_shape: Any, initial_state_shape: Any = None) -> None:
        batch, _, *frame_shape = sequences_shape
        if isinstance(self.cell, Layer) and not self.cell.built:
            build_cell(self.cell, (batch, *frame_shape))
        if self.stateful and self._kept is None:
            if batch is None:
                raise ShapeError(
                    f"{type(self).__name__} {self.name!r}: a stateful layer needs a known batch "
                    f"size, got shape {tuple(sequences_shape)}"
                )
            self._kept = SequenceState(self.get_initial_state(batch))
        self.input_spec = self._spec_for(sequences_shape)

    def _spec_for(self, shape: Any) -> InputSpec:
        return InputSpec(ndim=len(shape), axes={i: n for i, n in enumerate(shape) if i > 1})

    def get_initial_state(self, batch_size: Any) -> Any:
        """The state before the first step."""
        return initial_state(self.cell, batch_size, self.compute_dtype)

    def reset_state(self) -> None:
        """Put the state that a stateful layer keeps back to zeros."""
        if self._kept is not None:
            self._kept.reset()

    reset_states = reset_state

    def call(
        self, sequences: Any, initial_state: Any = None, mask: Any = None, training: Any = False
    ) -> Any:
        self._check_sizes(sequences)
        states = self._start(sequences, initial_state)
        mask = nest.flatten(mask)[0] if isinstance(mask, list | tuple) else mask
        if mask is not None:
            self._check_mask(mask, sequences)
        for cell in self._cells_with_masks():
            cell.begin_sequence()
        try:
            output, states = self._run(sequences, states, mask, training)
        finally:
            for cell in self._cells_with_masks():
                cell.end_sequence()
        if self.stateful and self._kept is not None:
            with trace_state.silence():
                self._kept.assign(states)
        if not self.return_state:
            return output
        return (output, *states)

    def _check_sizes(self, sequences: Any) -> None:
        """Refuse sequences without steps, and other batches than that of a kept state.

        Raises:
            ShapeError: they are such.
        """
        batch, steps = sequences.shape[:2]
        if steps == 0:
            raise ShapeError(
                f"{type(self).__name__} {self.name!r}: the sequences must have at least one step, "
                f"their shape is {tuple(sequences.shape)}"
            )
        if self._kept is not None and batch is not None:
            state_batch = self._kept.variables[0].shape[0]
            if batch != state_batch:
                raise ShapeError(
                    f"{type(self).__name__} {self.name!r}: a stateful layer keeps the batch size "
                    f"that it was built with, {state_batch}; it was given a batch size of {batch}"
                )

    def _check_mask(self, mask: Any, sequences: Any) -> None:
        """Refuse a mask that is not one bool for each step: its rows would be read out of step.

        Raises:
            ShapeError: its shape is another.
        """
        have, want = tuple(mask.shape), tuple(sequences.shape[:2])
        pairs = zip(have[:2], want, strict=False)
        if len(have) < 2 or any(None not in (m, n) and m != n for m, n in pairs):
            raise ShapeError(
                f"a mask says which steps of each sequence count, so it has the shape (batch, "
                f"steps) of the input.\n  mask   {have}"
            )

    def _cells_with_masks(self) -> list[Any]:
        return [self.cell] if hasattr(self.cell, "begin_sequence") else []

    def _start(self, sequences: Any, initial_state: Any) -> list[Any]:
        if initial_state is not None:
            states = (
                list(initial_state) if isinstance(initial_state, list | tuple) else [initial_state]
            )
            sizes = self.cell.state_size
            count = len(sizes) if has_many(sizes) else 1
            if len(states) != count:
                raise InvalidArgumentError(
                    f"initial_state has {len(states)} tensors, the state of "
                    f"{type(self.cell).__name__} has {count}"
                )
            return states
        if self.stateful and self._kept is not None:
            return list(self._kept.values())
        with beside(sequences):
            return list(self.get_initial_state(ops.shape(sequences)[0]))

    def _run(self, sequences: Any, states: list[Any], mask: Any, training: Any) -> Any:
        """Outputs of all steps (stacked if they are wanted, else the last) and the last state."""
        steps = sequences.shape[1]
        fast = hasattr(type(self.cell), "project")
        if mask is not None and fast and not self._shapes_only():
            if self.cell.stays_bounded(training) and not self.unroll:
                return self._packed(sequences, states, mask, training)
        inputs = self.cell.project(sequences, training) if fast else sequences
        if self._shapes_only():
            return self._one_step(inputs, states, steps, training, fast)
        if self.go_backwards:
            inputs = ops.flip(inputs, axis=1)
            mask = None if mask is None else ops.flip(mask, axis=1)
        if mask is None and fast and self.cell.is_one_operation(training):
            hidden, states = self.cell.sequence(inputs, states, training)
            return (hidden if self.return_sequences else hidden[:, -1]), [x[:, -1] for x in states]
        one = StepByStep(
            lambda frame, states: self._step(frame, states, training, fast),
            self.return_sequences,
            self.zero_output_for_mask,
            self._adds_losses,
        )
        return one.run(inputs, states, mask, self.unroll)

    def _adds_losses(self) -> bool:
        """Whether a step has added losses to the cell or to a layer in it."""
        parts = traverse(self.cell) if isinstance(self.cell, Trackable) else ()
        return any(part._losses for _, part in parts if isinstance(part, Layer))

    @staticmethod
    def _shapes_only() -> bool:
        return isinstance(trace_state.current_trace(), eval_shape.ShapeTrace)

    def _packed(self, sequences: Any, states: list[Any], mask: Any, training: Any) -> Any:
        """As `_run`, over the steps that the mask keeps."""
        packed = PackedSteps(mask, self.go_backwards)
        inputs = self.cell.project(packed.pack(sequences), training)
        hidden, after = self.cell.sequence(inputs, states, training)
        zero = self.zero_output_for_mask
        output = (packed.spread if self.return_sequences else packed.last_output)(hidden, zero)
        if not (self.return_state or self.stateful):
            return output, states
        return output, [packed.last_state(x, h) for x, h in zip(after, states, strict=True)]

    def _step(self, frame: Any, states: list[Any], training: Any, fast: bool) -> Any:
        if fast:
            return self.cell.step(frame, states, training)
        return call_cell(self.cell, frame, states, training)

    def _one_step(
        self, inputs: Any, states: list[Any], steps: Any, training: Any, fast: bool
    ) -> Any:
        """The shapes that `_run` gives, from one step."""
        frame = ops.squeeze(inputs[:, :1], 1)
        output, states = self._step(frame, states, training, fast)
        if not self.return_sequences:
            return output, states

        shape = (output.shape[0], steps, *output.shape[1:])
        return SymbolicTensor(Spec(shape, output.dtype)), states

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        mask = nest.flatten(previous_mask)[0] if previous_mask is not None else None
        own = mask if self.return_sequences else None
        if not self.return_state:
            return own
        size = self.cell.state_size
        count = len(nest.flatten(size)) if has_many(size) else 1
        return [own] + [None] * count
