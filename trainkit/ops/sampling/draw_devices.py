"""Where random numbers are drawn: on the current device, or beside the tensor they go with.

Philox gives the same bits on every device, so a generator's state, three words, goes where its
draws are wanted; its variable stays where it was made and takes the new state from there.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from trainkit.core import devices
from trainkit.core.devices import Device
from trainkit.core.tensor import Tensor, wrap
from trainkit.ops.arrays.broadcasting import copy_to_device, copy_to_device_of

_AS_IT_IS = contextlib.nullcontext()


class _Symbolic(threading.local):
    def __init__(self) -> None:
        self.tensors: list[Tensor] = []


_BESIDE = _Symbolic()


def home_of(variable: Any, value: Tensor) -> Device | None:
    """Where a variable is whose `value` belongs to a graph being traced; else `None`."""
    return None if type(value) is Tensor else devices.parse(variable.device)


def state_here(state: Tensor, home: Device | None = None) -> Tensor:
    """`state` where draws go: on the current device, or beside a tensor of the same graph.

    Args:
        state: of a generator, or another small tensor that goes where it is used.
        home: where the graph being traced will find it; by default where it is needed.
    """
    where = devices.current()
    if type(state) is not Tensor:
        if home is None or home is where:
            return state
        if _BESIDE.tensors:
            beside_it: Tensor = copy_to_device_of(state, _BESIDE.tensors[-1])
            return beside_it
        copied: Tensor = copy_to_device(state, device=where.name)
        return copied
    if devices.device_of(state._array) is where:
        return state
    return wrap(devices.to_device(state._array, where))


def state_home(state: Tensor, home: Device | None, was_moved: bool) -> Tensor:
    """The next state, where the variable of a generator is to take it.

    Args:
        state: the next one.
        home: see `state_here`; eager assignment sees to that itself.
        was_moved: whether the one before was copied for the draw.
    """
    if home is None or not was_moved:
        return state
    back: Tensor = copy_to_device(state, device=home.name)
    return back


class _BesideSymbolic:
    """A context in which draws of a graph go where one of its tensors will be."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def __enter__(self) -> None:
        _BESIDE.tensors.append(self._tensor)

    def __exit__(self, *exc: object) -> None:
        _BESIDE.tensors.pop()


def beside(tensor: Tensor) -> contextlib.AbstractContextManager[Any]:
    """A context in which draws go where `tensor` is.

    Args:
        tensor: what the numbers are to be used with.
    """
    if type(tensor) is not Tensor:
        return _BesideSymbolic(tensor)
    where = devices.device_of(tensor._array)
    return _AS_IT_IS if where is devices.current() else devices.device(where)
