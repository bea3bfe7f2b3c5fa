"""Kernels of CUDA C++ by name and text."""

import numpy as np
import pytest

from tests.stand_in.kernels import has_compiler
from trainkit.core import devices
from trainkit.kernels.cuda.raw_kernel import RawKernel, blocks_for

pytestmark = pytest.mark.skipif(not has_compiler(), reason="no g++ for this machine is here")

DOUBLED = """
extern "C" __global__ void doubled(const float* __restrict__ x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] = 2 * x[i];
}
"""


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("blocks", [1, (3,), 40])
def test_a_kernel_is_launched(rng, blocks):
    xp = devices.parse("/gpu:0").xp
    values = rng.normal(size=1000).astype(np.float32)
    x, y = xp.asarray(values), xp.empty(1000, np.float32)
    kernel = RawKernel("doubled", DOUBLED)
    assert kernel.is_there(xp)
    kernel(blocks, (x, y, np.int32(1000)), threads=32)
    np.testing.assert_array_equal(y.get(), 2 * values)


@pytest.mark.usefixtures("any_gpu")
def test_a_kernel_that_does_not_compile_warns_once():
    xp = devices.parse("/gpu:0").xp
    kernel = RawKernel("doubled", DOUBLED.replace("2 * x[i]", "two(x[i])"))
    with pytest.warns(RuntimeWarning, match="doubled can't be compiled"):
        assert not kernel.is_there(xp)
    assert not kernel.is_there(xp)  # and no warning, which would be an error here


@pytest.mark.parametrize(
    ("count", "blocks"), [(0, 1), (1, 1), (256, 1), (257, 2), (1 << 20, 4096), (1 << 40, 4096)]
)
def test_blocks_for_so_many_elements(count, blocks):
    assert blocks_for(count) == blocks
