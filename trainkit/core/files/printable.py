"""Texts that somebody else wrote, as a terminal may show them.

A name in a file may hold escape sequences, which move the cursor, recolour what was printed before
or set a terminal's title, letters that turn the direction of writing around, and halves of
characters that no stream can encode.
"""

from __future__ import annotations

_LAYOUT = "\n\t"


def printable(text: object, layout: str = _LAYOUT) -> str:
    r"""A text in which each character that can't be seen is written as its escape.

    Line ends and tabs stay as they are, and so does all that Python counts as printable.

    Args:
        text: what is shown, by `str`.
        layout: characters that stay, too.

    Example:
        >>> print(printable("\x1b[31mred"))
        \x1b[31mred
    """
    string = str(text)
    characters = string
    for c in layout:
        characters = characters.replace(c, "")
    if characters.isprintable():
        return string
    return "".join(c if c.isprintable() or c in layout else _escape(c) for c in string)


def printable_line(text: object) -> str:
    r"""The same for what stands in a line or a cell of a table: line ends and tabs go, too.

    Example:
        >>> print(printable_line("first\nsecond"))
        first\nsecond
    """
    string = str(text)
    if string.isprintable():
        return string
    return "".join(c if c.isprintable() else _escape(c) for c in string)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
