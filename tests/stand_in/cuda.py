"""`cupy.cuda` and `cupyx` of the stand-in: one device, whose work is done at once."""

import contextlib
import threading

from tests.stand_in.arrays import _Device


class Device(_Device):
    """`cupy.cuda.Device`: there is only number 0."""

    compute_capability = "90"

    def __init__(self, device=None):
        if device not in (None, 0):
            raise ValueError(f"cudaErrorInvalidDevice: invalid device ordinal {device}")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def synchronize(self):
        pass


class Stream:
    """`cupy.cuda.Stream`."""

    ptr = 0

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        pass

    def synchronize(self):
        pass


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
    @staticmethod
    def getDeviceCount():
        return 1

    @staticmethod
    def runtimeGetVersion():
        return 13000


def modules():
    """What the modules hold beside the functions that are NumPy's too."""
    null = Stream()
    return {
        "cupy.cuda": {
            "Device": Device,
            "Stream": Stream,
            "get_current_stream": lambda: null,
            "runtime": _Runtime,
        },
        "cupyx": {"errstate": errstate},
        "cupyx.scipy": {},
        "cupyx.scipy.special": {},
    }
