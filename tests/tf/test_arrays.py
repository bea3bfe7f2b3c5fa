"""TensorFlow's functions on shapes, indices and loops, compared with NumPy."""

import numpy as np
import pytest

import trainkit as tk

X = np.arange(12.0, dtype=np.float32).reshape(3, 4)


def same(got, wanted):
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-6)


def test_static_shapes():
    assert tk.broadcast_static_shape([2, 1], [3]) == (2, 3)
    same(tk.ensure_shape(X, [None, 4]), X)
    with pytest.raises(ValueError, match=r"\(3, 4\)"):
        tk.ensure_shape(X, [3, 5])


@pytest.mark.parametrize(
    ("begin", "end", "strides", "masks", "wanted"),
    [
        ([0, 1], [2, 3], None, {}, X[0:2, 1:3]),
        ([2, 0], [0, 4], [-1, 2], {}, X[2:0:-1, 0:4:2]),
        ([1, 1], [9, 9], [1, 1], {"begin_mask": 1, "end_mask": 2}, X[:9, 1:]),
        ([1, 0], [2, 4], [1, 1], {"shrink_axis_mask": 1}, X[1, 0:4]),
        ([0, 0], [1, 1], [1, 1], {"new_axis_mask": 1}, X[None, 0:1]),
        ([0, 1], [0, 2], [1, 1], {"ellipsis_mask": 1}, X[..., 1:2]),
    ],
)
def test_strided_slices(begin, end, strides, masks, wanted):
    same(tk.strided_slice(X, begin, end, strides, **masks), wanted)


def test_entries_at_indices():
    updated = X.copy()
    updated[[0, 2]] = 1
    rows = [[0], [2]]
    ones = np.ones((2, 4), np.float32)
    same(tk.tensor_scatter_nd_update(X, rows, ones), updated)
    less = X.copy()
    less[[0, 2]] -= 1
    same(tk.tensor_scatter_nd_sub(X, rows, ones), less)
    same(tk.scatter_nd([[1], [1], [3]], [1.0, 2.0, 5.0], [4]), [0, 3, 0, 5])


def test_an_index_outside_is_refused(on_cpu):
    with pytest.raises(ValueError, match="indices"):
        tk.scatter_nd([[4]], [1.0], [4])


def test_masks_of_lengths():
    same(tk.sequence_mask([1, 3, 0]), [[1, 0, 0], [1, 1, 1], [0, 0, 0]])
    mask = tk.sequence_mask([[2]], maxlen=4, dtype="float32")
    assert mask.dtype == tk.float32
    same(mask, [[[1, 1, 0, 0]]])


def test_folds():
    same(tk.foldl(lambda a, x: a - x, tk.constant([1.0, 2.0, 3.0])), 1 - 2 - 3)
    same(tk.foldr(lambda a, x: a - x, tk.constant([1.0, 2.0, 3.0])), 3 - 2 - 1)
    same(tk.foldl(lambda a, x: a * 2 + x, tk.constant([1.0, 2.0]), initializer=1.0), 8)


@pytest.mark.parametrize(("index", "wanted"), [(0, 10), (1, 20), (7, 30), (-1, 30)])
def test_branches_by_number(index, wanted):
    branches = [lambda: tk.constant(10), lambda: tk.constant(20)]
    got = tk.switch_case(tk.constant(index), branches, default=lambda: tk.constant(30))
    assert int(got) == wanted


def test_branches_by_condition():
    pairs = [(False, lambda: 1), (tk.constant(True), lambda: 2), (True, lambda: 3)]
    assert tk.case(pairs) == 2
    assert tk.case(pairs[:1], default=lambda: 9) == 9
    with pytest.raises(ValueError, match="more than one condition holds"):
        tk.case(pairs, exclusive=True)
    with pytest.raises(ValueError, match="no condition holds, and there is no default"):
        tk.case(pairs[:1])


def test_nothing_to_do():
    assert tk.group(tk.constant(1.0)) is None
    assert tk.no_op() is None


def test_clipping_by_the_average_norm():
    x = np.array([3.0, 4.0], np.float32)  # |x| / 2 = 2.5
    same(tk.clip_by_average_norm(x, 1.0), x / 2.5)
    same(tk.clip_by_average_norm(x, 3.0), x)


def test_rewritten_source():
    def f(x):
        if x > 0:
            return x
        return -x

    converted = tk.autograph.to_graph(f)
    assert int(converted(tk.constant(-3))) == 3
    assert "def " in tk.autograph.to_code(f)
    with pytest.raises(ValueError, match="only recursive=True"):
        tk.autograph.to_graph(f, recursive=False)
    assert "def " in tk.autograph.to_code(f, experimental_optional_features=None)
    with pytest.raises(ValueError, match="only experimental_optional_features=None"):
        tk.autograph.to_code(f, experimental_optional_features="ALL")


# ------------------------------------------------------------------ tk.math and tk.linalg


def test_sums_and_products():
    same(tk.add_n([X, X, X]), 3 * X)
    same(tk.scalar_mul(2.0, X), 2 * X)
    same(tk.math.squared_difference(X, 1.0), (X - 1) ** 2)
    same(tk.math.multiply_no_nan([np.inf, np.nan, 2.0], [0.0, 0.0, 3.0]), [0, 0, 6])
    with pytest.raises(ValueError, match="add_n: the list of tensors is empty"):
        tk.add_n([])
    with pytest.raises(ValueError, match=r"add_n: .* one shape, there are \(3, 4\) and \(4,\)"):
        tk.add_n([X, X[0]])


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("unsorted_segment_mean", [2.5, 2]),
        ("unsorted_segment_max", [4, 2]),
        ("unsorted_segment_min", [1, 2]),
        ("unsorted_segment_prod", [4, 2]),
    ],
)
def test_segments_in_any_order(name, wanted):
    same(getattr(tk.math, name)([1.0, 2.0, 4.0], [0, 1, 0], 2), wanted)


def test_beta_function():
    # B(2, 3) = 1! 2! / 4! = 1 / 12
    same(tk.math.lbeta([2.0, 3.0]), np.log(1 / 12))


def test_diagonals():
    d = np.arange(1.0, 4.0, dtype=np.float32)
    same(tk.linalg.tensor_diag(d), np.diag(d))
    cube = np.arange(4.0).reshape(2, 2)
    spread = tk.linalg.tensor_diag(cube)
    assert spread.shape == (2, 2, 2, 2)
    same(tk.linalg.tensor_diag_part(spread), cube)
    with pytest.raises(ValueError, match="is not one shape twice"):
        tk.linalg.tensor_diag_part(X)
    filled = X[:, :3].copy()
    np.fill_diagonal(filled, d)
    same(tk.linalg.set_diag(X[:, :3], d), filled)
    above = X.copy()
    above[[0, 1, 2], [1, 2, 3]] = d
    same(tk.linalg.set_diag(X, d, k=1), above)
    below = X.copy()
    below[[1, 2], [0, 1]] = d[:2]
    same(tk.linalg.set_diag(X, d[:2], k=-1), below)


@pytest.mark.parametrize(("lower", "upper"), [(0, 0), (1, 0), (-1, 0), (0, -1), (1, 1)])
def test_bands(lower, upper):
    i, j = np.indices(X.shape)
    keep = ((lower < 0) | (i - j <= lower)) & ((upper < 0) | (j - i <= upper))
    same(tk.linalg.band_part(X, lower, upper), np.where(keep, X, 0))


def test_solving_by_a_cholesky_factor(rng):
    a = rng.normal(size=(2, 3, 3))
    a = a @ a.swapaxes(-1, -2) + np.eye(3)
    b = rng.normal(size=(2, 3, 2))
    got = tk.linalg.cholesky_solve(tk.linalg.cholesky(a), b)
    np.testing.assert_allclose(got.numpy(), np.linalg.solve(a, b), rtol=1e-9)


def test_eigenvalues_alone(rng):
    a = rng.normal(size=(4, 4))
    got = np.sort_complex(tk.linalg.eigvals(a).numpy())
    np.testing.assert_allclose(got, np.sort_complex(np.linalg.eigvals(a)), rtol=1e-9)
