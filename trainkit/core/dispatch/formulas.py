"""Bodies of arithmetic as lists of ufunc calls, for the compiled half.

A body such as `1 / (1 + xp.exp(-x))` runs once on operands that note which ufuncs are called on
them. From then on the compiled half calls NumPy's loops in this order itself: the same bits,
without an array and a call of NumPy for each step. A body that asks for more than that, as for
dtypes, or chooses by numbers, has no such list, and stays what is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

MOST_STEPS = 16
"""More of them are left to the body."""


class UfuncCall(NamedTuple):
    """One call of a ufunc.

    Attributes:
        ufunc: of one or two operands, and with one result.
        sources: for each operand the number of an input, or behind these that of an earlier call;
            -1 for a Python number.
        numbers: for each operand the number, or the name of the setting that it is; `None` for an
            array.
    """

    ufunc: np.ufunc
    sources: tuple[int, ...]
    numbers: tuple[float | str | None, ...]


class _Untraceable(Exception):
    """The body does what no list of calls says."""


class _Noted(NDArrayOperatorsMixin):
    """An operand that notes what ufuncs are called on it."""

    def __init__(self, steps: list[tuple[np.ufunc, tuple[Any, ...], _Noted]], name: str) -> None:
        self._steps = steps
        self.setting = name

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        operands_fit = all(type(x) in (_Noted, int, float) for x in inputs)
        # Arrays take other ufuncs than `power` for some exponents.
        is_plain = ufunc.nout == 1 and ufunc.signature is None and ufunc is not np.power
        if method != "__call__" or options or not is_plain or not operands_fit:
            raise _Untraceable
        result = _Noted(self._steps, "")
        self._steps.append((ufunc, inputs, result))
        return result

    def __bool__(self) -> bool:
        raise _Untraceable

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise _Untraceable


def steps_of(
    body: Callable[..., Any], inputs: int, settings: Sequence[str]
) -> tuple[UfuncCall, ...] | None:
    """The ufunc calls that `body(np, *arrays, **settings)` makes, of which the last is its result.

    Args:
        body: arithmetic element by element.
        inputs: how many arrays it takes, all of one shape and dtype of floats.
        settings: names of its settings, each a Python number.

    Returns:
        The calls, `None` for a body that is more than such calls.
    """
    calls: list[tuple[np.ufunc, tuple[Any, ...], _Noted]] = []
    arrays = [_Noted(calls, "") for _ in range(inputs)]
    numbers = {name: _Noted(calls, name) for name in settings}
    try:
        result = body(np, *arrays, **numbers)
    except Exception:  # a body may stumble over such operands in any way
        return None
    if not calls or calls[-1][2] is not result or len(calls) > MOST_STEPS:
        return None
    positions = {id(x): i for i, x in enumerate([*arrays, *(call[2] for call in calls)])}
    steps = []
    for ufunc, operands, _ in calls:
        sources = tuple(positions.get(id(x), -1) for x in operands)
        # A number made of settings alone is Python's to compute, in float64.
        if max(sources) == -1:
            return None
        values = (x.setting if isinstance(x, _Noted) else x for x in operands)
        constants = tuple(None if i >= 0 else x for i, x in zip(sources, values, strict=True))
        steps.append(UfuncCall(ufunc, sources, constants))
    return tuple(steps)
