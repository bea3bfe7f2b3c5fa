import numpy as np
import pytest

import trainkit as tk
from tests.ops.numpy_compare import assert_same
from trainkit import ops
from trainkit.core.errors import InvalidArgumentError, ShapeError

X = np.random.default_rng(0).normal(size=(2, 3, 4))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("order", [None, 0, 1, 2, 3, -1, 0.5, np.inf, -np.inf])
def test_vector_norms_agree_with_numpy(order, keepdims):
    assert_same(ops.norm(X, order, 1, keepdims), np.linalg.norm(X, order, 1, keepdims))
    assert_same(ops.norm(X[0, 0], order), np.linalg.norm(X[0, 0], order))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [(0, 1), (2, 0), (-1, 1)])
@pytest.mark.parametrize("order", [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
def test_matrix_norms_agree_with_numpy(order, axis, keepdims):
    assert_same(ops.norm(X, order, axis, keepdims), np.linalg.norm(X, order, axis, keepdims))
    assert_same(ops.norm(X[0], order), np.linalg.norm(X[0], order))


def test_all_elements_are_one_vector_by_default():
    assert_same(ops.norm(X), np.linalg.norm(X))
    assert ops.norm([3, 4]).dtype == "float32"
    assert float(ops.norm([3 + 4j])) == 5


def test_distances_between_points():
    x, y = X[0], X[1][:2]
    expected = np.sqrt(((x[:, None] - y[None]) ** 2).sum(-1))
    assert_same(ops.cdist(x, y), expected)
    assert tuple(ops.cdist(X, X[:1]).shape) == (2, 3, 3)


def test_errors_say_what_is_wrong():
    with pytest.raises(ShapeError, match="needs one axis or two"):
        ops.norm(X, 1)
    with pytest.raises(InvalidArgumentError, match="is for matrices"):
        ops.norm(X, "fro", 0)
    with pytest.raises(InvalidArgumentError, match="ord=7 is no order of matrices"):
        ops.norm(X, 7, (0, 1))
    with pytest.raises(ShapeError, match="cdist: needs points"):
        ops.cdist([1.0], [2.0])


def test_norms_of_integers_are_integers_in_tensorflow():
    x = tk.constant([[3, -4], [1, 1]])
    for y, want in [
        (tk.math.reduce_euclidean_norm(x), 5),
        (tk.norm(x, ord=1), 9),
        (tk.norm(x, ord=np.inf, axis=1), [4, 1]),
    ]:
        assert y.dtype == "int32"
        assert y.numpy().tolist() == want
    assert tk.norm(x).dtype == "float32"


def test_the_euclidean_norm_of_complex_numbers_is_of_their_magnitudes():
    x = tk.constant([3 + 4j, 12j], "complex64")
    y = tk.math.reduce_euclidean_norm(x)
    assert y.dtype == "complex64"
    assert abs(complex(y) - 13) < 1e-5


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_dtypes_of_norms_of_complex_numbers_are_tensorflows(dtype):
    x = tk.constant([[3j, 4.0], [1.0, 1j]], dtype)
    assert tk.norm(x).dtype == tk.norm(x, ord=2, axis=0).dtype == x.dtype
    assert complex(tk.norm(x[0])) == 5
    assert tk.norm(x, ord=1).dtype == tk.norm(x, ord=2, axis=(0, 1)).dtype == x.dtype.real_dtype
    assert tk.linalg.slogdet(x)[1].dtype == tk.nn.moments(x, axes=[0])[1].dtype == x.dtype
    assert tk.ops.norm(x).dtype == x.dtype.real_dtype


def test_norms_of_no_numbers_are_those_of_keras():
    for x in (tk.zeros((0,)), tk.zeros((0, 3))):
        assert np.all(tk.ops.norm(x, ord=np.inf, axis=0) == -np.inf)
        assert np.all(tk.ops.norm(x, ord=-np.inf, axis=0, keepdims=True) == np.inf)
        assert float(tk.norm(x, ord=np.inf)) == -np.inf
    assert float(tk.ops.norm(tk.zeros((0, 3)), ord=2)) == -np.inf
    with tk.GradientTape() as tape:
        x = tk.Variable(tk.zeros((0,)))
        y = tk.ops.norm(x, ord=np.inf)
    assert tape.gradient(y, x).shape == (0,)
    assert tk.function(lambda x: tk.ops.norm(x, ord=np.inf))(tk.zeros(0)).numpy() == -np.inf


def test_errors_of_ranges_of_no_numbers_name_the_operation():
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"ptp: .* axis 0 of shape \(0, 3\)"):
        tk.ops.ptp(tk.zeros((0, 3)), axis=0)
    assert tk.ops.ptp(tk.zeros((0, 3)), axis=1).shape == (0,)


def test_a_root_of_a_matrix_with_nan_is_refused_by_name():
    x = np.stack([np.eye(2), np.full((2, 2), np.nan)]).astype("float32")
    with pytest.raises(tk.errors.InvalidArgumentError, match="holds NaN or infinity"):
        tk.linalg.sqrtm(x)
