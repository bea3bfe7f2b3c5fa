"""A layer that becomes one of another class: the form in which its weights are kept decides.

`become(layer, variant)` puts the class `variant` in front of the layer's own. It keeps its name,
its config and its place in models and files; calls, and what goes into files, are the variant's.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from trainkit.layers.base.tracking import forget_parts


class Variant:
    """What is mixed in front of the class of a layer.

    Attributes:
        plain_class: the class before.
        mode: the name of a way to quantize; `None` for LoRA alone.
    """

    plain_class: type
    mode: str | None = None
    _stores_itself = True  # files ask `save_own_variables`
    is_gptq_calibrated = is_awq_calibrated = False

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What the class of the layer has; no method at run time."""

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """What the class before makes of a config, whose dtype policy says the form of weights."""
        return cls.plain_class.from_config(config)  # type: ignore[attr-defined]

    def __reduce__(self) -> Any:
        variant = next(kind for kind in type(self).__mro__[1:] if kind is not self.plain_class)
        state = self.__getstate__()
        return made_again, (self.plain_class, variant), state


def plain_class(kind: type) -> type:
    """The class of a layer without a variant in front of it."""
    plain: type = getattr(kind, "plain_class", kind)
    return plain


@cache
def mixed(kind: type, variant: type[Variant]) -> type:
    """The class of layers of `kind` that have become a `variant`."""
    body = {
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "plain_class": kind,
    }
    return type(kind.__name__, (variant, kind), body)


def become(layer: Any, variant: type[Variant]) -> None:
    """Let `layer` be a `variant` from now on."""
    kind: Any = variant
    object.__setattr__(layer, "__class__", mixed(plain_class(type(layer)), kind))


def made_again(kind: Any, variant: type[Variant]) -> Any:
    """A bare layer of this class, for copies and pickles."""
    layer = kind.__new__(kind)
    become(layer, variant)
    return layer


def drop_weight(layer: Any, name: str) -> None:
    """Take the weight that is the attribute `name` from `layer`."""
    weight = layer.__dict__.pop(name)
    layer._untrack_variable(weight)


class HeldWeight:
    """A name in Keras's code for the variable that is kept as an attribute."""

    def __init__(self, attribute: str) -> None:
        self.held = attribute

    def __get__(self, layer: Any, kind: type | None = None) -> Any:
        if layer is None:
            return self
        weight = layer.__dict__.get(self.held)
        if weight is None:
            raise AttributeError(f"layer {layer.name!r} has no variable {self.held!r}")
        return weight

    def __set__(self, layer: Any, weight: Any) -> None:
        hold(layer, self.held, weight)

    def __delete__(self, layer: Any) -> None:
        self.__get__(layer)
        drop_weight(layer, self.held)


def hold(layer: Any, name: str, weight: Any) -> None:
    """Keep `weight` as the attribute `name`, though the class may have a property of that name."""
    layer.__dict__[name] = weight
    forget_parts(layer)
    layer._part_added(name, weight)
