"""Weights for networks that are to be compared; the same in trainkit and in Keras."""

import numpy as np


def fill(model, phase=0.0):
    """Give each weight sines of its own, of a size with which features neither vanish nor grow."""
    values = []
    for i, weight in enumerate(model.weights):
        shape, name = tuple(weight.shape), weight.path
        sines = np.sin(phase + i + 1.7 * np.arange(np.prod(shape, dtype=int))).reshape(shape)
        if name.endswith("count"):
            value = np.zeros(shape)
        elif "kernel" in name.rpartition("/")[2]:
            inputs = np.prod(shape[: -2 if "depthwise" in name.rpartition("/")[2] else -1])
            value = sines * 2 / np.sqrt(max(1, inputs))
        elif name.endswith("gamma"):
            value = 1 + 0.1 * sines
        else:
            value = 1 + 0.5 * np.abs(sines) if "variance" in name else 0.1 * sines
        values.append(value.astype("float32"))
    model.set_weights(values)
