"""Callbacks in training: what they see, do, and remember."""

import csv
import signal

import numpy as np
import pytest

import trainkit as tk
from trainkit import callbacks as cb

X = np.linspace(-1, 1, 24, dtype="float32").reshape(8, 3)
Y = X.sum(axis=1, keepdims=True)


def line(rate=0.1, seed=0, **compile_arguments):
    tk.random.set_seed(seed)
    model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(1)])
    model.compile(tk.optimizers.SGD(rate), loss="mse", **compile_arguments)
    return model


def fit(model, *callbacks, epochs=3, **more):
    arguments = {"batch_size": 4, "epochs": epochs, "verbose": 0, "shuffle": False, **more}
    return model.fit(X, Y, callbacks=list(callbacks), **arguments)


class Spy(cb.Callback):
    def __init__(self):
        super().__init__()
        self.seen = []


def _noting(name):
    return lambda self, *args: self.seen.append(name)


for _name in dir(cb.Callback):
    if _name.startswith("on_") and _name not in ("on_batch_begin", "on_batch_end"):
        setattr(Spy, _name, _noting(_name))


# ------------------------------------------------------------------ order and logs


def test_methods_are_called_in_keras_order():
    spy = Spy()
    fit(line(), spy, epochs=1, validation_data=(X, Y))
    assert spy.seen == [
        "on_train_begin",
        "on_epoch_begin",
        "on_train_batch_begin",
        "on_train_batch_end",
        "on_train_batch_begin",
        "on_train_batch_end",
        "on_test_begin",
        "on_test_batch_begin",
        "on_test_batch_end",
        "on_test_batch_begin",
        "on_test_batch_end",
        "on_test_end",
        "on_epoch_end",
        "on_train_end",
    ]


def test_logs_are_floats_and_those_of_the_history():
    batches, epochs = [], []

    class Logs(cb.Callback):
        def on_train_batch_end(self, batch, logs=None):
            batches.append((batch, dict(logs)))

        def on_epoch_end(self, epoch, logs=None):
            epochs.append(dict(logs))

    history = fit(line(metrics=["mae"]), Logs(), epochs=2, validation_data=(X, Y)).history
    assert [batch for batch, _ in batches] == [0, 1, 0, 1]
    assert all(type(v) is float for _, logs in batches for v in logs.values())
    assert set(history) == {"loss", "mae", "val_loss", "val_mae"}
    assert [logs["loss"] for logs in epochs] == history["loss"]
    assert batches[1][1]["loss"] == history["loss"][0]  # the last batch shows the epoch's mean


def test_what_a_callback_adds_to_logs_is_history():
    class Adds(cb.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logs["extra"] = epoch * 1.5

    assert fit(line(), Adds(), epochs=2).history["extra"] == [0.0, 1.5]


def test_predict_gives_outputs_to_callbacks():
    outputs = []

    class Outputs(cb.Callback):
        def on_predict_batch_end(self, batch, logs=None):
            outputs.append(np.asarray(logs["outputs"]))

    found = line().predict(X, batch_size=4, verbose=0, callbacks=[Outputs()])
    np.testing.assert_array_equal(np.concatenate(outputs), found)


def test_only_callbacks_are_taken():
    with pytest.raises(TypeError, match="call the class"):
        fit(line(), cb.TerminateOnNaN)


def test_lambda_callback_calls_functions_and_refuses_unknown_names():
    seen = []
    lambdas = cb.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append(epoch),
        on_train_batch_end=lambda batch, logs: seen.append(f"b{batch}"),
    )
    fit(line(), lambdas, epochs=1)
    assert seen == ["b0", "b1", 0]
    with pytest.raises(TypeError, match="on_epoch_finish"):
        cb.LambdaCallback(on_epoch_finish=print)
    assert cb.LambdaCallback(helper=print).helper is print


# ------------------------------------------------------------------ stopping


class Feign(cb.Callback):
    """Puts given values in place of a metric."""

    def __init__(self, name, values):
        super().__init__()
        self.name, self.values = name, values

    def on_epoch_end(self, epoch, logs=None):
        logs[self.name] = self.values[epoch]


@pytest.mark.parametrize(
    ("values", "settings", "epochs"),
    [
        ([3.0, 2.0, 2.5, 2.6, 2.7], {"patience": 2}, 4),
        ([3.0, 2.0, 2.5, 1.0, 2.0, 2.0], {"patience": 2}, 6),
        ([1.0, 2.0, 2.0], {"patience": 1, "mode": "max"}, 3),
        ([3.0, 2.9, 2.8], {"patience": 1, "min_delta": 0.5}, 2),
        ([3.0, 3.0, 3.0, 3.0], {"patience": 1, "start_from_epoch": 2}, 4),
        ([3.0, 2.0, 1.0, 1.0], {"patience": 1, "baseline": 0.5}, 4),
        ([3.0, 2.0, 2.5, 1.0], {"patience": 1, "baseline": 0.5}, 3),
    ],
)
def test_early_stopping(values, settings, epochs):
    stop = cb.EarlyStopping(monitor="score", **{"mode": "min", **settings})
    history = fit(line(), Feign("score", values), stop, epochs=len(values))
    assert len(history.epoch) == epochs


@pytest.mark.parametrize(
    "watch",
    [
        lambda p: cb.EarlyStopping(monitor="score"),
        lambda p: cb.ReduceLROnPlateau(monitor="score"),
        lambda p: cb.ModelCheckpoint(p / "a.keras", monitor="score", save_best_only=True),
    ],
)
def test_which_way_an_unknown_metric_gets_better_has_to_be_said(watch, tmp_path):
    with pytest.raises(ValueError, match="more or less of the metric 'score' is better; give mode"):
        fit(line(), Feign("score", [1.0]), watch(tmp_path), epochs=1)


@pytest.mark.parametrize(
    ("metric", "better"),
    [(tk.metrics.Recall, [1.0, 2.0, 3.0]), (tk.metrics.MeanSquaredError, None)],
)
def test_the_class_of_a_metric_says_which_way_it_gets_better(metric, better):
    model = tk.Sequential([tk.Input((1,)), tk.layers.Dense(1, activation="sigmoid")])
    model.compile("sgd", "mse", metrics=[metric(name="score")])
    stop = cb.EarlyStopping(monitor="score")
    feign = Feign("score", better or [3.0, 2.0, 1.0])
    history = model.fit(np.ones((4, 1)), np.ones((4, 1)), 4, 3, verbose=0, callbacks=[feign, stop])
    assert len(history.epoch) == 3


def test_early_stopping_goes_back_to_the_best_weights():
    model, kept = line(), []
    keep = cb.LambdaCallback(on_epoch_end=lambda e, logs: kept.append(model.get_weights()))
    stop = cb.EarlyStopping("score", patience=2, mode="min", restore_best_weights=True)
    fit(model, keep, Feign("score", [3.0, 1.0, 2.0, 2.0]), stop, epochs=4)
    assert stop.best_epoch == 1
    np.testing.assert_array_equal(model.get_weights()[0], kept[1][0])


def test_accuracy_is_better_when_more():
    stop = cb.EarlyStopping(monitor="val_accuracy", patience=1)
    history = fit(
        line(), Feign("val_accuracy", [0.1, 0.2, 0.3]), stop, epochs=3, validation_data=(X, Y)
    )
    assert len(history.epoch) == 3


def test_nan_ends_training():
    model = line(rate=1e30)
    history = fit(model, cb.TerminateOnNaN(), epochs=9)
    assert len(history.epoch) < 3
    assert not np.isfinite(history.history["loss"][-1])


@pytest.mark.parametrize(
    "callback",
    [
        lambda p: cb.EarlyStopping("val_los"),
        lambda p: cb.ReduceLROnPlateau("val_los"),
        lambda p: cb.ModelCheckpoint(p / "a.keras", monitor="val_los", save_best_only=True),
    ],
)
def test_an_unknown_monitor_names_the_nearest(tmp_path, callback):
    with pytest.raises(ValueError, match="did you mean 'val_loss'"):
        fit(line(), callback(tmp_path), validation_data=(X, Y))


@pytest.mark.parametrize("callback", [cb.EarlyStopping, cb.ReduceLROnPlateau])
def test_a_monitor_of_the_validation_needs_one(callback):
    with pytest.warns(UserWarning, match="no metric 'val_loss'.*give fit validation_data"):
        history = fit(line(), callback())
    assert len(history.epoch) == 3


@pytest.mark.parametrize("kind", ["stop", "reduce", "save"])
def test_an_unknown_monitor_with_a_mode_is_a_warning(tmp_path, kind):
    path = tmp_path / "a.keras"
    callback = {
        "stop": lambda: cb.EarlyStopping("val_los", mode="min"),
        "reduce": lambda: cb.ReduceLROnPlateau("val_los", mode="min"),
        "save": lambda: cb.ModelCheckpoint(path, "val_los", save_best_only=True, mode="min"),
    }[kind]()
    with pytest.warns(UserWarning, match="did you mean 'val_loss'"):
        history = fit(line(), callback, validation_data=(X, Y))
    assert len(history.epoch) == 3
    assert path.exists() is (kind == "save")


def test_an_unknown_mode_is_a_warning():
    with pytest.warns(UserWarning, match="EarlyStopping mode 'up' is unknown"):
        assert cb.EarlyStopping("loss", mode="up").mode == "auto"


def test_the_comparison_of_a_monitor():
    assert cb.EarlyStopping("val_accuracy").monitor_op is tk.ops.greater
    assert cb.EarlyStopping("val_loss").monitor_op is tk.ops.less
    assert cb.EarlyStopping("val_loss", mode="max").monitor_op is tk.ops.greater


def test_a_best_only_checkpoint_passes_over_epochs_without_validation(tmp_path):
    path = tmp_path / "{epoch}.keras"
    save = cb.ModelCheckpoint(path, save_best_only=True)
    fit(line(), save, epochs=4, validation_data=(X, Y), validation_freq=2)
    assert {p.name for p in tmp_path.iterdir()} == {"2.keras", "4.keras"}


def test_epochs_without_validation_are_passed_over():
    stop = cb.EarlyStopping(patience=1)
    history = fit(line(), stop, epochs=4, validation_data=(X, Y), validation_freq=2)
    assert len(history.history["val_loss"]) == 2
    assert len(history.epoch) == 4


# ------------------------------------------------------------------ learning rates


def test_learning_rate_schedule():
    model = line(rate=1.0)
    history = fit(model, cb.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1)))
    np.testing.assert_allclose(history.history["learning_rate"], [0.1, 0.05, 0.1 / 3], rtol=1e-6)
    both = fit(line(rate=0.8), cb.LearningRateScheduler(lambda epoch, rate: rate / 2))
    np.testing.assert_allclose(both.history["learning_rate"], [0.4, 0.2, 0.1], rtol=1e-6)
    with pytest.raises(ValueError, match="must give a number"):
        fit(line(), cb.LearningRateScheduler(lambda epoch: "fast"))


def test_reduce_on_plateau():
    values = [1.0, 1.0, 1.0, 0.5, 0.5, 0.5]
    reduce = cb.ReduceLROnPlateau(
        "score", mode="min", factor=0.5, patience=1, cooldown=1, min_lr=0.03
    )
    history = fit(line(rate=0.1), Feign("score", values), reduce, epochs=6)
    expected = [0.1, 0.1, 0.05, 0.03, 0.03, 0.03]
    np.testing.assert_allclose(history.history["learning_rate"], expected, rtol=1e-6)
    with pytest.raises(ValueError, match="below 1"):
        cb.ReduceLROnPlateau(factor=1.0)


# ------------------------------------------------------------------ files


def test_csv_logger_writes_the_history(tmp_path):
    path = tmp_path / "deep" / "log.csv"
    logger = cb.CSVLogger(path)
    history = fit(line(), logger, validation_data=(X, Y)).history
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["epoch"]) for row in rows] == [0, 1, 2]
    for name in ("loss", "val_loss"):
        assert [float(row[name]) for row in rows] == history[name]


def test_csv_logger_appends(tmp_path):
    for append in (False, True):
        fit(line(), cb.CSVLogger(tmp_path / "log.csv", append=append), epochs=2)
    lines = (tmp_path / "log.csv").read_text().splitlines()
    assert lines[0] == "epoch,loss,val_loss"
    assert [text.split(",")[0] for text in lines[1:]] == ["0", "1", "0", "1"]


def test_tensorboard_shows_the_numbers_of_the_history(tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.plugin_event_accumulator"
    )
    array = pytest.importorskip("tensorboard.util.tensor_util").make_ndarray
    board = cb.TensorBoard(tmp_path, histogram_freq=1, update_freq="batch")
    history = fit(line(metrics=["mae"]), board, validation_data=(X, Y)).history

    def curves(run):
        events = accumulator.EventAccumulator(str(tmp_path / run))
        events.Reload()
        read = {tag: events.Tensors(tag) for tag in events.Tags()["tensors"]}
        return {
            tag: [(e.step, array(e.tensor_proto)) for e in found] for tag, found in read.items()
        }

    train, held = curves("train"), curves("validation")
    for name in ("loss", "mae"):
        values = [float(v) for _, v in train[f"epoch_{name}"]]
        np.testing.assert_allclose(values, history[name], rtol=1e-6)
        values = [float(v) for _, v in held[f"epoch_{name}"]]
        np.testing.assert_allclose(values, history[f"val_{name}"], rtol=1e-6)
    assert [step for step, _ in train["batch_loss"]] == [1, 2, 3, 4, 5, 6]
    assert any("kernel" in tag for tag in train)
    assert "epoch_learning_rate" in train


def test_tensorboard_refuses_what_it_can_not():
    with pytest.raises(ValueError, match="update_freq"):
        cb.TensorBoard(update_freq="sometimes")


def test_tensorboard_writes_graphs_and_pictures_of_weights(tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.plugin_event_accumulator"
    )
    fit(line(), cb.TensorBoard(tmp_path, histogram_freq=1, write_images=True))
    found = accumulator.EventAccumulator(str(tmp_path / "train"))
    found.Reload()
    names = [node.name for node in found.Graph().node]
    assert any("matmul" in name.lower() or "dense" in name.lower() for name in names)
    assert [tag for tag in found.Tags()["tensors"] if tag.endswith("/image")]
    bare = tmp_path / "bare"
    fit(line(), cb.TensorBoard(bare, write_graph=False))
    found = accumulator.EventAccumulator(str(bare / "train"))
    found.Reload()
    assert not found.Tags()["graph"]


def test_tensorboard_writes_embeddings_for_the_projector(tmp_path):
    model = tk.Sequential(
        [
            tk.Input((2,), dtype="int32"),
            tk.layers.Embedding(5, 3, name="words"),
            tk.layers.Flatten(),
            tk.layers.Dense(1),
        ]
    )
    model.compile("sgd", "mse")
    codes = np.arange(8, dtype="int32").reshape(4, 2) % 5
    board = cb.TensorBoard(tmp_path, embeddings_freq=2, embeddings_metadata={"words": "words.tsv"})
    model.fit(codes, np.ones((4, 1)), epochs=3, callbacks=[board], verbose=0)
    folder = tmp_path / "train"
    assert {p.name for p in folder.glob("*.tsv")} == {"words-0.tsv", "words-2.tsv"}
    table = np.loadtxt(folder / "words-2.tsv", delimiter="\t")
    np.testing.assert_allclose(table, model.get_weights()[0], rtol=1e-6)
    config = (folder / "projector_config.pbtxt").read_text()
    assert 'tensor_path: "words-2.tsv"' in config
    assert 'metadata_path: "words.tsv"' in config
    wrong = cb.TensorBoard(tmp_path, embeddings_freq=1, embeddings_metadata={"word": "a.tsv"})
    with pytest.raises(ValueError, match="names 'word'; the embeddings of the model are words"):
        model.fit(codes, np.ones((4, 1)), callbacks=[wrong], verbose=0)


def test_model_checkpoint_fills_in_names(tmp_path):
    path = tmp_path / "w{epoch:02d}-{loss:.1f}.weights.h5"
    history = fit(line(), cb.ModelCheckpoint(path, save_weights_only=True)).history["loss"]
    expected = {f"w{i + 1:02d}-{loss:.1f}.weights.h5" for i, loss in enumerate(history)}
    assert {p.name for p in tmp_path.iterdir()} == expected
    with pytest.raises(ValueError, match="names 'acc'"):
        fit(line(), cb.ModelCheckpoint(tmp_path / "{acc}.weights.h5", save_weights_only=True))


def test_model_checkpoint_keeps_the_best(tmp_path):
    model, path = line(), tmp_path / "best.weights.h5"
    kept = []
    keep = cb.LambdaCallback(on_epoch_end=lambda e, logs: kept.append(model.get_weights()))
    save = cb.ModelCheckpoint(
        path, "score", mode="min", save_best_only=True, save_weights_only=True
    )
    fit(model, keep, Feign("score", [3.0, 1.0, 2.0]), save)
    assert save.best == 1.0
    model.load_weights(path)
    np.testing.assert_array_equal(model.get_weights()[0], kept[1][0])


def test_model_checkpoint_by_batches(tmp_path):
    path = tmp_path / "w{epoch}-{batch}.weights.h5"
    fit(line(), cb.ModelCheckpoint(path, save_weights_only=True, save_freq=3))
    assert {p.name for p in tmp_path.iterdir()} == {"w2-1.weights.h5", "w3-2.weights.h5"}


@pytest.mark.parametrize(
    ("path", "settings"),
    [
        ("a", {}),
        ("a", {"save_weights_only": True}),
        ("a.h5", {"save_weights_only": True}),
        ("a.keras", {"save_weights_only": True}),
        ("a.keras", {"save_freq": "day"}),
    ],
)
def test_model_checkpoint_checks_its_arguments(path, settings):
    with pytest.raises(ValueError, match="ModelCheckpoint"):
        cb.ModelCheckpoint(path, **settings)


# ------------------------------------------------------------------ interruption


class Interrupt(cb.Callback):
    """Sends a signal after some batches, as Ctrl-C does."""

    def __init__(self, number, after):
        super().__init__()
        self.number, self.left = number, after

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_saves_and_returns(tmp_path, number):
    path = tmp_path / "last.weights.h5"
    model = line()
    handler = signal.getsignal(number)
    save = cb.ModelCheckpoint(path, save_weights_only=True)
    history = fit(model, Interrupt(number, 3), save, epochs=50)
    assert history.epoch == [0]
    assert len(history.history["loss"]) == 1
    stopped = model.get_weights()
    model.set_weights([w * 0 for w in stopped])
    model.load_weights(path)
    np.testing.assert_array_equal(model.get_weights()[0], stopped[0])
    assert int(model.optimizer.iterations) == 3
    assert signal.getsignal(number) is handler


def test_an_error_in_training_puts_the_signals_back():
    class Fails(cb.Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise RuntimeError("broken callback")

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(RuntimeError, match="broken callback"):
        fit(line(), Fails())
    assert signal.getsignal(signal.SIGINT) is handler


# ------------------------------------------------------------------ the bar


def test_lines_show_the_history(capsys):
    history = fit(line(), epochs=2, verbose=2).history
    lines = capsys.readouterr().out.splitlines()
    assert lines[::2] == ["Epoch 1/2", "Epoch 2/2"]
    assert lines[3].startswith("2/2 - ")
    assert f"loss: {history['loss'][1]:.4f}" in lines[3]


def test_a_bar_is_drawn_on_a_terminal(capsys, monkeypatch):
    import sys

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    history = fit(line(), epochs=1, verbose=1, validation_data=(X, Y)).history
    text = capsys.readouterr().out
    assert "Epoch 1/1  2/2 " in text
    assert f"loss: {history['loss'][0]:.4f}" in text
    assert f"val_loss: {history['val_loss'][0]:.4f}" in text


def test_silence(capsys):
    model = line()
    fit(model, verbose=0)
    model.evaluate(X, Y, verbose=0)
    model.predict(X, verbose=0)
    assert capsys.readouterr().out == ""


def test_the_model_of_a_callback_can_be_set_as_in_older_programs():
    class Holding(tk.callbacks.Callback):
        def __init__(self, model):
            super().__init__()
            self.model = model

    model = tk.Sequential([tk.layers.Dense(1)])
    held = Holding(model)
    assert held.model is model
    other = tk.Sequential([tk.layers.Dense(1)])
    other.compile("sgd", "mse")
    other.fit(np.ones((2, 1)), np.ones((2, 1)), verbose=0, callbacks=[held])
    assert held.model is other


def test_whole_models_are_kept_in_h5_files_too(tmp_path):
    model = tk.Sequential([tk.layers.Dense(1)])
    model.compile("sgd", "mse")
    path = tmp_path / "model-{epoch}.h5"
    x = np.ones((2, 1), "float32")
    model.fit(x, x, epochs=2, verbose=0, callbacks=[tk.callbacks.ModelCheckpoint(path)])
    kept = tk.keras.models.load_model(tmp_path / "model-2.h5")
    np.testing.assert_array_equal(kept(x), model(x))
    with pytest.raises(ValueError, match=r"must end in '.keras' or '.h5', got"):
        tk.callbacks.ModelCheckpoint(tmp_path / "model")
