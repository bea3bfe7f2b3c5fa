"""Folders that nobody else can change, for files that are run once they are read.

How a folder is reached says `folder_descent.py`. A file in it is read if it is regular, belongs to
one of the trusted, is closed to the writing of others and has no second name. Windows has no such
owners and modes; there the folders of a user's profile are closed by default, and nothing is asked.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator

from trainkit.core.files.folder_descent import (
    HAS_OWNERS,
    OPEN_FLAGS,
    check_owner,
    is_open_to_others,
    open_trusted_folder,
)

_NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # or opening a pipe waits for its other end


class TrustedFolder:
    """A folder, open, that none but the trusted can change.

    Args:
        path: where it is.
        owners: numbers of users who are trusted besides root and the user of this process.
        make: whether it is made where it is missing, with all that leads to it.

    Raises:
        PermissionError: others can change what the path leads to; the text says at which folder.
        OSError: it is not there, or can't be made.
    """

    def __init__(
        self, path: str | os.PathLike[str], owners: Collection[int] = (), make: bool = False
    ) -> None:
        self.path = os.path.abspath(path)
        self._owners = {0, os.geteuid(), *owners} if HAS_OWNERS else set(owners)
        self._fd: int | None = None
        if HAS_OWNERS:
            self._fd = open_trusted_folder(self.path, self._owners, make)
        elif make:
            os.makedirs(self.path, exist_ok=True)

    def __enter__(self) -> TrustedFolder:
        return self

    def __exit__(self, *error: object) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def open_file(self, name: str) -> int:
        """The descriptor of a file in the folder, for reading.

        Raises:
            PermissionError: others than the trusted may have written it.
            OSError: it is not there, or can't be opened.
        """
        fd = os.open(self._at(name), os.O_RDONLY | OPEN_FLAGS | _NONBLOCK, dir_fd=self._fd)
        try:
            self._check_file(os.path.join(self.path, name), os.fstat(fd))
        except BaseException:
            os.close(fd)
            raise
        return fd

    def write_file(self, name: str, data: bytes, mode: int) -> None:
        """Put a file into the folder, whole, in place of one of that name.

        Raises:
            OSError: it can't be written; one that is there stays.
        """
        temporary = f"{name}.{os.urandom(8).hex()}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPEN_FLAGS
        fd = os.open(self._at(temporary), flags, 0o600, dir_fd=self._fd)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                if HAS_OWNERS:
                    os.fchmod(fd, mode)
            source, target = self._at(temporary), self._at(name)
            os.replace(source, target, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except BaseException:
            self.remove_file(temporary)
            raise

    def remove_file(self, name: str) -> None:
        """Delete a file of the folder, if it is there."""
        try:
            os.unlink(self._at(name), dir_fd=self._fd)
        except FileNotFoundError:
            return

    def files(self) -> Iterator[tuple[str, os.stat_result]]:
        """Name and facts of each thing in the folder."""
        fd = None
        if self._fd is not None:  # which may lead on alone, and not be read
            fd = os.open(".", os.O_RDONLY | OPEN_FLAGS, dir_fd=self._fd)
        try:
            with os.scandir(self.path if fd is None else fd) as entries:
                for entry in entries:
                    try:
                        yield entry.name, entry.stat(follow_symlinks=False)
                    except OSError:  # another process has just deleted it
                        continue
        finally:
            if fd is not None:
                os.close(fd)

    def _at(self, name: str) -> str:
        return os.path.join(self.path, name) if self._fd is None else name

    def _check_file(self, path: str, facts: os.stat_result) -> None:
        if not stat.S_ISREG(facts.st_mode):
            raise PermissionError(f"{path} is no regular file")
        if not HAS_OWNERS:
            return
        check_owner(path, facts, self._owners)
        if is_open_to_others(facts):
            raise PermissionError(f"others may write to {path}")
        if facts.st_nlink != 1:
            raise PermissionError(f"{path} has another name, by which it may be written")
