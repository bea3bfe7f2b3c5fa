"""Calls of a layer with the values of its variables given, and their new values given back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainkit.autodiff.stateless_scope import StatelessScope
from trainkit.core.errors import NotBuiltError

if TYPE_CHECKING:
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


def stateless_call(
    layer: Any,
    trainable_variables: Sequence[Any],
    non_trainable_variables: Sequence[Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    return_losses: bool,
) -> tuple[Any, ...]:
    """The result of `Layer.stateless_call`."""
    state = layer.non_trainable_variables
    replacements = {
        "trainable_variables": (layer.trainable_variables, trainable_variables),
        "non_trainable_variables": (state, non_trainable_variables),
    }
    with scope_of_values(layer, "stateless_call", replacements):
        try:
            outputs = layer(*args, **kwargs)
            # Read inside of the scope, which forgets them at its end; the losses likewise are of
            # the values that were given, and must not stay behind as those of the layer's own.
            after = [variable.value() for variable in state]
            losses = list(layer.losses) if return_losses else []
        finally:
            if layer._losses_held:
                layer._clear_losses()
    return (outputs, after, losses) if return_losses else (outputs, after)
