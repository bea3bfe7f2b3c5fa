"""Formulas over elements, whatever their number: what an optimizer's rule does to each of a weight.

A rule is run once on arrays that show neither shape nor size, so what it notes holds for weights of
all shapes, and one code serves them all at one call. `llvm/flat_kernel.py` writes it for a CPU,
`optimizers/base/update_cuda.py` for a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from trainkit.compiler.ir import (
    CASTS,
    Buffer,
    Elementwise,
    Number,
    Unsupported,
    View,
    is_known,
    kind_of,
)
from trainkit.compiler.tracer import Namespace
from trainkit.core.dispatch.formulas import (
    NO_UFUNCS,
    ArrayCall,
    ElementTrace,
    TracedElements,
    Untraceable,
)
from trainkit.core.dispatch.straight_line import FunctionText

_OUTSIDE_OF_RULES = (AttributeError, IndexError, TypeError, ValueError, Untraceable)
"""What a rule raises that does with an array what these don't know. Run on arrays, it says so."""
_ELEMENTS, _ONE = (0,), ()
"""What stands for the shape of all arrays, whatever it is, and that of a scalar."""


class FlatProgram:
    """What `rule(xp, weight, grad, scalars, *slots)` does with each element.

    Args:
        rule: gives the new weight and the new slots as a tuple.
        n_slots: how many slots it takes.
        n_scalars: how many scalars it takes, as one tuple.
        dtype: the NumPy dtype of all arrays and scalars.

    Attributes:
        arrays: the views of weight, gradient and slots, in this order.
        scalars: the views of the scalars.
        scalar_steps: what is computed from scalars and numbers alone.
        steps: what is computed for each element, after these.
        results: the new values of weight and slots.

    Raises:
        Unsupported: the rule does more than arithmetic on elements.
        ValueError: it gives another number of values than there are.
    """

    def __init__(self, rule: Callable[..., Any], n_slots: int, n_scalars: int, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        trace = ElementTrace()
        arrays = [trace.input(self.dtype) for _ in range(2 + n_slots)]
        scalars = tuple(trace.input(self.dtype) for _ in range(n_scalars))
        try:
            results = rule(Namespace(), arrays[0], arrays[1], scalars, *arrays[2:])
            converted = [_in_dtype(x, self.dtype) for x in results]
        except _OUTSIDE_OF_RULES as error:
            raise Unsupported(f"{type(error).__name__}: {error}") from error
        if len(results) != 1 + n_slots:
            raise ValueError(f"update gave {len(results)} values for a weight and {n_slots} slots")
        views, steps = _steps_of(trace, len(arrays))
        self.arrays = views[: len(arrays)]
        self.scalars = views[len(arrays) : trace.input_count]
        self.results = [views[x.position] for x in converted]
        for i, result in enumerate(self.results):
            if result.shape == _ONE:
                raise Unsupported("a result that is one number")
            # The gradient may become a slot, as it stays as it is; another array would have to be
            # read before it is written, which steps one after the other don't know.
            if result in self.arrays and self.arrays.index(result) not in (1, self.target(i)):
                raise Unsupported("an array as the new value of another")
        steps = _needed_steps(steps, self.results)
        self.scalar_steps = [step for step in steps if not step.out.shape]
        self.steps = [step for step in steps if step.out.shape]
        self._schedule_steps()

    @staticmethod
    def target(i: int) -> int:
        """Which of the arrays result `i` is the new value of; the gradient, 1, gets none."""
        return i if i == 0 else i + 1

    @property
    def assignments(self) -> list[tuple[int, View]]:
        """The arrays, by their number, that get other values, with these."""
        targets = [(self.target(i), result) for i, result in enumerate(self.results)]
        return [(k, result) for k, result in targets if result != self.arrays[k]]

    @property
    def numbers(self) -> list[Number]:
        """The numbers of the rule that have its dtype, as often as they occur, in order.

        They are given to compiled code, which so serves all settings that lead to the same steps.
        """
        inputs = [x for step in (*self.scalar_steps, *self.steps) for x in step.inputs]
        return [x for x in inputs if isinstance(x, Number) and x.dtype == self.dtype]

    def evaluate(
        self,
        apply: Callable[[Elementwise, Sequence[Any]], Any],
        arrays: Sequence[Any],
        scalars: Sequence[Any],
    ) -> list[Any]:
        """The results, by `apply(step, operands)` for each step.

        Args:
            apply: a function; numbers of the rule come to it as NumPy's scalars.
            arrays: in place of weight, gradient and slots.
            scalars: in place of the scalars.
        """
        values = [*arrays, *scalars]
        for step, operands, unused in self._schedule:
            values.append(apply(step, [values[x] if type(x) is int else x for x in operands]))
            # results of later steps then lie where these did, in memory that is in a cache
            for k in unused:
                values[k] = None
        return [values[k] for k in self._result_registers]

    def _schedule_steps(self) -> None:
        """Note for each step where its operands are among all values, and which it reads last.

        Values are those of arrays, scalars and steps, in this order: numbers are faster to find
        them by than views.
        """
        steps = [*self.scalar_steps, *self.steps]
        views = [*self.arrays, *self.scalars, *(step.out for step in steps)]
        registers = {view: k for k, view in enumerate(views)}
        self._result_registers = [registers[result] for result in self.results]
        self._schedule: list[tuple[Elementwise, list[Any], list[int]]] = []
        read = set(self.results)
        for step in reversed(steps):
            operands = [x.value if isinstance(x, Number) else registers[x] for x in step.inputs]
            last_read = {x for x in step.inputs if isinstance(x, View)} - read
            self._schedule.insert(0, (step, operands, [registers[x] for x in last_read]))
            read |= last_read


def _in_dtype(x: Any, dtype: np.dtype[Any]) -> TracedElements:
    """A result of a rule in the dtype that it is kept in."""
    if not isinstance(x, TracedElements):
        raise Unsupported("a result that is one number")
    return x.astype(dtype, copy=False)


def _steps_of(trace: ElementTrace, n_arrays: int) -> tuple[list[View], list[Elementwise]]:
    """The views of all inputs and results, and the calls as steps over them.

    Args:
        trace: what a rule has called.
        n_arrays: how many inputs are arrays; the others are scalars.
    """
    views: list[View] = []
    steps: list[Elementwise] = []

    def make_view(dtype: Any, shape: tuple[int, ...]) -> None:
        if not is_known(dtype):
            raise Unsupported(f"dtype {dtype}")
        views.append(View(Buffer("temporary", 0), 0, shape, shape and (dtype.itemsize,), dtype))

    for i, dtype in enumerate(trace.dtypes[: trace.input_count]):
        make_view(dtype, _ELEMENTS if i < n_arrays else _ONE)
    for call, dtype in zip(trace.calls, trace.dtypes[trace.input_count :], strict=True):
        operands = [
            Number(number, number.dtype) if source < 0 else views[source]
            for source, number in zip(call.sources, call.numbers, strict=True)
        ]
        shapes = {x.shape for x in operands if isinstance(x, View)}
        make_view(dtype, _ELEMENTS if _ELEMENTS in shapes else _ONE)
        _check_step(call, operands[0].dtype, views[-1].dtype)
        steps.append(Elementwise(call.name, tuple(operands), views[-1]))
    return views, steps


def _check_step(call: ArrayCall, source: np.dtype[Any], target: np.dtype[Any]) -> None:
    if isinstance(call.function, str) and call.name not in NO_UFUNCS:
        raise Unsupported(f"np.{call.name}")
    if call.name == "cast" and kind_of(source) + kind_of(target) not in CASTS:
        raise Unsupported(f"cast from {source} to {target}")


def _needed_steps(steps: Sequence[Elementwise], results: Sequence[View]) -> list[Elementwise]:
    """The steps on which results depend."""
    views, needed_steps = set(results), []
    for step in reversed(steps):
        if step.out in views:
            views.update(x for x in step.inputs if isinstance(x, View))
            needed_steps.append(step)
    return needed_steps[::-1]


@lru_cache(maxsize=64)
def array_function(program: FlatProgram, xp: Any) -> Callable[..., tuple[Any, ...]]:
    """A function of the arrays, then the scalars of a program, that gives its results.

    A result lies in the memory of an operand that nothing reads later, which is in a cache.
    """
    names = [f"x{k}" for k in range(len(program.arrays) + len(program.scalars))]
    head, lines = f"run({', '.join(names)})", []
    text = FunctionText(__name__)
    dtypes: dict[str, Any] = {}  # of the arrays that steps have made
    for step, operands, unused in program._schedule:
        result, dtype = f"y{len(names)}", step.out.dtype
        arguments = [names[x] if type(x) is int else text.constant(x) for x in operands]
        unread = [names[k] for k in unused if names[k] in dtypes]
        if step.name in NO_UFUNCS and len(arguments) == 1:
            lines.append(f"{result} = {arguments[0]}.astype({text.constant(dtype)})")
        else:
            same = [name for name in unread if dtypes[name] == dtype]
            if same and step.name not in NO_UFUNCS:
                arguments.append(f"out={same[0]}")
            lines.append(text.call(result, getattr(xp, step.name), arguments))
        if unread:
            lines.append(f"del {', '.join(unread)}")
        if step.out.shape:
            dtypes[result] = dtype
        names.append(result)
    lines.append(f"return {', '.join(names[k] for k in program._result_registers)},")
    return text.function(head, lines)
