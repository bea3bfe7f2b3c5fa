"""SimpleRNN, GRU and LSTM: `RNN` with the cell of that name."""

from __future__ import annotations

from functools import cache
from typing import Any

from trainkit.core.names import snake_case
from trainkit.core.values.docstrings import describe_arguments
from trainkit.core.values.python_signatures import signature_of
from trainkit.core.values.type_aliases import (
    ActivationLike,
    ConstraintLike,
    InitializerLike,
    RegularizerLike,
    Seed,
)
from trainkit.layers.base.arguments import one_of
from trainkit.layers.base.layer import Layer
from trainkit.layers.rnn.cells import GRUCell, LSTMCell, SimpleRNNCell
from trainkit.layers.rnn.rnn import RNN


@cache
def _cell_arguments(kind: Any) -> frozenset[str]:
    names = signature_of(kind).parameters
    return frozenset(names) - {"kwargs"}


class OfCell(RNN):
    """What the three share: the cell is made of the layer's arguments, and lends them back."""

    cell_class: Any

    def _set_up(self, arguments: dict[str, Any]) -> None:
        """Make the cell and the base from `locals()` of `__init__`."""
        names = _cell_arguments(self.cell_class)
        settings = {k: v for k, v in arguments.items() if k in names}
        own = {
            k: v
            for k, v in arguments.items()
            if k not in names and k not in ("self", "kwargs", "__class__", "use_cudnn")
        }
        kwargs = arguments["kwargs"]
        implementation = kwargs.pop("implementation", 2)
        dtype = kwargs.get("dtype")
        # all cells of a kind have one name, as in Keras: the layer's own stands before it in paths
        settings["name"] = snake_case(self.cell_class.__name__)
        cell = self.cell_class(**settings, dtype=dtype, trainable=kwargs.get("trainable", True))
        super().__init__(cell, **own, **kwargs)
        self.implementation = one_of(self, "implementation", implementation, (0, 1, 2))

    def __getattr__(self, name: str) -> Any:
        cell = self.__dict__.get("cell")
        kind: Any = type(cell)
        if cell is not None and name in _cell_arguments(kind):
            return getattr(cell, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config.pop("cell", None)
        return config


class SimpleRNN(OfCell):
    """h' = activation(x @ kernel + h @ recurrent_kernel + bias) along a sequence.

    Shapes: input (batch, steps, features), mask (batch, steps), output (batch, units), or (batch,
    steps, units) with `return_sequences`; with `return_state` a tuple of the output and the last h.

    Args:
        units: length of the state.
        activation: function or its name.

    Example:
        >>> tk.layers.SimpleRNN(4)(tk.ones((2, 5, 3))).shape
        TensorShape([2, 4])
    """

    cell_class = SimpleRNNCell

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
        activity_regularizer: RegularizerLike | None = None,
        kernel_constraint: ConstraintLike | None = None,
        recurrent_constraint: ConstraintLike | None = None,
        bias_constraint: ConstraintLike | None = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        zero_output_for_mask: bool = False,
        seed: Seed | None = None,
        **kwargs: Any,
    ) -> None:
        self._set_up(locals())


def _checked_cudnn(layer: Layer, use_cudnn: Any) -> Any:
    return one_of(layer, "use_cudnn", use_cudnn, ("auto", True, False))


class GRU(OfCell):
    """A gated recurrent unit along a sequence; see `GRUCell` for the formula.

    Source: Cho et al. 2014, arXiv:1406.1078.
    Shapes: input (batch, steps, features), mask (batch, steps), output (batch, units), or (batch,
    steps, units) with `return_sequences`; with `return_state` a tuple of the output and the last
    state.

    Args:
        units: length of the state.
        activation, recurrent_activation: functions or their names.
        use_bias: whether to add biases.
        reset_after: where the reset gate multiplies.
        use_cudnn: `"auto"`, `True` or `False`, which all give the same: each device has one
            implementation.

    Example:
        >>> tk.layers.GRU(4, return_sequences=True)(tk.ones((2, 5, 3))).shape
        TensorShape([2, 5, 4])
    """

    cell_class = GRUCell

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
        activity_regularizer: RegularizerLike | None = None,
        kernel_constraint: ConstraintLike | None = None,
        recurrent_constraint: ConstraintLike | None = None,
        bias_constraint: ConstraintLike | None = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: Seed | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        reset_after: bool = True,
        zero_output_for_mask: bool = False,
        use_cudnn: Any = "auto",
        **kwargs: Any,
    ) -> None:
        self._set_up(locals())
        self.use_cudnn = _checked_cudnn(self, use_cudnn)


class LSTM(OfCell):
    """Long short-term memory along a sequence; see `LSTMCell` for the formula.

    Source: Hochreiter and Schmidhuber 1997, "Long short-term memory".
    Shapes: input (batch, steps, features), mask (batch, steps), output (batch, units), or (batch,
    steps, units) with `return_sequences`; with `return_state` a tuple of the output and the last h
    and c.

    Args:
        units: length of h and c.
        activation, recurrent_activation: functions or their names.
        unit_forget_bias: whether the bias of the forget gate starts with 1.
        use_cudnn: `"auto"`, `True` or `False`, which all give the same: each device has one
            implementation.

    Example:
        >>> layer = tk.layers.LSTM(4, return_sequences=True, return_state=True)
        >>> y, h, c = layer(tk.ones((2, 5, 3)))
        >>> y.shape, h.shape, c.shape
        (TensorShape([2, 5, 4]), TensorShape([2, 4]), TensorShape([2, 4]))
    """

    cell_class = LSTMCell

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
        activity_regularizer: RegularizerLike | None = None,
        kernel_constraint: ConstraintLike | None = None,
        recurrent_constraint: ConstraintLike | None = None,
        bias_constraint: ConstraintLike | None = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: Seed | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        zero_output_for_mask: bool = False,
        use_cudnn: Any = "auto",
        **kwargs: Any,
    ) -> None:
        self._set_up(locals())
        self.use_cudnn = _checked_cudnn(self, use_cudnn)


describe_arguments(
    globals(),
    """
    kernel_initializer, recurrent_initializer, bias_initializer: what the weights start with.
    kernel_regularizer, recurrent_regularizer, bias_regularizer: penalties on the weights.
    kernel_constraint, recurrent_constraint, bias_constraint: bounds on the weights.
    dropout, recurrent_dropout: shares of inputs and state that are dropped while training.
    seed: int for the dropout.
    return_sequences, return_state, go_backwards, stateful, unroll, zero_output_for_mask: see
        `RNN`.
    **kwargs: of `Layer`; and `implementation`, 0, 1 or 2, which all give the same.
    """,
)
