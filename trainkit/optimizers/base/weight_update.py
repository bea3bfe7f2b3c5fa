"""A step of all weights with one rule, as one node of a graph.

An optimizer has a dozen operations for each weight, more in all than a large network has besides.
One node is traced, copied and scheduled once, and its loop is the one that eager steps run, which
comes compiled. A step of DenseNet-121 has 3,100 nodes so, where it had 7,500.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from trainkit import ops
from trainkit.compiler.flat import FlatProgram, array_function
from trainkit.compiler.ir import Elementwise
from trainkit.core import devices
from trainkit.core.devices import XP_OF
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.formulas import NO_UFUNCS
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import wrap
from trainkit.core.variable import Variable, writable_arrays
from trainkit.graph.ir.copied_calls import CopiedCalls
from trainkit.kernels.embedding.row_gradient import RowGradient, dense
from trainkit.optimizers.base.step_plan import interleave

if TYPE_CHECKING:
    from trainkit.optimizers.base.flat_update import FlatUpdate

_DTYPE, _IN_ORDER, _SHAPE = attrgetter("dtype"), attrgetter("flags.carray"), attrgetter("shape")
_INFIX: dict[Any, Callable[..., Any]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.divide: operator.truediv,
    np.negative: operator.neg,
}


class WeightUpdate:
    """What one optimizer does to each of many weights: the `rule` of `update_weights`.

    It holds the settings that the optimizer had when it was made, as a graph does.

    Args:
        name: of the optimizer's class.
        update: the rule as a program.
        is_conditional: whether a bool stands behind the numbers of the rule, without which all
            stays as it is.

    Attributes:
        n_numbers: how many numbers come first, the bool among them.
        n_buffers: how many arrays follow for each weight.
    """

    def __init__(self, name: str, update: FlatUpdate, is_conditional: bool) -> None:
        self._name = name
        self._update = update
        self._program = update.program
        self._is_conditional = is_conditional
        self._n_scalars = update.n_scalars
        self.n_numbers = update.n_scalars + is_conditional
        self.n_buffers = update.n_buffers

    def __repr__(self) -> str:
        return f"<rule of {self._name}>"

    def _split(self, inputs: Sequence[Any]) -> tuple[Sequence[Any], Any, list[Sequence[Any]]]:
        """The numbers of the rule, the bool or `None`, and the arrays of each weight."""
        scalars, n = inputs[: self._n_scalars], self.n_buffers
        active = inputs[self.n_numbers - 1] if self._is_conditional else None
        starts = range(self.n_numbers, len(inputs), n)
        return scalars, active, [inputs[i : i + n] for i in starts]

    # ------------------------------------------------------------------ on arrays

    def results(self, xp: Any, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The new weight and slots of each member, in memory of their own."""
        scalars, active, members = self._split(arrays)
        if active is not None and not active:
            return tuple(x for member in members for i, x in enumerate(member) if i != 1)
        if any(XP_OF[type(x)] is not np for member in members for x in member):
            return self._results_beside(members, scalars)
        # gradients are only read
        copies = [[_copy(x) if i != 1 else x for i, x in enumerate(m)] for m in members]
        self._write(copies, scalars)
        return tuple(x for member in copies for i, x in enumerate(member) if i != 1)

    def _results_beside(
        self, members: Sequence[Sequence[Any]], scalars: Sequence[Any]
    ) -> tuple[Any, ...]:
        """The same for arrays of a GPU, each weight on its own."""
        dtype = self._program.dtype
        # a number on a GPU is waited for once, not for each weight
        numbers = [np.asarray(devices.to_numpy(x), dtype)[()] for x in scalars]
        results: list[Any] = []
        for member in members:
            xp, where = XP_OF[type(member[0])], devices.device_of(member[0])
            buffers = [devices.to_device(x, where) for x in member]
            results += array_function(self._program, xp)(*buffers, *numbers)
        return tuple(results)

    def bound(self, buffers: Sequence[Variable | None]) -> Callable[..., list[Any]]:
        """A function that writes to variables, and has only the rest as arguments and results.

        Args:
            buffers: for each weight its variable and those of its slots, in the order of results;
                `None` for what is not to be written over.

        Returns:
            A function of the rule's numbers, then for each weight the gradient and the arrays for
            which `buffers` has `None`. It gives new arrays for these.
        """
        n = self.n_buffers - 1
        targets: list[list[Any]] = [list(buffers[i : i + n]) for i in range(0, len(buffers), n)]
        if None not in buffers:
            return self._bound_to_all(targets)

        def run(*arrays: Any) -> list[Any]:
            numbers, unbound = arrays[: self.n_numbers], arrays[self.n_numbers :]
            is_idle = self._is_conditional and not numbers[-1]
            return self._write_some(targets, unbound, numbers[: self._n_scalars], is_idle)

        return run

    def _bound_to_all(self, targets: list[list[Any]]) -> Callable[..., list[Any]]:
        """The same where all arrays but the gradients are written over."""
        n, variables = self.n_buffers - 1, [variable for group in targets for variable in group]
        total = sum(group[0]._value._array.size for group in targets)

        def run(*arrays: Any) -> list[Any]:
            grads, scalars = arrays[self.n_numbers :], arrays[: self._n_scalars]
            if self._is_conditional and not arrays[self.n_numbers - 1]:
                return []
            buffers = interleave(writable_arrays(variables), grads, n)
            if not self._update.run(buffers, len(grads), total, scalars):
                members = [buffers[i : i + n + 1] for i in range(0, len(buffers), n + 1)]
                self._write(members, scalars, targets)
            return []

        return run

    def _write_some(
        self, targets: list[list[Any]], unbound: Sequence[Any], scalars: Any, is_idle: bool
    ) -> list[Any]:
        """Write to the variables that there are, and give new arrays for the others."""
        inputs = iter(unbound)
        members, results = [], []
        for group in targets:
            grad, copies = None, []
            for i, target in enumerate(group):
                copies.append(_copy(next(inputs)) if target is None else target)
                # arguments come as weight, gradient, slots, whichever of them variables replace
                if i == 0:
                    grad = next(inputs)
            results += [x for x, target in zip(copies, group, strict=True) if target is None]
            if not is_idle:
                written = [
                    writable_arrays([target])[0] if target is not None else x
                    for x, target in zip(copies, group, strict=True)
                ]
                members.append([written[0], grad, *written[1:]])
        if members:
            self._write(members, scalars, targets)
        return results

    def _write(
        self,
        members: list[list[Any]],
        scalars: Sequence[Any],
        targets: Sequence[Sequence[Any]] = (),
    ) -> None:
        """Update members in place; variables get a new array where their own can't be written."""
        dtype = self._program.dtype
        # all are brought in order before the first is written: an error here changes nothing
        for index, member in enumerate(members):
            grad = member[1]
            is_known = type(grad) is np.ndarray or type(grad) is RowGradient
            is_fit = is_known and len(set(map(_SHAPE, member))) == 1
            if not is_fit or set(map(_DTYPE, member)) != {dtype}:
                member[1] = _fitting_gradient(member, dtype)
            arrays = [x for x in member if type(x) is not RowGradient]
            if all(map(_IN_ORDER, arrays)):
                continue
            for i, x in enumerate(member):
                if type(x) is not RowGradient and not x.flags.carray:
                    member[i] = np.array(x, dtype, order="C")
                    # members have the gradient at 1, which targets lack
                    target = targets[index][max(0, i - 1)] if targets and i != 1 else None
                    if target is not None:
                        target._value = wrap(member[i])
        self._update.run_all(members, scalars)

    # ------------------------------------------------------------------ as operations

    def as_operations(self, inputs: Sequence[Any]) -> list[Any]:
        """What `update_weights` gives on symbols, by an operation for each step of the rule."""
        scalars, active, members = self._split(inputs)
        updated = functools.partial(update_by_operations, self._program, scalars, active)
        calls = CopiedCalls(trace_state.current_trace())
        return [y for member in members for y in calls.results(updated, member, None)]


def has_operations(program: FlatProgram) -> bool:
    """Whether there is an operation for each function of a rule."""
    steps = (*program.scalar_steps, *program.steps)
    return all(step.name in NO_UFUNCS or hasattr(ops, step.name) for step in steps)


def update_by_operations(
    rule: Callable[..., Any] | FlatProgram, scalars: Any, active: Any, *arrays: Any
) -> Sequence[Any]:
    """What becomes of a weight and its slots; they stay where `active` does not hold."""
    weight, grad, *slots = arrays
    if isinstance(rule, FlatProgram):
        new = rule.evaluate(_operation, arrays, scalars)
    else:
        new = rule(ops, weight, grad, scalars, *slots)
    if active is None:
        return new
    return [ops.where(active, a, b) for a, b in zip(new, (weight, *slots), strict=True)]


def _operation(step: Elementwise, operands: Sequence[Any]) -> Any:
    if len(operands) == 1 and step.name in NO_UFUNCS:
        return ops.cast(operands[0], str(step.out.dtype))
    # numbers of NumPy would be constants of the graph, each an array of its own
    operands = [x.item() if isinstance(x, np.generic) else x for x in operands]
    return (_INFIX.get(getattr(np, step.name)) or getattr(ops, step.name))(*operands)


def _copy(x: Any) -> Any:
    return np.array(x, order="C")


def _fitting_gradient(member: Sequence[Any], dtype: Any) -> Any:
    """The gradient in the weight's shape and the rule's type.

    Raises:
        ShapeError: shapes differ.
        InvalidArgumentError: the weight or a slot has another type.
    """
    weight, grad, *slots = member
    # NumPy would broadcast them, and update the wrong elements without an error
    grad = dense(grad)
    if any(np.shape(x) != weight.shape for x in (grad, *slots)):
        shapes = ", ".join(str(np.shape(x)) for x in slots)
        raise ShapeError(
            f"update_weights: a weight of shape {weight.shape} has a gradient of shape "
            f"{np.shape(grad)} and slots of shapes {shapes or 'none'}; all must be the same"
        )
    for x in (weight, *slots):
        if x.dtype != dtype:
            raise InvalidArgumentError(
                f"update_weights: a weight or slot has dtype {x.dtype}, the rule takes {dtype}"
            )
    return np.array(grad, dtype, order="C")
