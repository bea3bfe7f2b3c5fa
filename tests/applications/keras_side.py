"""Keras's part in `test_exchange_with_keras.py`, for an interpreter that has Keras.

Reads one JSON object a line from stdin, does what its `do` says, and answers with one line.

    {"do": "write", "name": "VGG16", "settings": {}, "folder": "/tmp/x"}   files and outputs
    {"do": "read", "name": "VGG16", "settings": {}, "folder": "/tmp/x"}    outputs for trainkit's
"""

import json
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import h5py
import keras
import numpy as np
from keras.src.legacy.saving import legacy_h5_format

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from network_filling import fill


def write(network, folder):
    """Leave files of weights in both layouts, the whole model, and what it makes of `image.npy`."""
    fill(network)
    network.save_weights(folder / "keras.weights.h5")
    with h5py.File(folder / "keras2.h5", "w") as file:
        legacy_h5_format.save_weights_to_hdf5_group(file, network)
    network.save(folder / "keras.keras")
    image = np.load(folder / "image.npy")
    np.save(folder / "keras.npy", np.asarray(network(image)))


def read(network, folder):
    """Leave what the network makes of `image.npy` with what trainkit has written."""
    network.load_weights(folder / "trainkit.weights.h5")
    image = np.load(folder / "image.npy")
    np.save(folder / "again.npy", np.asarray(network(image)))
    whole = keras.models.load_model(folder / "trainkit.keras")
    np.save(folder / "whole.npy", np.asarray(whole(image)))


for line in sys.stdin:
    task = json.loads(line)
    make = getattr(keras.applications, task["name"])
    {"write": write, "read": read}[task["do"]](
        make(weights=None, **task["settings"]), pathlib.Path(task["folder"])
    )
    keras.backend.clear_session()
    print("done", flush=True)
