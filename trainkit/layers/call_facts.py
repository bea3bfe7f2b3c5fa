"""What a layer class's signatures say, read once per class; the state of a call under way."""

from __future__ import annotations

import inspect
import threading
from typing import Any

_FAR = 1 << 30


class CallFacts:
    """What `__call__` must know of `call` and `build`.

    Attributes:
        names: the parameters of `call` by position.
        takes_training: whether `call` has the argument `training`.
        training_position: its place among the positional arguments.
        training_default: its default, `None` when there is none.
        mask_names: the parameters of `call` that want masks.
        mask_position: the place of `mask` among the positional arguments.
        build_names: the parameters of `build`.
        makes_masks: whether the class has a `compute_mask` of its own.
    """

    def __init__(self, kind: type, base: type) -> None:
        call: Any = kind.call  # type: ignore[attr-defined]
        parameters = list(inspect.signature(call).parameters.values())[1:]
        positional = [
            p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        self.names = [p.name for p in positional]
        keywords = {p.name: p for p in parameters if p.kind is not p.VAR_KEYWORD}
        self.takes_anything = any(p.kind is p.VAR_KEYWORD for p in parameters)
        self.takes_training = "training" in keywords
        self.training_position = self.names.index("training") if "training" in self.names else _FAR
        default = keywords["training"].default if self.takes_training else None
        self.training_default = None if default is inspect.Parameter.empty else default
        self.mask_names = [n for n in keywords if n == "mask" or n.endswith("_mask")]
        self.mask_position = self.names.index("mask") if "mask" in self.names else _FAR
        self.build_names = _build_names(kind)
        self.makes_masks = kind.compute_mask is not base.compute_mask  # type: ignore[attr-defined]

    def by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by their names, those given by position first."""
        return {**dict(zip(self.names, args, strict=False)), **kwargs}

    def named_mask(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The mask that a call was given or had filled in, `None` if there is none."""
        if len(args) > self.mask_position:
            return args[self.mask_position]
        return kwargs.get("mask")


def _build_names(kind: Any) -> list[str]:
    parameters = list(inspect.signature(kind.build).parameters.values())[1:]
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


class CallFrame(threading.local):
    """The layer call under way in this thread.

    Attributes:
        entry: the outermost layer, `None` outside of calls.
        training: what the innermost call that says so runs for.
        built: the layers that the outermost call has built, with what they were before.
    """

    def __init__(self) -> None:
        self.entry: Any = None
        self.training: Any = None
        self.built: list[tuple[Any, dict[str, Any]]] | None = None


FRAME = CallFrame()
