"""CIFAR-100 is read from its binary files, with the labels that are asked for."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.datasets import cifar100


@pytest.fixture
def folder(monkeypatch, tmp_path, rng):
    """Three records a file: two labels, then a plane each of red, green and blue."""
    monkeypatch.delenv("TRAINKIT_DATA", raising=False)
    monkeypatch.setenv("TRAINKIT_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "files"
    place.mkdir()
    for name in ("train.bin", "test.bin"):
        records = rng.integers(0, 256, (3, cifar100.RECORD), dtype=np.uint8)
        records[:, 0], records[:, 1] = (1, 19, 7), (99, 0, 42)
        (place / name).write_bytes(records.tobytes())
    return place


@pytest.mark.parametrize(("mode", "labels"), [("fine", [99, 0, 42]), ("coarse", [1, 19, 7])])
def test_labels_are_of_the_wanted_kind(folder, mode, labels):
    (x_train, y_train), (x_test, y_test) = cifar100.load_data(mode, folder)
    assert x_train.shape == x_test.shape == (3, 32, 32, 3)
    assert y_train[:, 0].tolist() == y_test[:, 0].tolist() == labels
    record = np.frombuffer((folder / "train.bin").read_bytes(), np.uint8)[cifar100.RECORD :]
    assert x_train[1, 5, 7, 2] == record[2 + 2 * 1024 + 5 * 32 + 7]


def test_channels_come_first_where_that_is_the_format(folder):
    (last, _), _ = cifar100.load_data(path=folder)
    tk.keras.config.set_image_data_format("channels_first")
    try:
        (first, _), _ = cifar100.load_data(path=folder)
    finally:
        tk.keras.config.set_image_data_format("channels_last")
    np.testing.assert_array_equal(first, last.transpose(0, 3, 1, 2))


def test_unpacked_files_are_found(monkeypatch, folder):
    assert not cifar100.available()
    monkeypatch.setenv("TRAINKIT_DATA", str(folder.parent))
    folder.rename(folder.parent / cifar100.FOLDER)
    assert cifar100.available()
    assert cifar100.load_data()[0][0].shape == (3, 32, 32, 3)


def test_what_does_not_fit_is_told(folder):
    with pytest.raises(ValueError, match="'fine' or 'coarse', got 'both'"):
        cifar100.load_data("both", folder)
    content = bytearray((folder / "test.bin").read_bytes())
    content[1] = 100
    (folder / "test.bin").write_bytes(content)
    with pytest.raises(ValueError, match="a label is 100, expected 0 to 99"):
        cifar100.load_data(path=folder)
    (folder / "test.bin").write_bytes(content[:-1])
    with pytest.raises(ValueError, match="a multiple of 3074"):
        cifar100.load_data(path=folder)
