"""`dense` against the operations that it stands for, to the second order."""

import numpy as np
import pytest

from trainkit.autodiff.tape import GradientTape
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import convert_to_tensor
from trainkit.ops.linear_algebra.matmul import matmul
from trainkit.ops.math.elementwise import add, multiply
from trainkit.ops.math.reductions import sum as total
from trainkit.ops.neural.activations import relu
from trainkit.ops.neural.dense import dense


def plain(x, kernel, bias=None, activation=None):
    y = matmul(x, kernel)
    y = y if bias is None else add(y, bias)
    return relu(y) if activation else y


def orders(function, inputs, directions):
    """Value, gradients, and gradients of their product with `directions`."""
    with GradientTape() as outer:
        outer.watch(inputs)
        with GradientTape() as inner:
            inner.watch(inputs)
            y = function(*inputs)
            loss = total(multiply(multiply(y, y), y))
        first = inner.gradient(loss, inputs)
        slope = total(multiply(first[0], directions[0]))
        for g, d in zip(first[1:], directions[1:], strict=True):
            slope = add(slope, total(multiply(g, d)))
    return [y, *first, *outer.gradient(slope, inputs)]


@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("lead", [(5,), (2, 3)])
def test_dense_is_product_bias_and_rectifier(rng, activation, with_bias, lead):
    arrays = [rng.normal(size=(*lead, 4)), rng.normal(size=(4, 3)), rng.normal(size=3)]
    inputs = [convert_to_tensor(a) for a in arrays[: 3 if with_bias else 2]]
    directions = [convert_to_tensor(rng.normal(size=tuple(x.shape))) for x in inputs]
    found = orders(lambda *xs: dense(*xs, activation=activation), inputs, directions)
    expected = orders(lambda *xs: plain(*xs, activation=activation), inputs, directions)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-10)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_only_the_gradient_that_is_asked_for_is_computed(rng, index):
    inputs = [convert_to_tensor(rng.normal(size=s)) for s in ((5, 4), (4, 3), (3,))]
    with GradientTape() as tape:
        tape.watch(inputs[index])
        y = dense(*inputs, activation="relu")
    (entry,) = tape.entries
    settings = entry[3]
    needed = tuple(i == index for i in range(3))
    found = entry[0].joint(
        convert_to_tensor(np.ones((5, 3))), y, *inputs, **settings, needed=needed
    )
    assert [part is not None for part in found] == list(needed)
    assert tape.gradient(y, inputs[index]).shape == inputs[index].shape


def test_float16_is_summed_in_float32():
    y = dense(np.ones((1, 4096), "float16"), np.ones((4096, 1), "float16"))
    assert y.dtype.name == "float16"
    assert y.numpy() == 4096


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (((2, 4), (3, 5), None), "4 features, the kernel takes 3"),
        (((2, 4), (4, 5, 1), None), "the kernel two axes"),
        (((2, 4), (4, 5), (4,)), r"5 units, the bias shape \(4,\)"),
    ],
)
def test_shapes_that_do_not_fit_are_shown(shapes, words):
    arrays = [None if s is None else np.ones(s) for s in shapes]
    with pytest.raises(ShapeError, match=words):
        dense(*arrays)


def test_an_activation_that_is_not_fused_is_named():
    with pytest.raises(InvalidArgumentError, match="'tanh'"):
        dense(np.ones((2, 4)), np.ones((4, 5)), activation="tanh")
