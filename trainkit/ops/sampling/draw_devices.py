"""Where random numbers are drawn: on the current device, or beside the tensor they go with.

Philox gives the same bits on every device, so a generator's state, three words, goes where its
draws are wanted; its variable stays where it was made and takes the new state from there.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import numpy as np

from trainkit.core import devices
from trainkit.core.devices import Device
from trainkit.core.tensor import Tensor, wrap
from trainkit.ops.arrays.broadcasting import copy_to_device, copy_to_device_of
from trainkit.ops.core.vmap import BatchedTensor

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
        home: where the graph being traced will find it, if that is known.
    """
    if type(state) is not Tensor:
        return _symbolic_here(state, home) if devices.gpu_count() else state
    where = devices.current()
    if type(state._array) is np.ndarray and where is devices.CPU:  # without a further call
        return state
    if devices.device_of(state._array) is where:
        return state
    return wrap(devices.to_device(state._array, where))


def _symbolic_here(state: Tensor, home: Device | None) -> Tensor:
    where = devices.current()
    if _BESIDE.tensors:
        copied: Tensor = copy_to_device_of(state, _BESIDE.tensors[-1])
    elif home is where:
        copied = state
    else:
        copied = copy_to_device(state, device=where.name)
    return copied


class _BesideSymbolic:
    """A context in which draws of a graph go where one of its tensors will be."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def __enter__(self) -> None:
        _BESIDE.tensors.append(self._tensor)

    def __exit__(self, *exc: object) -> None:
        _BESIDE.tensors.pop()


def beside(tensor: Tensor) -> contextlib.AbstractContextManager[Any]:
    """A context in which draws go where `tensor` is."""
    while isinstance(tensor, BatchedTensor):
        tensor = tensor.stacked
    if type(tensor) is not Tensor:
        return _BesideSymbolic(tensor)
    where = devices.device_of(tensor._array)
    return _AS_IT_IS if where is devices.current() else devices.device(where)
