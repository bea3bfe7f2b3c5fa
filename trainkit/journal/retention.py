"""Which checkpoints of a run to keep within a budget: dense near the end, sparse before."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", re.IGNORECASE)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def bytes_of(size: int | float | str) -> int:
    """A size in bytes: a number, or a text such as `"2GB"`.

    Raises:
        ValueError: it is neither, or below 0.

    >>> bytes_of("2GB"), bytes_of("1.5 MB"), bytes_of(10)
    (2000000000, 1500000, 10)
    """
    if isinstance(size, str):
        match = _SIZE.fullmatch(size)
        if match is None:
            raise ValueError(f"a size is a number of bytes or a text such as '2GB', got {size!r}")
        return int(float(match[1]) * _UNITS[match[2].lower()])
    if isinstance(size, bool) or not isinstance(size, int | float) or not 0 <= size < 2**63:
        raise ValueError(f"a size is a number of bytes or a text such as '2GB', got {size!r}")
    return int(size)


def superfluous(steps: Sequence[int], sizes: Sequence[int], budget: int) -> list[int]:
    """The steps whose checkpoints to remove, so that the rest fits the budget.

    One after the other goes whose neighbours lie closest together, as seen from the end: a gap as
    long as its distance from the end costs a replay no more than twice the steps that are asked
    for. The first, without which nothing before the second can be had, and the last stay.

    Args:
        steps: ascending.
        sizes: in bytes.
        budget: in bytes.

    >>> superfluous([0, 10, 20, 30, 40], [1, 1, 1, 1, 1], 4)
    [10]
    """
    left = list(zip(steps, sizes, strict=True))
    gone: list[int] = []
    while sum(size for _, size in left) > budget and len(left) > 2:
        last = left[-1][0]
        gaps = [
            (left[i + 1][0] - left[i - 1][0]) / (last - left[i - 1][0])
            for i in range(1, len(left) - 1)
        ]
        gone.append(left.pop(1 + gaps.index(min(gaps)))[0])
    return gone
