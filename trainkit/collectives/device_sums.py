"""How arrays on the devices of one process are added up: by copies between these devices.

Each rank has an array on its device and gets the result in it. `nccl.py` does the same by NCCL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from trainkit.core import devices
from trainkit.core.errors import FailedPreconditionError

_COMBINE = {"SUM": np.add, "MAX": np.maximum, "MIN": np.minimum}


class Message:
    """An array that a rank gives to a sum, and the stream in whose order it was computed.

    Args:
        array: contiguous; it gets the result.
        reduction: `"SUM"`, `"MAX"` or `"MIN"`.

    Attributes:
        stream: CuPy's current stream of this thread on the array's GPU; `None` for the CPU.
    """

    def __init__(self, array: Any, reduction: str) -> None:
        self.array, self.reduction = array, reduction
        xp = devices.XP_OF[type(array)]
        self.stream = None if xp is np else xp.cuda.get_current_stream(int(array.device.id))

    def check_works(self) -> None:
        """Refuse a sum inside of a capture, where the other devices would be waited for.

        Raises:
            FailedPreconditionError: the stream captures.
        """
        if self.stream is not None and self.stream.is_capturing():
            raise FailedPreconditionError(
                "a sum over replicas of one process can't be part of a CUDA graph: all devices "
                "would have to be captured at once. Capture what lies between the sums"
            )


class DeviceSums(Protocol):
    """What adds up the arrays of all ranks."""

    def all_reduce(self, messages: list[Sequence[Message]]) -> None:
        """Combine arrays in place.

        Args:
            messages: for each array those of all ranks, in the order of the ranks.
        """


class OneDeviceSums:
    """All arrays are copied to one device, combined there in the order of the ranks, and back.

    Args:
        device: where; by default that of the first rank, as is for arrays of the host.
    """

    def __init__(self, device: devices.Device | None = None) -> None:
        self._device = device

    def all_reduce(self, messages: list[Sequence[Message]]) -> None:
        """See `DeviceSums`."""
        for ranks in messages:
            arrays = [message.array for message in ranks]
            first = devices.device_of(arrays[0])
            here = first if self._device is None or first is devices.CPU else self._device
            total = devices.to_device(arrays[0], here)
            for other in arrays[1:]:
                combine_into(total, other, ranks[0].reduction)
            for array in arrays:
                if array is not total:
                    write_into(array, total)


class TreeSums:
    """Arrays are combined in pairs, the sums in pairs again; the result is copied back likewise.

    So half of the devices work at the same time, each with its neighbour.
    """

    def all_reduce(self, messages: list[Sequence[Message]]) -> None:
        """See `DeviceSums`."""
        for ranks in messages:
            arrays = [message.array for message in ranks]
            pairs = _pairs(len(arrays))
            for into, other in pairs:
                combine_into(arrays[into], arrays[other], ranks[0].reduction)
            for whole, other in reversed(pairs):
                write_into(arrays[other], arrays[whole])


def _pairs(count: int) -> list[tuple[int, int]]:
    """Which rank gives its sum to which, in order: neighbours first."""
    found, step = [], 1
    while step < count:
        found += [(rank, rank + step) for rank in range(0, count - step, 2 * step)]
        step *= 2
    return found


def combine_into(total: Any, other: Any, reduction: str) -> None:
    """Add an array of any device to one, or take the greatest or least, in place.

    Args:
        total: gets the result.
        other: of the same shape and dtype.
        reduction: see `Message`.
    """
    here = devices.device_of(total)
    combine = getattr(devices.XP_OF[type(total)], _COMBINE[reduction].__name__)
    with devices.kernels_on(here):
        combine(total, devices.to_device(other, here), out=total)


def write_into(array: Any, value: Any) -> None:
    """Let an array have the values of one of any device.

    Args:
        array: gets them.
        value: of the same shape and dtype.
    """
    here = devices.device_of(array)
    with devices.kernels_on(here):
        array[...] = devices.to_device(value, here)
