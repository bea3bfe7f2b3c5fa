"""Convolution layers: their shapes and what they refuse; the operations' tests have numbers."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import layers, ops
from trainkit.core.errors import InvalidArgumentError, ShapeError

IMAGE = np.random.default_rng(1).normal(size=(2, 7, 6, 4)).astype("float32")
FIRST = np.moveaxis(IMAGE, -1, 1)


@pytest.mark.parametrize(
    "kind",
    [
        lambda data_format: layers.Conv2D(6, 3, 2, "same", data_format, groups=2),
        lambda data_format: layers.Conv2DTranspose(3, 3, 2, data_format=data_format),
        lambda data_format: layers.DepthwiseConv2D(3, data_format=data_format),
        lambda data_format: layers.SeparableConv2D(3, 2, data_format=data_format),
    ],
    ids=["conv", "transpose", "depthwise", "separable"],
)
def test_both_data_formats_agree(kind):
    last, first = kind("channels_last"), kind("channels_first")
    y = last(IMAGE).numpy()
    first(FIRST)
    weights = [w + 0.1 for w in last.get_weights()]
    last.set_weights(weights)
    first.set_weights(weights)
    y = last(IMAGE).numpy()
    np.testing.assert_allclose(np.moveaxis(first(FIRST).numpy(), 1, -1), y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activation", ["relu", "tanh", None])
@pytest.mark.parametrize(
    "kind",
    [
        lambda **more: layers.DepthwiseConv2D(3, 2, "same", depth_multiplier=2, **more),
        lambda **more: layers.SeparableConv2D(5, 3, depth_multiplier=2, **more),
    ],
    ids=["depthwise", "separable"],
)
def test_bias_and_activation_come_after_the_sums(kind, activation):
    layer = kind(activation=activation, bias_initializer="random_normal")
    y = layer(IMAGE)
    sums = kind(use_bias=False)
    sums(IMAGE)
    sums.set_weights(layer.get_weights()[:-1])
    expected = layer.activation(sums(IMAGE) + layer.bias.value())
    np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


def test_causal_convolution_sees_no_later_step():
    layer = layers.Conv1D(2, 3, padding="causal", dilation_rate=2)
    x = np.random.default_rng(1).normal(size=(1, 8, 3)).astype("float32")
    y = layer(x).numpy()
    x[:, 5:] = 0
    np.testing.assert_array_equal(layer(x).numpy()[:, :5], y[:, :5])


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize(("strides", "dilation_rate"), [(1, 1), (1, 4), (2, 1)])
def test_causal_convolution_is_one_behind_zeros_and_makes_no_padded_copy(
    rng, data_format, strides, dilation_rate
):
    settings = {
        "strides": strides,
        "dilation_rate": dilation_rate,
        "data_format": data_format,
        "bias_initializer": "random_normal",
        "activation": "relu",
    }
    causal = layers.Conv1D(5, 3, padding="causal", **settings)
    valid = layers.Conv1D(5, 3, padding="valid", **settings)
    x = tk.constant(rng.normal(size=(2, 9, 4)).astype("float32"))
    width = [(0, 0), (0, 0), (0, 0)]
    width[1 if data_format == "channels_last" else 2] = (2 * dilation_rate, 0)
    y = causal(x)
    valid.build(tk.pad(x, width).shape)
    valid.set_weights(causal.get_weights())
    np.testing.assert_allclose(y, valid(tk.pad(x, width)), rtol=1e-5, atol=1e-6)
    graph = tk.function(causal).get_concrete_function(x).graph
    names = {node.primitive.name for node in graph.nodes if node.kind == "op"}
    assert "conv" in names
    assert not names & {"pad", "add"}  # zeros and bias are the convolution's own


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: layers.Conv2D(4, (3, 3, 3)), "kernel_size must be one int or 2 of them"),
        (lambda: layers.Conv2D(4, 0), "kernel_size must be an int of 1 or more"),
        (lambda: layers.Conv2D(4, 3, padding="full"), "padding must be one of 'valid', 'same'"),
        (lambda: layers.Conv2D(4, 3, padding="causal"), "padding must be one of"),
        (lambda: layers.Conv2D(4, 3, data_format="first"), "data_format must be one of"),
        (lambda: layers.Conv2D(5, 3, groups=2), "5 filters do not fall into 2 groups"),
        (lambda: layers.Conv2D(4, 3, strides=2, dilation_rate=2), "can't both be above 1"),
        (lambda: layers.Conv1DTranspose(2, 3, 2, output_padding=2), "below the strides"),
    ],
)
def test_bad_settings_are_named(make, text):
    with pytest.raises(InvalidArgumentError, match=text):
        make()


@pytest.mark.parametrize(("strides", "dilation_rate"), [(2, 2), ((1, 2), (2, 1)), ((2, 2), (1, 2))])
@pytest.mark.parametrize("padding", ["valid", "same"])
def test_windows_of_single_channels_may_have_strides_and_dilations(strides, dilation_rate, padding):
    settings = {"padding": padding, "dilation_rate": dilation_rate}
    layer = layers.DepthwiseConv2D(3, strides, depth_multiplier=2, **settings)
    y = layer(IMAGE)
    assert tuple(y.shape) == tuple(layer.compute_output_shape(IMAGE.shape))
    # each channel by a convolution that has one alone
    each = [
        ops.conv(IMAGE[..., i : i + 1], layer.kernel[:, :, i : i + 1], strides, **settings)
        for i in range(IMAGE.shape[-1])
    ]
    np.testing.assert_allclose(y, ops.concatenate(each, axis=-1), rtol=1e-5, atol=1e-6)
    separable = layers.SeparableConv2D(5, 3, strides, **settings)
    separable.build(IMAGE.shape)
    expected = ops.depthwise_conv(IMAGE, separable.depthwise_kernel, strides, **settings)
    expected = ops.matmul(expected, separable.pointwise_kernel[0, 0])
    np.testing.assert_allclose(separable(IMAGE), expected, rtol=1e-5, atol=1e-6)


def test_inputs_that_do_not_fit_are_named():
    layer = layers.Conv2D(6, 3, groups=3)
    with pytest.raises(ShapeError, match=r"4 input channels do not fall into 3 groups"):
        layer(IMAGE)
    layer = layers.Conv2D(4, 3, name="stem")
    layer(IMAGE)
    with pytest.raises(ShapeError, match=r"'stem'.*size 3, the layer was built for 4"):
        layer(IMAGE[..., :3])
    with pytest.raises(ShapeError, match="must have 4 axes, it has 3"):
        layer(IMAGE[0])
    with pytest.raises(ShapeError, match=r"channels \(axis -1\) must be known"):
        layers.Conv2D(4, 3).build((None, 5, 5, None))
    with pytest.raises(ShapeError, match=r"larger|window"):
        layers.Conv2D(4, 9)(IMAGE)


def test_aliases_are_the_same_classes():
    assert layers.Convolution2D is layers.Conv2D
    assert layers.MaxPool2D is layers.MaxPooling2D
    assert layers.GlobalAvgPool1D is layers.GlobalAveragePooling1D


@pytest.mark.parametrize("layer", [tk.layers.Conv1D, tk.layers.Conv2D, tk.layers.Conv3D])
@pytest.mark.parametrize("settings", [{}, {"padding": "same", "use_bias": False}, {"strides": 2}])
def test_the_convolution_can_be_called_and_overridden(layer, settings, rng):
    class Doubled(layer):
        def convolution_op(self, inputs, kernel):
            return super().convolution_op(inputs, kernel * 2.0)

    x = tk.constant(rng.normal(size=(2, *[6] * layer.rank, 3)).astype("float32"))
    plain = layer(4, 3, activation="relu", bias_initializer="ones", **settings)
    doubled = Doubled(4, 3, activation="relu", bias_initializer="ones", **settings)
    plain(x), doubled(x)
    doubled.set_weights([w / 2 if w.ndim > 1 else w for w in plain.get_weights()])
    np.testing.assert_allclose(doubled(x), plain(x), rtol=1e-5, atol=1e-5)
    bare = plain.convolution_op(x, plain.kernel)
    shift = 0.0 if plain.bias is None else plain.bias
    np.testing.assert_allclose(tk.nn.relu(bare + shift), plain(x), rtol=1e-5, atol=1e-5)


def test_an_overridden_convolution_is_used_with_channels_first_and_causal(rng):
    class Doubled(tk.layers.Conv1D):
        def convolution_op(self, inputs, kernel):
            return super().convolution_op(inputs, kernel * 2.0)

    x = tk.constant(rng.normal(size=(2, 8, 3)).astype("float32"))
    plain, doubled = (kind(4, 3, padding="causal") for kind in (tk.layers.Conv1D, Doubled))
    plain(x), doubled(x)
    doubled.set_weights(plain.get_weights())
    np.testing.assert_allclose(doubled(x), 2.0 * plain(x), rtol=1e-5, atol=1e-5)
    first = Doubled(4, 3, data_format="channels_first", bias_initializer="ones")
    y = first(tk.transpose(x, (0, 2, 1)))
    last = Doubled(4, 3, bias_initializer="ones")
    last.build((None, 8, 3))
    last.set_weights(first.get_weights())
    np.testing.assert_allclose(tk.transpose(y, (0, 2, 1)), last(x), rtol=1e-5, atol=1e-5)
