"""The tree of objects, whatever their attributes are called."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.checkpoints import Checkpoint
from trainkit.core.trackable import Trackable, traverse
from trainkit.core.variable import Variable

NAMES = ["parts", "state_arrays", "load_state_arrays"]


class Holder(Trackable):
    def __init__(self, name, fill):
        setattr(self, name, [Variable(np.full(3, fill, np.float32))])
        self.other = Variable(np.float32(fill))


@pytest.mark.parametrize("name", NAMES)
def test_an_attribute_may_be_called_like_a_method(name):
    holder = Holder(name, 0)
    paths = ["/".join(path) for path, part in traverse(holder) if isinstance(part, Variable)]
    assert paths == [f"{name}/0", "other"]


@pytest.mark.parametrize("name", NAMES)
def test_checkpoints_hold_an_attribute_that_is_called_like_a_method(name, tmp_path):
    path = Checkpoint(Holder(name, 5)).save(tmp_path / "ckpt")
    fresh = Holder(name, 0)
    Checkpoint(fresh).restore(path).assert_consumed()
    assert getattr(fresh, name)[0].numpy().tolist() == [5, 5, 5]
    named = Checkpoint(**{name: fresh})
    again = Checkpoint(**{name: Holder(name, 0)})
    again.restore(named.save(tmp_path / "named")).assert_consumed()
    assert float(getattr(again, name).other.numpy()) == 5


class Branches(tk.keras.layers.Layer):
    """A user's layer with attributes of such names."""

    def __init__(self):
        super().__init__()
        self.parts = [tk.keras.layers.Dense(2), tk.keras.layers.Dense(2)]
        self.state_arrays = {"one": Variable(np.float32(1))}
        self.load_state_arrays = 3

    def call(self, x):
        return self.parts[0](x) + self.parts[1](x) * self.state_arrays["one"]


@pytest.mark.parametrize("ending", ["ckpt", ".weights.h5", ".safetensors"])
def test_a_layer_with_such_attributes_is_tracked_saved_and_loaded(tmp_path, ending):
    x = np.ones((1, 3), np.float32)
    models = [tk.keras.Sequential([Branches()]) for _ in range(2)]
    first, second = (model(x).numpy() for model in models)
    assert len(models[0].weights) == 5
    assert not np.array_equal(first, second)
    path = tmp_path / f"model{ending}"
    models[0].save_weights(path)
    models[1].load_weights(path)
    assert np.array_equal(models[1](x).numpy(), first)


@pytest.mark.parametrize(
    ("base", "name"),
    [("Model", "layers"), ("Model", "metrics"), ("Layer", "output"), ("Layer", "weights")],
)
def test_an_attribute_that_is_a_property_already_is_told(base, name):
    class Mine(getattr(tk.keras, base, None) or getattr(tk.keras.layers, base)):
        def __init__(self):
            super().__init__()
            setattr(self, name, [])

    with pytest.raises(AttributeError, match=rf"Mine\.{name} can't be set: .*`own_{name}`"):
        Mine()


def test_what_a_setter_raises_stays():
    class Mine(Trackable):
        @property
        def rate(self):
            return 1

        @rate.setter
        def rate(self, value):
            raise AttributeError("not today")

    with pytest.raises(AttributeError, match=r"^not today$"):
        Mine().rate = 2
