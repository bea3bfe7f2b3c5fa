"""Damaged files of weights end in an error of trainkit's or in arrays, of all formats."""

import random

import pytest

from benchmarks import damaged_weights
from trainkit.weights import pickle_reading

NAMES = ["checkpoint.pt", "one.safetensors", "model.safetensors.index.json", "arrays.npz",
         "keras.weights.h5", "flax.msgpack"]  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    paths = damaged_weights.samples(tmp_path_factory.mktemp("files"))
    return {path.name: path for path in paths}


def test_there_is_a_sample_of_each_format(files):
    assert list(files) == NAMES
    assert {damaged_weights.outcome(path) for path in files.values()} == {"loaded"}


@pytest.mark.parametrize("name", NAMES)
def test_damage_ends_in_an_error_of_trainkit_or_in_arrays(files, name):
    results, faults = damaged_weights.count_outcomes(files[name], 200, random.Random(7))
    assert faults == 0
    assert results.total() == 200
    assert results["CheckpointError"] > 100


def test_errors_of_python_would_be_counted(files, monkeypatch, capsys):
    monkeypatch.setattr(pickle_reading.PickleReader, "read", lambda self: 1 / 0)
    _, faults = damaged_weights.count_outcomes(files["checkpoint.pt"], 20, random.Random(7))
    assert faults > 0
