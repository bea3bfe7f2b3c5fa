"""Models made again get the names that a run had: processes number them by what they have made."""

from __future__ import annotations

import re
from typing import Any

from trainkit.layers.base.tracking import forget_parts
from trainkit.layers.core import InputLayer
from trainkit.models.sequential import Sequential

_NUMBER = re.compile(r"_\d+$")


def take_names(model: Any, described: Any) -> None:
    """Give a model's layers and weights the names that a header tells of.

    Only names that a process has numbered otherwise are changed, and paths of weights that a model
    made of its config lacks the outer part of. A model of other layers or shapes stays as it is.

    Args:
        model: made again, by a program or from its config.
        described: what the header says of the model: `name`, `layers` and `weights`.
    """
    if not isinstance(described, dict):
        return
    changed = _take_layer_names(model, described)
    listed: Any = described.get("weights")
    weights = model.weights
    if _are_the_same(listed, weights):
        for weight, (path, _, _) in zip(weights, listed, strict=True):
            weight.path = path
        return
    for weight in weights if changed else ():  # made after the header, or too many for it
        weight.path = "/".join(changed.get(name, name) for name in weight.path.split("/"))


def drop_inputs(model: Any, described: Any) -> Any:
    """Take off the `Input` that a config puts in front of a stack that was built without one.

    Paths in checkpoints count it.
    """
    names = _listed_names(described)
    for stack in [model, *model._flatten_layers(include_self=False)] if names else []:
        layers = stack._layers if isinstance(stack, Sequential) else []
        if layers and isinstance(layers[0], InputLayer) and layers[0].name not in names:
            del layers[0]
            forget_parts(stack)
    return model


def _listed_names(described: Any) -> list[Any]:
    listed = described.get("layers") if isinstance(described, dict) else None
    items = listed if isinstance(listed, list) else []
    return [item[0] for item in items if isinstance(item, list) and item]


def _take_layer_names(model: Any, described: dict[str, Any]) -> dict[str, str]:
    """Rename layers; the new names by the old ones."""
    layers = [model, *model._flatten_layers(include_self=False)]
    names = [described.get("name"), *_listed_names(described)]
    if len(layers) != len(names):
        return {}
    pairs = [(layer, name) for layer, name in zip(layers, names, strict=True)]
    if not all(isinstance(name, str) and _alike(layer.name, name) for layer, name in pairs):
        return {}
    changed = {layer.name: name for layer, name in pairs if layer.name != name}
    for layer, name in pairs:
        if layer.name != name:
            layer.name = name
    return changed


def _alike(name: str, other: str) -> bool:
    """Whether two names differ at most in their number."""
    return _without_number(name) == _without_number(other)


def _without_number(name: str) -> str:
    return _NUMBER.sub("", name)


def _are_the_same(listed: Any, weights: list[Any]) -> bool:
    """Whether weights have the shapes, and names but for numbers, that a header lists."""
    if not isinstance(listed, list) or len(listed) != len(weights) or not weights:
        return False
    for item, weight in zip(listed, weights, strict=True):
        if not isinstance(item, list) or len(item) != 3 or not isinstance(item[0], str):
            return False
        if item[1] != list(weight.shape):
            return False
        if not _alike(item[0].rsplit("/", 1)[-1], weight.path.rsplit("/", 1)[-1]):
            return False
    return True
