"""Paths of layers and weights: names of the layers that were being built, outer ones first."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from trainkit.core import names
from trainkit.layers.base.call_spec import FRAME


class scope:
    """Context in which weights belong below `layer`; a layer already innermost counts once.

    It is a scope of names, too, for variables that a `build` makes without `add_weight`.
    """

    __slots__ = ("layer", "pushed")

    def __init__(self, layer: Any) -> None:
        self.layer, self.pushed = layer, False

    def __enter__(self) -> None:
        stack = FRAME.scopes
        if not stack or stack[-1] is not self.layer:
            stack.append(self.layer)
            # one whose __init__ forgot the base class has no name, and is complained of later
            names.open_scopes().append(getattr(self.layer, "name", ""))
            self.pushed = True

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.pushed:
            FRAME.scopes.pop()
            names.open_scopes().pop()


def current_path() -> str:
    """The path of the layer that is being built."""
    return "/".join(layer.name for layer in FRAME.scopes)


def path_in(layer: Any, label: str) -> str:
    """The path of the weight `label` that `layer` makes now."""
    if layer.path is not None and layer not in FRAME.scopes:  # built before
        return f"{layer.path}/{label}"
    with scope(layer):
        return f"{current_path()}/{label}"
