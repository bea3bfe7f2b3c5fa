"""Models like others: of new layers, of layers chosen by a function, on given inputs."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.models import clone_model

L = tk.layers
X = np.ones((2, 4), "float32")


def graph():
    x = tk.Input((4,), name="in")
    return tk.Model(x, L.Dense(2, name="b")(L.Dense(3, name="a")(x)), name="graph")


def stack():
    return tk.Sequential([tk.Input((4,)), L.Dense(3, name="a"), L.Dense(2, name="b")], name="stack")


@pytest.mark.parametrize("make", [graph, stack])
def test_a_clone_has_new_weights_of_the_same_shapes(make):
    model = make()
    clone = clone_model(model)
    assert type(clone) is type(model)
    assert clone.name == model.name
    assert [w.shape for w in clone.weights] == [w.shape for w in model.weights]
    assert not {id(w) for w in clone.weights} & {id(w) for w in model.weights}
    clone.set_weights(model.get_weights())
    np.testing.assert_array_equal(clone(X).numpy(), model(X).numpy())


def built_by_a_call():
    model = tk.Sequential([L.Dense(3), L.Dense(2)])
    model(X)
    return model


def built_for_a_shape():
    model = tk.Sequential([L.Dense(3), L.Dense(2)])
    model.build((None, 4))
    return model


def built_by_an_old_argument():
    return tk.Sequential([L.Dense(3, input_shape=(4,)), L.Dense(2)])


@pytest.mark.parametrize("make", [built_by_a_call, built_for_a_shape, built_by_an_old_argument])
def test_a_clone_of_a_built_stack_is_built(make):
    model = make()
    clone = clone_model(model)
    assert clone.built
    assert clone.input_shape == model.input_shape == (None, 4)
    assert len(clone.layers) == 2
    clone.set_weights(model.get_weights())
    np.testing.assert_array_equal(clone(X).numpy(), model(X).numpy())
    again = clone_model(clone)
    assert [w.shape for w in again.weights] == [w.shape for w in model.weights]


def test_a_clone_of_a_built_stack_takes_the_same_dtype():
    model = tk.Sequential([L.Embedding(5, 2), L.Flatten()])
    model(np.ones((2, 3), "int64"))
    clone = clone_model(model)
    assert (clone.inputs[0].dtype, clone.input_shape) == (model.inputs[0].dtype, (None, 3))


def test_a_clone_of_a_stack_that_is_not_built_is_not_either():
    for model in (tk.Sequential([L.Dense(3)]), tk.Sequential()):
        assert not clone_model(model).built
        assert clone_model(model).weights == []


@pytest.mark.parametrize("make", [graph, stack])
def test_a_function_says_what_stands_in_place_of_a_layer(make):
    def wider(layer):
        config = layer.get_config()
        if layer.name == "a":
            config["units"] = 7
        return type(layer).from_config(config)

    clone = clone_model(make(), clone_function=wider)
    assert clone.get_layer("a").kernel.shape == (4, 7)
    assert clone(X).shape == (2, 2)
    kept = make()
    assert clone_model(kept, clone_function=lambda layer: layer).weights[0] is kept.weights[0]


@pytest.mark.parametrize("make", [graph, stack])
def test_a_clone_can_begin_at_other_inputs(make):
    x = tk.Input((4,), batch_size=5)
    clone = clone_model(make(), input_tensors=x)
    assert clone.input_shape == (5, 4)
    middle = L.Dense(4)(tk.Input((9,)))
    assert clone_model(make(), input_tensors=middle).output_shape == (None, 2)
    with pytest.raises(ValueError, match="symbolic"):
        clone_model(make(), input_tensors=X)


def test_a_call_function_can_put_layers_between():
    def call(layer, *args, **kwargs):
        y = layer(*args, **kwargs)
        return L.Dropout(0.5)(y) if isinstance(layer, L.Dense) else y

    kinds = [type(layer).__name__ for layer in clone_model(graph(), call_function=call).layers]
    assert kinds == ["InputLayer", "Dense", "Dropout", "Dense", "Dropout"]
    with pytest.raises(ValueError, match="call_function"):
        clone_model(stack(), call_function=call)


def test_models_inside_are_cloned_layer_by_layer_when_asked():
    inner = graph()
    x = tk.Input((4,))
    outer = tk.Model(x, [inner(x), stack()(x), inner(x)])
    seen = []

    def note(layer):
        seen.append(layer.name)
        return type(layer).from_config(layer.get_config())

    clone_model(outer, clone_function=note)
    assert sorted(seen) == ["graph", "stack"]
    seen.clear()
    clone = clone_model(outer, clone_function=note, recursive=True)
    assert sorted(seen) == ["a", "a", "b", "b"]
    assert len(clone.weights) == 8
    clone.set_weights(outer.get_weights())
    for one, other in zip(clone(X), outer(X), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_nested_inputs_keep_their_nest_and_others_are_refused():
    x, y = tk.Input((3,), name="x"), tk.Input((3,), name="y")
    model = tk.Model({"y": y, "x": x}, {"sum": x + y, "wide": L.Dense(5)(x)})
    clone = clone_model(model)
    assert list(clone.input) == ["y", "x"]
    assert set(clone.output) == {"sum", "wide"}
    with pytest.raises(ValueError, match="nested"):
        clone_model(model, input_tensors=(x, y))


def test_a_compiled_model_gives_a_compiled_clone():
    model = graph()
    model.compile(tk.optimizers.Adam(0.5), loss="mse", metrics=["mae"])
    clone = clone_model(model)
    assert clone.compiled
    assert clone.optimizer is not model.optimizer
    assert float(clone.optimizer.learning_rate) == 0.5
    assert np.isfinite(clone.train_on_batch(X, X[:, :2])[0])


def test_subclasses_are_cloned_by_their_config():
    class Net(tk.Model):
        def __init__(self, units=3, **kwargs):
            super().__init__(**kwargs)
            self.units = units
            self.dense = L.Dense(units)

        def call(self, x):
            return self.dense(x)

    clone = clone_model(Net(5))
    assert isinstance(clone, Net)
    assert clone.units == 5
    with pytest.raises(ValueError, match="functional and Sequential"):
        clone_model(Net(5), clone_function=lambda layer: layer)


def doubled(x):
    return 2 * x


def shifted(x):
    return tk.nn.relu(x) + 0.5


def test_functions_of_the_user_need_not_be_registered():
    inputs = tk.Input((3, 2))
    outputs = tk.layers.LSTM(2, activation=shifted)(tk.layers.Lambda(doubled)(inputs))
    model = tk.Model(inputs, tk.layers.Dense(1, activation=shifted)(outputs))
    x = np.ones((2, 3, 2), "float32")
    for original in (model, tk.Sequential([tk.Input((3, 2)), tk.layers.Lambda(doubled)])):
        clone = clone_model(original)
        clone.set_weights(original.get_weights())
        np.testing.assert_array_equal(clone(x), original(x))
    assert clone.layers[0].function is doubled


def test_a_lambda_keeps_the_variables_around_it():
    factor = 3.0
    model = tk.Sequential([tk.Input((2,)), tk.layers.Lambda(lambda x: factor * x)])
    clone = clone_model(model)
    np.testing.assert_array_equal(clone(np.ones((1, 2))), [[3.0, 3.0]])
