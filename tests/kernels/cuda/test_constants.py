"""What the host works out is sent to a GPU once."""

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from tests.stand_in.kernels import has_compiler
from trainkit.core import devices
from trainkit.kernels.cuda import constants

IMAGE = np.arange(50, dtype=np.float32).reshape(1, 5, 5, 2)
ROWS = np.arange(24, dtype=np.float32).reshape(4, 6)
CALLS = {
    "pooling": (lambda x: tk.nn.avg_pool2d(x, 3, 2, "SAME"), IMAGE),
    "transform": (lambda x: tk.math.real(tk.signal.rfft(x)), ROWS),
    "inverse transform": (lambda x: tk.signal.irfft(tk.complex(x, x)), ROWS),
    "reflection": (lambda x: tk.pad(x, [[1, 1], [2, 0]], "REFLECT"), ROWS),
    "copies": (lambda x: tk.repeat(x, [1, 0, 3, 1], axis=0), ROWS),
}


def gradient(f, x):
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return y, tape.gradient(y, x)


@pytest.mark.skipif(not has_compiler(), reason="no g++ for this machine is here")
@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("name", CALLS)
def test_a_second_call_sends_nothing(name):
    f, x = CALLS[name]
    x = tk.constant(x)
    gradient(f, x)
    with stand_in.transfers.noted() as ledger:
        gradient(f, x)
    assert [ledger.to_host, ledger.to_device, ledger.waits] == [[], [], []]


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("name", CALLS)
def test_values_are_those_of_the_cpu(name):
    f, x = CALLS[name]
    with tk.device("/cpu:0"):
        wanted = gradient(f, tk.constant(x))
    for _ in range(2):
        for y, z in zip(gradient(f, tk.constant(x)), wanted, strict=True):
            np.testing.assert_allclose(y.numpy(), z.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("any_gpu")
def test_what_no_longer_fits_is_sent_in_each_call(monkeypatch):
    monkeypatch.setattr(constants._Room, "left", 10)
    monkeypatch.setattr(constants, "_KEPT", {})
    xp = devices.parse("/gpu:0").xp
    made = []

    def make():
        made.append(1)
        return np.arange(3, dtype=np.uint8)

    kept = [constants.on_device(xp, ("test", i // 2), make) for i in range(8)]
    assert [a.get().tolist() for a in kept] == [[0, 1, 2]] * 8
    assert len(made) == 3 + 2  # of the fourth there is no more room
    assert kept[0] is kept[1]
    assert kept[6] is not kept[7]
