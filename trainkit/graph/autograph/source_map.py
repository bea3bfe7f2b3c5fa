"""The user's own lines in errors and tracebacks that pass through rewritten code."""

from __future__ import annotations

import traceback
import types

from trainkit.core.errors import OpError
from trainkit.core.user_frames import SOURCE_MAPS, Line, origin_of
from trainkit.graph.ir.user_lines import place_text, with_note

_PACKAGE = __name__.split(".")[0]
_STAND_IN = "__traceback__"


def _is_internal(module: str) -> bool:
    return module.split(".")[0] in (_PACKAGE, "malt")


def placed(error: Exception) -> Exception:
    """`error` with the user's line that is to blame, if this package raised it and says none."""
    if not isinstance(error, OpError | TypeError | ValueError):
        return error
    blamed, inner = None, ""
    for frame, number in traceback.walk_tb(error.__traceback__):
        inner, code = frame.f_globals.get("__name__", ""), frame.f_code
        if not _is_internal(inner):
            blamed = origin_of(code.co_filename, number) or (
                code.co_filename,
                number,
                code.co_name,
            )
    stands_for_python = inner == f"{_PACKAGE}.graph.autograph.builtins"  # int(), max() and so on
    if blamed is None or not _is_internal(inner) or stands_for_python:
        return error
    return with_note(error, place_text(blamed, "at "))


def in_user_terms(error: BaseException) -> BaseException:
    """`error` with a traceback that shows the user's source where generated code ran.

    Frames of the rewriting itself are left out. An error that did not pass through generated code
    stays
    as it is.
    """
    kept: list[types.TracebackType] = []
    seen_generated = False
    tb = error.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        if code.co_filename in SOURCE_MAPS:
            seen_generated = True
            origin = origin_of(code.co_filename, tb.tb_lineno)
            if origin is not None and not (kept and _place(kept[-1]) == origin[:2]):
                kept.append(_stand_in(origin, error))
        else:
            kept.append(tb)
        tb = tb.tb_next
    if not seen_generated:
        return error
    last = max(i for i, t in enumerate(kept) if _is_users(t)) if any(map(_is_users, kept)) else -1
    shown = [t for i, t in enumerate(kept) if i > last or _is_users(t)]
    rebuilt = None
    for tb in reversed(shown):
        stands_in = tb.tb_frame.f_globals.get("__name__") == _STAND_IN
        at = -1 if stands_in else tb.tb_lasti  # -1: no column is marked
        rebuilt = types.TracebackType(rebuilt, tb.tb_frame, at, tb.tb_lineno)
    return error.with_traceback(rebuilt)


def _place(tb: types.TracebackType) -> tuple[str, int]:
    return tb.tb_frame.f_code.co_filename, tb.tb_lineno


def _is_users(tb: types.TracebackType) -> bool:
    return not _is_internal(tb.tb_frame.f_globals.get("__name__", ""))


def _stand_in(origin: Line, error: BaseException) -> types.TracebackType:
    """A traceback entry whose frame seems to be at `origin`."""
    file, line, function = origin
    code = compile("\n" * (line - 1) + "raise error", file, "exec").replace(
        co_name=function or "<module>"
    )
    try:
        exec(code, {"error": error, "__name__": _STAND_IN})
    except BaseException as raised:
        tb = raised.__traceback__
        assert tb is not None
        assert tb.tb_next is not None
        return tb.tb_next
    raise AssertionError("not reached")
