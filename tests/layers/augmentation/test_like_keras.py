"""Numbers of fixed transformations and of spectrograms are those of Keras."""

import json

import numpy as np
import pytest

from tests.layers.augmentation.keras_cases import NUMBERS, results
from trainkit import layers
from trainkit.core.tensor import convert_to_tensor

KERAS = json.loads(NUMBERS.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def ours():
    return {name: np.asarray(result) for name, result in results(layers, convert_to_tensor)}


def test_there_is_a_result_for_each(ours):
    assert ours.keys() == KERAS.keys()
    assert len(KERAS) > 60


@pytest.mark.parametrize("name", KERAS)
def test_numbers_are_those_of_keras(name, ours):
    got, want = np.asarray(ours[name], "float64"), KERAS[name]
    assert list(got.shape) == want["shape"]
    places = np.linspace(0, got.size - 1, len(want["some"])).astype(int)
    scale = max(1.0, np.abs(got).max())
    np.testing.assert_allclose(got.ravel()[places], want["some"], atol=1e-5 * scale)
    np.testing.assert_allclose(got.mean(), want["mean"], atol=1e-5 * scale)
