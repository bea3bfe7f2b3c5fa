"""Bands of diagonals in matrices; the values are TensorFlow 2.21's."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.autodiff.check import check_gradient

LINALG = tk.linalg
NINE = np.arange(1, 10, dtype="float32").reshape(3, 3)
TWELVE = np.arange(1, 13).reshape(3, 4)

ALIGNED = {  # diag (3, 3), diag (3, 4) with 9s, diag_part, diag_part of two below, set_diag
    "RIGHT_LEFT": (
        [[4, 2, 0], [7, 5, 3], [0, 8, 6]],
        [[4, 1, 9, 9], [7, 5, 2, 9], [9, 8, 6, 3]],
        [[-7, 3, 8], [2, 7, 12], [1, 6, 11], [5, 10, -7]],
        [[5, 10], [9, 5]],
        [[-7, -4, -2, 4], [-10, -8, -5, -3], [9, -11, -9, -6]],
    ),
    "LEFT_RIGHT": (
        [[4, 1, 0], [8, 5, 2], [0, 9, 6]],
        [[4, 1, 9, 9], [8, 5, 2, 9], [9, 9, 6, 3]],
        [[3, 8, -7], [2, 7, 12], [1, 6, 11], [-7, 5, 10]],
        [[5, 10], [5, 9]],
        [[-7, -4, -1, 4], [-11, -8, -5, -2], [9, -12, -9, -6]],
    ),
    "LEFT_LEFT": (
        [[4, 1, 0], [7, 5, 2], [0, 8, 6]],
        [[4, 1, 9, 9], [7, 5, 2, 9], [9, 8, 6, 3]],
        [[3, 8, -7], [2, 7, 12], [1, 6, 11], [5, 10, -7]],
        [[5, 10], [9, 5]],
        [[-7, -4, -1, 4], [-10, -8, -5, -2], [9, -11, -9, -6]],
    ),
    "RIGHT_RIGHT": (
        [[4, 2, 0], [8, 5, 3], [0, 9, 6]],
        [[4, 1, 9, 9], [8, 5, 2, 9], [9, 9, 6, 3]],
        [[-7, 3, 8], [2, 7, 12], [1, 6, 11], [-7, 5, 10]],
        [[5, 10], [5, 9]],
        [[-7, -4, -2, 4], [-11, -8, -5, -3], [9, -12, -9, -6]],
    ),
}


def _calls(align, nine, twelve, diagonals):
    return (
        LINALG.diag(nine, k=(-1, 1), align=align),
        LINALG.diag(nine, k=(-1, 1), align=align, num_rows=3, num_cols=4, padding_value=9),
        LINALG.diag_part(twelve, k=(-1, 2), align=align, padding_value=-7),
        LINALG.diag_part(twelve, k=(-2, -1), align=align, padding_value=5),
        LINALG.set_diag(twelve, diagonals, k=(-1, 2), align=align),
    )


@pytest.mark.parametrize("later", [False, True], ids=["eager", "sizes known later"])
@pytest.mark.parametrize("align", ALIGNED)
def test_bands_are_packed_as_align_says(align, later):
    def run(*inputs):
        return _calls(align, *inputs)

    inputs = [tk.constant(x) for x in (NINE, TWELVE, -np.arange(1, 13).reshape(4, 3))]
    if later:
        specs = [
            tk.TensorSpec((3, None), "float32"),
            tk.TensorSpec((None, None), "int64"),
            tk.TensorSpec((4, None), "int64"),
        ]
        run = tk.function(run, input_signature=specs)
    for found, wanted in zip(run(*inputs), ALIGNED[align], strict=True):
        np.testing.assert_array_equal(found, wanted)


SIZES = [
    (([1, 2],), {"k": 1, "num_rows": 4}, [[0, 1, 0], [0, 0, 2], [0, 0, 0], [0, 0, 0]]),
    (([1, 2],), {"k": -1, "num_cols": 5}, [[0] * 5, [1, 0, 0, 0, 0], [0, 2, 0, 0, 0]]),
    (
        ([1, 2],),
        {"num_rows": 2, "num_cols": 5, "padding_value": 3},
        [[1, 3, 3, 3, 3], [3, 2, 3, 3, 3]],
    ),
    (([[1, 2]],), {"k": (1, 1), "num_rows": 2, "num_cols": 4}, [[[0, 1, 0, 0], [0, 0, 2, 0]]]),
    (([1, 2],), {"k": [1]}, [[0, 1, 0], [0, 0, 2], [0, 0, 0]]),
    (
        (np.ones((2, 3)),),
        {"k": (-3, -2)},
        [[0] * 5, [0] * 5, [1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 1, 0, 0]],
    ),
    (
        ([[1, 2, 3], [4, 5, 6]],),
        {"k": (1, 2), "num_rows": 5},
        [[0, 4, 2, 0], [0, 0, 5, 3], [0, 0, 0, 6], [0] * 4, [0] * 4],
    ),
    (
        ([[1, 2, 3], [4, 5, 6]],),
        {"k": (1, 2), "num_cols": 6},
        [[0, 4, 1, 0, 0, 0], [0, 0, 5, 2, 0, 0], [0, 0, 0, 6, 3, 0]],
    ),
    (
        ([[True, True, False], [True, False, True]],),
        {"k": (0, 1), "padding_value": True},
        [[True, True, True], [True, False, False], [True, True, True]],
    ),
]


@pytest.mark.parametrize(("given", "settings", "wanted"), SIZES)
def test_matrices_have_the_sizes_that_are_asked_for(given, settings, wanted):
    found = LINALG.diag(*given, **settings)
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == tk.convert_to_tensor(given[0]).dtype


def test_bands_of_batches_and_complex_numbers():
    found = LINALG.diag_part(np.arange(24).reshape(2, 3, 4), k=(-1, 1))
    wanted = [[[1, 6, 11], [0, 5, 10], [4, 9, 0]], [[13, 18, 23], [12, 17, 22], [16, 21, 0]]]
    np.testing.assert_array_equal(found, wanted)
    found = LINALG.diag_part(np.array([[1 + 2j, 2], [3, 4j]]), k=(0, 1), padding_value=1j)
    np.testing.assert_array_equal(found, [[1j, 2], [1 + 2j, 4j]])
    found = LINALG.diag(tk.constant([[0.0, 1.0], [2.0, 3.0]]), k=tk.constant([0, 1]))
    np.testing.assert_array_equal(found, [[2, 1], [0, 3]])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint8", "bfloat16"])
def test_a_band_comes_back_from_the_matrix_that_it_was_put_into(dtype):
    band = tk.cast(NINE, dtype) * tk.cast([[0, 1, 1], [1, 1, 1], [1, 1, 0]], dtype)
    x = LINALG.diag(band, k=(-1, 1))
    again = LINALG.diag_part(x, k=(-1, 1))
    filled = LINALG.set_diag(tk.zeros_like(x), band, k=(-1, 1))
    assert x.dtype == again.dtype == filled.dtype == dtype
    np.testing.assert_array_equal(tk.cast(again, "float64"), tk.cast(band, "float64"))
    np.testing.assert_array_equal(tk.cast(filled, "float64"), tk.cast(x, "float64"))


def test_gradients_are_tensorflows():
    v = tk.constant(NINE.astype("float64"))
    one = np.arange(9.0).reshape(3, 3)
    with tk.GradientTape(persistent=True) as tape:
        tape.watch(v)
        made = tk.reduce_sum(LINALG.diag(v, k=(-1, 1)) * one)
        part = tk.reduce_sum(LINALG.diag_part(v, k=(-1, 1)) * (one + 1))
        both = tk.reduce_sum(LINALG.set_diag(v, v, k=(-1, 1)) * (one + 1))
    np.testing.assert_array_equal(tape.gradient(made, v), [[0, 1, 5], [0, 4, 8], [3, 7, 0]])
    np.testing.assert_array_equal(tape.gradient(part, v), [[4, 2, 0], [7, 5, 3], [0, 8, 6]])
    np.testing.assert_array_equal(tape.gradient(both, v), [[0, 2, 9], [1, 5, 9], [11, 8, 0]])


@pytest.mark.parametrize("align", ALIGNED)
def test_gradients_are_those_of_differences(align):
    draw = np.random.RandomState(0).normal
    x, d = draw(size=(2, 3, 4)), draw(size=(2, 4, 3))
    check_gradient(lambda d: LINALG.diag(d, k=(-1, 2), align=align, num_cols=6), [d])
    check_gradient(lambda x: LINALG.diag_part(x, k=(-1, 2), align=align), [x])
    check_gradient(lambda x, d: LINALG.set_diag(x, d, k=(-1, 2), align=align), [x, d])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: LINALG.diag([1, 2, 3], num_rows=2, num_cols=5), r"\(2, 5\) does not have"),
        (lambda: LINALG.diag(np.ones((2, 3)), k=(1, 2), num_rows=9, num_cols=9), r"\(9, 9\)"),
        (lambda: LINALG.diag(NINE, k=(1, -1)), "lowest and the highest"),
        (lambda: LINALG.diag(NINE, k=(0, 1)), "diagonals 0 to 1 are 2"),
        (lambda: LINALG.diag(NINE, k=(-1, 1), align="X"), "align is 'X'; it can be"),
        (lambda: LINALG.diag_part(NINE, k=(-1, 7)), "there is no diagonal 7"),
        (lambda: LINALG.diag_part(NINE, k=3), "there is no diagonal 3"),
        (lambda: LINALG.set_diag(NINE, [1.0], k=-3), "there is no diagonal -3"),
        (lambda: LINALG.set_diag(NINE, NINE[:2], k=(-1, 1)), "diagonals -1 to 1 are 3"),
        (lambda: LINALG.set_diag(NINE, NINE[:, :2], k=(-1, 1)), "have 3 elements"),
    ],
)
def test_what_does_not_fit_is_refused(call, words):
    with pytest.raises(tk.errors.InvalidArgumentError, match=words):
        call()


@pytest.mark.parametrize("k", [-2, 0, 3])
@pytest.mark.parametrize("shape", [(0,), (1,), (4,), (2, 3, 4), (2, 0)])
def test_a_diagonal_that_is_not_finite_leaves_zeros_beside_it(shape, k):
    x = np.full(shape, np.inf, "float32")
    n = shape[-1] + abs(k)
    expected = np.zeros((*shape[:-1], n, n), "float32")
    for i in range(shape[-1]):
        expected[..., i + max(-k, 0), i + max(k, 0)] = np.inf
    np.testing.assert_array_equal(tk.linalg.diag(x, k=k), expected)
