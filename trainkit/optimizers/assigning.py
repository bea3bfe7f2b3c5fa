"""The way Keras 3 writes an optimizer: `build` makes variables, `update_step` assigns them.

Optimizers of users may be written like this. Those of trainkit say in `update` what the new values
are, which is compiled to one pass over memory; this way runs operation by operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainkit import initializers, ops
from trainkit.core import abstract, recorder
from trainkit.core.errors import UnimplementedError
from trainkit.core.tensor import convert_to_tensor, wrap
from trainkit.core.trackable import Trackable
from trainkit.core.variable import Variable

if TYPE_CHECKING:
    from trainkit.optimizers.optimizer import Optimizer
    from trainkit.optimizers.weight_state import WeightState


class AssigningSteps(Trackable):
    """What an optimizer with `update_step` may call."""

    name: str

    def update_step(self, gradient: Any, variable: Variable, learning_rate: Any) -> None:
        """One step of one weight, by assignments; an alternative to `update`.

        Args:
            gradient: tensor of the shape of `variable`, in its dtype.
            variable: the weight.
            learning_rate: float32 scalar tensor.
        """
        raise NotImplementedError(f"{type(self).__name__} has neither update nor update_step")

    def add_variable_from_reference(
        self, reference_variable: Variable, name: str | None = None, initializer: Any = "zeros"
    ) -> Variable:
        """Make a slot like `reference_variable`, which is saved and restored with it.

        Args:
            reference_variable: the weight that it belongs to.
            name: name of the slot.
            initializer: name of an initializer, or a function of shape and dtype.
        """
        me: Any = self
        state = me.state_of(reference_variable)
        value = _initial(initializer, tuple(reference_variable.shape), str(state.dtype))
        me._add_slot(state, name or "slot", value._array)
        slot: Variable = state.slots[name or "slot"]
        return slot

    def add_variable(
        self, shape: Any, initializer: Any = "zeros", dtype: Any = None, name: str | None = None
    ) -> Variable:
        """Make a Variable that belongs to no weight; assign it to an attribute to have it saved."""
        value = _initial(initializer, tuple(shape), dtype or "float32")
        with abstract.eagerly():
            variable = Variable(value, trainable=False, name=name or "variable")
        variable.path = f"{self.name}/{variable.path}"
        return variable

    def assign(self, variable: Variable, value: Any) -> None:
        """Set a variable, with a cast to its dtype."""
        variable.assign(ops.cast(value, variable.dtype))

    def assign_add(self, variable: Variable, value: Any) -> None:
        """Add to a variable, with a cast to its dtype."""
        variable.assign_add(ops.cast(value, variable.dtype))

    def assign_sub(self, variable: Variable, value: Any) -> None:
        """Subtract from a variable, with a cast to its dtype."""
        variable.assign_sub(ops.cast(value, variable.dtype))

    def _get_variable_index(self, variable: Variable) -> int:
        me: Any = self
        return [id(weight) for weight in me._states.chosen].index(id(variable))


def _initial(initializer: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    with abstract.eagerly(), recorder.silence():
        return initializers.get(initializer)(shape, dtype)


def assigns(optimizer: AssigningSteps) -> bool:
    """Whether the class of `optimizer` was written with `update_step`."""
    return type(optimizer).update_step is not AssigningSteps.update_step


def assign_steps(
    optimizer: Optimizer, states: Sequence[WeightState], grads: Sequence[Any], active: Any = None
) -> None:
    """Call `update_step` for each weight, after weight decay.

    Raises:
        UnimplementedError: a graph is traced in which the step may have to be left out.
    """
    if active is not None:
        raise UnimplementedError(
            f"{optimizer.name}: update_step assigns at once, so in a graph it can't be part of "
            "gradient "
            "accumulation or loss scaling; write update(xp, weight, grad, lr, *slots), or run "
            "eagerly"
        )
    rate = ops.cast(convert_to_tensor(optimizer.learning_rate), "float32")
    with recorder.silence():
        for state, grad in zip(states, grads, strict=True):
            weight, decay = state.weight, optimizer.decay_of(state.weight)
            if decay is not None:
                lr = ops.cast(rate, weight.dtype)
                weight.assign_sub(ops.multiply(weight, ops.multiply(lr, decay)))
            grad = grad if recorder.current_trace() is not None else wrap(grad)
            optimizer.update_step(ops.cast(grad, weight.dtype), weight, rate)
