"""Layers and the masks that travel with tensors: which time steps a later layer is to skip."""

from __future__ import annotations

from typing import Any

from trainkit.core import nest
from trainkit.core.masks import HELD as HELD
from trainkit.core.masks import any_held as any_held
from trainkit.core.masks import mask_of as mask_of
from trainkit.core.masks import masks_of as masks_of
from trainkit.core.masks import set_mask as set_mask


def filled_in(facts: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """`kwargs` with the masks of the inputs that `call` wants and the caller left out.

    Args:
        facts: the `CallFacts` of the layer's class.
        args: of the call.
        kwargs: of the call.
    """
    wanted = [n for n in facts.mask_names if kwargs.get(n) is None]
    if not wanted:
        return kwargs
    given = facts.by_name(args, kwargs)
    added = {}
    for name in wanted:
        source = facts.names[:1] if name == "mask" else [name[: -len("_mask")]]
        if name not in facts.names[: len(args)] and source and source[0] in given:
            mask = masks_of(given[source[0]])
            if mask is not None:
                added[name] = mask
    return {**kwargs, **added}


def pass_on(layer: Any, args: tuple[Any, ...], y: Any) -> None:
    """Let the mask that `layer` computes from those of its input travel with its output."""
    if not layer.supports_masking:
        return
    outputs = nest.flatten(y)
    if outputs and all(mask_of(out) is not None for out in outputs):
        return
    inputs = args[0] if args else None
    made = layer.compute_mask(inputs, masks_of(inputs))
    if made is not None:
        several = nest.flatten(made) if isinstance(made, list | tuple | dict) else [made]
        for out, mask in zip(outputs, several, strict=False):
            set_mask(out, mask)
