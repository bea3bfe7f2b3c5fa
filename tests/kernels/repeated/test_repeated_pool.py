"""Pooling that remembers sizes, beside pooling that asks at each call."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.pooling import pool_tuned
from trainkit.kernels.repeated.repeated_pool import RepeatedPool

F32 = np.dtype(np.float32)
POOLS = {
    "max": (pool_tuned.max_pool, pool_tuned.MAX_POOL[F32]),
    "average": (pool_tuned.average_pool, pool_tuned.AVERAGE_POOL[F32]),
}


def windows_of(x):
    rank = x.ndim - 2
    return Windows(x.shape[1:-1], (3,) * rank, (2,) * rank, "same", (1,) * rank)


def counted(pool):
    calls = []

    def count(w, x):
        calls.append(x.shape)
        return pool(w, x)

    return count, calls


@pytest.mark.parametrize("name", POOLS)
def test_further_images_of_a_size_ask_nothing_again(eager, rng, name):
    pool, family = POOLS[name]
    count, calls = counted(pool)
    repeated = RepeatedPool(count, family, windows_of).calls
    for _ in range(3):
        x = rng.normal(size=(2, 7, 6, 5)).astype("float32")
        np.testing.assert_array_equal(repeated(x), pool(windows_of(x), x))
    assert len(calls) == 1


def test_images_of_other_sizes_and_orders_are_right(eager, rng):
    pool, family = POOLS["max"]
    repeated = RepeatedPool(pool, family, windows_of).calls
    for shape in [(1, 9, 4, 3), (2, 9, 4, 3), (2, 5, 5, 3), (1, 6, 3), (1, 9, 4, 3)]:
        x = rng.normal(size=shape).astype("float32")
        np.testing.assert_array_equal(repeated(x), pool(windows_of(x), x))
    x = x.transpose(0, 2, 1, 3)[:, ::-1]
    np.testing.assert_array_equal(repeated(x), pool(windows_of(x), x))


def test_what_no_kernel_serves_is_left_to_the_body(eager, rng):
    repeated = RepeatedPool(*POOLS["max"], windows_of).calls
    assert repeated(rng.normal(size=(1, 4, 4, 2))) is None
    x = rng.normal(size=(1, 3, 4, 4, 2)).astype("float32")
    average = RepeatedPool(*POOLS["average"], windows_of).calls
    assert average(x) is None  # padding in three dimensions
    assert average(x) is None


@pytest.mark.parametrize("op", [tk.nn.max_pool, tk.nn.avg_pool])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_functions_pool_as_calls_do(eager, rng, op, dtype):
    function = tk.function(lambda x: op(x, 2, 2, "VALID"))
    for batch in (1, 3, 1):
        x = tk.constant(rng.normal(size=(batch, 6, 7, 4)), dtype)
        np.testing.assert_array_equal(function(x).numpy(), op(x, 2, 2, "VALID").numpy())
