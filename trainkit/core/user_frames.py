"""Which line of the user's code is running: for error texts and explanations."""

from __future__ import annotations

import linecache
import sys
from typing import Any

Line = tuple[str, int, str]
"""File, line number, and function."""

_PACKAGE = __name__.split(".")[0]

SOURCE_MAPS: dict[str, dict[int, Line]] = {}
"""Generated file -> line in it -> the user's line that it comes from."""


def origin_of(filename: str, line: int) -> Line | None:
    """Where a generated line comes from, `None` for one that the user wrote.

    A line that comes from nowhere belongs to the one before it.
    """
    lines = SOURCE_MAPS.get(filename)
    if not lines:
        return None
    origin = lines.get(line)
    if origin is None:
        origin = lines.get(max((n for n in lines if n < line), default=-1))
    return origin


class _Modules(dict[str, bool]):
    """By its name whether a module is one of this package, or of its source rewriter."""

    def __missing__(self, module: str) -> bool:
        inside = module == _PACKAGE or module.startswith((_PACKAGE + ".", "malt."))
        self[module] = inside
        return inside


_IS_INSIDE = _Modules()
"""A table: each operation that is traced asks for all frames from it to the user's."""


def user_line() -> Line | None:
    """The innermost line that is running outside of this package and its source rewriter."""
    frame = sys._getframe(1)
    while frame is not None:
        if not _IS_INSIDE[frame.f_globals.get("__name__", "")]:
            code = frame.f_code
            origin = origin_of(code.co_filename, frame.f_lineno)
            return origin or (code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def is_readable(line: Line) -> bool:
    """Whether the source of a line can be read: what Python was piped, or `exec` runs, has none."""
    return not line[0].startswith("<") or bool(linecache.getlines(line[0]))


def line_text(line: Line | None) -> str:
    """A line as it stands in a text: `"file.py", line 3, in step`."""
    if line is None:
        return "an unknown line"
    return f'"{line[0]}", line {line[1]}, in {line[2] or "<lambda>"}'


def text_of(code: Any) -> str:
    """The source of a code object on one line, else where it stands."""
    import inspect

    try:
        source = inspect.getsource(code)
    except (OSError, TypeError):
        return f'"{code.co_filename}", line {code.co_firstlineno}'
    return " ".join(source.split())[:200]
