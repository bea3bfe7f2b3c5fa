"""Convolutions, pooling, normalization, cross-entropies and what else networks are made of."""

import numpy as np

import trainkit as tk
from tests.conformance.table import away_from, case, distinct, normal
from trainkit import ops
from trainkit.core.tensor import PRIMITIVES, convert_to_tensor
from trainkit.ops.convolutional import (
    convolution,
    im2col,
    local_response,
    pooling,
    pooling_argmax,
    transposed_convolution,
)
from trainkit.ops.neural import (
    bias_activation,
    cross_entropy,
    ctc,
    dense,
    embedding,
    fake_quant,
    fused_attention,
    fused_normalization,
    group_normalization,
    recurrence,
    softmax_cross_entropy,
    standardization,
)
from trainkit.ops.neural.dropout import dropped

SEEN = np.array([True, False, True, True, True, False] * 5).reshape(2, 1, 3, 5)
KEPT = np.array([[True, False, True, True]])
LABELS = np.array([2, 0, 3], np.int32)
SEVERAL_LABELS = np.array([[2, 0, 3], [1, 1, 0]])
IDS = np.array([[1, 4], [1, 0]], np.int32)
SHARES = np.array([[0.2, 0.5, 0.3, 0.0], [1.0, 0.0, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4]])
TARGET = np.array([[1, 1], [2, 0]], np.int32)
TARGET_LENGTH, OUTPUT_LENGTH = np.array([2, 1], np.int32), np.array([4, 3], np.int32)

PLAIN = {"strides": (1, 2), "padding": "same", "dilation_rate": (1, 1)}
POOL = {"pool_size": (2, 2), "strides": (1, 2), "padding": "same"}
FOLD = {"kernel_size": (2, 2), "dilation": (1, 1), "padding": (1, 0), "stride": (1, 2)}
LAST = {"axis": (-1,), "epsilon": 0.1}
GROUPS = {"axis": (1, 3), "epsilon": 0.1}
BATCH = {"axis": (2,), "epsilon": 0.1, "over_batch": True}
ROOT_MEAN_SQUARE = {"axis": (2,), "epsilon": 1e-3, "over_batch": False, "centred": False}
LAYER = {"axis": (1, 2), "epsilon": 0.1, "over_batch": False}
BY_GROUPS = {"axis": 2, "groups": 2, "epsilon": 0.1}
SLOPES = normal(2, 3, 2), normal(2, 3, 2)
LOW, HIGH = np.array(-1.0), np.array(2.0)
FAKE = {"num_bits": 50, "narrow_range": False}
RECTIFIED = away_from([0], 5, 3)


def conv(x, kernel, bias=None):
    return ops.conv_with_bias(x, kernel, bias, strides=2, padding="same", activation="relu")


def depthwise_conv(x, kernel, bias):
    return ops.depthwise_conv_with_bias(x, kernel, bias, padding="same", activation="relu")


def _argmax(x):
    return tk.nn.max_pool_with_argmax(x, 3, 2, "SAME")[1]


def through_lstm(projected, h, c, kernel):
    """The gradients that `lstm` sends back, as functions of its inputs."""
    results = PRIMITIVES["lstm"].op(projected, h, c, kernel)
    slopes = map(convert_to_tensor, SLOPES)
    return recurrence.lstm_gradient(*slopes, projected, h, c, kernel, *results)


def through_gru(projected, h, kernel, bias):
    """The gradients that `gru` sends back, as functions of its inputs."""
    results = PRIMITIVES["gru"].op(projected, h, kernel, bias)
    slope = convert_to_tensor(SLOPES[0])
    return recurrence.gru_gradient(slope, projected, h, kernel, bias, *results)


def gru_reset_before(projected, h, kernel):
    return recurrence.gru(projected, h, kernel, reset_after=False)


def through_gru_reset_before(projected, h, kernel):
    """The gradients that `gru` sends back but that of a bias, which it has none of."""
    results = PRIMITIVES["gru"].op(projected, h, kernel, None, reset_after=False)
    inputs = (SLOPES[0], projected, h, kernel, None, *results)
    return recurrence.gru_gradient(*inputs, reset_after=False)[:3]


def through_lstm_without_memory(projected, h, c, kernel):
    """The gradients that `lstm` sends back where nobody looks at c."""
    results = PRIMITIVES["lstm"].op(projected, h, c, kernel)
    return recurrence.lstm_gradient(SLOPES[0], None, projected, h, c, kernel, *results)


CASES = [
    # ---- fake quantization; with so many steps the line is smooth
    case("fake_quant", fake_quant.fake_quant, away_from([-1, 2], 3, 4), LOW, HIGH, **FAKE, order=1),
    case(
        "fake_quant",
        fake_quant.fake_quant,
        away_from([-1, 2], 3, 4),
        np.full(4, -1.0),
        np.full(4, 2.0),
        num_bits=50,
        narrow_range=True,
        order=1,
    ),
    # ---- convolution
    case("conv", ops.conv, normal(2, 5, 2), normal(3, 2, 3), strides=2),
    case("conv", ops.conv, normal(1, 4, 5, 2), normal(2, 3, 2, 2), padding="same"),
    case("conv", ops.conv, normal(1, 4, 4, 4), normal(2, 2, 2, 4), dilation_rate=2),
    case("conv", conv, normal(1, 5, 4, 2), normal(2, 2, 2, 3), normal(3)),
    case("conv", ops.depthwise_conv, normal(1, 5, 4, 2), normal(2, 2, 2, 3)),
    case("conv", depthwise_conv, normal(1, 5, 4, 2), normal(3, 3, 2, 1), normal(2)),
    case(
        "conv_input_gradient",
        convolution.conv_input_gradient,
        normal(1, 4, 2, 3),
        normal(2, 2, 2, 3),
        normal(1, 4, 4, 2),
        **PLAIN,
    ),
    case(
        "conv_kernel_gradient",
        convolution.conv_kernel_gradient,
        normal(2, 4, 4, 2),
        normal(2, 4, 2, 3),
        kernel_size=(2, 2),
        groups=1,
        **PLAIN,
    ),
    case(
        "conv_transpose",
        transposed_convolution.conv_transpose,
        normal(1, 3, 3, 2),
        normal(2, 3, 4, 2),
        strides=2,
        padding="same",
    ),
    case("unfold", ops.unfold, normal(2, 2, 3, 5), kernel_size=2, stride=2, padding=1),
    case("unfold_gradient", im2col.unfold_gradient, normal(1, 8, 8), normal(1, 2, 3, 4), **FOLD),
    case("fold", ops.fold, normal(1, 8, 8), output_size=(3, 4), **FOLD),
    # ---- pooling
    case("max_pool", ops.max_pool, distinct(1, 4, 5, 2), **POOL),
    case(
        "max_pool_gradient",
        lambda g, x: pooling.max_pool_gradient(g, x, ops.max_pool(x, **POOL), **POOL),
        normal(1, 4, 3, 2),
        distinct(1, 4, 5, 2),
    ),
    case(
        "max_pool_pick",
        lambda v, x: pooling.max_pool_pick(v, x, ops.max_pool(x, **POOL), **POOL),
        normal(1, 4, 5, 2),
        distinct(1, 4, 5, 2),
    ),
    case(
        "max_pool_with_argmax",
        lambda x: tk.nn.max_pool_with_argmax(x, 3, 2, "SAME")[0],
        distinct(2, 4, 5, 2),
    ),
    case(
        "add_at_argmax",
        lambda g, x: pooling_argmax.add_at_argmax(g, _argmax(x), x),
        normal(2, 2, 3, 2),
        distinct(2, 4, 5, 2),
    ),
    case(
        "take_at_argmax",
        lambda v, x: pooling_argmax.take_at_argmax(v, _argmax(x)),
        normal(2, 4, 5, 2),
        distinct(2, 4, 5, 2),
    ),
    case("channel_window_sums", local_response.channel_window_sums, normal(2, 3, 7), radius=2),
    case("average_pool", ops.average_pool, normal(1, 4, 5, 2), **POOL),
    case(
        "average_pool_gradient",
        pooling.average_pool_gradient,
        normal(1, 4, 3, 2),
        normal(1, 4, 5, 2),
        **POOL,
    ),
    # ---- normalization
    case("fused_normalization", ops.layer_normalization, normal(2, 3, 4), normal(4), normal(4)),
    case("fused_normalization", ops.layer_normalization, normal(2, 3, 4), axis=(1, 2), epsilon=0.1),
    case(
        "fused_normalization",
        ops.fused_batch_normalization,
        normal(3, 2, 4),
        normal(4),
        normal(4),
        epsilon=0.1,
    ),
    case("fused_normalization", ops.fused_batch_normalization, normal(3, 2, 4), axis=1),
    case(
        "fused_normalization",
        fused_normalization.fused_normalization,
        normal(2, 3, 4),
        normal(4),
        None,
        **ROOT_MEAN_SQUARE,
    ),
    case(
        "fused_normalization_gradient",
        fused_normalization.fused_normalization_gradient,
        normal(3, 2, 4),
        normal(3, 2, 4),
        normal(4),
        normal(4),
        normal(4),
        **BATCH,
    ),
    case(
        "fused_normalization_gradient",
        fused_normalization.fused_normalization_gradient,
        normal(2, 3, 2),
        normal(2, 3, 2),
        None,
        None,
        None,
        **LAYER,
    ),
    case(
        "fused_normalization_gradient",
        fused_normalization.fused_normalization_gradient,
        normal(2, 3, 4),
        normal(2, 3, 4),
        normal(4),
        None,
        None,
        **ROOT_MEAN_SQUARE,
    ),
    case(
        "grouped_normalization",
        group_normalization.grouped_normalization,
        normal(2, 3, 4),
        normal(4),
        normal(4),
        **BY_GROUPS,
    ),
    case(
        "grouped_normalization",
        group_normalization.grouped_normalization,
        normal(2, 4, 3),
        None,
        normal(4),
        **{**BY_GROUPS, "axis": 1},
    ),
    case(
        "grouped_normalization_gradient",
        group_normalization.grouped_normalization_gradient,
        normal(2, 3, 4),
        normal(2, 3, 4),
        normal(4),
        **BY_GROUPS,
    ),
    case(
        "grouped_normalization_gradient",
        group_normalization.grouped_normalization_gradient,
        normal(2, 4, 3),
        normal(2, 4, 3),
        None,
        **{**BY_GROUPS, "axis": 1},
    ),
    case("biased_gelu", bias_activation.biased_gelu, normal(2, 3, 4), normal(4)),
    case(
        "biased_gelu_gradient",
        bias_activation.biased_gelu_gradient,
        normal(2, 3, 4),
        normal(2, 3, 4),
        normal(4),
    ),
    # ---- attention
    case(
        "attention",
        fused_attention.attend,
        normal(2, 3, 4, 3),
        normal(2, 5, 2, 3),
        normal(2, 5, 2, 2),
        SEEN,
        scale=0.7,
        causal=True,
    ),
    case(
        "attention",
        lambda q, k, v: fused_attention.attend(q, k, v, scale=0.7),
        normal(2, 3, 2, 3),
        normal(2, 5, 2, 3),
        normal(2, 5, 2, 2),
    ),
    case(
        "attention_gradient",
        fused_attention.attention_gradient,
        normal(2, 3, 2, 2),
        normal(2, 3, 2, 3),
        normal(2, 5, 1, 3),
        normal(2, 5, 1, 2),
        None,
        scale=0.7,
        causal=True,
    ),
    case("dropped", lambda x: dropped(x, KEPT, scale=3.0), normal(3, 4), order=3),
    # ---- cross-entropy
    case(
        "softmax_cross_entropy_with_logits",
        PRIMITIVES["softmax_cross_entropy_with_logits"].op,
        normal(3, 4),
        normal(3, 4),
        order=3,
    ),
    case(
        "softmax_cross_entropy_and_slopes",
        PRIMITIVES["softmax_cross_entropy_and_slopes"].op,
        normal(3, 4),
        normal(3, 4),
        order=3,
    ),
    case("scaled_rows", softmax_cross_entropy.scaled_rows, normal(3), normal(3, 4), order=3),
    case(
        "softmax_cross_entropy_gradient",
        softmax_cross_entropy.softmax_cross_entropy_gradient,
        normal(3),
        SHARES,
        normal(3, 4),
    ),
    *[
        case(name, PRIMITIVES[name].op, labels, normal(*labels.shape, 4), order=3)
        for name in (
            "sparse_softmax_cross_entropy_with_logits",
            "sparse_softmax_cross_entropy_and_slopes",
        )
        for labels in (LABELS, SEVERAL_LABELS)
    ],
    *[
        case(
            "sparse_softmax_cross_entropy_gradient",
            softmax_cross_entropy.sparse_softmax_cross_entropy_gradient,
            normal(*labels.shape),
            labels,
            normal(*labels.shape, 4),
        )
        for labels in (LABELS, SEVERAL_LABELS)
    ],
    case(
        "sigmoid_cross_entropy_with_logits",
        cross_entropy.sigmoid_cross_entropy_with_logits,
        normal(3, 4),
        away_from([0], 3, 4),
        order=3,
    ),
    case(
        "ctc_loss",
        lambda x: ops.ctc_loss(TARGET, x, TARGET_LENGTH, OUTPUT_LENGTH),
        normal(2, 4, 3),
        tolerance=1e-5,
    ),
    case(
        "ctc_gradient",
        lambda g, x: ctc.ctc_gradient(g, x, TARGET, TARGET_LENGTH, OUTPUT_LENGTH, blank=0),
        normal(2),
        normal(2, 4, 3),
        tolerance=1e-5,
    ),
    # ---- recurrence
    case("lstm", recurrence.lstm, normal(2, 3, 8), normal(2, 2), normal(2, 2), normal(2, 8)),
    case("lstm_gradient", through_lstm, normal(2, 3, 8), normal(2, 2), normal(2, 2), normal(2, 8)),
    case("gru", recurrence.gru, normal(2, 3, 6), normal(2, 2), normal(2, 6), normal(6)),
    case("gru", recurrence.gru, normal(2, 3, 6), normal(2, 2), normal(2, 6)),
    case("gru", gru_reset_before, normal(2, 3, 6), normal(2, 2), normal(2, 6)),
    case("gru_gradient", through_gru_reset_before, normal(2, 3, 6), normal(2, 2), normal(2, 6)),
    case(
        "lstm_gradient",
        through_lstm_without_memory,
        normal(2, 3, 8),
        normal(2, 2),
        normal(2, 2),
        normal(2, 8),
    ),
    case("gru_gradient", through_gru, normal(2, 3, 6), normal(2, 2), normal(2, 6), normal(6)),
    # ---- dense and embedding
    case("dense", ops.dense, normal(2, 3, 4), normal(4, 2), normal(2), activation="relu"),
    case("dense", ops.dense, normal(3, 4), normal(4, 2)),
    case(
        "dense_gradient",
        dense.dense_gradient,
        normal(5, 3),
        RECTIFIED,
        normal(5, 4),
        normal(4, 3),
        activation="relu",
        wanted=(True, True, True),
    ),
    case("rectified_gradient", dense.rectified_gradient, normal(5, 3), RECTIFIED),
    case("embedding_lookup", ops.embedding_lookup, normal(5, 3), IDS),
    case("embedding_gradient", embedding.embedding_gradient, normal(2, 2, 3), IDS, normal(5, 3)),
    # ---- numbers for the cases above are drawn first, and keep their distance to kinks
    case("standardized", standardization.standardized, normal(2, 3, 4), **LAST),
    case("standardized", standardization.standardized, normal(2, 5), **LAST, centred=False),
    case("standardized", standardization.standardized, normal(2, 3, 2, 2), **GROUPS),
    case(
        "standardized_gradient",
        standardization.standardized_gradient,
        normal(2, 3, 4),
        normal(2, 3, 4),
        **LAST,
    ),
    case(
        "standardized_gradient",
        standardization.standardized_gradient,
        normal(2, 3, 2, 2),
        normal(2, 3, 2, 2),
        **GROUPS,
    ),
    case(
        "standardized_gradient",
        standardization.standardized_gradient,
        normal(2, 5),
        normal(2, 5),
        **LAST,
        centred=False,
    ),
]
