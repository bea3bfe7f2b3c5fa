"""`smart_resize`: the middle of an image in another size."""

import numpy as np
import pytest

from trainkit.core.tensor import convert_to_tensor, is_tensor
from trainkit.keras.preprocessing.image import smart_resize

IMAGES = np.arange(160, dtype="float32").reshape(2, 5, 8, 2) ** 1.5


@pytest.mark.parametrize(
    ("size", "interpolation", "keras"),
    [
        ((3, 3), "bilinear", [29.943499, 213.062592, 522.713745, 889.433329]),
        ((4, 8), "nearest", [0.0, 18.520258, 52.383201, 96.234093]),
    ],
)
def test_numbers_are_those_of_keras(size, interpolation, keras):
    got = smart_resize(IMAGES, size, interpolation)
    assert isinstance(got, np.ndarray)
    assert got.shape == (2, *size, 2)
    np.testing.assert_allclose(got.ravel()[::7][:4], keras, rtol=1e-6)
    first = smart_resize(
        np.moveaxis(IMAGES, -1, 1), size, interpolation, "channels_first", backend_module=None
    )
    np.testing.assert_allclose(np.moveaxis(first, 1, -1), got, rtol=1e-6)
    one = smart_resize(convert_to_tensor(IMAGES[1]), size, interpolation)
    assert is_tensor(one)
    np.testing.assert_allclose(one.numpy(), got[1], rtol=1e-6)


def test_a_quarter_of_the_size_keeps_what_lies_in_the_middle():
    image = np.zeros((4, 12, 1), "uint8")
    image[:, 4:8] = 200
    got = smart_resize(image, (2, 2))
    assert got.dtype == "uint8"
    np.testing.assert_array_equal(got, np.full((2, 2, 1), 200))


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((IMAGES, (1, 2, 3)), ValueError, "height, width"),
        ((IMAGES[0, 0], (1, 2)), ValueError, "3 axes"),
        ((IMAGES, (2, 2), "linear"), ValueError, "interpolation"),
    ],
)
def test_errors(arguments, error, text):
    with pytest.raises(error, match=text):
        smart_resize(*arguments)
    with pytest.raises(TypeError, match="colour"):
        smart_resize(IMAGES, (2, 2), colour=1)
