"""The state of an optimizer as a list, in the order of `variables`, given out and taken in."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from trainkit import ops
from trainkit.core.dispatch import trace_state
from trainkit.core.errors import ShapeError
from trainkit.core.tensor import convert_to_tensor
from trainkit.core.variable import Variable
from trainkit.optimizers.base.clipping import clip_gradients
from trainkit.optimizers.base.keras_step import AssigningSteps


class OutsideState(AssigningSteps):
    """What programs ask of an optimizer that keep its state themselves."""

    apply: Any
    built: Any
    _limits: Any

    @property
    def variables(self) -> list[Variable]:
        """All Variables of the state."""
        raise NotImplementedError

    def get_weights(self) -> list[Any]:
        """The state as NumPy arrays, in the order of `variables`."""
        return [variable.numpy() for variable in self.variables]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Take over the state of an optimizer of the same kind for weights of the same shapes.

        Args:
            weights: arrays, tensors or Variables, in the order of `variables`.

        Raises:
            ValueError: the optimizer is not built, or there is not one value for each Variable.
            ShapeError: a value has another shape; nothing is changed then.
        """
        if not self.built:
            raise ValueError(
                f"{self.name}: call build(trainable_variables) before set_weights, so that there "
                "is a state to set"
            )
        variables, values = self.variables, [_value(weight) for weight in weights]
        if len(values) != len(variables):
            raise ValueError(
                f"{self.name}.set_weights: {len(values)} values for {len(variables)} variables"
            )
        for variable, value in zip(variables, values, strict=True):
            # all shapes before the first value, so an error leaves the state as it was
            if tuple(value.shape) != tuple(variable.shape):
                raise ShapeError(
                    f"{self.name}.set_weights: {variable.path!r} has another shape.\n"
                    f"  variable  {tuple(variable.shape)}\n  value     {tuple(value.shape)}"
                )
        for variable, value in zip(variables, values, strict=True):
            variable.assign(ops.cast(value, variable.dtype))

    def save_own_variables(self, store: Any) -> None:
        """Put the state into `store`, a dict, under "0", "1", ... in the order of `variables`."""
        for i, variable in enumerate(self.variables):
            store[str(i)] = variable.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Take back what `save_own_variables` put into `store`.

        With another number of entries nothing is taken, and a warning says so.
        """
        variables = self.variables
        if len(store.keys()) != len(variables):
            hint = "" if self.built else "; it has made no step yet, build it first"
            warnings.warn(
                f"optimizer {self.name!r} has {len(variables)} variables, the saved one "
                f"{len(store.keys())}; none are loaded{hint}",
                stacklevel=2,
            )
            return
        for i, variable in enumerate(variables):
            # an empty index gives the array, of a data set in a file as of an array itself
            variable.assign(ops.cast(store[str(i)][()], variable.dtype))

    def stateless_apply(
        self,
        optimizer_variables: Sequence[Any],
        grads: Sequence[Any],
        trainable_variables: Sequence[Any],
    ) -> tuple[list[Any], list[Any]]:
        """What a step makes of other values; weights and state stay as they are.

        Args:
            optimizer_variables: a value for each of `variables`.
            grads: gradients of the weights that `build` was called with.
            trainable_variables: values of these weights.

        Returns:
            The new values of the weights, and of `variables`.

        Raises:
            ValueError: the optimizer is not built, or a number of values does not fit.
        """
        weights = list(self._states.chosen)
        if not weights:
            raise ValueError(f"{self.name}: call build(trainable_variables) before stateless_apply")
        state = self.variables
        assignments = (
            (state, optimizer_variables, "optimizer_variables"),
            (weights, trainable_variables, "trainable_variables"),
        )
        # before any variable has another's value
        for variables, values, argument in assignments:
            if len(values) != len(variables):
                raise ValueError(
                    f"{self.name}.stateless_apply: {argument} has {len(values)} values, there are "
                    f"{len(variables)} variables"
                )
        with _holding([*weights, *state], [*trainable_variables, *optimizer_variables]):
            self.apply(grads, weights)
            # read inside: behind the block they have their own values again
            return [w.value() for w in weights], [v.value() for v in state]

    # ------------------------------------------------------------------ names of Keras's base class

    @property
    def _trainable_variables(self) -> list[Variable]:
        return list(self._states.chosen)

    @property
    def _model_variables_moving_average(self) -> list[Any]:
        return self._slots_called("average")

    @property
    def _accumulated_gradients(self) -> list[Any]:
        return self._slots_called("accumulated_gradient")

    def _slots_called(self, name: str) -> list[Any]:
        """That slot of each weight, `None` for a weight without one."""
        weights = self._states.chosen or [state.weight for state in self._states.by_id.values()]
        return [self.state_of(weight).slots.get(name) for weight in weights]

    def _clip_gradients(self, grads: Sequence[Any]) -> list[Any]:
        tensors = [None if g is None else convert_to_tensor(g) for g in grads]
        clipped = iter(clip_gradients(ops, [g for g in tensors if g is not None], self._limits))
        return [None if g is None else next(clipped) for g in tensors]


def _value(x: Any) -> Any:
    x = x.value() if isinstance(x, Variable) else x
    return x if hasattr(x, "shape") else convert_to_tensor(x)


@contextlib.contextmanager
def _holding(variables: list[Variable], values: list[Any]) -> Iterator[None]:
    """Have other values in `variables` for a while."""
    with trace_state.silence():
        before = [variable.value() for variable in variables]
        try:
            for variable, value in zip(variables, values, strict=True):
                variable.assign(ops.cast(_value(value), variable.dtype))
            yield
        finally:
            for variable, value in zip(variables, before, strict=True):
                variable.assign(value)
