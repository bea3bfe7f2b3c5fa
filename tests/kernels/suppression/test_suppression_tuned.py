"""Boxes that stay: the kernel, NumPy's loops and a plain double loop agree."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.kernels.suppression import suppression_tuned


def boxes_of(rng, count):
    """Corners in both orders, with boxes that are equal, and some without an area."""
    corners = rng.random((count, 4)).astype("float32")
    corners[: count // 2, 2:] = corners[: count // 2, :2] + 0.2
    corners[::5] = corners[:1]
    corners[1::7, 2:] = corners[1::7, :2]
    return corners


def overlap(one, two):
    """Intersection over union, 0 where one has no area."""
    (a, b), (c, d) = [np.sort(box.astype("float64").reshape(2, 2), axis=0) for box in (one, two)]
    areas = np.prod(b - a), np.prod(d - c)
    if min(areas) <= 0:
        return 0.0
    shared = np.prod(np.maximum(np.minimum(b, d) - np.maximum(a, c), 0))
    return shared / (areas[0] + areas[1] - shared)


def plainly_kept(corners, scores, most, limit, least):
    """Box by box, as TensorFlow's documentation says it."""
    kept = []
    for box in sorted(np.flatnonzero(scores > least), key=lambda i: (-scores[i], i)):
        if len(kept) < most and all(overlap(corners[box], corners[i]) <= limit for i in kept):
            kept.append(box)
    return kept


@pytest.mark.parametrize("limit", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("count", [0, 1, 40, 150])
@pytest.mark.usefixtures("mode")
def test_boxes_are_those_of_a_plain_loop(count, limit, rng):
    corners = boxes_of(rng, count) if count else np.zeros((0, 4), "float32")
    scores = np.round(rng.random(count), 1).astype("float32")
    for most, least in ((count, -np.inf), (7, 0.3)):
        kept = tk.image.non_max_suppression(corners, scores, most, limit, least).numpy()
        assert kept.dtype == np.int32
        np.testing.assert_array_equal(kept, plainly_kept(corners, scores, most, limit, least))


@pytest.mark.usefixtures("mode")
def test_a_box_with_a_nan_drops_none_and_a_score_of_nan_is_none(rng):
    corners = np.tile(boxes_of(rng, 1), (4, 1))
    corners[1, 2] = np.nan
    kept = tk.image.non_max_suppression(corners, [0.5, 0.9, np.nan, 0.4], 4, 0.5)
    np.testing.assert_array_equal(kept, [1, 0])


def test_the_kernel_has_the_bits_of_numpy(kernels, rng):
    corners = boxes_of(rng, 300).T.astype("float64")
    low, high = np.minimum(corners[:2], corners[2:]), np.maximum(corners[:2], corners[2:])
    results = []
    for mode in ("off", "eager"):
        kernels(mode)
        results.append(suppression_tuned.select_boxes(low, high, 300, 0.2))
    assert suppression_tuned.SELECTED_BOXES._ready
    np.testing.assert_array_equal(*results)


def test_given_overlaps_are_asked_for_the_box_behind(rng):
    overlaps = rng.random((30, 30))
    scores = rng.permutation(30).astype("float32")
    kept = []
    for box in np.argsort(-scores):
        if all(overlaps[box, i] <= 0.9 for i in kept):
            kept.append(box)
    found = tk.image.non_max_suppression_overlaps(overlaps, scores, 30, 0.9)
    np.testing.assert_array_equal(found, kept)
