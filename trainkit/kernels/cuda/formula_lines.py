"""Lines of CUDA C++ that are written from formulas of elements over arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core.dispatch.formulas import NO_UFUNCS, ArrayCall, ElementTrace, ends_in
from trainkit.kernels.cuda.cuda_functions import expression, is_known, literal, type_of


def formula_lines(body: Callable[..., Any], dtype: np.dtype[Any]) -> tuple[list[str], str]:
    """What `body(np, *arrays)` does with an element of each, and the name of the result.

    Each call is a statement, rounded for itself. Elements have the names of the body's arguments.

    Args:
        body: a formula.
        dtype: of elements: float32 or float64.

    Raises:
        NotImplementedError: the formula calls a function that has no expression.
    """
    names = list(inspect.signature(body).parameters)[1:]
    trace = ElementTrace()
    result = body(np, *(trace.input(dtype) for _ in names))
    assert ends_in(trace, result), f"{body.__name__} ends in no call"
    dtypes: list[Any] = trace.dtypes
    lines: list[str] = []
    for call, out in zip(trace.calls, dtypes[len(names) :], strict=True):
        kinds = [dtypes[i] for i in call.sources if i >= 0]
        operands = [
            names[i] if i >= 0 else literal(number, kinds[-1])
            for i, number in zip(call.sources, call.numbers, strict=True)
        ]
        name = f"v{len(lines)}"
        lines.append(
            f"const {type_of(out)} {name} = {_expression(call, kinds[-1], operands, out)};"
        )
        names.append(name)
    return lines, names[-1]


def _expression(call: ArrayCall, dtype: Any, operands: list[str], out: Any) -> str:
    if call.name not in NO_UFUNCS and call.name != "clip" and not is_known(call.name, dtype):
        raise NotImplementedError(f"{call.name} has no text of CUDA")
    if call.name != "clip":
        return expression(call.name, dtype, operands, out)
    text = operands[0]
    for i, function in enumerate(("maximum", "minimum"), 1):
        if np.isfinite(call.numbers[i]):
            text = f"({expression(function, dtype, [text, operands[i]], out)})"
    return text
