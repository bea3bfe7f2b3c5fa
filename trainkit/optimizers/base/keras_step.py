"""The way Keras 3 writes an optimizer: `build` makes variables, `update_step` assigns them.

Optimizers of users may be written like this. Those of trainkit say in `update` what the new values
are, which is compiled to one pass over memory; this way runs operation by operation.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from trainkit import initializers, ops
from trainkit.core.dispatch import eval_shape, trace_state
from trainkit.core.errors import UnimplementedError
from trainkit.core.tensor import convert_to_tensor, wrap
from trainkit.core.trackable import Trackable
from trainkit.core.values.python_signatures import signature_of
from trainkit.core.variable import Variable
from trainkit.optimizers.base.overwriting import is_overwritten

if TYPE_CHECKING:
    from trainkit.optimizers.base.optimizer import Optimizer
    from trainkit.optimizers.base.slot_state import SlotState


class AssigningSteps(Trackable):
    """What an optimizer with `update_step` may call."""

    name: str
    iterations: Any
    rates: Any
    state_of: Any
    update_of: Any
    _add_slot: Any
    _counter_variables: Any
    _states: Any

    def update_step(self, gradient: Any, variable: Variable, learning_rate: Any) -> None:
        """One step of one weight, by assignments; an alternative to `update`.

        A class that overrides it may call it with `super()`: then it makes the step that `update`
        describes.

        Args:
            gradient: tensor of the shape of `variable`, in its dtype.
            variable: the weight.
            learning_rate: float32 scalar tensor.
        """
        state = self.state_of(variable)
        dtype = str(state.dtype)
        lr = ops.cast(convert_to_tensor(learning_rate), "float32")
        step = ops.cast(convert_to_tensor(self.iterations) + 1, "float32")
        # `assign_steps` has counted for this step already
        counters = [counter.value() for counter in self._counter_variables()]
        rates = self.rates(ops, lr, step, *counters)
        scalars = [ops.cast(x, dtype) for x in (rates if type(rates) is tuple else (rates,))]
        old = [variable.value(), *[state.slots[name].value() for name in state.names]]
        # rules of half-precision weights compute in float32, see `SlotState.dtype`
        old = [ops.cast(x, dtype) for x in old]
        gradient = ops.cast(convert_to_tensor(gradient), dtype)
        update = self.update_of(variable)
        scalar_rates = scalars[0] if len(scalars) == 1 else tuple(scalars)
        new = update(ops, old[0], gradient, scalar_rates, *old[1:])
        new = new if type(new) is tuple else (new,)
        self.assign(variable, new[0])
        for name, value in zip(state.names, new[1:], strict=True):
            self.assign(state.slots[name], value)

    def add_variable_from_reference(
        self,
        reference_variable: Any = None,
        name: str | None = None,
        initializer: Any = "zeros",
        *,
        model_variable: Any = None,
        variable_name: str | None = None,
        initial_value: Any = None,
    ) -> Variable:
        """Make a slot like `reference_variable`, which is saved and restored with it.

        Args:
            reference_variable: the weight that it belongs to.
            name: name of the slot.
            initializer: name of an initializer, or a function of shape and dtype.
            model_variable: TensorFlow 2.11's name of `reference_variable`.
            variable_name: TensorFlow 2.11's name of `name`.
            initial_value: the first value, in place of an initializer.

        Raises:
            TypeError: there is no weight.
        """
        weight = model_variable if reference_variable is None else reference_variable
        if weight is None:
            raise TypeError(f"{self.name}: add_variable_from_reference needs a reference_variable")
        state = self.state_of(weight)
        if initial_value is None:
            value = _initial(initializer, tuple(weight.shape), str(state.dtype))
        else:
            value = ops.cast(initial_value, str(state.dtype))
        name = slot = name or variable_name or "var"
        count = 0
        # a class may give several one name; checkpoints know the slots of a weight by theirs
        while slot in state.slots:
            slot, count = f"{name}_{count + 1}", count + 1
        self._add_slot(state, slot, value._array)
        slot_variable: Variable = state.slots[slot]
        return slot_variable

    def add_optimizer_variables(
        self, trainable_variables: Iterable[Variable], name: Any, initializer: Any = "zeros"
    ) -> Any:
        """Make a slot for each of several weights, `None` for those that become their gradient.

        Args:
            trainable_variables: the weights.
            name: of the slots; or a list of names, for several slots each.
            initializer: of all, or a list with one for each name.

        Returns:
            A list of Variables; for several names a tuple of lists.

        Raises:
            ValueError: there is not one initializer for each name.
        """
        names = [name] if isinstance(name, str) else list(name)
        several = isinstance(initializer, list | tuple)
        makers = list(initializer) if several else [initializer] * len(names)
        if len(names) != len(makers):
            raise ValueError(
                f"{self.name}: add_optimizer_variables got {len(names)} names and {len(makers)} "
                "initializers"
            )
        slots_by_name: tuple[list[Any], ...] = tuple([] for _ in names)
        for weight in trainable_variables:
            for slots, slot, maker in zip(slots_by_name, names, makers, strict=True):
                own = not is_overwritten(weight)
                slots.append(self.add_variable_from_reference(weight, slot, maker) if own else None)
        return slots_by_name[0] if isinstance(name, str) else slots_by_name

    def add_variable(
        self,
        shape: Any,
        initializer: Any = "zeros",
        dtype: Any = None,
        aggregation: str | None = "none",
        layout: Any = None,
        name: str | None = None,
    ) -> Variable:
        """Make a Variable that belongs to no weight; assign it to an attribute to have it saved.

        Args:
            shape: sizes.
            initializer: name of an initializer, or a function of shape and dtype.
            dtype: float32 by default.
            aggregation: how copies on several devices are joined; there is one copy.
            layout: only `None`; values are not spread over devices.
            name: what it is called.

        Raises:
            UnimplementedError: a layout.
        """
        if layout is not None:
            raise UnimplementedError(f"{self.name}: layout={layout!r} is not supported; use None")
        value = _initial(initializer, tuple(shape), dtype or "float32")
        with eval_shape.eagerly():
            variable = Variable(value, trainable=False, name=name or "variable")
        variable.path = f"{self.name}/{variable.path}"
        variable._numbered = False
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
        return self._index_dict[self._var_key(variable)]

    def _var_key(self, variable: Variable) -> int:
        return id(variable)

    @property
    def _index_dict(self) -> dict[int, int]:
        """The place of each weight in the list that `build` got."""
        return {id(weight): i for i, weight in enumerate(self._states.chosen)}


def _initial(initializer: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    with eval_shape.eagerly(), trace_state.silence():
        return initializers.get(initializer)(shape, dtype)


def assigns(optimizer: AssigningSteps) -> bool:
    """Whether the class of `optimizer` was written with `update_step`."""
    return type(optimizer).update_step is not AssigningSteps.update_step


@functools.cache
def _takes_rate(kind: Any) -> bool:
    """Whether `update_step` wants the learning rate; that of TensorFlow 2.11 does not."""
    parameters = signature_of(kind.update_step).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    # with itself, gradient and variable there are three
    return len(positional) > 3 or any(p.kind is p.VAR_POSITIONAL for p in parameters)


def assign_steps(
    optimizer: Optimizer,
    states: Sequence[SlotState],
    grads: Sequence[Any],
    active: Any = None,
    conditions: Sequence[Any] = (),
) -> None:
    """Call `update_step` for each weight, after weight decay.

    Args:
        optimizer: whose step it is.
        states: of the weights.
        grads: arrays, or symbolic tensors while a graph is traced.
        active: scalar bool tensor of a graph; where it is False everything stays. `None` for
            always.
        conditions: the same for each weight by itself; none at all for always.
    """
    rate = ops.cast(convert_to_tensor(optimizer.learning_rate), "float32")
    kind: Any = type(optimizer)
    wants_rate = _takes_rate(kind)
    with trace_state.silence():
        # `update_step` assigns what it likes, so a step that must not count is taken back after it
        touched = [] if active is None else _may_change(optimizer, states)
        before = [variable.value() for variable in touched]
        _count(optimizer, rate)
        for i, (state, grad) in enumerate(zip(states, grads, strict=True)):
            condition = conditions[i] if conditions else None
            conditional = [] if condition is None else _may_change(optimizer, [state])
            values_before = [variable.value() for variable in conditional]
            weight, decay = state.weight, optimizer.decay_of(state.weight)
            if decay is not None:
                lr = ops.cast(rate, weight.dtype)
                weight.assign_sub(ops.multiply(weight, ops.multiply(lr, decay)))
            # arrays in eager steps; classes of users expect tensors
            grad = grad if trace_state.current_trace() is not None else wrap(grad)
            arguments = (ops.cast(grad, weight.dtype), weight)
            step: Any = optimizer.update_step
            step(*arguments, rate) if wants_rate else step(*arguments)
            _take_back(conditional, values_before, condition)
        _take_back(touched, before, active)


def _take_back(variables: Sequence[Variable], before: Sequence[Any], condition: Any) -> None:
    """Give variables the values from before where a condition does not hold."""
    for variable, value in zip(variables, before, strict=True):
        now = variable.value()
        if now is not value:
            variable.assign(ops.where(condition, now, value))


def _may_change(optimizer: Optimizer, states: Sequence[SlotState]) -> list[Variable]:
    """The weights and all state of the optimizer but what the base itself keeps."""
    # their own assignments look at whether the step counts
    base = {id(optimizer._iterations), id(optimizer._learning_rate)}
    base.update(id(slot) for slot in optimizer._states.accumulated())
    own = [variable for variable in optimizer.variables if id(variable) not in base]
    return [state.weight for state in states] + own


def _count(optimizer: Optimizer, rate: Any) -> None:
    """The next values of the counters of a class whose `update_step` another overrides."""
    variables = optimizer._counter_variables()
    if variables:
        step = ops.cast(convert_to_tensor(optimizer.iterations) + 1, "float32")
        values = optimizer.count(ops, rate, step, *[v.value() for v in variables])
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
