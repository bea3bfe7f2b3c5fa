"""`cupy.cuda.nccl`: communicators that do at once what a whole group has asked for.

It refuses what would wait for ever, or fail, on GPUs: a call outside of a group while one thread
has several communicators, a group in which a device is missing, memory of another GPU.
Source: NVIDIA, "NCCL User Guide", "Group Calls".
"""

import contextlib
import ctypes
import sys
import types
from collections import defaultdict

import numpy as np

from tests.stand_in import memory, stream_log, streams
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


class Call:
    """One call for one device.

    Args:
        name: of the method.
        sent: address of what is read, or `None`.
        received: address of what is written, or `None`.
        facts: count, dtype and what else has to be the same in all ranks.
        peer: of a `send` or `recv`.
        stream: address of the stream.
    """

    def __init__(self, name, sent, received, facts, stream, peer=None):
        self.name, self.facts, self.stream, self.peer = name, facts, stream, peer
        count, kind = facts[:2]
        self.dtype = np.dtype(TYPES[kind])
        self.sent = None if sent is None else _array(sent, count, self.dtype)
        self.received = None if received is None else _array(received, count, self.dtype)

    def memory(self):
        """What it reads and writes."""
        return [
            [] if a is None or not a.size else [memory.around(a.ctypes.data)]
            for a in (self.sent, self.received)
        ]


class Library:
    """The module's functions, and what was called.

    Attributes:
        sums: of each sum of all devices the dtype, the reduction and the count.
        handed: of each array that was handed on by all together, the method and the bytes, and for
            each that one device sent to another, "send" and the bytes.
        groups: how many groups there were.
        made: of each set of communicators the devices.
        fails: how many calls from now on raise.
    """

    def __init__(self):
        self.sums, self.handed, self.groups, self.made, self.fails = [], [], 0, [], 0
        self.aborted = []
        self._calls = None

    def group_start(self):
        assert self._calls is None, "groups inside of groups are not used here"
        self._calls = []

    def group_end(self):
        calls, self._calls = self._calls, None
        self.groups += 1
        by_communicators = {}
        for communicator, call in calls:
            mine = by_communicators.setdefault(id(communicator.all), (communicator.all, []))[1]
            mine.append((communicator.rank, call))
        for everyone, mine in by_communicators.values():
            self._do(everyone, mine)

    def _do(self, everyone, calls):
        collective, pairs = defaultdict(list), defaultdict(list)
        for rank, call in calls:
            if call.peer is None:
                collective[rank].append(call)
            else:
                ends = (rank, call.peer) if call.name == "send" else (call.peer, rank)
                pairs[ends].append(call)
        if collective and sorted(collective) != list(range(len(everyone))):
            raise AssertionError(f"ranks {sorted(collective)} of {len(everyone)} wait for ever")
        for together in zip(*(collective[rank] for rank in sorted(collective)), strict=True):
            self._collective(together)
        for ends, both in pairs.items():
            self._hand_over(ends, both)
        uses = [(everyone[r].device, call.stream, *call.memory()) for r, call in calls]
        stream_log.note_together("nccl", uses)

    def _collective(self, calls):
        assert len({(call.name, call.facts) for call in calls}) == 1, "ranks differ"
        name, (count, _, *more) = calls[0].name, calls[0].facts
        if name == "broadcast":
            value = calls[more[0]].sent.copy()
            for call in calls:
                call.received[...] = value
            self.handed.append((name, value.nbytes))
            return
        total = calls[0].sent.copy()
        for call in calls[1:]:
            total = _COMBINE[more[0]](total, call.sent).astype(total.dtype)
        for call in [calls[more[1]]] if name == "reduce" else calls:
            call.received[...] = total
        self.sums.append((total.dtype.name, more[0], count))

    def _hand_over(self, ends, calls):
        sent = [call for call in calls if call.name == "send"]
        got = [call for call in calls if call.name == "recv"]
        assert len(sent) == len(got), f"ranks {ends} wait for ever"
        for sender, receiver in zip(sent, got, strict=True):
            assert sender.facts == receiver.facts, f"ranks {ends} differ"
            receiver.received[...] = sender.sent
            self.handed.append(("send", sender.sent.nbytes))

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
        assert sendbuf == recvbuf
        self._call("allReduce", sendbuf, recvbuf, (count, datatype, op), stream)

    def reduce(self, sendbuf, recvbuf, count, datatype, op, root, stream):
        written = recvbuf if self.rank == root else None  # the others' is not looked at
        self._call("reduce", sendbuf, written, (count, datatype, op, root), stream)

    def broadcast(self, sendbuff, recvbuff, count, datatype, root, stream):
        read = sendbuff if self.rank == root else None
        self._call("broadcast", read, recvbuff, (count, datatype, root), stream)

    def send(self, sendbuf, count, datatype, peer, stream):
        self._call("send", sendbuf, None, (count, datatype), stream, peer)

    def recv(self, recvbuf, count, datatype, peer, stream):
        self._call("recv", None, recvbuf, (count, datatype), stream, peer)

    def _call(self, name, sent, received, facts, stream, peer=None):
        assert self.live, "the communicator was aborted"
        assert CURRENT.number == self.device, "another GPU is the current one"
        assert facts[0], "NCCL is called for nothing"
        for place in (sent, received):
            owner = None if place is None else memory.around(place).owner()
            assert owner is None or owner._number == self.device, "memory of another GPU"
        assert streams.capturing() is None, "a capture of one device alone would wait for ever"
        self.library.note(self, Call(name, sent, received, facts, stream, peer))

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
