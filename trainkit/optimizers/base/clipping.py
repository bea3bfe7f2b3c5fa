"""Keeping gradients in bounds: by value, by the length of each, or by the length of all together.

Optimizers use these functions on arrays and on tensors alike; TensorFlow's own are `tf.clipping`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainkit import ops
from trainkit.core.devices import XP_OF
from trainkit.core.variable import Variable
from trainkit.ops.math.norm_clipping import check_bound as check_bound
from trainkit.ops.math.norm_clipping import clip_factor as clip_factor
from trainkit.ops.math.norm_clipping import joint_clip_factor as joint_clip_factor
from trainkit.ops.math.norm_clipping import joint_norm as joint_norm
from trainkit.ops.math.norm_clipping import square_sum as square_sum

CLIPPING = ("clipnorm", "clipvalue", "global_clipnorm")
"""The settings of optimizers, as `ClipLimits` takes them."""


def clip_gradients(xp: Any, grads: list[Any], limits: ClipLimits) -> list[Any]:
    """Gradients within `limits`, as arrays of `xp`, or as tensors when `xp` is the operations."""
    # at most one of them is set
    if limits.value is not None:
        return [xp.clip(g, -limits.value, limits.value) for g in grads]
    if limits.norm is not None:
        norms = [xp.sqrt(square_sum(xp, g)) for g in grads]
        return [g * clip_factor(xp, n, limits.norm) for g, n in zip(grads, norms, strict=True)]
    if limits.global_norm is not None:
        factor = joint_clip_factor(xp, joint_norm(xp, grads), limits.global_norm)
        return [g * factor for g in grads]
    return grads


class ClippingRule:
    """Clipping of all gradients of a step: as the `rule` of `update_weights`, one node of a graph.

    It calls what eager steps call, so both give the same bits whatever the sizes.

    Args:
        limits: the bounds.
        is_conditional: whether a bool comes first, without which gradients are given as they come.
    """

    n_buffers = 1

    def __init__(self, limits: ClipLimits, is_conditional: bool) -> None:
        self._limits = limits
        self.n_numbers = int(is_conditional)

    def __repr__(self) -> str:
        return f"<{self._limits!r}>"

    def results(self, xp: Any, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The gradients within bounds; as they are where the step does not count.

        Args:
            xp: NumPy or CuPy.
            arrays: the bool, if there is one, and the gradients.
        """
        grads = list(arrays[self.n_numbers :])
        if self.n_numbers and not arrays[0]:
            return tuple(grads)
        return tuple(clip_gradients(XP_OF[type(grads[0])], grads, self._limits))

    def bound(self, buffers: Sequence[Variable | None]) -> Callable[..., list[Any]]:
        """A function as `results`: clipped gradients are no values of variables.

        Args:
            buffers: `None` for each gradient.
        """
        return lambda *arrays: list(self.results(np, arrays))

    def as_operations(self, inputs: Sequence[Any]) -> list[Any]:
        """The same of symbols, by operations for each gradient."""
        return clip_gradients(ops, list(inputs[self.n_numbers :]), self._limits)


class ClipLimits:
    """At most one way to clip, with its bound.

    Args:
        norm: largest length of each gradient.
        value: largest absolute value of an element.
        global_norm: largest length of all gradients together.

    Raises:
        ValueError: more than one is given, or a bound is 0 or less.
    """

    def __init__(self, norm: Any, value: Any, global_norm: Any) -> None:
        bounds = dict(zip(CLIPPING, (norm, value, global_norm), strict=True))
        bounds = {name: bound for name, bound in bounds.items() if bound is not None}
        if len(bounds) > 1:
            settings = ", ".join(f"{name}={bound}" for name, bound in bounds.items())
            raise ValueError(
                f"only one of clipnorm, clipvalue and global_clipnorm can be set, got {settings}"
            )
        for name, bound in bounds.items():
            # to Python a bool is an int, and `clipnorm=True` would clip at 1
            if isinstance(bound, bool) or not isinstance(bound, int | float | np.number):
                raise TypeError(f"{name} must be a number, got {bound!r}")
            check_bound(name, bound)
        self.norm = norm
        self.value = value
        self.global_norm = global_norm

    def __repr__(self) -> str:
        bounds = zip(CLIPPING, (self.norm, self.value, self.global_norm), strict=True)
        return "limits of " + ", ".join(f"{n}={x}" for n, x in bounds if x is not None)

    def __bool__(self) -> bool:
        return not (self.norm is None and self.value is None and self.global_norm is None)
