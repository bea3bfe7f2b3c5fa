"""Paths that are no files, and paths in any form that the system knows."""

import os
import pathlib

import numpy as np
import pytest

import trainkit as tk
from trainkit.checkpoints.format.writer import CheckpointOptions
from trainkit.datasets import cifar10, mnist
from trainkit.datasets.idx import read_idx
from trainkit.saved_graph import standalone


def small_model():
    model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(2)])
    model.compile("sgd", "mse")
    return model


READERS = {
    "m.keras": tk.models.load_model,
    "w.keras": lambda path: small_model().load_weights(path),
    "w.weights.h5": lambda path: small_model().load_weights(path),
    "w.npz": lambda path: small_model().load_weights(path),
    "w.safetensors": lambda path: small_model().load_weights(path),
    "ckpt-1": lambda path: tk.train.Checkpoint(v=tk.Variable(1.0)).restore(path),
    "graph.h5": tk.saved_graph.load,
    "small.h5": standalone.load,
    "idx": lambda path: read_idx(path, 1),
    "idx.gz": lambda path: read_idx(path, 1),
    "mnist.npz": mnist.load_data,
    "cifar.tar.gz": cifar10.load_data,
}


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_refused_by_each_reader(tmp_path, name):
    os.mkfifo(tmp_path / name)  # whoever opened it for reading would wait for a writer
    with pytest.raises((tk.errors.CheckpointError, ValueError, FileNotFoundError)) as caught:
        READERS[name](tmp_path / name)
    assert name in str(caught.value)


@pytest.mark.parametrize("name", READERS)
def test_a_device_is_refused_by_each_reader(tmp_path, name):
    os.symlink("/dev/zero", tmp_path / name)
    with pytest.raises((tk.errors.CheckpointError, ValueError, FileNotFoundError)):
        READERS[name](tmp_path / name)


@pytest.mark.parametrize("name", READERS)
def test_a_folder_is_refused_by_each_reader(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises((tk.errors.CheckpointError, ValueError, FileNotFoundError)):
        READERS[name](tmp_path / name)


FORMS = {"str": os.fsdecode, "bytes": os.fsencode, "path": pathlib.Path}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["a", "b\udcff", "ü"])
def test_paths_of_any_form_and_bytes(tmp_path, form, name):
    folder = tmp_path / "d\udcfe\udcff"
    folder.mkdir()

    def path(ending):
        return FORMS[form](os.fspath(folder / (name + ending)))

    model, v = small_model(), tk.Variable(1.0)
    for ending in (".weights.h5", ".npz", ".safetensors"):
        model.save_weights(path(ending))
        model.load_weights(path(ending))
    model.save(path(".keras"))
    assert tk.models.load_model(path(".keras")).count_params() == 8
    checkpoint = tk.train.Checkpoint(v=v)
    checkpoint.restore(checkpoint.save(path("ckpt"))).assert_consumed()
    checkpoint.read(checkpoint.write(path("plain"))).assert_consumed()
    checkpoint.restore(tk.train.latest_checkpoint(FORMS[form](os.fspath(folder))))
    manager = tk.train.CheckpointManager(checkpoint, path("run"), 2, checkpoint_name="x\udcff")
    for _ in range(3):
        manager.save()
    assert manager.restore_or_initialize() == manager.latest_checkpoint
    assert len(manager.checkpoints) == 2
    f = tk.function(lambda x: x * 2)
    f(tk.constant(1.0))
    tk.saved_graph.save(f, path("graph"))
    assert float(tk.saved_graph.load(path("graph"))(tk.constant(2.0))) == 4.0
    callbacks = [
        tk.callbacks.BackupAndRestore(path("backup")),
        tk.callbacks.CSVLogger(path(".csv")),
        tk.callbacks.ModelCheckpoint(path("best.keras")),
    ]
    model.fit(np.ones((4, 3), "float32"), np.ones((4, 2)), verbose=0, callbacks=callbacks)
    assert (folder / f"{name}best.keras").exists()


def test_the_counter_is_there_before_the_first_save(tmp_path):
    checkpoint = tk.train.Checkpoint(v=tk.Variable(1.0))
    assert int(checkpoint.save_counter) == 0
    checkpoint.save(tmp_path / "a")
    assert int(checkpoint.save_counter) == 1
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        _ = checkpoint.other


@pytest.mark.parametrize("saves", [1, 2])
def test_saves_that_fail_in_the_background_do_not_count(tmp_path, saves):
    (tmp_path / "file").touch()
    checkpoint = tk.train.Checkpoint(v=tk.Variable(1.0))
    checkpoint.save(tmp_path / "a")
    options = CheckpointOptions(enable_async=True)
    failures = 0
    for _ in range(saves):
        try:
            checkpoint.save(tmp_path / "file" / "a", options)
        except OSError:  # that of the one before
            failures += 1
    while True:
        try:
            checkpoint.sync()
        except OSError:
            failures += 1
        else:
            break
    assert failures
    assert int(checkpoint.save_counter) == 1
    assert checkpoint.save(tmp_path / "a").endswith("a-2")


def test_a_failure_before_a_save_that_succeeds_leaves_its_count(tmp_path):
    checkpoint = tk.train.Checkpoint(v=tk.Variable(1.0))
    options = CheckpointOptions(enable_async=True)
    (tmp_path / "file").touch()
    checkpoint.save(tmp_path / "file" / "a", options)
    with pytest.raises(OSError, match="file"):
        checkpoint.sync()
    path = checkpoint.save(tmp_path / "a", options)
    checkpoint.sync()
    assert path.endswith("a-1")
    assert int(checkpoint.save_counter) == 1
