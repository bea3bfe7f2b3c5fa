"""Scaled dot-product attention and its gradient by cuDNN, for float16 and bfloat16.

Neither scores nor weights are ever in memory. Arrays stay (batch, length, heads, size), which cuDNN
sees by strides. A mask of bools becomes numbers that are added to the scores; queries that see
no source get zeros, as the plain body has it.
Source: Dao 2023, arXiv:2307.08691; NVIDIA, "cuDNN frontend developer guide", attention.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.kernels.cudnn.description import Description, Dims, packed
from trainkit.kernels.cudnn.plans import is_served, ready, run
from trainkit.kernels.threads import pools

Array = Any

SIZES, MOST_SIZE = 8, 128
"""Sizes of heads: a multiple of 8 for the tensor cores, and what the gradient takes, too."""
_FAR_BELOW = {"float16": -3e4, "bfloat16": -1e30}
"""Added to scores that are not seen: finite, so that a row of them is no NaN."""


def takes(dtype: str, size: int | None, value_size: int | None) -> bool:
    """Whether heads of these sizes may be served; lengths and masks decide nothing."""
    sizes = (size, value_size)
    return dtype in _FAR_BELOW and all(
        n is not None and n % SIZES == 0 and 0 < n <= MOST_SIZE for n in sizes
    )


def _by_head(shape: Dims) -> tuple[Dims, Dims]:
    """Sizes (batch, heads, length, size) and strides of an array (batch, length, heads, size)."""
    batch, length, heads, size = shape
    steps = packed(shape)
    return (batch, heads, length, size), (steps[0], steps[2], steps[1], steps[3])


def _common(
    d: Description, dtype: str, shapes: tuple[Dims, ...], bias: Dims | None, causal: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Query, key and value, and what is said of the scores."""
    tensors = {}
    for name, shape in zip("qkv", shapes, strict=True):
        tensors[name] = d.input(name, *_by_head(shape), dtype)
    more: dict[str, Any] = {}
    if bias is not None:
        more["bias"] = d.input("bias", bias, packed(bias), dtype)
    if causal:
        more["diagonal_alignment"] = d.cudnn.diagonal_alignment.TOP_LEFT
        more["diagonal_band_right_bound"] = 0
    return tensors, more


def _result(shapes: tuple[Dims, ...]) -> Dims:
    q, _, v = shapes
    return (*q[:3], v[3])


def _stats(shapes: tuple[Dims, ...]) -> Dims:
    q = shapes[0]
    return q[0], q[2], q[1], 1


def describe_forward(
    d: Description,
    dtype: str,
    shapes: tuple[Dims, ...],
    bias: Dims | None,
    scale: float,
    causal: bool,
    with_stats: bool,
) -> None:
    """Softmax(scale * query . key) . value, and the logarithm of each row's sum."""
    tensors, more = _common(d, dtype, shapes, bias, causal)
    y, stats = d.graph.sdpa(**tensors, **more, attn_scale=scale, generate_stats=with_stats)
    d.output(y, "y", *_by_head(_result(shapes)), dtype)
    if with_stats:
        dims = _stats(shapes)
        d.output(stats, "stats", dims, packed(dims), "float32")


def describe_gradient(
    d: Description,
    dtype: str,
    shapes: tuple[Dims, ...],
    bias: Dims | None,
    scale: float,
    causal: bool,
    determined: bool,
) -> None:
    """The gradients by query, key and value."""
    tensors, more = _common(d, dtype, shapes, bias, causal)
    tensors["o"] = d.input("y", *_by_head(_result(shapes)), dtype)
    tensors["dO"] = d.input("g", *_by_head(_result(shapes)), dtype)
    dims = _stats(shapes)
    tensors["stats"] = d.input("stats", dims, packed(dims), "float32")
    gradients = d.graph.sdpa_backward(
        **tensors, **more, attn_scale=scale, use_deterministic_algorithm=determined
    )
    for tensor, name, shape in zip(gradients, ("by_q", "by_k", "by_v"), shapes, strict=True):
        d.output(tensor, name, *_by_head(shape), dtype)


# ------------------------------------------------------------------ calls


class _AttentionArrays:
    """The arrays of a call as cuDNN takes them."""

    def __init__(
        self, xp: Any, q: Array, k: Array, v: Array, mask: Array | None, causal: bool
    ) -> None:
        self.arrays = {name: ready(xp, x) for name, x in zip("qkv", (q, k, v), strict=True)}
        self.shapes = tuple(tuple(x.shape) for x in (q, k, v))
        self.bias: Dims | None = None
        self.seen: Array | None = None
        if mask is not None:
            visible = _whole_rows(xp, mask, q.shape[1], k.shape[1])
            penalty = np.float32(_FAR_BELOW[q.dtype.name])
            bias = xp.where(visible, np.float32(0), penalty).astype(q.dtype)
            self.arrays["bias"], self.bias = bias, tuple(bias.shape)
            self.seen = _sees_any(xp, visible, causal)

    def hidden(self, xp: Any, x: Array) -> Array:
        """`x` (batch, targets, heads, size) with zeros for queries that see no source."""
        if self.seen is None:
            return x
        # CuPy chooses between float32 where bfloat16 is given
        return xp.where(self.seen, x, xp.zeros((), x.dtype)).astype(x.dtype, copy=False)


def _whole_rows(xp: Any, mask: Array, targets: int, sources: int) -> Array:
    """The mask with its last two axes whole; cuDNN repeats along the first two alone."""
    return xp.broadcast_to(mask, (*mask.shape[:2], targets, sources))


def _sees_any(xp: Any, mask: Array, causal: bool) -> Array:
    """(batch, targets, heads, 1): whether a query sees a source."""
    if causal:
        mask = mask & xp.tril(xp.ones(mask.shape[2:], bool))
    return mask.any(axis=3, keepdims=True).transpose(0, 2, 1, 3)


def _is_for(xp: Any, *arrays: Array) -> bool:
    q, v = arrays[0], arrays[2]
    return takes(q.dtype.name, q.shape[3], v.shape[3]) and is_served(xp, *arrays)


def attention(
    xp: Any, q: Array, k: Array, v: Array, mask: Array | None, scale: float, causal: bool
) -> Array | None:
    """What each query sees of the values, or `None` where cuDNN is not to do it."""
    if not _is_for(xp, q, k, v):
        return None
    call = _AttentionArrays(xp, q, k, v, mask, causal)
    y = xp.empty(_result(call.shapes), q.dtype)
    facts = (q.dtype.name, call.shapes, call.bias, float(scale), causal, False)
    if not run(xp, describe_forward, facts, {**call.arrays, "y": y}):
        return None
    return call.hidden(xp, y)


def attention_gradient(
    xp: Any, g: Array, q: Array, k: Array, v: Array, mask: Array | None, scale: float, causal: bool
) -> tuple[Array, Array, Array] | None:
    """Gradients by q, k and v, or `None` where cuDNN is not to do it.

    The values and the sums of the rows are made again, as nothing was kept.
    """
    if not _is_for(xp, q, k, v, g):
        return None
    call = _AttentionArrays(xp, q, k, v, mask, causal)
    dims = _stats(call.shapes)
    arrays = {
        **call.arrays,
        "y": xp.empty(_result(call.shapes), q.dtype),
        "stats": xp.empty(dims, np.float32),
    }
    facts = (q.dtype.name, call.shapes, call.bias, float(scale), causal)
    if not run(xp, describe_forward, (*facts, True), arrays):
        return None
    arrays["g"] = ready(xp, call.hidden(xp, g))
    gradients = tuple(xp.empty(x.shape, x.dtype) for x in (q, k, v))
    arrays |= dict(zip(("by_q", "by_k", "by_v"), gradients, strict=True))
    return gradients if run(xp, describe_gradient, (*facts, pools.determined()), arrays) else None
