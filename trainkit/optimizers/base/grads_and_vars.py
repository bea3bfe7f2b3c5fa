"""Gradients and weights checked against each other before anything changes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from trainkit.autodiff.explain import last_reason
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.variable import Variable


def split_pairs(owner: str, pairs: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """(gradients, weights) of pairs (gradient, weight).

    Raises:
        ValueError: something else than pairs was given.
    """
    pairs = list(pairs)
    try:
        # at once for pairs as they should be; the loop below looks for the one that is wrong
        split = list(zip(*pairs, strict=True))
    except (TypeError, ValueError):
        split = []
    if len(split) == 2:
        return list(split[0]), list(split[1])
    grads, weights = [], []
    for pair in pairs:
        try:
            grad, weight = pair
        except (TypeError, ValueError):
            raise ValueError(
                f"{owner}.apply_gradients takes pairs (gradient, variable), such as "
                f"zip(gradients, model.trainable_variables); got {type(pair).__name__}"
            ) from None
        grads.append(grad)
        weights.append(weight)
    return grads, weights


def _check_weight(owner: str, weight: Any, grad: Any) -> None:
    if isinstance(weight, Variable):
        return
    # (variable, gradient) in place of (gradient, variable) is the usual mistake
    swapped = isinstance(grad, Variable)
    hint = "; the pair is the wrong way round" if swapped else ""
    raise TypeError(f"{owner}: {type(weight).__name__} is no Variable and can't be updated{hint}")


def _check_fit(owner: str, grad: Tensor, weight: Variable) -> None:
    if len(grad.shape) != len(weight.shape) or not weight.shape.is_compatible_with(grad.shape):
        raise ShapeError(
            f"{owner}: gradient and weight {weight.path!r} differ in shape; nothing was updated.\n"
            f"  gradient  {tuple(grad.shape)}\n  weight    {tuple(weight.shape)}\n"
            "Pass gradients in the order of the variables they were asked for."
        )
    if not grad.dtype.is_floating:
        raise InvalidArgumentError(
            f"{owner}: the gradient of weight {weight.path!r} has dtype {grad.dtype.name}; "
            "gradients are floating"
        )


def checked_pairs(
    owner: str, grads: Sequence[Any], weights: Sequence[Any]
) -> tuple[list[Tensor], list[Variable], list[str]]:
    """Gradients as tensors, with their weights, and the names of weights without one.

    Raises:
        ValueError: there are no pairs, or no weight has a gradient.
        ShapeError: a gradient does not have the shape of its weight.
        TypeError: something to update is no Variable.
    """
    kept_grads: list[Tensor] = []
    kept_weights: list[Variable] = []
    missing: list[str] = []
    for grad, weight in zip(grads, weights, strict=True):
        # nearly all pairs; the checks below say what is wrong with the others
        if type(grad) is Tensor and type(weight) is Variable:
            array = grad._array
            # (bfloat16 is of another kind, and takes the long way)
            if array.shape == weight._value._array.shape and array.dtype.kind == "f":
                kept_grads.append(grad)
                kept_weights.append(weight)
                continue
        _check_weight(owner, weight, grad)
        # behind the check of the weight, which is an error without a gradient, too
        if grad is None:
            missing.append(weight.path)
            continue
        grad = (
            grad if isinstance(grad, Tensor) else convert_to_tensor(grad, dtype_hint=weight.dtype)
        )
        _check_fit(owner, grad, weight)
        kept_grads.append(grad)
        kept_weights.append(weight)
    if not kept_grads:
        raise no_gradients(owner, missing, list(weights))
    return kept_grads, kept_weights, missing


def no_gradients(owner: str, missing: list[str], weights: list[Any]) -> ValueError:
    """The error when there is nothing to apply; it names the causes that the tape has found."""
    if not missing:
        return ValueError(f"{owner}: there are no gradients to apply; the list of pairs is empty")
    reasons = [text for text in map(last_reason, weights) if text]
    if reasons:
        # one cause is often that of many weights
        causes = "\n  ".join(dict.fromkeys(reasons))
        return ValueError(
            f"{owner}: no gradient for any of the weights {', '.join(missing)}, because\n  {causes}"
        )
    return ValueError(
        f"{owner}: no gradient for any of the weights {', '.join(missing)}. The loss does not "
        "depend on them as far as the tape saw: the model was called outside the "
        "`with GradientTape()` block, the result went through NumPy or an integer dtype on its "
        "way to the loss, or other variables than these were used. "
        "tape.gradient(..., explain=True) names the cause."
    )


def warn_of_missing(owner: str, missing: list[str]) -> None:
    """Say which weights stay as they are because the loss does not reach them."""
    warnings.warn(
        f"{owner}: no gradient for {', '.join(missing)}; the loss does not depend on them, and "
        "they stay as they "
        "are. If that is meant, leave them out of the list.",
        stacklevel=4,
    )


def one_list(
    owner: str, variables: Iterable[Variable] | None, var_list: Iterable[Variable] | None
) -> list[Variable]:
    """The weights that `build` was given under one of the two names that Keras has for them.

    Raises:
        TypeError: both are given, or none.
    """
    weights = var_list if variables is None else variables
    if weights is None or (variables is not None and var_list is not None):
        raise TypeError(f"{owner}.build takes one list of variables")
    return list(weights)
