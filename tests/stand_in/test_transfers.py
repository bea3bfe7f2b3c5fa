"""Training on a GPU copies the batch there and what is asked for back, and nothing else."""

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from trainkit.core.errors import InvalidArgumentError

X = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")
Y = np.arange(8, dtype="int32") % 3
BATCH = [((8, 4), "float32"), ((8,), "int32")]


@pytest.fixture
def ledger():
    with stand_in.in_place() as ledger:
        yield ledger


def forget(ledger):
    for kept in (ledger.to_host, ledger.to_device, ledger.waits):
        kept.clear()


def a_model():
    return tk.Sequential(
        [
            tk.layers.Dense(5, activation="relu"),
            tk.layers.LayerNormalization(),
            tk.layers.Dropout(0.5),
            tk.layers.Dense(3),
        ]
    )


OPTIMIZERS = {
    "sgd": lambda: tk.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda: tk.optimizers.Adam(0.01),
    "clipped": lambda: tk.optimizers.AdamW(0.01, global_clipnorm=1.0, use_ema=True),
    "schedule": lambda: tk.optimizers.SGD(tk.optimizers.schedules.ExponentialDecay(0.1, 5, 0.9)),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("compiled", [False, True])
def test_a_step_of_a_custom_loop(ledger, optimizer, compiled):
    model, rule = a_model(), OPTIMIZERS[optimizer]()
    loss_of = tk.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(x, y):
        with tk.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        weights = model.trainable_variables
        rule.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    step = tk.function(step) if compiled else step
    for _ in range(2):
        step(tk.constant(X), tk.constant(Y))
    forget(ledger)
    loss = step(tk.constant(X), tk.constant(Y))
    assert ledger.to_device == BATCH
    assert ledger.to_host == []
    assert ledger.waits == []
    float(loss)
    assert ledger.to_host == [((), "float32")]


@pytest.mark.parametrize("eagerly", [False, True])
def test_train_on_batch_reads_the_loss_and_the_metrics(ledger, eagerly):
    model = a_model()
    model.compile(
        "adam",
        tk.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        run_eagerly=eagerly,
    )
    for _ in range(4):  # one of them makes the fused program, which looks at constants
        model.train_on_batch(X, Y)
    forget(ledger)
    model.train_on_batch(X, Y)
    assert ledger.to_device == BATCH
    # the loss and the accuracy, each a total and a count, which a graph divides on the device
    assert ledger.to_host == [((), "float32")] * (4 if eagerly else 2)
    assert ledger.waits == []


def test_a_convolutional_network_trains_without_a_copy(ledger):
    images = np.random.default_rng(0).normal(size=(4, 8, 8, 3)).astype("float32")
    model = tk.Sequential(
        [
            tk.layers.Conv2D(4, 3, padding="same"),
            tk.layers.BatchNormalization(),
            tk.layers.Activation("gelu"),
            tk.layers.MaxPooling2D(),
            tk.layers.GlobalAveragePooling2D(),
            tk.layers.Dense(2),
        ]
    )
    rule = tk.optimizers.Adam()

    @tk.function
    def step(x, y):
        with tk.GradientTape() as tape:
            loss = tk.reduce_mean(tk.square(model(x, training=True) - y))
        weights = model.trainable_variables
        rule.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    x, y = tk.constant(images), tk.zeros([4, 2])
    step(x, y)
    forget(ledger)
    step(x, y)
    assert (ledger.to_device, ledger.to_host, ledger.waits) == ([], [], [])


@pytest.mark.parametrize("layer", ["LSTM", "GRU"])
def test_a_recurrent_network_trains_without_a_copy(ledger, layer):
    words = tk.constant([[1, 2, 0], [3, 1, 1]])
    model = tk.Sequential(
        [tk.layers.Embedding(5, 4), getattr(tk.layers, layer)(3), tk.layers.Dense(1)]
    )
    rule = tk.optimizers.RMSprop()

    def step():
        with tk.GradientTape() as tape:
            loss = tk.reduce_sum(model(words) ** 2)
        weights = model.trainable_variables
        rule.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

    step()
    forget(ledger)
    step()
    assert (ledger.to_device, ledger.to_host, ledger.waits) == ([], [], [])


def test_an_eager_step_of_a_scaled_loss_reads_whether_the_gradients_are_finite(ledger):
    w = tk.Variable(tk.ones([3]))
    rule = tk.optimizers.LossScaleOptimizer(tk.optimizers.SGD(0.1))

    def step():
        with tk.GradientTape() as tape:
            loss = rule.scale_loss(tk.reduce_sum(tk.square(w)))
        rule.apply_gradients([(tape.gradient(loss, w), w)])

    step()
    forget(ledger)
    step()
    assert (ledger.to_device, ledger.to_host, ledger.waits) == ([], [((), "bool")], [])


# ---------------------------------------------------------------------- two devices


def test_tensors_of_two_devices_are_not_mixed(ledger):
    with tk.device("/cpu:0"):
        here = tk.constant([1.0, 2.0, 3.0])
    there = tk.constant([[1.0, 2.0, 3.0]])
    forget(ledger)
    with pytest.raises(InvalidArgumentError) as caught:
        _ = here + there
    assert str(caught.value).splitlines() == [
        "add: the inputs are on /device:CPU:0 and /device:GPU:0; bring them to one device with "
        ".cpu() or .gpu()",
        "  input 0  (3,) float32 on /device:CPU:0",
        "  input 1  (1, 3) float32 on /device:GPU:0",
    ]
    assert (ledger.to_host, ledger.to_device) == ([], [])


@pytest.mark.parametrize("compiled", [False, True])
def test_a_single_number_of_the_cpu_goes_along(ledger, compiled):
    def f(a, b):
        return a * b, tk.where(b > a, a, b), tk.maximum(a, b)

    with tk.device("/cpu:0"):
        a = tk.constant(2.0)
    b = tk.constant([1.0, 3.0])
    forget(ledger)
    results = (tk.function(f) if compiled else f)(a, b)
    assert (ledger.to_host, ledger.to_device) == ([], [])
    assert [y.device for y in results] == ["/device:GPU:0"] * 3
    assert [y.numpy().tolist() for y in results] == [[2, 6], [1, 2], [2, 3]]


def test_wrong_labels_give_nan_on_a_gpu_and_wrong_ids_zeros(ledger):
    logits = tk.constant([[1.0, 2.0], [3.0, 4.0]])
    with tk.GradientTape() as tape:
        tape.watch(logits)
        loss = tk.nn.sparse_softmax_cross_entropy_with_logits([1, 2], logits)
    slope = tape.gradient(loss, logits)
    table = tk.constant([[1.0, 2.0], [3.0, 4.0]])
    with tk.GradientTape() as tape:
        tape.watch(table)
        rows = tk.nn.embedding_lookup(table, [1, 2, -1])
    by_table = tape.gradient(rows, table)
    assert ledger.to_host == []
    assert np.isnan(loss.numpy()).tolist() == [False, True]
    assert np.isnan(slope.numpy()).tolist() == [[False, False], [True, True]]
    assert rows.numpy().tolist() == [[3, 4], [0, 0], [0, 0]]
    assert by_table.numpy().tolist() == [[0, 0], [1, 1]]


def test_segments_are_reduced_on_the_device(ledger):
    data = np.arange(1.0, 13.0).reshape(6, 2)
    ids = [2, 0, -1, 2, 7, 2]
    names = ("segment_sum", "segment_max", "segment_min", "segment_prod")
    ops = [getattr(tk.math, f"unsorted_{name}") for name in names]
    with tk.device("/cpu:0"):
        kept = [2, 0, -1, 2, -1, 2]
        expected = [op(data, kept, 3).numpy() for op in ops]
    there, ids = tk.constant(data), tk.constant(ids)
    forget(ledger)
    found = [op(there, ids, 3) for op in ops]
    assert (ledger.to_host, ledger.to_device) == ([], [])
    assert set(ledger.waits) <= {"argsort"}  # CuPy sorts by Thrust, which waits at its end
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(b.numpy(), a)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "bfloat16", "complex64"])
def test_what_atomic_operations_do_not_know_goes_through_a_wider_dtype(ledger, dtype):
    def f(x):
        found = [tk.math.unsorted_segment_sum(x, [1, 0, 1], 2)]
        if not x.dtype.is_complex:
            found.append(tk.math.unsorted_segment_max(x, [1, 0, 1], 2))
        if x.dtype.is_differentiable:
            with tk.GradientTape() as tape:
                tape.watch(x)
                y = tk.gather(x, [0, 2, 2], axis=1)
            found.append(tape.gradient(y, x))
        return found

    values = np.arange(9).reshape(3, 3).astype("float32")
    there = f(tk.cast(tk.constant(values), dtype))
    with tk.device("/cpu:0"):
        here = f(tk.cast(tk.constant(values), dtype))
    for a, b in zip(here, there, strict=True):
        assert (a.dtype, b.device) == (b.dtype, "/device:GPU:0")
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_systems_of_equations_broadcast(ledger):
    a = tk.constant([[2.0, 0.0], [1.0, 4.0]])
    b = tk.constant(np.arange(6.0, dtype="float32").reshape(3, 2, 1))
    found = tk.linalg.solve(a, b)
    assert found.shape == (3, 2, 1)
    np.testing.assert_allclose(tk.matmul(a, found).numpy(), b.numpy(), rtol=1e-6)
