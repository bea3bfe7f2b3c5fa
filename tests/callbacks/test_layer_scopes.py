"""The graph that TensorBoard shows: each operation in the scope of its layer."""

import numpy as np

import trainkit as tk


class Block(tk.layers.Layer):
    def __init__(self):
        super().__init__(name="block")
        self.inner = tk.layers.Dense(4, name="inner")

    def call(self, x):
        return self.inner(self.inner(x)) + x


class Model(tk.Model):
    def __init__(self):
        super().__init__()
        self.block, self.head = Block(), tk.layers.Dense(1, name="head")

    def call(self, x):
        return self.head(self.block(x)) * 2


def names(model):
    model(np.ones((2, 4), "float32"))
    spec = (tk.TensorSpec([None, 4]), tk.TensorSpec([None]))
    return [node.name for node in model.graph_for(spec).as_graph_def().node]


def test_operations_stand_in_the_scopes_of_their_layers():
    model = Model()
    found = names(model)
    assert len(found) == len(set(found))
    assert {"block/inner/kernel", "block/inner/bias", "head/kernel", "head/bias"} <= set(found)
    inner = [name for name in found if name.startswith("block/inner/")]
    assert len(inner) == 4  # the weights once, two calls
    assert {"block/AddV2", "Mul"} <= set(found)
    assert "call" not in vars(model.block)
    assert names(model) == found


def test_the_names_of_a_functional_model_and_of_models_inside():
    inner = tk.Sequential([tk.Input((4,)), tk.layers.Dense(4, name="deep")], name="stack")
    inputs = tk.Input((4,))
    model = tk.Model(inputs, tk.layers.Dense(1, name="top")(inner(inputs)))
    assert {"stack/deep/kernel", "top/kernel"} <= set(names(model))
