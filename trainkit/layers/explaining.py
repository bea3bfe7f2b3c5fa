"""Errors of operations, with the layer in which they happened."""

from __future__ import annotations

from typing import Any

from trainkit.core import nest
from trainkit.core.errors import OpError
from trainkit.core.tensor import is_tensor
from trainkit.layers import tracking

_MOST_WEIGHTS = 4


def explain(layer: Any, error: Exception, args: tuple[Any, ...]) -> None:
    """Add to an operation's error the innermost layer, its inputs and its weights.

    Args:
        layer: whose call raised it.
        error: changed in place; errors of other kinds are left alone.
        args: of the call.
    """
    if not isinstance(error, OpError) or getattr(error, "_names_layer", False):
        return
    error._names_layer = True  # type: ignore[attr-defined]
    text = str(error.args[0]) if error.args else ""
    head, colon, tail = text.partition(": ")
    where = f"layer {layer.name!r} ({type(layer).__name__})"
    text = f"{head} in {where}: {tail}" if colon and " " not in head else f"{where}: {text}"
    inputs = [x for x in nest.flatten(args) if is_tensor(x)]
    lines = [f"  input  {tuple(x.shape)} {x.dtype.name}" for x in inputs]
    weights = tracking.own_variables(layer)[:_MOST_WEIGHTS]
    lines += [f"  {w._name}  {tuple(w.shape)}" for w in weights]
    error.args = ("\n".join([text, f"{where} was called with", *lines]), *error.args[1:])
