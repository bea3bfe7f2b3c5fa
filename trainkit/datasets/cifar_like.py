"""What CIFAR-10 and CIFAR-100 share: records of labels and 3,072 pixels, in a folder or archive."""

import gzip
import io
import os
import pathlib
import tarfile
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainkit.checkpoints.format.regular_files import FLOOR, opened_regular
from trainkit.checkpoints.interop.safetensors import UNPACKING_ERRORS
from trainkit.core.errors import CheckpointError
from trainkit.core.files.local_paths import local_path
from trainkit.datasets.store import Source, data_folder
from trainkit.ops.convolutional.window_arguments import is_channels_first

PIXELS = 3 * 32 * 32
MOST_PACKED = 1.3  # photographs hardly shrink: the true archives unpack to 1.1 times their size

Part = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Edition:
    """One of the two data sets.

    Attributes:
        source: where its archive is.
        folder: of the files in the archive, also called so when it is unpacked.
        train, test: names of the files of each part.
        classes: how many there are of each label that stands before the pixels.
    """

    source: Source
    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    classes: tuple[int, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.train, *self.test)

    @property
    def archive(self) -> str:
        """The name of the archive."""
        return next(iter(self.source.files))

    @property
    def record(self) -> int:
        """Bytes of one photograph with its labels."""
        return len(self.classes) + PIXELS

    def available(self) -> bool:
        """Whether the files are on this machine."""
        return self._unpack() is not None or self.source.available()

    def load(self, path: str | os.PathLike[str] | None, label: int = 0) -> tuple[Part, Part]:
        """Both parts, from `path` or from wherever they are.

        Args:
            path: a folder of the files, the archive, or `None`.
            label: which of the labels of a record.

        Raises:
            FileNotFoundError: the files are not on this machine and cannot be downloaded.
            ValueError: a file is broken.
        """
        location = pathlib.Path(local_path(path)).expanduser() if path is not None else None
        location = location or self._unpack() or self.source.paths()[self.archive]
        contents = (
            self._read_folder(location) if location.is_dir() else self._read_archive(location)
        )
        train = self._read_part(contents, self.train, location, label)
        return train, self._read_part(contents, self.test, location, label)

    def _unpack(self) -> pathlib.Path | None:
        """Folder of unpacked files below that of `TRAINKIT_DATA`, if there is one."""
        base = data_folder()
        if base is None:
            return None
        name = self.source.name
        folders = [base / folder for folder in (self.folder, name, f"{name}/{self.folder}")]
        return next((folder for folder in folders if (folder / self.test[0]).is_file()), None)

    def _read_folder(self, folder: pathlib.Path) -> dict[str, bytes]:
        missing = [name for name in self.files if not (folder / name).is_file()]
        if missing:
            raise FileNotFoundError(
                f"{self.source.name}: {', '.join(missing)} not found in {folder}."
            )
        return {name: _read_file(folder / name) for name in self.files}

    def _read_archive(self, path: pathlib.Path) -> dict[str, bytes]:
        """Contents of the files, read from the archive without unpacking it to disk."""
        names_by_member = {f"{self.folder}/{name}": name for name in self.files}
        contents = {}
        try:
            with opened_regular(path) as file, gzip.GzipFile(fileobj=file) as unpacked:
                limit = max(FLOOR, MOST_PACKED * os.fstat(file.fileno()).st_size)
                with tarfile.open(fileobj=_Bounded(unpacked, limit), mode="r|") as archive:
                    for member in archive:
                        name = names_by_member.get(member.name)
                        source = None if name is None else archive.extractfile(member)
                        if name is not None and source is not None and member.isreg():
                            contents[name] = source.read()
            missing = sorted(set(names_by_member.values()) - set(contents))
            if missing:
                raise KeyError(f"{', '.join(missing)} not found")
        except (tarfile.TarError, CheckpointError, *UNPACKING_ERRORS) as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise ValueError(f"{path}: not a copy of {self.archive}: {error}.") from error
        return contents

    def _read_part(
        self, contents: dict[str, bytes], names: tuple[str, ...], location: pathlib.Path, label: int
    ) -> Part:
        for name in names:
            if len(contents[name]) % self.record or not contents[name]:
                raise ValueError(
                    f"{location / name}: {len(contents[name])} bytes, expected a multiple of "
                    f"{self.record}."
                )
        counts = [len(contents[name]) // self.record for name in names]
        images = np.empty((sum(counts), 32, 32, 3), np.uint8)
        labels = np.empty((sum(counts), 1), np.uint8)
        end = 0
        for name, count in zip(names, counts, strict=True):
            records = np.frombuffer(contents.pop(name), np.uint8).reshape(-1, self.record)
            start, end = end, end + count
            labels[start:end] = records[:, label : label + 1]
            # (images, channels, height, width) in the file, (images, height, width, channels) here
            pixels = records[:, len(self.classes) :].reshape(-1, 3, 32, 32)
            images[start:end] = pixels.transpose(0, 2, 3, 1)
        if labels.max() >= self.classes[label]:
            raise ValueError(
                f"{location}: a label is {labels.max()}, expected 0 to {self.classes[label] - 1}."
            )
        first = is_channels_first(None, self.source.name)
        return (images.transpose(0, 3, 1, 2) if first else images), labels


def _read_file(path: pathlib.Path) -> bytes:
    try:
        with opened_regular(path) as file:
            return file.read()
    except CheckpointError as error:
        raise ValueError(f"{path}: {error}") from error


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
