"""Saving where several processes train one model: one of them writes, with the state of all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trainkit.collectives.world import started_group
from trainkit.core.trackable import Trackable, traverse


@contextmanager
def whole_state(root: Trackable) -> Iterator[bool]:
    """Context in which `root` has its whole state, and which says whether this process writes it.

    Where a strategy keeps the state of optimizers in shares, or has begun to accumulate gradients,
    all processes have to enter it together.
    """
    group = started_group()
    if group is None:
        yield True
        return
    divided = [x for _, part in traverse(root) for x in _divide(part)]
    for state in divided:
        state.gather()
    try:
        yield group.rank == 0
    finally:
        for state in divided:
            state.release()


def _divide(part: Trackable) -> list[Any]:
    """What replicas have parts of, in an optimizer: see `optimizers.base`."""
    states = [part.__dict__.get(name) for name in ("sharded_state", "sums_in_parts")]
    return [state for state in states if state is not None]


def loaded(part: Trackable, variables: set[int]) -> None:
    """Let an optimizer hear that all replicas have read values from a file.

    Args:
        part: an optimizer, or anything else.
        variables: the ids of the variables that got them.
    """
    parts = part.__dict__.get("sums_in_parts")
    if parts is not None:
        parts.loaded(variables)
