"""Masks as tensors carry them, however a layer is called."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras, ops
from trainkit.keras import layers

STEPS = np.array([[True, True, False, False], [True, True, True, True]])


def sequences():
    x = np.ones((2, 4, 3), "float32")
    x[~STEPS] = 0
    return x


class Spy(layers.Layer):
    """Notes the masks that its `call` gets."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.seen = []

    def call(self, x, mask=None):
        self.seen.append(mask)
        return x * 1.0 if mask is None else x * ops.cast(mask, x.dtype)[..., None]


def test_a_mask_is_an_attribute_as_in_keras():
    y = layers.Masking()(sequences())
    np.testing.assert_array_equal(y._keras_mask, STEPS)
    x = tk.constant([[1.0]])
    assert not hasattr(x, "_keras_mask")
    x._keras_mask = tk.constant([True])
    assert bool(x._keras_mask[0])
    del x._keras_mask
    assert getattr(x, "_keras_mask", None) is None


def way_eager(layer):
    return lambda x: layer(layers.Masking()(x))


def way_sequential(layer):
    return keras.Sequential([layers.Masking(), layer])


def way_functional(layer):
    inputs = layers.Input((4, 3))
    return keras.Model(inputs, layer(layers.Masking()(inputs)))


def way_subclass(layer):
    class Both(keras.Model):
        def __init__(self):
            super().__init__()
            self.masking, self.layer = layers.Masking(), layer

        def call(self, x):
            return self.layer(self.masking(x))

    return Both()


def way_function(layer):
    masking = layers.Masking()
    layer(masking(sequences()))  # built
    return tk.function(lambda x: layer(masking(x)))


WAYS = [way_eager, way_sequential, way_functional, way_subclass, way_function]


@pytest.mark.parametrize("way", WAYS)
def test_call_gets_the_mask_however_the_layer_is_called(way):
    spy = Spy()
    y = way(spy)(tk.constant(sequences()))
    assert spy.seen
    assert all(mask is not None for mask in spy.seen[-1:])
    np.testing.assert_array_equal(np.asarray(y)[..., 0], STEPS)


def test_fit_and_predict_hand_masks_to_call():
    spy = Spy()
    model = keras.Sequential([layers.Masking(), spy, layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(sequences(), np.zeros((2, 4, 1), "float32"), verbose=0)
    model.predict(sequences(), verbose=0)
    assert spy.seen
    assert all(mask is not None for mask in spy.seen)


@pytest.mark.parametrize("way", [way_eager, way_sequential, way_functional, way_subclass])
def test_results_carry_the_mask_on(way):
    y = way(layers.Dense(2))(tk.constant(sequences()))
    np.testing.assert_array_equal(y._keras_mask, STEPS)


def test_a_mask_that_the_caller_names_goes_on_with_the_result():
    x = sequences() + 1
    named = layers.LSTM(2, return_sequences=True)(x, mask=STEPS)
    np.testing.assert_array_equal(named._keras_mask, STEPS)
    inputs, mask = layers.Input((4, 3)), layers.Input((4,), dtype="bool")
    drawn = keras.Model([inputs, mask], layers.GRU(2, return_sequences=True)(inputs, mask=mask))
    np.testing.assert_array_equal(drawn([x, STEPS])._keras_mask, STEPS)


def test_a_mask_that_the_caller_names_counts_in_place_of_that_of_the_input():
    x = layers.Masking()(sequences())
    everywhere = tk.ones((2, 4), dtype="bool")
    spy = Spy()
    y = spy(x, mask=everywhere)
    assert spy.seen == [everywhere]
    np.testing.assert_array_equal(y._keras_mask, everywhere)


def test_a_layer_with_its_own_compute_mask_supports_masks_without_saying_so():
    class Shorter(layers.Layer):
        def call(self, x):
            return x[:, 1:]

        def compute_mask(self, inputs, previous_mask):
            return None if previous_mask is None else previous_mask[:, 1:]

    layer = Shorter()
    assert layer.supports_masking
    np.testing.assert_array_equal(layer(layers.Masking()(sequences()))._keras_mask, STEPS[:, 1:])


def test_nested_inputs_bring_nested_masks():
    class Pair(layers.Layer):
        def __init__(self):
            super().__init__()
            self.supports_masking = True
            self.seen = None

        def call(self, inputs, mask=None):
            self.seen = mask
            return {"b": inputs["b"] * 1.0, "a": inputs["a"][0] * 1.0}

        def compute_mask(self, inputs, previous_mask=None):
            return {"b": previous_mask["b"], "a": previous_mask["a"][0]}

    pair = Pair()
    x = layers.Masking()(sequences())
    plain = tk.ones((2, 4, 3))
    y = pair({"b": plain, "a": (x, plain)})
    assert pair.seen["b"] is None
    assert pair.seen["a"][1] is None
    np.testing.assert_array_equal(pair.seen["a"][0], STEPS)
    np.testing.assert_array_equal(y["a"]._keras_mask, STEPS)
    assert not hasattr(y["b"], "_keras_mask")


def test_symbolic_tensors_of_models_carry_masks():
    inputs = layers.Input((4, 3))
    y = layers.Dense(2)(layers.Masking()(inputs))
    model = keras.Model(inputs, [y, y._keras_mask])
    np.testing.assert_array_equal(model(sequences())[1], STEPS)
    spy = Spy()
    spy(y)
    assert spy.seen[0] is not None


def test_masks_go_through_layers_of_mixed_precision():
    y = layers.Dense(2, dtype="mixed_float16")(layers.Masking()(sequences()))
    np.testing.assert_array_equal(y._keras_mask, STEPS)


def test_two_arguments_take_the_masks_of_their_names():
    class Query(layers.Layer):
        def __init__(self):
            super().__init__()
            self.seen = None

        def call(self, query, value, query_mask=None, value_mask=None, mask=None):
            self.seen = (query_mask, value_mask, mask)
            return query

    layer = Query()
    x = layers.Masking()(sequences())
    layer(query=tk.ones((2, 4, 3)), value=x)
    assert layer.seen[0] is None
    assert layer.seen[2] is None
    np.testing.assert_array_equal(layer.seen[1], STEPS)


def test_a_named_state_leaves_the_mask_of_the_sequence_out_as_in_keras():
    lstm = layers.LSTM(2)
    x = layers.Masking()(sequences())
    state = [tk.ones((2, 2)), tk.ones((2, 2))]
    plain = lstm(tk.constant(sequences()), initial_state=state)
    np.testing.assert_allclose(lstm(x, initial_state=state), plain)
    masked = lstm(x, initial_state=state, mask=x._keras_mask)
    assert abs(float(masked[0, 0] - plain[0, 0])) > 1e-4


def test_a_layer_that_loses_a_mask_says_so():
    x = layers.Masking()(sequences())
    inputs = layers.Input((4, 3))
    symbol = layers.Masking()(inputs)
    for each in (x, symbol):
        with pytest.warns(UserWarning, match="'lossy'.*does not support"):
            y = layers.Flatten(name="lossy")(each)
        assert not hasattr(y, "_keras_mask")
    layers.Flatten()(sequences())
    assert not hasattr(x * 2.0, "_keras_mask")
