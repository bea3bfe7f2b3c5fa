"""The user's own lines in errors: those that made a node, or that are being traced."""

from __future__ import annotations

from typing import Any

from trainkit.core.user_frames import Line, line_text, user_line


def place_text(line: Line | None, before: str = "") -> str:
    """`before` and `line` as a traceback shows it; empty when it is not known."""
    return f"{before}{line_text(line)}" if line else ""


def located(error: Exception, node: Any) -> Exception:
    """`error` with the user's line that made `node` added to its text."""
    if node.where is None:
        return error
    return with_note(error, f"in node {node.name!r}, made {place_text(node.where, 'at ')}")


def at_user_line(error: Exception) -> Exception:
    """`error` with the line that is being traced added to its text."""
    line = place_text(user_line(), "at ")
    return with_note(error, line) if line else error


RAISED_BY_USER = "_raised_by_user"
"""Mark of errors that a `raise` statement of the user's made, whose text is left alone."""


def with_note(error: Exception, note: str) -> Exception:
    """`error` with a line added to its text, where it has none of a node or place yet."""
    if RAISED_BY_USER in error.__dict__:
        return error
    if not error.args or not isinstance(error.args[0], str):
        return error
    text = error.args[0]
    if "\n  in node " in text or '\n  at "' in text:
        return error
    try:
        noted = type(error)(f"{text}\n  {note}")
    except TypeError:
        return error
    return noted.with_traceback(error.__traceback__)
