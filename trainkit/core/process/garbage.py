"""When Python looks for garbage in cycles."""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from trainkit.core.cpu.cost_model import CACHED_BYTES

LARGE_BYTES = CACHED_BYTES
"""Arrays from this size on are counted: smaller ones are not worth the time to look at them."""
NEW_BYTES = 1 << 25
"""So much has to be new for a collection to be worth its time, tens of milliseconds."""


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    """Make many objects that stay, without Python looking through all of them time and again.

    Each collection of the oldest generation looks at every object of the process: while a graph of
    thousands of nodes is made, they take as long as making it. Where collections are off already
    they stay so.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def import_module(name: str) -> ModuleType:
    """`importlib.import_module` without collections, for a module that brings hundreds of others.

    Their classes and functions all stay, and Python would look through them a dozen times: that is
    a fifth of the time that layers and models take to import. Behind it they are old objects, or
    the first two collections of new ones would look through them all the same.
    """
    if name in sys.modules:
        return importlib.import_module(name)
    with no_collections():
        module = importlib.import_module(name)
        _age_objects()
    return module


def _age_objects() -> None:
    """Move all objects to the oldest generation without looking at any.

    Where the user has frozen objects these would thaw along with them, so nothing moves then.
    """
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()


class _Large:
    """The owners of large arrays that are alive, and the bytes of those that are new.

    Attributes:
        enough: bytes of new arrays with which a collection is due.
        had_model: whether a model was made in this process, which may be garbage by now.
    """

    owners: ClassVar[WeakValueDictionary[int, Any]] = WeakValueDictionary()
    new_bytes = 0
    enough = NEW_BYTES
    had_model = False


def count_large(owner: Any, bytes_held: int) -> None:
    """Take note of an object that may hold a large array for as long as it is there."""
    if bytes_held >= LARGE_BYTES:
        _Large.owners[id(owner)] = owner
        _Large.new_bytes += bytes_held


def collect_large() -> None:
    """Let go of large arrays that only garbage holds, where there may be some.

    A model and its layers refer to one another. Python counts objects until it looks for such
    cycles, and a model of a gigabyte is few: without this the next one would be made beside it.
    Where all turn out to be in use, twice as much has to be new the next time. The first model of
    a process comes after no other; its own layers may have been made before it.
    """
    if not _Large.had_model:
        _Large.had_model = True
        return
    if _Large.new_bytes < _Large.enough or not gc.isenabled():
        return
    before = len(_Large.owners)
    gc.collect()
    was_garbage = len(_Large.owners) < before
    _Large.new_bytes, _Large.enough = 0, NEW_BYTES if was_garbage else 2 * _Large.enough
