import ml_dtypes
import numpy as np
import pytest

import trainkit as tk
from tests.ops.numpy_compare import assert_same
from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError

M = np.array([[[4.0, 1.0, 0.5], [1.0, 5.0, 2.0], [0.5, 2.0, 6.0]]]) * [[[1.0]], [[0.5]]]
SINGULAR = np.zeros((2, 2))


def test_matrices_are_inverted_in_batches():
    assert_same(ops.inv(M), np.linalg.inv(M))
    assert_same(ops.det(M), np.linalg.det(M))
    for ours, numpys in zip(ops.slogdet(-M), np.linalg.slogdet(-M), strict=True):
        assert_same(ours, numpys)


def test_right_sides_are_vectors_or_matrices(rng):
    vectors, matrices = rng.normal(size=(2, 3)), rng.normal(size=(2, 3, 4))
    assert_same(ops.solve(M, vectors), np.linalg.solve(M, vectors[..., None])[..., 0])
    assert_same(ops.solve(M, matrices), np.linalg.solve(M, matrices))
    assert_same(ops.solve(M[0], vectors[0]), np.linalg.solve(M[0], vectors[0]))
    for lower, triangle in ((True, np.tril), (False, np.triu)):
        expected = np.linalg.solve(triangle(M), matrices)
        assert_same(ops.solve_triangular(M, matrices, lower=lower), expected)


def test_least_squares_agree_with_numpy(rng):
    tall, wide = rng.normal(size=(5, 3)), rng.normal(size=(3, 5))
    low = rng.normal(size=(5, 2)) @ rng.normal(size=(2, 3))
    for a in (tall, wide, low):
        for b in (rng.normal(size=a.shape[0]), rng.normal(size=(a.shape[0], 2))):
            assert_same(ops.lstsq(a, b), np.linalg.lstsq(a, b, rcond=None)[0])
        assert_same(ops.pinv(a), np.linalg.pinv(a))
    assert_same(ops.pinv(tall, rcond=0.5), np.linalg.pinv(tall, 0.5))


def test_expm_agrees_with_the_eigenvalues(rng):
    for size in (0.1, 1.0, 20.0):
        x = rng.normal(size=(3, 3)) * size
        w, v = np.linalg.eig(x)
        expected = ((v * np.exp(w)) @ np.linalg.inv(v)).real
        found = ops.linalg.expm(x).numpy()
        np.testing.assert_allclose(found, expected, atol=1e-9 * abs(expected).max())
    assert_same(ops.linalg.expm([[0.0, 1.0], [0.0, 0.0]]), [[1, 1], [0, 1]])


def test_integers_become_floats_and_short_floats_stay():
    assert ops.inv([[1, 2], [3, 4]]).dtype == "float32"
    for dtype in (np.float16, ml_dtypes.bfloat16):
        assert ops.inv(np.array([[1, 2], [3, 4]], dtype)).dtype == np.dtype(dtype)


def test_singular_matrices_are_named():
    for call in (
        lambda: ops.inv(SINGULAR),
        lambda: ops.solve(SINGULAR, [1.0, 1.0]),
        lambda: ops.solve_triangular(SINGULAR, [1.0, 1.0]),
    ):
        with pytest.raises(InvalidArgumentError, match=r"Input is not invertible.*shape \(2, 2\)"):
            call()
    assert float(ops.det(SINGULAR)) == 0
    assert [float(part) for part in ops.slogdet(SINGULAR)] == [0, -np.inf]


def symbols(*shapes):
    return [tk.keras.KerasTensor(shape) for shape in shapes]


def test_right_sides_that_are_symbols():
    for op in (ops.solve, ops.solve_triangular):
        assert tuple(op(*symbols((None, 4, 4), (None, 4))).shape) == (None, 4)
        assert tuple(op(*symbols((None, 4, 4), (None, 4, 2))).shape) == (None, 4, 2)
    traced = tk.function(ops.solve, input_signature=[tk.TensorSpec((None, None))] * 2)
    assert traced(np.eye(2, dtype="float32"), np.ones((2, 1), "float32")).shape == (2, 1)


ERRORS = [
    (lambda: ops.inv([1.0, 2.0]), r"inv: needs matrices.*got shape \(2,\)"),
    (lambda: ops.det(np.ones((2, 3))), r"det: needs square matrices, got shape \(2, 3\)"),
    (lambda: ops.solve(np.eye(2), np.ones(3)), r"b must have as many rows as a"),
    (lambda: ops.solve(np.eye(2), 1.0), r"solve: b must .*\n.*\(2, 2\)\n.*\(\)"),
    (lambda: ops.solve_triangular(np.eye(2), np.ones((3, 2))), "solve_triangular: b must have"),
    (lambda: ops.solve(*symbols((None, 4, 4), (None, None, 5))), "solve: b must have"),
    (lambda: ops.solve_triangular(*symbols((4, 4), (None,))), "solve_triangular: b must have"),
    (lambda: ops.lstsq(np.ones((3, 2)), np.ones(2)), "lstsq: matrices of shape"),
    (lambda: ops.linalg.expm(np.ones((2, 3))), "expm: needs square matrices"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors_show_the_shapes(call, message):
    with pytest.raises(ShapeError, match=message):
        call()


def test_least_squares_by_singular_values_have_no_regularizer_as_in_tensorflow():
    a, b = [[1.0], [1.0]], [[1.0], [3.0]]
    assert abs(float(tk.linalg.lstsq(a, b, l2_regularizer=2.0, fast=False)) - 2.0) < 1e-6
    assert abs(float(tk.linalg.lstsq(a, b, l2_regularizer=2.0)) - 1.0) < 1e-6
