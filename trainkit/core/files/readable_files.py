"""Opening files that somebody else may have made.

A pipe or a device has no size that bounds what is read of it, and opening one may wait for ever.
"""

from __future__ import annotations

import io
import os
import stat
from typing import IO, Any, cast

from trainkit.core.errors import InvalidArgumentError, NotFoundError, OpError, PermissionDeniedError
from trainkit.core.files.local_paths import local_path
from trainkit.core.files.printable import printable_line

_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)  # or opening a pipe waits for its other end


def open_descriptor(path: Any, kind: str = "file", error: type[OpError] | None = None) -> int:
    """The descriptor of a regular file, for reading.

    Args:
        path: as `local_path` takes it.
        kind: what it should be, for errors.
        error: what is raised, `InvalidArgumentError` by default.

    Raises:
        NotFoundError: there is no such file.
        PermissionDeniedError: it may not be opened.
        InvalidArgumentError: it can't be opened, or is no regular file; or `error`.
        UnimplementedError: it is an address of another system.
    """
    error = error or InvalidArgumentError
    return _open(local_path(path, error), _FLAGS, kind, error)


def only_regular(name: str, flags: int) -> int:
    """What `open` takes as `opener`, so that it opens regular files alone.

    Args:
        name: of the file.
        flags: of `os.open`.

    Raises:
        NotFoundError: there is no such file.
        PermissionDeniedError: it may not be opened so.
        InvalidArgumentError: it can't be opened, or is no regular file.
    """
    return _open(name, flags, "file", InvalidArgumentError)


def _open(name: str, flags: int, kind: str, error: type[OpError]) -> int:
    try:
        fd = os.open(name, flags | _AT_ONCE)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(f"there is no {kind} {name!r}") from None
    except OSError as problem:
        if isinstance(problem, PermissionError) and error is InvalidArgumentError:
            raise PermissionDeniedError(f"{kind} {name!r} may not be opened") from None
        reason = getattr(problem, "strerror", None) or problem
        raise error(f"{kind} {name!r} can't be opened: {reason}") from problem
    try:
        is_regular = stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError as problem:
        os.close(fd)
        raise error(f"{kind} {name!r} can't be opened: {problem.strerror}") from problem
    if not is_regular:
        os.close(fd)
        raise error(f"{name!r} is no regular file, so it is no {kind}")
    return fd


def open_regular(
    path: Any, kind: str = "file", error: type[OpError] | None = None, buffering: int = -1
) -> IO[bytes]:
    """A regular file, open for reading its bytes.

    Args:
        path: as `local_path` takes it.
        kind: what it should be, for errors.
        error: what is raised, `InvalidArgumentError` by default.
        buffering: bytes that are read ahead, as for `open`.

    Raises:
        NotFoundError: there is no such file.
        PermissionDeniedError: it may not be opened.
        InvalidArgumentError: it can't be opened, or is no regular file; or `error`.
        UnimplementedError: it is an address of another system.
    """
    return cast("IO[bytes]", os.fdopen(open_descriptor(path, kind, error), "rb", buffering))


def open_text(path: Any, kind: str = "file", newline: str | None = None) -> IO[str]:
    """A regular file, open for reading its text, which is UTF-8.

    Args:
        path: as `local_path` takes it.
        kind: what it should be, for errors.
        newline: as for `open`.

    Raises:
        NotFoundError: there is no such file.
        InvalidArgumentError: it can't be opened, or is no regular file.
        UnimplementedError: it is an address of another system.
    """
    return io.TextIOWrapper(open_regular(path, kind), encoding="utf-8", newline=newline)


def read_text(path: Any, kind: str = "file", newline: str | None = None) -> str:
    """The text of a regular file.

    Args:
        path: as `local_path` takes it.
        kind: what it should be, for errors.
        newline: as for `open`.

    Raises:
        NotFoundError: there is no such file.
        InvalidArgumentError: it can't be opened, is no regular file, or not written in UTF-8.
        UnimplementedError: it is an address of another system.
    """
    with open_text(path, kind, newline) as file:
        try:
            return file.read()
        except UnicodeDecodeError as problem:
            raise InvalidArgumentError(
                f"the {kind} {printable_line(local_path(path))!r} is not written in UTF-8: "
                f"{problem}"
            ) from None
