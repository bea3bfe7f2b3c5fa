"""Where random numbers are drawn: on the current device, or beside the tensor they go with.

Philox gives the same bits on every device, so a generator's state, three words, goes where its
draws are wanted; its variable stays where it was made and takes the new state from there.
"""

from __future__ import annotations

import contextlib
from typing import Any

from trainkit.core import devices
from trainkit.core.tensor import Tensor, wrap

_AS_IT_IS = contextlib.nullcontext()


def state_here(state: Tensor) -> Tensor:
    """`state` on the current device; that of a graph being traced as it is."""
    if type(state) is not Tensor:
        return state
    where = devices.current()
    if devices.device_of(state._array) is where:
        return state
    return wrap(devices.to_device(state._array, where))


def beside(tensor: Tensor) -> contextlib.AbstractContextManager[Any]:
    """A context in which draws go where `tensor` is.

    Args:
        tensor: what the numbers are to be used with; one of a graph being traced chooses nothing.
    """
    if type(tensor) is not Tensor:
        return _AS_IT_IS
    where = devices.device_of(tensor._array)
    return _AS_IT_IS if where is devices.current() else devices.device(where)
