"""One call for a whole batch in place of a call per element.

A function that is pure is run once on symbols. Its operations go over stacks by their batching
rules; if each that comes of it keeps the bits of the elements, as its facet `stackable` says, the
list of them is run on stacks. Anything else, and any function whose first stack disagrees with its
elements, is called element by element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainkit.core import nest
from trainkit.core.dispatch.straight_line import NotStraight, StepProgram, StepTrace
from trainkit.core.dtypes import string
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor
from trainkit.core.tensor_spec import TensorSpec
from trainkit.data.calling import Caller, _leaves, as_element
from trainkit.data.node import Leaves, block_size, stack_elements
from trainkit.ops.core.vmap import BatchedTensor, new_level, unbatched


class _StackTrace(StepTrace):
    """Notes operations on stacks, each of which must keep the bits of its elements.

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
            raise NotStraight(primitive.name)
        return super().apply(primitive, inputs, settings)

    def one_by_one(self, primitive: Any) -> None:
        """Refuse what has no way for a whole stack."""
        raise NotStraight(primitive.name)


class RowProgram:
    """A function's operations, to be run on stacks of elements.

    They are written down once, for one element. For each size of a stack, the batching rules make
    of them operations on the stack.

    Args:
        caller: holds the function.
        structure: specs of an element's leaves, all sizes known.

    Raises:
        NotStraight: an operation does not allow it.
    """

    def __init__(self, caller: Caller, structure: Any) -> None:
        specs = nest.flatten(structure)
        if not all(isinstance(s, TensorSpec) and s.shape.is_fully_defined() for s in specs):
            raise NotStraight("sizes that are not known")
        if any(s.dtype is string for s in specs):
            raise NotStraight("text")
        self.symbols = [SymbolicTensor(Spec(s.shape, s.dtype)) for s in specs]
        self.steps, self.results = self._of_one(caller, structure)
        self._of_size: dict[int, _StackProgram] = {}
        self.sums = self._for(_PROBED).sums

    def _of_one(self, caller: Caller, structure: Any) -> Any:
        trace = StepTrace()
        symbols = nest.pack(structure, list(self.symbols))

        def call() -> Any:
            return _leaves(as_element(caller.function(*caller.arguments(symbols))))

        try:
            leaves = trace.run(call)
        except Exception as error:  # the call on an element shows the error, if it is one
            raise NotStraight(str(error)) from error
        if not any(isinstance(leaf, SymbolicTensor) for leaf in leaves):
            raise NotStraight("a constant result")
        if not all(isinstance(leaf, Tensor) for leaf in leaves):
            raise NotStraight("None, or a data set")
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
        results = trace.run(_on_stacks, program, symbols, count)
        self.sums = trace.sums
        self._steps = StepProgram(symbols, trace.steps, results)

    def __call__(self, leaves: Leaves) -> Leaves:
        return self._steps(list(leaves))


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


class BatchCall:
    """A pure function, called on stacks: by its program if it has one, else one by one."""

    def __init__(self, caller: Caller, structure: Any) -> None:
        self.caller = caller
        self.checked = False
        self.program: RowProgram | None = None
        try:
            self.program = RowProgram(caller, structure)
        except NotStraight:
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
