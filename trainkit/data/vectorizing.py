"""One call for a whole batch in place of a call per element.

A function that is pure is run once on symbols. If each operation it made is one whose result for
stacked inputs is the stack of the results, to the bit, the list of them is run on stacks. Anything
else, and any function whose first stack disagrees with its elements, is called element by element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import devices, nest
from trainkit.core.dispatch import trace_state
from trainkit.core.dtypes import string
from trainkit.core.shapes import Spec
from trainkit.core.tensor import SymbolicTensor, Tensor, wrap
from trainkit.core.tensor_spec import TensorSpec
from trainkit.data.calling import Caller, _leaves, as_element
from trainkit.data.node import Leaves, stack_elements
from trainkit.data.stacking import AXES, SUMS, NotVectorizable, taken, taken_from_table

_ON_CPU = devices.device(devices.CPU)


def _alike(primitive: Any) -> bool:
    """Whether each element of the result depends on one element of each input."""
    return bool(primitive.facets.fusible or primitive.broadcasts)


class _Trace:
    """Writes down the operations that a function does on symbols."""

    def __init__(self) -> None:
        self.steps: list[tuple[Any, tuple[Any, ...], dict[str, Any], list[SymbolicTensor]]] = []

    def apply(self, primitive: Any, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        if primitive.facets.effect or not (_alike(primitive) or primitive.name in AXES):
            raise NotVectorizable(primitive.name)
        specs = [Spec(x.shape, x.dtype) if isinstance(x, Tensor) else x for x in inputs]
        result = primitive.shape_rule(*specs, **settings)
        if isinstance(result, tuple):
            raise NotVectorizable(primitive.name)
        y = SymbolicTensor(result)
        self.steps.append((primitive, inputs, settings, [y]))
        return y

    def read_variable(self, variable: Any) -> Any:
        raise NotVectorizable("a variable")

    def assign_variable(self, variable: Any, value: Any) -> None:
        raise NotVectorizable("a variable")

    def initial_value(self, value: Any, name: str | None) -> Any:
        raise NotVectorizable("a variable")


class Program:
    """A function's operations, to be run on stacks of elements.

    Args:
        caller: holds the function.
        specs: those of an element's leaves, all sizes known.

    Raises:
        NotVectorizable: an operation does not allow it.
    """

    def __init__(self, caller: Caller, structure: Any) -> None:
        specs = nest.flatten(structure)
        if not all(isinstance(s, TensorSpec) and s.shape.is_fully_defined() for s in specs):
            raise NotVectorizable("sizes that are not known")
        if any(s.dtype is string for s in specs):
            raise NotVectorizable("text")
        self.symbols = [SymbolicTensor(Spec(s.shape, s.dtype)) for s in specs]
        self.steps, self.results = self._traced(caller, structure)
        self.sums = any(step[0].name in SUMS for step in self.steps)
        self.slots = {id(x): i for i, x in enumerate(self.symbols)}
        last = {id(x): i for i, step in enumerate(self.steps) for x in step[1]}
        self.run = [self._bound(i, last) for i in range(len(self.steps))]
        self.outputs = [self.slots.get(id(r), r) for r in self.results]

    def _traced(self, caller: Caller, structure: Any) -> Any:
        trace = _Trace()
        trace_state.THREAD.traces.append(trace)
        try:
            with _ON_CPU:
                result = caller.function(
                    *caller.arguments(nest.pack(structure, list(self.symbols)))
                )
                leaves = _leaves(as_element(result))
        except Exception as error:  # the call on an element shows the error, if it is one
            raise NotVectorizable(str(error)) from error
        finally:
            trace_state.THREAD.traces.pop()
        if not any(isinstance(leaf, SymbolicTensor) for leaf in leaves):
            raise NotVectorizable("a constant result")
        if not all(isinstance(leaf, Tensor) for leaf in leaves):
            raise NotVectorizable("None, or a data set")
        return trace.steps, leaves

    def _bound(self, i: int, last: dict[int, int]) -> Callable[[list[Any], int], Any]:
        """Step `i` as a function of the values so far and the number of elements."""
        primitive, inputs, settings, (y,) = self.steps[i]
        slots: list[Any] = [self.slots.get(id(x)) for x in inputs]
        self.slots[id(y)] = len(self.slots)
        if primitive.name == "take":
            return self._take(slots, inputs, settings)
        if primitive.name in AXES:
            AXES[primitive.name](1, len(inputs[0].shape), settings)  # raises if there is no way
        if primitive.name == "cast":
            source, dtype = slots[0], y.dtype.dtype
            return lambda values, count: values[source].astype(dtype)
        if self._in_place(i, last):
            kernel, source = primitive.kernel, slots[0]
            others = [x._array if isinstance(x, Tensor) else x for x in inputs[1:]]
            return lambda values, count: kernel(values[source], *others, values[source])
        apply = _elementwise if _alike(primitive) else _moved
        pairs = list(zip(inputs, slots, strict=True))
        return lambda values, count: apply(
            primitive, [x if s is None else values[s] for x, s in pairs], inputs, settings, y, count
        )

    @staticmethod
    def _take(slots: list[Any], inputs: Any, settings: Any) -> Callable[[list[Any], int], Any]:
        """Picks from a table that is the same for all elements, or the same picks from each."""
        table, picks = slots
        if table is None:
            kernel = taken_from_table(inputs[0]._array, settings)
            return lambda values, count: kernel(values[picks])
        if picks is not None:
            raise NotVectorizable("take of an element's own positions")
        kernel = taken(inputs[1]._array, len(inputs[0].shape), settings)
        return lambda values, count: kernel(values[table])

    def _in_place(self, i: int, last: dict[int, int]) -> bool:
        """Whether step `i` may overwrite its first input: of the same kind and no later use."""
        primitive, inputs, _, (y,) = self.steps[i]
        x = inputs[0]
        made = {id(s[3][0]) for s in self.steps[:i] if s[0].is_ufunc or s[0].name == "cast"}
        viewed = {id(v) for s in self.steps[:i] if s[0].name in AXES for v in s[1]}
        return (
            primitive.is_ufunc
            and all(_scalar_like(other, y) for other in inputs[1:])
            and id(x) in made - viewed
            and all(x is not r for r in self.results)
            and last[id(x)] == i
            and x.dtype == y.dtype
            and x.dtype.is_floating
            and x.shape == y.shape
        )

    def __call__(self, leaves: Leaves) -> Leaves:
        """The function's results for a stack of elements."""
        count = len(leaves[0])
        values = list(leaves)
        for step in self.run:
            values.append(step(values, count))
        return [values[r] if type(r) is int else _whole(r, count) for r in self.outputs]


def _elementwise(
    primitive: Any, arrays: list[Any], inputs: Any, settings: Any, y: Any, count: int
) -> Any:
    """An operation on stacks, whose elements are made to have one rank."""
    rank = len(y.shape)
    ready = []
    for x, array in zip(inputs, arrays, strict=True):
        if isinstance(x, SymbolicTensor):
            missing = rank - (array.ndim - 1)
            if missing:
                array = array.reshape(array.shape[0], *(1,) * missing, *array.shape[1:])
            array = wrap(array)
        ready.append(array)
    return primitive.op(*ready, **settings)._array


def _moved(
    primitive: Any, arrays: list[Any], inputs: Any, settings: Any, y: Any, count: int
) -> Any:
    """An operation that moves or names axes, on stacks."""
    stacks = [wrap(_whole(array, count)) for array in arrays]
    more = AXES[primitive.name](count, len(inputs[0].shape), settings)
    return primitive.op(*stacks, **more)._array


def _whole(value: Any, count: int) -> Any:
    """A stack; a tensor that is the same for all elements is repeated."""
    if isinstance(value, Tensor):
        return np.repeat(np.asarray(value._array)[None], count, axis=0)
    return value


def _scalar_like(x: Any, y: Any) -> bool:
    """Whether `x` is a number, or a scalar tensor of the dtype of `y`."""
    if type(x) in (int, float):
        return True
    return type(x) is Tensor and x._array.shape == () and x.dtype == y.dtype


class BatchCall:
    """A pure function, called on stacks: by its program if it has one, else one by one."""

    def __init__(self, caller: Caller, structure: Any) -> None:
        self.caller = caller
        self.checked = False
        self.program: Program | None = None
        try:
            self.program = Program(caller, structure)
        except NotVectorizable:
            self.checked = True

    def __call__(self, leaves: Leaves) -> Leaves:
        if not self.checked:
            return self._check(leaves)
        if self.program is not None:
            return self.program(leaves)
        return self._one_by_one(leaves)

    def _one_by_one(self, leaves: Leaves) -> Leaves:
        elements = [self.caller.flat([leaf[i] for leaf in leaves]) for i in range(len(leaves[0]))]
        return stack_elements(elements, "map")

    def _check(self, leaves: Leaves) -> Leaves:
        """The first stack, with its first and last element compared to calls on them alone.

        All of them are compared where sums are made, whose bits could depend on their order.
        """
        assert self.program is not None
        kept = [leaf.copy() for leaf in leaves]
        try:
            stacked: Leaves | None = self.program(leaves)
        except Exception:  # the calls one by one show the error, if it is one
            stacked = None
        places = range(len(kept[0])) if self.program.sums else (0, -1)
        if stacked is None or not all(self._agrees(kept, stacked, i) for i in places):
            self.program = None
            stacked = self._one_by_one(kept)
        self.checked = True
        return stacked

    def _agrees(self, leaves: Leaves, stacked: Leaves, i: int) -> bool:
        alone = self.caller.flat([leaf[i] for leaf in leaves])
        return len(alone) == len(stacked) and all(
            _same(np.asarray(a), np.asarray(b[i])) for a, b in zip(alone, stacked, strict=True)
        )


def _same(a: Any, b: Any) -> bool:
    """Equal to the bit, dtype and shape included."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
