"""The graph that TensorBoard shows: each operation in the scope of its layer."""

import json

import numpy as np
import pytest

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


def test_the_layers_of_a_subclass_feed_one_another():
    model = Model()
    names(model)
    links = model.layer_links(model.graph_for((tk.TensorSpec([None, 4]), tk.TensorSpec([None]))))
    assert links.inbound == {"x": [], "block": ["x"], "head": ["block"]}
    config = json.loads(links.to_json())["config"]
    assert [layer["class_name"] for layer in config["layers"]] == ["InputLayer", "Block", "Dense"]
    assert (config["input_layers"], config["output_layers"]) == ([["x", 0, 0]], [["head", 0, 0]])


def test_tensorboard_reads_the_layers_of_a_subclass(tmp_path):
    keras_util = pytest.importorskip("tensorboard.plugins.graph.keras_util")
    model = Model()
    names(model)
    links = model.layer_links(model.graph_for((tk.TensorSpec([None, 4]), tk.TensorSpec([None]))))
    read = keras_util.keras_model_to_graph_def(json.loads(links.to_json()))
    arrows = {node.name: list(node.input) for node in read.node}
    scope = f"{model.name}/"
    assert arrows[f"{scope}head"] == [f"{scope}block"]
    assert arrows[f"{scope}block"] == [f"{scope}x"]
