import colorsys

import numpy as np
import pytest

from tests.ops.numpy_compare import assert_same
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.ops import image

IMAGE = np.random.default_rng(0).random((2, 3, 4, 3))


def by_pixel(function, images):
    return np.apply_along_axis(lambda pixel: function(*pixel), -1, images)


def test_hsv_agrees_with_colorsys():
    hsv = by_pixel(colorsys.rgb_to_hsv, IMAGE)
    assert_same(image.rgb_to_hsv(IMAGE), hsv)
    assert_same(image.hsv_to_rgb(hsv), IMAGE)
    first = image.rgb_to_hsv(IMAGE.transpose(0, 3, 1, 2), data_format="channels_first")
    assert_same(first, hsv.transpose(0, 3, 1, 2))


def test_gray_and_black_have_no_hue():
    assert image.rgb_to_hsv([[[0.5, 0.5, 0.5], [0.0, 0.0, 0.0]]]).tolist() == [
        [[0, 0, 0.5], [0, 0, 0]]
    ]


def test_gray_is_a_weighted_sum():
    assert_same(image.rgb_to_grayscale(IMAGE[0]), IMAGE[0] @ [[0.2989], [0.587], [0.114]])
    assert image.rgb_to_grayscale(np.full((1, 1, 3), 200, np.uint8)).tolist() == [[[199]]]


def test_errors_say_what_is_wrong():
    with pytest.raises(InvalidArgumentError, match="expected float dtype, got uint8"):
        image.rgb_to_hsv(np.zeros((2, 2, 3), np.uint8))
    with pytest.raises(ShapeError, match="images need 3 channels, got 4"):
        image.rgb_to_grayscale(np.zeros((2, 2, 4)))
    with pytest.raises(ShapeError, match="expected 3 for one image or 4 for a batch"):
        image.rgb_to_hsv(np.zeros((2, 3)))
