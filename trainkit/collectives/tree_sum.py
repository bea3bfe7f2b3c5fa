"""Sums of many arrays in an order that does not depend on which process has which of them.

The arrays are the leaves of a binary tree: neighbours are added first, then these sums, until one
is left; what has no neighbour goes up as it is. A process adds what lies whole in its own leaves,
and the group adds up the rest in the same order, so any number of processes comes to the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainkit.collectives.process_group import ProcessGroup
from trainkit.core import devices

_ALIGNED = 64
"""Bytes at whose multiples each array begins, so that kernels find it where they like it."""


class TreeSum:
    """Adds up flat arrays, one for each leaf, as they come; used for many sums, one after another.

    Args:
        group: the processes, each of which has the next `leaves / size` of the leaves.
        leaves: how many there are in all processes together.
        dtype: of the sums.
        label: what they are, for messages when processes disagree.
    """

    def __init__(self, group: ProcessGroup, leaves: int, dtype: Any, label: str) -> None:
        own = leaves // group.size
        self._group, self._what = group, label
        self._dtype = np.dtype(dtype)
        # the greatest subtree that each process has whole; alone it has all of the tree
        self._width = own if group.size == 1 else own & -own
        self._sums: list[tuple[int, Any]] = []  # how many leaves each is of, and the array
        self._spare: list[Any] = []

    def add(self, arrays: Sequence[Any], weight: float = 1.0) -> None:
        """The next leaf: arrays times a weight, laid out one after the other.

        Args:
            arrays: of the same shapes in each leaf, on one device. They are free again afterwards.
            weight: 0 stands for zeros, whatever the arrays hold.
        """
        if self._sums and self._sums[-1][0] == 1 < self._width:
            flat = self._sums[-1][1]
            parts = self.parts(flat, [array.shape for array in arrays])
            for part, array in zip(parts, arrays, strict=True):
                part += self._weigh(array, weight) if weight else 0  # -0.0 becomes 0.0, too
            self._sums[-1] = 2, flat
        else:
            flat = self._array(arrays)
            parts = self.parts(flat, [array.shape for array in arrays])
            for part, array in zip(parts, arrays, strict=True):
                part[...] = self._weigh(array, weight) if weight else 0
            self._sums.append((1, flat))
        while len(self._sums) > 1 and self._sums[-2][0] == self._sums[-1][0] < self._width:
            self._join()

    def _weigh(self, array: Any, weight: float) -> Any:
        if weight == 1.0:
            return array
        return array.astype(self._dtype, copy=False) * self._dtype.type(weight)

    def _join(self) -> None:
        (size, right), (other, left) = self._sums.pop(), self._sums.pop()
        left += right
        self._spare.append(right)
        self._sums.append((other + size, left))

    def _array(self, arrays: Sequence[Any]) -> Any:
        if self._spare:
            return self._spare.pop()
        xp = devices.XP_OF[type(arrays[0])]
        size = sum(self._align(int(array.size)) for array in arrays)
        return xp.zeros(size, self._dtype)

    def _align(self, size: int) -> int:
        step = _ALIGNED // self._dtype.itemsize
        return -(-size // step) * step

    def parts(self, flat: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
        """The arrays in a flat one.

        Args:
            flat: a leaf or a sum.
            shapes: of the arrays, in order.
        """
        arrays, at = [], 0
        for shape in shapes:
            size = math.prod(shape)
            arrays.append(flat[at : at + size].reshape(shape))
            at += self._align(size)
        return arrays

    def total(self) -> Any:
        """The sum of all leaves of all processes, a flat array; the next sum begins."""
        if self._group.size == 1:
            while len(self._sums) > 1:  # the smaller subtrees at the end have no neighbours
                self._join()
            return self._sums.pop()[1]
        first = self._sums[0][1]
        pieces = np.stack([devices.to_numpy(array) for _, array in self._sums])
        self.drop()
        total = self._group.sum_pieces(pieces, self._what)
        return devices.to_device(total, devices.device_of(first))

    def drop(self) -> None:
        """Forget the leaves that were added since the last sum."""
        self._spare += [array for _, array in self._sums]
        self._sums = []
