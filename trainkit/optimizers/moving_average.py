"""`tk.train.ExponentialMovingAverage`: shadows of variables that follow them slowly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.trackable import Trackable
from trainkit.core.variable import Variable
from trainkit.ops.arrays.creation import zeros_like
from trainkit.ops.math.elementwise import add, cast, divide, minimum, multiply, subtract


class ExponentialMovingAverage(Trackable):
    """Keeps an average of each variable, in which recent values count most.

    shadow = decay * shadow + (1 - decay) * variable, at each `apply`. Source: Polyak and Juditsky
    1992, "Acceleration of stochastic approximation by averaging". Shadows are tracked, so
    checkpoints hold them.

    Args:
        decay: in [0, 1], near 1.
        num_updates: number or variable n of updates so far; then the decay is at most
            (1 + n) / (10 + n), so that the first values count more.
        zero_debias: begin at 0 and divide by 1 - decay**updates, rather than begin at the value.
        name: of the object.

    Raises:
        InvalidArgumentError: `decay` is outside of [0, 1].

    >>> weight = tk.Variable(1.0)
    >>> average = tk.train.ExponentialMovingAverage(decay=0.5)
    >>> average.apply([weight])
    >>> _ = weight.assign(3.0)
    >>> average.apply([weight])
    >>> float(average.average(weight))
    2.0
    """

    _untracked = frozenset({"_num_updates", "_keys"})

    def __init__(
        self,
        decay: float,
        num_updates: Any = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        if not 0 <= decay <= 1:
            raise InvalidArgumentError(f"{name}: decay {decay} is not in [0, 1]")
        self._decay, self._num_updates = decay, num_updates
        self._zero_debias, self._name = zero_debias, name
        self._of: dict[int, int] = {}
        self.shadows: list[Variable] = []
        self.updates: list[Variable] = []
        self._variables: tuple[Variable, ...] = ()

    @property
    def name(self) -> str:
        """The name given at the beginning."""
        return self._name

    def apply(self, var_list: Sequence[Variable]) -> None:
        """Take the values of the variables into their averages.

        Args:
            var_list: variables of floating dtypes; new ones begin at their value.

        Raises:
            InvalidArgumentError: a variable is not floating.
        """
        for variable in var_list:
            if not isinstance(variable, Variable) or not variable.dtype.is_floating:
                raise InvalidArgumentError(
                    f"{self._name}: takes floating variables, got {variable!r}"
                )
        for variable in var_list:
            self._apply_one(variable)

    def _current_decay(self) -> Any:
        if self._num_updates is None:
            return self._decay
        n = cast(self._num_updates, "float32")
        return minimum(self._decay, divide(add(n, 1.0), add(n, 10.0)))

    def _apply_one(self, variable: Variable) -> None:
        value = variable.value()
        index = self._of.get(id(variable))
        if index is None:
            index = self._of[id(variable)] = len(self.shadows)
            start = zeros_like(value) if self._zero_debias else value
            self.shadows.append(Variable(start, trainable=False))
            self.updates.append(Variable(0.0, trainable=False, dtype="float32"))
            self._variables = (*self._variables, variable)  # keeps its id from being used again
        shadow = self.shadows[index]
        share = cast(subtract(1.0, self._current_decay()), shadow.dtype)
        shadow.assign_sub(multiply(subtract(shadow, value), share))
        self.updates[index].assign_add(1.0)

    def average(self, var: Variable) -> Any:
        """The average of a variable, or None when `apply` never met it."""
        index = self._of.get(id(var))
        if index is None:
            return None
        shadow = self.shadows[index]
        if not self._zero_debias:
            return shadow
        weight = 1 - self._decay ** float(self.updates[index])
        return divide(shadow, weight) if weight else shadow.value()

    def average_name(self, var: Variable) -> str:
        """The name of a variable with that of this object behind it."""
        return f"{var.name.split(':')[0]}/{self._name}"

    def variables_to_restore(self, moving_avg_variables: Sequence[Variable]) -> dict[str, Variable]:
        """A dict from `average_name` to variable, for each of the list."""
        return {self.average_name(v): v for v in moving_avg_variables}
