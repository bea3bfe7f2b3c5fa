"""`fit` with compiled steps gives the numbers of eager steps, and falls back where it must."""

import functools
import threading
import warnings

import numpy as np
import pytest

import trainkit as tk
from trainkit.graph.runtime import fusion, tiers
from trainkit.kernels.jit import kernel_family
from trainkit.models.training import step_function


def digits_like(count=96):
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 4, count)
    images = rng.normal(size=(count, 6, 6, 1)).astype("float32")
    images[:, :, :, 0] += labels[:, None, None]
    return images, labels.astype("int32")


def small_model():
    tk.random.set_seed(11)
    layers = tk.layers
    return tk.Sequential(
        [
            tk.Input((6, 6, 1)),
            layers.Conv2D(4, 3),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dropout(0.3),
            layers.Dense(4, kernel_regularizer="l2"),
        ]
    )


def trained(run_eagerly, optimizer="adam", jit_compile="auto"):
    images, labels = digits_like()
    model = small_model()
    model.compile(
        optimizer=tk.optimizers.get(optimizer),
        loss=tk.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        run_eagerly=run_eagerly,
        jit_compile=jit_compile,
    )
    history = model.fit(
        images, labels, batch_size=20, epochs=3, verbose=0, validation_split=0.25
    ).history
    return history, model.get_weights()


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop"])
def test_compiled_fit_gives_the_weights_of_eager_fit(optimizer):
    eager, eager_weights = trained(True, optimizer)
    graph, graph_weights = trained(False, optimizer)
    assert eager.keys() == graph.keys()
    for name in eager:
        np.testing.assert_allclose(graph[name], eager[name], rtol=1e-5, err_msg=name)
    for a, b in zip(eager_weights, graph_weights, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def test_fit_traces_once_for_each_batch_size():
    images, labels = digits_like(90)
    model = small_model()
    model.compile("sgd", tk.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(images, labels, batch_size=40, epochs=4, verbose=0)
    step = model.make_train_function().step
    assert step._function.experimental_get_tracing_count() == 2


SIZES = (8, 8, 8, 5, 7, 16, 1, 2, 9, 8, 3)


def dense_model():
    layers = [tk.layers.GaussianNoise(0.1), tk.layers.Dense(9), tk.layers.BatchNormalization()]
    return tk.Sequential([tk.Input((6, 4)), tk.layers.Flatten(), *layers, tk.layers.Dense(4)])


def recurrent_model():
    cells = [tk.layers.Masking(), tk.layers.LSTM(5, dropout=0.2, recurrent_dropout=0.1)]
    return tk.Sequential([tk.Input((6, 4)), *cells, tk.layers.Dense(4)])


def attending_model():
    x = tk.Input((6, 4))
    y = tk.layers.MultiHeadAttention(2, 3, dropout=0.1)(x, x)
    y = tk.layers.LayerNormalization()(tk.layers.Add()([x, y]))
    return tk.Model(x, tk.layers.Dense(4)(tk.layers.GlobalAveragePooling1D()(y)))


def convolutional_model():
    layers = [tk.layers.Conv1D(5, 3, activation="relu"), tk.layers.MaxPooling1D()]
    more = [tk.layers.Flatten(), tk.layers.Dropout(0.3), tk.layers.Dense(4)]
    return tk.Sequential([tk.Input((6, 4)), *layers, *more])


class OwnStep(tk.Model):
    def __init__(self):
        super().__init__()
        self.dense = tk.layers.Dense(4)

    def call(self, x):
        return self.dense(tk.reshape(x, (-1, 24)))

    def train_step(self, data):
        x, y = data
        x = x + 0.1 * tk.random.normal(tk.shape(x))
        with tk.GradientTape() as tape:
            loss = self.compute_loss(x=x, y=y, y_pred=self(x, training=True))
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables, strict=True))
        return {"loss": loss}


MODELS = [dense_model, recurrent_model, attending_model, convolutional_model, OwnStep]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_batches_of_many_sizes_share_a_trace_and_give_the_bits_of_eager_steps(make):
    results = []
    for eagerly in (True, False):
        tk.random.set_seed(1)
        model, rng = make(), np.random.default_rng(2)
        loss = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss, run_eagerly=eagerly)
        batches = [(rng.normal(size=(n, 6, 4)), rng.integers(0, 4, n)) for n in SIZES]
        logs = [model.train_on_batch(x, y, return_dict=True)["loss"] for x, y in batches]
        logs += [model.test_on_batch(x, y) for x, y in batches]
        predictions = [model.predict_on_batch(x) for x, _ in batches * 2]
        model.fit(*batches[5], batch_size=6, epochs=2, verbose=0)  # a last batch of 4
        results.append([*map(np.asarray, logs), *predictions, *model.get_weights()])
    for graph, eager in zip(*reversed(results), strict=True):
        np.testing.assert_array_equal(graph, eager)
    for steps in (model.make_train_function(), model.make_test_function()):
        assert steps.step._function.experimental_get_tracing_count() == 3


def test_lengths_of_sequences_have_graphs_of_their_own_with_the_bits_of_eager_steps():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 7, 4)).astype("float32"), rng.normal(size=(20, 3))
    results = []
    for eagerly in (True, False):
        tk.random.set_seed(3)
        model = tk.Sequential([tk.Input((None, 4)), tk.layers.LSTM(4), tk.layers.Dense(3)])
        model.compile("sgd", "mse", run_eagerly=eagerly)
        for steps, sizes in ((7, (8, 8, 8)), (4, (8, 4, 5, 3, 8))):
            for n in sizes:
                model.train_on_batch(x[:n, :steps], y[:n])
        results.append(model.get_weights())
    for graph, eager in zip(*reversed(results), strict=True):
        np.testing.assert_array_equal(graph, eager)
    assert model.make_train_function().step._function.experimental_get_tracing_count() == 4


def test_the_warning_of_many_lengths_says_that_each_has_a_graph_and_what_to_do():
    model = tk.Sequential([tk.Input((None, 4)), tk.layers.LSTM(4), tk.layers.Dense(3)])
    model.compile("sgd", "mse")
    batches = ((np.zeros((8, n, 4), "float32"), np.zeros((8, 3))) for n in range(10, 60, 5))
    with pytest.warns(UserWarning, match="5th time") as caught:
        model.fit(batches, verbose=0)
    (message,) = [str(w.message) for w in caught]
    assert "(8, 25, 4)" in message
    assert "each length has a graph of its own" in message
    assert "pad batches to a few lengths" in message
    assert "needs to know the size" not in message
    assert "explain" not in message


def test_a_step_that_needs_to_know_the_size_is_traced_for_each():
    class Sized(OwnStep):
        def train_step(self, data):
            x, y = data
            assert x.shape[0] is not None
            return super().train_step((x / x.shape[0], y))

    model, rng = Sized(), np.random.default_rng(2)
    model.compile("sgd", tk.losses.SparseCategoricalCrossentropy(from_logits=True))
    for n in (8, 8, 8, 5, 7, 8):
        model.train_on_batch(rng.normal(size=(n, 6, 4)), rng.integers(0, 4, n))
    assert model.make_train_function().step._function.experimental_get_tracing_count() == 3


def test_a_step_that_looks_at_values_goes_on_eagerly_and_says_why():
    seen = []

    class Watching(tk.Sequential):
        def train_step(self, data):
            logs = super().train_step(data)
            seen.append(float(logs["loss"].numpy()))
            return logs

    images, labels = digits_like(80)
    model = Watching([tk.layers.Flatten(), tk.layers.Dense(4)])
    model.compile("sgd", tk.losses.SparseCategoricalCrossentropy(from_logits=True))
    with pytest.warns(UserWarning, match="can't be compiled and runs eagerly"):
        model.fit(images, labels, batch_size=10, verbose=0)
    assert len(seen) == 8


def test_run_eagerly_compiles_nothing_and_warns_of_nothing():
    images, labels = digits_like(80)
    model = tk.Sequential([tk.layers.Flatten(), tk.layers.Dense(4)])
    model.compile(
        "sgd", tk.losses.SparseCategoricalCrossentropy(from_logits=True), run_eagerly=True
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(images, labels, batch_size=10, verbose=0)
    assert model.make_train_function().step == model.train_step


def test_freezing_a_layer_between_fits_takes_effect():
    images, labels = digits_like(80)
    model = tk.Sequential([tk.layers.Flatten(), tk.layers.Dense(8), tk.layers.Dense(4)])
    model.compile("sgd", tk.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(images, labels, batch_size=10, verbose=0)
    model.layers[1].trainable = False
    before = [w.copy() for w in model.layers[1].get_weights()]
    model.fit(images, labels, batch_size=10, verbose=0)
    for a, b in zip(before, model.layers[1].get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_new_learning_rate_reaches_the_compiled_step():
    images, labels = digits_like(80)
    model = tk.Sequential([tk.layers.Flatten(), tk.layers.Dense(4)])
    model.compile("sgd", tk.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(images, labels, batch_size=10, verbose=0)
    model.optimizer.learning_rate = 0.0
    before = [w.copy() for w in model.get_weights()]
    model.fit(images, labels, batch_size=10, verbose=0)
    for a, b in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def counting(monkeypatch, long_graph):
    """A model that notes at each step whether it runs operation by operation, and its batch."""
    monkeypatch.setattr(tiers, "LONG_GRAPH", long_graph)
    ran = []

    class Counting(tk.Sequential):
        def train_step(self, data):
            ran.append("traced" if tk.inside_function() else "eager")
            return super().train_step(data)

    tk.random.set_seed(5)
    model = Counting([tk.Input((3,)), tk.layers.Dense(4, activation="relu"), tk.layers.Dense(1)])
    model.compile("adam", "mse")
    x = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
    return model, ran, (x, x[:, :1])


def settings_change(model):
    """Let the next step run eagerly, and the one after it be traced."""
    model.optimizer.beta_1 = 0.5  # a number of the graph


@pytest.mark.parametrize("long_graph", [1, 10**6])
def test_the_graph_is_made_before_the_first_step_ends(monkeypatch, long_graph):
    model, ran, batch = counting(monkeypatch, long_graph)
    model.train_on_batch(*batch)
    assert ran == ["eager", "traced"]
    assert model.train_function.step._parts is None
    for _ in range(5):
        model.train_on_batch(*batch)
    assert ran == ["eager", "traced"]
    eager, ran_eagerly, _ = counting(monkeypatch, long_graph)
    eager.run_eagerly = True
    for _ in range(6):
        eager.train_on_batch(*batch)
    assert ran_eagerly == ["eager"] * 6
    for a, b in zip(model.get_weights(), eager.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_settings_that_change_at_each_step_make_a_graph_in_every_second_one(monkeypatch):
    model, ran, batch = counting(monkeypatch, 10**6)
    model.train_on_batch(*batch)
    for i in range(4):
        model.optimizer.beta_1 = 0.1 * i
        model.train_on_batch(*batch)
    assert ran == ["eager", "traced"] * 3


@pytest.mark.parametrize("new", [tk.nn.tanh, lambda x: x * 3, functools.partial(tk.multiply, 3.0)])
def test_a_function_that_is_set_counts_from_the_next_step_on(new):
    x, y = np.random.default_rng(0).normal(size=(3, 4)).astype("float32"), np.zeros((3, 2), "f4")
    models = []
    for run_eagerly in (False, True):
        tk.utils.set_random_seed(1)
        model = tk.Sequential(
            [tk.Input((4,)), tk.layers.Dense(8, activation="relu"), tk.layers.Dense(2)]
        )
        model.compile("sgd", "mse", run_eagerly=run_eagerly)
        models.append(model)

    def results():
        return [
            [m.test_on_batch(x, y), m.train_on_batch(x, y), m.predict(x, verbose=0).tolist()]
            for m in models
        ]

    for _ in range(20):
        results()
    for model in models:
        model.layers[0].activation = new
    for _ in range(20):
        compiled, eager = results()
        assert compiled == eager


def test_evaluation_is_a_graph_from_the_second_batch_on(monkeypatch):
    model, _, (x, y) = counting(monkeypatch, 10**6)
    first, second = model.test_on_batch(x, y), model.test_on_batch(x, y)
    step = model.test_function.step
    assert step._function.experimental_get_tracing_count() == 1
    assert first == second == model.test_on_batch(x, y)


@pytest.mark.parametrize("steps", [1, 3])
def test_losses_of_layers_alone_are_traced(steps):
    class Costly(tk.layers.Layer):
        def call(self, x):
            self.add_loss(tk.reduce_sum(x * x))
            return x

    def trained(run_eagerly):
        model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(2, "relu"), Costly()])
        model.layers[0].set_weights([np.ones((3, 2)), np.zeros(2)])
        model.compile("adam", run_eagerly=run_eagerly)
        x = np.ones((4 * steps, 3), "float32")
        return model.fit(x, batch_size=4, epochs=2, shuffle=False, verbose=0).history["loss"]

    assert trained(False) == trained(True)


def test_a_first_step_that_cannot_be_traced_warns_and_counts_once():
    class Looking(tk.Sequential):
        def train_step(self, data):
            data[0].numpy()
            return super().train_step(data)

    model = Looking([tk.Input((3,)), tk.layers.Dense(1)])
    model.compile("adam", "mse")
    x = np.ones((4, 3), "float32")
    with pytest.warns(UserWarning, match="runs eagerly"):
        model.train_on_batch(x, x[:, :1])
    assert int(model.optimizer.iterations) == 1
    model.train_on_batch(x, x[:, :1])
    assert int(model.optimizer.iterations) == 2


def test_the_program_of_a_long_graph_is_made_between_steps_that_run_eagerly(monkeypatch):
    long, ran, batch = counting(monkeypatch, 1)
    short, ran_short, _ = counting(monkeypatch, 10**6)
    for model, limit in ((long, 1), (short, 10**6)):
        monkeypatch.setattr(tiers, "LONG_GRAPH", limit)
        model.train_on_batch(*batch)
        settings_change(model)
        for _ in range(6):
            model.train_on_batch(*batch)
    assert ran_short == ["eager", "traced", "eager", "traced"]
    assert ran == ["eager", "traced", "eager", "traced", "eager", "eager"]
    for a, b in zip(long.get_weights(), short.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_settings_that_change_before_a_long_graph_has_its_program_hold(monkeypatch):
    model, ran, batch = counting(monkeypatch, 1)
    model.train_on_batch(*batch)
    settings_change(model)
    for _ in range(2):
        model.train_on_batch(*batch)
    step, before = model.train_function.step, model.get_weights()
    assert step._parts is not None
    model.optimizer.learning_rate = 0.5  # a variable
    model.optimizer.beta_1 = 0.0  # a number of the graph
    model.train_on_batch(*batch)
    assert step._parts is None
    model.layers[0].trainable = False
    model.train_on_batch(*batch)
    frozen = model.layers[0].get_weights()
    for _ in range(6):
        model.train_on_batch(*batch)
    assert ran[:5] == ["eager", "traced", "eager", "traced", "eager"]
    np.testing.assert_array_equal(model.layers[0].get_weights()[0], frozen[0])
    assert not np.array_equal(model.get_weights()[2], before[2])


def test_steps_run_eagerly_while_loops_of_large_weights_are_compiled(monkeypatch):
    begun, may_end, fuse = threading.Event(), threading.Event(), fusion.fuse

    def slow(graph):
        begun.set()
        assert may_end.wait(60)
        return fuse(graph)

    monkeypatch.setattr(kernel_family._State, "mode", "hot")
    monkeypatch.setattr(tiers, "CHANGED_BYTES", 1)
    monkeypatch.setattr(fusion, "fuse", slow)
    model, ran, batch = counting(monkeypatch, 10**6)
    model.train_on_batch(*batch)
    step = model.train_function.step
    assert begun.wait(60)
    for _ in range(3):
        model.train_on_batch(*batch)
    assert ran == ["eager", "traced", "eager", "eager", "eager"]
    may_end.set()
    while step._parts is not None:
        model.train_on_batch(*batch)
    eager_steps = len(ran) - 1
    for _ in range(2):
        model.train_on_batch(*batch)
    assert len(ran) - 1 == eager_steps
    (concrete,) = step._function.concrete_functions()
    assert concrete.graph.program().fused is not None

    monkeypatch.setattr(kernel_family._State, "mode", "off")
    other, _, _ = counting(monkeypatch, 10**6)
    for _ in range(int(model.optimizer.iterations)):
        other.train_on_batch(*batch)
    for a, b in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_error_while_a_program_is_made_is_that_of_the_step(monkeypatch):
    model, _, batch = counting(monkeypatch, 1)
    for _ in range(3):
        model.train_on_batch(*batch)

    def broken(graph, jit_compile):
        raise OSError("no room")
        yield

    step = model.train_function.step
    step._parts = broken(None, None)
    with pytest.raises(OSError, match="no room"):
        model.train_on_batch(*batch)
    model.train_on_batch(*batch)  # the program is made at once
    assert step._parts is None


@pytest.mark.parametrize(("seconds", "eager_calls"), [(0.0, 16), (0.2, 2), (1.0, 2)])
def test_predictions_that_take_long_are_traced_early(monkeypatch, seconds, eager_calls):
    class Clock:
        now = 0.0

        def perf_counter(self):
            self.now += seconds
            return self.now

        thread_time = perf_counter

    class Model(tk.Model):
        calls = 0

        def call(self, x):
            self.calls += tk.executing_eagerly()
            return 2.0 * x

    monkeypatch.setattr(step_function, "time", Clock())
    model = Model()
    for _ in range(20):
        assert model.predict(np.ones((4, 3), "float32"), verbose=0).sum() == 24.0
    assert model.calls == eager_calls
