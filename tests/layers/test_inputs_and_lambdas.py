"""Input layers, lambdas, embeddings and reshaping: what they take and refuse."""

import numpy as np
import pytest

from trainkit import keras
from trainkit.keras import layers

X = np.ones((2, 3), "float32")


def test_an_input_layer_has_its_symbolic_tensor():
    layer = layers.InputLayer(shape=(3,), batch_size=2)
    assert isinstance(layer.output, keras.KerasTensor)
    assert tuple(layer.output.shape) == (2, 3)
    assert layer.output is layer.output
    assert (layer.sparse, layer.ragged) == (False, False)
    given = keras.KerasTensor((2, 3))
    layer = layers.InputLayer(input_tensor=given, shape=(3,), batch_size=2, dtype="float32")
    assert layer.output is given
    model = keras.Model(given, layers.Dense(1)(given))
    assert model(X).shape == (2, 1)


def test_an_input_takes_all_arguments_of_its_layer():
    assert keras.Input((3,), ragged=False, sparse=False).shape == (None, 3)
    assert keras.Input(None, None, None, None, None, (2, 3)).shape == (2, 3)
    for kind in ("sparse", "ragged"):
        with pytest.raises(ValueError, match="not supported"):
            keras.Input((3,), **{kind: True})


@pytest.mark.parametrize("take", [iter, list, lambda x: max(*x)])
def test_a_symbol_is_not_iterated_over(take):
    with pytest.raises(NotImplementedError, match="unstack"):
        take(keras.KerasTensor((2, 3)))


@pytest.mark.parametrize(
    "given",
    [
        {"shape": (2, 3), "batch_shape": (2, 3)},
        {"batch_size": 4, "batch_shape": (2, 3)},
        {"input_tensor": np.zeros((2, 3))},
        {"input_tensor": keras.KerasTensor((2, 3)), "shape": (4,)},
        {"input_tensor": keras.KerasTensor((2, 3)), "batch_shape": (2, 4)},
        {"input_tensor": keras.KerasTensor((2, 3)), "batch_size": 5},
        {"input_tensor": keras.KerasTensor((2, 3)), "dtype": "float16"},
    ],
)
def test_settings_of_an_input_that_contradict_are_refused(given):
    with pytest.raises(ValueError, match="InputLayer"):
        layers.InputLayer(**given)


def test_the_old_name_of_an_inputs_shape_is_warned_of():
    with pytest.warns(UserWarning, match="old name of shape"):
        layer = layers.InputLayer(input_shape=(2, 3), batch_size=4)
    assert layer.batch_shape == (4, 2, 3)


def test_a_lambda_supports_masks_only_if_it_has_one():
    assert not layers.Lambda(lambda x: x).supports_masking
    assert layers.Lambda(lambda x: x, mask=lambda x, m: m).supports_masking


@pytest.mark.filterwarnings("ignore:a lambda goes into the config")
def test_a_lambda_is_read_where_the_safe_mode_is_off():
    config = layers.Lambda(lambda x: x**2).get_config()
    with pytest.raises(ValueError, match="safe_mode"):
        layers.Lambda.from_config(config)
    np.testing.assert_array_equal(layers.Lambda.from_config(config, safe_mode=False)(2 * X), 4 * X)


@pytest.mark.parametrize("wrap", [lambda w: w, lambda w: [w]])
def test_an_embedding_given_its_table_is_built(wrap):
    table = np.arange(12, dtype="float32").reshape(3, 4)
    layer = layers.Embedding(3, 4, weights=wrap(table))
    np.testing.assert_array_equal(layer.embeddings, table)
    np.testing.assert_array_equal(layer(np.array([2])), table[2:])


def test_a_config_that_makes_no_layer_raises_what_keras_does():
    for error in (TypeError, ValueError):
        with pytest.raises(error, match="input_dim"):
            layers.Embedding.from_config({"input_dim": 3.7, "output_dim": 8})


def test_reshaping_layers_check_their_settings():
    for make in (
        lambda: layers.Reshape((-2, 5)),
        lambda: layers.Reshape((-1, -1, 5)),
        lambda: layers.Cropping1D((1,)),
        lambda: layers.Cropping1D("1"),
        lambda: layers.ZeroPadding1D((1, 2, 3)),
        lambda: layers.UpSampling1D(0),
    ):
        with pytest.raises(ValueError, match=r"must|more than once"):
            make()
    for make in (lambda: layers.RepeatVector("3"), lambda: layers.UpSampling1D(2.5)):
        with pytest.raises(TypeError, match="must be an int"):
            make()


def test_configs_of_paddings_hold_what_keras_has():
    assert layers.ZeroPadding1D((1, 2)).get_config()["padding"] == (1, 2)
    assert layers.ZeroPadding1D(2).get_config()["padding"] == (2, 2)
    assert layers.Cropping2D((1, 2)).get_config()["cropping"] == ((1, 1), (2, 2))
    x = np.ones((1, 4, 1), "float32")
    assert layers.Cropping1D(1)(layers.ZeroPadding1D((1, 2))(x)).shape == (1, 5, 1)


@pytest.mark.parametrize(
    ("equation", "output_shape", "bias_axes", "shape", "kernel", "bias"),
    [
        ("ab...,bc->ac...", (4, 5, 6), "c", (2, 3, 5, 6), (3, 4), (4, 1, 1)),
        ("abc...,cde->abde...", (1, 3, 4, 2), "d", (2, 1, 2, 2), (2, 3, 4), (3, 1, 1)),
        ("abc...,cde->abde...", (1, 3, 4, 2), "de", (2, 1, 2, 2), (2, 3, 4), (3, 4, 1)),
        ("...x,xy->...y", 4, "y", (2, 5, 3), (3, 4), (4,)),
    ],
)
def test_a_bias_may_stand_before_what_the_dots_cover(
    equation, output_shape, bias_axes, shape, kernel, bias
):
    layer = layers.EinsumDense(equation, output_shape, bias_axes=bias_axes)
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    layer(x)
    layer.bias.assign(np.random.default_rng(1).normal(size=bias))
    assert layer.kernel.shape == kernel
    want = np.einsum(equation, x, layer.kernel.numpy()) + layer.bias.numpy()
    np.testing.assert_allclose(layer(x), want, rtol=1e-4, atol=1e-5)


def test_symbols_say_where_they_come_from():
    symbol, dense = keras.Input((3,)), layers.Dense(2)
    first, second = dense(symbol), dense(symbol + 1)
    assert symbol._keras_history.operation.batch_shape == (None, 3)
    assert first._keras_history == (dense, 0, 0)
    assert second._keras_history.node_index == 1
    low, high = keras.ops.split(symbol, [1], axis=1)
    assert high._keras_history.operation is low._keras_history.operation
    assert high._keras_history.tensor_index == 1
    assert keras.ops.cast(keras.KerasTensor((2,)), "float16")._keras_history.operation.name
    assert not hasattr(keras.KerasTensor((2,)), "_keras_history")


def test_cropping_of_images_takes_nothing_away_by_default():
    assert layers.Cropping1D()(np.ones((1, 6, 3))).shape == (1, 4, 3)
    assert layers.Cropping2D()(np.ones((1, 6, 5, 3))).shape == (1, 6, 5, 3)
    assert layers.Cropping3D()(np.ones((1, 6, 5, 4, 3))).shape == (1, 4, 3, 2, 3)
