"""Gradients of a virtual replica, kept until those of all of them are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trainkit.core.dispatch.facets import CONTROL, Absent, Effect, one_by_one
from trainkit.core.dispatch.primitive import primitive
from trainkit.core.shapes import Spec

if TYPE_CHECKING:
    from trainkit.collectives.virtual_replica import VirtualReplica


def _ticket(*inputs: Any, **settings: Any) -> Spec:
    return Spec((), "int64")


@primitive(
    _ticket,
    name="keep_gradients",
    effect=Effect("it adds to what the virtual replicas of this process have come to"),
    semantics=CONTROL,
    no_gradient=Absent("it is a step of optimizers"),
)
def keep_gradients(xp: Any, *arrays: Any, replica: VirtualReplica, update: Any) -> Any:
    """Add arrays to those of other turns, for the update that all of them make; gives a 0."""
    replica.gradients.add(update, arrays)
    return np.zeros((), np.int64)


keep_gradients.declare(batch=one_by_one("the gradients of one replica are kept at a time"))
