"""How masks come to layers and leave them: filled into calls, passed on to results."""

from __future__ import annotations

import warnings
from typing import Any

from trainkit.core import nest
from trainkit.core.masks import mask_of, masks_of, set_mask
from trainkit.core.tensor import is_tensor


def there(masks: Any) -> bool:
    """Whether any of nested masks is one."""
    return any(m is not None for m in nest.flatten(masks))


def _is_tensors(value: Any) -> bool:
    """Whether `value` is a tensor, or a nest of tensors and `None`s with a tensor in it."""
    if is_tensor(value):
        return True
    if not isinstance(value, list | tuple | dict):
        return False
    leaves = nest.flatten(value)
    return any(map(is_tensor, leaves)) and all(x is None or is_tensor(x) for x in leaves)


def filled_in(facts: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """`kwargs` with the masks of the inputs that `call` wants and the caller left out.

    As in Keras an argument `mask` gets the masks of the one argument that holds tensors; where
    several do, `query_mask` gets those of `query`.
    """
    arguments = facts.by_name(args, kwargs)
    holders = [name for name, value in arguments.items() if _is_tensors(value)]
    alone = holders[0] if len(holders) == 1 else None
    added = {}
    for name in facts.mask_names:
        # A mask that was given by position is the caller's word, even if it is None.
        source = alone if name == "mask" else name.removesuffix("_mask")
        if (
            source in holders
            and arguments.get(name) is None
            and name not in facts.names[: len(args)]
        ):
            mask = masks_of(arguments[source])
            if there(mask):
                added[name] = mask
    return {**kwargs, **added} if added else kwargs


def first_argument(facts: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The argument whose mask the output inherits: the first one of `call`."""
    if args:
        return args[0]
    return kwargs.get(facts.names[0]) if facts.names else next(iter(kwargs.values()), None)


def _warn_of_lost_mask(layer: Any) -> None:
    warnings.warn(
        f"layer {layer.name!r} ({type(layer).__name__}) was given an input with a mask, which it "
        "does not support: later layers and losses will not see the mask. If its output has the "
        "steps of its input, set its supports_masking = True",
        UserWarning,
        stacklevel=4,
    )


def pass_on(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any], y: Any) -> None:
    """Let the mask that `layer` computes from those of its input travel with its output.

    A mask that the caller named counts in place of that of the input. A layer that does not support
    masks loses it, with a warning.
    """
    outputs = nest.flatten(y)
    # The call has set masks itself, or has given its input back, which still has its mask.
    if outputs and all(mask_of(out) is not None for out in outputs):
        return
    inputs = first_argument(layer._facts, args, kwargs)
    named = layer._facts.named_mask(args, kwargs)
    previous = masks_of(inputs) if named is None else named
    if not layer.supports_masking:
        if layer._warns_of_lost_masks and there(previous):
            _warn_of_lost_mask(layer)
        return
    output_masks = layer.compute_mask(inputs, previous)
    if output_masks is None:
        return
    several = (
        nest.flatten(output_masks)
        if isinstance(output_masks, list | tuple | dict)
        else [output_masks]
    )
    # compute_mask of a user may say fewer masks than there are outputs. What the call has set
    # counts more than what it says.
    for out, mask in zip(outputs, several, strict=False):
        if mask is not None and mask_of(out) is None:
            set_mask(out, mask)
