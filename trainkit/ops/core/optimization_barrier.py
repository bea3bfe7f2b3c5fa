"""`optimization_barrier`: a tensor under a new identity, which no pass takes for the old one."""

from __future__ import annotations

from typing import Any

from trainkit.core.dispatch.facets import VIEW, Absent
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.shapes import Spec
from trainkit.ops.core.vmap import stacked


@primitive(
    lambda x, signal: Spec(x.shape, x.dtype),
    semantics=VIEW,
    lowering=Absent("what stands on its two sides must not become one loop"),
)
def optimization_barrier(xp: Any, x: Any, signal: Any) -> Any:
    """`x` itself, at a time when `signal` is known.

    What is computed from the result is neither merged with what was computed from `x` nor moved to
    before `signal`: so a forward pass can be run again when its gradient arrives, rather than kept.
    """
    return x


optimization_barrier.gradients(lambda g, y, x, signal: g, None)


@optimization_barrier.batch_by
def _stacks(primitive: Any, inputs: Any, settings: Any, count: int) -> Any:
    """Under `vectorized_map` both inputs are stacks, which one barrier holds back together."""
    x, signal = inputs
    return primitive.op(stacked(x, count), stacked(signal, count))
