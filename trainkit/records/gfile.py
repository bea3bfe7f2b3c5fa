"""`tk.io.gfile`: TensorFlow's names for Python's functions on files."""

from __future__ import annotations

import glob as _glob
import os
import shutil
from collections.abc import Iterator
from typing import Any

from trainkit.core.errors import AlreadyExistsError, NotFoundError, PermissionDeniedError
from trainkit.core.files.local_paths import local_path, path_text
from trainkit.core.files.readable_files import only_regular
from trainkit.core.tensor import is_tensor


class GFile:
    """A file that is opened when it is first read or written.

    Args:
        name: of the file.
        mode: `"r"`, `"w"`, `"a"`, with `"+"` for both and `"b"` for bytes.

    Raises:
        UnimplementedError: it is an address of another system, such as `s3://bucket/name`.
        NotFoundError: when it is opened, there is no such file.
        InvalidArgumentError: when it is opened for reading, it is a pipe, a device or a folder.
    """

    def __init__(self, name: Any, mode: str = "r") -> None:
        self.name, self.mode = local_path(name), mode
        self._open: Any = None

    def _file(self) -> Any:
        if self._open is None:
            try:
                encoding = None if "b" in self.mode else "utf-8"
                opener = only_regular if self.mode.startswith("r") else None
                self._open = open(self.name, self.mode, encoding=encoding, opener=opener)
            except FileNotFoundError:
                raise NotFoundError(f"there is no file {self.name}") from None
            except PermissionError:
                raise PermissionDeniedError(
                    f"{self.name} may not be opened with mode {self.mode!r}"
                ) from None
        return self._open

    def read(self, n: int = -1) -> Any:
        """`n` characters or bytes, all that are left for -1."""
        return self._file().read(n)

    def readline(self) -> Any:
        """The next line with its end."""
        return self._file().readline()

    def readlines(self) -> list[Any]:
        """All lines that are left."""
        return list(self._file())

    def write(self, file_content: Any) -> None:
        """Write text or bytes."""
        content = file_content.numpy() if hasattr(file_content, "numpy") else file_content
        if isinstance(content, bytes) and "b" not in self.mode:
            content = content.decode()
        self._file().write(content)

    def seek(self, offset: int | None = None, whence: int = 0, position: Any = None) -> None:
        """Go to a place in the file; `position` is an older name of `offset`."""
        target = position if offset is None else offset
        if target is None:
            raise TypeError("GFile.seek needs an offset")
        self._file().seek(target, whence)

    def tell(self) -> int:
        """The place in the file."""
        return int(self._file().tell())

    def size(self) -> int:
        """Bytes of the file."""
        return os.path.getsize(self.name)

    def seekable(self) -> bool:
        """True: files of a disk have places."""
        return True

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        if self._open is not None:
            self._open.flush()

    def close(self) -> None:
        """Close the file; nothing happens where it is not open."""
        file, self._open = self._open, None
        if file is not None:
            file.close()

    def __enter__(self) -> GFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        # The iterator holds this object, which closes the file when nobody holds it any more.
        yield from self._file()

    def __del__(self) -> None:
        if getattr(self, "_open", None) is not None:
            self.close()


def exists(path: Any) -> bool:
    """Whether there is a file or folder."""
    return os.path.exists(local_path(path))


def isdir(path: Any) -> bool:
    """Whether there is a folder."""
    return os.path.isdir(local_path(path))


def listdir(path: Any) -> list[str]:
    """The names in a folder.

    Raises:
        NotFoundError: there is no such folder.
    """
    try:
        return os.listdir(local_path(path))
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(f"there is no folder {local_path(path)}") from None


def glob(pattern: Any) -> list[str]:
    """The names that match a shell pattern, or any of several; a star stands for any first letter.

    Args:
        pattern: a path, or a list, set or other iterable of them.
    """
    is_one = isinstance(pattern, str | bytes | os.PathLike) or not hasattr(pattern, "__iter__")
    several = [pattern] if is_one or is_tensor(pattern) else pattern
    return [path for one in several for path in sorted(_glob_one(local_path(one)))]


def _glob_one(pattern: str) -> list[str]:
    return _glob.glob(pattern, include_hidden=True)  # as in TensorFlow


def mkdir(path: Any) -> None:
    """Make a folder in a folder that is there; nothing happens where it is there already.

    Raises:
        AlreadyExistsError: there is a file of that name.
        NotFoundError: the folder around it is not there.
    """
    try:
        os.mkdir(local_path(path))
    except FileExistsError:
        if not isdir(path):
            raise AlreadyExistsError(f"mkdir: {local_path(path)} is there, and a file") from None
    except FileNotFoundError:
        raise NotFoundError(f"there is no folder for {local_path(path)}") from None


def makedirs(path: Any) -> None:
    """Make a folder, and those around it; nothing happens where it is there."""
    os.makedirs(local_path(path), exist_ok=True)


def join(path: Any, *paths: Any) -> str:
    """Parts of a path as one."""
    return os.path.join(path_text(path), *map(path_text, paths))


def copy(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Copy a file.

    Raises:
        AlreadyExistsError: `dst` is there, and `overwrite` is False.
        NotFoundError: there is no file `src`.
    """
    _check_free(dst, overwrite, "copy")
    try:
        shutil.copyfile(local_path(src), local_path(dst))
    except FileNotFoundError:
        raise NotFoundError(f"copy: there is no file {local_path(src)}") from None


def rename(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Give a file another name.

    Raises:
        AlreadyExistsError: `dst` is there, and `overwrite` is False.
        NotFoundError: there is no file `src`.
    """
    _check_free(dst, overwrite, "rename")
    try:
        os.replace(local_path(src), local_path(dst))
    except FileNotFoundError:
        raise NotFoundError(f"rename: there is no file {local_path(src)}") from None


def _check_free(path: Any, overwrite: bool, caller: str) -> None:
    if not overwrite and exists(path):
        raise AlreadyExistsError(f"{caller}: {local_path(path)} is there; give overwrite=True")


def remove(path: Any) -> None:
    """Delete a file.

    Raises:
        NotFoundError: there is no such file.
    """
    try:
        os.remove(local_path(path))
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {local_path(path)}") from None


def rmtree(path: Any) -> None:
    """Delete a folder with all that is in it.

    Raises:
        NotFoundError: there is no such folder.
    """
    if not isdir(path):
        raise NotFoundError(f"there is no folder {local_path(path)}")
    shutil.rmtree(local_path(path))


def stat(path: Any) -> os.stat_result:
    """What the operating system knows of a file.

    Raises:
        NotFoundError: there is no such file.
    """
    try:
        return os.stat(local_path(path))
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {local_path(path)}") from None


def walk(
    top: Any, topdown: bool = True, onerror: Any = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Folders below `top` with the names in them, as `os.walk` gives them."""
    return os.walk(local_path(top), topdown, onerror)
