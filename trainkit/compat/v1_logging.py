"""`tk.compat.v1.logging`: version 1's functions on the logger "trainkit" of Python's `logging`."""

from __future__ import annotations

import logging as _logging
from typing import Any

from trainkit.core.process.console import LOG as _LOGGER

DEBUG = _logging.DEBUG
INFO = _logging.INFO
WARN = _logging.WARNING
ERROR = _logging.ERROR
FATAL = _logging.CRITICAL

_COUNTS: dict[str, int] = {}  # by texts of `log_every_n` and `log_first_n`, which a program has few


def set_verbosity(v: int | str) -> None:
    """Leave out messages below a level.

    Args:
        v: such as `tk.compat.v1.logging.ERROR`, or its name.

    Example:
        >>> tk.compat.v1.logging.set_verbosity(tk.compat.v1.logging.ERROR)
        >>> tk.compat.v1.logging.get_verbosity()
        40
    """
    _LOGGER.setLevel(
        {"WARN": "WARNING", "FATAL": "CRITICAL"}.get(v, v) if isinstance(v, str) else v
    )


def get_verbosity() -> int:
    """The level below which messages are left out."""
    return _LOGGER.getEffectiveLevel()


def log(level: int, msg: Any, *args: Any) -> None:
    """Give out a message.

    Args:
        level: such as `tk.compat.v1.logging.INFO`.
        msg: a text with places for `args`, as for `%`.
        *args: what is put into them.
    """
    _LOGGER.log(level, msg, *args)


def log_if(level: int, msg: Any, condition: Any, *args: Any) -> None:
    """`log` where `condition` holds."""
    if condition:
        _LOGGER.log(level, msg, *args)


def log_every_n(level: int, msg: Any, n: int, *args: Any) -> None:
    """`log` at the first of every `n` calls with this text."""
    log_if(level, msg, _count_of(msg) % n == 0, *args)


def log_first_n(level: int, msg: Any, n: int, *args: Any) -> None:
    """`log` at the first `n` calls with this text."""
    log_if(level, msg, _count_of(msg) < n, *args)


def _count_of(msg: Any) -> int:
    """How often a text came before, which counts this time as well."""
    count = _COUNTS[msg] = _COUNTS.get(msg, -1) + 1
    return count


def vlog(level: int, msg: Any, *args: Any) -> None:
    """`log`, by levels that fall from 0, which is `INFO`."""
    _LOGGER.log(DEBUG if level > 0 else INFO, msg, *args)


def debug(msg: Any, *args: Any) -> None:
    """`log` of level `DEBUG`."""
    _LOGGER.debug(msg, *args)


def info(msg: Any, *args: Any) -> None:
    """`log` of level `INFO`."""
    _LOGGER.info(msg, *args)


def warning(msg: Any, *args: Any) -> None:
    """`log` of level `WARN`."""
    _LOGGER.warning(msg, *args)


warn = warning


def error(msg: Any, *args: Any) -> None:
    """`log` of level `ERROR`."""
    _LOGGER.error(msg, *args)


def fatal(msg: Any, *args: Any) -> None:
    """`log` of level `FATAL`."""
    _LOGGER.critical(msg, *args)


def flush() -> None:
    """Write what handlers hold back."""
    for handler in _LOGGER.handlers:
        handler.flush()
