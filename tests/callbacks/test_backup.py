"""A run that is broken off and taken up again equals one that was not, to the bit."""

import shutil
import signal

import numpy as np
import pytest

import trainkit as tk
from tests.callbacks.breaking_off import Kill, Killed
from trainkit import callbacks as cb

RNG = np.random.default_rng(0)
X = RNG.standard_normal((50, 6)).astype("float32")
Y = (X.sum(axis=1) > 0).astype("int32")
EPOCHS = 4


def make_model(seed):
    tk.random.set_seed(seed)
    model = tk.Sequential(
        [tk.layers.Dense(8, activation="relu"), tk.layers.Dropout(0.4), tk.layers.Dense(2)]
    )
    model.compile(
        tk.optimizers.Adam(0.01),
        loss=tk.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def arrays():
    return {"x": X, "y": Y, "batch_size": 8}


def dataset():
    pairs = tk.data.Dataset.from_tensor_slices((X, Y)).shuffle(20).batch(8).prefetch(2)
    return {"x": pairs}


def endless():
    pairs = tk.data.Dataset.from_tensor_slices((X, Y)).shuffle(50).repeat().batch(8)
    return {"x": pairs, "steps_per_epoch": 5}


def generator():
    def batches():
        while True:
            for i in range(0, 48, 8):
                yield X[i : i + 8], Y[i : i + 8]

    return {"x": batches(), "steps_per_epoch": 5}


DATA = [arrays, dataset, endless, generator]


def train(folder, data, *more, seed=1, save_freq=3, delete=False):
    model = make_model(seed)
    backup = cb.BackupAndRestore(folder, save_freq=save_freq, delete_checkpoint=delete)
    callbacks = [
        *more,
        cb.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=0.1),
        cb.EarlyStopping("loss", patience=9, restore_best_weights=True),
        cb.CSVLogger(folder / "log.csv"),
        backup,
    ]
    held = (X[:16], Y[:16])
    history = model.fit(
        **data(), epochs=EPOCHS, verbose=0, callbacks=callbacks, validation_data=held
    )
    return model, history


@pytest.mark.parametrize("data", DATA, ids=lambda d: d.__name__)
@pytest.mark.parametrize("after", [4, 7, 8, 16])
def test_resume_is_exact(tmp_path, data, after):
    expected, whole = train(tmp_path / "whole", data)
    with pytest.raises(Killed):
        train(tmp_path / "broken", data, Kill(after))
    # Another seed: all that is random must come from the stored run.
    model, history = train(tmp_path / "broken", data, Kill(0), seed=2)
    for mine, theirs in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert history.history == whole.history
    assert history.epoch == whole.epoch
    logs = [(tmp_path / name / "log.csv").read_text() for name in ("whole", "broken")]
    assert logs[0] == logs[1]


class Halves(cb.Callback):
    """Changes at the beginning of each epoch what it reads: rate, weights, an attribute, chance."""

    rates = 0.02

    def __init__(self):
        super().__init__()
        self.draws, self.seen, self.flips = np.random.default_rng(1), [], False

    def on_epoch_begin(self, epoch, logs=None):
        self.rates, self.flips = self.rates / 2, not self.flips
        self.seen.append((epoch, np.float32(self.rates)))
        optimizer, weight = self.model.optimizer, self.model.weights[0]
        optimizer.learning_rate = float(optimizer.learning_rate) * (0.5 + self.draws.random())
        weight.assign(weight * 0.5 + tk.random.normal(weight.shape) * self.rates)


class Counts(cb.Callback):
    """Counts batches behind what stores them, and does the less the more there were."""

    def __init__(self):
        super().__init__()
        self.counts = {"batches": 0}

    def on_train_batch_end(self, batch, logs=None):
        self.counts["batches"] += 1
        self.model.optimizer.learning_rate = 0.05 / self.counts["batches"]


def halve(epoch, rate):
    return rate / 2


def rates():
    slower = cb.ReduceLROnPlateau("loss", 0.5, 1, min_delta=1.0, cooldown=1)
    return [cb.LearningRateScheduler(halve), Halves(), Counts(), slower]


def weights():
    stop = cb.EarlyStopping("loss", 0.2, 1, restore_best_weights=True)
    return [stop, cb.SwapEMAWeights(swap_on_epoch=True)]


@pytest.mark.parametrize("change", [rates, weights])
def test_callbacks_that_change_what_they_read_go_on_as_if_never_stopped(tmp_path, change):
    def run(folder, after, seed):
        tk.random.set_seed(seed)
        model = tk.Sequential([tk.Input((6,)), tk.layers.Dense(4, "tanh"), tk.layers.Dense(1)])
        model.compile(tk.optimizers.SGD(0.02, 0.9, use_ema=change is weights), "mse")
        backup = cb.BackupAndRestore(folder, save_freq=1, delete_checkpoint=False)
        callbacks = [backup, *change(), Kill(after)]
        history = model.fit(X[:12], Y[:12], 4, epochs=3, verbose=0, callbacks=callbacks)
        arrays = [*model.get_weights(), *(v.numpy() for v in model.optimizer.variables)]
        return [a.tobytes() for a in arrays], history.history

    whole = run(tmp_path / "whole", 0, 1)
    for after in (3, 4, 6):  # all of an epoch, none and a part of one are stored
        with pytest.raises(Killed):
            run(tmp_path / str(after), after, 1)
        assert run(tmp_path / str(after), 0, 2) == whole, after


class SignalAt(cb.Callback):
    """Sends signals when a method is called for the `count`th time."""

    METHODS = (
        "on_train_begin",
        "on_epoch_begin",
        "on_train_batch_begin",
        "on_train_batch_end",
        "on_test_begin",
        "on_test_batch_begin",
        "on_test_batch_end",
        "on_test_end",
        "on_epoch_end",
        "on_train_end",
    )

    def __init__(self, method=None, count=1, number=signal.SIGINT):
        super().__init__()
        self.method, self.left, self.number = method, count, number

    def tell(self, method):
        if method == self.method:
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(self.number)


for name in SignalAt.METHODS:
    setattr(SignalAt, name, lambda self, *args, name=name, **more: self.tell(name))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The weights and the history of runs without a signal, by name of the data."""
    found = {}
    for data in DATA:
        model, history = train(tmp_path_factory.mktemp("whole"), data, save_freq="epoch")
        found[data.__name__] = (model.get_weights(), history.history)
        assert not history.interrupted
    return found


def finish(folder, data, expected, **settings):
    """Take the run in `folder` up, and compare its end."""
    model, history = train(folder, data, SignalAt(), seed=2, **settings)
    for mine, theirs in zip(model.get_weights(), expected[0], strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert history.history == expected[1]
    assert not history.interrupted


@pytest.mark.parametrize(
    ("method", "data"),
    [
        *((method, arrays) for method in SignalAt.METHODS),
        *((method, data) for method in ("on_train_begin", "on_test_begin") for data in DATA[1:]),
    ],
)
def test_a_signal_in_any_callback_leaves_a_run_that_goes_on(tmp_path, whole, data, method):
    often = {"on_train_batch_begin": 8, "on_train_batch_end": 7}
    at = SignalAt(method, often.get(method, 1))
    _, part = train(tmp_path, data, at, save_freq="epoch", delete=True)
    assert part.interrupted
    if method != "on_train_end":
        assert len(part.epoch) < EPOCHS
    finish(tmp_path, data, whole[data.__name__], save_freq="epoch", delete=True)
    assert not list(tmp_path.glob("run-*"))


@pytest.mark.parametrize("count", [1, EPOCHS])
@pytest.mark.parametrize("method", ["on_test_batch_end", "on_epoch_end", "on_train_batch_end"])
def test_a_signal_near_the_end_of_an_epoch(tmp_path, whole, method, count):
    count *= {"on_train_batch_end": 7}.get(method, 1)
    _, part = train(
        tmp_path, arrays, SignalAt(method, count, signal.SIGTERM), save_freq="epoch", delete=True
    )
    assert part.interrupted
    finish(tmp_path, arrays, whole["arrays"], save_freq="epoch", delete=True)


def test_a_signal_while_the_data_are_looked_at(tmp_path):
    def batches():
        signal.raise_signal(signal.SIGINT)
        while True:
            yield X[:8], Y[:8]

    model = make_model(1)
    backup = cb.BackupAndRestore(tmp_path)
    history = model.fit(batches(), steps_per_epoch=2, epochs=2, verbose=0, callbacks=[backup])
    assert history.interrupted
    assert history.epoch == []
    assert list(tmp_path.glob("run-*"))


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGUSR2", "SIGHUP"])
def test_a_stopped_run_says_that_it_is_not_finished(tmp_path, capsys, name):
    number = getattr(signal, name, None)
    if number is None:
        pytest.skip("this system has no such signal")
    before = signal.getsignal(number)
    ends = []
    callbacks = [
        SignalAt("on_train_batch_end", 3, number),
        cb.BackupAndRestore(tmp_path, exit_status=75),
        cb.LambdaCallback(on_train_end=lambda logs: ends.append(logs)),
    ]
    model = make_model(1)
    with pytest.raises(SystemExit) as end:
        model.fit(X, Y, epochs=9, verbose=0, callbacks=callbacks)
    assert end.value.code == 75
    assert len(ends) == 1
    assert model.history.interrupted
    assert list(tmp_path.glob("run-*"))
    assert signal.getsignal(number) is before
    line = f"fit: {name} stopped training before batch 2 of epoch 2 of 9, so it is not finished"
    assert capsys.readouterr().err == f"{line}; the same call of fit goes on from there\n"
    model.fit(X, Y, epochs=2, verbose=0, callbacks=callbacks[1:])  # to its end: nothing is raised
    assert capsys.readouterr().err == ""


def test_without_a_status_the_program_goes_on(capsys):
    history = make_model(1).fit(
        X, Y, verbose=0, callbacks=[SignalAt("on_train_batch_end", 1, signal.SIGTERM)]
    )
    assert history.interrupted
    assert "so it is not finished\n" in capsys.readouterr().err


@pytest.mark.parametrize("status", [0, 256, -1, True, "75"])
def test_a_status_that_is_none(tmp_path, status):
    with pytest.raises(ValueError, match="exit_status must be a number from 1 to 255"):
        cb.BackupAndRestore(tmp_path, exit_status=status)


@pytest.mark.parametrize("verbose", [1, 2])
def test_a_signal_before_the_first_batch_is_told(tmp_path, capsys, verbose):
    callbacks = [
        SignalAt("on_train_begin"),
        cb.ModelCheckpoint(tmp_path / "{epoch}-{loss:.2f}.keras"),
        cb.BackupAndRestore(tmp_path, restore=False),
    ]
    history = make_model(1).fit(X, Y, verbose=verbose, callbacks=callbacks)
    assert history.interrupted
    assert "stopped before training" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_a_second_signal_in_the_store_leaves_the_one_before(tmp_path, whole, monkeypatch):
    def interrupted_save(self, *args, **settings):
        if self.checkpoint.run.interrupted:
            signal.raise_signal(signal.SIGINT)
        return save(self, *args, **settings)

    save = tk.train.CheckpointManager.save
    at = SignalAt("on_train_batch_end", 17)
    monkeypatch.setattr(tk.train.CheckpointManager, "save", interrupted_save)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, arrays, at, save_freq="epoch", delete=True)
    monkeypatch.undo()
    finish(tmp_path, arrays, whole["arrays"], save_freq="epoch", delete=True)


def test_the_history_of_a_run_that_a_second_signal_breaks_off_says_so(tmp_path):
    class Twice(cb.Callback):
        def on_train_batch_end(self, batch, logs=None):
            signal.raise_signal(signal.SIGINT)

        def on_train_end(self, logs=None):
            signal.raise_signal(signal.SIGINT)

    model = make_model(1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y, verbose=0, callbacks=[Twice()])
    assert model.history.interrupted
    assert model.training_run is None


@pytest.mark.parametrize("where", ["on_train_batch_end", "on_epoch_end"])
def test_a_run_that_was_stopped_early_stays_stopped(tmp_path, where):
    class Stop(cb.Callback):
        left = 9 if where == "on_train_batch_end" else 2

        def stop(self):
            self.left -= 1
            if self.left == 0:
                self.model.stop_training = True

        def on_train_batch_end(self, batch, logs=None):
            if where == "on_train_batch_end":
                self.stop()

        def on_epoch_end(self, epoch, logs=None):
            if where == "on_epoch_end":
                self.stop()

    class EndKilled(cb.Callback):
        def on_train_end(self, logs=None):
            raise Killed

    def run(folder, *more, seed):
        model = make_model(seed)
        backup = cb.BackupAndRestore(folder, save_freq=1)
        history = model.fit(
            X, Y, batch_size=8, epochs=9, verbose=0, callbacks=[*more, backup], shuffle=True
        )
        return model.get_weights(), history.history

    expected = run(tmp_path / "whole", Stop(), seed=1)
    with pytest.raises(Killed):
        run(tmp_path / "broken", Stop(), EndKilled(), seed=1)
    weights, history = run(tmp_path / "broken", cb.Callback(), cb.Callback(), seed=2)
    assert history == expected[1]
    np.testing.assert_array_equal(weights[0], expected[0][0])


def test_a_loop_around_fit_hears_of_its_signal():
    model = make_model(1)
    with tk.checkpoints.Interruption() as interruption:
        first = model.fit(X, Y, verbose=0, callbacks=[SignalAt("on_train_batch_end")])
        assert first.interrupted
        assert interruption.asked
        again = model.fit(X, Y, verbose=0)
    assert again.interrupted
    assert again.epoch == []


def test_a_folder_that_is_gone_does_not_cost_the_history(tmp_path):
    class Clear(cb.Callback):
        def on_train_end(self, logs=None):
            shutil.rmtree(tmp_path / "backup")

    callbacks = [Clear(), cb.BackupAndRestore(tmp_path / "backup")]
    history = make_model(0).fit(X, Y, epochs=2, verbose=0, callbacks=callbacks)
    assert history.epoch == [0, 1]


def test_a_folder_that_goes_away_in_training_is_made_again(tmp_path):
    class Clear(cb.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            shutil.rmtree(tmp_path / "backup", ignore_errors=True)

    callbacks = [Clear(), cb.BackupAndRestore(tmp_path / "backup", delete_checkpoint=False)]
    history = make_model(0).fit(X, Y, epochs=3, verbose=0, callbacks=callbacks)
    assert history.epoch == [0, 1, 2]
    assert list((tmp_path / "backup").glob("run-*"))


def test_a_finished_run_is_not_run_again(tmp_path):
    model, history = train(tmp_path, arrays)
    again, more = train(tmp_path, arrays, seed=3)
    assert int(again.optimizer.iterations) == int(model.optimizer.iterations)
    assert more.history == history.history


def test_the_files_go_away_when_training_ends(tmp_path):
    model = make_model(0)
    model.fit(X, Y, epochs=2, verbose=0, callbacks=[cb.BackupAndRestore(tmp_path)])
    assert not list(tmp_path.glob("run-*"))


def test_without_restore_the_first_store_removes_an_older_run(tmp_path):
    train(tmp_path, arrays)
    older = {p.name for p in tmp_path.glob("run-*")}
    model = make_model(0)
    backup = cb.BackupAndRestore(tmp_path, delete_checkpoint=False, restore=False)
    history = model.fit(X, Y, epochs=1, verbose=0, callbacks=[backup])
    assert history.epoch == [0]
    left = {p.name for p in tmp_path.glob("run-*")}
    assert left
    assert not left & older


def test_another_model_is_refused_and_nothing_changed(tmp_path):
    train(tmp_path, arrays)
    other = tk.Sequential([tk.Input((6,)), tk.layers.Dense(3), tk.layers.Dense(2)])
    other.compile("adam", loss=tk.losses.SparseCategoricalCrossentropy(from_logits=True))
    before = other.get_weights()
    with pytest.raises(tk.errors.CheckpointMismatchError):
        other.fit(X, Y, verbose=0, callbacks=[cb.BackupAndRestore(tmp_path)])
    for mine, theirs in zip(other.get_weights(), before, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_bad_save_freq():
    with pytest.raises(ValueError, match="save_freq"):
        cb.BackupAndRestore("x", save_freq=0)
