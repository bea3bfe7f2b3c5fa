"""Where operations run: said of each on request, and softly where a device is not there."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.errors import DeviceError


@pytest.fixture
def logged():
    tk.debugging.set_log_device_placement(True)
    yield
    tk.debugging.set_log_device_placement(False)


def test_operations_say_their_device(logged, capsys):
    y = tk.matmul(tk.ones((2, 3)), tk.ones((3, 2))) + 1.0
    said = capsys.readouterr().err.splitlines()
    assert f"Executing op matmul in device {y.device}" in said
    assert f"Executing op add in device {y.device}" in said
    assert tk.debugging.get_log_device_placement()


def test_a_compiled_function_says_nothing_of_what_is_in_it(logged, capsys):
    double = tk.function(lambda x: x * 2.0)
    x = tk.constant([1.0, 2.0])
    double(x)
    capsys.readouterr()
    np.testing.assert_array_equal(double(x).numpy(), [2.0, 4.0])
    assert "multiply" not in capsys.readouterr().err


def test_it_ends(capsys):
    for _ in range(2):
        tk.debugging.set_log_device_placement(True)
        tk.debugging.set_log_device_placement(True)
        tk.debugging.set_log_device_placement(False)
        capsys.readouterr()
        tk.constant(1.0) + 2.0
        assert capsys.readouterr().err == ""
    tk.debugging.set_log_device_placement(False)
    assert not tk.debugging.get_log_device_placement()


def test_a_device_that_is_not_there_is_the_current_one_if_that_was_asked_for():
    tk.config.set_soft_device_placement(True)
    try:
        assert tk.config.get_soft_device_placement()
        with tk.device("/cpu:0"), tk.device("/gpu:77"):
            assert tk.ones(2).device.endswith("CPU:0")
        with pytest.raises(DeviceError, match="not a device name"):
            tk.device("/tpu_of_mine")
    finally:
        tk.config.set_soft_device_placement(False)
    with pytest.raises(DeviceError, match="not on this machine"):
        tk.device("/gpu:77")
