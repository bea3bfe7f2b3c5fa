"""TensorFlow's neural-network and image functions, compared with NumPy."""

import numpy as np
import pytest

import trainkit as tk


def same(got, wanted):
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=2e-5, atol=2e-6)


@pytest.fixture
def images(rng):
    return rng.normal(size=(2, 5, 6, 3)).astype(np.float32)


def test_both_signs():
    same(tk.nn.crelu([[1.0, -2.0]]), [[1, 0, 0, 2]])
    same(tk.nn.crelu([[1.0, -2.0]], axis=0), [[1, 0], [0, 2]])


def depthwise(images, kernel):
    rows, columns = images.shape[1] - 1, images.shape[2] - 1
    parts = [
        images[:, a : a + rows, b : b + columns, :, None] * kernel[a, b]
        for a in (0, 1)
        for b in (0, 1)
    ]
    return sum(parts).reshape(len(images), rows, columns, -1)


def test_depthwise_and_separable_convolutions(images, rng):
    kernel = rng.normal(size=(2, 2, 3, 2)).astype(np.float32)
    points = rng.normal(size=(1, 1, 6, 4)).astype(np.float32)
    wanted = depthwise(images, kernel)
    same(tk.nn.depthwise_conv2d(images, kernel, [1, 1, 1, 1], "VALID"), wanted)
    got = tk.nn.separable_conv2d(images, kernel, points, [1, 1, 1, 1], "VALID")
    same(got, wanted @ points[0, 0])


def test_average_pools(images):
    wanted = images[:, :4].reshape(2, 2, 2, 3, 2, 3).mean((2, 4))
    same(tk.nn.avg_pool(images, 2, 2, "VALID"), wanted)
    with pytest.raises(ValueError, match="use 'SAME' or 'VALID'"):
        tk.nn.avg_pool(images, 2, 2, [[0, 0]] * 4)


def test_poisson_losses():
    z, c = np.array([0.5, 3.0]), np.array([0.2, -1.0])
    plain = np.exp(c) - c * z
    same(tk.nn.log_poisson_loss(z, c), plain)
    stirling = 3 * np.log(3) - 3 + 0.5 * np.log(6 * np.pi)
    same(tk.nn.log_poisson_loss(z, c, compute_full_loss=True), plain + np.array([0, stirling]))


@pytest.mark.parametrize("shape", [(None,), (None, 2)])
def test_an_average_loss_of_a_batch_whose_size_is_not_known(shape):
    average = tk.function(
        tk.nn.compute_average_loss, input_signature=[tk.TensorSpec(shape, "float32")]
    )
    for rows in (2, 5):
        losses = tk.random.normal((rows, *shape[1:]))
        same(average(losses), np.sum(losses.numpy()) / rows)


def test_average_losses():
    same(tk.nn.compute_average_loss([1.0, 2.0, 6.0]), 3)
    same(tk.nn.compute_average_loss([1.0, 2.0], [1.0, 0.5], global_batch_size=4), 0.5)
    same(tk.nn.scale_regularization_loss(2.0), 2)
    with pytest.raises(ValueError, match="the loss must be floating, got int32"):
        tk.nn.scale_regularization_loss(2)


# ------------------------------------------------------------------ tk.image


def test_grey_images_in_color():
    grey = np.arange(4.0, dtype=np.float32).reshape(2, 2, 1)
    same(tk.image.grayscale_to_rgb(grey), np.repeat(grey, 3, -1))


def test_boxes(images):
    same(tk.image.crop_to_bounding_box(images, 1, 2, 3, 4), images[:, 1:4, 2:6])
    padded = np.pad(images, ((0, 0), (1, 2), (0, 3), (0, 0)))
    same(tk.image.pad_to_bounding_box(images, 1, 0, 8, 9), padded)
    with pytest.raises(ValueError, match=r"columns 2 to 7 of an image of 5 by 6"):
        tk.image.crop_to_bounding_box(images, 0, 2, 5, 5)
    with pytest.raises(ValueError, match=r"an image of 5 by 6 does not fit 5 by 6 at \(1, 0\)"):
        tk.image.pad_to_bounding_box(images, 1, 0, 5, 6)


def test_the_middle(images):
    same(tk.image.central_crop(images[:, :4, :4], 0.5), images[:, 1:3, 1:3])


def test_standardized_images(images):
    flat = images.reshape(2, -1)
    wanted = (flat - flat.mean(1, keepdims=True)) / flat.std(1, keepdims=True)
    same(tk.image.per_image_standardization(images), wanted.reshape(images.shape))
    same(tk.image.per_image_standardization(np.ones((2, 2, 1), np.float32)), np.zeros((2, 2, 1)))


@pytest.mark.parametrize("pool", [tk.nn.max_pool2d, tk.nn.max_pool], ids=["max_pool2d", "max_pool"])
def test_borders_of_max_pooling_that_are_listed_win_nowhere(pool):
    x = np.arange(12, dtype=np.float32).reshape(1, 3, 4, 1) - 20
    borders = [[0, 0], [1, 0], [0, 1], [0, 0]]
    # the upper row of windows is a border and the first row of x; by TensorFlow 2.21
    expected = np.float32([[-19.0, -17.0], [-11.0, -9.0]]).reshape(1, 2, 2, 1)
    np.testing.assert_array_equal(pool(x, 2, 2, borders), expected)
    np.testing.assert_array_equal(pool(x.astype(np.int32), 2, 2, borders), expected)
    channels_first = [borders[0], borders[3], *borders[1:3]]
    moved = pool(x.transpose(0, 3, 1, 2), 2, 2, channels_first, "NCHW")
    np.testing.assert_array_equal(np.transpose(moved, (0, 2, 3, 1)), expected)
    with pytest.raises(ValueError, match=r"avg_pool2d: padding .* use 'SAME' or 'VALID'"):
        tk.nn.avg_pool2d(x, 2, 2, borders)
