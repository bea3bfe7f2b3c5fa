"""Convolutional LSTM layers: an LSTM whose products are convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit import initializers, ops
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.values.docstrings import longer_docstring
from trainkit.core.values.type_aliases import (
    ActivationLike,
    ConstraintLike,
    InitializerLike,
    RegularizerLike,
    Seed,
)
from trainkit.layers.base.arguments import format_of, keep, one_of, sizes, weight_of, whole
from trainkit.layers.base.input_spec import InputSpec
from trainkit.layers.rnn.cells import Cell
from trainkit.layers.rnn.recurrent_layers import OfCell


class ConvLSTMCell(Cell):
    """One step of a convolutional LSTM; the settings are those of the layers."""

    rank: int
    filters: Any
    kernel_size: Any
    strides: Any
    padding: Any
    data_format: Any
    dilation_rate: Any
    recurrent_activation: Any
    unit_forget_bias: bool

    gates = 4

    def __init__(
        self,
        rank: int,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = 1,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        keep(self, locals())
        self._state_shape: Any = None  # known once built
        self.filters = self.units = whole(self, "filters", filters)
        self.kernel_size = sizes(self, "kernel_size", kernel_size, rank)
        self.strides = sizes(self, "strides", strides, rank)
        self.dilation_rate = sizes(self, "dilation_rate", dilation_rate, rank)
        if max(self.strides) > 1 and max(self.dilation_rate) > 1:
            raise InvalidArgumentError(
                f"{type(self).__name__}: strides {self.strides} and dilation_rate "
                f"{self.dilation_rate} can't both be above 1"
            )
        self.padding = one_of(self, "padding", str(padding).lower(), ("valid", "same"))
        self.data_format = format_of(self, data_format)
        self._set_up()

    @property
    def _channel_axis(self) -> int:
        return -1 if self.data_format == "channels_last" else 1

    @property
    def state_size(self) -> Any:
        """The shapes of h and c without the batch."""
        return [self._state_shape, self._state_shape]

    def build(self, input_shape: Any) -> None:
        channels = input_shape[self._channel_axis]
        first = 1 if self.data_format == "channels_last" else 2
        spatial = input_shape[first : first + self.rank]
        if channels is None or None in spatial:
            raise ShapeError(
                f"the channels and spatial sizes of a convolutional LSTM's input must be known, a "
                f"step has shape {tuple(input_shape)}"
            )
        width = 4 * self.filters
        self.kernel = weight_of(self, "kernel", (*self.kernel_size, channels, width))
        recurrent_shape = (*self.kernel_size, self.filters, width)
        self.recurrent_kernel = weight_of(self, "recurrent_kernel", recurrent_shape, "recurrent")
        start = self._forget_bias if self.unit_forget_bias else self.bias_initializer
        self.bias = weight_of(self, "bias", (width,), initializer=start) if self.use_bias else None
        out = tuple(self._out(i, n) for i, n in enumerate(spatial))
        last = self.data_format == "channels_last"
        self._state_shape = (*out, self.filters) if last else (self.filters, *out)

    def _forget_bias(self, shape: Any, dtype: Any = None) -> Any:
        n = self.filters
        initializer = self.bias_initializer
        parts = [
            initializer((n,), dtype=dtype),
            initializers.Ones()((n,), dtype),
            initializer((2 * n,), dtype=dtype),
        ]
        return ops.concatenate(parts)

    def _out(self, axis: int, n: int) -> int:
        stride = self.strides[axis]
        if self.padding == "same":
            return -(-n // stride)
        return (n - (self.kernel_size[axis] - 1) * self.dilation_rate[axis] - 1) // stride + 1

    def project(self, inputs: Any, training: Any = False) -> Any:
        over_time = len(inputs.shape) == self.rank + 3
        x = self._drop("input", self.dropout, inputs, training, over_time)
        dims = ops.shape(x)
        if over_time:
            x = ops.reshape(x, (-1, *dims[2:]))
        y = ops.conv(
            x, self.kernel.value(), self.strides, self.padding, self.data_format, self.dilation_rate
        )
        if self.bias is not None:
            bias = self.bias.value()
            if self.data_format == "channels_first":
                bias = ops.reshape(bias, (-1, *(1,) * self.rank))
            y = ops.add(y, bias)
        if not over_time:
            return y
        steps = dims[1] if inputs.shape[1] is not None or inputs.shape[0] is None else -1
        return ops.reshape(y, (dims[0], steps, *y.shape[1:]))

    def step(self, projected: Any, states: list[Any], training: Any = False) -> Any:
        hidden = self._drop("state", self.recurrent_dropout, states[0], training)
        kernel = self.recurrent_kernel.value()
        total = ops.add(projected, ops.conv(hidden, kernel, 1, "same", self.data_format))
        parts = ops.split(total, 4, axis=self._channel_axis)
        in_gate, forget, out = (self.recurrent_activation(parts[i]) for i in (0, 1, 3))
        new = ops.multiply(in_gate, self.activation(parts[2]))
        memory = ops.add(ops.multiply(forget, states[1]), new)
        output = ops.multiply(out, self.activation(memory))
        return output, [output, memory]


class _ConvLSTM(OfCell):
    """An LSTM along a sequence of images, its products being convolutions.

    Source: Shi et al. 2015, arXiv:1506.04214.
    Shapes: input (batch, steps, spatial..., channels), output (batch, out..., filters), or (batch,
    steps, out..., filters) with `return_sequences`; with `return_state` a tuple of the output and
    the last h and c. With `data_format="channels_first"` the channels stand before the spatial
    axes.

    Args:
        filters: number of output channels.
        kernel_size: size of the window, one int or one for each spatial axis.
        strides: distance between windows of the input's convolution.
        padding: of the input's convolution, `"valid"` or `"same"`; the state's is `"same"`.
        data_format: `"channels_last"` (the default) or `"channels_first"`.
        dilation_rate: distance between the elements of a window of the input's convolution.
        activation, recurrent_activation: functions or their names.
        use_bias: whether to add a bias.
        kernel_initializer, recurrent_initializer, bias_initializer: what the weights start with.
        unit_forget_bias: whether the bias of the forget gate starts with 1.
        kernel_regularizer, recurrent_regularizer, bias_regularizer: penalties on the weights.
        activity_regularizer: penalty on the output.
        kernel_constraint, recurrent_constraint, bias_constraint: bounds on the weights.
        dropout, recurrent_dropout: shares of inputs and state that are dropped while training.
        seed: int for the dropout.
        return_sequences, return_state, go_backwards, stateful: see `RNN`.
    """

    cell_class = ConvLSTMCell
    rank: int

    def __init__(
        self,
        filters: int,
        kernel_size: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: int | Sequence[int] = 1,
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
        **kwargs: Any,
    ) -> None:
        arguments = dict(locals())
        self._set_up({**arguments, "rank": self.rank})
        self.input_spec = InputSpec(ndim=self.rank + 3)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        return {
            k: v for k, v in config.items() if k not in ("unroll", "zero_output_for_mask", "rank")
        }


class ConvLSTM1D(_ConvLSTM):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_ConvLSTM)("""
        Example:
            >>> tk.layers.ConvLSTM1D(4, 3, padding="same")(tk.ones((1, 2, 8, 3))).shape
            TensorShape([1, 8, 4])
    """)
    rank = 1


class ConvLSTM2D(_ConvLSTM):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_ConvLSTM)("""
        Example:
            >>> tk.layers.ConvLSTM2D(4, 3, return_sequences=True)(tk.ones((1, 2, 8, 8, 3))).shape
            TensorShape([1, 2, 6, 6, 4])
    """)
    rank = 2


class ConvLSTM3D(_ConvLSTM):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_ConvLSTM)("""
        Example:
            >>> tk.layers.ConvLSTM3D(2, 2)(tk.ones((1, 2, 4, 4, 4, 1))).shape
            TensorShape([1, 3, 3, 3, 2])
    """)
    rank = 3
