"""Opening files that somebody has made: regular ones, whose size bounds what is read of them."""

from __future__ import annotations

import os
import struct
import zipfile
from typing import IO

from trainkit.core.errors import CheckpointError
from trainkit.core.files.readable_files import open_descriptor

FLOOR = 1 << 24
"""Bytes that a reader may take however small the file is."""


def open_regular(path: str | os.PathLike[str], kind: str = "file") -> int:
    """The descriptor of a regular file, for reading; a pipe or a device might never end.

    Raises:
        NotFoundError: there is no such file.
        CheckpointError: it can't be opened, or is no regular file.
    """
    return open_descriptor(path, kind, CheckpointError)


def opened_regular(path: str | os.PathLike[str], kind: str = "file") -> IO[bytes]:
    """The same as a file object."""
    return os.fdopen(open_regular(path, kind), "rb")


class ZipArchive(zipfile.ZipFile):
    """The zip archive in a regular file.

    Raises:
        NotFoundError: there is no such file.
        CheckpointError: it is no regular file, or no archive.
    """

    def __init__(self, path: str | os.PathLike[str], kind: str) -> None:
        self.fp, self._opened = None, None  # for `close`, should the file not open
        self._opened = opened_regular(path, kind)
        try:
            super().__init__(self._opened)
        except (
            zipfile.BadZipFile,
            OSError,
            ValueError,
            NotImplementedError,
            struct.error,
        ) as error:
            self._opened.close()
            name = os.fsdecode(path)
            raise CheckpointError(f"{name} is damaged or no {kind}: {error}") from error

    def close(self) -> None:
        """Give the file back."""
        super().close()
        if self._opened is not None:
            self._opened.close()
