"""Where batches come from: `PyDataset`, data that runs out, steps per epoch and per execution."""

import gc
import threading
import warnings
import weakref

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras
from trainkit.models.training import batch_sources

X = np.arange(40, dtype="float32").reshape(20, 2) / 40
Y = X.sum(axis=1, keepdims=True)


class Batches(keras.utils.PyDataset):
    """Ten batches of two samples; notes what it is told."""

    def __init__(self, count=10, **kwargs):
        super().__init__(**kwargs)
        self.count, self.told, self.taken, self.threads = count, [], [], set()

    @property
    def num_batches(self):
        return self.count

    def __getitem__(self, index):
        self.taken.append(index)
        self.threads.add(threading.get_ident())
        i = index % 10
        return X[2 * i : 2 * i + 2], Y[2 * i : 2 * i + 2]

    def on_epoch_begin(self):
        self.told.append("begin")

    def on_epoch_end(self):
        self.told.append("end")


class Broken(Batches):
    def __getitem__(self, index):
        if index == 3:
            raise KeyError("no file of that name")
        return super().__getitem__(index)


def line(**arguments):
    model = tk.Sequential([tk.Input((2,)), tk.layers.Dense(1, kernel_initializer="ones")])
    model.compile(**{"optimizer": tk.optimizers.SGD(0.01), "loss": "mse", **arguments})
    return model


def counted(model, x, y=None, **more):
    """How many batches each epoch had."""
    epochs = []
    spy = tk.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: epochs.append(0),
        on_train_batch_end=lambda batch, logs: epochs.__setitem__(-1, epochs[-1] + 1),
    )
    model.fit(x, y, callbacks=[spy], verbose=0, **more)
    return epochs


# ------------------------------------------------------------------ PyDataset

WORKERS = {
    "none": {},
    "threads": {"workers": 3},
    "few ahead": {"workers": 2, "max_queue_size": 1},
    "processes": {"workers": 2, "use_multiprocessing": True},
}


@pytest.mark.parametrize("workers", WORKERS)
def test_workers_give_the_same_epochs(workers):
    plain, made = line(), line()
    wanted = plain.fit(X, Y, batch_size=2, shuffle=False, epochs=3, verbose=0).history
    data = Batches(**WORKERS[workers])
    found = made.fit(data, shuffle=False, epochs=3, verbose=0).history
    np.testing.assert_allclose(found["loss"], wanted["loss"], rtol=1e-6)
    np.testing.assert_allclose(made.get_weights()[0], plain.get_weights()[0], rtol=1e-6)
    assert data.told == ["end", *["begin", "end"] * 3]  # Keras's first one, too
    if workers == "threads":
        assert threading.get_ident() not in data.threads


@pytest.mark.parametrize("workers", WORKERS)
def test_an_error_of_a_batch_is_that_of_fit(workers):
    with pytest.raises(KeyError, match="no file of that name"):
        line().fit(Broken(**WORKERS[workers]), shuffle=False, verbose=0)


def test_batches_are_shuffled_anew_for_each_epoch():
    data = Batches()
    line().fit(data, epochs=2, verbose=0)
    first, second = data.taken[:10], data.taken[10:]
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second
    assert list(range(10)) not in (first, second)
    again = Batches(workers=2)
    line().fit(again, epochs=2, verbose=0)
    assert sorted(again.taken[:10]) == list(range(10))
    data = Batches()
    line().fit(data, shuffle=False, verbose=0)
    assert data.taken == list(range(10))


def test_without_an_end_it_goes_on_where_it_was():
    data = Batches(count=None)
    assert counted(line(), data, steps_per_epoch=4, epochs=3) == [4, 4, 4]
    assert data.taken == list(range(12))


def test_evaluate_and_predict_take_it():
    model = line()
    data = Batches(workers=2)
    assert model.evaluate(data, verbose=0) == pytest.approx(model.evaluate(X, Y, verbose=0))
    np.testing.assert_allclose(
        model.predict(data, verbose=0), model.predict(X, verbose=0), rtol=1e-6
    )
    model.fit(X, Y, validation_data=data, epochs=2, verbose=0)
    evaluated, predicted = ["end", "begin", "end"], ["begin", "end"]
    assert data.told == [*evaluated, *predicted, *evaluated * 2]


def test_iterating_takes_all_batches_in_order():
    data = Batches(workers=4)
    assert len(list(data)) == 10
    assert data.taken == list(range(10))


def test_arguments_can_be_set_later_and_need_no_super_call():
    class Bare(keras.utils.Sequence):
        def __init__(self):
            pass

        def __len__(self):
            return 3

        def __getitem__(self, index):
            return X[:2], Y[:2]

    bare = Bare()
    assert (bare.workers, bare.use_multiprocessing, bare.max_queue_size) == (1, False, 10)
    bare.workers = 2
    assert counted(line(), bare) == [3]
    with pytest.raises(ValueError, match="max_queue_size"):
        Batches(max_queue_size=0)
    with pytest.raises(ValueError, match="workers"):
        bare.workers = -1


def test_class_weights_and_what_a_batch_may_be():
    weighted, plain = line(), line()
    weighted.fit(Batches(), class_weight={0: 2.0, 1: 2.0, 2: 2.0}, shuffle=False, verbose=0)
    plain.fit(X, Y, batch_size=2, sample_weight=np.full(20, 2.0), shuffle=False, verbose=0)
    np.testing.assert_allclose(weighted.get_weights()[0], plain.get_weights()[0], rtol=1e-6)

    class Wrong(Batches):
        def __getitem__(self, index):
            return "text"

    with pytest.raises(ValueError, match="__getitem__ must give"):
        line().fit(Wrong(), verbose=0)
    with pytest.raises(ValueError, match="no batches"):
        line().fit(Batches(count=0), verbose=0)


# ------------------------------------------------------------------ steps


def arrays():
    return {"x": X, "y": Y, "batch_size": 2}


def data_set():
    return {"x": tk.data.Dataset.from_tensor_slices((X, Y)).batch(2)}


def of_unknown_length():
    whole = tk.data.Dataset.from_tensor_slices((X, Y))
    return {"x": whole.filter(lambda x, y: x[0] >= 0.0).batch(2)}


SOURCES = [arrays, data_set, of_unknown_length, lambda: {"x": Batches()}]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("steps", "wanted", "warned"),
    [(10, [10] * 4, False), (5, [5] * 4, False), (7, [7, 3, 7, 3], True), (11, [10] * 4, True)],
)
def test_an_epoch_ends_with_the_data(source, steps, wanted, warned):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert counted(line(), **source(), steps_per_epoch=steps, epochs=4) == wanted
    assert any("ran out" in str(w.message) for w in found) is warned


class BatchSizes(tk.keras.callbacks.Callback):
    """Notes the samples of each batch, which the model was called with."""

    def __init__(self):
        super().__init__()
        self.training, self.held_out = [], []

    def on_train_batch_end(self, batch, logs=None):
        self.training.append(self.model.seen[-1])

    def on_test_batch_end(self, batch, logs=None):
        self.held_out.append(self.model.seen[-1])


class Watching(tk.Model):
    """A line that keeps the sizes of the batches it was given."""

    def __init__(self):
        super().__init__()
        self.dense, self.seen = tk.layers.Dense(1), []

    def call(self, x):
        self.seen.append(x.shape[0])
        return self.dense(x)


def watched(**arguments):
    model, sizes = Watching(), BatchSizes()
    model.compile("sgd", "mse", run_eagerly=True)
    x, y = np.ones((20, 2), "float32"), np.ones((20, 1), "float32")
    model.fit(x, y, callbacks=[sizes], verbose=0, **arguments)
    return sizes


@pytest.mark.parametrize(
    ("steps", "sizes"), [(1, [20]), (2, [10, 10]), (3, [7, 7, 6]), (20, [1] * 20)]
)
def test_so_many_steps_without_a_batch_size_take_all_samples(steps, sizes):
    x, y = np.ones((20, 2), "float32"), np.ones((20, 1), "float32")
    trained = watched(steps_per_epoch=steps, epochs=2, validation_data=(x, y))
    assert trained.training == sizes * 2
    assert trained.held_out == [20] * 2  # 32 by default
    model = Watching()
    model.compile("sgd", "mse", run_eagerly=True)
    model.evaluate(x, y, steps=steps, verbose=0)
    assert model.seen[-steps:] == sizes
    assert model.predict(x, steps=steps, verbose=0).shape == (20, 1)


def test_steps_of_the_validation_take_all_of_its_samples():
    x, y = np.ones((20, 2), "float32"), np.ones((20, 1), "float32")
    assert watched(validation_data=(x, y), validation_steps=3).held_out == [7, 7, 6]
    assert watched(validation_split=0.5, validation_steps=2).held_out == [5, 5]
    sized = watched(validation_data=(x, y), validation_steps=2, batch_size=4)
    assert (sized.training, sized.held_out) == ([4] * 5, [4, 4])


def test_more_steps_than_samples_take_them_one_by_one():
    with pytest.warns(UserWarning, match="ran out after 20 of 21"):
        assert watched(steps_per_epoch=21).training == [1] * 20


def test_a_batch_size_goes_before_the_number_of_steps():
    assert watched(steps_per_epoch=2, batch_size=3).training == [3, 3]
    x = np.ones((20, 2), "float32")
    assert line().predict(x, batch_size=3, steps=2, verbose=0).shape == (6, 1)


def test_a_generator_that_runs_out_ends_training_with_a_warning():
    batches = ((X[:2], Y[:2]) for _ in range(5))
    with pytest.warns(UserWarning, match="ran out after 1 of 2"):
        history = line().fit(batches, steps_per_epoch=2, epochs=9, verbose=0)
    assert history.epoch == [0, 1, 2]
    batches = ((X[:2], Y[:2]) for _ in range(5))
    with pytest.warns(UserWarning, match="ran out after no batches of epoch 2"):
        line().fit(batches, epochs=3, verbose=0)
    with pytest.raises(ValueError, match="no batches"):
        line().fit(iter(()), verbose=0)


def test_a_validation_generator_that_runs_out():
    held = ((X[:2], Y[:2]) for _ in range(3))
    with pytest.warns(UserWarning, match="evaluate: the data ran out"):
        history = line().fit(X, Y, validation_data=held, epochs=2, verbose=0).history
    assert len(history["val_loss"]) == 1


def test_each_validation_begins_the_data_anew():
    seen = []

    class Notes(tk.Sequential):
        def test_step(self, data):
            seen.append(float(data[0][0, 0]))
            return super().test_step(data)

    model = Notes([tk.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    held = tk.data.Dataset.from_tensor_slices((X, Y)).batch(2)
    model.fit(X, Y, validation_data=held, validation_steps=3, epochs=2, verbose=0)
    assert seen[:3] == seen[3:]


@pytest.mark.parametrize("eagerly", [False, True])
@pytest.mark.parametrize("together", [3, 10, 50])
@pytest.mark.parametrize("source", SOURCES)
def test_steps_per_execution(source, together, eagerly):
    told = {"train": [], "test": [], "predict": []}

    def note(mode):
        return {
            f"on_{mode}_batch_begin": lambda batch, logs: told[mode].append(("begin", batch)),
            f"on_{mode}_batch_end": lambda batch, logs: told[mode].append(("end", batch)),
        }

    spy = tk.callbacks.LambdaCallback(**note("train"), **note("test"), **note("predict"))
    model = line(steps_per_execution=together, run_eagerly=eagerly)
    single = line(run_eagerly=eagerly)
    more = {"shuffle": False, "epochs": 2, "verbose": 0}
    history = model.fit(**source(), callbacks=[spy], **more).history
    wanted = single.fit(**source(), **more).history
    np.testing.assert_allclose(history["loss"], wanted["loss"], rtol=1e-5)
    np.testing.assert_allclose(model.get_weights()[0], single.get_weights()[0], rtol=1e-6)
    begins = list(range(0, 10, together))
    ends = [("end", i + together - 1) for i in begins]
    assert [t for t in told["train"] if t[0] == "end"] == ends * 2
    model.evaluate(**source(), callbacks=[spy], verbose=0)
    data = source()
    data.pop("y", None)
    found = model.predict(**data, callbacks=[spy], verbose=0)
    np.testing.assert_allclose(found, single.predict(X, verbose=0), rtol=1e-5)
    for mode in ("test", "predict"):
        assert [t for t in told[mode] if t[0] == "end"] == ends


def test_the_step_is_python_only_while_it_is_traced():
    calls = {"train": 0, "predict": 0}

    class Counts(tk.Sequential):
        def train_step(self, data):
            calls["train"] += 1
            return super().train_step(data)

        def predict_step(self, data):
            calls["predict"] += 1
            return super().predict_step(data)

    model = Counts([tk.Input((2,)), tk.layers.Dense(1)])
    model.compile("sgd", "mse", steps_per_execution=5)
    model.fit(X, Y, batch_size=1, verbose=0)
    model.predict(X, batch_size=1, verbose=0)
    assert calls == {"train": 2, "predict": 2}


def test_bounds_for_trying_a_program_out():
    config = keras.config
    assert (config.max_epochs(), config.max_steps_per_epoch()) == (None, None)
    config.set_max_epochs(2)
    config.set_max_steps_per_epoch(3)
    try:
        with pytest.warns(UserWarning, match="limits"):
            assert counted(line(), **arrays(), epochs=5) == [3, 3]
    finally:
        config.set_max_epochs(None)
        config.set_max_steps_per_epoch(None)
    assert counted(line(), **arrays(), epochs=3) == [10, 10, 10]
    with pytest.raises(ValueError, match="max_epochs"):
        config.set_max_epochs(0)


# ------------------------------------------------------------------ functions of a user's own


def test_a_train_function_of_the_users_own():
    class Own(tk.Sequential):
        calls = 0

        def make_train_function(self, force=False):
            made = super().make_train_function(force)

            def function(iterator):
                Own.calls += 1
                return made(iterator)

            self.train_function = function

        def make_test_function(self, force=False):
            def function(iterator):
                return {"twice": 2.0 * self.test_step(next(iterator))["loss"]}

            return function

    model = Own([tk.Input((2,)), tk.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(X, Y, batch_size=5, verbose=0)
    assert Own.calls == 4
    assert model.train_on_batch(X, Y) > 0
    assert Own.calls == 5
    assert list(model.evaluate(X, Y, verbose=0, return_dict=True)) == ["twice"]


def test_no_steps_are_all_batches():
    model = tk.Sequential([tk.Input((1,)), tk.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = tk.data.Dataset.from_tensor_slices((np.ones((6, 1)), np.ones((6, 1)))).batch(2)
    history = model.fit(x, steps_per_epoch=0, validation_data=x, validation_steps=0, verbose=0)
    assert set(history.history) == {"loss", "val_loss"}
    assert model.optimizer.iterations.numpy() == 3
    assert model.predict(x, steps=0, verbose=0).shape == (6, 1)
    assert model.evaluate(x, steps=0, verbose=0) > 0


def arrays_of(batches):
    return [[np.array(part) for part in batch] for batch in batches]


def test_batches_in_order_are_cut_without_a_data_set():
    feed = batch_sources.feed(X, Y, batch_size=8)
    batches = arrays_of(feed.begin())
    assert "dataset" not in vars(feed)
    np.testing.assert_array_equal(np.concatenate([x for x, _ in batches]), X)
    np.testing.assert_array_equal(np.concatenate([y for _, y in batches]), Y)
    assert [len(x) for x, _ in batches] == [8, 8, 4]


def test_batches_in_order_are_those_of_their_data_set():
    feed = batch_sources.feed(X, Y, steps=3)
    for batch, expected in zip(arrays_of(feed.begin()), arrays_of(feed.dataset), strict=True):
        for part, other in zip(batch, expected, strict=True):
            np.testing.assert_array_equal(part, other)


def test_a_feed_whose_position_is_stored_has_a_data_set():
    assert "dataset" in vars(batch_sources.feed(X, Y, resumes=True))
    assert "dataset" in vars(batch_sources.feed(X, Y, shuffle=True))


def test_batches_in_order_keep_their_values_when_the_data_changes():
    data = X.copy()
    batch = next(batch_sources.feed(data, batch_size=20).begin())
    data[:] = 0
    np.testing.assert_array_equal(np.array(batch), X)


def test_batches_in_order_of_texts():
    batch = next(batch_sources.feed(np.array(["a", "bc", "d"]), batch_size=2).begin())
    assert batch.numpy().tolist() == [b"a", b"bc"]


def test_predictions_set_no_attribute_anew():
    model = line()
    model.predict(X, verbose=0)
    assert model.variables
    function, gathered = model.predict_function, model.__dict__["_parts_of"]
    model.predict(X, verbose=0)
    assert model.predict_function is function
    assert gathered is not None
    assert model.__dict__["_parts_of"] is gathered


def test_predictions_may_be_written_to():
    model = tk.Sequential([tk.Input((2,)), tk.layers.Identity()])
    data = X.copy()
    outputs = model.predict(data, batch_size=32, verbose=0)
    outputs[:] = 0
    np.testing.assert_array_equal(data, X)


def test_a_feed_of_arrays_is_freed_when_it_is_let_go():
    feed = batch_sources.feed(X, batch_size=8)
    next(feed.begin())
    reference = weakref.ref(feed)
    gc.disable()
    try:
        del feed
        assert reference() is None
    finally:
        gc.enable()


def test_epochs_end_as_often_as_in_keras():
    data, validation = Batches(), Batches()
    model = line()
    model.fit(data, validation_data=validation, epochs=4, validation_freq=2, verbose=0)
    assert data.told == ["end", *["begin", "end"] * 4]
    assert validation.told == ["end", "begin", "end"] * 2
    data.told.clear()
    model.evaluate(data, verbose=0)
    assert data.told == ["end", "begin", "end"]
    data.told.clear()
    model.predict(data, verbose=0)
    assert data.told == ["begin", "end"]


def test_indices_that_an_epoch_shuffles_at_its_end_are_shuffled_before_the_first():
    class Shuffled(tk.utils.PyDataset):
        order, taken = [0, 1, 2], ()

        def __len__(self):
            return 3

        def __getitem__(self, index):
            self.taken += (self.order[index],)
            return X[:2], Y[:2]

        def on_epoch_end(self):
            self.order = self.order[::-1]

    data = Shuffled()
    line().fit(data, epochs=2, shuffle=False, verbose=0)
    assert data.taken == (2, 1, 0, 0, 1, 2)


def test_loops_without_training_have_one_epoch():
    model, params = line(), []

    class Spy(tk.callbacks.Callback):
        def on_test_begin(self, logs=None):
            params.append(self.params["epochs"])

        on_predict_begin = on_test_begin

    model.evaluate(X, Y, verbose=0, callbacks=[Spy()])
    model.predict(X, verbose=0, callbacks=[Spy()])
    assert params == [1, 1]


def test_results_have_the_order_of_keras():
    model = line(metrics=["mse", "mae"], weighted_metrics=["mae"])
    targets = Y + np.arange(20.0).reshape(Y.shape)
    results = model.evaluate(X, targets, sample_weight=np.arange(20.0), verbose=0)
    assert len(results) == 5
    assert results[2] == results[3] != results[4]
    names = ["loss", "mae", "mse", "weighted_mae"]
    weights = np.arange(20.0)
    assert list(model.test_on_batch(X, Y, weights, return_dict=True)) == names
    assert list(model.train_on_batch(X, Y, weights, return_dict=True)) == names
    assert len(model.train_on_batch(X, Y, weights)) == len(results)
