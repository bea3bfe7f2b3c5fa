"""Assertions on values, ranks, shapes and dtypes, eagerly and in graphs.

Assertions on values become nodes of a graph being traced and are checked each time it runs; ranks,
shapes and dtypes are checked at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import numpy as np

from trainkit.core import dtypes
from trainkit.core.dispatch import trace_state
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.names import control_dependencies
from trainkit.core.shapes import TensorShape
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.values.docstrings import describe_arguments
from trainkit.core.values.type_aliases import DTypeLike, TensorLike
from trainkit.ops.core.run_time_checks import assert_true
from trainkit.ops.math.comparisons import (
    equal,
    greater,
    greater_equal,
    isfinite,
    less,
    less_equal,
    not_equal,
)
from trainkit.ops.math.elementwise import absolute, identity, subtract
from trainkit.ops.math.predicates import all as all_

Holds = Callable[[Any, Any], Any]


def _pair(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Both as tensors; a list or shape takes the dtype of the other."""
    if isinstance(x, TensorShape):
        x = list(x)
    if isinstance(y, TensorShape):
        y = list(y)
    hint = x.dtype if is_tensor(x) else y.dtype if is_tensor(y) else None
    return convert_to_tensor(x, dtype_hint=hint), convert_to_tensor(y, dtype_hint=hint)


def _text(name: str, symbol: str, message: Any, summarize: Any) -> str:
    head = f"{name}: {message}\n" if message else ""
    return f"{head}{name}: the condition x {symbol} y does not hold for all elements"


def _compare(name: str, symbol: str, holds: Holds, x: Any, y: Any, message: Any) -> Any:
    a, b = _pair(x, y)
    return _check(holds(a, b), _text(name, symbol, message, None), a, b)


def _check(condition: Any, text: str, *tensors: Any) -> Any:
    """Raise unless the condition holds: now, or when the graph runs.

    In a graph of version 1 it is an operation, which is run where something depends on it.
    """
    if isinstance(condition, SymbolicTensor):
        by_hand = getattr(trace_state.current_graph(), "by_hand", None)
        if by_hand is not None:
            checked = (condition, *tensors)
            return by_hand.effect(
                "Assert", lambda values: _check(values[0], text, *values[1:]), checked
            )
        assert_true(condition, *tensors, message=text)
        return None
    if not bool(all_(condition)):
        values = "".join(f"\n  {t.numpy()!r}" for t in tensors)
        raise InvalidArgumentError(text + values)
    return None


def assert_equal(
    x: TensorLike,
    y: TensorLike,
    message: str | None = None,
    summarize: Any = None,
    name: str | None = None,
) -> object:
    """Raise `InvalidArgumentError` unless x == y for all elements, after broadcasting.

    Example:
        >>> tk.debugging.assert_equal([1, 2], [1, 2])
    """
    if isinstance(x, list | tuple) and isinstance(y, list | tuple):
        is_broadcast = len(x) == len(y) or 1 in (len(x), len(y))
    else:
        is_broadcast = True
    if not is_broadcast:
        _check(
            convert_to_tensor(False), _text("assert_equal", "==", message, summarize), *_pair(x, y)
        )
    return _compare("assert_equal", "==", equal, x, y, message)


class _Comparison(Protocol):
    def __call__(
        self,
        x: TensorLike,
        y: TensorLike,
        message: str | None = None,
        summarize: Any = None,
        name: str | None = None,
    ) -> object: ...


class _SignCheck(Protocol):
    def __call__(
        self,
        x: TensorLike,
        message: str | None = None,
        summarize: Any = None,
        name: str | None = None,
    ) -> object: ...


def _describe(function: Any, name: str, condition: str, example: str) -> Any:
    """`function` as one of this module that raises unless `condition` holds."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Raise `InvalidArgumentError` unless {condition}.

    Example:
        >>> tk.debugging.{name}({example})
    """
    return function


def _comparison(name: str, symbol: str, holds: Holds, example: str) -> _Comparison:
    """The assertion that all elements of two tensors compare so."""

    def check(
        x: TensorLike,
        y: TensorLike,
        message: str | None = None,
        summarize: Any = None,
        name: str | None = None,
    ) -> object:
        return _compare(check.__name__, symbol, holds, x, y, message)

    condition = f"x {symbol} y for all elements, after broadcasting"
    return cast(_Comparison, _describe(check, name, condition, example))


def _sign(name: str, symbol: str, holds: Holds, elements: str, example: str) -> _SignCheck:
    """The assertion that all elements of a tensor compare so with 0."""

    def check(
        x: TensorLike, message: str | None = None, summarize: Any = None, name: str | None = None
    ) -> object:
        return _compare(check.__name__, symbol, holds, x, 0, message)

    return cast(_SignCheck, _describe(check, name, f"all elements are {elements}", example))


assert_none_equal = _comparison("assert_none_equal", "!=", not_equal, "[1, 2], [3, 4]")
assert_less = _comparison("assert_less", "<", less, "[1, 2], 3")
assert_less_equal = _comparison("assert_less_equal", "<=", less_equal, "[1, 2], 2")
assert_greater = _comparison("assert_greater", ">", greater, "[2, 3], 1")
assert_greater_equal = _comparison("assert_greater_equal", ">=", greater_equal, "[1, 2], 1")
assert_positive = _sign("assert_positive", ">", greater, "above 0", "[1, 2]")
assert_negative = _sign("assert_negative", "<", less, "below 0", "[-1, -2]")
assert_non_negative = _sign("assert_non_negative", ">=", greater_equal, "0 or above", "[0, 1]")
assert_non_positive = _sign("assert_non_positive", "<=", less_equal, "0 or below", "[0, -1]")


def assert_near(
    x: TensorLike,
    y: TensorLike,
    rtol: Any = None,
    atol: Any = None,
    message: str | None = None,
    summarize: Any = None,
    name: str | None = None,
) -> object:
    """Raise `InvalidArgumentError` unless |x - y| <= atol + rtol * |y| for all elements.

    Args:
        x: tensor of a floating dtype.
        y: tensor of the same dtype.
        rtol: relative tolerance, ten times the dtype's step at 1 by default.
        atol: absolute tolerance, ten times the dtype's step at 1 by default.

    Example:
        >>> tk.debugging.assert_near([1.0], [1.0 + 1e-7])
    """
    import ml_dtypes

    a, b = _pair(x, y)
    step = 10 * float(ml_dtypes.finfo(a.dtype.dtype).eps)  # type: ignore[no-untyped-call]
    bound = (step if atol is None else atol) + (step if rtol is None else rtol) * absolute(b)
    close = less_equal(absolute(subtract(a, b)), bound)
    return _check(close, _text("assert_near", "is near", message, summarize), a, b)


def assert_all_finite(x: TensorLike, message: str = "", name: str | None = None) -> Tensor:
    """Give `x` back; raise `InvalidArgumentError` if an element is inf or nan.

    Example:
        >>> tk.debugging.assert_all_finite([1.0, 2.0], "the loss").numpy()
        array([1., 2.], dtype=float32)
    """
    tensor = convert_to_tensor(x)
    check = _check(
        all_(isfinite(tensor)), f"check_numerics: {message}: the tensor has inf or nan", tensor
    )
    if check is not None:
        with control_dependencies([check]):
            return identity(tensor)
    return tensor


def check_numerics(tensor: TensorLike, message: str = "", name: str | None = None) -> Tensor:
    """Give `tensor` back; raise `InvalidArgumentError` if an element is inf or nan.

    Example:
        >>> tk.debugging.check_numerics([1.0, 2.0], "the loss").numpy()
        array([1., 2.], dtype=float32)
    """
    return assert_all_finite(tensor, message)


# ---------------------------------------------------------------------- ranks, shapes, dtypes


def _fail(name: str, message: Any, detail: str) -> None:
    raise InvalidArgumentError(f"{name}: {message + ': ' if message else ''}{detail}")


def assert_rank(
    x: TensorLike, rank: int, message: str | None = None, name: str | None = None
) -> None:
    """Raise `InvalidArgumentError` unless `x` has `rank` axes.

    Example:
        >>> tk.debugging.assert_rank(tk.ones((2, 3)), 2)
    """
    tensor = convert_to_tensor(x)
    if len(tensor.shape) != int(rank):
        _fail("assert_rank", message, f"rank {int(rank)} is needed, the shape is {tensor.shape}")


def assert_rank_at_least(
    x: TensorLike, rank: int, message: str | None = None, name: str | None = None
) -> None:
    """Raise `InvalidArgumentError` unless `x` has `rank` axes or more.

    Example:
        >>> tk.debugging.assert_rank_at_least(tk.ones((2, 3)), 1)
    """
    tensor = convert_to_tensor(x)
    if len(tensor.shape) < int(rank):
        _fail(
            "assert_rank_at_least",
            message,
            f"rank {int(rank)} or more is needed, the shape is {tensor.shape}",
        )


def assert_rank_in(
    x: TensorLike, ranks: Sequence[int], message: str | None = None, name: str | None = None
) -> None:
    """Raise `InvalidArgumentError` unless the number of axes of `x` is one of `ranks`.

    Args:
        ranks: numbers of axes.

    Example:
        >>> tk.debugging.assert_rank_in(tk.ones((2, 3)), (2, 3))
    """
    tensor = convert_to_tensor(x)
    if len(tensor.shape) not in [int(r) for r in ranks]:
        _fail(
            "assert_rank_in",
            message,
            f"a rank of {tuple(ranks)} is needed, the shape is {tensor.shape}",
        )


def assert_scalar(tensor: TensorLike, message: str | None = None, name: str | None = None) -> Any:
    """Give the tensor back; raise `InvalidArgumentError` unless it is a scalar.

    Example:
        >>> tk.debugging.assert_scalar(tk.constant(1.0)).shape
        TensorShape([])
    """
    x = convert_to_tensor(tensor)
    if len(x.shape) != 0:
        _fail("assert_scalar", message, f"a scalar is needed, the shape is {x.shape}")
    return x


def assert_type(
    tensor: TensorLike, tf_type: Any, message: str | None = None, name: str | None = None
) -> None:
    """Raise `TypeError` unless the tensor has the dtype `tf_type`.

    Args:
        tf_type: dtype.

    Raises:
        TypeError: the dtype is another.

    Example:
        >>> tk.debugging.assert_type(tk.ones(2), tk.float32)
    """
    x = convert_to_tensor(tensor)
    if x.dtype != tf_type:
        raise TypeError(
            f"assert_type: {message or ''} dtype {tf_type} is needed, it is {x.dtype.name}"
        )


def assert_integer(x: TensorLike, message: str | None = None, name: str | None = None) -> None:
    """Raise `TypeError` unless `x` has an integer dtype.

    Raises:
        TypeError: the dtype is another.

    Example:
        >>> tk.debugging.assert_integer([1, 2])
    """
    tensor = convert_to_tensor(x)
    if not tensor.dtype.is_integer:
        raise TypeError(
            f"assert_integer: {message or ''} an integer is needed, it is {tensor.dtype.name}"
        )


def assert_same_float_dtype(tensors: Any = None, dtype: DTypeLike | None = None) -> Any:
    """The floating dtype that all `tensors` have; `ValueError` when they differ or it is none.

    Args:
        tensors: list of tensors.
        dtype: that they must have; by default that of the first.

    Raises:
        ValueError: two dtypes differ, or one has no floats.

    Example:
        >>> tk.debugging.assert_same_float_dtype([tk.ones(2), tk.zeros(3)]).name
        'float32'
    """
    expected = None if dtype is None else dtypes.as_dtype(dtype)
    for x in () if tensors is None else tensors:
        tensor = convert_to_tensor(x)
        expected = expected or tensor.dtype
        if tensor.dtype != expected:
            raise ValueError(
                f"assert_same_float_dtype: {expected.name} and {tensor.dtype.name} differ"
            )
    expected = expected or dtypes.float32
    if not expected.is_floating:
        raise ValueError(f"assert_same_float_dtype: {expected.name} is not a floating dtype")
    return expected


def is_numeric_tensor(tensor: Any) -> bool:
    """Whether `tensor` is a tensor of numbers.

    Example:
        >>> tk.debugging.is_numeric_tensor(tk.ones(2))
        True
    """
    return is_tensor(tensor) and not tensor.dtype.is_bool


def assert_shapes(
    shapes: Any,
    data: TensorLike | None = None,
    summarize: Any = None,
    message: str | None = None,
    name: str | None = None,
) -> None:
    """Raise `InvalidArgumentError` unless tensors have the shapes given, a letter for each size.

    Args:
        shapes: pairs of a tensor and its shape; a shape is a sequence (or text) of ints, of letters
            that stand for one size throughout, and of `None` or `"."` for any size; `"..."` or
            `"*"` in front stands for any axes.
        data: shown in the error.

    Example:
        >>> x, y = tk.ones((4, 3)), tk.ones((4,))
        >>> tk.debugging.assert_shapes([(x, ("N", 3)), (y, ("N",))])
    """
    pairs = list(shapes.items()) if isinstance(shapes, dict) else list(shapes)
    sizes: dict[str, tuple[int, str]] = {}
    for x, expected in pairs:
        x = x.deref() if hasattr(x, "deref") else x
        actual = tuple(convert_to_tensor(x).shape)
        rule = list(expected) if isinstance(expected, str | list | tuple) else [expected]
        if rule and rule[0] in ("*", "...", Ellipsis):
            rule = rule[1:]
            actual = actual[len(actual) - len(rule) :] if len(actual) >= len(rule) else actual
        if len(actual) != len(rule):
            _fail("assert_shapes", message, f"shape {tuple(expected)} is needed, it is {actual}")
        for size, entry in zip(actual, rule, strict=True):
            _check_size(size, entry, sizes, expected, actual, message)


def _check_size(
    size: Any, entry: Any, sizes: Any, expected: Any, actual: Any, message: Any
) -> None:
    if entry in (None, ".") or size is None:
        return
    if isinstance(entry, str) and not entry.isdigit():
        first_use = sizes.setdefault(entry, (size, str(actual)))
        if first_use[0] != size:
            _fail(
                "assert_shapes",
                message,
                f"{entry!r} is {first_use[0]} in shape {first_use[1]} and {size} in shape {actual}",
            )
    elif int(entry) != size:
        _fail("assert_shapes", message, f"shape {tuple(expected)} is needed, it is {actual}")


def Assert(condition: Any, data: Any, summarize: Any = None, name: str | None = None) -> object:
    """Raise `InvalidArgumentError` with `data` in its text unless all of `condition` holds.

    Args:
        condition: bool, or bool tensor.
        data: list of tensors or values to show.
        summarize: how many elements to show, which is not limited here.

    Example:
        >>> tk.debugging.Assert(tk.constant(1) < 2, ["one is less than two"])
    """
    tensors = [convert_to_tensor(x) for x in data if not isinstance(x, str)]
    texts = " ".join(x for x in data if isinstance(x, str))
    text = f"Assert: the condition does not hold. {texts}".rstrip()
    return _check(convert_to_tensor(condition), text, *tensors)


def assert_proper_iterable(values: TensorLike) -> None:
    """Raise `TypeError` for a tensor, array or text, and for what can't be gone through.

    Args:
        values: any value.

    Raises:
        TypeError: `values` is one of these; give a list or tuple.

    Example:
        >>> tk.debugging.assert_proper_iterable([1, 2])
    """
    if is_tensor(values) or isinstance(values, str | bytes | np.ndarray):
        raise TypeError(
            f"assert_proper_iterable: a list or tuple is needed, got {type(values).__name__}"
        )
    if not hasattr(values, "__iter__"):
        raise TypeError(
            f"assert_proper_iterable: a list or tuple is needed, got {type(values).__name__}, "
            "which can't be iterated over"
        )


describe_arguments(
    globals(),
    """
    x: tensor, or what converts to one.
    y: tensor, or what converts to one.
    message: put before the text of the error.
    summarize: all values are shown.
    tensor: tensor, or what converts to one.
    rank: number of axes.
    """,
)
