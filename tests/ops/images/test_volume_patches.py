import numpy as np
import pytest

import trainkit as tk

SHAPE = (2, 4, 5, 4, 2)
X = np.arange(np.prod(SHAPE), dtype="f").reshape(SHAPE)

# Sizes, strides, padding; then shape, sum of numbers times their channel, and first numbers of the
# last patch of the second volume: TensorFlow's.
ROWS = [
    ([1, 2, 3, 2, 1], [1, 1, 1, 1, 1], "VALID", (2, 3, 3, 3, 24), 2561976, [260, 261, 262, 263]),
    ([1, 2, 3, 2, 1], [1, 2, 2, 1, 1], "SAME", (2, 2, 3, 4, 24), 1518664, [270, 271, 0, 0]),
    ([1, 3, 3, 3, 1], [1, 1, 2, 3, 1], "SAME", (2, 4, 3, 2, 54), 4975040, [268, 269, 270, 271]),
    ([1, 1, 1, 1, 1], [1, 3, 3, 3, 1], "VALID", (2, 2, 2, 2, 2), 2496, [310, 311]),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize(("sizes", "strides", "padding", "shape", "total", "start"), ROWS)
def test_patches_are_tensorflows(sizes, strides, padding, shape, total, start, dtype):
    y = tk.extract_volume_patches(X.astype(dtype), sizes, strides, padding)
    assert y.dtype == dtype
    assert y.shape == shape
    assert np.sum(y.numpy().astype("d") * np.arange(shape[-1])) == total
    assert y[1, -1, -1, -1].numpy()[: len(start)].tolist() == start
    graph = tk.function(lambda x: tk.extract_volume_patches(x, sizes, strides, padding))
    np.testing.assert_array_equal(graph(X.astype(dtype)), y)


def test_volumes_smaller_than_a_patch_have_none():
    y = tk.extract_volume_patches(X, [1, 5, 1, 1, 1], [1] * 5, "VALID")
    assert y.shape == (2, 0, 5, 4, 10)


def test_gradients():
    def patches(x):
        return tk.extract_volume_patches(x, [1, 2, 3, 2, 1], [1, 2, 2, 1, 1], "SAME")

    tk.autodiff.check_gradient(patches, [np.sin(X[:1, :, :3, :2])])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ksizes": [2, 1, 1, 1, 1]}, "ksizes must be 1 for batch and channels"),
        ({"ksizes": [1, 0, 1, 1, 1]}, "ksizes must be 1 for batch .* above 0"),
        ({"ksizes": [1] * 4}, "ksizes must be a list of 5 ints"),
        ({"strides": [1, 1, 1, 1, 2]}, "strides must be 1 for batch"),
        ({"strides": 1}, "strides must be a list of 5 ints, got 1"),
        ({"padding": "same"}, "must be 'SAME' or 'VALID', got 'same'"),
        ({"input": X[0]}, r"got shape \(4, 5, 4, 2\)"),
        ({"input": X > 0}, "must hold real numbers, got bool"),
    ],
)
def test_bad_settings_say_what_is_wrong(settings, words):
    plain = {"input": X, "ksizes": [1] * 5, "strides": [1] * 5, "padding": "VALID"}
    with pytest.raises((ValueError, tk.errors.InvalidArgumentError), match=words):
        tk.extract_volume_patches(**{**plain, **settings})
