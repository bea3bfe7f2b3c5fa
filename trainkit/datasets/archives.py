"""Archives that somebody has made, unpacked without leaving their folder."""

from __future__ import annotations

import errno
import lzma
import os
import pathlib
import shutil
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Any

from trainkit.core.files.local_paths import local_path
from trainkit.core.files.readable_files import open_regular

Entry = tuple[str, int, IO[bytes] | None]
"""The name of a member, its size, and its content; `None` for a folder."""

FORMATS = ("tar", "zip")
_PIECE = 1 << 20
_MOST_REST = 64  # pieces; a tar file ends with some zeros
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    UnicodeError,
    lzma.LZMAError,
    struct.error,
    zlib.error,
)
"""What Python's readers raise for archives that make no sense to them."""

_OF_ARCHIVES = {
    None,
    errno.EINVAL,  # a member that begins before the file
    errno.ENAMETOOLONG,
    errno.ENOTDIR,  # a name that is a file and a folder
    errno.EISDIR,
    errno.EEXIST,
}
"""Numbers of errors of the system that an archive is to blame for, not the disk."""


def unpack(path: str | os.PathLike[str], folder: str | os.PathLike[str], formats: object) -> None:
    """Unpack a tar file (also gzip, bzip2 or xz) or a zip file into a folder.

    Files that are there already are replaced, once all of the archive has been read. Members become
    ordinary files and folders: owners, modes, links and devices are left behind.

    Args:
        path: the archive.
        folder: made if it is not there.
        formats: `"auto"`, one of `FORMATS` or a list of them: what `path` may be.

    Raises:
        ValueError: `path` is none of these or damaged, a member's name leads out of the folder, or
            the content has more bytes than the disk has room for; nothing is written then.
    """
    allowed = list(FORMATS) if formats == "auto" else _list(formats)
    target = pathlib.Path(folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as name:
        fresh = pathlib.Path(name) / "content"
        fresh.mkdir()
        try:
            with open_regular(path, "archive") as file:
                is_archive = _unpack_into(fresh, file, path, allowed)
        except _DAMAGE as error:
            if isinstance(error, OSError) and error.errno not in _OF_ARCHIVES:  # of the disk
                raise
            raise ValueError(f"{local_path(path)} is damaged: {error}") from error
        if not is_archive:
            raise ValueError(f"{local_path(path)} is no archive of the kind {' or '.join(allowed)}")
        shutil.copytree(fresh, target, dirs_exist_ok=True)


def _unpack_into(folder: pathlib.Path, file: IO[bytes], path: object, allowed: list[str]) -> bool:
    """Unpack what an open file holds; whether it is of an allowed kind."""
    if "tar" in allowed and _is_tar(file):
        with tarfile.open(fileobj=file) as tar:
            _check_room(sum(member.size for member in tar if member.isreg()), path, folder)
            _write(_tar_entries(tar), path, folder)
            _read_checksum(tar)
        return True
    if "zip" in allowed and zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as packed:
            _check_room(sum(info.file_size for info in packed.infolist()), path, folder)
            _write(_zip_entries(packed), path, folder)
        return True
    return False


def _read_checksum(tar: tarfile.TarFile) -> None:
    """Read what is behind the last member, as packed files have their checksum at the end."""
    stream: Any = tar.fileobj
    for _ in range(_MOST_REST):
        if not stream.read(_PIECE):
            break


def _is_tar(file: IO[bytes]) -> bool:
    """Whether a tar file begins here, packed or not; the file is at its start again."""
    try:
        tarfile.open(fileobj=file).close()
    except _DAMAGE:
        return False
    finally:
        file.seek(0)
    return True


def _list(formats: object) -> list[str]:
    named = [formats] if isinstance(formats, str) else list(formats or ())  # type: ignore[call-overload]
    if not named or set(named) - set(FORMATS):
        raise ValueError(f"archive_format must be 'auto' or of {FORMATS}, got {formats!r}")
    return named


def _check_room(size: int, path: object, folder: pathlib.Path) -> None:
    room = shutil.disk_usage(folder).free
    if 2 * size > room:  # it is written beside what is there, then takes its place
        raise ValueError(
            f"{path} unpacks to {size} bytes, which is too much for a disk with {room} bytes left"
        )


def _tar_entries(tar: tarfile.TarFile) -> Iterator[Entry]:
    for member in tar:
        if member.isdir():
            yield member.name, 0, None
        elif member.isreg():
            yield member.name, member.size, tar.extractfile(member)


def _zip_entries(packed: zipfile.ZipFile) -> Iterator[Entry]:
    for info in packed.infolist():
        if info.is_dir():
            yield info.filename, 0, None
        else:
            with packed.open(info) as content:
                yield info.filename, info.file_size, content


def _write(entries: Iterable[Entry], path: object, folder: pathlib.Path) -> None:
    root = folder.resolve()
    for name, size, content in entries:
        target = (root / name).resolve()
        if not target.is_relative_to(root):
            raise ValueError(f"{path} has a member {name!r}, which leads out of its folder")
        if content is None:
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "wb") as file:
            while size > 0 and (piece := content.read(min(size, _PIECE))):
                size -= file.write(piece)
