import numpy as np
import pytest

from tests.ops.numpy_compare import assert_same
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.ops import image

LINE = np.array([1.0, 2.0, 3.0, 4.0])
IMAGE = np.random.default_rng(0).random((2, 5, 6, 3))
SAME = [1.0, 0, 0, 0, 1, 0, 0, 0]

OUTSIDE = {  # at -2, -1, ... 5
    "constant": [9, 9, 1, 2, 3, 4, 9, 9],
    "nearest": [1, 1, 1, 2, 3, 4, 4, 4],
    "wrap": [3, 4, 1, 2, 3, 4, 1, 2],
    "mirror": [3, 2, 1, 2, 3, 4, 3, 2],
    "reflect": [2, 1, 1, 2, 3, 4, 4, 3],
}


@pytest.mark.parametrize("mode", OUTSIDE)
@pytest.mark.parametrize("order", [0, 1])
def test_what_is_outside(mode, order):
    places = [np.arange(-2.0, 6.0)]
    found = image.map_coordinates(LINE, places, order, fill_mode=mode, fill_value=9)
    assert found.tolist() == OUTSIDE[mode]


def test_places_between_are_weighted():
    assert image.map_coordinates(LINE, [[0.25, 2.5]], 1).tolist() == [1.25, 3.5]
    assert image.map_coordinates(LINE, [[0.4, 0.6, 2.5]], 0).tolist() == [1, 2, 3]
    grid = np.arange(6.0).reshape(2, 3)
    assert image.map_coordinates(grid, [[0.5], [1.5]], 1).tolist() == [3.0]
    assert image.map_coordinates(np.int32([0, 5]), [[0.5]], 1).tolist() == [2]


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_transforms_that_move_whole_pixels(interpolation):
    assert_same(image.affine_transform(IMAGE, SAME, interpolation), IMAGE)
    moved = image.affine_transform(IMAGE, [1, 0, 2, 0, 1, -1, 0, 0], interpolation)
    expected = np.zeros_like(IMAGE)
    expected[:, 1:, :-2] = IMAGE[:, :-1, 2:]
    assert_same(moved, expected)
    turned = image.affine_transform(IMAGE[:, :, :5], [0, 1, 0, 1, 0, 0, 0, 0], interpolation)
    assert_same(turned, IMAGE[:, :, :5].transpose(0, 2, 1, 3))


def test_each_image_may_have_its_own_transform():
    found = image.affine_transform(IMAGE, [SAME, [1, 0, 1, 0, 1, 0, 0, 0]], fill_mode="wrap")
    assert_same(found[0], IMAGE[0])
    assert_same(found[1], np.roll(IMAGE[1], -1, 1))


def test_one_image_and_channels_first():
    assert_same(image.affine_transform(IMAGE[0], SAME), IMAGE[0])
    first = IMAGE.transpose(0, 3, 1, 2)
    assert_same(image.affine_transform(first, SAME, data_format="channels_first"), first)


def test_four_points_come_to_their_places():
    start = np.array([[0.0, 0], [0, 4], [5, 0], [5, 4]])
    assert_same(image.perspective_transform(IMAGE, start, start), IMAGE)
    moved = image.perspective_transform(IMAGE[0], start, start + np.array([1, 0]), fill_value=-1)
    assert_same(moved[:, 1:], IMAGE[0, :, :-1])
    np.testing.assert_allclose(moved[:, 0], -1)


ERRORS = [
    (lambda: image.map_coordinates(LINE, [[0.0]], 2), "order must be 0 or 1"),
    (lambda: image.map_coordinates(LINE, [[0.0]], 1, "edge"), "'edge' is none of"),
    (lambda: image.affine_transform(IMAGE, SAME, "cubic"), "'cubic' is none of"),
    (lambda: image.affine_transform(IMAGE, SAME, data_format="last"), "data_format"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_shapes_must_fit():
    with pytest.raises(ShapeError, match="needs 1 coordinates, got 2"):
        image.map_coordinates(LINE, [[0.0], [0.0]], 1)
    with pytest.raises(ShapeError, match=r"transform must be \(8,\) or \(2, 8\)"):
        image.affine_transform(IMAGE, SAME[:6])
    with pytest.raises(ShapeError, match="start_points must be"):
        image.perspective_transform(IMAGE, np.ones((3, 2)), np.ones((4, 2)))
    with pytest.raises(InvalidArgumentError, match="not invertible"):
        image.perspective_transform(IMAGE, np.ones((4, 2)), np.ones((4, 2)))


@pytest.mark.parametrize(("shift", "row"), [(1.5, [2, 3, 3, 3]), (-9.5, [1, 0, 1, 2])])
def test_places_between_two_pixels_are_reflected_before_the_nearest_is_taken(shift, row):
    x = np.arange(4.0, dtype="float32").reshape(1, 1, 4, 1)
    moved = image.affine_transform(x, [1, 0, shift, 0, 1, 0, 0, 0], "nearest", "reflect")
    assert moved.numpy().ravel().tolist() == row  # as in TensorFlow 2.21
