"""Every loss against its formula, worked out in float64 by plain NumPy; gradients by
differences."""

import math

import numpy as np
import pytest

import trainkit as tk
from tests.conformance import completeness
from trainkit import losses
from trainkit.graph.tracing.function import function
from trainkit.losses.registry import LOSSES

N, C = 5, 4


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def bce(z, p):
    return -(z * np.log(p) + (1 - z) * np.log(1 - p))


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def tversky_of(z, p, alpha, beta):
    tp, fp, fn = (z * p).sum(), ((1 - z) * p).sum(), (z * (1 - p)).sum()
    return 1 - tp / (tp + alpha * fp + beta * fn)


def circle_of(labels, x, gamma=80.0, margin=0.4):
    distance = 1 - x @ x.T
    values = []
    for i in range(len(x)):
        near = far = 0.0
        for j in range(len(x)):
            d = distance[i, j]
            if labels[i] != labels[j]:
                far += math.exp(gamma * max(1 + margin - d, 0) * (1 - margin - d))
            elif i != j:
                near += math.exp(gamma * max(d + margin, 0) * (d - margin))
        values.append(math.log(1 + near * far))
    return np.array(values)


def ctc_of(labels, logits):
    """-log of the summed probability of every path that collapses to the labels."""
    values = []
    for wanted, rows in zip(labels, softmax(logits), strict=True):
        total = 0.0
        for path in np.ndindex(*[rows.shape[1]] * rows.shape[0]):
            seen = [c for i, c in enumerate(path) if c and (i == 0 or path[i - 1] != c)]
            if seen == list(wanted):
                total += math.prod(rows[t, c] for t, c in enumerate(path))
        values.append(-math.log(total))
    return np.array(values)


def numbers(rng):
    return rng.normal(size=(N, C)), rng.normal(size=(N, C))


def positive(rng):
    return rng.uniform(0.1, 2, size=(N, C)), rng.uniform(0.1, 2, size=(N, C))


def chances(rng):
    return rng.integers(0, 2, size=(N, C)).astype(float), rng.uniform(0.1, 0.9, size=(N, C))


def signs(rng):
    return rng.choice([-1.0, 1.0], size=(N, C)), rng.normal(size=(N, C))


def one_hot(rng):
    return np.eye(C)[rng.integers(0, C, size=N)], softmax(rng.normal(size=(N, C)))


def one_hot_logits(rng):
    return np.eye(C)[rng.integers(0, C, size=N)], rng.normal(size=(N, C))


def distributions(rng):
    return softmax(rng.normal(size=(N, C))), softmax(rng.normal(size=(N, C)))


def class_numbers(rng):
    return rng.integers(0, C, size=N), softmax(rng.normal(size=(N, C)))


def class_numbers_logits(rng):
    return rng.integers(0, C, size=N), rng.normal(size=(N, C))


def embeddings(rng):
    return np.array([0, 0, 1, 1, 2]), unit(rng.normal(size=(N, C)))


def sequences(rng):
    return rng.integers(1, 3, size=(2, 2)), rng.normal(size=(2, 4, 3))


def entropy_of(z, p):
    return -(z * np.log(p)).sum(-1)


def picked(labels, p):
    return p[np.arange(len(labels)), labels]


# loss, settings, data, one value per sample
CASES = [
    ("MeanSquaredError", {}, numbers, lambda t, p: ((t - p) ** 2).mean(-1)),
    ("MeanAbsoluteError", {}, numbers, lambda t, p: np.abs(t - p).mean(-1)),
    ("MeanAbsolutePercentageError", {}, positive, lambda t, p: 100 * np.abs((t - p) / t).mean(-1)),
    (
        "MeanSquaredLogarithmicError",
        {},
        positive,
        lambda t, p: ((np.log(t + 1) - np.log(p + 1)) ** 2).mean(-1),
    ),
    (
        "Huber",
        {"delta": 0.7},
        numbers,
        lambda t, p: np.where(
            np.abs(t - p) <= 0.7, (t - p) ** 2 / 2, 0.7 * np.abs(t - p) - 0.245
        ).mean(-1),
    ),
    ("LogCosh", {}, numbers, lambda t, p: np.log(np.cosh(p - t)).mean(-1)),
    ("Poisson", {}, positive, lambda t, p: (p - t * np.log(p)).mean(-1)),
    ("CosineSimilarity", {}, numbers, lambda t, p: -(unit(t) * unit(p)).sum(-1)),
    ("BinaryCrossentropy", {}, chances, lambda z, p: bce(z, p).mean(-1)),
    (
        "BinaryCrossentropy",
        {"from_logits": True, "label_smoothing": 0.2},
        signs,
        lambda s, x: bce(s * 0.8 + 0.1, sigmoid(x)).mean(-1),
    ),
    (
        "BinaryFocalCrossentropy",
        {"apply_class_balancing": True, "alpha": 0.3},
        chances,
        lambda z, p: (
            (z * 0.3 + (1 - z) * 0.7) * (1 - (z * p + (1 - z) * (1 - p))) ** 2 * bce(z, p)
        ).mean(-1),
    ),
    ("CategoricalCrossentropy", {}, one_hot, entropy_of),
    (
        "CategoricalCrossentropy",
        {"from_logits": True, "label_smoothing": 0.2},
        one_hot_logits,
        lambda z, x: entropy_of(z * 0.8 + 0.2 / C, softmax(x)),
    ),
    (
        "CategoricalFocalCrossentropy",
        {"gamma": 1.5},
        one_hot,
        lambda z, p: (0.25 * (1 - p) ** 1.5 * -z * np.log(p)).sum(-1),
    ),
    (
        "CategoricalGeneralizedCrossEntropy",
        {"q": 0.7},
        class_numbers,
        lambda y, p: (1 - picked(y, p) ** 0.7) / 0.7,
    ),
    ("SparseCategoricalCrossentropy", {}, class_numbers, lambda y, p: -np.log(picked(y, p))),
    (
        "SparseCategoricalCrossentropy",
        {"from_logits": True},
        class_numbers_logits,
        lambda y, x: -np.log(picked(y, softmax(x))),
    ),
    ("KLDivergence", {}, distributions, lambda t, p: (t * np.log(t / p)).sum(-1)),
    ("Hinge", {}, signs, lambda t, p: np.maximum(1 - t * p, 0).mean(-1)),
    ("SquaredHinge", {}, signs, lambda t, p: (np.maximum(1 - t * p, 0) ** 2).mean(-1)),
    (
        "CategoricalHinge",
        {},
        one_hot_logits,
        lambda z, p: np.maximum(((1 - z) * p).max(-1) - (z * p).sum(-1) + 1, 0),
    ),
    ("Circle", {"gamma": 2.0}, embeddings, lambda y, x: circle_of(y, x, 2.0)),
    ("Dice", {}, chances, lambda z, p: 1 - 2 * (z * p).sum() / (z.sum() + p.sum())),
    ("Tversky", {"alpha": 0.2, "beta": 0.6}, chances, lambda z, p: tversky_of(z, p, 0.2, 0.6)),
    ("CTC", {}, sequences, ctc_of),
]
IDS = [f"{name}-{','.join(settings) or 'default'}" for name, settings, _, _ in CASES]


def built(kind, settings, **more):
    return getattr(losses, kind)(**settings, **more)


@pytest.mark.parametrize(("name", "settings", "data", "formula"), CASES, ids=IDS)
def test_values_and_reductions_follow_the_formula(name, settings, data, formula, rng):
    y_true, y_pred = data(rng)
    if name == "BinaryCrossentropy" and settings:
        y_true = (y_true + 1) / 2
        wanted = formula(y_true, y_pred)
    else:
        wanted = formula(y_true, y_pred)
    call = built(name, settings, reduction="none", dtype="float64")
    np.testing.assert_allclose(call(y_true, y_pred).numpy(), wanted, rtol=1e-5, atol=1e-7)
    counted = wanted[wanted > 0] if name == "Circle" else wanted  # zeros don't count in its mean
    for reduction, total in {
        "sum": np.sum,
        "sum_over_batch_size": np.mean,
        "mean": np.mean,
    }.items():
        got = built(name, settings, reduction=reduction)(y_true, y_pred.astype("float32"))
        assert got.dtype == "float32"
        np.testing.assert_allclose(float(got), total(counted), rtol=1e-4)


@pytest.mark.parametrize(("name", "settings", "data", "formula"), CASES, ids=IDS)
def test_the_gradient_is_the_slope(name, settings, data, formula, rng):
    y_true, y_pred = data(rng)
    loss = built(name, settings, reduction="sum", dtype="float64")
    x, direction = tk.convert_to_tensor(y_pred), rng.normal(size=y_pred.shape)
    with tk.GradientTape() as tape:
        tape.watch(x)
        value = loss(y_true, x)
    along = float((tape.gradient(value, x).numpy() * direction).sum())
    step = 1e-6
    ahead, behind = (float(loss(y_true, y_pred + s * direction)) for s in (step, -step))
    np.testing.assert_allclose(along, (ahead - behind) / (2 * step), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("name", "settings", "data", "formula"), CASES, ids=IDS)
def test_a_traced_loss_gives_the_same(name, settings, data, formula, rng):
    y_true, y_pred = data(rng)
    y_true, y_pred = tk.convert_to_tensor(y_true), tk.convert_to_tensor(y_pred.astype("float32"))
    loss = built(name, settings)
    np.testing.assert_allclose(
        float(function(loss)(y_true, y_pred)), float(loss(y_true, y_pred)), rtol=1e-6
    )


@pytest.mark.parametrize(("name", "settings", "data", "formula"), CASES, ids=IDS)
def test_a_config_makes_an_equal_loss(name, settings, data, formula, rng):
    y_true, y_pred = data(rng)
    loss = built(name, settings, reduction="sum", name="mine")
    again = losses.deserialize(losses.serialize(loss))
    assert type(again) is type(loss)
    assert again.get_config() == loss.get_config()
    assert float(again(y_true, y_pred)) == float(loss(y_true, y_pred))


def test_every_loss_has_a_case():
    completeness.check_complete(
        losses,
        losses.Loss,
        {name for name, *_ in CASES},
        "CASES in tests/conformance/test_losses.py",
        inner={"FunctionLoss"},
        apart={"Loss", "LossFunctionWrapper"},
    )


def test_every_loss_is_found_by_its_name():
    classes = {kind.__name__ for kind in LOSSES.named.values() if isinstance(kind, type)}
    assert classes == completeness.exported(losses, losses.Loss) - {"Loss"}
    functions = {f.__name__ for f in LOSSES.named.values() if not isinstance(f, type)}
    assert functions <= set(vars(losses))
