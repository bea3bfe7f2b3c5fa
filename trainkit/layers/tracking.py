"""Which variables and layers belong to a layer, in Keras's order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from trainkit.core.trackable import Trackable, TrackedDict, TrackedList, TrackedTuple
from trainkit.core.variable import Variable

_CONTAINERS = (TrackedList, TrackedDict, TrackedTuple)


def leaves(parts: Iterable[Any]) -> Iterator[Any]:
    """The parts, containers replaced by what they hold."""
    for part in parts:
        if isinstance(part, _CONTAINERS):
            yield from leaves(part.parts().values())
        else:
            yield part


def once(items: Iterable[Any]) -> list[Any]:
    """The items without repetitions; the first of equal ones stays."""
    return list({id(item): item for item in items}.values())


def was_trainable(variable: Variable) -> bool:
    """Whether the variable is trained when its layer is not frozen."""
    return bool(variable.trainable) or getattr(variable, "_frozen_by_layer", False)


def set_trainable(variable: Variable, value: bool) -> None:
    """Freeze a variable together with its layer, or undo that."""
    if not value and variable.trainable:
        variable.trainable = False
        variable._frozen_by_layer = True  # type: ignore[attr-defined]
    elif value and getattr(variable, "_frozen_by_layer", False):
        variable.trainable = True
        variable._frozen_by_layer = False  # type: ignore[attr-defined]


def own_variables(layer: Any) -> list[Variable]:
    """The variables that `layer` holds itself, as they were made, the trainable ones first."""
    held = [part for part in leaves(trackables(layer)) if isinstance(part, Variable)]
    mine = once([*layer._own, *held])
    return [v for v in mine if was_trainable(v)] + [v for v in mine if not was_trainable(v)]


def generators(layer: Any) -> list[Any]:
    """The random generators that `layer` holds itself."""
    return once(part for part in leaves(trackables(layer)) if hasattr(type(part), "_is_generator"))


def trackables(layer: Any) -> list[Trackable]:
    """The attributes of `layer` that are trackable, in the order of assignment."""
    found = layer.__dict__.get("_found")
    if found is None:
        found = list(Trackable.parts(layer).values())
        layer.__dict__["_found"] = found
    return found  # type: ignore[no-any-return]


def sublayers(layer: Any, kind: type) -> list[Any]:
    """The layers (instances of `kind`) among the attributes of `layer`."""
    return once(part for part in leaves(trackables(layer)) if isinstance(part, kind))
