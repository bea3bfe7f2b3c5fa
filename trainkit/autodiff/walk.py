"""The walk back: from the last entry of a tape to the first, one rule per input that needs it."""

from __future__ import annotations

from typing import Any

from trainkit.core import devices
from trainkit.core.tensor import PRIMITIVES, Tensor, wrap


def walk_back(
    entries: list[Any], grads: dict[Tensor, Tensor], needed: set[Tensor], kept: set[Tensor]
) -> None:
    """Go through `entries` from the last to the first and fill `grads`; `entries` is emptied.

    Args:
        entries: what a tape recorded; popped one by one, so what they held is freed on the way.
        grads: gradients by tensor so far, at first those of the targets.
        needed: tensors whose gradient is of use; rules of other inputs are not called.
        kept: tensors whose gradient stays in `grads` after their entry has been passed.
    """
    take, found, add = entries.pop, grads.get, PRIMITIVES["add"].op
    while entries:
        primitive, inputs, output, settings = take()
        if type(output) is tuple:
            g = _gathered(output, grads, kept, getattr(primitive, "joint_sparse", False))
        elif output in kept:
            g = found(output)
        else:
            g = grads.pop(output, None)
        if g is None:
            continue
        if primitive.joint is None:
            pairs = zip(inputs, primitive.rules)  # noqa: B905 - strict would cost time here
        else:
            pairs = _joint(primitive, g, output, inputs, settings, needed)
            g = None
        for x, rule in pairs:
            if rule is None or x not in needed:
                continue
            if g is None:
                gx = rule
            elif settings:
                gx = rule(g, output, *inputs, **settings)
            else:
                gx = rule(g, output, *inputs)
            if gx is None:
                continue
            if primitive.broadcasts and (
                type(gx) is not Tensor or type(x) is not Tensor or gx._array.shape != x._array.shape
            ):
                gx = PRIMITIVES["sum_to_like"].op(gx, x)
            before = found(x)
            grads[x] = gx if before is None else add(before, gx)


def _joint(
    primitive: Any, g: Any, output: Any, inputs: Any, settings: Any, needed: set[Tensor]
) -> Any:
    """Each input with its gradient, all of them computed by one rule."""
    keywords = settings or {}
    if primitive.joint_asks:
        keywords = {**keywords, "needed": tuple(x in needed for x in inputs)}
    given = primitive.joint(g, output, *inputs, **keywords)
    return list(zip(inputs, given, strict=True))


def _gathered(
    outputs: tuple[Tensor, ...], grads: dict[Tensor, Tensor], kept: set[Tensor], sparse: bool
) -> Any:
    """Gradients of several outputs; `None` when there is none at all.

    For an output without a gradient there are zeros, or `None` if `sparse`.
    """
    found = [grads.get(y) if y in kept else grads.pop(y, None) for y in outputs]
    if all(g is None for g in found):
        return None
    if sparse:
        return tuple(found)
    return tuple(zeros_like(y) if g is None else g for y, g in zip(outputs, found, strict=True))


def ones_like(x: Tensor) -> Tensor:
    """Ones in the shape, dtype and place of `x`."""
    if type(x) is Tensor:
        from_array = x._array
        return wrap(module_of(x).ones(from_array.shape, from_array.dtype))
    made: Tensor = PRIMITIVES["ones_like"].op(x, dtype=None)
    return made


def zeros_like(x: Tensor) -> Tensor:
    """Zeros in the shape, dtype and place of `x`."""
    if type(x) is Tensor:
        from_array = x._array
        return wrap(module_of(x).zeros(from_array.shape, from_array.dtype))
    made: Tensor = PRIMITIVES["zeros_like"].op(x, dtype=None)
    return made


def unit_seeds(target: Tensor, count: int) -> Tensor:
    """A tensor (count, ...target): for each element one that is 1 there and 0 elsewhere."""
    units = module_of(target).eye(count, dtype=target.dtype.dtype)
    return wrap(units.reshape((count, *target.shape)))


def module_of(x: Tensor) -> Any:
    """The array module of a tensor's device; that of new tensors for a symbolic one."""
    if type(x) is Tensor:
        return devices.XP_OF[type(x._array)]
    return devices.current().xp
