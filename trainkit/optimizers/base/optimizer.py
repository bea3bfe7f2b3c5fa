"""`Optimizer`: the base of all optimizers.

It owns learning rate, step count, slots, clipping, weight decay, moving averages and dtypes.

A subclass names its slots and says in `update` what one step does to one weight, on arrays of NumPy
or CuPy or, while a graph is traced, on tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from trainkit import ops
from trainkit.autodiff.tape import GradientTape
from trainkit.collectives.replica import REPLICAS
from trainkit.core import devices, nest
from trainkit.core.dispatch import eval_shape, trace_state
from trainkit.core.names import explain_attribute, name_for
from trainkit.core.registry import CustomObjectScope, Registry
from trainkit.core.tensor import is_tensor
from trainkit.core.trackable import Trackable
from trainkit.core.values import torch_names
from trainkit.core.values.attribute_state import CHANGES
from trainkit.core.values.html_text import Html, table, tag
from trainkit.core.values.python_signatures import signature_of
from trainkit.core.variable import OVERWRITTEN, Variable
from trainkit.kernels.threads.malloc import lasting_memory
from trainkit.optimizers.base.accumulated_gradients import gradients_for_step
from trainkit.optimizers.base.clipping import CLIPPING, ClipLimits
from trainkit.optimizers.base.early_sums import early_joined
from trainkit.optimizers.base.grads_and_vars import (
    checked_pairs,
    one_list,
    split_pairs,
    warn_of_missing,
)
from trainkit.optimizers.base.keras_step import assigns
from trainkit.optimizers.base.options import DEFAULTS, check_setting, checked_options, is_number
from trainkit.optimizers.base.overwriting import is_overwritten, overwrite
from trainkit.optimizers.base.sharded_state import sharded_state
from trainkit.optimizers.base.slot_state import SlotState
from trainkit.optimizers.base.slots import SlotTable
from trainkit.optimizers.base.stateless_state import OutsideState
from trainkit.optimizers.base.step import ARRAYS, apply_step, make_step, rule_of
from trainkit.optimizers.base.step_plan import Programs
from trainkit.optimizers.base.traced_step import TENSORS
from trainkit.optimizers.base.virtual_gradients import is_kept
from trainkit.optimizers.schedules import LearningRateSchedule, deserialize_rate, serialize_rate

OPTIMIZERS = Registry("optimizers", "optimizer", unlisted={"GradientDescentOptimizer"})
_THREAD = trace_state.THREAD


_NOT_COPIED = dict.fromkeys(("_programs", "_average_programs", "sharded_state", "sums_in_parts"))


class Optimizer(OutsideState):
    """Base of all optimizers.

    A subclass gives:

    - `slots`: names of what it keeps for each weight, zeros at first (`initial_slot` for other
      values);
    - `update(xp, weight, grad, lr, *slots)`: the new weight, then the new slots, as a tuple. `xp`
      is NumPy, CuPy, or `trainkit.ops` while a graph is traced; the code must use what all of them
      have;
    - `rates(xp, lr, step)`, if `update` needs more than the learning rate: numbers that are the
      same for all weights. If these depend on the steps before, `counters` names numbers with their
      first values, and `count(xp, lr, step, *counters)` gives the next ones, which `rates` gets
      after `step`;
    - or, in place of `slots` and `update`, `build` and `update_step` as in Keras 3
      (`AssigningSteps`);
    - `settings`: names of constructor arguments that are attributes too, for `get_config`.

    Args:
        learning_rate: float, scalar tensor, Variable, `LearningRateSchedule`, or a function without
            arguments that gives the rate.
        **options: see `OptimizerOptions`.

    Raises:
        TypeError: an unknown argument.
        ValueError: a setting out of range, or more than one way of clipping.

    Example:
        >>> class Descent(tk.optimizers.Optimizer):
        ...     def update_step(self, gradient, variable, learning_rate):
        ...         variable.assign_sub(learning_rate * gradient)
        >>> w = tk.Variable(1.0)
        >>> Descent(learning_rate=0.5).apply([tk.constant(1.0)], [w])
        >>> float(w)
        0.5
    """

    name: str
    weight_decay: float | None
    clipnorm: float | None
    clipvalue: float | None
    global_clipnorm: float | None
    use_ema: bool
    ema_momentum: float
    ema_overwrite_frequency: int | None
    loss_scale_factor: float | None
    gradient_accumulation_steps: int | None
    # of weights, and of averages that are not updated with their weight
    _programs: Programs
    _average_programs: Programs

    slots: tuple[str, ...] = ()
    # slots that Keras makes for all weights before it makes the next group's; without groups the
    # slots of one weight stand together
    slot_groups: ClassVar[tuple[tuple[str, ...], ...]] = ()
    counters: ClassVar[tuple[tuple[str, float], ...]] = ()
    settings: ClassVar[tuple[str, ...]] = ()
    sums_gradients_up: ClassVar[bool] = True  # and not optimizers inside of it

    if not TYPE_CHECKING:  # names that are not there are errors in editors

        def __getattr__(self, name: str) -> Any:
            return explain_attribute(self, name, torch_names.OPTIMIZER, is_named=True)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        OPTIMIZERS.add_built_in(cls, cls.__name__.lower())

    def __init__(self, learning_rate: Any, **options: Any) -> None:
        kind = type(self).__name__
        if "lr" in options:
            learning_rate = self._one_rate(learning_rate, options.pop("lr"))
        options = checked_options(kind, options, self.settings)
        self.name = options["name"] or name_for(type(self))
        for option in DEFAULTS:
            if option != "name":
                setattr(self, option, options[option])
        self._limits = ClipLimits(*(getattr(self, name) for name in CLIPPING))
        self._states = SlotTable()
        for name, programs in _make_programs(kind).items():
            setattr(self, name, programs)
        # real values even where a function is being traced; on the CPU, which computes the rates
        with eval_shape.eagerly(), devices.device("/cpu:0"):
            self._iterations = Variable(np.zeros((), np.int64), trainable=False, name="iteration")
            self._learning_rate = self._as_rate(learning_rate)
            for counter, start in self.counters:
                variable = Variable(np.asarray(start, np.float32), trainable=False, name=counter)
                setattr(self, f"_{counter}", variable)
                variable._numbered, variable._goes_along = False, True
        self._iterations.path, self._iterations._numbered = f"{self.name}/iteration", False
        # with a scaled loss the GPU alone knows whether a step counts: the count may lie there
        self._iterations._goes_along = True

    # ------------------------------------------------------------------ what a subclass says

    if TYPE_CHECKING:  # a method of users has an argument for each slot

        def update(self, *args: Any, **kwargs: Any) -> Any: ...

    else:

        def update(self, xp: Any, weight: Any, grad: Any, lr: Any, *slots: Any) -> Any:
            """One step of one weight.

            Args:
                xp: module of array functions.
                weight: the value now.
                grad: the gradient, of the shape of `weight`.
                lr: what `rates` gave: by default the learning rate.
                *slots: in the order of `slots`.

            Returns:
                The new weight, or a tuple of the new weight and the new slots.
            """
            raise NotImplementedError(f"{type(self).__name__} has neither update nor update_step")

    def count(self, xp: Any, lr: Any, step: Any, *counters: Any) -> tuple[Any, ...]:
        """The next values of `counters`, scalars; called once a step, before `rates`."""
        return counters

    def rates(self, xp: Any, lr: Any, step: Any, *counters: Any) -> Any:
        """What `update` gets as `lr`: a float32 scalar, or a tuple of such.

        Args:
            xp: module of array functions.
            lr: the learning rate now.
            step: number of this update, from 1, a float.
            *counters: what `count` gave for this step.
        """
        return lr

    def initial_slot(self, slot: str, weight: Variable, xp: Any, dtype: Any) -> Any:
        """The array that a slot holds before the first step: zeros like the weight."""
        return xp.zeros(tuple(weight.shape), dtype)

    def slots_of(self, weight: Variable) -> tuple[str, ...]:
        """The slots of one weight, for optimizers that treat weights differently."""
        return self.slots

    def update_of(self, weight: Variable) -> Callable[..., Any]:
        """The function used in place of `update` for one weight."""
        return self.update

    def decay_of(self, weight: Variable) -> float | None:
        """The weight decay of one weight; `None` for none."""
        # asked at each trace of a rule, not once: weights may be excluded up to the first step
        excluded = self._states.excludes(weight)
        return None if excluded or not self.weight_decay else self.weight_decay

    # ------------------------------------------------------------------ learning rate and steps

    def _counter_variables(self) -> list[Variable]:
        return [getattr(self, f"_{name}") for name, _ in self.counters]

    def recount_steps(self) -> None:
        """Give the numbers of `counters` the values that they have after `iterations` steps.

        Files have these of an optimizer by itself alone, not of one in a `LossScaleOptimizer`.
        """
        values = tuple(np.float32(start) for _, start in self.counters)
        for step in range(1, int(self.iterations) + 1 if values else 0):
            before = values
            values = self.count(np, self._learning_rate, np.float32(step), *values)
            if values == before:  # a product of factors below 1 has come to 0
                break
        for variable, value in zip(self._counter_variables(), values, strict=True):
            variable.assign(value)

    def _one_rate(self, learning_rate: Any, lr: Any) -> Any:
        """The learning rate where Keras's older name `lr` is given for it.

        Raises:
            TypeError: both are given.
        """
        # the default is no choice of the user's, so `lr` may replace it
        default = signature_of(type(self).__init__).parameters["learning_rate"].default
        if learning_rate is not default and learning_rate != default:
            raise TypeError(
                f"{type(self).__name__}: learning_rate={learning_rate!r} and lr={lr!r} are the "
                "same setting; give one"
            )
        return lr

    def _as_rate(self, value: Any) -> Any:
        """A schedule, function or Variable as it is; anything else as a new Variable."""
        if isinstance(value, LearningRateSchedule | Variable) or (
            callable(value) and not is_tensor(value)
        ):
            return value
        rate = Variable(self._checked_rate(value), trainable=False, name="learning_rate")
        rate.path, rate._numbered = f"{self.name}/learning_rate", False
        return rate

    def _checked_rate(self, value: Any) -> Any:
        if not is_number(value) and not hasattr(value, "shape"):
            raise ValueError(
                f"{self.name}: learning_rate must be one number, a schedule or a function without "
                f"arguments, got {value!r}"
            )
        number = np.asarray(value.numpy() if is_tensor(value) else value, np.float32)
        if number.shape != ():
            raise ValueError(
                f"{self.name}: learning_rate must be one number, got shape {number.shape}"
            )
        # in this form nan is refused, too
        if not number >= 0:
            raise ValueError(f"{self.name}: learning_rate must be at least 0, got {value!r}")
        return number

    @property
    def learning_rate(self) -> Any:
        """The rate now: the Variable that holds it, or what the schedule gives for this step."""
        rate = self._learning_rate
        if isinstance(rate, LearningRateSchedule):
            return rate(self._iterations)  # with gradient accumulation, too, counts all steps
        return rate if isinstance(rate, Variable) else rate() if callable(rate) else rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        if callable(value) and not is_tensor(value):  # a schedule, too, is
            self._learning_rate = value
        elif isinstance(self._learning_rate, Variable):
            self._learning_rate.assign(
                ops.cast(value, "float32") if is_tensor(value) else self._checked_rate(value)
            )
        elif isinstance(self._learning_rate, LearningRateSchedule):
            raise TypeError(
                f"{self.name}: the learning rate follows {type(self._learning_rate).__name__} and "
                "can't be set to "
                f"{value!r}. Make the optimizer with a number to set it later, or assign another "
                "schedule."
            )
        else:
            self._learning_rate = self._as_rate(value)

    lr = learning_rate

    @property
    def iterations(self) -> Any:
        """How many updates were made: an int64 Variable; with gradient accumulation a tensor."""
        if self.gradient_accumulation_steps is None:
            return self._iterations
        return self._iterations.value() // self.gradient_accumulation_steps

    # ------------------------------------------------------------------ weights and slots

    @property
    def built(self) -> bool:
        """Whether there are slots already, or a class of the user said so."""
        return self._has_slots() or self.__dict__.get("_said_built", False)

    @built.setter
    def built(self, value: bool) -> None:
        self.__dict__["_said_built"] = bool(value)

    def _has_slots(self) -> bool:
        return bool(self._states.by_id)

    def build(
        self,
        variables: Iterable[Variable] | None = None,
        var_list: Iterable[Variable] | None = None,
    ) -> None:
        """Make the slots of all `variables`, which `apply` then takes gradients for.

        Args:
            variables: the weights.
            var_list: the same, by the other name that Keras has for it.

        Raises:
            TypeError: an item is no Variable, or no floating one; or there is not one list.
        """
        weights = one_list(self.name, variables, var_list)
        for weight in weights:
            self._check_trainable(weight)
        self._states.chosen = weights
        for weight in weights:
            self.state_of(weight)

    def _check_trainable(self, weight: Any) -> None:
        if not isinstance(weight, Variable):
            raise TypeError(
                f"{self.name}: {type(weight).__name__} is no Variable and can't be optimized"
            )
        if not weight.dtype.is_floating:
            raise TypeError(
                f"{self.name}: weight {weight.path!r} has dtype {weight.dtype.name}; only floating "
                "weights can be "
                "optimized"
            )

    def state_of(self, weight: Variable) -> SlotState:
        """What is kept for `weight`, made when it is asked for the first time."""
        state = self._states.by_id.get(id(weight))
        return self._new_state(weight) if state is None else state

    def _new_state(self, weight: Variable) -> SlotState:
        self._check_trainable(weight)
        update = self.update_of(weight)
        # all of a weight that its rule depends on: its function, and whether it decays
        key = (_function_of(update), self._states.excludes(weight))
        state = SlotState(weight, self.slots_of(weight), rule_of(self, weight, update), key)
        self._states.by_id[id(weight)] = state
        try:
            with lasting_memory():
                self._add_slots(state)
        except BaseException:  # half a state would count as one that is whole
            del self._states.by_id[id(weight)]
            raise
        return state

    def _add_slots(self, state: SlotState) -> None:
        weight = state.weight
        # slots lie where the weight does
        xp = devices.XP_OF[type(weight._value._array)]
        for slot in state.names:
            self._add_slot(state, slot, self.initial_slot(slot, weight, xp, state.dtype))
        if self.use_ema and not is_overwritten(weight):
            self._add_slot(state, "average", weight._value._array.astype(state.dtype))
        if self.gradient_accumulation_steps:
            self._add_slot(
                state, "accumulated_gradient", xp.zeros(tuple(weight.shape), state.dtype)
            )

    def _add_slot(self, state: SlotState, slot: str, value: Any) -> None:
        variable = state.add_slot(slot, value, self.name)
        # a checkpoint that was loaded before the slot was made may hold its value
        self._slot_added(slot, state.weight, variable)

    def keep_only(self, variables: Iterable[Variable]) -> None:
        """Forget the slots of all other weights, which a model has no more.

        Args:
            variables: the weights that stay; those that were never met change nothing.
        """
        self._states.keep_only(list(variables))

    def slot_variables(self) -> list[tuple[str, Variable, Variable]]:
        """(slot name, weight, slot) for all slots; checkpoints keep these by the weight's path."""
        return [
            (name, state.weight, slot)
            for state in self._states.by_id.values()
            for name, slot in state.slots.items()
        ]

    @property
    def variables(self) -> list[Variable]:
        """Step count and learning rate, then the averages and slots, in Keras's order."""
        counters = self._counter_variables()
        numbers = {id(variable) for variable in counters}
        own = [p for p in type(self).parts(self).values() if isinstance(p, Variable)]
        first = [variable for variable in own if id(variable) not in numbers]
        return [*first, *self._states.slots_in_order(self.slot_groups), *counters]

    def parts(self) -> dict[str, Trackable]:
        """Step count, learning rate and other trackable attributes, but no slots."""
        return {name.removeprefix("_"): part for name, part in super().parts().items()}

    def exclude_from_weight_decay(
        self, var_list: Iterable[Variable] | None = None, var_names: Iterable[str] | None = None
    ) -> None:
        """Leave some weights without weight decay; call it before the first step.

        Args:
            var_list: these weights.
            var_names: weights in whose path one of these regular expressions is found.

        Raises:
            ValueError: the optimizer has made a step already.
        """
        if self.built:
            raise ValueError(
                f"{self.name}: exclude_from_weight_decay must be called before build and the first "
                "step"
            )
        self._states.exclude(list(var_list or ()), list(var_names or ()))

    # ------------------------------------------------------------------ steps

    def apply_gradients(self, grads_and_vars: Iterable[Any], name: str | None = None) -> Any:
        """Update each weight by its gradient.

        Args:
            grads_and_vars: pairs (gradient, Variable), such as `zip(grads,
                model.trainable_variables)`. A weight whose gradient is `None` stays as it is, with
                a warning.
            name: accepted as TensorFlow does; operations have no names here.

        Returns:
            The Variable that counts the calls.

        Raises:
            ValueError: no weight has a gradient.
            ShapeError: a gradient does not have the shape of its weight. Nothing is changed then.
        """
        grads, weights = split_pairs(self.name, grads_and_vars)
        if REPLICAS:
            if is_kept(self, grads, weights):
                return self._iterations
            grads = gradients_for_step(self, grads, weights)
        self._step(grads, weights)
        return self._iterations

    def apply(
        self, grads: Sequence[Any], trainable_variables: Iterable[Variable] | None = None
    ) -> None:
        """Update weights by gradients given in the same order.

        Args:
            grads: tensors; `None` leaves a weight as it is. Without any nothing happens.
            trainable_variables: the weights; by default those that `build` was called with.

        Raises:
            ValueError: the numbers of gradients and weights differ, or no weight has a gradient.
            ShapeError: a gradient does not have the shape of its weight. Nothing is changed then.
        """
        grads = list(grads)
        if not grads and not trainable_variables:
            return
        if trainable_variables is None:
            weights = self._states.chosen
            if not weights:
                raise ValueError(
                    f"{self.name}.apply: give trainable_variables, or call build(variables) first"
                )
        else:
            weights = list(trainable_variables)
        if len(grads) != len(weights):
            raise ValueError(
                f"{self.name}.apply: {len(grads)} gradients for {len(weights)} weights"
            )
        # later calls without a list take these weights
        if not self._states.chosen:
            self.build(weights)
        if REPLICAS:
            if is_kept(self, grads, weights):
                return
            grads = gradients_for_step(self, grads, weights)
        self._step(grads, weights)

    def _step(self, grads: Sequence[Any], weights: Sequence[Any]) -> None:
        """One step along gradients of all replicas."""
        if REPLICAS:
            sharded = sharded_state(self)
            if sharded is not None:
                sharded.step(grads, weights)
                return
        # in most programs no variable at all asks for it: one look at a table
        if OVERWRITTEN and weights:
            grads, weights = overwrite(self, grads, weights)
            if not weights:
                # a step that only overwrites weights is one, too
                self._iterations.assign_add(1)
                return
        plan = self._programs.plan
        # a plan writes to arrays, of which a graph that is being traced must know nothing
        if plan is not None and not _THREAD.traces:
            arrays = plan.arrays(grads, weights)
            if arrays is not None:
                make_step(ARRAYS, self, plan.states, arrays)
                return
        # all pairs are checked before any weight changes
        checked_grads, of, missing = checked_pairs(self.name, grads, weights)
        # a class with `update_step` makes its variables in `build`, and reads them below
        if assigns(self) and not self._states.chosen:
            self.build(list(weights))
        states = [self.state_of(weight) for weight in of]
        if missing and self._states.is_news(missing):
            warn_of_missing(self.name, missing)
        apply_step(self, states, checked_grads)

    def _apply_where(self, grads: list[Any], weights: list[Variable], finite: Any) -> None:
        """`_step` in a graph: nothing changes where the bool tensor `finite` is False."""
        grads, weights = overwrite(self, grads, weights, finite)
        states = [self.state_of(weight) for weight in weights]
        make_step(TENSORS, self, states, grads, finite)

    def _step_from(
        self, tape: Any, loss: Any, weights: Sequence[Any], builds: bool = False
    ) -> bool:
        """Step along the gradients of a loss, joined as they come; whether that is done."""
        kind = type(self)
        # a class of the user's that has its own way of applying has to see the gradients
        if kind.apply is not Optimizer.apply or kind.apply_gradients is not (
            Optimizer.apply_gradients
        ):
            return False
        grads = early_joined(self, tape, loss, weights)
        if grads is None:
            return False
        if builds and not self._states.chosen:
            self.build(weights)
        self._step(grads, weights)
        return True

    def minimize(
        self, loss: Any, var_list: Iterable[Variable] | None = None, tape: Any = None
    ) -> Any:
        """Compute the gradients of a loss and apply them.

        Args:
            loss: function without arguments that gives the loss; or a tensor, together with the
                `tape` that recorded it. A loss of several values counts as their sum.
            var_list: the weights to update; by default the trainable variables that the loss read.
            tape: the `GradientTape` that recorded `loss`.

        Returns:
            `iterations`, after the step.

        Raises:
            ValueError: `loss` is a tensor without a tape, or no weight has a gradient.
        """
        if not callable(loss) or is_tensor(loss):
            if tape is None:
                raise ValueError(
                    f"{self.name}.minimize: a loss that is a tensor needs the tape that recorded it"
                )
            weights = self._weights_or_read(var_list, tape)
            # where sums can begin while the tape still goes back
            if REPLICAS and self._step_from(tape, loss, weights):
                return self._iterations
            return self.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        with tape if tape is not None else GradientTape() as recording:
            value = loss()
        weights = self._weights_or_read(var_list, recording)
        if REPLICAS and self._step_from(recording, value, weights):
            return self._iterations
        return self.apply_gradients(zip(recording.gradient(value, weights), weights, strict=True))

    def _weights_or_read(self, var_list: Any, tape: Any) -> list[Variable]:
        if var_list is None:
            return list(tape.watched_variables())
        return nest.flatten(var_list() if callable(var_list) else list(var_list))

    def scale_loss(self, loss: Any) -> Any:
        """The loss times `loss_scale_factor`, when there is one."""
        return loss if self.loss_scale_factor is None else loss * self.loss_scale_factor

    def finalize_variable_values(self, var_list: Iterable[Variable]) -> None:
        """Set the weights to their moving averages; without `use_ema` they stay as they are."""
        if not self.use_ema:
            return
        with trace_state.silence():
            for weight in var_list:
                average = self.state_of(weight).slots["average"].value()
                weight.assign(ops.cast(average, weight.dtype))

    # ------------------------------------------------------------------ configuration

    def get_config(self) -> dict[str, Any]:
        """The arguments with which the constructor makes an equal optimizer, as plain data."""
        config = {"learning_rate": serialize_rate(self._learning_rate)}
        config |= {setting: getattr(self, setting) for setting in (*self.settings, *DEFAULTS)}
        return config

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> Self:
        """A new optimizer from what `get_config` gave; slots and step count start afresh.

        Args:
            config: as `get_config` gave it.
            custom_objects: further classes by name, such as that of the learning rate.
        """
        config = dict(config)
        if "learning_rate" in config:
            with CustomObjectScope(custom_objects):
                config["learning_rate"] = deserialize_rate(config["learning_rate"])
        return cls(**config)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.settings:
            check_setting(type(self).__name__, name, value)
        # checked before anything is set: a value that is refused leaves all as it was
        limits = self._limits_with(name, value)
        super().__setattr__(name, value)
        # compiled steps that hold settings as constants are traced anew
        CHANGES.note(value)
        if limits is not None:
            self.__dict__["_limits"] = limits
        if "_programs" in self.__dict__:  # programs hold settings as numbers
            self._programs.forget()
            self._average_programs.forget()

    def _limits_with(self, name: str, value: Any) -> ClipLimits | None:
        """The limits of gradients where one of them is set to another value."""
        # while `__init__` sets the options there are none yet
        if name not in CLIPPING or "_limits" not in self.__dict__:
            return None
        return ClipLimits(*(value if n == name else getattr(self, n) for n in CLIPPING))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}, {int(self._iterations)} steps>"

    def _repr_html_(self) -> str:
        """What notebooks show: the settings, and the curve of a schedule."""
        settings, curve = self.get_config(), Html("")
        if isinstance(self._learning_rate, LearningRateSchedule):
            settings["learning_rate"] = repr(self._learning_rate)
            curve = Html(self._learning_rate._repr_html_() or "")
        rows = [(name, value) for name, value in settings.items() if value is not None]
        return tag("div", tag("b", repr(self)), table(("setting", "value"), rows), curve)

    # Copies and pickles hold copies of the weights; programs and rules belong to one optimizer.

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_states": self._states.kept(), **_NOT_COPIED}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        programs = _make_programs(type(self).__name__)
        self.__dict__.update(attributes, _states=SlotTable(), **programs)
        # the table goes by ids, which copies of weights have of their own
        for weight, slots in self._states.take(attributes["_states"]):
            update = self.update_of(weight)
            key = (_function_of(update), self._states.excludes(weight))
            state = SlotState(weight, self.slots_of(weight), rule_of(self, weight, update), key)
            state.take_slots(slots)
            self._states.by_id[id(weight)] = state


def _make_programs(kind: str) -> dict[str, Programs]:
    # in this order: an optimizer that has the second has all of them
    return {"_average_programs": Programs(f"the averages of {kind}"), "_programs": Programs(kind)}


def _function_of(update: Any) -> Any:
    """What tells rules apart: not the name alone, which two functions may share."""
    return getattr(update, "__func__", update)
