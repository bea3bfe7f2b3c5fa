"""Likely mistakes are told on the first batch, once; right programs hear nothing."""

import re
import warnings

import numpy as np
import pytest

import trainkit as tk
from trainkit.models.training.first_batch import FirstBatchWarning

RNG = np.random.default_rng(0)
N = 16
X = RNG.normal(size=(N, 5)).astype("float32")
CLASS = np.arange(N) % 3
ONE_HOT = np.eye(3, dtype="float32")[CLASS]
BINARY = (np.arange(N) % 2).astype("float32")
NUMBER = RNG.normal(size=N).astype("float32") * 10
IMAGES = RNG.integers(0, 256, (N, 12, 12, 3)).astype("float32")

losses, layers = tk.losses, tk.layers


class Pairs(losses.Loss):
    """Forgets that targets lack the last axis."""

    def call(self, y_true, y_pred):
        return tk.square(y_true - y_pred)


class Reshaped(losses.Loss):
    def call(self, y_true, y_pred):
        return tk.square(y_true - tk.squeeze(y_pred, -1))


class Contrastive(losses.Loss):
    """Pairs on purpose: of targets among themselves, and of outputs."""

    def call(self, y_true, y_pred):
        same = tk.cast(tk.equal(y_true[:, None], y_true), "float32")
        apart = tk.square(y_pred - tk.transpose(y_pred))
        return tk.reduce_mean(same * apart, axis=-1)


class ByValues(losses.Loss):
    def call(self, y_true, y_pred):
        return tk.square(tk.constant(y_true.numpy()) - tk.squeeze(y_pred, -1))


class Multi(tk.Model):
    """A subclass that is fed images as they are, or scales them itself."""

    def __init__(self, scale):
        super().__init__()
        self.scale, self.convolution = scale, layers.Conv2D(4, 3)
        self.head = tk.Sequential([layers.Flatten(), layers.Dense(3, "softmax")])

    def call(self, x):
        return self.head(self.convolution(x * self.scale if self.scale else x))


def dense(units, activation=None):
    return tk.Sequential([layers.Dense(units, activation)])


def images(*first):
    head = [layers.Conv2D(4, 3), layers.Flatten(), layers.Dense(3, "softmax")]
    return tk.Sequential([*first, *head])


SPARSE, CATEGORICAL = losses.SparseCategoricalCrossentropy, losses.CategoricalCrossentropy
BCE = losses.BinaryCrossentropy
ACCURACY = ["accuracy"]

WRONG = {
    "probabilities for logits": (dense(3, "softmax"), X, CLASS, SPARSE(from_logits=True), None,
                                 "which add up to 1: leave from_logits away"),
    "softmax one-hot": (dense(3, "softmax"), X, ONE_HOT, CATEGORICAL(from_logits=True), None,
                        "which add up to 1: leave from_logits away"),
    "sigmoid for logits": (dense(1, "sigmoid"), X, BINARY, BCE(from_logits=True), None,
                           "probabilities of a sigmoid: leave from_logits away"),
    "sigmoid reshaped": (tk.Sequential([layers.Dense(1, "sigmoid"), layers.Reshape(())]), X, BINARY,
                         BCE(from_logits=True), None, "probabilities of a sigmoid"),
    "logits for probabilities": (dense(3), X, CLASS, "sparse_categorical_crossentropy", None,
                                 "from_logits=True, or the last layer activation='softmax'"),
    "logits one-hot": (dense(3), X, ONE_HOT, "categorical_crossentropy", None, "from_logits=True"),
    "logits binary": (dense(1), X * 9, BINARY, "binary_crossentropy", None,
                      "give it from_logits=True, or the last layer activation='sigmoid'"),
    "labels 1 and 2": (dense(1, "sigmoid"), X, BINARY + 1, "binary_crossentropy", None,
                       "number the two classes 0 and 1"),
    "labels -1 and 1": (dense(1), X, 2 * BINARY - 1, BCE(from_logits=True), None,
                        "number the two classes 0 and 1"),
    "all pairs": (dense(1), X, NUMBER, Pairs(), None,
                  r"shape \(16,\) and outputs of shape \(16, 1\) to one number for each"),
    "a column and rows": (dense(3), X, NUMBER[:, None], "mse", None, "with a whole row"),
    "images": (images(), IMAGES, CLASS, SPARSE(), None, r"values up to 255: begin with|Rescaling"),
    "images as bytes": (images(), IMAGES.astype("uint8"), CLASS, SPARSE(), None, "Rescaling"),
    "images flattened": (tk.Sequential([layers.Flatten(), layers.Dense(3, "softmax")]),
                         IMAGES[..., 0], CLASS, SPARSE(), None, "Rescaling"),
    "images of a subclass": (Multi(None), IMAGES, CLASS, SPARSE(), None, "Rescaling"),
    "accuracy of numbers": (dense(1), X, NUMBER, "mse", ACCURACY, "use 'mae' or 'r2_score'"),
    "accuracy of logits": (dense(1), X, BINARY, BCE(from_logits=True), ACCURACY,
                           r"metrics.BinaryAccuracy\(threshold=0.0\)"),
}  # fmt: skip

RIGHT = {
    "logits": (dense(3), X, CLASS, SPARSE(from_logits=True), ACCURACY),
    "probabilities": (dense(3, "softmax"), X, ONE_HOT, "categorical_crossentropy", ACCURACY),
    "binary": (dense(1, "sigmoid"), X, BINARY, "binary_crossentropy", ACCURACY),
    "binary logits": (dense(1), X, BINARY, BCE(from_logits=True),
                      [tk.metrics.BinaryAccuracy(threshold=0.0), "mse"]),
    "soft labels": (dense(1, "sigmoid"), X, 0.8 * BINARY + 0.1, "binary_crossentropy", ACCURACY),
    "one column": (dense(1), X, NUMBER, "mse", ["mae"]),
    "function": (dense(1), X, NUMBER, lambda a, b: tk.reduce_mean((a - b) ** 2), None),
    "whole numbers": (dense(1), X, np.round(NUMBER), "mse", ACCURACY),
    "reshaped": (dense(1), X, NUMBER, Reshaped(), None),
    "contrastive": (dense(1), X, CLASS.astype("float32"), Contrastive(), None),
    "rescaled": (images(layers.Rescaling(1 / 255)), IMAGES, CLASS, SPARSE(), ACCURACY),
    "scaled before": (images(), IMAGES / 255, CLASS, SPARSE(), ACCURACY),
    "centered": (images(layers.Rescaling(1 / 127.5, -1)), IMAGES, CLASS, SPARSE(), ACCURACY),
    "normalized inside": (images(layers.Conv2D(4, 1), layers.BatchNormalization()), IMAGES, CLASS,
                          SPARSE(), None),
    "scaled by a subclass": (Multi(1 / 255), IMAGES, CLASS, SPARSE(), None),
    "large numbers in a table": (dense(1), np.abs(X) * 200, NUMBER, "mse", None),
    "word numbers": (tk.Sequential([layers.Embedding(300, 4), layers.Flatten(), layers.Dense(1)]),
                     RNG.integers(0, 256, (N, 6)), NUMBER, "mse", None),
}  # fmt: skip


def fitted(model, x, y, loss, metrics, **more):
    model = tk.models.clone_model(model) if type(model) is not Multi else Multi(model.scale)
    model.compile("sgd", loss, metrics=metrics, **more)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for _ in range(2):
            model.fit(x, y, epochs=2, batch_size=N, verbose=0, shuffle=False)
    return [str(w.message) for w in heard if w.category is FirstBatchWarning]


@pytest.mark.parametrize("run_eagerly", [True, False])
@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_told_once_with_its_mend(case, run_eagerly):
    model, x, y, loss, metrics, text = WRONG[case]
    tk.random.set_seed(3)
    [heard] = fitted(model, x, y, loss, metrics, run_eagerly=run_eagerly)
    assert re.search(text, heard)
    assert "enable_first_batch_checks(False)" in heard


@pytest.mark.parametrize("run_eagerly", [True, False])
@pytest.mark.parametrize("case", RIGHT)
def test_a_right_program_hears_nothing(case, run_eagerly):
    tk.random.set_seed(3)
    assert fitted(*RIGHT[case], run_eagerly=run_eagerly) == []


def test_a_loss_that_looks_at_values_is_left_alone():
    assert fitted(dense(1), X, NUMBER, ByValues(), None, run_eagerly=True) == []


def test_one_flag_turns_them_off():
    arguments = WRONG["labels 1 and 2"][:5]
    assert tk.config.first_batch_checks_enabled()
    tk.config.enable_first_batch_checks(False)
    try:
        assert fitted(*arguments) == []
    finally:
        tk.config.enable_first_batch_checks(True)
    assert len(fitted(*arguments)) == 1


def test_labels_that_weights_take_out_are_left_alone():
    y = np.where(np.arange(N) < 4, -1, BINARY)
    model = dense(1, "sigmoid")
    model.compile("sgd", "binary_crossentropy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y, sample_weight=(y >= 0).astype("float32"), verbose=0)


def test_each_of_several_outputs_is_looked_at():
    inputs = tk.Input((5,))
    outputs = {"a": layers.Dense(3, name="a")(inputs), "b": layers.Dense(1, name="b")(inputs)}
    model = tk.Model(inputs, outputs)
    model.compile("sgd", {"a": "sparse_categorical_crossentropy", "b": "mse"})
    with pytest.warns(FirstBatchWarning, match="activation='softmax'"):
        model.fit(X, {"a": CLASS, "b": NUMBER}, verbose=0)


def test_a_new_compile_looks_again():
    model = dense(1, "sigmoid")
    for _ in range(2):
        model.compile("sgd", "binary_crossentropy")
        with pytest.warns(FirstBatchWarning, match="0 and 1"):
            model.train_on_batch(tk.constant(X), tk.constant(BINARY + 1))


class OrNothing(layers.Layer):
    def call(self, image, more=None):
        return image if more is None else image + more

    def compute_output_shape(self, image_shape, more_shape=None):
        return image_shape


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("given", [True, False])
def test_inputs_that_are_left_out_are_nothing_to_look_at(given, eager):
    image = tk.Input((12, 12, 3), name="image")
    more = tk.keras.Input((12, 12, 3), name="also", optional=True)
    flat = layers.Flatten()(OrNothing()(image, more))
    model = tk.Model({"image": image, "also": more}, layers.Dense(3, "softmax")(flat))
    model.compile("sgd", "sparse_categorical_crossentropy", run_eagerly=eager)
    scaled = IMAGES / 255
    for x in (
        {"also": scaled if given else None, "image": scaled},
        {"image": scaled, "also": scaled if given else None},
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error", FirstBatchWarning)
            model.fit(x, CLASS, verbose=0)
