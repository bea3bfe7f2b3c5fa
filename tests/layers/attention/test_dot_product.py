"""Attention layers: who may look where."""

import numpy as np
import pytest

from trainkit import keras, layers, ops
from trainkit.autodiff.tape import GradientTape
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.masks import set_mask

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
    seen[..., 0] = True
    query_seen = MASK[:, :3]
    masks = {
        "none": {},
        "value_mask": {"value_mask": MASK},
        "query_mask": {"query_mask": query_seen},
        "attention_mask": {"attention_mask": seen},
    }
    given = {"use_causal_mask": causal, **masks[mask]}
    y = layer(QUERY, VALUE, **given)
    expected, _ = layer(QUERY, VALUE, return_attention_scores=True, **given)
    whole = mask != "query_mask" or isinstance(layer, layers.MultiHeadAttention)
    rows = np.ones((2, 3), bool) if whole else query_seen
    np.testing.assert_allclose(y.numpy()[rows], expected.numpy()[rows], rtol=1e-4, atol=1e-6)


def test_a_query_mask_of_the_caller_changes_no_value_and_one_of_the_query_does():
    layer = layers.MultiHeadAttention(2, 3)
    seen = np.array([[True, True, False], [True, True, True]])
    plain = layer(QUERY, VALUE).numpy()
    passed = layer(QUERY, VALUE, query_mask=seen)
    np.testing.assert_allclose(passed, plain, rtol=1e-4, atol=1e-6)
    carrier = ops.convert_to_tensor(QUERY)
    set_mask(carrier, ops.convert_to_tensor(seen))
    hidden = layer(carrier, VALUE).numpy()
    np.testing.assert_allclose(hidden[seen], plain[seen], rtol=1e-4, atol=1e-6)
    even = layer(QUERY * 0, VALUE).numpy()  # equal scores: the mean of all values
    np.testing.assert_allclose(hidden[~seen], even[~seen], rtol=1e-4, atol=1e-6)
    assert np.abs(hidden[~seen] - plain[~seen]).max() > 1e-3


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
            lambda: layers.MultiHeadAttention(2, 3, flash_attention=True, dropout=0.5),
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


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("scores", [False, True])
def test_queries_that_see_nothing_get_the_mean_only_where_keras_gives_it(dropout, scores):
    # Keras 3.15: without dropout and weights it asks dot_product_attention, whose softmax of equal
    # scores is even; otherwise its Softmax layer puts zeros in place of what is masked.
    layer = layers.MultiHeadAttention(1, 2, dropout=dropout, use_bias=False)
    x = np.random.default_rng(0).normal(size=(1, 3, 2)).astype("float32")
    mask = np.array([[[True, True, False], [False] * 3, [True] * 3]])
    y = layer(x, x, attention_mask=mask, return_attention_scores=scores)
    y = np.asarray(y[0] if scores else y)
    value, out = (w.numpy() for w in layer.weights[2:])
    mean = (x[0] @ value[:, 0]).mean(axis=0) @ out[0]
    want = np.zeros(2) if dropout or scores else mean
    np.testing.assert_allclose(y[0, 1], want, rtol=1e-4, atol=1e-6)


def test_a_query_that_a_causal_mask_leaves_nothing_gets_the_mean():
    x = np.random.default_rng(0).normal(size=(2, 3, 2, 4)).astype("float32")
    mask = np.ones((2, 1, 3, 3), bool)
    mask[:, :, 0, 0] = False
    y = ops.dot_product_attention(x, x, x, mask=mask, is_causal=True)
    np.testing.assert_allclose(y[:, 0], x.mean(axis=1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        y,
        ops.dot_product_attention(
            x, x, x, bias=np.zeros(1, "float32"), mask=mask & np.tril(np.ones((3, 3), bool))
        ),
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.parametrize("rank", [2, 3, 4])
@pytest.mark.parametrize("grouped", [False, True])
def test_attention_masks_may_lack_batch_and_heads(rank, grouped):
    layer = layers.GroupedQueryAttention(3, 4, 2) if grouped else layers.MultiHeadAttention(4, 3)
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    lower = np.tril(np.ones((5, 5), bool))
    want = layer(x, x, use_causal_mask=True)
    mask = np.broadcast_to(lower, {2: (5, 5), 3: (2, 5, 5), 4: (2, 4, 5, 5)}[rank])
    for scores in (False, True):
        y = layer(x, x, attention_mask=mask, return_attention_scores=scores)
        np.testing.assert_allclose(y[0] if scores else y, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_a_sliding_window_hides_what_is_far(causal):
    layer = layers.MultiHeadAttention(2, 3, sliding_window=2)
    x = np.random.default_rng(0).normal(size=(1, 5, 4)).astype("float32")
    weights = layer(x, x, return_attention_scores=True, use_causal_mask=causal)[1].numpy()
    steps = np.arange(5)[:, None] - np.arange(5)
    near = (np.abs(steps) < 2) & ((steps >= 0) | (not causal))
    np.testing.assert_array_equal(weights > 0, np.broadcast_to(near, weights.shape))
    assert layer.get_config()["sliding_window"] == 2
    with pytest.raises(ValueError, match="sliding_window"):
        layers.MultiHeadAttention(2, 3, sliding_window=0)


@pytest.mark.parametrize(
    "make",
    [
        lambda **more: layers.MultiHeadAttention(2, 3, **more),
        lambda **more: layers.GroupedQueryAttention(3, 2, 1, **more),
    ],
)
def test_a_gate_multiplies_the_values(make):
    x = np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32")
    gated, plain = make(use_gate=True), make()
    gated(x, x), plain(x, x)
    assert len(gated.weights) == len(plain.weights) + 2
    assert [w.path.split("/")[-2] for w in gated.weights[::2]] == [
        "query", "key", "gate", "value", "attention_output",
    ]  # fmt: skip
    weights = gated.get_weights()
    weights[4][:], weights[5][:] = 0, 0  # sigmoid(0) is a half
    gated.set_weights(weights)
    plain.set_weights(weights[:4] + weights[6:])
    bias = plain.weights[-1].numpy()
    np.testing.assert_allclose(gated(x, x) - bias, (plain(x, x) - bias) / 2, rtol=1e-4, atol=1e-5)


def test_a_subclass_may_attend_in_its_own_way():
    class First(layers.MultiHeadAttention):
        def _compute_attention(
            self,
            query,
            key,
            value,
            attention_mask=None,
            training=None,
            return_attention_scores=False,
        ):
            self.__dict__["seen"] = attention_mask
            return ops.broadcast_to(value[:, :1], ops.shape(value)), None

    first = First(2, 3)
    x = np.random.default_rng(0).normal(size=(1, 4, 8)).astype("float32")
    y = first(x, x, use_causal_mask=True)
    np.testing.assert_allclose(y[:, 0], y[:, 3])
    np.testing.assert_array_equal(first.seen[0], np.tril(np.ones((4, 4), bool)))


def test_the_penalty_on_activity_is_that_of_each_projection():
    layer = layers.MultiHeadAttention(2, 3, activity_regularizer="l2")
    layer(np.ones((1, 3, 4), "float32"), np.ones((1, 3, 4), "float32"))
    assert len(layer.losses) == 4
    assert layer.get_config()["activity_regularizer"] is not None


def test_flash_attention_is_served_without_dropout_and_weights():
    x = np.random.default_rng(0).normal(size=(1, 4, 8)).astype("float32")
    flash, plain = (
        layers.MultiHeadAttention(2, 3, flash_attention=True),
        layers.MultiHeadAttention(2, 3),
    )
    flash(x, x), plain(x, x)
    plain.set_weights(flash.get_weights())
    np.testing.assert_allclose(flash(x, x), plain(x, x), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="return_attention_scores=True needs"):
        flash(x, x, return_attention_scores=True)
    with pytest.raises(ValueError, match="without dropout"):
        layers.MultiHeadAttention(2, 3, flash_attention=True, dropout=0.1)
    keras.config.enable_flash_attention()
    try:
        with pytest.raises(ValueError, match="without dropout"):
            layers.MultiHeadAttention(2, 3, dropout=0.1)
    finally:
        keras.config.disable_flash_attention()
    with pytest.raises(ValueError, match="flash_attention=True goes without"):
        ops.dot_product_attention(
            x[..., None], x[..., None], x[..., None], bias=1.0, flash_attention=True
        )


def test_attention_over_more_axes_and_checks():
    layer = layers.Attention()
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 8)).astype("float32")
    y, weights = layer([x, x], return_attention_scores=True, use_causal_mask=True)
    assert (y.shape, weights.shape) == ((2, 3, 4, 8), (2, 3, 4, 4))
    np.testing.assert_allclose(
        y[:, 1], layers.Attention()([x[:, 1], x[:, 1]], use_causal_mask=True), rtol=1e-5, atol=1e-6
    )
    mask = np.array([True, False, True])
    np.testing.assert_array_equal(layer.compute_mask([x, x], mask=[mask, mask]), mask)
    for kind in (layers.Attention, layers.AdditiveAttention):
        with pytest.raises(ValueError, match="takes a list"):
            kind()(x)


@pytest.mark.parametrize("mask", [np.ones((2, 3)), np.ones((1, 1, 3))])
def test_a_softmax_mask_must_broadcast_to_the_input(mask):
    with pytest.raises(ValueError, match="must broadcast"):
        layers.Softmax()(np.ones((1, 3), "float32"), mask=mask)


def test_dropout_checks_its_noise_shape_and_draws_only_if_it_has_to():
    for shape in ("Invalid", (20, 1.5), (20, -1), (0,), 3):
        with pytest.raises(ValueError, match="noise_shape must"):
            layers.Dropout(0.5, noise_shape=shape)
    assert not hasattr(layers.Dropout(0.0), "seed_generator")
    assert layers.Dropout(0.0).variables == []
    assert len(layers.Dropout(0.5).variables) == 1


def test_attention_without_steps_is_zeros_as_in_keras():
    steps, none = ops.ones((2, 3, 4)), ops.zeros((2, 0, 4))
    layer = layers.MultiHeadAttention(2, 3)
    assert layer(none, none).shape == (2, 0, 4)
    with GradientTape() as tape:
        y = layer(steps, none)
    np.testing.assert_array_equal(y, np.zeros((2, 3, 4)))
    for g in tape.gradient(y, layer.trainable_variables)[:-1]:
        np.testing.assert_array_equal(g, np.zeros(g.shape))
