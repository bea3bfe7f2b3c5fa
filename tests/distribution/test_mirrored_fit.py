"""`fit` and its like by a `MirroredStrategy`: replicas in threads give one device's numbers."""

import json
import signal
import threading

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from tests.distribution import fit_cases
from tests.distribution.test_fit import numbers
from trainkit import keras

NAMES = [name for name in fit_cases.CASES if name != "slots_in_shares"]
X, Y = fit_cases.X, fit_cases.Y


class Stops(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training |= epoch == 2


def found_by(monkeypatch, name, devices, folder):
    monkeypatch.setattr(fit_cases, "FOLDER", folder)
    monkeypatch.setattr(fit_cases, "STRATEGY", tk.distribute.MirroredStrategy(devices))
    monkeypatch.setattr(fit_cases, "StopsInOne", Stops)
    tk.random.set_seed(3)
    return numbers(json.loads(json.dumps(fit_cases.CASES[name]())))


@pytest.mark.parametrize(
    ("count", "name"), [(2, name) for name in NAMES] + [(3, "arrays"), (3, "convolutions")]
)
def test_threads_train_as_one_device_does(monkeypatch, tmp_path, name, count):
    found = found_by(monkeypatch, name, ["/cpu:0"] * count, tmp_path)
    one = found_by(monkeypatch, name, ["/cpu:0"], tmp_path)
    np.testing.assert_allclose(found, one, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["arrays", "convolutions", "recurrent_layers", "scaled_losses"])
def test_gpus_train_as_one_does(monkeypatch, tmp_path, name):
    with stand_in.in_place(gpus=3):
        found = found_by(monkeypatch, name, ["/gpu:1", "/gpu:2"], tmp_path)
        one = found_by(monkeypatch, name, ["/gpu:0"], tmp_path)
    np.testing.assert_allclose(found, one, rtol=2e-4, atol=2e-5)


def two():
    return tk.distribute.MirroredStrategy(["/cpu:0", "/cpu:0"])


def plain():
    layers = [keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)]
    return keras.Sequential([keras.Input((6,)), *layers])


def compiled(strategy, maker=plain, **settings):
    tk.random.set_seed(3)
    with strategy.scope():
        model = maker()
        model.compile(settings.pop("optimizer", "adam"), "mse", metrics=["mae"], **settings)
    return model


def weights(model):
    return [w.numpy() for w in model.weights]


def test_the_steps_are_compiled_for_each_replica():
    model = compiled(two())
    model.fit(X, Y, batch_size=20, epochs=2, verbose=0)
    function = model.train_function.step._function
    assert function.experimental_get_tracing_count() == 2


def test_each_gpu_has_its_variables():
    seen = []

    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, x):
            y = self.dense(x)
            if tk.executing_eagerly():
                seen.append({x.device, y.device, self.dense.kernel.value().device})
            return y

    with stand_in.in_place(gpus=2):
        model = compiled(tk.distribute.MirroredStrategy(), Own, run_eagerly=True)
        model.fit(X, Y, batch_size=50, verbose=0)
        slots = {v.device for v in model.optimizer.variables if v.shape.rank}
        assert {v.device for v in model.weights} == slots == {"/device:GPU:0"}
    assert seen[0] == seen[2] == {"/device:GPU:0"}
    assert seen[1] == seen[3] == {"/device:GPU:1"}


@pytest.mark.parametrize("rows", [1, 2, 4, 5])
def test_the_first_batch_may_have_fewer_rows_than_devices(rows):
    results = []
    for count in (1, 4):
        model = compiled(tk.distribute.MirroredStrategy(["/cpu:0"] * count))
        history = model.fit(X[:rows], Y[:rows], batch_size=8, epochs=4, verbose=0).history
        assert model.predict(X[:rows], verbose=0).shape == (rows, 1)
        results.append([*numbers(history), *np.concatenate([w.ravel() for w in weights(model)])])
    np.testing.assert_allclose(*results, rtol=2e-4, atol=1e-5)


class Counts(keras.Model):
    """Keeps numbers in variables that are its own, of the scope, and made in the first step."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.own = tk.Variable(0, trainable=False)
        self.late = None

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        if self.late is None:
            self.late = [tk.Variable(10, trainable=False)]
            LATE.append(tk.Variable(20))
        for variable in (self.own, OF_SCOPE[-1], LATE[-1], *self.late):
            variable.assign_add(1)
        return super().train_step(data)


OF_SCOPE, LATE = [], []


@pytest.mark.parametrize("eagerly", [True, False])
def test_a_variable_counts_steps_once(eagerly):
    strategy = two()
    with strategy.scope():
        OF_SCOPE.append(tk.Variable(5))
    model = compiled(strategy, Counts, run_eagerly=eagerly)
    model.fit(X, Y, batch_size=20, epochs=2, verbose=0)
    assert [int(v) for v in (model.own, OF_SCOPE[-1], model.late[0], LATE[-1])] == [10, 15, 20, 30]


class AddsLosses(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.meets = keras.layers.BatchNormalization(synchronized=True, momentum=0.5)

    def call(self, x):
        self.add_loss(tk.reduce_mean(x**2))
        y = self.meets(x, training=True)
        self.add_loss(0.1 * tk.reduce_mean(y * x))
        return y


@pytest.mark.parametrize("eagerly", [True, False])
def test_losses_of_layers_stay_with_their_replica(eagerly):
    results = []
    for count in (1, 2):
        strategy = tk.distribute.MirroredStrategy(["/cpu:0"] * count)
        tk.random.set_seed(3)
        with strategy.scope():
            model = keras.Sequential([keras.Input((6,)), AddsLosses(), keras.layers.Dense(1)])
            model.compile("sgd", "mse", run_eagerly=eagerly)
        history = model.fit(X, Y, batch_size=20, epochs=3, shuffle=False, verbose=0).history
        results.append([*numbers(history), *np.concatenate([w.ravel() for w in weights(model)])])
    np.testing.assert_allclose(*results, rtol=2e-4, atol=1e-5)


class Sets(keras.callbacks.Callback):
    """Changes weights and the learning rate while a model is trained."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == 2:
            self.model.layers[0].kernel.assign(self.model.layers[0].kernel * 0.5)
        if batch == 3:
            self.model.optimizer.learning_rate = 0.05

    def on_epoch_end(self, epoch, logs=None):
        self.model.layers[1].set_weights([w + 0.1 for w in self.model.layers[1].get_weights()])


@pytest.mark.parametrize("eagerly", [True, False])
def test_what_callbacks_assign_reaches_all_replicas(eagerly):
    results = []
    for count in (1, 3):
        strategy = tk.distribute.MirroredStrategy(["/cpu:0"] * count)
        model = compiled(strategy, run_eagerly=eagerly)
        model.fit(X, Y, batch_size=20, epochs=3, verbose=0, callbacks=[Sets()])
        results.append(np.concatenate([w.ravel() for w in weights(model)]))
    np.testing.assert_allclose(*results, rtol=2e-4, atol=1e-5)


@pytest.mark.usefixtures("on_cpu")
def test_files_have_the_values_of_all(tmp_path):
    model = compiled(two())
    stored = keras.callbacks.ModelCheckpoint(str(tmp_path / "best.keras"), monitor="loss")
    model.fit(X, Y, batch_size=20, epochs=2, verbose=0, callbacks=[stored])
    model.save(tmp_path / "model.keras")
    for name in ("best", "model"):
        loaded = keras.models.load_model(tmp_path / f"{name}.keras")
        np.testing.assert_array_equal(loaded.predict(X, verbose=0), model(X).numpy())
        assert int(loaded.optimizer.iterations) == 10
    checkpoint = tk.train.Checkpoint(model=model, optimizer=model.optimizer)
    path = checkpoint.save(str(tmp_path / "state"))
    kept = weights(model)
    model.fit(X, Y, batch_size=20, verbose=0, shuffle=False)
    after = weights(model)
    checkpoint.restore(path)
    for mine, theirs in zip(weights(model), kept, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    model.fit(X, Y, batch_size=20, verbose=0, shuffle=False)
    for mine, theirs in zip(weights(model), after, strict=True):
        np.testing.assert_array_equal(mine, theirs)


class Fails(keras.Model):
    """Raises in a replica, before or after it has met the others."""

    def __init__(self, rank, late, error):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.fails_in, self.late, self.error = rank, late, error

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        rank = tk.distribute.get_replica_context().replica_id_in_sync_group
        if not self.late and rank == self.fails_in:
            raise self.error
        logs = super().train_step(data)
        if rank == self.fails_in:
            raise self.error
        return logs


@pytest.mark.parametrize("error", [RuntimeError("of a replica"), KeyboardInterrupt()])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("rank", [0, 1])
def test_an_error_of_one_replica_ends_all_and_leaves_the_model(rank, late, error):
    model = compiled(two(), lambda: Fails(rank, late, error), run_eagerly=True)
    model.fails_in = None
    model.fit(X, Y, batch_size=20, epochs=1, verbose=0)
    model.fails_in = rank
    before = threading.active_count()
    with pytest.raises(type(error)):
        model.fit(X, Y, batch_size=20, epochs=2, verbose=0)
    assert threading.active_count() == before
    model.fails_in = None
    model.fit(X, Y, batch_size=20, epochs=1, verbose=0)
    assert np.isfinite(model.predict(X, verbose=0)).all()


def test_a_signal_ends_all_while_another_replica_runs():
    class Interrupts(keras.layers.Layer):
        def call(self, x):
            context = tk.distribute.get_replica_context()
            if context is not None and context.replica_id_in_sync_group == 1 and ASKED:
                ASKED.pop()
                signal.raise_signal(signal.SIGINT)
            return x

    strategy = two()
    with strategy.scope():
        model = keras.Sequential([keras.Input((6,)), Interrupts(), keras.layers.Dense(1)])
        model.compile("sgd", "mse", run_eagerly=True)
    ASKED.append(1)
    with pytest.raises(KeyboardInterrupt):
        model.train_on_batch(X, Y)
    assert not ASKED
    assert model.train_on_batch(X, Y) > 0


ASKED = []


def test_the_same_model_in_loops_of_all_kinds():
    """Custom loops and `fit` of one strategy see each other's changes."""
    results = []
    for count in (1, 2):
        strategy = tk.distribute.MirroredStrategy(["/cpu:0"] * count)
        model = compiled(strategy, optimizer=keras.optimizers.SGD(0.1, momentum=0.9))

        def step(x, y, model=model):
            with tk.GradientTape() as tape:
                loss = tk.reduce_sum((model(x) - y) ** 2) / 20
            gradients = tape.gradient(loss, model.trainable_variables)
            pairs = zip(gradients, model.trainable_variables, strict=True)
            model.optimizer.apply_gradients(pairs)

        data = tk.data.Dataset.from_tensor_slices((X, Y)).batch(20)
        for _ in range(2):
            model.fit(data, verbose=0)
            for batch in strategy.experimental_distribute_dataset(data):
                strategy.run(step, batch)
        results.append(np.concatenate([w.ravel() for w in weights(model)]))
    np.testing.assert_allclose(*results, rtol=2e-4, atol=1e-5)


def test_a_fit_in_a_replica_is_refused():
    strategy = two()
    model = compiled(strategy)
    with pytest.raises(tk.errors.FailedPreconditionError, match="or in a replica"):
        strategy.run(lambda: model.predict(X, verbose=0))
