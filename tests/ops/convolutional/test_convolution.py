"""Convolutions against sums written out position by position, and what they say about bad input."""

import itertools

import numpy as np
import pytest

from trainkit.autodiff.tape import GradientTape
from trainkit.core.dispatch import eval_shape
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import convert_to_tensor
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.ops.convolutional.convolution import conv, depthwise_conv, separable_conv
from trainkit.ops.convolutional.transposed_convolution import conv_transpose


def written_out(x, kernel, w, groups=1):
    """Cross-correlation by one loop for each axis."""
    padded = np.pad(x, [(0, 0), *w.pads, (0, 0)])
    inside, share = kernel.shape[-2], kernel.shape[-1] // groups
    y = np.zeros((x.shape[0], *w.out, kernel.shape[-1]), x.dtype)
    positions = itertools.product(*map(range, w.out))
    for at, offset in itertools.product(positions, itertools.product(*map(range, w.window))):
        seen = tuple(
            p * s + t * d for p, s, t, d in zip(at, w.strides, offset, w.dilation, strict=True)
        )
        value = padded[(slice(None), *seen)]
        for group in range(groups):
            filters = slice(group * share, (group + 1) * share)
            channels = slice(group * inside, (group + 1) * inside)
            y[(slice(None), *at, filters)] += (
                value[:, channels] @ kernel[(*offset, slice(None), filters)]
            )
    return y


CASES = [
    (rank, stride, dilation, padding, channels)
    for rank in (1, 2, 3)
    for stride, dilation in ((1, 1), (2, 1), (1, 2), (2, 2))
    for padding in ("valid", "same", ((1, 2),) * 3)
    for channels in ((3, 1, 4), (4, 2, 6), (3, 3, 6))
]


@pytest.mark.parametrize(("rank", "stride", "dilation", "padding", "channels"), CASES)
def test_conv_and_its_gradients_equal_sums_written_out(rank, stride, dilation, padding, channels):
    rng = np.random.default_rng(0)
    inputs, groups, filters = channels
    padding = padding if isinstance(padding, str) else padding[:rank]
    sizes, window = (7, 6, 8)[:rank], (3, 2, 3)[:rank]
    x = rng.normal(size=(2, *sizes, inputs))
    kernel = rng.normal(size=(*window, inputs // groups, filters))
    w = Windows(sizes, window, (stride,) * rank, padding, (dilation,) * rank)
    expected = written_out(x, kernel, w, groups)
    tensors = convert_to_tensor(x), convert_to_tensor(kernel)
    with GradientTape() as tape:
        tape.watch(tensors)
        y = conv(*tensors, stride, padding, dilation_rate=dilation)
    np.testing.assert_allclose(y.numpy(), expected, atol=1e-12)
    g = rng.normal(size=expected.shape)
    by_x, by_kernel = tape.gradient(y, tensors, convert_to_tensor(g))
    # conv is linear in each input, so its gradient is the transpose: <conv(dx), g> = <dx, gradient>
    dx, dkernel = rng.normal(size=x.shape), rng.normal(size=kernel.shape)
    np.testing.assert_allclose(
        (by_x.numpy() * dx).sum(), (written_out(dx, kernel, w, groups) * g).sum(), rtol=1e-9
    )
    np.testing.assert_allclose(
        (by_kernel.numpy() * dkernel).sum(),
        (written_out(x, dkernel, w, groups) * g).sum(),
        rtol=1e-9,
    )


def test_conv_takes_chunks_of_the_batch_without_changing_the_result(monkeypatch):
    rng = np.random.default_rng(1)
    x, kernel = rng.normal(size=(5, 6, 6, 2)), rng.normal(size=(3, 3, 2, 3))
    whole = conv(x, kernel).numpy()
    monkeypatch.setattr("trainkit.kernels.convolution.conv_reference.COLUMN_BYTES", 4000)
    np.testing.assert_array_equal(conv(x, kernel).numpy(), whole)


def test_channels_first_is_channels_last_transposed():
    rng = np.random.default_rng(2)
    x, kernel = rng.normal(size=(2, 5, 6, 3)), rng.normal(size=(3, 3, 3, 4))
    last = conv(x, kernel, padding="same").numpy()
    first = conv(x.transpose(0, 3, 1, 2), kernel, padding="same", data_format="channels_first")
    np.testing.assert_allclose(first.numpy(), last.transpose(0, 3, 1, 2))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_conv_keeps_the_dtype(dtype):
    x, kernel = np.ones((1, 4, 4, 8), dtype), np.ones((2, 2, 8, 1), dtype)
    y = conv(x, kernel)
    assert y.dtype.name == dtype
    assert float(y.numpy()[0, 0, 0, 0]) == 32


def test_depthwise_conv_filters_each_channel_by_itself():
    rng = np.random.default_rng(3)
    x, kernel = rng.normal(size=(2, 6, 6, 3)), rng.normal(size=(3, 3, 3, 2))
    y = depthwise_conv(x, kernel, strides=2, padding="same").numpy()
    for channel in range(3):
        alone = conv(x[..., channel : channel + 1], kernel[:, :, channel : channel + 1], 2, "same")
        np.testing.assert_allclose(y[..., 2 * channel : 2 * channel + 2], alone.numpy())


def test_separable_conv_is_depthwise_then_pointwise():
    rng = np.random.default_rng(4)
    x, deep, point = (
        rng.normal(size=(2, 5, 3)),
        rng.normal(size=(2, 3, 2)),
        rng.normal(size=(1, 6, 4)),
    )
    expected = conv(depthwise_conv(x, deep, 2), point)
    np.testing.assert_allclose(separable_conv(x, deep, point, 2).numpy(), expected.numpy())


@pytest.mark.parametrize(
    ("padding", "output_padding", "strides", "length"),
    [("valid", None, 2, 11), ("same", None, 2, 10), ("valid", 1, 3, 16), ("same", 1, 2, 10)],
)
def test_conv_transpose_spreads_inputs_over_windows(padding, output_padding, strides, length):
    rng = np.random.default_rng(5)
    x, kernel = rng.normal(size=(2, 5, 3)), rng.normal(size=(3, 4, 3))
    y = conv_transpose(x, kernel, strides, padding, output_padding).numpy()
    assert y.shape == (2, length, 4)
    z = rng.normal(size=y.shape)
    # the transpose of the convolution from the larger to the smaller size
    np.testing.assert_allclose((conv(z, kernel, strides, padding).numpy() * x).sum(), (y * z).sum())


def test_shapes_are_known_before_values():
    spec = eval_shape.result_specs(
        lambda x, k: conv(x, k, 2, "same"),
        Spec((None, None, 9, 3), "float32"),
        Spec((3, 3, 3, 8), "float32"),
    )
    assert spec == Spec((None, None, 5, 8), "float32")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: conv(np.ones((1, 5, 5, 4)), np.ones((3, 3, 3, 2))), "4 channels.*takes 3"),
        (lambda: conv(np.ones((1, 5, 5)), np.ones((3, 3, 3, 2))), "as many axes as"),
        (lambda: conv(np.ones((1, 2, 5, 3)), np.ones((3, 3, 3, 2))), "spans 3 positions.*has 2"),
        (
            lambda: depthwise_conv(np.ones((1, 5, 4)), np.ones((3, 3, 2))),
            "4 channels, the kernel 3",
        ),
        (
            lambda: conv_transpose(np.ones((1, 5, 4)), np.ones((3, 3, 2))),
            "4 channels, the kernel takes 2",
        ),
    ],
)
def test_shapes_that_do_not_fit_are_shown(call, words):
    with pytest.raises(ShapeError, match=f"(?s){words}"):
        call()


@pytest.mark.parametrize(
    "settings",
    [
        {"padding": "full"},
        {"strides": 0},
        {"strides": (1, 2, 3)},
        {"data_format": "NHWC"},
        {"dilation_rate": -1},
    ],
)
def test_a_setting_that_is_not_supported_is_named(settings):
    name = next(iter(settings))
    with pytest.raises(InvalidArgumentError, match=name):
        conv(np.ones((1, 5, 5, 3)), np.ones((3, 3, 3, 2)), **settings)
