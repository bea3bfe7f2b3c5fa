"""AutoGraph: what expressions, `assert` and calls of builtins mean on tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from trainkit.core import recorder
from trainkit.core.tensor import PRIMITIVES, is_tensor
from trainkit.graph.branches import traced_cond
from trainkit.graph.statements import is_symbolic


def if_exp(
    cond: Any, if_true: Callable[[], Any], if_false: Callable[[], Any], expr_repr: str
) -> Any:
    """A conditional expression."""
    if not is_symbolic(cond):
        return if_true() if cond else if_false()
    return traced_cond(recorder.current_trace(), cond, if_true, if_false)


def and_(a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    """`a and b`; a symbolic `a` decides in the graph."""
    first = a()
    if not is_symbolic(first):
        return first and b()
    return traced_cond(recorder.current_trace(), first, lambda: _as_bool(b()), lambda: False)


def or_(a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    """`a or b`; a symbolic `a` decides in the graph."""
    first = a()
    if not is_symbolic(first):
        return first or b()
    return traced_cond(recorder.current_trace(), first, lambda: True, lambda: _as_bool(b()))


def _as_bool(x: Any) -> Any:
    return x if is_tensor(x) else bool(x)


def not_(a: Any) -> Any:
    """`not a`."""
    return PRIMITIVES["logical_not"].op(a) if is_symbolic(a) else not a


def eq(a: Any, b: Any) -> Any:
    """`a == b`."""
    return a == b


def not_eq(a: Any, b: Any) -> Any:
    """`a != b`."""
    return a != b


def assert_stmt(expression1: Any, expression2: Callable[[], Any]) -> None:
    """An `assert` statement; on a symbolic tensor it is checked when the graph runs."""
    if not is_symbolic(expression1):
        assert expression1, expression2()
        return
    message = expression2()
    text = "assertion failed" if message is None else str(message)
    PRIMITIVES["assert_true"].op(expression1, message=text)


def _range(*args: Any) -> Any:
    if any(is_symbolic(a) for a in args):
        from trainkit import ops

        return ops.arange(*args)
    return range(*(int(a) if is_tensor(a) else a for a in args))


def length(x: Any) -> Any:
    """`len(x)`; a tensor when the size is not known while tracing."""
    if is_symbolic(x) and (not x.shape or x.shape[0] is None):
        return PRIMITIVES["shape"].op(x)[0]
    return len(x)


def _int(x: Any = 0, *args: Any) -> Any:
    if is_symbolic(x):
        return PRIMITIVES["cast"].op(x, dtype="int32")
    return int(x, *args)


def _float(x: Any = 0.0) -> Any:
    if is_symbolic(x):
        return PRIMITIVES["cast"].op(x, dtype="float32")
    return float(x)


def _bool(x: Any = False) -> Any:
    if is_symbolic(x):
        return PRIMITIVES["cast"].op(x, dtype="bool")
    return bool(x)


def _max(*args: Any, **kwargs: Any) -> Any:
    return _extreme(max, "maximum", args, kwargs)


def _min(*args: Any, **kwargs: Any) -> Any:
    return _extreme(min, "minimum", args, kwargs)


def _extreme(python: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not kwargs and len(args) > 1 and any(is_symbolic(a) for a in args):
        return functools.reduce(PRIMITIVES[name].op, args)
    return python(*args, **kwargs)


BUILTINS: dict[Any, Any] = {
    range: _range,
    len: length,
    int: _int,
    float: _float,
    bool: _bool,
    max: _max,
    min: _min,
}


EXPRESSIONS: dict[str, Any] = {
    "if_exp": if_exp,
    "and_": and_,
    "or_": or_,
    "not_": not_,
    "eq": eq,
    "not_eq": not_eq,
    "assert_stmt": assert_stmt,
}
"""What rewritten code calls in place of expressions, by the rewriter's names."""
