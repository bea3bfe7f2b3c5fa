"""The first operation that gives NaN or infinity is named, with layer, line and statistics."""

import pathlib

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.tensor import PRIMITIVES
from trainkit.profiler.numerics import NumericsError, checking_numerics, statistics

X, Y = np.full((4, 3), 1 / 3, np.float32), np.ones((4, 1), np.float32)


@pytest.fixture
def _checks():
    tk.debugging.enable_check_numerics()
    yield
    tk.debugging.disable_check_numerics()


class Logarithm(tk.layers.Layer):
    """The logarithm of what becomes 0."""

    def call(self, x):
        return tk.math.log(x - x)  # the line that is named


class Root(tk.layers.Layer):
    """Its value at 0 is fine, its gradient is not."""

    def call(self, x):
        return tk.sqrt(x * 0.0)


def model_with(layer, **compiled):
    inside = tk.Sequential([tk.Input((3,)), tk.layers.Dense(3), layer], name="inside")
    model = tk.Sequential([tk.Input((3,)), inside, tk.layers.Dense(1, name="out")], name="all")
    model.compile("sgd", "mse", **compiled)
    return model


def failure(action, *args, **kwargs):
    with pytest.raises(tk.errors.InvalidArgumentError) as caught:
        action(*args, **kwargs)
    assert isinstance(caught.value, NumericsError)
    return caught.value


@pytest.mark.usefixtures("_checks")
@pytest.mark.parametrize("compiled", [{}, {"run_eagerly": True}])
def test_an_operation_is_named_with_its_layer_and_line(compiled):
    error = failure(model_with(Logarithm(name="bad"), **compiled).fit, X, Y, verbose=0)
    assert error.operation == "log"
    assert error.layer == "all/inside/bad"
    file, number, function = error.line
    assert file == __file__
    assert function == "call"
    assert "the line that is named" in pathlib.Path(file).read_text().splitlines()[number - 1]
    text = str(error)
    assert "log in layer 'all/inside/bad' gave 12 infinite of 12 values" in text
    assert "input 0  (4, 3) float32  least 0  greatest 0  mean 0  NaN 0  infinite 0" in text
    assert text.count("all/inside/bad") == 1


@pytest.mark.usefixtures("_checks")
def test_a_gradient_is_named_by_the_operation_it_belongs_to():
    error = failure(model_with(Root(name="root")).fit, X, Y, verbose=0)
    assert error.operation == "sqrt gradient"
    assert error.layer == "all/inside/root"
    assert error.line[2] == "call"


@pytest.mark.usefixtures("_checks")
def test_gradients_without_a_layer_and_with_persistent_tapes():
    x = tk.Variable([0.0, 4.0])
    with tk.GradientTape(persistent=True) as tape:
        y = tk.reduce_sum(tk.sqrt(x) * 2.0)
    assert failure(tape.gradient, y, x).operation == "sqrt gradient"
    with tk.GradientTape(persistent=True) as tape:
        y = tk.reduce_sum(x * x)
    for _ in range(2):
        np.testing.assert_array_equal(tape.gradient(y, x).numpy(), [0.0, 8.0])
    with tk.GradientTape() as tape:
        y = tk.reduce_sum(x * x)
    tape.gradient(y, x)
    with pytest.raises(RuntimeError, match="persistent"):
        tape.gradient(y, x)


@pytest.mark.usefixtures("_checks")
def test_nan_in_the_data_is_told_from_nan_that_was_made():
    data = X.copy()
    data[2, 1] = np.nan
    error = failure(model_with(tk.layers.Dense(3)).fit, data, Y, verbose=0)
    assert "an input had NaN already" in str(error)
    assert "NaN 1" in error.statistics[0]


@pytest.mark.usefixtures("_checks")
def test_functions_are_looked_into():
    f = tk.function(lambda x: tk.exp(x * 1000.0))
    assert failure(f, tk.constant([1.0])).operation == "exp"


@pytest.mark.usefixtures("_checks")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex64"])
@pytest.mark.parametrize("size", [3, 20_000])
def test_other_dtypes_and_sizes(dtype, size):
    zeros = tk.zeros((size,), dtype)
    assert failure(tk.math.divide, zeros, zeros).operation == "divide"
    tk.add(zeros, zeros)


@pytest.mark.usefixtures("_checks")
def test_infinities_of_masks_are_passed_on():
    infinity = tk.constant(-np.inf)
    masked = tk.where(tk.constant([True, False]), tk.constant([1.0, 2.0]), infinity)
    np.testing.assert_array_equal(tk.nn.softmax(masked).numpy(), [1.0, 0.0])
    x = tk.ones((2, 5, 8))
    tk.layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)
    assert failure(lambda: infinity - infinity).operation == "subtract"


def test_everything_is_as_before_afterwards():
    codes = {name: getattr(p.op, "__code__", None) for name, p in PRIMITIVES.items()}
    call = tk.layers.Layer.__call__.__code__
    with checking_numerics():
        with checking_numerics():
            assert tk.config.functions_run_eagerly()
        assert tk.config.functions_run_eagerly()
        failure(tk.exp, tk.constant(1000.0))
    assert not tk.config.functions_run_eagerly()
    assert {n: getattr(p.op, "__code__", None) for n, p in PRIMITIVES.items()} == codes
    assert tk.layers.Layer.__call__.__code__ is call
    assert np.isinf(tk.exp(tk.constant(1000.0)).numpy())
    tk.debugging.disable_check_numerics()


def test_checking_gives_the_same_bits():
    weights = []
    for checked in (False, True):
        tk.random.set_seed(1)
        model = model_with(tk.layers.Dense(3, activation="tanh"))
        if checked:
            tk.debugging.enable_check_numerics()
        try:
            model.fit(X, Y, epochs=5, verbose=0)
        finally:
            tk.debugging.disable_check_numerics()
        weights.append(model.get_weights())
    for a, b in zip(*weights, strict=True):
        np.testing.assert_array_equal(a, b)


def test_limits_are_checked():
    with pytest.raises(ValueError, match="limits must be above 0"):
        tk.debugging.enable_check_numerics(path_length_limit=0)


def test_statistics_of_nothing_finite():
    assert statistics(np.array([np.nan, np.inf])).endswith("no finite values  NaN 1  infinite 1")
