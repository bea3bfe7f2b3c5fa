"""Numbers of the CPU that a CUDA graph reads: one launch brings all of them."""

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from tests.stand_in.kernels import has_compiler
from trainkit.core.devices import parse
from trainkit.core.dtypes import bfloat16
from trainkit.graph.gpu import host_numbers
from trainkit.graph.gpu.host_numbers import MOST, HostNumbers

pytestmark = pytest.mark.skipif(not has_compiler(), reason="no g++ for this machine is here")
DTYPES = ["bool", "int8", "float16", bfloat16.dtype, "int32", "float32", "int64", "float64"]


@pytest.fixture(autouse=True)
def _gpu(any_gpu):
    """Each test runs on the stand-in, and on a GPU where there is one."""


@pytest.fixture
def launches(inside, monkeypatch):
    import cupy

    found = []
    call = cupy.RawKernel.__call__
    monkeypatch.setattr(
        cupy.RawKernel,
        "__call__",
        lambda self, *a, **k: (found.append(self.name), call(self, *a, **k))[1],
    )
    return found


@pytest.mark.parametrize("count", [0, 1, 2, len(DTYPES), MOST, MOST + 1, 3 * MOST])
@pytest.mark.parametrize("has_kernel", [True, False])
def test_numbers_arrive_in_their_dtypes(count, has_kernel, monkeypatch):
    if not has_kernel:
        monkeypatch.setattr(host_numbers.RawKernel, "is_there", lambda self, xp: False)
    xp = parse("/gpu:0").xp
    first = [np.asarray(k % 100, DTYPES[k % len(DTYPES)]) for k in range(count)]
    numbers = HostNumbers(xp, first)
    for step in (1, 2):
        sent = [(x * 0 + (k + step) % 100).astype(x.dtype) for k, x in enumerate(first)]
        numbers.send(sent)
        for array, number in zip(numbers.arrays, sent, strict=True):
            assert (array.dtype, array.shape) == (number.dtype, ())
            assert array.get() == number


def test_one_launch_for_all_of_a_replay(launches):
    with tk.device("/cpu:0"):
        rates = [tk.Variable(float(k)) for k in range(5)]

    @tk.function
    def step(x):
        for rate in rates:
            rate.assign_add(1.0)
            x = x * rate
        return x

    for k in range(1, 7):
        launches.clear()
        with stand_in.in_place() as ledger:
            y = step(tk.ones((3,)))
        expected = np.prod([float(rate) for rate in rates])
        assert [float(rate) for rate in rates] == [i + k for i in range(5)]
        np.testing.assert_allclose(y.numpy(), expected)
    assert "3 replays of 1 CUDA graph" in step.explain()
    assert launches == ["store_numbers"]
    assert [size for size in ledger.to_device if size != 12] == []
