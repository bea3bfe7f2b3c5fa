"""Attention layers: who may look where."""

import numpy as np
import pytest

from trainkit import layers
from trainkit.core.errors import InvalidArgumentError, ShapeError

RNG = np.random.default_rng(1)
QUERY = RNG.normal(size=(2, 3, 4)).astype("float32")
VALUE = RNG.normal(size=(2, 5, 4)).astype("float32")
MASK = np.array([[True, True, False, True, False], [True] * 5])

ATTENTIONS = [
    lambda q, v, **more: layers.Attention()(
        [q, v],
        mask=[None, more["value_mask"]] if "value_mask" in more else None,
        return_attention_scores=True,
    )[1],
    lambda q, v, **more: layers.MultiHeadAttention(2, 3)(
        q, v, return_attention_scores=True, **more
    )[1],
    lambda q, v, **more: layers.GroupedQueryAttention(3, 4, 2)(
        q, v, return_attention_scores=True, **more
    )[1],
]


@pytest.mark.parametrize("attend", ATTENTIONS, ids=["dot", "multi_head", "grouped"])
def test_masked_values_get_no_weight_and_the_others_add_up_to_one(attend):
    weights = attend(QUERY, VALUE, value_mask=MASK).numpy()
    assert np.abs(weights[0, ..., 2]).max() < 1e-6
    assert np.abs(weights[0, ..., 4]).max() < 1e-6
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-4)


@pytest.mark.parametrize(
    "layer",
    [layers.MultiHeadAttention(2, 3), layers.GroupedQueryAttention(3, 4, 2)],
    ids=["multi_head", "grouped"],
)
def test_a_causal_mask_hides_the_future(layer):
    y = layer(QUERY, QUERY, use_causal_mask=True).numpy()
    changed = QUERY.copy()
    changed[:, 2] += 1
    np.testing.assert_allclose(
        layer(changed, changed, use_causal_mask=True).numpy()[:, :2], y[:, :2], rtol=1e-4, atol=1e-6
    )


def test_multi_head_attention_by_hand():
    layer = layers.MultiHeadAttention(1, 4, use_bias=False)
    layer(QUERY, VALUE)
    eye = np.eye(4, dtype="float32")
    layer.set_weights([eye[:, None], eye[:, None], eye[:, None], eye[None]])
    scores = QUERY @ VALUE.transpose(0, 2, 1) / 2
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(layer(QUERY, VALUE).numpy(), weights @ VALUE, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "layer",
    [layers.MultiHeadAttention(2, 3), layers.GroupedQueryAttention(3, 4, 2)],
    ids=["multi_head", "grouped"],
)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", ["none", "value_mask", "query_mask", "attention_mask"])
def test_the_output_is_the_same_with_and_without_weights(layer, causal, mask):
    seen = RNG.random((2, 3, 5)) < 0.5
    seen[1, 1] = False
    masks = {
        "none": {},
        "value_mask": {"value_mask": MASK},
        "query_mask": {"query_mask": MASK[:, :3]},
        "attention_mask": {"attention_mask": seen},
    }
    given = {"use_causal_mask": causal, **masks[mask]}
    y = layer(QUERY, VALUE, **given)
    expected, _ = layer(QUERY, VALUE, return_attention_scores=True, **given)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-6)


def test_weights_are_dropped_only_while_training():
    layer = layers.MultiHeadAttention(2, 3, dropout=0.9, seed=1)
    still, _ = layer(QUERY, VALUE, return_attention_scores=True)
    np.testing.assert_allclose(layer(QUERY, VALUE), still, rtol=1e-4, atol=1e-6)
    assert np.abs(layer(QUERY, VALUE, training=True).numpy() - still.numpy()).max() > 1e-3


def test_masks_of_embeddings_reach_attention():
    embedding = layers.Embedding(6, 4, mask_zero=True)
    tokens = np.array([[1, 2, 0, 3, 0], [1, 2, 3, 4, 5]])
    layer = layers.MultiHeadAttention(2, 3)
    _, weights = layer(QUERY, embedding(tokens), return_attention_scores=True)
    assert np.abs(weights.numpy()[0, :, :, [2, 4]]).max() < 1e-6


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: layers.Attention()(QUERY), InvalidArgumentError, r"\[query, value\]"),
        (
            lambda: layers.Attention()([QUERY, VALUE], mask=MASK),
            InvalidArgumentError,
            "mask must be a list",
        ),
        (lambda: layers.Attention(score_mode="cos"), InvalidArgumentError, "score_mode"),
        (lambda: layers.MultiHeadAttention(0, 3), InvalidArgumentError, "num_heads"),
        (
            lambda: layers.MultiHeadAttention(2, 3, flash_attention=True),
            InvalidArgumentError,
            "flash_attention",
        ),
        (
            lambda: layers.MultiHeadAttention(2, 3)(QUERY, VALUE, VALUE[:, :3]),
            ShapeError,
            "do not fit",
        ),
        (lambda: layers.GroupedQueryAttention(3, 4, 3), InvalidArgumentError, "a multiple of"),
    ],
)
def test_what_does_not_fit_is_named(call, error, text):
    with pytest.raises(error, match=text):
        call()
