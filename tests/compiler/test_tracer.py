"""Stand-ins of arrays: the layout that NumPy gives, and no memory of their own."""

import tracemalloc

import numpy as np
import pytest

from trainkit.compiler.llvm.llvm_kernel import LlvmTracer

SIDE = 1 << 11  # float32 squares of 16 MiB


def test_large_stand_ins_share_memory():
    tracer = LlvmTracer()
    tracemalloc.start()
    try:
        x = tracer.input((SIDE, SIDE), np.dtype(np.float32))
        values = [x]
        for _ in range(4):
            values.append((values[-1] + 1).T * np.float32(2))
        values.append(values[-1].astype(np.float64))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1 << 20


@pytest.mark.parametrize("side", [8, SIDE])
def test_stand_ins_have_the_layout_of_the_arrays(side):
    array = np.ones((side, side, 2), np.float32)
    x = LlvmTracer().input(array.shape, array.dtype)
    for traced, real in [
        (x.T + x.T, array.T + array.T),
        (x[1:, ::2].swapaxes(0, 1), array[1:, ::2].swapaxes(0, 1)),
        (x.T.astype(np.float64), array.T.astype(np.float64)),
        (x.reshape(-1, 4)[2:], array.reshape(-1, 4)[2:]),
    ]:
        assert traced.shape == real.shape
        assert traced.strides == real.strides
    assert x[1:, 3:].view.offset == (array.shape[1] + 3) * 2 * 4
    assert x.reshape(-1, 2)[1:].view.offset == 8
    assert x.T.copied().strides == np.ascontiguousarray(array.T).strides
