import numpy as np
import pytest

import trainkit as tk

general = tk.nn.experimental.general_dropout
stateless = tk.nn.experimental.stateless_dropout


def sampler(*numbers):
    return lambda shape, dtype: tk.constant(numbers, dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_numbers_below_the_rate_are_dropped(dtype):
    x = tk.constant([1.0, 2.0, 3.0, np.nan, 5.0], dtype)
    y = general(x, 0.5, sampler(0.5, 0.4, 0.9, 0.0, 0.0))
    assert y.dtype == dtype
    assert tk.cast(y, "float32").numpy().tolist() == [2, 0, 6, 0, 0]


def test_bounds_and_scale_are_tensorflows():
    y = general(tk.ones((4,)), 0.3, sampler(0.3, 0.2999, 0.6, 0.0))
    expected = np.array([1.4285715, 0, 1.4285715, 0], "f")
    np.testing.assert_array_equal(y, expected)
    y = general(tk.ones((4,)), tk.constant(0.25), sampler(0.25, 0.2, 0.6, 0.0))
    np.testing.assert_array_equal(y, np.array([1.3333334, 0, 1.3333334, 0], "f"))


def test_nothing_is_drawn_at_rate_0():
    x = tk.constant([1.0, 2.0])
    np.testing.assert_array_equal(general(x, 0, None), x)


def test_generators_are_samplers():
    generator = tk.random.Generator.from_seed(7)
    numbers = tk.random.Generator.from_seed(7).uniform((50,)).numpy()
    y = general(tk.ones((50,)), 0.5, generator.uniform)
    np.testing.assert_array_equal(y, np.where(numbers >= 0.5, 2, 0))
    assert np.any(y.numpy() != general(tk.ones((50,)), 0.5, generator.uniform).numpy())


def test_stateless_dropout_depends_on_its_seed():
    x = tk.ones((40, 50))
    y = stateless(x, 0.2, (1, 0))
    numbers = tk.random.stateless_uniform((40, 50), (1, 0)).numpy()
    np.testing.assert_array_equal(y, np.where(numbers >= 0.2, np.float32(1.25), 0))
    np.testing.assert_array_equal(y, stateless(x, 0.2, (1, 0), "philox"))
    assert np.any(y.numpy() != stateless(x, 0.2, (2, 0)).numpy())
    graph = tk.function(lambda x, rate: stateless(x, rate, (1, 0)))
    np.testing.assert_allclose(graph(x, tk.constant(0.2)), y, rtol=1e-6)


def test_shared_numbers():
    y = stateless(tk.ones((3, 50)), 0.5, (1, 0), noise_shape=[1, 50]).numpy()
    np.testing.assert_array_equal(y, np.stack([y[0]] * 3))
    y = stateless(tk.ones((50, 3)), 0.5, (1, 0), noise_shape=[None, 1]).numpy()
    assert set(y.sum(-1).tolist()) == {0.0, 6.0}


def test_unknown_sizes():
    graph = tk.function(
        lambda x: stateless(x, 0.5, (1, 0)), input_signature=[tk.TensorSpec((None, 4), "float32")]
    )
    np.testing.assert_array_equal(graph(tk.ones((3, 4))), stateless(tk.ones((3, 4)), 0.5, (1, 0)))


def test_gradients():
    x = tk.Variable([1.0, 2.0, 3.0])
    with tk.GradientTape() as tape:
        y = general(x, 0.5, sampler(0.1, 0.5, 0.9)) ** 2
    assert tape.gradient(y, x).numpy().tolist() == [0, 16, 24]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: general(tk.ones((2,)), 1.0, None), r"in \[0, 1\), got 1.0"),
        (lambda: general(tk.ones((2,)), -0.1, None), r"in \[0, 1\), got -0.1"),
        (lambda: general(tk.constant([1]), 0.5, None), "takes floats, which it scales, got int32"),
        (lambda: general([1.0], tk.constant(0.5, "float64"), None), "of float64"),
        (lambda: general([1.0], tk.constant([0.5]), None), r"shape \(1,\)"),
        (lambda: stateless([1.0], 0.5, 1), "two integers"),
        (lambda: stateless([1.0], 0.5, (1, 2), "threefry"), "'philox' or 'auto_select'"),
        (lambda: tk.nn.experimental.dropout, "general_dropout"),
    ],
)
def test_bad_arguments_say_what_is_wrong(call, words):
    with pytest.raises((ValueError, AttributeError, tk.errors.InvalidArgumentError), match=words):
        call()
