"""Models go to Keras and back while they are trained: outputs, then three more steps."""

import json
import subprocess

import pytest

from tests.keras_files import training_exchange
from tests.keras_files.interpreter import PYTHON, needs_keras
from trainkit import keras

pytestmark = pytest.mark.slow


@needs_keras
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("writer", ["trainkit", "keras"])
def test_training_goes_on_in_the_other_library(tmp_path, writer):
    other = "read" if writer == "trainkit" else "write"
    command = [PYTHON, training_exchange.__file__, other, str(tmp_path)]
    if writer == "trainkit":
        training_exchange.write(keras, tmp_path)
    process = subprocess.run(command, capture_output=True, check=True, text=True)
    if writer == "trainkit":
        assert json.loads(process.stdout.strip().splitlines()[-1]) == {}
    else:
        assert training_exchange.differences(keras, tmp_path) == {}


def test_training_goes_on_in_the_same_library(tmp_path):
    training_exchange.write(keras, tmp_path)
    assert training_exchange.differences(keras, tmp_path) == {}
