"""How the devices of one process add up arrays and hand them on: by copies between these devices.

Each rank has an array on its device. `nccl_devices.py` does the same by NCCL.
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
        ready: the event in that stream from which on the array may be read, where it was marked.
        done: the event of another stream which is under way with the array, or `None`.
    """

    def __init__(self, array: Any, reduction: str = "SUM") -> None:
        self.array, self.reduction = array, reduction
        self.ready: Any = None
        self.done: Any = None
        xp = devices.XP_OF[type(array)]
        self.stream: Any = None if xp is np else xp.cuda.get_current_stream(int(array.device.id))

    def mark(self) -> None:
        """Note how far the stream has come: another one may take the array from there on."""
        if self.stream is not None:
            device = devices.device_of(self.array)
            with devices.kernels_on(device):
                self.ready = device.xp.cuda.Event(disable_timing=True)
                self.ready.record(self.stream)

    def settle(self) -> None:
        """Let the stream go on only once another one is through with the array; no host waits."""
        if self.done is not None:
            with devices.kernels_on(devices.device_of(self.array)):
                self.stream.wait_event(self.done)
            self.done = None

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
    """What adds up the arrays of all ranks, and hands arrays from one to others.

    Attributes:
        runs_beside: whether sums run on streams of their own: then `all_reduce` takes messages that
            were marked, and each rank settles its message before it uses the result.
    """

    runs_beside: bool

    def all_reduce(self, messages: list[Sequence[Message]]) -> None:
        """Combine arrays in place.

        Args:
            messages: for each array those of all ranks, in the order of the ranks.
        """

    def reduce(self, arrays: Sequence[Sequence[Any]]) -> list[Any]:
        """The sums over all ranks, on the device of the first; the arrays stay as they are.

        Args:
            arrays: for each sum those of all ranks, of one shape and dtype, each on its device.
        """

    def gather(self, arrays: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """The arrays of all ranks, on the device of the first.

        Args:
            arrays: for each result those of all ranks, each on its device.
        """

    def all_gather(self, messages: Sequence[Message]) -> list[list[Any]]:
        """For each rank copies of the arrays of all, on its device.

        Args:
            messages: of all ranks.
        """

    def broadcast(self, messages: Sequence[Message], root: int) -> None:
        """Write the array of one rank into those of all others.

        Args:
            messages: of all ranks, whose arrays have one shape and dtype.
            root: whose values all get.
        """

    def spread(
        self, arrays: Sequence[Any], places: Sequence[devices.Device]
    ) -> list[Sequence[Any]]:
        """For each array what all ranks have of it, each on its device.

        Args:
            arrays: on the device of the first rank, which keeps them.
            places: the devices of all ranks.
        """


class _DeviceCopies:
    """What is handed on is copied from device to device."""

    runs_beside = False

    def reduce(self, arrays: Sequence[Sequence[Any]]) -> list[Any]:
        """See `DeviceSums`."""
        totals = []
        for ranks in arrays:
            device = devices.device_of(ranks[0])
            with devices.kernels_on(device):
                total = ranks[0].copy()
            for other in ranks[1:]:
                combine_into(total, other, "SUM")
            totals.append(total)
        return totals

    def gather(self, arrays: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """See `DeviceSums`."""
        return [
            [devices.to_device(a, devices.device_of(ranks[0])) for a in ranks] for ranks in arrays
        ]

    def all_gather(self, messages: Sequence[Message]) -> list[list[Any]]:
        """See `DeviceSums`."""
        arrays = [message.array for message in messages]
        target_devices = [devices.device_of(array) for array in arrays]
        return [[_copy(array, device) for array in arrays] for device in target_devices]

    def broadcast(self, messages: Sequence[Message], root: int) -> None:
        """See `DeviceSums`."""
        for rank, message in enumerate(messages):
            if rank != root:
                write_into(message.array, messages[root].array)

    def spread(
        self, arrays: Sequence[Any], places: Sequence[devices.Device]
    ) -> list[Sequence[Any]]:
        """See `DeviceSums`."""
        return [[devices.to_device(array, device) for device in places] for array in arrays]


def _copy(array: Any, where: devices.Device) -> Any:
    if devices.device_of(array) is not where:
        return devices.to_device(array, where)
    with devices.kernels_on(where):
        return array.copy()


class OneDeviceSums(_DeviceCopies):
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
            device = first if self._device is None or first is devices.CPU else self._device
            total = devices.to_device(arrays[0], device)
            for other in arrays[1:]:
                combine_into(total, other, ranks[0].reduction)
            for array in arrays:
                if array is not total:
                    write_into(array, total)


class TreeSums(_DeviceCopies):
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
            for root, other in reversed(pairs):
                write_into(arrays[other], arrays[root])


def _pairs(count: int) -> list[tuple[int, int]]:
    """Which rank gives its sum to which, in order: neighbours first."""
    pairs, step = [], 1
    while step < count:
        pairs += [(rank, rank + step) for rank in range(0, count - step, 2 * step)]
        step *= 2
    return pairs


def combine_into(total: Any, other: Any, reduction: str) -> None:
    """Add an array of any device to one, or take the greatest or least, in place.

    Args:
        total: gets the result.
        other: of the same shape and dtype.
        reduction: see `Message`.
    """
    device = devices.device_of(total)
    combine = getattr(devices.XP_OF[type(total)], _COMBINE[reduction].__name__)
    with devices.kernels_on(device):
        combine(total, devices.to_device(other, device), out=total)


def write_into(array: Any, value: Any) -> None:
    """Let an array have the values of one of any device.

    Args:
        array: gets them.
        value: of the same shape and dtype.
    """
    device = devices.device_of(array)
    with devices.kernels_on(device):
        array[...] = devices.to_device(value, device)
