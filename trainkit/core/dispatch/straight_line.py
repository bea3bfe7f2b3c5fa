"""Straight lines of operations: what a pure function does, noted once and run on arrays again.

A function is run on symbols while a `StepTrace` listens. Each operation becomes a `PrimitiveStep`;
anything that would not do the same a second time, such as a variable that is read, ends the trace.
A `StepProgram` then calls the kernels of these steps in their order, without the questions after
types, dtypes and tapes that operations ask. Functions of data sets are run so; the gradient rules
of element-wise operations are written out from such steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from trainkit.core import devices
from trainkit.core.dispatch.eval_shape import ShapeTrace, run_under
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, wrap

_ON_CPU = devices.device(devices.CPU)

COMPUTED_IN = frozenset({np.dtype(np.float32), np.dtype(np.float64)})
"""Kernels run on these as they are, and numbers are weak beside them."""

Runner = Callable[[list[Any]], None]
"""A step that takes its operands from a list of values, and appends its results."""


class NotStraight(Exception):
    """The function does something that can't be run again as a list of kernels."""


class PrimitiveStep(NamedTuple):
    """One operation.

    Attributes:
        primitive, inputs, settings: the call; inputs are symbols, tensors, numbers or `None`.
        results: the symbols that it gave.
    """

    primitive: Any
    inputs: tuple[Any, ...]
    settings: dict[str, Any]
    results: tuple[SymbolicTensor, ...]


class StepTrace(ShapeTrace):
    """Notes the operations that a function does on symbols.

    Attributes:
        steps: the operations in their order.
    """

    def __init__(self) -> None:
        self.steps: list[PrimitiveStep] = []

    def apply(self, primitive: Any, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """The symbolic result of one operation, which becomes a step.

        Raises:
            NotStraight: it has an effect, which would take place now instead of in each run.
        """
        if primitive.facets.effect:
            raise NotStraight(primitive.name)
        result = super().apply(primitive, inputs, settings)
        results = result if isinstance(result, tuple) else (result,)
        self.steps.append(PrimitiveStep(primitive, inputs, settings, results))
        return result

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise NotStraight("a variable, a branch or a loop")

    cond = while_loop = scan = read_variable = assign_variable = initial_value = _refuse

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """What `function(*args)` gives while this trace notes it."""
        # Constants on the way have to be NumPy's, as the arrays of the runs are.
        with _ON_CPU:
            return run_under(self, function, *args)


class StepProgram:
    """Steps as calls of their kernels.

    Calling it with a list of NumPy arrays, which it lengthens, gives the list of result arrays.
    """

    def __init__(
        self, inputs: Sequence[SymbolicTensor], steps: list[PrimitiveStep], results: Sequence[Any]
    ) -> None:
        self._slots = {id(x): i for i, x in enumerate(inputs)}
        self._runners: list[Runner] = []
        for step, spent in zip(steps, overwritten_operands(steps, results), strict=True):
            self._runners.append(self._runner(step, spent))
            for y in step.results:
                self._slots[id(y)] = len(self._slots)
        self._outputs = [self._slots.get(id(y), y) for y in results]

    def __call__(self, values: list[Any]) -> list[Any]:
        for run in self._runners:
            run(values)
        return [
            values[y] if type(y) is int else np.array(devices.to_numpy(y._array))
            for y in self._outputs
        ]

    def _runner(self, step: PrimitiveStep, spent: Any) -> Runner:
        primitive, inputs, settings, _ = step
        slots = [self._slots.get(id(x)) for x in inputs]
        pairs = list(zip(slots, inputs, strict=True))
        if spent is not None:
            arrays = [(slot, constant_operand(x, step)) for slot, x in pairs]
            return _call_ufunc(primitive.kernel, arrays, self._slots[id(spent)])
        # NumPy's dtype may not be the operation's.
        if primitive.is_ufunc or primitive.facets.promotion != "none":
            return _call_operation(primitive.op, pairs, settings)
        arrays = [(slot, constant_operand(x, step)) for slot, x in pairs]
        return _call_kernel(primitive.kernel, arrays, settings)


class FunctionText:
    """What the lines of a Python function refer to, where each of them is a call.

    To look up functions and operands in a loop takes as long as the arithmetic of small arrays.

    Args:
        module: what NumPy's warnings name as theirs.
        **names: what lines say themselves.
    """

    def __init__(self, module: str, **names: Any) -> None:
        self._names = {"__name__": module, "np": np, **names}

    def constant(self, value: Any) -> str:
        """A name for `value`."""
        name = f"c{len(self._names)}"
        self._names[name] = value
        return name

    def call(self, result: str, function: Any, operands: Sequence[str]) -> str:
        """The line that assigns what a function gives for operands."""
        return f"{result} = {self.constant(function)}({', '.join(operands)})"

    def function(self, head: str, lines: Sequence[str]) -> Callable[..., Any]:
        """The function with a head such as `"run(x)"` that has these lines."""
        text = "\n    ".join([f"def {head}:", *lines])
        exec(compile(text, f"<{self._names['__name__']}>", "exec"), self._names)
        function: Callable[..., Any] = self._names[head.partition("(")[0]]
        return function


def overwritten_operands(steps: Sequence[PrimitiveStep], results: Sequence[Any]) -> list[Any]:
    """For each step the operand that its result may be written over, or `None`.

    It is of the shape and dtype of the result, a step made it in memory of its own, and nobody has
    a use for it any more.
    """
    last_readers = {id(x): i for i, step in enumerate(steps) for x in step.inputs}
    outlasting = set(map(id, results))
    # what came in from outside is somebody else's
    owners: set[int] = set()
    operands: list[Any] = []
    for i, step in enumerate(steps):
        spent = (x for x in _fitting_operands(step) if last_readers[id(x)] == i)
        operand = next((x for x in spent if id(x) in owners and id(x) not in outlasting), None)
        operands.append(operand)
        memory = step.primitive.facets.memory
        if memory == "fresh":
            owners.add(id(step.results[0]))
        elif memory == "view":
            owners.difference_update(map(id, step.inputs))
    return operands


def _fitting_operands(step: PrimitiveStep) -> list[SymbolicTensor]:
    """The operands of a step that have the shape and dtype of its result, if it can overwrite."""
    y = step.results[0]
    # Other kernels take no array to write to, and a ufunc would promote what is of another dtype.
    if not step.primitive.is_ufunc or not y.dtype.is_floating:
        return []
    if not all(type(x) in (int, float) or x.dtype is y.dtype for x in step.inputs):
        return []
    shape = y._spec.shape
    return [x for x in step.inputs if isinstance(x, SymbolicTensor) and x._spec.shape == shape]


def constant_operand(x: Any, step: PrimitiveStep) -> Any:
    """What a kernel takes for an input of `step` that is no symbol; `None` for one that is.

    Raises:
        NotStraight: a constant on another device.
    """
    if isinstance(x, SymbolicTensor):
        return None
    value = x._array if type(x) is Tensor else x
    if type(value).__module__ not in ("numpy", "builtins"):
        raise NotStraight("a constant on another device")
    if type(value) in (int, float) and step.primitive.is_ufunc and len(step.inputs) == 2:
        # A number is weak beside an array; ufuncs take an array of its dtype in less time.
        other = next((y for y in step.inputs if isinstance(y, SymbolicTensor)), None)
        if other is not None and other.dtype.dtype in COMPUTED_IN:
            return np.array(value, other.dtype.dtype)
    return value


def _call_operation(
    op: Any, pairs: list[tuple[int | None, Any]], settings: dict[str, Any]
) -> Runner:
    """A step by its operation, on tensors.

    Args:
        op: the operation.
        pairs: for each input the position of a value, or `None` and the constant.
        settings: for `op`.
    """

    def run(values: list[Any]) -> None:
        results = op(*[x if i is None else wrap(values[i]) for i, x in pairs], **settings)
        if type(results) is tuple:
            values.extend(y._array for y in results)
        else:
            values.append(results._array)

    return run


def _call_kernel(
    kernel: Any, pairs: list[tuple[int | None, Any]], settings: dict[str, Any]
) -> Runner:
    """A step by its kernel on NumPy arrays, without tensors in between."""

    def run(values: list[Any]) -> None:
        results = kernel(np, *[x if i is None else values[i] for i, x in pairs], **settings)
        if type(results) is tuple:
            values.extend(results)
        else:
            values.append(results)

    return run


def _call_ufunc(ufunc: Any, pairs: list[tuple[int | None, Any]], spent: int) -> Runner:
    """A step by a ufunc, into the memory of the value at the position `spent`."""

    def run(values: list[Any]) -> None:
        operands = [x if i is None else values[i] for i, x in pairs]
        values.append(ufunc(*operands, values[spent]))

    return run
