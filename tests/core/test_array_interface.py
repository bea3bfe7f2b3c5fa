"""Objects whose array interface says more than there is."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.ops.arrays.dlpack import from_dlpack


def saying(held=64, **said):
    interface = {"typestr": "<f4", "version": 3, "data": memoryview(bytearray(held)), **said}
    return type("Speaker", (), {"__array_interface__": interface})()


@pytest.mark.parametrize(
    "said",
    [
        {"shape": (2**31, 2)},
        {"shape": (17,)},
        {"shape": (2,), "strides": (64,)},
        {"shape": (3,), "strides": (-4,)},
        {"shape": (16,), "offset": 4},
        {"shape": (8,), "typestr": "|O8"},
        {"shape": (2**62, 2**62)},
    ],
)
def test_an_interface_that_reaches_out_of_its_buffer_is_refused(said):
    for take in (tk.constant, tk.Variable, lambda x: tk.add(x, 1.0)):
        with pytest.raises(tk.errors.InvalidArgumentError):
            take(saying(**said))


@pytest.mark.parametrize(
    "said",
    [
        {"shape": (4, 4)},
        {"shape": (2,), "strides": (60,)},
        {"shape": (0, 2**40)},
        {"shape": (15,), "offset": 4},
        {"shape": ()},
    ],
)
def test_an_interface_that_fits_is_taken(said):
    assert tk.constant(saying(**said)).shape == said["shape"]


def test_what_speaks_no_dlpack_is_refused():
    class Mute:
        def __init__(self, device, capsule):
            self.device, self.capsule = device, capsule

        def __dlpack_device__(self):
            return self.device

        def __dlpack__(self, **more):
            return self.capsule

    for device in ((), None, "x", (1, 0), (2**70, 0), (float("inf"), 0)):
        with pytest.raises(tk.errors.InvalidArgumentError, match="from_dlpack"):
            from_dlpack(Mute(device, 3))


def test_more_values_than_memory_are_one_error():
    huge = np.broadcast_to(np.float32(1), (1 << 40, 1 << 10))
    with pytest.raises(tk.errors.ResourceExhaustedError):
        tk.constant(huge)
