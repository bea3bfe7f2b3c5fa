"""`StatusLine`: a text on the screen that is drawn again and again in its place."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

from trainkit.core.files.printable import printable, printable_line
from trainkit.core.process import forks
from trainkit.core.process.console import is_interactive_logging_enabled, kind_of, write

_WIDEST_BAR = 20
_BARS = (_WIDEST_BAR, 10, 5, 0)
_INDENT = "    "
_BETWEEN = " - "
_FEWEST_COLUMNS = 20
_USUAL_COLUMNS, _USUAL_ROWS = 80, 24


_Shown = tuple[str, float | None, list[str]]
"""What is drawn: the arguments of `fitted`."""


def columns_of(stream: Any) -> int:
    """How many columns a terminal has, 80 where it does not say."""
    return _said_columns(stream) or _USUAL_COLUMNS


def _width_of(stream: Any) -> int:
    """How long the rows of a terminal may be."""
    return max(columns_of(stream) - 1, _FEWEST_COLUMNS)


def _said_columns(stream: Any) -> int | None:
    """What a terminal says of its columns, which may be 0; `None` for anything else."""
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (AttributeError, OSError, ValueError):
        return None


def bar_text(share: float, width: int, plain: bool) -> str:
    """A bar of `width` characters, of which `share` in [0, 1] are filled.

    Args:
        share: how much is done.
        width: in characters.
        plain: of ASCII characters alone.
    """
    full, empty = ("=", ".") if plain else ("━", "╌")
    filled = int(width * min(max(share, 0.0), 1.0))
    return full * filled + empty * (width - filled)


def fitted(
    head: str,
    share: float | None,
    pieces: list[str],
    columns: int,
    widest: int = _WIDEST_BAR,
    plain: bool = False,
) -> list[str]:
    """Rows of at most `columns` characters, one if that is enough; nothing is left out.

    The bar becomes shorter, then goes; what is still too much goes on in the next row.

    Args:
        head: what comes first.
        share: of the bar, `None` for no bar.
        pieces: what follows, each kept in one piece.
        columns: of the screen.
        widest: characters of the bar where there is room.
        plain: see `bar_text`.
    """
    for width in sorted({min(bar, widest) for bar in _BARS}, reverse=True):
        drawn = "" if share is None or not width else bar_text(share, width, plain)
        first = " ".join(part for part in (head, drawn) if part)
        line = _BETWEEN.join(part for part in (first, *pieces) if part)
        if len(line) <= columns:
            return [line]
    rows, row = [], head
    for piece in pieces:
        longer = f"{row}{_BETWEEN}{piece}"
        if len(longer) <= columns:
            row = longer
        else:
            rows.append(row)
            row = _INDENT + piece
    return [*rows, row]


class StatusLine:
    """Draws on `sys.stdout`: in place on a terminal and in a notebook, line by line elsewhere.

    Each row is a bar of tqdm, so that it stands well below bars that the program draws itself. On
    a terminal the text may take several rows; a notebook gets one, which it breaks itself.
    """

    def __init__(self, width: int = _WIDEST_BAR) -> None:
        self._width = width
        self._lock = forks.make_rlock()
        self._rows: list[Any] = []
        self._drawn: _Shown | None = None
        self._status = ""

    @property
    def kind(self) -> str:
        """`"terminal"`, `"notebook"` or `"file"`, where the output goes now; a log is a file."""
        return kind_of(sys.stdout) if is_interactive_logging_enabled() else "file"

    def draw(self, head: str, share: float | None = None, pieces: list[str] | None = None) -> None:
        """Show this in place of what was drawn before; the arguments are those of `fitted`."""
        with self._lock:
            self._drawn = (head, share, pieces or [])
            kind = self.kind
            texts = self._fit(kind, *self._drawn)
            if kind == "file":
                write("\n".join(texts) + "\n")
            else:
                self._set_rows(self._with_status(kind, texts))

    def say(self, head: str, pieces: list[str]) -> None:
        """Write this once, broken into rows between its pieces where a terminal is narrow."""
        write("\n".join(self._fit(self.kind, head, None, pieces)) + "\n")

    def end(self, head: str, share: float | None = None, pieces: list[str] | None = None) -> None:
        """Show this for good: what is drawn later comes below."""
        with self._lock:
            status, self._status = self._status, ""
            if self.kind == "file":
                self.draw(head, share, pieces)
            else:
                texts, drawn = self._fit(self.kind, head, share, pieces or []), len(self._rows)
                # a row is drawn when it is left, so that it is not drawn before as well
                self._set_rows(texts[:drawn], redraws=False)
                self.leave()
                for text in texts[drawn:]:
                    _row_class().write(printable_line(text), file=sys.stdout)
            self._status = status

    def clear(self) -> None:
        """Take what was drawn off the screen."""
        with self._lock:
            self._set_rows([])
            self._drawn, self._status = None, ""

    def leave(self) -> None:
        """Keep what was drawn as it is, but for a status: what is drawn later comes below."""
        with self._lock:
            self.status("")
            for row in self._rows:
                row.leave = True
                row.close()
            self._rows, self._drawn = [], None

    def status(self, text: str) -> None:
        """Show a text with what is drawn, until the next one; an empty one takes it away.

        It is in a row of its own below, in a notebook in the same row. A file has no room for it.
        """
        with self._lock:
            if text == self._status or self.kind == "file":
                return
            self._status = text
            texts = [] if self._drawn is None else self._fit(self.kind, *self._drawn)
            self._set_rows(self._with_status(self.kind, texts))

    def note(self, text: str) -> None:
        """Print a line above what is drawn."""
        with self._lock:
            if self.kind == "file":
                write(text + "\n")
            else:
                _row_class().write(printable(text), file=sys.stdout)

    def _set_rows(self, texts: list[str], redraws: bool = True) -> None:
        while len(self._rows) > len(texts):
            self._rows.pop().close()
        for row, text in zip(self._rows, texts, strict=False):
            row.set_description_str(printable_line(text), refresh=redraws)
        for text in texts[len(self._rows) :]:
            self._rows.append(_row_class()(desc=printable_line(text), file=sys.stdout))

    def _with_status(self, kind: str, texts: list[str]) -> list[str]:
        if not self._status:
            return texts
        if kind == "terminal":
            row = _INDENT + self._status if texts else self._status
            return [*texts, row[: _width_of(sys.stdout)]]
        return [_BETWEEN.join([*texts, self._status])]

    def _fit(self, kind: str, head: str, share: float | None, pieces: list[str]) -> list[str]:
        columns = _width_of(sys.stdout) if kind == "terminal" else sys.maxsize
        bar = None if kind == "file" else share
        return fitted(head, bar, pieces, columns, self._width, _is_ascii(sys.stdout))


@functools.cache
def _row_class() -> Any:
    """A bar of tqdm that is a text, drawn when it is set; tqdm is loaded with the first one."""
    from tqdm import tqdm

    class Row(tqdm):
        monitor_interval = 0  # no thread that draws it in between

        def __init__(self, desc: str, file: Any) -> None:
            facts: dict[str, Any] = {"bar_format": "{desc}", "leave": False, "mininterval": 0}
            if _said_columns(file) == 0:  # where tqdm draws nothing
                facts |= {"ncols": _USUAL_COLUMNS, "nrows": _USUAL_ROWS}
            super().__init__(desc=desc, file=file, **facts)

    return Row


def _is_ascii(stream: Any) -> bool:
    try:
        "━╌".encode(getattr(stream, "encoding", None) or "utf-8")
    except (LookupError, UnicodeEncodeError):
        return True
    return False
