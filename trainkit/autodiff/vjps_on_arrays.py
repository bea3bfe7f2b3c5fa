"""Gradient rules on arrays: what a rule computes, taken down once as the kernels it calls.

A rule is made of operations, each of which looks at types, dtypes and tapes before it comes to its
kernel. When no tape is listening to the backward pass, only the kernels matter. A rule of an
element-wise operation is therefore run once on stand-ins that note the operations, and written out
as a function of arrays that calls the same kernels in the same order. Temporary results of large
arrays are overwritten by the next step that has no more use for them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.autodiff.compiled_vjp import (
    NAMES,
    SAME,
    ArrayRule,
    Written,
    compile_vjp,
)
from trainkit.core import devices, dtypes
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.native import NativeStep
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor

COMPUTED_IN = frozenset({np.dtype(np.float32), np.dtype(np.float64)})
"""Kernels run on these as they are, and numbers are weak beside them."""
_UNKNOWN: Any = object()


class _NotElementwise(Exception):
    """The rule does something that the stand-ins do not know."""


class _StandIn(SymbolicTensor):
    """A value of a rule that is being taken down; it has a dtype and no shape."""

    __slots__ = ("name", "steps")

    def __init__(self, dtype: Any, name: str, steps: list[_ArrayStep]) -> None:
        super().__init__(Spec((), dtype))
        self.name = name
        self.steps = steps

    # A rule that asks for a shape may compute something else for each one, so it can't be taken
    # down once for all.
    @property
    def shape(self) -> Any:
        raise _NotElementwise

    def apply_primitive(self, primitive: Any, inputs: Any, settings: Any) -> Any:
        """Take a step down."""
        # What is not element-wise depends on shapes, and an effect would take place once, while the
        # rule is taken down, instead of in each pass.
        if not primitive.facets.fusible or primitive.facets.effect:
            raise _NotElementwise
        spec = primitive.shape_rule(*map(_spec_of, inputs), **settings)
        if type(spec) is not Spec:
            raise _NotElementwise
        y = _StandIn(spec.dtype, f"t{len(self.steps)}", self.steps)
        self.steps.append(_ArrayStep(primitive, inputs, settings, y))
        return y

    __hash__ = object.__hash__


def _spec_of(x: Any) -> Any:
    if isinstance(x, _StandIn):
        return x._spec
    return Spec((), x.dtype) if isinstance(x, Tensor) else x


class _ArrayStep:
    """One operation of a rule.

    Attributes:
        primitive, inputs, settings: the call.
        result: the stand-in that it gave.
    """

    def __init__(self, primitive: Any, inputs: Any, settings: Any, result: _StandIn) -> None:
        self.primitive, self.inputs, self.settings = primitive, inputs, settings
        self.result = result

    def uses(self, x: Any) -> bool:
        """Whether `x` is among the inputs."""
        # Tensors compare element by element, so `in` would not tell.
        return any(x is operand for operand in self.inputs)


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
        return _rule_on_arrays(primitive.rules[index], dtype, count, index, number)

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


def _rule_on_arrays(rule: Any, dtype: Any, count: int, index: int, number: int | None) -> Any:
    """The rule on arrays, `Written` or `SAME`; `_UNKNOWN` if it can't be had so.

    Args:
        rule: takes `(g, y, *inputs)`.
        dtype: of all of them.
        count: of inputs.
        index: that of the input whose gradient it gives.
        number: the index of an input that is a Python number instead.
    """
    if rule is None:
        return None
    steps: list[_ArrayStep] = []
    stand_ins = [_StandIn(dtype, name, steps) for name in ("g", "y", *NAMES[:count])]
    try:
        # A tape or a trace around must not record the stand-ins, and constants that the rule makes
        # have to be NumPy's, as the arrays of the pass are.
        with trace_state.silence(), devices.device(devices.CPU):
            result = rule(*stand_ins)
    except Exception:  # it looks at shapes or values, or calls what is not element-wise
        return _UNKNOWN
    if result is stand_ins[0]:
        return SAME
    # A constant, `None`, or a gradient that came out wider is left to the rules on tensors.
    if type(result) is not _StandIn or result.dtype.dtype != dtype:
        return _UNKNOWN
    if number is not None and not _keeps_numbers_weak(steps, stand_ins[2 + number]):
        return _UNKNOWN
    return _compile(steps, stand_ins, result, index)


def _keeps_numbers_weak(steps: list[_ArrayStep], number: _StandIn) -> bool:
    """Whether no step has numbers alone, whose result would be a float64."""
    arrays = (Tensor,)
    return all(any(isinstance(x, arrays) and x is not number for x in s.inputs) for s in steps)


def _compile(
    steps: list[_ArrayStep], stand_ins: list[_StandIn], result: _StandIn, index: int
) -> Any:
    names: dict[str, Any] = {"__name__": __name__}
    # What has the shape of the result; an input of two may have been broadcast to it.
    full = {x.name for x in (stand_ins if len(stand_ins) == 3 else stand_ins[:2])}
    # The same steps twice: with a new array for each result, and with the memory of results that
    # are not used any more.
    plain, thrifty = [], []
    for i, step in enumerate(steps):
        operands = [_operand(x, step, names, index) for x in step.inputs]
        if any(operand is None for operand in operands):
            return _UNKNOWN
        # `compile_vjp` puts the rules of both inputs into one namespace: the index of the input
        # keeps the names of their kernels and constants apart.
        call = _call(step, [str(x) for x in operands], names, f"{i}_{index}")
        plain.append(f"{step.result.name} = {call})")
        if any(isinstance(x, _StandIn) and x.name in full for x in step.inputs):
            full.add(step.result.name)
        spent = _spent(steps, i, full, result)
        thrifty.append(f"{step.result.name} = {call}{'' if spent is None else f', {spent.name}'})")
    end = f"return {result.name}"
    head = f"def rule({', '.join(x.name for x in stand_ins)}):"
    # Nothing is overwritten, so the lines may stand in the text of a vjp and save a call.
    if plain == thrifty:
        rule = _function(head, [*plain, end], names)
        return Written(rule, plain, result.name, names, _steps(steps, result, index))
    # NumPy's results of scalars are no arrays and can't be overwritten.
    names["scalar_rule"] = _function(head, [*plain, end], names)
    test = ["if not g.shape:", "    return scalar_" + head[4:-1]]
    rule = _function(head, [*test, *thrifty, end], names)
    return Written(rule, [], result.name, names, _steps(steps, result, index))


def _steps(steps: list[_ArrayStep], result: _StandIn, index: int) -> list[NativeStep] | None:
    """The rule for the compiled backward pass, if it is of steps that this can do."""
    if not steps or result is not steps[-1].result or any(len(s.inputs) > 2 for s in steps):
        return None
    # The compiled pass has a row of slots: gradient, result, two inputs, then a slot a step. An
    # operation of one input leaves the fourth unused.
    slots = {name: i for i, name in enumerate(("g", "y", *NAMES))}
    slots |= {step.result.name: len(slots) + i for i, step in enumerate(steps)}
    native_steps = []
    for step in steps:
        operand_slots, constants = [], []
        for x in step.inputs:
            # An own dict shows whether this operand came out as a constant; slot -1 says so.
            constant: dict[str, Any] = {}
            name = _operand(x, step, constant, index)
            operand_slots.append(-1 if constant else slots[str(name)])
            constants.append(next(iter(constant.values()), None))
        kind = "ufunc" if step.primitive.is_ufunc else "kernel"
        native_steps.append(
            NativeStep(
                kind,
                step.primitive.kernel,
                tuple(operand_slots),
                tuple(constants),
                step.settings or None,
            )
        )
    return native_steps


def _function(head: str, body: list[str], names: dict[str, Any]) -> ArrayRule:
    text = "\n".join([head, *[f"    {line}" for line in body]])
    exec(compile(text, "<gradient rule>", "exec"), names)
    rule: ArrayRule = names.pop("rule")
    return rule


def _operand(x: Any, step: _ArrayStep, names: dict[str, Any], index: int) -> str | None:
    if isinstance(x, _StandIn):
        return x.name
    value = x._array if type(x) is Tensor else x
    if type(value).__module__ not in ("numpy", "builtins"):
        return None  # a constant on another device
    if type(value) in (int, float) and step.primitive.is_ufunc and len(step.inputs) == 2:
        value = _as_array(value, [x for x in step.inputs if isinstance(x, _StandIn)])
    name = f"c{len(names)}_{index}"
    names[name] = value
    return name


def _as_array(number: float, others: list[_StandIn]) -> Any:
    """A number that is weak beside `others` in their dtype: ufuncs take arrays in less time."""
    dtype = others[0].dtype.dtype if others else None
    return np.array(number, dtype) if dtype in COMPUTED_IN else number


def _call(step: _ArrayStep, operands: list[str], names: dict[str, Any], i: str) -> str:
    """The call of a kernel, without the closing parenthesis."""
    names[f"k{i}"] = step.primitive.kernel
    if step.primitive.is_ufunc:
        # The parenthesis is open for an array to write to, which ufuncs take behind their inputs.
        return f"k{i}({', '.join(operands)}"
    names["np"] = np
    names[f"s{i}"] = step.settings
    return (
        f"k{i}(np, {', '.join(operands)}, **s{i}"
        if step.settings
        else (f"k{i}(np, {', '.join(operands)}")
    )


def _spent(steps: list[_ArrayStep], i: int, full: set[str], result: _StandIn) -> _StandIn | None:
    """A result of an earlier step that step `i` may overwrite with its own."""
    step = steps[i]
    # Other kernels take no array to write to.
    if not step.primitive.is_ufunc:
        return None
    # Only arrays that a ufunc made in this rule: the gradient, the result and the inputs belong to
    # others, and other kernels may give views of them.
    results = [s.result for s in steps[:i] if s.primitive.is_ufunc]
    for x in results:
        # Of the shape and dtype of the new result, which the ufunc would refuse or round otherwise.
        fits = x.name in full and x.dtype is step.result.dtype and x is not result
        if fits and step.uses(x) and not any(later.uses(x) for later in steps[i + 1 :]):
            return x
    return None
