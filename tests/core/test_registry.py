"""Finding classes by name, and putting objects into configs."""

import pytest

import trainkit as tk
from trainkit.core.registry import (
    FAMILIES,
    REGISTERED,
    CustomObjectScope,
    Registry,
    deserialize_object,
    get_custom_objects,
    register_keras_serializable,
    registered_name,
    serialize_object,
    snake_case,
)


class Thing:
    def __init__(self, size=1):
        self.size = size

    def __call__(self):
        return self.size

    def get_config(self):
        return {"size": self.size}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


@pytest.fixture
def things():
    family = Registry("things", "thing")
    family.add(Thing, "it")
    yield family
    del FAMILIES["things"]


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("Dense", "dense"),
        ("Conv2DTranspose", "conv2d_transpose"),
        ("ReLU", "re_lu"),
        ("LSTM", "lstm"),
        ("GlobalAveragePooling2D", "global_average_pooling2d"),
        ("PReLU", "p_re_lu"),
        ("MyRNNCell", "my_rnn_cell"),
    ],
)
def test_snake_case(name, snake):
    assert snake_case(name) == snake


def test_a_family_finds_by_name_class_config_and_object(things):
    assert isinstance(things.get("Thing"), Thing)
    assert isinstance(things.get("it"), Thing)
    assert things.get(Thing).size == 1
    assert things.get({"class_name": "Thing", "config": {"size": 3}}).size == 3
    own = Thing(5)
    assert things.get(own) is own
    assert things.get(None) is None
    with pytest.raises(ValueError, match="'thnig' is no thing; did you mean 'thing'"):
        things.get("thnig")
    with pytest.raises(TypeError, match="a name, a config, or a callable"):
        things.get(3)
    with pytest.raises(ValueError, match="it needs 'class_name'"):
        things.get({"size": 3})


def test_objects_survive_a_config(things):
    nested = {"a": [Thing(2), (1, "x")], "b": None}
    described = serialize_object(nested)
    assert described["a"][0]["class_name"] == "Thing"
    assert described["a"][0]["module"] == "keras.things"
    back = deserialize_object(described)
    assert back["a"][0].size == 2
    assert back["a"][1] == (1, "x")


def test_registered_classes_are_found_by_package_and_name():
    @register_keras_serializable("mine", "Special")
    class Own(Thing):
        pass

    try:
        assert registered_name(Own) == "mine>Special"
        described = serialize_object(Own(4))
        assert described["registered_name"] == "mine>Special"
        assert type(deserialize_object(described)) is Own
    finally:
        del REGISTERED["mine>Special"]
    with pytest.raises(ValueError, match="'Own', which nobody registered"):
        deserialize_object(described)


def test_scopes_end_and_global_custom_objects_stay(things):
    class Late(Thing):
        pass

    with CustomObjectScope({"Late": Late}):
        assert isinstance(things.get("Late"), Late)
    with pytest.raises(ValueError, match="'Late' is no thing"):
        things.get("Late")
    get_custom_objects()["Late"] = Late
    try:
        assert isinstance(things.get("Late"), Late)
    finally:
        del get_custom_objects()["Late"]


def test_what_has_no_config_is_named():
    with pytest.raises(TypeError, match="can't be put into a config"):
        serialize_object(object())
    with pytest.raises(ValueError, match="no get_config"):
        register_keras_serializable()(type("Bare", (), {}))


BASES = {
    "constraints": tk.constraints.Constraint,
    "initializers": tk.initializers.Initializer,
    "layers": tk.layers.Layer,
    "losses": tk.losses.Loss,
    "metrics": tk.metrics.Metric,
    "optimizers": tk.optimizers.Optimizer,
    "regularizers": tk.regularizers.Regularizer,
    "schedules": tk.optimizers.schedules.LearningRateSchedule,
}


@pytest.mark.parametrize(("plural", "base"), BASES.items())
def test_classes_of_users_take_no_names(plural, base):
    family = FAMILIES[plural]
    before = dict(family.named)
    name = next(name for name, member in before.items() if isinstance(member, type))
    same = type(name, (base,), {"__module__": __name__})
    new = type("AClassOfAUser", (base,), {"__module__": "trainkit_of_a_user.parts"})
    assert same is not new
    assert family.named == before
    assert family.find(name) is before[name]
    with pytest.raises(ValueError, match="'AClassOfAUser' is no "):
        family.find("AClassOfAUser")
    with CustomObjectScope({"AClassOfAUser": new}):
        assert family.find("AClassOfAUser") is new


@pytest.mark.parametrize(("plural", "base"), BASES.items())
def test_public_classes_of_the_package_are_found(plural, base):
    family = FAMILIES[plural]
    before = dict(family.named)
    settings = {"__module__": "trainkit.some.file"}
    try:
        new = type("ANewClass", (base,), settings)
        type("_ANewBase", (base,), settings)
        assert family.find("ANewClass") is family.find("a_new_class") is new
        assert set(family.named) - set(before) <= {"ANewClass", "a_new_class", "anewclass"}
    finally:
        family.named = before
