"""Moving averages of weights: as a part of the rule that updates a weight, or by one of their own.

In the rule a weight and its average are read and written once. That can't be where averages move in
steps that leave weights as they are, as within a period of gradient accumulation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trainkit.optimizers.base.keras_step import assigns
from trainkit.optimizers.base.slot_state import SlotState

if TYPE_CHECKING:
    from trainkit.optimizers.base.optimizer import Optimizer

SLOT = "average"
Rule = Callable[..., tuple[Any, ...]]


def count_of_scalars(optimizer: Optimizer) -> int:
    """How many scalars stand behind those of a rule for averages; 0 where these come later."""
    is_later = optimizer.gradient_accumulation_steps is not None or assigns(optimizer)
    if is_later or not optimizer.use_ema:
        return 0
    return 1 if optimizer.ema_overwrite_frequency is None else 2


def next_average(optimizer: Optimizer, average: Any, weight: Any, has_begun: Any) -> Any:
    """The moving average after a step.

    Args:
        optimizer: says how much of it stays.
        average: that of the steps before.
        weight: after the step.
        has_begun: 1; 0 in the first step, so that the average begins as the weight and not as what
            it was made with.
    """
    momentum = has_begun * optimizer.ema_momentum
    return momentum * average + (1 - momentum) * weight


def join_average(optimizer: Optimizer, state: SlotState) -> SlotState:
    """`state` with a rule that updates the average, too; itself where that comes later."""
    is_of_one_type = state.dtype == state.weight.dtype.dtype
    if SLOT in state.names or not is_of_one_type or SLOT not in state.slots:
        return state
    if state.with_average is None:
        key, names = ("with average", state.key), (*state.names, SLOT)
        twin = SlotState(state.weight, names, _rule_with_average(optimizer, state.rule), key)
        twin.take_slots(state.slots)
        state.with_average = twin
    return state.with_average


def _rule_with_average(optimizer: Optimizer, rule: Rule) -> Rule:
    def update_both(
        xp: Any, weight: Any, grad: Any, scalars: tuple[Any, ...], *slots: Any
    ) -> tuple[Any, ...]:
        *others, average = slots
        weight, *others = rule(xp, weight, grad, scalars, *others)
        has_begun, *overwrites = scalars[-count_of_scalars(optimizer) :]
        average = next_average(optimizer, average, weight, has_begun)
        if overwrites:
            weight = xp.where(overwrites[0] > 0, average, weight)
        return weight, *others, average

    return update_both


def average_alone(optimizer: Optimizer, state: SlotState) -> SlotState:
    """The average of a weight as what is updated, by the weight in place of a gradient."""
    if state.average_alone is None:

        def rule(xp: Any, average: Any, weight: Any, scalars: tuple[Any, ...]) -> tuple[Any, ...]:
            return (next_average(optimizer, average, weight, scalars[0]),)

        state.average_alone = SlotState(state.slots[SLOT], (), rule, "average")
    return state.average_alone
