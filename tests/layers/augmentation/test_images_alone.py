"""Random changes of images: what they do at known extremes, on and off."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import layers
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.graph.tracing.function import function

IMAGES = np.random.default_rng(1).uniform(0, 255, size=(6, 8, 10, 3)).astype("float32")
FIRST = np.moveaxis(IMAGES, -1, 1)
MAKERS = [
    lambda **more: layers.RandomFlip(seed=1, **more),
    lambda **more: layers.RandomTranslation(0.3, 0.2, seed=1, **more),
    lambda **more: layers.RandomRotation(0.2, seed=1, **more),
    lambda **more: layers.RandomZoom(0.3, seed=1, **more),
    lambda **more: layers.RandomZoom(0.3, (-0.2, 0.0), seed=1, **more),
    lambda **more: layers.RandomCrop(4, 5, seed=1, **more),
    lambda **more: layers.RandomContrast(0.5, seed=1, **more),
    lambda **more: layers.RandomBrightness(0.3, seed=1, **more),
    lambda **more: layers.RandomShear(0.3, 0.2, seed=1, **more),
    lambda **more: layers.RandomPerspective(1.0, 0.5, seed=3, **more),
    lambda **more: layers.RandomElasticTransform(1.0, seed=3, **more),
    lambda **more: layers.RandomInvert(0.9, seed=2, **more),
    lambda **more: layers.RandomSharpness(0.9, seed=1, **more),
    lambda **more: layers.RandomGaussianBlur(1.0, 5, seed=3, **more),
    lambda **more: layers.RandomHue(0.9, seed=1, **more),
    lambda **more: layers.RandomSaturation((0.1, 0.9), seed=1, **more),
    lambda **more: layers.RandomGrayscale(0.5, seed=1, **more),
    lambda **more: layers.RandomColorDegeneration(0.9, seed=1, **more),
    lambda **more: layers.RandomColorJitter((0, 255), 0.2, 0.2, 0.4, 0.3, seed=1, **more),
    lambda **more: layers.RandomPosterization((1, 8), seed=1, **more),
    lambda **more: layers.Solarization(0.5, 0.5, seed=1, **more),
    lambda **more: layers.RandomErasing(seed=3, fill_value=(1, 2, 3), **more),
    lambda **more: layers.AugMix(seed=1, **more),
    lambda **more: layers.RandAugment(num_ops=4, seed=1, **more),
]
AMONG_EACH_OTHER = [
    lambda **more: layers.CutMix(seed=1, **more),
    lambda **more: layers.MixUp(0.9, seed=1, **more),
]


@pytest.mark.parametrize("make", MAKERS + AMONG_EACH_OTHER)
def test_changes_are_on_by_default_repeat_by_seed_and_agree_in_both_formats(make):
    layer = make()
    one, two = layer(IMAGES).numpy(), layer(IMAGES).numpy()
    assert not np.array_equal(one, two)
    np.testing.assert_array_equal(make()(IMAGES).numpy(), one)
    first = make(data_format="channels_first")(FIRST).numpy()
    np.testing.assert_allclose(np.moveaxis(first, 1, -1), one, rtol=1e-4, atol=1e-2)
    traced = function(make())
    np.testing.assert_allclose(traced(IMAGES).numpy(), one, rtol=1e-4, atol=1e-2)
    single = make()(IMAGES[0])
    assert single.shape == one.shape[1:]
    assert layer.weights == []


@pytest.mark.parametrize("make", MAKERS + AMONG_EACH_OTHER)
def test_without_training_images_stay(make):
    np.testing.assert_array_equal(make()(IMAGES, training=False).numpy(), IMAGES)


def test_a_flip_mirrors_some_of_the_images():
    images = np.repeat(IMAGES[:1], 200, axis=0)
    y = layers.RandomFlip("horizontal", seed=1)(images).numpy()
    mirrored = (y == images[:, :, ::-1]).all(axis=(1, 2, 3))
    kept = (y == images).all(axis=(1, 2, 3))
    assert (mirrored | kept).all()
    assert 60 < mirrored.sum() < 140
    vertical = layers.RandomFlip("vertical", seed=1)(images).numpy()
    assert ((vertical == images[:, ::-1]) | (vertical == images)).all(axis=(1, 2, 3)).all()


def test_a_translation_moves_down_and_right():
    y = layers.RandomTranslation(
        (0.25, 0.25), (0.2, 0.2), fill_mode="constant", fill_value=-1.0, interpolation="nearest"
    )(IMAGES).numpy()
    np.testing.assert_array_equal(y[:, 2:, 2:], IMAGES[:, :-2, :-2])
    assert (y[:, :2] == -1).all()


def test_a_quarter_turn_is_exact():
    square = IMAGES[:, :8, :8]
    y = layers.RandomRotation((0.25, 0.25))(square).numpy()
    np.testing.assert_allclose(y, np.rot90(square, 1, axes=(1, 2)), atol=1e-2)


def test_a_zoom_out_shrinks_the_picture():
    y = layers.RandomZoom((1.0, 1.0), fill_mode="constant")(np.ones((1, 9, 9, 1), "float32"))
    seen = y.numpy()[0, :, :, 0] > 0.9
    assert seen.sum() == 25
    assert seen[2:7, 2:7].all()


def test_a_crop_is_a_window():
    y = layers.RandomCrop(4, 5, seed=3)(IMAGES).numpy()
    windows = [(IMAGES[:, i : i + 4, j : j + 5] == y).all() for i in range(5) for j in range(6)]
    assert sum(windows) == 1
    assert layers.RandomCrop(12, 12)(IMAGES).shape == (6, 12, 12, 3)


def test_light_stays_in_range():
    bright = layers.RandomBrightness((0.5, 0.5))(IMAGES).numpy()
    np.testing.assert_allclose(bright, np.minimum(IMAGES + 127.5, 255), rtol=1e-5)
    contrast = layers.RandomContrast((0.0, 1.0), (-1000, 1000), seed=1)
    steep = contrast(IMAGES).numpy()
    np.testing.assert_allclose(steep.mean((1, 2)), IMAGES.mean((1, 2)), rtol=1e-3)
    assert (steep.std((1, 2)) > IMAGES.std((1, 2))).all()


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: layers.RandomFlip("diagonal"), InvalidArgumentError, "mode must be one of"),
        (lambda: layers.RandomRotation(2.0), InvalidArgumentError, r"within \[-1.0, 1.0\]"),
        (lambda: layers.RandomZoom((0.5, 1.1)), InvalidArgumentError, "height_factor"),
        (lambda: layers.RandomZoom((-1, 0)), InvalidArgumentError, "nothing is left"),
        (lambda: layers.RandomRotation(0.1, "zero"), InvalidArgumentError, "fill_mode"),
        (lambda: layers.RandomContrast(1.5), InvalidArgumentError, "RandomContrast: factor"),
        (lambda: layers.RandomFlip()(np.ones((2, 2))), ShapeError, "images have 3 axes"),
    ],
)
def test_bad_settings_are_named(make, error, text):
    with pytest.raises(error, match=text):
        make()


@pytest.mark.parametrize("first", [False, True])
def test_the_middle_of_images_of_any_size(first, rng):
    format_ = "channels_first" if first else "channels_last"
    layer = tk.layers.CenterCrop(4, 5, data_format=format_)
    i = tk.keras.Input((3, None, None) if first else (None, None, 3))
    y = layer(i)
    assert y.shape == ((None, 3, 4, 5) if first else (None, 4, 5, 3))
    model = tk.keras.Model(i, y)
    spec = tk.TensorSpec([None, 3, None, None] if first else [None, None, None, 3])
    traced = tk.function(layer, input_signature=[spec])
    for size in ((9, 8), (4, 5), (3, 9), (2, 2)):
        x = rng.normal(size=(2, 3, *size) if first else (2, *size, 3)).astype("float32")
        expected = layer(x)
        np.testing.assert_array_equal(model(x), expected)
        np.testing.assert_allclose(traced(x), expected, rtol=1e-6, atol=1e-6)
