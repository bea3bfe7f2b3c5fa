"""Compiled images of other sizes against products with whole matrices of weights."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.kernels.resizing import resize_tuned
from trainkit.ops import image
from trainkit.ops.images.pixel_weights import fixed_weights
from trainkit.ops.images.weighted_images import weighted_pixels

# (batch, height, width, channels), new (height, width)
SIZES = [
    ((2, 7, 9, 3), (4, 5)),
    ((2, 7, 9, 3), (15, 12)),
    ((1, 5, 30, 1), (9, 7)),
    ((3, 8, 4, 4), (3, 21)),
    ((2, 6, 5, 37), (13, 11)),
    ((1, 1, 1, 2), (3, 1)),
    ((1, 9, 8, 16), (1, 1)),
    ((2, 4, 6, 3), (4, 6)),
    ((1, 12, 200, 3), (7, 210)),  # rows that are added in pairs
    ((1, 12, 150, 4), (25, 190)),
]
METHODS = [("bilinear", False), ("bilinear", True), ("bicubic", True), ("lanczos5", False)]
METHODS += [("area", False), ("gaussian", True), ("mitchellcubic", False)]


def matrices(shape, size, method, antialias, dtype="float32"):
    return [fixed_weights(shape[i + 1], size[i], method, antialias, dtype) for i in range(2)]


def by_kernel(x, matrices):
    return resize_tuned.resize(x, *map(resize_tuned.bands_of, matrices))


def exactly(x, matrices):
    rows, columns = (m.astype("float64") for m in matrices)
    return np.einsum("Hh,Ww,bhwc->bHWc", rows, columns, x.astype("float64"))


@pytest.mark.parametrize(("method", "antialias"), METHODS)
@pytest.mark.parametrize(("shape", "size"), SIZES)
def test_images_and_gradients_are_those_of_whole_matrices(
    eager, rng, shape, size, method, antialias
):
    x = rng.normal(size=shape).astype("float32")
    g = rng.normal(size=(shape[0], *size, shape[3])).astype("float32")
    weights = matrices(shape, size, method, antialias)
    turned = [m.T for m in weights]
    for images, both in ((x, weights), (g, turned), (np.asfortranarray(x), weights)):
        result = by_kernel(images, both)
        assert result.dtype == np.float32
        np.testing.assert_allclose(result, exactly(images, both), rtol=0, atol=4e-6)


def test_bands_hold_what_is_not_zero():
    matrix = np.float32([[0, 1, 0, 2, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 5], [3, 0, 0, 0, 0]])
    old, bands, weights = resize_tuned.bands_of(matrix)
    assert old == 5
    assert bands[:, 1].tolist() == [3, 0, 1, 1]
    assert bands[[0, 2, 3], 0].tolist() == [1, 4, 0]
    assert weights.tolist() == [[1, 0, 2], [0, 0, 0], [5, 0, 0], [3, 0, 0]]


def test_pixels_without_old_ones_are_zero(eager, rng):
    x = rng.normal(size=(1, 3, 3, 3)).astype("float32")
    matrix = np.float32([[0, 0, 0], [0, 1, 0], [0, 0, 0], [0.5, 0, 0.5]])
    result = by_kernel(x, [matrix, matrix])
    np.testing.assert_allclose(result, exactly(x, [matrix, matrix]), atol=1e-6)
    assert not result[:, [0, 2]].any()
    result = by_kernel(x, [matrix[:2], matrix])
    np.testing.assert_allclose(result, exactly(x, [matrix[:2], matrix]), atol=1e-6)


@pytest.mark.parametrize("size", [(3, 5), (20, 18)])
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_what_is_not_finite_stays_where_it_is(eager, channels, size):
    x = np.ones((1, 8, 9, channels), "float32")
    x[0, 2, 7], x[0, 6, 1] = np.inf, np.nan
    weights = matrices(x.shape, size, "bilinear", False)
    touched = exactly(np.isfinite(x) == 0, weights) != 0
    np.testing.assert_array_equal(~np.isfinite(by_kernel(x, weights)), touched)


@pytest.mark.parametrize("size", [(31, 40), (99, 120)])
def test_the_same_bits_by_one_thread_and_by_several(eager, rng, monkeypatch, size):
    x = rng.normal(size=(3, 60, 70, 5)).astype("float32")
    weights = matrices(x.shape, size, "bicubic", True)
    monkeypatch.setattr(resize_tuned, "shared", lambda work: (0, 1))
    one = by_kernel(x, weights)
    for parts in (2, 7, 64):
        monkeypatch.setattr(resize_tuned, "shared", lambda work, parts=parts: (0, parts))
        np.testing.assert_array_equal(by_kernel(x, weights), one)


def test_other_numbers_and_sizes_are_left_to_the_plain_version(eager, rng):
    x = rng.normal(size=(2, 4, 5, 3)).astype("float32")
    weights = matrices(x.shape, (3, 3), "bilinear", False)
    assert by_kernel(x.astype("float64"), weights) is None
    assert by_kernel(x[:0], weights) is None
    assert by_kernel(x[:, :3], weights) is None


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "uint8", "int32"])
@pytest.mark.parametrize(("method", "antialias"), [("bilinear", False), ("bicubic", True)])
def test_images_of_all_numbers_with_kernels_and_without(kernels, rng, method, antialias, dtype):
    x = tk.cast(rng.integers(0, 200, (2, 12, 9, 3)), dtype)
    results = []
    for mode in ("off", "eager"):
        kernels(mode)
        for size in ((5, 4), (17, 30)):
            y = image.resize(x, size, method, antialias)
            assert y.dtype == x.dtype
            results.append(tk.cast(y, "float64").numpy())
    bound = {"float16": 0.13, "bfloat16": 1.01, "uint8": 1, "int32": 1}.get(dtype, 1e-4)
    for plain, compiled in zip(results[:2], results[2:], strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=0, atol=bound)


@pytest.mark.usefixtures("mode")
def test_batches_of_unknown_size_and_of_none():
    function = tk.function(
        lambda x: image.resize(x, (7, 3), "bicubic"),
        input_signature=[tk.TensorSpec((None, 4, 6, 2), tk.float32)],
    )
    for count in (3, 0):
        x = tk.reshape(tk.range(count * 48, dtype="float32"), (count, 4, 6, 2))
        np.testing.assert_array_equal(function(x), image.resize(x, (7, 3), "bicubic"))
        assert function(x).shape == (count, 7, 3, 2)


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("size", [(3, 4), (9, 11)])
def test_gradients_of_gradients(rng, size):
    x = tk.constant(rng.normal(size=(1, 5, 6, 2)).astype("float32"))
    with tk.GradientTape() as outer:
        outer.watch(x)
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.reduce_sum(image.resize(x, size, "bicubic", antialias=True) ** 2)
        gradient = tape.gradient(y, x)
    weights = matrices(x.shape, size, "bicubic", True, "float64")
    squares = [m.T @ m for m in weights]
    np.testing.assert_allclose(gradient, 2 * exactly(x.numpy(), squares), atol=1e-5)
    expected = 2 * exactly(np.ones(x.shape), squares)
    np.testing.assert_allclose(outer.gradient(gradient, x), expected, atol=1e-5)


def test_a_stack_of_batches_goes_at_once(rng):
    x = rng.normal(size=(3, 2, 4, 5, 1)).astype("float32")
    stacked = tk.vectorized_map(lambda item: image.resize(item, (6, 3)), x)
    np.testing.assert_allclose(stacked, [image.resize(item, (6, 3)) for item in x], atol=1e-6)


def test_weights_have_to_fit_the_images():
    settings = {"method": "bilinear", "antialias": False, "transposed": False}
    graph = tk.function(lambda x: weighted_pixels(x, np.ones((2, 3)), np.ones((2, 5)), **settings))
    with pytest.raises(tk.errors.InvalidArgumentError, match="do not fit images"):
        graph(tk.ones((1, 4, 5, 3)))
