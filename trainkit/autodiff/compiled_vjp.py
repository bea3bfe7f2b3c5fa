"""The vjp of one operation, written out: its rules, and where their results go.

`back(output, g, x0, x1, needed, grads, sums)` does for one entry of a tape what a backward pass
would do rule by rule: it computes the gradient by each input that is needed, sums it over axes
along which the input was broadcast, and adds it to what came before. Rules that are straight lines
stand in its text; others are called. It gives True, and has done nothing, where a rule can't do the
case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from trainkit.autodiff.accumulation import sum_of
from trainkit.core.dispatch.eager import MOST_BY_DOT
from trainkit.core.dispatch.formulas import ArrayCall
from trainkit.core.dispatch.native import NATIVE
from trainkit.core.dispatch.straight_line import FunctionText
from trainkit.ops.math.reductions import sum_to_like

SAME: Any = object()
"""Stands for a rule that passes the gradient on as it is."""

_OPERANDS = ("g", "y", "a", "b")
"""What the arrays `G`, `Y`, `A` and `B` are called in the text of a vjp."""
FIRST = len(_OPERANDS)
"""The number of the first call of a rule, behind those of its operands."""

_summed: Any = sum_to_like.primitive.kernel


class WrittenRule(NamedTuple):
    """A rule on arrays as a straight line.

    Attributes:
        calls: their sources are `G`, `Y`, `A` and `B`, then calls from `FIRST` on.
        targets: for each the source whose memory its result may take, or -1.
        result: the source that is the gradient.
    """

    calls: list[ArrayCall]
    targets: list[int]
    result: int


# As `accumulate` does, in fewer questions: the lines before it give the dtype of the gradient and
# the shape of the input, so sums are not compared with them.
_ADDED = """\
before = grads.get({x})
if before is None:
    grads[{x}] = gx
elif id({x}) in sums:
    add(before, gx, before)
else:
    grads[{x}] = sum_of(gx, {x}, grads, sums)"""

_BROADCAST = """\
if gx.shape != {array}.shape:
    gx = summed(np, gx, {array})"""


def compile_vjp(rules: Sequence[Any], number: int | None = None) -> Callable[..., Any]:
    """The function `back` of an operation of one or two inputs.

    Args:
        rules: for each input a `WrittenRule`, `SAME`, a function that may give `NotImplemented`, or
            `None` for no gradient.
        number: the place of an input that is a Python number.
    """
    text = FunctionText(__name__, add=np.add, sum_of=sum_of, summed=_summed)
    inputs = [f"x{i}" for i in range(len(rules))]
    names = _OPERANDS[2 : 2 + len(rules)]
    body = []
    # Rules that may decline come first: what is left to other rules must not have begun.
    for i, rule in enumerate(rules):
        if _may_decline(rule):
            call = text.call(f"g{i}", rule, ("g", "y", *names))
            test = [f"    {call}", f"    if g{i} is NotImplemented:", "        return True"]
            body += [f"if {inputs[i]} in needed:", *test]
    for i, rule in enumerate(rules):
        if rule is not None:
            lines = _compute(i, rule, text)
            # One input has the shape of the result, and so has an array beside a number.
            if len(rules) == 2 and number is None:
                lines += _BROADCAST.format(array=names[i]).splitlines()
            lines += _ADDED.format(x=inputs[i]).splitlines()
            body += [f"if {inputs[i]} in needed:", *[f"    {line}" for line in lines]]
    arrays = [x if i == number else f"{x}._array" for i, x in enumerate(inputs)]
    head = [f"{', '.join(names)} = {', '.join(arrays)}"]
    if any(re.search(r"\by\b", line) for line in body):
        head.append("y = output._array")
    # Text that is compiled once has neither loops over inputs nor questions of which rule is what.
    back = text.function(
        f"back(output, g, {', '.join(inputs)}, needed, grads, sums)", [*head, *body]
    )
    # One rule that is no row of steps is enough to leave the whole vjp to Python.
    if NATIVE is not None:
        steps = list(map(_steps_of, rules))
        native_steps = None if _UNKNOWN in steps else steps
        back.compiled = NATIVE.CompiledVjp(back, native_steps, _summed)  # type: ignore[attr-defined]
    return back


_UNKNOWN: Any = object()


def _steps_of(rule: Any) -> Any:
    """A rule for the compiled pass: steps, `None` for no gradient, `_UNKNOWN` for another rule."""
    if rule is None:
        return None
    if rule is SAME:
        return []
    calls = getattr(rule, "calls", None)
    if not calls or any(len(call.sources) > 2 for call in calls):
        return _UNKNOWN
    # It takes the last result for the gradient.
    if type(rule) is WrittenRule and rule.result != FIRST + len(calls) - 1:
        return _UNKNOWN
    return [_step_of(*call) for call in calls]


def _step_of(function: Any, *fields: Any) -> tuple[Any, ...]:
    """A call as the compiled pass takes it: the kind, and what there is to call or to know."""
    if function == "product":
        return "product", MOST_BY_DOT, *fields
    return "ufunc" if isinstance(function, np.ufunc) else "kernel", function, *fields


def _compute(i: int, rule: Any, text: FunctionText) -> list[str]:
    """Statements that give `gx`, the gradient by input `i`."""
    if rule is SAME:
        return ["gx = g"]
    if type(rule) is not WrittenRule:
        return [f"gx = g{i}"]
    names = [*_OPERANDS, *(f"t{k}" for k in range(len(rule.calls)))]
    lines = []
    for k, (call, target) in enumerate(zip(rule.calls, rule.targets, strict=True), FIRST):
        operands = [
            names[source] if source >= 0 else text.constant(x)
            for source, x in zip(call.sources, call.numbers, strict=True)
        ]
        if target >= 0:
            # NumPy's results of scalars are no arrays and can't be overwritten.
            operands.append(f"{names[target]} if g.shape else None")
        if not isinstance(call.function, np.ufunc):
            operands.insert(0, "np")
        if call.settings:
            operands.append(f"**{text.constant(call.settings)}")
        lines.append(text.call(names[k], call.function, operands))
    return [*lines, f"gx = {names[rule.result]}"]


def _may_decline(rule: Any) -> bool:
    """Whether a rule is a function that may give `NotImplemented`."""
    return not (rule is None or rule is SAME or type(rule) is WrittenRule)
