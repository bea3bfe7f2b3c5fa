"""Numbers that texts spell."""

from __future__ import annotations


def read_number(text: str | bytes, whole: bool) -> int | float:
    """The number that a text spells with ASCII digits.

    Python's own readers take more: "12_34", which is a name in a table, would be 1234.

    Args:
        text: the digits, with spaces around them or not.
        whole: an int is read, and no fraction.

    Raises:
        ValueError: it spells none.
    """
    if not text.isascii() or (b"_" if isinstance(text, bytes) else "_") in text:  # type: ignore[operator]
        raise ValueError(f"{text!r} is no number")
    return int(text) if whole else float(text)
