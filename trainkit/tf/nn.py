"""`tk.nn`: TensorFlow's names for what neural networks are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainkit import ops
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.docstrings import describe_arguments as _describe_arguments
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
from trainkit.ops.convolutional.pooling_argmax import max_pool_with_argmax as max_pool_with_argmax
from trainkit.ops.convolutional.sized_transposes import conv1d_transpose as conv1d_transpose
from trainkit.ops.convolutional.sized_transposes import conv2d_transpose as conv2d_transpose
from trainkit.ops.convolutional.sized_transposes import conv3d_transpose as conv3d_transpose
from trainkit.ops.convolutional.sized_transposes import conv_transpose as conv_transpose
from trainkit.ops.core.axis_numbers import plain as _plain
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
    softmax_cross_entropy_with_logits as softmax_cross_entropy_with_logits,
)
from trainkit.ops.neural.softmax_cross_entropy import (
    sparse_softmax_cross_entropy_with_logits as sparse_softmax_cross_entropy_with_logits,
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
from trainkit.ops.sampling.sampled_dropout import general_dropout as _general_dropout
from trainkit.ops.sampling.sampled_dropout import stateless_dropout as _stateless_dropout
from trainkit.ops.sampling.seeded_random import dropout as dropout
from trainkit.tf.convolution import atrous_conv2d as atrous_conv2d
from trainkit.tf.convolution import atrous_conv2d_transpose as atrous_conv2d_transpose
from trainkit.tf.convolution import avg_pool as avg_pool
from trainkit.tf.convolution import avg_pool1d as avg_pool1d
from trainkit.tf.convolution import avg_pool2d as avg_pool2d
from trainkit.tf.convolution import avg_pool3d as avg_pool3d
from trainkit.tf.convolution import conv1d as conv1d
from trainkit.tf.convolution import conv2d as conv2d
from trainkit.tf.convolution import conv3d as conv3d
from trainkit.tf.convolution import convolution as convolution
from trainkit.tf.convolution import depthwise_conv2d as depthwise_conv2d
from trainkit.tf.convolution import max_pool as max_pool
from trainkit.tf.convolution import max_pool1d as max_pool1d
from trainkit.tf.convolution import max_pool2d as max_pool2d
from trainkit.tf.convolution import max_pool3d as max_pool3d
from trainkit.tf.convolution import pool as pool
from trainkit.tf.convolution import separable_conv2d as separable_conv2d
from trainkit.tf.left_out import explain_unknown_names as _explain_unknown_names
from trainkit.tf.left_out import namespace as _namespace
from trainkit.tf.math import softplus as softplus
from trainkit.tf.math import softsign as softsign
from trainkit.tf.positions import in_top_k as in_top_k
from trainkit.tf.positions import top_k as top_k

if TYPE_CHECKING:
    from trainkit.core.values.type_aliases import Axis, TensorLike


# ---------------------------------------------------------------------- activations


def softmax(logits: TensorLike, axis: int | None = None, name: str | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along `axis`, the last by default.

    Args:
        axis: int.

    Example:
        >>> tk.nn.softmax([[0.0, 0.0]]).numpy()
        array([[0.5, 0.5]], dtype=float32)
    """
    return _powers_share(logits, axis=-1 if axis is None else axis)


def log_softmax(logits: TensorLike, axis: int | None = None, name: str | None = None) -> Tensor:
    """`x - log(sum(exp(x)))` along `axis`, the last by default.

    Args:
        axis: int.

    Example:
        >>> tk.nn.log_softmax([0.0, 0.0]).numpy().round(4)
        array([-0.6931, -0.6931], dtype=float32)
    """
    return _log_softmax(logits, axis=-1 if axis is None else axis)


def leaky_relu(features: TensorLike, alpha: float = 0.2, name: str | None = None) -> Tensor:
    """`x` where it is positive, else alpha * x.

    Args:
        alpha: slope below 0.

    Example:
        >>> tk.nn.leaky_relu([-1.0, 1.0], alpha=0.5).numpy()
        array([-0.5,  1. ], dtype=float32)
    """
    return ops.leaky_relu(features, negative_slope=alpha)


def gelu(features: TensorLike, approximate: bool = False, name: str | None = None) -> Tensor:
    """`x * Phi(x)`, Phi being the normal distribution function; by tanh if `approximate`.

    Args:
        approximate: by tanh.

    Example:
        >>> tk.nn.gelu([-1.0, 1.0]).numpy().round(4)
        array([-0.1587,  0.8413], dtype=float32)
    """
    return ops.gelu(features, approximate=approximate)


# ---------------------------------------------------------------------- losses


def sigmoid_cross_entropy_with_logits(
    labels: TensorLike | None = None, logits: TensorLike | None = None, name: str | None = None
) -> Tensor:
    """Element by element -labels log(p) - (1 - labels) log(1 - p), where p = sigmoid(logits).

    Args:
        labels: numbers in [0, 1], of the shape of `logits`.

    Example:
        >>> tk.nn.sigmoid_cross_entropy_with_logits([1.0, 0.0], [0.0, 0.0]).numpy().round(4)
        array([0.6931, 0.6931], dtype=float32)
    """
    return _sigmoid_loss(labels, logits)


def weighted_cross_entropy_with_logits(
    labels: TensorLike, logits: TensorLike, pos_weight: Any, name: str | None = None
) -> Tensor:
    """The sigmoid cross-entropy with positive labels counted `pos_weight` times.

    Args:
        labels: numbers in [0, 1], of the shape of `logits`.
        pos_weight: number, or tensor that broadcasts with `logits`.

    Example:
        >>> tk.nn.weighted_cross_entropy_with_logits([1.0, 0.0], [0.0, 0.0], 2.0).numpy().round(4)
        array([1.3863, 0.6931], dtype=float32)
    """
    return _weighted_loss(labels, logits, pos_weight)


# ---------------------------------------------------------------------- normalization


def moments(
    x: TensorLike,
    axes: Axis,
    shift: TensorLike | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Mean and variance over `axes`; `shift` is not needed for accuracy and changes no result.

    Args:
        x: tensor of floats.
        axes: int or ints.
        shift: changes no result.
        keepdims: keep the reduced axes with size 1.

    Returns:
        Two tensors of the dtype of `x`; variances of complex numbers are complex, without an
        imaginary part.

    Example:
        >>> mean, variance = tk.nn.moments([[1.0, 3.0], [3.0, 5.0]], axes=[0])
        >>> mean.numpy(), variance.numpy()
        (array([2., 4.], dtype=float32), array([1., 1.], dtype=float32))
    """
    mean, variance = ops.moments(x, _plain(axes), keepdims=keepdims)
    return mean, ops.cast(variance, mean.dtype)


def bias_add(
    value: TensorLike, bias: TensorLike, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """`bias` (channels,) added along the last axis, or the second for `"NC..."`.

    Args:
        value: (batch, spatial..., channels), or as `data_format` says.
        bias: (channels,).
        data_format: `"N...C"` (default) or `"NC..."`.

    Example:
        >>> tk.nn.bias_add([[1.0, 2.0]], [10.0, 20.0]).numpy()
        array([[11., 22.]], dtype=float32)
    """
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
    input: TensorLike, block_size: int, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """Blocks of pixels as channels: (n, h, w, c) to (n, h / b, w / b, b * b * c).

    Args:
        input: images whose height and width are multiples of `block_size`.
        block_size: height and width b of a block, 2 or more.
        data_format: `"NHWC"` or `"NCHW"`.

    Raises:
        InvalidArgumentError: `block_size` is less than 2, or does not divide height and width.

    Example:
        >>> tk.nn.space_to_depth(tk.ones((1, 4, 4, 1)), 2).shape
        TensorShape([1, 2, 2, 4])
    """
    layout = _image_layout(data_format, "space_to_depth")
    return ops.space_to_depth(input, _plain(block_size), layout)


def depth_to_space(
    input: TensorLike, block_size: int, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """Channels as blocks of pixels: (n, h, w, b * b * c) to (n, h * b, w * b, c).

    Args:
        input: images whose channels are a multiple of `block_size` squared.
        block_size: height and width b of a block, 2 or more.
        data_format: `"NHWC"` or `"NCHW"`.

    Raises:
        InvalidArgumentError: `block_size` is less than 2, or its square does not divide channels.

    Example:
        >>> tk.nn.depth_to_space(tk.ones((1, 2, 2, 4)), 2).shape
        TensorShape([1, 4, 4, 1])
    """
    layout = _image_layout(data_format, "depth_to_space")
    return ops.depth_to_space(input, _plain(block_size), layout)


def relu(features: TensorLike, name: str | None = None) -> Tensor:
    """max(x, 0).

    Args:
        features: tensor of numbers.

    Example:
        >>> tk.nn.relu([-1.0, 2.0]).numpy()
        array([0., 2.], dtype=float32)
    """
    return ops.relu(features)


def relu6(features: TensorLike, name: str | None = None) -> Tensor:
    """min(max(x, 0), 6).

    Args:
        features: tensor of numbers.

    Example:
        >>> tk.nn.relu6([-1.0, 9.0]).numpy()
        array([0., 6.], dtype=float32)
    """
    return ops.relu6(features)


def elu(features: TensorLike, name: str | None = None) -> Tensor:
    """The features above 0, exp(x) - 1 below.

    Example:
        >>> tk.nn.elu([-1.0, 1.0]).numpy().round(4)
        array([-0.6321,  1.    ], dtype=float32)
    """
    return ops.elu(features)


def selu(features: TensorLike, name: str | None = None) -> Tensor:
    """A scaled `elu`, which keeps mean 0 and variance 1 through layers.

    Example:
        >>> tk.nn.selu([-1.0, 1.0]).numpy().round(4)
        array([-1.1113,  1.0507], dtype=float32)
    """
    return ops.selu(features)


_describe_arguments(
    globals(),
    """
    logits: tensor of floats.
    features: tensor of floats.
    """,
)


_describe_arguments(globals(), "name: not kept.", package="trainkit")

experimental = _namespace(
    "nn.experimental", general_dropout=_general_dropout, stateless_dropout=_stateless_dropout
)

_explain_unknown_names("nn", globals())
