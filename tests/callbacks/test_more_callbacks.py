"""`TerminateOnNaN`, `CSVLogger`, `SwapEMAWeights`, `RemoteMonitor`, `CallbackList`, averages."""

import csv
import http.server
import json
import sys
import threading
import urllib.parse

import numpy as np
import pytest

import trainkit as tk

cb = tk.callbacks
RNG = np.random.default_rng(1)
X = RNG.standard_normal((8, 2)).astype("float32")
Y = X.sum(axis=1, keepdims=True)


def line(optimizer="sgd", **arguments):
    start = tk.keras.initializers.Constant(0.1)
    model = tk.Sequential([tk.Input((2,)), tk.layers.Dense(1, kernel_initializer=start)])
    model.compile(optimizer, "mse", **arguments)
    return model


def fit(model, *callbacks, epochs=3, **more):
    more = {"batch_size": 4, "shuffle": False, "verbose": 0, **more}
    return model.fit(X, Y, epochs=epochs, callbacks=list(callbacks), **more)


class Told(cb.Callback):
    def __init__(self):
        super().__init__()
        self.ended = False

    def on_train_end(self, logs=None):
        self.ended = True


# ------------------------------------------------------------------ TerminateOnNaN


@pytest.mark.filterwarnings("ignore:fit. the loss is")
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_terminate_on_nan_stops_or_raises(bad, capsys):
    weight = np.ones(8, "float32")
    weight[5] = bad
    told = Told()
    history = fit(line(), cb.TerminateOnNaN(), told, sample_weight=weight)
    assert history.epoch == [0]
    assert told.ended
    assert "batch 1" in capsys.readouterr().out
    told = Told()
    with pytest.raises(RuntimeError, match="the loss of batch 1 is"):
        fit(line(), cb.TerminateOnNaN(raise_error=True), told, sample_weight=weight)
    assert not told.ended


def test_a_run_that_met_nan_keeps_its_backup(tmp_path):
    folder = tmp_path / "run"
    weight = np.ones(8, "float32")
    weight[5] = np.nan
    stop = cb.TerminateOnNaN(raise_error=True)
    with pytest.raises(RuntimeError):
        fit(line(), cb.BackupAndRestore(folder, save_freq=1), stop, sample_weight=weight)
    assert list(folder.iterdir())


# ------------------------------------------------------------------ CSVLogger


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_csv_has_the_columns_of_later_validations(tmp_path):
    path = tmp_path / "log.csv"
    model = line(metrics=["mae"])
    history = fit(model, cb.CSVLogger(path), epochs=4, validation_data=(X, Y), validation_freq=2)
    rows = rows_of(path)
    assert [*rows[0]] == ["epoch", "loss", "mae", "val_loss", "val_mae"]
    assert [row["val_loss"] == "NA" for row in rows] == [True, False, True, False]
    found = [float(row["val_loss"]) for row in rows[1::2]]
    np.testing.assert_allclose(found, history.history["val_loss"], rtol=1e-6)


def test_csv_of_arrays_and_words(tmp_path):
    class Adds(cb.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logs.update(parts=np.array([1, 2]), word="late")

    path = tmp_path / "log.csv"
    fit(line(), Adds(), cb.CSVLogger(path, separator=","), epochs=1)
    (row,) = rows_of(path)
    assert (row["parts"], row["word"]) == ("[1, 2]", "late")


class _Interrupted:
    """Raises `KeyboardInterrupt` at a line of `CSVLogger`, by its number among those that run."""

    def __init__(self, line):
        self.left = line

    def __call__(self, frame, event, argument):
        if not frame.f_code.co_filename.endswith("csv_logger.py"):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def _logger_of_three_epochs(path, way):
    path.write_text("epoch,loss\n0,0.5\n1,0.25\n2,0.125\n", encoding="utf-8")
    logger = cb.CSVLogger(path, append=way == "append")
    logger.on_train_begin()
    if way == "resumed":
        logger.load_state_arrays({"done": np.int64(2)})
    return logger


# an interruption between the end of a block and the closing of its file leaves that to Python
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("way", ["append", "resumed"])
@pytest.mark.parametrize("linked", [False, True])
def test_csv_keeps_earlier_epochs_wherever_it_is_interrupted(tmp_path, way, linked):
    path = place = tmp_path / "log.csv"
    if linked:
        place = tmp_path / "linked.csv"
        place.symlink_to(path)
    before, interruptions = sys.gettrace(), 0
    for number in range(1, 200):
        logger = _logger_of_three_epochs(place, way)
        sys.settrace(_Interrupted(number))
        try:
            logger.on_epoch_end(2, {"loss": 0.1})
            break
        except KeyboardInterrupt:
            interruptions += 1
        finally:
            sys.settrace(before)
        assert [row["epoch"] for row in rows_of(path)][:2] == ["0", "1"]
    assert interruptions > 10
    expected = ["0", "1", "2", "2"] if way == "append" else ["0", "1", "2"]
    assert [row["epoch"] for row in rows_of(path)] == expected
    assert place.is_symlink() is linked


# ------------------------------------------------------------------ averages of weights


@pytest.mark.parametrize("eagerly", [False, True])
def test_fit_ends_with_the_averages(eagerly):
    model = line(tk.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5), run_eagerly=eagerly)
    plain = line(tk.optimizers.SGD(0.1), run_eagerly=eagerly)
    kernels = []
    keep = cb.LambdaCallback(
        on_train_batch_end=lambda b, logs: kernels.append(plain.get_weights()[0])
    )
    fit(plain, keep)
    fit(model)
    average = kernels[0]  # that of one step is what the step gave
    for kernel in kernels[1:]:
        average = 0.5 * average + 0.5 * kernel
    np.testing.assert_allclose(model.get_weights()[0], average, rtol=1e-5)
    assert not np.allclose(average, kernels[-1])


def test_evaluation_uses_the_averages_and_training_does_not():
    def trained(*callbacks):
        model = line(tk.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5))
        history = fit(model, *callbacks, validation_data=(X, Y)).history
        return model, history

    swapped, plain = trained(cb.SwapEMAWeights()), trained()
    np.testing.assert_allclose(swapped[1]["loss"], plain[1]["loss"], rtol=1e-6)
    assert not np.allclose(swapped[1]["val_loss"], plain[1]["val_loss"], rtol=1e-3)
    np.testing.assert_allclose(swapped[0].get_weights()[0], plain[0].get_weights()[0], rtol=1e-6)
    last = swapped[0].evaluate(X, Y, verbose=0)
    assert last == pytest.approx(swapped[1]["val_loss"][-1], rel=1e-5)


def test_a_checkpoint_after_the_swap_has_the_averages(tmp_path):
    path = tmp_path / "a.weights.h5"
    model = line(tk.optimizers.Adam(0.1, use_ema=True, ema_momentum=0.5))
    save = cb.ModelCheckpoint(path, save_weights_only=True)
    fit(model, cb.SwapEMAWeights(swap_on_epoch=True), save)
    saved = line(tk.optimizers.Adam(use_ema=True))
    saved.load_weights(path)
    np.testing.assert_allclose(saved.get_weights()[0], model.get_weights()[0], rtol=1e-6)
    plain = line(tk.optimizers.Adam(0.1, use_ema=True, ema_momentum=0.5))
    fit(plain)
    np.testing.assert_allclose(model.get_weights()[0], plain.get_weights()[0], rtol=1e-5)


def test_swapping_around_predict_and_evaluate_gives_the_weights_back():
    model = line(tk.optimizers.SGD(0.1, use_ema=True))
    fit(model)
    model.layers[0].kernel.assign([[5.0], [5.0]])
    swap = cb.SwapEMAWeights()
    for method in (model.predict, model.evaluate):
        args = (X,) if method == model.predict else (X, Y)
        with_averages = method(*args, verbose=0, callbacks=[swap])
        assert not np.allclose(with_averages, method(*args, verbose=0))
        np.testing.assert_array_equal(model.get_weights()[0], [[5.0], [5.0]])


def test_swapping_needs_averages():
    with pytest.raises(ValueError, match="use_ema=True"):
        fit(line(), cb.SwapEMAWeights(), validation_data=(X, Y))


# ------------------------------------------------------------------ RemoteMonitor


@pytest.fixture
def server():
    got = []

    class Takes(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            got.append((self.path, self.headers["Content-Type"], body, self.headers.get("Key")))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            """Nothing is printed."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Takes) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}", got
        made.shutdown()
        thread.join()


def test_epochs_are_sent(server):
    pytest.importorskip("requests")
    address, got = server
    history = fit(line(), cb.RemoteMonitor(address, send_as_json=True, headers={"Key": "k"}))
    wanted = ("/publish/epoch/end/", "application/json", "k")
    assert [(path, kind, key) for path, kind, _, key in got] == [wanted] * 3
    sent = [json.loads(body) for _, _, body, _ in got]
    assert [row["epoch"] for row in sent] == [0, 1, 2]
    np.testing.assert_allclose([row["loss"] for row in sent], history.history["loss"])
    fit(line(), cb.RemoteMonitor(address, path="/x", field="logs"), epochs=1)
    path, _, body, _ = got[-1]
    assert path == "/x"
    assert json.loads(urllib.parse.parse_qs(body)["logs"][0])["epoch"] == 0


def test_a_server_that_is_not_there_is_a_warning():
    pytest.importorskip("requests")
    monitor = cb.RemoteMonitor("http://127.0.0.1:9")
    with pytest.warns(UserWarning, match="Could not reach"):
        monitor.on_epoch_end(0, {"loss": np.float32(1.0)})


# ------------------------------------------------------------------ CallbackList


def test_a_list_of_callbacks_in_a_loop_of_ones_own():
    seen = []
    model = line()
    spy = cb.LambdaCallback(
        on_train_begin=lambda logs: seen.append("begin"),
        on_train_batch_end=lambda batch, logs: seen.append((batch, logs["loss"])),
        on_epoch_end=lambda epoch, logs: seen.append((epoch, logs)),
    )
    called = cb.CallbackList([spy], add_history=True, model=model, epochs=1, steps=1)
    called.on_train_begin()
    called.on_epoch_begin(0)
    called.on_train_batch_begin(0)
    called.on_train_batch_end(0, {"loss": 2.0})
    called.on_epoch_end(0, {"loss": 2.0})
    called.on_train_end()
    assert seen == ["begin", (0, 2.0), (0, {"loss": 2.0})]
    assert model.history.history == {"loss": [2.0]}
    assert spy.params == {"epochs": 1, "steps": 1}
    assert spy.model is model


def test_a_backup_needs_a_folder_and_removes_it(tmp_path):
    for nothing in ("", None):
        with pytest.raises(ValueError, match="needs a folder"):
            cb.BackupAndRestore(nothing)
    folder = tmp_path / "run"
    fit(line(), cb.BackupAndRestore(folder, double_checkpoint=True))
    assert not folder.exists()
    fit(line(), cb.BackupAndRestore(folder, delete_checkpoint=False, double_checkpoint=True))
    assert len(list(folder.glob("run*"))) >= 2


def test_reduce_on_plateau_has_no_best_before_training():
    reduce = cb.ReduceLROnPlateau("loss")
    fit(line(), reduce)
    assert reduce.best is not None
    reduce.on_train_begin()
    assert reduce.best is None
