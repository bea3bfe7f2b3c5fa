import numpy as np
import pytest

from tests.ops.numpy_compare import assert_same
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.ops import image

IMAGE = np.arange(2 * 4 * 6 * 3.0).reshape(2, 4, 6, 3)


def test_patches_lie_side_by_side_in_the_channels():
    found = image.extract_patches(IMAGE, 2)
    expected = IMAGE.reshape(2, 2, 2, 3, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(2, 2, 3, 12)
    assert_same(found, expected)
    assert_same(image.extract_patches(IMAGE[0], 2), expected[0])


def test_strides_gaps_and_padding():
    found = image.extract_patches(IMAGE, (3, 2), strides=(1, 2)).numpy()
    assert_same(
        image.extract_patches(IMAGE, (3, 2), strides=(1, 2))[0, 1, 2], IMAGE[0, 1:4, 4:6].ravel()
    )
    assert found.shape == (2, 2, 3, 18)
    gaps = image.extract_patches(IMAGE, 2, strides=1, dilation_rate=2)
    assert_same(gaps[1, 0, 3], IMAGE[1, 0:3:2, 3:6:2].ravel())
    padded = image.extract_patches(IMAGE, 3, strides=2, padding="same")
    assert tuple(padded.shape) == (2, 2, 3, 27)
    assert_same(padded[0, 0, 0], IMAGE[0, :3, :3].ravel())


def test_volumes_have_patches_too():
    volume = np.arange(4 * 4 * 4 * 2.0).reshape(1, 4, 4, 4, 2)
    found = image.extract_patches(volume, (2, 2, 2))
    assert_same(found, image.extract_patches_3d(volume, 2))
    assert_same(found[0, 1, 0, 1], volume[0, 2:, :2, 2:].ravel())


def test_images_are_cropped_and_padded():
    inner = IMAGE[:, 1:3, 2:5]
    assert_same(image.crop_images(IMAGE, 1, 2, 1, 1), inner)
    assert_same(image.crop_images(IMAGE, 1, 2, target_height=2, target_width=3), inner)
    cut = image.crop_images(
        IMAGE, bottom_cropping=1, right_cropping=1, target_height=2, target_width=3
    )
    assert_same(cut, inner)
    outer = np.pad(IMAGE, ((0, 0), (1, 2), (0, 3), (0, 0)))
    assert_same(image.pad_images(IMAGE, 1, 0, 2, 3), outer)
    assert_same(image.pad_images(IMAGE, 1, 0, target_height=7, target_width=9), outer)


ERRORS = [
    (lambda: image.crop_images(IMAGE, 1, 2), "exactly two of top_cropping, bottom_cropping"),
    (lambda: image.crop_images(IMAGE, 1, 1, 1, 1, 2, 2), "exactly two"),
    (lambda: image.crop_images(IMAGE, 2, 0, 2, 0), "target_height must be 1 or more, got 0"),
    (
        lambda: image.pad_images(IMAGE, 1, 0, target_height=3, target_width=6),
        "bottom_padding must be 0",
    ),
    (lambda: image.extract_patches(IMAGE, 2, padding="full"), "'full' is none of"),
    (lambda: image.extract_patches(IMAGE, 0), "size must be 2 whole numbers above 0"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_ranks_must_fit():
    with pytest.raises(ShapeError, match="expected 4 for one image or 5"):
        image.extract_patches_3d(IMAGE[0], 2)
    with pytest.raises(InvalidArgumentError, match="strides must be 2"):
        image.extract_patches(IMAGE, 2, strides=(1, 1, 1))
