"""AutoGraph: what expressions, `assert` and calls of builtins mean on tensors."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.dispatch import late_ops, trace_state
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import is_tensor
from trainkit.core.values.python_values import short_text
from trainkit.graph.autograph.conditional_operators import is_symbolic
from trainkit.graph.control_flow.trace_cond import traced_cond
from trainkit.graph.ir.subgraphs import is_number
from trainkit.graph.ir.user_lines import RAISED_BY_USER


def if_exp(
    cond: Any, if_true: Callable[[], Any], if_false: Callable[[], Any], expr_repr: str
) -> Any:
    """A conditional expression."""
    if not is_symbolic(cond):
        return if_true() if cond else if_false()
    return traced_cond(trace_state.current_trace(), cond, if_true, if_false)


def and_(a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    """`a and b`; a symbolic `a` decides in the graph."""
    first = a()
    if not is_symbolic(first):
        return first and b()
    seconds: list[Any] = []

    def second() -> Any:
        seconds.append(_second("and", first, b()))
        return seconds[-1]

    def first_is_false() -> Any:
        # Both branches have to give one type, and this one is traced after the other, whose result
        # it knows: beside a bool a first operand of 0 becomes False.
        return False if first.dtype.is_bool or _is_bool(seconds[-1]) else first

    return traced_cond(trace_state.current_trace(), first, second, first_is_false)


def or_(a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    """`a or b`; a symbolic `a` decides in the graph."""
    first = a()
    if not is_symbolic(first):
        return first or b()
    ends = True if first.dtype.is_bool else first
    return traced_cond(
        trace_state.current_trace(), first, lambda: ends, lambda: _second("or", first, b())
    )


def _is_bool(x: Any) -> bool:
    return bool(x.dtype.is_bool) if is_tensor(x) else isinstance(x, bool)


def _second(word: str, first: Any, second: Any) -> Any:
    """What `first and second`, or `first or second`, is where `first` does not decide.

    Python gives the second operand itself. In a graph both must be of one kind: a bool in place of
    a number would be another value.

    Raises:
        InvalidArgumentError: it is no tensor, bool or number; or a number beside a bool.
    """
    if is_tensor(second) or isinstance(second, bool | np.bool_):
        return second if is_tensor(second) else bool(second)
    if first.dtype.is_bool or not is_number(second):
        raise InvalidArgumentError(
            f"{word}: the left operand is a tensor of dtype {first.dtype.name}, the right one is "
            f"{short_text(second)}. Compare it, as in `x is not None`, `len(x) > 0` or `x != 0`, "
            "or take tk.where to choose a value."
        )
    return second


def in_(a: Any, items: Any) -> Any:
    """`a in items`; a symbolic tensor among them is compared with each item in the graph."""
    within = isinstance(items, list | tuple)
    if not (is_symbolic(a) or is_symbolic(items) or (within and any(map(is_symbolic, items)))):
        return a in items
    if is_tensor(items):
        return late_ops.any(items == a, axis=None, keepdims=False)
    if not within:
        raise TypeError(
            f"`in`: a tensor without a value can't be looked for in a {type(items).__name__}; use "
            "a list, a tuple or a tensor"
        )
    is_member: Any = False
    for item in items:
        same = eq(a, item)
        is_member = same if is_member is False else _either(is_member, same)
    return is_member


def _either(a: Any, b: Any) -> Any:
    return or_(lambda: a, lambda: b)


def not_in(a: Any, items: Any) -> Any:
    """`a not in items`."""
    return not_(in_(a, items))


def not_(a: Any) -> Any:
    """`not a`."""
    return late_ops.logical_not(a) if is_symbolic(a) else not a


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
    late_ops.assert_true(expression1, message=text)


def _range(*args: Any) -> Any:
    if any(is_symbolic(a) for a in args):
        return ops.arange(*args)
    return range(*(int(a) if is_tensor(a) else a for a in args))


def length(x: Any) -> Any:
    """`len(x)`; a tensor when the size is not known while tracing."""
    if is_symbolic(x) and (len(x.shape) == 0 or x.shape[0] is None):
        return late_ops.shape(x)[0]
    return len(x)


def _int(x: Any = 0, *args: Any) -> Any:
    if is_symbolic(x):
        return late_ops.cast(x, dtype="int32")
    return int(x, *args)


def _float(x: Any = 0.0) -> Any:
    if is_symbolic(x):
        return late_ops.cast(x, dtype="float32")
    return float(x)


def _bool(x: Any = False) -> Any:
    if is_symbolic(x):
        return late_ops.cast(x, dtype="bool")
    return bool(x)


def _max(*args: Any, **kwargs: Any) -> Any:
    return _extreme(max, late_ops.maximum, args, kwargs)


def _min(*args: Any, **kwargs: Any) -> Any:
    return _extreme(min, late_ops.minimum, args, kwargs)


def _extreme(python: Any, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not kwargs and len(args) > 1 and any(is_symbolic(a) for a in args):
        return functools.reduce(operation, args)
    return python(*args, **kwargs)


def _iter(x: Any, *args: Any) -> Any:
    if not args and trace_state.THREAD.traces and hasattr(x, "iterator_of_run"):
        return x.iterator_of_run()
    return iter(x, *args)


def _zip(*args: Any, **kwargs: Any) -> Any:
    if args and not kwargs and all(map(_is_data_set, args)):
        return type(args[0]).zip(*args)
    return zip(*args, **kwargs)  # noqa: B905


def _map(f: Any, *args: Any) -> Any:
    if len(args) == 1 and _is_data_set(args[0]):
        return args[0].map(f)
    return map(f, *args)


def _filter(f: Any, x: Any) -> Any:
    return x.filter(f) if f is not None and _is_data_set(x) else filter(f, x)


def _is_data_set(x: Any) -> bool:
    """Whether `x` is a data set in a traced function, whose elements come when the graph runs."""
    return bool(trace_state.THREAD.traces) and hasattr(x, "iterator_of_run")


BUILTINS: dict[Any, Any] = {
    iter: _iter,
    enumerate: lambda x, start=0: x.enumerate(start) if _is_data_set(x) else enumerate(x, start),
    zip: _zip,
    map: _map,
    filter: _filter,
    range: _range,
    len: length,
    int: _int,
    float: _float,
    bool: _bool,
    max: _max,
    min: _min,
}


def raised(error: Any) -> Any:
    """What a `raise` statement raises, with a mark that the user's code does so."""
    exception = error() if isinstance(error, type) else error
    if isinstance(exception, Exception):
        exception.__dict__[RAISED_BY_USER] = True
    return exception


def template_string(parts: tuple[Any, ...]) -> Any:
    """A template string: texts, and tuples of what `Interpolation` takes."""
    library = importlib.import_module("string.templatelib")  # Python has it from 3.14 on
    return library.Template(
        *[part if isinstance(part, str) else library.Interpolation(*part) for part in parts]
    )


EXPRESSIONS: dict[str, Any] = {
    "if_exp": if_exp,
    "and_": and_,
    "or_": or_,
    "not_": not_,
    "in_": in_,
    "not_in": not_in,
    "eq": eq,
    "not_eq": not_eq,
    "assert_stmt": assert_stmt,
    "raised": raised,
    "template_string": template_string,
}
"""What rewritten code calls in place of expressions, by the rewriter's names."""
