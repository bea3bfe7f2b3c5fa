"""Sums over arrays that lie on several GPUs, by NCCL through CuPy's binding.

`NcclSums` is for processes with a GPU each, which MPI brings together and hands NCCL's identifier.
`NcclDeviceSums` is for several GPUs of one process, for all of which one thread calls NCCL.
Nothing here was run on GPUs yet: the calls follow CuPy's documentation of `cupy.cuda.nccl` and
NCCL's own.
Source: NVIDIA, "NCCL User Guide", sections "Group Calls" and "Managing Multiple GPUs From One
Thread".
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainkit.collectives.device_sums import DeviceSums, Message
from trainkit.core import devices, dtypes
from trainkit.core.errors import InvalidArgumentError, UnavailableError

_TYPES = {
    np.dtype(np.float32): "NCCL_FLOAT32",
    np.dtype(np.float64): "NCCL_FLOAT64",
    np.dtype(np.float16): "NCCL_FLOAT16",
    dtypes.bfloat16.dtype: "NCCL_BFLOAT16",
    np.dtype(np.int8): "NCCL_INT8",
    np.dtype(np.uint8): "NCCL_UINT8",
    np.dtype(np.int32): "NCCL_INT32",
    np.dtype(np.uint32): "NCCL_UINT32",
    np.dtype(np.int64): "NCCL_INT64",
    np.dtype(np.uint64): "NCCL_UINT64",
}


def why_not() -> str:
    """Why this process can't use NCCL; nothing if it can."""
    if not devices.gpu_count():
        return "this process has no GPU"
    try:
        module = importlib.import_module("cupy.cuda.nccl")
        module.get_unique_id  # noqa: B018 - a module of CuPy without its library lacks it
    except (ImportError, AttributeError) as error:
        return f"CuPy finds no NCCL ({error}); install nvidia-nccl-cu13 (or -cu12)"
    return ""


class NcclSums:
    """All processes of a group, as NCCL sees them; a GPU each.

    Args:
        rank: number of this process.
        size: how many there are.
        exchange: gives the small values of all processes from that of this one.
    """

    def __init__(self, rank: int, size: int, exchange: Callable[[Any], list[Any]]) -> None:
        self._nccl = importlib.import_module("cupy.cuda.nccl")
        where = exchange(_gpu_name())
        double = {name for name in where if where.count(name) > 1}
        if double:
            raise UnavailableError(
                f"NCCL takes a GPU for each process, and {sorted(double)[0]} is that of several: "
                "start as many processes as there are GPUs, or let the launcher set "
                "CUDA_VISIBLE_DEVICES for each"
            )
        identifier = exchange(self._nccl.get_unique_id() if rank == 0 else None)[0]
        self._communicator = self._nccl.NcclCommunicator(size, tuple(identifier), rank)

    def all_reduce(self, array: Any, reduction: str) -> Any:
        """Combine an array of all processes in place, in the order of the current stream.

        Args:
            array: contiguous, on the GPU.
            reduction: `"SUM"`, `"MAX"` or `"MIN"`.

        Raises:
            InvalidArgumentError: NCCL has no such dtype, or the array is not contiguous.
        """
        if not _takes(array):
            raise InvalidArgumentError(
                f"all_reduce on GPUs takes contiguous arrays of numbers, got {array.dtype}"
            )
        if array.size:
            stream = devices.XP_OF[type(array)].cuda.get_current_stream()
            _start(self._nccl, self._communicator, array, reduction, stream)
        return array


class NcclDeviceSums:
    """The GPUs of one process, as NCCL sees them: a communicator for each, and one thread for all.

    All calls for one sum, or for several, lie in a group, so that none waits for a device whose
    call is still to come. They run in the order of the stream that each array was computed in.

    Args:
        gpus: the devices, in the order of the ranks, all different.
        otherwise: adds up what NCCL does not: arrays of the host, and dtypes that it lacks.
    """

    def __init__(self, gpus: Sequence[devices.Device], otherwise: DeviceSums) -> None:
        self._nccl = importlib.import_module("cupy.cuda.nccl")
        self._gpus, self._otherwise = list(gpus), otherwise
        self._communicators: list[Any] = []

    def all_reduce(self, messages: list[Sequence[Message]]) -> None:
        """See `DeviceSums`.

        Raises:
            RuntimeError: NCCL fails. Its communicators are given up, and the next sum makes others.
        """
        mine = [ranks for ranks in messages if self._lie_here(ranks)]
        if mine:
            self._in_a_group([ranks for ranks in mine if ranks[0].array.size])
        others = [ranks for ranks in messages if ranks not in mine]
        if others:
            self._otherwise.all_reduce(others)

    def _lie_here(self, ranks: Sequence[Message]) -> bool:
        return all(
            devices.device_of(message.array) is gpu and _takes(message.array)
            for message, gpu in zip(ranks, self._gpus, strict=True)
        )

    def _in_a_group(self, messages: list[Sequence[Message]]) -> None:
        try:
            if not self._communicators:
                with devices.kernels_on(self._gpus[0]):  # NCCL goes through all devices
                    numbers = [gpu.index for gpu in self._gpus]
                    self._communicators = list(self._nccl.NcclCommunicator.initAll(numbers))
            self._nccl.groupStart()
            try:
                for ranks in messages:
                    for communicator, message in zip(self._communicators, ranks, strict=True):
                        with devices.kernels_on(devices.device_of(message.array)):
                            self._start(communicator, message)
            except BaseException:
                with contextlib.suppress(Exception):  # it can only say the same once more
                    self._nccl.groupEnd()
                raise
            self._nccl.groupEnd()
        except BaseException:
            self._give_up()
            raise

    def _start(self, communicator: Any, message: Message) -> None:
        _start(self._nccl, communicator, message.array, message.reduction, message.stream)

    def _give_up(self) -> None:
        """End what is under way: a device would wait for others for ever."""
        communicators, self._communicators = self._communicators, []
        for communicator in communicators:
            with contextlib.suppress(Exception):  # the first error is the one to be heard of
                communicator.abort()


def _takes(array: Any) -> bool:
    """Whether NCCL has the dtype, and the array is in one piece."""
    return array.dtype in _TYPES and bool(array.flags.c_contiguous)


def _start(nccl: Any, communicator: Any, array: Any, reduction: str, stream: Any) -> None:
    """Let NCCL combine an array in place, in the order of a stream."""
    communicator.allReduce(
        array.data.ptr,
        array.data.ptr,
        array.size,
        getattr(nccl, _TYPES[array.dtype]),
        getattr(nccl, f"NCCL_{reduction}"),
        stream.ptr,
    )


def _gpu_name() -> str:
    """What tells this process's GPU from all others."""
    xp = devices.parse("/gpu:0").xp
    bus = xp.cuda.runtime.deviceGetPCIBusId(xp.cuda.runtime.getDevice())
    return f"GPU {bus} of {os.uname().nodename}"
