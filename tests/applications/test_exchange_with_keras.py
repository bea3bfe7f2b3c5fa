"""Files of weights go from Keras to trainkit and back, one network of each family.

Skipped where there is no Keras. `KERAS_PYTHON` names the interpreter that has it, if it is not the
one that runs the tests: `KERAS_PYTHON=~/keras/bin/python pytest tests/applications -m slow`.
"""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

import trainkit as tk
from tests.applications.network_filling import fill
from tests.keras_files.interpreter import PYTHON, needs_keras

A = tk.keras.applications
SIDE = pathlib.Path(__file__).with_name("keras_side.py")

# one of each family: its settings, and height and width of the image
FAMILIES = {
    "ConvNeXtTiny": ({}, 64),
    "DenseNet121": ({}, 64),
    "EfficientNetB0": ({}, 64),
    "EfficientNetV2B0": ({}, 65),
    "InceptionResNetV2": ({}, 80),
    "InceptionV3": ({}, 80),
    "MobileNet": ({"alpha": 0.25}, 64),
    "MobileNetV2": ({"alpha": 0.35}, 65),
    "MobileNetV3Small": ({"alpha": 0.75}, 64),
    "NASNetMobile": ({}, 64),
    "ResNet50": ({}, 64),
    "ResNet50V2": ({}, 64),
    "VGG16": ({}, 32),
    "Xception": ({}, 71),
}
TAKE_PIXELS = ("ConvNeXt", "EfficientNet", "MobileNetV3")


class KerasSide:
    """Keras in a process of its own."""

    def __init__(self, process):
        self._process = process

    def ask(self, do, name, settings, folder):
        task = {"do": do, "name": name, "settings": settings, "folder": str(folder)}
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline().strip() == "done"


@pytest.fixture(scope="module")
def keras_side():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    with subprocess.Popen([PYTHON, SIDE], text=True, env=environment, **pipes) as process:
        yield KerasSide(process)
        process.stdin.close()


def image_for(name, size):
    image = np.sin(np.arange(size * size * 3)).reshape(1, size, size, 3).astype("float32")
    return 127.5 + 127.5 * image if name.startswith(TAKE_PIXELS) else image


def check_close(found, wanted):
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert np.abs(wanted).max() > 1e-4
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3 * np.abs(wanted).max())


@needs_keras
@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_weights_go_both_ways(keras_side, name, tmp_path):
    settings, size = FAMILIES[name]
    settings = {"include_top": False, "input_shape": (size, size, 3), **settings}
    image = image_for(name, size)
    np.save(tmp_path / "image.npy", image)
    keras_side.ask("write", name, settings, tmp_path)
    wanted = np.load(tmp_path / "keras.npy")
    make = getattr(A, name)
    for file in ("keras.weights.h5", "keras2.h5"):
        net = make(weights=str(tmp_path / file), **settings)
        check_close(net(image), wanted)
    check_close(tk.keras.models.load_model(tmp_path / "keras.keras")(image), wanted)
    fill(net, 1.0)
    net.save_weights(tmp_path / "trainkit.weights.h5")
    net.save(tmp_path / "trainkit.keras")
    keras_side.ask("read", name, settings, tmp_path)
    own = np.asarray(net(image))
    assert np.abs(own - wanted).max() > 1e-4
    for file in ("again.npy", "whole.npy"):
        check_close(np.load(tmp_path / file), own)
