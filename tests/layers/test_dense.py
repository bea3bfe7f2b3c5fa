"""Dense and EinsumDense."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import layers, ops
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.layers.dense import joined_axes

X = np.random.default_rng(1).normal(size=(3, 5)).astype("float32")


def test_dense_is_a_product_a_bias_and_an_activation():
    layer = layers.Dense(2, activation="relu", bias_initializer="ones")
    y = layer(X)
    kernel, bias = layer.get_weights()
    np.testing.assert_allclose(y.numpy(), np.maximum(X @ kernel + bias, 0), rtol=1e-5)


def test_dense_works_on_the_last_axis():
    layer = layers.Dense(2)
    x = np.stack([X, 2 * X])
    np.testing.assert_allclose(layer(x)[1].numpy(), layer(2 * X).numpy(), rtol=1e-5)


def test_dense_says_what_it_was_built_for():
    layer = layers.Dense(2, name="head")
    layer(X)
    with pytest.raises(ShapeError, match=r"layer 'head'.*size 4, the layer was built for 5"):
        layer(X[:, :4])
    with pytest.raises(ShapeError, match="at least 2 axes, it has 1"):
        layer(X[0])
    np.testing.assert_allclose(layer(X).shape, (3, 2))


@pytest.mark.parametrize("units", [0, -1, 2.5, "3", True])
def test_units_must_be_a_whole_number(units):
    with pytest.raises(InvalidArgumentError, match="units must be an int of 1 or more"):
        layers.Dense(units)


def test_unknown_names_are_answered_with_near_ones():
    with pytest.raises(ValueError, match="did you mean 'relu'"):
        layers.Dense(2, activation="rleu")
    with pytest.raises(ValueError, match="is no regularizer"):
        layers.Dense(2, kernel_regularizer="l7")
    with pytest.raises(TypeError, match="kernel_norm"):
        layers.Dense(2, kernel_norm=4)


def test_constraint_and_regularizer_travel_with_the_weight():
    layer = layers.Dense(2, kernel_constraint="non_neg", kernel_regularizer="l2")
    layer.build((None, 5))
    assert layer.kernel.constraint is layer.kernel_constraint
    penalty = 0.01 * float(ops.sum(layer.kernel * layer.kernel))
    np.testing.assert_allclose(float(layer.losses[0]), penalty, rtol=1e-6)


@pytest.mark.parametrize(
    ("equation", "output_shape", "bias_axes", "shape", "kernel", "bias"),
    [
        ("ab,bc->ac", 7, "c", (3, 5), (5, 7), (7,)),
        ("abc,cd->abd", (None, 7), None, (3, 2, 5), (5, 7), None),
        ("abc,cde->abde", (None, 2, 4), "de", (3, 2, 5), (5, 2, 4), (2, 4)),
        ("abc,cde->abde", (None, 2, 4), "d", (3, 2, 5), (5, 2, 4), (2, 1)),
        ("...x,xy->...y", 4, "y", (3, 2, 5), (5, 4), (4,)),
        ("a...b,bc->a...c", 4, None, (3, 2, 6, 5), (5, 4), None),
    ],
)
def test_einsum_dense_finds_its_weight_shapes(
    equation, output_shape, bias_axes, shape, kernel, bias
):
    layer = layers.EinsumDense(equation, output_shape, bias_axes=bias_axes)
    x = np.random.default_rng(2).normal(size=shape).astype("float32")
    y = layer(x)
    assert tuple(layer.kernel.shape) == kernel
    assert (layer.bias is None) if bias is None else (tuple(layer.bias.shape) == bias)
    np.testing.assert_allclose(
        y.numpy(), np.einsum(equation, x, layer.get_weights()[0]), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("equation", "output_shape", "bias_axes", "shape", "text"),
    [
        ("ab->b", 3, None, (2, 3), "form 'ab,bc->ac'"),
        ("abc,cd->abd", 3, None, (2, 3), "names 3 axes"),
        ("ab,bc->ac", 3, "z", (2, 3), "bias axis 'z'"),
        ("ab,bz->ab", 3, None, (2, 3), "'z' of the kernel is in no other part"),
        ("ab,bc->bc", (9, 3), None, (2, 3), "size 3 in the input and 9"),
    ],
)
def test_einsum_dense_explains_wrong_equations(equation, output_shape, bias_axes, shape, text):
    layer = layers.EinsumDense(equation, output_shape, bias_axes=bias_axes)
    with pytest.raises(ShapeError, match=text):
        layer.build(shape)
    assert not layer.built


@pytest.mark.parametrize(
    ("equation", "bias_axes", "joined"),
    [
        ("abc,cd->abd", "d", 1),
        ("abx,xst->abst", "st", 1),
        ("abx,xst->abst", None, 1),
        ("abst,stu->abu", "u", 2),
        ("abx,xst->abst", "t", 0),
        ("abx,xst->abts", "st", 0),
        ("abx,sx->abs", "s", 0),
        ("abx,bxs->abs", "s", 0),
        ("ab,bc->c", "c", 0),
        ("...x,xy->...y", "y", 0),
        ("ab,cd->abcd", "cd", 0),
    ],
)
def test_which_equations_are_one_product_of_matrices(equation, bias_axes, joined):
    assert joined_axes(equation, bias_axes) == joined


@pytest.mark.parametrize("activation", [None, "relu", "tanh"])
@pytest.mark.parametrize(
    ("equation", "shape", "output_shape", "bias_axes"),
    [
        ("abx,xst->abst", (2, 3, 5), (3, 4, 2), "st"),
        ("abst,stu->abu", (2, 3, 4, 2), (3, 5), "u"),
        ("ax,xst->ast", (2, 5), (4, 2), None),
    ],
)
def test_a_product_of_matrices_equals_einsum(equation, shape, output_shape, bias_axes, activation):
    layer = layers.EinsumDense(
        equation, output_shape, activation, bias_axes, bias_initializer="normal"
    )
    x = tk.constant(np.random.default_rng(2).normal(size=shape).astype("float32"))
    with tk.GradientTape() as tape:
        y = layer(x)
    found = tape.gradient(y, layer.weights)
    with tk.GradientTape() as tape:
        expected = ops.einsum(equation, x, layer.kernel)
        if bias_axes:
            expected = expected + layer.bias
        expected = layer.activation(expected)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
    for a, b in zip(found, tape.gradient(expected, layer.weights), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_an_einsum_of_unknown_batch_and_length_is_traced():
    layer = layers.EinsumDense("abx,xst->abst", (None, 4, 2), bias_axes="st")
    x = np.random.default_rng(3).normal(size=(2, 3, 5)).astype("float32")
    expected = layer(x)
    for dims in ((None, 3, 5), (None, None, 5)):
        traced = tk.function(layer, [tk.TensorSpec(dims)])
        np.testing.assert_allclose(traced(x), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "mixed_bfloat16"])
@pytest.mark.parametrize("use_bias", [True, False])
def test_gelu_counts_the_bias_once(dtype, use_bias):
    x = np.random.default_rng(4).normal(size=(3, 5)).astype("float32")
    layer = layers.Dense(2, "gelu", use_bias=use_bias, bias_initializer="ones", dtype=dtype)
    plain = layers.Dense(2, use_bias=use_bias, dtype=dtype)
    plain.build((3, 5))
    found = layer(x)
    plain.set_weights(layer.get_weights())
    expected = ops.gelu(plain(x), approximate=False)
    assert found.dtype == expected.dtype
    tolerance = 0.02 if "16" in dtype else 1e-6
    np.testing.assert_allclose(
        ops.cast(found, "float32"), ops.cast(expected, "float32"), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize(
    ("equation", "output_shape", "bias_axes"),
    [
        ("abc,cde->abde", (None, 4, 2), "de"),
        ("abcd,cde->abe", (None, 3), "e"),
        ("abc,cd->abd", (None, 6), None),
    ],
)
def test_einsum_dense_of_two_unknown_sizes_is_the_product_of_eager_calls(
    equation, output_shape, bias_axes
):
    rank = len(equation.partition(",")[0])
    layer = layers.EinsumDense(equation, output_shape, "tanh", bias_axes)
    known = (8, 5)[: rank - 2]
    layer.build((None, None, *known))

    def loss_and_gradients(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
            loss = tk.reduce_sum(y * y)
        return y, tape.gradient(loss, [x, *layer.trainable_variables])

    spec = tk.TensorSpec((None, None, *known))
    function = tk.function(loss_and_gradients, input_signature=[spec])
    names = {node.name for node in function.get_concrete_function().graph.nodes}
    assert "Dense" in names
    assert not any("einsum" in name.lower() for name in names)
    generator = np.random.default_rng(4)
    for sizes in ((3, 7), (1, 1), (4, 2)):
        x = tk.constant(generator.normal(size=(*sizes, *known)).astype("float32"))
        for result, expected in zip(
            tk.nest.flatten(function(x)), tk.nest.flatten(loss_and_gradients(x)), strict=True
        ):
            np.testing.assert_array_equal(result.numpy(), expected.numpy())
