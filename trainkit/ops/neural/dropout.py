"""The product of dropout: what is kept is scaled, the rest is 0."""

from __future__ import annotations

from typing import Any

from trainkit.core.cpu.cost_model import CALL_FLOATS
from trainkit.core.devices import Array, ArrayModule
from trainkit.core.dispatch.facets import ELEMENTWISE, Direct, Tuned
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.errors import ShapeError
from trainkit.core.process.later_imports import DeferredModule
from trainkit.core.shapes import Spec
from trainkit.kernels.random import random_tuned
from trainkit.ops.core.vmap import in_front, stacked

random_gpu = DeferredModule("trainkit.kernels.random.random_gpu")


def _dropped_rule(x: Spec, mask: Spec, scale: float) -> Spec:
    if not serves(mask.shape, x.shape):
        raise ShapeError(
            f"dropped: the mask must broadcast to the shape of x.\n  x     {x.shape}\n"
            f"  mask  {mask.shape}"
        )
    return x


def serves(mask: Any, shape: Any) -> bool:
    """Whether a mask of the shape `mask` broadcasts to `shape`; `None` stands for a size there."""
    return len(mask) == len(shape) and all(
        m in (1, None) or m == n for m, n in zip(mask, shape, strict=True)
    )


@primitive(
    _dropped_rule,
    semantics=ELEMENTWISE,
    tuned=Tuned(random_tuned.dropped, fewest=CALL_FLOATS, on_gpu=(random_gpu.dropped,), exact=True),
    direct=Direct("dropped"),
)
def dropped(xp: ArrayModule, x: Array, kept: Array, *, scale: float) -> Array:
    """`x` times `scale` where the mask `kept` is true, else times 0.

    A mask of a byte for each element is all that the gradient needs.
    """
    return x * xp.multiply(kept, x.dtype.type(scale), dtype=x.dtype)


dropped.gradients(lambda g, y, x, mask, scale: dropped(g, mask, scale=scale), None)
dropped.declare(residuals=frozenset({1}))


@dropped.batch_by
def _dropped_stack(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    x, mask = inputs
    return primitive.op(stacked(x, count), in_front(mask), **settings)
