import numpy as np
import pytest

import trainkit as tk
from tests.ops.numpy_compare import assert_same
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.ops import image

IMAGE = np.random.default_rng(0).random((2, 16, 14, 3))


def test_a_blurred_dot_is_a_bell():
    dot = np.zeros((7, 7, 1))
    dot[3, 3] = 1
    found = image.gaussian_blur(dot, (5, 3), (2.0, 1.0)).numpy()[..., 0]  # along width, height
    rows, columns = (np.exp(-0.5 * (np.arange(-n, n + 1) / s) ** 2) for n, s in ((2, 1), (1, 2)))
    bell = np.outer(rows / rows.sum(), columns / columns.sum())
    np.testing.assert_allclose(found[1:6, 2:5], bell, atol=1e-12)
    assert found.sum() == pytest.approx(1)


def test_blur_keeps_shape_dtype_and_layout():
    first = image.gaussian_blur(IMAGE.transpose(0, 3, 1, 2), data_format="channels_first")
    assert_same(first, image.gaussian_blur(IMAGE).numpy().transpose(0, 3, 1, 2))
    assert image.gaussian_blur(np.uint8(IMAGE * 255)).dtype == "uint8"


def test_edges_are_slopes():
    ramp = (np.arange(5.0)[:, None] * 2 + np.arange(6.0) * 3)[None, ..., None]
    edges = image.sobel_edges(ramp).numpy()[0, :, :, 0]
    np.testing.assert_allclose(edges[1:-1, 1:-1], np.broadcast_to([16, 24], (3, 4, 2)))
    np.testing.assert_allclose(edges[0, :, 0], 0)  # mirrored there
    first = image.sobel_edges(ramp.transpose(0, 3, 1, 2), data_format="channels_first")
    assert tuple(first.shape) == (1, 1, 5, 6, 2)


def test_equal_images_are_similar():
    assert_same(image.ssim(IMAGE, IMAGE), [1, 1])
    assert float(image.ssim(IMAGE[0], IMAGE[0])) == pytest.approx(1)
    assert 0 < float(image.ssim(IMAGE[0], IMAGE[0] * 0.9)) < 1
    assert float(image.ssim(IMAGE[0], IMAGE[1])) < 0.2


def test_similarity_by_the_formula():
    a, b = IMAGE[0, :3, :3, :1], IMAGE[1, :3, :3, :1]
    bell = np.exp(-0.5 * (np.arange(-1, 2) / 1.5) ** 2)
    w = np.outer(bell, bell)[..., None] / bell.sum() ** 2
    ma, mb = (w * a).sum(), (w * b).sum()
    va, vb, cov = (
        (w * x * y).sum() - m for x, y, m in ((a, a, ma**2), (b, b, mb**2), (a, b, ma * mb))
    )
    c1, c2 = 0.01**2, 0.03**2
    expected = (2 * ma * mb + c1) * (2 * cov + c2) / ((ma**2 + mb**2 + c1) * (va + vb + c2))
    assert float(image.ssim(a, b, filter_size=3)) == pytest.approx(expected)


def test_elastic_images_move_a_little_and_by_the_seed():
    still = image.elastic_transform(IMAGE, alpha=0.0, seed=1)
    assert_same(still, IMAGE)
    one, two = (image.elastic_transform(IMAGE, seed=s).numpy() for s in (1, 1))
    np.testing.assert_array_equal(one, two)
    assert abs(one - IMAGE).max() > 0.01
    assert abs(image.elastic_transform(IMAGE, seed=2).numpy() - one).max() > 0.01
    assert one.min() >= IMAGE.min()
    assert one.max() <= IMAGE.max()


def test_errors_say_what_is_wrong():
    with pytest.raises(InvalidArgumentError, match="kernel_size must be two numbers above 0"):
        image.gaussian_blur(IMAGE, (0, 3))
    with pytest.raises(InvalidArgumentError, match="filter_size must be an odd number"):
        image.ssim(IMAGE, IMAGE, filter_size=4)
    with pytest.raises(ShapeError, match="two images of one shape, at least 11 pixels"):
        image.ssim(IMAGE[:, :8], IMAGE[:, :8])
    with pytest.raises(ShapeError, match="needs a batch of images"):
        image.sobel_edges(IMAGE[0])
    with pytest.raises(tk.errors.InvalidArgumentError, match="sigma must be two numbers above 0"):
        image.elastic_transform(IMAGE, sigma=0.0)
