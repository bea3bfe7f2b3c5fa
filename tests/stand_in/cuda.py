"""`cupy.cuda` and `cupyx` of the stand-in: devices whose work is done at once."""

import contextlib
import threading
import time

from tests.stand_in import memory, stream_log, streams
from tests.stand_in.arrays import CURRENT, _Device


class _Machine:
    gpus = 1


MACHINE = _Machine()
"""How many devices there are."""


class Device(_Device):
    """`cupy.cuda.Device`."""

    compute_capability = "90"

    def __init__(self, device=None):
        number = CURRENT.number if device is None else int(device)
        if not 0 <= number < MACHINE.gpus:
            raise ValueError(f"cudaErrorInvalidDevice: invalid device ordinal {device}")
        super().__init__(number)
        self._before = []

    def __enter__(self):
        self._before.append(CURRENT.number)
        CURRENT.number = self.id
        return self

    def __exit__(self, *error):
        CURRENT.number = self._before.pop()

    def synchronize(self):
        streams.refuse_wait("synchronize")


class _Errors(threading.local):
    linalg = None


_ERRORS = _Errors()


@contextlib.contextmanager
def errstate(*, linalg=None, fallback_mode=None):
    """`cupyx.errstate`."""
    before, _ERRORS.linalg = _ERRORS.linalg, linalg
    try:
        yield
    finally:
        _ERRORS.linalg = before


class _Runtime:
    CUDARuntimeError = streams.CUDARuntimeError

    @staticmethod
    def getDeviceCount():
        return MACHINE.gpus

    @staticmethod
    def getDevice():
        return CURRENT.number

    @staticmethod
    def runtimeGetVersion():
        return 13000

    @staticmethod
    def driverGetVersion():
        return 13000

    @staticmethod
    def getDeviceProperties(device):
        return {"name": b"stand-in", "multiProcessorCount": 1}


class Event:
    """`cupy.cuda.Event`, whose time is the host's."""

    def __init__(self, block=False, disable_timing=False, interprocess=False):
        self.is_timed = not disable_timing
        self.known = {}

    def record(self, stream=None):
        stream = streams.current_stream() if stream is None else stream
        if streams.capturing() is not None or stream.is_capturing():
            raise AssertionError("an event was recorded in a capture")
        self.seconds = time.perf_counter()
        self.known = stream_log.known(stream)

    def synchronize(self):
        streams.refuse_wait("synchronize")


def get_elapsed_time(start, stop):
    """`cupy.cuda.get_elapsed_time`, in milliseconds."""
    if not (start.is_timed and stop.is_timed):
        raise streams.CUDARuntimeError("cudaErrorInvalidResourceHandle: an event without times")
    return 1e3 * (stop.seconds - start.seconds)


class _Precision:
    compute = 1


def get_compute_type(dtype):
    """`cupy._core.get_compute_type`, of float32."""
    return _Precision.compute


def set_compute_type(dtype, compute_type):
    """`cupy._core.set_compute_type`, of float32."""
    _Precision.compute = compute_type


def modules():
    """What the modules hold beside the functions that are NumPy's too."""
    return {
        "cupy.cuda": {
            "Device": Device,
            "Event": Event,
            "Graph": streams.Graph,
            "MemoryPointer": memory.MemoryPointer,
            "MemoryPool": memory.MemoryPool,
            "Stream": streams.Stream,
            "get_current_stream": streams.current_stream,
            "get_elapsed_time": get_elapsed_time,
            "runtime": _Runtime,
            "using_allocator": memory.using_allocator,
        },
        "cupy._core": {"get_compute_type": get_compute_type, "set_compute_type": set_compute_type},
        "cupyx": {"errstate": errstate},
        "cupyx.scipy": {},
        "cupyx.scipy.special": {},
    }
