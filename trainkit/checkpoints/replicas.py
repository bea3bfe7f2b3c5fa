"""Saving where several processes train one model: one of them writes, with the state of all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trainkit.collectives.world import started_group
from trainkit.core.trackable import Trackable, traverse


@contextmanager
def whole_state(root: Trackable) -> Iterator[bool]:
    """Context in which `root` has its whole state, and which says whether this process writes it.

    Where a strategy keeps the state of optimizers in shares, all processes have to enter it
    together.

    Args:
        root: what is to be saved.
    """
    group = started_group()
    if group is None:
        yield True
        return
    shared = [part for _, part in traverse(root) if getattr(part, "sharded_state", None)]
    for part in shared:
        part.sharded_state.gather()  # type: ignore[attr-defined]
    try:
        yield group.rank == 0
    finally:
        for part in shared:
            part.sharded_state.release()  # type: ignore[attr-defined]
