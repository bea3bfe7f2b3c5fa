"""The user's own lines in errors and tracebacks that pass through rewritten code."""

from __future__ import annotations

import ast
import linecache
import traceback
import types
from typing import Any

from trainkit.core.errors import OpError
from trainkit.core.user_frames import SOURCE_MAPS, Line, origin_of
from trainkit.graph.ir.user_lines import place_text, with_note

_PACKAGE = __name__.split(".")[0]
_STAND_IN = "__traceback__"


def _is_internal(module: str) -> bool:
    return module.split(".")[0] in (_PACKAGE, "malt")


def placed(error: BaseException) -> BaseException:
    """`error` with the user's line that is to blame, if this package raised it and says none."""
    if not isinstance(error, OpError | TypeError | ValueError):
        return error
    blamed, inner = None, ""
    for frame, number in traceback.walk_tb(error.__traceback__):
        inner, code = frame.f_globals.get("__name__", ""), frame.f_code
        if not _is_internal(inner):
            blamed = origin_of(code.co_filename, number) or (code.co_filename, number, code.co_name)
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
    tracebacks: list[types.TracebackType] = []
    seen_generated = False
    tb = error.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        if code.co_filename in SOURCE_MAPS:
            seen_generated = True
            origin = origin_of(code.co_filename, tb.tb_lineno)
            if origin is not None and not (tracebacks and _location(tracebacks[-1]) == origin[:2]):
                tracebacks.append(_stand_in(origin, error))
        else:
            tracebacks.append(tb)
        tb = tb.tb_next
    if not seen_generated:
        return error
    last = (
        max(i for i, t in enumerate(tracebacks) if _is_users(t))
        if any(map(_is_users, tracebacks))
        else -1
    )
    user_frames = [t for i, t in enumerate(tracebacks) if i > last or _is_users(t)]
    rebuilt = None
    for tb in reversed(user_frames):
        rebuilt = types.TracebackType(rebuilt, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)
    return error.with_traceback(rebuilt)


def _location(tb: types.TracebackType) -> tuple[str, int]:
    return tb.tb_frame.f_code.co_filename, tb.tb_lineno


def _is_users(tb: types.TracebackType) -> bool:
    return not _is_internal(tb.tb_frame.f_globals.get("__name__", ""))


def _stand_in(origin: Line, error: BaseException) -> types.TracebackType:
    """A traceback entry whose frame seems to be at `origin`.

    Tools that show tracebacks look up the instruction of each entry in its code, some of them in a
    loop that never ends for a number that no instruction has. So a statement of that line is run
    and raises, and the entry is what Python makes of it.
    """
    scope: dict[str, Any] = {"error": error, "__name__": _STAND_IN}
    try:
        exec(_raising_code(origin), scope)
    except BaseException as raised:
        scope.pop("error")  # else the error would hold itself
        tb = raised.__traceback__
        assert tb is not None
        assert tb.tb_next is not None
        return tb.tb_next
    raise AssertionError("not reached")


def _raising_code(origin: Line) -> types.CodeType:
    """Code of one `raise` that stands in the line of `origin`, in a function as long as there."""
    file, line, name = origin[0], origin[1], origin[2] or "<lambda>"
    first = _first_line(file, line, name)
    tree = ast.parse("raise error")
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.expr):
            # Lines are stored relative to the first, which is 1 as long as none is set.
            node.lineno = node.end_lineno = line - first + 1
            # -1: no column is known, so none is marked below the user's line, which reads otherwise
            node.col_offset = node.end_col_offset = -1
    code = compile(tree, file, "exec")
    return code.replace(co_firstlineno=first, co_name=name, co_qualname=name)


def _first_line(file: str, line: int, name: str) -> int:
    """Where the function `name` around `line` begins: IPython shows the source from there on."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):  # a file that was changed since it was imported
        return line
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.Lambda)]
    firsts = [
        min([n.lineno, *(d.lineno for d in getattr(n, "decorator_list", ()))])
        for n in functions
        if getattr(n, "name", "<lambda>") == name and n.lineno <= line <= (n.end_lineno or 0)
    ]
    return max(firsts, default=line)  # the innermost
