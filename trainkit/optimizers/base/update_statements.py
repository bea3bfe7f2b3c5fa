"""The elements of an update program as statements, for text that is compiled."""

from __future__ import annotations

import numpy as np

from trainkit.optimizers.base.update_program import Symbol, UpdateProgram

INFIX = {np.add: "+", np.subtract: "-", np.multiply: "*", np.true_divide: "/"}
"""Ufuncs that are written as operators."""


def statements(program: UpdateProgram) -> tuple[list[str], list[str]]:
    """Names of scalars and of what is computed from them, and what is done with element i."""
    buffers, scalars = program.inputs
    names = {id(x): f"x{i}" for i, x in enumerate(buffers)}
    names |= {id(x): f"s{i}" for i, x in enumerate(scalars)}
    hoisted = [x for x in program.order if x.is_scalar]
    names |= {id(x): f"h{i}" for i, x in enumerate(hoisted)}
    body = [f"x{i} = b{i}[i]" for i in range(len(buffers))]
    for i, symbol in enumerate(x for x in program.order if not x.is_scalar):
        names[id(symbol)] = f"y{i}"
        body.append(f"y{i} = {_expression(symbol, names)}")
    for i, result in enumerate(program.results):
        slot = i if i == 0 else i + 1
        if result is not buffers[slot]:
            body.append(f"b{slot}[i] = {names[id(result)]}")
    return [names[id(x)] for x in (*scalars, *hoisted)], body


def _expression(symbol: Symbol, names: dict[int, str]) -> str:
    inputs = [
        names[id(x)] if isinstance(x, Symbol) else f"real({float(x)!r})" for x in symbol.inputs
    ]
    if symbol.ufunc in INFIX:
        return f"{inputs[0]} {INFIX[symbol.ufunc]} {inputs[1]}"
    return f"np.{symbol.ufunc.__name__}({', '.join(inputs)})"
