"""Softmax cross-entropy from logits: values by its formula, and labels that are no classes."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import losses, ops
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.ops.neural.softmax_cross_entropy import (
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)

LOGITS = np.array([[2.0, -1.0, 0.5], [0.0, 3.0, -2.0]], "float32")


def chances(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def test_labels_that_do_not_sum_to_one_count_as_they_are():
    labels = np.array([[1.0, 2.0, 0.0]], "float32")
    found = softmax_cross_entropy_with_logits(labels, LOGITS[:1])
    expected = -(labels * np.log(chances(LOGITS[:1]))).sum(-1)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_a_class_of_chance_zero_costs_nothing_where_its_label_is_zero():
    logits = np.array([[0.0, -np.inf]], "float32")
    loss = softmax_cross_entropy_with_logits([[1.0, 0.0]], logits)
    np.testing.assert_array_equal(loss.numpy(), [0])


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_that_is_no_class_is_named(label):
    with pytest.raises(InvalidArgumentError, match=rf"labels\[1\] = {label} is not in \[0, 3\)"):
        ops.sparse_categorical_crossentropy([0, label], LOGITS, from_logits=True)


def test_labels_must_be_integers():
    with pytest.raises(InvalidArgumentError, match="float32"):
        sparse_softmax_cross_entropy_with_logits(np.ones(2, "float32"), LOGITS)


@pytest.mark.parametrize(
    "call",
    [
        lambda: softmax_cross_entropy_with_logits(np.ones((2, 3)), np.ones((3, 2))),
        lambda: sparse_softmax_cross_entropy_with_logits([1], LOGITS),
    ],
)
def test_shapes_that_do_not_fit_are_errors(call):
    with pytest.raises(ShapeError):
        call()


# ------------------------------------------------------------------ loss and slopes in one pass


def sparse(rng, rows, classes, dtype):
    labels = rng.integers(0, classes, rows).astype("int32")
    return labels, np.eye(classes)[labels], sparse_softmax_cross_entropy_with_logits


def dense(rng, rows, classes, dtype):
    labels = rng.uniform(size=(rows, classes)).astype(dtype)
    return labels, labels.astype("float64"), softmax_cross_entropy_with_logits


def followed(loss_fn, labels, weights):
    """A function of logits to losses and the gradient of their weighted sum."""

    def call(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            loss = loss_fn(labels, x)
            weighted = tk.reduce_sum(loss * tk.constant(weights, loss.dtype))
        return loss, tape.gradient(weighted, x)

    return call


@pytest.mark.parametrize("kind", [sparse, dense])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(("rows", "classes"), [(0, 4), (3, 1), (5, 7), (1100, 1), (400, 40)])
def test_gradients_equal_their_formula_eagerly_and_in_functions(
    mode, rng, kind, dtype, rows, classes
):
    x = tk.constant(rng.normal(size=(rows, classes)) * 3, dtype)
    labels, chances_of_labels, loss_fn = kind(rng, rows, classes, "float32")
    labels = tk.constant(labels) if kind is sparse else tk.constant(labels, dtype)
    weights = rng.normal(size=rows)
    wide = x.numpy().astype("float64")
    chance = chances(wide) if rows else wide
    expected = -(chances_of_labels * np.log(chance)).sum(-1)
    slopes = chance * chances_of_labels.sum(-1, keepdims=True) - chances_of_labels
    call = followed(loss_fn, labels, weights)
    tolerance = {"float16": 2e-2, "bfloat16": 2e-1, "float32": 2e-5, "float64": 1e-12}[dtype]
    for loss, gradient in (call(x), tk.function(call)(x)):
        assert loss.dtype == gradient.dtype == x.dtype
        scale = max(1, abs(expected).max(initial=0))
        found = loss.numpy().astype("float64")
        np.testing.assert_allclose(found, expected, atol=tolerance * scale)
        found = gradient.numpy().astype("float64")
        slope = slopes * weights[:, None]
        scale = max(1, abs(slope).max(initial=0))
        np.testing.assert_allclose(found, slope, atol=tolerance * scale)


@pytest.mark.parametrize("kind", [sparse, dense])
@pytest.mark.parametrize(("rows", "classes"), [(5, 7), (400, 40)])
def test_functions_give_the_bits_of_eager_calls(mode, rng, kind, rows, classes):
    x = tk.constant(rng.normal(size=(rows, classes)), "float32")
    labels, _, loss_fn = kind(rng, rows, classes, "float32")
    call = followed(loss_fn, tk.constant(labels), rng.normal(size=rows))
    compiled = tk.function(call)
    for _ in range(3):
        for a, b in zip(call(x), compiled(x), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_logits_that_do_not_lie_in_order_are_taken(mode, rng):
    x = rng.normal(size=(40, 400)).astype("float32").T
    labels = rng.integers(0, 40, 400)
    call = followed(sparse_softmax_cross_entropy_with_logits, labels, np.ones(400))
    for a, b in zip(call(tk.constant(x)), call(tk.constant(x.copy())), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6, atol=1e-7)


def test_a_tape_that_does_not_follow_the_logits_changes_nothing():
    other = tk.constant(1.0)
    x = tk.constant(LOGITS)
    with tk.GradientTape() as tape:
        tape.watch(other)
        loss = sparse_softmax_cross_entropy_with_logits([0, 2], x)
    assert tape.gradient(loss, other) is None


def names_in(function, *inputs):
    graph = tk.function(function).get_concrete_function(*inputs).graph
    return {node.primitive.name for node in graph.nodes if node.kind == "op"}


@pytest.mark.parametrize(
    ("loss", "labels"),
    [
        (losses.SparseCategoricalCrossentropy(from_logits=True), np.array([0, 2])),
        (losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=2), np.array([0, 2])),
        (losses.CategoricalCrossentropy(from_logits=True), np.eye(3, dtype="float32")[:2]),
        (losses.sparse_categorical_crossentropy, np.array([0, 2])),
        (softmax_cross_entropy_with_logits, np.eye(3, dtype="float32")[:2]),
    ],
)
def test_losses_take_the_exponential_once(loss, labels):
    x = tk.constant(np.tile(chances(LOGITS), (400, 1)))
    labels = np.concatenate([labels] * 400)

    def step(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = loss(labels, x)
        return tape.gradient(y, x)

    found = names_in(step, x)
    assert any(name.endswith("softmax_cross_entropy_and_slopes") for name in found)
    assert not any(name.endswith("softmax_cross_entropy_gradient") for name in found)
    found = names_in(lambda x: loss(labels, x), x)
    assert any(name.endswith("softmax_cross_entropy_with_logits") for name in found)


@pytest.mark.parametrize(
    ("rows", "kind", "kept"),
    [(10, sparse, False), (11, sparse, True), (22000, sparse, False), (22000, dense, True)],
)
def test_slopes_are_kept_where_it_pays(rng, rows, kind, kept):
    x = tk.constant(np.zeros((rows, 100), "float32"))
    labels, _, loss_fn = kind(rng, rows, 100, "float32")
    found = names_in(followed(loss_fn, labels, np.ones(rows)), x)
    assert any(name.endswith("and_slopes") for name in found) == kept


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_slopes_of_16_bits_are_scaled_before_they_are_rounded(dtype):
    x = tk.constant([[0.0, -20.0]], dtype)
    call = followed(sparse_softmax_cross_entropy_with_logits, [0], np.full(1, 2.0**14))
    _, gradient = call(x)
    expected = 2.0**14 * np.exp(-20.0)
    np.testing.assert_allclose(gradient.numpy().astype("float64")[0, 1], expected, rtol=1e-2)


def test_a_function_without_a_tape_can_be_differentiated_from_outside(rng):
    x, labels = tk.constant(LOGITS), [0, 2]
    loss = tk.function(lambda x: sparse_softmax_cross_entropy_with_logits(labels, x))
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = loss(x)
    np.testing.assert_allclose(
        tape.gradient(y, x).numpy(), chances(LOGITS) - np.eye(3)[labels], atol=1e-6
    )


@pytest.mark.parametrize("kind", [sparse, dense])
@pytest.mark.parametrize("rows", [5, 200])
def test_second_gradients_equal_differences(mode, rng, kind, rows):
    x = tk.constant(rng.normal(size=(rows, 7)), "float64")
    labels, _, loss_fn = kind(rng, rows, 7, "float64")
    first = followed(loss_fn, tk.constant(labels), rng.normal(size=rows))
    direction = rng.normal(size=(rows, 7))
    with tk.GradientTape() as tape:
        tape.watch(x)
        along = tk.reduce_sum(first(x)[1] * direction)
    found = tape.gradient(along, x).numpy()
    step = 1e-5
    ahead, behind = (first(tk.constant(x.numpy() + s * direction))[1] for s in (step, -step))
    expected = (ahead.numpy() - behind.numpy()) / (2 * step)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
