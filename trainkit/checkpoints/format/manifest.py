"""The manifest: what a file says about how it was made."""

from __future__ import annotations

import platform
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from trainkit.core import devices, rng
from trainkit.core.errors import OpError
from trainkit.core.files.readable_files import read_text
from trainkit.core.trackable import Trackable, traverse
from trainkit.core.variable import Variable

_PACKAGES = ("numpy", "h5py", "ml_dtypes")
_COMMIT = re.compile(r"^[0-9a-f]{40,64}$")


def manifest(root: Trackable, more: dict[str, Any] | None = None) -> dict[str, Any]:
    """A description of this process and of the state of `root`, ready for JSON.

    Args:
        root: the objects that are saved; the step is that of the first optimizer in them.
        more: entries to add.

    Returns:
        `versions`, `python`, `platform`, `device`, `seed`, `seeds_derived`, `step`, `saved_at`
        (UTC, ISO 8601), `git_commit` of the working directory where there is one, and what `more`
        has.
    """
    fields: dict[str, Any] = {
        "versions": _versions(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": devices.current().name,
        **_seeds(),
        "step": step_of(root),
        "saved_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "git_commit": git_commit(Path.cwd()),
    }
    fields.update(more or {})
    return {name: value for name, value in fields.items() if value is not None}


_known_versions: dict[str, str] = {}


def _versions() -> dict[str, str]:
    """Versions of trainkit and of the packages that the values came from."""
    if not _known_versions:
        from importlib import metadata  # slow to import

        _known_versions["trainkit"] = str(sys.modules["trainkit"].__version__)
        for name in _PACKAGES:
            _known_versions[name] = metadata.version(name)
    versions = dict(_known_versions)
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        versions["cupy"] = str(cupy.__version__)
    return versions


def _seeds() -> dict[str, Any]:
    seeds = rng._SEEDS
    return {"seed": seeds.seed, "seeds_derived": seeds.derived if seeds.seed is not None else None}


def step_of(root: Trackable) -> int | None:
    """The number of steps of the first optimizer under `root`, None without one."""
    for _, part in traverse(root):
        count = getattr(part, "iterations", None)
        if isinstance(count, Variable) and callable(getattr(part, "slot_variables", None)):
            return int(np.asarray(count.numpy()))
    return None


def git_commit(folder: Path) -> str | None:
    """The commit checked out in `folder` or above, from git's files; None outside of git."""
    for parent in (folder, *folder.parents):
        git = parent / ".git"
        if git.exists():
            try:
                return _commit_of(_git_folder(git))
            except (OSError, OpError):  # such as a pipe, or a text that is none
                return None
    return None


def _git_folder(git: Path) -> Path:
    """Where git keeps the files: a worktree has a file that points there."""
    if git.is_dir():
        return git
    return git.parent / read_text(git).partition("gitdir:")[2].strip()


def _commit_of(git: Path) -> str | None:
    head = read_text(git / "HEAD").strip()
    if not head.startswith("ref:"):
        return head if _COMMIT.match(head) else None
    reference = head.partition(":")[2].strip()
    shared = git / "commondir"
    git_folders = [git]
    if shared.exists():
        git_folders.append(git / read_text(shared).strip())
    for git_folder in git_folders:
        loose = git_folder / reference
        if loose.is_file():
            commit = read_text(loose).strip()
            return commit if _COMMIT.match(commit) else None
        packed = git_folder / "packed-refs"
        if packed.is_file():
            for line in read_text(packed).splitlines():
                commit, _, name = line.partition(" ")
                if name == reference and _COMMIT.match(commit):
                    return commit
    return None
