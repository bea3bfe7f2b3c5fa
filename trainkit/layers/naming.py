"""Names of layers that were given none: `dense`, `dense_1`, `dense_2` ..."""

from __future__ import annotations

import threading

from trainkit.core.registry import snake_case

_LOCK = threading.Lock()
_COUNTS: dict[
    str, int
] = {}  # one number per class name, so it never grows with the number of layers


def unique_name(prefix: str) -> str:
    """`prefix` the first time, then `prefix_1`, `prefix_2` and so on, in this process.

    >>> reset_names()
    >>> unique_name("dense"), unique_name("dense")
    ('dense', 'dense_1')
    """
    with _LOCK:
        count = _COUNTS.get(prefix, 0)
        _COUNTS[prefix] = count + 1
    return f"{prefix}_{count}" if count else prefix


def name_for(kind: type) -> str:
    """A name for a new object of class `kind`."""
    return unique_name(snake_case(kind.__name__))


def reset_names() -> None:
    """Count from the start again."""
    with _LOCK:
        _COUNTS.clear()
