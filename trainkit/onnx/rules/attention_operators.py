"""Attention, rotary embedding, gated units, and the losses that ONNX has."""

from __future__ import annotations

import math
from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor
from trainkit.onnx.imported_values import live_sizes, rank, tensor
from trainkit.onnx.operator_rules import NodeCall, onnx_rule

_REDUCTIONS = ("mean", "sum", "none")
_RAW, _CAPPED, _BIASED, _SOFTMAX = range(4)


def _heads(x: Tensor, count: int) -> Tensor:
    """(batch, steps, heads and features) as (batch, heads, steps, features)."""
    batch, steps, features = ops.shape(x)
    split = ops.reshape(x, (batch, steps, count, int(features) // count))
    return ops.transpose(split, (0, 2, 1, 3))


@onnx_rule("Attention")
def _attention(
    call: NodeCall, q: Any, k: Any, v: Any, mask: Any = None, past_key: Any = None,
    past_value: Any = None, lengths: Any = None,
) -> Any:  # fmt: skip
    q, k, v = tensor(q), tensor(k), tensor(v)
    is_flat = rank(q) == 3
    if is_flat:
        count = call.int("kv_num_heads")
        q, k, v = _heads(q, call.int("q_num_heads")), _heads(k, count), _heads(v, count)
    if past_key is not None:
        k = ops.concatenate([tensor(past_key), k], axis=2)
        v = ops.concatenate([tensor(past_value), v], axis=2)
    present = k, v
    groups = int(q.shape[1] or 0) // int(k.shape[1] or 1)
    if groups > 1:
        k, v = ops.repeat(k, groups, axis=1), ops.repeat(v, groups, axis=1)
    size = int(q.shape[-1] or 0)
    root = math.sqrt(call.float("scale", None) or 1 / math.sqrt(size))
    raw = ops.matmul(q * root, ops.transpose(k * root, (0, 1, 3, 2)))
    cap = call.float("softcap", 0.0)
    capped = cap * ops.tanh(raw / cap) if cap else raw
    shift = 0 if past_key is None else live_sizes(past_key)[2]
    biased = _biased(call, capped, mask, shift, None if lengths is None else tensor(lengths))
    weights = _safe_softmax(biased)
    y = ops.matmul(ops.cast(weights, v.dtype), v)
    if is_flat:
        batch, heads, steps, features = ops.shape(y)
        y = ops.reshape(ops.transpose(y, (0, 2, 1, 3)), (batch, steps, heads * features))
    mode = call.int("qk_matmul_output_mode", 0)
    by_mode = {_RAW: raw, _CAPPED: capped, _BIASED: biased, _SOFTMAX: weights}
    if mode not in by_mode:
        raise InvalidArgumentError(f"qk_matmul_output_mode is {mode}, and not 0, 1, 2 or 3")
    return y, *present, by_mode[mode]


def _biased(call: NodeCall, scores: Tensor, mask: Any, shift: Any, lengths: Any) -> Tensor:
    """Scores (batch, heads, queries, keys), -inf where a query does not see a key."""
    lowest = ops.cast(-math.inf, scores.dtype)
    queries, keys = ops.shape(scores)[2:]
    if mask is not None:
        scores = _mask(scores, tensor(mask), keys, lowest)
    i, j = ops.arange(queries)[:, None], ops.arange(keys)[None, :]
    if lengths is not None:
        ends = ops.reshape(ops.cast(lengths, "int32"), (-1, 1, 1, 1))
        scores = ops.where(ops.less(j, ends), scores, lowest)
        shift = ends - queries
    left, right = call.int("left_window_size", -1), call.int("right_window_size", -1)
    if call.flag("is_causal"):
        scores = ops.where(ops.less_equal(j, i + shift), scores, lowest)
    if left >= 0:
        scores = ops.where(ops.less_equal(i + shift - j, left), scores, lowest)
    if right >= 0:
        scores = ops.where(ops.less_equal(j - i - shift, right), scores, lowest)
    return scores


def _mask(scores: Tensor, mask: Tensor, keys: Any, lowest: Tensor) -> Tensor:
    """Scores with a mask that may be shorter than the keys, of which none behind it is seen."""
    is_bool = mask.dtype.name == "bool"
    if mask.shape[-1] is None or mask.shape[-1] != scores.shape[-1]:
        pairs = [(0, 0)] * (rank(mask) - 1)
        short = keys - ops.shape(mask)[-1]
        fill = ops.cast(False, "bool") if is_bool else ops.cast(-math.inf, mask.dtype)
        mask = ops.pad(mask, [*pairs, (0, short)], "constant", fill)
    return ops.where(mask, scores, lowest) if is_bool else scores + ops.cast(mask, scores.dtype)


def _safe_softmax(x: Tensor) -> Tensor:
    """Softmax along the last axis; a row that is -inf everywhere gives zeros."""
    top = ops.max(x, axis=-1, keepdims=True)
    top = ops.where(ops.isinf(top), ops.zeros_like(top), top)
    e = ops.exp(x - ops.stop_gradient(top))
    total = ops.sum(e, axis=-1, keepdims=True)
    return e / ops.where(ops.equal(total, 0), ops.ones_like(total), total)


@onnx_rule("RotaryEmbedding")
def _rotary(call: NodeCall, x: Any, cosines: Any, sines: Any, positions: Any = None) -> Tensor:
    y, is_flat = tensor(x), rank(x) == 3
    shape = live_sizes(x)
    if is_flat:
        y = _heads(y, call.int("num_heads"))
    y = ops.transpose(y, (0, 2, 1, 3))  # (batch, steps, heads, features)
    size = call.int("rotary_embedding_dim", 0) or y.shape[-1]
    turned, unrotated = y[..., :size], y[..., size:]
    c, s = tensor(cosines), tensor(sines)
    if positions is not None:
        c, s = ops.take(c, tensor(positions), axis=0), ops.take(s, tensor(positions), axis=0)
    c, s = c[:, :, None], s[:, :, None]
    if call.flag("interleaved"):
        a, b = turned[..., 0::2], turned[..., 1::2]
        both = ops.stack([c * a - s * b, s * a + c * b], axis=-1)
        turned = ops.reshape(both, ops.shape(turned))
    else:
        a, b = ops.split(turned, 2, axis=-1)
        turned = ops.concatenate([c * a - s * b, s * a + c * b], axis=-1)
    y = ops.concatenate([turned, unrotated], axis=-1)
    return ops.reshape(y, shape) if is_flat else ops.transpose(y, (0, 2, 1, 3))


@onnx_rule("SwiGLU")
def _swiglu(call: NodeCall, a: Any, b: Any) -> Tensor:
    a = tensor(a)
    return a * ops.sigmoid(call.float("alpha", 1.0) * a) * tensor(b)


# ------------------------------------------------------------------ losses


@onnx_rule("NegativeLogLikelihoodLoss")
def _nll(call: NodeCall, x: Any, target: Any, weight: Any = None) -> Tensor:
    return _likelihood(call, tensor(x), tensor(target), weight)


@onnx_rule("SoftmaxCrossEntropyLoss")
def _cross_entropy(call: NodeCall, x: Any, target: Any, weight: Any = None) -> Any:
    logs = ops.log_softmax(tensor(x), axis=1)
    return _likelihood(call, logs, tensor(target), weight), logs


def _likelihood(call: NodeCall, logs: Tensor, target: Tensor, weight: Any) -> Tensor:
    """The loss of log probabilities (batch, classes, ...) for labels (batch, ...)."""
    reduction = call.one_of("reduction", "mean", _REDUCTIONS)
    ignored = call.int("ignore_index", None)
    labels = target
    share = ops.ones_like(logs[:, 0])
    if ignored is not None:
        counts = ops.not_equal(target, ignored)
        labels = ops.where(counts, target, ops.zeros_like(target))
        share = ops.cast(counts, logs.dtype)
    if weight is not None:
        share = share * ops.take(tensor(weight), labels, axis=0)
    picked = ops.take_along_axis(logs, ops.expand_dims(labels, 1), axis=1)
    losses = -ops.squeeze(picked, 1) * share
    if reduction == "none":
        return losses
    total = ops.sum(losses)
    return total if reduction == "sum" else total / ops.sum(share)
