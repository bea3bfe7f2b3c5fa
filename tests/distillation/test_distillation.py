"""A student learns from targets and from its teacher: numbers, training, saving, errors."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.distillation import (
    DistillationLoss,
    Distiller,
    FeatureDistillation,
    LogitsDistillation,
)

TEACHER = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, -1.0]], "float32")
STUDENT = np.array([[2.0, 1.0, 0.0], [0.5, 1.0, 1.0]], "float32")


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def divergence(teacher, student, temperature):
    p, q = softmax(teacher / temperature), softmax(student / temperature)
    return temperature**2 * np.mean(np.sum(p * np.log(p / q), -1))


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (LogitsDistillation(3.0), divergence(TEACHER, STUDENT, 3.0)),
        (LogitsDistillation(2.0, tk.losses.KLDivergence()), divergence(TEACHER, STUDENT, 2.0)),
        (LogitsDistillation(3.0, "mse"), 0.2824074),
        (LogitsDistillation(3.0, tk.losses.CategoricalCrossentropy(from_logits=True)), 1.2464230),
        (FeatureDistillation(), 2.5416667),
        (FeatureDistillation("cosine_similarity"), -0.2390457),
    ],
)
def test_losses_are_those_of_the_papers_and_of_keras(loss, expected):
    found = loss.compute_loss(tk.constant(TEACHER), tk.constant(STUDENT))
    assert float(found) == pytest.approx(expected, rel=1e-5)
    again = type(loss).from_config(loss.get_config())
    assert float(again.compute_loss(tk.constant(TEACHER), tk.constant(STUDENT))) == float(found)


def test_nested_outputs_are_compared_one_by_one():
    loss = FeatureDistillation({"a": "mse", "b": None, "c": "mae"})
    t = {name: tk.constant(TEACHER) for name in "abc"}
    s = {name: tk.constant(STUDENT) for name in "abc"}
    loss.validate_outputs(t, s)
    expected = np.mean((TEACHER - STUDENT) ** 2) + np.mean(abs(TEACHER - STUDENT))
    assert float(loss.compute_loss(t, s)) == pytest.approx(expected, rel=1e-6)
    with pytest.raises(ValueError, match="not nested like"):
        loss.validate_outputs([t["a"]], [s["a"]])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: LogitsDistillation(0.0), "greater than 0"),
        (lambda: LogitsDistillation("3"), "must be a number"),
        (lambda: LogitsDistillation(loss=[None, None]), "other than None"),
        (lambda: FeatureDistillation(None), "other than None"),
        (lambda: FeatureDistillation("nonsense"), "nonsense"),
    ],
)
def test_losses_refuse_what_means_nothing(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def network(hidden, name, more=()):
    inputs = tk.Input((5,))
    x = tk.layers.Dense(hidden, "relu", name=f"{name}_hidden")(inputs)
    for layer in more:
        x = layer(x)
    features = tk.layers.Dense(4, "tanh", name=f"{name}_features")(x)
    return tk.Model(inputs, tk.layers.Dense(3, name=f"{name}_logits")(features), name=name)


def data(n=32):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 5)).astype("float32"), rng.integers(0, 3, n)


LOGITS = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
FEATURES = FeatureDistillation("mse", "teacher_features", "student_features")


@pytest.mark.parametrize("run_eagerly", [True, False])
def test_the_parts_of_the_loss_add_up(run_eagerly):
    teacher, student = network(16, "teacher"), network(8, "student")
    x, y = data()
    losses = [LogitsDistillation(2.0), FEATURES]
    distiller = Distiller(teacher, student, losses, [0.5, 2.0], student_loss_weight=0.25)
    distiller.compile("sgd", LOGITS, metrics=["accuracy"], run_eagerly=run_eagerly)
    values = distiller.evaluate(x, y, batch_size=32, verbose=0, return_dict=True)

    features = {
        m: tk.Model(m.input, m.get_layer(f"{m.name}_features").output)(x).numpy()
        for m in (teacher, student)
    }
    logits = {m: m(x).numpy() for m in (teacher, student)}
    by_teacher = 0.5 * divergence(logits[teacher], logits[student], 2.0)
    by_teacher += 2.0 * np.mean((features[teacher] - features[student]) ** 2)
    by_target = float(LOGITS(y, logits[student]))
    assert values["student_loss"] == pytest.approx(by_target, rel=1e-5)
    assert values["distillation_loss"] == pytest.approx(by_teacher, rel=1e-4)
    total = 0.25 * by_target + 0.75 * by_teacher
    assert values["total_loss"] == pytest.approx(total, rel=1e-5)
    assert values["loss"] == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("run_eagerly", [True, False])
def test_only_the_student_is_trained_and_runs_once_a_step(run_eagerly):
    normalize = tk.layers.BatchNormalization(momentum=0.5)
    teacher = network(16, "teacher")
    student = network(8, "student", [normalize, tk.layers.Dropout(0.5)])
    x, y = data()
    before = teacher.get_weights()
    distiller = Distiller(teacher, student, FEATURES)
    distiller.compile(tk.optimizers.Adam(0.01), LOGITS, run_eagerly=run_eagerly)
    hidden = tk.Model(student.input, student.get_layer("student_hidden").output)(x).numpy()
    distiller.fit(x, y, batch_size=32, epochs=1, verbose=0)
    np.testing.assert_allclose(normalize.moving_mean.numpy(), hidden.mean(0) / 2, rtol=1e-4)
    history = distiller.fit(x, y, batch_size=8, epochs=15, verbose=0).history
    assert history["distillation_loss"][-1] < history["distillation_loss"][0]
    assert not teacher.trainable
    for a, b in zip(teacher.get_weights(), before, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(distiller.predict(x, verbose=0), student.predict(x, verbose=0))


def test_sample_weights_count_in_the_loss_by_targets():
    distiller = Distiller(
        network(16, "teacher"), network(8, "student"), LogitsDistillation(), None, 1.0
    )
    x, y = data()
    weights = np.where(np.arange(len(y)) < 8, 2.0, 0.0)
    for loss in (LOGITS, lambda a, b: tk.losses.sparse_categorical_crossentropy(a, b, True)):
        distiller.compile("sgd", loss)
        values = distiller.evaluate(x, y, sample_weight=weights, verbose=0, return_dict=True)
        expected = float(LOGITS(y, distiller.student(x), weights))
        assert values["student_loss"] == pytest.approx(expected, rel=1e-5)


def test_saving_and_loading(tmp_path):
    x, y = data()
    distiller = Distiller(network(16, "teacher"), network(8, "student"), [FEATURES], [0.3], 0.7)
    distiller.compile("adam", LOGITS, metrics=["accuracy"])
    distiller.fit(x, y, epochs=1, verbose=0)
    distiller.save(tmp_path / "distiller.keras")
    again = tk.models.load_model(tmp_path / "distiller.keras")
    assert again.student_loss_weight == 0.7
    assert again.distillation_loss_weights == [0.3]
    assert not again.teacher.trainable
    expected = distiller.evaluate(x, y, verbose=0, return_dict=True)
    found = again.evaluate(x, y, verbose=0, return_dict=True)
    assert found == pytest.approx(expected, rel=1e-6)


class ByRows(DistillationLoss):
    def compute_loss(self, teacher_outputs, student_outputs, **kwargs):
        return tk.reduce_mean(tk.square(teacher_outputs - student_outputs), axis=-1)


def written_model():
    class Written(tk.Model):
        def __init__(self):
            super().__init__()
            self.dense = tk.layers.Dense(3)

        def call(self, x):
            return self.dense(x)

    return Written()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"teacher": "a model"}, "teacher must be a Model"),
        ({"student": tk.layers.Dense(3)}, "student must be a Model"),
        ({"distillation_losses": None}, "can't be None"),
        ({"student_loss_weight": 1.5}, r"in \[0, 1\]"),
        ({"student_loss_weight": "half"}, r"in \[0, 1\]"),
        ({"distillation_losses": [FEATURES], "distillation_loss_weights": [1.0, 2.0]}, "as many"),
        ({"distillation_losses": FeatureDistillation("mse", "absent")}, "in the teacher.*absent"),
        ({"student": tk.Sequential([tk.Input((5,)), tk.layers.Dense(4)])}, "outputs of teacher"),
        ({"student": tk.Sequential([tk.Input((6,)), tk.layers.Dense(3)])}, "inputs of teacher"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, text):
    given = {
        "teacher": network(16, "teacher"),
        "student": network(8, "student"),
        "distillation_losses": LogitsDistillation(),
        **arguments,
    }
    with pytest.raises(ValueError, match=text):
        Distiller(**given)


def test_features_need_drawn_models_and_outputs_do_not():
    with pytest.raises(ValueError, match="student is not"):
        Distiller(network(16, "teacher"), written_model(), FEATURES)
    x, y = data()
    distiller = Distiller(written_model(), written_model(), FeatureDistillation("mse"))
    distiller.compile("adam", LOGITS)
    history = distiller.fit(x, y, epochs=5, verbose=0).history
    assert history["total_loss"][-1] < history["total_loss"][0]


def test_a_loss_that_is_no_scalar_and_a_missing_loss_are_told():
    distiller = Distiller(network(16, "teacher"), network(8, "student"), ByRows())
    with pytest.raises(ValueError, match="'loss' can't be None"):
        distiller.compile("adam")
    with pytest.raises(ValueError, match="metrics must be a list"):
        distiller.compile("adam", LOGITS, metrics="accuracy")
    distiller.compile("adam", LOGITS)
    with pytest.raises(ValueError, match=r"ByRows\.compute_loss must give a scalar"):
        distiller.evaluate(*data(), verbose=0)
