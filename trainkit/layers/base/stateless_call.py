"""Calls of a layer with the values of its variables given, and their new values given back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainkit.autodiff.stateless_scope import StatelessScope
from trainkit.core.errors import NotBuiltError
from trainkit.layers.base.output_specs import SpecsByRunning

if TYPE_CHECKING:
    from trainkit.core.tensor import Tensor
    from trainkit.core.variable import Variable


def scope_of_values(
    owner: Any, method: str, replacements: Mapping[str, tuple[Sequence[Variable], Sequence[Any]]]
) -> StatelessScope:
    """A scope in which variables have other values.

    Args:
        owner: the layer, for messages.
        method: the name of the method that was called, for messages.
        replacements: by the name of an argument the variables and their values.

    Raises:
        NotBuiltError: the layer has no weights yet.
        ValueError: there is not one value for each variable.
    """
    if not owner.built:
        raise NotBuiltError(
            f"{owner.name}.{method}: the layer must be built, so that its variables exist; call it "
            "on data once, or call build(input_shape)"
        )
    for argument, (variables, values) in replacements.items():
        if len(values) != len(variables):
            raise ValueError(
                f"{owner.name}.{method}: {argument} has {len(values)} values, the layer has "
                f"{len(variables)} variables: {[v.path for v in variables]}"
            )
    pairs = [zip(variables, values, strict=True) for variables, values in replacements.values()]
    return StatelessScope([pair for some in pairs for pair in some])


class StatelessCalls(SpecsByRunning):
    """`stateless_call`, which leaves the layer as it is."""

    _losses_held: Any

    if TYPE_CHECKING:
        trainable_variables: list[Variable]
        non_trainable_variables: list[Variable]
        losses: list[Any]

    def stateless_call(
        self,
        trainable_variables: Sequence[Any],
        non_trainable_variables: Sequence[Any],
        *args: Any,
        return_losses: bool = False,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Call the layer with other values of its variables; its own stay as they are.

        Args:
            trainable_variables: a value for each of `trainable_variables`.
            non_trainable_variables: a value for each of `non_trainable_variables`; seeds of
                random layers are among them.
            *args: of the call.
            return_losses: give back the losses of the call, too.
            **kwargs: of the call.

        Returns:
            The outputs and the values of `non_trainable_variables` after the call, as a tuple; with
            `return_losses` the list of losses that layers added comes third.

        Raises:
            NotBuiltError: the layer has no weights yet.
            ValueError: there is not one value for each variable, or one of another shape.

        Example:
            >>> layer = tk.layers.Dense(1, kernel_initializer="ones")
            >>> layer.build((None, 2))
            >>> x, others = tk.ones((1, 2)), [tk.ones((2, 1)) * 3.0, tk.zeros(1)]
            >>> y, _ = layer.stateless_call(others, [], x)
            >>> float(y[0, 0]), float(layer(x)[0, 0])
            (6.0, 2.0)
        """
        state = self.non_trainable_variables
        replacements = {
            "trainable_variables": (self.trainable_variables, trainable_variables),
            "non_trainable_variables": (state, non_trainable_variables),
        }
        with scope_of_values(self, "stateless_call", replacements):
            try:
                outputs = self(*args, **kwargs)
                # Read inside of the scope, which forgets them at its end; the losses likewise are
                # of the values that were given, and must not stay behind as those of the layer's
                # own.
                after: list[Tensor] = [variable.value() for variable in state]
                losses = list(self.losses) if return_losses else []
            finally:
                if self._losses_held:
                    self._clear_losses()
        return (outputs, after, losses) if return_losses else (outputs, after)
