"""A CuPy that does not work says so once; a machine without a GPU says nothing."""

import importlib.util
import sys
import types
import warnings

import numpy as np
import pytest

import trainkit as tk
from trainkit.core import devices


class CudaError(RuntimeError):
    """What CuPy raises for an error of CUDA."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def cupy_with(count, zeros=np.zeros, driver=13000):
    """A module `cupy` whose functions do as they are told, or raise."""

    def device_count():
        if isinstance(count, Exception):
            raise count
        return count

    runtime = types.SimpleNamespace(getDeviceCount=device_count, driverGetVersion=lambda: driver)
    module = types.ModuleType("cupy")
    vars(module).update(cuda=types.SimpleNamespace(runtime=runtime), zeros=zeros, ndarray=int)
    return module


@pytest.fixture
def installed(monkeypatch):
    """Puts a module in the place of CuPy; `None` is one that can't be imported."""

    def put(module):
        monkeypatch.setitem(sys.modules, "cupy", module)
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
        forget()

    def forget():
        for found in (devices._cupy, devices._has_cupy, devices._default, devices.parse):
            found.cache_clear()

    yield put
    monkeypatch.undo()
    forget()


def out_of_memory(n):
    raise MemoryError("out of memory: 512 bytes\nwith more text")


BROKEN = {
    "not imported": (None, r"ModuleNotFoundError: import of cupy halted"),
    "old driver": (
        cupy_with(CudaError(35, "cudaErrorInsufficientDriver: too old"), driver=11000),
        r"CudaError: cudaErrorInsufficientDriver: too old",
    ),
    "broken driver": (cupy_with(CudaError(999, "unknown error")), "CudaError: unknown error"),
    "no memory": (cupy_with(1, out_of_memory), r"MemoryError: out of memory: 512 bytes\)"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_cupy_is_said_once_with_the_reason(installed, name):
    module, reason = BROKEN[name]
    installed(module)
    with pytest.warns(RuntimeWarning, match=reason) as caught:
        x = tk.constant([1.0])
    assert "runs on the CPU" in str(caught[0].message)
    assert x.device.endswith("CPU:0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tk.config.list_physical_devices("GPU") == []
        tk.ones((2,))


NONE_THERE = {
    "no GPU": cupy_with(0),
    "none shown": cupy_with(CudaError(100, "cudaErrorNoDevice")),
    "no driver": cupy_with(CudaError(35, "cudaErrorInsufficientDriver"), driver=0),
}


@pytest.mark.parametrize("name", NONE_THERE)
def test_a_machine_without_a_gpu_says_nothing(installed, name):
    installed(NONE_THERE[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tk.constant([1.0]).device.endswith("CPU:0")
