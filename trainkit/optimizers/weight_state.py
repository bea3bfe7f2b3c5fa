"""What an optimizer keeps for one weight, and the in-place update of that weight on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.core import abstract, devices, dtypes
from trainkit.core.devices import XP_OF
from trainkit.core.tensor import wrap
from trainkit.core.variable import Variable
from trainkit.optimizers.rule_loop import HotProgram
from trainkit.optimizers.rule_program import NotElementwise, RuleProgram


class WeightState:
    """One weight, its slots, and the rule that updates them.

    Attributes:
        weight: the Variable that is trained.
        names: the slots that `rule` takes and gives, in its order.
        slots: Variables by slot name, `names` first, then those the base optimizer keeps.
        dtype: NumPy dtype that the rule computes in and slots are kept in: float32 for
            half-precision weights, else the weight's.
        rule: `(xp, weight, grad, scalars, *slots) -> (weight, *slots)`.
        key: weights whose key is equal share one compiled program.
    """

    __slots__ = ("dtype", "key", "names", "rule", "slots", "weight")

    def __init__(self, weight: Variable, names: tuple[str, ...], rule: Any, key: Any) -> None:
        self.weight = weight
        self.names = names
        self.rule = rule
        self.slots: dict[str, Variable] = {}
        self.dtype = compute_dtype(weight)
        self.key = (key, self.dtype)

    def add_slot(self, name: str, value: Any, owner: str) -> Variable:
        """Make the Variable of slot `name`, with `value` at first, on the device of the weight."""
        path = self.weight.path.replace("/", "_").replace(":", "_")
        with abstract.eagerly():
            slot = Variable(wrap(value), trainable=False, name=f"{path}_{name}")
        slot.path = f"{owner}/{slot.path}"
        self.slots[name] = slot
        return slot

    def update_arrays(self, grad: Any, scalars: Sequence[Any], programs: Programs) -> Any:
        """Update weight and slots with the gradient array `grad`, or say how that is done in place.

        Returns:
            The program that updates them and the buffers that it takes; `None` where all is done.
        """
        if isinstance(grad, np.generic):  # what operations on scalars give
            grad = np.asarray(grad)
        array = self.weight._value._array
        in_place = type(array) is type(grad) is np.ndarray and array.dtype is self.dtype
        del array  # a second holder would make the weight copy itself
        if in_place and (program := programs.of(self, len(scalars))) is not None:
            buffers = self._buffers(grad)
            if buffers is not None:
                return program, buffers
        self._update_plainly(grad, scalars)
        return None

    def _buffers(self, grad: Any) -> list[Any] | None:
        """Weight, gradient and slots as a program takes them, `None` where one can't be written."""
        slots = self.slots
        buffers = [self.weight._writable(), grad]
        buffers += [slots[name]._writable() for name in self.names]
        for i, array in enumerate(buffers):
            if not array.flags.carray or array.dtype is not self.dtype:
                if i != 1:
                    return None
                buffers[1] = np.array(grad, self.dtype, order="C")
        return buffers

    def _update_plainly(self, grad: Any, scalars: Sequence[Any]) -> None:
        weight = self.weight._value._array
        xp = XP_OF[type(weight)]
        grad = devices.to_device(grad, devices.device_of(weight)).astype(self.dtype, copy=False)
        scalars = [np.asarray(x).astype(self.dtype)[()] for x in scalars]
        slots = [self.slots[name]._value._array for name in self.names]
        new = self.rule(xp, weight.astype(self.dtype, copy=False), grad, tuple(scalars), *slots)
        original = weight.dtype
        del weight, slots
        self.weight._store(new[0].astype(original, copy=False))
        for name, value in zip(self.names, new[1:], strict=True):
            self.slots[name]._store(value.astype(self.dtype, copy=False))


def compute_dtype(weight: Variable) -> Any:
    """float32 for half-precision weights, the weight's own NumPy dtype otherwise."""
    if weight.dtype.name in ("float16", "bfloat16"):
        return dtypes.float32.dtype
    return weight.dtype.dtype


class Programs:
    """The programs of one optimizer, by rule and dtype; `None` for rules that have none."""

    def __init__(self) -> None:
        self._programs: dict[Any, HotProgram | None] = {}

    def of(self, state: WeightState, n_scalars: int) -> HotProgram | None:
        """The program of a weight's rule, made when it is first asked for."""
        if state.key in self._programs:
            return self._programs[state.key]
        try:
            program = RuleProgram(state.rule, len(state.names), n_scalars, state.dtype)
        except NotElementwise:
            self._programs[state.key] = None
            return None
        made = self._programs[state.key] = HotProgram(program)
        return made

    def forget(self) -> None:
        """Drop all programs: a setting that they hold as a number has changed."""
        self._programs.clear()
