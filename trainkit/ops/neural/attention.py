"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import Tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.arrays.axes import transpose
from trainkit.ops.arrays.shaping import as_tensor
from trainkit.ops.arrays.tile_and_repeat import repeat
from trainkit.ops.linear_algebra.matmul import matmul
from trainkit.ops.math.elementwise import add, cast, divide, multiply, tanh, where
from trainkit.ops.neural.fused_attention import attend_or_mean, by_head, causal_mask, is_served
from trainkit.ops.neural.softmax import powers_share as softmax

_FAR_BELOW = -0.7 * float(np.finfo(np.float32).max)


_FLASH = [False]


def flash_attention_enabled() -> bool:
    """Whether `enable_flash_attention` was called."""
    return _FLASH[0]


def enable_flash_attention() -> None:
    """Let attention layers without `flash_attention=` ask for a kernel that holds few scores.

    Example:
        >>> tk.keras.config.enable_flash_attention()
        >>> tk.keras.config.is_flash_attention_enabled()
        True
        >>> tk.keras.config.disable_flash_attention()
    """
    _FLASH[0] = True


def disable_flash_attention() -> None:
    """Undo `enable_flash_attention`."""
    _FLASH[0] = False


def _checked_heads(query: Tensor, key: Tensor, value: Tensor) -> int:
    """How many heads of the query share a head of the key."""
    shapes = (
        f"  query  {tuple(query.shape)}\n  key    {tuple(key.shape)}\n  value  {tuple(value.shape)}"
    )
    if not len(query.shape) == len(key.shape) == len(value.shape) == 4:
        raise ShapeError(
            f"dot_product_attention: all three must be (batch, length, heads, size).\n{shapes}"
        )
    heads, shared = query.shape[2], key.shape[2]
    if shared != value.shape[2] or heads % shared or query.shape[3] != key.shape[3]:
        raise ShapeError(
            "dot_product_attention: key and value must have as many heads, the query a multiple "
            "of it, and query "
            f"and key one size.\n{shapes}"
        )
    if key.shape[1] != value.shape[1] and None not in (key.shape[1], value.shape[1]):
        raise ShapeError(f"dot_product_attention: key and value must have one length.\n{shapes}")
    return int(heads // shared)


def _seen(scores: Tensor, mask: Any) -> Tensor:
    """Scores with those that `mask` forbids far below all others."""
    penalty = max(_FAR_BELOW, float(scores.dtype.min))
    masked: Tensor = where(mask, scores, cast(as_tensor(penalty), scores.dtype))
    return masked


def dot_product_attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    bias: TensorLike | None = None,
    mask: TensorLike | None = None,
    scale: float | None = None,
    is_causal: bool = False,
    flash_attention: bool | None = None,
    attn_logits_soft_cap: float | None = None,
) -> Tensor:
    """Each query's mean of the values, weighted by softmax(scale * query . key + bias).

    Source: Vaswani et al. 2017, arXiv:1706.03762; shared heads: Ainslie et al. 2023,
        arXiv:2305.13245.

    Args:
        query: (batch, targets, heads, size).
        key: (batch, sources, key heads, size); `heads` is a multiple of the key heads.
        value: (batch, sources, key heads, value size).
        bias: added to the scores, broadcasts against (batch, heads, targets, sources).
        mask: bool, broadcasts like `bias`; a query sees a source where it is true.
        scale: 1 / sqrt(size) by default.
        is_causal: a query sees only sources up to its own position.
        flash_attention: `True` asks for a kernel that holds but a part of the scores at a time; the
            CPU has one wherever there is neither bias nor cap, and takes it by itself.
        attn_logits_soft_cap: scores become cap * tanh(score / cap).

    Returns:
        (batch, targets, heads, value size).

    Raises:
        ShapeError: ranks, heads or sizes do not fit.
        InvalidArgumentError: `flash_attention` is true and there is no kernel for these arguments,
            or the mask is not of bools.

    Example:
        >>> q = tk.ones((2, 5, 4, 8))
        >>> tk.ops.dot_product_attention(q, q, q).shape
        TensorShape([2, 5, 4, 8])
    """
    q, k, v = as_tensor(query), as_tensor(key), as_tensor(value)
    group = _checked_heads(q, k, v)
    factor = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    bool_mask = None if mask is None else _checked_mask(mask)
    plain = bias is None and attn_logits_soft_cap is None and isinstance(factor, float | int)
    plain = plain and (bool_mask is None or len(bool_mask.shape) == 4)
    if flash_attention and not (plain and q.dtype == k.dtype == v.dtype and q.dtype.is_floating):
        raise InvalidArgumentError(
            "dot_product_attention: flash_attention=True goes without bias and "
            "attn_logits_soft_cap, with a mask of four axes, a number as scale, and floats of one "
            f"dtype; got {q.dtype.name}, {k.dtype.name}, {v.dtype.name}. Use None or False"
        )
    if plain and (flash_attention or is_served(q, k, v)):
        return attend_or_mean(q, k, v, bool_mask, scale=factor, causal=is_causal)
    if group > 1:
        k, v = repeat(k, group, axis=2), repeat(v, group, axis=2)
    scores = matmul(multiply(by_head(q), factor), transpose(k, (0, 2, 3, 1)))
    scores = _adjust(scores, bias, bool_mask, is_causal, attn_logits_soft_cap)
    return by_head(matmul(softmax(scores), by_head(v)))


def _checked_mask(mask: Any) -> Tensor:
    tensor = as_tensor(mask)
    if not tensor.dtype.is_bool:
        raise InvalidArgumentError(
            f"dot_product_attention: the mask must be of bools, not {tensor.dtype.name}; use "
            "ops.cast"
        )
    return tensor


def _adjust(scores: Tensor, bias: Any, mask: Any, is_causal: bool, cap: float | None) -> Tensor:
    if bias is not None:
        scores = add(scores, bias)
    if cap is not None:
        scores = multiply(tanh(divide(scores, cap)), cap)
    if mask is not None:
        scores = _seen(scores, mask)
    if is_causal:
        scores = _seen(scores, causal_mask(scores))
    return scores
