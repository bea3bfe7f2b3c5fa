"""One call for a whole batch in place of a call per element.

A function that is pure is run once on symbols. Its operations go over stacks by their batching
rules; if each that comes of it keeps the bits of the elements, as its facet `stackable` says, the
list of them is run on stacks. Anything else, and any function whose first stack disagrees with its
elements, is called element by element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import devices, nest
from trainkit.core.dispatch import trace_state
from trainkit.core.dtypes import string
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, wrap
from trainkit.core.tensor_spec import TensorSpec
from trainkit.data.calling import Caller, _leaves, as_element
from trainkit.data.node import Leaves, block_size, stack_elements
from trainkit.ops.core.vmap import BatchedTensor, new_level, unbatched

_ON_CPU = devices.device(devices.CPU)


class NotVectorizable(Exception):
    """The function has to be called element by element."""


Step = tuple[Any, tuple[Any, ...], dict[str, Any], tuple[SymbolicTensor, ...]]
"""A primitive, its inputs, settings and results."""


class _FunctionTrace:
    """Writes down the operations that a function does on symbols."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def apply(self, primitive: Any, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        if primitive.facets.effect:
            raise NotVectorizable(primitive.name)
        specs = [Spec(x.shape, x.dtype) if isinstance(x, Tensor) else x for x in inputs]
        result = primitive.shape_rule(*specs, **settings)
        several = isinstance(result, tuple)
        ys = tuple(map(SymbolicTensor, result if several else (result,)))
        self.steps.append((primitive, inputs, settings, ys))
        return ys if several else ys[0]

    def read_variable(self, variable: Any) -> Any:
        raise NotVectorizable("a variable")

    def assign_variable(self, variable: Any, value: Any) -> None:
        raise NotVectorizable("a variable")

    def initial_value(self, value: Any, name: str | None) -> Any:
        raise NotVectorizable("a variable")


class _StackTrace(_FunctionTrace):
    """Writes down operations on stacks, each of which must keep the bits of its elements.

    Attributes:
        sums: whether one adds up numbers of an element.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sums = False

    def apply(self, primitive: Any, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        holds = primitive.facets.stackable
        if callable(holds):
            self.sums = True
            holds = holds(len(inputs[0].shape), settings)
        if not (holds or primitive.facets.fusible or primitive.broadcasts):
            raise NotVectorizable(primitive.name)
        return super().apply(primitive, inputs, settings)

    def one_by_one(self, primitive: Any) -> None:
        """Refuse what has no way for a whole stack."""
        raise NotVectorizable(primitive.name)


def _trace(trace: _FunctionTrace, function: Callable[[], Any]) -> Any:
    """What `function` gives, with its operations written down by `trace`."""
    traces = trace_state.THREAD.traces
    traces.append(trace)
    try:
        with _ON_CPU:
            return function()
    finally:
        traces.pop()


class RowProgram:
    """A function's operations, to be run on stacks of elements.

    They are written down once, for one element. For each size of a stack, the batching rules make
    of them operations on the stack.

    Args:
        caller: holds the function.
        structure: specs of an element's leaves, all sizes known.

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
        self.steps, self.results = self._of_one(caller, structure)
        self._of_size: dict[int, _StackProgram] = {}
        self.sums = self._for(_PROBED).sums

    def _of_one(self, caller: Caller, structure: Any) -> Any:
        trace = _FunctionTrace()
        symbols = nest.pack(structure, list(self.symbols))

        def call() -> Any:
            return _leaves(as_element(caller.function(*caller.arguments(symbols))))

        try:
            leaves = _trace(trace, call)
        except Exception as error:  # the call on an element shows the error, if it is one
            raise NotVectorizable(str(error)) from error
        if not any(isinstance(leaf, SymbolicTensor) for leaf in leaves):
            raise NotVectorizable("a constant result")
        if not all(isinstance(leaf, Tensor) for leaf in leaves):
            raise NotVectorizable("None, or a data set")
        return trace.steps, leaves

    def _for(self, count: int) -> _StackProgram:
        """The program for stacks of `count` elements."""
        program = self._of_size.get(count)
        if program is None:
            if len(self._of_size) == _MOST_SIZES:
                self._of_size.clear()
            program = self._of_size[count] = _StackProgram(self, count)
        return program

    def __call__(self, leaves: Leaves) -> Leaves:
        """The function's results for a stack of elements."""
        return self._for(len(leaves[0]))(leaves)


_PROBED = 2  # the size for which it is tried whether there is a way
_MOST_SIZES = 16


class _StackProgram:
    """The operations of a function on stacks of one size.

    Attributes:
        sums: whether one adds up numbers of an element.
    """

    def __init__(self, program: RowProgram, count: int) -> None:
        trace = _StackTrace()
        dims = [(count, *x.shape) for x in program.symbols]
        pairs = zip(dims, program.symbols, strict=True)
        symbols = [SymbolicTensor(Spec(shape, x.dtype)) for shape, x in pairs]
        self.results = _trace(trace, lambda: _on_stacks(program, symbols, count))
        self.steps, self.sums = trace.steps, trace.sums
        self.slots = {id(x): i for i, x in enumerate(symbols)}
        last = {id(x): i for i, step in enumerate(self.steps) for x in step[1]}
        self.run = [self._bound(i, last) for i in range(len(self.steps))]
        self.outputs = [self.slots.get(id(r), r) for r in self.results]

    def _bound(self, i: int, last: dict[int, int]) -> Callable[[list[Any]], None]:
        """Step `i` as a function that adds its results to the values so far."""
        primitive, inputs, settings, ys = self.steps[i]
        slots: list[Any] = [self.slots.get(id(x)) for x in inputs]
        for y in ys:
            self.slots[id(y)] = len(self.slots)
        if self._in_place(i, last):
            return _writer_in_place(primitive.kernel, slots[0], inputs[1:])
        if (
            primitive.is_ufunc or primitive.facets.promotion != "none"
        ):  # NumPy's dtype may not be ours
            return _by_operation(primitive.op, list(zip(inputs, slots, strict=True)), settings)
        return _by_kernel(primitive.kernel, inputs, slots, settings)

    def _in_place(self, i: int, last: dict[int, int]) -> bool:
        """Whether step `i` may overwrite its first input: of the same kind and no later use."""
        primitive, inputs, _, (y, *_more) = self.steps[i]
        if not primitive.is_ufunc or not all(_scalar_like(other, y) for other in inputs[1:]):
            return False
        x = inputs[0]
        before = self.steps[:i]
        new_arrays = {id(s[3][0]) for s in before if s[0].is_ufunc or s[0].facets.fusible}
        viewed = {id(v) for s in before if s[0].facets.memory == "view" for v in s[1]}
        return (
            id(x) in new_arrays - viewed
            and all(x is not r for r in self.results)
            and last[id(x)] == i
            and x.dtype == y.dtype
            and x.dtype.is_floating
            and tuple(x.shape) == tuple(y.shape)
        )

    def __call__(self, leaves: Leaves) -> Leaves:
        values = list(leaves)
        for step in self.run:
            step(values)
        return [
            values[r] if type(r) is int else np.array(devices.to_numpy(r._array))
            for r in self.outputs
        ]


def _on_stacks(program: RowProgram, symbols: list[SymbolicTensor], count: int) -> list[Any]:
    """The results of a program's operations on stacks (count, ...) of what they were written for.

    Operations go over the stacks by their batching rules.
    """
    level = new_level()
    items: dict[int, Any] = {
        id(x): BatchedTensor(stack, level)
        for x, stack in zip(program.symbols, symbols, strict=True)
    }
    for primitive, inputs, settings, ys in program.steps:
        results = primitive.op(*[items.get(id(x), x) for x in inputs], **settings)
        items.update(
            zip(map(id, ys), results if type(results) is tuple else (results,), strict=True)
        )
    return [unbatched(items.get(id(r), r), level, count) for r in program.results]


def _by_operation(
    op: Any, pairs: list[tuple[Any, int | None]], settings: dict[str, Any]
) -> Callable[[list[Any]], None]:
    """A step that calls `op`, and appends the arrays of its results to the values so far.

    Args:
        op: the operation, which takes tensors.
        pairs: for each input what it is, and the position of the value that it is instead, if any.
        settings: for `op`.
    """

    def run(values: list[Any]) -> None:
        results = op(*[x if s is None else wrap(values[s]) for x, s in pairs], **settings)
        if type(results) is tuple:
            values.extend(y._array for y in results)
        else:
            values.append(results._array)

    return run


def _by_kernel(
    kernel: Any, inputs: tuple[Any, ...], slots: list[int | None], settings: dict[str, Any]
) -> Callable[[list[Any]], None]:
    """The same by a kernel on NumPy arrays, without tensors in between."""
    arrays = [x._array if type(x) is Tensor else x for x in inputs]
    pairs = list(zip(arrays, slots, strict=True))

    def run(values: list[Any]) -> None:
        results = kernel(np, *[x if s is None else values[s] for x, s in pairs], **settings)
        if type(results) is tuple:
            values.extend(results)
        else:
            values.append(results)

    return run


def _writer_in_place(
    kernel: Any, source: int, others: tuple[Any, ...]
) -> Callable[[list[Any]], None]:
    arrays = [x._array if isinstance(x, Tensor) else x for x in others]
    return lambda values: values.append(kernel(values[source], *arrays, values[source]))


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
        self.program: RowProgram | None = None
        try:
            self.program = RowProgram(caller, structure)
        except NotVectorizable:
            self.checked = True

    def __call__(self, leaves: Leaves) -> Leaves:
        if not self.checked:
            return self._check(leaves)
        if self.program is not None:
            return self.program(leaves)
        return self._one_by_one(leaves)

    def _one_by_one(self, leaves: Leaves) -> Leaves:
        rows = [
            [None if leaf is None else leaf[i] for leaf in leaves]
            for i in range(block_size(leaves))
        ]
        return stack_elements([self.caller.flat(row) for row in rows], "map")

    def _check(self, leaves: Leaves) -> Leaves:
        """The first stack, with its first and last element compared to calls on them alone.

        All of them are compared where sums are made, whose bits could depend on their order.
        """
        assert self.program is not None
        originals = [leaf.copy() for leaf in leaves]
        try:
            stacked: Leaves | None = self.program(leaves)
        except Exception:  # the calls one by one show the error, if it is one
            stacked = None
        rows = range(len(originals[0])) if self.program.sums else (0, -1)
        if stacked is None or not all(self._agrees(originals, stacked, i) for i in rows):
            self.program = None
            stacked = self._one_by_one(originals)
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
