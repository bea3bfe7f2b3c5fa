"""Errors of operations, with the layer in which they happened."""

from __future__ import annotations

from typing import Any

from trainkit.core import nest
from trainkit.core.errors import OpError
from trainkit.core.names import near_names
from trainkit.core.tensor import is_tensor
from trainkit.core.trackable import traverse
from trainkit.core.values.python_signatures import signature_of
from trainkit.layers.base import tracking

_MOST_WEIGHTS = 4


def shown_kind(layer: Any) -> str:
    """What texts call the class of a layer."""
    kind: str = getattr(layer, "_shown_kind", type(layer).__name__)
    return kind


def explain(layer: Any, error: Exception, args: tuple[Any, ...]) -> None:
    """Add to an operation's error the innermost layer, its inputs and its weights.

    Args:
        layer: whose call raised it.
        error: changed in place; errors of other kinds are left alone.
        args: of the call.
    """
    # Where memory ran out is only noted: the error that users see is made at the end of the step,
    # with what all layers hold.
    if isinstance(error, MemoryError) and not hasattr(error, "_layer_text"):
        error._layer_text = f"layer {layer.name!r} ({shown_kind(layer)})"  # type: ignore[attr-defined]
    # The error passes the calls of all layers around; the innermost has named itself.
    if not isinstance(error, OpError) or getattr(error, "_names_layer", False):
        return
    error._names_layer = True  # type: ignore[attr-defined]
    text = str(error.args[0]) if error.args else ""
    head, colon, tail = text.partition(": ")
    where = f"layer {layer.name!r} ({shown_kind(layer)})"
    # A head without spaces is the name of the operation, which stays in front.
    text = f"{head} in {where}: {tail}" if colon and " " not in head else f"{where}: {text}"
    inputs = [x for x in nest.flatten(args) if is_tensor(x)]
    lines = [f"  input  {tuple(x.shape)} {x.dtype.name}" for x in inputs]
    weights = tracking.own_variables(layer)[:_MOST_WEIGHTS]
    lines += [f"  {w._name}  {tuple(w.shape)}" for w in weights]
    error.args = ("\n".join([text, f"{where} was called with", *lines]), *error.args[1:])


def nearest_argument(kind: type, name: str) -> str:
    """A hint at the argument of a layer's constructor that `name` may stand for, or nothing."""
    names: set[str] = set()
    for base in kind.__mro__:
        if "__init__" in vars(base):
            names |= set(signature_of(vars(base)["__init__"]).parameters)
    names -= {"self", "args", "kwargs"}
    near = near_names(name, names, 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def called_on_none(layer: Any, outer: Any, args: tuple[Any, ...]) -> str:
    """What to say of a layer that failed since it was given `None`; nothing if it was not.

    Args:
        layer: that failed.
        outer: the model whose call is under way, `None` outside.
        args: of the call.
    """
    if not args or args[0] is not None:
        return ""
    # None came from a layer that ran before: one without `return` has marked itself when it was
    # first called, and is named in place of the one that stumbled over it.
    parts: list[Any] = [] if outer is None else [part for _, part in traverse(outer)]
    guilty = [p for p in parts if p is not layer and p.__dict__.get("_gave_none")]
    text = f"layer {layer.name!r} ({shown_kind(layer)}) was called on None"
    if not guilty and (outer is None or outer is layer):
        return f"{text}: pass it a tensor, an array, or a nest of them"
    if not guilty:
        return f"{text}: the layer before it gave nothing; does its call end with `return`?"
    named = ", ".join(f"{p.name!r} ({shown_kind(p)})" for p in guilty)
    return f"{text}: {named} gave nothing; does its call end with `return`?"


def explain_none(
    error: Exception, layer: Any, outer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str:
    """What to say where `error` came of a `None` that stood where a tensor was needed, or nothing.

    Args:
        error: that the call raised.
        layer: that was called.
        outer: the model whose call is under way, `None` outside.
        args: of the call.
        kwargs: of the call.
    """
    text = str(error)
    if "NoneType" not in text and "was called on None" not in text:
        return ""
    if args and args[0] is None:
        return called_on_none(layer, outer, args)
    labels = _labels_of_none(layer, args, kwargs)
    if not labels:
        return ""
    return (
        f"layer {layer.name!r} ({shown_kind(layer)}) was called with None as {', '.join(labels)}: "
        "pass a tensor; if another layer gave it, does its call end with `return`?"
    )


def _labels_of_none(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """Which arguments of a call, or elements of these, are `None` and have no such default."""
    try:
        signature = signature_of(layer.call)
        arguments = signature.bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):  # the call is of another form, or does not tell
        return []
    labels = []
    for name, value in arguments.items():
        parameter = signature.parameters[name]
        if value is None:
            labels += [name] if parameter.default is parameter.empty else []
        elif parameter.kind is not parameter.VAR_KEYWORD:
            leaves = nest.flatten_with_path(value)
            labels += [
                name + "".join(f"[{key!r}]" for key in path) for path, x in leaves if x is None
            ]
    return labels
