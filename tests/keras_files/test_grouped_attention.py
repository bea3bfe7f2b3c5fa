"""Grouped attention has the name, and its weights have the paths, of Keras's files."""

import json

import h5py
import numpy as np

from trainkit import keras


def model():
    x = keras.Input((5, 4))
    return keras.Model(x, keras.layers.GroupedQueryAttention(4, 4, 2, use_gate=True)(x, x))


def test_the_names_are_those_of_keras_and_older_ones_are_read(tmp_path):
    written, path = model(), tmp_path / "m.weights.h5"
    layer = json.loads(written.to_json())["config"]["layers"][1]
    assert (layer["module"], layer["class_name"]) == ("keras.layers", "GroupQueryAttention")
    again = keras.models.model_from_json(written.to_json())
    assert type(again.layers[1]) is keras.layers.GroupedQueryAttention
    written.save_weights(path)
    with h5py.File(path) as file:
        groups = set(file["layers/grouped_query_attention"])
    parts = ("gate", "key", "output", "query", "value")
    assert {f"_{part}_dense" for part in parts} <= groups
    again.load_weights(path)
    for a, b in zip(again.get_weights(), written.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_subclass_goes_by_its_own_name():
    class Mine(keras.layers.GroupedQueryAttention):
        pass

    assert keras.saving.serialize_keras_object(Mine(4, 4, 2))["class_name"] == "Mine"
