"""One image turned, moved, sheared and zoomed: against SciPy, and by hand."""

import numpy as np
import pytest

import trainkit as tk

images = tk.keras.preprocessing.image


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("mode", ["nearest", "constant", "reflect", "mirror", "wrap"])
def test_places_outside_are_filled_as_scipy_fills_them(mode, order, rng):
    ndimage = pytest.importorskip("scipy.ndimage")
    image = rng.uniform(size=(9, 12, 3))
    turn = np.deg2rad(35.0)
    sine, cosine = np.sin(turn), np.cos(turn)
    matrix = np.array([[cosine, sine], [-sine, cosine]])
    middle = np.array([5.5, 4.0])  # Keras takes height and width for x and y
    offset = matrix @ (np.array([3.0, -2.0]) - middle) + middle
    ours = images.apply_affine_transform(
        image, theta=35, tx=-2, ty=3, row_axis=0, col_axis=1, channel_axis=2,
        fill_mode=mode, cval=0.5, order=order,
    )  # fmt: skip
    theirs = ndimage.affine_transform(
        image[..., 0], matrix, offset, order=order, mode=mode, cval=0.5
    )
    assert ours.shape == image.shape
    np.testing.assert_allclose(ours[..., 0], theirs, atol=1e-6)


def test_nothing_to_do_gives_the_image_itself():
    image = np.ones((1, 2, 2))
    assert images.apply_affine_transform(image) is image


def test_integers_are_rounded():
    image = np.array([[[0, 10, 20]]], "uint8")
    moved = images.apply_affine_transform(image, tx=0.26)
    assert moved.dtype == np.uint8
    assert moved.tolist() == [[[3, 13, 20]]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"fill_mode": "edge"}, "fill_mode='edge'; use one of nearest"),
        ({"order": 3}, "order=3; use 0"),
        ({"row_axis": 0}, "the axes must be 0, 1 and 2, channels first or last"),
    ],
)
def test_other_arguments_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        images.apply_affine_transform(np.ones((3, 4, 4)), theta=3, **arguments)


def test_a_batch_is_no_image():
    with pytest.raises(ValueError, match=r"one image has three axes, the array has shape \(1, 3"):
        images.apply_affine_transform(np.ones((1, 3, 4, 4)), theta=3)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: images.random_rotation(x, 30),
        lambda x: images.random_shift(x, 0.3, 0.2),
        lambda x: images.random_shear(x, 20),
        lambda x: images.random_zoom(x, (0.5, 1.5)),
        lambda x: images.random_channel_shift(x, 30.0),
        lambda x: images.random_brightness(x.transpose(1, 2, 0), (0.5, 0.8)).transpose(2, 0, 1),
    ],
)
def test_changes_by_chance_follow_the_seed_of_numpy(change, rng):
    image = rng.uniform(0, 255, size=(3, 7, 8)).astype("float32")
    np.random.seed(1)
    first, second = change(image), change(image)
    np.random.seed(1)
    np.testing.assert_array_equal(change(image), first)
    assert first.shape == image.shape
    assert not np.array_equal(first, second)


def test_two_numbers_are_needed():
    for change in (images.random_zoom, images.random_brightness):
        with pytest.raises(ValueError, match=r"must be two numbers, got 0\.5"):
            change(np.ones((3, 4, 4)), 0.5)


def test_brightness_works_on_256_levels_and_comes_back():
    levels = images.apply_brightness_shift([[[0.0], [100.7], [255.0]]], 1.5, scale=False)
    assert levels.ravel().tolist() == [0.0, 150.0, 255.0]
    back = images.apply_brightness_shift([[[-1.0], [0.0], [1.0]]], 0.5, scale=False)
    np.testing.assert_allclose(back.ravel(), [-1.0, 63 / 127.5 - 1, 127 / 127.5 - 1], rtol=1e-6)
