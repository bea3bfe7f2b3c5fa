"""Pooling by kernels of a GPU, beside what the CPU does."""

import numpy as np
import pytest

import trainkit as tk
from tests.stand_in.kernels import has_compiler
from trainkit.core import devices
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.pooling import pool_cuda, pool_reference

CASES = {
    "apart": ((6, 8), (2, 2), (2, 2), "valid", (1, 1)),
    "cut off": ((7, 9), (2, 3), (2, 3), "valid", (1, 1)),
    "overlapping": ((7, 5), (3, 3), (2, 2), "same", (1, 1)),
    "dense": ((5, 5), (2, 3), (1, 1), "same", (1, 1)),
    "with gaps": ((7, 7), (2, 2), (3, 3), "valid", (1, 1)),
    "one axis": ((9,), (3,), (2,), "same", (1,)),
    "three axes": ((3, 4, 5), (2, 2, 2), (1, 2, 1), "same", (1, 1, 1)),
    "spread": ((9, 8), (3, 2), (2, 1), ((2, 1), (0, 1)), (2, 3)),
    "all": ((4, 3), (4, 3), (4, 3), "valid", (1, 1)),
}
NEAR = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-6, "float64": 1e-14}
pytestmark = pytest.mark.skipif(not has_compiler(), reason="g++ is not here")


@pytest.fixture
def launches(inside, kernel_names):
    return kernel_names


def arrays(case, dtype, channels=5):
    """Windows, few different numbers, so that maxima come several times, and a gradient."""
    rng, w = np.random.default_rng(0), Windows(*CASES[case])
    x = rng.integers(-3, 3, (2, *w.sizes, channels))
    g = rng.normal(size=(2, *w.out, channels))
    return w, *(np.asarray(a).astype(tk.as_dtype(dtype).as_numpy_dtype) for a in (x, g))


def compare(found, wanted, dtype):
    assert found.dtype == wanted.dtype
    found, wanted = (np.asarray(a).astype("float64") for a in (found.get(), wanted))
    np.testing.assert_allclose(found, wanted, rtol=NEAR[dtype], atol=NEAR[dtype])


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("dtype", NEAR)
@pytest.mark.parametrize("case", CASES)
def test_kernels_give_what_the_reference_gives(case, dtype):
    xp = devices.parse("/gpu:0").xp
    w, x, g = arrays(case, dtype)
    a, b = xp.asarray(x), xp.asarray(g)
    y = pool_reference.max_pool(np, w, x)
    here = pool_cuda.max_pool(xp, w, a)
    compare(here, y, dtype)
    compare(
        pool_cuda.max_pool_gradient(xp, w, b, a, here),
        pool_reference.max_pool_gradient(np, w, g, x, y),
        dtype,
    )
    compare(pool_cuda.average_pool(xp, w, a), pool_reference.average_pool(np, w, x), dtype)
    compare(
        pool_cuda.average_pool_gradient(xp, w, b, a),
        pool_reference.average_pool_gradient(np, w, g),
        dtype,
    )


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("dtype", NEAR)
@pytest.mark.parametrize("case", CASES)
def test_largest_values_and_their_indices(case, dtype):
    xp = devices.parse("/gpu:0").xp
    w, x, _ = arrays(case, dtype)
    x.flat[::7] = np.nan
    x[0] = -np.inf
    y, argmax = pool_cuda.max_pool_with_argmax(xp, w, xp.asarray(x))
    largest, indices = pool_reference.max_pool_with_argmax(np, w, x)
    assert (y.dtype, argmax.dtype) == (x.dtype, np.int64)
    np.testing.assert_array_equal(y.get().astype("float64"), largest.astype("float64"))
    np.testing.assert_array_equal(argmax.get(), indices)


@pytest.mark.usefixtures("any_gpu")
def test_nan_wins_and_gets_no_gradient():
    x = tk.constant(np.array([1.0, np.nan, 2.0, 5.0, -np.inf, -np.inf], "float32").reshape(1, 6, 1))
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = tk.nn.max_pool1d(x, 2, 2, "VALID")
    np.testing.assert_array_equal(y.numpy().ravel(), [np.nan, 5.0, -np.inf])
    assert tape.gradient(y, x).numpy().ravel().tolist() == [0, 0, 0, 1, 1, 0]


@pytest.mark.parametrize(
    ("pool", "names"),
    [
        (tk.nn.max_pool2d, ["max_pooled", "first_maxima", "max_pooled_back"]),
        (tk.nn.avg_pool2d, ["average_pooled", "average_pooled_back"]),
    ],
    ids=["largest", "mean"],
)
@pytest.mark.parametrize("compiled", [False, True])
def test_each_way_takes_a_launch_or_two(launches, pool, names, compiled):
    x = tk.constant(np.random.default_rng(0).normal(size=(2, 7, 7, 3)).astype("float32"))

    def both(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = pool(x, 3, 2, "SAME")
        return y, tape.gradient(y, x)

    with tk.device("/cpu:0"):
        wanted = both(tk.constant(x.numpy()))
    run = tk.function(both) if compiled else both
    for a, b in zip(run(x), wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6, atol=1e-6)
    assert [name for name in launches if "pool" in name or "maxima" in name] == names


@pytest.mark.parametrize("compiled", [False, True])
def test_maxima_and_their_indices_take_one_launch(launches, compiled):
    x = tk.constant(np.random.default_rng(0).normal(size=(2, 7, 7, 3)).astype("float32"))

    def both(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y, argmax = tk.nn.max_pool_with_argmax(x, 3, 2, "SAME", include_batch_in_index=True)
        return y, argmax, tape.gradient(y, x)

    with tk.device("/cpu:0"):
        expected = both(tk.constant(x.numpy()))
    for a, b in zip((tk.function(both) if compiled else both)(x), expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6, atol=1e-6)
    assert [name for name in launches if "pool" in name] == ["max_pooled_with_argmax"]


def test_integers_and_four_axes_go_operation_by_operation(launches):
    x = tk.constant(np.arange(16, dtype="int32").reshape(1, 4, 4, 1))
    assert tk.nn.max_pool2d(x, 2, 2, "VALID").numpy().ravel().tolist() == [5, 7, 13, 15]
    deep = Windows((2,) * 4, (2,) * 4, (2,) * 4, "valid", (1,) * 4)
    xp = devices.parse("/gpu:0").xp
    assert pool_cuda.max_pool(xp, deep, xp.zeros((1, 2, 2, 2, 2, 1), "float32")) is None
    assert launches == []


def test_second_gradients_go_through_the_kernels(launches):
    x = tk.constant(np.random.default_rng(1).normal(size=(1, 6, 6, 2)).astype("float32"))

    def second(x):
        with tk.GradientTape() as outer:
            outer.watch(x)
            with tk.GradientTape() as inner:
                inner.watch(x)
                y = tk.reduce_sum(tk.square(tk.nn.max_pool2d(x, 2, 2, "VALID")))
            z = tk.reduce_sum(tk.square(inner.gradient(y, x)))
        return outer.gradient(z, x)

    found = second(x).numpy()
    with tk.device("/cpu:0"):
        np.testing.assert_allclose(found, second(tk.constant(x.numpy())).numpy(), rtol=1e-5)
    assert "max_pooled_back" in launches
