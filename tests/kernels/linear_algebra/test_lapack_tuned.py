"""Matrices that LAPACK factors and solves beside the bodies, which call NumPy."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.dispatch import native
from trainkit.core.tensor import PRIMITIVES
from trainkit.kernels.linear_algebra import lapack_tuned

pytestmark = pytest.mark.skipif(
    native.NATIVE is None or not lapack_tuned._is_bound(), reason="LAPACK is not found"
)

DTYPES = ["float32", "float64"]
SQUARE = [(1, 1), (3, 3), (5, 4, 4), (2, 3, 16, 16), (70, 70), (130, 130)]
OBLONG = [(7, 4), (4, 7), (2, 20, 33), (130, 40), (1, 5), (5, 1)]


def numbers(shape, dtype, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def regular(shape, dtype):
    """Symmetric matrices whose eigenvalues are 1 at least."""
    x = numbers(shape, dtype)
    return (x @ x.swapaxes(-1, -2) / shape[-1] + np.eye(shape[-1])).astype(dtype)


def assert_close(results, expected):
    results = results if isinstance(results, tuple) else (results,)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for result, wanted in zip(results, expected, strict=True):
        assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
        limit = 5e-3 if result.dtype == np.float32 else 1e-9
        np.testing.assert_allclose(result, wanted, rtol=limit, atol=limit)


def assert_as_body(name, *arrays, **settings):
    primitive = PRIMITIVES[name]
    run = primitive.facets.tuned.run
    result = run(*arrays, **settings)
    assert result is not None
    assert_close(result, primitive.body(np, *arrays, **settings))
    turned = [np.asfortranarray(x) for x in arrays]
    assert_close(run(*turned, **settings), result)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARE)
@pytest.mark.parametrize("name", ["cholesky", "inv", "det", "slogdet", "lu_factor"])
def test_square_matrices_are_factored_as_by_numpy(name, shape, dtype):
    assert_as_body(name, regular(shape, dtype))
    if name in ("slogdet", "lu_factor") or (name == "det" and shape[-1] <= 16):
        assert_as_body(name, numbers(shape, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SQUARE, *OBLONG])
def test_oblong_matrices_are_factored_as_by_numpy(shape, dtype):
    x = numbers(shape, dtype)
    assert_as_body("lu_factor", x)
    assert_as_body("qr", x, mode="reduced")
    q, r = PRIMITIVES["qr"].facets.tuned.run(x, mode="complete")
    expected_q, expected_r = np.linalg.qr(x, "complete")
    assert (q.shape, r.shape) == (expected_q.shape, expected_r.shape)
    assert_close((q @ r, r), (x, expected_r))
    assert_close(q.swapaxes(-1, -2) @ q, np.broadcast_to(np.eye(shape[-2], dtype=dtype), q.shape))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [1, 3, 40])
@pytest.mark.parametrize("shape", SQUARE)
def test_systems_are_solved_as_by_numpy(shape, columns, dtype):
    a, b = regular(shape, dtype), numbers((*shape[:-1], columns), dtype, 1)
    assert_as_body("solve", a, b)
    swapped = a[..., ::-1, :].copy()  # so that rows are exchanged
    assert_as_body("solve", swapped, b)
    for lower in (False, True):
        assert_as_body("solve_triangular", a, b, lower=lower)


def test_pivots_become_permutations():
    pivots = tk.ops.lu_factor(numbers((3, 9, 6), "float32"))[1].numpy()
    for rows in (None, 9):
        chosen = pivots if rows else pivots[..., :6].clip(max=5)
        result = lapack_tuned.PERMUTATION.run(chosen, rows=rows)
        body = PRIMITIVES["pivots_to_permutation"].body
        assert result.tobytes() == body(np, chosen, rows=rows).tobytes()


@pytest.mark.parametrize("name", ["inv", "det", "slogdet", "lu_factor", "cholesky"])
def test_singular_and_other_matrices_are_left_to_the_body(name):
    run = PRIMITIVES[name].facets.tuned.run
    assert run(np.zeros((2, 3, 3), np.float32)) is None
    for x in (np.ones((2, 2), np.complex64), np.ones((2, 2), np.float16), np.ones((0, 2, 2))):
        assert run(x) is None


def test_a_zero_on_the_diagonal_is_left_to_the_body():
    a, b = np.eye(3, dtype=np.float32), np.ones((3, 2), np.float32)
    a[1, 1] = 0
    for lower in (False, True):
        assert lapack_tuned.SOLVE_TRIANGULAR.run(a, b, lower=lower) is None
    assert lapack_tuned.SOLVE.run(a, b) is None
    with pytest.raises(tk.errors.InvalidArgumentError, match="not invertible"):
        tk.linalg.triangular_solve(a, b)


def test_right_sides_of_other_kinds_are_left_to_the_body():
    a = np.eye(3, dtype=np.float32)
    for b in (np.ones((3, 2)), np.ones((2, 3, 2), np.float32), np.ones((3, 0), np.float32)):
        assert lapack_tuned.SOLVE.run(a, b) is None
        assert lapack_tuned.SOLVE_TRIANGULAR.run(a, b, lower=True) is None


def test_functions_solve_with_the_bits_of_eager_calls():
    a, b = tk.constant(regular((9, 9), "float32")), tk.constant(numbers((9, 2), "float32"))

    @tk.function
    def solved(a, b):
        return tk.linalg.solve(a, b), tk.linalg.qr(a)[1], tk.linalg.cholesky(a), tk.linalg.det(a)

    eager = (tk.linalg.solve(a, b), tk.linalg.qr(a)[1], tk.linalg.cholesky(a), tk.linalg.det(a))
    for one, other in zip(solved(a, b), eager, strict=True):
        assert one.numpy().tobytes() == other.numpy().tobytes()


def test_without_its_addresses_the_bodies_serve(monkeypatch):
    monkeypatch.setattr(lapack_tuned, "_is_bound", lambda: False)
    assert lapack_tuned.INVERSE.run(np.eye(2, dtype=np.float32)) is None
    assert tk.linalg.inv([[2.0]]).numpy().tolist() == [[0.5]]


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_of_an_inverse_have_no_sign(dtype):
    y = tk.linalg.inv(np.diag([2.0, 4.0, -8.0]).astype(dtype)).numpy()
    assert not np.signbit(y[y == 0]).any()


@pytest.mark.parametrize("name", ["cholesky", "inv", "lu_factor", "qr"])
def test_matrices_with_more_axes_than_the_compiled_half_has_room_for(name):
    shape = (1,) * 40 + (3, 3)
    run = PRIMITIVES[name].facets.tuned.run
    settings = {"mode": "reduced"} if name == "qr" else {}
    assert run(regular((3, 3), "float32").reshape(shape), **settings) is None
    result = getattr(tk.ops, name)(regular((3, 3), "float32").reshape(shape))
    expected = getattr(tk.ops, name)(regular((3, 3), "float32"))
    for many, one in zip(tk.nest.flatten(result), tk.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(np.ravel(many), np.ravel(one), rtol=1e-4, atol=1e-6)
