"""Paths of this machine: `s3://bucket/run` is the address of another system, not a folder `s3:`.

Python opens such an address as a folder of that name, without a word, so that what was meant for a
store that lasts is gone with the machine. No other system is served, so its addresses are refused
by the name of their scheme.
"""

from __future__ import annotations

import os
import re
from typing import Any

from trainkit.core.errors import InvalidArgumentError, OpError, UnimplementedError

# `pathlib` turns "s3://a" into "s3:/a", on Windows into "s3:\a". One letter is a drive of Windows.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):[/\\]")
_FILE = re.compile(r"file:(?://(?:localhost)?(?=/)|(?=/[^/]))", re.IGNORECASE)
_DRIVE = re.compile(r"/[A-Za-z]:(?:[/\\]|$)")


def local_path(path: Any, error: type[OpError] = InvalidArgumentError) -> str:
    """A path as a text that Python's functions on files take.

    Args:
        path: a `str`, bytes, a path object or a scalar string tensor; `file:///path` is the file of
            that name, whose letters are taken as they stand, `%20` included, as TensorFlow does.
        error: what is raised for a name that no file can have.

    Raises:
        TypeError: it is none of these.
        UnimplementedError: it is an address of another system, such as `s3://bucket/name`.
        InvalidArgumentError: it holds a null character, which no name of a file does; or `error`.

    Example:
        >>> local_path("file:///tmp/a.txt")
        '/tmp/a.txt'
    """
    name = path_text(path)
    if "\0" in name:
        raise error(f"the path {name!r} can't be opened: it holds a null character")
    scheme = _SCHEME.match(name)
    return name if scheme is None else _without_scheme(name, scheme[1])


def path_text(path: Any) -> str:
    """A path as a text, whatever system it is of.

    Args:
        path: a `str`, bytes, a path object or a scalar string tensor.

    Raises:
        TypeError: it is none of these.
    """
    path = path.numpy() if hasattr(path, "numpy") else path
    try:
        return os.fsdecode(path)
    except TypeError:
        raise TypeError(f"a path is a text, got {type(path).__name__}") from None


def _without_scheme(name: str, scheme: str) -> str:
    prefix = _FILE.match(name)
    if prefix is not None:
        path = name[prefix.end() :]
        return path[1:] if os.name == "nt" and _DRIVE.match(path) else path
    if scheme.lower() == "file":
        raise UnimplementedError(
            f"the address {name!r} names a file of another machine; write file:///path for a file "
            "of this one"
        )
    raise UnimplementedError(
        f"file system scheme {scheme!r} not implemented (file: {name!r}): only files of this "
        "machine are read and written. Use a folder that is mounted here, or copy the files with "
        f"the tools of the store; a local folder of that name is ./{name}"
    )
