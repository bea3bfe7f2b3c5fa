"""Kernels of CUDA C++ on the CPU: what they compute, and which mistakes of theirs are found."""

import contextlib
import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from tests.stand_in import cuda_on_cpu

pytestmark = pytest.mark.skipif(
    not cuda_on_cpu.has_compiler(), reason="no g++ for this machine is here"
)

PLACES = """
extern "C" __global__ void places(int* out, int n) {
  const int i = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = i * 10 + (int)threadIdx.x;
}
"""
BLOCK_SUM = """
extern "C" __global__ void block_sum(const float* __restrict__ x, float* out, int n) {
  __shared__ float part[64];
  float sum = 0;
  const int step = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) sum += x[i];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int half = blockDim.x / 2; half; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    BARRIER;
  }
  if (!threadIdx.x) out[blockIdx.x] = part[0];
}
"""
WARP = """
extern "C" __global__ void warp(const int* x, int* sums, unsigned int* votes, int* first) {
  int v = x[threadIdx.x];
  for (int by = 16; by; by >>= 1) v += __shfl_down_sync(0xFFFFFFFFu, v, by);
  sums[threadIdx.x] = v;
  votes[threadIdx.x] = __ballot_sync(0xFFFFFFFFu, x[threadIdx.x] % 2);
  first[threadIdx.x] = __shfl_sync(0xFFFFFFFFu, x[threadIdx.x], 0, 8);
}
"""


def test_each_thread_knows_its_place():
    out = np.full(100, -1, np.int32)
    cuda_on_cpu.built(PLACES, "places")((2, 2), (32,), [out, np.int32(100)])
    i = np.arange(100)
    np.testing.assert_array_equal(out, i * 10 + i % 32)


@pytest.mark.parametrize("backward", [False, True])
def test_threads_of_a_block_wait_for_each_other(rng, backward):
    x = rng.normal(size=1000).astype(np.float32)
    out = np.zeros(3, np.float32)
    kernel = cuda_on_cpu.built(BLOCK_SUM.replace("BARRIER", "__syncthreads()"), "block_sum")
    with cuda_on_cpu.backward() if backward else contextlib.nullcontext():
        kernel((3,), (64,), [x, out, np.int32(1000)])
    np.testing.assert_allclose(out.sum(), x.sum(dtype=np.float64), rtol=1e-5)


def test_a_missing_barrier_shows_in_one_of_the_two_orders(rng):
    x = rng.normal(size=1000).astype(np.float32)
    kernel = cuda_on_cpu.built(BLOCK_SUM.replace("BARRIER", ""), "block_sum")
    found = []
    for order in (cuda_on_cpu.backward, contextlib.nullcontext):
        out = np.zeros(3, np.float32)
        with order():
            kernel((3,), (64,), [x, out, np.int32(1000)])
        found.append(out)
    assert not np.array_equal(*found)


def test_lanes_of_a_warp_see_each_other(rng):
    x = rng.integers(0, 100, 64).astype(np.int32)
    sums, first = np.zeros((2, 64), np.int32)
    votes = np.zeros(64, np.uint32)
    cuda_on_cpu.built(WARP, "warp")((1,), (64,), [x, sums, votes, first])
    assert [sums[0], sums[32]] == [x[:32].sum(), x[32:].sum()]
    for w in (0, 32):
        assert set(votes[w : w + 32]) == {sum(int(b) << i for i, b in enumerate(x[w : w + 32] % 2))}
    np.testing.assert_array_equal(first, np.repeat(x[::8], 8))


def test_dynamic_shared_memory_and_templates():
    text = """
    template <class T> __global__ void turned(const T* x, T* y, int n) {
      extern __shared__ unsigned char room[];
      T* part = (T*)room;
      part[threadIdx.x] = x[threadIdx.x];
      __syncthreads();
      y[threadIdx.x] = part[n - 1 - threadIdx.x];
    }
    """
    x = np.arange(40.0)
    y = np.zeros(40)
    cuda_on_cpu.built(text, "turned<double>")((1,), (40,), [x, y, np.int32(40)], 320)
    np.testing.assert_array_equal(y, x[::-1])


def test_shared_memory_of_a_function_belongs_to_its_kernel():
    """One that was shared by kernels of the process had the size that the first of them needs."""
    text = """
    __device__ inline unsigned long long place() {
      __shared__ float room[COUNT];
      return (unsigned long long)room;
    }
    extern "C" __global__ void f(unsigned long long* y) { *y = place(); }
    """
    places = set()
    for count in ("32", "1024"):
        y = np.zeros(1, np.uint64)
        kernel = cuda_on_cpu.built(text.replace("COUNT", count), "f")
        kernel((1,), (1,), [y])
        places.add(int(y[0]))
    assert len(places) == 2


def test_atomic_operations():
    text = """
    extern "C" __global__ void atoms(float* sum, int* most, unsigned long long* count) {
      atomicAdd(sum, 0.5f);
      atomicMax(most, (int)(blockIdx.x * blockDim.x + threadIdx.x));
      atomicAdd(count, 1ULL);
    }
    """
    total, most, count = np.zeros(1, "f4"), np.zeros(1, "i4"), np.zeros(1, "u8")
    cuda_on_cpu.built(text, "atoms")((3,), (50,), [total, most, count])
    assert (total[0], most[0], count[0]) == (75.0, 149, 150)


@pytest.mark.parametrize(
    ("kind", "to", "back", "dtype"),
    [
        ("__half", "__float2half", "__half2float", np.float16),
        ("__nv_bfloat16", "__float2bfloat16", "__bfloat162float", ml_dtypes.bfloat16),
    ],
)
def test_short_floats_are_rounded_as_numpy_rounds(rng, kind, to, back, dtype):
    text = f"""
    #include <cuda_fp16.h>
    extern "C" __global__ void rounded(const float* x, {kind}* y, float* z, int n) {{
      for (int i = threadIdx.x; i < n; i += blockDim.x) {{
        y[i] = {to}(x[i]);
        z[i] = {back}(y[i]);
      }}
    }}
    """
    bits = rng.integers(0, 2**32, 200_000, np.uint64).astype(np.uint32)
    every = np.arange(65536, dtype=np.uint16).view(dtype).astype(np.float32)
    every = every[np.isfinite(every)]
    near = np.nextafter(every, np.float32(np.inf)), np.nextafter(every, np.float32(-np.inf))
    halfway = every + (np.roll(every, 1) - every) / 2
    x = np.concatenate([bits.view(np.float32), every, *near, halfway])
    x = x[np.isfinite(x)]
    y, z = np.zeros(x.size, dtype), np.zeros_like(x)
    cuda_on_cpu.built(text, "rounded")((1,), (32,), [x, y, z, np.int32(x.size)])
    with np.errstate(over="ignore"):
        wanted = x.astype(dtype)
    np.testing.assert_array_equal(y.view(np.uint16), wanted.view(np.uint16))
    np.testing.assert_array_equal(z, wanted.astype(np.float32))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("if (threadIdx.x < 3) __syncthreads(); else { __syncthreads(); }", None),
        ("if (threadIdx.x < 3) { __syncthreads(); }\nelse { __syncthreads(); }", "two barriers"),
        ("if (threadIdx.x < 3) __shfl_sync(0xFu, 1, 0); else __syncthreads();", "never come"),
        ("if (threadIdx.x == 3) __syncwarp(7u);", "without its own lane"),
    ],
)
def test_threads_that_wait_for_ever_are_an_error(body, says):
    kernel = cuda_on_cpu.built(f'extern "C" __global__ void f() {{ {body} }}', "f")
    if says is None:
        kernel((1,), (8,), [])
    else:
        with pytest.raises(RuntimeError, match=says):
            kernel((1,), (8,), [])


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([np.zeros(3, np.int32)], "takes 2 arguments"),
        ([np.zeros(3, np.int32), 3], "has 8 bytes, the kernel's has 4"),
        ([3, np.int32(3)], "takes an array"),
        ([np.zeros(3, np.int32), cuda_on_cpu.by_address(np.zeros(1, np.int32))], "is an array"),
    ],
)
def test_arguments_of_another_kind_are_refused(args, says):
    with pytest.raises(TypeError, match=says):
        cuda_on_cpu.built(PLACES, "places")((1,), (3,), args)


def test_a_block_that_no_device_has_is_refused():
    out = np.zeros(3, np.int32)
    with pytest.raises(ValueError, match="can't be launched"):
        cuda_on_cpu.built(PLACES, "places")((1,), (1025,), [out, np.int32(3)])
    with pytest.raises(ValueError, match="INVALID_VALUE"):
        cuda_on_cpu.built(PLACES, "places")((0,), (32,), [out, np.int32(3)])


SHARED = """
import os, sys
import numpy as np
from tests.stand_in import cuda_on_cpu

if sys.argv[1] == "second":  # it has no compiler, and needs none
    cuda_on_cpu._compile = None
out = np.full(100, -1, np.int32)
cuda_on_cpu.built(sys.argv[2], "places")((2, 2), (32,), [out, np.int32(100)])
assert out[99] == 99 * 10 + 99 % 32
"""


def test_processes_share_what_is_compiled(tmp_path):
    folder = tmp_path / "kernels"
    env = {**os.environ, cuda_on_cpu.FOLDER_VARIABLE: str(folder)}
    for name in ("first", "second"):
        subprocess.run([sys.executable, "-c", SHARED, name, PLACES], env=env, check=True)
    assert [path.suffix for path in folder.iterdir()] == [".so"]


def test_a_folder_of_its_own_goes_with_the_process_that_made_it():
    env = {k: v for k, v in os.environ.items() if k != cuda_on_cpu.FOLDER_VARIABLE}
    program = f"{SHARED}\nif os.fork() == 0: sys.exit()\nos.wait()\n"
    program += f"print(len(os.listdir(os.environ[{cuda_on_cpu.FOLDER_VARIABLE!r}])))\n"
    program += f"print(os.environ[{cuda_on_cpu.FOLDER_VARIABLE!r}])"
    command = [sys.executable, "-c", program, "first", PLACES]
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    count, folder = done.stdout.split()
    assert count == "1"
    assert not os.path.exists(folder)
