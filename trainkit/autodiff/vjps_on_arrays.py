"""Gradient rules on arrays: what a rule computes, noted once as the kernels it calls.

A rule is made of operations, each of which looks at types, dtypes and tapes before it comes to its
kernel. When no tape is listening to the backward pass, only the kernels matter. A rule of an
element-wise operation is therefore run once on stand-ins, and written out as a function of arrays
that calls the same kernels in the same order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.autodiff.compiled_vjp import FIRST, SAME, WrittenRule, compile_vjp
from trainkit.core import dtypes
from trainkit.core.dispatch.formulas import ArrayCall
from trainkit.core.dispatch.straight_line import (
    COMPUTED_IN,
    NotStraight,
    PrimitiveStep,
    StepTrace,
    constant_operand,
    overwritten_operands,
)
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor

_UNKNOWN: Any = object()

_FULL = (2, 3)
_OF_INPUTS = {1: (_FULL,), 2: ((2, 1), (1, 3))}
"""Shapes of stand-ins: that of the result and its gradient, and those of one and of two inputs,
each of which may have been broadcast. What both of them went into has the shape of the result, and
no code depends on the sizes."""


class _StandIn(SymbolicTensor):
    """A value of a rule that is being noted, for arrays of all shapes."""

    __slots__ = ()

    # A rule that asks for a shape may compute something else for each one, so it can't be noted
    # once for all.
    @property
    def shape(self) -> Any:
        raise NotStraight("a shape")

    __hash__ = object.__hash__


class _RuleTrace(StepTrace):
    """Notes the element-wise operations of a rule on stand-ins."""

    symbol = _StandIn

    def spec_of(self, x: Any) -> Any:
        if isinstance(x, _StandIn):
            return x._spec
        return Spec((), x.dtype) if isinstance(x, Tensor) else x

    def apply(self, primitive: Any, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        # What is not element-wise depends on shapes.
        if not primitive.facets.fusible:
            raise NotStraight(primitive.name)
        return super().apply(primitive, inputs, settings)


class ArrayVjps(dict[Any, Any]):
    """The vjps of one primitive on arrays, by NumPy dtype.

    Attributes:
        compiled: those for the compiled backward pass, once this has asked: for one input that by
            float32 and that by float64, for two the three of each.
    """

    compiled: tuple[Any, ...] | None = None


class WrittenVjps(ArrayVjps):
    """Vjps that are written out when first asked for.

    A value is `None` where there are none; for one input its vjp; for two inputs three: when
    both are tensors, when the second is a Python number, and when the first is one. Each may be
    `None`.
    """

    def __init__(self, primitive: Any) -> None:
        super().__init__()
        self._primitive = primitive

    def __missing__(self, dtype: Any) -> Any:
        vjps = self[dtype] = _written(self._primitive, dtype)
        return vjps


class NoVjps(ArrayVjps):
    """The vjps of a primitive that has none, whatever the dtype."""

    def __missing__(self, dtype: Any) -> None:
        return None


class DeclaredVjps(ArrayVjps):
    """The vjp by the rules on arrays that a primitive of two inputs was declared with."""

    def __init__(self, rules: Any) -> None:
        back = compile_vjp(rules)
        super().__init__({dtype: (back, None, None) for dtype in COMPUTED_IN})

    def __missing__(self, dtype: Any) -> None:
        return None


def compiled_vjps(primitive: Any) -> tuple[Any, ...]:
    """The vjps of `primitive` as the compiled backward pass has them."""
    rules = primitive.array_vjps
    if rules is None:
        rules = made_vjps(primitive)
    if rules.compiled is None:
        entries: list[Any] = []
        # The order is that in which the compiled pass counts: by dtype, then by kind of inputs.
        for dtype in (np.dtype(np.float32), np.dtype(np.float64)):
            vjps = rules[dtype]
            for back in vjps if type(vjps) is tuple else (vjps,):
                entries.append(None if back is None else back.compiled)
        rules.compiled = tuple(entries)
    compiled: tuple[Any, ...] = rules.compiled
    return compiled


def made_vjps(primitive: Any) -> Any:
    """The vjps of `primitive` by dtype, which it keeps from now on."""
    rules = primitive.given_rules
    # Rules that were declared on arrays call tuned kernels, and need not be element-wise.
    if rules is not None and len(rules) == 2:
        primitive.array_vjps = DeclaredVjps(rules)
        return primitive.array_vjps
    # A joint rule has no part for each input, and what is not element-wise needs shapes.
    if primitive.facets.fusible and primitive.rules is not None and primitive.joint is None:
        primitive.array_vjps = WrittenVjps(primitive)
    else:
        primitive.array_vjps = NoVjps()
    return primitive.array_vjps


def _written(primitive: Any, dtype: Any) -> Any:
    count = len(primitive.rules)
    # All stand-ins get one dtype: an operation whose result may have another one than its inputs
    # does not fit that.
    if dtype not in COMPUTED_IN or count > 2 or not _keeps_dtype(primitive, count):
        return None

    def rule(index: int, number: int | None = None) -> Any:
        return _rule_on_arrays(primitive.rules[index], dtype, count, number)

    if count == 1:
        return _back([rule(0)])
    return (
        _back([rule(0), rule(1)]),
        _back([rule(0, number=1), None], number=1),
        _back([None, rule(1, number=0)], number=0),
    )


def _back(rules: list[Any], number: int | None = None) -> Any:
    return None if _UNKNOWN in rules else compile_vjp(rules, number)


def _keeps_dtype(primitive: Any, count: int) -> bool:
    """Whether a real result means real inputs of its dtype, as it does not of a magnitude."""
    complex_dtype = dtypes.complex64
    try:
        result = primitive.shape_rule(*[Spec((), complex_dtype)] * count)
    except Exception:  # no rule for complex numbers
        return False
    return type(result) is Spec and result.dtype is complex_dtype


def _rule_on_arrays(rule: Any, dtype: Any, count: int, number: int | None) -> Any:
    """The rule on arrays, `WrittenRule` or `SAME`; `_UNKNOWN` if it can't be had so.

    Args:
        rule: takes `(g, y, *inputs)`.
        dtype: of all of them.
        count: of inputs.
        number: the index of an input that is a Python number instead.
    """
    if rule is None:
        return None
    shapes = (_FULL, _FULL, *_OF_INPUTS[count])
    stand_ins = [_StandIn(Spec(shape, dtype)) for shape in shapes]
    trace = _RuleTrace()
    try:
        result = trace.run(rule, *stand_ins)
        if result is stand_ins[0]:
            return SAME
        # A constant, `None`, or a gradient that came out wider is left to the rules on tensors.
        if type(result) is not _StandIn or result.dtype.dtype != dtype:
            return _UNKNOWN
        if number is not None and not _keeps_numbers_weak(trace.steps, stand_ins[2 + number]):
            return _UNKNOWN
        return _written_rule(trace.steps, stand_ins, result)
    except Exception:  # it looks at shapes or values, or calls what is not element-wise
        return _UNKNOWN


def _keeps_numbers_weak(steps: list[PrimitiveStep], number: _StandIn) -> bool:
    """Whether no step has numbers alone, whose result would be a float64."""
    return all(any(isinstance(x, Tensor) and x is not number for x in s.inputs) for s in steps)


def _written_rule(
    steps: list[PrimitiveStep], stand_ins: list[_StandIn], result: _StandIn
) -> WrittenRule:
    # An operation of one input leaves the number of the second to nothing.
    numbers = {id(x): i for i, x in enumerate(stand_ins)}
    numbers |= {id(step.results[0]): FIRST + i for i, step in enumerate(steps)}
    calls = [
        ArrayCall(
            step.primitive.kernel,
            tuple(numbers.get(id(x), -1) for x in step.inputs),
            tuple(constant_operand(x, step) for x in step.inputs),
            step.settings or None,
        )
        for step in steps
    ]
    targets = [numbers.get(id(x), -1) for x in overwritten_operands(steps, [result])]
    return WrittenRule(calls, targets, numbers[id(result)])
