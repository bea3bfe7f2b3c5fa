"""Rows sorted by a GPU's kernels beside those sorted by NumPy."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from tests.stand_in import cuda_on_cpu

pytestmark = pytest.mark.skipif(
    not cuda_on_cpu.has_compiler(), reason="no g++ for this machine is here"
)

SHAPES = [(7,), (3, 1), (2, 64), (2, 0), (0, 3)]
LARGE = [(5, 65), (3, 2048), (2, 2049), (2, 9000)]
DTYPES = ["bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"]
DTYPES += ["float16", "bfloat16", "float32", "float64"]


def elements(rng, shape, dtype):
    """With many ties, and for floats zeros of both signs, infinities and NaN."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = rng.integers(-40, 40, shape)
    if dtype in ("bool", "uint8", "uint32", "uint64"):
        x = abs(x)
    x = x.astype(kind)
    if "float" in dtype and x.size:
        flat = x.reshape(-1)
        for value in (np.nan, np.inf, -np.inf, -0.0, 0.0):
            flat[rng.integers(0, flat.size, flat.size // 20 + 1)] = kind.type(value)
    elif kind.kind in "iu" and x.size:
        flat = x.reshape(-1)
        flat[rng.integers(0, flat.size)] = np.iinfo(kind).max
        flat[rng.integers(0, flat.size)] = np.iinfo(kind).min
    return x


def bits(x):
    return x.view(f"u{x.dtype.itemsize}")


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [*itertools.product(DTYPES, SHAPES), *itertools.product(["float32", "int64"], LARGE)],
)
def test_rows_are_sorted_as_on_the_cpu(rng, dtype, shape):
    x = elements(rng, shape, dtype)
    y = tk.constant(x)
    order = np.argsort(x.astype(np.float32) if dtype == "bfloat16" else x, -1, kind="stable")
    assert y.device.endswith("GPU:0")
    found = tk.ops.argsort(y)
    assert found.dtype == "int32"
    np.testing.assert_array_equal(found.numpy(), order)
    ordered = tk.ops.sort(y).numpy()
    np.testing.assert_array_equal(bits(ordered), bits(np.take_along_axis(x, order, -1)))


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_along_any_axis(rng, axis):
    x = elements(rng, (6, 5, 4), "float32")
    np.testing.assert_array_equal(tk.ops.sort(tk.constant(x), axis).numpy(), np.sort(x, axis))
    wanted = np.argsort(x, axis, kind="stable")
    np.testing.assert_array_equal(tk.ops.argsort(tk.constant(x), axis).numpy(), wanted)


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("k", [0, 1, 3, 50])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16"])
def test_the_greatest_come_first_and_of_equal_ones_the_first(rng, k, dtype):
    x = elements(rng, (3, 2, 50), dtype)
    if dtype == "bfloat16":  # whose NaN NumPy's sort puts anywhere
        x = np.nan_to_num(x.astype(np.float32), nan=1.0).astype(x.dtype)
    found = [y.numpy() for y in tk.ops.top_k(tk.constant(x), k)]
    with tk.device("/cpu:0"):
        wanted = [y.numpy() for y in tk.ops.top_k(tk.constant(x), k)]
    np.testing.assert_array_equal(found[1], wanted[1])
    np.testing.assert_array_equal(found[0].astype(np.float64), wanted[0].astype(np.float64))


@pytest.mark.parametrize("shape", [(3, 100), (2, 5000)])
def test_no_thread_depends_on_the_order_of_the_others(rng, shape):
    x = elements(rng, shape, "float32")
    with stand_in.in_place(), cuda_on_cpu.backward():
        np.testing.assert_array_equal(
            tk.ops.argsort(tk.constant(x)).numpy(), np.argsort(x, -1, kind="stable")
        )


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("n", [50, 5000])
def test_sorting_is_captured(rng, n):
    @tk.function
    def f(x):
        values, places = tk.ops.top_k(x, 3)
        return tk.ops.sort(x), tk.ops.argsort(x), values, places

    for _ in range(5):
        x = rng.normal(size=(2, n)).astype(np.float32)
        found = [y.numpy() for y in f(tk.constant(x))]
        np.testing.assert_array_equal(found[0], np.sort(x))
        np.testing.assert_array_equal(found[1], np.argsort(x, kind="stable"))
        np.testing.assert_array_equal(found[3], np.argsort(-x, kind="stable")[:, :3])
    assert "replays of 1 CUDA graph" in f.explain(), f.explain()


BUILT_ON_IT = {
    "median": lambda x: tk.ops.median(x, axis=-1),
    "quantile": lambda x: tk.ops.quantile(x, [0.1, 0.6], axis=0),
    "sparsemax": lambda x: tk.ops.sparsemax(x),
    "products of segments": lambda x: tk.math.unsorted_segment_prod(x, IDS, 3),
}
IDS = np.array([0, 2, 0, 2, 1], np.int32)


@pytest.mark.usefixtures("any_gpu")
@pytest.mark.parametrize("name", BUILT_ON_IT)
def test_what_sorts_inside_is_captured(rng, name):
    def f(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = BUILT_ON_IT[name](x)
        return y, tape.gradient(y, x)

    compiled = tk.function(f)
    x = rng.normal(size=(5, 8)).astype(np.float32)
    with tk.device("/cpu:0"):
        wanted = [y.numpy() for y in f(tk.constant(x))]
    for _ in range(5):
        for y, z in zip(compiled(tk.constant(x)), wanted, strict=True):
            np.testing.assert_allclose(y.numpy(), z, rtol=1e-5, atol=1e-6)
    assert "replays of 1 CUDA graph" in compiled.explain(), compiled.explain()


@pytest.mark.usefixtures("inside")
def test_sorting_waits_for_nothing(rng):
    x = tk.constant(rng.normal(size=(2, 3000)).astype(np.float32))
    with stand_in.transfers.noted() as ledger:
        tk.ops.sort(x)
        tk.ops.top_k(x, 5)
    assert [ledger.to_host, ledger.to_device, ledger.waits] == [[], [], []]
