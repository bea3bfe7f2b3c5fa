"""What an optimizer keeps for one weight, and the in-place update of that weight on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from trainkit.compiler.flat import FlatProgram, array_function
from trainkit.core import devices, dtypes
from trainkit.core.devices import XP_OF
from trainkit.core.dispatch import eval_shape
from trainkit.core.tensor import wrap
from trainkit.core.variable import Variable, writable_arrays

_DTYPE, _IN_ORDER = attrgetter("dtype"), attrgetter("flags.carray")


class SlotState:
    """One weight, its slots, and the rule that updates them.

    Attributes:
        weight: the Variable that is trained.
        names: the slots that `rule` takes and gives, in its order.
        slots: Variables by slot name, `names` first, then those the base optimizer keeps.
        held: those that `names` names.
        dtype: NumPy dtype that the rule computes in and slots are kept in: float32 for
            half-precision weights, else the weight's.
        rule: `(xp, weight, grad, scalars, *slots) -> (weight, *slots)`.
        key: weights whose key is equal share one compiled program.
        with_average, average_alone: the same weight with its moving average, and that average by
            itself, see `averages.py`; `None` until they are asked for.
    """

    __slots__ = (
        *("_written", "average_alone", "dtype", "held", "key", "names", "rule", "slots"),
        *("weight", "with_average"),
    )

    def __init__(self, weight: Variable, names: tuple[str, ...], rule: Any, key: Any) -> None:
        self.weight = weight
        self.names = names
        self.rule = rule
        self.slots: dict[str, Variable] = {}
        self.held: list[Variable] = []
        self._written: list[Variable] = [weight]
        self.dtype = compute_dtype(weight)
        self.key = (key, self.dtype)
        self.with_average: SlotState | None = None
        self.average_alone: SlotState | None = None

    def add_slot(self, name: str, value: Any, owner: str) -> Variable:
        """Make the Variable of slot `name`, with `value` at first, on the device of the weight."""
        path = self.weight.path.replace("/", "_").replace(":", "_")
        # a weight may come for the first time while a function is traced
        with eval_shape.eagerly():
            slot = Variable(wrap(value), trainable=False, name=f"{path}_{name}")
        slot.path = f"{owner}/{slot.path}"
        slot._numbered = False
        self.take_slots({**self.slots, name: slot})
        return slot

    def take_slots(self, slots: dict[str, Variable]) -> None:
        """Have these slots, in their order."""
        self.slots = slots
        # lists that each step asks for, made once
        self.held = [slots[name] for name in self.names if name in slots]
        self._written = [self.weight, *self.held]

    def buffers(self, grad: Any) -> list[Any] | None:
        """Weight, gradient and slots to update in place, `None` where one can't be written so."""
        if type(grad) is not np.ndarray:
            if not isinstance(grad, np.generic):  # what operations on scalars give
                return None
            grad = np.asarray(grad)
        buffers = writable_arrays(self._written)
        buffers.insert(1, grad)
        if set(map(_DTYPE, buffers)) == {self.dtype} and all(map(_IN_ORDER, buffers)):
            return buffers
        return self._with_gradient_in_order(buffers)

    def _with_gradient_in_order(self, buffers: list[Any]) -> list[Any] | None:
        """`buffers` with a gradient that was in another order or dtype, if all else will do."""
        for i, array in enumerate(buffers):
            if i != 1 and (array.dtype is not self.dtype or not array.flags.carray):
                return None
        buffers[1] = np.array(buffers[1], self.dtype, order="C")
        return buffers

    @property
    def is_in_place(self) -> bool:
        """Whether the weight is an array on the CPU of the dtype that is computed in."""
        array = self.weight._value._array
        return type(array) is np.ndarray and array.dtype is self.dtype

    @property
    def is_on_gpu(self) -> bool:
        """Whether the weight is on a GPU, in the dtype that is computed in."""
        array = self.weight._value._array
        return XP_OF[type(array)] is not np and array.dtype == self.dtype

    def update_plainly(
        self, grad: Any, scalars: Sequence[Any], program: FlatProgram | None
    ) -> None:
        """Compute new arrays from the old, and keep those.

        Args:
            grad: the gradient, of any dtype and device.
            scalars: what the rule takes as its scalars.
            program: the rule as a program, `None` for one that sees more than elements.
        """
        weight = self.weight._value._array
        xp = XP_OF[type(weight)]
        grad = devices.to_device(grad, devices.device_of(weight)).astype(self.dtype, copy=False)
        # NumPy's scalars of the rule's type, as in compiled programs: the same bits either way
        scalars = [np.asarray(x).astype(self.dtype)[()] for x in scalars]
        slots = [self.slots[name]._value._array for name in self.names]
        arrays = [weight.astype(self.dtype, copy=False), grad, *slots]
        if program is None:
            new = self.rule(xp, *arrays[:2], tuple(scalars), *slots)
        else:
            # of one axis: NumPy makes numbers of arrays of none, which have no memory to write to
            flat = [x.reshape(-1) for x in arrays]
            new = [x.reshape(weight.shape) for x in array_function(program, xp)(*flat, *scalars)]
            del flat
        original = weight.dtype
        # further holders would keep `_store` from writing in place
        del weight, slots, arrays
        self.weight._store(new[0].astype(original, copy=False))
        for name, value in zip(self.names, new[1:], strict=True):
            self.slots[name]._store(value.astype(self.dtype, copy=False))


def compute_dtype(weight: Variable) -> Any:
    """float32 for half-precision weights, the weight's own NumPy dtype otherwise."""
    # squares of small gradients are 0 in float16, and bfloat16 loses what a small step adds
    if weight.dtype.name in ("float16", "bfloat16"):
        return dtypes.float32.dtype
    return weight.dtype.dtype
