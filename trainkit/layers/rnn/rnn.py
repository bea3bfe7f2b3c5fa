"""`RNN`: a cell applied step by step along a sequence."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core import nest
from trainkit.core.dispatch import eval_shape, trace_state
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.trackable import Trackable
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

    Steps are unrolled, so a traced function needs their number known.
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
        unroll: both values do the same, see above.
        zero_output_for_mask: whether a masked step puts out zeros rather than the output before it.

    Raises:
        InvalidArgumentError: the cell is none.
        ShapeError: the number of steps is not known.

    Example:
        >>> cells = [tk.layers.GRUCell(4), tk.layers.GRUCell(8)]
        >>> tk.layers.RNN(cells, return_sequences=True)(tk.ones((2, 5, 3))).shape
        TensorShape([2, 5, 8])
    """

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
        batch, _, *rest = sequences_shape
        if isinstance(self.cell, Layer) and not self.cell.built:
            build_cell(self.cell, (batch, *rest))
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
        for cell in self._cells_with_masks():
            cell.begin_sequence()
        try:
            outputs, states = self._run(sequences, states, mask, training)
        finally:
            for cell in self._cells_with_masks():
                cell.end_sequence()
        if self.stateful and self._kept is not None:
            with trace_state.silence():
                self._kept.assign(states)
        output = outputs if self.return_sequences else outputs[-1]
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
            kept = self._kept.variables[0].shape[0]
            if batch != kept:
                raise ShapeError(
                    f"{type(self).__name__} {self.name!r}: a stateful layer keeps the batch size "
                    f"that it was built with, {kept}; it was given a batch size of {batch}"
                )

    def _cells_with_masks(self) -> list[Any]:
        return [self.cell] if hasattr(self.cell, "begin_sequence") else []

    def _start(self, sequences: Any, given: Any) -> list[Any]:
        if given is not None:
            states = list(given) if isinstance(given, list | tuple) else [given]
            wanted = self.cell.state_size
            count = len(wanted) if has_many(wanted) else 1
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
        """Outputs of all steps (stacked if they are wanted, else a list) and the last state."""
        steps = sequences.shape[1]
        only_shapes = isinstance(trace_state.current_trace(), eval_shape.ShapeTrace)
        if steps is None and not only_shapes:
            raise ShapeError(
                f"the number of steps must be known, the sequences have shape "
                f"{tuple(sequences.shape)}; trace the function with a known number of steps, or "
                "pad the sequences to one"
            )
        fast = hasattr(type(self.cell), "project")
        inputs = self.cell.project(sequences, training) if fast else sequences
        if only_shapes:
            return self._one_step(inputs, states, steps, training, fast)
        if fast and mask is None and steps:
            ordered = ops.flip(inputs, axis=1) if self.go_backwards else inputs
            whole = self.cell.sequence(ordered, states, training)
            if whole is not None:
                hidden, states = whole
                return (hidden if self.return_sequences else [hidden[:, -1]]), states
        order = range(steps - 1, -1, -1) if self.go_backwards else range(steps)
        frames = ops.unstack(inputs, axis=1)
        masks = None if mask is None else ops.unstack(mask, axis=1)
        outputs: list[Any] = []
        for t in order:
            output, new = self._step(frames[t], states, training, fast)
            if masks is not None:
                output, new = self._masked(masks[t], output, outputs, new, states)
            outputs.append(output)
            states = new
        return (ops.stack(outputs, axis=1) if self.return_sequences else outputs), states

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
            return [output], states

        shape = (output.shape[0], steps, *output.shape[1:])
        return SymbolicTensor(Spec(shape, output.dtype)), states

    def _masked(
        self, mask: Any, output: Any, outputs: list[Any], new: list[Any], old: list[Any]
    ) -> Any:
        """Output and state of a step of which the mask may leave out some samples."""
        if self.zero_output_for_mask or not outputs:
            before = ops.zeros_like(output)
        else:
            before = outputs[-1]
        kept = nest.map_structure(lambda a, b: _chosen(mask, a, b), list(new), list(old))
        return _chosen(mask, output, before), kept

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        mask = nest.flatten(previous_mask)[0] if previous_mask is not None else None
        own = mask if self.return_sequences else None
        if not self.return_state:
            return own
        size = self.cell.state_size
        count = len(nest.flatten(size)) if has_many(size) else 1
        return [own] + [None] * count


def _chosen(mask: Any, a: Any, b: Any) -> Any:
    """`a` for the samples that the mask (batch,) keeps, else `b`."""
    mask = ops.cast(mask, "bool")
    for _ in range(len(a.shape) - 1):
        mask = ops.expand_dims(mask, -1)
    return ops.where(mask, a, b)
