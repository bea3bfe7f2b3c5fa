"""Object code on disk, found by what it was made from.

A file is named after a digest of all that its content depends on, so what is there never has to be
replaced, and any number of processes may read and write at a time. It begins with a digest of its
name and its code: a file that is torn, damaged or renamed is none. Files that have served nobody
for longest are deleted once all of them take more than `KEPT_BYTES`.

What is read here is run, so it is read only from a folder that none but root, the user of this
process and the user whom `TRAINKIT_CACHE_OWNER` names can change (`core/files/trusted_folders.py`).
There is no second place among temporary files, which are everybody's.
"""

from __future__ import annotations

import math
import os
import time
from functools import lru_cache
from pathlib import Path

from trainkit.core.cpu.cost_model import KEPT_BYTES
from trainkit.core.files.trusted_folders import TrustedFolder
from trainkit.kernels.jit.digests import digest_of

_DIGEST_BYTES = 64
_SUFFIX = ".o"
_TOUCHED_SECONDS = 86_400
"""How old the date of a file has to be for its use to be noted."""


def cache_root() -> Path:
    """The folder below which this library keeps things for this user.

    Raises:
        FileNotFoundError: no variable names one, and the user has no home folder.
    """
    named = os.environ.get("TRAINKIT_CACHE")
    base = named or os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    base = os.path.expanduser(base)
    if base.startswith("~"):  # it would be a folder of that name, wherever the program stands
        raise FileNotFoundError("there is no home folder; set TRAINKIT_CACHE to a folder")
    return Path(base) if named else Path(base, "trainkit")


def code_folder() -> Path:
    """Where code is kept.

    Raises:
        FileNotFoundError: as for `cache_root`.
    """
    return cache_root() / "machine"


def why_not_trusted() -> str:
    """Why code from the folder is not run, or ''; a folder that is not there yet may be trusted."""
    try:
        named_owner()
        trusted_code_folder().__exit__()
    except FileNotFoundError:  # what leads to it has been looked at
        return ""
    except (OSError, ValueError) as error:
        return error.strerror or str(error) if isinstance(error, OSError) else str(error)
    return ""


def named_owner() -> int | None:
    """The number of the user whose code is run besides one's own and root's.

    It is that of `TRAINKIT_CACHE_OWNER`, a name or a number, for a folder that `TRAINKIT_CACHE`
    names; `None` where either is not set.

    Raises:
        ValueError: there is no such user.
    """
    named = os.environ.get("TRAINKIT_CACHE_OWNER")
    if not named or not os.environ.get("TRAINKIT_CACHE") or os.name == "nt":
        return None
    if named.isdecimal():
        return int(named)
    import pwd

    try:
        return pwd.getpwnam(named).pw_uid
    except KeyError:
        raise ValueError(f"TRAINKIT_CACHE_OWNER is {named!r}, and there is no such user") from None


def trusted_code_folder(make: bool = False) -> TrustedFolder:
    """The folder of code, open.

    Args:
        make: whether it is made where it is missing.

    Raises:
        PermissionError: others can change what is in it; the text says by which folder.
        OSError: it is not there, or can't be made.
    """
    try:
        owner = named_owner()
    except ValueError:  # `doctor` says so; nobody else is trusted then
        owner = None
    return TrustedFolder(code_folder(), () if owner is None else (owner,), make)


def read_code(digest: str, until: float = math.inf) -> bytes | None:
    """The code that is kept under a digest, `None` where there is none that can be trusted.

    Args:
        digest: of what it was made from.
        until: seconds since the epoch; what was written later is none.
    """
    try:
        with trusted_code_folder() as folder:
            fd = folder.open_file(f"{digest}{_SUFFIX}")
        with os.fdopen(fd, "rb") as file:
            facts = os.fstat(fd)
            # The size is looked at before anything is read: a huge file is not ours.
            if facts.st_mtime > until or facts.st_size > KEPT_BYTES:
                return None
            data = file.read(KEPT_BYTES)
            code = data[_DIGEST_BYTES:]
            if not code or _header(digest, code) != data[:_DIGEST_BYTES]:
                return None
            _note_use(fd, facts)
    except OSError:
        return None
    return code


def has_code(digest: str) -> bool:
    """Whether there is a file of that digest; what it holds is not looked at."""
    try:
        with trusted_code_folder() as folder:
            os.close(folder.open_file(f"{digest}{_SUFFIX}"))
    except OSError:
        return False
    return True


def write_code(digest: str, code: bytes) -> Path | None:
    """Keep code; `None` where nothing can be written, which only costs time."""
    name = f"{digest}{_SUFFIX}"
    try:
        with trusted_code_folder(make=True) as folder:
            folder.write_file(name, _header(digest, code) + code, 0o644 & ~_umask())
            if _is_trim_due(folder.path, _DIGEST_BYTES + len(code)):
                _trim(folder, keep=name)
    except OSError:
        return None
    return code_folder() / name


# ------------------------------------------------------------------ files


def _header(digest: str, code: bytes) -> bytes:
    return digest_of(digest, code).encode()


def _note_use(fd: int, facts: os.stat_result) -> None:
    """Note that a file has been used, now and then; when it was written stays as it is."""
    now = time.time()
    if os.utime in os.supports_fd and now - _last_use(facts) > _TOUCHED_SECONDS:
        try:
            # The date of access alone: when it was written decides from which run on it is used.
            os.utime(fd, (now, facts.st_mtime))
        except OSError:  # somebody else's
            return


def _last_use(facts: os.stat_result) -> float:
    return max(facts.st_atime, facts.st_mtime)


@lru_cache(maxsize=1)
def _umask() -> int:
    """The permissions that the user keeps from new files.

    `os.umask` tells them only by setting others, which files of other threads would get meanwhile.
    """
    try:
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith("Umask:"):
                    return int(line.split()[1], 8)
    except OSError:
        pass
    return 0o022


_written: dict[str, int] = {}
"""How many bytes this process has written to a folder since it asked for the sizes in it."""


def _is_trim_due(path: str, size: int) -> bool:
    """Whether the folder may hold too much, after another `size` bytes.

    To ask for the sizes of thousands of files takes as long as to compile another. So each process
    asks at its first file and then now and then: the folder holds more than it may by what each of
    those that write writes in between.
    """
    written = _written.get(path, KEPT_BYTES) + size
    is_due = written > KEPT_BYTES // 4
    _written[path] = 0 if is_due else written
    return is_due


def _trim(folder: TrustedFolder, keep: str) -> None:
    """Delete the files that were used longest ago, down to three quarters of what is allowed."""
    files = sorted(
        (_last_use(facts), facts.st_size, name)
        for name, facts in folder.files()
        if name.endswith(_SUFFIX)
    )
    total = sum(size for _, size, _ in files)
    if total <= KEPT_BYTES:
        return
    # Down to three quarters, so that not each further file has the whole folder listed and sorted
    # in order to delete one.
    for _, size, name in files:
        if total <= KEPT_BYTES * 3 // 4:
            return
        if name != keep:
            folder.remove_file(name)
            total -= size
