import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.ops.numpy_compare import assert_same
from trainkit import ops
from trainkit.core.errors import ShapeError
from trainkit.core.tensor import convert_to_tensor, wrap
from trainkit.ops.linear_algebra.matmul import product

A, B = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_matmul_agrees_with_numpy(data):
    shapes = data.draw(
        hnp.mutually_broadcastable_shapes(signature=np.matmul.signature, max_dims=2, max_side=4)
    ).input_shapes
    dtype = data.draw(st.sampled_from(["int32", "float64", "int16"]))
    elements = st.integers(-9, 9) if dtype.startswith("i") else st.floats(-9, 9, width=32)
    x, y = (data.draw(hnp.arrays(dtype, s, elements=elements)) for s in shapes)
    result = ops.matmul(x, y)
    assert_same(result, np.matmul(x, y))
    assert result.dtype == dtype


def test_integers_wrap_as_their_type_does():
    big = np.array([[2**31 - 1]], np.int32)
    assert ops.matmul(big, big).numpy().tolist() == [[1]]


def test_int8_products_are_int32_in_matmul_and_einsum_alone():
    x = np.full((2, 2), 100, np.int8)
    assert ops.matmul(x, x).dtype == ops.einsum("ij,jk", x, x).dtype == "int32"
    assert ops.dot(x, x).dtype == ops.tensordot(x, x, 1).dtype == ops.vdot(x, x).dtype == "int8"


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_short_floats_are_rounded_once(dtype):
    x = np.full((1, 4096), 1.0, dtype)
    result = ops.matmul(x, x.T)
    assert result.dtype == np.dtype(dtype)
    assert float(result[0, 0]) == 4096


def test_dtypes_promote():
    assert ops.matmul(A.astype("float32"), B.astype("int32")).dtype == "float32"
    assert (convert_to_tensor(A) @ convert_to_tensor(B)).dtype == "float64"


def test_other_products_agree_with_numpy():
    x, y = np.arange(24.0).reshape(2, 3, 4), np.arange(40.0).reshape(5, 4, 2)
    for ours, numpys in (
        (ops.dot(x, y), np.dot(x, y)),
        (ops.dot(3, A), np.dot(3, A)),
        (ops.inner(A, A), np.inner(A, A)),
        (ops.inner(2, A), np.inner(2, A)),
        (ops.outer(A, B), np.outer(A, B)),
        (ops.kron(A, B[0]), np.kron(A, B[0])),
        (ops.tensordot(x, y, ((2,), (1,))), np.tensordot(x, y, ((2,), (1,)))),
        (ops.tensordot(A, B, 1), np.tensordot(A, B, 1)),
        (ops.tensordot(A, B, 0), np.tensordot(A, B, 0)),
    ):
        assert_same(ours, numpys)


def test_vdot_conjugates_the_first():
    assert complex(ops.vdot(1j * A, A + 1j)) == np.vdot(1j * A, A + 1j)


ERRORS = [
    (lambda: ops.matmul(A, A), r"inner sizes differ, 3 and 2\.\n  a  \(2, 3\)\n  b  \(2, 3\)"),
    (lambda: ops.matmul(A, 2.0), "at least one axis"),
    (lambda: ops.matmul(np.ones((2, 1, 3)), np.ones((3, 3, 1))), "do not broadcast"),
    (lambda: ops.tensordot(A, A, 1), "axis 1 of x1 has size 3, axis 0 of x2 has 2"),
    (lambda: ops.tensordot(A, A, 3), "can't join 3 axes"),
    (lambda: ops.tensordot(A, A, ((0, 1), (0,))), "2 axes of x1 and 1 of x2"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors_show_the_shapes(call, message):
    with pytest.raises(ShapeError, match=message):
        call()


SIZES = [(1, 32, 32), (32, 1, 32), (1, 1, 1), (3, 1, 1), (10, 10, 10), (2, 7, 64), (40, 70, 50)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("dims", SIZES, ids=str)
def test_products_of_small_matrices_have_the_bits_of_matmul(dims, dtype):
    rng = np.random.default_rng(4)
    (n, m, p), by = dims, 100
    a, b = rng.standard_normal((n, m)) * by, rng.standard_normal((m, p)) * by
    a[rng.random(a.shape) < 0.3] = -0.0
    a[0, 0], b[0, 0] = -0.0, 1.0  # their product alone is 0, not -0
    a, b = a.astype(dtype), b.astype(dtype)
    for one in (a, np.asfortranarray(a), np.repeat(a, 2, axis=0)[::2]):
        for two in (b, np.asfortranarray(b), np.repeat(b, 2, axis=1)[:, ::2]):
            assert product(one, two).tobytes() == np.matmul(one, two).tobytes()
            y = ops.matmul(wrap(one), wrap(two)).numpy()
            assert y.tobytes() == np.matmul(one, two).tobytes()


@pytest.mark.parametrize("op", [ops.dot, ops.inner, ops.vdot, lambda a, b: ops.tensordot(a, b, 1)])
def test_int8_with_bools_stays_int8(op):
    small, bools = np.ones(3, "int8"), np.array([True, False, True])
    assert op(small, small).dtype == op(small, bools).dtype == op(bools, small).dtype == "int8"
    assert int(op(small, bools)) == 2


@pytest.mark.parametrize("inner", [0, 1, 1024, 1025, 3000])
@pytest.mark.parametrize("lowest", [-128, 127])  # all alike give the greatest sums
@pytest.mark.parametrize("shape", [(2,), (3, 2)])
def test_sums_of_int8_products_are_exact_whatever_their_number(inner, lowest, shape):
    rng = np.random.default_rng(0)
    a = np.where(rng.random((*shape, inner)) < 0.9, lowest, rng.integers(-128, 128)).astype("int8")
    b = np.full((inner, 5), lowest, np.int8)
    wanted = a.astype("int64") @ b.astype("int64")
    got = ops.matmul(a, b)
    assert got.dtype == "int32"
    np.testing.assert_array_equal(got, wanted.astype("int32"))
    np.testing.assert_array_equal(ops.einsum("...i,ij->...j", a, b), wanted.astype("int32"))


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("columns", [1, 7, 15, 16, 17, 32, 45])
@pytest.mark.parametrize("depth", [1, 2, 9, 40])
def test_products_of_int32_wrap_around_in_every_size(rows, columns, depth, rng):
    limits = np.iinfo(np.int32)
    a = rng.integers(limits.min, limits.max, (rows, depth), np.int32, endpoint=True)
    b = rng.integers(limits.min, limits.max, (depth, columns), np.int32, endpoint=True)
    for one, two in ((a, b), (np.asfortranarray(a), np.asfortranarray(b)), (a, b[:, ::-1])):
        result = ops.matmul(convert_to_tensor(one), convert_to_tensor(two)).numpy()
        assert result.dtype == np.int32
        np.testing.assert_array_equal(result, one @ two)
