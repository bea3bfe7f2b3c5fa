"""A pipe, or a device, where a file is read: refused at once, wherever it stands."""

import os

import pytest

import trainkit as tk
from trainkit import keras
from trainkit.checkpoints.format.manifest import git_commit

READERS = {
    "TFRecordDataset": lambda p: list(tk.data.TFRecordDataset(p)),
    "TFRecordDataset, packed": lambda p: list(tk.data.TFRecordDataset(p, "GZIP")),
    "TextLineDataset": lambda p: list(tk.data.TextLineDataset(p)),
    "TextLineDataset, packed": lambda p: list(tk.data.TextLineDataset(p, "ZLIB")),
    "FixedLengthRecordDataset": lambda p: list(tk.data.FixedLengthRecordDataset(p, 3)),
    "CsvDataset": lambda p: list(tk.data.experimental.CsvDataset(p, [0])),
    "make_csv_dataset": lambda p: tk.data.experimental.make_csv_dataset(p, 2),
    "read_file": tk.io.read_file,
    "read_file in map": lambda p: list(
        tk.data.Dataset.from_tensor_slices([p]).map(tk.io.read_file)
    ),
    "GFile": lambda p: tk.io.gfile.GFile(p).read(),
    "GFile, bytes": lambda p: tk.io.gfile.GFile(p, "rb").read(),
    "load_img": keras.utils.load_img,
    "StringLookup": lambda p: tk.layers.StringLookup(vocabulary=p),
    "TextVectorization": lambda p: tk.layers.TextVectorization(vocabulary=p),
    "TextFileInitializer": lambda p: tk.lookup.TextFileInitializer(p, tk.string, 0, tk.int64, 1),
    "get_file": lambda p: keras.utils.get_file("a", origin=f"file://{p}", cache_dir=f"{p}.cache"),
    "load_weights": lambda p: tk.Sequential([tk.layers.Dense(1)]).load_weights(f"{p}.weights.h5"),
    "load_model": lambda p: tk.models.load_model(f"{p}.keras"),
    "mnist": lambda p: tk.datasets.mnist.load_data(f"{p}.npz"),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_pipe_is_refused_at_once(read, tmp_path):
    for ending in ("", ".weights.h5", ".keras", ".npz"):
        os.mkfifo(tmp_path / f"pipe{ending}")
    with pytest.raises((tk.errors.OpError, ValueError, FileNotFoundError)):
        read(str(tmp_path / "pipe"))


@pytest.mark.parametrize("name", ["a.png", "a.txt", "a.wav"])
def test_a_pipe_in_a_folder_of_files(name, tmp_path):
    kinds = {".png": "image", ".txt": "text", ".wav": "audio"}
    os.mkdir(tmp_path / "class")
    os.mkfifo(tmp_path / "class" / name)
    make = getattr(keras.utils, f"{kinds[name[1:]]}_dataset_from_directory")
    with pytest.raises(tk.errors.InvalidArgumentError, match="no regular file"):
        list(make(tmp_path))


def test_a_pipe_among_stored_elements(tmp_path):
    tk.data.Dataset.range(3).save(str(tmp_path / "d"))
    (index,) = (name for name in os.listdir(tmp_path / "d") if name.endswith("index"))
    os.unlink(tmp_path / "d" / index)
    os.mkfifo(tmp_path / "d" / index)
    with pytest.raises(tk.errors.InvalidArgumentError, match="no regular file"):
        tk.data.Dataset.load(str(tmp_path / "d"))


def test_a_pipe_in_a_folder_of_git_or_of_a_report(tmp_path):
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git" / "HEAD")
    assert git_commit(tmp_path) is None
    os.mkfifo(tmp_path / "batch.json")
    with pytest.raises(tk.errors.InvalidArgumentError, match="no regular file"):
        tk.callbacks.TerminateOnNaN.reproduce(tmp_path, tk.Sequential([tk.layers.Dense(1)]))
