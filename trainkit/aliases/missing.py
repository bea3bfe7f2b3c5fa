"""What a program asked for and trainkit does not have, with counts."""

from __future__ import annotations

import collections

COUNTS: collections.Counter[str] = collections.Counter()
"""How often each name was asked for in vain, such as `{"tensorflow.contrib": 2}`."""


def sentence() -> str:
    """One line with the names, the most frequent first; empty if all were there."""
    if not COUNTS:
        return ""
    names = [f"{n} ({count} times)" if count > 1 else n for n, count in COUNTS.most_common()]
    return "asked for, and not there: " + ", ".join(names)
