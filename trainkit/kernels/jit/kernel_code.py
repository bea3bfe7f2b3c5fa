"""Where a kernel's machine code comes from: the library, the disk, or a compiler.

What Numba or LLVM compiles is kept as object code of its own, behind a function of Python, so a
process that finds it imports no compiler. It is found by a digest of the kernel's text, of what
that text imports, and of the processor.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from trainkit.kernels.jit import target
from trainkit.kernels.jit.code_store import read_code, write_code
from trainkit.kernels.jit.digests import digest_of, source_digest
from trainkit.kernels.jit.kernel_library import shipped_kernel, shipped_object
from trainkit.kernels.jit.llvm_text import LlvmText
from trainkit.kernels.jit.numpy_inner_loops import available

FORMAT = 2
"""Changed when code that was compiled before no longer serves."""


def function_name(module: str, builder: str, key: tuple[Any, ...]) -> str | None:
    """What the function of a kernel is called: a digest of all that it is compiled from.

    `None` where the text of the package can't be read, as in an archive.

    Args:
        module: the module below `kernels` that holds the builder.
        builder: the name of the function that compiles it.
        key: the arguments of that function.
    """
    try:
        facts = str(FORMAT), source_digest(module), builder, repr(key)
    except OSError:
        return None
    return f"k{digest_of(*facts)[:32]}"


def kernel_at_hand(module: str, builder: str, key: tuple[Any, ...], until: float = math.inf) -> Any:
    """A kernel that is compiled already, `None` where there is none.

    Args:
        module: as for `function_name`, like the others.
        builder: a name.
        key: its arguments.
        until: seconds since the epoch; what came on the disk later is none.
    """
    name = function_name(module, builder, key)
    if name is None:
        return None
    kernel = shipped_kernel(name)
    if kernel is not None:
        return kernel
    if not available():
        return None
    # What came along was there before any run began, so it has no date to look at.
    code = shipped_object(name) or read_code(_file_name(name), until)
    if code is None:
        return None
    try:
        return _load(code, name)
    except (ValueError, RuntimeError):  # it is compiled again, and replaced
        return None


def compiled_kernel(module: str, builder: str, key: tuple[Any, ...]) -> Any:
    """A kernel that is compiled now, kept on disk for later processes.

    It is Numba's own where it can only be used as that is.
    """
    kernel = getattr(importlib.import_module(f"trainkit.kernels.{module}"), builder)(*key)
    object_code = code_writer(kernel)
    if object_code is None:
        return kernel
    name = function_name(module, builder, key)
    if name is None:
        # In an archive there is no text to make a digest of, so nothing is kept: the name only has
        # to be one that this process has not used.
        name = f"k{id(kernel):x}"
        return _load(object_code(name), name)
    code = object_code(name)
    write_code(_file_name(name), code)
    return _load(code, name)


def code_writer(kernel: Any) -> Callable[..., bytes] | None:
    """What makes object code of a kernel that a builder gave, as `LlvmText.object_code` does.

    `None` where the kernel can have no code of its own.
    """
    if isinstance(kernel, LlvmText):
        return kernel.object_code if available() else None
    # imports Numba, which has made the kernel
    numba_code = importlib.import_module("trainkit.kernels.jit.object_code")
    if not numba_code.can_be_kept(kernel):
        return None
    return functools.partial(numba_code.object_code, kernel)


def _load(code: bytes, name: str) -> Any:
    return importlib.import_module("trainkit.kernels.jit.object_loader").linker().loaded(code, name)


def _file_name(name: str) -> str:
    # Versions are read from files: an import of Numba is what code on disk saves.
    return digest_of(name, *map(_version, ("numba", "llvmlite")), target.identity())[:40]


@lru_cache(maxsize=4)
def _version(package: str) -> bytes:
    """What a package says of its version in a file of its own, read without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return b""
    try:
        return Path(spec.origin).with_name("_version.py").read_bytes()
    except OSError:
        return b""
