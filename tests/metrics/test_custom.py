"""Metrics that users write, their state from outside, and the masks that tensors carry."""

import pickle

import numpy as np
import pytest

import trainkit as tk
from trainkit import metrics, ops
from trainkit.core.masks import set_mask
from trainkit.core.registry import REGISTERED

Y = np.array([[1.0], [2.0], [4.0]], "float32")
P = np.array([[0.5], [4.0], [1.0]], "float32")


class ErrorRange(metrics.Metric):
    """Keras 3's way: variables by name, a dict as result."""

    def __init__(self, name="error_range", dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.least = self.add_variable(shape=(), initializer="zeros", name="least")
        self.most = self.add_weight(name="most", shape=(), initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        errors = ops.abs(ops.convert_to_tensor(y_true) - ops.convert_to_tensor(y_pred))
        if sample_weight is not None:
            errors = errors * ops.reshape(ops.cast(sample_weight, errors.dtype), (-1, 1))
        self.least.assign(ops.minimum(self.least, ops.min(errors)))
        self.most.assign(ops.maximum(self.most, ops.max(errors)))

    def result(self):
        return {"least": self.least.value(), "most": self.most}

    def reset_state(self):
        self.least.assign(np.inf)
        self.most.assign(0.0)


class CountedTF(metrics.Metric):
    """TensorFlow 2's way: the name comes first, the state is assigned to."""

    def __init__(self, name="counted", **kwargs):
        super().__init__(name=name, **kwargs)
        self.seen = self.add_weight("seen", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.seen.assign_add(tk.cast(tk.shape(y_true)[0], self.dtype))

    def result(self):
        return self.seen


class Ratio(metrics.Metric):
    """Other metrics and Variables, kept in nested containers."""

    def __init__(self, name="ratio"):
        super().__init__(name=name)
        self.inner = {"z": metrics.Mean("top"), "a": [metrics.Mean("below")]}
        self.batches = tk.Variable(0.0, trainable=False)

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.inner["z"].update_state(y_pred)
        self.inner["a"][0].update_state(y_true)
        self.batches.assign_add(1.0)

    def result(self):
        return self.inner["z"].result() / self.inner["a"][0].result()


@pytest.mark.parametrize("run_eagerly", [True, False])
def test_metrics_of_users_work_with_evaluate(run_eagerly):
    model = tk.keras.Sequential(
        [tk.keras.Input((1,)), tk.keras.layers.Dense(1, kernel_initializer="ones")]
    )
    ratio = Ratio()
    model.compile("sgd", "mse", metrics=[ErrorRange(), CountedTF(), ratio], run_eagerly=run_eagerly)
    for _ in range(2):  # each starts anew
        found = model.evaluate(P, Y, batch_size=2, verbose=0, return_dict=True)
        assert found["least"] == pytest.approx(0.5)
        assert found["most"] == pytest.approx(3.0)
        assert found["counted"] == 3
        assert found["ratio"] == pytest.approx(5.5 / 7)
        assert float(ratio.batches) == 2
    model.fit(P, Y, verbose=0)


def test_variables_and_metrics_in_containers_belong_to_the_state():
    m = Ratio()
    assert len(m.variables) == 5
    m(Y, P)
    assert [float(v) for v in m.variables] == [1.0, 5.5, 3.0, 7.0, 3.0]
    m.reset_state()
    assert [float(v) for v in m.variables] == [0.0] * 5


def test_the_forgotten_call_of_the_base_is_named():
    class Forgetful(metrics.Metric):
        def __init__(self):
            self.seen = self.add_weight(name="seen")

    with pytest.raises(RuntimeError, match=r"Forgetful: call super\(\).__init__"):
        Forgetful()


# ------------------------------------------------------------------ a state from outside


@pytest.mark.parametrize("compiled", [False, True])
def test_a_state_from_outside_leaves_that_of_the_metric(compiled):
    m = metrics.MeanSquaredError()
    m.update_state(Y, P)
    before = [float(v) for v in m.variables]
    add, read = m.stateless_update_state, m.stateless_result
    if compiled:
        add, read = tk.function(add), tk.function(read)
    state = m.stateless_reset_state()
    assert [float(v) for v in state] == [0.0, 0.0]
    state = add(state, tk.constant(Y), tk.constant(P))
    state = add(state, tk.constant(Y), tk.constant(P))
    assert [float(v) for v in state] == [26.5, 6.0]
    assert float(read(state)) == pytest.approx(26.5 / 6)
    assert [float(v) for v in m.variables] == before


def test_a_state_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="metric_variables has 1 values, the metric has 2"):
        metrics.Mean().stateless_result([1.0])


def test_a_failed_update_leaves_the_state():
    m = metrics.MeanSquaredError()
    m.update_state(Y, P)
    before = float(m.result())
    with pytest.raises(ValueError, match="shapes of targets and predictions"):
        m.stateless_update_state([0.0, 0.0], np.zeros((2, 3)), np.zeros((5, 7)))
    assert float(m.result()) == before


# ------------------------------------------------------------------ masks that tensors carry


def carrying(values, mask):
    x = tk.constant(values)
    set_mask(x, tk.constant(mask))
    return x


@pytest.mark.parametrize("mask", [[[True], [False], [True]], [True, False, True]])
def test_scores_whose_predictions_are_masked_do_not_count(mask):
    found = metrics.MeanSquaredError()(Y, carrying(P, mask))
    assert float(found) == pytest.approx((0.25 + 9) / 2)
    found = metrics.MeanSquaredError()(Y, carrying(P, mask), sample_weight=[3.0, 1.0, 1.0])
    assert float(found) == pytest.approx((3 * 0.25 + 9) / 4)


@pytest.mark.parametrize("size", [2, 3])
def test_weights_of_samples_meet_masks_of_steps(size):
    y = np.zeros((size, 3, 1), "float32")
    p = carrying(np.ones((size, 3, 1), "float32"), [[True, True, False]] * size)
    weights = np.arange(size, dtype="float32")
    m = metrics.MeanSquaredError()
    assert float(m(y, p, sample_weight=weights)) == pytest.approx(1.0)
    assert float(m.count) == pytest.approx(weights.sum() * 2 / 3)


# ------------------------------------------------------------------ numbers of Keras


@pytest.mark.parametrize(
    ("options", "weights", "wanted"),
    [
        ({}, None, 0.78462),
        ({}, [0.5, 1.5, 2.0], 1.33774646),
        ({"from_logits": True}, None, 1.10093),
    ],
)
def test_a_class_is_ignored(options, weights, wanted):
    m = metrics.SparseCategoricalCrossentropy(ignore_class=0, **options)
    y_pred = np.array([[0.8, 0.1, 0.1], [0.05, 0.95, 0.0], [0.1, 0.8, 0.1]])
    if options:
        y_pred = np.log(np.maximum(y_pred, 1e-9)) * 1.1
        chance = np.exp(y_pred) / np.exp(y_pred).sum(-1, keepdims=True)
        wanted = -(np.log(chance[1, 1]) + np.log(chance[2, 2])) / 3
    found = m(np.array([0, 1, 2]), y_pred, sample_weight=weights)
    assert float(found) == pytest.approx(wanted, abs=1e-4)
    again = metrics.get(metrics.serialize(m))
    assert again.get_config()["ignore_class"] == 0


def test_precision_recall_gain_where_nothing_true_is_found():
    y_true, y_pred = [0, 1, 0, 1], [0.6, 0.55, 0.9, 0.2]
    m = metrics.AUC(num_thresholds=4, curve="prgain", summation_method="majoring")
    # At 1/3: tp 1, fp 2, fn 1, so the gains are 0 and -1; at 2/3: tp 0, so they are 0 and 1.
    assert float(m(y_true, y_pred)) == pytest.approx((1 - 0) * 0.0)
    m = metrics.AUC(thresholds=[0.5, 0.95], curve="prgain", summation_method="interpolation")
    # Recall gains 1, 0, 0, 0; precision gains 0, -1, 1, 1.
    assert float(m(y_true, y_pred)) == pytest.approx(-0.5)


@pytest.mark.parametrize(
    ("weights", "counted"), [(None, 3), ([1.0, 0.0, 2.0], 2), ([[1, 0], [0, 0], [0, 3]], 2)]
)
def test_r2_corrects_for_the_samples_with_a_weight(weights, counted):
    m = metrics.R2Score(num_regressors=1)
    y_true = np.array([[1.0, 2.0], [2.0, 4.0], [4.0, 4.5]])
    m.update_state(y_true, y_true * 0.9, sample_weight=weights)
    assert int(m.num_samples) == counted


# ------------------------------------------------------------------ what is said


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: metrics.FBetaScore(beta=1), "beta must be a float above 0, got 1"),
        (lambda: metrics.FBetaScore(threshold=1), "threshold must be a float in"),
        (lambda: metrics.FBetaScore(threshold="0.5"), "threshold must be a float in .* '0.5'"),
        (
            lambda: metrics.Precision(class_id=2).update_state([0, 1], [0.2, 0.1]),
            r"class_id=2 needs scores \(batch, classes\), got \(2,\)",
        ),
        (
            lambda: metrics.Recall(class_id=2).update_state(np.eye(2), np.eye(2)),
            "class_id=2 is not among the 2 classes",
        ),
        (
            lambda: metrics.F1Score().update_state(np.zeros((2, 3, 4)), np.zeros((2, 3, 4))),
            "labels and scores must be",
        ),
    ],
)
def test_wrong_arguments_are_shown(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_fractions_of_weights_that_are_lost_are_warned_of():
    with pytest.warns(UserWarning, match="float loses its fraction by casting"):
        metrics.MeanIoU(3)([0, 1, 1], [0, 1, 1], sample_weight=np.array([0.2, 0.3, 0.4]))


# ------------------------------------------------------------------ names and attributes


@pytest.mark.parametrize("name", ["mse", "MSE", "mean_squared_error", "MeanSquaredError"])
def test_names_give_metrics_whatever_else_is_registered(name):
    REGISTERED["somebody>mse"] = len
    try:
        found = metrics.get(name)
    finally:
        del REGISTERED["somebody>mse"]
    assert type(found) is metrics.MeanSquaredError
    assert type(pickle.loads(pickle.dumps(found))) is metrics.MeanSquaredError


def test_settings_are_lists_as_given():
    assert metrics.FalsePositives(thresholds=[0.4, 0.9]).thresholds == [0.4, 0.9]
    assert metrics.IoU(2, [1, 0]).target_class_ids == [1, 0]
    assert metrics.SparseTopKCategoricalAccuracy(from_sorted_ids=True).from_sorted_ids
    assert list(metrics.Precision([0.1, 0.2]).parts()) == ["true_positives", "false_positives"]


# ------------------------------------------------------------------ numbers of Keras 3.15

LABELS = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 1]])
SCORES = np.array([[0.9, 0.2, 0.4], [0.6, 0.7, 0.1], [0.3, 0.8, 0.5], [0.2, 0.4, 0.9]], "float32")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_counts_are_float32_whatever_the_dtype(dtype):
    m = metrics.TruePositives(dtype=dtype)
    for _ in range(3):
        m.update_state(np.ones(30000), np.ones(30000, "float32"))
    assert float(m.result()) == 90000.0
    assert m.true_positives.dtype == "float32"


def test_variables_of_users_are_float32_whatever_the_dtype():
    class Own(metrics.Metric):
        def __init__(self):
            super().__init__(dtype="float16")
            self.seen = self.add_weight(name="seen")

    assert Own().seen.dtype == "float32"
    assert metrics.Mean(dtype="float16").total.dtype == "float16"


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [("TruePositives", 3), ("FalsePositives", 1), ("TrueNegatives", 4), ("FalseNegatives", 4)],
)
def test_what_is_not_a_number_is_above_no_threshold(kind, wanted):
    scores = SCORES.copy()
    scores[0, 0] = np.nan  # a true label
    found = getattr(metrics, kind)()(LABELS, scores)
    assert float(found) == wanted


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
@pytest.mark.parametrize(("kind", "wanted"), [(metrics.Precision, 1 / 3), (metrics.Recall, 1 / 4)])
def test_one_class_with_weights(kind, wanted, shape):
    weights = np.array([1.0, 2.0, 3.0, 4.0]).reshape(shape)
    found = kind(class_id=0)(LABELS, SCORES, sample_weight=weights)
    assert float(found) == pytest.approx(wanted)
    steps = np.stack([weights.reshape(4)] * 2, 1)
    found = kind(class_id=0)(np.stack([LABELS] * 2, 1), np.stack([SCORES] * 2, 1), steps)
    assert float(found) == pytest.approx(wanted)


def test_weights_of_labels_meet_weights_of_steps():
    labels, scores = np.stack([LABELS] * 2, 1), np.stack([SCORES] * 2, 1)
    once = metrics.AUC(label_weights=[1.0, 2.0, 3.0])(LABELS, SCORES, np.arange(4.0))
    weights = np.stack([np.arange(4.0)] * 2, 1)
    twice = metrics.AUC(label_weights=[1.0, 2.0, 3.0])(labels, scores, weights)
    assert float(once) == pytest.approx(float(twice))


@pytest.mark.parametrize(
    ("function", "wanted"), [("mean_absolute_error", 0.5), ("binary_accuracy", 0.5)]
)
def test_a_wrapped_function_survives_its_config(function, wanted):
    metric = metrics.MeanMetricWrapper(getattr(tk.keras.metrics, function), name="own")
    for config in (metric.get_config(), {"fn": function, "name": "own"}):
        again = metrics.MeanMetricWrapper.from_config(config)
        again.update_state([[0.0], [1.0]], [[0.0], [0.0]])
        assert (again.name, float(again.result())) == ("own", wanted)


def test_class_numbers_broadcast_over_axes_of_size_1():
    metric = metrics.SparseCategoricalAccuracy()
    scores = np.array([[[0.9, 0.1, 0.0], [0.1, 0.9, 0.0]]], "float32")
    metric.update_state([[0], [1]], scores)
    assert float(metric.result()) == 0.5  # each with each, as Keras counts
    with pytest.raises(ValueError, match="class numbers"):
        metric.update_state([[0], [1]], np.tile(scores, (3, 1, 1)))


@pytest.mark.parametrize(
    ("args", "more"),
    [
        (("seen",), {"shape": (2,), "initializer": "ones"}),
        (("seen", (2,), "ones"), {}),
        (("seen", 2), {"initializer": "ones"}),
        (((2,), "ones", "float32", "seen"), {}),
        (([2],), {"initializer": "ones", "name": "seen"}),
    ],
)
def test_the_name_of_a_weight_may_come_first(args, more):
    class Seen(metrics.Metric):
        def __init__(self):
            super().__init__()
            self.seen = self.add_weight(*args, **more)

    metric = Seen()
    assert metric.seen.path == f"{metric.name}/seen"
    np.testing.assert_array_equal(metric.seen.numpy(), [1.0, 1.0])


def test_arguments_of_a_weight_are_given_once():
    metric = metrics.Metric()
    with pytest.raises(TypeError, match="shape is given twice"):
        metric.add_weight((2,), shape=(2,))
    with pytest.raises(TypeError, match="name, shape, initializer, dtype by position"):
        metric.add_weight("seen", (2,), "ones", "float32", "more")
    assert metric.variables == []
