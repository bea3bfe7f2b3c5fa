"""Collective operations over the GPUs of one process, by NCCL through CuPy's binding.

One thread calls NCCL for all GPUs, each of which has a communicator and a stream of its own for it,
so that sums run while other kernels do. Events say from where on an array may be taken, and let the
GPU's other work wait for the result; the host waits for nothing.
Nothing here was run on GPUs yet: the calls follow CuPy's documentation of `cupy.cuda.nccl` and
NCCL's own.
Source: NVIDIA, "NCCL User Guide", sections "Group Calls" and "Managing Multiple GPUs From One
Thread".
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from trainkit.collectives.device_sums import DeviceSums, Message
from trainkit.collectives.nccl import nccl_type, start_sum, takes
from trainkit.core import devices

Call = Callable[[Any, Any], None]
"""Calls NCCL for a communicator and the stream of its device."""


class NcclDeviceSums:
    """The GPUs of one process, as NCCL sees them: a communicator and a stream for each.

    All calls for one sum lie in a group, so that none waits for a device whose call is still to
    come. Each sum has a group of its own: the first can begin while the arrays of others are still
    being computed. What is handed on goes as bytes, all of it in one group.

    Args:
        gpus: the devices, in the order of the ranks, all different.
        otherwise: does what NCCL does not: arrays of the host, and sums of dtypes that it lacks.
    """

    runs_beside = True

    def __init__(self, gpus: Sequence[devices.Device], otherwise: DeviceSums) -> None:
        self._nccl = importlib.import_module("cupy.cuda.nccl")
        self._gpus, self._otherwise = list(gpus), otherwise
        self._communicators: list[Any] = []
        self._streams: list[Any] = []

    # ------------------------------------------------------------------ sums

    def all_reduce(self, messages: list[Sequence[Message]]) -> None:
        """See `DeviceSums`.

        Raises:
            RuntimeError: NCCL fails. Communicators are given up, and the next call makes others.
        """
        for ranks in messages:
            arrays = [message.array for message in ranks]
            if not self._lie_here(arrays) or not all(map(takes, arrays)):
                self._otherwise.all_reduce([ranks])
            elif arrays[0].size:
                self._together(ranks, [(rank, self._sum(one)) for rank, one in enumerate(ranks)])

    def _sum(self, message: Message) -> Call:
        def call(communicator: Any, stream: Any) -> None:
            start_sum(self._nccl, communicator, message.array, message.reduction, stream)

        return call

    def reduce(self, arrays: Sequence[Sequence[Any]]) -> list[Any]:
        """See `DeviceSums`."""
        results: list[Any] = []
        messages: list[Message] = []
        calls: list[tuple[int, Call]] = []
        for ranks in arrays:
            if not self._lie_here(ranks) or not all(map(takes, ranks)):
                results += self._otherwise.reduce([ranks])
                continue
            inputs = [Message(array) for array in ranks]
            results.append(_room(inputs[0], ranks[0]))
            if ranks[0].size:
                messages += inputs
                for rank, array in enumerate(ranks):
                    calls.append((rank, self._sum_into(results[-1] if rank == 0 else array, array)))
        self._settled(messages, calls)
        return results

    def _sum_into(self, result: Any, array: Any) -> Call:
        """NCCL writes into the result of the first rank alone."""

        def call(communicator: Any, stream: Any) -> None:
            kind, operation = nccl_type(self._nccl, array), self._nccl.NCCL_SUM
            addresses = array.data.ptr, result.data.ptr
            communicator.reduce(*addresses, array.size, kind, operation, 0, stream.ptr)

        return call

    # ------------------------------------------------------------------ what is handed on

    def gather(self, arrays: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """See `DeviceSums`."""
        results: list[list[Any]] = []
        messages: list[Message] = []
        calls: list[tuple[int, Call]] = []
        for ranks in arrays:
            if not self._lie_here(ranks) or not all(map(_is_whole, ranks)):
                results += self._otherwise.gather([ranks])
                continue
            inputs = [Message(array) for array in ranks]
            results.append([ranks[0]])
            messages += inputs
            for rank, array in enumerate(ranks[1:], 1):
                results[-1].append(_room(inputs[0], array))
                if array.size:
                    calls.append((rank, self._exchange("send", array, 0)))
                    calls.append((0, self._exchange("recv", results[-1][-1], rank)))
        self._settled(messages if calls else [], calls)
        return results

    def _exchange(self, method: str, array: Any, peer: int) -> Call:
        """Let NCCL `send` the bytes of an array to another rank, or `recv` them from it."""

        def call(communicator: Any, stream: Any) -> None:
            kind = self._nccl.NCCL_UINT8
            getattr(communicator, method)(array.data.ptr, array.nbytes, kind, peer, stream.ptr)

        return call

    def all_gather(self, messages: Sequence[Message]) -> list[list[Any]]:
        """See `DeviceSums`."""
        arrays = [message.array for message in messages]
        if not self._lie_here(arrays) or not all(map(_is_whole, arrays)):
            return self._otherwise.all_gather(messages)
        copies = [[_room(message, array) for array in arrays] for message in messages]
        calls = [
            (rank, self._from(arrays[root], mine[root], root))
            for root in range(len(arrays))
            for rank, mine in enumerate(copies)
            if arrays[root].size
        ]
        self._settled(messages if calls else [], calls)
        return copies

    def broadcast(self, messages: Sequence[Message], root: int) -> None:
        """See `DeviceSums`."""
        arrays = [message.array for message in messages]
        if not self._lie_here(arrays) or not all(map(_is_whole, arrays)):
            self._otherwise.broadcast(messages, root)
        elif arrays[root].size:
            calls = [(rank, self._from(a, a, root)) for rank, a in enumerate(arrays)]
            self._settled(messages, calls)

    def spread(
        self, arrays: Sequence[Any], places: Sequence[devices.Device]
    ) -> list[Sequence[Any]]:
        """See `DeviceSums`."""
        results: list[Sequence[Any]] = []
        messages: list[Message] = []
        calls: list[tuple[int, Call]] = []
        for array in arrays:
            if devices.device_of(array) is not self._gpus[0] or not _is_whole(array):
                results += self._otherwise.spread([array], places)
                continue
            ranks = [array, *(self._empty_on(gpu, array) for gpu in self._gpus[1:])]
            results.append(ranks)
            if array.size:
                messages += map(Message, ranks)
                calls += [(rank, self._from(a, a, 0)) for rank, a in enumerate(ranks)]
        self._settled(messages, calls)
        return results

    def _from(self, array: Any, into: Any, root: int) -> Call:
        """NCCL reads the array of the root alone."""

        def call(communicator: Any, stream: Any) -> None:
            kind, addresses = self._nccl.NCCL_UINT8, (array.data.ptr, into.data.ptr)
            communicator.broadcast(*addresses, into.nbytes, kind, root, stream.ptr)

        return call

    # ------------------------------------------------------------------ calls of NCCL

    def _lie_here(self, arrays: Sequence[Any]) -> bool:
        pairs = zip(arrays, self._gpus, strict=True)
        return all(devices.device_of(array) is gpu for array, gpu in pairs)

    @staticmethod
    def _empty_on(gpu: devices.Device, array: Any) -> Any:
        with devices.kernels_on(gpu):
            return gpu.xp.empty(array.shape, array.dtype)

    def _settled(self, messages: Sequence[Message], calls: list[tuple[int, Call]]) -> None:
        """Call NCCL, and let all devices go on only behind it."""
        if calls:
            self._together(messages, calls)
            for message in messages:
                message.settle()

    def _together(self, messages: Sequence[Message], calls: list[tuple[int, Call]]) -> None:
        """Call NCCL in one group, behind what the arrays of the messages still wait for."""
        try:
            self._begin()
            by_rank: list[list[Message]] = [[] for _ in self._gpus]
            for message in messages:
                by_rank[self._gpus.index(devices.device_of(message.array))].append(message)
            for stream, mine in zip(self._streams, by_rank, strict=True):
                _follow(stream, mine)
            self._nccl.groupStart()
            try:
                for rank, call in calls:
                    with devices.kernels_on(self._gpus[rank]):
                        call(self._communicators[rank], self._streams[rank])
            except BaseException:
                with contextlib.suppress(Exception):  # it can only say the same once more
                    self._nccl.groupEnd()
                raise
            self._nccl.groupEnd()
            for gpu, stream, mine in zip(self._gpus, self._streams, by_rank, strict=True):
                _note_end(gpu, stream, mine)
        except BaseException:
            self._give_up()
            raise

    def _begin(self) -> None:
        if not self._streams:
            for gpu in self._gpus:
                with devices.kernels_on(gpu):  # the default stream must not wait for it
                    self._streams.append(gpu.xp.cuda.Stream(non_blocking=True))
        if not self._communicators:
            with devices.kernels_on(self._gpus[0]):  # NCCL goes through all devices
                numbers = [gpu.index for gpu in self._gpus]
                self._communicators = list(self._nccl.NcclCommunicator.initAll(numbers))

    def _give_up(self) -> None:
        """End what is under way: a device would wait for others for ever."""
        communicators, self._communicators = self._communicators, []
        for communicator in communicators:
            with contextlib.suppress(Exception):  # the first error is the one to be heard of
                communicator.abort()


def _is_whole(array: Any) -> bool:
    """Whether the array is in one piece, so that its bytes can be handed on."""
    return bool(array.flags.c_contiguous)


def _room(message: Message, array: Any) -> Any:
    """An array like another one, on the device of a message, in the order of its stream."""
    device = devices.device_of(message.array)
    with devices.kernels_on(device), message.stream:
        return device.xp.empty(array.shape, array.dtype)


def _follow(stream: Any, messages: list[Message]) -> None:
    """Let the stream of a device wait until the arrays of messages may be taken."""
    unmarked = [message for message in messages if message.ready is None]
    if unmarked:
        unmarked[0].mark()  # all of them are in the order of one stream
    if messages:
        with devices.kernels_on(devices.device_of(messages[0].array)):
            for message in messages:
                if message.ready is not None:
                    stream.wait_event(message.ready)


def _note_end(gpu: devices.Device, stream: Any, messages: list[Message]) -> None:
    """Note in the messages of a device from where on its other work may go on."""
    if messages:
        with devices.kernels_on(gpu):
            event = gpu.xp.cuda.Event(disable_timing=True)
            event.record(stream)
        for message in messages:
            message.done = event
