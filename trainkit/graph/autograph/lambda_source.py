"""Which lambda in a file a function is.

`malt` goes by lines and arguments: it knows no lambda among the decorators of a function, nor which
of two on one line. The columns of the compiled code say it.

Imported on first use only, since it imports `malt`.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import types
from typing import Any

from malt.pyct import inspect_utils, naming, origin_info, transformer, transpiler

_Position = tuple[int, int]
"""Line, and column in bytes of UTF-8."""


class LambdaReader(transpiler.GenericTranspiler):
    """Hands lambdas over to be rewritten; other functions are left to `malt`."""

    def transform_function(self, fn: Any, user_context: Any) -> Any:
        if not inspect_utils.islambda(fn):
            return super().transform_function(fn, user_context)
        node, source = lambda_source(fn)
        file = inspect.getsourcefile(fn)
        origin_info.resolve(node, source, file, fn.__code__.co_firstlineno, node.col_offset)
        namespace = inspect_utils.getnamespace(fn)
        namer = naming.Namer(namespace)
        info = transformer.EntityInfo(
            name=namer.new_symbol(self.get_transformed_name(node), ()),
            source_code=source,
            source_file="<fragment>",
            future_features=inspect_utils.getfutureimports(fn),
            namespace=namespace,
        )
        context = transformer.Context(info, namer, user_context)
        return self.transform_ast(self._erase_arg_defaults(node), context), context


def lambda_source(function: types.FunctionType) -> tuple[ast.Lambda, str]:
    """The syntax tree of a lambda, numbered from its own first line, and its text.

    Raises:
        ValueError: its file has no such lambda, or several that look the same.
    """
    code = function.__code__
    lines = linecache.getlines(inspect.getsourcefile(function) or "", function.__globals__)
    nodes = [n for n in _lambdas("".join(lines)) if _may_be(n, code)]
    spans = _spans(code)
    if spans:
        # A lambda around it spans its body, too: the innermost begins last.
        around = [n for n in nodes if _body_spans(n, spans)]
        nodes = sorted(around, key=lambda n: (n.lineno, n.col_offset))[-1:]
    if len(nodes) != 1:
        raise ValueError(
            f"line {code.co_firstlineno} of {code.co_filename} has "
            f"{'several lambdas' if nodes else 'no lambda'} with these arguments; define a function"
        )
    # In parentheses, since a line may end anywhere in it.
    text = f"({ast.get_source_segment(''.join(lines), nodes[0])})"
    statement = ast.parse(text).body[0]
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Lambda)
    return statement.value, text


@functools.lru_cache(maxsize=8)
def _lambdas(text: str) -> tuple[ast.Lambda, ...]:
    return tuple(n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Lambda))


def _may_be(node: ast.Lambda, code: types.CodeType) -> bool:
    """Whether line and arguments are those of the code."""
    a = node.args
    plain = [x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
    variadic = [x.arg for x in (a.vararg, a.kwarg) if x is not None]
    names = code.co_varnames[: len(plain) + len(variadic)]
    return node.lineno == code.co_firstlineno and names == (*plain, *variadic)


def _spans(code: types.CodeType) -> list[tuple[_Position, _Position]]:
    """From where to where in the file its instructions come; none if it was compiled without."""
    spans = []
    for line, end_line, column, end_column in code.co_positions():
        if line is None or end_line is None or column is None or end_column is None:
            continue
        if (line, column) != (end_line, end_column):  # else it begins the function
            spans.append(((line, column), (end_line, end_column)))
    return spans


def _body_spans(node: ast.Lambda, spans: list[tuple[_Position, _Position]]) -> bool:
    body = node.body
    begin = body.lineno, body.col_offset
    end = body.end_lineno or 0, body.end_col_offset or 0
    return all(begin <= first and last <= end for first, last in spans)
