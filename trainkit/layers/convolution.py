"""Convolution layers: plain, transposed, depthwise and separable, over one to three axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.values.docstrings import longer_docstring
from trainkit.core.values.type_aliases import (
    ActivationLike,
    ConstraintLike,
    InitializerLike,
    RegularizerLike,
)
from trainkit.layers.base.arguments import format_of, keep, one_of, sizes, weight_of, whole
from trainkit.layers.base.input_spec import InputSpec
from trainkit.layers.base.layer import Layer
from trainkit.layers.fused_activation import split_activation
from trainkit.layers.quantized import quantization


class _Windowed(Layer):
    """What all convolutions share: windows, channels, bias and activation."""

    rank: int

    # what __init__ keeps of the arguments that several classes have
    filters: Any
    kernel_size: Any
    strides: Any
    padding: Any
    data_format: str | None
    dilation_rate: Any
    activation: Any
    use_bias: bool
    bias_initializer: Any
    bias_regularizer: Any
    bias_constraint: Any

    bias: Any
    paddings: tuple[str, ...] = ("valid", "same")
    # as in Keras, the convolutions of single channels alone
    _strides_go_with_dilation: ClassVar[bool] = False

    def _set_windows(self) -> None:
        """Bring the settings, kept as they were given, into one form."""
        rank = self.rank
        self.kernel_size = sizes(self, "kernel_size", self.kernel_size, rank)
        self.strides = sizes(self, "strides", self.strides, rank)
        self.dilation_rate = sizes(self, "dilation_rate", self.dilation_rate, rank)
        self.padding = one_of(self, "padding", str(self.padding).lower(), self.paddings)
        self.data_format = format_of(self, self.data_format)
        both = max(self.strides) > 1 and max(self.dilation_rate) > 1
        if both and not self._strides_go_with_dilation:
            raise InvalidArgumentError(
                f"{type(self).__name__}: strides {self.strides} and dilation_rate "
                f"{self.dilation_rate} can't both be above 1"
            )
        self.input_spec = InputSpec(min_ndim=rank + 2)

    def _channels_of(self, input_shape: Any) -> int:
        """The number of input channels, to which later inputs must keep."""
        axis = -1 if self.data_format == "channels_last" else 1
        if len(input_shape) != self.rank + 2:
            raise ShapeError(
                f"{type(self).__name__} {self.name!r}: the input must have {self.rank + 2} axes, "
                f"{self._axes()}, got shape {tuple(input_shape)}"
            )
        channels = input_shape[axis]
        if channels is None:
            raise ShapeError(
                f"{type(self).__name__} {self.name!r}: the number of channels (axis {axis}) must "
                f"be known, got shape {tuple(input_shape)}"
            )
        self.input_spec = InputSpec(ndim=self.rank + 2, axes={axis: channels})
        return int(channels)

    def _axes(self) -> str:
        spatial = ("length",) if self.rank == 1 else ("depth", "height", "width")[-self.rank :]
        if self.data_format == "channels_first":
            return f"({', '.join(('batch', 'channels', *spatial))})"
        return f"({', '.join(('batch', *spatial, 'channels'))})"

    def _bias_for(self, channels: int) -> Any:
        return weight_of(self, "bias", (channels,)) if self.use_bias else None

    def _finish(self, y: Any) -> Any:
        """The output with bias and activation."""
        if self.bias is not None:
            bias = self.bias.value()
            if self.data_format == "channels_first":
                bias = ops.reshape(bias, (-1, *(1,) * self.rank))
            y = ops.add(y, bias)
        return self.activation(y)


class _Conv(_Windowed):
    """Convolution: each output is a weighted sum over a window of the input.

    y[b, i, f] = bias[f] + sum of x[b, i * stride + a * dilation, c] * kernel[a, c, f]

    Shapes: input (batch, spatial..., channels), output (batch, out..., filters), kernel
    (kernel_size..., channels // groups, filters), bias (filters,). With
    `data_format="channels_first"` the channels stand before the spatial axes.

    Args:
        filters: number of output channels.
        kernel_size: size of the window, one int or one for each spatial axis.
        strides: distance between windows.
        padding: `"valid"` for none, `"same"` for zeros around so that stride 1 keeps the size;
            Conv1D also takes `"causal"`, zeros before the first step only.
        data_format: `"channels_last"` (the default) or `"channels_first"`.
        dilation_rate: distance between the elements of a window.
        groups: into how many groups the channels fall; a filter sees one.
        activation: function or its name; none by default.
        use_bias: whether to add a bias.
        kernel_initializer, bias_initializer: what the weights start with.
        kernel_regularizer, bias_regularizer: penalties on the weights.
        activity_regularizer: penalty on the output.
        kernel_constraint, bias_constraint: bounds on the weights.
        lora_rank, lora_alpha: arguments of `enable_lora`, which is called when the layer is built.

    Raises:
        ValueError: a setting is none of those above, or the channels do not fall into `groups`.
    """

    groups: Any
    kernel_initializer: Any
    kernel_regularizer: Any
    kernel_constraint: Any
    lora_rank: int | None
    lora_alpha: float | None

    _quantization = quantization.LayerQuantization("trainkit.layers.quantized.dense_variants")
    enable_lora = quantization.enable_lora
    lora_enabled = False

    def __init__(
        self,
        filters: int,
        kernel_size: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: int | Sequence[int] = 1,
        groups: int = 1,
        activation: ActivationLike | None = None,
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: RegularizerLike | None = None,
        bias_regularizer: RegularizerLike | None = None,
        activity_regularizer: RegularizerLike | None = None,
        kernel_constraint: ConstraintLike | None = None,
        bias_constraint: ConstraintLike | None = None,
        lora_rank: int | None = None,
        lora_alpha: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        keep(self, locals())
        self.filters = whole(self, "filters", filters)
        self.groups = whole(self, "groups", groups)
        self._set_windows()
        if self.filters % self.groups:
            raise InvalidArgumentError(
                f"{type(self).__name__}: {filters} filters do not fall into {groups} groups"
            )

    def build(self, input_shape: Any) -> None:
        channels = self._channels_of(input_shape)
        if channels % self.groups:
            raise ShapeError(
                f"{type(self).__name__} {self.name!r}: {channels} input channels do not fall into "
                f"{self.groups} groups"
            )
        shape = (*self.kernel_size, channels // self.groups, self.filters)
        self.kernel = weight_of(self, "kernel", shape)
        self.bias = self._bias_for(self.filters)
        quantization.start_lora(self)

    _own_convolution = False  # whether a subclass has a `convolution_op` of its own

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "convolution_op" in cls.__dict__ and cls.__module__ != __name__:
            cls._own_convolution = True

    def convolution_op(self, inputs: Any, kernel: Any) -> Any:
        """The convolution without bias and activation; `call` uses one that a subclass defines.

        Args:
            inputs: tensor of the shape that the layer takes.
            kernel: tensor (*kernel_size, input channels / groups, filters).

        Returns:
            A tensor of the layer's output shape.
        """
        return ops.conv(
            inputs,
            kernel,
            self.strides,
            self._window_padding(),
            self.data_format,
            self.dilation_rate,
        )

    def _window_padding(self) -> Any:
        """The padding as operations on windows take it."""
        return self.padding

    def call(self, inputs: Any) -> Any:
        if self._own_convolution:
            return self._finish(self.convolution_op(inputs, self.kernel.value()))
        bias = None if self.bias is None else self.bias.value()
        applied, left = split_activation(self.activation)
        y = ops.conv_with_bias(
            inputs,
            self.kernel.value(),
            bias,
            self.strides,
            self._window_padding(),
            self.data_format,
            self.dilation_rate,
            applied,
        )
        return y if left is None else left(y)


class Conv1D(_Conv):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_Conv)("""
        Example:
            >>> tk.layers.Conv1D(8, 3, padding="same")(tk.ones((2, 10, 4))).shape
            TensorShape([2, 10, 8])
    """)
    rank = 1
    paddings = ("valid", "same", "causal")

    def _window_padding(self) -> Any:
        if self.padding != "causal":
            return self.padding
        return ((self.dilation_rate[0] * (self.kernel_size[0] - 1), 0),)


class Conv2D(_Conv):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_Conv)("""
        Example:
            >>> layer = tk.layers.Conv2D(8, 3, activation="relu")
            >>> layer(tk.ones((2, 28, 28, 1))).shape
            TensorShape([2, 26, 26, 8])
            >>> layer.kernel.shape
            TensorShape([3, 3, 1, 8])
    """)
    rank = 2


class Conv3D(_Conv):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_Conv)("""
        Example:
            >>> tk.layers.Conv3D(2, 3)(tk.ones((1, 5, 6, 7, 1))).shape
            TensorShape([1, 3, 4, 5, 2])
    """)
    rank = 3


class _ConvTranspose(_Windowed):
    """Transposed convolution: spreads each input value over a window of the output.

    Shapes: input (batch, spatial..., channels), output (batch, out..., filters), kernel
    (kernel_size..., filters, channels), bias (filters,). With `data_format="channels_first"` the
    channels stand before the spatial axes.

    Args:
        filters: number of output channels.
        kernel_size: size of the window, one int or one for each spatial axis.
        strides: distance in the output between the windows of neighbouring inputs.
        padding: `"valid"`, or `"same"` for an output `strides` times as large as the input.
        output_padding: positions added at the far side of the smallest output, below the stride.
        data_format: `"channels_last"` (the default) or `"channels_first"`.
        dilation_rate: distance between the elements of a window.
        activation: function or its name; none by default.
        use_bias: whether to add a bias.
        kernel_initializer, bias_initializer: what the weights start with.
        kernel_regularizer, bias_regularizer: penalties on the weights.
        activity_regularizer: penalty on the output.
        kernel_constraint, bias_constraint: bounds on the weights.

    Raises:
        ValueError: a setting is none of those above.
    """

    output_padding: Any
    kernel_initializer: Any
    kernel_regularizer: Any
    kernel_constraint: Any

    def __init__(
        self,
        filters: int,
        kernel_size: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        padding: str = "valid",
        output_padding: Any = None,
        data_format: str | None = None,
        dilation_rate: int | Sequence[int] = 1,
        activation: ActivationLike | None = None,
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: RegularizerLike | None = None,
        bias_regularizer: RegularizerLike | None = None,
        activity_regularizer: RegularizerLike | None = None,
        kernel_constraint: ConstraintLike | None = None,
        bias_constraint: ConstraintLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        keep(self, locals())
        self.filters = whole(self, "filters", filters)
        self._set_windows()
        if output_padding is not None:
            self.output_padding = self._checked_output_padding()

    def _checked_output_padding(self) -> tuple[int, ...]:
        extra = sizes(self, "output_padding", self.output_padding, self.rank, minimum=0)
        if any(p >= s for p, s in zip(extra, self.strides, strict=True)):
            raise InvalidArgumentError(
                f"{type(self).__name__}: output_padding {extra} must be below the strides "
                f"{self.strides}"
            )
        return extra

    def build(self, input_shape: Any) -> None:
        channels = self._channels_of(input_shape)
        shape = (*self.kernel_size, self.filters, channels)
        self.kernel = weight_of(self, "kernel", shape)
        self.bias = self._bias_for(self.filters)

    def call(self, inputs: Any) -> Any:
        return self._finish(
            ops.conv_transpose(
                inputs,
                self.kernel.value(),
                self.strides,
                self.padding,
                self.output_padding,
                self.data_format,
                self.dilation_rate,
            )
        )


class Conv1DTranspose(_ConvTranspose):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_ConvTranspose)("""
        Example:
            >>> layer = tk.layers.Conv1DTranspose(8, 3, strides=2, padding="same")
            >>> layer(tk.ones((2, 10, 4))).shape
            TensorShape([2, 20, 8])
    """)
    rank = 1


class Conv2DTranspose(_ConvTranspose):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_ConvTranspose)("""
        Example:
            >>> layer = tk.layers.Conv2DTranspose(8, 3, strides=2, padding="same")
            >>> layer(tk.ones((2, 7, 7, 4))).shape
            TensorShape([2, 14, 14, 8])
    """)
    rank = 2


class Conv3DTranspose(_ConvTranspose):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_ConvTranspose)("""
        Example:
            >>> tk.layers.Conv3DTranspose(2, 3)(tk.ones((1, 3, 4, 5, 1))).shape
            TensorShape([1, 5, 6, 7, 2])
    """)
    rank = 3


class _DepthwiseConv(_Windowed):
    """Convolution of each channel by itself, with `depth_multiplier` filters of its own.

    Shapes: input (batch, spatial..., channels), output (batch, out..., channels *
    depth_multiplier), kernel (kernel_size..., channels, depth_multiplier), bias (channels *
    depth_multiplier,). With `data_format="channels_first"` the channels stand before the spatial
    axes.

    Args:
        kernel_size: size of the window, one int or one for each spatial axis.
        strides: distance between windows.
        padding: `"valid"` or `"same"`.
        depth_multiplier: number of filters of each channel.
        data_format: `"channels_last"` (the default) or `"channels_first"`.
        dilation_rate: distance between the elements of a window.
        activation: function or its name; none by default.
        use_bias: whether to add a bias.
        depthwise_initializer, bias_initializer: what the weights start with.
        depthwise_regularizer, bias_regularizer: penalties on the weights.
        activity_regularizer: penalty on the output.
        depthwise_constraint, bias_constraint: bounds on the weights.

    Raises:
        ValueError: a setting is none of those above.
    """

    _strides_go_with_dilation = True

    depth_multiplier: Any
    depthwise_initializer: Any
    depthwise_regularizer: Any
    depthwise_constraint: Any

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        padding: str = "valid",
        depth_multiplier: int = 1,
        data_format: str | None = None,
        dilation_rate: int | Sequence[int] = 1,
        activation: ActivationLike | None = None,
        use_bias: bool = True,
        depthwise_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        depthwise_regularizer: RegularizerLike | None = None,
        bias_regularizer: RegularizerLike | None = None,
        activity_regularizer: RegularizerLike | None = None,
        depthwise_constraint: ConstraintLike | None = None,
        bias_constraint: ConstraintLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        keep(self, locals())
        self.depth_multiplier = whole(self, "depth_multiplier", depth_multiplier)
        self._set_windows()

    def build(self, input_shape: Any) -> None:
        channels = self._channels_of(input_shape)
        shape = (*self.kernel_size, channels, self.depth_multiplier)
        self.kernel = weight_of(self, "kernel", shape, "depthwise")
        self.bias = self._bias_for(channels * self.depth_multiplier)

    def call(self, inputs: Any) -> Any:
        bias = None if self.bias is None else self.bias.value()
        applied, left = split_activation(self.activation)
        y = ops.depthwise_conv_with_bias(
            inputs,
            self.kernel.value(),
            bias,
            self.strides,
            self.padding,
            self.data_format,
            self.dilation_rate,
            applied,
        )
        return y if left is None else left(y)


class DepthwiseConv1D(_DepthwiseConv):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_DepthwiseConv)("""
        Example:
            >>> tk.layers.DepthwiseConv1D(3, depth_multiplier=2)(tk.ones((2, 10, 4))).shape
            TensorShape([2, 8, 8])
    """)
    rank = 1


class DepthwiseConv2D(_DepthwiseConv):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_DepthwiseConv)("""
        Example:
            >>> tk.layers.DepthwiseConv2D(3)(tk.ones((2, 8, 8, 4))).shape
            TensorShape([2, 6, 6, 4])
    """)
    rank = 2


class _SeparableConv(_Windowed):
    """A depthwise convolution, then a convolution of window 1 that mixes its channels.

    Source: Chollet 2017, arXiv:1610.02357.
    Shapes: input (batch, spatial..., channels), output (batch, out..., filters), depthwise_kernel
    (kernel_size..., channels, depth_multiplier), pointwise_kernel (1..., channels *
    depth_multiplier, filters), bias (filters,). With `data_format="channels_first"` the channels
    stand before the spatial axes.

    Args:
        filters: number of output channels.
        kernel_size: size of the window, one int or one for each spatial axis.
        strides: distance between windows.
        padding: `"valid"` or `"same"`.
        data_format: `"channels_last"` (the default) or `"channels_first"`.
        dilation_rate: distance between the elements of a window.
        depth_multiplier: number of depthwise filters of each channel.
        activation: function or its name; none by default.
        use_bias: whether to add a bias.
        depthwise_initializer, pointwise_initializer, bias_initializer: what the weights start with.
        depthwise_regularizer, pointwise_regularizer, bias_regularizer: penalties on the weights.
        activity_regularizer: penalty on the output.
        depthwise_constraint, pointwise_constraint, bias_constraint: bounds on the weights.

    Raises:
        ValueError: a setting is none of those above.
    """

    _strides_go_with_dilation = True

    depth_multiplier: Any
    depthwise_initializer: Any
    pointwise_initializer: Any
    depthwise_regularizer: Any
    pointwise_regularizer: Any
    depthwise_constraint: Any
    pointwise_constraint: Any

    def __init__(
        self,
        filters: int,
        kernel_size: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: int | Sequence[int] = 1,
        depth_multiplier: int = 1,
        activation: ActivationLike | None = None,
        use_bias: bool = True,
        depthwise_initializer: InitializerLike = "glorot_uniform",
        pointwise_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        depthwise_regularizer: RegularizerLike | None = None,
        pointwise_regularizer: RegularizerLike | None = None,
        bias_regularizer: RegularizerLike | None = None,
        activity_regularizer: RegularizerLike | None = None,
        depthwise_constraint: ConstraintLike | None = None,
        pointwise_constraint: ConstraintLike | None = None,
        bias_constraint: ConstraintLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        keep(self, locals())
        self.filters = whole(self, "filters", filters)
        self.depth_multiplier = whole(self, "depth_multiplier", depth_multiplier)
        self._set_windows()

    def build(self, input_shape: Any) -> None:
        channels = self._channels_of(input_shape)
        inside = channels * self.depth_multiplier
        depthwise = (*self.kernel_size, channels, self.depth_multiplier)
        pointwise = (*(1,) * self.rank, inside, self.filters)
        self.depthwise_kernel = weight_of(self, "depthwise_kernel", depthwise, "depthwise")
        self.pointwise_kernel = weight_of(self, "pointwise_kernel", pointwise, "pointwise")
        self.bias = self._bias_for(self.filters)

    def call(self, inputs: Any) -> Any:
        each = ops.depthwise_conv(
            inputs,
            self.depthwise_kernel.value(),
            self.strides,
            self.padding,
            self.data_format,
            self.dilation_rate,
        )
        bias = None if self.bias is None else self.bias.value()
        applied, left = split_activation(self.activation)
        y = ops.conv_with_bias(
            each,
            self.pointwise_kernel.value(),
            bias,
            data_format=self.data_format,
            activation=applied,
        )
        return y if left is None else left(y)


class SeparableConv1D(_SeparableConv):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_SeparableConv)("""
        Example:
            >>> tk.layers.SeparableConv1D(8, 3)(tk.ones((2, 10, 4))).shape
            TensorShape([2, 8, 8])
    """)
    rank = 1


class SeparableConv2D(_SeparableConv):  # noqa: D101 - it has the docstring of its base
    __doc__ = longer_docstring(_SeparableConv)("""
        Example:
            >>> tk.layers.SeparableConv2D(8, 3)(tk.ones((2, 8, 8, 4))).shape
            TensorShape([2, 6, 6, 8])
    """)
    rank = 2


# The long names.
Convolution1D = Conv1D
Convolution2D = Conv2D
Convolution3D = Conv3D
Convolution1DTranspose = Conv1DTranspose
Convolution2DTranspose = Conv2DTranspose
Convolution3DTranspose = Conv3DTranspose
SeparableConvolution1D = SeparableConv1D
SeparableConvolution2D = SeparableConv2D
