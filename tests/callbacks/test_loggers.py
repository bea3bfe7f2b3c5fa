"""Loggers: one protocol for all, in the first process alone, from `fit` and from loops."""

import csv
import importlib.util
import json
import os

import numpy as np
import pytest

import trainkit as tk
from tests.runs.test_journal import Stop
from trainkit.callbacks.loggers import log_metrics
from trainkit.callbacks.loggers.csv_folder import image_file
from trainkit.callbacks.loggers.logger import ENDINGS


class Kept(tk.loggers.Logger):
    """Keeps what it is given."""

    def __init__(self, rank=None):
        super().__init__(rank)
        self.metrics, self.params, self.images, self.files, self.ends = [], {}, [], [], []

    def write_metrics(self, values, step):
        self.metrics.append((step, values))

    def write_hyperparams(self, values):
        self.params.update(values)

    def write_image(self, name, pixels, step):
        self.images.append((name, pixels, step))

    def write_artifact(self, path, name):
        self.files.append((path, name))

    def close(self, how):
        self.ends.append(how)


class Five:
    """The protocol without the base class."""

    def __init__(self):
        self.calls = []

    def log_metrics(self, metrics, step):
        self.calls.append(("metrics", sorted(metrics), step))

    def log_hyperparams(self, params):
        self.calls.append(("params",))

    def log_image(self, name, image, step):
        raise AssertionError("fit logs no images")

    def log_artifact(self, path, name=None):
        raise AssertionError("fit logs no files")

    def finish(self, how="finished"):
        self.calls.append(("finish", how))


def fitted(loggers, epochs=2, callbacks=None, **arguments):
    tk.keras.utils.set_random_seed(0)
    model = tk.Sequential([tk.Input((2,)), tk.layers.Dense(1)])
    model.compile(
        tk.optimizers.Adam(0.5), "mse", metrics=["mae"], steps_per_execution=arguments.pop("k", 1)
    )
    x = np.ones((16, 2), np.float32)
    callbacks = callbacks or []
    return model.fit(
        x, x[:, :1], 4, epochs, verbose=0, loggers=loggers, callbacks=callbacks, **arguments
    )


# ------------------------------------------------------------------ fit


@pytest.mark.parametrize("k", [1, 3])
def test_fit_logs_settings_epochs_and_the_end(k):
    kept, five = Kept(), Five()
    history = fitted([kept, five], validation_split=0.25, k=k)
    assert kept.params["optimizer/class"] == "Adam"
    assert kept.params["optimizer/learning_rate"] == pytest.approx(0.5)
    assert (kept.params["epochs"], kept.params["batch_size"]) == (2, 4)
    assert [step for step, _ in kept.metrics] == [3, 6]
    for epoch, (_, values) in enumerate(kept.metrics):
        assert values["epoch"] == epoch + 1
        assert values["learning_rate"] == pytest.approx(0.5)
        for name in ("loss", "mae", "val_loss", "val_mae"):
            assert values[name] == pytest.approx(history.history[name][epoch])
    assert kept.ends == ["finished"]
    assert [call[0] for call in five.calls] == ["params", "metrics", "metrics", "finish"]


@pytest.mark.parametrize("k", [1, 3])
def test_batches_are_logged_each_so_many_steps(k):
    kept = Kept()
    fitted(None, callbacks=[tk.loggers.LogMetrics(kept, every=3)], k=k)
    steps = [step for step, values in kept.metrics if "batch_loss" in values]
    assert steps == ([3, 6] if k == 1 else [3, 7])


@pytest.mark.parametrize("how", ["stopped", "failed"])
def test_how_training_ended_is_said(how):
    kept = Kept()
    if how == "failed":
        with pytest.raises(RuntimeError):
            fitted(kept, callbacks=[Stop(3, how)])
    else:
        fitted(kept, callbacks=[Stop(3, how)])
    assert kept.ends == [how]


def test_a_second_fit_goes_on_with_the_same_loggers(tmp_path):
    logger = tk.loggers.CSVFolderLogger(tmp_path)
    fitted([logger])
    fitted([logger])
    with open(tmp_path / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows if row["name"] == "loss"] == ["4", "8"] * 2


def test_a_journal_beside_loggers_changes_nothing(tmp_path):
    alone, beside = Kept(), Kept()
    fitted([alone])
    fitted([beside], run=tmp_path / "a")
    assert alone.metrics == beside.metrics
    assert tk.runs.open(tmp_path / "a").status == "finished"


def test_what_is_no_logger_is_refused():
    for wrong in ("csv", [Kept], [object()], [None]):
        with pytest.raises(TypeError, match="a logger has the methods log_metrics"):
            fitted(wrong)
    with pytest.raises(ValueError, match="every must be"):
        tk.loggers.LogMetrics(Kept(), every=-1)
    assert log_metrics.callback_of([]) is None


# ------------------------------------------------------------------ the protocol


def test_values_are_plain_when_they_are_written(tmp_path):
    kept = Kept()
    kept.log_metrics({"a": tk.constant(1.5), "b": np.float32(2), "c": float("nan")}, np.int64(3))
    assert kept.metrics[0][0] == 3
    assert [type(x) for x in kept.metrics[0][1].values()] == [float] * 3
    kept.log_hyperparams({"x": {"y": np.float64(2), "z": [1, 2]}, "n": None, "t": True})
    assert kept.params == {"x/y": 2.0, "x/z": "[1, 2]", "n": None, "t": True}
    kept.log_image("i", tk.constant([[0.0, 1.0]]), 1)
    kept.log_image("j", np.full((2, 2, 3), 7, np.uint8), 1)
    assert [image[1].shape for image in kept.images] == [(1, 2, 1), (2, 2, 3)]
    assert kept.images[0][1].ravel().tolist() == [0, 255]
    (tmp_path / "file").write_text("x")
    kept.log_artifact(tmp_path / "file")
    kept.log_artifact(str(tmp_path / "file"), "other")
    assert [name for _, name in kept.files] == ["file", "other"]


def test_wrong_values_are_refused_before_anything_is_written(tmp_path):
    kept = Kept()
    for error, call in [
        (TypeError, lambda: kept.log_metrics({"a": 1.0, "b": "many"}, 1)),
        (TypeError, lambda: kept.log_metrics({"": 1.0}, 1)),
        (ValueError, lambda: kept.log_metrics({"a": 1.0}, -1)),
        (ValueError, lambda: kept.log_image("i", np.zeros((2, 2, 2)), 1)),
        (ValueError, lambda: kept.log_image("i", np.zeros((2, 2), np.int32), 1)),
        (FileNotFoundError, lambda: kept.log_artifact(tmp_path / "nothing")),
        (ValueError, lambda: kept.log_artifact(__file__, "../up")),
        (ValueError, lambda: kept.log_artifact(__file__, "..")),
        (ValueError, lambda: kept.finish("well")),
    ]:
        with pytest.raises(error):
            call()
    assert [kept.metrics, kept.images, kept.files, kept.ends] == [[]] * 4
    with pytest.raises(NotImplementedError, match="does not log images"):
        tk.loggers.Logger().log_image("i", np.zeros((2, 2)), 1)


def test_only_the_first_process_writes(tmp_path, monkeypatch):
    def log_all(logger):
        logger.log_metrics({"a": 1.0}, 1)
        logger.log_hyperparams({"b": 2})
        logger.log_image("i", np.zeros((2, 2)), 1)
        logger.log_artifact(__file__)
        logger.finish()
        return bool(logger.metrics and logger.params and logger.images and logger.files)

    assert [log_all(Kept(rank)) for rank in (0, 1)] == [True, False]
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("PMI_SIZE", "2")
    assert not log_all(Kept())
    monkeypatch.setenv("PMI_RANK", "0")
    assert log_all(Kept())


def test_a_context_says_how_it_ended():
    for error, how in ((None, "finished"), (OSError, "failed"), (KeyboardInterrupt, "interrupted")):
        kept = Kept()
        try:
            with kept:
                if error is not None:
                    raise error
        except (OSError, KeyboardInterrupt):
            pass
        assert kept.ends == [how]
        assert how in ENDINGS


def test_names_of_image_files_stay_in_their_folder():
    for name in ("../../up", "/root", "a\\b", ".", "", "ü\n", "CON" * 100):
        file = image_file(name, 3)
        assert os.path.basename(file) == file
        assert not file.startswith(".")
        assert len(file) < 120


# ------------------------------------------------------------------ each of them, for real


def logged(logger, folder):
    """Everything once, as a loop would."""
    (folder / "notes.txt").write_text("three lines")
    logger.log_hyperparams({"rate": 0.1, "net": {"units": 4}})
    for step in (1, 2):
        logger.log_metrics({"loss": 1.0 / step, "val_loss": 2.0 / step}, step)
    logger.log_image("digit", np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8), 2)
    logger.log_image("color", np.full((4, 4, 3), 9, np.uint8), 2)
    logger.log_artifact(folder / "notes.txt")
    logger.log_artifact(folder / "notes.txt", "renamed.txt")
    logger.finish()
    logger.finish()


def test_csv(tmp_path):
    logged(tk.loggers.CSVFolderLogger(tmp_path / "a"), tmp_path)
    lines = (tmp_path / "a" / "metrics.csv").read_text().splitlines()
    assert lines == [
        "step,name,value",
        "1,loss,1.0",
        "1,val_loss,2.0",
        "2,loss,0.5",
        "2,val_loss,1.0",
    ]
    assert "net/units,4" in (tmp_path / "a" / "hyperparams.csv").read_text()
    assert sorted(os.listdir(tmp_path / "a" / "images")) == ["color-2.png", "digit-2.png"]
    assert (tmp_path / "a" / "artifacts" / "renamed.txt").read_text() == "three lines"


def test_tensorboard(tmp_path):
    logged(tk.loggers.TensorBoardLogger(tmp_path / "a"), tmp_path)
    (file,) = [p for p in (tmp_path / "a").iterdir() if "tfevents" in p.name]
    data = file.read_bytes()
    for text in (b"val_loss", b"net/units", b"digit", b"renamed.txt", b"PNG"):
        assert text in data
    assert (tmp_path / "a" / "artifacts" / "notes.txt").read_text() == "three lines"


def _needs(name):
    is_there = importlib.util.find_spec(name) is not None
    return pytest.mark.skipif(not is_there, reason=f"{name} is not installed")


@_needs("mlflow")
@pytest.mark.filterwarnings("ignore")
def test_mlflow(tmp_path, monkeypatch):
    import mlflow

    monkeypatch.chdir(tmp_path)
    address = f"sqlite:///{tmp_path}/runs.db"
    logger = tk.loggers.MLflowLogger("trial", "first", tracking_uri=address)
    logged(logger, tmp_path)
    client = mlflow.MlflowClient(address)
    run = client.get_run(logger.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.params == {"rate": "0.1", "net/units": "4"}
    history = client.get_metric_history(logger.run_id, "loss")
    assert [(m.step, m.value) for m in history] == [(1, 1.0), (2, 0.5)]
    names = {item.path for item in client.list_artifacts(logger.run_id)}
    assert {"images", "notes.txt", "renamed.txt"} <= names
    failing = tk.loggers.MLflowLogger("trial", tracking_uri=address)
    with pytest.raises(RuntimeError):
        fitted([failing], callbacks=[Stop(6, "failed")])
    assert client.get_run(failing.run_id).info.status == "FAILED"
    assert "val_loss" not in client.get_run(failing.run_id).data.metrics


@_needs("wandb")
@pytest.mark.filterwarnings("ignore")
def test_wandb_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "data"))
    logger = tk.loggers.WandbLogger("trial", "first", folder=tmp_path, mode="offline")
    logged(logger, tmp_path)
    import wandb

    wandb.teardown()  # its own process writes the file a while after `finish`
    (folder,) = (tmp_path / "wandb").glob("offline-run-*")
    (file,) = folder.glob("*.wandb")
    data = file.read_bytes()
    for text in (b"val_loss", b"units", b"renamed.txt"):
        assert text in data
    images = list(folder.rglob("*.png"))
    assert len(images) == 2


@_needs("trackio")
@pytest.mark.filterwarnings("ignore")
def test_trackio_offline(tmp_path, monkeypatch):
    import sqlite3

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    import trackio.sqlite_storage
    import trackio.utils

    folder = trackio.utils.TRACKIO_DIR
    logger = tk.loggers.TrackioLogger(f"trial-{os.getpid()}", "first", auto_log_cpu=False)
    logged(logger, tmp_path)
    with sqlite3.connect(folder / f"trial-{os.getpid()}.db") as base:
        rows = base.execute("select step, metrics from metrics order by id").fetchall()
    values = [(step, json.loads(text)) for step, text in rows]
    assert (1, 1.0) in [(step, each.get("loss")) for step, each in values]
    assert any("digit" in each for _, each in values)


@pytest.mark.parametrize("name", ["MLflowLogger", "WandbLogger", "TrackioLogger"])
def test_a_missing_library_is_named(name, monkeypatch):
    import importlib

    def absent(module):
        raise ImportError(f"No module named {module!r}")

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(ImportError, match=rf"{name} needs the package \w+.*pip install"):
        getattr(tk.loggers, name)()
