"""How many columns of a terminal a text takes, and texts of a given width."""

from __future__ import annotations

import unicodedata

from trainkit.core.files.printable import printable_line


def width_of(text: str) -> int:
    """The columns that a text takes: two for wide letters, none for marks over others."""
    if text.isascii():
        return len(text)
    full_width = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + full_width - sum(bool(unicodedata.combining(letter)) for letter in text)


def clipped(text: object, width: int, more: str = "…") -> str:
    """A text by somebody else in at most so many columns, in a line, with nothing hidden in it.

    Args:
        text: it.
        width: columns.
        more: what stands for the rest, where it is longer.
    """
    line = printable_line(text)
    if width_of(line) <= width:
        return line
    room, columns = max(width - width_of(more), 0), 0
    letters: list[str] = []
    for letter in line:
        columns += width_of(letter)
        if columns > room:
            break
        letters.append(letter)
    return ("".join(letters) + more)[: max(width, 0)]


def padded(text: object, width: int, right: bool = False, more: str = "…") -> str:
    """The same, filled up with spaces."""
    cell = clipped(text, width, more)
    space = " " * max(width - width_of(cell), 0)
    return space + cell if right else cell + space


def number(value: float | None) -> str:
    """A number in at most eight columns."""
    if value is None:
        return ""
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    text = f"{value:.4g}"
    return text if len(text) <= 8 else f"{value:.1e}"


def duration(seconds: float | None) -> str:
    """A time in at most six columns."""
    if seconds is None or seconds != seconds or seconds < 0:
        return ""
    for size, unit, below, smaller in (
        (1.0, "s", 60.0, ""),
        (60.0, "m", 3600.0, "s"),
        (3600.0, "h", 86400.0, "m"),
    ):
        if seconds >= below:
            continue
        units = int(seconds // size)
        if not smaller:
            return f"{seconds:.1f}s" if seconds < 10 else f"{units}s"
        return f"{units}{unit}{int((seconds - units * size) // (size / 60)):02d}{smaller}"
    days = seconds / 86400
    return f"{days:.1f}d" if days < 1000 else ">999d"
