"""cuDNN by its Python frontend: whether it is there, and a handle for each thread and device.

Source: NVIDIA, "cuDNN frontend developer guide" (graph API), and
https://github.com/NVIDIA/cudnn-frontend, 1.18 to 1.28.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from functools import lru_cache
from typing import Any

from trainkit.core.errors import UnimplementedError


class _Handles(threading.local):
    def __init__(self) -> None:
        self.by_device: dict[int, _OwnedHandle] = {}


_THREAD = _Handles()
_FAILED: list[str] = []
"""Why no handle can be made, once that is known."""


class _OwnedHandle:
    """A handle, given back with the thread that it belongs to."""

    def __init__(self, cudnn: Any) -> None:
        self.handle = cudnn.create_handle()
        # at the end of the process the driver may be gone already, and frees all of it anyway
        weakref.finalize(self, cudnn.destroy_handle, self.handle).atexit = False


@lru_cache(maxsize=1)
def _import_frontend() -> tuple[Any, str]:
    """The module `cudnn` with an empty text, or `None` and why it can't be used."""
    try:
        import cudnn

        cudnn.backend_version()
    except Exception as error:  # a library that is missing, broken, or of another CUDA
        return None, f"{type(error).__name__}: {error}"
    return cudnn, ""


def frontend() -> Any:
    """The module `cudnn`, or `None` where it can't be used."""
    return _import_frontend()[0]


def why_missing() -> str:
    """Why cuDNN can't be used; empty where it can, as far as is known."""
    return _import_frontend()[1] or next(iter(_FAILED), "")


def is_there() -> bool:
    """Whether cuDNN can be used."""
    return frontend() is not None and not _FAILED


def is_capturing(xp: Any) -> bool:
    """Whether the current stream captures a CUDA graph."""
    return bool(xp.cuda.get_current_stream().is_capturing())


def refuse_in_capture(xp: Any, request: str) -> None:
    """See that nothing is made here that a CUDA graph can't hold.

    Raises:
        UnimplementedError: the current stream captures; the text says what was asked for.
    """
    if is_capturing(xp):
        raise UnimplementedError(
            f"{request} while a CUDA graph is captured; a call with these shapes before the "
            "capture makes it"
        )


def handle(xp: Any) -> Any:
    """This thread's handle for the current device, set to the current stream.

    Raises:
        UnimplementedError: the current stream captures, and there is none yet.
        RuntimeError: there can be none; cuDNN is not used from then on.
    """
    cudnn, device = frontend(), int(xp.cuda.Device().id)
    owned = _THREAD.by_device.get(device)
    if owned is None:
        refuse_in_capture(xp, "a handle of cuDNN is made")
        try:
            owned = _THREAD.by_device[device] = _OwnedHandle(cudnn)
        except RuntimeError as error:
            _FAILED.append(str(error))
            raise
    cudnn.set_stream(handle=owned.handle, stream=xp.cuda.get_current_stream().ptr)
    return owned.handle


def prepare(xp: Any) -> None:
    """Make this thread's handle, if cuDNN is there: a capture may not."""
    if is_there():
        with contextlib.suppress(RuntimeError):  # it is noted, so nothing asks for one any more
            handle(xp)
