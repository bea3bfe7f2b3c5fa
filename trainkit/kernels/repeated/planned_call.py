"""A kernel that is called again with operands of the same sizes.

What Python has to do for a call (to choose the kernel, to look at sizes, to gather tables) takes
2 to 4 microseconds, as long as a small layer of an inference. A plan has all of it: a call checks
that its operands are as the plan has them, and puts them among the arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trainkit.core.dispatch import native
from trainkit.kernels.jit.kernel_family import Family, owned

Array = Any
Shape = tuple[int, ...]

_F32 = np.dtype(np.float32)


class CalledArray(NamedTuple):
    """An array of float32 that each call brings.

    Attributes:
        positions: which arguments of the kernel it is.
        view: the shape in which the kernel takes it.
        shape: that it has; `None` for any with as many elements as `view`.
        is_copied: whether an array in another order is copied; otherwise it is no call of the plan.
    """

    positions: tuple[int, ...]
    view: Shape
    shape: Shape | None = None
    is_copied: bool = False


class KeptWeights(NamedTuple):
    """Weights, for which the kernel takes what was made of them.

    Attributes:
        positions: which arguments of the kernel that is.
        view: the shape in which the kernel takes it.
        strips: what holds it, from `PreparedWeights.current`.
    """

    positions: tuple[int, ...]
    view: Shape
    strips: Any


class NewArray(NamedTuple):
    """A new array of float32 that the kernel writes to.

    Attributes:
        position: which argument it is.
        view: the shape in which the kernel takes it.
        shape: of the array.
    """

    position: int
    view: Shape
    shape: Shape


class CallPlan(NamedTuple):
    """How a kernel is called.

    Attributes:
        family: of the kernel.
        key: of the kernel in it.
        arguments: what it takes; anything where the others stand.
        operands: of a call, `None` for those that it goes without.
        result: what is returned.
        scratch: further new arrays, dropped after the call.
        fresh: positions of arguments that depend on threads, and a function that tells them before
            each call, or `None` where the plan serves no longer.
    """

    family: Family
    key: Any
    arguments: tuple[Any, ...]
    operands: tuple[CalledArray | KeptWeights | None, ...]
    result: NewArray
    scratch: tuple[NewArray, ...] = ()
    fresh: tuple[tuple[int, ...], Callable[[], tuple[Any, ...] | None]] | None = None


def plan_call(plan: CallPlan) -> Callable[..., Array | None]:
    """A function of the operands, which gives `None` for others than the plan has."""
    if native.is_on():
        call: Callable[..., Array | None] = native.NATIVE.PlannedCall(plan, owned)
        return call
    return PlannedCall(plan)


class PlannedCall:
    """`plan_call` in Python.

    Attributes:
        strips: what holds the weights, `None` where each call brings them.
    """

    __slots__ = ("_plan", "strips")

    def __init__(self, plan: CallPlan) -> None:
        self._plan = plan
        self.strips = _strips_of(plan)

    def __call__(self, *operands: Array | None) -> Array | None:
        """The result, `None` for operands that the plan does not have."""
        plan = self._plan
        if len(operands) != len(plan.operands):
            return None
        arguments = list(plan.arguments)
        for value, expected in zip(operands, plan.operands, strict=True):
            if value is None or expected is None:
                if value is not expected:
                    return None
                continue
            view = _view_of(value, expected)
            if view is None:
                return None
            for position in expected.positions:
                arguments[position] = view
        run = plan.family.find(plan.key, 0.0)
        if run is None:
            return None
        if plan.fresh is not None:
            positions, tell = plan.fresh
            values = tell()
            if values is None:
                return None
            for position, value in zip(positions, values, strict=True):
                arguments[position] = value
        result = np.empty(plan.result.shape, _F32)
        arguments[plan.result.position] = result.reshape(plan.result.view)
        for new in plan.scratch:
            arguments[new.position] = np.empty(new.shape, _F32).reshape(new.view)
        run(*arguments)
        return result


def _strips_of(plan: CallPlan) -> Any:
    """What holds the weights of a plan, `None` where each call brings them."""
    return next((x.strips for x in plan.operands if isinstance(x, KeptWeights)), None)


def _view_of(value: Array, expected: CalledArray | KeptWeights) -> Array | None:
    """What the kernel takes for an operand, `None` for one that the plan does not have."""
    if isinstance(expected, KeptWeights):
        # read first: what is let go in between is of this array still
        array = expected.strips.array
        if array is None or not expected.strips.are_of(value):
            return None
        return array.reshape(expected.view)
    if value.dtype is not _F32:
        return None
    if expected.shape is None:
        if value.size != math.prod(expected.view):
            return None
    elif value.shape != expected.shape:
        return None
    if not value.flags.carray:
        if not expected.is_copied:
            return None
        value = owned(value)
    return value.reshape(expected.view)


def repeat_call(otherwise: Callable[..., Any]) -> Any:
    """A function that does the first of some calls that serves, and `otherwise` where none does.

    A planned call or any other function of the operands serves where its result is not `None`. Who
    does a first call hands it to the method `remember`, which forgets the oldest of eight, and what
    holds strips of other weights: those of a variable that was assigned never come again.
    """
    return native.NATIVE.Repeating(otherwise) if native.is_on() else Repeating(otherwise)


class RepeatedCalls:
    """An operation that remembers what the sizes of its operands decide.

    Attributes:
        calls: function of the operands, which gives `None` where the plain version is to do it.

    Args:
        otherwise: what `calls` does where it remembers no such call: `first`, or what may ask it.
    """

    __slots__ = ("calls",)
    _run: Callable[..., Array | None]
    _plan: Callable[..., Any]  # what does further calls like one that was done, or `None`

    def __init__(self, otherwise: Callable[..., Any] | None = None) -> None:
        self.calls = repeat_call(otherwise or self.first)

    def first(self, *operands: Any) -> Array | None:
        """The result of a call that is not known yet; further calls are as this one."""
        y = self._run(*operands)
        call = None if y is None else self._plan(*operands)
        if call is not None:
            self.calls.remember(call)
        return y


class Repeating:
    """`repeat_call` in Python."""

    __slots__ = ("_calls", "_otherwise")

    def __init__(self, otherwise: Callable[..., Any]) -> None:
        self._otherwise = otherwise
        self._calls: tuple[Callable[..., Any], ...] = ()

    def remember(self, call: Callable[..., Any]) -> None:
        """Try `call` first from now on."""
        strips = getattr(call, "strips", None)
        others = self._calls
        if strips is not None:
            others = tuple(x for x in others if getattr(x, "strips", None) in (None, strips))
        self._calls = (call, *others[:7])

    def __call__(self, *operands: Any) -> Any:
        """The result of the first that serves."""
        for call in self._calls:
            result = call(*operands)
            if result is not None:
                return result
        return self._otherwise(*operands)
