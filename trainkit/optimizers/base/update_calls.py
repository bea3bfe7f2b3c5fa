"""An update program written out as Python, for weights so small that calls are what costs.

A weight of one element is updated with NumPy's scalars, whose arithmetic takes a tenth of the time
of a call on arrays. Other small weights are updated by calls of ufuncs on arrays as they are,
without registers and pieces. Both do the same float operations in the same order as the program.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.optimizers.base.update_program import UpdateProgram
from trainkit.optimizers.base.update_statements import statements

MOST = 4096
"""Elements up to which intermediate results may lie in new memory."""


def number_calls(program: UpdateProgram) -> Callable[..., None]:
    """`update(i, b0, ..., s0, ..., h0, ...)`: updates element `i` of the buffers."""
    numbers, body = statements(program)
    constants: dict[str, str] = {}
    # numbers become NumPy's scalars when the text is run, not at each call of the function
    named_body = [re.sub(r"real\([^)]*\)", lambda m: _name(m.group(), constants), s) for s in body]
    arguments = ["i", *[f"b{i}" for i in range(program.n_buffers)], *numbers]
    return _compiled(arguments, named_body, {"real": program.dtype.type}, constants)


def _name(text: str, constants: dict[str, str]) -> str:
    return constants.setdefault(text, f"c{len(constants)}")


def array_calls(program: UpdateProgram) -> Callable[..., None]:
    """`update(b0, ..., s0, ..., h0, ...)`: updates buffers of any one shape."""
    numbers, _ = statements(program)
    buffers = [f"b{i}" for i in range(program.n_buffers)]
    scratch = [f"t{i}" for i in range(program.n_scratch)]
    constants = [f"c{i}" for i in range(len(program.numbers))]
    count = program.n_scalars
    names = [*buffers, *scratch, *numbers[:count], *constants, *numbers[count:]]
    values = dict(zip(constants, program.numbers, strict=True))
    assigned, body = set(buffers), []
    for i, step in enumerate(program.steps):
        values[f"f{i}"] = step.ufunc
        out, inputs = names[step.out], ", ".join(names[i] for i in step.inputs)
        # the first step that writes to a register makes its array, later ones write into that
        body.append(f"f{i}({inputs}, out={out})" if out in assigned else f"{out} = f{i}({inputs})")
        assigned.add(out)
    return _compiled([*buffers, *numbers], body, values, {})


def _compiled(
    arguments: list[str], body: list[str], values: dict[str, Any], constants: dict[str, str]
) -> Callable[..., None]:
    names: dict[str, Any] = {"__name__": __name__, "np": np, **values}
    lines = [f"{name} = {text}" for text, name in constants.items()]
    # a rule may change nothing at all
    lines += [f"def update({', '.join(arguments)}):", *[f"    {line}" for line in body or ["pass"]]]
    exec(compile("\n".join(lines), "<update rule>", "exec"), names)
    update: Callable[..., None] = names["update"]
    return update
