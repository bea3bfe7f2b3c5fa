"""Kernels of one element that are written from the formulas of operations.

A formula over arrays is traced, and its calls become a function of numbers that Numba compiles. So
it has one text, which runs by itself where no kernel pays.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import types

from trainkit.core.dispatch.formulas import ArrayCall, ElementTrace, ends_in
from trainkit.kernels.jit.builders import Body, Builder, by_element
from trainkit.kernels.jit.builders import _function as function_of

# A NaN stays, and of equal numbers the second is taken, as by NumPy's wide loops: of zeros that
# tells. A number that is the second is no NaN, an array may hold some.
_MAXIMUM = "{1} if {0} <= {1} else {0}"
_MINIMUM = "{1} if {0} >= {1} else {0}"
_MAXIMUM_OF_ARRAYS = "{1} if {0} <= {1} or {1} != {1} else {0}"
_MINIMUM_OF_ARRAYS = "{1} if {0} >= {1} or {1} != {1} else {0}"
_OF_ARRAYS = {"maximum": _MAXIMUM_OF_ARRAYS, "minimum": _MINIMUM_OF_ARRAYS}
_TEXTS = {
    "add": "{} + {}",
    "subtract": "{} - {}",
    "multiply": "{} * {}",
    "divide": "{} / {}",
    "negative": "-{}",
    "absolute": "abs({})",
    "greater": "{} > {}",
    "less": "{} < {}",
    "greater_equal": "{} >= {}",
    "less_equal": "{} <= {}",
    "equal": "{} == {}",
    "bitwise_and": "{} & {}",  # of bools, as the two below
    "bitwise_or": "{} | {}",
    "invert": "not {}",
    "isnan": "{0} != {0}",
    "where": "{1} if {0} else {2}",
    "maximum": _MAXIMUM,
    "minimum": _MINIMUM,
    "cast": "one if {} else zero",  # of a bool
}
_FUNCTIONS = {"sqrt": np.sqrt, "floor": np.floor, "rint": np.rint, "copysign": np.copysign}
"""Those that Numba makes an instruction of."""
_KINDS = ({"float32", "bool"}, {"float64", "bool"})


def by_formula(
    body: Body, *kinds: Any, exact: bool = False, ordered: bool = False, **functions: Any
) -> Builder:
    """The builder of a kernel `run(pool, parts, ..., result)` of a formula over arrays.

    Args:
        body: `body(xp, *arrays, **settings)`, see `number_function`.
        *kinds: Numba's types of arrays, then of settings.
        exact: floating-point arithmetic as it is written.
        ordered: in the order in which it is written.
        **functions: as for `number_function`.
    """
    dtypes = [str(kind.dtype) for kind in kinds if isinstance(kind, types.Array)]
    formula = number_function(body, dtypes, functions)
    return by_element(*kinds, exact=exact, ordered=ordered)(formula)


def number_function(
    body: Body, dtypes: Sequence[str], functions: dict[str, Any] | None = None
) -> Any:
    """What `body(np, *arrays, **settings)` does with each element, as a function of numbers.

    Args:
        body: a formula.
        dtypes: of its arrays: "float32" or "bool", and the result is a float32; or the same with
            "float64".
        functions: what Numba compiles in place of NumPy's functions, by the names of these. They
            may have a shorter range, and other last digits.

    Raises:
        NotImplementedError: the formula has a dtype or calls a function that has no text here.
    """
    names = list(inspect.signature(body).parameters)[1:]
    trace = ElementTrace()
    arrays = [trace.input(np.dtype(dtype)) for dtype in dtypes]
    settings = names[len(arrays) :]
    result = body(np, *arrays, **{name: trace.add_setting(name) for name in settings})
    assert ends_in(trace, result), f"{body.__name__} ends in no call"
    # all else, such as a number of Python beside a bool, would be of another dtype than here
    kinds = {str(dtype) for dtype in trace.dtypes}
    if not any(kinds <= kind_set for kind_set in _KINDS):
        raise NotImplementedError(f"{body.__name__} computes in other dtypes than {dtypes[0]}")
    number = np.float64 if "float64" in kinds else np.float32
    scope = {"one": number(1), "zero": number(0), **_FUNCTIONS, **(functions or {})}
    values, lines = names[: len(arrays)], []
    for call in trace.calls:
        operands = [
            values[source] if source >= 0 else _name_of(number, scope)
            for source, number in zip(call.sources, call.numbers, strict=True)
        ]
        values.append(f"v{len(values)}")
        texts = _texts_of(call, values[-1], operands, scope)
        lines += [f"    {values[-1]} = {expression}\n" for expression in texts]
    text = f"def {body.__name__}({', '.join(names)}):\n{''.join(lines)}    return {values[-1]}\n"
    return function_of(text, body, **scope)


def _name_of(number: Any, scope: dict[str, Any]) -> str:
    """A setting's own name, or a new one in `scope` for a number."""
    if isinstance(number, str):
        return number
    name = f"c{len(scope)}"
    scope[name] = number
    return name


def _texts_of(call: ArrayCall, result: str, x: Sequence[str], scope: dict[str, Any]) -> list[str]:
    """Expressions of the names `x`, of which each becomes `result`, one after the other."""
    if call.name in scope:
        return [f"{call.name}({', '.join(x)})"]
    if call.sources[1:] and call.sources[1] >= 0 and call.name in _OF_ARRAYS:
        return [_OF_ARRAYS[call.name].format(*x)]
    if call.name == "clip":
        if max(call.sources[1:]) >= 0:
            raise NotImplementedError("clip by an array has no text for Numba")
        limits = zip((_MAXIMUM, _MINIMUM), x[1:], call.numbers[1:], strict=True)
        texts = [(text, limit) for text, limit, n in limits if isinstance(n, str) or np.isfinite(n)]
        return [text.format(result if i else x[0], limit) for i, (text, limit) in enumerate(texts)]
    if call.name not in _TEXTS:
        raise NotImplementedError(f"{call.name} has no text for Numba")
    return [_TEXTS[call.name].format(*x)]
