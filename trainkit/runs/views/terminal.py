"""What the terminal that a command writes to can show."""

from __future__ import annotations

import os
import shutil
from typing import Any, NamedTuple

from trainkit.runs.views.text_cells import clipped, padded

_NEEDED = "⣿│└─●…█"
COLORS = ("36", "33", "35", "32", "34", "31")
_LEAST_COLUMNS = 20
_MOST_COLUMNS = 400


class Terminal(NamedTuple):
    """What can be shown.

    Attributes:
        columns: how wide lines may be.
        rows: how many lines there is room for.
        colored: whether colors are shown; else nothing but letters is written.
        is_ascii: whether only ASCII can be written.
    """

    columns: int = 80
    rows: int = 24
    colored: bool = False
    is_ascii: bool = False

    def color(self, text: str, code: str) -> str:
        """A text in a color, by the number of the escape sequence."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colored and code else text

    def clip(self, text: object, width: int) -> str:
        """A text of somebody else in at most so many columns."""
        return clipped(self._encodable(text), width, self.more)

    def pad(self, text: object, width: int, right: bool = False) -> str:
        """The same, filled up with spaces."""
        return padded(self._encodable(text), width, right, self.more)

    @property
    def more(self) -> str:
        """What stands for the rest of a text."""
        return "~" if self.is_ascii else "…"

    def _encodable(self, text: object) -> str:
        string = str(text)
        return string.encode("ascii", "backslashreplace").decode() if self.is_ascii else string


def terminal_of(stream: Any) -> Terminal:
    """What a stream can show: 80 columns where it is no terminal and `COLUMNS` is not set."""
    size = shutil.get_terminal_size((80, 24))
    try:
        _NEEDED.encode(getattr(stream, "encoding", None) or "ascii")
        is_ascii = False
    except (UnicodeEncodeError, LookupError):
        is_ascii = True
    shows = stream.isatty() and not os.environ.get("NO_COLOR")
    return Terminal(
        min(max(size.columns, _LEAST_COLUMNS), _MOST_COLUMNS),
        max(size.lines, 8),
        shows and os.environ.get("TERM") != "dumb",
        is_ascii,
    )


def beside(panels: list[list[str]], width: int, columns: int, gap: int = 2) -> list[str]:
    """Panels in rows of several.

    Args:
        panels: the lines of each, all `width` columns wide.
        width: of a panel.
        columns: how many stand in a row.
        gap: columns between two.
    """
    lines: list[str] = []
    for first in range(0, len(panels), columns):
        row = panels[first : first + columns]
        for i in range(max(map(len, row), default=0)):
            parts = [panel[i] if i < len(panel) else " " * width for panel in row]
            lines.append((" " * gap).join(parts).rstrip())
        lines.append("")
    return lines
