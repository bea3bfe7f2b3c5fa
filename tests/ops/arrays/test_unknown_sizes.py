"""`None` in a shape, as symbolic tensors have it: no tensor is made of it, in words."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras, ops

GENERATOR = tk.random.Generator.from_seed(1)
MAKERS = {
    "arange": lambda n: ops.arange(n),
    "empty": lambda n: ops.empty((n, 2)),
    "eye": lambda n: ops.eye(n),
    "fill": lambda n: tk.fill((n, 2), 1.0),
    "full": lambda n: ops.full((n, 2), 1.0),
    "gamma": lambda n: tk.random.gamma((n,), 1.0),
    "generator": lambda n: GENERATOR.normal((n, 2)),
    "linspace": lambda n: ops.linspace(0.0, 1.0, n),
    "normal": lambda n: tk.random.normal((n, 2)),
    "ones": lambda n: ops.ones((n, 2)),
    "poisson": lambda n: tk.random.poisson((n,), 1.0),
    "randint": lambda n: keras.random.randint((n, 2), 0, 3),
    "repeat": lambda n: ops.repeat([1, 2], n),
    "seeded": lambda n: keras.random.normal((n, 2), seed=1),
    "stateless": lambda n: tk.random.stateless_uniform((n, 2), [1, 2]),
    "tile": lambda n: tk.tile([1, 2], [n]),
    "top_k": lambda n: ops.top_k([1.0, 2.0], n),
    "tri": lambda n: ops.tri(n),
    "truncated_normal": lambda n: tk.random.truncated_normal((n, 2)),
}
WITH_SHAPES = ["empty", "fill", "full", "generator", "normal", "ones", "randint", "seeded"]


@pytest.mark.parametrize("name", MAKERS)
def test_a_size_that_is_none_is_refused_in_words(name):
    unknown = keras.Input((3,)).shape[0]
    with pytest.raises(ValueError, match=r"is None, so it is not known yet; in a tk\.function"):
        MAKERS[name](unknown)
    MAKERS[name](2)


@pytest.mark.parametrize("name", [*WITH_SHAPES, "stateless", "truncated_normal"])
def test_a_negative_size_makes_no_empty_tensor(name):
    state = GENERATOR.state.numpy().copy()
    with pytest.raises(ValueError, match="negative"):
        MAKERS[name](-1)
    np.testing.assert_array_equal(GENERATOR.state.numpy(), state)


def test_a_traced_function_says_so_too():
    @tk.function(input_signature=[tk.TensorSpec([None, 2])])
    def noisy(x):
        return x + tk.random.normal((x.shape[0], 2))

    with pytest.raises(ValueError, match=r"random: a size is None.*tk\.shape\(x\)\[axis\]"):
        noisy(tk.ones((3, 2)))

    @tk.function(input_signature=[tk.TensorSpec([None, 2])])
    def mended(x):
        return x + tk.random.normal((tk.shape(x)[0], 2))

    assert mended(tk.ones((3, 2))).shape == (3, 2)


def test_no_shape_at_all_is_refused_in_words():
    with pytest.raises(
        ValueError, match="zeros: a shape is an int or a sequence of ints, got None"
    ):
        ops.zeros(None)


def test_the_one_free_size_of_reshape_may_be_none():
    assert ops.reshape(np.ones((3, 2)), (None, 3)).shape == (2, 3)
