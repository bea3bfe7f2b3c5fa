"""Every metric against its definition, worked out by plain NumPy over all samples at once.

Each case goes through two batches, the second one weighted, an empty batch, a reset, a graph, a
config, and a checkpoint's view of its state.
"""

import numpy as np
import pytest

import trainkit as tk
from tests.conformance import completeness
from trainkit import metrics
from trainkit.core.trackable import traverse
from trainkit.graph.tracing.function import function
from trainkit.metrics.registry import METRICS

N, C = 6, 4


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def mean(scores):
    """The definition of a weighted mean, from a score of each sample."""
    return lambda t, p, w: (scores(t, p) * w).sum() / w.sum()


def numbers(rng):
    return rng.normal(size=(N, C)), rng.normal(size=(N, C))


def positive(rng):
    return rng.uniform(0.1, 2, size=(N, C)), rng.uniform(0.1, 2, size=(N, C))


def labels(rng):
    return rng.integers(0, 3, size=N), rng.integers(0, 3, size=N)


def chances(rng):
    return rng.integers(0, 2, size=N), rng.uniform(0.02, 0.98, size=N).round(2)


def one_hot(rng):
    return np.eye(C)[rng.integers(0, C, size=N)], softmax(rng.normal(size=(N, C)))


def class_numbers(rng):
    return rng.integers(0, C, size=N), softmax(rng.normal(size=(N, C)))


def distributions(rng):
    return softmax(rng.normal(size=(N, C))), softmax(rng.normal(size=(N, C)))


def signs(rng):
    return rng.choice([-1.0, 1.0], size=(N, C)), rng.normal(size=(N, C))


def counted(t, p, w, threshold=0.5):
    """tp, fp, tn, fn."""
    t, p = t > 0, p > threshold
    return tuple(w[(t == a) & (p == b)].sum() for a, b in ((1, 1), (0, 1), (0, 0), (1, 0)))


def rate(top, *others):
    total = top + sum(others)
    return top / total if total else 0.0


def best(wanted, bounded, bound):
    def value(t, p, w):
        thresholds = [-1e-7, *[(i + 1) / 199 for i in range(198)], 1 + 1e-7]
        found = [counted(t, p.astype("float32"), w, np.float32(h)) for h in thresholds]
        return max([wanted(*c) for c in found if bounded(*c) >= bound], default=0.0)

    return value


def recall(tp, fp, tn, fn):
    return rate(tp, fn)


def precision(tp, fp, tn, fn):
    return rate(tp, fp)


def specificity(tp, fp, tn, fn):
    return rate(tn, fp)


def area_by_pairs(t, p, w):
    """The chance that a true sample scores higher than a false one, ties half."""
    total = right = 0.0
    for i in np.flatnonzero(t):
        for j in np.flatnonzero(t == 0):
            total += w[i] * w[j]
            right += w[i] * w[j] * (1.0 if p[i] > p[j] else 0.5 if p[i] == p[j] else 0.0)
    return right / total


def f_beta(beta):
    def value(t, p, w):
        p = (p == p.max(-1, keepdims=True)).astype(float)
        scores = []
        for c in range(C):
            tp, fp, _, fn = counted(t[:, c], p[:, c], w)
            a, b = rate(tp, fp), rate(tp, fn)
            scores.append((1 + beta**2) * a * b / (beta**2 * a + b) if a + b else 0.0)
        return np.array(scores)

    return value


def iou(classes, chosen):
    def value(t, p, w):
        found = []
        for c in chosen:
            both, either = w[(t == c) & (p == c)].sum(), w[(t == c) | (p == c)].sum()
            if either:
                found.append(both / either)
        return np.mean(found) if found else 0.0

    return value


def hot_iou(classes, chosen):
    return lambda t, p, w: iou(classes, chosen)(t.argmax(-1), p.argmax(-1), w)


def correlation(t, p):
    return np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(t, p, strict=True)])


def concordance(t, p):
    gap = (t.mean(-1) - p.mean(-1)) ** 2
    cov = ((t - t.mean(-1, keepdims=True)) * (p - p.mean(-1, keepdims=True))).mean(-1)
    return 2 * cov / (t.var(-1) + p.var(-1) + gap)


def explained(t, p, w):
    w = w[:, None]
    middle = (w * t).sum(0) / w.sum()
    return (1 - (w * (t - p) ** 2).sum(0) / (w * (t - middle) ** 2).sum(0)).mean()


def among_best(k):
    def score(t, p):
        order = np.argsort(-p, axis=-1)[:, :k]
        return np.array([y in row for y, row in zip(t, order, strict=True)], float)

    return score


def bce(z, p):
    return -(z * np.log(p) + (1 - z) * np.log(1 - p))


def picked(y, p):
    return p[np.arange(len(y)), y]


FLOATS = {"dtype": "float32"}
# metric, settings, data, value of all samples (targets, predictions, weights)
CASES = [
    ("Accuracy", {}, labels, mean(lambda t, p: t == p)),
    ("BinaryAccuracy", {"threshold": 0.3}, chances, mean(lambda t, p: t == (p > 0.3))),
    ("CategoricalAccuracy", {}, one_hot, mean(lambda t, p: t.argmax(-1) == p.argmax(-1))),
    ("SparseCategoricalAccuracy", {}, class_numbers, mean(lambda t, p: t == p.argmax(-1))),
    (
        "TopKCategoricalAccuracy",
        {"k": 2},
        one_hot,
        mean(lambda t, p: among_best(2)(t.argmax(-1), p)),
    ),
    ("SparseTopKCategoricalAccuracy", {"k": 2}, class_numbers, mean(among_best(2))),
    ("MeanSquaredError", {}, numbers, mean(lambda t, p: ((t - p) ** 2).mean(-1))),
    ("MeanAbsoluteError", {}, numbers, mean(lambda t, p: np.abs(t - p).mean(-1))),
    (
        "MeanAbsolutePercentageError",
        {},
        positive,
        mean(lambda t, p: 100 * np.abs((t - p) / t).mean(-1)),
    ),
    (
        "MeanSquaredLogarithmicError",
        {},
        positive,
        mean(lambda t, p: ((np.log(t + 1) - np.log(p + 1)) ** 2).mean(-1)),
    ),
    (
        "RootMeanSquaredError",
        {},
        numbers,
        lambda t, p, w: np.sqrt(mean(lambda a, b: ((a - b) ** 2).mean(-1))(t, p, w)),
    ),
    ("LogCoshError", {}, numbers, mean(lambda t, p: np.log(np.cosh(p - t)).mean(-1))),
    ("CosineSimilarity", {}, numbers, mean(lambda t, p: (unit(t) * unit(p)).sum(-1))),
    ("PearsonCorrelation", {}, numbers, mean(correlation)),
    ("ConcordanceCorrelation", {}, numbers, mean(concordance)),
    ("R2Score", {}, numbers, explained),
    ("Poisson", {}, positive, mean(lambda t, p: (p - t * np.log(p)).mean(-1))),
    ("KLDivergence", {}, distributions, mean(lambda t, p: (t * np.log(t / p)).sum(-1))),
    (
        "BinaryCrossentropy",
        {},
        lambda rng: [x[:, None] for x in chances(rng)],
        mean(lambda t, p: bce(t, p)[:, 0]),
    ),
    ("CategoricalCrossentropy", {}, one_hot, mean(lambda t, p: -(t * np.log(p)).sum(-1))),
    ("SparseCategoricalCrossentropy", {}, class_numbers, mean(lambda t, p: -np.log(picked(t, p)))),
    ("Hinge", {}, signs, mean(lambda t, p: np.maximum(1 - t * p, 0).mean(-1))),
    ("SquaredHinge", {}, signs, mean(lambda t, p: (np.maximum(1 - t * p, 0) ** 2).mean(-1))),
    (
        "CategoricalHinge",
        {},
        one_hot,
        mean(lambda t, p: np.maximum(((1 - t) * p).max(-1) - (t * p).sum(-1) + 1, 0)),
    ),
    ("TruePositives", {}, chances, lambda t, p, w: counted(t, p, w)[0]),
    (
        "FalsePositives",
        {"thresholds": [0.7, 0.3]},
        chances,
        lambda t, p, w: np.array([counted(t, p, w, h)[1] for h in (0.7, 0.3)]),
    ),
    ("TrueNegatives", {}, chances, lambda t, p, w: counted(t, p, w)[2]),
    ("FalseNegatives", {"thresholds": 0.8}, chances, lambda t, p, w: counted(t, p, w, 0.8)[3]),
    ("Precision", {}, chances, lambda t, p, w: precision(*counted(t, p, w))),
    (
        "Recall",
        {"thresholds": [0.2, 0.6]},
        chances,
        lambda t, p, w: np.array([recall(*counted(t, p, w, h)) for h in (0.2, 0.6)]),
    ),
    ("AUC", {"num_thresholds": 2001}, chances, area_by_pairs),
    ("SensitivityAtSpecificity", {"specificity": 0.45}, chances, best(recall, specificity, 0.45)),
    ("SpecificityAtSensitivity", {"sensitivity": 0.45}, chances, best(specificity, recall, 0.45)),
    ("PrecisionAtRecall", {"recall": 0.55}, chances, best(precision, recall, 0.55)),
    ("RecallAtPrecision", {"precision": 0.55}, chances, best(recall, precision, 0.55)),
    ("F1Score", {}, one_hot, f_beta(1.0)),
    ("FBetaScore", {"beta": 2.0}, one_hot, f_beta(2.0)),
    ("IoU", {"num_classes": 3, "target_class_ids": [0, 2], **FLOATS}, labels, iou(3, [0, 2])),
    ("MeanIoU", {"num_classes": 5, **FLOATS}, labels, iou(5, range(5))),
    (
        "BinaryIoU",
        {"threshold": 0.4, **FLOATS},
        chances,
        lambda t, p, w: iou(2, [0, 1])(t, p >= 0.4, w),
    ),
    ("OneHotIoU", {"num_classes": C, "target_class_ids": [1], **FLOATS}, one_hot, hot_iou(C, [1])),
    ("OneHotMeanIoU", {"num_classes": C, **FLOATS}, one_hot, hot_iou(C, range(C))),
]
IDS = [f"{name}-{','.join(settings) or 'default'}" for name, settings, _, _ in CASES]
EVERY = pytest.mark.parametrize(("name", "settings", "data", "value"), CASES, ids=IDS)


def joined(data, rng):
    """Two batches, and the weights of the second."""
    return data(rng), data(rng), rng.uniform(0.5, 2.0, size=N)


def fed(metric, first, second, weights, run=None):
    run = run or metric.update_state
    run(*map(tensor, first))
    run(*map(tensor, second), tensor(weights))
    return metric


def tensor(x):
    x = np.asarray(x)
    return tk.convert_to_tensor(x.astype("float32" if x.dtype.kind == "f" else "int32"))


@EVERY
def test_the_value_follows_the_definition(name, settings, data, value, rng):
    first, second, weights = joined(data, rng)
    metric = fed(getattr(metrics, name)(**settings), first, second, weights)
    t, p = (np.concatenate(pair) for pair in zip(first, second, strict=True))
    got = metric.result()
    assert got.dtype == "float32"
    np.testing.assert_allclose(
        got.numpy(), value(t, p, np.concatenate([np.ones(N), weights])), rtol=2e-4, atol=1e-5
    )


@EVERY
def test_an_empty_batch_changes_nothing(name, settings, data, value, rng):
    first, second, weights = joined(data, rng)
    metric = fed(getattr(metrics, name)(**settings), first, second, weights)
    before = metric.result().numpy().copy()
    metric.update_state(*[tensor(x[:0]) for x in first])
    np.testing.assert_array_equal(metric.result().numpy(), before)


@EVERY
def test_a_reset_metric_is_like_a_new_one(name, settings, data, value, rng):
    first, second, weights = joined(data, rng)
    metric = fed(getattr(metrics, name)(**settings), first, second, weights)
    wanted = metric.result().numpy().copy()
    metric.reset_state()
    assert all(not v.numpy().any() for v in metric.variables)
    np.testing.assert_array_equal(fed(metric, first, second, weights).result().numpy(), wanted)


@EVERY
def test_a_traced_update_does_the_same(name, settings, data, value, rng):
    first, second, weights = joined(data, rng)
    eager = fed(getattr(metrics, name)(**settings), first, second, weights)
    traced = getattr(metrics, name)(**settings)
    fed(traced, first, second, weights, function(lambda *batch: traced.update_state(*batch)))
    np.testing.assert_allclose(function(traced.result)().numpy(), eager.result().numpy(), rtol=1e-6)


@EVERY
def test_a_config_makes_an_equal_metric(name, settings, data, value, rng):
    first, second, weights = joined(data, rng)
    metric = getattr(metrics, name)(**settings, name="mine")
    again = metrics.deserialize(metrics.serialize(metric))
    assert type(again) is type(metric)
    assert again.get_config() == metric.get_config()
    results = [fed(m, first, second, weights).result().numpy() for m in (metric, again)]
    np.testing.assert_array_equal(*results)


@EVERY
def test_the_state_is_a_tree_of_variables_and_no_tape_sees_it(name, settings, data, value, rng):
    first = data(rng)
    metric = getattr(metrics, name)(**settings)
    with tk.GradientTape(persistent=True) as tape:
        p = tensor(first[1])
        if p.dtype.is_floating:
            tape.watch(p)
        metric.update_state(tensor(first[0]), p)
        metric.result()
        assert not tape.entries
        assert not tape.watched_variables()
    parts = [part for path, part in traverse(metric) if len(path) == 1]
    assert {id(v) for v in metric.variables} == {id(part) for part in parts}
    assert metric.variables


def test_every_metric_has_a_case():
    completeness.check_complete(
        metrics,
        metrics.Metric,
        {name for name, *_ in CASES},
        "CASES in tests/conformance/test_metrics.py",
        inner={"ConfusionMetric", "FunctionMean"},
        # bases, and those of values: tests/metrics/test_metric.py
        apart={"Metric", "Mean", "Sum", "MeanScore", "MeanMetricWrapper"},
    )


def test_every_metric_is_found_by_its_name():
    names = completeness.exported(metrics, metrics.Metric) - {"Metric", "MeanScore"}
    assert {kind.__name__ for kind in METRICS.named.values()} == names
