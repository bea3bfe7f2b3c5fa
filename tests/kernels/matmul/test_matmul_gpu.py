"""What is asked of cuBLAS: addresses, steps and sizes that NumPy reads back."""

import gc
import itertools
import threading

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from tests.stand_in.installing import CUBLAS
from trainkit.core.dtypes import bfloat16
from trainkit.kernels.matmul import matmul_gpu

DRAWN = np.random.default_rng(0)
LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.swapaxes(-1, -2).copy().swapaxes(-1, -2),
    "every second": lambda x: np.repeat(x, 2, -1)[..., ::2],
    "wide rows": lambda x: np.concatenate([x, x], -1)[..., : x.shape[-1]],
    "turned wide": lambda x: (
        np.concatenate([x, x], -2).swapaxes(-1, -2).copy().swapaxes(-1, -2)[..., : x.shape[-2], :]
    ),
    "backwards": lambda x: x[..., ::-1, :].copy()[..., ::-1, :],
}
SHAPES = [
    ((3, 4), (4, 5)),
    ((1, 4), (4, 5)),
    ((3, 1), (1, 5)),
    ((3, 4), (4, 1)),
    ((1, 1), (1, 1)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((4,), (4,)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)),
    ((2, 6, 3, 4), (2, 6, 4, 5)),
    ((2, 3, 4), (4,)),
    ((0, 4), (4, 5)),
    ((3, 0), (0, 5)),
    ((0, 3, 4), (4, 5)),
]


@pytest.fixture
def xp():
    with stand_in.in_place():
        import cupy

        yield cupy


def moved(xp, x):
    """`x` on the device, with the layout that it has here."""
    base = x if x.base is None else x.base
    whole = xp.asarray(base)
    host = np.lib.stride_tricks.as_strided(
        whole._host.ravel("K")[(x.ctypes.data - base.ctypes.data) // x.itemsize :],
        x.shape,
        x.strides,
    )
    whole._memory.take(host)  # which NumPy does not know to be a view of it
    return whole._view(host)


def captured(xp, a, b, out=None):
    """The product by a graph that was captured and launched."""
    cublas = matmul_gpu.here(xp)
    workspace = cublas.workspace(0)
    stream, pool = xp.cuda.Stream(non_blocking=True), xp.cuda.MemoryPool()
    stream.begin_capture()
    with stream, xp.cuda.using_allocator(pool.malloc), cublas.working_in(workspace):
        y = matmul_gpu.matmul(xp, a, b, out)
    stream.end_capture().launch()
    return y


product = pytest.mark.parametrize("product", [matmul_gpu.matmul, captured])


@product
@pytest.mark.parametrize("layout", list(itertools.product(LAYOUTS, LAYOUTS)), ids=" by ".join)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_products_of_all_layouts(xp, shapes, layout, product):
    a, b = (
        LAYOUTS[name](DRAWN.normal(size=shape)) if len(shape) > 1 else DRAWN.normal(size=shape)
        for name, shape in zip(layout, shapes, strict=True)
    )
    y = product(xp, moved(xp, a), moved(xp, b))
    assert y.shape == np.matmul(a, b).shape
    np.testing.assert_allclose(y.get(), np.matmul(a, b), rtol=1e-12, atol=1e-12)


@product
@pytest.mark.parametrize("dtype", ["float16", bfloat16.dtype, "float32", "float64", "int32"])
def test_dtypes_and_what_they_are_summed_in(xp, dtype, product):
    a, b = (xp.asarray(DRAWN.integers(-3, 4, (4, 4)).astype(dtype)) for _ in range(2))
    y = product(xp, a, b)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y.get(), np.matmul(a.get().astype(int), b.get().astype(int)))


@pytest.mark.parametrize("dtype", ["float16", bfloat16.dtype, "float32"])
def test_eager_and_captured_products_are_the_same_call(xp, dtype, monkeypatch):
    a, b = (xp.asarray(DRAWN.normal(size=s).astype(dtype)) for s in ((2, 3, 4), (2, 4, 5)))
    asked = []
    call = matmul_gpu.Cublas._call
    monkeypatch.setattr(
        matmul_gpu.Cublas,
        "_call",
        lambda self, name, *given: (asked.append((name, given)), call(self, name, *given)),
    )
    for product in (matmul_gpu.matmul, captured):
        product(xp, a, b, xp.empty((2, 3, 5), dtype))
    one, two = (given for name, given in asked if name == "cublasGemmStridedBatchedEx")
    result = 15  # where it is written
    assert one[:result] == two[:result]
    assert one[result + 1 :] == two[result + 1 :]


@product
def test_matrices_of_two_types_are_multiplied_in_the_wider(xp, product):
    y = product(xp, xp.ones((2, 3, 4), bfloat16.dtype), xp.ones((4, 2), "float32"))
    assert (y.dtype, y.get().tolist()) == ("float32", [[[4, 4]] * 3] * 2)


def test_complex_matrices_stay_with_cupy_which_captures_none(xp):
    x = xp.ones((2, 2), "complex64")
    assert matmul_gpu.matmul(xp, x, x).get().tolist() == [[2, 2]] * 2
    with pytest.raises(NotImplementedError, match="stream capture"):
        captured(xp, x, x)


def test_inner_sizes_that_differ(xp):
    with pytest.raises(ValueError, match="inner sizes"):
        matmul_gpu.matmul(xp, xp.ones((2, 3)), xp.ones((2, 3)))


@product
@pytest.mark.parametrize("turn", [False, True])
def test_a_product_goes_to_where_it_is_wanted(xp, turn, product):
    a, b, out = xp.ones((2, 3)), xp.ones((3, 4)), xp.zeros((4, 2) if turn else (2, 4))
    out = out.T if turn else out
    assert product(xp, a, b, out) is out
    assert out.get().tolist() == [[3] * 4] * 2


@product
def test_a_place_of_another_dtype_is_converted_to(xp, product):
    out = xp.zeros((2, 2), "float64")
    assert product(xp, xp.ones((2, 3), "float32"), xp.ones((3, 2), "float32"), out) is out
    assert out.get().tolist() == [[3] * 2] * 2


def test_on_the_cpu_it_is_numpy_s():
    x = np.ones((2, 2))
    assert matmul_gpu.matmul(np, x, x).tolist() == [[2, 2], [2, 2]]


def test_a_status_of_cublas_is_an_error(xp):
    cublas = matmul_gpu.here(xp)
    cublas._library = type("Broken", (), {"__getattr__": lambda *_: lambda *a: 15})()
    with pytest.raises(RuntimeError, match="SetStream_v2: cuBLAS says status 15"):
        matmul_gpu.matmul(xp, xp.ones((2, 2)), xp.ones((2, 2)))


# ---------------------------------------------------------------------- who has which handle


def test_a_thread_has_one_handle_which_goes_with_it(xp):
    gc.collect()
    before = len(CUBLAS.open)
    mine = [matmul_gpu.here(xp) for _ in range(3)]
    assert mine == mine[:1] * 3
    found = []

    def other():
        matmul_gpu.matmul(xp, xp.ones((2, 2)), xp.ones((2, 2)))
        found.append((matmul_gpu.here(xp) is mine[0], len(CUBLAS.open)))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    gc.collect()
    assert found == [(False, before + 2)]
    assert len(CUBLAS.open) == before + 1


def test_functions_share_handle_and_memory(xp):
    gc.collect()
    before = len(CUBLAS.open)
    functions = [tk.function(lambda x, k=k: x @ x + float(k)) for k in range(3)]
    for f in functions:
        for _ in range(5):
            assert f(tk.ones((2, 2))).numpy()[0, 0] == 2 + functions.index(f)
        assert "replays of 1 CUDA graph" in f.explain()
    assert len(CUBLAS.open) == before + 1
    assert len(matmul_gpu.here(xp)._workspaces) == 1
    del functions, f
    gc.collect()
    assert len(matmul_gpu.here(xp)._workspaces) == 0


def test_streams_have_their_own_memory(xp):
    cublas = matmul_gpu.here(xp)
    one, two = cublas.workspace(0), cublas.workspace(17)
    assert cublas.workspace(0) is one
    assert one is not two


# ---------------------------------------------------------------------- operations of bfloat16

OPERATIONS = {
    "matmul": (lambda a, b: tk.matmul(a, b), (2, 3, 4), (2, 4, 5)),
    "one matrix for all": (lambda a, b: tk.matmul(a, b), (2, 3, 4), (4, 5)),
    "vector": (lambda a, b: tk.ops.matmul(a, b), (2, 3, 4), (4,)),
    "einsum": (lambda a, b: tk.einsum("bij,bkj->bik", a, b), (2, 3, 4), (2, 5, 4)),
    "einsum of rows": (lambda a, b: tk.einsum("bi,bi->b", a, b), (2, 3), (2, 3)),
    "tensordot": (lambda a, b: tk.tensordot(a, b, 2), (2, 3, 4), (3, 4, 5)),
    "inner": (lambda a, b: tk.ops.inner(a, b), (2, 3, 4), (5, 4)),
    "attention": (lambda a, b: tk.ops.dot_product_attention(a, b, b), (2, 3, 2, 4), (2, 5, 2, 4)),
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_of_short_floats_and_their_gradients(xp, name, dtype):
    f, *shapes = OPERATIONS[name]
    values = [DRAWN.integers(-2, 3, s).astype("float32") for s in shapes]
    found = []
    for kind in (dtype, "float32"):
        a, b = (tk.cast(tk.constant(v), kind) for v in values)
        with tk.GradientTape() as tape:
            tape.watch([a, b])
            y = f(a, b)
            loss = tk.reduce_sum(tk.cast(y, "float32") ** 2)
        found.append([y, *tape.gradient(loss, [a, b])])
        assert {x.dtype.name for x in found[-1]} == {kind}
    for x, near in zip(*found, strict=True):
        np.testing.assert_allclose(tk.cast(x, "float32").numpy(), near.numpy(), rtol=0.02, atol=0.1)


@pytest.mark.parametrize("order", [("/gpu:0", "/cpu:0"), ("/cpu:0", "/gpu:0")])
@pytest.mark.parametrize("op", [tk.matmul, tk.ops.dense], ids=["matmul", "dense"])
def test_a_matrix_of_another_device_is_refused_by_name(op, order, any_gpu):
    given = []
    for where in order:
        with tk.device(where):
            given.append(tk.ones((3, 3)))
    with pytest.raises(tk.errors.InvalidArgumentError, match="bring them to one device"):
        op(*given)
