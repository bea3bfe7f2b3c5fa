"""Values without a class of their own in configs, shared objects, and code in configs."""

import json

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.config_values import SafeModeScope, enable_unsafe_deserialization, in_safe_mode
from trainkit.core.registry import ObjectSharingScope, deserialize_object, serialize_object

L = tk.layers


def through_json(x, **kwargs):
    return deserialize_object(json.loads(json.dumps(serialize_object(x))), **kwargs)


@pytest.mark.parametrize(
    "value",
    [
        "text",
        b"bytes",
        b"\xff\xfe",
        3,
        2.5,
        None,
        [1, [2, "x"]],
        {"b": 1, "a": [True]},
        slice(None, 20, 2),
        Ellipsis,
        (1, 2),
    ],
)
def test_plain_values_survive(value):
    back = through_json(value)
    assert back == (list(value) if isinstance(value, tuple) else value)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "bfloat16"])
def test_arrays_and_tensors_keep_their_dtype(dtype):
    values = tk.cast(tk.constant([[0.0, 1.0]]), dtype)
    array, tensor = through_json([values.numpy(), values])
    assert isinstance(array, np.ndarray)
    assert array.dtype.name == tensor.dtype.name == dtype
    np.testing.assert_array_equal(array, tensor.numpy())


def test_arrays_in_slices_and_numbers_of_numpy():
    assert through_json(np.float32(1.5)) == 1.5
    back = through_json(slice(None, np.array([0, 1]), 1))
    np.testing.assert_array_equal(back.stop, [0, 1])


def test_a_lambda_is_only_read_when_that_is_allowed():
    factor = 3
    with pytest.warns(UserWarning, match="lambda"):
        config = json.loads(json.dumps(serialize_object({"f": lambda x, y=2: x * y + factor})))
    with pytest.raises(ValueError, match="arbitrary code execution"):
        deserialize_object(config)
    assert deserialize_object(config, safe_mode=False)["f"](5) == 13
    with SafeModeScope(False):
        assert deserialize_object(config)["f"](1) == 5
        with SafeModeScope(True), pytest.raises(ValueError, match="safe_mode"):
            deserialize_object(config, safe_mode=False)
    assert in_safe_mode() is None


def test_unsafe_reading_can_be_switched_on():
    with SafeModeScope(None):
        enable_unsafe_deserialization()
        layer = L.Lambda(lambda x: x * 2.0)
        assert float(through_json(layer)(tk.ones((1,)))[0]) == 2.0
    assert in_safe_mode() is None


def test_damaged_lambdas_are_errors():
    for code in ("4wEAAAAA", "no base64!", 3):
        with pytest.raises(ValueError, match="lambda"):
            deserialize_object(
                {"class_name": "__lambda__", "config": {"code": code}}, safe_mode=False
            )


@pytest.mark.parametrize(
    "config",
    [
        {"class_name": "Dense", "config": [1, 2]},
        {"class_name": "function", "config": ["relu"]},
        {"class_name": "__typespec__", "config": "x"},
        {"class_name": "__tensor__", "config": {"value": "x", "dtype": "float32"}},
        {"class_name": "__slice__", "config": {}},
        {"class_name": "Dense", "module": "keras.layers", "config": {"untis": 3}},
        {"class_name": "Dense", "registered_name": "mine>Dense", "config": {"units": 3}},
        {"class_name": "Nobody", "config": {}},
        {"class_name": "Dense", "module": "someone.else", "config": {"units": 1}},
    ],
)
def test_what_can_not_be_read_is_a_config_error(config):
    with pytest.raises(tk.errors.ConfigError):
        deserialize_object(config)


def test_functions_are_found_in_their_families():
    config = {"module": "builtins", "class_name": "function", "config": "relu"}
    assert deserialize_object(config) is tk.activations.get("relu")


def test_shared_objects_stay_one():
    dense = L.Dense(2)
    both = {"a": L.TimeDistributed(dense), "b": [dense, L.Dense(2)]}
    apart = through_json(both)
    assert apart["a"].layer is not apart["b"][0]
    with ObjectSharingScope():
        back = through_json(both)
    assert back["a"].layer is back["b"][0]
    assert back["b"][1] is not back["b"][0]


class Own(L.Layer):
    def __init__(self, inner, factor=2.0, **kwargs):
        super().__init__(**kwargs)
        self.inner, self.factor = inner, factor

    def call(self, x):
        return self.inner(x) * self.factor

    def get_config(self):
        return dict(inner=self.inner, factor=self.factor, **super().get_config())


class Read(Own):
    @classmethod
    def from_config(cls, config):
        config["inner"] = deserialize_object(config["inner"])
        return cls(**config)


def test_a_class_with_its_own_get_config_reads_its_parts_itself():
    layer = Read(L.Dense(3), factor=0.5)
    layer(tk.ones((2, 4)))
    back = through_json(layer, custom_objects={"Read": Read})
    assert isinstance(back.inner, L.Dense)
    assert back.factor == 0.5
    assert back.inner.built  # by the shapes of the first call
    raw = through_json(Own(L.Dense(3)), custom_objects={"Own": Own})
    assert isinstance(raw.inner, dict)


def test_base_arguments_that_a_class_does_not_take_are_left_out():
    class Short(L.Layer):
        def __init__(self, units):
            super().__init__()
            self.units = units

    back = through_json(Short(3), custom_objects={"Short": Short})
    assert back.units == 3


@pytest.mark.parametrize(
    ("layer", "wanted"),
    [
        (lambda: L.Cropping1D(2), {"cropping": [2, 2]}),
        (lambda: L.ZeroPadding1D(1), {"padding": [1, 1], "data_format": "channels_last"}),
        (lambda: L.SpatialDropout1D(0.5), {"rate": 0.5, "seed": None}),
        (lambda: L.SpatialDropout2D(0.5), {"rate": 0.5, "seed": None, "data_format": None}),
        (lambda: L.Discretization(bin_boundaries=[0.0]), {"bin_boundaries": [0.0]}),
    ],
)
def test_configs_hold_what_keras_takes(layer, wanted):
    made = layer()
    config = made.get_config()
    assert "trainable" not in config or "padding" in config or "cropping" in config
    for name, value in wanted.items():
        wanted_value = made.data_format if value is None and "data" in name else value
        assert json.loads(json.dumps(config[name])) == wanted_value
    back = through_json(made)
    assert back.get_config() == config


def test_schedules_and_functions_are_named_as_in_keras():
    schedule = tk.optimizers.schedules.CosineDecay(0.1, 10)
    assert serialize_object(schedule)["module"] == "keras.optimizers.schedules"
    assert through_json(tk.optimizers.Adam(schedule)).get_config()["learning_rate"]
    function = tk.losses.mean_squared_error
    config = {"module": "builtins", "class_name": "function", "config": "mean_squared_error"}
    assert deserialize_object(config) is function
    assert serialize_object(function) == {**config, "registered_name": "function"}
    assert tk.losses.serialize(function) == "mean_squared_error"


class Applied(L.Layer):
    """A layer with a function, written and read as Keras's guides do it."""

    def __init__(self, function, **kwargs):
        super().__init__(**kwargs)
        self.function = function

    def call(self, inputs):
        return self.function(inputs)

    def get_config(self):
        return {**super().get_config(), "function": serialize_object(self.function)}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "function": deserialize_object(config["function"])})


@pytest.mark.parametrize("name", ["relu", "gelu", "softmax"])
def test_layers_of_users_get_functions_of_the_library_back(name):
    function = getattr(tk.activations, name)
    back = through_json(Applied(function), custom_objects={"Applied": Applied})
    assert back.function is function
    assert L.Dense(2, activation=function).get_config()["activation"] == name
    assert L.Activation(function).get_config()["activation"] == name


def _around(value):
    return lambda x, extra=value: (value, extra)


@pytest.mark.parametrize(
    "value", [2.5, [1, 2], {"a": [1]}, np.ones(2, "float16"), tk.constant([1, 2]), slice(1, 3)]
)
@pytest.mark.filterwarnings("ignore:a lambda goes into the config")
def test_lambdas_keep_what_they_have_from_around_them(value):
    for result in through_json(_around(value), safe_mode=False)(0):
        assert type(result) is type(value)
        assert str(result) == str(value)


@pytest.mark.filterwarnings("ignore:a lambda goes into the config")
def test_lambdas_may_call_functions_and_lambdas_around_them():
    def scaled(inner):
        return lambda x: inner(x) + 1

    for function in (scaled(tk.nn.relu), scaled(lambda x: x * 0.0)):
        back = through_json(L.Lambda(function), safe_mode=False)
        assert float(back(tk.constant([-2.0]))[0]) == 1.0


@pytest.mark.filterwarnings("ignore:a lambda goes into the config")
def test_a_lambda_around_which_there_is_a_module_is_refused_when_it_is_saved():
    def scaled(library):
        return lambda x: library.ones(1) * x

    with pytest.raises(ValueError, match="'library' around it is the module 'numpy'; import it at"):
        L.Lambda(scaled(np)).get_config()
