"""Small arrays that the host works out, kept on the GPU that needs them.

They are sent once: a copy for each call would make the host wait, and a CUDA graph refuses it. A
graph reads them at the same place in each launch, so what is kept is never given back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from types import ModuleType
from typing import Any

import numpy as np

from trainkit.core.process import forks

MOST_BYTES = 64 << 20
"""Of all that is kept in a process; from there on constants are sent in each call."""

_KEPT: dict[Any, Any] = {}
_LOCK = forks.make_lock()


class _Room:
    left = MOST_BYTES


def on_device(xp: Any, key: Hashable, make: Callable[[], Any]) -> Any:
    """What `make` gives, a NumPy array, on the current device; not to be written to.

    Args:
        xp: the array module; with NumPy it is the array itself.
        key: names the array in this process: a name of the caller's and what the array depends on.
        make: works it out.
    """
    if xp is np:
        return make()
    if not isinstance(xp, ModuleType):  # notes down what is done, on no device
        return xp.asarray(make())
    cache_key = (xp, int(xp.cuda.Device().id), key)
    device_array = _KEPT.get(cache_key)
    if device_array is None:
        array = make()
        device_array = xp.asarray(array)
        with _LOCK:
            if cache_key not in _KEPT and array.nbytes <= _Room.left:
                _KEPT[cache_key] = device_array
                _Room.left -= array.nbytes
    return device_array
