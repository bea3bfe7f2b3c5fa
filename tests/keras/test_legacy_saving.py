"""Configs without modules, as Keras 2 wrote them."""

import pytest

import trainkit as tk

K = tk.keras
SAVING = K.legacy.saving


def double(x):
    return 2 * x


def test_the_functions_have_two_doors():
    assert K.utils.legacy.serialize_keras_object is SAVING.serialize_keras_object


class Step:
    def __init__(self, name, size, function, inner=None):
        self.settings = {"name": name, "size": size, "function": function, "inner": inner}

    def get_config(self):
        return dict(self.settings)

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def test_an_object_is_its_class_name_and_config():
    step = Step("double", 3, double, Step("inner", 4, None))
    config = SAVING.serialize_keras_object(step)
    inner = {"name": "inner", "size": 4, "function": None, "inner": None}
    assert config == {
        "class_name": "Step",
        "config": {
            "name": "double",
            "size": 3,
            "function": "double",
            "inner": {"class_name": "Step", "config": inner, "__passive_serialization__": True},
        },
    }
    again = SAVING.deserialize_keras_object(config, {"Step": Step}, {"double": double})
    assert again.settings["name"] == "double"
    assert again.settings["function"] is double
    assert again.settings["inner"].settings == inner


def test_a_layer_comes_back():
    layer = tk.layers.Dense(3, activation="relu", kernel_regularizer=K.regularizers.L2(0.5))
    config = SAVING.serialize_keras_object(layer)
    assert config["class_name"] == "Dense"
    again = SAVING.deserialize_keras_object(config, {"Dense": tk.layers.Dense})
    assert again.get_config() == layer.get_config()


@pytest.mark.parametrize("target", [None, double])
def test_functions_and_none_stay(target):
    assert SAVING.deserialize_keras_object(target) is target
    assert SAVING.serialize_keras_object(target) == (target and "double")


def test_names_become_what_they_name():
    assert SAVING.deserialize_keras_object("double", {"double": double}) is double
    found = SAVING.deserialize_keras_object("ReLU", {"ReLU": tk.layers.ReLU})
    assert isinstance(found, tk.layers.ReLU)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("nothing", "'nothing' is no known thing"),
        ({"class_name": "Dense"}, "no config of a thing"),
        (5, "no config of a thing"),
    ],
)
def test_what_is_no_config_is_told(given, words):
    with pytest.raises(ValueError, match=words):
        SAVING.deserialize_keras_object(given, {}, printable_module_name="thing")
    with pytest.raises(ValueError, match="neither get_config nor a name"):
        SAVING.serialize_keras_object(5)


def test_backends_have_no_choice():
    K.config.set_backend("trainkit")
    with pytest.raises(ValueError, match=r"'trainkit' is the only backend, got 'jax'"):
        K.config.set_backend("jax")
    assert K.config.is_nnx_enabled() is False
