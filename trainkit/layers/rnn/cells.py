"""The cells of recurrent layers: what one step does with an input and a state.

A cell's step is split in two: `project` needs the inputs alone, so a layer does it for all steps at
once; `step` needs the state.
"""

from __future__ import annotations

from typing import Any

from trainkit import activations, initializers, ops
from trainkit.core.dispatch import eval_shape
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor_shape import TensorShape
from trainkit.core.trackable import set_silently
from trainkit.core.values.type_aliases import (
    ActivationLike,
    ConstraintLike,
    InitializerLike,
    RegularizerLike,
    Seed,
)
from trainkit.layers.base.arguments import keep, share, weight_of, whole
from trainkit.layers.base.layer import Layer
from trainkit.layers.rnn.step_by_step import StepByStep
from trainkit.ops.neural.recurrence import gru, lstm
from trainkit.ops.sampling import generators, random
from trainkit.ops.sampling.batch_rows import along_batch
from trainkit.ops.sampling.draw_devices import beside


class Cell(Layer):
    """What the cells of this package share: dropout masks that stay the same through a sequence."""

    gates = 1
    kernel: Any
    recurrent_kernel: Any
    bias: Any

    # what __init__ keeps of the arguments that all have
    units: int
    activation: Any
    use_bias: bool
    kernel_initializer: Any
    recurrent_initializer: Any
    bias_initializer: Any
    kernel_regularizer: Any
    recurrent_regularizer: Any
    bias_regularizer: Any
    kernel_constraint: Any
    recurrent_constraint: Any
    bias_constraint: Any
    dropout: float
    recurrent_dropout: float
    seed: Any

    def _set_up(self) -> None:
        """Check the settings, kept as they were given."""
        self.units = whole(self, "units", self.units)
        self.dropout = share(self, "dropout", self.dropout)
        self.recurrent_dropout = share(self, "recurrent_dropout", self.recurrent_dropout)
        if self.dropout or self.recurrent_dropout:
            self.seed_generator = generators.SeedGenerator(self.seed)
        self.output_size = self.units
        self._masks: Any = None

    @property
    def state_size(self) -> Any:
        """The length of the state, or one for each of its tensors."""
        return self.units

    def get_initial_state(self, batch_size: Any = None) -> list[Any]:
        """Zeros, one tensor (batch_size, size) for each tensor of the state."""
        size = self.state_size
        lengths = [size] if isinstance(size, int) else list(size)
        return [zeros_for(batch_size, n, self.compute_dtype) for n in lengths]

    def begin_sequence(self) -> None:
        """Draw new dropout masks at the next step, and keep them until `end_sequence`."""
        set_silently(self, _masks={})

    def end_sequence(self) -> None:
        """Draw new dropout masks at each call again."""
        set_silently(self, _masks=None)

    def _drop(
        self, operand: str, rate: float, x: Any, training: Any, over_time: bool = False
    ) -> Any:
        """`x` with dropout; with `over_time` one mask serves all steps, the second axis."""
        if not training or not rate:
            return x
        masks = self._masks
        if masks is None or operand not in masks:
            dims = ops.shape(x)
            shape = (dims[0], 1, *dims[2:]) if over_time else dims
            seed, scale = along_batch(self.seed_generator), 1 / (1 - rate) if rate < 1 else 0.0
            with beside(x):
                mask = random.bernoulli_mask(shape, rate, scale, x.dtype, seed)
            if masks is not None:
                masks[operand] = mask
        else:
            mask = masks[operand]
        return ops.multiply(x, mask)

    def build(self, input_shape: Any) -> None:
        width = self.gates * self.units
        self.kernel = weight_of(self, "kernel", (input_shape[-1], width))
        recurrent_shape = (self.units, width)
        self.recurrent_kernel = weight_of(self, "recurrent_kernel", recurrent_shape, "recurrent")
        self.bias = self._new_bias() if self.use_bias else None

    def _new_bias(self) -> Any:
        return weight_of(self, "bias", (self.gates * self.units,))

    def project(self, inputs: Any, training: Any = False) -> Any:
        """The inputs' share of the gates: of (batch, features), or of (batch, steps, features)."""
        over_time = len(inputs.shape) == 3
        x = self._drop("input", self.dropout, inputs, training, over_time)
        return ops.dense(x, self.kernel.value(), self._input_bias())

    def _input_bias(self) -> Any:
        return None if self.bias is None else self.bias.value()

    def step(
        self, projected: Any, states: list[Any], training: Any = False
    ) -> tuple[Any, list[Any]]:
        """The output and the new state, from what `project` gave for this step."""
        raise NotImplementedError(f"{type(self).__name__} has no method step")

    def is_one_operation(self, training: Any = False) -> bool:
        """Whether `sequence` is one operation with the cell's settings."""
        return False

    def stays_bounded(self, training: Any = False) -> bool:
        """Whether `sequence` works, and no number of further steps on zeros gives infinities."""
        return self.is_one_operation(training)

    def sequence(
        self, projected: Any, states: list[Any], training: Any = False
    ) -> tuple[Any, list[Any]]:
        """The outputs of all steps, and each state after each of them, (batch, steps, units)."""
        raise NotImplementedError(f"{type(self).__name__} has no method sequence")

    def call(self, inputs: Any, states: Any, training: Any = False) -> Any:
        listed = isinstance(states, list | tuple)
        output, new = self.step(
            self.project(inputs, training), list(states) if listed else [states], training
        )
        return output, new if listed else new[0]


class SimpleRNNCell(Cell):
    """h' = activation(x @ kernel + h @ recurrent_kernel + bias); the output is h'.

    Shapes: inputs (batch, features), state (batch, units), kernel (features, units),
    recurrent_kernel (units, units), bias (units,).

    Args:
        units: length of the state.
        activation: function or its name.
        kernel_initializer, recurrent_initializer, bias_initializer: what the weights start with.
        kernel_regularizer, recurrent_regularizer, bias_regularizer: penalties on the weights.
        kernel_constraint, recurrent_constraint, bias_constraint: bounds on the weights.
        dropout: share of the inputs that is dropped while training.
        recurrent_dropout: share of the state that is.
        seed: int for the dropout, by default derived from `set_seed`.

    Example:
        >>> tk.layers.RNN(tk.layers.SimpleRNNCell(4))(tk.ones((2, 5, 3))).shape
        TensorShape([2, 4])
    """

    def __init__(
        self,
        units: int,
        activation: ActivationLike = "tanh",
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        recurrent_initializer: InitializerLike = "orthogonal",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: RegularizerLike | None = None,
        recurrent_regularizer: RegularizerLike | None = None,
        bias_regularizer: RegularizerLike | None = None,
        kernel_constraint: ConstraintLike | None = None,
        recurrent_constraint: ConstraintLike | None = None,
        bias_constraint: ConstraintLike | None = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: Seed | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        keep(self, locals())
        self._set_up()

    def step(
        self, projected: Any, states: list[Any], training: Any = False
    ) -> tuple[Any, list[Any]]:
        before = self._drop("state", self.recurrent_dropout, states[0], training)
        total = ops.add(projected, ops.matmul(before, self.recurrent_kernel.value()))
        output = self.activation(total)
        return output, [output]

    def stays_bounded(self, training: Any = False) -> bool:
        return self.activation in _BOUNDED

    def sequence(
        self, projected: Any, states: list[Any], training: Any = False
    ) -> tuple[Any, list[Any]]:
        steps = StepByStep(lambda x, states: self.step(x, states, training), True, False)
        hidden, _ = steps.run(projected, states, None, False)
        return hidden, [hidden]


_BOUNDED = (activations.tanh, activations.sigmoid, activations.softsign, activations.hard_sigmoid)


def _is_standard(cell: Any) -> bool:
    """Whether the gates are sigmoids and the rest tanh, as `lstm` and `gru` have them."""
    return cell.activation is activations.tanh and cell.recurrent_activation is activations.sigmoid


class GRUCell(Cell):
    """z = sigma(.), r = sigma(.), c = activation(x_c + r * h_c), h' = z * h + (1 - z) * c.

    Each dot and x_c, h_c is the inputs' and the state's product with a third of the kernels, plus
    bias. With `reset_after=False` r multiplies the state before its product, as in the paper.
    Source: Cho et al. 2014, arXiv:1406.1078.
    Shapes: inputs (batch, features), state (batch, units), kernel (features, 3 units),
    recurrent_kernel (units, 3 units), bias (2, 3 units), or (3 units,) with `reset_after=False`;
    thirds in the order z, r, c.

    Args:
        units: length of the state.
        activation, recurrent_activation: functions or their names.
        use_bias: whether to add biases.
        kernel_initializer, recurrent_initializer, bias_initializer: what the weights start with.
        kernel_regularizer, recurrent_regularizer, bias_regularizer: penalties on the weights.
        kernel_constraint, recurrent_constraint, bias_constraint: bounds on the weights.
        dropout: share of the inputs that is dropped while training.
        recurrent_dropout: share of the state that is.
        reset_after: where r multiplies.
        seed: int for the dropout, by default derived from `set_seed`.

    Example:
        >>> tk.layers.RNN(tk.layers.GRUCell(4))(tk.ones((2, 5, 3))).shape
        TensorShape([2, 4])
    """

    recurrent_activation: Any
    reset_after: bool

    gates = 3

    def __init__(
        self,
        units: int,
        activation: ActivationLike = "tanh",
        recurrent_activation: ActivationLike = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        recurrent_initializer: InitializerLike = "orthogonal",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: RegularizerLike | None = None,
        recurrent_regularizer: RegularizerLike | None = None,
        bias_regularizer: RegularizerLike | None = None,
        kernel_constraint: ConstraintLike | None = None,
        recurrent_constraint: ConstraintLike | None = None,
        bias_constraint: ConstraintLike | None = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        reset_after: bool = True,
        seed: Seed | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        keep(self, locals())
        self._set_up()

    def _new_bias(self) -> Any:
        width = self.gates * self.units
        return weight_of(self, "bias", (2, width) if self.reset_after else (width,))

    def _input_bias(self) -> Any:
        if self.bias is None or not self.reset_after:
            return super()._input_bias()
        return self.bias.value()[0]

    def step(
        self, projected: Any, states: list[Any], training: Any = False
    ) -> tuple[Any, list[Any]]:
        before = states[0]
        used = self._drop("state", self.recurrent_dropout, before, training)
        kernel, sigma = self.recurrent_kernel.value(), self.recurrent_activation
        x_update, x_reset, x_new = ops.split(projected, 3, axis=-1)
        if self.reset_after:
            inner = ops.matmul(used, kernel)
            if self.bias is not None:
                inner = ops.add(inner, self.bias.value()[1])
            h_update, h_reset, h_new = ops.split(inner, 3, axis=-1)
            update = sigma(ops.add(x_update, h_update))
            recurrent = ops.multiply(sigma(ops.add(x_reset, h_reset)), h_new)
        else:
            gates_kernel, new_kernel = ops.split(kernel, [2 * self.units], axis=-1)
            h_update, h_reset = ops.split(ops.matmul(used, gates_kernel), 2, axis=-1)
            update = sigma(ops.add(x_update, h_update))
            reset = sigma(ops.add(x_reset, h_reset))
            recurrent = ops.matmul(ops.multiply(reset, used), new_kernel)
        new = self.activation(ops.add(x_new, recurrent))
        output = ops.add(ops.multiply(update, before), ops.multiply(ops.subtract(1.0, update), new))
        return output, [output]

    def is_one_operation(self, training: Any = False) -> bool:
        return _is_standard(self) and not (training and self.recurrent_dropout)

    def sequence(
        self, projected: Any, states: list[Any], training: Any = False
    ) -> tuple[Any, list[Any]]:
        bias = None
        if self.reset_after and self.bias is not None:
            bias = self.bias.value()[1]
        hidden = gru(
            projected, states[0], self.recurrent_kernel.value(), bias, bool(self.reset_after)
        )
        return hidden, [hidden]


class LSTMCell(Cell):
    """i, f, o = sigma(.), c' = f * c + i * activation(.), h' = o * activation(c'), the output.

    Each dot is x @ kernel + h @ recurrent_kernel + bias for a quarter of the columns.
    Source: Hochreiter and Schmidhuber 1997, "Long short-term memory"; forget gate: Gers et al.
    2000.
    Shapes: inputs (batch, features), state h and c (batch, units), kernel (features, 4 units),
    recurrent_kernel (units, 4 units), bias (4 units,); quarters in the order i, f, c, o.

    Args:
        units: length of h and c.
        activation, recurrent_activation: functions or their names.
        kernel_initializer, recurrent_initializer, bias_initializer: what the weights start with.
        unit_forget_bias: whether the bias of f starts with 1.
        kernel_regularizer, recurrent_regularizer, bias_regularizer: penalties on the weights.
        kernel_constraint, recurrent_constraint, bias_constraint: bounds on the weights.
        dropout: share of the inputs that is dropped while training.
        recurrent_dropout: share of h that is.
        seed: int for the dropout, by default derived from `set_seed`.

    Example:
        >>> tk.layers.RNN(tk.layers.LSTMCell(4))(tk.ones((2, 5, 3))).shape
        TensorShape([2, 4])
    """

    recurrent_activation: Any
    unit_forget_bias: bool

    gates = 4

    def __init__(
        self,
        units: int,
        activation: ActivationLike = "tanh",
        recurrent_activation: ActivationLike = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        recurrent_initializer: InitializerLike = "orthogonal",
        bias_initializer: InitializerLike = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: RegularizerLike | None = None,
        recurrent_regularizer: RegularizerLike | None = None,
        bias_regularizer: RegularizerLike | None = None,
        kernel_constraint: ConstraintLike | None = None,
        recurrent_constraint: ConstraintLike | None = None,
        bias_constraint: ConstraintLike | None = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: Seed | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        keep(self, locals())
        self._set_up()

    @property
    def state_size(self) -> Any:
        """The lengths of h and c."""
        return [self.units, self.units]

    def _new_bias(self) -> Any:
        def with_ones(shape: Any, dtype: Any = None) -> Any:
            initializer, units = self.bias_initializer, self.units
            ones = initializers.Ones()((units,), dtype)
            other_gates = initializer((2 * units,), dtype=dtype)
            return ops.concatenate([initializer((units,), dtype=dtype), ones, other_gates])

        start = with_ones if self.unit_forget_bias else self.bias_initializer
        return weight_of(self, "bias", (4 * self.units,), initializer=start)

    def step(
        self, projected: Any, states: list[Any], training: Any = False
    ) -> tuple[Any, list[Any]]:
        hidden = self._drop("state", self.recurrent_dropout, states[0], training)
        total = ops.add(projected, ops.matmul(hidden, self.recurrent_kernel.value()))
        parts = ops.split(total, 4, axis=-1)
        in_gate, forget, out = (self.recurrent_activation(parts[i]) for i in (0, 1, 3))
        new = self.activation(parts[2])
        memory = ops.add(ops.multiply(forget, states[1]), ops.multiply(in_gate, new))
        output = ops.multiply(out, self.activation(memory))
        return output, [output, memory]

    def is_one_operation(self, training: Any = False) -> bool:
        return _is_standard(self) and not (training and self.recurrent_dropout)

    def sequence(
        self, projected: Any, states: list[Any], training: Any = False
    ) -> tuple[Any, list[Any]]:
        h, c = states
        hidden, memory = lstm(projected, h, c, self.recurrent_kernel.value())
        return hidden, [hidden, memory]


class StackedRNNCells(Layer):
    """Cells of which each takes the output of the one before; together they are one cell.

    The state is the list of the cells' states, each in that cell's own form: what its
    `get_initial_state` gives, else a tensor or a list of them as its `state_size` is.

    Args:
        cells: cells, from the input on.

    Raises:
        InvalidArgumentError: one of them is no cell.

    Example:
        >>> cells = tk.layers.StackedRNNCells([tk.layers.LSTMCell(4), tk.layers.LSTMCell(8)])
        >>> tk.layers.RNN(cells)(tk.ones((2, 5, 3))).shape
        TensorShape([2, 8])
    """

    def __init__(self, cells: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for cell in cells:
            if not hasattr(cell, "state_size") or not callable(cell):
                raise InvalidArgumentError(
                    f"StackedRNNCells: a cell has state_size and call(inputs, states), got {cell!r}"
                )
        self.cells = list(cells)

    @property
    def state_size(self) -> list[Any]:
        """The state sizes of the cells."""
        return [cell.state_size for cell in self.cells]

    @property
    def output_size(self) -> Any:
        """The output size of the last cell."""
        last = self.cells[-1]
        size = getattr(last, "output_size", None)
        return size if size is not None else _first(last.state_size)

    def get_initial_state(self, batch_size: Any = None) -> list[Any]:
        """What each cell begins with, in that cell's own form; zeros where it does not say."""
        return [_own_state(cell, batch_size, self.compute_dtype) for cell in self.cells]

    def begin_sequence(self) -> None:
        """Tell the cells that a sequence begins."""
        for cell in self.cells:
            getattr(cell, "begin_sequence", _do_nothing)()

    def end_sequence(self) -> None:
        """Tell the cells that the sequence is over."""
        for cell in self.cells:
            getattr(cell, "end_sequence", _do_nothing)()

    def build(self, input_shape: Any) -> None:
        for cell in self.cells:
            if isinstance(cell, Layer) and not cell.built:
                build_cell(cell, input_shape)
            size = getattr(cell, "output_size", None)
            input_shape = (input_shape[0], size if size is not None else _first(cell.state_size))

    def call(self, inputs: Any, states: Any, training: Any = False) -> Any:
        new_states = []
        for cell, state in zip(self.cells, states, strict=True):
            listed = isinstance(state, list | tuple)
            inputs, new = call_cell(cell, inputs, list(state) if listed else [state], training)
            new_states.append(new if listed or len(new) != 1 else new[0])
        return inputs, new_states


def _do_nothing() -> None:
    """Stand in for a method that a user's cell does not have."""


def zeros_for(batch_size: Any, size: Any, dtype: str) -> Any:
    """Zeros (batch_size, size) or (batch_size, *size); the batch size may be a scalar tensor."""
    dims = tuple(size) if isinstance(size, list | tuple) else (size,)
    if isinstance(batch_size, int):
        return ops.zeros((batch_size, *dims), dtype)
    return ops.broadcast_to(ops.zeros((1, *dims), dtype), (batch_size, *dims))


def _first(sizes: Any) -> Any:
    return sizes[0] if has_many(sizes) else sizes


def has_many(size: Any) -> bool:
    """Whether a `state_size` is of several states; a `TensorShape` is the shape of one."""
    return isinstance(size, list | tuple) and not isinstance(size, TensorShape)


def initial_state(cell: Any, batch_size: Any, dtype: str) -> list[Any]:
    """The state before the first step, as a list."""
    state = _own_state(cell, batch_size, dtype)
    return list(state) if isinstance(state, list | tuple) else [state]


def _own_state(cell: Any, batch_size: Any, dtype: str) -> Any:
    """The state before the first step, in the form that the cell gives it."""
    if hasattr(cell, "get_initial_state"):
        return cell.get_initial_state(batch_size=batch_size)
    size = cell.state_size
    if has_many(size):
        return [zeros_for(batch_size, n, dtype) for n in size]
    return zeros_for(batch_size, size, dtype)


def call_cell(cell: Any, inputs: Any, states: list[Any], training: Any) -> tuple[Any, list[Any]]:
    """One step of any cell, its state as a list."""
    takes_training = isinstance(cell, Layer) and cell._facts.takes_training
    more = {"training": training} if takes_training else {}
    output, new = cell(inputs, states, **more)
    return output, list(new) if isinstance(new, list | tuple) else [new]


def build_cell(cell: Layer, input_shape: Any) -> None:
    """Make a cell's weights; one that leaves that to the layers inside is run on shapes once.

    Args:
        cell: not built yet.
        input_shape: of the input of one step, `None` for a batch size that is not known.
    """
    if type(cell).build is not Layer.build:
        cell.build(input_shape)
        return
    batch, *sample_shape = input_shape
    dtype = cell.compute_dtype

    def step(inputs: Any) -> Any:
        return call_cell(cell, inputs, initial_state(cell, batch or 1, dtype), False)

    eval_shape.result_specs(step, Spec((batch or 1, *sample_shape), dtype))
