"""Complex numbers and boxes under TensorFlow's names; numbers are those of TensorFlow 2.21."""

import numpy as np
import pytest

import trainkit as tk

Z = np.complex64([3 + 4j, 1 - 2j])


def slope(f, x):
    x = tk.constant(x)
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x)


@pytest.mark.parametrize("wrap", [lambda f: f, tk.function], ids=["eager", "traced"])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_l2_normalize_takes_absolute_values(dtype, wrap):
    y = wrap(tk.math.l2_normalize)(tk.constant(Z.astype(dtype)))
    assert y.dtype == tk.as_dtype(dtype)
    np.testing.assert_allclose(y, Z / np.linalg.norm(Z), rtol=1e-6)
    rows = np.stack([Z, 2 * Z])
    np.testing.assert_allclose(
        tk.math.l2_normalize(rows, axis=1), np.stack([Z, Z]) / np.linalg.norm(Z), rtol=1e-6
    )


def test_l2_normalize_has_tensorflows_gradient():
    found = slope(tk.math.l2_normalize, Z)
    expected = [0.10954452 - 0.09737289j, 0.15823096 + 0.04868644j]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_squared_difference_is_real_and_not_negative():
    other = np.complex64([1, 2j])
    y = tk.math.squared_difference(Z, other)
    np.testing.assert_allclose(y, [20, 17])
    found = slope(lambda x: tk.math.squared_difference(x, other), Z)
    np.testing.assert_allclose(found, [4 + 8j, 2 - 8j])
    assert tk.math.squared_difference([3, 4], [1, 7]).numpy().tolist() == [4, 9]


BOXES = np.float32(
    [
        [0, 0, 1, 1],
        [0, 0.1, 1, 1.1],
        [0, -0.1, 1, 0.9],
        [0, 10, 1, 11],
        [0, 10.1, 1, 11.1],
        [0, 100, 1, 101],
    ]
)
SCORES = np.float32([0.9, 0.75, 0.6, 0.95, 0.5, 0.3])


@pytest.mark.parametrize(
    ("settings", "numbers", "scores"),
    [
        (
            {"soft_nms_sigma": 0.5},
            [3, 0, 1, 5, 4, 2],
            [0.95, 0.9, 0.38400355, 0.3, 0.2560026, 0.19697244],
        ),
        (
            {"soft_nms_sigma": 0.1, "iou_threshold": 0.5},
            [3, 0, 5, 1, 4, 2],
            [0.95, 0.9, 0.3, 0.02638949, 0.01759308, 0.00228782],
        ),
        ({"soft_nms_sigma": 0.5, "score_threshold": 0.38}, [3, 0, 1], [0.95, 0.9, 0.38400355]),
        ({}, [3, 0, 5], [0.95, 0.9, 0.3]),
    ],
)
def test_soft_suppression_lowers_scores_and_drops_no_box(settings, numbers, scores):
    found, lowered = tk.image.non_max_suppression_with_scores(BOXES, SCORES, 6, **settings)
    assert found.numpy().tolist() == numbers
    np.testing.assert_allclose(lowered, scores, rtol=1e-5)
