"""Devices: `tk.device`, the array module `xp` of each, and copies between them.

This is the one place that imports CuPy, and only when a GPU is asked for or CuPy is installed.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import threading
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from trainkit.core.errors import DeviceError
from trainkit.core.process.launcher import share_gpus
from trainkit.core.process.requirements import install_command

Array = Any
ArrayModule = Any

_NAME = r"^/?(?:.*?/)?(?:device:)?(?P<kind>cpu|gpu)(?::(?P<index>\d+))?$"


class Device:
    """One place where arrays live and kernels run, such as `/cpu:0`.

    Attributes:
        kind: `"CPU"` or `"GPU"`.
        index: which one, from 0.
        name: `"/device:CPU:0"`.
    """

    __slots__ = ("index", "kind", "name")

    def __init__(self, kind: str, index: int) -> None:
        self.kind = kind
        self.index = index
        self.name = f"/device:{kind}:{index}"

    @property
    def xp(self) -> ArrayModule:
        """The array module that works here: NumPy or CuPy."""
        if self.kind == "CPU":
            return np
        cupy = _cupy()
        if cupy is None:
            raise DeviceError(missing_message(self.name))
        return cupy

    def __repr__(self) -> str:
        return f"<Device {self.name}>"


CPU = Device("CPU", 0)


@lru_cache(maxsize=1)
def _cupy() -> ModuleType | None:
    """CuPy when it is installed and a GPU answers, else `None`.

    A warning says once why CuPy does not work, unless there is no GPU that it could work on.
    """
    if importlib.util.find_spec("cupy") is None:
        return None
    share_gpus()
    try:
        import cupy  # type: ignore[import-not-found, unused-ignore]

        if cupy.cuda.runtime.getDeviceCount() < 1:
            return None
        cupy.zeros(1)
    except Exception as error:  # a broken driver or installation raises many kinds
        if not _says_no_gpu(error):
            first = str(error).strip().partition("\n")[0]
            warnings.warn(
                f"CuPy is installed but does not work ({type(error).__name__}: {first}), so all "
                "runs on the CPU. `python -m trainkit doctor` looks closer; CUDA_VISIBLE_DEVICES="
                "'' keeps to the CPU without this warning.",
                RuntimeWarning,
                stacklevel=2,
            )
        return None
    XP_OF[cupy.ndarray] = cupy
    return cupy  # type: ignore[no-any-return, unused-ignore]


_NO_DEVICE, _OLD_DRIVER = 100, 35  # cudaError_t; the second also where there is no driver at all


def _says_no_gpu(error: Exception) -> bool:
    """Whether CUDA's error means that the machine has no GPU, or shows none to this process."""
    status = getattr(error, "status", None)
    if status != _OLD_DRIVER:
        return bool(status == _NO_DEVICE)
    return bool(sys.modules["cupy"].cuda.runtime.driverGetVersion() == 0)


class _ModuleOf(dict[type, Any]):
    """The array module for each array type; NumPy's scalars and views count as NumPy."""

    def __missing__(self, kind: type) -> Any:
        return np


XP_OF: dict[type, Any] = _ModuleOf({np.ndarray: np})


def gpu_count() -> int:
    """How many GPUs answer, 0 without CuPy."""
    cupy = _cupy()
    return 0 if cupy is None else int(cupy.cuda.runtime.getDeviceCount())


@cache
def several_gpus() -> bool:
    """Whether there is more than one GPU, so that arrays may lie on another than the current."""
    return gpu_count() > 1


@cache
def _gpu(index: int) -> Device:
    return Device("GPU", index)


def all_devices() -> list[Device]:
    """The devices of this machine: the CPU, then the GPUs."""
    return [CPU, *(_gpu(i) for i in range(gpu_count()))]


def missing_message(name: str) -> str:
    """What to say when the device `name` was asked for and is not there."""
    device_names = ", ".join(d.name for d in all_devices())
    return (
        f"device {name!r} is not on this machine, which has {device_names}. For a GPU install the "
        f"CuPy that fits its CUDA driver: {install_command('cuda13')}, or the same with 12 for 13."
    )


@cache
def parse(name: str) -> Device:
    """The device called `name`: `"/gpu:0"`, `"CPU"`, `"/device:GPU:1"` and TensorFlow's long names.

    Raises:
        DeviceError: the name is no device name, or this machine has no such device.
    """
    match = re.match(_NAME, name, re.IGNORECASE)
    if not match:
        device_names = ", ".join(d.name for d in all_devices())
        raise DeviceError(f"{name!r} is not a device name; this machine has {device_names}")
    kind, index = match["kind"].upper(), int(match["index"] or 0)
    if kind == "CPU" and index == 0:
        return CPU
    if kind == "GPU" and index < gpu_count():
        return _gpu(index)
    raise DeviceError(missing_message(name))


class _Stack(threading.local):
    def __init__(self) -> None:
        self.chosen: list[Device] = []
        self.kernels: list[AbstractContextManager[Any] | None] = []
        self.elsewhere: list[bool] = []


_STACK = _Stack()

ELSEWHERE: list[Device] = []
"""Devices of contexts that any thread is in and that are not the default: empty almost always."""


@lru_cache(maxsize=1)
def _default() -> Device:
    return _gpu(0) if gpu_count() else CPU


def current() -> Device:
    """The device on which new tensors are made."""
    stack = _STACK.chosen
    return stack[-1] if stack else _default()


def elsewhere() -> Device | None:
    """The device of this thread's context, where that is not the default device."""
    if not ELSEWHERE:
        return None
    return _STACK.chosen[-1] if _STACK.elsewhere and _STACK.elsewhere[-1] else None


def _may_differ(where: Device) -> bool:
    """Whether `where` may be another device than the default; no GPU is looked for to know."""
    return _has_cupy() if where is CPU else where is not _default()


@cache
def _has_cupy() -> bool:
    return importlib.util.find_spec("cupy") is not None


_SOFT: list[bool] = []  # one entry while a device that is not there means the current one


def set_soft_device_placement(enabled: bool) -> None:
    """Let `tk.device` of a device that this machine lacks mean the current one, or raise.

    Args:
        enabled: whether to let it; it raises unless this was called.

    Example:
        >>> tk.config.set_soft_device_placement(True)
        >>> with tk.device("/gpu:99"):
        ...     x = tk.ones(2)
        >>> tk.config.set_soft_device_placement(False)
    """
    _SOFT[:] = [True] if enabled else []


def get_soft_device_placement() -> bool:
    """Whether `tk.device` of a device that this machine lacks means the current one.

    Example:
        >>> tk.config.get_soft_device_placement()
        False
    """
    return bool(_SOFT)


class device:
    """Context in which new tensors are made on the named device.

    Operations run where their inputs are; tensors of several devices are refused, but for numbers.
    What is done on another GPU than the first belongs into a context of that one: CUDA launches
    work on the GPU of the context, and what another one holds it may not be able to read.

    Args:
        device_name: `"/cpu:0"`, `"CPU:0"`, `"/gpu:1"`, `"/device:GPU:0"`, or a `Device`.

    Raises:
        DeviceError: the name is no device name, or the machine has no such device and devices are
            not placed softly (`tk.config.set_soft_device_placement`).

    >>> with device("/cpu:0"):
    ...     current().name
    '/device:CPU:0'
    """

    def __init__(self, device_name: Any) -> None:
        if isinstance(device_name, Device):
            self._device = device_name
            return
        name = str(getattr(device_name, "name", device_name))
        try:
            self._device = parse(name)
        except DeviceError:
            if not _SOFT or not re.match(_NAME, name, re.IGNORECASE):
                raise
            self._device = current()

    def __enter__(self) -> device:
        where = self._device
        kernels = None if where is CPU else kernels_on(where)
        if kernels is not None:
            kernels.__enter__()
        is_elsewhere = _may_differ(where)
        if is_elsewhere:
            ELSEWHERE.append(where)
        _STACK.elsewhere.append(is_elsewhere)
        _STACK.kernels.append(kernels)
        _STACK.chosen.append(where)
        return self

    def __exit__(self, *exc: Any) -> None:
        where, kernels = _STACK.chosen.pop(), _STACK.kernels.pop()
        if _STACK.elsewhere.pop():
            ELSEWHERE.remove(where)
        if kernels is not None:
            kernels.__exit__(*exc)


def kernels_on(where: Device) -> AbstractContextManager[Any]:
    """Context in which CuPy launches kernels on `where`, if that is a GPU."""
    if where is CPU:
        return nullcontext()
    context: AbstractContextManager[Any] = where.xp.cuda.Device(where.index)
    return context


def device_of(array: Array) -> Device:
    """Where `array` lives."""
    if XP_OF[type(array)] is np:
        return CPU
    return _gpu(int(array.device.id))


def gpus_of(arrays: Sequence[Any]) -> frozenset[Device]:
    """The GPUs on which arrays lie; arrays of the CPU, numbers and `None` are passed over."""
    return frozenset([_gpu(int(a.device.id)) for a in arrays if XP_OF[type(a)] is not np])


def other_gpu(arrays: Sequence[Any]) -> Device | None:
    """The GPU on which all arrays of GPUs lie, if kernels are launched on another one.

    Args:
        arrays: of the CPU and of GPUs; numbers and `None` are passed over.
    """
    gpus = gpus_of(arrays)
    if len(gpus) != 1:
        return None
    (gpu,) = gpus
    return None if int(gpu.xp.cuda.Device().id) == gpu.index else gpu


def to_device(array: Array, where: Device) -> Array:
    """`array` itself if it lives on `where`, else a copy there."""
    source = device_of(array)
    if source is where:
        return array
    if where is CPU:
        return array.get()
    with where.xp.cuda.Device(where.index):
        return where.xp.asarray(array)


def number_on(xp: Any, value: Any, dtype: Any) -> Array:
    """The number `value` as an array of the module `xp`; one that `dtype` can't hold becomes inf.

    NumPy converts it here, as it warns of that: CuPy would call it from lines of its own, whose
    warnings reach the user.
    """
    number = np.asarray(value, dtype)
    return number if xp is np else xp.asarray(number)


def filled_on(xp: Any, dims: Any, value: Any, dtype: Any) -> Array:
    """An array of the module `xp` with the number `value` everywhere; see `number_on`.

    `np.full` does the same, in a line of NumPy's own.
    """
    out = np.empty(dims if xp is np else (), dtype)
    np.copyto(out, value, casting="unsafe")
    return out if xp is np else xp.full(dims, out[()], dtype)


def to_numpy(array: Array) -> Any:
    """`array` as a NumPy array; from a GPU this copies."""
    return array if XP_OF[type(array)] is np else array.get()


def on_one_device(arrays: Sequence[Any]) -> Sequence[Any]:
    """`arrays`, where single numbers of the CPU stand beside arrays of a GPU moved there.

    A single number travels with the launch of a kernel, so nothing is copied. Larger arrays stay
    where they are, for the caller to choose a device.
    """
    xp = next((XP_OF[type(a)] for a in arrays if XP_OF[type(a)] is not np), np)
    if xp is np:
        return arrays
    return [xp.asarray(a) if is_host_number(a) else a for a in arrays]


def is_host_number(a: Any) -> bool:
    """Whether `a` is a single number of the CPU, which goes along with a call on a GPU."""
    return isinstance(a, np.ndarray | np.generic) and not a.ndim
