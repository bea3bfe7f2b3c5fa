"""Names of older programs: layers that TensorFlow had under `experimental` at first."""

import importlib

import pytest

import trainkit as tk


def test_preprocessing_layers_are_those_of_layers():
    preprocessing = importlib.import_module("trainkit.keras.layers.experimental.preprocessing")
    assert tk.keras.layers.experimental.preprocessing is preprocessing
    names = [name for name in dir(preprocessing) if name[0].isupper()]
    assert len(names) == 16
    for name in names:
        assert getattr(preprocessing, name) is getattr(tk.layers, name)
    assert tk.keras.layers.experimental.EinsumDense is tk.layers.EinsumDense


def test_add_metric_says_what_to_do_instead():
    class Counting(tk.layers.Layer):
        def call(self, x):
            self.add_metric(1.0, name="seen")
            return x

    with pytest.raises(NotImplementedError, match=r"add_metric is gone; make a metric in __init__"):
        Counting()(tk.ones((1, 1)))
