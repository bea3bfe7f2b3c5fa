"""Stacks of layers."""

import json

import numpy as np
import pytest

import trainkit as tk

L = tk.layers
X = np.ones((2, 4), "float32")


def test_weights_are_made_when_the_shape_is_known():
    late = tk.Sequential([L.Dense(3), L.Dense(2)])
    assert late.weights == []
    assert not late.built
    late(X)
    assert [tuple(w.shape) for w in late.weights] == [(4, 3), (3,), (3, 2), (2,)]
    built = tk.Sequential([L.Dense(3)])
    built.build((None, 4))
    assert len(built.weights) == 2
    assert built.output_shape == (None, 3)
    for early in (
        tk.Sequential([tk.Input((4,)), L.Dense(3)]),
        tk.Sequential([L.InputLayer((4,)), L.Dense(3)]),
        tk.Sequential([L.Dense(3, input_shape=(4,))]),
    ):
        assert len(early.weights) == 2
        assert early.input_shape == (None, 4)
        assert [type(layer).__name__ for layer in early.layers] == ["Dense"]


def test_add_and_pop():
    model = tk.Sequential()
    model.add(tk.Input((4,)))
    model.add(L.Dense(3, name="first"))
    model.add(L.Dense(2, name="second"))
    assert model.output_shape == (None, 2)
    assert model.pop().name == "second"
    assert model.output_shape == (None, 3)
    assert len(model.weights) == 2
    assert model(X).shape == (2, 3)
    model.add(L.Dense(5))
    assert model(X).shape == (2, 5)


def test_a_layer_that_does_not_fit_is_not_added():
    model = tk.Sequential([tk.Input((4,)), L.Dense(3)])
    with pytest.raises(tk.errors.InvalidArgumentError):
        model.add(L.Conv2D(2, 3))
    assert len(model.layers) == 1
    assert model(X).shape == (2, 3)


def test_a_call_that_fails_leaves_the_stack_unbuilt():
    model = tk.Sequential([L.Dense(3), L.Conv2D(2, 3)])
    with pytest.raises(tk.errors.InvalidArgumentError):
        model(X)
    assert model.weights == []
    assert not model.layers[0].built


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: tk.Sequential([3]), ValueError, "takes layers"),
        (lambda: tk.Sequential([L.Dense(1, name="a"), L.Dense(1, name="a")]), ValueError, "'a'"),
        (lambda: tk.Sequential([L.Dense(1), tk.Input((2,))]), ValueError, "before all layers"),
        (lambda: tk.Sequential().pop(), ValueError, "no layers"),
    ],
)
def test_what_is_no_stack(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_a_model_as_the_first_layer_says_the_shape():
    inputs = tk.Input((4,))
    for inner in (
        tk.Model(inputs, L.Dense(3)(inputs)),
        tk.Sequential([tk.Input((4,)), L.Dense(3)]),
    ):
        model = tk.Sequential([inner, L.Dense(1)])
        assert model.built
        assert model.input_shape == (None, 4)
        assert len(model.weights) == 4


def test_a_rank_that_the_stack_was_not_drawn_up_for_is_refused():
    model = tk.Sequential([tk.Input((4,)), L.Dense(3)])
    with pytest.raises(tk.errors.ShapeError, match=r"\(None, 4\).*\(2, 5, 4\)"):
        model(np.ones((2, 5, 4), "float32"))
    assert model(np.ones((2, 4, 1), "float32")).shape == (2, 3)
    late = tk.Sequential([L.Dense(3)])
    late(X)
    with pytest.raises(tk.errors.ShapeError):
        late(np.ones((2, 5, 4), "float32"))
    with pytest.raises(ValueError, match=r"\(None, 4\) already"):
        late.build((None, 5))
    late.build((7, 4))
    with pytest.raises(ValueError, match="no layers"):
        tk.Sequential()(X)


def test_data_is_cast_to_the_dtype_of_the_input():
    model = tk.Sequential([tk.Input((4,), dtype="int32"), L.Lambda(lambda x: x)])
    assert model(X).dtype == "int32"


def test_a_layer_that_can_not_tell_its_shapes_leaves_the_stack_unbuilt():
    class Late(L.Layer):
        def call(self, x):
            return x + 1.0

        def compute_output_spec(self, *args, **kwargs):
            raise NotImplementedError

    model = tk.Sequential([Late()])
    np.testing.assert_array_equal(model(X).numpy(), X + 1.0)


def test_the_work_of_making_a_stack_grows_with_its_layers(monkeypatch):
    calls = []
    spec = L.Layer.compute_output_spec

    def counted(layer, *args, **kwargs):
        calls.append(layer.name)
        return spec(layer, *args, **kwargs)

    monkeypatch.setattr(L.Layer, "compute_output_spec", counted)
    tk.Sequential([tk.Input((2,)), *(L.Dense(2) for _ in range(50))])
    assert len(calls) == 50
    model = tk.Sequential([tk.Input((2,))])
    for _ in range(50):
        model.add(L.Dense(2))
    assert len(calls) == 100
    model.pop()
    assert model.output_shape == (None, 2)
    assert len(calls) == 100


def test_integers_stay_integers_for_an_embedding():
    model = tk.Sequential([L.Embedding(5, 3), L.Flatten(), L.Dense(1)])
    assert model(np.array([[1, 2], [3, 4]])).shape == (2, 1)


def test_other_sizes_of_images_go_through_one_stack():
    model = tk.Sequential([tk.Input((None, None, 1)), L.Conv2D(2, 3), L.GlobalAveragePooling2D()])
    for size in (8, 11):
        assert model(np.ones((2, size, size, 1), "float32")).shape == (2, 2)


@pytest.mark.parametrize("late", [False, True])
def test_config_round_trip(late):
    layers = [L.Dense(3, activation="relu"), L.Dropout(0.1), L.Dense(2, name="head")]
    model = tk.Sequential(layers if late else [tk.Input((4,)), *layers], name="net")
    model(X)
    again = tk.Sequential.from_config(json.loads(json.dumps(model.get_config())))
    assert again.name == "net"
    assert [layer.name for layer in again.layers] == [layer.name for layer in model.layers]
    again.set_weights(model.get_weights())
    np.testing.assert_array_equal(again(X).numpy(), model(X).numpy())


def test_checkpoints_name_layers_by_position(tmp_path):
    model = tk.Sequential([tk.Input((4,)), L.Dense(3)])
    path = tk.train.Checkpoint(model=model).write(str(tmp_path / "c"))
    late = tk.Sequential([tk.Input((4,)), L.Dense(3)])
    tk.train.Checkpoint(model=late).read(path).assert_consumed()
    np.testing.assert_array_equal(late.get_weights()[0], model.get_weights()[0])


def test_a_stateful_layer_gets_the_batch_size_of_the_first_batch():
    x = np.ones((2, 5, 3), "float32")
    inner = tk.Sequential([tk.layers.LSTM(4, stateful=True)])
    model = tk.Sequential([tk.layers.Dense(3), inner])
    model.compile("sgd", "mse")
    model.fit(x, np.ones((2, 4)), batch_size=2, verbose=0)
    assert model.predict(x, batch_size=2, verbose=0).shape == (2, 4)
    assert inner.layers[0].states[0].shape == (2, 4)
    built = tk.Sequential([tk.layers.GRU(4, stateful=True)])
    built.build((7, None, 3))
    assert built.input_shape == (7, None, 3)
    with pytest.raises(tk.errors.InvalidArgumentError, match="known batch size"):
        tk.Sequential([tk.layers.GRU(4, stateful=True)]).build((None, 5, 3))
    free = tk.Sequential([tk.layers.GRU(4)])
    free(x)
    assert free.input_shape == (None, 5, 3)


@pytest.mark.parametrize("length", [7, (7,)])
def test_an_embedding_that_knows_its_length_builds_the_stack(length):
    embedding = tk.layers.Embedding(10, 4, input_length=length)
    model = tk.Sequential([embedding, tk.layers.Flatten(), tk.layers.Dense(2)])
    assert model.input_shape == (None, 7)
    assert model.output_shape == (None, 2)
    embedding.set_weights([np.ones((10, 4))])
    assert model.predict(np.zeros((3, 7), "int32"), verbose=0).shape == (3, 2)
    free = tk.Sequential([tk.layers.Embedding(10, 4)])
    assert not free.built
    given = tk.layers.Embedding(10, 4, input_length=7, batch_input_shape=(2, 7))
    assert tk.Sequential([given]).input_shape == (2, 7)


def test_the_name_may_come_second_as_in_older_programs():
    model = tk.Sequential([tk.Input((4,)), L.Dense(3)], "net")
    assert model.name == "net"
    assert len(model.trainable_variables) == 2
    unnamed = tk.Sequential([tk.Input((4,)), L.Dense(3)], None)
    assert unnamed.trainable
    assert not tk.Sequential([tk.Input((4,)), L.Dense(3)], False, "held").trainable
    with pytest.raises(ValueError, match="trainable must be a bool"):
        tk.Sequential([], "net", "other")
