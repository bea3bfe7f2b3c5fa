"""Files that appear whole or not at all.

The content goes into a temporary file in the same folder, which is synchronised to the disk and
then renamed; the folder is synchronised last. A crash leaves at most a temporary file, and the next
save into that folder removes it: a living writer holds a lock on its own.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from trainkit.core.files.local_paths import local_path

try:
    import fcntl
except ImportError:  # Windows, where an open file can't be removed anyway
    fcntl = None  # type: ignore[assignment]

_TEMPORARY = re.compile(r"^\..+\.[0-9a-f]{12}\.tmp$")


class AtomicFile:
    """A context in which `fd` is open on a temporary file that `commit` turns into `path`.

    Leaving the context without `commit` removes the temporary file and leaves `path` as it was.

    Args:
        path: the file to make or to replace; its folder is made when it is missing.

    Raises:
        OSError: the folder can't be made or written to, or the disk is full.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(local_path(path))
        self.fd = -1
        self._temporary = self.path

    def __enter__(self) -> AtomicFile:
        folder = self.path.parent
        with self._naming_the_file():
            folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder)
        while self.fd < 0:
            self._temporary = folder / f".{self.path.name[:200]}.{os.urandom(6).hex()}.tmp"
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            with self._naming_the_file():
                self.fd = os.open(self._temporary, flags, 0o666)
            try:
                mine = _lock(self.fd) and os.fstat(self.fd).st_nlink
            except BaseException as error:
                self.__exit__(type(error), error, None)
                raise
            if not mine:  # another process took it for a leftover before the lock was there
                self._close()
        return self

    @contextlib.contextmanager
    def _naming_the_file(self) -> Iterator[None]:
        """Context whose errors name the file that was asked for, not the hidden one beside it."""
        try:
            yield
        except OSError as error:
            folder = str(self.path.parent)
            reason = f"{error.strerror}: nothing can be written into the folder {folder!r}"
            raise OSError(error.errno, reason, str(self.path)) from error

    def commit(self) -> None:
        """Make the content last and give the file its name."""
        os.fsync(self.fd)
        if fcntl is None:
            self._close()
        with self._naming_the_file():
            os.replace(self._temporary, self.path)
        self._temporary = self.path
        sync_folder(self.path.parent)

    def _close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if self._temporary != self.path:
                with contextlib.suppress(OSError) if error else contextlib.nullcontext():
                    os.unlink(self._temporary)
        finally:
            with contextlib.suppress(OSError) if error else contextlib.nullcontext():
                self._close()


def _lock(fd: int) -> bool:
    """Whether this process holds the lock on `fd` now; file systems without locks count as held."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` last; a no-op where folders can't be opened (Windows)."""
    if fcntl is None:
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def leftovers(folder: Path) -> Iterator[Path]:
    """The temporary files in `folder`, living or not."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if _TEMPORARY.match(entry.name):
                yield Path(entry.path)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of writers that are no more; those of living ones are locked."""
    for path in list(leftovers(folder)):
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_RDWR)
            try:
                if _lock(fd):
                    os.unlink(path)
            finally:
                os.close(fd)
