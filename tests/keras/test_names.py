"""`keras.config`, `backend`, `utils`, `saving` and the rest of Keras's small namespaces."""

import importlib
import random

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras

X = tk.constant(np.random.default_rng(0).normal(size=(1, 3, 4, 4)), tk.float32)


def test_defaults():
    assert keras.config.backend() == keras.backend.backend() == "trainkit"
    assert keras.config.floatx() == "float32"
    assert keras.config.epsilon() == 1e-7
    keras.config.set_epsilon(1e-7)
    with pytest.raises(ValueError, match=r"it is fixed at 1e-07, got 0\.1"):
        keras.config.set_epsilon(0.1)


def test_the_place_of_channels_can_be_set():
    wanted = tk.ops.max_pool(X, 2, data_format="channels_first")
    assert keras.config.image_data_format() == "channels_last"
    keras.config.set_image_data_format("channels_first")
    try:
        assert tk.ops.max_pool(X, 2).numpy().tolist() == wanted.numpy().tolist()
        layer = keras.layers.Conv2D(5, 3)
        assert layer(X).shape == (1, 5, 2, 2)
        assert layer.get_config()["data_format"] == "channels_first"
        assert tk.nn.max_pool2d(X, 2, 2, "VALID").shape == (1, 1, 2, 4)  # TensorFlow's own default
    finally:
        keras.config.set_image_data_format("channels_last")
    with pytest.raises(ValueError, match="'NHWC' is none of"):
        keras.config.set_image_data_format("NHWC")


def test_dtype_names():
    assert keras.backend.standardize_dtype(None) == "float32"
    assert keras.backend.standardize_dtype(np.int64) == "int64"
    with pytest.raises(ValueError, match="is not an element type"):
        keras.backend.standardize_dtype("float33")
    assert keras.backend.result_type("int32", "float16") == "float16"
    assert keras.backend.is_float_dtype("bfloat16")
    assert not keras.backend.is_float_dtype("int8")
    assert keras.backend.is_int_dtype("uint8")
    assert keras.backend.is_tensor(X)
    assert keras.backend.is_keras_tensor(keras.Input((2,)))
    assert not keras.backend.is_keras_tensor(X)


def test_clear_session_starts_names_again():
    keras.backend.clear_session()
    first = keras.layers.Dense(1).name
    keras.utils.clear_session()
    assert keras.layers.Dense(1).name == first


def test_policies():
    policy = keras.dtype_policies.get("mixed_float16")
    config = keras.dtype_policies.serialize(policy)
    assert keras.dtype_policies.deserialize(config) == policy
    with pytest.raises(ValueError, match="is no dtype policy"):
        keras.dtype_policies.deserialize({"class_name": "Own", "config": {}})
    keras.mixed_precision.set_global_policy("float64")
    try:
        assert keras.mixed_precision.global_policy().name == "float64"
        assert keras.layers.Dense(1)(np.ones((2, 3))).dtype == tk.float64
    finally:
        keras.mixed_precision.set_global_policy(None)


def test_registered_objects():
    @keras.saving.register_keras_serializable("mine")
    def halve(x):
        return x / 2

    assert keras.saving.get_registered_name(halve) == "mine>halve"
    assert keras.saving.get_registered_name(len) == "len"
    assert keras.saving.get_registered_object("mine>halve") is halve
    assert keras.utils.get_registered_object("other", {"other": 3}) == 3
    assert keras.utils.get_registered_object("other", module_objects={"other": 4}) == 4
    assert keras.utils.get_registered_object("other") is None
    with keras.utils.custom_object_scope({"quarter": len}):
        assert (
            keras.saving.deserialize_keras_object({"class_name": "function", "config": "quarter"})
            is len
        )


def test_seeds_of_everything():
    def draws():
        keras.utils.set_random_seed(7)
        return random.random(), np.random.rand(), float(keras.random.uniform(()))

    assert draws() == draws()
    with pytest.raises(ValueError, match="the seed must be in"):
        keras.utils.set_random_seed(-1)


@pytest.mark.parametrize(
    ("parts", "packed"),
    [((1,), 1), (([1, 2],), ([1, 2],)), ((1, 2), (1, 2)), ((1, 2, 3), (1, 2, 3))],
)
def test_batches_are_packed_and_unpacked(parts, packed):
    assert keras.utils.pack_x_y_sample_weight(*parts) == packed
    unpacked = keras.utils.unpack_x_y_sample_weight(packed)
    assert unpacked == (*parts, *(None,) * (3 - len(parts)))


def test_trees():
    assert keras.tree.flatten({"b": 1, "a": [2]}) == [2, 1]
    assert keras.tree.map_structure(abs, [-1, (-2,)]) == [1, (2,)]
    assert keras.tree.pack_sequence_as([0, [0]], [1, 2]) == [1, [2]]
    assert keras.tree.is_nested([])
    with pytest.raises(ValueError, match="not nested in the same way"):
        keras.tree.assert_same_structure([1], 1)


@pytest.mark.parametrize("module", ["trainkit", "trainkit.keras", "trainkit.keras.backend"])
def test_a_star_import_brings_what_is_loaded_late(module):
    names = {}
    exec(f"from {module} import *", names)
    public = {n for n in dir(importlib.import_module(module)) if not n.startswith("_")}
    assert public <= set(names)
    assert not {n for n in names if n.startswith("_")} - {"__builtins__"}


def test_layers_that_prepare_data_have_their_older_place():
    from trainkit.keras.layers.experimental import preprocessing
    from trainkit.keras.layers.experimental.preprocessing import RandomFlip, TextVectorization

    assert RandomFlip is keras.layers.RandomFlip
    assert TextVectorization is keras.layers.TextVectorization
    assert keras.layers.experimental.preprocessing is preprocessing
    assert preprocessing.Rescaling is tk.layers.Rescaling
