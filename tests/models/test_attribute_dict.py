"""`Config` is a dict of attributes that can be frozen."""

import json

import pytest

from trainkit.keras.utils import Config


def test_settings_are_attributes_and_items():
    config = Config(rate=0.1)
    config.steps = 5
    config["name"] = "run"
    config.update(depth=2)
    assert (config.rate, config["steps"], config.name, config.get("none", 7)) == (0.1, 5, "run", 7)
    assert list(config) == ["depth", "name", "rate", "steps"]
    assert "rate" in config
    assert len(config) == 4
    assert json.loads(config.to_json()) == config.as_dict() == dict(config.items())
    assert config.pop("depth") == 2
    del config["name"]
    assert list(config.keys()) == ["rate", "steps"]
    assert list(config.values()) == [0.1, 5]
    assert repr(config) == "<Config {'rate': 0.1, 'steps': 5}>"


def test_a_frozen_config_stays():
    config = Config(rate=0.1)
    config.freeze()
    assert config.frozen
    for change in (
        lambda: setattr(config, "rate", 1),
        lambda: config.__setitem__("rate", 1),
        lambda: config.update(rate=1),
        lambda: config.pop("rate"),
        lambda: config.__delitem__("rate"),
    ):
        with pytest.raises(ValueError, match="frozen"):
            change()
    assert config.rate == 0.1
    config.unfreeze()
    config.rate = 1
    assert config.rate == 1


def test_a_name_that_is_not_there_comes_with_a_near_one():
    with pytest.raises(AttributeError, match="did you mean 'momentum'"):
        Config(momentum=1).momentun  # noqa: B018
    with pytest.raises(AttributeError, match="no setting 'x'"):
        Config().x  # noqa: B018
