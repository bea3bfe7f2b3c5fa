"""The names of files that match patterns."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from typing import Any

from trainkit.core.files.local_paths import local_path


def matching(patterns: Any) -> list[bytes]:
    """The sorted names of the files that match a shell pattern, or any of several."""
    value = patterns.numpy() if hasattr(patterns, "numpy") else patterns
    value = value.tolist() if hasattr(value, "tolist") else value
    several = value if isinstance(value, list | tuple) else [value]
    names = {os.fsencode(path) for p in several for path in _matching_one(local_path(p))}
    return sorted(names)


def _matching_one(pattern: str) -> Iterator[str]:
    folder = os.path.dirname(pattern)
    # As in TensorFlow, a star stands for a dot in front of a name, too.
    for path in glob.iglob(pattern, include_hidden=True):
        # As TensorFlow's, a star stands for no slash, and "./" before a name stays away or there.
        yield os.path.join(folder, os.path.basename(path)) if not glob.has_magic(folder) else path
