"""Operations that users write: functions of tensors with settings."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras, ops


class Mixed(keras.Operation):
    def call(self, x, y, z=None):
        return 3 * z + x + 2 * y

    def compute_output_spec(self, x, y, z=None):
        return keras.KerasTensor(x.shape, x.dtype)


class Scaled(keras.Operation):
    def __init__(self, alpha, *, beta=1.0, name=None):
        super().__init__(name=name)
        self.alpha, self.beta = alpha, beta

    def call(self, x):
        return self.alpha * x, x + self.beta


class Unnamed(keras.Operation):
    def __init__(self, alpha, beta=1.0):
        super().__init__()

    def call(self, x):
        return x


class Open(keras.Operation):
    def __init__(self, alpha, *rest, **kwargs):
        super().__init__(**kwargs)

    def call(self, x):
        return x


class OwnConfig(Scaled):
    def get_config(self):
        return {**super().get_config(), "alpha": self.alpha}


def test_arguments_go_by_position_and_by_name():
    one, op = np.ones((2, 3)), Mixed(name="mixed")
    assert op.name == "mixed"
    for got in (op(one, one, one), op(x=one, y=one, z=one), op(one, y=one, z=ops.ones((2, 3)))):
        np.testing.assert_allclose(got, 6 * one)
    x, y, z = (keras.KerasTensor((2, 3)) for _ in range(3))
    out = op(x, y=y, z=z)
    assert isinstance(out, keras.KerasTensor)
    assert [a is b for a, b in zip(op.input, (x, y, z), strict=True)] == [True] * 3
    assert op.output is out
    op(x, x, x)
    assert op.output is out
    assert out._keras_history.operation is op
    pair = Scaled(2.0)
    results = pair(x)
    assert isinstance(results, tuple)
    assert pair.input is x
    assert [a is b for a, b in zip(pair.output, results, strict=True)] == [True, True]


@pytest.mark.parametrize("compiled", [False, True])
def test_operations_stand_in_models_and_functions(compiled):
    op = Scaled(2.0, beta=3.0)
    x = keras.Input((3,))
    double, more = op(x)
    model = keras.Model(x, Mixed()(double, more, z=x))
    assert [type(layer).__name__ for layer in model.layers] == ["InputLayer"]
    values = np.ones((2, 3), "float32")
    call = tk.function(model) if compiled else model
    np.testing.assert_allclose(call(values), 3 * values + 2 * values + 2 * 4 * values)
    with keras.utils.custom_object_scope({"Scaled": Scaled, "Mixed": Mixed}):
        again = keras.Model.from_config(model.get_config())
    np.testing.assert_allclose(again(values), model(values))


def test_configs_hold_the_arguments():
    assert Mixed(name="m").get_config() == {"name": "m"}
    assert Scaled(0.5, name="s").get_config() == {"name": "s", "alpha": 0.5, "beta": 1.0}
    assert Unnamed(0.5).get_config() == {"alpha": 0.5, "beta": 1.0}
    assert Open(0.5, name="o").get_config() == {"name": "o", "alpha": 0.5}
    assert OwnConfig(0.5, name="c").get_config() == {"name": "c", "alpha": 0.5}
    for made in (Mixed(), Scaled([1, {"a": None}]), Unnamed("x"), Open(1), OwnConfig(2)):
        again = type(made).from_config(made.get_config())
        assert again.get_config() == made.get_config()
    for wrong in (Scaled(object()), Open(0.5, "a", "b")):
        with pytest.raises(NotImplementedError, match="write a get_config"):
            wrong.get_config()
    with pytest.raises(ValueError, match="can't be made from its config"):
        Scaled.from_config({"gamma": 1})
    with pytest.raises(ValueError, match="name"):
        Mixed(name="a/b")


def test_the_calls_of_primitives_are_operations_whose_configs_stay():
    x = keras.Input((3,))
    made = ops.leaky_relu(x * 2.0)
    assert isinstance(made._keras_history.operation, keras.Operation)
    model = keras.Model(x, tk.math.lgamma(ops.roll(made, 1, axis=1)))
    kinds = [layer["class_name"] for layer in model.get_config()["layers"]]
    assert sorted(kinds) == ["InputLayer", "LeakyRelu", "Multiply", "Operation", "Roll"]
    values = np.ones((2, 3), "float32")
    np.testing.assert_allclose(keras.Model.from_config(model.get_config())(values), model(values))


def test_several_inputs_and_outputs_are_lists():
    x, y = keras.Input((3, 2)), keras.Input((3, 2))
    attend = keras.layers.MultiHeadAttention(1, 2)
    attend(x, y)
    assert [a is b for a, b in zip(attend.input, (x, y), strict=True)] == [True, True]
    rnn = keras.layers.LSTM(2, return_state=True)
    assert len(rnn(x)) == len(rnn.output) == 3
    assert isinstance(rnn.output, list)
    assert rnn.input is x
