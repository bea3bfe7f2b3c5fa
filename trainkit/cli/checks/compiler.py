"""What is compiled: the eager path at installation, kernels by Numba, and where these are kept."""

from __future__ import annotations

import importlib.util
import os
import pickletools
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import trainkit
from trainkit.cli.checks.finding import Finding
from trainkit.cli.checks.probe import failure_of, probed
from trainkit.cli.kernels import usual_kernels
from trainkit.core.dispatch import native
from trainkit.core.process.requirements import REINSTALL, install_command
from trainkit.kernels.jit import kernel_family, kernel_library, target
from trainkit.kernels.jit.code_store import code_folder, why_not_trusted
from trainkit.kernels.jit.kernel_code import function_name

_NUMBA = """
import numba
facts["numba"] = numba.__version__
facts["disabled"] = bool(numba.config.DISABLE_JIT)
def run():
    from numba.np.ufunc import parallel
    parallel._launch_threads()
    return numba.threading_layer()
note("layer", run)
note("compiles", lambda: numba.njit(lambda x: x + 1)(1) == 2)
"""

_MISSING = "No module named 'numba'"
LARGE_BYTES = 1 << 30
_SUFFIXES = (".nbi", ".nbc", ".o")


def check_native() -> Iterator[Finding]:
    """The compiled half of the eager path is there and in use."""
    if native.FAILURE is None:
        yield Finding("ok", "the eager path is compiled", facts={"compiled": True})
        return
    text = f"the eager path is Python alone, small eager steps take longer: {native.FAILURE}"
    mend = f"{REINSTALL}  # in a copy of the repository, with a C compiler"
    if os.environ.get("TRAINKIT_NATIVE") == "0":
        mend = "unset TRAINKIT_NATIVE"
    yield Finding("warning", text, mend, {"compiled": False})


def check_library() -> Iterator[Finding]:
    """The kernels that came compiled are those of the files that lie beside them."""
    if kernel_library.kernel_library() is None:
        return
    names = [function_name(*kernel) for kernel in usual_kernels()]
    # an archive has no text to compare with
    absent = [n for n in names if n is not None and kernel_library.address_of(n) is None]
    facts = {"kernels": len(names), "absent": len(absent)}
    if not absent:
        yield Finding("ok", f"{len(names)} kernels came compiled", facts=facts)
        return
    path = kernel_library.library_path(target.level())
    text = (
        f"{len(absent)} of {len(names)} kernels are not in {path}, which was made from other "
        "versions of their files: they are compiled when needed, and first steps take longer"
    )
    yield Finding("warning", text, "python -m trainkit kernels", facts)


def check() -> Iterator[Finding]:
    """Kernels came compiled or Numba compiles them, and what it compiles can be kept."""
    facts = probed(_NUMBA)
    failure = failure_of(facts, "numba")
    if failure.endswith(_MISSING):
        yield _without_numba()
    elif failure:
        text = f"Numba can't be used, so nothing is compiled and everything is slower: {failure}"
        yield Finding("problem", text, "pip install --force-reinstall numba")
        return
    else:
        yield from _with_numba(facts)
    if importlib.util.find_spec("llvmlite") is None:
        text = (
            "llvmlite is not there, so fused chains of compiled graphs stay plain, with the same "
            "results, only slower"
        )
        yield Finding("warning", text, "pip install llvmlite", {"llvmlite": None})
    if kernel_family.mode() == "off":
        text = "TRAINKIT_JIT turns compiled kernels off"
        yield Finding("warning", text, "unset TRAINKIT_JIT")
    for folder in cache_folders():
        yield from _cache(folder, facts.get("numba", ""))


def _without_numba() -> Finding:
    """Numba is an extra where kernels come compiled."""
    mend = install_command("numba")
    level = target.level()
    if kernel_library.came_along():
        text = f"kernels came compiled for {level}; without Numba unusual ones stay plain"
        return Finding("ok", text, facts={"numba": None, "level": level})
    text = "no kernels came compiled for this processor, and Numba is not there to compile them"
    return Finding("warning", text, mend, {"numba": None, "level": None})


def _with_numba(facts: dict[str, Any]) -> Iterator[Finding]:
    for feature, reason in facts.get("errors", {}).items():
        text = f"Numba {facts['numba']} is there, but does not work ({feature}): {reason}"
        yield Finding("problem", text, "pip install --force-reinstall numba llvmlite")
    if facts["disabled"]:
        text = "NUMBA_DISABLE_JIT turns compiled kernels off"
        yield Finding("warning", text, "unset NUMBA_DISABLE_JIT")
    if not facts.get("errors"):
        text = f"Numba {facts['numba']}, with threads of {facts['layer']}"
        yield Finding("ok", text, facts=facts)


def cache_folders() -> list[Path]:
    """Where compiled code lies; in Numba's cache too where its threads do the work."""
    try:
        folders = [code_folder()]
    except FileNotFoundError:  # there is no home; `check_disk` says so
        folders = []
    if not sys.platform.startswith("linux"):
        named = os.environ.get("NUMBA_CACHE_DIR")
        folders.append(Path(named) if named else Path(trainkit.__path__[0]) / "kernels")
    return folders


def _cache(folder: Path, version: str) -> Iterator[Finding]:
    doubt = why_not_trusted() if folder.name == "machine" else ""
    if doubt:
        yield Finding(
            "warning",
            f"compiled kernels in {folder} are not used, since others could have put them there "
            f"({doubt}); each process compiles its own",
            f"export {_variable(folder)}=FOLDER  # that you alone may write to",
            {"folder": str(folder)},
        )
        return
    reason = why_not_writable(folder)
    if reason:
        yield Finding(
            "warning",
            f"compiled kernels can't be kept in {folder} ({reason}), each process compiles its own",
            f"export {_variable(folder)}=FOLDER",
            {"folder": str(folder)},
        )
    files = [path for path in folder.rglob("*") if path.suffix in _SUFFIXES and path.is_file()]
    size = sum(path.stat().st_size for path in files)
    stale = [path for path in files if path.suffix == ".nbi" and is_stale(path, version)]
    facts = {"folder": str(folder), "bytes": size, "files": len(files), "stale": len(stale)}
    text = f"{size / 1e6:.1f} MB of compiled code in {folder}"
    if stale:
        text += f"; {len(stale)} kernels of another Numba or Python serve nobody"
    level = "note" if stale or size > LARGE_BYTES else "ok"
    yield Finding(level, text, f"rm -r '{folder}'" if level == "note" else "", facts)


def _variable(folder: Path) -> str:
    return "TRAINKIT_CACHE" if folder.name == "machine" else "NUMBA_CACHE_DIR"


def why_not_writable(folder: Path) -> str:
    """Why no file can be made in a folder, or in the nearest one above that is there; else ''."""
    nearest = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    try:
        with tempfile.TemporaryFile(dir=nearest):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def is_stale(index: Path, version: str) -> bool:
    """Whether an index of compiled code is of another version of Numba or Python.

    Its name ends in Python's version; it begins with a pickled string, Numba's version, which is
    read without unpickling anything.
    """
    tag = re.search(r"\.py(\d+)\w*\.nbi$", index.name)
    if tag and tag[1] != f"{sys.version_info.major}{sys.version_info.minor}":
        return True
    try:
        with index.open("rb") as file:
            first = next((a for _, a, _ in pickletools.genops(file) if isinstance(a, str)), "")
    except (OSError, ValueError):
        return True
    return first != version
