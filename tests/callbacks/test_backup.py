"""A run that is broken off and taken up again equals one that was not, to the bit."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import callbacks as cb

RNG = np.random.default_rng(0)
X = RNG.standard_normal((50, 6)).astype("float32")
Y = (X.sum(axis=1) > 0).astype("int32")
EPOCHS = 4


class Killed(Exception):
    pass


class Kill(cb.Callback):
    """Ends the process, as far as `fit` can tell."""

    def __init__(self, after):
        super().__init__()
        self.left = after

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if self.left == 0:
            raise Killed


def make_model(seed):
    tk.random.set_seed(seed)
    model = tk.Sequential(
        [
            tk.layers.Dense(8, activation="relu"),
            tk.layers.Dropout(0.4),
            tk.layers.Dense(2),
        ]
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


def train(folder, data, *more, seed=1, save_freq=3):
    model = make_model(seed)
    backup = cb.BackupAndRestore(folder, save_freq=save_freq, delete_checkpoint=False)
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


def test_an_interrupted_run_goes_on(tmp_path):
    class Ask(cb.Callback):
        def __init__(self, after):
            super().__init__()
            self.left = after

        def on_train_batch_end(self, batch, logs=None):
            self.left -= 1
            if self.left == 0:
                import signal

                signal.raise_signal(signal.SIGINT)

    expected, _ = train(tmp_path / "whole", arrays, Ask(0), save_freq="epoch")
    _, part = train(tmp_path / "broken", arrays, Ask(9), save_freq="epoch")
    assert len(part.epoch) == 1
    model, _ = train(tmp_path / "broken", arrays, Ask(0), save_freq="epoch")
    np.testing.assert_array_equal(model.get_weights()[0], expected.get_weights()[0])


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
