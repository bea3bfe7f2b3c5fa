import numpy as np
import pytest

import trainkit as tk
from trainkit import metrics
from trainkit.core.trackable import traverse
from trainkit.graph.tracing.function import function

# ------------------------------------------------------------------ means and sums


def test_a_mean_is_called_with_numbers_and_lists():
    m = metrics.Mean("loss")
    assert [float(m(0)), float(m(5)), float(m([8, 9]))] == [0.0, 2.5, 5.5]
    assert str(m.result()) == "tf.Tensor(5.5, shape=(), dtype=float32)"
    m.reset_state()
    assert float(m.result()) == 0.0
    assert m.name == "loss"


@pytest.mark.parametrize(
    ("values", "weights", "wanted"),
    [
        ([1.0, 3.0], [1.0, 3.0], 2.5),
        ([1.0, 3.0], [0.0, 0.0], 0.0),
        ([[1.0, 3.0], [5.0, 7.0]], [1.0, 3.0], 5.0),
        ([[1.0, 3.0], [5.0, 7.0]], [[1.0, 0.0], [0.0, 1.0]], 4.0),
        ([[1.0, 3.0], [5.0, 7.0]], [[1.0], [3.0]], 5.0),
        ([True, True, False, False], None, 0.5),
        (4.0, 2.0, 4.0),
        (np.float64(4.0), None, 4.0),
    ],
)
def test_weighted_means(values, weights, wanted):
    m = metrics.Mean()
    m.update_state(values, weights)
    assert float(m.result()) == wanted
    assert m.result().dtype == "float32"


def test_sums_add_all_values_up():
    s = metrics.Sum()
    s.update_state([[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0])
    s.update_state(0.5)
    assert float(s.result()) == 73.5


def test_weights_that_do_not_fit_are_an_error():
    with pytest.raises(
        tk.errors.InvalidArgumentError, match=r"(?s)sample_weight does not fit.*\(3,\)"
    ):
        metrics.Mean().update_state([1.0, 2.0], [1.0, 2.0, 3.0])


def test_what_was_read_of_a_result_never_changes():
    s = metrics.Sum()
    s.update_state(1.0)
    before = s.result()
    s.update_state(1.0)
    assert (float(before), float(s.result())) == (1.0, 2.0)


@pytest.mark.parametrize("batch", [4, None])
def test_a_mean_in_a_graph_counts_batches_of_any_size(batch):
    m = metrics.Mean()
    spec = tk.TensorSpec((batch, 2), "float32")
    update = function(lambda x: m.update_state(x), input_signature=[spec])
    for size in (4, 4) if batch else (3, 5):
        update(tk.ops.ones((size, 2)))
    assert int(m.count) == 8
    assert float(m.result()) == 1.0


def test_a_mask_leaves_scores_out():
    m = metrics.MeanAbsoluteError()
    m.update_state([[0.0], [0.0]], [[1.0], [9.0]], mask=[True, False])
    assert float(m.result()) == 1.0
    m.update_state([[0.0], [0.0]], [[4.0], [9.0]], sample_weight=[2.0, 5.0], mask=[True, False])
    assert float(m.result()) == 3.0


# ------------------------------------------------------------------ own metrics


class Largest(metrics.Metric):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.best = self.add_weight("best", initializer="ones")
        self.inner = metrics.Mean("inner")

    def update_state(self, values):
        self.best.assign(tk.ops.maximum(self.best, tk.ops.max(values)))
        self.inner.update_state(values)

    def result(self):
        return self.best.read_value()


def test_a_subclass_keeps_state_and_inner_metrics():
    m = Largest()
    assert m.name == "largest"
    assert float(m([3.0, 2.0])) == 3.0
    assert [v.name for v in m.variables] == ["best", "total", "count"]
    assert {path for path, _ in traverse(m)} == {
        (), ("best",), ("inner",), ("inner", "total"), ("inner", "count"),
    }  # fmt: skip
    m.reset_state()
    assert float(m.result()) == 1.0
    assert float(m.inner.result()) == 0.0


def test_variables_without_an_attribute_are_parts_too():
    m = metrics.Metric(name="m")
    kept = m.add_variable((2,), name="kept")
    assert m.parts() == {"kept": kept}
    with pytest.raises(ValueError, match="aggregation"):
        m.add_variable(aggregation="most")


def test_a_metric_without_methods_says_so():
    with pytest.raises(NotImplementedError, match="update_state"):
        metrics.Metric().update_state(1)
    with pytest.raises(NotImplementedError, match="result"):
        metrics.Metric().result()
    with pytest.raises(NotImplementedError, match="score"):
        metrics.MeanScore().update_state([1.0], [1.0])


def test_metrics_without_a_name_of_their_own_are_counted_as_in_keras():
    tk.utils.clear_session()
    assert [metrics.AUC().name, metrics.AUC().name] == ["auc", "auc_1"]
    assert metrics.MeanSquaredError().name == "mean_squared_error"
    assert metrics.MeanSquaredError().name == "mean_squared_error"
    assert metrics.MeanMetricWrapper(tk.losses.huber).name == "mean_metric_wrapper"
    again = metrics.AUC.from_config(metrics.AUC().get_config())
    assert (again.name, metrics.AUC().name) == ("auc_2", "auc_3")
    kinds = metrics.SensitivityAtSpecificity(0.5), metrics.AUC()
    for metric in kinds:
        names = [v.path.rpartition("/")[2] for v in metric.variables]
        assert names == [f"{x}_{y}" for y in ("positives", "negatives") for x in ("true", "false")]


def test_a_function_can_be_wrapped_and_written_to_a_config():
    m = metrics.MeanMetricWrapper(tk.losses.huber, delta=0.5)
    again = metrics.deserialize(metrics.serialize(m))
    assert float(again([0.0], [2.0])) == float(m([0.0], [2.0])) == 0.875


def test_dtype_of_state_and_result():
    m = metrics.Mean(dtype="float64")
    m.update_state([0.1])
    assert m.result().dtype == "float64"
    assert m.dtype == "float64"


# ------------------------------------------------------------------ accuracies


def test_column_labels_are_class_numbers():
    scores = np.array([[0.1, 0.9], [0.8, 0.2]])
    for labels in ([1, 0], [[1], [0]], [1.0, 0.0]):
        assert float(metrics.SparseCategoricalAccuracy()(labels, scores)) == 1.0
        assert float(metrics.SparseTopKCategoricalAccuracy(1)(labels, scores)) == 1.0


def test_a_tie_counts_for_the_label_and_infinities_do_not():
    top = metrics.sparse_top_k_categorical_accuracy
    np.testing.assert_array_equal(top([0, 1], [[1.0, 1.0], [1.0, np.nan]], k=1).numpy(), [1, 0])
    np.testing.assert_array_equal(top([2], [[4, 2, 0]], 2, from_sorted_ids=True).numpy(), [1])


@pytest.mark.parametrize(
    ("name", "y_true", "y_pred", "word"),
    [
        ("SparseCategoricalAccuracy", (3,), (4, 2), "Categorical..."),
        ("CategoricalAccuracy", (3,), (3, 2), "SparseCategorical..."),
        ("BinaryAccuracy", (3,), (3, 2), "shapes"),
        ("Precision", (3,), (4,), "shapes"),
        ("F1Score", (3,), (3,), r"\(batch, classes\)"),
        ("R2Score", (3,), (3,), r"\(batch, outputs\)"),
        ("MeanSquaredError", (3,), (3, 3), "shapes"),
    ],
)
def test_shapes_that_do_not_fit_are_errors(name, y_true, y_pred, word):
    metric = getattr(metrics, name)()
    with pytest.raises(tk.errors.InvalidArgumentError, match=word):
        metric.update_state(np.ones(y_true), np.ones(y_pred))
    assert not any(v.numpy().any() for v in metric.variables)


@pytest.mark.parametrize("name", ["F1Score", "R2Score"])
def test_the_number_of_outputs_stays(name):
    metric = getattr(metrics, name)()
    assert float(metric.result()) == 0.0
    metric.update_state(np.eye(2), np.eye(2))
    with pytest.raises(tk.errors.InvalidArgumentError, match="those before had 2"):
        metric.update_state(np.eye(3), np.eye(3))


# ------------------------------------------------------------------ confusion


def test_top_k_and_class_id_choose_what_counts():
    y_true = np.array([[1, 0, 0], [0, 1, 1]])
    y_pred = np.array([[0.2, 0.1, 0.3], [0.4, 0.9, 0.1]])
    assert float(metrics.Precision(top_k=1)(y_true, y_pred)) == 0.5
    assert float(metrics.Recall(top_k=2)(y_true, y_pred)) == pytest.approx(2 / 3)
    assert float(metrics.Recall(class_id=1)(y_true, y_pred)) == 1.0


def test_a_prediction_at_the_threshold_is_negative():
    assert float(metrics.TruePositives()([1, 1], [0.5, 0.6])) == 1.0


def test_areas_of_several_labels():
    y_true = np.array([[1, 0], [0, 1], [1, 1], [0, 0]])
    y_pred = np.array([[0.9, 0.2], [0.1, 0.9], [0.8, 0.1], [0.3, 0.3]])
    per_label = [float(metrics.AUC()(y_true[:, i], y_pred[:, i])) for i in range(2)]
    many = metrics.AUC(multi_label=True)
    assert float(many.result()) == 0.0
    assert float(many(y_true, y_pred)) == pytest.approx(np.mean(per_label), abs=1e-6)
    weighted = metrics.AUC(multi_label=True, num_labels=2, label_weights=[3.0, 1.0])
    wanted = np.average(per_label, weights=[3, 1])
    assert float(weighted(y_true, y_pred)) == pytest.approx(wanted, abs=1e-6)
    flat = metrics.AUC(label_weights=[3.0, 1.0])(y_true, y_pred)
    both = metrics.AUC()(y_true.ravel(), y_pred.ravel(), [3.0, 1.0] * 4)
    assert float(flat) == float(both)
    with pytest.raises(ValueError, match="have 1 labels, the metric has 2"):
        many.update_state(y_true[:, :1], y_pred[:, :1])


def test_areas_by_curve_and_summation():
    y_true, y_pred = [0, 0, 1, 1], [0.0, 0.5, 0.3, 0.9]
    # At 3 thresholds: recall 1, 0.5, 0; false positives 1, 0, 0; precision 0.5, 1, 0.
    wanted = {
        ("ROC", "interpolation"): 0.75,
        ("ROC", "majoring"): 1.0,
        ("ROC", "minoring"): 0.5,
        ("PR", "majoring"): 0.5 * 1 + 0.5 * 1,
        ("PR", "minoring"): 0.5 * 0.5,
        # From 4 positives, 2 of them true, to 1 and 1: slope 1/3, offset 2/3; then all are true.
        ("PR", "interpolation"): (1 / 3) * (1 + 2 / 3 * np.log(4)) / 2 + 1 / 2,
    }
    for (curve, summation), area in wanted.items():
        auc = metrics.AUC(num_thresholds=3, curve=curve, summation_method=summation)
        assert float(auc(y_true, y_pred)) == pytest.approx(area, abs=1e-6), (curve, summation)
    # Gains: recall 1 - fn / tp, precision 1 - fp / tp, as half of the labels are true; 0 and 1
    # where tp is 0.
    gain = metrics.AUC(num_thresholds=3, curve="PRGAIN", summation_method="minoring")
    assert float(gain(y_true, y_pred)) == pytest.approx((1 - 0) * 0 + (0 - 0) * 1)


def test_logits_are_turned_into_chances():
    logits = np.array([-2.0, 3.0, 0.5])
    chances = 1 / (1 + np.exp(-logits))
    one, two = metrics.AUC(from_logits=True), metrics.AUC()
    assert float(one([0, 1, 0], logits)) == float(two([0, 1, 0], chances))


def test_averages_of_f_scores():
    y_true = np.array([[1, 0], [1, 0], [1, 0], [0, 1]])
    y_pred = np.array([[0.9, 0.1], [0.2, 0.8], [0.9, 0.1], [0.1, 0.9]])
    each = metrics.F1Score()(y_true, y_pred).numpy()
    np.testing.assert_allclose(each, [0.8, 2 / 3], rtol=1e-6)
    wanted = {"macro": each.mean(), "micro": 0.75, "weighted": each @ [0.75, 0.25]}
    for average, value in wanted.items():
        assert float(metrics.F1Score(average=average)(y_true, y_pred)) == pytest.approx(value)
    assert float(metrics.F1Score("micro", threshold=0.15)(y_true, y_pred)) == pytest.approx(8 / 9)


# ------------------------------------------------------------------ intersection over union


@pytest.mark.parametrize("update", [lambda f: f, tk.function], ids=["eager", "compiled"])
def test_classes_out_of_range_and_ignored_ones_do_not_count(update):
    m = metrics.MeanIoU(num_classes=2)
    update(m.update_state)(tk.constant([0, 2, 1, 1]), tk.constant([0, 1, -1, 5]))
    np.testing.assert_array_equal(m.total_cm, [[1, 0], [0, 0]])
    m.reset_state()
    with pytest.raises(tk.errors.InvalidArgumentError, match="2 labels and 3 values of y_pred"):
        m.update_state([0, 1], [0, 1, 1])
    assert float(m.result()) == 0.0
    ignoring = metrics.MeanIoU(num_classes=2, ignore_class=-1)
    assert float(ignoring([0, 1, -1], [0, 1, 1])) == 1.0


def test_integer_counts_drop_the_fraction_of_weights():
    whole = metrics.IoU(2, [1])([1, 1, 0], [1, 0, 1], [1.9, 2.9, 1.2])
    exact = metrics.IoU(2, [1], dtype="float32")([1, 1, 0], [1, 0, 1], [1.9, 2.9, 1.2])
    assert float(whole) == 0.25
    assert float(exact) == pytest.approx(1.9 / 6.0)


def test_scores_are_turned_into_classes():
    m = metrics.IoU(2, [0, 1], sparse_y_true=True, sparse_y_pred=False)
    assert float(m([0, 1], [[0.9, 0.1], [0.3, 0.7]])) == 1.0


# ------------------------------------------------------------------ explained variance


def test_scores_of_several_outputs():
    y_true = np.array([[0.0, 0.0], [1.0, 4.0], [2.0, 8.0]])
    y_pred = np.array([[0.0, 0.0], [1.0, 4.0], [2.0, 4.0]])
    each = [1.0, 1 - 16 / 32]
    np.testing.assert_allclose(metrics.R2Score(None)(y_true, y_pred).numpy(), each, rtol=1e-6)
    by_variance = metrics.R2Score("variance_weighted_average")(y_true, y_pred)
    assert float(by_variance) == pytest.approx((2 * 1 + 32 * 0.5) / 34)


def test_the_correction_needs_samples_enough():
    y = np.array([[0.0], [1.0], [3.0], [4.0]])
    few = metrics.R2Score(num_regressors=3)
    few.update_state(y, y + 0.5)
    with pytest.warns(UserWarning, match="4 samples are too few for 3 regressors"):
        plain = float(few.result())
    corrected = float(metrics.R2Score(num_regressors=1)(y, y + 0.5))
    assert corrected == pytest.approx(1 - (1 - plain) * 3 / 2)


# ------------------------------------------------------------------ arguments and names


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: metrics.BinaryAccuracy(threshold=2.0), "threshold"),
        (lambda: metrics.TopKCategoricalAccuracy(k=0), "k must be"),
        (lambda: metrics.Precision(thresholds=[0.5, 1.5]), r"thresholds must be in \[0, 1\]"),
        (lambda: metrics.AUC(curve="LIFT"), "ROC, PR, PRGAIN"),
        (lambda: metrics.AUC(num_thresholds=1), "at least 2"),
        (lambda: metrics.AUC(num_labels=3), "multi_label"),
        (lambda: metrics.PrecisionAtRecall(1.5), "recall must be"),
        (lambda: metrics.PrecisionAtRecall(0.5, num_thresholds=0), "num_thresholds"),
        (lambda: metrics.F1Score(average="mean"), "average"),
        (lambda: metrics.FBetaScore(beta=0.0), "beta"),
        (lambda: metrics.F1Score(threshold=0.0), "threshold"),
        (lambda: metrics.IoU(2, [2]), "target_class_ids"),
        (lambda: metrics.MeanIoU(0), "num_classes"),
        (lambda: metrics.R2Score("best"), "class_aggregation"),
        (lambda: metrics.R2Score(num_regressors=-1), "num_regressors"),
        (lambda: metrics.get("no_such_metric"), "no_such_metric"),
    ],
)
def test_settings_out_of_range_are_errors(make, word):
    with pytest.raises(ValueError, match=word):
        make()


def test_get_finds_short_names_classes_and_functions():
    assert type(metrics.get("mse")) is metrics.MeanSquaredError
    assert type(metrics.get("binary_accuracy")) is metrics.BinaryAccuracy
    assert type(metrics.get("AUC")) is metrics.AUC
    assert metrics.get(len) is len
    kept = metrics.Mean()
    assert metrics.get(kept) is kept


def test_the_name_of_reset_state_before_keras_3():
    metric = metrics.Mean()
    metric.update_state([1.0, 3.0])
    metric.reset_states()
    assert float(metric.result()) == 0.0
