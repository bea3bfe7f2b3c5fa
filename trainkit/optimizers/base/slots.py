"""`SlotTable`: the weights that an optimizer has met, with their slots."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from trainkit.core.variable import Variable
from trainkit.optimizers.base.slot_state import SlotState


class SlotTable:
    """The weights an optimizer knows."""

    def __init__(self) -> None:
        # by identity, as variables compare by value
        self.by_id: dict[int, SlotState] = {}
        self.chosen: list[Variable] = []
        # with the weight itself, or another one could come to have its id
        self._excluded: dict[int, Variable] = {}
        self._patterns: list[str] = []
        self._warned: set[str] = set()

    def exclude(self, weights: list[Variable], patterns: list[str]) -> None:
        """Take note of weights without decay."""
        self._excluded.update((id(weight), weight) for weight in weights)
        self._patterns += patterns

    def excludes(self, weight: Variable) -> bool:
        """Whether `weight` has no decay."""
        names = (weight.path, weight.name)
        is_match = any(re.search(pattern, name) for pattern in self._patterns for name in names)
        return is_match or id(weight) in self._excluded

    def keep_only(self, weights: list[Variable]) -> None:
        """Forget what is kept for other weights than these."""
        ids = {id(weight) for weight in weights}
        self.by_id = {key: state for key, state in self.by_id.items() if key in ids}
        self.chosen = [weight for weight in self.chosen if id(weight) in ids]

    def kept(self) -> tuple[Any, ...]:
        """All of it without ids and rules, for copies."""
        states = [(state.weight, state.slots) for state in self.by_id.values()]
        return states, self.chosen, list(self._excluded.values()), self._patterns, self._warned

    def take(self, kept: tuple[Any, ...]) -> list[tuple[Variable, dict[str, Variable]]]:
        """Take over what `kept` gave but for the states, which are returned as they were."""
        states, self.chosen, excluded, self._patterns, self._warned = kept
        self.exclude(excluded, [])
        return list(states)

    def is_news(self, missing: list[str]) -> bool:
        """Whether the user has not yet been warned of all of these."""
        news = not self._warned.issuperset(missing)
        self._warned.update(missing)
        return news

    def averaged(self) -> list[SlotState]:
        """The states of the weights that have a moving average."""
        # weights that become their gradient have none
        return [state for state in self.by_id.values() if "average" in state.slots]

    def accumulated(self) -> list[Variable]:
        """The accumulated gradients of all weights."""
        name = "accumulated_gradient"
        return [state.slots[name] for state in self.by_id.values() if name in state.slots]

    def slots_in_order(self, groups: Iterable[tuple[str, ...]] = ()) -> list[Variable]:
        """Averages of all weights, then accumulated gradients, then the slots weight by weight.

        Args:
            groups: names of slots; those of one group come for all weights before the next group's,
                and those of none after them.
        """
        groups = [("average",), ("accumulated_gradient",), *groups]
        grouped = {name for group in groups for name in group}
        return [
            slot
            for group in [*groups, None]
            for state in self.by_id.values()
            for name, slot in state.slots.items()
            if (name not in grouped if group is None else name in group)
        ]
