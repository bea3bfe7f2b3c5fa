"""Device names, contexts, and what is said where there is no GPU."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.core import devices
from trainkit.core.errors import DeviceError

NAMES = ["/cpu:0", "CPU:0", "cpu", "/device:CPU:0", "/job:localhost/replica:0/task:0/device:CPU:0"]


@pytest.mark.parametrize("name", NAMES)
def test_all_spellings_of_the_cpu(name):
    assert devices.parse(name) is devices.CPU
    with tk.device(name):
        assert tk.constant(1.0).device == "/device:CPU:0"


@pytest.mark.parametrize("name", ["tpu:0", "", "/cpu0"])
def test_what_is_no_name_says_so(name):
    with pytest.raises(DeviceError, match=r"is not a device name; this machine has /device:CPU:0"):
        tk.device(name)


@pytest.mark.parametrize("name", ["/gpu:99", "/cpu:1"])
def test_what_is_not_there_lists_what_is(name):
    with pytest.raises(DeviceError, match=r"not on this machine, which has /device:CPU:0") as info:
        tk.device(name)
    assert "pip install 'trainkit[cuda13]'" in str(info.value)
    assert isinstance(info.value, ValueError)


def test_gpu_of_a_tensor_without_a_gpu(monkeypatch):
    monkeypatch.setattr(devices, "gpu_count", lambda: 0)
    devices.parse.cache_clear()
    with pytest.raises(DeviceError, match="For a GPU install the CuPy"):
        tk.constant(1.0).gpu()
    devices.parse.cache_clear()


def test_contexts_nest_and_end_with_an_error():
    before = devices.current()
    with tk.device("/cpu:0"), pytest.raises(KeyError), tk.device(devices.CPU):
        raise KeyError
    assert devices.current() is before


def test_a_device_is_one_object_with_a_name():
    assert repr(devices.CPU) == "<Device /device:CPU:0>"
    assert devices.CPU.xp is np
    assert devices.all_devices()[0] is devices.CPU
    with tk.device(tk.config.list_logical_devices("CPU")[0]):
        assert devices.current() is devices.CPU


def test_arrays_know_where_they_are():
    array = np.ones(2)
    assert devices.device_of(array) is devices.CPU
    assert devices.device_of(np.float32(1)) is devices.CPU
    assert devices.to_device(array, devices.CPU) is array
    assert devices.to_numpy(array) is array


def test_results_stay_where_their_inputs_are(device):
    with tk.device(device):
        x = tk.constant([1.0, 2.0])
    assert (x + 1).device == x.device
    assert (x + 1).cpu().numpy().tolist() == [2.0, 3.0]
