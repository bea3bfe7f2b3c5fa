"""Convolutions in one to three dimensions and their gradients, each an operation of its own.

Inside, arrays are `(batch, spatial..., channels)`; with `data_format="channels_first"` they are
transposed on the way in and out. As in all deep learning, "convolution" is cross-correlation.
Source: Dumoulin and Visin 2016, "A guide to convolution arithmetic for deep learning",
arXiv:1603.07285.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from trainkit.core import dtypes
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import COMMON, SHAPE, WINDOW, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike, WindowPadding
from trainkit.kernels.convolution import conv_reference, conv_tuned
from trainkit.kernels.cudnn.deferred import CudnnModule, is_there
from trainkit.kernels.elementwise.half_casts_tuned import with_float16
from trainkit.ops.arrays.shaping import as_tensor, reshape
from trainkit.ops.convolutional.convolution_geometry import (
    check_bias,
    checked_ranks,
    facts_of,
    geometry_of,
    group_count,
    placed,
)
from trainkit.ops.convolutional.window_arguments import (
    Sizes,
    channels_last,
    channels_second,
    checked_padding,
    is_channels_first,
    spatial_tuple,
    windowed_dims,
)
from trainkit.ops.math.reductions import sum as total
from trainkit.ops.neural.dense import check_activation, finished, rectified_gradient


def _conv_rule(
    x: Spec,
    kernel: Spec,
    bias: Any,
    *,
    strides: Sizes,
    padding: Any,
    dilation_rate: Sizes,
    activation: str | None,
) -> Spec:
    group_count("conv", x.shape, kernel.shape)
    check_bias(bias, kernel.shape[-1])
    window = tuple(n or 1 for n in kernel.shape[:-2])
    space = windowed_dims("conv", x.shape[1:-1], window, strides, padding, dilation_rate)
    return Spec((x.shape[0], *space, kernel.shape[-1]), dtypes.result_type(x, kernel))


def _kernel_gradient_rule(
    x: Spec, g: Spec, *, kernel_size: Sizes, groups: int, **settings: Any
) -> Spec:
    inside = None if x.shape[-1] is None else x.shape[-1] // groups
    return Spec((*kernel_size, inside, g.shape[-1]), dtypes.result_type(x, g))


# ------------------------------------------------------------------ primitives

conv_cudnn = CudnnModule("trainkit.kernels.cudnn.conv_cudnn")


@with_float16
def _run_compiled(
    x: Array,
    kernel: Array,
    bias: Array | None,
    *,
    strides: Sizes,
    padding: Any,
    dilation_rate: Sizes,
    activation: str | None,
) -> Array | None:
    w, groups = facts_of(x, kernel, bias, strides, padding, dilation_rate)
    return conv_tuned.forward(w, x, kernel, bias, activation == "relu", groups)


def _by_cudnn(
    xp: ArrayModule, x: Array, kernel: Array, bias: Any, *, activation: str | None, **where: Any
) -> Any:
    if not is_there():
        return None
    w, groups = facts_of(x, kernel, bias, **where)
    return conv_cudnn.forward(xp, w, x, kernel, bias, activation == "relu", groups)


@primitive(
    _conv_rule,
    name="conv",
    promotion=COMMON,
    semantics=WINDOW,
    memory="fresh",
    graph_name="Conv2D",
    tuned=Tuned(_run_compiled, on_gpu=[_by_cudnn]),
)
def _conv(
    xp: ArrayModule,
    x: Array,
    kernel: Array,
    bias: Array | None,
    *,
    strides: Sizes,
    padding: Any,
    dilation_rate: Sizes,
    activation: str | None,
) -> Array:
    """Cross-correlation with a kernel (window..., channels // groups, filters), plus bias."""
    w, groups = facts_of(x, kernel, bias, strides, padding, dilation_rate)
    finish = functools.partial(finished, xp, bias=bias, activation=activation)
    return conv_reference.conv(xp, w, x, kernel, groups, finish)


@with_float16
def _compiled_input_gradient(
    g: Array, kernel: Array, x: Array, *, strides: Sizes, padding: Any, dilation_rate: Sizes
) -> Array | None:
    w = placed(x, kernel.shape[:-2], strides, padding, dilation_rate)
    return conv_tuned.input_gradient(w, g, kernel, x.shape[-1] // kernel.shape[-2])


def _input_gradient_by_cudnn(
    xp: ArrayModule, g: Array, kernel: Array, x: Array, **where: Any
) -> Any:
    if not is_there():
        return None
    w = placed(x, kernel.shape[:-2], **where)
    return conv_cudnn.input_gradient(xp, w, g, kernel, x.shape[-1] // kernel.shape[-2])


@primitive(
    lambda g, kernel, x, **settings: Spec(x.shape, dtypes.result_type(g, kernel)),
    name="conv_input_gradient",
    promotion=COMMON,
    semantics=WINDOW,
    reads={2: SHAPE},
    memory="fresh",
    tuned=Tuned(_compiled_input_gradient, on_gpu=[_input_gradient_by_cudnn]),
)
def conv_input_gradient(
    xp: ArrayModule,
    g: Array,
    kernel: Array,
    x: Array,
    *,
    strides: Sizes,
    padding: Any,
    dilation_rate: Sizes,
) -> Array:
    """What a convolution of something of the shape of `x` sends back to it."""
    w = placed(x, kernel.shape[:-2], strides, padding, dilation_rate)
    groups = x.shape[-1] // kernel.shape[-2]
    return conv_reference.conv_input_gradient(xp, w, g, kernel, groups)


@with_float16
def _compiled_kernel_gradient(
    x: Array,
    g: Array,
    *,
    kernel_size: Sizes,
    groups: int,
    strides: Sizes,
    padding: Any,
    dilation_rate: Sizes,
) -> Array | None:
    w = placed(x, kernel_size, strides, padding, dilation_rate)
    return conv_tuned.kernel_gradient(w, x, g, groups)


def _kernel_gradient_by_cudnn(
    xp: ArrayModule, x: Array, g: Array, *, kernel_size: Sizes, groups: int, **where: Any
) -> Any:
    if not is_there():
        return None
    return conv_cudnn.kernel_gradient(xp, placed(x, kernel_size, **where), x, g, groups)


@primitive(
    _kernel_gradient_rule,
    name="conv_kernel_gradient",
    promotion=COMMON,
    semantics=WINDOW,
    memory="fresh",
    tuned=Tuned(_compiled_kernel_gradient, on_gpu=[_kernel_gradient_by_cudnn]),
)
def conv_kernel_gradient(
    xp: ArrayModule,
    x: Array,
    g: Array,
    *,
    kernel_size: Sizes,
    groups: int,
    strides: Sizes,
    padding: Any,
    dilation_rate: Sizes,
) -> Array:
    """What a convolution of `x` sends back to its kernel."""
    w = placed(x, kernel_size, strides, padding, dilation_rate)
    return conv_reference.conv_kernel_gradient(xp, w, x, g, groups)


def _kernel_settings(kernel: Tensor, x: Tensor, settings: dict[str, Any]) -> dict[str, Any]:
    groups = group_count("conv", tuple(x.shape), tuple(kernel.shape))
    return {**settings, "kernel_size": tuple(kernel.shape[:-2]), "groups": groups}


def _joint(
    g: Tensor,
    y: Tensor,
    x: Tensor,
    kernel: Tensor,
    bias: Any,
    *,
    activation: str | None,
    needed: tuple[bool, ...],
    **settings: Any,
) -> Any:
    by_bias = None
    if activation == "relu":
        g, by_bias = rectified_gradient(g, y)
    elif needed[2]:
        by_bias = total(g, tuple(range(len(g.shape) - 1)))
    by_x = conv_input_gradient(g, kernel, x, **settings) if needed[0] else None
    by_kernel = None
    if needed[1]:
        by_kernel = conv_kernel_gradient(x, g, **_kernel_settings(kernel, x, settings))
    return by_x, by_kernel, by_bias


_conv.joint_gradient(_joint)


def linear_conv(x: Tensor, kernel: Tensor, settings: dict[str, Any]) -> Tensor:
    """The convolution without bias and rectifier."""
    result: Tensor = _conv(x, kernel, None, activation=None, **settings)
    return result


conv_input_gradient.gradients(
    lambda gg, y, g, kernel, x, **s: linear_conv(gg, kernel, s),
    lambda gg, y, g, kernel, x, **s: conv_kernel_gradient(gg, g, **_kernel_settings(kernel, x, s)),
    None,
)
conv_kernel_gradient.gradients(
    lambda gg, y, x, g, **s: conv_input_gradient(g, gg, x, **geometry_of(s)),
    lambda gg, y, x, g, **s: linear_conv(x, gg, geometry_of(s)),
)

# ------------------------------------------------------------------ public functions


def conv(
    inputs: TensorLike,
    kernel: TensorLike,
    strides: int | Sequence[int] = 1,
    padding: WindowPadding = "valid",
    data_format: str | None = None,
    dilation_rate: int | Sequence[int] = 1,
) -> Tensor:
    """Convolution over one, two or three spatial axes, grouped if the kernel takes fewer channels.

    y[b, i, f] = sum over offsets a and channels c of x[b, i * stride + a * dilation, c] * kernel[a,
    c, f]

    Args:
        inputs: (batch, spatial..., channels), or (batch, channels, spatial...).
        kernel: (window..., channels // groups, filters).
        strides: distance between windows, one int or one for each spatial axis.
        padding: "valid" for none; "same" for zeros around, so that stride 1 keeps the size; or a
            pair (before, after) for each spatial axis.
        data_format: "channels_last" (the default) or "channels_first".
        dilation_rate: distance between the elements of a window.

    Returns:
        (batch, out..., filters), or (batch, filters, out...).

    Raises:
        ShapeError: ranks or channels do not fit, or the window is larger than the input.
        InvalidArgumentError: a setting is none of those above.

    >>> conv(tk.ones((1, 5, 5, 1)), tk.ones((3, 3, 1, 2)), padding="same").shape
    TensorShape([1, 5, 5, 2])
    """
    return conv_with_bias(inputs, kernel, None, strides, padding, data_format, dilation_rate)


def conv_with_bias(
    inputs: TensorLike,
    kernel: TensorLike,
    bias: TensorLike | None = None,
    strides: int | Sequence[int] = 1,
    padding: WindowPadding = "valid",
    data_format: str | None = None,
    dilation_rate: int | Sequence[int] = 1,
    activation: str | None = None,
) -> Tensor:
    """`conv`, bias and rectifier in one operation: activation(conv(inputs, kernel) + bias).

    Args:
        inputs: (batch, spatial..., channels), or (batch, channels, spatial...).
        kernel: (window..., channels // groups, filters).
        bias: (filters,), or `None`.
        strides: as for `conv`.
        padding: as for `conv`.
        data_format: as for `conv`.
        dilation_rate: as for `conv`.
        activation: `None`, or "relu", which is applied in place.

    Returns:
        (batch, out..., filters), or (batch, filters, out...).

    Raises:
        ShapeError: ranks, channels or filters do not fit, or the window is larger than the input.
        InvalidArgumentError: a setting is none of those above.
    """
    x, weights = as_tensor(inputs), as_tensor(kernel)
    rank = checked_ranks("conv", x, weights)
    first = is_channels_first(data_format, "conv")
    check_activation("conv", activation)
    y: Tensor = _conv(
        channels_last(x) if first else x,
        weights,
        bias,
        strides=spatial_tuple(strides, rank, "conv", "strides"),
        padding=checked_padding(padding, rank, "conv"),
        dilation_rate=spatial_tuple(dilation_rate, rank, "conv", "dilation_rate"),
        activation=activation,
    )
    return channels_second(y) if first else y


def depthwise_conv(
    inputs: TensorLike,
    kernel: TensorLike,
    strides: int | Sequence[int] = 1,
    padding: WindowPadding = "valid",
    data_format: str | None = None,
    dilation_rate: int | Sequence[int] = 1,
) -> Tensor:
    """Convolve each channel by itself with `multiplier` filters of its own.

    Args:
        inputs: (batch, spatial..., channels), or (batch, channels, spatial...).
        kernel: (window..., channels, multiplier).
        strides: as for `conv`.
        padding: as for `conv`.
        data_format: as for `conv`.
        dilation_rate: as for `conv`.

    Returns:
        (batch, out..., channels * multiplier): the filters of channel 0 first.

    Raises:
        ShapeError: ranks or channels do not fit.

    Example:
        >>> tk.ops.depthwise_conv(tk.ones((1, 5, 5, 2)), tk.ones((3, 3, 2, 1))).shape
        TensorShape([1, 3, 3, 2])
    """
    return depthwise_conv_with_bias(
        inputs, kernel, None, strides, padding, data_format, dilation_rate
    )


def depthwise_conv_with_bias(
    inputs: TensorLike,
    kernel: TensorLike,
    bias: TensorLike | None = None,
    strides: int | Sequence[int] = 1,
    padding: WindowPadding = "valid",
    data_format: str | None = None,
    dilation_rate: int | Sequence[int] = 1,
    activation: str | None = None,
) -> Tensor:
    """`depthwise_conv`, bias and rectifier in one operation.

    Args:
        inputs: as for `depthwise_conv`.
        kernel: as for `depthwise_conv`.
        bias: (channels * multiplier,), or `None`.
        strides: as for `conv`.
        padding: as for `conv`.
        data_format: as for `conv`.
        dilation_rate: as for `conv`.
        activation: `None`, or "relu", which is applied in place.

    Returns:
        (batch, out..., channels * multiplier): the filters of channel 0 first.

    Raises:
        ShapeError: ranks, channels or bias do not fit.
        InvalidArgumentError: a setting is none of those above.
    """
    x, weights = as_tensor(inputs), as_tensor(kernel)
    checked_ranks("depthwise_conv", x, weights)
    channels = x.shape[1 if is_channels_first(data_format, "depthwise_conv") else -1]
    *window, inside, multiplier = weights.shape
    if channels is not None and channels != inside:
        raise ShapeError(
            f"depthwise_conv: the input has {channels} channels, the kernel {inside}.\n"
            f"  input   {tuple(x.shape)}\n  kernel  {tuple(weights.shape)}"
        )
    grouped = reshape(weights, (*window, 1, inside * multiplier))
    return conv_with_bias(
        x, grouped, bias, strides, padding, data_format, dilation_rate, activation
    )


def separable_conv(
    inputs: TensorLike,
    depthwise_kernel: TensorLike,
    pointwise_kernel: TensorLike,
    strides: int | Sequence[int] = 1,
    padding: WindowPadding = "valid",
    data_format: str | None = None,
    dilation_rate: int | Sequence[int] = 1,
) -> Tensor:
    """A depthwise convolution, then a 1 x 1 convolution that mixes its channels.

    Source: Chollet 2017, arXiv:1610.02357.

    Args:
        inputs: (batch, spatial..., channels), or (batch, channels, spatial...).
        depthwise_kernel: (window..., channels, multiplier).
        pointwise_kernel: (1..., channels * multiplier, filters).
        strides: as for `conv`; they go to the first step.
        padding: as for `conv`; they go to the first step.
        data_format: as for `conv`; they go to the first step.
        dilation_rate: as for `conv`; they go to the first step.

    Returns:
        (batch, out..., filters), or (batch, filters, out...).

    Raises:
        ShapeError: ranks or channels do not fit.

    Example:
        >>> x, depthwise = tk.ones((1, 5, 5, 2)), tk.ones((3, 3, 2, 1))
        >>> tk.ops.separable_conv(x, depthwise, tk.ones((1, 1, 2, 4))).shape
        TensorShape([1, 3, 3, 4])
    """
    each = depthwise_conv(inputs, depthwise_kernel, strides, padding, data_format, dilation_rate)
    return conv(each, pointwise_kernel, data_format=data_format)
