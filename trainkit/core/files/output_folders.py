"""Folders that something is written into, made where they are missing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def make_folder(folder: str | os.PathLike[str], writer: str) -> Path:
    """The folder, made with those above it where it is missing.

    Args:
        folder: a path of this machine, as `local_path` gives it.
        writer: who writes into it, as errors name it.

    Raises:
        OSError: it can't be made, or a file has its name; of the kind that the system tells.
    """
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(error, path, writer) from error
    return path


def cannot_write(error: OSError, folder: Path, writer: str) -> OSError:
    """The system's error, with who writes, the folder, and what to do."""
    above: Any = next((p for p in (folder, *folder.parents) if p.exists()), folder)
    reason = "is a file" if above.is_file() else "does not let this user make files in it"
    return OSError(
        error.errno,
        f"{error.strerror}: {writer} can't write into the folder {str(folder)!r}, since "
        f"{str(above)!r} {reason}; choose another one, such as './logs'",
    )
