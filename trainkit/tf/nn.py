"""`tk.nn`: TensorFlow's names for what neural networks are made of."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.ops import log_softmax as _log_softmax
from trainkit.ops import sigmoid as sigmoid
from trainkit.ops import tanh as tanh
from trainkit.ops.arrays.counting import zero_fraction as zero_fraction
from trainkit.ops.convolutional.batch_blocks import space_to_batch as space_to_batch
from trainkit.ops.convolutional.local_response import (
    local_response_normalization as local_response_normalization,
)
from trainkit.ops.convolutional.local_response import lrn as lrn
from trainkit.ops.convolutional.morphology import dilation2d as dilation2d
from trainkit.ops.convolutional.morphology import erosion2d as erosion2d
from trainkit.ops.convolutional.morphology import max_pool_with_argmax as max_pool_with_argmax
from trainkit.ops.convolutional.sized_transposes import conv1d_transpose as conv1d_transpose
from trainkit.ops.convolutional.sized_transposes import conv2d_transpose as conv2d_transpose
from trainkit.ops.convolutional.sized_transposes import conv3d_transpose as conv3d_transpose
from trainkit.ops.convolutional.sized_transposes import conv_transpose as conv_transpose
from trainkit.ops.core.axis_numbers import plain
from trainkit.ops.linear_algebra.lengths import l2_normalize as l2_normalize
from trainkit.ops.math.norm_clipping import embedding_lookup as embedding_lookup
from trainkit.ops.neural.cross_entropy import sigmoid_cross_entropy_with_logits as _sigmoid_loss
from trainkit.ops.neural.cross_entropy import weighted_cross_entropy_with_logits as _weighted_loss
from trainkit.ops.neural.loss_sums import compute_average_loss as compute_average_loss
from trainkit.ops.neural.loss_sums import l2_loss as l2_loss
from trainkit.ops.neural.loss_sums import log_poisson_loss as log_poisson_loss
from trainkit.ops.neural.signed_activations import crelu as crelu
from trainkit.ops.neural.signed_activations import silu as silu
from trainkit.ops.neural.signed_activations import swish as swish
from trainkit.ops.neural.softmax import powers_share as _powers_share
from trainkit.ops.neural.softmax_cross_entropy import (
    softmax_cross_entropy_with_logits as _softmax_loss,
)
from trainkit.ops.neural.softmax_cross_entropy import (
    sparse_softmax_cross_entropy_with_logits as _sparse_softmax_loss,
)
from trainkit.ops.neural.sparse_labels import collapse_repeated as collapse_repeated
from trainkit.ops.neural.sparse_labels import ctc_beam_search_decoder as ctc_beam_search_decoder
from trainkit.ops.neural.sparse_labels import ctc_greedy_decoder as ctc_greedy_decoder
from trainkit.ops.neural.sparse_labels import ctc_loss as ctc_loss
from trainkit.ops.neural.weighted_statistics import (
    batch_norm_with_global_normalization as batch_norm_with_global_normalization,
)
from trainkit.ops.neural.weighted_statistics import batch_normalization as batch_normalization
from trainkit.ops.neural.weighted_statistics import normalize_moments as normalize_moments
from trainkit.ops.neural.weighted_statistics import (
    scale_regularization_loss as scale_regularization_loss,
)
from trainkit.ops.neural.weighted_statistics import sufficient_statistics as sufficient_statistics
from trainkit.ops.neural.weighted_statistics import weighted_moments as weighted_moments
from trainkit.ops.sampling.seeded_random import dropout as dropout
from trainkit.tf.left_out import not_here as _not_here
from trainkit.tf.math import in_top_k as in_top_k
from trainkit.tf.math import softplus as softplus
from trainkit.tf.math import softsign as softsign
from trainkit.tf.math import top_k as top_k

# ---------------------------------------------------------------------- activations


def softmax(logits: Any, axis: int | None = None, name: Any = None) -> Tensor:
    """exp(x) / sum(exp(x)) along `axis`, the last by default."""
    return _powers_share(logits, axis=-1 if axis is None else axis)


def log_softmax(logits: Any, axis: int | None = None, name: Any = None) -> Tensor:
    """`x - log(sum(exp(x)))` along `axis`, the last by default."""
    return _log_softmax(logits, axis=-1 if axis is None else axis)


def leaky_relu(features: Any, alpha: float = 0.2, name: Any = None) -> Tensor:
    """`x` where it is positive, else alpha * x."""
    return ops.leaky_relu(features, negative_slope=alpha)


def gelu(features: Any, approximate: bool = False, name: Any = None) -> Tensor:
    """`x * Phi(x)`, Phi being the normal distribution function; by tanh if `approximate`."""
    return ops.gelu(features, approximate=approximate)


# ---------------------------------------------------------------------- losses


def softmax_cross_entropy_with_logits(
    labels: Any, logits: Any, axis: int = -1, name: Any = None
) -> Tensor:
    """-sum(labels * log_softmax(logits)) along `axis`, one value a row."""
    return _softmax_loss(labels, logits, axis)


def sparse_softmax_cross_entropy_with_logits(labels: Any, logits: Any, name: Any = None) -> Tensor:
    """-log_softmax(logits) at the label, one value a row.

    Raises:
        InvalidArgumentError: a label is not in [0, classes).
    """
    return _sparse_softmax_loss(labels, logits)


def sigmoid_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, name: Any = None
) -> Tensor:
    """Element by element -labels log(p) - (1 - labels) log(1 - p), where p = sigmoid(logits)."""
    return _sigmoid_loss(labels, logits)


def weighted_cross_entropy_with_logits(
    labels: Any, logits: Any, pos_weight: Any, name: Any = None
) -> Tensor:
    """The sigmoid cross-entropy with positive labels counted `pos_weight` times."""
    return _weighted_loss(labels, logits, pos_weight)


# ---------------------------------------------------------------------- normalization


def moments(
    x: Any, axes: Any, shift: Any = None, keepdims: bool = False, name: Any = None
) -> tuple[Tensor, Tensor]:
    """Mean and variance over `axes`; `shift` is not needed for accuracy and changes no result."""
    mean, variance = ops.moments(x, plain(axes), keepdims=keepdims)
    return mean, variance


def bias_add(value: Any, bias: Any, data_format: str | None = None, name: Any = None) -> Tensor:
    """`bias` (channels,) added along the last axis, or the second for `"NC..."`."""
    x = convert_to_tensor(value)
    if data_format is not None and data_format.upper().startswith("NC"):
        bias = ops.reshape(bias, (-1,) + (1,) * (len(x.shape) - 2))
    return ops.add(x, bias)


# ---------------------------------------------------------------------- space and depth


def _image_layout(data_format: str, op: str) -> str:
    layouts = {"NHWC": "channels_last", "NCHW": "channels_first"}
    if data_format.upper() not in layouts:
        raise ValueError(f"{op}: data_format {data_format!r} is not supported; use NHWC or NCHW")
    return layouts[data_format.upper()]


def space_to_depth(
    input: Any, block_size: int, data_format: str = "NHWC", name: Any = None
) -> Tensor:
    """Blocks of pixels as channels: (n, h, w, c) to (n, h / b, w / b, b * b * c).

    Args:
        input: images whose height and width are multiples of `block_size`.
        block_size: height and width b of a block, 2 or more.
        data_format: `"NHWC"` or `"NCHW"`.
        name: not kept.

    Raises:
        InvalidArgumentError: `block_size` is less than 2, or does not divide height and width.
    """
    layout = _image_layout(data_format, "space_to_depth")
    return ops.space_to_depth(input, plain(block_size), layout)


def depth_to_space(
    input: Any, block_size: int, data_format: str = "NHWC", name: Any = None
) -> Tensor:
    """Channels as blocks of pixels: (n, h, w, b * b * c) to (n, h * b, w * b, c).

    Args:
        input: images whose channels are a multiple of `block_size` squared.
        block_size: height and width b of a block, 2 or more.
        data_format: `"NHWC"` or `"NCHW"`.
        name: not kept.

    Raises:
        InvalidArgumentError: `block_size` is less than 2, or its square does not divide channels.
    """
    layout = _image_layout(data_format, "depth_to_space")
    return ops.depth_to_space(input, plain(block_size), layout)


# ---------------------------------------------------------------------- convolution, pooling


def _layout(data_format: str | None) -> str:
    if data_format is None or data_format.upper() in ("NHWC", "NWC", "NDHWC"):
        return "channels_last"
    if data_format.upper() in ("NCHW", "NCW", "NCDHW"):
        return "channels_first"
    raise ValueError(f"data_format {data_format!r}; use N...C or NC...")


def _spatial(value: Any, rank: int, layout: str, name: str) -> tuple[int, ...]:
    """Strides, windows or dilations, one number per spatial axis; TensorFlow takes all axes too."""
    value = plain(value)
    if isinstance(value, int):
        return (value,) * rank
    values = tuple(value)
    if len(values) == rank + 2:
        outer = (values[0], values[-1]) if layout == "channels_last" else values[:2]
        if outer != (1, 1):
            raise ValueError(f"{name} {values}: batch and channels can only have 1")
        return values[1:-1] if layout == "channels_last" else values[2:]
    return values * rank if len(values) == 1 else values


def _padded(x: Any, padding: Any) -> tuple[Any, str]:
    """The input and the kind of padding left to do; explicit borders are put on here.

    Raises:
        ValueError: `padding` is neither `"SAME"`, `"VALID"` nor a pair of sizes for each axis.
    """
    if isinstance(padding, str) and padding.upper() in ("SAME", "VALID"):
        return x, padding.lower()
    borders = plain(padding)
    if isinstance(borders, tuple) and all(isinstance(b, tuple) and len(b) == 2 for b in borders):
        return ops.pad(x, borders), "valid"
    raise ValueError(
        f"padding {padding!r}; use 'SAME', 'VALID', or a pair (before, after) for each axis"
    )


def _conv(rank: int, op: str) -> Any:
    def conv(
        input: Any,
        filters: Any,
        strides: Any,
        padding: Any,
        data_format: str | None = None,
        dilations: Any = None,
        name: Any = None,
    ) -> Tensor:
        layout = _layout(data_format)
        input, padding = _padded(input, padding)
        return ops.conv(
            input,
            filters,
            strides=_spatial(strides, rank, layout, "strides"),
            padding=padding,
            data_format=layout,
            dilation_rate=_spatial(dilations or 1, rank, layout, "dilations"),
        )

    conv.__name__ = conv.__qualname__ = op
    conv.__doc__ = f"""Convolution over {rank} spatial axes.

    Args:
        input: (batch, spatial..., channels), or as `data_format` says.
        filters: (spatial..., channels, outputs).
        strides: one int, or one for each spatial axis (or for all axes).
        padding: `"SAME"` or `"VALID"`.
        data_format: `"N...C"` (default) or `"NC..."`.
        dilations: like `strides`.
        name: not kept.
    """
    return conv


def conv1d(
    input: Any,
    filters: Any,
    stride: Any,
    padding: Any,
    data_format: str = "NWC",
    dilations: Any = None,
    name: Any = None,
) -> Tensor:
    """Convolution over 1 spatial axis.

    Args:
        input: (batch, width, channels), or as `data_format` says.
        filters: (width, channels, outputs).
        stride: one int, or one for each spatial axis (or for all axes).
        padding: `"SAME"` or `"VALID"`.
        data_format: `"NWC"` or `"NCW"`.
        dilations: like `stride`.
        name: not kept.
    """
    return _conv(1, "conv1d")(input, filters, stride, padding, data_format, dilations)


conv2d = _conv(2, "conv2d")
conv3d = _conv(3, "conv3d")


def convolution(
    input: Any,
    filters: Any,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: Any = None,
) -> Tensor:
    """Convolution over as many spatial axes as `filters` has."""
    rank = len(convert_to_tensor(filters).shape) - 2
    return _conv(rank, "convolution")(input, filters, strides or 1, padding, data_format, dilations)


def depthwise_conv2d(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
    name: Any = None,
) -> Tensor:
    """Each channel with filters of its own: filter (h, w, channels, multiplier)."""
    layout = _layout(data_format)
    input, padding = _padded(input, padding)
    return ops.depthwise_conv(
        input,
        filter,
        strides=_spatial(strides, 2, layout, "strides"),
        padding=padding,
        data_format=layout,
        dilation_rate=_spatial(dilations or 1, 2, layout, "dilations"),
    )


def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
    name: Any = None,
) -> Tensor:
    """A depthwise convolution, then one over a single pixel."""
    x = depthwise_conv2d(input, depthwise_filter, strides, padding, data_format, dilations)
    return conv2d(x, pointwise_filter, 1, "VALID", data_format)


def _pool(rank: int, op: str, kind: str) -> Any:
    def pooled(
        input: Any,
        ksize: Any,
        strides: Any,
        padding: Any,
        data_format: str | None = None,
        name: Any = None,
    ) -> Tensor:
        layout = _layout(data_format)
        if not isinstance(padding, str) or padding.upper() not in ("SAME", "VALID"):
            raise ValueError(f"{op}: padding {padding!r}; use 'SAME' or 'VALID'")
        function = ops.max_pool if kind == "max" else ops.average_pool
        return function(
            input,
            _spatial(ksize, rank, layout, "ksize"),
            strides=_spatial(strides, rank, layout, "strides"),
            padding=padding.lower(),
            data_format=layout,
        )

    what = "Greatest value" if kind == "max" else "Mean"
    pooled.__name__ = pooled.__qualname__ = op
    pooled.__doc__ = f"""{what} of each window of `ksize`, over {rank} spatial axes.

    Args:
        input: (batch, spatial..., channels), or as `data_format` says.
        ksize: one int, or one for each spatial axis (or for all axes).
        strides: like `ksize`.
        padding: `"SAME"` or `"VALID"`.
        data_format: `"N...C"` (default) or `"NC..."`.
        name: not kept.
    """
    return pooled


max_pool1d = _pool(1, "max_pool1d", "max")
max_pool2d = _pool(2, "max_pool2d", "max")
max_pool3d = _pool(3, "max_pool3d", "max")
avg_pool1d = _pool(1, "avg_pool1d", "avg")
avg_pool2d = _pool(2, "avg_pool2d", "avg")
avg_pool3d = _pool(3, "avg_pool3d", "avg")


def max_pool(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    name: Any = None,
) -> Tensor:
    """Greatest value of each window, over all spatial axes."""
    rank = len(convert_to_tensor(input).shape) - 2
    return _pool(rank, "max_pool", "max")(input, ksize, strides, padding, data_format)


def avg_pool(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    name: Any = None,
) -> Tensor:
    """Mean of each window, over all spatial axes."""
    rank = len(convert_to_tensor(input).shape) - 2
    return _pool(rank, "avg_pool", "avg")(input, ksize, strides, padding, data_format)


def pool(
    input: Any,
    window_shape: Any,
    pooling_type: str,
    strides: Any = None,
    padding: str = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: Any = None,
) -> Tensor:
    """Greatest value or mean of windows over 1, 2 or 3 spatial axes.

    Args:
        input: (batch, spatial..., channels), or as `data_format` says.
        window_shape: one int for each spatial axis.
        pooling_type: `"MAX"` or `"AVG"`.
        strides: one int for each spatial axis; 1 by default.
        padding: `"SAME"` or `"VALID"`.
        data_format: `"N...C"` (default) or `"NC..."`.
        dilations: only 1 is supported.
        name: not kept.

    Raises:
        ValueError: a setting is none of those above.
        InvalidArgumentError: `dilations` are above 1.
    """
    window = plain(window_shape)
    rank = 1 if isinstance(window, int) else len(window)
    rates = plain(1 if dilations is None else dilations)
    if any(r != 1 for r in ((rates,) if isinstance(rates, int) else rates)):
        raise InvalidArgumentError(f"pool: dilations {rates} are not supported; only 1 is")
    kinds = {"MAX": max_pool, "AVG": avg_pool}
    if pooling_type.upper() not in kinds:
        raise ValueError(f"pool: pooling_type {pooling_type!r}; use 'MAX' or 'AVG'")
    if not isinstance(padding, str) or padding.upper() not in ("SAME", "VALID"):
        raise ValueError(f"pool: padding {padding!r}; use 'SAME' or 'VALID'")
    steps = (1,) * rank if strides is None else strides
    return kinds[pooling_type.upper()](input, window, steps, padding, data_format)


def atrous_conv2d(value: Any, filters: Any, rate: int, padding: str, name: Any = None) -> Tensor:
    """A convolution of images (n, h, w, c) with filters whose taps are `rate` pixels apart."""
    return conv2d(value, filters, 1, padding, dilations=int(plain(rate)))


def atrous_conv2d_transpose(
    value: Any, filters: Any, output_shape: Any, rate: int, padding: str, name: Any = None
) -> Tensor:
    """The transpose of `atrous_conv2d`; filters (h, w, outputs, channels)."""
    return conv2d_transpose(value, filters, output_shape, 1, padding, dilations=int(plain(rate)))


def relu(features: Any, name: Any = None) -> Tensor:
    """max(x, 0)."""
    return ops.relu(features)


def relu6(features: Any, name: Any = None) -> Tensor:
    """min(max(x, 0), 6)."""
    return ops.relu6(features)


def elu(features: Any, name: Any = None) -> Tensor:
    """The features above 0, exp(x) - 1 below."""
    return ops.elu(features)


def selu(features: Any, name: Any = None) -> Tensor:
    """A scaled `elu`, which keeps mean 0 and variance 1 through layers."""
    return ops.selu(features)


def __getattr__(name: str) -> Any:
    raise _not_here("nn", name, globals())
