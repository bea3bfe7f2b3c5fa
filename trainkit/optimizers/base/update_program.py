"""An optimizer's `update` turned into a list of in-place steps that allocate nothing.

`update` is run once on symbols; what it did to them is the program. The program then runs on NumPy
buffers piece by piece, so that its scratch stays in the cache, and writes weight and slots where
they are. One formula thus serves arrays, graphs and this; the numbers are the same, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

PIECE = 65536
"""Elements worked on at a time: six float32 buffers of it stay in a second-level cache, nearly."""


class NotElementwise(Exception):
    """The rule does more than apply NumPy ufuncs to its arguments, element by element."""


class Symbol:
    """A value inside a rule that is being traced: an input, or a ufunc applied to others.

    Attributes:
        ufunc: what made it; `None` for an input.
        inputs: what `ufunc` was applied to.
        is_scalar: whether it is one number for all elements, such as the learning rate.
    """

    __slots__ = ("inputs", "is_scalar", "ufunc")
    # an array beside a symbol leaves the operation to the symbol, and is refused there
    __array_ufunc__ = None
    # a class with `__eq__` has none by itself; two symbols are the same by identity alone
    __hash__ = object.__hash__

    def __init__(
        self, ufunc: Any = None, inputs: tuple[Any, ...] = (), is_scalar: bool = False
    ) -> None:
        self.ufunc = ufunc
        self.inputs = inputs
        self.is_scalar = is_scalar

    def __add__(self, other: Any) -> Symbol:
        return _apply(np.add, self, other)

    def __radd__(self, other: Any) -> Symbol:
        return _apply(np.add, other, self)

    def __sub__(self, other: Any) -> Symbol:
        return _apply(np.subtract, self, other)

    def __rsub__(self, other: Any) -> Symbol:
        return _apply(np.subtract, other, self)

    def __mul__(self, other: Any) -> Symbol:
        return _apply(np.multiply, self, other)

    def __rmul__(self, other: Any) -> Symbol:
        return _apply(np.multiply, other, self)

    def __truediv__(self, other: Any) -> Symbol:
        return _apply(np.true_divide, self, other)

    def __rtruediv__(self, other: Any) -> Symbol:
        return _apply(np.true_divide, other, self)

    def __neg__(self) -> Symbol:
        return _apply(np.negative, self)

    def __eq__(self, other: object) -> bool:
        raise NotElementwise("a comparison")

    def __bool__(self) -> bool:
        raise NotElementwise("a decision by value")

    def __getattr__(self, name: str) -> Any:
        raise NotElementwise(f"the attribute {name!r} of an array")


def _apply(ufunc: Any, *inputs: Any) -> Symbol:
    scalar = all(x.is_scalar for x in inputs if isinstance(x, Symbol))
    return Symbol(ufunc, inputs, scalar)


class _SymbolModule:
    """The `xp` of a rule that is being traced: NumPy's ufuncs of one output, on symbols."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        ufunc = getattr(np, name, None)
        if not isinstance(ufunc, np.ufunc) or ufunc.nout != 1:
            raise NotElementwise(name)

        def applied(*inputs: Any) -> Any:
            # of settings alone: a number in the program
            if not any(isinstance(x, Symbol) for x in inputs):
                return ufunc(*inputs)
            return _apply(ufunc, *inputs)

        return applied


SYMBOLS = _SymbolModule()


class UpdateStep:
    """One ufunc call: register numbers of its inputs and of the buffer it writes."""

    __slots__ = ("inputs", "out", "ufunc")

    def __init__(self, ufunc: Any, inputs: tuple[int, ...], out: int) -> None:
        self.ufunc = ufunc
        self.inputs = inputs
        self.out = out


class UpdateProgram:
    """What `rule(xp, weight, grad, scalars, *slots)` does, ready to run in place.

    Registers are numbered: weight, gradient and slots first, then scratch buffers, then scalars,
    numbers, and what is computed from these alone.

    Args:
        rule: gives the new weight and the new slots as a tuple; made of ufuncs and Python
            operators.
        n_slots: how many slots it takes.
        n_scalars: how many scalars it takes, as one tuple.
        dtype: the NumPy dtype of all buffers.

    Raises:
        NotElementwise: the rule does anything else.
    """

    def __init__(self, rule: Callable[..., Any], n_slots: int, n_scalars: int, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self.n_buffers = 2 + n_slots
        self.n_scalars = n_scalars
        self.n_scratch = 0
        self.numbers: list[Any] = []
        self.scalar_steps: list[UpdateStep] = []
        self.steps: list[UpdateStep] = []
        self.results: Sequence[Symbol] = ()
        self.inputs: tuple[Sequence[Symbol], Sequence[Symbol]] = ((), ())
        self.order: list[Symbol] = []
        buffers = [Symbol() for _ in range(self.n_buffers)]
        scalars = tuple(Symbol(is_scalar=True) for _ in range(n_scalars))
        results = rule(SYMBOLS, buffers[0], buffers[1], scalars, *buffers[2:])
        if len(results) != 1 + n_slots:
            raise ValueError(f"update gave {len(results)} values for a weight and {n_slots} slots")
        _Compiler(self, buffers, scalars).compile(results)
        self._scratch = [np.empty(0, self.dtype)] * self.n_scratch

    def run(self, buffers: Sequence[Any], scalars: Sequence[Any]) -> None:
        """Update `buffers[0]` (the weight) and `buffers[2:]` (the slots) in place.

        Args:
            buffers: C-contiguous arrays of one shape and of this program's dtype.
            scalars: 0-d arrays or NumPy scalars of the same dtype.
        """
        tail = [*scalars, *self.numbers]
        tail += self.hoisted(scalars)
        size = buffers[0].size
        # in one piece, without slices; buffers lie in order, so `reshape` gives views to write to
        if size <= PIECE:
            self._run_piece([x.reshape(-1) for x in buffers], tail, size)
            return
        flat = [x.reshape(-1) for x in buffers]
        for start in range(0, size, PIECE):
            piece = [x[start : start + PIECE] for x in flat]
            self._run_piece(piece, tail, min(PIECE, size - start))

    def hoisted(self, scalars: Sequence[Any]) -> list[Any]:
        """What the rule computes from scalars and numbers alone, once a step."""
        tail = [*scalars, *self.numbers]
        for step in self.scalar_steps:
            tail.append(step.ufunc(*[tail[i] for i in step.inputs]))
        return tail[len(scalars) + len(self.numbers) :]

    def _run_piece(self, registers: list[Any], tail: list[Any], size: int) -> None:
        for i, scratch in enumerate(self._scratch):
            if len(scratch) < size:
                scratch = self._scratch[i] = np.empty(size, self.dtype)
            registers.append(scratch[:size])
        registers += tail
        for step in self.steps:
            inputs = step.inputs
            # most steps, which need no list made for their inputs
            if len(inputs) == 2:
                step.ufunc(registers[inputs[0]], registers[inputs[1]], out=registers[step.out])
            else:
                step.ufunc(*[registers[i] for i in inputs], out=registers[step.out])


class _Compiler:
    """Turns result symbols into the steps of a program and assigns registers."""

    def __init__(
        self, program: UpdateProgram, buffers: list[Symbol], scalars: tuple[Symbol, ...]
    ) -> None:
        self.program = program
        self.buffers = buffers
        self.scalars = scalars
        self.order: list[Symbol] = []
        self.seen: set[int] = {id(x) for x in (*buffers, *scalars)}

    def _check_results(self, results: Sequence[Any]) -> None:
        """Refuse a buffer as the new value of another: that would need a copy in time."""
        for i, result in enumerate(results):
            if not isinstance(result, Symbol) or result.is_scalar:
                raise NotElementwise("a result that is one number")
            # Result 0 belongs to buffer 0, and i to i + 1. The gradient may become a slot: nothing
            # writes to it, so it can still be copied at the end.
            others = [x for j, x in enumerate(self.buffers) if j not in (1, i and i + 1)]
            if any(result is x for x in others):
                raise NotElementwise("a buffer as the new value of another")

    def _visit(self, x: Any) -> None:
        if not isinstance(x, Symbol) or id(x) in self.seen:
            return
        self.seen.add(id(x))
        for item in x.inputs:
            self._visit(item)
        self.order.append(x)

    def compile(self, results: Sequence[Any]) -> None:
        """Fill the program's `steps`, `scalar_steps`, `numbers` and `n_scratch`."""
        self._check_results(results)
        for result in results:
            self._visit(result)
        program = self.program
        program.results = results
        program.inputs = (self.buffers, self.scalars)
        program.order = self.order
        array_symbols = [x for x in self.order if not x.is_scalar]
        self._number_tail([x for x in self.order if x.is_scalar], array_symbols)
        self._assign(array_symbols, results)

    def _number_tail(self, scalar_symbols: list[Symbol], array_symbols: list[Symbol]) -> None:
        """Places of scalars and numbers, counted from the first scalar."""
        tail_index: dict[Any, int] = {id(x): i for i, x in enumerate(self.scalars)}
        numbers: list[Any] = []

        def locate(x: Any) -> int:
            if isinstance(x, Symbol):
                return tail_index[id(x)]
            if not isinstance(x, int | float | np.floating | np.integer):
                raise NotElementwise(f"an array of type {type(x).__name__}")
            key = ("number", float(x).hex())  # 0.0 and -0.0 are equal, and are two numbers
            if key not in tail_index:
                tail_index[key] = len(self.scalars) + len(numbers)
                numbers.append(np.asarray(x, self.program.dtype))
            return tail_index[key]

        for symbol in (*scalar_symbols, *array_symbols):
            for x in symbol.inputs:
                if not isinstance(x, Symbol):
                    locate(x)
        steps = []
        for i, symbol in enumerate(scalar_symbols):
            tail_index[id(symbol)] = len(self.scalars) + len(numbers) + i
            steps.append(
                UpdateStep(symbol.ufunc, tuple(map(locate, symbol.inputs)), tail_index[id(symbol)])
            )
        self.program.numbers = numbers
        self.program.scalar_steps = steps
        self.locate = locate

    def _assign(self, symbols: list[Symbol], results: Sequence[Symbol]) -> None:
        """Registers for what the steps compute; results go straight home where that is safe."""
        last_read = {
            id(x): i for i, s in enumerate(symbols) for x in s.inputs if isinstance(x, Symbol)
        }
        home = {id(x): i for i, x in enumerate(self.buffers)}
        targets: dict[int, int] = {}
        for i, result in enumerate(results):
            slot = i if i == 0 else i + 1
            if result is not self.buffers[slot]:
                # the new value of two buffers is computed into the first, and copied last
                targets.setdefault(id(result), slot)
        free: list[int] = []
        n_scratch = 0
        plan: list[tuple[Symbol, int]] = []
        for i, symbol in enumerate(symbols):
            target = targets.get(id(symbol))
            for x in symbol.inputs:
                input_register = home.get(id(x), -1) if isinstance(x, Symbol) else -1
                # scratch is free after the last read of what it holds; results stay where they are
                dies = input_register >= self.program.n_buffers and id(x) not in targets
                if dies and last_read[id(x)] == i and input_register not in free:
                    free.append(input_register)
            # straight to the weight or slot if no later step reads its old value; this one may, as
            # ufuncs write over an input element by element
            if target is not None and last_read.get(id(self.buffers[target]), -1) <= i:
                register = target
            elif free:
                register = free.pop()
            else:
                register = self.program.n_buffers + n_scratch
                n_scratch += 1
            home[id(symbol)] = register
            plan.append((symbol, register))
        self.program.n_scratch = n_scratch
        tail = self.program.n_buffers + n_scratch

        def register_of(x: Any) -> int:
            if isinstance(x, Symbol) and not x.is_scalar:
                return home[id(x)]
            return tail + self.locate(x)

        # A register may be given to a new value while it still holds an input of that very step
        # only, so places are looked up in the order of the steps.
        home = {id(x): i for i, x in enumerate(self.buffers)}
        steps = []
        for symbol, register in plan:
            inputs = tuple(map(register_of, symbol.inputs))
            home[id(symbol)] = register
            steps.append(UpdateStep(symbol.ufunc, inputs, register))
        for i, result in enumerate(results):
            slot = i if i == 0 else i + 1
            if home[id(result)] != slot:
                # what could not go there at once, now that every old value has been read
                steps.append(UpdateStep(np.positive, (home[id(result)],), slot))
        self.program.steps = steps
