"""Assigned values on the devices of their variables: a variable stays where it was made.

An eager assignment copies a value of another device. A graph learns from its arguments alone where
it runs, so the node of an assignment copies the value to where the variable's first one lies; that
copies nothing where both lie on one device. It is left out where no GPU is, and where the value
follows from the first one by operations that would refuse an array of another device. Counts of an
optimizer go along with their values: where a step is left out if a gradient is not finite, as the
GPU alone knows, copies of them would make the host wait in each step.
"""

from __future__ import annotations

from typing import Any

from trainkit.core import devices
from trainkit.core.dispatch.facets import ELEMENTWISE, ON_ONE_DEVICE, RANDOM, VIEW
from trainkit.core.dtypes import string
from trainkit.core.variable import Variable
from trainkit.graph.ir.nodes import GraphTensor, Node

_MOST_NODES = 32


def copy_needed(variable: Variable, value: GraphTensor, first: GraphTensor) -> bool:
    """Whether `value` may lie elsewhere than `first`, the value that `variable` had."""
    if not devices.gpu_count() or value.dtype is string or variable._goes_along:
        return False
    on_cpu = devices.parse(variable.device) is devices.CPU
    return not _Follower(first, on_cpu).follows(value)


def brings_beside(node: Node) -> bool:
    """Whether `node` copies its first input to where its second one lies."""
    return node.kind == "op" and node.primitive.facets.simplify == ON_ONE_DEVICE


class _Follower:
    """Tells which values surely lie where `first` does.

    Args:
        first: a value of a graph.
        on_cpu: whether it lies on the CPU.
    """

    def __init__(self, first: GraphTensor, on_cpu: bool) -> None:
        self._first = first
        self._on_cpu = on_cpu
        self._left = _MOST_NODES

    def follows(self, x: Any) -> bool:
        """Whether `x` does; no more than some nodes are looked at."""
        if x is self._first:
            return True
        self._left -= 1
        if self._left < 0 or x.node.kind != "op":
            return False
        kind = x.node.primitive.facets.semantics
        inputs = [y for y in x.node.inputs if isinstance(y, GraphTensor)]
        if kind is RANDOM:
            return bool(inputs) and self.follows(inputs[0])
        if kind is not ELEMENTWISE and kind is not VIEW:
            return False
        if brings_beside(x.node) or "device" in x.node.settings:
            return False
        # single numbers of the CPU go along with arrays of a GPU, all others are refused
        decisive = [y for y in inputs if not self._on_cpu or _is_array(y)]
        if any(map(self.follows, decisive)):
            return True
        return bool(inputs) and all(map(self.follows, inputs))


def _is_array(x: GraphTensor) -> bool:
    return x.shape.rank is not None and x.shape.rank > 0
