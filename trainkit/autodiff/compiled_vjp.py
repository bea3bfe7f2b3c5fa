"""The vjp of one operation, written out: its rules, and where their results go.

`back(output, g, x0, x1, needed, grads, sums)` does for one entry of a tape what a backward pass
would do rule by rule: it computes the gradient by each input that is needed, sums it over axes
along which the input was broadcast, and adds it to what came before. Rules of one or two kernels
stand in its text; others are called. It gives True, and has done nothing, where a rule can't do the
case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from trainkit.autodiff.accumulation import SMALL, sum_of
from trainkit.core.dispatch.native import NATIVE, NativeStep
from trainkit.ops.math.reductions import sum_to_like

ArrayRule = Callable[..., Any]

SAME: Any = object()
"""Stands for a rule that passes the gradient on as it is."""

NAMES = ("a", "b")
"""What the arrays of inputs are called in the text of rules; besides there are `g` and `y`."""

_summed: Any = sum_to_like.primitive.kernel


class Written(NamedTuple):
    """A rule of arrays that was written out.

    Attributes:
        rule: the function `(g, y, *inputs)`.
        lines: its statements, none where it is not to stand in other text.
        result: what they give.
        names: what they refer to.
        steps: the same for the compiled backward pass; `None` if that can't do it.
    """

    rule: ArrayRule
    lines: list[str]
    result: str
    names: dict[str, Any]
    steps: list[NativeStep] | None


# As `accumulate` does, in fewer questions: the lines before it give the dtype of the gradient and
# the shape of the input, so sums are not compared with them.
_ADDED = """\
before = grads.get({x})
if before is None:
    grads[{x}] = gx
elif before.size < SMALL:
    grads[{x}] = add(before, gx)
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
        rules: for each input a `Written`, `SAME`, a function that may give `NotImplemented`, or
            `None` for no gradient.
        number: the place of an input that is a Python number.
    """
    names: dict[str, Any] = {"__name__": __name__, "np": np, "add": np.add}
    names |= {"SMALL": SMALL, "sum_of": sum_of, "summed": _summed}
    inputs = [f"x{i}" for i in range(len(rules))]
    body = []
    # Rules that may decline come first: what is left to other rules must not have begun.
    for i, rule in enumerate(rules):
        if _may_decline(rule):
            call = f"g{i} = rule{i}(g, y, {', '.join(NAMES[: len(rules)])})"
            test = [f"    {call}", f"    if g{i} is NotImplemented:", "        return True"]
            body += [f"if {inputs[i]} in needed:", *test]
            names[f"rule{i}"] = rule
    for i, rule in enumerate(rules):
        if rule is not None:
            lines = _compute(i, rule, len(rules), names)
            # One input has the shape of the result, and so has an array beside a number.
            if len(rules) == 2 and number is None:
                lines += _BROADCAST.format(array=NAMES[i]).splitlines()
            lines += _ADDED.format(x=inputs[i]).splitlines()
            body += [f"if {inputs[i]} in needed:", *[f"    {line}" for line in lines]]
    arrays = [x if i == number else f"{x}._array" for i, x in enumerate(inputs)]
    head = [f"{', '.join(NAMES[: len(rules)])} = {', '.join(arrays)}"]
    if any(re.search(r"\by\b", line) for line in body):
        head.append("y = output._array")
    lines = [f"def back(output, g, {', '.join(inputs)}, needed, grads, sums):"]
    lines += [f"    {line}" for line in (*head, *body)]
    # Text that is compiled once has neither loops over inputs nor questions of which rule is what.
    exec(compile("\n".join(lines), "<compiled vjp>", "exec"), names)
    back: Callable[..., Any] = names["back"]
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
    steps = getattr(rule, "steps", None)
    return _UNKNOWN if steps is None else steps


def _compute(i: int, rule: Any, count: int, names: dict[str, Any]) -> list[str]:
    """Statements that give `gx`, the gradient by input `i`."""
    if rule is SAME:
        return ["gx = g"]
    if type(rule) is Written and rule.lines:
        # The lines stand in the text of the vjp itself, so what they refer to has to be there, too.
        names |= rule.names
        return [*rule.lines, f"gx = {rule.result}"]
    if type(rule) is Written:
        names[f"rule{i}"] = rule.rule
        return [f"gx = rule{i}(g, y, {', '.join(NAMES[:count])})"]
    return [f"gx = g{i}"]


def _may_decline(rule: Any) -> bool:
    """Whether a rule is a function that may give `NotImplemented`."""
    return not (rule is None or rule is SAME or type(rule) is Written)
