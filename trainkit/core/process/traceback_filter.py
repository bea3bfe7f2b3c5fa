"""Tracebacks without the frames of this package, where Python prints what nobody has caught."""

from __future__ import annotations

import pathlib
import sys
import types
from typing import Any

_PACKAGE = str(pathlib.Path(__file__).resolve().parents[2]) + "/"


class _Hook:
    before: Any = None


def enable_traceback_filtering() -> None:
    """Let Python leave the frames of this package out of the tracebacks that it prints.

    It is off at the start. Errors themselves, and what `traceback` and debuggers make of them, stay
    as they are: only `sys.excepthook` is replaced.

    Example:
        >>> tk.debugging.enable_traceback_filtering()
        >>> tk.debugging.is_traceback_filtering_enabled()
        True
        >>> tk.debugging.disable_traceback_filtering()
    """
    if _Hook.before is None:
        _Hook.before, sys.excepthook = sys.excepthook, _shown


def disable_traceback_filtering() -> None:
    """Let Python print tracebacks with all their frames, as it does at the start.

    Example:
        >>> tk.debugging.disable_traceback_filtering()
        >>> tk.debugging.is_traceback_filtering_enabled()
        False
    """
    if _Hook.before is not None and sys.excepthook is _shown:
        sys.excepthook = _Hook.before
    _Hook.before = None


def is_traceback_filtering_enabled() -> bool:
    """Whether frames of this package are left out of tracebacks that Python prints.

    Example:
        >>> tk.debugging.is_traceback_filtering_enabled()
        False
    """
    return _Hook.before is not None


def filtered(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback without the frames of this package, but for the last frame if all are.

    Args:
        traceback: `__traceback__` of an error; it is not changed.
    """
    frames = []
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    user_frames = [tb for tb in frames if not _is_ours(tb.tb_frame.f_code.co_filename)]
    chain = None
    for tb in reversed(user_frames or frames[-1:]):
        chain = types.TracebackType(chain, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)
    return chain


def _is_ours(file: str) -> bool:
    """Whether code is of this package; compiled code has names of its sources, from `trainkit`."""
    return file.startswith(_PACKAGE) or file.startswith("trainkit/")


def _shown(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
    _Hook.before(kind, error.with_traceback(filtered(traceback)), filtered(traceback))
