"""Whether a file is a model, by its first bytes, without reading more of it."""

from __future__ import annotations

import os

from trainkit.core.files.local_paths import local_path

_MODEL_FILE = "saved_model.h5"  # of a folder; importing saved_graph for its name takes too long
_HDF5 = (b"\x89HDF\r\n\x1a\n", b"\x89TKC\r\n\x1a\n")  # trainkit's stand behind a block of its own
_ZIP = b"PK\x03\x04"


def is_model_file(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is a saved graph (HDF5), the folder of a saved model, or a `.keras` file.

    Args:
        path: of anything, also of what is not there.
    """
    path = local_path(path)
    if os.path.isdir(path):
        return os.path.isfile(os.path.join(path, _MODEL_FILE))
    try:
        with open(path, "rb") as file:
            start = file.read(8)
    except OSError:
        return False
    return start in _HDF5 or (start.startswith(_ZIP) and os.fspath(path).endswith(".keras"))
