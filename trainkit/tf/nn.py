"""`tk.nn`: TensorFlow's names for what neural networks are made of."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core import dtypes
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.ops import log_softmax as _log_softmax
from trainkit.ops import sigmoid as sigmoid
from trainkit.ops import tanh as tanh
from trainkit.ops.axis_activations import powers_share as _powers_share
from trainkit.ops.cross_entropy import sigmoid_cross_entropy_with_logits as _sigmoid_loss
from trainkit.ops.cross_entropy import weighted_cross_entropy_with_logits as _weighted_loss
from trainkit.ops.later import is_later, needs_values, unknown
from trainkit.ops.softmax_cross_entropy import softmax_cross_entropy_with_logits as _softmax_loss
from trainkit.ops.softmax_cross_entropy import (
    sparse_softmax_cross_entropy_with_logits as _sparse_softmax_loss,
)
from trainkit.tf.arrays import plain
from trainkit.tf.blocks import depth_to_space as depth_to_space
from trainkit.tf.blocks import space_to_batch as space_to_batch
from trainkit.tf.blocks import space_to_depth as space_to_depth
from trainkit.tf.ctc import collapse_repeated as collapse_repeated
from trainkit.tf.ctc import ctc_beam_search_decoder as ctc_beam_search_decoder
from trainkit.tf.ctc import ctc_greedy_decoder as ctc_greedy_decoder
from trainkit.tf.ctc import ctc_loss as ctc_loss
from trainkit.tf.indexing import gather as _gather
from trainkit.tf.left_out import not_here as _not_here
from trainkit.tf.math import in_top_k as in_top_k
from trainkit.tf.math import l2_normalize as l2_normalize
from trainkit.tf.math import top_k as top_k
from trainkit.tf.math import zero_fraction as zero_fraction
from trainkit.tf.normalization import (
    batch_norm_with_global_normalization as batch_norm_with_global_normalization,
)
from trainkit.tf.normalization import local_response_normalization as local_response_normalization
from trainkit.tf.normalization import lrn as lrn
from trainkit.tf.normalization import normalize_moments as normalize_moments
from trainkit.tf.normalization import scale_regularization_loss as scale_regularization_loss
from trainkit.tf.normalization import sufficient_statistics as sufficient_statistics
from trainkit.tf.normalization import weighted_moments as weighted_moments
from trainkit.tf.spellings import elu as elu
from trainkit.tf.spellings import relu as relu
from trainkit.tf.spellings import relu6 as relu6
from trainkit.tf.spellings import selu as selu
from trainkit.tf.spellings import silu as silu
from trainkit.tf.spellings import softplus as softplus
from trainkit.tf.spellings import softsign as softsign
from trainkit.tf.spellings import swish as swish
from trainkit.tf.transposed_convolution import atrous_conv2d as atrous_conv2d
from trainkit.tf.transposed_convolution import atrous_conv2d_transpose as atrous_conv2d_transpose
from trainkit.tf.transposed_convolution import conv1d_transpose as conv1d_transpose
from trainkit.tf.transposed_convolution import conv2d_transpose as conv2d_transpose
from trainkit.tf.transposed_convolution import conv3d_transpose as conv3d_transpose
from trainkit.tf.transposed_convolution import conv_transpose as conv_transpose
from trainkit.tf.windows import dilation2d as dilation2d
from trainkit.tf.windows import erosion2d as erosion2d
from trainkit.tf.windows import max_pool_with_argmax as max_pool_with_argmax
from trainkit.tf.windows import pool as pool

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


@needs_values("axis", gives=lambda a: unknown(a["features"]))
def crelu(features: Any, axis: int = -1, name: Any = None) -> Tensor:
    """relu(x) and relu(-x), one after the other along `axis`."""
    x = convert_to_tensor(features)
    return ops.concatenate([ops.relu(x), ops.relu(ops.negative(x))], axis=plain(axis))


def dropout(
    x: Any, rate: Any, noise_shape: Any = None, seed: Any = None, name: Any = None
) -> Tensor:
    """Zeros with probability `rate`, the other elements divided by 1 - rate.

    Args:
        x: tensor of a floating dtype.
        rate: in [0, 1).
        noise_shape: shape of the mask, 1 where it is shared.
        seed: of the generator; by default that of the process goes on.
        name: not kept.

    Raises:
        ValueError: `rate` is outside of [0, 1).
    """
    from trainkit import random

    if not is_later(rate):
        return random.dropout(x, float(rate), noise_shape=plain(noise_shape), seed=seed)
    x = convert_to_tensor(x)
    share = ops.cast(convert_to_tensor(rate), x.dtype)
    kept = random.uniform(ops.shape(x) if noise_shape is None else noise_shape, seed=seed)
    chosen = ops.greater_equal(ops.cast(kept, x.dtype), share)
    return ops.where(chosen, ops.divide(x, ops.subtract(1.0, share)), ops.zeros_like(x))


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


def l2_loss(t: Any, name: Any = None) -> Tensor:
    """sum(t**2) / 2."""
    return ops.divide(ops.sum(ops.square(t)), 2)


# ---------------------------------------------------------------------- normalization


def moments(
    x: Any, axes: Any, shift: Any = None, keepdims: bool = False, name: Any = None
) -> tuple[Tensor, Tensor]:
    """Mean and variance over `axes`; `shift` is not needed for accuracy and changes no result."""
    mean, variance = ops.moments(x, plain(axes), keepdims=keepdims)
    return mean, variance


def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    offset: Any,
    scale: Any,
    variance_epsilon: float,
    name: Any = None,
) -> Tensor:
    """(x - mean) / sqrt(variance + variance_epsilon) * scale + offset; everything broadcasts."""
    factor = ops.rsqrt(ops.add(variance, variance_epsilon))
    if scale is not None:
        factor = ops.multiply(factor, scale)
    shift = ops.negative(ops.multiply(mean, factor))
    if offset is not None:
        shift = ops.add(shift, offset)
    return ops.add(ops.multiply(x, factor), shift)


def bias_add(value: Any, bias: Any, data_format: str | None = None, name: Any = None) -> Tensor:
    """`bias` (channels,) added along the last axis, or the second for `"NC..."`."""
    x = convert_to_tensor(value)
    if data_format is not None and data_format.upper().startswith("NC"):
        bias = ops.reshape(bias, (-1,) + (1,) * (len(x.shape) - 2))
    return ops.add(x, bias)


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
        if not isinstance(padding, str):
            raise ValueError(f"{op}: padding {padding!r}; use 'SAME' or 'VALID'")
        input, padding = _padded(input, padding)
        function = ops.max_pool if kind == "max" else ops.average_pool
        return function(
            input,
            _spatial(ksize, rank, layout, "ksize"),
            strides=_spatial(strides, rank, layout, "strides"),
            padding=padding,
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


def embedding_lookup(
    params: Any, ids: Any, max_norm: float | None = None, name: Any = None
) -> Tensor:
    """Rows of `params` at `ids`, each shortened to the length `max_norm` if one is given."""
    rows = _gather(params, ids)
    if max_norm is None:
        return rows
    length = ops.sqrt(ops.sum(ops.square(rows), axis=-1, keepdims=True))
    return ops.multiply(rows, ops.minimum(1.0, ops.divide(max_norm, ops.maximum(length, 1e-30))))


def log_poisson_loss(
    targets: Any, log_input: Any, compute_full_loss: bool = False, name: Any = None
) -> Tensor:
    """exp(log_input) - log_input * targets, plus Stirling's log(targets!) if asked for."""
    c, z = convert_to_tensor(log_input), convert_to_tensor(targets)
    loss = ops.subtract(ops.exp(c), ops.multiply(c, z))
    if not compute_full_loss:
        return loss
    stirling = z * ops.log(z) - z + 0.5 * ops.log(2 * 3.141592653589793 * z)
    inside = ops.logical_and(ops.greater_equal(z, 0), ops.less_equal(z, 1))
    return ops.add(loss, ops.where(inside, ops.zeros_like(z), stirling))


def compute_average_loss(
    per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None
) -> Tensor:
    """The sum of weighted losses divided by the size of the batch."""
    loss = convert_to_tensor(per_example_loss)
    if sample_weight is not None:
        loss = ops.multiply(loss, ops.cast(sample_weight, loss.dtype))
    size = loss.shape[0] if global_batch_size is None else plain(global_batch_size)
    return ops.divide(ops.sum(loss), dtypes.as_dtype(loss.dtype).as_numpy_dtype(size))


def __getattr__(name: str) -> Any:
    raise _not_here("nn", name, globals())
