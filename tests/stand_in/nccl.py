"""`cupy.cuda.nccl`: communicators that add up at once what a whole group has asked for.

It refuses what would wait for ever, or fail, on GPUs: a call outside of a group while one thread
has several communicators, a group in which a device is missing, memory of another GPU.
Source: NVIDIA, "NCCL User Guide", "Group Calls".
"""

import contextlib
import ctypes
import sys
import types

import numpy as np

from tests.stand_in import memory, streams
from tests.stand_in.arrays import CURRENT
from tests.stand_in.limits import BFLOAT16

TYPES = {
    "NCCL_INT8": "int8",
    "NCCL_UINT8": "uint8",
    "NCCL_INT32": "int32",
    "NCCL_UINT32": "uint32",
    "NCCL_INT64": "int64",
    "NCCL_UINT64": "uint64",
    "NCCL_FLOAT16": "float16",
    "NCCL_FLOAT32": "float32",
    "NCCL_FLOAT64": "float64",
    "NCCL_BFLOAT16": BFLOAT16,
}
_COMBINE = {"NCCL_SUM": np.add, "NCCL_MAX": np.maximum, "NCCL_MIN": np.minimum}


class NcclError(RuntimeError):
    """`cupy.cuda.nccl.NcclError`."""


class Library:
    """The module's functions, and what was called.

    Attributes:
        sums: of each sum of all devices the dtype, the reduction and the count.
        groups: how many groups there were.
        made: of each set of communicators the devices.
        fails: how many calls from now on raise.
    """

    def __init__(self):
        self.sums, self.groups, self.made, self.fails = [], 0, [], 0
        self.aborted = []
        self._calls = None

    def group_start(self):
        assert self._calls is None, "groups inside of groups are not used here"
        self._calls = []

    def group_end(self):
        calls, self._calls = self._calls, None
        by_communicators = {}
        for communicator, call in calls:
            mine = by_communicators.setdefault(id(communicator.all), (communicator.all, {}))[1]
            mine.setdefault(communicator.rank, []).append(call)
        for everyone, ranks in by_communicators.values():
            if sorted(ranks) != list(range(len(everyone))):
                raise AssertionError(f"ranks {sorted(ranks)} of {len(everyone)} wait for ever")
            for together in zip(*(ranks[rank] for rank in sorted(ranks)), strict=True):
                self._add_up(together)
        self.groups += 1

    def _add_up(self, calls):
        assert len({call[1:] for call in calls}) == 1, f"ranks differ: {calls}"
        _, count, kind, reduction = calls[0]
        dtype = np.dtype(TYPES[kind])
        arrays = [_array(place, count, dtype) for place, *_ in calls]
        total = arrays[0].copy()
        for array in arrays[1:]:
            total = _COMBINE[reduction](total, array).astype(dtype)
        for array in arrays:
            array[...] = total
        self.sums.append((dtype.name, reduction, count))

    def note(self, communicator, call):
        if self.fails:
            self.fails -= 1
            raise NcclError("NCCL_ERROR_UNHANDLED_CUDA_ERROR: unhandled cuda error")
        if self._calls is None and len(communicator.all) > 1:
            raise AssertionError("outside of a group this call waits for ever")
        self._calls.append((communicator, call))

    def module(self):
        """What `cupy.cuda.nccl` holds."""
        names = {name: name for name in [*TYPES, *_COMBINE]}

        class NcclCommunicator(Communicator):
            library = self

        return {
            **names,
            "NcclCommunicator": NcclCommunicator,
            "NcclError": NcclError,
            "get_unique_id": lambda: (7, 8),
            "groupStart": self.group_start,
            "groupEnd": self.group_end,
        }


class Communicator:
    """`cupy.cuda.nccl.NcclCommunicator` of one process."""

    @classmethod
    def initAll(cls, devices):
        assert len(set(devices)) == len(devices), "NCCL refuses a GPU twice"
        made = []
        for rank, device in enumerate(devices):
            one = object.__new__(cls)
            one.rank, one.device, one.all, one.live = rank, device, made, True
            made.append(one)
        cls.library.made.append(tuple(devices))
        return made

    def allReduce(self, sendbuf, recvbuf, count, datatype, op, stream):
        assert self.live, "the communicator was aborted"
        assert sendbuf == recvbuf
        assert CURRENT.number == self.device, "another GPU is the current one"
        owner = memory.around(sendbuf).owner() if count else None
        assert owner is None or owner._number == self.device, "memory of another GPU"
        assert streams.capturing() is None, "a capture of one device alone would wait for ever"
        self.library.note(self, (sendbuf, count, datatype, op))

    def abort(self):
        self.live = False
        self.library.aborted.append(self.rank)


def _array(place, count, dtype):
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(place)
    return np.frombuffer(memory, dtype)


@contextlib.contextmanager
def in_place():
    """NCCL is there for the stand-in's CuPy; gives the `Library`."""
    library = Library()
    module = types.ModuleType("cupy.cuda.nccl")
    vars(module).update(library.module())
    sys.modules[module.__name__] = module
    try:
        yield library
    finally:
        del sys.modules[module.__name__]
