"""The kernels that come compiled: a shared library for each usual instruction set.

A kernel's name in it is a digest of the text that it is compiled from, so one that does not belong
to the text that lies here is not found, and is compiled instead.
"""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from typing import Any

from trainkit.kernels.jit import target
from trainkit.kernels.jit.numpy_inner_loops import available, built_in
from trainkit.kernels.jit.python_entry import OBJECTS

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def library_path(level: str) -> str:
    """Where the library for an instruction set lies."""
    return os.path.join(FOLDER, f"kernels-{level}.so")


@lru_cache(maxsize=1)
def kernel_library() -> Any:
    """The library for this processor, `None` where there is none.

    `TRAINKIT_KERNELS=0` leaves it alone.
    """
    level = target.level()
    if not level or os.environ.get("TRAINKIT_KERNELS") == "0":
        return None
    # The file first: `available` looks into many objects, a look at the disk is one call.
    if not os.path.exists(library_path(level)) or not available():
        return None
    try:
        library = ctypes.PyDLL(library_path(level))
        for name, thing in OBJECTS.items():
            ctypes.c_void_p.in_dll(library, name).value = id(thing)
    except (OSError, ValueError):  # of another system, or of an older build
        return None
    return library


def address_of(name: str) -> int | None:
    """Address of a function of the library, `None` where it has none of that name."""
    function = getattr(kernel_library(), name, None)
    return None if function is None else ctypes.cast(function, ctypes.c_void_p).value


def objects_path(level: str) -> str:
    """The folder of object code that takes the library's place where there was no linker."""
    return os.path.join(FOLDER, f"kernels-{level}")


def shipped_object(name: str) -> bytes | None:
    """The object code of that name in this folder, or `None`."""
    level = target.level()
    if not level or os.environ.get("TRAINKIT_KERNELS") == "0":
        return None
    try:
        with open(os.path.join(objects_path(level), f"{name}.o"), "rb") as file:
            return file.read()
    except OSError:
        return None


@lru_cache(maxsize=1)
def lies_here() -> bool:
    """Whether kernels for this processor lie beside the package; nothing is loaded for that."""
    level = target.level()
    if not level or os.environ.get("TRAINKIT_KERNELS") == "0":
        return False
    return os.path.exists(library_path(level)) or os.path.isdir(objects_path(level))


def came_along() -> bool:
    """Whether kernels for this processor came compiled with the package."""
    return kernel_library() is not None or os.path.isdir(objects_path(target.level()))


def shipped_kernel(name: str) -> Any:
    """The built-in function of that name in the library, or `None`."""
    address = address_of(name)
    return None if address is None else built_in(address)
