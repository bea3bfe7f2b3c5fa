"""Attention in one operation: neither scores nor weights are kept for the backward pass.

What it sends back is an operation too, which makes the scores again, so it can be differentiated.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import COMPOSITE, WHOLE_KERNEL, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.dtypes import widen_halves
from trainkit.core.errors import ShapeError
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor
from trainkit.kernels.attention import attention_reference, attention_tuned
from trainkit.kernels.attention.attention_room import MOST_SCORES
from trainkit.kernels.cudnn.deferred import CudnnModule, is_there
from trainkit.kernels.elementwise.half_casts_tuned import run_in_float32
from trainkit.ops.arrays.axes import transpose
from trainkit.ops.arrays.broadcasting import broadcast_to
from trainkit.ops.arrays.creation import tri
from trainkit.ops.arrays.shaping import as_tensor, reshape
from trainkit.ops.arrays.tile_and_repeat import repeat
from trainkit.ops.core.double_backward import replayed_second_gradient
from trainkit.ops.core.vmap import ItemStack, stacked
from trainkit.ops.linear_algebra.matmul import matmul
from trainkit.ops.math.comparisons import logical_and, logical_not
from trainkit.ops.math.elementwise import cast, multiply, where
from trainkit.ops.math.predicates import any
from trainkit.ops.math.reductions import mean
from trainkit.ops.neural.softmax import powers_share as softmax
from trainkit.ops.vmap_rules.shared_rules import with_one_batch, with_two_batches

attention_gpu = DeferredModule("trainkit.kernels.attention.attention_gpu")

attention_cudnn = CudnnModule("trainkit.kernels.cudnn.attention_cudnn")
_FAR_BELOW = -0.7 * float(np.finfo(np.float32).max)


def _misfit(q: Any, k: Any, v: Any) -> ShapeError:
    return ShapeError(
        "attend: query, key and value must be (batch, length, heads, size) of one batch; key and "
        "value of one length and as many heads, the query's a multiple of them, and query and key "
        f"of one size.\n  query  {tuple(q)}\n  key    {tuple(k)}\n  value  {tuple(v)}"
    )


def _fit(one: int | None, two: int | None) -> bool:
    """Whether two sizes are one, or may be."""
    return one == two or one is None or two is None


def _check(q: Any, k: Any, v: Any) -> None:
    if not len(q) == len(k) == len(v) == 4 or not (
        (_fit(q[0], k[0]) and _fit(k[0], v[0]) and _fit(q[0], v[0]))
        and (_fit(k[1], v[1]) and _fit(k[2], v[2]) and _fit(q[3], k[3]))
    ):
        raise _misfit(q, k, v)
    if None not in (q[2], k[2]) and q[2] % k[2]:
        raise _misfit(q, k, v)


def _check_mask(mask: Any, q: Any, k: Any) -> None:
    """Raise unless a mask broadcasts against the scores: a kernel would read beyond its end."""
    score_dims = (q[0], q[2], q[1], k[1])
    if mask is None:
        return
    fits = len(mask.shape) == 4 and all(
        None in (m, n) or m in (1, n) for m, n in zip(mask.shape, score_dims, strict=True)
    )
    if not fits or mask.dtype.name != "bool":
        raise ShapeError(
            f"attend: the mask must be of bools and broadcast to (batch, heads, targets, sources)."
            f"\n  mask    {tuple(mask.shape)} {mask.dtype.name}\n  scores  {score_dims}"
        )


def _attend_rule(q: Spec, k: Spec, v: Spec, mask: Any, *, scale: float, causal: bool) -> Spec:
    _check(q.shape, k.shape, v.shape)
    _check_mask(mask, q.shape, k.shape)
    return Spec((*q.shape[:3], v.shape[3]), q.dtype)


def _run_compiled(
    q: Array, k: Array, v: Array, mask: Array | None, *, scale: float, causal: bool
) -> Array | None:
    _check(q.shape, k.shape, v.shape)
    _check_mask(mask, q.shape, k.shape)
    return run_in_float32(attention_tuned.attention, q, k, v, mask, scale, causal)


def _by_cudnn(
    xp: ArrayModule, q: Array, k: Array, v: Array, mask: Array | None, *, scale: float, causal: bool
) -> Any:
    _check(q.shape, k.shape, v.shape)
    _check_mask(mask, q.shape, k.shape)
    return attention_cudnn.attention(xp, q, k, v, mask, scale, causal)


def _in_blocks(
    xp: ArrayModule, q: Array, k: Array, v: Array, mask: Array | None, *, scale: float, causal: bool
) -> Any:
    operands = *map(widen_halves, (q, k, v)), mask  # scores of float16 would overflow
    y = attention_gpu.attention(xp, *operands, scale, causal)
    return y if y is None else y.astype(q.dtype, copy=False)


@primitive(
    _attend_rule,
    name="attention",
    semantics=COMPOSITE,
    lowering=WHOLE_KERNEL,
    tuned=Tuned(_run_compiled, on_gpu=[_by_cudnn, _in_blocks]),
)
def _attend(
    xp: ArrayModule, q: Array, k: Array, v: Array, mask: Array | None, *, scale: float, causal: bool
) -> Array:
    """Each query's mean of the values, weighted by softmax(scale * query . key)."""
    _check(q.shape, k.shape, v.shape)
    _check_mask(mask, q.shape, k.shape)
    dtype = q.dtype
    q, k, v = map(widen_halves, (q, k, v))
    y = attention_reference.attention(xp, q, k, v, mask, scale, causal)
    return y.astype(dtype, copy=False)


def _gradient_rule(g: Spec, q: Spec, k: Spec, v: Spec, mask: Any, **settings: Any) -> Any:
    return tuple(Spec(x.shape, x.dtype) for x in (q, k, v))


def _gradient_compiled(*arrays: Array | None, **settings: Any) -> Any:
    return run_in_float32(attention_tuned.attention_gradient, *arrays, **settings)


def _gradient_by_cudnn(xp: ArrayModule, *arrays: Array | None, scale: float, causal: bool) -> Any:
    return attention_cudnn.attention_gradient(xp, *arrays, scale, causal)


def _gradient_in_blocks(xp: ArrayModule, *arrays: Array, **settings: Any) -> Any:
    *operands, mask = arrays
    gradients = attention_gpu.attention_gradient(xp, *map(widen_halves, operands), mask, **settings)
    return gradients and tuple(part.astype(operands[1].dtype, copy=False) for part in gradients)


@primitive(
    _gradient_rule,
    name="attention_gradient",
    semantics=COMPOSITE,
    lowering=WHOLE_KERNEL,
    tuned=Tuned(_gradient_compiled, of=1, on_gpu=[_gradient_by_cudnn, _gradient_in_blocks]),
)
def attention_gradient(
    xp: ArrayModule,
    g: Array,
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    *,
    scale: float,
    causal: bool,
) -> Any:
    """What `attend` sends back to query, key and value."""
    dtype = q.dtype
    g, q, k, v = map(widen_halves, (g, q, k, v))
    gradients = attention_reference.attention_gradient(xp, g, q, k, v, mask, scale, causal)
    return tuple(part.astype(dtype, copy=False) for part in gradients)


def _joint(
    g: Tensor, y: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Any, **settings: Any
) -> Any:
    by_q, by_k, by_v = attention_gradient(g, q, k, v, mask, **settings)
    return by_q, by_k, by_v, None


def _second(
    gg: Any, out: Any, g: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Any, **settings: Any
) -> Any:
    by_g, by_inputs = replayed_second_gradient(
        lambda q, k, v: attended_by_steps(q, k, v, mask, **settings), g, (q, k, v), gg
    )
    return by_g, *by_inputs, None


_attend.joint_gradient(_joint)
attention_gradient.joint_gradient(_second)


@_attend.batch_by
@attention_gradient.batch_by
def _attention_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """Items are further sequences of the batch."""
    *heads, mask = inputs
    if isinstance(mask, ItemStack) or (mask is not None and mask.shape[0] != 1):
        batch = heads[-1].shape[0]  # a mask that all sequences of an item share comes once for each
        if batch is None:
            return NotImplemented
        dims = (count, batch, *mask.shape[1:])
        mask = reshape(broadcast_to(stacked(mask, count), dims), (count * batch, *dims[2:]))
    flat = [with_one_batch(x, count) for x in heads]
    return with_two_batches(primitive.op(*flat, mask, **settings), count)


# ------------------------------------------------------------------ in plain operations


def by_head(x: Tensor) -> Tensor:
    """(batch, length, heads, size) to (batch, heads, length, size), and back."""
    return transpose(x, (0, 2, 1, 3))


def causal_mask(scores: Tensor) -> Tensor:
    """True where a query may look: at its own position and at earlier ones.

    Raises:
        ShapeError: a length is not known.
    """
    rows, columns = scores.shape[-2], scores.shape[-1]
    if rows is None or columns is None:
        raise ShapeError(
            f"dot_product_attention: is_causal needs known lengths, the scores have shape "
            f"{tuple(scores.shape)}"
        )
    return tri(rows, columns, dtype="bool")


def attended_by_steps(
    q: Tensor, k: Tensor, v: Tensor, mask: Any, *, scale: float, causal: bool
) -> Tensor:
    """What `attend` computes, by an operation for each step."""
    group = q.shape[2] // k.shape[2]
    if group > 1:
        k, v = repeat(k, group, axis=2), repeat(v, group, axis=2)
    scores = matmul(multiply(by_head(q), scale), transpose(k, (0, 2, 3, 1)))
    if causal:
        visible = causal_mask(scores)
        mask = visible if mask is None else logical_and(mask, visible)
    if mask is None:
        return by_head(matmul(softmax(scores), by_head(v)))
    penalty = cast(as_tensor(max(_FAR_BELOW, float(scores.dtype.min))), scores.dtype)
    weights = multiply(softmax(where(mask, scores, penalty)), cast(mask, scores.dtype))
    return by_head(matmul(weights, by_head(v)))


def _has_many_scores(query: Any, key: Any) -> bool:
    """Whether the scores are surely more than a block of attention on a GPU has."""
    sizes = (*query.shape[:3], key.shape[1])
    return None not in sizes and math.prod(sizes) > MOST_SCORES


def is_served(query: Any, key: Any, value: Any) -> bool:
    """Whether `attend` takes them and is the better way, for floats of one dtype.

    On a GPU that is where cuDNN has a kernel, for short floats, and where there are too many scores
    to keep; else each step is an operation by itself, which graphs fuse with its neighbours.
    """
    kinds = {(x.dtype, x.shape[0]) for x in (query, key, value)}
    if len(kinds) != 1 or not query.dtype.is_floating:
        return False
    if "GPU" in query.device:
        sizes = query.shape[3], value.shape[3]
        served = is_there() and attention_cudnn.takes(query.dtype.name, *sizes)
        return bool(served or _has_many_scores(query, key))
    return "CPU" in query.device


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Any = None,
    *,
    scale: float,
    causal: bool = False,
) -> Tensor:
    """Each query's mean of the values, weighted by softmax(scale * query . key).

    Scores are made for some queries at a time, and again in the backward pass, so memory grows with
    the lengths and not with their product. Source: Rabe and Staats 2021, arXiv:2112.05682.

    Args:
        query: (batch, targets, heads, size).
        key: (batch, sources, key heads, size); `heads` is a multiple of the key heads.
        value: (batch, sources, key heads, value size).
        mask: bool, of four axes, broadcasts against (batch, heads, targets, sources): true where a
            query sees a source. A query that sees none gets zeros.
        scale: a factor of the scores.
        causal: a query sees only sources up to its own position.

    Returns:
        (batch, targets, heads, value size).

    Raises:
        ShapeError: ranks, heads or sizes do not fit, or the mask.
    """
    y: Tensor = _attend(query, key, value, mask, scale=float(scale), causal=causal)
    return y


def attend_or_mean(
    query: Tensor, key: Tensor, value: Tensor, mask: Any, *, scale: float, causal: bool
) -> Tensor:
    """`attend`, where a query that sees no source gets the mean of all values, as in Keras."""
    y = attend(query, key, value, mask, scale=scale, causal=causal)
    if mask is None:
        return y
    visible = mask
    if causal:
        visible = logical_and(mask, tri(query.shape[1], key.shape[1], dtype="bool"))
    none_seen = logical_not(any(visible, axis=-1, keepdims=True))  # (batch, heads, targets, 1)
    every = mean(value, axis=1, keepdims=True)
    group = query.shape[2] // key.shape[2]
    every = repeat(every, group, axis=2) if group > 1 else every
    seen_or_mean: Tensor = where(by_head(none_seen), every, y)
    return seen_or_mean
