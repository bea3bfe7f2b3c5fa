"""`compile`, `fit`, `evaluate`, `predict` and the steps they are made of."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops

L = tk.layers
RNG = np.random.default_rng(3)
X = RNG.standard_normal((20, 3)).astype("float32")
Y = X @ np.array([[1.0], [2.0], [-1.0]], "float32")
LABELS = (X[:, 0] > 0).astype("int32")
WEIGHTS = [np.array([[0.5], [0.1], [0.2]], "float32"), np.zeros(1, "float32")]


def line(**compile_arguments):
    model = tk.Sequential([tk.Input((3,)), L.Dense(1)])
    model.set_weights(WEIGHTS)
    arguments = {"optimizer": tk.optimizers.SGD(0.1), "loss": "mse", **compile_arguments}
    model.compile(**arguments)
    return model


def by_hand(weights, x, y, batch_size, epochs, sample_weight=None, rate=0.1):
    """The losses and weights of plain gradient descent on the mean squared error."""
    w, b = (np.array(v, np.float64) for v in weights)
    losses = []
    for _ in range(epochs):
        total = 0.0
        for i in range(0, len(x), batch_size):
            xb, yb = x[i : i + batch_size], y[i : i + batch_size]
            s = np.ones(len(xb)) if sample_weight is None else sample_weight[i : i + batch_size]
            error = xb @ w + b - yb
            total += np.mean(error[:, 0] ** 2 * s) * len(xb)
            g = 2 * error * s[:, None] / len(xb)
            w -= rate * xb.T @ g
            b -= rate * g.sum(axis=0)
        losses.append(total / len(x))
    return losses, w, b


# ------------------------------------------------------------------ fit


@pytest.mark.parametrize("eagerly", [False, True])
def test_fit_is_gradient_descent(eagerly):
    model = line(run_eagerly=eagerly)
    history = model.fit(X, Y, batch_size=6, epochs=3, shuffle=False, verbose=0).history
    losses, w, b = by_hand(WEIGHTS, X, Y, 6, 3)
    np.testing.assert_allclose(history["loss"], losses, rtol=1e-5)
    np.testing.assert_allclose(model.get_weights()[0], w, rtol=1e-5)
    np.testing.assert_allclose(model.get_weights()[1], b, rtol=1e-4)


def test_sample_weights_and_class_weights():
    s = np.linspace(0.5, 2.0, 20).astype("float32")
    model = line()
    history = model.fit(X, Y, 6, 2, sample_weight=s, shuffle=False, verbose=0).history
    losses, w, _ = by_hand(WEIGHTS, X, Y, 6, 2, s)
    np.testing.assert_allclose(history["loss"], losses, rtol=1e-5)
    np.testing.assert_allclose(model.get_weights()[0], w, rtol=1e-5)

    y = LABELS[:, None].astype("float32")
    s = np.where(LABELS == 1, 3.0, 0.5)
    weighted = line()
    weighted.fit(X, y, 6, 1, class_weight={0: 0.5, 1: 3.0}, shuffle=False, verbose=0)
    np.testing.assert_allclose(
        weighted.get_weights()[0], by_hand(WEIGHTS, X, y, 6, 1, s)[1], rtol=1e-5
    )
    pairs = tk.data.Dataset.from_tensor_slices((X, y)).batch(6)
    again = line()
    again.fit(pairs, epochs=1, class_weight={0: 0.5, 1: 3.0}, verbose=0)
    np.testing.assert_allclose(again.get_weights()[0], weighted.get_weights()[0], rtol=1e-6)


def test_class_weights_take_the_nearest_class_of_targets_of_floats():
    y, by_class = LABELS[:, None] * np.float32(0.8) + np.float32(0.1), {0: 0.5, 1: 3.0}  # smoothed
    weights = np.where(LABELS == 1, 3.0, 0.5)
    expected = by_hand(WEIGHTS, X, y, 6, 1, weights)[1]
    for data in (
        {"x": X, "y": y, "batch_size": 6, "shuffle": False},
        {"x": tk.data.Dataset.from_tensor_slices((X, y)).batch(6)},
        {"x": ((X[i : i + 6], y[i : i + 6]) for i in range(0, 20, 6))},
    ):
        model = line()
        model.fit(**data, class_weight=by_class, verbose=0)
        np.testing.assert_allclose(model.get_weights()[0], expected, rtol=1e-5)


def test_class_weights_and_sample_weights_together_are_refused():
    y, s, by_class = LABELS[:, None].astype("float32"), np.ones(20, "float32"), {0: 0.5, 1: 3.0}
    batches = tk.data.Dataset.from_tensor_slices((X, y, s)).batch(6)
    model = line()
    for call in (
        lambda: model.fit(X, y, sample_weight=s, class_weight=by_class, verbose=0),
        lambda: model.fit(batches, class_weight=by_class, verbose=0),
        lambda: model.fit(((X, y, s) for _ in range(2)), class_weight=by_class, verbose=0),
        lambda: model.train_on_batch(X, y, s, class_weight=by_class),
    ):
        with pytest.raises(ValueError, match="class_weight and sample_weight can't be given toget"):
            call()
    np.testing.assert_array_equal(model.get_weights()[0], line().get_weights()[0])


def sequence():
    class Batches:
        def __len__(self):
            return 4

        def __getitem__(self, i):
            if i >= 4:
                raise IndexError(i)
            return X[6 * i : 6 * i + 6], Y[6 * i : 6 * i + 6]

    return Batches()


SOURCES = {
    "arrays": lambda: {"x": X, "y": Y, "batch_size": 6, "shuffle": False},
    "lists": lambda: {"x": X.tolist(), "y": Y.tolist(), "batch_size": 6, "shuffle": False},
    "doubles": lambda: {"x": X.astype("float64"), "y": Y, "batch_size": 6, "shuffle": False},
    "tensors": lambda: {
        "x": tk.convert_to_tensor(X),
        "y": tk.convert_to_tensor(Y),
        "batch_size": 6,
        "shuffle": False,
    },
    "data set": lambda: {"x": tk.data.Dataset.from_tensor_slices((X, Y)).batch(6)},
    "sequence": lambda: {"x": sequence()},
    "list of batches": lambda: {"x": iter([(X[i : i + 6], Y[i : i + 6]) for i in (0, 6, 12, 18)])},
}


@pytest.mark.parametrize("source", SOURCES)
def test_all_kinds_of_data_give_the_same_epoch(source):
    model = line()
    history = model.fit(**SOURCES[source](), epochs=1, verbose=0).history
    losses, w, _ = by_hand(WEIGHTS, X, Y, 6, 1)
    np.testing.assert_allclose(history["loss"], losses, rtol=1e-5)
    np.testing.assert_allclose(model.get_weights()[0], w, rtol=1e-5)


def test_shuffling_takes_each_sample_once_and_follows_the_seed():
    seen = []

    class Notes(tk.Model):
        def __init__(self):
            super().__init__()
            self.dense = L.Dense(1)

        def call(self, x):
            return self.dense(x)

        def train_step(self, data):
            seen.extend(np.asarray(data[0])[:, 0].astype(int).tolist())
            return {"loss": ops.sum(data[0])}

    numbers = np.arange(20, dtype="float32")[:, None]

    def epochs(shuffle):
        seen.clear()
        tk.random.set_seed(7)
        model = Notes()
        model.compile(run_eagerly=True)
        model.fit(numbers, numbers, batch_size=5, epochs=2, shuffle=shuffle, verbose=0)
        return seen[:20], seen[20:]

    first, second = epochs(True)
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second
    assert epochs(True) == (first, second)
    whole = [tuple(first[i : i + 5]) for i in range(0, 20, 5) for first in [epochs("batch")[0]]]
    assert sorted(whole) == [tuple(range(i, i + 5)) for i in range(0, 20, 5)]


def test_validation_split_takes_the_last_samples():
    model = line()
    history = model.fit(X, Y, 6, 1, validation_split=0.25, shuffle=False, verbose=0).history
    losses, w, b = by_hand(WEIGHTS, X[:15], Y[:15], 6, 1)
    np.testing.assert_allclose(history["loss"], losses, rtol=1e-5)
    held = np.mean((X[15:] @ w + b - Y[15:]) ** 2)
    np.testing.assert_allclose(history["val_loss"], [held], rtol=1e-4)


def test_validation_freq_and_initial_epoch():
    model = line()
    history = model.fit(
        X, Y, epochs=6, initial_epoch=1, validation_data=(X, Y), validation_freq=[2, 5], verbose=0
    )
    assert history.epoch == [1, 2, 3, 4, 5]
    assert len(history.history["val_loss"]) == 2
    assert model.history is history


def test_steps_per_epoch_goes_on_through_the_data():
    seen = []
    spy = tk.callbacks.LambdaCallback(on_train_batch_end=lambda b, logs: seen.append(b))
    pairs = tk.data.Dataset.from_tensor_slices((X, Y)).batch(6)
    line().fit(pairs.repeat(), epochs=2, steps_per_epoch=3, callbacks=[spy], verbose=0)
    assert seen == [0, 1, 2, 0, 1, 2]
    with pytest.raises(ValueError, match="no end"):
        line().fit(pairs.repeat(), verbose=0)


def test_data_that_runs_out_warns():
    batches = iter([(X, Y)] * 3)
    with pytest.warns(UserWarning, match="ran out after 1 of 2"):
        history = line().fit(batches, epochs=3, steps_per_epoch=2, verbose=0)
    assert history.epoch == [0, 1]


@pytest.mark.parametrize("steps", ["auto", 0, 1.5, None])
def test_steps_per_execution_is_a_whole_number(steps):
    with pytest.raises(ValueError, match=f"a whole number, 1 or more, got {steps!r}"):
        line(steps_per_execution=steps)


def test_steps_per_execution_calls_callbacks_less_often():
    seen = []
    spy = tk.callbacks.LambdaCallback(on_train_batch_end=lambda b, logs: seen.append(b))
    model = line(steps_per_execution=3)
    model.fit(X, Y, 5, 1, callbacks=[spy], shuffle=False, verbose=0)
    assert seen == [2, 5]
    np.testing.assert_allclose(model.get_weights()[0], by_hand(WEIGHTS, X, Y, 5, 1)[1], rtol=1e-5)


def test_stop_training_ends_after_the_batch():
    model = line()

    def stop(batch, logs):
        model.stop_training = batch == 1

    callback = tk.callbacks.LambdaCallback(on_train_batch_end=stop)
    history = model.fit(X, Y, 5, 9, callbacks=[callback], verbose=0)
    assert history.epoch == [0]
    assert int(model.optimizer.iterations) == 2


# ------------------------------------------------------------------ losses and metrics


@pytest.mark.parametrize(
    ("units", "activation", "targets", "kind"),
    [
        (1, "sigmoid", LABELS.astype("float32"), "BinaryAccuracy"),
        (2, "softmax", LABELS, "SparseCategoricalAccuracy"),
        (2, "softmax", LABELS[:, None], "SparseCategoricalAccuracy"),
        (2, "softmax", np.eye(2, dtype="float32")[LABELS], "CategoricalAccuracy"),
    ],
)
def test_accuracy_is_chosen_by_shapes(units, activation, targets, kind):
    model = tk.Sequential([tk.Input((3,)), L.Dense(units, activation=activation)])
    loss = {
        "BinaryAccuracy": "binary_crossentropy",
        "SparseCategoricalAccuracy": "sparse_categorical_crossentropy",
        "CategoricalAccuracy": "categorical_crossentropy",
    }[kind]
    model.compile("sgd", loss, metrics=["accuracy"])
    values = model.evaluate(X, targets.reshape(20, -1) if units == 1 else targets, verbose=0)
    (metric,) = model.metrics[1].metrics
    assert (metric.name, type(metric).__name__) == ("accuracy", kind)
    guesses = model.predict(X, verbose=0)
    guessed = guesses[:, 0] > 0.5 if units == 1 else guesses.argmax(axis=1)
    assert values[1] == pytest.approx(np.mean(guessed == LABELS))


def two_outputs(**arguments):
    x = tk.Input((3,))
    model = tk.Model(x, [L.Dense(1, name="a")(x), L.Dense(2, name="b")(x)])
    model.compile("sgd", **arguments)
    return model


@pytest.mark.parametrize("weights", [["accuracy"], {"a": "mae"}, [1.0, "mae"]])
def test_a_metric_in_the_place_of_loss_weights_is_told_apart(weights):
    with pytest.raises(ValueError, match=r"loss_weights holds '(\w+)'.*metrics=\['\1'\]"):
        two_outputs(loss="mse", loss_weights=weights)


def test_several_outputs_have_losses_and_metrics_of_their_own():
    targets = [Y, LABELS]
    model = two_outputs(
        loss=["mse", tk.losses.SparseCategoricalCrossentropy(from_logits=True)],
        loss_weights=[1.0, 0.5],
        metrics=[["mae"], ["accuracy"]],
    )
    history = model.fit(X, targets, epochs=1, verbose=0).history
    assert set(history) == {"loss", "a_loss", "b_loss", "a_mae", "b_accuracy"}
    assert history["loss"][0] == pytest.approx(history["a_loss"][0] + 0.5 * history["b_loss"][0])
    values = model.evaluate(X, targets, verbose=0, return_dict=True)
    assert set(values) == set(history)

    named = two_outputs(
        loss={"a": "mse", "b": tk.losses.SparseCategoricalCrossentropy(from_logits=True)},
        loss_weights={"b": 0.5},
        metrics={"b": "accuracy"},
    )
    assert set(named.fit(X, targets, verbose=0).history) == {
        "loss",
        "a_loss",
        "b_loss",
        "b_accuracy",
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"loss": ["mse"]}, "1 entries, the model has 2 outputs: a, b"),
        ({"loss": {"c": "mse"}}, r"names the outputs \['c'\].* a, b"),
        ({"loss": "mse", "metrics": ["mae"]}, "for a model of 2 outputs"),
    ],
)
def test_what_does_not_fit_the_outputs(arguments, words):
    with pytest.raises(ValueError, match=words):
        two_outputs(**arguments).fit(X, [Y, np.ones((20, 2))], verbose=0)


def test_weighted_metrics_take_weights_into_account():
    s = np.linspace(0, 1, 20).astype("float32")
    model = line(metrics=["mae"], weighted_metrics=["mape", "mae"])
    values = model.evaluate(X, Y, sample_weight=s, verbose=0, return_dict=True)
    errors = np.abs(X @ WEIGHTS[0] - Y)[:, 0]
    assert values["mae"] == pytest.approx(errors.mean(), rel=1e-5)
    assert values["weighted_mae"] == pytest.approx((errors * s).sum() / s.sum(), rel=1e-5)


def test_functions_are_losses_and_metrics():
    def worst(y_true, y_pred):
        return ops.max(ops.absolute(y_true - y_pred), axis=-1)

    model = line(loss=lambda t, p: ops.square(t - p), metrics=[worst])
    values = model.evaluate(X, Y, verbose=0, return_dict=True)
    assert set(values) == {"loss", "worst"}
    assert values["loss"] == pytest.approx(np.mean((X @ WEIGHTS[0] - Y) ** 2), rel=1e-5)


def test_losses_of_layers_and_regularizers_count():
    class Penalty(L.Layer):
        def call(self, x):
            self.add_loss(ops.mean(x) * 0.0 + 2.0)
            return x

    model = tk.Sequential([tk.Input((3,)), Penalty(), L.Dense(1, kernel_regularizer="l2")])
    model.set_weights(WEIGHTS)
    model.compile("sgd", "mse")
    plain = np.mean((X @ WEIGHTS[0] - Y) ** 2)
    expected = plain + 2.0 + 0.01 * np.sum(WEIGHTS[0] ** 2)
    assert model.evaluate(X, Y, verbose=0) == pytest.approx(expected, rel=1e-5)
    assert model.train_on_batch(X, Y) == pytest.approx(expected, rel=1e-5)


def test_frozen_weights_stay():
    model = tk.Sequential([tk.Input((3,)), L.Dense(2), L.Dense(1)])
    model.layers[0].trainable = False
    model.compile("sgd", "mse")
    before = model.get_weights()
    model.fit(X, Y, verbose=0)
    after = model.get_weights()
    np.testing.assert_array_equal(after[0], before[0])
    assert not np.array_equal(after[2], before[2])


@pytest.mark.filterwarnings("ignore:sgd.*no gradient")
def test_a_layer_that_is_first_used_later_is_trained():
    class Late(tk.Model):
        def __init__(self):
            super().__init__()
            self.one, self.two = L.Dense(1), L.Dense(1)
            self.calls = 0

        def call(self, x):
            self.calls += 1
            return self.one(x) if self.calls < 4 else self.two(x)

    model = Late()
    model.compile(tk.optimizers.SGD(0.1), "mse", run_eagerly=True)
    model.fit(X, Y, batch_size=5, epochs=1, shuffle=False, verbose=0)
    built = model.two.get_weights()[0]
    model.fit(X, Y, batch_size=5, epochs=1, shuffle=False, verbose=0)
    assert not np.array_equal(model.two.get_weights()[0], built)


def test_metrics_held_as_attributes_are_shown_and_reset():
    class Counts(tk.Model):
        def __init__(self):
            super().__init__()
            self.dense = L.Dense(1)
            self.seen = tk.metrics.Sum(name="seen")

        def call(self, x):
            return self.dense(x)

        def train_step(self, data):
            self.seen.update_state(ops.sum(ops.ones_like(data[1])))
            return super().train_step(data)

    model = Counts()
    model.compile("sgd", "mse")
    history = model.fit(X, Y, epochs=2, verbose=0).history
    assert history["seen"] == [20.0, 20.0]


# ------------------------------------------------------------------ evaluate, predict, batches


def test_metrics_held_by_parts_of_any_kind_are_shown_in_their_order():
    class Holder(tk.Module):
        pass

    first, inner, listed, last = (tk.metrics.Sum(name=name) for name in "abcd")
    layer, holder = tk.layers.Dense(1), Holder()
    layer.seen, holder.inside = inner, {"first": first, "again": [inner]}
    model = line()
    model.before, model.layer, model.last = holder, layer, last
    model.listed = []
    assert model.metrics[1:] == [first, inner, last]
    model.listed.append((listed, last))
    assert model.metrics[1:] == [first, inner, last, listed]
    del layer.seen, holder.inside["again"]
    assert model.metrics[1:] == [first, last, listed]


def test_evaluate_gives_loss_then_metrics():
    model = line(metrics=["mae", "mape"])
    listed = model.evaluate(X, Y, batch_size=7, verbose=0)
    named = model.evaluate(X, Y, batch_size=3, verbose=0, return_dict=True)
    assert listed == pytest.approx([named["loss"], named["mae"], named["mape"]], rel=1e-5)
    assert isinstance(line().evaluate(X, Y, verbose=0), float)


def test_predict_joins_batches_and_keeps_structure():
    model = line()
    whole = model.predict(X, verbose=0)
    np.testing.assert_allclose(model.predict(X, batch_size=7, verbose=0), whole, rtol=1e-6)
    pairs = tk.data.Dataset.from_tensor_slices((X, Y)).batch(7)
    np.testing.assert_allclose(model.predict(pairs, verbose=0), whole, rtol=1e-6)
    assert model.predict(pairs, steps=2, verbose=0).shape == (14, 1)
    x = tk.Input((3,))
    both = tk.Model(x, {"p": x * 2.0, "q": x})
    assert both.predict(X, batch_size=7, verbose=0)["p"].shape == (20, 3)


def test_single_batches():
    model = line(metrics=["mae"])
    loss, mae = model.test_on_batch(X, Y)
    assert loss == pytest.approx(np.mean((X @ WEIGHTS[0] - Y) ** 2), rel=1e-5)
    assert model.train_on_batch(X, Y, return_dict=True)["mae"] == pytest.approx(mae)
    assert model.test_on_batch(X, Y)[0] < loss
    assert model.predict_on_batch(X).shape == (20, 1)


# ------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"optimizer": "adm"}, "adam"),
        ({"loss": "mean_square_error"}, "mean_squared_error"),
        ({"metrics": ["acuracy"]}, "accuracy"),
        ({"jit_compile": "always"}, "jit_compile"),
        ({"steps_per_execution": 0}, "steps_per_execution"),
    ],
)
def test_compile_names_what_is_known(arguments, words):
    with pytest.raises(ValueError, match=words):
        line(**arguments)


def test_a_failed_compile_leaves_the_model_as_it_was():
    model = line()
    optimizer = model.optimizer
    with pytest.raises(ValueError, match="metric"):
        model.compile("adam", "mse", metrics=["nonsense"])
    assert model.optimizer is optimizer
    assert np.isfinite(model.evaluate(X, Y, verbose=0))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: tk.Sequential([L.Dense(1)]).fit(X, Y), r"compile\(\) before fit"),
        (lambda m: m.fit(X, Y[:5], verbose=0), r"\(20, 3\), \(5, 1\)"),
        (lambda m: m.fit(X, verbose=0), "no targets"),
        (lambda m: m.fit(tk.data.Dataset.range(3), Y), "part of the batches"),
        (lambda m: m.fit(X, Y, validation_split=1.5), "validation_split"),
        (lambda m: m.fit(X, Y, validation_split=0.1, validation_data=(X, Y)), "either"),
        (lambda m: m.fit(X, Y, validation_freq=0, validation_data=(X, Y)), "at least 1"),
        (lambda m: m.fit(X, Y, verbose=7), "verbose"),
        (lambda m: m.fit(iter([]), verbose=0), "no batches"),
        (lambda m: m.get_layer("nothing"), "it has dense"),
        (lambda m: m.get_layer(), "either a name or an index"),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call(line())


def test_no_data():
    with pytest.raises(TypeError, match="arrays, a Dataset"):
        line().fit(3)


@pytest.mark.parametrize("metrics", [None, ["mae"]])
def test_a_step_of_keras_2_reports_its_loss(metrics):
    class Older(tk.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = tk.layers.Dense(1, kernel_initializer="zeros")

        def call(self, x):
            return self.dense(x)

        def train_step(self, data):
            x, y = data
            with tk.GradientTape() as tape:
                y_pred = self(x, training=True)
                loss = self.compiled_loss(y, y_pred, regularization_losses=self.losses)
            weights = self.trainable_variables
            self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            self.compiled_metrics.update_state(y, y_pred)
            return {m.name: m.result() for m in self.metrics}

    model = Older()
    model.compile(tk.optimizers.SGD(0.0), "mse", metrics=metrics)
    x = np.ones((4, 2), "float32")
    history = model.fit(x, 3.0 * x[:, :1], batch_size=2, verbose=0).history
    assert history["loss"] == [9.0]
    assert history.get("mae") == (None if metrics is None else [3.0])


@pytest.mark.parametrize("run_eagerly", [False, True])
def test_a_loss_for_each_sample_counts_as_its_sum(run_eagerly):
    class Costly(tk.layers.Layer):
        def call(self, x):
            self.add_loss(tk.reduce_mean(x, axis=1, keepdims=True))
            return x

    i = tk.keras.Input((3,))
    model = tk.keras.Model(i, Costly()(tk.layers.Dense(3, kernel_initializer="ones")(i)))
    model.compile("sgd", run_eagerly=run_eagerly)
    x = np.ones((4, 3), "float32")
    assert model.fit(x, batch_size=4, verbose=0).history["loss"] == [12.0]


def test_what_is_compiled_again_keeps_its_loss_and_metrics_unless_there_are_others():
    model = line(loss_weights=[0.5], metrics=["mae"], weighted_metrics=["mse"])
    model.compile(tk.optimizers.SGD(0.05))
    assert model.loss == "mse"
    halved, mae, mse = model.evaluate(X, Y, verbose=0)
    assert halved == pytest.approx(0.5 * mse, rel=1e-5)
    config = model.get_compile_config()
    assert [config[name] for name in ("loss", "loss_weights", "metrics")] == ["mse", [0.5], ["mae"]]
    model.compile("sgd", "mae", weighted_metrics=[])
    assert model.evaluate(X, Y, verbose=0) == pytest.approx(mae, rel=1e-5)
    fresh = tk.Sequential([tk.Input((3,)), L.Dense(1)])
    fresh.compile("sgd")
    assert fresh.loss is None
