"""Functions that are written by the library itself, compiled by Numba and kept on disk.

Numba can cache only what stands in a file, so the text is put into the cache folder under the hash
of its content, and imported from there.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainkit.kernels.threads import pools

_CACHE_VERSION = 2
"""Changed when files that were cached before no longer serve."""

_LOADED: dict[tuple[str, str], Any] = {}


def cache_folder() -> Path:
    """Where code that was written and compiled is kept, beside what Numba keeps itself."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(os.environ.get("TRAINKIT_CACHE") or os.path.join(base, "trainkit"))


def compiled_function(source: str, name: str, parallel: bool = False) -> Callable[..., Any]:
    """The function `name` of the Python text `source`, compiled on its first call.

    Args:
        source: text of a module that imports NumPy alone, or Numba too.
        name: the function in it.
        parallel: `prange` spreads over the cores.

    Returns:
        A Numba dispatcher. Division by zero gives inf as NumPy's does; arithmetic is not reordered.
    """
    pools.configure_threads()
    import numba

    # Numba's cache on disk tells functions apart by file, name and types, not by `parallel`.
    facts = f"{_CACHE_VERSION}\n{numba.__version__}\n{parallel}\n{source}"
    digest = hashlib.sha256(facts.encode()).hexdigest()[:24]
    key = (digest, name)
    found = _LOADED.get(key)
    if found is None:
        module = _imported(digest, source)
        options: dict[str, Any] = {"error_model": "numpy", "nogil": True, "parallel": parallel}
        try:
            found = numba.njit(cache=True, **options)(getattr(module, name))
        except RuntimeError:  # the folder can't be written to
            found = numba.njit(**options)(getattr(module, name))
        _LOADED[key] = found
    return found


def _imported(digest: str, source: str) -> Any:
    folder = cache_folder() / "generated"
    path = folder / f"g{digest}.py"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != source:
            handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
            with os.fdopen(handle, "w") as file:
                file.write(source)
            os.replace(temporary, path)
    except OSError:
        path = Path(tempfile.mkdtemp()) / f"g{digest}.py"
        path.write_text(source)
    spec = importlib.util.spec_from_file_location(f"trainkit_generated_{digest}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # Numba's cache looks the module up by name
    spec.loader.exec_module(module)
    return module
