"""Functions that are written by the library itself, compiled by Numba and kept on disk.

Numba can cache only what stands in a file, so the text is put into the cache folder under the hash of
its content, and imported from there.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import tempfile
from collections.abc import Callable
from typing import Any

from trainkit.kernels.registry import cache_folder

_LOADED: dict[str, Any] = {}


def compiled_function(source: str, name: str) -> Callable[..., Any]:
    """The function `name` of the Python text `source`, compiled on its first call.

    Args:
        source: text of a module that imports NumPy alone.
        name: the function in it.

    Returns:
        A Numba dispatcher. Division by zero gives inf as NumPy's does; arithmetic is not reordered.
    """
    import numba

    digest = hashlib.sha256(f"{numba.__version__}\n{source}".encode()).hexdigest()[:24]
    found = _LOADED.get(digest)
    if found is None:
        module = _imported(digest, source)
        options = {"error_model": "numpy", "nogil": True}
        try:
            found = numba.njit(cache=True, **options)(getattr(module, name))
        except RuntimeError:  # the folder can't be written to
            found = numba.njit(**options)(getattr(module, name))
        _LOADED[digest] = found
    return found  # type: ignore[no-any-return]


def _imported(digest: str, source: str) -> Any:
    folder = cache_folder().parent / "generated"
    path = folder / f"g{digest}.py"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != source:
            handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
            with os.fdopen(handle, "w") as file:
                file.write(source)
            os.replace(temporary, path)
    except OSError:
        path = folder.__class__(tempfile.mkdtemp()) / f"g{digest}.py"
        path.write_text(source)
    spec = importlib.util.spec_from_file_location(f"trainkit_generated_{digest}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
