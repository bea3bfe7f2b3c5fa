"""The weights inside a `.keras` archive; nothing else in it is read or unpacked."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from trainkit.core.errors import CheckpointError, NotFoundError

_MEMBER = "model.weights.h5"
_RATIO = 200
_STEP = 1 << 20


@contextmanager
def weights_file_in(path: str) -> Iterator[int]:
    """The archive's weights as an open, unnamed temporary file; gives its descriptor.

    Raises:
        NotFoundError: there is no such file.
        CheckpointError: it is no Keras archive, is damaged, or unpacks to far more than it is.
    """
    try:
        archive = zipfile.ZipFile(path)
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {path!r}") from None
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise CheckpointError(f"{path} is damaged or no Keras archive: {error}") from error
    with archive, tempfile.TemporaryFile() as copy:
        member = _member(archive, path)
        try:
            _unpack(archive, member, copy)
        except (zipfile.BadZipFile, OSError, RuntimeError, EOFError, ValueError) as error:
            raise CheckpointError(f"{path} is damaged: {error}") from error
        copy.flush()
        yield copy.fileno()


def _member(archive: zipfile.ZipFile, path: str) -> zipfile.ZipInfo:
    found = [item for item in archive.infolist() if item.filename == _MEMBER]
    if len(found) != 1:
        raise CheckpointError(f"{path} has {len(found)} members {_MEMBER}, a Keras archive has one")
    there = os.path.getsize(path)
    if found[0].file_size > _RATIO * there:
        raise CheckpointError(
            f"{path} is refused: {_MEMBER} would unpack to {found[0].file_size} bytes, "
            f"the archive has {there}"
        )
    return found[0]


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: IO[bytes]) -> None:
    left = member.file_size
    with archive.open(member) as source:
        while True:
            part = source.read(min(_STEP, left + 1))
            left -= len(part)
            if left < 0:
                raise ValueError(f"{member.filename} is longer than it says")
            if not part:
                return
            target.write(part)
