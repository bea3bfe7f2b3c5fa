"""Sums over arrays that lie on several GPUs, by NCCL through CuPy's binding.

`NcclSums` is for processes with a GPU each, which MPI brings together and hands NCCL's identifier;
`nccl_devices.py` is for several GPUs of one process.
Nothing here was run on GPUs yet: the calls follow CuPy's documentation of `cupy.cuda.nccl` and
NCCL's own.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

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
        if not takes(array):
            raise InvalidArgumentError(
                f"all_reduce on GPUs takes contiguous arrays of numbers, got {array.dtype}"
            )
        if array.size:
            stream = devices.XP_OF[type(array)].cuda.get_current_stream()
            start_sum(self._nccl, self._communicator, array, reduction, stream)
        return array


def takes(array: Any) -> bool:
    """Whether NCCL adds up the array: it has the dtype, and the array is in one piece."""
    return array.dtype in _TYPES and bool(array.flags.c_contiguous)


def start_sum(nccl: Any, communicator: Any, array: Any, reduction: str, stream: Any) -> None:
    """Let NCCL combine an array in place, in the order of a stream.

    Args:
        nccl: CuPy's module.
        communicator: of the array's GPU.
        array: which NCCL takes.
        reduction: see `NcclSums.all_reduce`.
        stream: of the array's GPU.
    """
    address = array.data.ptr
    kind, operation = nccl_type(nccl, array), getattr(nccl, f"NCCL_{reduction}")
    communicator.allReduce(address, address, array.size, kind, operation, stream.ptr)


def nccl_type(nccl: Any, array: Any) -> Any:
    """NCCL's number for the dtype of an array."""
    return getattr(nccl, _TYPES[array.dtype])


def _gpu_name() -> str:
    """What tells this process's GPU from all others."""
    xp = devices.parse("/gpu:0").xp
    bus = xp.cuda.runtime.deviceGetPCIBusId(xp.cuda.runtime.getDevice())
    return f"GPU {bus} of {os.uname().nodename}"
