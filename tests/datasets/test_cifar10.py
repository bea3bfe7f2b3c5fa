"""CIFAR-10 is read from its binary files, packed or not."""

import io
import tarfile

import numpy as np
import pytest

from trainkit.datasets import cifar10

NAMES = (*cifar10.TRAIN_FILES, *cifar10.TEST_FILES)


@pytest.fixture(autouse=True)
def _no_files(monkeypatch, tmp_path):
    monkeypatch.delenv("TRAINKIT_DATA", raising=False)
    monkeypatch.setenv("TRAINKIT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def contents(rng):
    """Two records a file: a label, then a plane each of red, green and blue."""
    files = {}
    for name in NAMES:
        records = rng.integers(0, 256, (2, cifar10.RECORD), dtype=np.uint8)
        records[:, 0] %= 10
        files[name] = records.tobytes()
    return files


def write_folder(folder, contents):
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def write_archive(path, contents):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in contents.items():
            entry = tarfile.TarInfo(f"{cifar10.FOLDER}/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def check(parts, contents):
    (x_train, y_train), (x_test, y_test) = parts
    assert x_train.shape == (10, 32, 32, 3)
    assert y_train.shape == (10, 1)
    assert x_test.shape == (2, 32, 32, 3)
    record = np.frombuffer(contents["data_batch_2.bin"], np.uint8)[: cifar10.RECORD]
    assert y_train[2, 0] == record[0]
    for row, column, channel in [(0, 0, 0), (5, 7, 1), (31, 30, 2)]:
        pixel = record[1 + channel * 1024 + row * 32 + column]
        assert x_train[2, row, column, channel] == pixel
    assert y_test[1, 0] == contents["test_batch.bin"][cifar10.RECORD]


@pytest.mark.parametrize("folder", [cifar10.FOLDER, "cifar10", f"cifar10/{cifar10.FOLDER}"])
def test_unpacked_files_are_found(monkeypatch, tmp_path, contents, folder):
    write_folder(tmp_path / "data" / folder, contents)
    assert not cifar10.available()
    monkeypatch.setenv("TRAINKIT_DATA", str(tmp_path / "data"))
    assert cifar10.available()
    check(cifar10.load_data(), contents)


def test_the_archive_is_found(monkeypatch, tmp_path, contents):
    write_archive(tmp_path / "data" / cifar10.ARCHIVE, contents)
    monkeypatch.setenv("TRAINKIT_DATA", str(tmp_path / "data"))
    assert cifar10.available()
    check(cifar10.load_data(), contents)


def test_a_path_may_be_a_folder_or_the_archive(tmp_path, contents):
    write_folder(tmp_path / "folder", contents)
    write_archive(tmp_path / "c.tar.gz", contents)
    check(cifar10.load_data(tmp_path / "folder"), contents)
    check(cifar10.load_data(tmp_path / "c.tar.gz"), contents)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda c: c[:-1], f"6145 bytes, expected a multiple of {cifar10.RECORD}"),
        (lambda c: b"", f"0 bytes, expected a multiple of {cifar10.RECORD}"),
        (lambda c: b"\x0a" + c[1:], "a label is 10, expected 0 to 9"),
    ],
)
def test_a_broken_file_is_refused(tmp_path, contents, spoil, message):
    contents["test_batch.bin"] = spoil(contents["test_batch.bin"])
    write_folder(tmp_path / "folder", contents)
    with pytest.raises(ValueError, match=message):
        cifar10.load_data(tmp_path / "folder")


def test_a_missing_file_is_named(tmp_path, contents):
    del contents["data_batch_3.bin"]
    write_folder(tmp_path / "folder", contents)
    write_archive(tmp_path / "c.tar.gz", contents)
    with pytest.raises(FileNotFoundError, match=r"data_batch_3\.bin not found"):
        cifar10.load_data(tmp_path / "folder")
    with pytest.raises(ValueError, match=r"c\.tar\.gz.*data_batch_3\.bin"):
        cifar10.load_data(tmp_path / "c.tar.gz")
