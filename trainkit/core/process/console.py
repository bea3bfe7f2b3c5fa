"""Where messages for people go: to `sys.stdout`, or to the log of the package."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

from trainkit.core.files.printable import printable

_LAYOUT = "\n\t\r\b"  # what bars are drawn with

LOG = logging.getLogger("trainkit")
"""What takes the messages of programs that nobody watches."""


class _Mode:
    interactive = True
    muted = 0


@contextlib.contextmanager
def muted() -> Iterator[None]:
    """A context in which nothing is sent out: another process says the same."""
    _Mode.muted += 1
    try:
        yield
    finally:
        _Mode.muted -= 1


def enable_interactive_logging() -> None:
    """Let training, summaries and callbacks write to `sys.stdout`, as they do at the start.

    Example:
        >>> tk.utils.enable_interactive_logging()
        >>> tk.utils.is_interactive_logging_enabled()
        True
    """
    _Mode.interactive = True


def disable_interactive_logging() -> None:
    """Let training, summaries and callbacks write to the log `"trainkit"`, at the level INFO.

    Bars are then not drawn in place: each time they have something to say, they say it in a line.

    Example:
        >>> tk.utils.disable_interactive_logging()
        >>> tk.utils.is_interactive_logging_enabled()
        False
        >>> tk.utils.enable_interactive_logging()
    """
    _Mode.interactive = False


def is_interactive_logging_enabled() -> bool:
    """Whether messages go to `sys.stdout`, not to the log.

    Example:
        >>> tk.utils.is_interactive_logging_enabled()
        True
    """
    return _Mode.interactive


def kind_of(stream: Any) -> str:
    """What a stream leads to: `"terminal"`, `"notebook"` or `"file"`."""
    if type(stream).__module__.partition(".")[0] in ("ipykernel", "xeus_python"):
        return "notebook"
    try:
        return "terminal" if stream.isatty() else "file"
    except (AttributeError, ValueError):  # no stream, or a closed one
        return "file"


def write(text: str) -> None:
    """Send out a text; the log gets each of its lines that is not empty.

    It may hold names from files: what would move the cursor elsewhere, or that no stream can
    encode, is written as its escape.
    """
    if _Mode.muted:
        return
    text = printable(text, _LAYOUT)
    if not _Mode.interactive:
        for line in text.replace("\r", "\n").split("\n"):
            if line.strip():
                LOG.info("%s", line.rstrip())
        return
    stream = sys.stdout
    if stream is not None:  # a program without a console has none
        _send(stream, text)


def say(text: str) -> None:
    """Send out a line."""
    write(f"{text}\n")


def say_beside(text: str) -> None:
    """Send out a line that does not belong to the output: to `sys.stderr`, or to the log."""
    if not _Mode.interactive:
        say(text)
    elif sys.stderr is not None and not _Mode.muted:
        _send(sys.stderr, f"{printable(text)}\n")


def _send(stream: Any, text: str) -> None:
    """Write to a stream; what a terminal that was closed (SIGHUP) would show is nothing's failure.

    The stream then leads nowhere, or the text that it still holds would be an error at exit.
    """
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
