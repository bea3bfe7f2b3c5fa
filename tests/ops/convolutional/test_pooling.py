"""Pooling against windows looked at one by one."""

import itertools

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops
from trainkit.autodiff.tape import GradientTape
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import convert_to_tensor
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.tf.nn import max_pool


def looked_at(x, w, reduce):
    y = np.zeros((x.shape[0], *w.out, x.shape[-1]), x.dtype)
    for at in itertools.product(*map(range, w.out)):
        seen = tuple(
            slice(max(p * s - a, 0), p * s - a + k)
            for p, s, (a, _), k in zip(at, w.strides, w.pads, w.window, strict=True)
        )
        axes = tuple(range(1, x.ndim - 1))
        y[(slice(None), *at)] = reduce(x[(slice(None), *seen)], axis=axes)
    return y


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize("strides", [1, 2])
def test_pooling_equals_windows_looked_at(rng, rank, padding, strides):
    sizes = (7, 6, 5)[:rank]
    x = rng.normal(size=(2, *sizes, 3))
    w = Windows(sizes, (3,) * rank, (strides,) * rank, padding, (1,) * rank)
    for op, reduce in ((ops.max_pool, np.max), (ops.average_pool, np.mean)):
        found = op(x, 3, strides, padding).numpy()
        np.testing.assert_allclose(found, looked_at(x, w, reduce), atol=1e-12)


def test_strides_are_the_window_by_default():
    assert ops.max_pool(np.zeros((1, 6, 6, 1)), (2, 3)).shape == (1, 3, 2, 1)


def test_channels_first_is_channels_last_transposed(rng):
    x = rng.normal(size=(2, 6, 6, 3))
    first = ops.max_pool(x.transpose(0, 3, 1, 2), 2, data_format="channels_first").numpy()
    np.testing.assert_array_equal(first.transpose(0, 2, 3, 1), ops.max_pool(x, 2).numpy())


def test_the_gradient_of_a_maximum_goes_to_the_first_of_equal_elements():
    x = convert_to_tensor(np.array([1.0, 5.0, 5.0, 5.0, 0.0, 5.0]).reshape(1, 6, 1))
    with GradientTape() as tape:
        tape.watch(x)
        y = ops.max_pool(x, 3, 1)
    found = tape.gradient(y, x).numpy().ravel()
    np.testing.assert_array_equal(found, [0, 2, 1, 1, 0, 0])


def test_padding_is_no_part_of_a_mean():
    x = np.ones((1, 3, 3, 1), "float32")
    np.testing.assert_array_equal(ops.average_pool(x, 2, 1, "same").numpy(), x)


def test_integers_keep_their_type_in_a_maximum_and_become_floats_in_a_mean():
    x = np.arange(4, dtype="int32").reshape(1, 4, 1)
    largest, mean = ops.max_pool(x, 2, padding="same"), ops.average_pool(x, 2)
    assert (largest.dtype.name, mean.dtype.name) == ("int32", "float32")
    np.testing.assert_array_equal(mean.numpy().ravel(), [0.5, 2.5])


@pytest.mark.parametrize(("op", "reduce"), [("max", np.max), ("average", np.mean)])
@pytest.mark.parametrize("sizes", [(5, 7), (10, 6), (4, 12)])
@pytest.mark.parametrize("output_size", [(3, 2), (5, 7), (7, 5), (1, 1), (5, 3), (2, 12), (4, 1)])
def test_adaptive_pooling_covers_the_input_in_nearly_equal_windows(
    rng, op, reduce, sizes, output_size
):
    x = rng.normal(size=(2, *sizes, 3))
    pooled = getattr(ops, f"adaptive_{op}_pool")(x, output_size).numpy()
    assert pooled.shape == (2, *output_size, 3)
    for i, j in itertools.product(*map(range, output_size)):
        rows, columns = (
            slice(k * n // m, -(-(k + 1) * n // m))
            for k, n, m in zip((i, j), sizes, output_size, strict=True)
        )
        np.testing.assert_allclose(pooled[:, i, j], reduce(x[:, rows, columns], axis=(1, 2)))


@pytest.mark.parametrize("op", ["max", "average"])
@pytest.mark.parametrize("output_size", [1, 2, 3])
def test_adaptive_pooling_of_no_images_and_of_unknown_many(rng, op, output_size):
    pool = getattr(ops, f"adaptive_{op}_pool")
    shape = (0, output_size, output_size, 3)
    assert pool(np.zeros((0, 4, 6, 3), "float32"), output_size).shape == shape
    x = rng.normal(size=(2, 4, 6, 3)).astype("float32")
    spec = tk.TensorSpec((None, 4, 6, 3))
    traced = tk.function(lambda x: pool(x, output_size), input_signature=[spec])
    np.testing.assert_allclose(traced(x), pool(x, output_size), rtol=1e-6)
    channels = tk.TensorSpec((None, 4, 6, None))
    traced = tk.function(lambda x: pool(x, output_size), input_signature=[channels])
    np.testing.assert_allclose(traced(x), pool(x, output_size), rtol=1e-6)


@pytest.mark.parametrize("output_size", [1, 2, 3])
def test_means_of_large_adaptive_windows_have_the_digits_of_float32(rng, output_size):
    x = rng.uniform(size=(1, 150, 150, 2)).astype("float32")
    wide = ops.adaptive_average_pool(x.astype("float64"), output_size)
    np.testing.assert_allclose(ops.adaptive_average_pool(x, output_size), wide, rtol=4e-7)


def test_a_window_larger_than_the_input_is_an_error():
    with pytest.raises(ShapeError, match="spans 4 positions"):
        ops.max_pool(np.zeros((1, 3, 5, 1)), 4)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: ops.max_pool(x, 0),
        lambda x: ops.max_pool(x, 2, padding="full"),
        lambda x: ops.average_pool(x, 2, data_format="NCHW"),
        lambda x: ops.adaptive_max_pool(x, (1, 2, 3)),
    ],
)
def test_a_setting_that_is_not_supported_is_an_error(call):
    with pytest.raises(InvalidArgumentError):
        call(np.zeros((1, 4, 4, 1)))


def test_a_window_over_channels_takes_the_greatest_of_neighbours():
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 6)).astype("float32")
    found = max_pool(x, (1, 1, 1, 3), (1, 1, 1, 3), "VALID")
    np.testing.assert_array_equal(found.numpy(), x.reshape(2, 3, 4, 2, 3).max(-1))
    with pytest.raises(InvalidArgumentError, match="k divides the channels"):
        max_pool(x, (1, 1, 1, 4), (1, 1, 1, 4), "VALID")
    with pytest.raises(InvalidArgumentError, match="the same strides"):
        max_pool(x, (1, 2, 2, 3), (1, 2, 2, 3), "VALID")
