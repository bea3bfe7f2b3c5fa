"""The elements of an update program as statements, for text that is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.optimizers.base.update_program import Symbol, UpdateProgram

INFIX = {np.add: "+", np.subtract: "-", np.multiply: "*", np.true_divide: "/"}
"""Ufuncs that are written as operators."""


def statements(
    program: UpdateProgram, constants: list[Any] | None = None
) -> tuple[list[str], list[str]]:
    """Names of scalars and of what is computed from them, and what is done with element i.

    Args:
        program: an update program.
        constants: where it is given, numbers of the rule are not written into the text: each that
            occurs is added to this list, as the program's type has it, and has a name, too. So the
            text is the same for all settings of an optimizer that lead to the same steps.
    """
    buffers, scalars = program.inputs
    names = {id(x): f"x{i}" for i, x in enumerate(buffers)}
    names |= {id(x): f"s{i}" for i, x in enumerate(scalars)}
    hoisted = [x for x in program.order if x.is_scalar]
    names |= {id(x): f"h{i}" for i, x in enumerate(hoisted)}
    constant_names: list[str] = []

    def literal(x: Any) -> str:
        if constants is None:
            return f"real({float(x)!r})"
        constant_names.append(f"c{len(constants)}")
        constants.append(float(program.dtype.type(x)))
        return constant_names[-1]

    # everything is read before anything is written, so results need no scratch
    body = [f"x{i} = b{i}[i]" for i in range(len(buffers))]
    for i, symbol in enumerate(x for x in program.order if not x.is_scalar):
        names[id(symbol)] = f"y{i}"
        body.append(f"y{i} = {_expression(symbol, names, literal)}")
    for i, result in enumerate(program.results):
        slot = i if i == 0 else i + 1
        if result is not buffers[slot]:
            body.append(f"b{slot}[i] = {names[id(result)]}")
    return [*(names[id(x)] for x in (*scalars, *hoisted)), *constant_names], body


def _expression(symbol: Symbol, names: dict[int, str], literal: Callable[[Any], str]) -> str:
    inputs = [names[id(x)] if isinstance(x, Symbol) else literal(x) for x in symbol.inputs]
    if symbol.ufunc in INFIX:
        return f"{inputs[0]} {INFIX[symbol.ufunc]} {inputs[1]}"
    return f"np.{symbol.ufunc.__name__}({', '.join(inputs)})"
