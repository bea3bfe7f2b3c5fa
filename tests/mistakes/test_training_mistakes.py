"""What trains to no use, or not at all: one warning, or an error, with the mend."""

import re
import warnings

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.dispatch import crossed_samples, native

layers = tk.layers
RNG = np.random.default_rng(0)

X = RNG.normal(size=(16, 8)).astype("float32")
BINARY = (X[:, :1] > 0).astype("float32")
CLASS = np.arange(16) % 3


def model_of(*stack, loss="mse", **settings):
    model = tk.Sequential([tk.Input((8,)), *stack])
    model.compile(settings.pop("optimizer", "adam"), loss, **settings)
    return model


def fitted(*stack, y=BINARY, fit=None, **settings):
    return model_of(*stack, **settings).fit(X, y, verbose=0, **(fit or {}))


def with_nan(array, value=np.nan):
    array = array.copy()
    array[3, 0] = value
    return array


class Stepping(tk.Model):
    """A model whose steps give what they are told."""

    def __init__(self, gives):
        super().__init__()
        self.dense, self.gives = layers.Dense(1), gives
        self.compile("sgd", "mse")

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        return self.gives(self, data)

    test_step = train_step


def frozen():
    model = model_of(layers.Dense(1))
    model.trainable = False
    return model.fit(X, BINARY, verbose=0)


def second_model():
    first = model_of(layers.Dense(1))
    first.fit(X, BINARY, verbose=0)
    return fitted(layers.Dense(1), optimizer=first.optimizer)


SCE, BCE = tk.losses.SparseCategoricalCrossentropy, tk.losses.BinaryCrossentropy
SPARSE = "sparse_categorical_crossentropy"

WARNED = {
    "AUC of logits": (
        lambda: fitted(layers.Dense(1), loss=BCE(True), metrics=[tk.metrics.AUC()]),
        r"AUC 'auc\w*' compares scores .* from -.* the metric from_logits=True",
    ),
    "AUC of scores": (
        lambda: tk.metrics.AUC().update_state([0, 1], [2.0, 5.0]),
        r"\[0, 1\], and they go from 2 to 5",
    ),
    "recall of logits": (
        lambda: tk.metrics.Recall().update_state([0, 1], [-2.0, 5.0]),
        "ops.sigmoid.* thresholds=0",
    ),
    "a rate of logits": (
        lambda: tk.metrics.RecallAtPrecision(0.5).update_state([0, 1], [-2.0, 5.0]),
        r"\(y_pred\)$",
    ),
    "softmax over one unit as a layer": (
        lambda: fitted(layers.Dense(1), layers.Softmax(), loss="binary_crossentropy"),
        "are all 1, as",
    ),
    "frozen weights": (frozen, "has 2 weights, and none of them is trainable"),
    "one optimizer for two models": (second_model, r"'adam\w*' of model .* of other weights"),
    "relu before logits": (
        lambda: fitted(layers.Dense(3, "relu"), loss=SCE(True), y=CLASS),
        "the last layer no activation",
    ),
    "relu for probabilities": (
        lambda: fitted(layers.Dense(3), layers.ReLU(), loss=SPARSE, y=CLASS),
        "activation='softmax'",
    ),
    "relu for one probability": (
        lambda: fitted(layers.Dense(1, "relu"), loss="binary_crossentropy"),
        "activation='sigmoid'",
    ),
    "sigmoid of classes": (
        lambda: fitted(layers.Dense(3, "sigmoid"), loss=SPARSE, y=CLASS),
        "each by itself.*several labels",
    ),
    "sigmoid for logits of classes": (
        lambda: fitted(layers.Dense(3, "sigmoid"), loss=SCE(True), y=CLASS),
        "no activation",
    ),
    "NaN to validate with": (
        lambda: fitted(layers.Dense(1), fit={"validation_data": (with_nan(X), BINARY)}),
        r"is NaN, and the validation data is not finite: x has NaN in 1 of 128 places, \[3, 0\]",
    ),
    "inf to validate with": (
        lambda: fitted(layers.Dense(1), fit={"validation_data": (X, with_nan(BINARY, np.inf))}),
        r"is inf, and the validation data is not finite: y has inf in 1 of 16 places",
    ),
    "NaN in a data set to validate with": (
        lambda: fitted(
            layers.Dense(1),
            fit={
                "validation_data": tk.data.Dataset.from_tensor_slices((with_nan(X), BINARY))
                .map(lambda x, y: (x * 2.0, y))
                .shuffle(16)
                .batch(4)
            },
        ),
        "the validation data is not finite: x has NaN in 1 of 128 places",
    ),
    "NaN to evaluate": (
        lambda: model_of(layers.Dense(1)).evaluate(with_nan(X), BINARY, verbose=0),
        "evaluate: the loss is NaN",
    ),
    "inf to train with": (
        lambda: fitted(layers.Dense(1), y=with_nan(BINARY, np.inf)),
        "fit: the loss is inf.*y has inf",
    ),
    "a class without a weight": (
        lambda: fitted(
            layers.Dense(3, "softmax"), loss=SPARSE, y=CLASS, fit={"class_weight": {1: 2.0}}
        ),
        "no weight for the classes 0, 2 of the targets, which counts 1",
    ),
    "a class of a data set without a weight": (
        lambda: model_of(layers.Dense(3, "softmax"), loss=SPARSE).fit(
            tk.data.Dataset.from_tensor_slices((X, CLASS)).batch(8),
            verbose=0,
            class_weight={0: 1.0, 1: 2.0},
        ),
        "no weight for class 2 of",
    ),
}


@pytest.mark.parametrize("case", WARNED)
def test_nonsense_that_trains_is_warned_of_once(case):
    call, text = WARNED[case]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("default")
        call()
    # NumPy says what infinities do to its arithmetic
    [message] = [str(w.message) for w in heard if w.category is not RuntimeWarning]
    assert re.search(text, message.partition(" (tk.config")[0])


REFUSED = {
    "a step that gives nothing": (
        lambda: Stepping(lambda model, data: None).fit(X, BINARY, verbose=0),
        r"Stepping.train_step must return a dict .* it gave None: does it end with `return`\?",
    ),
    "a step that gives the loss": (
        lambda: Stepping(lambda model, data: tk.constant(1.0)).fit(X, BINARY, verbose=0),
        "gave a Tensor",
    ),
    "a step on one batch": (
        lambda: Stepping(lambda model, data: None).train_on_batch(X, BINARY),
        "train_step must return",
    ),
    "a test that gives nothing": (
        lambda: Stepping(lambda model, data: None).evaluate(X, BINARY, verbose=0),
        "test_step must return",
    ),
    "epochs as text": (
        lambda: fitted(layers.Dense(1), fit={"epochs": "3"}),
        r"epochs .* got '3' \(str\); give the number 3",
    ),
    "half an epoch": (
        lambda: fitted(layers.Dense(1), fit={"epochs": 1.5}),
        "whole number, got 1.5",
    ),
    "epochs below 0": (
        lambda: fitted(layers.Dense(1), fit={"epochs": -1}),
        "epochs must be at least 0",
    ),
    "a batch size as text": (
        lambda: fitted(layers.Dense(1), fit={"batch_size": "8"}),
        "batch_size must be a whole number",
    ),
    "steps as text": (
        lambda: fitted(layers.Dense(1), fit={"steps_per_epoch": "x"}),
        r"steps_per_epoch .*\(str\)$",
    ),
    "texts as labels": (
        lambda: fitted(layers.Dense(2, "softmax"), loss=SPARSE, y=np.array(["cat", "dog"] * 8)),
        r"the targets y are texts, such as '(cat|dog)', and the loss .*numpy\.unique",
    ),
    "texts as a list": (
        lambda: model_of(layers.Dense(1)).evaluate(X, ["cat", "dog"] * 8, verbose=0),
        "targets y are texts",
    ),
    "texts for one of two outputs": (
        lambda: two_outputs().fit(X, {"b": ["u", "v"] * 8, "a": BINARY}, verbose=0),
        r"y\['b'\] are texts",
    ),
    "a label without a unit": (
        lambda: fitted(layers.Dense(2, "softmax"), loss=SPARSE, y=CLASS),
        "2 classes, and the last layer",
    ),
}


def two_outputs():
    x = tk.Input((8,))
    model = tk.Model(x, {"b": layers.Dense(1)(x), "a": layers.Dense(1)(x)})
    model.compile("sgd", {"a": "mse", "b": "mse"})
    return model


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_refused(case):
    call, text = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=text):
        call()


@pytest.mark.parametrize("name", ["model.keras", "model.h5"])
def test_saving_a_model_that_is_not_built(tmp_path, name):
    model = tk.Sequential([layers.Dense(1)])
    with pytest.warns(UserWarning, match="is not built, so the file has no weights") as heard:
        model.save(tmp_path / name)
    assert len(heard) == 1
    model.build((None, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.save(tmp_path / name)


def sound_step(model, data):
    x, y = data
    model.dense(x)
    return {"distance": tk.reduce_mean(y)}


def test_what_only_looks_like_a_mistake_trains_in_silence():
    part = model_of(layers.Dense(4, "relu"), layers.Dense(1))
    part.layers[0].trainable = False
    part.compile("adam", "mse")
    part.fit(X, BINARY, verbose=0)
    again = tk.Sequential([*part.layers, layers.Dense(1)])
    again.compile(part.optimizer, "mse")  # it goes on with weights of the same layers
    again.fit(X, BINARY, verbose=0)
    Stepping(sound_step).fit(X, BINARY, epochs=np.int64(2), batch_size=np.int32(8), verbose=0)
    metrics = [tk.metrics.AUC(from_logits=True), tk.metrics.Precision(thresholds=0)]
    fitted(layers.Dense(1), loss=BCE(True), metrics=metrics, fit={"epochs": 2.0})
    fitted(layers.Dense(3, "relu"), layers.Dense(1, "sigmoid"), loss=BCE(), metrics=["accuracy"])
    fitted(layers.Dense(3, "sigmoid"), loss=BCE(), y=np.eye(3)[CLASS])  # labels at once
    fitted(layers.Dense(1, "relu"), loss="mse")
    weights = {0: 1.0, 1: 2.0, 2: 1.0, 3: 5.0}
    fitted(layers.Dense(3, "softmax"), loss=SPARSE, y=CLASS, fit={"class_weight": weights})


# ------------------------------------------------------------------ targets (n,), outputs (n, 1)


class Line(tk.Model):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(1)
        self.compile("sgd", "mse")

    def call(self, x):
        return self.dense(x)


class OwnStep(Line):
    def train_step(self, data):
        x, y = data
        with tk.GradientTape() as tape:
            loss = tk.reduce_mean((tk.cast(y, "float32") - self(x)) ** 2)
        weights = self.trainable_variables
        self.optimizer.apply(tape.gradient(loss, weights), weights)
        return {"loss": loss}


class EagerLoss(Line):
    def compile(self, *args, **options):
        super().compile(*args, run_eagerly=True, **options)

    def compute_loss(self, x, y, y_pred, sample_weight=None, training=True):
        return tk.reduce_mean((y - y_pred) ** 2)


class OwnLoss(Line):
    def compute_loss(self, x, y, y_pred, sample_weight=None, training=True):
        return tk.reduce_mean((y - y_pred) ** 2)


def own_loop(y, make=lambda step: step):
    model = Line()
    model.build((None, 8))
    model.optimizer.build(model.trainable_variables)

    def step(x, y):
        with tk.GradientTape() as tape:
            loss = tk.reduce_mean(tk.abs(model(x) - y))
        weights = model.trainable_variables
        model.optimizer.apply(tape.gradient(loss, weights), weights)
        return loss

    step = make(step)
    step(X, y)
    step(X, y)


def gradients(y):
    """A function that assigns nothing, as loops of others' optimizers have it."""
    weight, bias = tk.Variable(tk.ones((8, 1))), tk.Variable([0.0])

    @tk.function
    def step(x, y):
        with tk.GradientTape() as tape:
            loss = tk.reduce_mean((y - tk.nn.sigmoid(tk.matmul(x, weight) + bias)) ** 2)
        return tape.gradient(loss, weight)

    step(X, y)


CROSSED = {
    "train_step": lambda y: OwnStep().fit(X, y, batch_size=4, verbose=0),
    "compute_loss": lambda y: OwnLoss().fit(X, y, batch_size=4, verbose=0),
    "step": own_loop,
    "step of a function": lambda y: own_loop(y, tk.function),
    "step that gives gradients": gradients,
    "compute_loss run eagerly": lambda y: EagerLoss().fit(X, y, batch_size=4, verbose=0),
}


@pytest.fixture(params=["compiled", "python"])
def eager_path(request):
    before = native.switch(request.param == "compiled")
    yield
    native.switch(before)


@pytest.mark.usefixtures("eager_path")
@pytest.mark.parametrize("where", CROSSED)
def test_targets_that_meet_each_output_of_the_batch(where, monkeypatch):
    monkeypatch.setattr(crossed_samples, "SHOWN", set())
    name = where.partition(" ")[0]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("default")
        CROSSED[where](BINARY[:, 0].astype("float32"))
    assert len(heard) == 1
    assert re.search(rf"number for each pair .*, in {name}: reshape", str(heard[0].message))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CROSSED[where](BINARY)


def test_pairs_that_are_meant_are_left_alone():
    weight = tk.Variable(np.ones((4, 1), "float32"))

    @tk.function
    def step(x, factor):
        distances = x[:, None] - x  # of one argument
        weight.assign_add(weight * factor[:1])
        return distances + tk.reduce_sum(weight), weight * factor

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(np.ones(4, "float32"), np.ones(4, "float32"))


def test_columns_that_were_made_on_purpose_are_left_alone():
    embedding, places = tk.Variable(tk.ones((4, 3))), tk.constant(np.ones(4, "float32"))
    with warnings.catch_warnings(), tk.GradientTape():
        warnings.simplefilter("error")
        norms = tk.reduce_sum(embedding**2, axis=1, keepdims=True)
        norms - places
        2.0 * tk.expand_dims(tk.matmul(embedding, tk.ones((3,))), 1) - places
        embedding[:, :1] * places
        tk.matmul(embedding, tk.ones((3, 1))) - tk.ones(1)
        tk.matmul(embedding, tk.ones((3, 1))) - embedding[:, 0]
