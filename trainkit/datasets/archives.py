"""Archives that somebody has made, unpacked without leaving their folder."""

from __future__ import annotations

import os
import pathlib
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from typing import IO

Entry = tuple[str, int, IO[bytes] | None]
"""The name of a member, its size, and its content; `None` for a folder."""

FORMATS = ("tar", "zip")
_PIECE = 1 << 20


def unpack(path: str | os.PathLike[str], folder: str | os.PathLike[str], formats: object) -> None:
    """Unpack a tar file (also gzip, bzip2 or xz) or a zip file into a folder.

    Files that are there already are replaced, once all of the archive has been read. Members become
    ordinary files and folders: owners, modes, links and devices are left behind.

    Args:
        path: the archive.
        folder: made if it is not there.
        formats: `"auto"`, one of `FORMATS` or a list of them: what `path` may be.

    Raises:
        ValueError: `path` is none of these, a member's name leads out of the folder, or the content
            has more bytes than the disk has room for; nothing is written then.
    """
    allowed = FORMATS if formats == "auto" else _listed(formats)
    target = pathlib.Path(folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as name:
        fresh = pathlib.Path(name) / "content"
        fresh.mkdir()
        if "tar" in allowed and tarfile.is_tarfile(path):
            with tarfile.open(path) as tar:
                _check_room(sum(member.size for member in tar if member.isreg()), path, fresh)
                _write(_tar_entries(tar), path, fresh)
        elif "zip" in allowed and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as packed:
                _check_room(sum(info.file_size for info in packed.infolist()), path, fresh)
                _write(_zip_entries(packed), path, fresh)
        else:
            raise ValueError(f"{os.fspath(path)} is no archive of the kind {' or '.join(allowed)}")
        shutil.copytree(fresh, target, dirs_exist_ok=True)


def _listed(formats: object) -> list[str]:
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
        place = (root / name).resolve()
        if not place.is_relative_to(root):
            raise ValueError(f"{path} has a member {name!r}, which leads out of its folder")
        if content is None:
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        with open(place, "wb") as file:
            while size > 0 and (piece := content.read(min(size, _PIECE))):
                size -= file.write(piece)
