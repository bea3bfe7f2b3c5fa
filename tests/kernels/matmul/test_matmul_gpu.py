"""What is asked of cuBLAS in a capture: addresses, steps and sizes that NumPy reads back."""

import itertools

import numpy as np
import pytest

from tests import stand_in
from trainkit.core.dtypes import bfloat16
from trainkit.core.errors import UnimplementedError
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
    return whole._view(host)


def product(xp, a, b, out=None):
    with matmul_gpu.Products(xp) as products:
        y = matmul_gpu.matmul(xp, a, b, out)
        products.close()
        return y


@pytest.mark.parametrize("layout", list(itertools.product(LAYOUTS, LAYOUTS)), ids=" by ".join)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_products_of_all_layouts(xp, shapes, layout):
    a, b = (
        LAYOUTS[name](DRAWN.normal(size=shape)) if len(shape) > 1 else DRAWN.normal(size=shape)
        for name, shape in zip(layout, shapes, strict=True)
    )
    y = product(xp, moved(xp, a), moved(xp, b))
    assert y.shape == np.matmul(a, b).shape
    np.testing.assert_allclose(y.get(), np.matmul(a, b), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", bfloat16.dtype, "float32", "float64", "int32"])
def test_dtypes_and_what_they_are_summed_in(xp, dtype):
    a, b = (xp.asarray(DRAWN.integers(-3, 4, (4, 4)).astype(dtype)) for _ in range(2))
    y = product(xp, a, b)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y.get(), np.matmul(a.get().astype(int), b.get().astype(int)))


def test_complex_matrices_are_refused(xp):
    x = xp.ones((2, 2), "complex64")
    with pytest.raises(UnimplementedError, match="complex64 in a CUDA graph"):
        product(xp, x, x)


def test_inner_sizes_that_differ(xp):
    with pytest.raises(ValueError, match="inner sizes"):
        product(xp, xp.ones((2, 3)), xp.ones((2, 3)))


@pytest.mark.parametrize("turn", [False, True])
def test_a_product_goes_to_where_it_is_wanted(xp, turn):
    a, b, out = xp.ones((2, 3)), xp.ones((3, 4)), xp.zeros((4, 2) if turn else (2, 4))
    out = out.T if turn else out
    assert product(xp, a, b, out) is out
    assert out.get().tolist() == [[3] * 4] * 2


def test_outside_of_a_capture_it_is_the_module_s(xp):
    x = np.ones((2, 2))
    assert matmul_gpu.matmul(np, x, x).tolist() == [[2, 2], [2, 2]]
    assert matmul_gpu.matmul(xp, xp.ones((2, 2)), xp.ones((2, 2))).get().tolist() == [[2, 2]] * 2


def test_a_status_of_cublas_is_an_error(xp):
    with matmul_gpu.Products(xp) as products:
        products._library = type("Broken", (), {"__getattr__": lambda *_: lambda *a: 15})()
        with pytest.raises(RuntimeError, match="cublasGemmStridedBatchedEx: cuBLAS says status 15"):
            matmul_gpu.matmul(xp, xp.ones((2, 2)), xp.ones((2, 2)))
