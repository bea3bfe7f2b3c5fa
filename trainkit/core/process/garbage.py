"""When Python looks for garbage in cycles."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


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
