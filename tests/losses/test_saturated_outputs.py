"""Losses of what a sigmoid or softmax gives: exact where these saturate."""

import gc
import math
import weakref

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.dispatch import native

FAR = 25.0
"""A logit whose sigmoid is 1 in float32."""


def gradient(loss, logits):
    x = tk.Variable(logits)
    with tk.GradientTape() as tape:
        y = loss(x)
    return y.numpy(), tape.gradient(y, x).numpy()


@pytest.fixture(params=["native", "python"])
def half(request):
    """Both halves of the eager path."""
    before = native.switch(request.param == "native")
    yield request.param
    native.switch(before)


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize(
    "sigmoid",
    [
        tk.activations.sigmoid,
        tk.ops.sigmoid,
        tk.nn.sigmoid,
        tk.layers.Activation("sigmoid"),
        tk.layers.Dense(1, "sigmoid", kernel_initializer="ones"),
    ],
    ids=["activation", "ops", "tf", "layer", "dense"],
)
def test_a_sure_and_wrong_answer_is_as_bad_as_its_logit(half, sigmoid, graph):
    def loss(x):
        return tk.losses.binary_crossentropy([[0.0]], sigmoid(x))

    value, slope = gradient(tk.function(loss) if graph else loss, [[FAR]])
    assert value[0] == FAR
    assert slope[0, 0] == 1.0


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("sparse", [False, True], ids=["one-hot", "sparse"])
@pytest.mark.parametrize("axis", [-1, 1])
def test_a_sure_and_wrong_choice_is_as_bad_as_its_logit(half, graph, sparse, axis):
    logits = np.zeros((2, 3, 4), "float32")
    moved = np.moveaxis(logits, axis, -1)
    moved[..., 1] = FAR
    if sparse:
        labels = np.zeros(moved.shape[:-1], "int32")
        compute = tk.losses.SparseCategoricalCrossentropy(reduction="sum", axis=axis)
    else:
        labels = np.zeros_like(logits)
        np.moveaxis(labels, axis, -1)[..., 0] = 1.0
        compute = tk.losses.CategoricalCrossentropy(reduction="sum", axis=axis)

    def loss(x):
        return compute(labels, tk.activations.softmax(x, axis=axis))

    rows = moved[..., 0].size
    value, slope = gradient(tk.function(loss) if graph else loss, logits)
    assert value == pytest.approx(rows * FAR, rel=1e-6)
    slope = np.moveaxis(slope, axis, -1)
    assert slope[..., 1] == pytest.approx(1.0)
    assert slope[..., 0] == pytest.approx(-1.0)


def test_a_model_leaves_a_wrong_start(half):
    for eagerly in (False, True):
        model = tk.Sequential([tk.Input((1,)), tk.layers.Dense(1, "sigmoid")])
        model.set_weights([np.full((1, 1), FAR, "float32"), np.zeros(1, "float32")])
        model.compile(tk.optimizers.SGD(1.0), "binary_crossentropy", run_eagerly=eagerly)
        logs = model.train_on_batch(np.ones((4, 1), "float32"), np.zeros((4, 1), "float32"))
        assert float(logs) == FAR
        assert model.get_weights()[0][0, 0] == FAR - 1.0
        assert model.evaluate(np.ones((4, 1)), np.zeros((4, 1)), verbose=0) == FAR - 2.0


def test_all_that_keeps_the_probabilities_as_they_are_keeps_the_logits(half):
    x = tk.constant([[FAR, 0.0]])
    p = tk.activations.softmax(x)
    for loss, labels in (
        (tk.losses.SparseCategoricalCrossentropy(ignore_class=7), [1]),
        (tk.losses.CategoricalCrossentropy(label_smoothing=0.0), [[0.0, 1.0]]),
        (tk.metrics.SparseCategoricalCrossentropy(), [1]),
        (tk.metrics.CategoricalCrossentropy(), [[0.0, 1.0]]),
    ):
        assert float(loss(labels, p)) == FAR
    chance = tk.activations.sigmoid(tk.constant([[FAR]]))
    assert float(tk.losses.BinaryFocalCrossentropy(gamma=0.0)([[0.0]], chance)) == FAR
    assert float(tk.metrics.BinaryCrossentropy()([[0.0]], chance)) == FAR


@pytest.mark.parametrize("from_logits", [False, True])
def test_logits_are_not_asked_twice_for_their_sigmoid(from_logits):
    x = tk.constant([[1.5]])
    exact = tk.losses.binary_crossentropy([[1.0]], x, from_logits=True)
    p = tk.activations.sigmoid(x)
    assert float(tk.losses.binary_crossentropy([[1.0]], p, from_logits=from_logits)) == exact
    rows = tk.constant([[1.5, 0.0, -2.0]])
    p = tk.activations.softmax(rows)
    exact = tk.losses.sparse_categorical_crossentropy([2], rows, from_logits=True)
    assert tk.losses.sparse_categorical_crossentropy([2], p, from_logits=from_logits) == exact
    one_hot = [[0.0, 0.0, 1.0]]
    assert tk.losses.categorical_crossentropy(one_hot, p, from_logits=from_logits) == exact


def test_another_activation_axis_or_a_changed_output_counts_as_what_it_is(half):
    x = tk.constant([[FAR, 0.0], [0.0, FAR]])
    limit = -math.log(1e-7)
    one_hot = [[0.0, 1.0], [1.0, 0.0]]
    across = tk.activations.softmax(x, axis=0)
    assert tk.losses.categorical_crossentropy(one_hot, across).numpy() == pytest.approx(limit)
    changed = tk.activations.softmax(x) + 0.0
    assert tk.losses.categorical_crossentropy(one_hot, changed).numpy() == pytest.approx(limit)
    both = tk.activations.softmax(x, axis=(0, 1))
    assert tk.losses.categorical_crossentropy(one_hot, both).numpy() == pytest.approx(limit)
    # a sigmoid's results are shares of their sum, a softmax's are yes or no each by itself
    each = tk.activations.sigmoid(tk.constant([[0.0, 0.0]]))
    assert float(tk.losses.categorical_crossentropy([[0.0, 1.0]], each)) == pytest.approx(
        math.log(2)
    )
    shares = tk.activations.softmax(tk.constant([[0.0, math.log(3.0)]]))
    assert float(tk.losses.binary_crossentropy([[0.0, 1.0]], shares)) == pytest.approx(
        -math.log(0.75)
    )


def test_halves_that_a_loss_makes_wider_are_limited_as_before():
    p = tk.cast(tk.activations.sigmoid(tk.constant([[FAR]], "float16")), "float32")
    assert float(tk.losses.binary_crossentropy([[0.0]], p)) == pytest.approx(-math.log(1e-7), 0.02)


def test_activations_of_activations_keep_one_input_alive(half):
    x = first = tk.constant(np.ones((3,), "float32"))
    array = weakref.ref(first._array)
    for _ in range(3):
        x = tk.activations.sigmoid(x)
    del first
    gc.collect()
    assert array() is None
    assert not hasattr(x, "assign")


def test_symbols_and_stacks_know_their_logits():
    def loss(row, label):
        return tk.losses.binary_crossentropy([label], tk.sigmoid(row))

    rows, labels = tk.constant([[FAR], [-FAR]]), tk.constant([0.0, 1.0])
    stacked = tk.vectorized_map(lambda pair: loss(*pair), (rows, labels))
    assert stacked.numpy().ravel().tolist() == [FAR, FAR]
    x = tk.Input((1,))
    model = tk.Model(x, tk.sigmoid(x))
    assert float(tk.losses.binary_crossentropy([[0.0]], model(tk.constant([[FAR]])))) == FAR


def test_what_the_limits_did_not_touch_is_what_it_was(rng):
    logits = rng.normal(size=(40, 5)).astype("float32")
    labels = rng.integers(0, 5, 40)
    p = tk.activations.softmax(tk.constant(logits))
    plain = tk.constant(p.numpy())
    known, limited = (tk.losses.sparse_categorical_crossentropy(labels, y) for y in (p, plain))
    np.testing.assert_allclose(known, limited, rtol=2e-5, atol=1e-6)
    yes = rng.integers(0, 2, (40, 5)).astype("float32")
    p = tk.activations.sigmoid(tk.constant(logits))
    known, limited = (tk.losses.binary_crossentropy(yes, y) for y in (p, tk.constant(p.numpy())))
    np.testing.assert_allclose(known, limited, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("from_logits", [False, True])
def test_a_tape_that_watches_the_chances_has_gradients_by_them(half, from_logits):
    loss = tk.keras.losses.BinaryCrossentropy(from_logits)
    x = tk.constant([[1.0]])
    p = tk.sigmoid(x)
    slope = 1.0 / (1.0 - p.numpy())
    with tk.GradientTape(persistent=True) as tape:
        tape.watch(p)
        y = loss([[0.0]], p)
    assert float(y) == pytest.approx(float(loss([[0.0]], tk.sigmoid(x))))
    assert tape.gradient(y, p).numpy() == pytest.approx(slope)
    with tk.GradientTape(persistent=True) as tape:
        tape.watch(x)
        p = tk.sigmoid(x)
        tape.watch(p)
        y = loss([[0.0]], p)
    assert tape.gradient(y, p).numpy() == pytest.approx(slope)
    assert tape.gradient(y, x).numpy() == pytest.approx(p.numpy())
    with tk.autodiff.ForwardAccumulator(p, tk.ones((1, 1))) as accumulator:
        y = loss([[0.0]], p)
    assert float(accumulator.jvp(y)) == pytest.approx(slope.item())


def test_rows_of_classes_that_a_tape_watches_have_gradients_of_their_own():
    x = tk.constant([[1.0, 0.0]])
    for compute, labels in (
        (tk.losses.SparseCategoricalCrossentropy, [0]),
        (tk.losses.CategoricalCrossentropy, [[1.0, 0.0]]),
    ):
        for from_logits in (False, True):
            p = tk.activations.softmax(x)
            with tk.GradientTape() as tape:
                tape.watch(p)
                y = compute(from_logits)(labels, p)
            expected = [1.0 - 1.0 / p.numpy()[0, 0], 1.0]  # by shares that are divided by their sum
            assert tape.gradient(y, p).numpy()[0] == pytest.approx(expected, rel=1e-5)


def test_an_activation_out_of_sight_of_a_tape_stays_so(half):
    x = tk.constant([[1.0]])
    with tk.GradientTape() as tape:
        tape.watch(x)
        with tape.stop_recording():
            p = tk.sigmoid(x)
        y = tk.losses.binary_crossentropy([[0.0]], p)
    assert tape.gradient(y, x) is None


def test_a_loss_that_is_computed_again_has_its_gradient(half):
    x = tk.constant([[1.0]])
    again = tk.recompute_grad(lambda p: tk.losses.binary_crossentropy([[0.0]], p))
    with tk.GradientTape() as tape:
        tape.watch(x)
        p = tk.sigmoid(x)
        y = again(p)
    assert tape.gradient(y, x).numpy() == pytest.approx(p.numpy())
