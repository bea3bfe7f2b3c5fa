"""Models drawn up from symbolic tensors."""

import json

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops
from trainkit.layers.base.keras_tensor import KerasTensor

L = tk.layers


def ones(*shape):
    return tk.convert_to_tensor(np.ones(shape, "float32"))


def test_a_symbol_knows_shape_and_dtype_and_has_no_value():
    x = tk.Input((3,), name="x")
    assert isinstance(x, KerasTensor)
    assert tuple(x.shape) == (None, 3)
    assert x.dtype == "float32"
    assert repr(x) == "<KerasTensor shape=(None, 3), dtype=float32, name=x>"
    assert tuple(tk.Input((3,), batch_size=5, dtype="int32").shape) == (5, 3)
    with pytest.raises(TypeError, match="value"):
        float(ops.sum(x))


def test_operations_on_symbols_are_part_of_the_model():
    a, b = tk.Input((2,)), tk.Input((2,))
    model = tk.Model([a, b], ops.exp(a * 2.0 + b)[:, :1] - 1.0)
    found = model([ones(3, 2), ones(3, 2)])
    np.testing.assert_allclose(found.numpy(), np.full((3, 1), np.exp(3.0) - 1), rtol=1e-6)
    assert [type(layer).__name__ for layer in model.layers] == ["InputLayer", "InputLayer"]
    again = tk.Model.from_config(json.loads(json.dumps(model.get_config())))
    np.testing.assert_array_equal(again([ones(3, 2), ones(3, 2)]).numpy(), found.numpy())


def test_a_shared_layer_has_one_set_of_weights():
    a, b = tk.Input((3,)), tk.Input((3,))
    dense = L.Dense(2)
    model = tk.Model([a, b], L.Subtract()([dense(a), dense(b)]))
    assert len(model.weights) == 2
    np.testing.assert_allclose(model([ones(1, 3), ones(1, 3)]).numpy(), 0.0)
    again = tk.Model.from_config(json.loads(json.dumps(model.get_config())))
    assert len(again.weights) == 2
    again.set_weights(model.get_weights())
    x, y = ones(1, 3), ones(1, 3) * 2.0
    np.testing.assert_array_equal(again([x, y]).numpy(), model([x, y]).numpy())


def test_models_nest_and_share():
    x = tk.Input((3,))
    inner = tk.Model(x, L.Dense(4, name="inside")(x), name="inner")
    stack = tk.Sequential([L.Dense(4), L.ReLU()], name="stack")
    y = tk.Input((3,))
    outer = tk.Model(y, stack(inner(y)) + inner(y))
    assert [layer.name for layer in outer.layers[1:]] == ["inner", "stack"]
    assert len(outer.weights) == 4
    again = tk.Model.from_config(json.loads(json.dumps(outer.get_config())))
    again.set_weights(outer.get_weights())
    np.testing.assert_array_equal(again(ones(2, 3)).numpy(), outer(ones(2, 3)).numpy())


def test_inputs_by_name_and_outputs_as_a_dict():
    a, b = tk.Input((2,), name="left"), tk.Input((3,), name="right")
    model = tk.Model({"left": a, "right": b}, {"sum": ops.sum(a, axis=1), "wide": b})
    found = model({"right": ones(4, 3), "left": ones(4, 2)})
    assert set(found) == {"sum", "wide"}
    np.testing.assert_array_equal(found["sum"].numpy(), [2.0] * 4)
    with pytest.raises(tk.errors.InvalidArgumentError, match="left, right"):
        model({"left": ones(4, 2)})


def test_outputs_have_the_names_of_their_layers():
    x = tk.Input((3,))
    heads = [tk.layers.Dense(1, name="price")(x), tk.layers.Dense(2, name="size")(x)]
    model = tk.Model(x, heads)
    assert model.output_names == ["price", "size"]
    drawn_by_code = type("Own", (tk.Model,), {"call": lambda self, x: x})()
    assert not hasattr(drawn_by_code, "output_names")
    assert not hasattr(drawn_by_code, "input_names")


def test_inputs_have_the_names_of_their_layers():
    first, second = tk.Input((3,), name="first"), tk.Input((3,), name="second")
    assert tk.Model([second, first], L.Add()([first, second])).input_names == ["second", "first"]


@pytest.mark.parametrize(
    "name", ["inputs", "outputs", "input_names", "output_names", "input_shape", "output_shape"]
)
def test_a_model_drawn_by_code_may_have_attributes_that_functional_models_have(name):
    class Own(tk.Model):
        def __init__(self):
            super().__init__()
            setattr(self, name, (5, 6))
            self.dense = L.Dense(2)

        def call(self, x):
            return self.dense(x) + getattr(self, name)[0]

    model = Own()
    model.compile("sgd", "mse")
    model.fit(ones(4, 2), ones(4, 2), verbose=0)
    assert tuple(getattr(model, name)) == (5, 6)
    assert model.predict(ones(4, 2), verbose=0).shape == (4, 2)


def test_several_outputs_of_one_layer():
    class Both(L.Layer):
        def call(self, x):
            return x + 1.0, x * 2.0

    x = tk.Input((2,))
    up, double = Both()(x)
    model = tk.Model(x, [double, up])
    found = model(ones(1, 2))
    np.testing.assert_array_equal(found[0].numpy(), [[2.0, 2.0]])
    np.testing.assert_array_equal(found[1].numpy(), [[2.0, 2.0]])


def test_part_of_a_model_by_its_layers():
    x = tk.Input((3,))
    h = L.Dense(4, name="hidden")(x)
    model = tk.Model(x, L.Dense(2, name="out")(h))
    part = tk.Model(model.input, model.get_layer("hidden").output)
    assert part.output_shape == (None, 4)
    middle = tk.Model(h, model.output)
    np.testing.assert_allclose(
        middle(part(ones(2, 3))).numpy(), model(ones(2, 3)).numpy(), rtol=1e-6
    )


def test_training_reaches_layers_and_arguments_are_kept():
    x = tk.Input((50,))
    always = L.Dropout(0.5)(x, training=True)
    model = tk.Model(x, [L.Dropout(0.5)(x), always])
    quiet, noisy = model(ones(2, 50), training=False)
    assert float(ops.min(quiet)) == 1.0
    assert float(ops.min(noisy)) == 0.0
    loud, _ = model(ones(2, 50), training=True)
    assert float(ops.min(loud)) == 0.0


def test_masks_pass_through_a_model():
    x = tk.Input((4, 2))
    masked = L.Masking()(x)
    model = tk.Model(x, L.LSTM(3)(masked))
    short = np.ones((1, 4, 2), "float32")
    padded = short.copy()
    padded[:, 2:] = 0
    expected = tk.Sequential([model.layers[-1]])(padded[:, :2])
    np.testing.assert_allclose(model(padded).numpy(), expected.numpy(), rtol=1e-5)


def test_weights_come_in_the_order_of_keras():
    # Farther from the outputs first; at one distance, as a traversal from the outputs meets them.
    x = tk.Input((2,))
    b = L.Dense(3, name="b")(x)
    a = L.Dense(3, name="a")(x)
    model = tk.Model(x, L.Add()([a, L.Dense(3, name="c")(b)]))
    assert [layer.name for layer in model.layers if layer.weights] == ["b", "a", "c"]


def test_a_deep_model_does_not_reach_the_recursion_limit():
    x = y = tk.Input((2,))
    for _ in range(1500):
        y = y + 1.0
    assert float(tk.Model(x, y)(ones(1, 2))[0, 0]) == 1501.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda x, z: tk.Model(x, x + z), "not among the inputs"),
        (lambda x, z: tk.Model(x, ones(1)), "symbolic tensors"),
        (lambda x, z: tk.Model(x), "both inputs and outputs"),
        (lambda x, z: tk.Model([], x), "at least one"),
        (lambda x, z: tk.Model(x, L.Dense(1, name="d")(L.Dense(1, name="d")(x))), "'d' is there"),
    ],
)
def test_what_is_no_model(make, words):
    with pytest.raises(ValueError, match=words):
        make(tk.Input((2,)), tk.Input((2,), name="other"))


def test_data_of_another_shape_names_the_input():
    x = tk.Input((3,), name="features")
    model = tk.Model(x, L.Dense(1)(x))
    with pytest.raises(tk.errors.ShapeError, match="features"):
        model(ones(2, 4))
    with pytest.raises(tk.errors.InvalidArgumentError, match="1 inputs"):
        model([ones(2, 3), ones(2, 3)])


def test_data_is_cast_and_gets_the_axis_it_lacks():
    x = tk.Input((1,))
    model = tk.Model(x, x * 2.0)
    found = model(np.array([1, 2, 3], "int64"))
    assert found.shape == (3, 1)
    assert found.dtype == "float32"


def test_a_part_of_a_model_holds_only_the_layers_between():
    x = tk.Input((3,), name="x")
    h1 = L.Dense(4, name="one")(x)
    h2 = L.Dense(5, name="two")(h1)
    y = L.Dense(2, name="three")(h2)
    whole = tk.Model(x, y)
    part = tk.Model(h2, y)
    assert [type(layer).__name__ for layer in part.layers] == ["InputLayer", "Dense"]
    assert part.layers[1] is whole.get_layer("three")
    assert len(part.weights) == 2
    assert part.input_shape == (None, 5)
    both = tk.Model([x, h2], [h1, y])
    assert [layer.name for layer in both.layers[-2:]] == ["one", "three"]
    first, last = both([ones(1, 3), ones(1, 5)])
    np.testing.assert_array_equal(last.numpy(), part(ones(1, 5)).numpy())
    np.testing.assert_array_equal(first.numpy(), whole.get_layer("one")(ones(1, 3)).numpy())
    assert whole.get_layer("two").input is h1  # the layers keep their place in the whole
    again = tk.Model.from_config(json.loads(json.dumps(part.get_config())))
    assert len(again.weights) == 2


def test_one_output_in_a_list_comes_alone():
    x = tk.Input((3,))
    model = tk.Model([x], [L.Dense(2)(x)])
    assert model(ones(4, 3)).shape == (4, 2)
    assert model.output_shape == (None, 2)
    assert model.input_shape == (None, 3)
    again = tk.Model.from_config(json.loads(json.dumps(model.get_config())))
    assert isinstance(again.output, list)


def nested():
    one, two, three = (tk.Input((n,), name=name) for n, name in ((1, "b"), (2, "y"), (3, "x")))
    given = {"b": one, "a": {"y": two, "x": (three,)}}
    return tk.Model(given, {"b": one * 2.0, "a": {"y": two * 3.0, "x": (three * 4.0,)}})


def test_deeply_nested_inputs_and_outputs():
    data = {"b": np.ones((2, 1)), "a": {"x": (np.ones((2, 3)),), "y": np.ones((2, 2))}}
    model = nested()

    again = tk.Model.from_config(model.get_config())
    for each in (model, again):
        found = each(data)
        np.testing.assert_array_equal(found["b"].numpy(), np.full((2, 1), 2.0))
        np.testing.assert_array_equal(found["a"]["y"].numpy(), np.full((2, 2), 3.0))
        np.testing.assert_array_equal(found["a"]["x"][0].numpy(), np.full((2, 3), 4.0))


def two_inputs(make):
    a, b = tk.Input((2,), name="a"), tk.Input((3,), name="b")
    return tk.Model(make(a, b), L.Concatenate()([a, b]))


A, B = np.zeros((4, 2), "float32"), np.ones((4, 3), "float32")


@pytest.mark.parametrize(
    ("make", "data"),
    [
        (lambda a, b: [a, b], [A, B]),
        (lambda a, b: [a, b], (A, B)),
        (lambda a, b: (a, b), [A, B]),
        (lambda a, b: [a, b], {"b": B, "a": A}),
        (lambda a, b: [a, b], {"b": B, "c": B, "a": A}),
        (lambda a, b: {"b": b, "a": a}, {"a": A, "b": B}),
    ],
)
def test_inputs_are_matched_without_a_word(make, data):
    expected = np.concatenate([A, B], axis=1)
    np.testing.assert_array_equal(two_inputs(make)(data).numpy(), expected)


@pytest.mark.parametrize(
    ("make", "data"),
    [
        (lambda a, b: {"a": a, "b": b}, {"b": B, "a": A, "c": A}),
        (lambda a, b: {"a": a, "b": b}, [A, B]),
        (lambda a, b: [a, [b]], [A, B]),
    ],
)
def test_inputs_that_are_nested_otherwise_are_matched_with_a_warning(make, data):
    model = two_inputs(make)
    with pytest.warns(UserWarning, match="doesn't match the expected structure"):
        found = model(data)
    np.testing.assert_array_equal(found.numpy(), np.concatenate([A, B], axis=1))


@pytest.mark.parametrize(
    ("make", "data"),
    [
        (lambda a, b: {"b": b, "a": a}, [A, B]),
        (lambda a, b: {"b": b, "a": a}, {"a": A}),
        (lambda a, b: [a, b], {"a": A, "c": B}),
        (lambda a, b: [a, b], [A, B, B]),
        (lambda a, b: [a, b], A),
        (lambda a, b: [a, b], [A, None]),
        (lambda a, b: [a, b], [A, B[:, :, None, None]]),
    ],
)
def test_inputs_that_can_not_be_matched(make, data):
    with pytest.raises(ValueError, match="model"):
        two_inputs(make)(data)


def test_an_optional_input_may_be_left_out():
    class Sum(L.Layer):
        def call(self, x, y=None):
            return x if y is None else x + y

    x, y = tk.Input((2,), name="x"), tk.Input((2,), name="y", optional=True)
    for inputs, data in (([x, y], [A, None]), ({"x": x, "y": y}, {"x": A, "y": None})):
        model = tk.Model(inputs, Sum()(x, y))
        np.testing.assert_array_equal(model(data).numpy(), A)
        config = json.loads(json.dumps(model.get_config()))
        again = tk.Model.from_config(config, custom_objects={"Sum": Sum})
        np.testing.assert_array_equal(again(data).numpy(), A)


@pytest.mark.parametrize("shape", [8, "8", {"a": 1}, (2, 0.5), [(2,)], object()])
def test_a_shape_is_a_tuple_or_list_of_sizes(shape):
    with pytest.raises(ValueError, match="shape must be a tuple or list"):
        tk.Input(shape)
    with pytest.raises(ValueError, match="batch_shape must be a tuple or list"):
        tk.Input(batch_shape=shape)


def test_layers_of_a_config_may_stand_in_any_order():
    x = y = tk.Input((2,))
    for _ in range(300):
        y = L.Dense(2)(y)
    model = tk.Model(x, y)
    config = json.loads(json.dumps(model.get_config()))
    config["layers"].reverse()
    again = tk.Model.from_config(config)
    assert [layer.name for layer in again.layers] == [layer.name for layer in model.layers]


def test_calls_that_nothing_feeds_are_named():
    x = tk.Input((2,))
    model = tk.Model(x, L.Dense(2, name="b")(L.Dense(2, name="a")(x)))
    config = json.loads(json.dumps(model.get_config()))
    history = config["layers"][1]["inbound_nodes"][0]["args"][0]["config"]["keras_history"]
    history[0] = "b"
    with pytest.raises(tk.errors.ConfigError, match=r"loop.*a, b"):
        tk.Model.from_config(config)
    history[0] = "nobody"
    with pytest.raises(tk.errors.ConfigError, match="nobody"):
        tk.Model.from_config(config)


def test_a_layer_used_inside_and_outside_of_a_model_keeps_its_calls_apart():
    shared, x = L.Dense(3), tk.Input((3,))
    shared(x)  # no part of the model
    model = tk.Model(x, shared(shared(x)))
    again = tk.Model.from_config(json.loads(json.dumps(model.get_config())))
    again.set_weights(model.get_weights())
    np.testing.assert_array_equal(again(ones(1, 3)).numpy(), model(ones(1, 3)).numpy())


def test_the_inputs_behind_a_tensor():
    a, b = tk.Input((2,), name="a"), tk.Input((2,), name="b")
    y = L.Dense(2)(a) + b * a
    found = tk.keras.utils.get_source_inputs(y)
    assert len(found) == 2
    assert found[0] is a
    assert found[1] is b
    with pytest.raises(ValueError, match="symbolic"):
        tk.keras.utils.get_source_inputs(np.ones(3))


def test_functional_models_are_named_and_counted_as_in_keras():
    tk.utils.clear_session()
    x = tk.Input((2,))
    models = [tk.Model(x, tk.layers.Dense(1)(x)) for _ in range(2)]
    assert [model.name for model in models] == ["functional", "functional_1"]

    class Net(tk.Model):
        pass

    assert Net(x, x).name == "net"
    assert tk.Model(x, x, name="mine").name == "mine"
    assert tk.models.clone_model(models[1]).name == "functional_1"
