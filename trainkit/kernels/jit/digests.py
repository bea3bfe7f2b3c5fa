"""Names made of content, as of what a kernel is compiled from: its file, and those it imports.

Of files outside of `kernels` the tracer of formulas counts, which says what text they become; of
the cost model those numbers count that are imported, as they are compiled in.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from trainkit.core.cpu import cost_model

_FOLDER = Path(__file__).parents[1]
_TRACER = "core.dispatch.formulas"
"""A module above `kernels`, on which kernels that are written from formulas depend too."""
_NAMES = r"(?:\(([^)]*)\)|([^(\n]*))"
_IMPORTED = re.compile(r"^from trainkit\.kernels\.([\w.]+) import " + _NAMES, re.MULTILINE)
_COSTS = re.compile(r"^from trainkit\.core\.cpu\.cost_model import " + _NAMES, re.MULTILINE)


def digest_of(*texts: str | bytes) -> str:
    """SHA-256 of texts, each with its length, as 64 hexadecimal digits."""
    import hashlib

    digest = hashlib.sha256()
    for text in texts:
        data = text.encode() if isinstance(text, str) else text
        # With the lengths, "ab" and "c" are other texts than "a" and "bc".
        digest.update(f"{len(data)}\n".encode() + data)
    return digest.hexdigest()


def _path(module: str) -> Path:
    folder = _FOLDER.parent if module == _TRACER else _FOLDER
    return folder.joinpath(*module.split(".")).with_suffix(".py")


@lru_cache(maxsize=256)
def _source(module: str) -> tuple[bytes, tuple[str, ...]]:
    """The text of a module below `kernels`, and the modules there that it imports."""
    text = _path(module).read_bytes()
    imports = [_TRACER] if f"\nfrom trainkit.{_TRACER} import " in text.decode() else []
    for name, *lists in _IMPORTED.findall(text.decode()):
        if _path(name).exists():
            imports.append(name)
        else:  # a folder, of which modules are named
            imports += [f"{name}.{word}" for word in re.findall(r"\w+", "".join(lists))]
    return text + _numbers(text.decode()), tuple(imports)


def _numbers(text: str) -> bytes:
    """The numbers of the cost model that a text imports, with their names."""
    names = [name for lists in _COSTS.findall(text) for name in re.findall(r"\w+", "".join(lists))]
    return repr([(name, getattr(cost_model, name)) for name in names]).encode()


@lru_cache(maxsize=256)
def source_digest(module: str) -> str:
    """A digest of all that a module below `kernels` is made of.

    Raises:
        OSError: a file can't be read, as where the package lies in an archive.
    """
    sources: dict[str, bytes] = {}
    # Several modules may import one, so those that have been read are left out.
    left = [module]
    while left:
        name = left.pop()
        if name not in sources:
            sources[name], imported = _source(name)
            left += imported
    # In order of their names, whichever import was met first.
    return digest_of(*(part for name in sorted(sources) for part in (name, sources[name])))
