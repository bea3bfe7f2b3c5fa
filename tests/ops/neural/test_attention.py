"""Attention against sums written out, for shared heads, masks, bias and caps."""

import numpy as np
import pytest

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError


def written_out(q, k, v, scale, allowed=None, bias=0.0, cap=None):
    """einsum and softmax in float64; keys and values have as many heads as the query."""
    scores = np.einsum("btnh,bsnh->bnts", q, k) * scale + bias
    scores = scores if cap is None else cap * np.tanh(scores / cap)
    scores = scores if allowed is None else np.where(allowed, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("bnts,bsnh->btnh", weights, v)


@pytest.fixture
def qkv(rng):
    return [rng.normal(size=(2, n, 4, 3)) for n in (5, 6, 6)]


def test_attention_is_a_mean_weighted_by_softmax(qkv):
    found = ops.dot_product_attention(*qkv).numpy()
    np.testing.assert_allclose(found, written_out(*qkv, 1 / np.sqrt(3)), atol=1e-12)


def test_mask_bias_scale_and_cap(qkv, rng):
    mask = rng.random((2, 1, 5, 6)) < 0.7
    mask[..., 0] = True
    bias = rng.normal(size=(1, 4, 5, 6))
    found = ops.dot_product_attention(
        *qkv, bias=bias, mask=mask, scale=0.7, attn_logits_soft_cap=2.0
    )
    expected = written_out(*qkv, 0.7, mask, bias, 2.0)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-10)


def test_causal_attention_sees_only_what_came_before(qkv):
    q, k, v = qkv
    found = ops.dot_product_attention(q, k, v, is_causal=True).numpy()
    allowed = np.tril(np.ones((5, 6), bool))
    np.testing.assert_allclose(found, written_out(q, k, v, 1 / np.sqrt(3), allowed), atol=1e-12)


def test_heads_of_the_query_may_share_a_key(qkv):
    q, k, v = qkv
    found = ops.dot_product_attention(q, k[:, :, :2], v[:, :, :2]).numpy()
    expected = written_out(q, k[:, :, [0, 0, 1, 1]], v[:, :, [0, 0, 1, 1]], 1 / np.sqrt(3))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_shapes_that_do_not_fit_are_shown(qkv):
    q, k, v = qkv
    with pytest.raises(ShapeError, match=r"query.*\(2, 5, 4, 3\)"):
        ops.dot_product_attention(q, k[:, :, :3], v[:, :, :3])
    with pytest.raises(ShapeError, match="one length"):
        ops.dot_product_attention(q, k, v[:, :5])
    with pytest.raises(ShapeError, match="batch, length, heads, size"):
        ops.dot_product_attention(q[0], k, v)


def test_settings_that_are_not_supported_are_named(qkv):
    with pytest.raises(InvalidArgumentError, match="flash_attention"):
        ops.dot_product_attention(*qkv, attn_logits_soft_cap=2.0, flash_attention=True)
    with pytest.raises(InvalidArgumentError, match="float64"):
        ops.dot_product_attention(*qkv, mask=np.ones((5, 6)))
