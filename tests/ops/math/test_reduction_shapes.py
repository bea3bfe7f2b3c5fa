"""Reductions of any axes: shapes and values are NumPy's, on both sides of where fast ways begin.

Axes of size 1 are drawn often: an array that is one row, one column or one number in all but name
has to keep its axes whichever way its elements are added up.
"""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import trainkit as tk
from trainkit import ops
from trainkit.kernels.reductions.reductions_tuned import FEWEST

REDUCTIONS = ["sum", "mean", "var", "std", "max", "min", "nansum", "nanmean", "all", "any"]
SIZES = [1, 1, 1, 2, 3, 4, 128, FEWEST - 1, FEWEST]
MOST = 4 * FEWEST


@st.composite
def reduced(draw):
    """A shape of up to five axes, and axes of it to reduce."""
    shape = []
    for size in draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=5)):
        shape.append(size if math.prod(shape) * size <= MOST else 1)
    ranks = range(-len(shape), len(shape))
    axes = draw(st.lists(st.sampled_from(ranks), unique_by=lambda a: a % len(shape)))
    longer = tuple(a for a in range(len(shape)) if shape[a] > 1)
    axis = draw(st.sampled_from([None, tuple(axes), *axes[:1], longer]))
    return tuple(shape), axis


def numbers(shape, dtype):
    return np.random.default_rng(len(shape)).normal(0.5, 1, shape).astype(dtype)


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "function"])
@example(case=((FEWEST, 1), 0), keepdims=False, dtype="float32")
@example(case=((1, FEWEST, 1), (1,)), keepdims=False, dtype="float64")
@given(case=reduced(), keepdims=st.booleans(), dtype=st.sampled_from(["float32", "float64"]))
@settings(deadline=None, max_examples=12)
def test_they_are_those_of_numpy(name, compiled, case, keepdims, dtype):
    shape, axis = case
    x = numbers(shape, dtype)
    expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)

    def run(t):
        return getattr(ops, name)(t, axis=axis, keepdims=keepdims)

    result = (tk.function(run) if compiled else run)(tk.constant(x))
    assert tuple(result.shape) == expected.shape
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "max", "min"])
@given(case=reduced(), keepdims=st.booleans())
@settings(deadline=None, max_examples=12)
def test_gradients_have_the_shape_of_the_input(name, case, keepdims):
    shape, axis = case
    x = tk.Variable(numbers(shape, "float32"))
    with tk.GradientTape() as tape:
        y = ops.sum(getattr(ops, name)(x, axis=axis, keepdims=keepdims) * 2.0)
    gradient = tape.gradient(y, x)
    assert tuple(gradient.shape) == shape
    if name == "sum":
        np.testing.assert_array_equal(gradient.numpy(), np.full(shape, 2.0, np.float32))


@pytest.mark.parametrize("shape", [(FEWEST, 1), (1, FEWEST, 1), (1, 128, 128, 1)])
def test_the_bias_of_one_channel_has_a_gradient_of_its_shape(shape):
    bias = tk.Variable([0.5])
    with tk.GradientTape() as tape:
        loss = tk.reduce_sum(tk.ones(shape) * bias)
    assert tape.gradient(loss, bias).numpy().tolist() == [FEWEST]


def test_a_convolution_to_one_channel_can_be_trained():
    model = tk.Sequential([tk.layers.Conv2D(1, 3, padding="same")])
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).normal(size=(16, 32, 32, 1)).astype("float32")
    losses = model.fit(x, x, batch_size=16, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
