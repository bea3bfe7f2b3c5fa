"""Losses that users write: classes, functions, structures, masks that tensors carry."""

import gc

import numpy as np
import pytest

import trainkit as tk
from trainkit import losses, ops
from trainkit.core.masks import HELD, mask_of, set_mask

Y = np.array([[1.0], [2.0], [4.0]], "float32")
P = np.array([[0.5], [4.0], [1.0]], "float32")


class Squares(losses.Loss):
    def call(self, y_true, y_pred):
        return ops.mean(ops.square(y_pred - y_true), axis=-1)


class Doubled(Squares):
    """Keras's signature, which has no `mask`."""

    def __call__(self, y_true, y_pred, sample_weight=None):
        return 2.0 * super().__call__(y_true, y_pred, sample_weight)


def function(y_true, y_pred):
    return ops.mean(ops.square(y_pred - y_true), axis=-1)


def closure(factor):
    def of(y_true, y_pred):
        return factor * function(y_true, y_pred)

    return of


def model_with(loss, **options):
    model = tk.keras.Sequential(
        [tk.keras.Input((1,)), tk.keras.layers.Dense(1, kernel_initializer="ones")]
    )
    model.compile("sgd", loss=loss, **options)
    return model


@pytest.mark.parametrize("run_eagerly", [True, False])
@pytest.mark.parametrize(
    ("loss", "factor"),
    [(Squares(), 1), (Doubled(), 2), (function, 1), (closure(3.0), 3), ("mse", 1)],
    ids=["class", "call", "function", "closure", "name"],
)
@pytest.mark.parametrize("flat", [False, True])
def test_losses_of_users_are_trained_on(loss, factor, flat, run_eagerly):
    model = model_with(loss, run_eagerly=run_eagerly)
    y = Y[:, 0] if flat and not isinstance(loss, losses.Loss) else Y
    wanted = factor * float(np.mean((P - Y) ** 2))
    assert model.evaluate(P, y, verbose=0) == pytest.approx(wanted, rel=1e-6)
    weights = np.array([1.0, 0.0, 2.0])
    wanted = factor * float(np.sum(weights[:, None] * (P - Y) ** 2)) / 3
    found = model.evaluate(P, y, sample_weight=weights, verbose=0)
    assert found == pytest.approx(wanted, rel=1e-6)
    model.fit(P, y, epochs=1, verbose=0)


def test_functions_get_targets_of_the_rank_of_the_predictions():
    loss = losses.LossFunctionWrapper(function)
    assert float(loss(Y[:, 0], P)) == float(loss(Y, P)) == float(loss(Y, P[:, 0]))


@pytest.mark.parametrize("dtype", ["uint8", "int32", "bool", "float64"])
def test_functions_get_targets_of_the_loss_dtype(dtype):
    seen = []

    def centred(y_true, y_pred):
        seen.append(y_true.dtype.name)
        return (y_true - 1 - y_pred) ** 2

    loss = losses.LossFunctionWrapper(centred, reduction="none")
    found = loss(np.array([0, 1], dtype), tk.constant([0.0, 0.0]))
    np.testing.assert_array_equal(found, [1.0, 0.0])
    assert seen == ["float32"]


def test_class_numbers_stay_integers_whatever_their_size():
    labels = np.array([2**24 + 1, 3])
    seen = []

    @losses.loss.of_class_numbers
    def looks(y_true, y_pred):
        seen.append(y_true)
        return ops.zeros_like(y_pred)

    losses.LossFunctionWrapper(looks)(labels, np.zeros(2))
    np.testing.assert_array_equal(seen[0], labels)


@pytest.mark.parametrize(
    "given", [lambda a, b: (a, b), lambda a, b: [a, b], lambda a, b: {"z": a, "b": b}]
)
def test_structures_reach_call_as_they_are(given):
    class Both(losses.Loss):
        def call(self, y_true, y_pred):
            assert type(y_pred) is type(given(0, 0))
            pairs = zip(tk.nest.flatten(y_true), tk.nest.flatten(y_pred), strict=True)
            return sum(ops.mean(ops.square(a - b), axis=-1) for a, b in pairs)

    loss = Both()(given(Y, 2 * Y), given(tk.constant(P), P))
    assert float(loss) == pytest.approx(float(np.mean((Y - P) ** 2 + (2 * Y - P) ** 2)))


def test_a_function_that_forgets_its_result_is_named():
    def forgetful(y_true, y_pred):
        ops.square(y_pred - y_true)

    with pytest.raises(TypeError, match="loss 'forgetful' gave None: does its function return"):
        losses.LossFunctionWrapper(forgetful)(Y, P)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "sum", "none"])
@pytest.mark.parametrize(
    "kind",
    [
        losses.BinaryCrossentropy,
        losses.BinaryFocalCrossentropy,
        losses.CategoricalCrossentropy,
        losses.CategoricalFocalCrossentropy,
        losses.CategoricalGeneralizedCrossEntropy,
        losses.CategoricalHinge,
        losses.Circle,
        losses.CosineSimilarity,
        losses.Dice,
        losses.Hinge,
        losses.Huber,
        losses.KLDivergence,
        losses.LogCosh,
        losses.MeanAbsoluteError,
        losses.MeanAbsolutePercentageError,
        losses.MeanSquaredError,
        losses.MeanSquaredLogarithmicError,
        losses.Poisson,
        losses.SparseCategoricalCrossentropy,
        losses.SquaredHinge,
        losses.Tversky,
        Squares,
    ],
)
def test_a_loss_has_its_dtype(kind, reduction, dtype):
    loss = kind(dtype=dtype, reduction=reduction)
    y_true = [0, 1] if kind in (losses.SparseCategoricalCrossentropy, losses.Circle) else np.eye(2)
    assert loss(y_true, [[0.2, 0.8], [0.3, 0.7]]).dtype == dtype
    weighted = loss(y_true, [[0.2, 0.8], [0.3, 0.7]], sample_weight=[1.0, 2.0])
    assert weighted.dtype == dtype


# ------------------------------------------------------------------ masks that tensors carry


def carrying(values, mask):
    x = tk.constant(values)
    set_mask(x, tk.constant(mask))
    return x


@pytest.mark.parametrize("mask", [[[True], [False], [True]], [True, False, True]])
def test_values_whose_predictions_are_masked_do_not_count(mask):
    found = losses.MeanSquaredError()(Y, carrying(P, mask))
    assert float(found) == pytest.approx((0.25 + 9) / 2)
    weighted = Squares()(Y, carrying(P, mask), sample_weight=[2.0, 5.0, 0.0])
    assert float(weighted) == pytest.approx(0.5 / 2)


def test_a_mask_that_call_sets_joins_that_of_the_predictions():
    class OnlyLarge(Squares):
        def call(self, y_true, y_pred):
            values = super().call(y_true, y_pred)
            set_mask(values, ops.greater(values, 1.0))
            return values

    assert float(OnlyLarge()(Y, P)) == pytest.approx((4 + 9) / 2)
    assert float(OnlyLarge()(Y, carrying(P, [True, True, False]))) == pytest.approx(4.0)


@pytest.mark.parametrize("compiled", [False, True])
def test_an_own_loop_honours_masks_as_fit_does(compiled):
    x = np.array([[[1.0], [0.0], [3.0]], [[2.0], [5.0], [0.0]]], "float32")
    y = np.ones((2, 3, 1), "float32")
    model = tk.keras.Sequential(
        [
            tk.keras.Input((3, 1)),
            tk.keras.layers.Masking(),
            tk.keras.layers.Dense(1, kernel_initializer="ones"),
        ]
    )
    model.compile("sgd", "mse")
    loss = losses.MeanSquaredError()

    def step(x, y):
        return loss(y, model(x))

    step = tk.function(step) if compiled else step
    wanted = float(np.mean((x[x != 0] - 1) ** 2))
    assert float(step(tk.constant(x), y)) == pytest.approx(wanted)
    assert model.evaluate(x, y, verbose=0) == pytest.approx(wanted)


def test_a_subclass_of_a_loss_with_a_mask_of_its_own_may_override_call():
    class Twice(losses.SparseCategoricalCrossentropy):
        def call(self, y_true, y_pred):
            values = super().call(y_true, y_pred)
            doubled = 2 * values
            set_mask(doubled, mask_of(values))
            return doubled

    labels, chances = [0, -1, 1], [[0.5, 0.5], [0.1, 0.9], [0.25, 0.75]]
    once = losses.SparseCategoricalCrossentropy(ignore_class=-1)(labels, chances)
    assert float(once) == pytest.approx(-(np.log(0.5) + np.log(0.75)) / 2, rel=1e-6)
    assert float(Twice(ignore_class=-1)(labels, chances)) == pytest.approx(2 * float(once))


def test_masks_of_losses_go_with_their_values():
    losses.SparseCategoricalCrossentropy(ignore_class=0)([0, 1], [[0.5, 0.5], [0.5, 0.5]])
    gc.collect()
    assert not HELD


# ------------------------------------------------------------------ what is said


@pytest.mark.parametrize(
    "kind", [losses.categorical_crossentropy, losses.categorical_focal_crossentropy]
)
def test_one_class_is_warned_of(kind):
    with pytest.warns(SyntaxWarning, match=r"use binary_crossentropy"):
        kind([[1.0], [0.0]], [[0.3], [0.7]])


def test_one_hot_labels_of_a_loss_of_class_numbers_name_the_other_loss():
    with pytest.raises(ValueError, match="For one-hot labels use CategoricalCrossentropy"):
        losses.SparseCategoricalCrossentropy()(np.eye(3), np.full((3, 3), 1 / 3))


@pytest.mark.parametrize("batch", [None, 4])
def test_circle_is_traced_for_batches_of_any_size(batch):
    rng = np.random.default_rng(0)
    embeddings = rng.normal(size=(4, 3)).astype("float32")
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    loss, labels = losses.Circle(gamma=4.0), np.array([0, 0, 1, 1])
    traced = tk.function(
        loss.__call__,
        input_signature=[tk.TensorSpec((batch,), "int64"), tk.TensorSpec((batch, 3), "float32")],
    )
    found = float(traced(labels, embeddings))
    assert found == pytest.approx(float(loss(labels, embeddings)), rel=1e-6)


def test_a_config_names_the_dtype_only_where_it_was_given():
    assert losses.Huber(2.0).get_config() == {
        "name": "huber_loss",
        "reduction": "sum_over_batch_size",
        "delta": 2.0,
    }
    again = losses.get(losses.serialize(losses.Huber(2.0, dtype="float64")))
    assert again.dtype == "float64"


# ------------------------------------------------------------------ names and attributes


@pytest.mark.parametrize("family", [losses, tk.keras.metrics], ids=["losses", "metrics"])
def test_short_names_are_the_functions(family):
    assert family.MSE is family.mse is family.mean_squared_error
    assert family.KLD is family.kullback_leibler_divergence is family.kl_divergence
    assert family.logcosh is family.log_cosh


def test_settings_can_be_read():
    assert losses.BinaryCrossentropy(from_logits=True).from_logits
    assert losses.Tversky(0.3, 0.7).beta == 0.7
    assert tk.keras.metrics.BinaryCrossentropy(label_smoothing=0.1).label_smoothing == 0.1
    wrapped = losses.LossFunctionWrapper(lambda y, p, name, fn: y, name="x", dtype="float64")
    assert wrapped.name == "x"


def test_tensorflow_names_of_reductions():
    loss = losses.MeanSquaredError(reduction=losses.Reduction.NONE)
    assert tuple(loss(Y, P).shape) == (3,)
    assert float(losses.MeanSquaredError(losses.Reduction.AUTO)(Y, P)) > 0
    with pytest.raises(ValueError, match="'most' is no reduction"):
        losses.Reduction.validate("most")


# ------------------------------------------------------------------ numbers of Keras 3.15


@pytest.mark.parametrize("weight", [2.0, [2.0], [[2.0]]])
def test_one_weight_for_all_is_counted_once(weight):
    loss = losses.MeanSquaredError("mean_with_sample_weight")
    assert float(loss(Y, P, sample_weight=weight)) == pytest.approx(13.25)  # the sum


@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "sum", "none"])
@pytest.mark.parametrize("weights", [None, np.zeros((0,))])
def test_no_samples_give_no_values(reduction, weights):
    found = losses.MeanSquaredError(reduction)(Y[:0], P[:0], sample_weight=weights)
    assert tuple(found.shape) == (0,)
