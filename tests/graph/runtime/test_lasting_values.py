"""What is computed of weights alone: the bits of eager calls, and anew when weights change."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.graph.ir.passes import optimised
from trainkit.graph.runtime.lasting_values import with_lasting_values
from trainkit.kernels.jit import kernel_family
from trainkit.kernels.matmul import prepared_weights
from trainkit.kernels.matmul.prepared_weights import PreparedResults

layers = tk.layers

pytestmark = pytest.mark.usefixtures("eager")


def names(run, *arrays):
    graph = optimised(tk.function(run).get_concrete_function(*arrays).graph)
    return [n.primitive.name for n in with_lasting_values(graph).nodes if n.kind == "op"]


@pytest.fixture
def model(rng):
    stack = [tk.Input((6, 6, 8)), layers.Conv2D(16, 3), layers.BatchNormalization(), layers.ReLU()]
    model = tk.Sequential([*stack, layers.Flatten(), layers.Dense(5), layers.BatchNormalization()])
    for variable in model.variables:
        value = rng.normal(size=variable.shape).astype("float32")
        variable.assign(0.1 + np.abs(value) if "variance" in variable.name else value)
    return model


@pytest.fixture
def images(rng):
    return tk.constant(rng.normal(size=(3, 6, 6, 8)).astype("float32"))


@pytest.mark.parametrize("jit_compile", [True, False])
def test_factors_and_shifts_last_until_weights_change(rng, model, images, jit_compile):
    operations = names(model, images)
    assert operations.count("lasting_values") == 1
    assert "rsqrt" not in operations
    assert "rsqrt" in [n.primitive.name for n in _graph(model, images).nodes if n.kind == "op"]
    f = tk.function(model, jit_compile=jit_compile)
    normalization = model.layers[1]
    for change in (
        lambda: None,
        lambda: normalization.gamma.assign(2.0 * normalization.gamma),
        lambda: normalization.moving_mean.assign_add(tk.ones_like(normalization.moving_mean)),
        lambda: normalization.beta.scatter_nd_update([[0]], [3.0]),
        lambda: model.set_weights([w + 1 for w in model.get_weights()]),
        lambda: model(images, training=True),
    ):
        change()
        for _ in range(5):
            np.testing.assert_array_equal(f(images), model(images))


def _graph(run, *arrays):
    return optimised(tk.function(run).get_concrete_function(*arrays).graph)


def test_training_between_inferences_is_seen(rng, model):
    x = rng.normal(size=(8, 6, 6, 8)).astype("float32")
    y = rng.normal(size=(8, 5)).astype("float32")
    model.compile("adam", "mse")
    f = tk.function(model)
    for _ in range(3):
        for _ in range(4):
            np.testing.assert_array_equal(f(tk.constant(x)), model(x))
        model.fit(x, y, epochs=3, batch_size=4, verbose=0)
    np.testing.assert_array_equal(f(tk.constant(x)), model(x))


def chain(weights):
    return tk.exp(tk.sqrt(tk.abs(weights * 3.0)) - 1.0)


def test_a_result_stays_when_weights_change():
    weights = tk.Variable(np.arange(6, dtype="float32"))
    f = tk.function(lambda x: (chain(weights), x + chain(weights)))
    x = tk.constant(np.ones(6, "float32"))
    assert names(lambda x: x + chain(weights), x)[0] == "lasting_values"
    for _ in range(4):
        y, z = f(x)
    before = y.numpy().copy()
    np.testing.assert_array_equal(z.numpy(), before + 1)
    weights.assign(weights * 2.0)
    for _ in range(4):
        np.testing.assert_array_equal(f(x)[0], chain(weights))
    np.testing.assert_array_equal(y, before)


def test_a_program_that_assigns_writes_in_place_again():
    weights = tk.Variable(np.arange(6, dtype="float32"))
    f = tk.function(lambda x: x + chain(weights))
    x = tk.constant(np.ones(6, "float32"))

    @tk.function(jit_compile=True)
    def halve():
        weights.assign(0.5 * weights + 0.25)

    halve()  # from then on nobody but the variable has its array
    for _ in range(2):
        for _ in range(4):
            f(x)
        address = weights._value._array.ctypes.data
        halve()
        assert weights._value._array.ctypes.data == address
        np.testing.assert_array_equal(f(x), x + chain(weights))


def test_graphs_that_are_not_divided(rng):
    x = tk.constant(np.ones(6, "float32"))
    weights = tk.Variable(np.arange(6, dtype="float32"))
    large = tk.Variable(np.ones((1 << 16) + 6, "float32"))

    def assigning(x):
        y = x + chain(weights)
        weights.assign(y)
        return y

    for run in (
        assigning,
        lambda x: x + tk.exp(weights),  # too little
        lambda x: x + chain(large)[:6],
        lambda x: chain(x),
        lambda x: x + chain(tk.random.normal((6,)) * weights),
    ):
        assert "lasting_values" not in names(run, x)
    kernel_family.set_mode("off")
    assert "lasting_values" not in names(lambda x: x + chain(weights), x)


def test_a_branch_is_not_divided():
    weights = tk.Variable(np.arange(6, dtype="float32"))

    @tk.function
    def f(x):
        return tk.cond(x[0] > 0, lambda: x + chain(weights), lambda: x)

    x = tk.constant(np.ones(6, "float32"))
    for _ in range(4):
        np.testing.assert_array_equal(f(x), x + chain(weights))
        weights.assign(weights + 1.0)


def test_what_a_writer_lets_go_meanwhile_is_not_kept():
    weights = tk.Variable(np.arange(6, dtype="float32"))
    array = weights._value._array
    calls = []

    def compute(arrays):
        calls.append(len(calls))
        if len(calls) == 2:  # the first time that results are to be kept
            prepared_weights.let_go([weights])
        return (arrays[0] + 1,)

    results = PreparedResults(compute)
    for count in (1, 2, 3, 3, 3):
        np.testing.assert_array_equal(results((array,))[0], array + 1)
        assert len(calls) == count
    results((array.copy(),))
    assert len(calls) == 4


def test_large_weights_are_cast_once_while_they_stay(rng):
    layer = layers.Dense(300, dtype="mixed_bfloat16")
    x = tk.constant(rng.normal(size=(2, 300)).astype("float32"))
    layer(x)
    assert names(layer, x).count("lasting_values") == 1
    f = tk.function(layer)
    for change in (lambda: None, lambda: layer.kernel.assign(-2.0 * layer.kernel)):
        change()
        for _ in range(5):
            np.testing.assert_array_equal(f(x).numpy(), layer(x).numpy())


@pytest.mark.parametrize(("most", "calls"), [(1 << 31, 2), (0, 6)])
def test_no_more_is_kept_than_all_programs_may(monkeypatch, most, calls):
    monkeypatch.setattr(prepared_weights, "MOST_BYTES", most)
    computed = []

    def negative(arrays):
        computed.append(-arrays[0])
        return (computed[-1],)

    results, array = PreparedResults(negative), np.arange(5.0)
    for _ in range(6):
        np.testing.assert_array_equal(results((array,))[0], -array)
    assert len(computed) == calls
