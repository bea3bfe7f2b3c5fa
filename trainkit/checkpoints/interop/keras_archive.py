"""Keras archives: a zip, or a folder, of a config, metadata, weights and assets.

What is read of an archive is bounded before it is read: all members together unpack to at most
`RATIO` times the size of the archive and `FLOOR`, a config to `LARGEST_CONFIG`. The metadata that
is written names each member with a checksum (the weights carry their own header), so a member that
is lost, renamed or changed is noticed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from trainkit.checkpoints.format.atomic import AtomicFile
from trainkit.checkpoints.format.regular_files import opened_regular
from trainkit.core.errors import CheckpointError, NoSuchFileError, NotFoundError
from trainkit.core.files.local_paths import local_path

CONFIG, METADATA, WEIGHTS = "config.json", "metadata.json", "model.weights.h5"
ASSETS = "assets/"
RATIO = 4
FLOOR = 1 << 20
LARGEST_CONFIG = 8 << 20
_LARGEST_METADATA = 1 << 20
_LARGEST_DIRECTORY = 1 << 23
_STEP = 1 << 20
_SEALED = "sealed"
_DAMAGE = (zipfile.BadZipFile, OSError, RuntimeError, EOFError, ValueError, NotImplementedError)


# ---------------------------------------------------------------------- reading


class Archive:
    """An archive that is open for reading; use `opened`.

    Attributes:
        name: what errors call it.
        size: its bytes on the disk.
        sizes: of the members, unpacked, by name.
        metadata: what it says about itself.
    """

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self.sizes: dict[str, int] = {}
        self.metadata: dict[str, Any] = {}

    def open(self, member: str) -> IO[bytes]:
        """The content of a member as a stream."""
        raise NotImplementedError

    @property
    def most(self) -> int:
        """So many bytes may come out of the archive, and be made by what stands in it."""
        return RATIO * self.size + FLOOR

    def read_metadata(self) -> None:
        """Read what the archive says about itself, and check that its members are there."""
        if METADATA in self.sizes:
            self.metadata = self.json(METADATA, _LARGEST_METADATA)
        said = self.metadata.get("members")
        lost = sorted(set(said) - self.sizes.keys()) if isinstance(said, dict) else []
        if lost:
            raise CheckpointError(f"{self.name} is damaged: its members {lost} are missing")

    def digest(self, member: str) -> str | None:
        """The checksum that the metadata has for a member."""
        said = self.metadata.get("members")
        digest = said.get(member) if isinstance(said, dict) else None
        return digest if isinstance(digest, str) else None

    @property
    def sealed_weights(self) -> bool:
        """Whether the weights were written with a header of their own."""
        return self.digest(WEIGHTS) == _SEALED

    def json(self, member: str, limit: int) -> dict[str, Any]:
        """A member that is a JSON object.

        Raises:
            CheckpointError: there is none, it is longer than `limit` bytes, or damaged.
        """
        if member not in self.sizes:
            raise CheckpointError(f"{self.name} is no Keras archive: it has no {member}")
        if self.sizes[member] > limit:
            raise CheckpointError(
                f"{self.name} is refused: {member} has {self.sizes[member]} bytes, "
                f"{limit} are the most that is read"
            )
        target = io.BytesIO()
        self.unpack(member, target)
        try:
            content = json.loads(target.getvalue())
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"{self.name} is damaged: {member}: {error}") from error
        if not isinstance(content, dict):
            raise CheckpointError(f"{self.name} is damaged: {member} is no JSON object")
        return content

    def unpack(self, member: str, target: IO[bytes]) -> None:
        """Write the content of a member into `target`, compared with its checksum."""
        digest = self.digest(member)
        left, checksum = self.sizes[member], _checksum()
        try:
            with self.open(member) as source:
                while part := source.read(min(_STEP, left + 1)):
                    left -= len(part)
                    if left < 0:
                        raise ValueError(f"{member} is longer than it says")
                    checksum.update(part)
                    target.write(part)
        except _DAMAGE as error:
            raise CheckpointError(f"{self.name} is damaged: {error}") from error
        if digest not in (None, _SEALED, checksum.hexdigest()):
            raise CheckpointError(f"{self.name} is damaged: {member} does not fit its checksum")

    @contextmanager
    def weights(self) -> Iterator[int | None]:
        """The weights as an open, unnamed temporary file; its descriptor, `None` without any."""
        if WEIGHTS not in self.sizes:
            yield None
            return
        with tempfile.TemporaryFile() as copy:
            self.unpack(WEIGHTS, copy)
            copy.flush()
            yield copy.fileno()

    def unpack_assets(self, folder: str) -> bool:
        """Write the assets into `folder`; gives whether there are any."""
        names = [name for name in self.sizes if name.startswith(ASSETS) and name != ASSETS]
        for name in names:
            path = PurePosixPath(name)
            if ".." in path.parts or "\\" in name or ":" in name:
                raise CheckpointError(f"{self.name} is refused: {name!r} is no name of an asset")
            if name.endswith("/"):
                continue
            path_on_disk = Path(folder, *path.parts[1:])
            path_on_disk.parent.mkdir(parents=True, exist_ok=True)
            with open(path_on_disk, "wb") as file:
                self.unpack(name, file)
        return bool(names)


def _checksum() -> Any:
    return hashlib.blake2b(digest_size=16)


class _Zip(Archive):
    def __init__(self, name: str, file: Any, size: int) -> None:
        super().__init__(name, size)
        _check_directory(name, file, size)
        try:
            self._zip = zipfile.ZipFile(file)
        except (*_DAMAGE, UnicodeDecodeError) as error:
            raise CheckpointError(f"{name} is damaged or no Keras archive: {error}") from error
        for info in self._zip.infolist():
            if info.filename in self.sizes:
                raise CheckpointError(f"{name} is refused: it has {info.filename} twice")
            self.sizes[info.filename] = info.file_size
        total = sum(self.sizes.values())
        if total > self.most:
            raise CheckpointError(
                f"{name} is refused: it has {size} bytes and would unpack to {total}, more than "
                f"{RATIO} times as many. If you trust it, unpack it, and load the folder"
            )

    def open(self, member: str) -> IO[bytes]:
        return self._zip.open(member)


def _check_directory(name: str, file: Any, size: int) -> None:
    """Refuse a zip whose list of members is longer than that of any archive."""
    file.seek(max(0, size - 65557))
    tail = file.read(65557)
    at = tail.rfind(b"PK\x05\x06")
    length = int.from_bytes(tail[at + 12 : at + 16], "little") if at >= 0 else 0
    if length > _LARGEST_DIRECTORY:
        raise CheckpointError(f"{name} is refused: the list of its members has {length} bytes")
    file.seek(0)


class _Folder(Archive):
    def __init__(self, name: str) -> None:
        files = [path for path in sorted(Path(name).rglob("*")) if not path.is_dir()]
        for path in files:
            if path.is_symlink() or not path.is_file():
                raise CheckpointError(f"{name} is refused: {path.name} is no plain file")
        super().__init__(name, sum(path.stat().st_size for path in files))
        self._root = Path(name)
        self.sizes = {str(p.relative_to(name).as_posix()): p.stat().st_size for p in files}

    def open(self, member: str) -> IO[bytes]:
        return opened_regular(self._root / member, "member of a Keras archive")


@contextmanager
def opened(source: Any) -> Iterator[Archive]:
    """An archive, open for reading.

    Args:
        source: the path of a file or folder, or a file that is open for reading and can seek.

    Raises:
        NotFoundError: there is no such file.
        CheckpointError: it is no Keras archive, is damaged, or unpacks to far more than it is.
    """
    if hasattr(source, "read"):
        size = source.seek(0, os.SEEK_END)
        archive: Archive = _Zip(f"the file {getattr(source, 'name', 'in memory')}", source, size)
        archive.read_metadata()
        yield archive
        return
    name = local_path(source, CheckpointError)
    if os.path.isdir(name):
        archive = _Folder(name)
        archive.read_metadata()
        yield archive
        return
    with _opened_file(name) as file:
        archive = _Zip(name, file, os.fstat(file.fileno()).st_size)
        archive.read_metadata()
        yield archive


def _opened_file(name: str) -> IO[bytes]:
    try:
        return opened_regular(name, "Keras archive")
    except NotFoundError as error:
        raise NoSuchFileError(str(error)) from None  # Keras's is a ValueError


@contextmanager
def weights_file_in(path: str) -> Iterator[int]:
    """The archive's weights as an open, unnamed temporary file; gives its descriptor.

    Raises:
        NotFoundError: there is no such file.
        CheckpointError: it is no Keras archive, has no weights, is damaged, or unpacks to far more
            than it is.
    """
    with opened(path) as archive, archive.weights() as fd:
        if fd is None:
            raise CheckpointError(f"{path} has no member {WEIGHTS}, a Keras archive has one")
        yield fd


# ---------------------------------------------------------------------- writing


def write_archive(target: Any, members: dict[str, bytes | Path], zipped: bool = True) -> None:
    """Write an archive; a file that is there stays whole until the new one is.

    Args:
        target: a path, or a file that is open for writing.
        members: by name, their content or the file that has it; the metadata is a JSON object.
        zipped: whether it is a zip, else a folder.
    """
    metadata = json.loads(members[METADATA])  # type: ignore[arg-type]
    metadata["members"] = {
        name: _digest(name, members[name]) for name in members if name != METADATA
    }
    members = {METADATA: json.dumps(metadata).encode(), **_without(members, METADATA)}
    if not zipped:
        _write_folder(Path(target), members)
    elif hasattr(target, "write"):
        _write_zip(target, members)
    else:
        with AtomicFile(target) as out:
            with os.fdopen(os.dup(out.fd), "wb") as file:
                _write_zip(file, members)
            out.commit()


def _without(members: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in members.items() if key != name}


def _digest(name: str, content: bytes | Path) -> str:
    if name == WEIGHTS:
        return _SEALED
    checksum = _checksum()
    checksum.update(content if isinstance(content, bytes) else content.read_bytes())
    return str(checksum.hexdigest())


def _write_zip(file: Any, members: dict[str, bytes | Path]) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            if isinstance(content, bytes):
                archive.writestr(name, content)
            else:
                archive.write(content, name)


def _write_folder(folder: Path, members: dict[str, bytes | Path]) -> None:
    """Write the members one by one, the metadata with their checksums last."""
    for name, content in [*_without(members, METADATA).items(), (METADATA, members[METADATA])]:
        with AtomicFile(folder / name) as out:
            with os.fdopen(os.dup(out.fd), "wb") as file:
                if isinstance(content, bytes):
                    file.write(content)
                else:
                    with open(content, "rb") as source:
                        while part := source.read(_STEP):
                            file.write(part)
            out.commit()
