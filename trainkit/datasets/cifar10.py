"""CIFAR-10: 60,000 small colour photographs in 10 classes.

Source: Krizhevsky 2009, "Learning Multiple Layers of Features from Tiny Images". The binary edition
is read: records of one label byte and 3,072 pixel bytes, which unlike the other need no pickle.
"""

import gzip
import io
import os
import pathlib
import tarfile
from typing import Any

import numpy as np

from trainkit.checkpoints.format.regular_files import FLOOR, opened_regular
from trainkit.checkpoints.interop.safetensors import UNPACKING_ERRORS
from trainkit.core.errors import CheckpointError
from trainkit.datasets.store import Source, data_folder

ARCHIVE = "cifar-10-binary.tar.gz"
SOURCE = Source(
    name="cifar10",
    files={ARCHIVE: "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
    mirrors=("https://www.cs.toronto.edu/~kriz/",),
    folders=("", "cifar10", "cifar-10"),
)
FOLDER = "cifar-10-batches-bin"
TRAIN_FILES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST_FILES = ("test_batch.bin",)
RECORD = 1 + 3 * 32 * 32
CLASSES = 10
MOST_PACKED = 1.3  # photographs hardly shrink: the true archive unpacks to 1.1 times its size

Part = tuple[np.ndarray, np.ndarray]


def available() -> bool:
    """Whether `load_data()` finds the files on this machine, without a network."""
    return _unpacked() is not None or SOURCE.available()


def load_data(path: str | os.PathLike[str] | None = None) -> tuple[Part, Part]:
    """Load the photographs, downloading them on first use (163 MiB).

    Args:
        path: a folder that holds `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`, or
            the archive `cifar-10-binary.tar.gz`. Without it either is looked for in the folder of
            `TRAINKIT_DATA`, then the archive in the cache (`TRAINKIT_CACHE`, else
            `~/.cache/trainkit`), and it is otherwise downloaded and checked against its SHA-256.

    Returns:
        `((x_train, y_train), (x_test, y_test))`: images, uint8 of shape (images, 32, 32, 3), red,
        green and blue from 0 to 255, and labels, uint8 of shape (images, 1): 0 airplane,
        1 automobile, 2 bird, 3 cat, 4 deer, 5 dog, 6 frog, 7 horse, 8 ship, 9 truck. The full set
        has 50,000 and 10,000 images.

    Raises:
        FileNotFoundError: the files are not on this machine and cannot be downloaded.
        ValueError: a file is broken; the message names it with expected and found values.
    """
    place = pathlib.Path(os.fsdecode(path)).expanduser() if path is not None else _unpacked()
    if place is None:
        place = SOURCE.paths()[ARCHIVE]
    contents = _read_folder(place) if place.is_dir() else _read_archive(place)
    return _read_part(contents, TRAIN_FILES, place), _read_part(contents, TEST_FILES, place)


def _unpacked() -> pathlib.Path | None:
    """Folder of unpacked files below that of `TRAINKIT_DATA`, if there is one."""
    base = data_folder()
    if base is None:
        return None
    folders = [base / folder for folder in (FOLDER, "cifar10", f"cifar10/{FOLDER}")]
    return next((folder for folder in folders if (folder / TEST_FILES[0]).is_file()), None)


def _read_folder(folder: pathlib.Path) -> dict[str, bytes]:
    missing = [name for name in (*TRAIN_FILES, *TEST_FILES) if not (folder / name).is_file()]
    if missing:
        raise FileNotFoundError(f"cifar10: {', '.join(missing)} not found in {folder}.")
    return {name: _read_file(folder / name) for name in (*TRAIN_FILES, *TEST_FILES)}


def _read_file(path: pathlib.Path) -> bytes:
    try:
        with opened_regular(path) as file:
            return file.read()
    except CheckpointError as error:
        raise ValueError(f"{path}: {error}") from error


def _read_archive(path: pathlib.Path) -> dict[str, bytes]:
    """Contents of the six files, read from the archive without unpacking it to disk."""
    wanted = {f"{FOLDER}/{name}": name for name in (*TRAIN_FILES, *TEST_FILES)}
    contents = {}
    try:
        with opened_regular(path) as file, gzip.GzipFile(fileobj=file) as unpacked:
            bounded = _Bounded(unpacked, max(FLOOR, MOST_PACKED * os.fstat(file.fileno()).st_size))
            with tarfile.open(fileobj=bounded, mode="r|") as archive:
                for member in archive:
                    name = wanted.get(member.name)
                    source = None if name is None else archive.extractfile(member)
                    if name is not None and source is not None and member.isreg():
                        contents[name] = source.read()
        missing = sorted(set(wanted.values()) - set(contents))
        if missing:
            raise KeyError(f"{', '.join(missing)} not found")
    except (tarfile.TarError, CheckpointError, *UNPACKING_ERRORS) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(f"{path}: not a copy of {ARCHIVE}: {error}.") from error
    return contents


class _Bounded(io.RawIOBase):
    """A stream that gives so many bytes and no more."""

    def __init__(self, source: Any, limit: float) -> None:
        self._source, self._left = source, int(limit)

    def read(self, size: int = -1) -> bytes:
        """The next bytes; a size must be given."""
        data: bytes = self._source.read(min(size, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise ValueError("it unpacks to more than a copy would")
        return data


def _read_part(contents: dict[str, bytes], names: tuple[str, ...], place: pathlib.Path) -> Part:
    for name in names:
        if len(contents[name]) % RECORD or not contents[name]:
            raise ValueError(
                f"{place / name}: {len(contents[name])} bytes, expected a multiple of {RECORD}."
            )
    counts = [len(contents[name]) // RECORD for name in names]
    images = np.empty((sum(counts), 32, 32, 3), np.uint8)
    labels = np.empty((sum(counts), 1), np.uint8)
    end = 0
    for name, count in zip(names, counts, strict=True):
        records = np.frombuffer(contents.pop(name), np.uint8).reshape(-1, RECORD)
        start, end = end, end + count
        labels[start:end] = records[:, :1]
        # (images, channels, height, width) in the file, (images, height, width, channels) here
        images[start:end] = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    if labels.max() >= CLASSES:
        raise ValueError(f"{place}: a label is {labels.max()}, expected 0 to {CLASSES - 1}.")
    return images, labels
