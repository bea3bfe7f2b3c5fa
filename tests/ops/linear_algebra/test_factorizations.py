import numpy as np
import pytest

import trainkit as tk
from tests.ops.numpy_compare import assert_same
from trainkit import keras, ops
from trainkit.autodiff.tape import GradientTape
from trainkit.core.errors import InvalidArgumentError, ShapeError, UnimplementedError
from trainkit.core.tensor import convert_to_tensor
from trainkit.ops.linear_algebra.factorizations import pivots_to_permutation


@pytest.fixture
def matrix(rng):
    return rng.normal(size=(2, 3, 3))


@pytest.fixture
def positive(matrix):
    return matrix @ matrix.swapaxes(1, 2) + np.eye(3)


def test_cholesky_agrees_with_numpy(positive):
    lower = np.linalg.cholesky(positive)
    assert_same(ops.cholesky(positive), lower)
    assert_same(ops.cholesky(positive, upper=True), lower.swapaxes(1, 2))
    assert_same(ops.logdet(positive), np.linalg.slogdet(positive)[1])
    inverse = np.linalg.inv(positive)
    assert_same(ops.cholesky_inverse(lower), inverse)
    assert_same(ops.cholesky_inverse(lower.swapaxes(1, 2), upper=True), inverse)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_logdet_of_what_is_not_positive_definite_is_nan(dtype):
    x = np.stack([2 * np.eye(2), [[0, 1], [1, 0]], -np.eye(2), 4 * np.eye(2)])
    x = tk.constant(x.reshape(2, 2, 2, 2), dtype)
    expected = [[2 * np.log(2), np.nan], [np.nan, 4 * np.log(2)]]
    for function in (ops.logdet, tk.linalg.logdet, tk.function(ops.logdet)):
        y = function(x)
        np.testing.assert_allclose(y, expected, rtol=1e-3)
        assert y.dtype == (dtype if dtype != "complex64" else "float32")
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = ops.logdet(x)
    gradient = tape.gradient(y, x).numpy()
    np.testing.assert_allclose(gradient[0, 0], np.eye(2) / 2, rtol=1e-3)
    assert np.isnan(gradient[0, 1]).any()
    assert np.isnan(ops.logdet([[0.0, 1.0], [1.0, 0.0]]))
    with pytest.raises(ValueError, match="not positive definite"):
        ops.cholesky(x)


@pytest.mark.parametrize("shape", [(4, 3), (3, 3), (3, 4), (2, 4, 2)])
def test_orthogonal_factors_multiply_to_the_matrix(shape, rng):
    x = rng.normal(size=shape)
    for mode in ("reduced", "complete"):
        q, r = (part.numpy() for part in ops.qr(x, mode=mode))
        np.testing.assert_allclose(q @ r, x, atol=1e-12)
        eye = np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], q.shape[-1], q.shape[-1]))
        np.testing.assert_allclose(q.swapaxes(-1, -2) @ q, eye, atol=1e-12)
        np.testing.assert_array_equal(np.triu(r), r)
    for full in (True, False):
        u, s, vh = (part.numpy() for part in ops.svd(x, full_matrices=full))
        k = s.shape[-1]
        np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x, atol=1e-12)
    assert_same(ops.svd(x, compute_uv=False), np.linalg.svd(x, compute_uv=False))


def test_rows_are_exchanged_before_they_are_factored(matrix):
    packed, pivots = ops.lu_factor(matrix)
    lower = np.tril(packed, -1) + np.eye(3)
    order = pivots_to_permutation(pivots).numpy()
    np.testing.assert_allclose(order @ lower @ np.triu(packed), matrix, atol=1e-12)
    assert abs(np.tril(packed, -1)).max() <= 1
    assert pivots.dtype == "int32"


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 1, 3), (3, 1)])
def test_matrices_that_are_not_square_are_factored(shape):
    x = np.random.default_rng(3).normal(size=shape)
    packed, pivots = (part.numpy() for part in ops.lu_factor(x))
    n = min(shape[-2:])
    assert pivots.shape == (*shape[:-2], n)
    lower = np.tril(packed, -1)[..., :n] + np.eye(shape[-2], n)
    order = pivots_to_permutation(pivots, rows=shape[-2]).numpy()
    np.testing.assert_allclose(order @ lower @ np.triu(packed)[..., :n, :], x, atol=1e-12)
    symbol = ops.lu_factor(keras.KerasTensor((None, *shape[-2:])))
    assert [tuple(s.shape) for s in symbol] == [(None, *shape[-2:]), (None, n)]
    with pytest.raises(ShapeError, match="lu: needs square matrices"):
        tk.linalg.lu(x)


SQUARE = [ops.cholesky, ops.det, ops.inv, ops.eigh, ops.slogdet]


@pytest.mark.parametrize("op", [*SQUARE, lambda x: ops.matrix_power(x, 2)])
def test_a_symbol_of_a_model_is_square_in_what_is_known(op):
    for shape in [(2, None, 3), (None, 3, None), (None, 3)]:
        with pytest.raises(ShapeError, match="needs square matrices"):
            op(keras.KerasTensor(shape))
    for shape in [(None, 3, 3), (2, None, None)]:
        assert op(keras.KerasTensor(shape)) is not None


def test_a_size_unknown_while_tracing_may_fit():
    spec = tk.TensorSpec((None, 3), tk.float64)
    inverse = tk.function(ops.inv, input_signature=[spec])
    np.testing.assert_allclose(inverse(np.eye(3) * 2).numpy(), np.eye(3) / 2)


def test_eigenvalues_agree_with_numpy(matrix, positive):
    w, v = ops.eigh(positive)
    assert_same(w, np.linalg.eigvalsh(positive))
    np.testing.assert_allclose(positive @ v.numpy(), v.numpy() * w.numpy()[:, None, :], atol=1e-10)
    w, v = ops.eig(matrix.astype("float32"))
    assert (w.dtype, v.dtype) == ("complex64", "complex64")
    np.testing.assert_allclose(matrix @ v.numpy(), v.numpy() * w.numpy()[:, None, :], atol=1e-5)


def test_equal_singular_values_leave_no_nan_in_the_gradient():
    x = convert_to_tensor(np.eye(2))
    with GradientTape() as tape:
        tape.watch(x)
        u, s, vh = ops.svd(x)
        y = ops.sum(ops.matmul(u * s, vh))
    assert_same(tape.gradient(y, x), np.eye(2))  # the share of the vectors is left out


def test_rank_counts_singular_values():
    assert ops.matrix_rank([np.eye(3), np.ones((3, 3)), np.zeros((3, 3))]).tolist() == [3, 1, 0]
    assert int(ops.matrix_rank(np.diag([3.0, 1.0]), tol=2.0)) == 1


def test_gradients_of_arbitrary_vectors_are_refused(rng):
    x = convert_to_tensor(rng.normal(size=(3, 2)))
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        full, (q, _) = ops.svd(x)[0], ops.qr(x, mode="complete")
    with pytest.raises(UnimplementedError, match="use full_matrices=False"):
        tape.gradient(full, x)
    with pytest.raises(UnimplementedError, match="use mode='reduced'"):
        tape.gradient(q, x)


def test_errors_say_what_is_wrong():
    with pytest.raises(InvalidArgumentError, match=r"cholesky: .*not positive definite"):
        ops.cholesky(-np.eye(2))
    with pytest.raises(InvalidArgumentError, match="lu_factor: Input is not invertible"):
        ops.lu_factor(np.zeros((2, 2)))
    with pytest.raises(ShapeError, match=r"eigh: needs square matrices, got shape \(2, 3\)"):
        ops.eigh(np.ones((2, 3)))
    with pytest.raises(ValueError, match="'reduced' or 'complete', not 'r'"):
        ops.qr(np.eye(2), mode="r")
    with pytest.raises(InvalidArgumentError, match="tol must be 0 or more"):
        ops.matrix_rank(np.eye(2), tol=-1.0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
def test_singular_values_of_nan_are_nan(dtype):
    x = np.stack([[[np.nan, 1], [2, 3]], 2 * np.eye(2)])
    x = tk.constant(x, dtype)
    compiled = tk.function(ops.svd)
    for results in (ops.svd(x), compiled(x), [ops.svd(x, compute_uv=False)], [ops.pinv(x)]):
        for result in results:
            assert np.isnan(result[0].numpy()).all()
            assert not np.isnan(result[1].numpy()).any()
    np.testing.assert_allclose(ops.pinv(x)[1], np.eye(2) / 2, rtol=1e-3)
    assert np.isnan(ops.norm(x[0], 2).numpy())
    assert ops.matrix_rank(x).numpy().tolist() == [0, 2]


def test_eigenvalues_of_nan_are_refused():
    with pytest.raises(ValueError, match="did not converge"):
        ops.eig(np.full((2, 2), np.nan))


@pytest.mark.parametrize("call", [lambda f: f, tk.function], ids=["eager", "function"])
@pytest.mark.parametrize("count", [0, 2])
def test_matrices_without_rows_have_results_without_any(call, count):
    x = tk.zeros((count, 0, 0))
    for function in (ops.lu_factor, tk.linalg.lu):
        factors, order = call(function)(x)
        assert (factors.shape, order.shape) == ((count, 0, 0), (count, 0))
        assert (factors.dtype, order.dtype) == ("float32", "int32")
    for function in (tk.linalg.sqrtm, tk.linalg.logm):
        assert call(function)(x).shape == (count, 0, 0)
    for function in (tk.linalg.matrix_rank, ops.matrix_rank):
        for sizes in ((0, 0), (0, 3), (3, 0)):
            rank = call(function)(tk.zeros((count, *sizes)))
            assert (rank.shape, rank.dtype) == ((count,), "int32")
            assert rank.numpy().tolist() == [0] * count
    packed, order = tk.linalg.lu(x)
    assert tk.linalg.lu_reconstruct(packed, order).shape == (count, 0, 0)
