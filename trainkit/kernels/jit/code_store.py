"""Object code on disk, found by what it was made from.

A file is named after a digest of all that its content depends on, so what is there never has to be
replaced, and any number of processes may read and write at a time. It begins with the digest of
its code: a file that is torn or damaged is none. Files that have served nobody for longest are
deleted once all of them take more than `MOST_BYTES`.

Code is only taken from files that belong to this user or to root, or, in a folder that
`TRAINKIT_CACHE` names, to whom that folder belongs.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from trainkit.kernels.jit.digests import digest_of

MOST_BYTES = 1 << 28
"""How much one folder of code may hold."""
_DIGEST_BYTES = 64
_SUFFIX = ".o"
_TOUCHED_SECONDS = 86_400
"""How old the date of a file has to be for its use to be noted."""


def cache_root() -> Path:
    """The folder below which this library keeps things for this user."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(os.environ.get("TRAINKIT_CACHE") or os.path.join(base, "trainkit"))


def code_folders() -> list[Path]:
    """Where code is looked for: the cache, and where nobody can write there, a temporary folder."""
    found = [cache_root() / "machine"]
    if hasattr(os, "getuid"):
        found.append(_temporary_folder() / f"trainkit-{os.getuid()}" / "machine")
    return found


def _temporary_folder() -> Path:
    import tempfile

    return Path(tempfile.gettempdir())


def read_code(digest: str, until: float = math.inf) -> bytes | None:
    """The code that is kept under a digest, `None` where there is none that can be trusted.

    Args:
        digest: of what it was made from.
        until: seconds since the epoch; what was written later is none.
    """
    for folder in code_folders():
        code = _read(folder / f"{digest}{_SUFFIX}", until)
        if code is not None:
            return code
    return None


def has_code(digest: str) -> bool:
    """Whether there is a file of that digest; what it holds is not looked at."""
    return any((folder / f"{digest}{_SUFFIX}").exists() for folder in code_folders())


def write_code(digest: str, code: bytes) -> Path | None:
    """Keep code; `None` where nothing can be written, which only costs time."""
    for folder in code_folders():
        path = folder / f"{digest}{_SUFFIX}"
        try:
            _make(folder)
            _replace(path, digest_of(code).encode() + code)
        except OSError:
            continue
        _trim(folder, keep=path)
        return path
    return None


# ------------------------------------------------------------------ files


def _read(path: Path, until: float) -> bytes | None:
    try:
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            if facts.st_mtime > until or not _is_trusted(facts, path.parent):
                return None
            data = file.read()
    except OSError:
        return None
    code = data[_DIGEST_BYTES:]
    if not code or digest_of(code).encode() != data[:_DIGEST_BYTES]:
        return None
    _note_use(path, facts)
    return code


def _is_trusted(facts: os.stat_result, folder: Path) -> bool:
    if not hasattr(os, "geteuid"):
        return True
    owners = {0, os.geteuid()}
    named = os.environ.get("TRAINKIT_CACHE")
    if named and folder.is_relative_to(named):
        owners.add(os.stat(named).st_uid)
    return facts.st_uid in owners


def _note_use(path: Path, facts: os.stat_result) -> None:
    """Note that a file has been used, now and then; when it was written stays as it is."""
    now = time.time()
    if now - _last_use(facts) > _TOUCHED_SECONDS:
        try:
            os.utime(path, (now, facts.st_mtime))
        except OSError:  # somebody else's
            return


def _last_use(facts: os.stat_result) -> float:
    return max(facts.st_atime, facts.st_mtime)


def _make(folder: Path) -> None:
    """Make a folder; one among temporary ones is closed to others, and must not be somebody's."""
    if folder.parent.parent == _temporary_folder():
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        facts = os.lstat(folder.parent)
        if facts.st_uid != os.getuid() or facts.st_mode & 0o022:
            raise PermissionError(f"{folder.parent} is open to others")
    folder.mkdir(parents=True, exist_ok=True)


def _replace(path: Path, data: bytes) -> None:
    import tempfile

    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644 & ~_umask())  # a temporary file is its maker's alone
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


@lru_cache(maxsize=1)
def _umask() -> int:
    """What the user keeps from new files, without a moment in which it is another."""
    try:
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith("Umask:"):
                    return int(line.split()[1], 8)
    except OSError:
        pass
    return 0o022


def _entries(folder: Path) -> Iterator[tuple[float, int, str]]:
    """Date of the last use, size and path of each file of code."""
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name.endswith(_SUFFIX):
                try:
                    facts = entry.stat()
                except OSError:  # another process has just deleted it
                    continue
                yield _last_use(facts), facts.st_size, entry.path


def _trim(folder: Path, keep: Path) -> None:
    """Delete the files that were used longest ago, down to three quarters of what is allowed."""
    try:
        files = sorted(_entries(folder))
    except OSError:
        return
    total = sum(size for _, size, _ in files)
    if total <= MOST_BYTES:
        return
    for _, size, path in files:
        if total <= MOST_BYTES * 3 // 4:
            return
        if path != str(keep):
            Path(path).unlink(missing_ok=True)
            total -= size
