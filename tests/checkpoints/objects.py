"""Small objects with state for the tests of checkpoints."""

import numpy as np

from trainkit.core.trackable import Trackable
from trainkit.core.variable import Variable


class Dense(Trackable):
    """Makes its weights at the first `build`, as layers do."""

    def __init__(self, units=2):
        self.units = units

    def build(self, features, fill=0.0):
        self.kernel = Variable(np.full((features, self.units), fill, np.float32), name="kernel")
        self.bias = Variable(np.full(self.units, fill, np.float32), name="bias")
        return self


class Net(Trackable):
    def __init__(self, *layers):
        self.layers = list(layers)


class Momentum(Trackable):
    """An optimizer as far as checkpoints are concerned; slots are made at the first step."""

    slot_names = ("momentum",)

    def __init__(self):
        self.iterations = Variable(np.int64(0), name="iterations", dtype="int64")
        self.learning_rate = Variable(0.1, name="learning_rate")
        self._slots = {}

    def step(self, weights, add=1.0):
        for weight in weights:
            for name in self.slot_names:
                if (name, id(weight)) not in self._slots:
                    slot = Variable(np.zeros(weight.shape, np.float32), name=name)
                    dict.__setitem__(self._slots, (name, id(weight)), (name, weight, slot))
                    self._slot_added(name, weight, slot)
                self._slots[name, id(weight)][2].assign_add(np.full(weight.shape, add, np.float32))
        self.iterations.assign(np.int64(int(self.iterations.numpy()) + 1))

    def parts(self):
        return {"iterations": self.iterations, "learning_rate": self.learning_rate}

    def slot_variables(self):
        return list(self._slots.values())

    def slot(self, name, weight):
        return self._slots[name, id(weight)][2].numpy()


class Adam(Momentum):
    slot_names = ("m", "v")


class Position(Trackable):
    """State outside of variables."""

    def __init__(self, position=0, order=()):
        self.position = position
        self.order = tuple(order)

    def state_arrays(self):
        return {"position": np.int64(self.position), "order": np.array(self.order, np.int64)}

    def load_state_arrays(self, arrays):
        if set(arrays) != {"position", "order"} or arrays["position"].shape != ():
            raise ValueError(f"Position can't take {sorted(arrays)}")
        self.position = int(arrays["position"])
        self.order = tuple(int(x) for x in arrays["order"])


def weights_of(net):
    return [w for layer in net.layers for w in (layer.kernel, layer.bias)]


def built_net(fill, sizes=((3, 2), (2, 4))):
    return Net(
        *(Dense(units).build(features, fill + i) for i, (features, units) in enumerate(sizes))
    )
